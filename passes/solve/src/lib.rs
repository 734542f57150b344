//! Ordering, placement and budget planning as pure problems, each with bounds and an independent
//! checker.
//!
//! This crate knows nothing of graphs, tensors or ONNX. It solves seven problems of a memory compiler:
//!
//! - [`order`]: in which order should operations run, so that the peak (the most bytes live at one step)
//!   is as low as possible?
//! - [`place`]: at which offset of one arena should each buffer be placed, so that buffers that are live
//!   together never share a byte and the arena is as small as possible?
//! - [`budget`]: which values should be kept, recomputed or moved to another space, so that memory stays
//!   within a capacity at the least extra time?
//! - [`direct`]: which buffers should live in a slower space, so that the rest fits at the least cost?
//! - [`partition`]: on which of several devices should each operation run, so that the slowest or the
//!   largest device has as little as possible?
//! - [`joint`]: at which offsets do several programs share one arena, one after another or one inside
//!   another?
//! - [`engines`]: on which of several equal engines, and when, should each operation run, so that all end
//!   early within a number of bytes?
//!
//! These problems are NP-hard, so the solvers are portfolios: cheap heuristics run first, a search
//! follows, and the best answer is kept. Every answer is an [`Outcome`]: a solution, its value, a *lower
//! bound* that no solution can beat, and the reason why the solver stopped. If value and bound are
//! equal, the answer is proven optimal.
//!
//! Three rules hold everywhere:
//!
//! - *Reproducible.* Effort is counted in steps, never in seconds; ties are broken by the order of the
//!   input. Equal inputs give equal answers on every machine.
//! - *Checked.* [`place::check`], [`order::check`], [`budget::check`], [`direct::check`],
//!   [`partition::check`], [`joint::check_serial`], [`joint::check_nested`] and [`engines::check`] judge
//!   answers and share no code with the solvers.
//! - *Never worse.* A solver that is given a starting point returns it unless it finds a strictly better
//!   solution.
//!
//! The pages `doc/place.md`, `doc/order.md`, `doc/budget.md`, `doc/partition.md`, `doc/joint.md` and
//! `doc/engines.md` of this crate describe the algorithms, their sources and their limits. [`tuning`]
//! describes how the numbers that steer the searches are passed and chosen.
//!
#![doc = include_str!("../doc/graphs.md")]

mod basics;
pub mod budget;
pub mod direct;
pub mod engines;
pub mod joint;
pub mod order;
pub mod partition;
pub mod place;
pub mod tuning;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use tuning::Tuning;

/// How much work a solver may do beyond its cheap heuristics, and the numbers that steer it.
///
/// Effort is counted in search nodes, so that a result does not depend on the speed of the machine. One
/// node is about 20 microseconds of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Number of nodes that the exact search may visit in total; with 0 only the heuristics run.
    pub nodes: u64,
    /// Numbers that steer the searches.
    pub tuning: Tuning,
}

impl Limit {
    /// Returns a limit of `nodes` search nodes with the default tuning.
    #[must_use]
    pub const fn nodes(nodes: u64) -> Self {
        Self { nodes, tuning: Tuning::DEFAULT }
    }

    /// Replaces the number of nodes and keeps the tuning.
    #[must_use]
    pub const fn with_nodes(self, nodes: u64) -> Self {
        Self { nodes, ..self }
    }
}

impl Default for Limit {
    /// Returns a limit that takes well under half a second for graphs of some thousand operations.
    fn default() -> Self {
        Self::nodes(20_000)
    }
}

/// A flag by which a caller ends searches early; each search then returns the best answer found so far.
///
/// Without a flag (the default) searches run to their end.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    flag: Option<Arc<AtomicBool>>,
    /// Whether searches prepare for a request, in slices of growing effort.
    is_likely: bool,
}

impl Stop {
    /// A stop that [`Stop::request`] triggers.
    #[must_use]
    pub fn on_request() -> Self {
        Self { flag: Some(Arc::default()), is_likely: true }
    }

    /// A stop for a request that rarely comes, such as a key that a person presses. Searches run as
    /// without a flag, so plans and efforts are equal to theirs; a solver at work ends first.
    #[must_use]
    pub fn on_interrupt() -> Self {
        Self { flag: Some(Arc::default()), is_likely: false }
    }

    /// Returns a stop with this flag, or a new one, for which searches are ready at any time.
    #[must_use]
    pub fn expected(&self) -> Self {
        Self { flag: Some(self.flag.clone().unwrap_or_default()), is_likely: true }
    }

    /// Sets the flag, if there is one.
    pub fn request(&self) {
        if let Some(flag) = &self.flag {
            flag.store(true, Ordering::Relaxed);
        }
    }

    /// Whether searches must be ready for a request at any time.
    #[must_use]
    pub fn may_come(&self) -> bool {
        self.is_likely
    }

    /// Returns the node limit for a search that cannot check the flag while it runs: 0 once the flag is
    /// set, at most the default limit if a flag exists, otherwise `nodes`.
    #[must_use]
    pub fn bounded(&self, nodes: u64) -> u64 {
        match (self.is_due(), self.may_come()) {
            (true, _) => 0,
            (false, true) => nodes.min(Limit::default().nodes),
            (false, false) => nodes,
        }
    }

    /// Whether the flag is set.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.flag.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

/// Why a solver stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The value equals the lower bound: nothing better exists.
    BoundReached,
    /// The value satisfies the requested target, such as a capacity; better values may exist.
    TargetReached,
    /// The search is complete: the value is optimal, or no solution exists.
    Exhausted,
    /// The node limit was reached before the search was complete.
    NodeLimit,
    /// The kind or size of the problem allows only heuristics.
    HeuristicsOnly,
}

impl StopReason {
    /// Returns the reason in lower case with hyphens, for tables and reports.
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

/// How good an answer is known to be after a solver ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The value of the solution equals the lower bound.
    Optimal,
    /// A solution exists; a better one may exist too.
    Feasible,
    /// Proven: no solution exists.
    Infeasible,
    /// No solution was found, and none was excluded.
    Unknown,
}

impl Status {
    /// Returns the status as one lower-case word, as problem files and reports spell it.
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
    /// Best solution found; `None` if the solver found none.
    pub solution: Option<S>,
    /// Value of `solution`, in the unit of the solver: bytes for orders and placements, time for budget
    /// plans.
    pub value: Option<u64>,
    /// Lower bound of the value, in the unit of `value`.
    pub lower_bound: u64,
    /// Why the solver stopped.
    pub stop: StopReason,
    /// Number of search nodes visited; 0 if the heuristics sufficed.
    pub effort: u64,
}

impl<S> Outcome<S> {
    /// Classifies the answer: a proven optimum, a solution, a proof that no solution exists, or none of
    /// these.
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
