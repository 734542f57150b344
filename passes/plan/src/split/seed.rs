//! Seeds: starting points of regions, the ways to grow them, and their estimates.

use memc_ir::Value;
use rustc_hash::FxHashMap;

/// Relation of the shares of a region to each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Lie {
    /// All shares are equal.
    Equal,
    /// Shares overlap by the reach of sliding windows.
    Overlapping,
    /// Shares are one or several operands of a Concat: the region begins at the Concat's result and
    /// removes the Concat.
    Joined,
}

/// Starting point of a region, and limits of its growth.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Seed {
    /// Value to split.
    pub(super) value: Value,
    /// Axis of the shares.
    pub(super) axis: usize,
    /// Number of shares.
    pub(super) parts: u64,
    /// Relation of the shares.
    pub(super) lie: Lie,
    /// Size in bytes; the region grows through larger values only.
    pub(super) small: u64,
    /// Whether the region grows only through values with a single reader: others are live anyway.
    pub(super) private: bool,
    /// First and last step that its nodes may have.
    pub(super) steps: (usize, usize),
}

/// Kind of regions to search.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Way {
    /// Whether regions begin and end at narrow borders.
    pub(super) between_waists: bool,
    /// Whether estimates assume a Concat of rows that other nodes need; otherwise other regions may read
    /// the shares.
    pub(super) joins: bool,
    /// Whether regions may remove Concats, and kernels may add up partial sums.
    pub(super) apart: bool,
}

/// Estimate of a region.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Grown {
    /// First and last step.
    pub(super) span: (usize, usize),
    /// Maximum bytes of a step while the parts are computed.
    pub(super) level: u64,
    /// Limit of `level` as the number of parts grows, in bytes.
    pub(super) least: u64,
    /// Extra time of the parts, in nanoseconds.
    pub(super) nanos: u64,
}

/// Estimates by seed; `None` if no region grows. The order of the map has no effect.
pub(super) type Estimates = FxHashMap<Seed, Option<Grown>>;
