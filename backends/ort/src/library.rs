//! Finds the ONNX Runtime library: an option, an environment variable, or the Python wheel.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;

/// Python program that prints the folder of the wheel without importing the package.
const WHERE: &str =
    "import importlib.util as u\ns=u.find_spec('onnxruntime')\nprint(list(s.submodule_search_locations)[0] if s else '')";

/// Advice for users if no library is found.
pub const HOW_TO_GET: &str =
    "install one for `python3` with `pip install onnxruntime`, or name a library with `--ort-lib` or ORT_DYLIB_PATH";

/// Returns the library to load: `given`, then `ORT_DYLIB_PATH`, then the library of the Python wheel
/// (`MEMC_PYTHON`, or `python3`).
///
/// # Errors
/// None of them leads to a file; the error lists the searched places.
pub fn find(given: Option<&Path>) -> Result<PathBuf, Error> {
    let mut tried = Vec::new();
    let variable = std::env::var_os("ORT_DYLIB_PATH").filter(|value| !value.is_empty()).map(PathBuf::from);
    let named = [("--ort-lib", given.map(Path::to_owned)), ("ORT_DYLIB_PATH", variable)];
    for (source, path) in named {
        match path {
            Some(path) if path.is_file() => return Ok(path),
            // A library that the user named is never replaced by another one.
            Some(path) => {
                return Err(Error::NoLibrary { tried: vec![format!("{source} names {}, which is not a file", path.display())] });
            }
            None => tried.push(format!("{source} is not set")),
        }
    }
    let python = std::env::var_os("MEMC_PYTHON").unwrap_or_else(|| "python3".into());
    let shown = python.to_string_lossy().into_owned();
    match Command::new(&python).args(["-c", WHERE]).output() {
        Err(error) => tried.push(format!("{shown} does not start ({error})")),
        Ok(output) => {
            let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            match in_wheel(Path::new(&folder)) {
                Some(path) if !folder.is_empty() => return Ok(path),
                _ => tried.push(format!("{shown} has no package onnxruntime with a library")),
            }
        }
    }
    Err(Error::NoLibrary { tried })
}

/// Returns the library inside the wheel's folder, whose name ends in a version; `None` if there is none.
fn in_wheel(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder.join("capi")).ok()?;
    let is_library = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with("libonnxruntime.so")
            || name.starts_with("libonnxruntime.") && name.ends_with("dylib")
            || name == "onnxruntime.dll"
    };
    entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).filter(is_library).max()
}
