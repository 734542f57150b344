//! Profile `arena`: a runtime that obeys the layout and adds nothing of its own.
//!
//! Its kernels read an element of each operand before they write the element of the result at the same place, so that any
//! element-wise operator may run over a dying operand.

use memc_ir::Bytes;

use super::own::ONNX_RUNTIME;
use super::{Kernels, Profile};

/// The profile.
pub(crate) const PROFILE: Profile = Profile {
    name: "arena",
    alignment: 64,
    rounding: 1,
    windows: true,
    shared_outputs: true,
    caller_buffers: true,
    holds_unread_results: false,
    widens_halves: false,
    takes_workspace: true,
    max_scratch_threads: 1,
    kernels: Kernels::All,
    same_type_views: true,
    temporaries: |_| Some(Bytes(0)),
    expanded: &[],
    own: ONNX_RUNTIME,
    kept: &[],
    sessions: None,
};
