//! Builds the Python wheel and runs its tests in a fresh environment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;
use crate::setup::{self, run};

/// Packages that build wheels, with their versions. Zig links against an old glibc, for wheels to
/// publish.
const MATURIN: &str = "maturin==1.16.0";
const ZIG: &str = "ziglang==0.17.1";

/// Build tools that the examples of `examples/pipelines` run with.
const PIPELINES: [&str; 2] = ["cmake==4.4.5", "pre-commit==4.7.0"];

/// Compiler of models to C, whose tests also need a C compiler.
const EMX: [&str; 1] = ["emx-onnx-cgen==1.4.0"];

/// Oldest system for which wheels are published: Linux with glibc 2.17, the oldest that Rust's standard
/// library supports.
const PLATFORM: &str = "manylinux2014";

/// Builds a wheel of unoptimized code, which shares its crates with the tests, and runs its tests.
///
/// # Errors
/// A tool cannot be installed, the wheel cannot be built, or a test fails.
pub(crate) fn test() -> Result<(), Failure> {
    let root = root()?;
    let wheel = build(root, &["--profile", "dev", "--compatibility", "linux"], &[MATURIN])?;
    let packages = setup::python()?.python;
    let pipelines = tools(root, "pipelines", &PIPELINES)?;
    let home = root.join("target/wheel");
    let python = environment(&packages, &home.join("environment"), &wheel)?;
    let tests = root.join("python/tests");
    let suite = |pattern: &str| {
        let mut command = Command::new(&python);
        command.current_dir(&home).args(["-m", "unittest", "discover", "-s"]).arg(&tests).args(["-p", pattern]);
        command.env_remove("MEMC_PYTHON").env_remove("ORT_DYLIB_PATH").env("PYTHONDONTWRITEBYTECODE", "1");
        run(command.env("MEMC_ROOT", root).env("MEMC_PIPELINES", pipelines.join("bin")))
    };
    // First without any other package, then with those of the tests' environment.
    suite("test_module.py")?;
    suite("test_pipelines.py")?;
    let emx = tools(root, "emx", &EMX)?.join("bin/python");
    // Packages that both have come from the environment of the tests.
    share(&[&packages, &emx], &python)?;
    suite("test_runtime.py")?;
    suite("test_emx.py")?;
    suite("test_pages.py")
}

/// Builds the wheel to publish. Returns its path.
///
/// # Errors
/// A tool cannot be installed, or the wheel cannot be built.
pub(crate) fn release() -> Result<PathBuf, Failure> {
    build(root()?, &["--profile", "wheel", "--zig", "--compatibility", PLATFORM], &[MATURIN, ZIG])
}

fn root() -> Result<&'static Path, Failure> {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or_else(|| "xtask has no parent folder".into())
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

/// Installs packages into an environment of `.deps`, unless it already has them. Returns its folder.
fn tools(root: &Path, name: &str, packages: &[&str]) -> Result<PathBuf, Failure> {
    let folder = root.join(".deps").join(name);
    let stamp = folder.join("packages.txt");
    let installed = fs::read_to_string(&stamp).unwrap_or_default();
    if packages.iter().all(|package| installed.lines().any(|line| line == *package)) {
        return Ok(folder);
    }
    eprintln!("xtask: installing {} into {}", packages.join(" and "), folder.display());
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    run(Command::new(folder.join("bin/python")).args(["-m", "pip", "install", "--quiet"]).args(packages))?;
    fs::write(&stamp, packages.join("\n"))?;
    Ok(folder)
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
    let folder = |python: &Path| -> Result<String, Failure> {
        let output = Command::new(python).args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).output()?;
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    let folders: Vec<String> = packages.iter().map(|packages| folder(packages)).collect::<Result<_, _>>()?;
    fs::write(Path::new(&folder(python)?).join("packages.pth"), folders.join("\n"))?;
    Ok(())
}
