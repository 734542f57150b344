//! Output files, written whole or not at all.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Files under way: each lies beside its place under another name until all are complete.
#[derive(Debug, Default)]
pub struct Outputs {
    pending: Vec<(PathBuf, PathBuf)>,
}

impl Outputs {
    /// Adds a file; `write` fills it.
    ///
    /// # Errors
    /// The system refuses to write the file. Files added before are removed when `self` is dropped.
    pub fn add(&mut self, path: &Path, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<(), Error> {
        let told = |source| Error::File { what: "write", path: path.to_owned(), source };
        let kind = fs::metadata(path).map(|data| data.file_type()).ok();
        if kind.is_some_and(|kind| !kind.is_file() && !kind.is_dir()) {
            // A device or a pipe: a rename would replace it with a file.
            return fs::OpenOptions::new().write(true).open(path).and_then(|file| fill(file, write)).map_err(told);
        }
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.is_empty() || kind.is_some_and(|kind| kind.is_dir()) {
            return Err(told(std::io::Error::new(std::io::ErrorKind::IsADirectory, "it is a folder")));
        }
        let partial = path.with_file_name(format!(".{name}.{}.partial", std::process::id()));
        let outcome = fs::File::create_new(&partial).and_then(|file| fill(file, write));
        self.pending.push((partial, path.to_owned()));
        outcome.map_err(told)
    }

    /// Puts all files in their places.
    ///
    /// # Errors
    /// A rename is refused.
    pub fn commit(mut self) -> Result<(), Error> {
        while let Some((partial, path)) = self.pending.first().cloned() {
            fs::rename(&partial, &path).map_err(|source| Error::File { what: "write", path, source })?;
            self.pending.remove(0);
        }
        Ok(())
    }
}

fn fill(file: fs::File, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(file);
    write(&mut file)?;
    file.flush()
}

impl Drop for Outputs {
    fn drop(&mut self) {
        for (partial, _) in &self.pending {
            // The file may not exist.
            let _ = fs::remove_file(partial);
        }
    }
}

/// Reads a text file.
///
/// # Errors
/// The system refuses to read the file, or the file is not UTF-8.
pub fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| Error::File { what: "read", path: path.to_owned(), source })
}
