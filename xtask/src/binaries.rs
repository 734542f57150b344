//! Test binaries: builds them, and runs one a processor at a time.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

use serde_json::Value;

use crate::times::Times;
use crate::{Failure, pool};

/// A test binary of a package.
pub(crate) struct Binary {
    package: String,
    path: PathBuf,
    /// Folder of the package; its tests run here.
    folder: PathBuf,
    bytes: u64,
}

/// Builds the tests of a cargo command. Returns their binaries, the largest first: the others run beside
/// it.
///
/// # Errors
/// The command fails, or prints lines that are no messages.
pub(crate) fn build(cargo: &mut Command) -> Result<Vec<Binary>, Failure> {
    cargo.args(["--no-run", "--message-format=json-render-diagnostics"]).stdout(Stdio::piped());
    let Output { status, stdout, .. } = cargo.spawn()?.wait_with_output()?;
    if !status.success() {
        return Err("tests cannot be built".into());
    }
    let mut all = Vec::new();
    for line in String::from_utf8(stdout)?.lines() {
        all.extend(binary(&serde_json::from_str(line)?)?);
    }
    all.sort_by_key(|binary| std::cmp::Reverse(binary.bytes));
    Ok(all)
}

/// Returns the test binary in a message of cargo.
fn binary(message: &Value) -> Result<Option<Binary>, Failure> {
    let (Some(path), Some(true)) = (message["executable"].as_str(), message["profile"]["test"].as_bool())
    else {
        return Ok(None);
    };
    let manifest = Path::new(message["manifest_path"].as_str().ok_or("a binary without a manifest")?);
    let folder = manifest.parent().ok_or("a manifest without a folder")?.to_owned();
    // The end of an identity such as `path+file:///memc/ir#memc-ir@0.1.0`, or `path+file:///memc#0.1.0`.
    let identity = message["package_id"].as_str().unwrap_or_default();
    let name =
        identity.rsplit_once('#').and_then(|(_, name)| name.split_once('@')).map(|(name, _)| name.to_owned());
    let package = name.or_else(|| Some(folder.file_name()?.to_str()?.to_owned())).unwrap_or_default();
    let bytes = std::fs::metadata(path)?.len();
    Ok(Some(Binary { package, path: path.into(), folder, bytes }))
}

/// Runs test binaries with these arguments and variables, and prints the output of each one at its end.
/// Returns the times of all tests, and whether all passed.
///
/// # Errors
/// A binary cannot be run.
pub(crate) fn run(
    all: &[Binary],
    arguments: &[String],
    variables: &[(&str, PathBuf)],
) -> Result<(Times, bool), Failure> {
    let ended = Mutex::new((Times::default(), true));
    pool::each(all, |binary| {
        let output = start(binary, arguments, variables).output();
        let output = output.map_err(|error| format!("{}: {error}", binary.path.display()))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let mut ended = ended.lock().map_err(|error| error.to_string())?;
        println!("\n{} ({})\n{printed}", binary.package, binary.path.display());
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        ended.0.add(&binary.package, &printed);
        ended.1 &= output.status.success();
        Ok(())
    })?;
    ended.into_inner().map_err(|error| error.to_string().into())
}

fn start(binary: &Binary, arguments: &[String], variables: &[(&str, PathBuf)]) -> Command {
    let mut command = Command::new(&binary.path);
    command.current_dir(&binary.folder).args(arguments);
    // The harness of stable Rust prints times for those who ask like this.
    command.args(["-Zunstable-options", "--report-time"]).env("RUSTC_BOOTSTRAP", "1");
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_binaries_are_read_from_messages() {
        let own = std::env::current_exe().unwrap_or_default();
        let message = |test: bool, identity: &str| {
            serde_json::json!({
                "reason": "compiler-artifact", "executable": own, "profile": { "test": test },
                "manifest_path": "/memc/Cargo.toml", "package_id": identity,
            })
        };
        let package = |message: &Value| binary(message).ok().flatten().map(|binary| binary.package);
        assert_eq!(package(&message(true, "path+file:///memc/ir#memc-ir@0.1.0")).as_deref(), Some("memc-ir"));
        assert_eq!(package(&message(true, "path+file:///memc#0.1.0")).as_deref(), Some("memc"));
        assert_eq!(package(&message(false, "path+file:///memc#0.1.0")), None);
        assert_eq!(package(&serde_json::json!({ "reason": "build-finished" })), None);
    }
}
