//! How a plan is played.

use std::path::PathBuf;

use memc_layout::Layout;

use crate::runtime::SessionOptions;

/// Start of the names of spaces that are files rather than memory.
const FILES: &str = "disk";

/// How a plan is played.
#[derive(Clone, Debug, Default)]
pub struct PlayOptions {
    /// Watch every value from its writer to its last reader, fill with poison what the plan says is dead, guard the bytes between.
    pub poison_check: bool,
    /// Play a layout whose hash is not the model's, and what it says even where it contradicts itself. For experiments with changed
    /// layouts only.
    pub any_model: bool,
    /// Where the files of spaces lie that are no memory (those whose names begin with `disk`); the system's folder for such files without.
    pub swap_folder: Option<PathBuf>,
    /// Let kernels wait for each transfer as soon as it starts, so that nothing overlaps: to measure what overlapping saves.
    pub serial_transfers: bool,
    /// Gives nanoseconds since any moment, to measure runs and waits; the library has no clock of its own.
    pub clock: Option<fn() -> u64>,
}

impl PlayOptions {
    /// Whether a space is a file.
    pub(crate) fn is_file(&self, space: &str) -> bool {
        space.starts_with(FILES)
    }

    /// Whether each transfer is over before the step that starts it.
    pub(crate) fn is_serial(&self) -> bool {
        // What is watched is looked at right after its step.
        self.serial_transfers || self.poison_check
    }

    /// The clock's time; 0 without one.
    pub(crate) fn now(&self) -> u64 {
        self.clock.map_or(0, |clock| clock())
    }
}

/// Options of sessions that a plan is compared with, and of its own. A constant that is fetched reaches its kernel as any other operand, which
/// may round otherwise than what a kernel has packed beforehand: then nobody packs.
pub(crate) fn reference(layout: &Layout) -> SessionOptions {
    SessionOptions { prepack: layout.fetches.is_empty(), ..SessionOptions::PLAIN }
}
