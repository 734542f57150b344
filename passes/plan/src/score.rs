//! Scores: the total order of plans under a goal.

use memc_ir::Bytes;

/// Score of a plan under a goal; the smallest score is the best. Fields compare in this order. Made by
/// [`crate::Goal::score`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Score {
    /// Bytes above the limit.
    pub beyond: u64,
    /// Nanoseconds above the time limit.
    pub late: u64,
    /// The quantity that the goal minimizes: nanoseconds, bytes, or their priced sum.
    pub cost: u64,
    /// Need of the first space, in bytes.
    pub bytes: Bytes,
    /// Modelled time, in nanoseconds.
    pub nanos: u64,
    /// Nodes of the main graph.
    pub nodes: usize,
}

impl Score {
    /// Returns whether the plan keeps the byte limit and the time limit.
    pub fn keeps(&self) -> bool {
        self.beyond == 0 && self.late == 0
    }
}
