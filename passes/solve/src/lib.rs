//! Ordering and placement as pure problems, each with bounds and an independent checker.
//!
//! This crate knows nothing of graphs, tensors or ONNX. It solves two problems that a memory compiler asks:
//!
//! - [`order`]: in which order should operations run, so that the most bytes that live at one step are as few as possible?
//! - [`place`]: at which offset of one arena should each buffer lie, so that buffers that live together never share a byte
//!   and the arena is as small as possible?
//!
//! Both problems are NP-hard, so both solvers are portfolios: cheap heuristics first, a search with proof afterwards, and the best of all of them is kept.
//! Every answer is an [`Outcome`]: a solution, its value, a *lower bound* that no solution can beat, and the reason why the solver stopped.
//! If value and bound are equal, the answer is proven best.
//!
//! Three rules hold everywhere:
//!
//! - *Reproducible.* Effort is counted in steps, never in seconds; ties are broken by the order of the input. The same input gives the same
//!   answer on every machine.
//! - *Checked.* [`place::check`] and [`order::check`] judge answers and share no code with the solvers.
//! - *Never worse.* A solver that is given a starting point returns it unless it finds something strictly better.
//!
//! The pages `doc/place.md` and `doc/order.md` of this crate tell the algorithms, their sources and their limits; [`tuning`] tells how the numbers that
//! steer them are passed and chosen.

pub mod budget;
mod lists;
mod no_goods;
pub mod order;
pub mod place;
pub mod tuning;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use tuning::Tuning;

/// How much a solver may do beyond its cheap heuristics, and what steers it.
///
/// Effort is counted in search nodes, so that a result does not depend on the speed of the machine. A node is some twenty microseconds of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Nodes that the exact search may visit in total; 0 runs the heuristics alone.
    pub nodes: u64,
    /// Numbers that steer the searches.
    pub tuning: Tuning,
}

impl Limit {
    /// Limit of `nodes` search nodes with the default tuning.
    #[must_use]
    pub const fn nodes(nodes: u64) -> Self {
        Self { nodes, tuning: Tuning::DEFAULT }
    }

    /// Replaces the number of nodes, and keeps the tuning.
    #[must_use]
    pub const fn with_nodes(self, nodes: u64) -> Self {
        Self { nodes, ..self }
    }
}

impl Default for Limit {
    /// A limit that keeps graphs of some thousand operations well under half a second.
    fn default() -> Self {
        Self::nodes(20_000)
    }
}

/// A request from outside that searches end early, with the best answer found until then.
///
/// Clones share one flag, so a clone kept by another thread ends the searches that hold the original. The default can never be requested, and changes
/// no search.
#[derive(Clone, Debug, Default)]
pub struct Stop(Option<Arc<AtomicBool>>);

impl Stop {
    /// A stop that [`Stop::request`] triggers.
    #[must_use]
    pub fn on_request() -> Self {
        Self(Some(Arc::default()))
    }

    /// Ends the searches that hold a clone of this stop. Does nothing on the default.
    pub fn request(&self) {
        if let Some(flag) = &self.0 {
            flag.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a request can ever come.
    #[must_use]
    pub fn may_come(&self) -> bool {
        self.0.is_some()
    }

    /// Number of nodes for a search that does not look at the stop while it runs: 0 after a request, and at most the default limit if a request may come.
    #[must_use]
    pub fn bounded(&self, nodes: u64) -> u64 {
        match (self.is_due(), self.may_come()) {
            (true, _) => 0,
            (false, true) => nodes.min(Limit::default().nodes),
            (false, false) => nodes,
        }
    }

    /// Whether a request came.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.0.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

/// Why a solver stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The value equals the lower bound: nothing better exists.
    BoundReached,
    /// The value keeps what was asked for, such as a capacity; it may not be the best one.
    TargetReached,
    /// The search ended: the value is the best one, or no solution exists.
    Exhausted,
    /// The node limit was reached before the search ended.
    NodeLimit,
    /// The problem is of a kind or size that only the heuristics take.
    HeuristicsOnly,
}

impl StopReason {
    /// The reason as one lower-case word for tables and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BoundReached => "bound-reached",
            Self::TargetReached => "target-reached",
            Self::Exhausted => "exhausted",
            Self::NodeLimit => "node-limit",
            Self::HeuristicsOnly => "heuristics-only",
        }
    }
}

/// What is known of a problem after a solver ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// A solution whose value equals the lower bound.
    Optimal,
    /// A solution; a better one may exist.
    Feasible,
    /// Proven: there is no solution.
    Infeasible,
    /// No solution was found, and none was excluded.
    Unknown,
}

impl Status {
    /// The status as one lower-case word, as problem files and reports spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Optimal => "optimal",
            Self::Feasible => "feasible",
            Self::Infeasible => "infeasible",
            Self::Unknown => "unknown",
        }
    }
}

/// The answer of a solver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome<S> {
    /// The best solution that was found, if any.
    pub solution: Option<S>,
    /// The value of `solution` in bytes.
    pub value: Option<u64>,
    /// No solution has a value below this many bytes.
    pub lower_bound: u64,
    /// Why the solver stopped.
    pub stop: StopReason,
    /// Search nodes that were visited; 0 if the heuristics sufficed.
    pub effort: u64,
}

impl<S> Outcome<S> {
    /// What is known: a proven optimum, a solution, a proof that there is none, or nothing.
    #[must_use]
    pub fn status(&self) -> Status {
        match self.value {
            Some(value) if value <= self.lower_bound => Status::Optimal,
            Some(_) => Status::Feasible,
            None if self.stop == StopReason::Exhausted => Status::Infeasible,
            None => Status::Unknown,
        }
    }
}
