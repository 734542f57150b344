//! Profile `player`: memc's player, which obeys the layout like `arena` and runs ONNX Runtime's kernels
//! one node at a time.
//!
//! Offsets, sub-views and in-place writes follow `arena`, except for kernels that reread their operand.
//! The workspace is that of ONNX Runtime's kernels.

use super::{Kernels, Profile, arena};

/// The profile.
pub(crate) const PROFILE: Profile = Profile {
    name: "player",
    takes_temporaries: true,
    kernels: Kernels::AllButReadingAgain,
    multiplies_codes: true,
    ..arena::PROFILE
};
