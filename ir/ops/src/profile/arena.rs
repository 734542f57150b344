//! Profile `arena`: a runtime that obeys the layout and allocates no other memory.
//!
//! Its kernels read each operand's element before they write the result's element at that position, so
//! any element-wise operator may overwrite an operand whose live range ends there.

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
    takes_temporaries: false,
    expands_operators: false,
    multiplies_codes: false,
    keeps_buffers: false,
    sessions: None,
};
