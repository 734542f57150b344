//! Headers and library that C++ programs need: ONNX Runtime and nlohmann-json, with pinned hashes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::setup::{Environment, run};
use crate::{Failure, root};

/// The npm package with ONNX Runtime's own C and C++ headers. The Python wheel has none, and no smaller
/// package of a registry has them. Its headers are of version 29 of the interface, which every later
/// library serves.
const HEADERS: &str = "com.github.asus4.onnxruntime@0.4.9";

/// Hash of that package.
const HEADERS_HASH: &str =
    "sha512-BkzxduSZ9IkeDP6Q8lz2TFU2ie7hSSvS7ZIfzMooExoq0CNzJnuuGaUJ7IsojBgqO4ouD1jXah8OYyJbCN29Fg==";

/// The Python package with nlohmann-json's headers, as a line of pip's requirements.
const JSON: &str =
    "nlohmann-json==3.12.0 --hash=sha256:5f6132720fb25d0d70bf0742f8397b49a540dcc193e7312a914f6aa49f054810\n";

/// Unpacks the headers of a package.
const UNPACK: &str = include_str!("headers.py");

/// Sets up `.deps/cpp` with `include` and `lib`, unless it already has the pinned headers. `None` if npm
/// is missing.
pub(crate) fn set_up(environment: &Environment) -> Result<Option<PathBuf>, Failure> {
    let root = root()?;
    let folder = root.join(".deps/cpp");
    let stamp = folder.join("packages.txt");
    let wanted = format!("{HEADERS}\n{JSON}");
    if fs::read_to_string(&stamp).ok().as_ref() != Some(&wanted) {
        if !Command::new("npm")
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
        {
            return Ok(None);
        }
        eprintln!("xtask: unpacking headers of {HEADERS} into {}", folder.display());
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(folder.join("lib"))?;
        headers(environment, &folder)?;
        json(environment, &folder)?;
        fs::write(&stamp, &wanted)?;
    }
    libraries(environment, &folder.join("lib"))?;
    Ok(Some(folder))
}

/// Downloads the package of the headers, and unpacks these alone: they are 1 % of it.
fn headers(environment: &Environment, folder: &Path) -> Result<(), Failure> {
    let download = folder.join("download");
    fs::create_dir_all(&download)?;
    run(Command::new("npm")
        .args(["pack", "--silent", HEADERS])
        .current_dir(&download)
        .stdout(Stdio::null()))?;
    let package = fs::read_dir(&download)?.next().ok_or("npm packed nothing")??.path();
    let mut unpack = Command::new(&environment.python);
    unpack.args(["-c", UNPACK]).arg(package).arg(HEADERS_HASH).arg(folder.join("include"));
    run(unpack.stdout(Stdio::null()))?;
    Ok(fs::remove_dir_all(&download)?)
}

/// Installs nlohmann-json beside the headers.
fn json(environment: &Environment, folder: &Path) -> Result<(), Failure> {
    let (requirements, packages) = (folder.join("requirements.txt"), folder.join("packages"));
    fs::write(&requirements, JSON)?;
    let mut pip = Command::new(&environment.python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--target"]).arg(&packages);
    run(pip.arg("--requirement").arg(&requirements))?;
    fs::rename(packages.join("nlohmann_json/include/nlohmann"), folder.join("include/nlohmann"))?;
    Ok(fs::remove_dir_all(&packages)?)
}

/// Links the library of the wheel under the names that linkers and loaders look for.
fn libraries(environment: &Environment, folder: &Path) -> Result<(), Failure> {
    for name in ["libonnxruntime.so", "libonnxruntime.so.1"] {
        let link = folder.join(name);
        if fs::read_link(&link).is_ok_and(|target| target == environment.library) {
            continue;
        }
        let _ = fs::remove_file(&link);
        #[cfg(unix)]
        std::os::unix::fs::symlink(&environment.library, &link)?;
    }
    Ok(())
}
