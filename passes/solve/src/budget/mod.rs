//! Budget planning: chooses which values to keep, to recompute or to move away, so that memory stays
//! within a capacity at the least extra time.
//!
//! [`Problem`] lists the runs and the values that they read and make. A [`Plan`] is a sequence of
//! [`Event`]s: [`plan`] searches for one, and [`check`] judges it. [`bound`] proves lower bounds for all
//! plans; [`json`] reads problems and writes answers.

pub mod bound;
mod certified;
mod check;
pub mod exact;
pub mod json;
mod problem;
mod search;
mod sequence;
mod solve;
mod tighten;
mod transfers;
mod warm;

pub use certified::{Certified, plan};
pub use check::{BudgetViolation, check, measure};
pub use problem::{BudgetError, Event, Link, Origin, Plan, Problem, Run, Space, Value};
pub use solve::{improve, solve, solve_until};
pub use tighten::tighten;
