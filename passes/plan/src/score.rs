//! Scores: the one order of plans under a goal.

use memc_ir::Bytes;

/// What a plan is worth under a goal; the least is the best. Fields compare in this order. [`crate::Goal::score`] makes it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Score {
    /// Bytes above the limit.
    pub beyond: u64,
    /// Nanoseconds above the longest time.
    pub late: u64,
    /// What the goal makes least: nanoseconds, bytes, or both in one sum.
    pub cost: u64,
    /// Bytes of the first space.
    pub bytes: Bytes,
    /// Modelled nanoseconds.
    pub nanos: u64,
    /// Nodes of the main graph.
    pub nodes: usize,
}

impl Score {
    /// Whether the plan keeps the limits of bytes and time.
    pub fn keeps(&self) -> bool {
        self.beyond == 0 && self.late == 0
    }
}
