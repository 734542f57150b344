//! Heuristic orders: depth-first and greedy orders, their portfolio, and ties in favor of a given order.

pub(super) mod depth_first;
pub(super) mod greedy;
pub(super) mod nearer;
pub(super) mod portfolio;
