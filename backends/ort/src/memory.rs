//! Blocks of memory with an alignment and a known fill byte, and arenas with guard zones at both ends.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::error::Error;

/// Fill of unused bytes: NaN as a floating-point number, -1 as an integer, an impossible number as a
/// size.
pub(crate) const POISON: u8 = 0xff;

/// Size of each guard zone at the ends of an arena, in bytes.
const GUARD: usize = 4096;

/// Alignment of blocks that do not come from a layout, in bytes: a cache line.
const CACHE_LINE: usize = 64;

/// Rejects a need that exceeds the free memory. A system that promises more memory than it has would
/// otherwise end the process.
///
/// # Errors
/// `needed` exceeds the free memory that the system reports.
pub(crate) fn require(needed: u64) -> Result<(), Error> {
    match available() {
        Some(available) if needed > available => Err(Error::TooLarge { needed, available }),
        _ => Ok(()),
    }
}

/// Returns the memory that programs can still get, in bytes; `None` if the system does not report it.
pub(crate) fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns freed blocks that the C library's allocator keeps to the system. Has an effect with the GNU
/// library only.
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

/// Smallest block for which large pages are requested, in bytes.
const MIN_SKIPPED_BYTES: usize = 4 << 20;

/// Requests large pages for a block on Linux, which provides them on demand. The first write to a large
/// block then takes a fraction of the time. No page extends beyond the block.
pub(crate) fn prefer_large_pages(start: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    {
        const ADVICE: std::ffi::c_int = 14;
        const PAGE: usize = 4096;
        unsafe extern "C" {
            fn madvise(
                start: *mut std::ffi::c_void,
                bytes: usize,
                advice: std::ffi::c_int,
            ) -> std::ffi::c_int;
        }
        let skipped = start.align_offset(PAGE);
        if bytes >= MIN_SKIPPED_BYTES && skipped < bytes {
            // SAFETY: the range is inside the caller's block. The advice changes no byte, and a refusal
            // is harmless (madvise(2)).
            unsafe { madvise(start.wrapping_add(skipped).cast(), (bytes - skipped) / PAGE * PAGE, ADVICE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes, MIN_SKIPPED_BYTES);
}

/// Returns the layout of an allocation of `size` bytes; never empty.
fn layout(size: u64, alignment: u64) -> Result<Layout, Error> {
    let none = || Error::NoMemory { bytes: size };
    let bytes = usize::try_from(size).map_err(|_| none())?;
    let alignment = usize::try_from(alignment.max(1)).map_err(|_| none())?;
    Layout::from_size_align(bytes.max(1), alignment).map_err(|_| none())
}

/// Number of bytes for which another filling thread pays off: the threads then find and clear pages in
/// parallel.
const A_THREAD: usize = 32 << 20;

/// Writes `fill` to all bytes of a block, in large blocks with several threads.
///
/// # Safety
/// The block must have `bytes` bytes, and no other code may use it during the call.
unsafe fn fill_all(start: NonNull<u8>, bytes: usize, fill: u8) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(bytes / A_THREAD).max(1);
    let part = bytes.div_ceil(threads);
    let address = start.as_ptr().expose_provenance();
    let fill_part = |number: usize| {
        let from = (number * part).min(bytes);
        // SAFETY: the part is inside the caller's block, and no other thread writes to it.
        unsafe {
            std::ptr::with_exposed_provenance_mut::<u8>(address + from)
                .write_bytes(fill, part.min(bytes - from))
        };
    };
    std::thread::scope(|scope| {
        for number in 1..threads {
            // If the system cannot start another thread, this thread fills the part.
            if std::thread::Builder::new().spawn_scoped(scope, move || fill_part(number)).is_err() {
                fill_part(number);
            }
        }
        fill_part(0);
    });
}

/// One block of initialized memory.
#[derive(Debug)]
pub(crate) struct Block {
    start: NonNull<u8>,
    size: usize,
    layout: Layout,
}

// SAFETY: a block is plain bytes with one owner.
unsafe impl Send for Block {}
// SAFETY: as above; code that writes through the address is responsible for its accesses.
unsafe impl Sync for Block {}

impl Block {
    /// Allocates a block of `size` bytes that all have the value `fill`.
    ///
    /// # Errors
    /// The system cannot allocate the block.
    pub(crate) fn new(size: u64, alignment: u64, fill: u8) -> Result<Self, Error> {
        let layout = layout(size, alignment)?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc(layout) }).ok_or(Error::NoMemory { bytes: size })?;
        prefer_large_pages(start.as_ptr(), layout.size());
        // SAFETY: the block has that many bytes, and no other code knows its address.
        unsafe { fill_all(start, layout.size(), fill) };
        Ok(Self { start, size: usize::try_from(size).unwrap_or(0), layout })
    }

    /// Allocates a block of zeros, aligned to a cache line. A large block takes memory only as it is
    /// written.
    ///
    /// # Errors
    /// The system cannot allocate the block.
    pub(crate) fn zeros(size: u64) -> Result<Self, Error> {
        let layout = layout(size, CACHE_LINE as u64)?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Error::NoMemory { bytes: size })?;
        prefer_large_pages(start.as_ptr(), layout.size());
        Ok(Self { start, size: usize::try_from(size).unwrap_or(0), layout })
    }

    /// Allocates a block of poison, aligned to a cache line.
    ///
    /// # Errors
    /// The system cannot allocate the block.
    pub(crate) fn poison(size: u64) -> Result<Self, Error> {
        Self::new(size, CACHE_LINE as u64, POISON)
    }

    /// Copies bytes into a new block, aligned to a cache line.
    ///
    /// # Errors
    /// The system cannot allocate the block.
    pub(crate) fn copy_of(bytes: &[u8]) -> Result<Self, Error> {
        let mut block = Self::zeros(bytes.len() as u64)?;
        block.bytes_mut().copy_from_slice(bytes);
        Ok(block)
    }

    /// Returns the address of the first byte.
    pub(crate) fn address(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Returns all bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the block has that many bytes, all initialized.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.size) }
    }

    /// Returns all bytes for writing.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the block is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.size) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the block was allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// Bytes of an arena that belong to another plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    pub(crate) arena: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// The arena of one space: exactly the planned bytes between two guard zones, all poison at first.
