//! Which values to keep, to compute again or to move away, so that memory stays within a capacity at the least extra time.
//!
//! [`Problem`] says what runs and what it reads; a [`Plan`] is a sequence of [`Event`]s, which [`solve`] finds and [`check`] judges.

mod check;
mod evaluate;
mod greedy;
mod model;
mod polish;
mod problem;
mod solve;
mod state;
mod tree;

pub use check::{BudgetViolation, check};
pub use problem::{BudgetError, Event, Link, Origin, Plan, Problem, Run, Space, Value};
pub use solve::solve;
