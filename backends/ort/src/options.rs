//! Options of playing a plan.

use std::path::PathBuf;

use memc_layout::Layout;

use crate::runtime::SessionOptions;

/// Prefix of the names of spaces that are files instead of memory.
const FILES: &str = "disk";

/// Clocks of a measurement, each in nanoseconds since any fixed moment. The library has no clock of its own.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// Time that passes.
    pub wall: fn() -> u64,
    /// Time for which a processor ran the calling thread.
    pub processor: fn() -> u64,
}

/// Time of a kernel by both clocks, in nanoseconds; 0 without a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelTime {
    /// Time that passed.
    pub wall: u64,
    /// Time of the processor.
    pub processor: u64,
}

/// Options of playing a plan.
#[derive(Clone, Debug, Default)]
pub struct PlayOptions {
    /// Whether to check the plan while it runs: watch every value from its writer to its last reader,
    /// poison bytes that are dead according to the plan, and guard the bytes between values.
    pub poison_check: bool,
    /// Whether to play a layout whose hash differs from the model's or that contradicts itself. Only for
    /// experiments with changed layouts.
    pub any_model: bool,
    /// Folder for the files of spaces that are not memory (their names begin with `disk`). If `None`,
    /// the system's temporary folder.
    pub swap_folder: Option<PathBuf>,
    /// Whether kernels wait for each transfer as soon as it starts, so that nothing overlaps. Measures
    /// the time that overlapping saves.
    pub serial_transfers: bool,
    /// Called on each engine before the kernel of a step, by its position: tests of plans for several engines
    /// let it sleep.
    pub delay: Option<fn(usize)>,
    /// Clock for measuring runs and waits: nanoseconds since any fixed moment. The library has no clock
    /// of its own.
    pub clock: Option<fn() -> u64>,
    /// Clock of the processor's time of the calling thread, in nanoseconds since any fixed moment.
    pub processor: Option<fn() -> u64>,
}

impl PlayOptions {
    /// Whether a space is a file.
    pub(crate) fn is_file(&self, space: &str) -> bool {
        space.starts_with(FILES)
    }

    /// Whether each transfer ends before the step that starts it.
    pub(crate) fn is_serial(&self) -> bool {
        // Watched bytes are examined right after their step, so transfers must be over.
        self.serial_transfers || self.poison_check
    }

    /// Returns the clock's time in nanoseconds; 0 without a clock.
    pub(crate) fn now(&self) -> u64 {
        self.clock.map_or(0, |clock| clock())
    }

    /// Returns both times of the calling thread, in nanoseconds; 0 without a clock. The processor's clock is
    /// read inside: `begin` says whether before or after the other one.
    pub(crate) fn times(&self, begin: bool) -> KernelTime {
        let processor = || self.processor.map_or(0, |clock| clock());
        if begin {
            let wall = self.now();
            KernelTime { wall, processor: processor() }
        } else {
            let processor = processor();
            KernelTime { wall: self.now(), processor }
        }
    }
}

/// Returns options for a plan's own sessions and for the sessions that the plan is compared with. A
/// fetched constant reaches its kernel as an ordinary operand, which may round otherwise than prepacked
/// weights; so if the plan fetches constants, no session packs.
pub(crate) fn reference(layout: &Layout) -> SessionOptions {
    SessionOptions { prepack: layout.fetches.is_empty(), ..SessionOptions::PLAIN }
}
