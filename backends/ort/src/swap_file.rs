//! The file of a space that is not memory: made for one player and removed with it. If a process dies
//! before removing its file, a later one sweeps it.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::memory::Block;

/// Required alignment of address, offset and length in direct transfers, in bytes.
const SECTOR: usize = 4096;

/// Size of one direct transfer, in bytes.
const CHUNK: usize = 1 << 20;

/// Prefix of all file names.
const PREFIX: &str = "memc-swap-";

/// Flag of `open(2)` on Linux for transfers that bypass the system's cache.
#[cfg(all(target_os = "linux", any(target_arch = "x86", target_arch = "x86_64", target_arch = "riscv64")))]
const DIRECT: Option<i32> = Some(0o40000);
#[cfg(all(target_os = "linux", any(target_arch = "aarch64", target_arch = "arm")))]
const DIRECT: Option<i32> = Some(0o200_000);
#[cfg(not(all(
    target_os = "linux",
    any(
        target_arch = "x86",
        target_arch = "x86_64",
        target_arch = "riscv64",
        target_arch = "aarch64",
        target_arch = "arm"
    )
)))]
const DIRECT: Option<i32> = None;

/// A file of the planned size of a space.
#[derive(Debug)]
pub(crate) struct SwapFile {
    /// Handle for transfers through the system's cache.
    plain: File,
    /// Handle for transfers that bypass the cache; `None` if the file system does not support them.
    direct: Option<File>,
    path: Option<PathBuf>,
}

impl SwapFile {
    /// Makes a new file in a folder. Transfers at offsets that are multiples of a sector bypass the
    /// cache.
    ///
    /// # Errors
    /// The file cannot be made, or the file system does not have the space.
    pub(crate) fn create(folder: &Path, space: &str, size: u64, alignment: u64) -> Result<Self, Error> {
        sweep(folder);
        let letters: String = space.chars().filter(char::is_ascii_alphanumeric).take(32).collect();
        let stem = format!("{PREFIX}{}-{letters}", Process::own().text());
        let mut last = None;
        // Several players of one process may use one folder.
        for number in 0..1000 {
            let path = folder.join(format!("{stem}-{number}"));
            match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
                Ok(plain) => {
                    let direct =
                        if alignment.is_multiple_of(SECTOR as u64) { open_direct(&path) } else { None };
                    let made = Self { plain, direct, path: Some(path.clone()) };
                    // The file includes the rest of its last sector.
                    let whole = size.checked_next_multiple_of(SECTOR as u64).unwrap_or(size);
                    made.plain.set_len(whole).map_err(|source| Error::File {
                        what: "write",
                        path,
                        source,
                    })?;
                    return Ok(made);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    last = Some((path, error));
                    break;
                }
            }
        }
        let (path, source) =
            last.unwrap_or_else(|| (folder.join(stem), io::Error::from(io::ErrorKind::AlreadyExists)));
        Err(Error::File { what: "write", path, source })
    }

    /// Wraps an existing file, which stays when this is dropped.
    #[cfg(test)]
    pub(crate) fn over(plain: File) -> Self {
        Self { plain, direct: None, path: None }
    }

    /// Whether transfers bypass the system's cache.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// Writes bytes at an offset; direct transfers go through the buffer `bounce`.
    ///
    /// # Errors
    /// Returns the system's errors.
    pub(crate) fn write(&self, bytes: &[u8], offset: u64, bounce: &mut Option<Block>) -> io::Result<()> {
        let Some((file, block)) = self.bounced(offset, bounce)? else {
            return write_at(&self.plain, bytes, offset);
        };
        let mut at = offset;
        for chunk in bytes.chunks(CHUNK) {
            let whole = chunk.len().next_multiple_of(SECTOR);
            block[..chunk.len()].copy_from_slice(chunk);
            block[chunk.len()..whole].fill(0);
            write_at(file, &block[..whole], at)?;
            at += chunk.len() as u64;
        }
        Ok(())
    }

    /// Reads bytes at an offset; direct transfers go through the buffer `bounce`.
    ///
    /// # Errors
    /// Returns the system's errors; the end of the file is one.
    pub(crate) fn read(&self, bytes: &mut [u8], offset: u64, bounce: &mut Option<Block>) -> io::Result<()> {
        let Some((file, block)) = self.bounced(offset, bounce)? else {
            return read_at(&self.plain, bytes, offset);
        };
        let mut at = offset;
        for chunk in bytes.chunks_mut(CHUNK) {
            let whole = chunk.len().next_multiple_of(SECTOR);
            read_at(file, &mut block[..whole], at)?;
            chunk.copy_from_slice(&block[..chunk.len()]);
            at += chunk.len() as u64;
        }
        Ok(())
    }

    /// Returns the direct handle and a buffer of whole sectors; `None` if the file is not direct or the
    /// offset is not a multiple of a sector.
    fn bounced<'b>(
        &self,
        offset: u64,
        bounce: &'b mut Option<Block>,
    ) -> io::Result<Option<(&File, &'b mut [u8])>> {
        let Some(file) = self.direct.as_ref().filter(|_| offset.is_multiple_of(SECTOR as u64)) else {
            return Ok(None);
        };
        let block = match bounce {
            Some(block) => block,
            None => bounce
                .insert(Block::new(CHUNK as u64, SECTOR as u64, 0).map_err(|_| io::ErrorKind::OutOfMemory)?),
        };
        Ok(Some((file, block.bytes_mut())))
    }
}

