//! Placement: finds offsets in one arena for buffers with known live ranges ("dynamic storage
//! allocation").
//!
//! See `doc/place.md` for the algorithms. In short: the problem is converted to a normal form of
//! sections, and the maximum load gives a lower bound. First fit and dive run over ten orders. Then come
//! a branch and bound that starts at the bound, and a search for planar networks if the arena has nearly
//! no empty space.

mod bound;
mod check;
pub mod csv;
mod exact;
mod heuristics;
mod infeasible;
mod large;
mod normal;
mod planar;
mod problem;
mod repair;
mod settle;
mod stages;

pub use check::{Violation, check};
pub use infeasible::infeasible_subset;
pub use problem::{Buffer, Gap, Problem, ProblemError, Solution};
pub use settle::{heights, settle};
pub use stages::solve;
