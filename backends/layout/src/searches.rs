//! How a plan was found, as keys of a layout file.

use serde::{Deserialize, Serialize};

/// Strategy and pipeline that found a plan.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// Strategy that found it.
    pub strategy: String,
    /// Pipeline that makes the plan from the input model: `--passes` repeats it.
    pub passes: String,
}

/// Result of a search.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Solver {
    /// Pass that searched.
    pub pass: String,
    /// Unit of the value: `bytes` or `ns`.
    pub unit: String,
    /// Value of the best solution found; smaller is better.
    pub value: u64,
    /// Lower bound of the value.
    pub lower_bound: u64,
    /// Reason for which the search stopped.
    pub stop: String,
    /// Effort of the search, in search nodes.
    pub effort: u64,
}

/// A budget, and the best plan found within it.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParetoPoint {
    /// Limit of the arena.
    pub budget: u64,
    /// Arena of the plan.
    pub arena: u64,
    /// Modelled time beyond that of a plan without a limit, in nanoseconds.
    pub extra_ns: u64,
    /// Lower bound of the extra time of any plan within the budget, in nanoseconds; null if not
    /// derived.
    #[serde(deserialize_with = "Option::deserialize")]
    pub bound: Option<u64>,
}
