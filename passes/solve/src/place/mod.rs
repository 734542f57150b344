//! Placement: finds offsets in one arena for buffers with known live ranges ("dynamic storage
//! allocation").
//!
//! See `doc/place.md` for the algorithms. In short: the problem is converted to a normal form of
//! sections, and the maximum load gives a lower bound. First fit and dive run over ten orders. Then come
//! a branch and bound that starts at the bound, and a search for planar networks if the arena has nearly
//! no empty space.

mod aside;
mod bound;
mod check;
mod core;
pub mod csv;
mod dive;
mod exact;
mod first_fit;
mod infeasible;
mod instance;
mod neighbors;
mod normal;
mod occupied;
mod orders;
mod planar;
mod portfolio;
mod problem;
mod ranking;
mod repair;
mod restart;
mod search;
mod shake;
mod skeleton;
mod skyline;
mod stages;
mod valley;

pub use check::{Violation, check};
pub use infeasible::infeasible_subset;
pub use problem::{Buffer, Gap, Problem, ProblemError, Solution};
pub use stages::solve;
