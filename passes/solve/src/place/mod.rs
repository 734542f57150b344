//! Placement: offsets in one arena for buffers with known live ranges ("dynamic storage allocation").
//!
//! See `doc/place.md` for the algorithms. In short: normal form in sections, the maximum load as lower bound, first fit and dive over ten orders,
//! then branch and bound at the bound first, and a search for planar networks where hardly anything is empty.

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
