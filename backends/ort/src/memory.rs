//! Blocks of memory with an alignment and a known filling, and arenas with guard zones at both ends.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

use crate::error::Error;

/// What unused bytes hold: as floating point not a number, as an integer -1, as a size absurd.
pub const POISON: u8 = 0xff;

/// Bytes of each guard zone at the ends of an arena.
const GUARD: usize = 4096;

/// Alignment of blocks that no layout speaks of: a cache line.
const CACHE_LINE: usize = 64;

/// Refuses what the machine cannot hold: a system that promises more memory than it has would end the process instead.
///
/// # Errors
/// More bytes than the system says are free.
pub fn require(needed: u64) -> Result<(), Error> {
    match available() {
        Some(available) if needed > available => Err(Error::TooLarge { needed, available }),
        _ => Ok(()),
    }
}

/// Bytes that programs can still get, where the system says so.
pub fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Gives back to the system what the allocator of the C library keeps of freed blocks, where it is the one that does (GNU).
pub(crate) fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        // SAFETY: the function takes no pointer and may be called at any time (malloc_trim(3)).
        unsafe { malloc_trim(0) };
    }
}

/// Blocks from this size on are worth pages larger than the usual ones.
const LARGE: usize = 4 << 20;

/// Asks for large pages behind a block, where the system gives them on demand: writing a large block for the first time then takes a
/// fraction of the time. No page reaches beyond the block.
pub(crate) fn prefer_large_pages(start: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    {
        const ADVICE: std::ffi::c_int = 14;
        const PAGE: usize = 4096;
        unsafe extern "C" {
            fn madvise(start: *mut std::ffi::c_void, bytes: usize, advice: std::ffi::c_int) -> std::ffi::c_int;
        }
        let skipped = start.align_offset(PAGE);
        if bytes >= LARGE && skipped < bytes {
            // SAFETY: the range lies in the caller's block; the advice changes no byte, and refusing it does no harm (madvise(2)).
            unsafe { madvise(start.wrapping_add(skipped).cast(), (bytes - skipped) / PAGE * PAGE, ADVICE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes, LARGE);
}

/// One block of memory, filled from the start.
#[derive(Debug)]
pub struct Block {
    start: NonNull<u8>,
    size: usize,
    layout: Layout,
}

// SAFETY: a block is plain bytes with one owner.
unsafe impl Send for Block {}
// SAFETY: as above; who writes through the address answers for it.
unsafe impl Sync for Block {}

impl Block {
    /// A block of `size` bytes that all are `fill`.
    ///
    /// # Errors
    /// The system has no such block.
    pub fn new(size: u64, alignment: u64, fill: u8) -> Result<Self, Error> {
        let none = || Error::NoMemory { bytes: size };
        let bytes = usize::try_from(size).map_err(|_| none())?;
        let alignment = usize::try_from(alignment.max(1)).map_err(|_| none())?;
        let layout = Layout::from_size_align(bytes.max(1), alignment).map_err(|_| none())?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc(layout) }).ok_or_else(none)?;
        prefer_large_pages(start.as_ptr(), bytes);
        // SAFETY: the block has that many bytes.
        unsafe { start.write_bytes(fill, bytes.max(1)) };
        Ok(Self { start, size: bytes, layout })
    }

    /// A block of poison, aligned to a cache line.
    ///
    /// # Errors
    /// The system has no such block.
    pub(crate) fn poison(size: u64) -> Result<Self, Error> {
        Self::new(size, CACHE_LINE as u64, POISON)
    }

    /// A copy of bytes, aligned to a cache line.
    ///
    /// # Errors
    /// The system has no such block.
    pub fn copy_of(bytes: &[u8]) -> Result<Self, Error> {
        let mut block = Self::poison(bytes.len() as u64)?;
        block.bytes_mut().copy_from_slice(bytes);
        Ok(block)
    }

    /// The first byte's address.
    pub fn address(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the block has that many bytes, all written.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.size) }
    }

    /// All bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the block is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.size) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: made with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// The arena of one space: exactly the planned bytes, between two guard zones, all poison at first.
#[derive(Debug)]
pub struct ArenaMemory {
    block: Block,
    guard: usize,
    size: usize,
}

impl ArenaMemory {
    /// An arena of `size` bytes whose address is a multiple of `alignment`.
    ///
    /// # Errors
    /// The alignment is no power of two, or the system has no such block.
    pub fn new(size: u64, alignment: u64) -> Result<Self, Error> {
        let none = || Error::NoMemory { bytes: size };
        if !alignment.is_power_of_two() {
            return Err(Error::Alignment { alignment });
        }
        let guard = (GUARD as u64).max(alignment);
        let whole = guard.checked_mul(2).and_then(|guards| guards.checked_add(size)).ok_or_else(none)?;
        let block = Block::new(whole, guard, POISON)?;
        Ok(Self { block, guard: usize::try_from(guard).map_err(|_| none())?, size: usize::try_from(size).map_err(|_| none())? })
    }

    /// Bytes of the arena, guards not counted.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Address of an offset that is at most the size.
    pub fn address(&self, offset: usize) -> *mut u8 {
        self.block.address().wrapping_add(self.guard + offset.min(self.size))
    }

    /// The bytes of the arena.
    pub fn bytes(&self) -> &[u8] {
        &self.block.bytes()[self.guard..self.guard + self.size]
    }

    /// The bytes of the arena, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let range = self.guard..self.guard + self.size;
        &mut self.block.bytes_mut()[range]
    }

    /// Whether nobody wrote before the first or behind the last byte.
    pub fn guards_hold(&self) -> bool {
        let bytes = self.block.bytes();
        let (front, back) = (&bytes[..self.guard], &bytes[self.guard + self.size..]);
        front.iter().chain(back).all(|byte| *byte == POISON)
    }
}
