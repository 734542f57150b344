//! Ordering: the sequence of operations with the fewest live bytes at the worst step.
//!
//! See `doc/order.md` for the algorithms. In short: a portfolio of depth-first and greedy orders in both directions, improved by moving operations
//! that cost nothing, then an exact search that proves its answer by exhaustion.

mod bound;
mod check;
mod closure;
mod commit;
mod contract;
mod decision;
mod depth_first;
mod exact;
mod flow;
mod greedy;
pub mod json;
mod model;
mod narrow;
mod nearer;
mod pairs;
mod portfolio;
mod problem;
mod search;
mod segment;
mod span;
mod twins;
mod witness;

pub use check::{OrderViolation, check};
pub use problem::{Buffer, Operation, OrderError, Problem};

use crate::tuning::OrderTuning;
use crate::{Limit, Outcome, StopReason};
use model::Model;

/// The bytes at each step of an order: live buffers, scratch, less what is taken over. O(n + uses).
///
/// # Errors
/// The problem is not valid, or the sequence is no order of it.
pub fn profile(problem: &Problem, order: &[u32]) -> Result<Vec<u64>, OrderError> {
    problem.validate()?;
    problem.validate_order(order)?;
    Ok(model::profile(&Model::new(problem), order))
}

/// The highest number of bytes at a step of an order. O(n + uses).
///
/// # Errors
/// The problem is not valid, or the sequence is no order of it.
pub fn peak(problem: &Problem, order: &[u32]) -> Result<u64, OrderError> {
    Ok(profile(problem, order)?.into_iter().max().unwrap_or(0))
}

/// The order in which ONNX Runtime runs the operations unless it is told otherwise, if they are listed in the order of its file. O(edges log edges).
///
/// # Errors
/// The problem is not valid.
pub fn default_order(problem: &Problem) -> Result<Vec<u32>, OrderError> {
    let given = problem.topological_order()?;
    let model = Model::new(problem);
    let estimates = depth_first::Estimates::new(&model, &given);
    Ok(depth_first::depth_first(&model, &given, &estimates, depth_first::Visit::Last))
}

/// An order with a peak that is no higher, closer to the given order wherever a stretch can be sorted by it. O((n + uses) log n).
///
/// # Errors
/// The problem is not valid, or one of the sequences is no order of it.
pub fn nearer(problem: &Problem, order: &[u32], given: &[u32]) -> Result<Vec<u32>, OrderError> {
    let bound = peak(problem, order)?;
    problem.validate_order(given)?;
    Ok(nearer::nearer(&Model::new(problem), order, given, bound))
}

/// The best order of the heuristics alone; never worse than the given one, and the given one itself if nothing is strictly better.
///
/// They end with the first order whose peak is at most `enough` bytes, and do not begin where no order can be that low. O((n + uses) log n).
///
/// # Errors
/// The problem is not valid, or `given` is no order of it.
pub fn portfolio(problem: &Problem, given: &[u32], enough: u64) -> Result<Outcome<Vec<u32>>, OrderError> {
    problem.validate()?;
    problem.validate_order(given)?;
    let model = Model::new(problem);
    let lower_bound = bound::lower_bound(&model);
    if lower_bound > enough && enough > 0 {
        let value = model::peak(&model, given);
        let stop = StopReason::HeuristicsOnly;
        return Ok(Outcome { value: Some(value), solution: Some(given.to_vec()), lower_bound, stop, effort: 0 });
    }
    let best = portfolio::improve_to(&model, given, lower_bound.max(enough));
    let stop = if best.peak <= lower_bound { StopReason::BoundReached } else { StopReason::HeuristicsOnly };
    Ok(Outcome { value: Some(best.peak), solution: Some(best.order), lower_bound, stop, effort: 0 })
}

/// The limit of who asks for one order and waits some seconds for it: twenty times the default where the problem is small enough to be split on
/// pairs, so that a proof is in reach; otherwise the default.
pub fn thorough_limit(problem: &Problem) -> Limit {
    let default = Limit::default().nodes;
    Limit::nodes(if problem.operations.len() <= OrderTuning::DEFAULT.split_operations { 20 * default } else { default })
}

/// The best order that the limit allows; never worse than the given one, and the given one itself if nothing is strictly better.
///
/// The heuristics' cost, and then the exact search within the limit.
///
/// # Errors
/// The problem is not valid, or `given` is no order of it.
pub fn solve(problem: &Problem, given: &[u32], limit: &Limit) -> Result<Outcome<Vec<u32>>, OrderError> {
    solve_below(problem, given, u64::MAX, limit)
}

/// As [`solve`] for who knows something with a peak of `below` bytes already: it ends as soon as it is proven that no order has a lower one.
///
/// # Errors
/// The problem is not valid, or `given` is no order of it.
pub fn solve_below(problem: &Problem, given: &[u32], below: u64, limit: &Limit) -> Result<Outcome<Vec<u32>>, OrderError> {
    problem.validate()?;
    problem.validate_order(given)?;
    let model = Model::new(problem);
    let mut best = portfolio::improve(&model, given);
    let known = exact::improve(&model, &mut best, below, &limit.tuning.order, limit.nodes);
    let stop = if best.peak <= known.lower_bound && known.nodes == 0 {
        StopReason::BoundReached
    } else if best.peak <= known.lower_bound {
        StopReason::Exhausted
    } else {
        StopReason::NodeLimit
    };
    Ok(Outcome { value: Some(best.peak), solution: Some(best.order), lower_bound: known.lower_bound, stop, effort: known.nodes })
}

#[cfg(test)]
mod tests;
