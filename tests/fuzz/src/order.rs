//! Ordering: every answer passes the checker, bounds hold, and small problems are compared with all
//! orders.

use memc::memc_solve::order::{Buffer, Operation, Problem, check, peak, portfolio, solve};
use memc::memc_solve::{Limit, StopReason};

use crate::Choices;

/// Maximum number of operations of a problem.
const MAX_OPERATIONS: usize = 40;
/// Maximum number of operations of a problem whose orders are all tried.
const MAX_EXHAUSTIVE: usize = 6;

/// Builds a problem, solves it, and checks the answer.
pub fn order(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let small = choices.once_in(2);
    let count = choices.below(if small { MAX_EXHAUSTIVE } else { MAX_OPERATIONS } + 1);
    let problem = problem(&mut choices, count);
    let given = match problem.topological_order() {
        Ok(given) => given,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let nodes = *choices.pick(&[if small { 20_000 } else { 100 }, 0, 3]);
    let base = peak(&problem, &given).unwrap_or_else(|error| panic!("{error}"));
    let heuristic = portfolio(&problem, &given, 0).unwrap_or_else(|error| panic!("{error}"));
    let outcome = solve(&problem, &given, &Limit::nodes(nodes)).unwrap_or_else(|error| panic!("{error}"));
    for outcome in [&heuristic, &outcome] {
        let (Some(found), Some(value)) = (&outcome.solution, outcome.value) else {
            panic!("no order: {problem:?}")
        };
        assert_eq!(check(&problem, found, value), Ok(()), "{problem:?}");
        assert!(outcome.lower_bound <= value && value <= base, "{problem:?} {outcome:?}");
        assert!(value < base || *found == given, "moved for nothing: {problem:?}");
    }
    assert!(outcome.value <= heuristic.value, "{problem:?}");
    let again = solve(&problem, &given, &Limit::nodes(nodes));
    assert_eq!(again.as_ref(), Ok(&outcome), "not the same answer twice");
    if small {
        let best = lowest(&problem, &mut Vec::new());
        for outcome in [&heuristic, &outcome] {
            assert!(
                outcome.lower_bound <= best && Some(best) <= outcome.value,
                "{best} is best: {problem:?} {outcome:?}"
            );
        }
        let is_final = matches!(outcome.stop, StopReason::BoundReached | StopReason::Exhausted);
        assert!(!is_final || outcome.value == Some(best), "{best} is best: {problem:?} {outcome:?}");
    }
}

/// Returns the lowest peak over all orders. The checker must accept each order.
fn lowest(problem: &Problem, order: &mut Vec<u32>) -> u64 {
    let count = problem.operations.len();
    if order.len() == count {
        let value = peak(problem, order).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(check(problem, order, value), Ok(()), "{problem:?} {order:?}");
        return value;
    }
    let mut best = u64::MAX;
    for next in 0..count as u32 {
        let operation = &problem.operations[next as usize];
        if !order.contains(&next) && operation.predecessors.iter().all(|before| order.contains(before)) {
            order.push(next);
            best = best.min(lowest(problem, order));
            order.pop();
        }
    }
    best
}

fn problem(choices: &mut Choices<'_>, count: usize) -> Problem {
    let mut problem = Problem::default();
    for index in 0..count {
        let limit = if choices.once_in(48) { count } else { index };
        let edges = if limit == 0 { 0 } else { choices.below(4) };
        let predecessors = (0..edges).map(|_| choices.below(limit) as u32).collect();
        let scratch = if choices.once_in(4) { choices.number() } else { 0 };
        problem.operations.push(Operation { predecessors, scratch });
    }
    for index in 0..choices.below(count + count / 2 + 1) {
        let known = count + usize::from(choices.once_in(64));
        let users = (0..choices.below(4)).map(|_| choices.below(known) as u32).collect();
        let mut buffer = Buffer { size: choices.number(), users, ..Buffer::default() };
        buffer.live_from_start = choices.once_in(8);
        buffer.kept = choices.once_in(8);
        for _ in 0..choices.below(6).saturating_sub(3) {
            let other = choices.below(index + 1);
            let is_fit = problem.buffers.get(other).is_some_and(|other: &Buffer| other.size >= buffer.size);
            if is_fit || choices.once_in(32) {
                buffer.takes_over.push(other as u32);
            }
        }
        problem.buffers.push(buffer);
    }
    problem
}
