//! Small budget problems, and their optimum by Dijkstra's algorithm.

use std::collections::{BTreeMap, BinaryHeap};

use memc_solve::budget::{Event, Link, Origin, Plan, Problem, Run, Space, Value, measure};
use proptest::prelude::*;

/// Data of a run: size of its value, cost, workspace, reads (numbers reduced to earlier values), and
/// flags.
pub type Seed = (u64, u64, u64, Vec<u16>, u8);

pub fn seeds(most: usize) -> impl Strategy<Value = Vec<Seed>> {
    let run = (0_u64..30, 0_u64..20, 0_u64..8, prop::collection::vec(any::<u16>(), 0..4), any::<u8>());
    prop::collection::vec(run, 2..most)
}

/// Builds a problem in which each run makes one value, is repeatable and has no workspace.
pub fn plain(seeds: &[Seed]) -> Problem {
    let mut problem = Problem::default();
    for (index, (size, cost, _, reads, _)) in seeds.iter().enumerate() {
        let mut reads: Vec<u32> =
            reads.iter().filter(|_| index > 0).map(|read| u32::from(*read) % index.max(1) as u32).collect();
        reads.sort_unstable();
        reads.dedup();
        problem.runs.push(Run {
            reads,
            writes: vec![index as u32],
            cost: *cost,
            repeatable: true,
            ..Run::default()
        });
        problem.values.push(Value { size: *size, ..Value::default() });
    }
    problem
}

/// Builds a problem with every feature except farther spaces.
pub fn rich(seeds: &[Seed]) -> Problem {
    let mut problem = Problem::default();
    for (index, (size, cost, scratch, reads, flags)) in seeds.iter().enumerate() {
        if flags & 0x0f == 1 {
            problem.values.push(Value {
                size: *size,
                origin: Origin::Near,
                kept: flags & 0x10 > 0,
                ..Value::default()
            });
        }
        let values = problem.values.len();
        let mut reads: Vec<u32> =
            reads.iter().filter(|_| values > 0).map(|read| u32::from(*read) % values.max(1) as u32).collect();
        reads.sort_unstable();
        reads.dedup();
        let fits = |other: &&u32| problem.values[**other as usize].size >= *size;
        let takes_over =
            if flags & 0x40 > 0 { reads.iter().filter(fits).copied().collect() } else { Vec::new() };
        let predecessors = if flags & 0x0f == 2 && index > 0 { vec![index as u32 - 1] } else { Vec::new() };
        let mut writes = vec![values as u32];
        problem.values.push(Value {
            size: *size,
            kept: flags & 0x8f == 0x83,
            takes_over,
            ..Value::default()
        });
        if flags & 0x0f == 4 {
            writes.push(values as u32 + 1);
            problem.values.push(Value { size: size / 2, ..Value::default() });
        }
        let repeatable = flags & 0x0f != 5;
        problem.runs.push(Run { reads, writes, predecessors, cost: *cost, scratch: *scratch, repeatable });
    }
    problem
}

/// Builds the problem of `rich` with a link and with far values.
pub fn with_link(seeds: &[Seed], rate: u64) -> Problem {
    let mut problem = rich(seeds);
    problem.spaces.push(Space { capacity: Some(400) });
    problem.links.push(Link {
        space: 0,
        store_rate: rate,
        load_rate: rate + 1,
        store_latency: 1,
        load_latency: 2,
    });
    for value in &mut problem.values {
        value.movable = value.size % 4 != 1;
        if value.origin == Origin::Near && value.size % 2 == 0 {
            *value = Value { origin: Origin::Far(0), kept: false, ..value.clone() };
        }
    }
    problem
}

/// Builds the problem of `with_link` with a second space, which is slower and smaller.
pub fn with_links(seeds: &[Seed], rate: u64) -> Problem {
    let mut problem = with_link(seeds, rate);
    problem.spaces.push(Space { capacity: Some(60) });
    problem.links.push(Link {
        space: 1,
        store_rate: 1,
        load_rate: 1 + rate / 4,
        store_latency: 0,
        load_latency: 9,
    });
    problem
}

