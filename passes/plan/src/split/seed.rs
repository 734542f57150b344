//! Seeds: where regions begin, in which ways they grow, and their estimates.

use memc_ir::Value;
use rustc_hash::FxHashMap;

/// How the shares of a region lie.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Lie {
    /// They are equal.
    Equal,
    /// They overlap by the reach of windows.
    Overlapping,
    /// They are operands of a Concat, one or several each: the region begins behind it, and takes it apart.
    Joined,
}

/// Where a region begins, and how far it grows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Seed {
    /// The value to divide.
    pub(super) value: Value,
    /// The axis of the shares.
    pub(super) axis: usize,
    /// Number of shares.
    pub(super) parts: u64,
    /// How they lie.
    pub(super) lie: Lie,
    /// The region grows through values of more bytes than this.
    pub(super) small: u64,
    /// Whether it grows only through values that one node reads: others are live anyway.
    pub(super) private: bool,
    /// First and last step of its nodes.
    pub(super) steps: (usize, usize),
}

/// Which regions are sought.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Way {
    /// Whether they begin and end at narrow borders.
    pub(super) between_waists: bool,
    /// Whether estimates assume a Concat of rows that other nodes need; otherwise other regions may read the shares.
    pub(super) joins: bool,
    /// Whether Concats are taken apart, and kernels add up partial sums.
    pub(super) apart: bool,
}

/// Estimate of a region.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Grown {
    /// First and last step.
    pub(super) span: (usize, usize),
    /// Highest bytes of a step while its parts are computed.
    pub(super) level: u64,
    /// Limit of these bytes for ever more parts.
    pub(super) least: u64,
    /// Extra time in parts, in nanoseconds.
    pub(super) nanos: u64,
}

/// Estimates by seed; `None` where nothing grows. Its order has no effect.
pub(super) type Estimates = FxHashMap<Seed, Option<Grown>>;
