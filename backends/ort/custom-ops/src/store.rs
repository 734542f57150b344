//! Store of the tensors that are away from their session: each in a file, or in memory.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Environment variable with the folder for files.
const FOLDER: &str = "MEMC_SWAP_DIR";

/// Location of a tensor's bytes.
#[derive(Debug)]
enum Bytes {
    Memory(Vec<u8>),
    /// The path is kept only if the system cannot remove a file that is in use.
    File(Mutex<File>, Option<PathBuf>),
}

/// A tensor that is away from its session.
#[derive(Debug)]
pub(crate) struct Kept {
    bytes: Bytes,
    size: usize,
    pub(crate) shape: Vec<i64>,
    /// Whether the tensor was brought back already.
    pub(crate) is_loaded: AtomicBool,
}

impl Kept {
    /// Stores bytes in a file or in memory.
    ///
    /// # Errors
    /// The file cannot be made or written, for example because the disk is full.
    pub(crate) fn new(bytes: &[u8], shape: Vec<i64>) -> io::Result<Self> {
        let folder = std::env::var_os(FOLDER).filter(|folder| !folder.is_empty());
        let kept = match folder {
            Some(folder) => file(PathBuf::from(folder), bytes)?,
            None => Bytes::Memory(bytes.to_vec()),
        };
        Ok(Self { bytes: kept, size: bytes.len(), shape, is_loaded: AtomicBool::new(false) })
    }

    /// Returns the size of the tensor, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Copies the bytes back to `target`.
    ///
    /// # Errors
    /// The target has another size, or the file cannot be read.
    pub(crate) fn load(&self, target: &mut [u8]) -> io::Result<()> {
        if target.len() != self.size {
            return Err(io::ErrorKind::InvalidData.into());
        }
        match &self.bytes {
            Bytes::Memory(bytes) => target.copy_from_slice(bytes),
            Bytes::File(file, _) => {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.seek(SeekFrom::Start(0))?;
                file.read_exact(target)?;
            }
        }
        self.is_loaded.store(true, Ordering::Release);
        Ok(())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Bytes::File(_, Some(path)) = &self.bytes {
            // An already removed file needs no action.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Makes a new file of these bytes. On Unix the file is already removed from its folder on return, so a
/// crash leaves nothing.
fn file(folder: PathBuf, bytes: &[u8]) -> io::Result<Bytes> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("memc-ops-{}-{number}", std::process::id()));
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
    let name = if cfg!(unix) { std::fs::remove_file(&path).err().map(|_| path) } else { Some(path) };
    // If the write fails, remove a file that still has its name.
    let written = file.write_all(bytes);
    let kept = Bytes::File(Mutex::new(file), name);
    match written {
        Ok(()) => Ok(kept),
        Err(error) => {
            if let Bytes::File(_, Some(path)) = &kept {
                let _ = std::fs::remove_file(path);
            }
            Err(error)
        }
    }
}

/// All stored tensors, by the number in their token.
static STORE: Mutex<BTreeMap<u64, Arc<Kept>>> = Mutex::new(BTreeMap::new());

fn store() -> MutexGuard<'static, BTreeMap<u64, Arc<Kept>>> {
    STORE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stores a tensor and returns its number.
pub(crate) fn keep(kept: Kept) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    store().insert(number, Arc::new(kept));
    number
}

/// Returns the tensor of a number; `None` if it is forgotten.
pub(crate) fn find(number: u64) -> Option<Arc<Kept>> {
    store().get(&number).cloned()
}

/// Forgets a tensor.
pub(crate) fn forget(number: u64) {
    let gone = store().remove(&number);
    // Close the file outside the lock.
    drop(gone);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn tensors_come_back_from_memory_and_from_files() {
        let data: Vec<u8> = (0..=255).collect();
        let folder = std::env::temp_dir();
        for bytes in [Bytes::Memory(data.clone()), file(folder, &data).unwrap()] {
            let kept = Kept { bytes, size: data.len(), shape: vec![256], is_loaded: AtomicBool::new(false) };
            let number = keep(kept);
            let found = find(number).expect("it is kept");
            for _ in 0..2 {
                let mut back = vec![0; data.len()];
                found.load(&mut back).unwrap();
                assert_eq!(back, data);
            }
            assert!(found.load(&mut [0; 3]).is_err(), "another size");
            forget(number);
            assert!(find(number).is_none());
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        assert!(file(PathBuf::from("no/such/folder"), &[1]).is_err());
    }
}
