//! Small ordering problems, and their optimum by trying all orders.

use memc_solve::order::{Buffer, Operation, Problem};
use proptest::prelude::*;

/// Returns the peak by its definition: the buffers live at each step, with the best takeovers found by
/// trying all.
pub fn definition(problem: &Problem, order: &[u32]) -> u64 {
    let place = |operation: &u32| order.iter().position(|other| other == operation).unwrap();
    let range = |buffer: &Buffer| {
        let first = if buffer.live_from_start { Some(0) } else { buffer.users.iter().map(place).min() };
        let last = if buffer.kept { Some(order.len() - 1) } else { buffer.users.iter().map(place).max() };
        first.zip(last)
    };
    let ranges: Vec<_> = problem.buffers.iter().map(range).collect();
    let bytes = |step: usize| {
        let live = |(buffer, range): (&Buffer, &Option<(usize, usize)>)| {
            range.filter(|range| range.0 <= step && step <= range.1).map_or(0, |_| buffer.size)
        };
        let starts = |index: usize| {
            !problem.buffers[index].live_from_start && ranges[index].is_some_and(|range| range.0 == step)
        };
        let before = |index: usize| {
            problem.buffers[index].live_from_start || ranges[index].is_some_and(|range| range.0 < step)
        };
        let dies = |index: usize| {
            before(index)
                && !problem.buffers[index].kept
                && ranges[index].is_some_and(|range| range.1 == step)
        };
        let takers: Vec<usize> = (0..ranges.len()).filter(|index| starts(*index)).collect();
        let sum: u64 = problem.buffers.iter().zip(&ranges).map(live).sum();
        sum + problem.operations[order[step] as usize].scratch
            - most_shared(problem, &takers, &dies, &mut Vec::new())
    };
    (0..order.len()).map(bytes).max().unwrap_or(0)
}

pub fn most_shared(
    problem: &Problem,
    takers: &[usize],
    dies: &dyn Fn(usize) -> bool,
    taken: &mut Vec<u32>,
) -> u64 {
    let Some((first, rest)) = takers.split_first() else { return 0 };
    let mut best = most_shared(problem, rest, dies, taken);
    for &other in &problem.buffers[*first].takes_over {
        if dies(other as usize) && !taken.contains(&other) {
            taken.push(other);
            best = best.max(problem.buffers[*first].size + most_shared(problem, rest, dies, taken));
            taken.pop();
        }
    }
    best
}

pub fn all_orders(problem: &Problem, prefix: &mut Vec<u32>, visit: &mut dyn FnMut(&[u32])) {
    if prefix.len() == problem.operations.len() {
        return visit(prefix);
    }
    for operation in 0..problem.operations.len() as u32 {
        let ready =
            problem.operations[operation as usize].predecessors.iter().all(|before| prefix.contains(before));
        if ready && !prefix.contains(&operation) {
            prefix.push(operation);
            all_orders(problem, prefix, visit);
            prefix.pop();
        }
    }
}

pub fn optimum(problem: &Problem) -> u64 {
    let mut best = u64::MAX;
    all_orders(problem, &mut Vec::new(), &mut |order| best = best.min(definition(problem, order)));
    best
}

/// Generates values with readers, shared views, workspaces, inputs, results and takeovers.
pub fn problem(most: usize) -> impl Strategy<Value = Problem> {
    let operation = (0..8_u64, 0..10_u8, any::<u16>(), any::<u16>(), any::<u8>());
    prop::collection::vec(operation, 1..=most).prop_map(|list| {
        let mut problem = Problem::default();
        for (index, (size, scratch, reads, extra, flags)) in list.into_iter().enumerate() {
            let index = index as u32;
            let before: Vec<u32> =
                (0..index).filter(|other| reads >> other & 1 == 1 && extra >> other & 1 == 1).collect();
            for &other in &before {
                problem.buffers[other as usize].users.push(index);
            }
            let takes_over = before
                .iter()
                .copied()
                .filter(|other| flags & 1 == 1 && problem.buffers[*other as usize].size >= size)
                .collect();
            problem
                .operations
                .push(Operation { predecessors: before, scratch: u64::from(scratch.saturating_sub(7)) });
            problem.buffers.push(Buffer {
                size,
                users: vec![index],
                kept: flags & 14 == 14,
                live_from_start: flags & 112 == 112,
                takes_over,
            });
        }
        // Add a buffer that several operations may be the first to use.
        let users = (0..problem.operations.len() as u32).step_by(3).collect();
        let takes_over = (0..problem.buffers.len() as u32)
            .filter(|other| problem.buffers[*other as usize].size > 5)
            .collect();
        problem.buffers.push(Buffer { size: 5, users, takes_over, ..Buffer::default() });
        problem
    })
}

pub fn given(problem: &Problem) -> Vec<u32> {
    (0..problem.operations.len() as u32).collect()
}
