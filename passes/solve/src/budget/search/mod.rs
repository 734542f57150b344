//! Searches over sequences: recomputation at the best price, annealing, ruin and recreate, and descent.

pub(super) mod anneal;
pub(super) mod bridge;
pub(super) mod chain;
pub(super) mod polish;
pub(super) mod relief;
pub(super) mod ruin;
