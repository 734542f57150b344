//! Kept values: in any set of runs that make kept values, the last run executes while the kept results
//! of all others are present.

use super::conflict::Conflict;
use super::gaps::{distinct, own_bytes};
use super::rows::predecessors;
use crate::budget::problem::{Origin, Problem};

/// A run that makes kept values, with its bytes and dependencies.
struct Maker {
    run: u32,
    /// Bytes that the run itself needs.
    own: u64,
    /// Bytes of its kept results.
    kept: u64,
    /// Its kept operands: the index of their maker in the list, and their bytes.
    operands: Vec<(usize, u64)>,
    /// Number of makers in the set that must execute after this run, and the makers that must execute
    /// before it.
    needed_by: u32,
    needs: Vec<usize>,
}

/// Returns the run with the highest proven need while other kept values are present: over all sets of
/// makers, the greatest of the least needs of a last run.
///
/// A greedy rule finds the best set: the run with the least need limits every set that contains it, so
/// it leaves. O(makers² + runs x makers / 64).
#[must_use]
pub fn last_of_kept(problem: &Problem) -> Option<Conflict> {
    let mut makers = makers(problem);
    let mut beside: u64 = makers.iter().map(|maker| maker.kept).sum();
    beside += problem
        .values
        .iter()
        .filter(|value| value.kept && value.origin == Origin::Near)
        .map(|value| value.size)
        .sum::<u64>();
    let mut is_in = vec![true; makers.len()];
    let mut most: Option<Conflict> = None;
    for _ in 0..makers.len() {
        let needed = |place: &usize| {
            let maker = &makers[*place];
            let counted: u64 =
                maker.operands.iter().filter(|(other, _)| is_in[*other]).map(|(_, bytes)| bytes).sum();
            (beside - maker.kept).saturating_add(maker.own).saturating_sub(counted)
        };
        let can_be_last = (0..makers.len()).filter(|place| is_in[*place] && makers[*place].needed_by == 0);
        let Some(place) = can_be_last.min_by_key(|place| (needed(place), makers[*place].run)) else { break };
        let needed = needed(&place);
        if most.is_none_or(|most| needed > most.needed) {
            most = Some(Conflict { run: makers[place].run, needed });
        }
        is_in[place] = false;
        beside -= makers[place].kept;
        for other in std::mem::take(&mut makers[place].needs) {
            makers[other].needed_by -= 1;
        }
    }
    most
}

/// Returns the runs that make kept values, in the given order.
fn makers(problem: &Problem) -> Vec<Maker> {
    let kept = |value: &u32| problem.values[*value as usize].kept;
    let bytes = |value: u32| problem.values[value as usize].size;
    // Collect the makers with their bytes and kept operands.
    let runs =
        (0..problem.runs.len() as u32).filter(|run| problem.runs[*run as usize].writes.iter().any(kept));
    let mut makers: Vec<Maker> = Vec::new();
    let mut maker_of = vec![None; problem.values.len()];
    for run in runs {
        let data = &problem.runs[run as usize];
        let operands = distinct(&data.reads)
            .into_iter()
            .filter_map(|value| maker_of[value as usize].map(|place| (place, bytes(value))));
        let operands = operands.collect();
        let results: Vec<u32> = data.writes.iter().copied().filter(|value| kept(value)).collect();
        results.iter().for_each(|value| maker_of[*value as usize] = Some(makers.len()));
        let kept = results.iter().map(|value| bytes(*value)).sum();
        makers.push(Maker {
            run,
            own: own_bytes(problem, run),
            kept,
            operands,
            needed_by: 0,
            needs: Vec::new(),
        });
    }
    let words = makers.len().div_ceil(64);
    let mut place_of = vec![None; problem.runs.len()];
    makers.iter().enumerate().for_each(|(place, maker)| place_of[maker.run as usize] = Some(place));
    // For each run, the set of makers that execute before it in every plan.
    let mut behind: Vec<Vec<u64>> = Vec::with_capacity(problem.runs.len());
    for (run, before) in predecessors(problem).into_iter().enumerate() {
        let mut set = vec![0_u64; words];
        for other in before {
            set.iter_mut().zip(&behind[other as usize]).for_each(|(word, more)| *word |= more);
            if let Some(place) = place_of[other as usize] {
                set[place / 64] |= 1 << (place % 64);
            }
        }
        if let Some(place) = place_of[run] {
            makers[place].needs =
                (0..makers.len()).filter(|other| set[other / 64] >> (other % 64) & 1 == 1).collect();
        }
        behind.push(set);
    }
    // Count, for each maker, the makers that need it.
    for place in 0..makers.len() {
        for other in makers[place].needs.clone() {
            makers[other].needed_by += 1;
        }
    }
    makers
}

#[cfg(test)]
mod tests {
    use super::last_of_kept;
    use crate::budget::problem::{Problem, Run, Value};

    /// Builds pairs of runs: the first makes an operand, the second reads it and makes a kept result.
    fn problem(parts: &[(u64, u64)]) -> Problem {
        let mut problem = Problem::default();
        for (index, &(operand, result)) in parts.iter().enumerate() {
            let index = 2 * index as u32;
            problem.runs.push(Run { writes: vec![index], repeatable: true, ..Run::default() });
            problem.runs.push(Run { reads: vec![index], writes: vec![index + 1], ..Run::default() });
            problem.values.push(Value { size: operand, ..Value::default() });
            problem.values.push(Value { size: result, kept: true, ..Value::default() });
        }
        problem
    }

    #[test]
    fn the_last_run_of_a_set_needs_the_results_of_all_others() {
        // The small run may be the last of all three. Of the other two runs one is last, while the
        // result of the other is present.
        let found = last_of_kept(&problem(&[(70, 10), (80, 10), (1, 1)])).map(|conflict| conflict.needed);
        assert_eq!(found, Some(10 + 70 + 10));
        // All three together need this at the end.
        let found = last_of_kept(&problem(&[(5, 10), (5, 10), (1, 1)])).map(|conflict| conflict.needed);
        assert_eq!(found, Some(10 + 10 + 5));
    }

    #[test]
    fn a_predecessor_of_another_run_is_not_the_last() {
        // The run with the least need as last must execute before the other run.
        let mut given = problem(&[(1, 10), (70, 10)]);
        given.runs[3].predecessors = vec![1];
        assert_eq!(last_of_kept(&given).map(|conflict| conflict.needed), Some(10 + 70 + 10));
    }

    #[test]
    fn an_operand_that_stays_is_counted_once() {
        let mut given = problem(&[(1, 10), (70, 10)]);
        given.runs[3].reads = vec![1, 2];
        assert_eq!(last_of_kept(&given).map(|conflict| conflict.needed), Some(10 + 70 + 10));
    }
}
