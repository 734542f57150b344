//! Values with rows that are not valid, and changes that keep every valid element.

use memc_ir::{DimExpr, Node};

use super::lengths::Number;

/// Elements of a value at rows that are not valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fill {
    /// Those that the given model computes for a full buffer.
    Full,
    /// Any finite numbers.
    Finite,
    /// Any numbers.
    Any,
    /// Zeros.
    Zero,
}

impl Fill {
    /// Whether all elements are finite, if the elements of constants are.
    pub(super) fn is_finite(self) -> bool {
        self != Self::Any
    }
}

/// Rows of a padded value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pad {
    /// Axis of the rows.
    pub axis: usize,
    /// Elements at rows that are not valid.
    pub fill: Fill,
}

/// A change to the model.
#[derive(Clone, Debug)]
pub(super) enum Edit {
    /// An operand is computed from the number of valid rows.
    Count { node: Node, position: usize, number: Number },
    /// Rows of an operand that are not valid become minus infinity.
    Hide { node: Node, position: usize, axis: usize },
    /// A missing mask of attention hides rows that are not valid.
    Mask { node: Node, position: usize, queries: DimExpr, rows: DimExpr },
    /// Slice takes a fixed number of rows at a place that depends on the number of valid rows.
    Window { node: Node, axis: usize, number: Number, rows: DimExpr },
    /// Gather looks up rows by indices that a run states: negative ones count from the last valid row.
    FromEnd { node: Node, extent: DimExpr },
    /// Range counts a fixed number of rows from a start that depends on the number of valid rows.
    Offset { node: Node, start: Number, distance: DimExpr, step: i64 },
    /// Shape reads the extents of a cache before the run.
    Extents { node: Node },
}
