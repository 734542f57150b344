//! Constants in a farther space, as keys of a layout file.

use serde::{Deserialize, Serialize};

/// A constant that is copied from a farther space before it is read, as a whole, in part or by rows. The
/// constant keeps its place.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetch {
    /// The constant.
    pub tensor: String,
    /// The near copy.
    pub result: String,
    /// Space of the constant.
    pub from: String,
    /// Space of the copy.
    pub to: String,
    /// Step of the node that copies it: an `Identity`, a `Slice` of a part, or a `Gather` of rows.
    pub step: u64,
    /// Size of the copy.
    pub bytes: u64,
    /// The part that is copied. Absent if the whole constant, or rows, are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<FetchedPart>,
    /// The rows that are copied. Absent if the whole constant, or a part, is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<FetchedRows>,
}

/// Consecutive positions of one axis of a constant.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchedPart {
    /// The axis, from 0.
    pub axis: u64,
    /// First position.
    pub start: u64,
    /// Position after the last one.
    pub end: u64,
}

/// Positions of the first axis of a constant, which a run computes.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchedRows {
    /// The tensor that holds the positions.
    pub indices: String,
    /// Number of rows that are copied, equal ones counted again.
    pub count: u64,
}