impl Drop for SwapFile {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // An already removed file needs no action.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(unix)]
fn open_direct(path: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let file = OpenOptions::new().read(true).write(true).custom_flags(DIRECT?).open(path).ok()?;
    // Some file systems accept the flag but refuse the transfers.
    let mut block = Block::new(SECTOR as u64, SECTOR as u64, 0).ok()?;
    write_at(&file, block.bytes(), 0).ok()?;
    read_at(&file, block.bytes_mut(), 0).ok()?;
    Some(file)
}

#[cfg(not(unix))]
fn open_direct(_: &Path) -> Option<File> {
    DIRECT.and(None)
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
fn write_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_write(file, bytes, offset)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => (bytes, offset) = (&bytes[count..], offset + count as u64),
        }
    }
    Ok(())
}

#[cfg(windows)]
fn read_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => (bytes, offset) = (&mut bytes[count..], offset + count as u64),
        }
    }
    Ok(())
}

/// Removes the files of processes that are gone. If the owner still runs, but in another PID namespace,
/// its file is removed as well and stays usable for all processes that have opened it.
fn sweep(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(Process::parse);
        if owner.is_some_and(|owner| owner.is_gone()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// A process: its number and its start time, because numbers are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    number: u32,
    started: u64,
}

impl Process {
    fn own() -> Self {
        let number = std::process::id();
        Self { number, started: started(number).unwrap_or(0) }
    }

    fn text(self) -> String {
        format!("{}-{}", self.number, self.started)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let number = parts.next()?.parse().ok()?;
        let started = parts.next()?.parse().ok()?;
        Some(Self { number, started })
    }

    /// Whether the process is gone; false if the system does not tell which processes live.
    fn is_gone(self) -> bool {
        started(std::process::id()).is_some() && started(self.number) != Some(self.started)
    }
}

/// Returns the start time of a process, in the system's own units (Linux, `proc(5)`: field 22, counted
/// after the name in parentheses); `None` if it is unknown.
fn started(process: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn folder(test: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("memc-test-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn written_bytes_read_back_at_any_offset_and_length() {
        let folder = folder("swap_bytes");
        for alignment in [64, SECTOR as u64] {
            let file = SwapFile::create(&folder, "disk", 5 << 20, alignment).unwrap();
            let mut bounce = None;
            for (offset, size) in [(0, 1), (SECTOR as u64, CHUNK + 777), (3 << 20, CHUNK * 2), (64, 63)] {
                let data: Vec<u8> = (0..size).map(|position| (position * 31 + size) as u8).collect();
                file.write(&data, offset, &mut bounce).unwrap();
                let mut back = vec![0; size];
                file.read(&mut back, offset, &mut bounce).unwrap();
                assert!(back == data, "{size} bytes at {offset}, alignment {alignment}");
            }
        }
        std::fs::remove_dir(&folder).expect("the files are gone with their players");
    }

    #[test]
    fn files_of_dead_processes_are_swept_and_others_stay() {
        let folder = folder("swap_sweep");
        let own = Process::own();
        let dead = folder.join(format!("{PREFIX}{}-{}-disk-0", own.number, own.started.wrapping_add(1)));
        let alive = folder.join(format!("{PREFIX}{}-disk-7", own.text()));
        let foreign = folder.join("memc-swap-notes.txt");
        for path in [&dead, &alive, &foreign] {
            std::fs::write(path, "x").unwrap();
        }
        drop(SwapFile::create(&folder, "disk", 1, 64).unwrap());
        assert_eq!(dead.exists(), started(own.number).is_none());
        assert!(alive.exists() && foreign.exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = SwapFile::create(Path::new("no/such/folder"), "disk", 1, 64).expect_err("no folder");
        assert!(
            matches!(&error, Error::File { what: "write", path, .. } if path.starts_with("no/such/folder")),
            "{error}"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_reported() {
        let full = OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
        let error = SwapFile::over(full).write(&[1; 100], 0, &mut None).expect_err("no room");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
