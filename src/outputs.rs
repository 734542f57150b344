//! Output files, written whole or not at all.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::error::Error;

/// Partial files of all [`Outputs`] of the process.
static PARTIAL: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Removes the partial files of outputs that are under way; for a process that ends now.
///
/// Does nothing if another thread changes the list at this moment.
pub fn remove_partial_files() {
    if let Ok(partial) = PARTIAL.try_lock() {
        partial.iter().for_each(|path| drop(fs::remove_file(path)));
    }
}

/// Files under way: each lies beside its place under another name until all are complete.
#[derive(Debug, Default)]
pub struct Outputs {
    pending: Vec<(PathBuf, PathBuf)>,
}

impl Outputs {
    /// Checks that a file can have this path, so that long work before it is not lost.
    ///
    /// # Errors
    /// Its folder does not exist, or a folder has the path.
    pub fn check_path(path: &Path) -> Result<(), Error> {
        let told = |source| Error::File { what: "write", path: path.to_owned(), source };
        if path.is_dir() {
            return Err(told(std::io::Error::new(std::io::ErrorKind::IsADirectory, "it is a folder")));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.map_or(Ok(()), |folder| fs::metadata(folder).map(drop)).map_err(told)
    }

    /// Adds a file; `write` fills it.
    ///
    /// # Errors
    /// The system refuses to write the file. Files added before are removed when `self` is dropped.
    pub fn add(
        &mut self,
        path: &Path,
        write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> Result<(), Error> {
        let told = |source| Error::File { what: "write", path: path.to_owned(), source };
        let kind = fs::metadata(path).map(|data| data.file_type()).ok();
        if kind.is_some_and(|kind| !kind.is_file() && !kind.is_dir()) {
            // A device or a pipe: a rename would replace it with a file.
            return fs::OpenOptions::new()
                .write(true)
                .open(path)
                .and_then(|file| fill(file, write))
                .map_err(told);
        }
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.is_empty() || kind.is_some_and(|kind| kind.is_dir()) {
            return Err(told(std::io::Error::new(std::io::ErrorKind::IsADirectory, "it is a folder")));
        }
        let partial = partial(path);
        self.start(&partial, path);
        let outcome = fs::File::create_new(&partial).and_then(|file| fill(file, write));
        outcome.map_err(told)
    }

    fn start(&mut self, partial: &Path, path: &Path) {
        PARTIAL.lock().unwrap_or_else(PoisonError::into_inner).insert(partial.to_owned());
        self.pending.push((partial.to_owned(), path.to_owned()));
    }

    /// Adds a file of equal contents and permissions: a copy that shares the blocks of the given one where
    /// the file system can, else a link to it, else a copy.
    ///
    /// # Errors
    /// The system refuses to read or to write a file.
    pub fn add_copy(&mut self, from: &Path, to: &Path) -> Result<(), Error> {
        let told = |what, path: &Path, source| Error::File { what, path: path.to_owned(), source };
        // A link to a symbolic link would lead out of the folder, which runtimes refuse.
        let from = &from.canonicalize().map_err(|source| told("read", from, source))?;
        let partial = partial(to);
        self.start(&partial, to);
        if share_blocks(from, &partial).is_err() && fs::hard_link(from, &partial).is_err() {
            // Opens the file first, so that the error names the right one.
            fs::File::open(from).map_err(|source| told("read", from, source))?;
            fs::copy(from, &partial).map_err(|source| told("write", to, source))?;
        }
        Ok(())
    }

    /// Puts all files in their places.
    ///
    /// # Errors
    /// A rename is refused.
    pub fn commit(mut self) -> Result<(), Error> {
        while let Some((partial, path)) = self.pending.first().cloned() {
            fs::rename(&partial, &path).map_err(|source| Error::File { what: "write", path, source })?;
            // Renaming one of two links to one file leaves both.
            let _ = fs::remove_file(&partial);
            PARTIAL.lock().unwrap_or_else(PoisonError::into_inner).remove(&partial);
            self.pending.remove(0);
        }
        Ok(())
    }
}

/// Makes a new file of equal contents and permissions that shares the blocks of the given one; a write to
/// either file does not change the other.
fn share_blocks(from: &Path, to: &Path) -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let source = fs::File::open(from)?;
        let new = fs::File::create_new(to)?;
        let shared = rustix::fs::ioctl_ficlone(&new, &source).map_err(std::io::Error::from);
        let outcome = shared.and_then(|()| new.set_permissions(source.metadata()?.permissions()));
        outcome.inspect_err(|_| drop(fs::remove_file(to)))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (from, to);
        Err(std::io::ErrorKind::Unsupported.into())
    }
}

/// Name of a file until it is complete.
fn partial(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.partial", std::process::id()))
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
            PARTIAL.lock().unwrap_or_else(PoisonError::into_inner).remove(partial);
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn partial_files_are_removed_when_the_process_ends() {
        let folder = std::env::temp_dir().join(format!("memc-outputs-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut outputs = Outputs::default();
        outputs.add(&folder.join("a"), |out| out.write_all(b"half")).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        remove_partial_files();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        drop(outputs);
        fs::remove_dir(&folder).unwrap();
    }
}
