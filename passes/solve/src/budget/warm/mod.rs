//! Warm starts: sequences from which the searches begin.

pub(super) mod cover;
pub(super) mod greedy;
pub(super) mod reorder;