#[derive(Debug)]
pub(crate) struct ArenaMemory {
    block: Arc<Block>,
    guard: usize,
    size: usize,
}

impl ArenaMemory {
    /// Allocates an arena of `size` bytes whose address is a multiple of `alignment`.
    ///
    /// # Errors
    /// The alignment is not a power of two, or the system cannot allocate the block.
    pub(crate) fn new(size: u64, alignment: u64) -> Result<Self, Error> {
        let none = || Error::NoMemory { bytes: size };
        if !alignment.is_power_of_two() {
            return Err(Error::Alignment { alignment });
        }
        let guard = (GUARD as u64).max(alignment);
        let whole = guard.checked_mul(2).and_then(|guards| guards.checked_add(size)).ok_or_else(none)?;
        let block = Block::new(whole, guard, POISON)?;
        let (guard, size) =
            (usize::try_from(guard).map_err(|_| none())?, usize::try_from(size).map_err(|_| none())?);
        Ok(Self { block: Arc::new(block), guard, size })
    }

    /// Returns the size of the arena in bytes, without the guard zones.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns the address of an offset; an offset beyond the size counts as the size.
    pub(crate) fn address(&self, offset: usize) -> *mut u8 {
        self.block.address().wrapping_add(self.guard + offset.min(self.size))
    }

    /// Returns the bytes of the arena.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.block.bytes()[self.guard..self.guard + self.size]
    }

    /// Returns the bytes between two offsets. Other threads may write other bytes meanwhile.
    pub(crate) fn part(&self, start: usize, end: usize) -> &[u8] {
        let (start, end) = (start.min(self.size), end.min(self.size));
        // SAFETY: the range is inside the block, whose bytes are initialized.
        unsafe { std::slice::from_raw_parts(self.address(start), end.saturating_sub(start)) }
    }

    /// Fills the bytes between two offsets with poison. Other threads may write other bytes meanwhile.
    pub(crate) fn bury(&mut self, start: usize, end: usize) {
        let (start, end) = (start.min(self.size), end.min(self.size));
        // SAFETY: as above, and no plan uses these bytes at this time.
        unsafe { self.address(start).write_bytes(POISON, end.saturating_sub(start)) };
    }

    /// Returns the bytes of the arena for writing.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the range is inside the block, whose bytes are initialized. Plans that share an arena take
        // turns on one thread, so no other slice of it is in use.
        unsafe { std::slice::from_raw_parts_mut(self.address(0), self.size) }
    }

    /// Returns the same arena for another plan, which runs before, after, or between two steps of this one.
    pub(crate) fn shared(&self) -> Self {
        Self { block: Arc::clone(&self.block), guard: self.guard, size: self.size }
    }

    /// Whether both guard zones are intact: no code wrote before the first or after the last byte.
    pub(crate) fn guards_hold(&self) -> bool {
        let bytes = self.block.bytes();
        let (front, back) = (&bytes[..self.guard], &bytes[self.guard + self.size..]);
        front.iter().chain(back).all(|byte| *byte == POISON)
    }
}
