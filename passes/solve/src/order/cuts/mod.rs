//! Minimum cuts: lower bounds of single steps, pairs of operations that a peak forces, and sets that can
//! run at once.

pub(super) mod closure;
pub(super) mod commit;
pub(super) mod narrow;
pub(super) mod witness;
