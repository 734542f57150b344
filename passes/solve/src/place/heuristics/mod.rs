//! Heuristic placements: first fit and dive over ten orders, and the indexes that they use.

pub(super) mod dive;
pub(super) mod first_fit;
pub(super) mod occupied;
pub(super) mod orders;
pub(super) mod portfolio;
pub(super) mod skyline;
