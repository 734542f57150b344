//! Intervals of rows over which bytes can be absent.

/// Bytes that can be absent over a range of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// First row.
    pub first: u32,
    /// Last row.
    pub last: u32,
    /// Number of bytes freed; at least 1.
    pub size: u64,
    /// Cost of the absence.
    pub cost: u64,
}
