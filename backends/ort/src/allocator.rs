//! The allocator of all sessions: it counts bytes, and serves a kernel's workspace from the place that
//! the plan gave it.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use ort::sys;

use crate::memory::prefer_large_pages;

/// Alignment of every block, in bytes: a cache line, as in ONNX Runtime's own allocator.
const ALIGNMENT: usize = 64;

/// Version of the C interface that the allocator states. The library then does not call newer members.
const INTERFACE: u32 = 17;

/// Counts of the allocator since `CountingAllocator::begin`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Most bytes in use at once outside the planned workspace, minus those in use at `begin`.
    pub peak: u64,
    /// Bytes outside the planned workspace that are still in use, minus those in use at `begin`.
    pub kept: u64,
    /// End of the highest block in the planned workspace, in bytes from the workspace's start.
    pub planned_peak: u64,
    /// Number of blocks of the planned workspace that are still in use.
    pub planned_kept: usize,
    /// Number of requests.
    pub requests: u64,
}

/// Counts of all threads together, and of threads that count for themselves.
#[derive(Debug, Default)]
struct State {
    shared: Count,
    own: HashMap<ThreadId, Count>,
}

impl State {
    /// Returns the count of the calling thread.
    fn count(&mut self) -> &mut Count {
        if self.own.is_empty() {
            return &mut self.shared;
        }
        self.own.get_mut(&std::thread::current().id()).unwrap_or(&mut self.shared)
    }
}

#[derive(Debug, Default)]
struct Count {
    in_use: u64,
    start: u64,
    peak: u64,
    requests: u64,
    region: Option<Region>,
}

/// The planned workspace of the running node: its address, its size in bytes, and its used blocks in
/// ascending order of address.
#[derive(Debug)]
struct Region {
    start: usize,
    bytes: usize,
    blocks: Vec<(usize, usize)>,
    peak: usize,
}

impl Region {
    /// Takes the first gap that fits; there are few blocks. `None` if no gap fits.
    fn take(&mut self, size: usize) -> Option<usize> {
        let mut at = self.start.checked_next_multiple_of(ALIGNMENT)?;
        let mut position = 0;
        for (start, bytes) in &self.blocks {
            if at.checked_add(size)? <= *start {
                break;
            }
            at = start.checked_add(*bytes)?.checked_next_multiple_of(ALIGNMENT)?;
            position += 1;
        }
        let end = at.checked_add(size)?;
        if end > self.start.checked_add(self.bytes)? {
            return None;
        }
        self.blocks.insert(position, (at, size));
        self.peak = self.peak.max(end - self.start);
        Some(at)
    }

    fn give_back(&mut self, address: usize) -> bool {
        let found = self.blocks.iter().position(|(start, _)| *start == address);
        found.map(|position| self.blocks.remove(position)).is_some()
    }
}

/// An `OrtAllocator` with counters. It lives as long as the process, because sessions keep its address.
#[repr(C)]
pub(crate) struct CountingAllocator {
    interface: sys::OrtAllocator,
    // Members that later versions of the structure have; a library that reads these finds null pointers.
    later: [*const c_void; 16],
    info: *const sys::OrtMemoryInfo,
    state: Mutex<State>,
}

// SAFETY: the pointers are to functions and to a memory description that is never written; a lock guards
// the other fields.
unsafe impl Sync for CountingAllocator {}
// SAFETY: as above.
unsafe impl Send for CountingAllocator {}

impl CountingAllocator {
    pub(crate) fn new(info: *const sys::OrtMemoryInfo) -> Self {
        let interface = sys::OrtAllocator {
            version: INTERFACE,
            Alloc: Some(serve),
            Free: Some(release),
            Info: Some(describe),
            Reserve: Some(reserve),
        };
        Self { interface, later: [ptr::null(); 16], info, state: Mutex::default() }
    }

