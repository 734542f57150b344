//! The Python environment of the tests: ONNX's reference package and ONNX Runtime's library, with
//! pinned versions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, root};

/// Paths in the environment.
pub(crate) struct Environment {
    /// The Python interpreter.
    pub(crate) python: PathBuf,
    /// Shared library of ONNX Runtime.
    pub(crate) library: PathBuf,
}

/// Creates the environment in `.deps/python`, unless it already has the pinned versions.
pub(crate) fn python() -> Result<Environment, Failure> {
    let root = root()?;
    let folder = root.join(".deps/python");
    let python = folder.join("bin/python");
    let requirements = root.join("tests/requirements.txt");
    let stamp = folder.join("requirements.txt");
    let wanted = fs::read(&requirements)?;
    if fs::read(&stamp).ok().as_ref() != Some(&wanted) {
        eprintln!("xtask: installing {} into {}", requirements.display(), folder.display());
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        run(install(&python).arg("--requirement").arg(&requirements))?;
        fs::write(&stamp, &wanted)?;
    }
    let library = library(&python)?;
    Ok(Environment { python, library })
}

/// The command that installs packages for an interpreter. Most of their files are never imported, so none is
/// compiled before.
pub(crate) fn install(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--quiet", "--no-compile"]);
    command
}

/// Variables with which all processes of Python compile each module once, beside the sources of none.
pub(crate) fn compiled_once(root: &Path) -> [(&'static str, PathBuf); 2] {
    [("PYTHONPYCACHEPREFIX", root.join("target/tmp/python")), ("PYTHONDONTWRITEBYTECODE", PathBuf::new())]
}

/// Installs packages, after options of pip, into an environment of `.deps`, unless it already has them.
/// Returns its folder.
///
/// # Errors
/// A package cannot be installed.
pub(crate) fn tools(root: &Path, name: &str, packages: &[&str]) -> Result<PathBuf, Failure> {
    let folder = root.join(".deps").join(name);
    let stamp = folder.join("packages.txt");
    let installed = fs::read_to_string(&stamp).unwrap_or_default();
    if packages.iter().all(|package| installed.lines().any(|line| line == *package)) {
        return Ok(folder);
    }
    eprintln!("xtask: installing {} into {}", packages.join(" "), folder.display());
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    run(install(&folder.join("bin/python")).args(packages))?;
    fs::write(&stamp, packages.join("\n"))?;
    Ok(folder)
}

/// Finds ONNX Runtime's library in the installed wheel.
fn library(python: &Path) -> Result<PathBuf, Failure> {
    let script =
        "import importlib.util as u; print(u.find_spec('onnxruntime').submodule_search_locations[0])";
    let output = Command::new(python).args(["-c", script]).output()?;
    let package = PathBuf::from(String::from_utf8(output.stdout)?.trim());
    let mut found: Vec<PathBuf> = fs::read_dir(package.join("capi"))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            name.starts_with("libonnxruntime.") && !name.contains("providers")
        })
        .collect();
    found.sort();
    found.pop().ok_or_else(|| "the onnxruntime wheel holds no libonnxruntime".into())
}

/// Runs a command.
///
/// # Errors
/// It does not start, or it fails.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed").into()) }
}
