//! One worker thread a link: copies between spaces run concurrently with the kernels, in the order in
//! which they were issued.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::memory::Block;
use crate::swap_file::SwapFile;

/// Bytes that a transfer reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Region {
    /// Address and length, in bytes.
    Memory { start: usize, bytes: usize },
    /// Address of the first of `count` runs of `run` bytes, each `stride` bytes after the one before. Copies
    /// only read them.
    Runs { start: usize, run: usize, stride: usize, count: usize },
    /// Index of the file, and offset and length in bytes.
    File { file: usize, offset: u64, bytes: usize },
}

impl Region {
    /// Whether both regions share a byte.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        match (self.spanned(), other.spanned()) {
            (Self::Memory { start: a, bytes: n }, Self::Memory { start: b, bytes: m }) => {
                meet(a as u64, n, b as u64, m)
            }
            (Self::File { file: f, offset: a, bytes: n }, Self::File { file: g, offset: b, bytes: m }) => {
                f == g && meet(a, n, b, m)
            }
            _ => false,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match *self {
            Self::Memory { bytes, .. } | Self::File { bytes, .. } => bytes,
            Self::Runs { run, count, .. } => run.saturating_mul(count),
        }
    }

    /// Returns the region with the bytes between its runs.
    fn spanned(&self) -> Self {
        match *self {
            Self::Runs { start, run, stride, count } => {
                let before = stride.saturating_mul(count.saturating_sub(1));
                Self::Memory { start, bytes: before.saturating_add(run) }
            }
            other => other,
        }
    }
}

fn meet(a: u64, n: usize, b: u64, m: usize) -> bool {
    n > 0 && m > 0 && a < b.saturating_add(m as u64) && b < a.saturating_add(n as u64)
}

/// One copy over one link.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub(crate) link: usize,
    pub(crate) from: Region,
    pub(crate) to: Region,
    /// Copies of other links that must end first; all of them are issued earlier.
    pub(crate) after: Vec<usize>,
}

#[derive(Debug)]
enum Progress {
    Idle,
    Issued,
    Done,
    Failed(Option<io::Error>),
}

impl Progress {
    fn is_over(&self) -> bool {
        matches!(self, Self::Done | Self::Failed(_))
    }
}

#[derive(Debug)]
struct State {
    /// Queue of issued copies of each link.
    queues: Vec<VecDeque<usize>>,
    progress: Vec<Progress>,
    /// Time for which each link moved bytes, in nanoseconds.
    busy: Vec<u64>,
    stop: bool,
}

#[derive(Debug)]
struct Shared {
    copies: Vec<Copy>,
    files: Vec<Option<SwapFile>>,
    clock: Option<fn() -> u64>,
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pause<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        self.clock.map_or(0, |clock| clock())
    }

    fn serve(&self, link: usize) {
        let mut bounce = None;
        let mut state = self.state();
        loop {
            let Some(copy) = state.queues[link].front().copied() else {
                if state.stop {
                    return;
                }
                state = self.pause(state);
                continue;
            };
            // Wait for the copies of other links that this copy depends on.
            let after = &self.copies[copy].after;
            if after.iter().any(|other| !state.progress[*other].is_over()) {
                state = self.pause(state);
                continue;
            }
            let is_spoilt = after.iter().any(|other| !matches!(state.progress[*other], Progress::Done));
            drop(state);
            // Copy without the lock, then record time and outcome.
            let before = self.now();
            let outcome = match is_spoilt {
                true => Err(io::Error::other("a transfer that it needs failed")),
                // SAFETY: the caller of `Links::new` guarantees the addresses, the caller of
                // `Links::issue` guarantees exclusive access now.
                false => unsafe { self.copy(copy, &mut bounce) },
            };
            let after = self.now();
            state = self.state();
            state.busy[link] = state.busy[link].saturating_add(after.saturating_sub(before));
            state.progress[copy] = match outcome {
                Ok(()) => Progress::Done,
                Err(error) => Progress::Failed(Some(error)),
            };
            state.queues[link].pop_front();
            self.changed.notify_all();
        }
    }

    /// Carries out one copy.
    ///
    /// # Safety
    /// Memory regions must be valid. No other code may write to the source or touch the target.
    unsafe fn copy(&self, copy: usize, bounce: &mut Option<Block>) -> io::Result<()> {
        let Copy { from, to, .. } = &self.copies[copy];
        let file =
            |index: usize| self.files.get(index).and_then(Option::as_ref).ok_or(io::ErrorKind::NotFound);
        let address = |start: usize| std::ptr::with_exposed_provenance_mut::<u8>(start);
        // SAFETY: as above.
        unsafe {
            match (*from, *to) {
                (Region::Memory { start, bytes }, Region::Memory { start: target, .. }) => {
                    // The regions may overlap in a wrong plan.
                    std::ptr::copy(address(start), address(target), bytes);
                    Ok(())
                }
                (Region::Runs { start, run, stride, count }, Region::Memory { start: target, .. }) => {
                    for number in 0..count {
                        std::ptr::copy(address(start + number * stride), address(target + number * run), run);
                    }
                    Ok(())
                }
                (Region::Runs { .. }, _) | (_, Region::Runs { .. }) => Err(io::ErrorKind::Unsupported.into()),
                (Region::Memory { start, bytes }, Region::File { file: index, offset, .. }) => {
                    file(index)?.write(std::slice::from_raw_parts(address(start), bytes), offset, bounce)
                }
                (Region::File { file: index, offset, bytes }, Region::Memory { start, .. }) => {
                    file(index)?.read(std::slice::from_raw_parts_mut(address(start), bytes), offset, bounce)
                }
                (
                    Region::File { file: source, offset, bytes },
                    Region::File { file: target, offset: at, .. },
                ) => {
                    let mut between =
                        Block::new(bytes as u64, 64, 0).map_err(|_| io::ErrorKind::OutOfMemory)?;
                    file(source)?.read(between.bytes_mut(), offset, bounce)?;
                    file(target)?.write(between.bytes(), at, bounce)
                }
            }
        }
    }
}