/// Adds a code of a part of its size for some values that runs make, with an optional run each way.
pub fn with_codes(mut problem: Problem, seeds: &[Seed]) -> Problem {
    let is_made = |value: &Value| value.origin == Origin::Made && !value.kept;
    let coded: Vec<u32> =
        (0..problem.values.len() as u32).filter(|value| is_made(&problem.values[*value as usize])).collect();
    for (value, (_, cost, scratch, reads, flags)) in coded.into_iter().zip(seeds) {
        if flags & 0x20 > 0 {
            continue;
        }
        let code = problem.values.len() as u32;
        let size = problem.values[value as usize].size / (2 + reads.len() as u64);
        let run = |reads: u32, writes: u32, cost: u64| Run {
            reads: vec![reads],
            writes: vec![writes],
            predecessors: (flags & 0x40 > 0).then_some(0).into_iter().collect(),
            cost,
            scratch: scratch / 2,
            repeatable: true,
        };
        problem.values.push(Value { size, movable: flags & 0x10 > 0, ..Value::default() });
        problem.optional.extend([run(value, code, cost / 4), run(code, value, cost / 3)]);
    }
    problem
}

/// Adds optional runs that make an operand of a run from its first result and its other operands.
pub fn with_inverses(mut problem: Problem, seeds: &[Seed]) -> Problem {
    let is_made = |value: u32| {
        problem.values[value as usize].origin == Origin::Made && !problem.values[value as usize].kept
    };
    let mut inverses = Vec::new();
    for (run, (_, cost, scratch, _, flags)) in problem.runs.iter().zip(seeds) {
        let (Some(&result), Some(&operand)) =
            (run.writes.first(), run.reads.iter().find(|value| is_made(**value)))
        else {
            continue;
        };
        if flags & 0x20 > 0 || result == operand {
            continue;
        }
        let others = run.reads.iter().copied().filter(|value| *value != operand && *value != result);
        inverses.push(Run {
            reads: [result].into_iter().chain(others).collect(),
            writes: vec![operand],
            predecessors: (flags & 0x40 > 0).then_some(0).into_iter().collect(),
            cost: cost / 4,
            scratch: scratch / 2,
            repeatable: true,
        });
    }
    problem.optional.extend(inverses);
    problem
}

/// Returns the least cost within a capacity, by Dijkstra's algorithm over executed runs and present
/// values. For problems whose runs make one value each, as [`plain`] builds them.
pub fn cheapest(problem: &Problem, capacity: u64) -> Option<u64> {
    let (count, required) = (problem.values.len(), problem.runs.len());
    let bytes = |set: u32| {
        (0..count).filter(|value| set >> value & 1 == 1).map(|value| problem.values[value].size).sum::<u64>()
    };
    let mut open = BinaryHeap::from([(std::cmp::Reverse(0_u64), 0_u32, 0_u32)]);
    let mut known = BTreeMap::from([((0, 0), 0_u64)]);
    while let Some((std::cmp::Reverse(cost), ran, here)) = open.pop() {
        if ran == (1 << required) - 1 {
            return Some(cost);
        }
        if known.get(&(ran, here)).is_some_and(|best| *best < cost) {
            continue;
        }
        for (index, run) in problem.all_runs().enumerate() {
            let made = run.writes[0];
            let all = here | 1 << made;
            let waits = run.predecessors.iter().any(|other| ran >> other & 1 == 0);
            if waits || run.reads.iter().any(|value| here >> value & 1 == 0) || here >> made & 1 == 1 {
                continue;
            }
            // Any value except operands may be dropped before the run; this loop chooses the other
            // values that stay.
            let forced = run.reads.iter().fold(1 << made, |set, value| set | 1 << value);
            let mut kept = all & !forced;
            let ran = if index < required { ran | 1 << index } else { ran };
            loop {
                let (next, total) = ((ran, kept | forced), cost + run.cost);
                if bytes(next.1) + run.scratch <= capacity
                    && known.get(&next).is_none_or(|best| total < *best)
                {
                    known.insert(next, total);
                    open.push((std::cmp::Reverse(total), next.0, next.1));
                }
                if kept == 0 {
                    break;
                }
                kept = (kept - 1) & all & !forced;
            }
        }
    }
    None
}

pub fn given(problem: &Problem) -> Option<Plan> {
    let runs: Vec<Event> = (0..problem.runs.len() as u32).map(Event::Run).collect();
    measure(problem, &runs).ok()
}
