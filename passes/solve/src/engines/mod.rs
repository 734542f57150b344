//! Engines: on which of several equal engines, and when, should each operation run, so that all end early and
//! the live bytes stay within a capacity?
//!
//! See `doc/engines.md` for the algorithms. In short: list schedules, which start a ready operation
//! whenever an engine is free and the bytes fit, with many priorities, and a search that changes the best
//! of them.

mod check;
mod list;
mod problem;
mod search;

pub use check::{Violation, check};
pub use problem::{EngineError, Problem, Schedule};
pub use search::{bound, solve};
