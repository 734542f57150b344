//! Intervals of rows over which something can be absent.

/// Something that can be absent over a range of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// First row.
    pub first: u32,
    /// Last row.
    pub last: u32,
    /// Bytes that it frees; at least 1.
    pub size: u64,
    /// What its absence costs.
    pub cost: u64,
}
