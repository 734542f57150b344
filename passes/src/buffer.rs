//! Caches that are kept in one buffer, and the reasons for which a cache cannot be.

use memc_ir::DimExpr;

/// A cache that is kept in one buffer, by the names of its values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GrownCache {
    /// Name of the graph input with the rows so far.
    pub input: String,
    /// Name of the graph output with the rows so far and the new rows.
    pub output: String,
    /// Axis of the rows.
    pub axis: usize,
    /// Number of rows that the buffer holds.
    pub capacity: u64,
    /// Number of rows that a run appends; the largest number if it depends on free dimensions.
    pub rows: u64,
    /// Number of rows that a run appends, if it depends on free dimensions.
    pub rows_expr: Option<DimExpr>,
    /// Name of the graph input with the number of valid rows before the run.
    pub count: String,
    /// Dimensions of the given model that grow with the number of rows, with their extents for a full
    /// buffer. Empty if the given model has one number of rows.
    pub grows: Vec<(String, DimExpr)>,
}

/// Why a cache cannot be kept in one buffer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CacheError {
    /// The new value is not the old value with rows appended.
    #[error("`{new}` is not `{old}` with rows appended: {why}")]
    NotGrowing {
        /// Name of the graph output.
        new: String,
        /// Name of the graph input.
        old: String,
        /// The reason.
        why: String,
    },
    /// A node computes with the number of rows in a way that a longer buffer would change.
    #[error("`{node}` ({operator}) needs the exact number of rows of `{value}`: {why}")]
    Exact {
        /// Name of the node, or of its first result; the name of the value for graph outputs.
        node: String,
        /// Operator of the node.
        operator: String,
        /// Name of the value.
        value: String,
        /// The reason.
        why: String,
    },
    /// The caches of the model cannot share one number of valid rows, or no operator can write them.
    #[error("the caches cannot be kept together: {why}")]
    Together {
        /// The reason.
        why: String,
    },
}

impl CacheError {
    /// Returns the stable code, as `memc explain` knows it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotGrowing { .. } => "E0324",
            Self::Exact { .. } => "E0325",
            Self::Together { .. } => "E0326",
        }
    }

    /// Returns the next step.
    pub fn help(&self) -> &'static str {
        match self {
            Self::NotGrowing { .. } => {
                "name a graph output that is Concat(input, new rows) and this graph input; leave out `--state` for other pairs"
            }
            Self::Exact { .. } => {
                "leave out `--state` for caches: the model then returns a longer copy of each cache, as it was given"
            }
            Self::Together { .. } => {
                "bind the number of rows with `--dim`, and name the pairs of all caches, as in `--state 'present*=past*'`"
            }
        }
    }
}