    /// Returns the address that the C interface takes.
    pub(crate) fn as_interface(&self) -> *mut sys::OrtAllocator {
        ptr::from_ref(&self.interface).cast_mut()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a count. If `region` is given, requests that fit into it are served from its bytes.
    ///
    /// # Safety
    /// The region must stay writable, and no other code may use it, until [`Self::end`].
    pub(crate) unsafe fn begin(&self, region: Option<(*mut u8, usize)>) {
        let mut state = self.state();
        let count = state.count();
        count.start = count.in_use;
        count.peak = count.in_use;
        count.requests = 0;
        count.region =
            region.map(|(start, bytes)| Region { start: start as usize, bytes, blocks: Vec::new(), peak: 0 });
    }

    /// Ends the count and returns it.
    pub(crate) fn end(&self) -> Tally {
        let mut state = self.state();
        let count = state.count();
        let region = count.region.take();
        Tally {
            peak: count.peak.saturating_sub(count.start),
            kept: count.in_use.saturating_sub(count.start),
            planned_peak: region.as_ref().map_or(0, |region| region.peak as u64),
            planned_kept: region.map_or(0, |region| region.blocks.len()),
            requests: count.requests,
        }
    }

    /// Gives the calling thread a count of its own until [`Self::join`].
    pub(crate) fn part(&self) {
        self.state().own.insert(std::thread::current().id(), Count::default());
    }

    /// Adds what the calling thread still uses to the count of all threads.
    pub(crate) fn join(&self) {
        let mut state = self.state();
        if let Some(own) = state.own.remove(&std::thread::current().id()) {
            state.shared.in_use += own.in_use;
        }
    }

    fn allocate(&self, size: usize) -> *mut u8 {
        let mut state = self.state();
        let count = state.count();
        count.requests += 1;
        if let Some(address) = count.region.as_mut().and_then(|region| region.take(size.max(1))) {
            return ptr::with_exposed_provenance_mut(address);
        }
        // The size is stored in front of the block, because the C interface frees by address alone.
        let Some(layout) = block(size) else { return ptr::null_mut() };
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc(layout) };
        if start.is_null() {
            return ptr::null_mut();
        }
        prefer_large_pages(start, size);
        count.in_use += size as u64;
        count.peak = count.peak.max(count.in_use);
        // SAFETY: the block has `ALIGNMENT` bytes in front of the returned address, enough for a
        // `usize`.
        unsafe {
            start.cast::<usize>().write(size);
            start.add(ALIGNMENT)
        }
    }

    fn deallocate(&self, block_start: *mut u8) {
        if block_start.is_null() {
            return;
        }
        let mut state = self.state();
        let count = state.count();
        if count.region.as_mut().is_some_and(|region| region.give_back(block_start as usize)) {
            return;
        }
        // SAFETY: the address came from `allocate`, so its size is stored in front of it, and
        // `block(size)` is its original layout.
        unsafe {
            let start = block_start.sub(ALIGNMENT);
            let size = start.cast::<usize>().read();
            count.in_use = count.in_use.saturating_sub(size as u64);
            if let Some(layout) = block(size) {
                dealloc(start, layout);
            }
        }
    }
}

fn block(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(ALIGNMENT)?, ALIGNMENT).ok()
}

/// Returns the allocator that owns the address which the library passes back.
///
/// # Safety
/// `this` must come from [`CountingAllocator::as_interface`].
unsafe fn allocator<'a>(this: *const sys::OrtAllocator) -> &'a CountingAllocator {
    // SAFETY: the interface is the first member of a `repr(C)` structure that is never freed.
    unsafe { &*this.cast::<CountingAllocator>() }
}

unsafe extern "system" fn serve(this: *mut sys::OrtAllocator, size: usize) -> *mut c_void {
    // SAFETY: the library passes the address that it was given.
    unsafe { allocator(this) }.allocate(size).cast()
}

unsafe extern "system" fn reserve(this: *const sys::OrtAllocator, size: usize) -> *mut c_void {
    // SAFETY: as in `serve`.
    unsafe { allocator(this) }.allocate(size).cast()
}

unsafe extern "system" fn release(this: *mut sys::OrtAllocator, start: *mut c_void) {
    // SAFETY: as in `serve`.
    unsafe { allocator(this) }.deallocate(start.cast());
}

unsafe extern "system" fn describe(this: *const sys::OrtAllocator) -> *const sys::OrtMemoryInfo {
    // SAFETY: as in `serve`.
    unsafe { allocator(this) }.info
}
