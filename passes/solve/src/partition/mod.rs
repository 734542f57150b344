//! Partition: divides a graph over devices, one section a device, so that the slowest or the largest
//! section is as small as possible.
//!
//! See `doc/partition.md` for the algorithms. In short: nodes that must share a device are merged; a
//! dynamic program over prefixes of a few orders gives a first answer; the same program over all
//! down-sets of the graph, if they are few enough, gives the optimum.

mod bound;
mod check;
mod down_sets;
mod dynamic;
pub mod json;
mod merged;
mod orders;
mod piece;
mod problem;
mod reduce;
mod solve;

pub use check::{Load, Violation, check, loads};
pub use problem::{
    Arrangement, Device, Link, Node, Objective, Pipeline, Problem, ProblemError, Replica, Section, Solution,
    Value,
};
pub use solve::{Piece, linear, pieces, solve};