/// The worker threads, and all copies of a plan.
#[derive(Debug)]
pub(crate) struct Links {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl Links {
    /// Starts one worker thread a link.
    ///
    /// # Safety
    /// The memory regions of all copies must stay valid until the links are dropped. Both sides of a
    /// copy must have equal lengths.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) unsafe fn new(
        links: usize,
        copies: Vec<Copy>,
        files: Vec<Option<SwapFile>>,
        clock: Option<fn() -> u64>,
    ) -> io::Result<Self> {
        let state = State {
            queues: (0..links).map(|_| VecDeque::with_capacity(copies.len())).collect(),
            progress: copies.iter().map(|_| Progress::Idle).collect(),
            busy: vec![0; links],
            stop: false,
        };
        let shared = Shared { copies, files, clock, state: Mutex::new(state), changed: Condvar::new() };
        let mut made = Self { shared: Arc::new(shared), workers: Vec::with_capacity(links) };
        for link in 0..links {
            let shared = made.shared.clone();
            let worker = std::thread::Builder::new()
                .name(format!("memc-link-{link}"))
                .spawn(move || shared.serve(link))?;
            made.workers.push(worker);
        }
        Ok(made)
    }

    /// Clears the state of the last run.
    pub(crate) fn reset(&self) {
        let mut state = self.shared.state();
        state.busy.fill(0);
        state.progress.iter_mut().for_each(|progress| *progress = Progress::Idle);
    }

    /// Queues a copy on its link.
    ///
    /// # Safety
    /// Until the copy is waited for, only copies ordered by `after` may write to its source or touch its
    /// target.
    pub(crate) unsafe fn issue(&self, copy: usize) {
        let mut state = self.shared.state();
        state.progress[copy] = Progress::Issued;
        state.queues[self.shared.copies[copy].link].push_back(copy);
        self.shared.changed.notify_all();
    }

    /// Waits until a copy is over; returns at once if the copy was never issued.
    ///
    /// # Errors
    /// The copy failed. The first call after the failure returns its cause.
    pub(crate) fn wait(&self, copy: usize) -> io::Result<()> {
        let mut state = self.shared.state();
        while matches!(state.progress[copy], Progress::Issued) {
            state = self.shared.pause(state);
        }
        match &mut state.progress[copy] {
            Progress::Failed(error) => {
                Err(error.take().unwrap_or_else(|| io::Error::other("the transfer failed")))
            }
            _ => Ok(()),
        }
    }

    /// Waits for all issued copies.
    pub(crate) fn drain(&self) {
        let mut state = self.shared.state();
        while state.queues.iter().any(|queue| !queue.is_empty()) {
            state = self.shared.pause(state);
        }
    }

    /// Returns the time for which a link moved bytes since the last reset, in nanoseconds.
    pub(crate) fn busy(&self, link: usize) -> u64 {
        self.shared.state().busy.get(link).copied().unwrap_or(0)
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        // The memory of the copies is freed after this, so all copies must end first.
        self.drain();
        self.shared.state().stop = true;
        self.shared.changed.notify_all();
        for worker in self.workers.drain(..) {
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn memory(block: &Block, offset: usize, bytes: usize) -> Region {
        Region::Memory { start: block.address().expose_provenance() + offset, bytes }
    }

    #[test]
    fn copies_of_two_links_keep_their_order() {
        const SIZE: usize = 1 << 16;
        let mut near = Block::new(2 * SIZE as u64, 64, 7).unwrap();
        let far = Block::new(SIZE as u64, 64, 0).unwrap();
        near.bytes_mut()[SIZE..].fill(9);
        let copies = vec![
            Copy { link: 0, from: memory(&near, 0, SIZE), to: memory(&far, 0, SIZE), after: Vec::new() },
            Copy { link: 1, from: memory(&far, 0, SIZE), to: memory(&near, SIZE, SIZE), after: vec![0] },
        ];
        // SAFETY: the blocks are dropped after the links.
        let links = unsafe { Links::new(2, copies, Vec::new(), None) }.unwrap();
        for _ in 0..50 {
            links.reset();
            // SAFETY: no code touches the blocks before the drain.
            unsafe {
                links.issue(0);
                links.issue(1);
            }
            links.wait(1).unwrap();
            links.drain();
            assert!(near.bytes().iter().all(|byte| *byte == 7));
            near.bytes_mut()[SIZE..].fill(9);
        }
        drop(links);
        drop(far);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_failed_copy_is_reported_and_fails_its_dependents() {
        let near = Block::new(128, 64, 1).unwrap();
        let full = std::fs::OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
        let file = Region::File { file: 0, offset: 0, bytes: 128 };
        let copies = vec![
            Copy { link: 0, from: memory(&near, 0, 128), to: file, after: Vec::new() },
            Copy { link: 1, from: file, to: memory(&near, 0, 128), after: vec![0] },
        ];
        // SAFETY: the block is dropped after the links.
        let links = unsafe { Links::new(2, copies, vec![Some(SwapFile::over(full))], None) }.unwrap();
        // SAFETY: no code touches the block before the waits.
        unsafe {
            links.issue(0);
            links.issue(1);
        }
        assert_eq!(links.wait(0).expect_err("full").kind(), io::ErrorKind::StorageFull);
        assert!(links.wait(1).is_err());
        drop(links);
        assert!(near.bytes().iter().all(|byte| *byte == 1), "nothing was read back");
    }
}
