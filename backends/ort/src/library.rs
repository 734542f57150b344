//! Finds the ONNX Runtime library: an option, an environment variable, beside the program, or a Python
//! wheel.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;

/// Python program that prints the folder of the wheel without importing the package.
const WHERE: &str = "import importlib.util as u\ns=u.find_spec('onnxruntime')\nprint(list(s.submodule_search_locations)[0] if s else '')";

/// Advice for users if no library is found.
pub const HOW_TO_GET: &str = "install one for `python3` with `pip install onnxruntime`, or name a library with `--ort-lib` or ORT_DYLIB_PATH";

/// Returns the library to load: `given`, then `ORT_DYLIB_PATH`, then the library of the Python wheel of
/// `MEMC_PYTHON`, beside the program, or of `python3`.
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
                return Err(Error::NoLibrary {
                    tried: vec![format!("{source} names {}, which is not a file", path.display())],
                });
            }
            None => tried.push(format!("{source} is not set")),
        }
    }
    let named = std::env::var_os("MEMC_PYTHON").filter(|value| !value.is_empty());
    if named.is_none() {
        let program = std::env::current_exe().unwrap_or_default();
        match beside(&program) {
            Some(path) => return Ok(path),
            None => tried.push(format!("{} has none beside it", program.display())),
        }
    }
    let python = named.unwrap_or_else(|| "python3".into());
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

/// Returns the library in the folder of a program, or in the packages of the environment in whose `bin`
/// the program lies; of several versions of Python, the last by name.
fn beside(program: &Path) -> Option<PathBuf> {
    let folder = program.parent()?;
    if let Some(library) = newest(folder) {
        return Some(library);
    }
    let environment = folder.parent()?;
    let pythons = std::fs::read_dir(environment.join("lib")).into_iter().flatten();
    let pythons = pythons.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let pythons = pythons
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python")));
    // On Windows, packages lie in `Lib` without a version.
    let packages =
        pythons.chain([environment.join("Lib")]).map(|python| python.join("site-packages/onnxruntime"));
    packages.filter_map(|package| in_wheel(&package)).max()
}

/// Returns the library inside the wheel's folder, whose name ends in a version; `None` if there is
/// none.
fn in_wheel(folder: &Path) -> Option<PathBuf> {
    newest(&folder.join("capi"))
}

/// Returns the last library in a folder by name.
fn newest(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    let is_library = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with("libonnxruntime.so")
            || name.starts_with("libonnxruntime.") && name.ends_with("dylib")
            || name == "onnxruntime.dll"
    };
    entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).filter(is_library).max()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs;

    #[test]
    fn libraries_beside_a_program_are_found() {
        let root = std::env::temp_dir().join(format!("memc-beside-{}", std::process::id()));
        let program = root.join("bin/memc");
        let capi = |python: &str| root.join("lib").join(python).join("site-packages/onnxruntime/capi");
        assert_eq!(beside(&program), None);
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::create_dir_all(root.join("lib/python3.9/site-packages")).unwrap();
        assert_eq!(beside(&program), None);
        for python in ["python3.10", "python3.11", "other"] {
            fs::create_dir_all(capi(python)).unwrap();
            fs::write(capi(python).join("libonnxruntime.so.1.32.0"), "").unwrap();
        }
        assert_eq!(beside(&program), Some(capi("python3.11").join("libonnxruntime.so.1.32.0")));
        fs::write(root.join("bin/libonnxruntime.so"), "").unwrap();
        assert_eq!(beside(&program), Some(root.join("bin/libonnxruntime.so")));
        fs::remove_dir_all(root).unwrap();
    }
}
