//! The solver: the given order if it fits, else the cheapest plan that the searches find.

use super::evaluate::evaluate;
use super::greedy;
use super::model::Model;
use super::polish;
use super::problem::{BudgetError, Plan, Problem};
use super::state::State;
use crate::{Limit, Outcome, StopReason};

/// A plan that keeps the near space within `capacity` bytes, in as little time as the search finds.
///
/// [`Outcome::value`] and [`Outcome::lower_bound`] are times: the makespan, and the sum of all costs, which no plan can beat. If the given order keeps
/// the capacity, it is the answer. Without a solution nothing is proven: the outcome is [`crate::Status::Unknown`].
///
/// # Errors
/// The problem is not valid.
pub fn solve(problem: &Problem, capacity: u64, limit: Limit) -> Result<Outcome<Plan>, BudgetError> {
    problem.validate()?;
    let model = Model::new(problem);
    let lower_bound = problem.runs.iter().fold(0_u64, |sum, run| sum.saturating_add(run.cost));
    let mut state = State::new(&model, &model.given());
    let ceiling = i64::try_from(capacity).unwrap_or(i64::MAX);
    if greedy::reduce(&mut state, ceiling) {
        polish::drop_spare(&mut state, ceiling);
    }
    let found = evaluate(problem, &model, &model.events(&state.sequence()));
    let solution = found.filter(|found| found.plan.peak <= capacity && found.far_fits).map(|found| found.plan);
    let value = solution.as_ref().map(|plan| plan.makespan);
    let stop = match value {
        Some(value) if value <= lower_bound => StopReason::BoundReached,
        _ if limit.nodes == 0 => StopReason::HeuristicsOnly,
        _ => StopReason::NodeLimit,
    };
    Ok(Outcome { solution, value, lower_bound, stop, effort: 0 })
}
