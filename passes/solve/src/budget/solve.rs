//! The solver: the given order if it fits, else reordering, greedy recomputation and annealing; the cheapest plan of all.

use super::anneal::{Annealer, Best, Schedule};
use super::evaluate::evaluate;
use super::model::Model;
use super::problem::{BudgetError, Plan, Problem};
use super::reorder::reorder;
use super::state::State;
use super::{greedy, polish};
use crate::{Limit, Outcome, StopReason};

/// Annealing steps for each unit of effort: some twenty microseconds of work are ten to forty steps; the default effort is 3 million steps.
const STEPS: u64 = 150;

/// Annealing rounds; each starts from the best sequence so far, half as hot as the one before.
const ROUNDS: u32 = 4;

/// Rounds that look for the capacity before the first that looks for cost, each with a soft maximum twice as sharp as the one before.
const SOFT_ROUNDS: u32 = 3;

/// A plan that keeps the near space within `capacity` bytes, in as little time as the search finds.
///
/// [`Outcome::value`] and [`Outcome::lower_bound`] are times: the makespan, and the sum of all costs, which no plan can beat. If the given order keeps
/// the capacity, it is the answer. Without a solution nothing is proven: the outcome is [`crate::Status::Unknown`]. With no effort the answer is that
/// of the heuristics: reordering, greedy recomputation, descent. Each unit of effort is 150 annealing steps, each O(operands log n).
///
/// # Errors
/// The problem is not valid.
pub fn solve(problem: &Problem, capacity: u64, limit: Limit) -> Result<Outcome<Plan>, BudgetError> {
    problem.validate()?;
    let model = Model::new(problem);
    let lower_bound = problem.runs.iter().fold(0_u64, |sum, run| sum.saturating_add(run.cost));
    let ceiling = i64::try_from(capacity).unwrap_or(i64::MAX);
    let mut search = Search { model: &model, ceiling, best: None, starts: Vec::new(), effort: 0 };
    search.run(limit);
    let found = search.best.and_then(|found| evaluate(problem, &model, &model.events(&found.sequence)));
    let solution = found.filter(|found| found.plan.peak <= capacity && found.far_fits).map(|found| found.plan);
    let value = solution.as_ref().map(|plan| plan.makespan);
    let stop = match value {
        Some(value) if value <= lower_bound => StopReason::BoundReached,
        _ if limit.nodes == 0 => StopReason::HeuristicsOnly,
        _ => StopReason::NodeLimit,
    };
    Ok(Outcome { solution, value, lower_bound, stop, effort: search.effort })
}

/// A sequence of operations.
#[derive(Clone, Debug)]
struct Found {
    sequence: Vec<u32>,
    cost: u64,
}

/// Where annealing can begin.
struct Start {
    sequence: Vec<u32>,
    peak: i64,
    cost: u64,
    /// Cost of a byte over the capacity, and a usual difference in cost, for the temperatures.
    price: f64,
    unit: f64,
}

struct Search<'m> {
    model: &'m Model,
    ceiling: i64,
    /// The cheapest sequence within the capacity.
    best: Option<Found>,
    starts: Vec<Start>,
    effort: u64,
}

impl Search<'_> {
    fn run(&mut self, limit: Limit) {
        let given = self.model.given();
        if self.warm_start(given.clone()) {
            return;
        }
        if let Some(order) = reorder(self.model, &given, limit).filter(|order| *order != given)
            && self.warm_start(order)
        {
            return;
        }
        let steps = limit.nodes.saturating_mul(STEPS);
        // What keeps the capacity and is cheapest; without such a one, what comes nearest to it.
        let rank = |start: &Start| (start.peak.max(self.ceiling), start.cost);
        self.starts.sort_by_key(rank);
        if let Some(start) = self.starts.first().filter(|_| steps > 0)
            && let Some(found) = self.anneal(start, steps)
        {
            self.offer(found);
        }
        self.effort = limit.nodes;
    }

    /// Makes an order fit greedily; says whether it fits without any extra cost, so that nothing is left to seek.
    fn warm_start(&mut self, order: Vec<u32>) -> bool {
        let mut state = State::new(self.model, &order);
        let (base, top) = (state.cost(), state.peak());
        let fits = greedy::reduce(&mut state, self.ceiling);
        if fits {
            polish::drop_spare(&mut state, self.ceiling);
            self.offer(Found { sequence: state.sequence(), cost: state.cost() });
        }
        let extra = (state.cost() - base) as f64;
        let added = (state.count() - order.len()).max(1) as f64;
        let mean = base as f64 / order.len().max(1) as f64;
        let unit = if extra > 0.0 { extra / added } else { mean.max(1.0) };
        let over = (top - self.ceiling).max(1) as f64;
        let mut price = 2.0 * unit * added / over;
        if !fits {
            price = price.max(base as f64 / self.ceiling.max(1) as f64);
        }
        self.starts.push(Start { sequence: state.sequence(), peak: state.peak(), cost: state.cost(), price, unit });
        fits && state.cost() == base
    }

    fn offer(&mut self, found: Found) {
        if self.best.as_ref().is_none_or(|best| found.cost < best.cost) {
            self.best = Some(found);
        }
    }

    /// The cheapest sequence that annealing finds from a start, if any keeps the capacity.
    fn anneal(&self, start: &Start, steps: u64) -> Option<Found> {
        let mut state = State::new(self.model, &start.sequence);
        let mut annealer = Annealer::new(&mut state, self.ceiling, start.price, 1);
        let steps = steps / u64::from(ROUNDS);
        let mut sharpness = 50.0 / self.ceiling.max(1) as f64;
        let mut hot = 2.0 * start.unit;
        for _ in 0..SOFT_ROUNDS {
            if annealer.best.cost.is_some() {
                break;
            }
            annealer.run(Schedule { steps, hot, cold: 0.01 * hot, soft: Some(sharpness) });
            sharpness *= 2.0;
        }
        for _ in 0..ROUNDS {
            annealer.restart();
            annealer.run(Schedule { steps, hot, cold: 0.01 * hot, soft: None });
            hot *= 0.5;
        }
        let Best { sequence, cost, .. } = annealer.best;
        cost?;
        let mut state = State::new(self.model, &sequence);
        polish::drop_spare(&mut state, self.ceiling);
        Some(Found { sequence: state.sequence(), cost: state.cost() })
    }
}
