//! Form of computed extents, and the extents computed so far.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{DimExpr, Node, Value};

/// Form of the nodes and constants that compute extents.
#[derive(Clone, Copy, Debug)]
pub struct ExtentForm {
    /// Hints for the names of numbers, shapes and computed extents.
    pub hints: [&'static str; 3],
    /// Extents of each value: `[1]` for vectors, none for scalars.
    pub dims: &'static [u64],
    /// Node before which all nodes are inserted. Without one they are inserted at the end, and come first
    /// once the maker is done.
    pub before: Option<Node>,
    /// Whether equal numbers, and shapes of one input, are made once.
    pub is_shared: bool,
}

impl Default for ExtentForm {
    fn default() -> Self {
        Self { hints: ["extents"; 3], dims: &[1], before: None, is_shared: true }
    }
}

/// Extents computed so far.
#[derive(Debug, Default)]
pub(crate) struct Computed {
    pub(crate) values: BTreeMap<DimExpr, Value>,
    pub(crate) quotients: BTreeMap<(DimExpr, DimExpr), Value>,
    pub(crate) vectors: BTreeMap<Vec<DimExpr>, Value>,
    pub(crate) shapes: BTreeMap<Value, Value>,
    /// Nodes that compute them without a place in the graph, in running order.
    pub(crate) nodes: Vec<Node>,
}

impl Computed {
    /// Returns the nodes as a set.
    pub(crate) fn nodes(&self) -> BTreeSet<Node> {
        self.nodes.iter().copied().collect()
    }
}
