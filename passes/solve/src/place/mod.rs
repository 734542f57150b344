//! Placement: offsets in one arena for buffers with known live ranges ("dynamic storage allocation").
//!
//! See `doc/place.md` for the algorithms. In short: normal form in sections, the maximum load as lower bound, first fit and dive over ten orders,
//! then branch and bound at the bound first.

mod bound;
mod check;
mod core;
pub mod csv;
mod dive;
mod exact;
mod first_fit;
mod infeasible;
mod instance;
mod no_goods;
mod normal;
mod occupied;
mod orders;
mod portfolio;
mod problem;
mod repair;
mod restart;
mod search;
mod skeleton;
mod skyline;
mod valley;

pub use check::{Violation, check};
pub use infeasible::infeasible_subset;
pub use problem::{Buffer, Gap, Problem, ProblemError, Solution};

use crate::{Limit, Outcome, StopReason};
use exact::Known;
use normal::Normal;

/// Places all buffers as low as the limit allows; with a capacity, looks for any placement that keeps it.
///
/// The height of the answer is the exact highest offset + size. O(n log n + conflicts) for the heuristics, memory linear in the buffers;
/// the exact search is bounded by `limit`.
///
/// # Errors
/// The problem is not valid, see [`Problem::validate`].
pub fn solve(problem: &Problem, limit: &Limit) -> Result<Outcome<Solution>, ProblemError> {
    problem.validate()?;
    let normal = Normal::new(problem);
    let lower_bound = bound::lower_bound(problem, &normal);
    let over_capacity = problem.capacity.is_some_and(|capacity| capacity < lower_bound);
    if over_capacity || portfolio::fixed_items_collide(&normal) {
        return Ok(Outcome { solution: None, value: None, lower_bound, stop: StopReason::Exhausted, effort: 0 });
    }
    let target = problem.capacity.unwrap_or(lower_bound);
    let best = portfolio::best_of_all(problem, &normal, target);
    let reached = best.height <= target;
    let stop = if reached { StopReason::TargetReached } else { StopReason::HeuristicsOnly };
    let kept = problem.capacity.is_none_or(|capacity| best.height <= capacity);
    let mut known = Known { best: kept.then_some(best), lower_bound, stop, nodes: 0 };
    if !reached && limit.nodes > 0 {
        known = exact::improve(problem, &normal, known, limit.nodes);
    }
    let value = known.best.as_ref().map(|best| best.height);
    let stop = if value.is_some_and(|value| value <= lower_bound) { StopReason::BoundReached } else { known.stop };
    Ok(Outcome { solution: known.best, value, lower_bound: known.lower_bound, stop, effort: known.nodes })
}
