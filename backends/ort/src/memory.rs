//! Blocks of memory with an alignment and a known filling, and arenas with guard zones at both ends.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use crate::error::Error;

/// What unused bytes hold: as floating point not a number, as an integer -1, as a size absurd.
pub(crate) const POISON: u8 = 0xff;

/// Bytes of each guard zone at the ends of an arena.
const GUARD: usize = 4096;

/// Alignment of blocks that no layout speaks of: a cache line.
const CACHE_LINE: usize = 64;

/// Refuses what the machine cannot hold: a system that promises more memory than it has would end the process instead.
///
/// # Errors
/// More bytes than the system says are free.
pub(crate) fn require(needed: u64) -> Result<(), Error> {
    match available() {
        Some(available) if needed > available => Err(Error::TooLarge { needed, available }),
        _ => Ok(()),
    }
}

/// Bytes that programs can still get, where the system says so.
pub(crate) fn available() -> Option<u64> {
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
const MIN_SKIPPED_BYTES: usize = 4 << 20;

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
        if bytes >= MIN_SKIPPED_BYTES && skipped < bytes {
            // SAFETY: the range lies in the caller's block; the advice changes no byte, and refusing it does no harm (madvise(2)).
            unsafe { madvise(start.wrapping_add(skipped).cast(), (bytes - skipped) / PAGE * PAGE, ADVICE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes, MIN_SKIPPED_BYTES);
}

/// What an allocation of so many bytes is asked for as; never empty.
fn layout(size: u64, alignment: u64) -> Result<Layout, Error> {
    let none = || Error::NoMemory { bytes: size };
    let bytes = usize::try_from(size).map_err(|_| none())?;
    let alignment = usize::try_from(alignment.max(1)).map_err(|_| none())?;
    Layout::from_size_align(bytes.max(1), alignment).map_err(|_| none())
}

/// Bytes that are worth a thread to fill: the system finds and clears their pages meanwhile.
const A_THREAD: usize = 32 << 20;

/// Writes all bytes of a block, large ones with several threads.
///
/// # Safety
/// The block must have that many bytes, and nobody else may use it meanwhile.
unsafe fn fill_all(start: NonNull<u8>, bytes: usize, fill: u8) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(bytes / A_THREAD).max(1);
    let part = bytes.div_ceil(threads);
    let address = start.as_ptr().expose_provenance();
    let fill_part = |number: usize| {
        let from = (number * part).min(bytes);
        // SAFETY: the part lies in the caller's block, and no other thread has it.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(address + from).write_bytes(fill, part.min(bytes - from)) };
    };
    std::thread::scope(|scope| {
        for number in 1..threads {
            // Where the system gives no more threads, this one does the part.
            if std::thread::Builder::new().spawn_scoped(scope, move || fill_part(number)).is_err() {
                fill_part(number);
            }
        }
        fill_part(0);
    });
}

/// One block of memory, filled from the start.
#[derive(Debug)]
pub(crate) struct Block {
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
    pub(crate) fn new(size: u64, alignment: u64, fill: u8) -> Result<Self, Error> {
        let layout = layout(size, alignment)?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc(layout) }).ok_or(Error::NoMemory { bytes: size })?;
        prefer_large_pages(start.as_ptr(), layout.size());
        // SAFETY: the block has that many bytes, and nobody else knows it.
        unsafe { fill_all(start, layout.size(), fill) };
        Ok(Self { start, size: usize::try_from(size).unwrap_or(0), layout })
    }

    /// A block of zeros, aligned to a cache line: large ones take memory only as they are written.
    ///
    /// # Errors
    /// The system has no such block.
    pub(crate) fn zeros(size: u64) -> Result<Self, Error> {
        let layout = layout(size, CACHE_LINE as u64)?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Error::NoMemory { bytes: size })?;
        prefer_large_pages(start.as_ptr(), layout.size());
        Ok(Self { start, size: usize::try_from(size).unwrap_or(0), layout })
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
    pub(crate) fn copy_of(bytes: &[u8]) -> Result<Self, Error> {
        let mut block = Self::zeros(bytes.len() as u64)?;
        block.bytes_mut().copy_from_slice(bytes);
        Ok(block)
    }

    /// The first byte's address.
    pub(crate) fn address(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// All bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the block has that many bytes, all written.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.size) }
    }

    /// All bytes, to write.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
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
pub(crate) struct ArenaMemory {
    block: Block,
    guard: usize,
    size: usize,
}

impl ArenaMemory {
    /// An arena of `size` bytes whose address is a multiple of `alignment`.
    ///
    /// # Errors
    /// The alignment is no power of two, or the system has no such block.
    pub(crate) fn new(size: u64, alignment: u64) -> Result<Self, Error> {
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
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Address of an offset that is at most the size.
    pub(crate) fn address(&self, offset: usize) -> *mut u8 {
        self.block.address().wrapping_add(self.guard + offset.min(self.size))
    }

    /// The bytes of the arena.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.block.bytes()[self.guard..self.guard + self.size]
    }

    /// The bytes of the arena, to write.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let range = self.guard..self.guard + self.size;
        &mut self.block.bytes_mut()[range]
    }

    /// Whether nobody wrote before the first or behind the last byte.
    pub(crate) fn guards_hold(&self) -> bool {
        let bytes = self.block.bytes();
        let (front, back) = (&bytes[..self.guard], &bytes[self.guard + self.size..]);
        front.iter().chain(back).all(|byte| *byte == POISON)
    }
}
