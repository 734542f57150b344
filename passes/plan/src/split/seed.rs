//! Where regions begin, how they are looked for, and what is estimated of them.

use memc_ir::Value;
use rustc_hash::FxHashMap;

/// How the shares of a region lie.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Lie {
    /// They are equal.
    Equal,
    /// They overlap as far as windows reach.
    Overlapping,
    /// They are what a Concat joined, one operand or several at a time: the region begins behind it, and takes them apart.
    Joined,
}

/// Where a region begins, and how far it goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Seed {
    /// A value that is to be there in shares.
    pub(super) value: Value,
    /// The axis of the shares.
    pub(super) axis: usize,
    /// Number of shares.
    pub(super) parts: u64,
    /// How they lie.
    pub(super) lie: Lie,
    /// Values of more bytes are followed to where they are read and made.
    pub(super) small: u64,
    /// Whether only values are followed that one node reads: what others read too is there anyway.
    pub(super) private: bool,
    /// First and last step of what may be taken in.
    pub(super) steps: (usize, usize),
}

/// What regions are looked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Way {
    /// Whether they may begin and end where little crosses from step to step.
    pub(super) between_waists: bool,
    /// Whether rows that others need are taken to be joined: other regions may read the shares.
    pub(super) joins: bool,
    /// Whether what was joined is taken apart, and kernels add up what parts give.
    pub(super) apart: bool,
}

/// What is estimated of a region.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Grown {
    /// First and last step.
    pub(super) span: (usize, usize),
    /// Bytes that are needed while its parts are computed.
    pub(super) level: u64,
    /// What would be left of these with more and more parts.
    pub(super) least: u64,
    /// Time that it takes longer in parts, in nanoseconds.
    pub(super) nanos: u64,
}

/// What is estimated of regions by where they begin; none where nothing grows. Nothing depends on an order of it.
pub(super) type Estimates = FxHashMap<Seed, Option<Grown>>;
