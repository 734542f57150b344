//! Placement: every answer passes the checker, bounds hold, and small problems are compared with an
//! exhaustive search.

use memc::memc_solve::place::{Buffer, Gap, Problem, Solution, check, csv, solve};
use memc::memc_solve::{Limit, Status, StopReason};

use crate::Choices;

/// Maximum number of buffers of a problem.
const MAX_BUFFERS: usize = 60;
/// Maximum number of buffers of a problem that is searched exhaustively.
const MAX_EXHAUSTIVE: usize = 5;
/// Maximum number of offsets that the exhaustive search tries.
const MAX_TRIED: u64 = 300_000;

/// Builds a problem, solves it, and checks the answer.
pub fn place(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let small = choices.once_in(2);
    let count = choices.below(if small { MAX_EXHAUSTIVE } else { MAX_BUFFERS } + 1);
    let mut problem =
        Problem { buffers: (0..count).map(|_| buffer(&mut choices, small)).collect(), capacity: None };
    problem.capacity =
        choices.once_in(4).then(|| if small { choices.below(24) as u64 } else { choices.number() });
    let limit = Limit::nodes(*choices.pick(&[if small { 20_000 } else { 200 }, 0, 7]));
    let outcome = match solve(&problem, &limit) {
        Ok(outcome) => outcome,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert_eq!(outcome.solution.is_some(), outcome.value.is_some());
    assert!(limit.nodes > 0 || outcome.effort == 0);
    if let Some(solution) = &outcome.solution {
        assert_eq!(check(&problem, solution), Ok(()), "{problem:?}");
        assert_eq!(outcome.value, Some(solution.height));
        assert!(outcome.lower_bound <= solution.height, "{problem:?} {outcome:?}");
    }
    assert_eq!(solve(&problem, &limit).as_ref(), Ok(&outcome), "not the same answer twice");
    if small {
        compare(&problem, &outcome, limit.nodes >= 20_000);
    }
    file_round_trip(problem);
}

/// Compares an outcome with the result of an exhaustive search.
fn compare(problem: &Problem, outcome: &memc::memc_solve::Outcome<Solution>, is_searched: bool) {
    let most: u64 = problem.buffers.iter().map(|buffer| buffer.size + buffer.alignment).sum();
    let fixed = problem
        .buffers
        .iter()
        .filter_map(|buffer| Some(buffer.fixed_offset? + buffer.size))
        .max()
        .unwrap_or(0);
    if most + fixed > 200 {
        return;
    }
    let ceiling = problem.capacity.unwrap_or(most + fixed);
    let Some(best) = lowest(problem, ceiling) else { return };
    match best {
        None => assert!(outcome.solution.is_none(), "{problem:?}"),
        Some(best) => {
            assert!(outcome.lower_bound <= best, "the bound passes {best}: {problem:?} {outcome:?}");
            assert_ne!(outcome.status(), Status::Infeasible, "{best} is possible: {problem:?}");
            if let Some(value) = outcome.value {
                assert!(value >= best, "{problem:?} {outcome:?}");
                // With a capacity, any placement within it is enough.
                let is_final = matches!(outcome.stop, StopReason::BoundReached | StopReason::Exhausted);
                let must_be_best =
                    is_final && (problem.capacity.is_none() || outcome.stop == StopReason::BoundReached);
                assert!(value == best || !must_be_best, "{best} is possible: {problem:?} {outcome:?}");
            }
            let plain =
                problem.buffers.iter().all(|buffer| buffer.gaps.is_empty() && buffer.fixed_offset.is_none());
            assert!(!(plain && is_searched) || outcome.solution.is_some(), "{problem:?} {outcome:?}");
        }
    }
}

/// Returns the lowest height up to `ceiling`. The inner `None`: there is no such height. The outer
/// `None`: the search was too long.
fn lowest(problem: &Problem, ceiling: u64) -> Option<Option<u64>> {
    let mut tried = 0;
    let mut best = None;
    descend(problem, &mut Vec::new(), &mut best, ceiling, &mut tried);
    (tried < MAX_TRIED).then_some(best)
}

fn descend(problem: &Problem, offsets: &mut Vec<u64>, best: &mut Option<u64>, ceiling: u64, tried: &mut u64) {
    let Some(buffer) = problem.buffers.get(offsets.len()) else {
        let height = problem
            .buffers
            .iter()
            .zip(&*offsets)
            .map(|(buffer, offset)| offset + buffer.size)
            .max()
            .unwrap_or(0);
        *best = Some(height);
        return;
    };
    let mut offset = buffer.fixed_offset.unwrap_or(0);
    // Try only offsets that lead to a lower height than the best so far.
    while *tried < MAX_TRIED
        && best.map_or(offset + buffer.size <= ceiling, |best| offset + buffer.size < best)
    {
        *tried += 1;
        let is_free =
            problem.buffers.iter().zip(&*offsets).all(|(other, at)| !clash(buffer, offset, other, *at));
        if is_free {
            offsets.push(offset);
            descend(problem, offsets, best, ceiling, tried);
            offsets.pop();
        }
        if buffer.fixed_offset.is_some() {
            break;
        }
        offset += buffer.alignment;
    }
}

/// Whether two buffers share a byte at some step.
fn clash(one: &Buffer, one_offset: u64, other: &Buffer, other_offset: u64) -> bool {
    (one.start.max(other.start)..one.end.min(other.end)).any(|step| {
        let (low, high) = window(one, step);
        let (other_low, other_high) = window(other, step);
        (one_offset + low).max(other_offset + other_low) < (one_offset + high).min(other_offset + other_high)
    })
}

/// Returns the bytes of a buffer that are live at a step, relative to its offset.
fn window(buffer: &Buffer, step: u32) -> (u64, u64) {
    let gap = buffer.gaps.iter().find(|gap| (gap.start..gap.end).contains(&step));
    gap.map_or((0, buffer.size), |gap| gap.window.unwrap_or((0, 0)))
}

fn buffer(choices: &mut Choices<'_>, small: bool) -> Buffer {
    let steps = if small { 6 } else { 30 };
    let start = choices.below(steps);
    let end = start + choices.below(steps - start + 1);
    let size = if small { choices.below(9) as u64 } else { choices.number() };
    let mut buffer = Buffer::new(start as u32, end as u32, size);
    if choices.once_in(4) {
        buffer.alignment =
            *choices.pick(&[2, 3, 4, if small { 5 } else { 1 << 40 }, if small { 8 } else { 0 }]);
    }
    if choices.once_in(8) {
        let place = if small { choices.below(12) as u64 } else { choices.number() };
        let aligned = place / buffer.alignment.max(1) * buffer.alignment;
        buffer.fixed_offset = Some(if choices.once_in(64) { place } else { aligned });
    }
    for _ in 0..choices.below(8).saturating_sub(5) {
        let from = buffer.gaps.last().map_or(start, |gap: &Gap| gap.end as usize);
        let gap_start = from + choices.below((end + 1).saturating_sub(from).max(1));
        let gap_end = gap_start
            + choices.below((end + 1).saturating_sub(gap_start).max(1))
            + usize::from(choices.once_in(16));
        let low = choices.below(size.min(64) as usize + 1) as u64;
        let high = low + choices.below((size - low).min(64) as usize + 1) as u64;
        let window = (!choices.once_in(3)).then_some((low, high));
        if gap_start < gap_end || choices.once_in(32) {
            buffer.gaps.push(Gap { start: gap_start as u32, end: gap_end as u32, window });
        }
    }
    buffer
}

/// Checks that a problem survives writing to a file and reading.
fn file_round_trip(mut problem: Problem) {
    problem.capacity = None;
    let ids = (0..problem.buffers.len()).map(|index| format!("b{index}")).collect();
    let table = csv::Table { ids, problem };
    let text = csv::write(&table, None);
    assert_eq!(csv::read(&text).as_ref(), Ok(&table), "{text}");
}
