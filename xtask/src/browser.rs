//! The browser that draws the report page in its test.

use std::path::PathBuf;
use std::process::Command;

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Finds Chromium: the path in `MEMC_CHROMIUM`, else a program on the search path, else one installed
/// with apt-get. `None` if all fail.
pub(crate) fn find() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("MEMC_CHROMIUM") {
        return Some(given.into());
    }
    on_path().or_else(|| {
        eprintln!("xtask: installing chromium for the test of the report page");
        let apt = |arguments: &[&str]| {
            Command::new("apt-get").args(arguments).stdout(std::process::Stdio::null()).status()
        };
        let updated = apt(&["-qq", "update"]).is_ok_and(|status| status.success());
        let installed =
            updated && apt(&["-qq", "-y", "install", "chromium"]).is_ok_and(|status| status.success());
        if installed { on_path() } else { None }
    })
}

fn on_path() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .flat_map(|folder| NAMES.map(|name| folder.join(name)))
        .find(|path| path.is_file())
}
