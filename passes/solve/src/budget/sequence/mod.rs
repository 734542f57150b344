//! Sequences of operations, as all searches change them: the problem in flat arrays, the sequence with
//! its live bytes, undo, and the way from a sequence to a plan.

pub(super) mod edits;
pub(super) mod emit;
pub(super) mod evaluate;
pub(super) mod model;
pub(super) mod soft;
pub(super) mod state;
