//! Runs the real binary in folders of its own, and says what it printed and left behind.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Folders made in this process so far.
static MADE: AtomicU32 = AtomicU32::new(0);

/// Folder of compiled modules of Python, as `cargo xtask test` sets it: none lies beside the scripts.
pub const COMPILED: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/python");

/// Runs a program of Python with the packages of the tests; returns its output.
pub fn python(program: &str, arguments: &[&str]) -> String {
    let python = std::env::var("MEMC_PYTHON").expect(
        "MEMC_PYTHON names no Python with onnx and onnxruntime: run the tests with `cargo xtask test`",
    );
    let ran = Command::new(python).args(["-c", program]).args(arguments).output().expect("python starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// A folder that is removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    /// An empty folder, with `name` in its own.
    pub fn new(name: &str) -> Self {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), contents).unwrap();
        self.path(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Names of all files, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    }

    /// Runs `memc` here; arguments are separated by blanks.
    pub fn memc(&self, arguments: &str) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memc"));
        command
            .current_dir(&self.0)
            .args(arguments.split_whitespace())
            .env_remove("COLUMNS")
            .env_remove("RUST_BACKTRACE");
        let output = command.output().unwrap();
        let ran = Ran {
            line: format!("memc {arguments}"),
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        };
        // A comparison must not pass by being left out.
        let lacks_runtime = ran.err.contains("error[E0701]") && !arguments.contains("--ort-lib");
        assert!(!lacks_runtime, "there is no ONNX Runtime: run the tests with `cargo xtask test`: {ran:#?}");
        ran
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a run of the command did.
#[derive(Debug)]
pub struct Ran {
    pub line: String,
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// Holds that it ended well.
    pub fn done(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self
    }

    /// Holds that a check found nothing wrong, whether it proved equality or not.
    pub fn checked(self) -> Self {
        assert!(matches!(self.code, Some(0 | 4)), "{self:#?}");
        self
    }

    /// Holds that a check found a violation with this code.
    pub fn refused_by_rules(self, code: &str) -> Self {
        assert_eq!(self.code, Some(1), "{self:#?}");
        assert!(self.err.contains(code), "{self:#?}");
        self
    }

    /// Asserts a refusal with this exit code, in one error of this code with a line of help, and without a
    /// panic.
    pub fn refused(self, exit: i32, code: &str) -> Self {
        assert!(!self.err.contains("panicked"), "{self:#?}");
        assert_eq!(self.code, Some(exit), "{self:#?}");
        assert_eq!(self.err.matches("error[").count(), 1, "{self:#?}");
        assert!(self.err.contains(&format!("error[{code}]: ")), "{self:#?}");
        assert!(self.err.contains("\n  = help: "), "{self:#?}");
        assert!(self.out.is_empty(), "{self:#?}");
        self
    }
}

/// A model that ships with the tests.
pub fn model(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models").join(format!("{name}.onnx"))
}
