//! Profile `player`: memc's own player, which obeys the layout as `arena` does and runs ONNX Runtime's kernels, one node at a time.
//!
//! Places, windows and in-place writes are those of `arena`; the workspace is what ONNX Runtime's kernels take.

use super::ort_temporaries::temporaries;
use super::{Profile, arena};

/// The profile.
pub(crate) const PROFILE: Profile = Profile { name: "player", temporaries, ..arena::PROFILE };
