//! Ordering: finds the sequence of operations whose worst step has the fewest live bytes.
//!
//! See `doc/order.md` for the algorithms. In short: a portfolio builds depth-first and greedy orders in
//! both directions and improves them by moving operations that cost nothing. An exact search follows,
//! which proves its answer by exhaustion.

mod bound;
mod check;
mod cuts;
mod exact;
mod heuristics;
pub mod json;
mod model;
mod problem;

pub use check::{OrderViolation, check};
pub use problem::{Buffer, Operation, OrderError, Problem};

use crate::tuning::OrderTuning;
use crate::{Limit, Outcome, StopReason};
use heuristics::{depth_first, nearer, portfolio};
use model::Model;

/// Returns the bytes at each step of an order: live buffers plus scratch, minus bytes taken over. O(n +
/// uses).
///
/// # Errors
/// Fails if the problem is invalid or the sequence is not an order of its operations.
pub fn profile(problem: &Problem, order: &[u32]) -> Result<Vec<u64>, OrderError> {
    problem.validate()?;
    problem.validate_order(order)?;
    Ok(model::profile(&Model::new(problem), order))
}

/// Returns the highest number of bytes at a step of an order. O(n + uses).
///
/// # Errors
/// Fails if the problem is invalid or the sequence is not an order of its operations.
pub fn peak(problem: &Problem, order: &[u32]) -> Result<u64, OrderError> {
    Ok(profile(problem, order)?.into_iter().max().unwrap_or(0))
}

/// Returns the order in which ONNX Runtime runs the operations by default, if the problem lists them in
/// file order. O(edges log edges).
///
/// # Errors
/// Fails if the problem is invalid.
pub fn default_order(problem: &Problem) -> Result<Vec<u32>, OrderError> {
    let given = problem.topological_order()?;
    let model = Model::new(problem);
    let estimates = depth_first::Estimates::new(&model, &given);
    Ok(depth_first::depth_first(&model, &given, &estimates, depth_first::Visit::Last))
}

/// Returns an order whose peak is not higher, and which is closer to the `given` order: every stretch
/// that can be sorted into it without raising the peak is sorted. O((n + uses) log n).
///
/// # Errors
/// Fails if the problem is invalid or one of the sequences is not an order of its operations.
pub fn nearer(problem: &Problem, order: &[u32], given: &[u32]) -> Result<Vec<u32>, OrderError> {
    let bound = peak(problem, order)?;
    problem.validate_order(given)?;
    Ok(nearer::nearer(&Model::new(problem), order, given, bound))
}

/// Returns the best order of the heuristics alone. It is never worse than the `given` order, which is
/// returned if no order has a strictly lower peak.
///
/// The heuristics stop at the first order whose peak is at most `enough` bytes. They do not start if the
/// lower bound is above `enough`. O((n + uses) log n).
///
/// # Errors
/// Fails if the problem is invalid or `given` is not an order of its operations.
pub fn portfolio(problem: &Problem, given: &[u32], enough: u64) -> Result<Outcome<Vec<u32>>, OrderError> {
    problem.validate()?;
    problem.validate_order(given)?;
    let model = Model::new(problem);
    let lower_bound = bound::lower_bound(&model);
    if lower_bound > enough && enough > 0 {
        let value = model::peak(&model, given);
        let stop = StopReason::HeuristicsOnly;
        return Ok(Outcome {
            value: Some(value),
            solution: Some(given.to_vec()),
            lower_bound,
            stop,
            effort: 0,
        });
    }
    let best = portfolio::improve_to(&model, given, lower_bound.max(enough));
    let stop = if best.peak <= lower_bound { StopReason::BoundReached } else { StopReason::HeuristicsOnly };
    Ok(Outcome { value: Some(best.peak), solution: Some(best.order), lower_bound, stop, effort: 0 })
}

/// Returns the effort limit for a caller that wants one order and accepts some seconds of search. It is
/// twenty times the default if the problem is small enough to be split on pairs, since a proof is in
/// reach then; otherwise it is the default.
pub fn thorough_limit(problem: &Problem) -> Limit {
    let default = Limit::default().nodes;
    Limit::nodes(if problem.operations.len() <= OrderTuning::DEFAULT.split_operations {
        20 * default
    } else {
        default
    })
}

/// Returns the best order that the limit allows. It is never worse than the `given` order, which is
/// returned if no order has a strictly lower peak.
///
/// Costs the heuristics plus an exact search within the limit.
///
/// # Errors
/// Fails if the problem is invalid or `given` is not an order of its operations.
pub fn solve(problem: &Problem, given: &[u32], limit: &Limit) -> Result<Outcome<Vec<u32>>, OrderError> {
    solve_below(problem, given, u64::MAX, limit)
}

/// Like [`solve`], for a caller that already has a plan with a peak of `below` bytes: the search ends as
/// soon as it proves that no order has a lower peak.
///
/// # Errors
/// Fails if the problem is invalid or `given` is not an order of its operations.
pub fn solve_below(
    problem: &Problem,
    given: &[u32],
    below: u64,
    limit: &Limit,
) -> Result<Outcome<Vec<u32>>, OrderError> {
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
    Ok(Outcome {
        value: Some(best.peak),
        solution: Some(best.order),
        lower_bound: known.lower_bound,
        stop,
        effort: known.nodes,
    })
}

#[cfg(test)]
mod tests;
