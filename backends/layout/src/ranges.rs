//! Types of plans for ranges of dimensions.

use serde::{Deserialize, Serialize};

/// Extents of a free dimension: `min`, `min + step`, and so on up to `max`.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extents {
    /// Smallest extent.
    pub min: u64,
    /// Largest extent.
    pub max: u64,
    /// Distance of neighboring extents, at least 1.
    pub step: u64,
}

/// An expression over free dimensions with its largest value.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The expression, such as `height*width`.
    pub of: String,
    /// Its largest value.
    pub most: u64,
}

/// Offset of a tensor as a formula: the first aligned byte above the tensors that it lies on.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormulaRow {
    /// A tensor that owns its bytes.
    pub tensor: String,
    /// Tensors of earlier rows that it lies on: its offset is the largest sum of offset and bytes of
    /// these, rounded up to the alignment of the space. Absent if it lies at offset 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<String>,
}
