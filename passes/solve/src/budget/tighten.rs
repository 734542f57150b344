//! Plans from plans: changes a plan a little, so that it keeps a stricter capacity.

use super::problem::{BudgetError, Plan, Problem};
use super::search::ruin::Ruin;
use super::search::{polish, relief, ruin};
use super::sequence::emit::events;
use super::sequence::evaluate::evaluate;
use super::sequence::model::Model;
use super::sequence::state::State;
use super::warm::greedy;
use crate::{Limit, Stop};

/// Returns a plan within `capacity` that stays close to `from`: runs are repeated at the steps that need
/// room, and repeats are removed if they are no longer necessary.
///
/// `from` is a plan of this problem, or of a problem that differs in workspaces only. Returns `None` if
/// recomputation alone does not reach the capacity, and if `from` has transfers. Greedy and relief both
/// choose repeats; the cheaper result is kept. With effort, ruin and recreate decides parts of it again:
/// this takes less time, but places many runs elsewhere than `from` does. O(changes x operations log n),
/// plus the rounds of ruin and recreate.
///
/// # Errors
/// Returns an error if the problem is not valid.
pub fn tighten(
    problem: &Problem,
    capacity: u64,
    from: &Plan,
    limit: Limit,
    stop: &Stop,
) -> Result<Option<Plan>, BudgetError> {
    problem.validate()?;
    let Some(sequence) = from.runs() else { return Ok(None) };
    let model = Model::new(problem, &limit.tuning.budget);
    let ceiling = i64::try_from(capacity).unwrap_or(i64::MAX).min(i64::MAX >> 2);
    let ways: [fn(&mut State, i64, u64) -> bool; 2] = [relief::reduce, greedy::reduce];
    let least = State::new(&model, &model.given()).cost();
    let mut best: Option<(u64, Vec<u32>)> = None;
    for reduce in ways {
        let mut state = State::new(&model, &sequence);
        if reduce(
            &mut state,
            ceiling,
            best.as_ref().map_or(u64::MAX, |(cost, _)| polish::dearest(least, *cost)),
        ) {
            polish::drop_spare(&mut state, ceiling);
            let found = (state.cost(), state.sequence());
            best = Some(best.map_or(found.clone(), |best| best.min(found)));
        }
    }
    let Some((_, mut sequence)) = best else { return Ok(None) };
    if limit.nodes > 0 {
        let mut state = State::new(&model, &sequence);
        Ruin::new(&mut state, ceiling, false, stop).run(ruin::rounds(&model, limit.nodes));
        sequence = state.sequence();
    }
    let plan = evaluate(problem, &model, &events(&model, &sequence)).map(|found| found.plan);
    Ok(plan.filter(|plan| plan.peak <= capacity))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::super::problem::{Event, Run, Value};
    use super::super::{check, measure};
    use super::*;

    /// Builds a row of values of these sizes, each made from the previous value; then the values are
    /// read in reverse order.
    fn there_and_back(sizes: &[u64]) -> Problem {
        let mut problem = Problem::default();
        for (index, size) in (0..).zip(sizes) {
            problem.values.push(Value { size: *size, ..Value::default() });
            let reads = if index > 0 { vec![index - 1] } else { Vec::new() };
            problem.runs.push(Run {
                reads,
                writes: vec![index],
                cost: 10,
                repeatable: true,
                ..Run::default()
            });
        }
        for index in (0..sizes.len() as u32).rev() {
            problem.runs.push(Run { reads: vec![index], cost: 10, ..Run::default() });
        }
        problem
    }

    #[test]
    fn tightening_adds_repeats_and_keeps_earlier_ones() {
        let (none, stop) = (Limit::nodes(0), Stop::default());
        let mut problem = there_and_back(&[5, 5, 5, 5, 5, 5]);
        let order: Vec<Event> = (0..problem.runs.len() as u32).map(Event::Run).collect();
        let given = measure(&problem, &order).unwrap();
        assert_eq!(given.peak, 30);
        let first = tighten(&problem, 25, &given, none, &stop).unwrap().unwrap();
        assert_eq!(check(&problem, 25, &first), Ok(()));
        let second = tighten(&problem, 20, &first, none, &stop).unwrap().unwrap();
        assert_eq!(check(&problem, 20, &second), Ok(()));
        assert!(given.cost < first.cost && first.cost < second.cost);
        let searched = tighten(&problem, 20, &first, Limit::nodes(100), &stop).unwrap().unwrap();
        assert_eq!(check(&problem, 20, &searched), Ok(()));
        assert!(searched.cost <= second.cost);
        // A plan that already fits does not change.
        assert_eq!(tighten(&problem, 25, &first, none, &stop).unwrap().unwrap(), first);
        // No run leaves room for what it needs and a scratch of the whole capacity.
        problem.runs[3].scratch = 25;
        assert_eq!(tighten(&problem, 25, &first, none, &stop).unwrap(), None);
    }
}
