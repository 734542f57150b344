//! Compares bounds of budget problems with the optimum, found by trying every plan of small problems.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use memc_solve::budget::bound::{Scope, gap_cover, lower_bounds};
use memc_solve::budget::exact::{self, Exact};
use memc_solve::budget::{Event, Origin, Problem, Run, Value, check, measure, plan};
use memc_solve::{Limit, Status};

/// Pseudo-random numbers below a bound, from a fixed start.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

/// Builds up to eight runs with one or two results. Some problems have an input, workspaces, kept
/// results, runs that execute only once, and takeovers.
fn random_problem(numbers: &mut Numbers) -> Problem {
    let mut problem = Problem::default();
    if numbers.one_in(2) {
        problem.values.push(Value { size: numbers.below(9), origin: Origin::Near, ..Value::default() });
    }
    // In a third of the problems many results are kept.
    let kept = if numbers.one_in(3) { 3 } else { 20 };
    for run in 0..5 + numbers.below(4) as u32 {
        let there = problem.values.len() as u64;
        let mut reads: Vec<u32> =
            (0..numbers.below(2)).filter(|_| there > 0).map(|_| numbers.below(there.max(1)) as u32).collect();
        if there > 0 && !numbers.one_in(4) {
            reads.push(there as u32 - 1);
        }
        let predecessors =
            if run > 0 && numbers.one_in(6) { vec![numbers.below(run.into()) as u32] } else { vec![] };
        let mut writes = Vec::new();
        for _ in 0..1 + u64::from(numbers.one_in(6)) {
            let size = numbers.below(10);
            let can_take = |other: &&u32| problem.values[**other as usize].size >= size;
            let takes_over =
                if numbers.one_in(4) { reads.iter().filter(can_take).copied().collect() } else { vec![] };
            writes.push(problem.values.len() as u32);
            problem.values.push(Value { size, takes_over, kept: numbers.one_in(kept), ..Value::default() });
        }
        let scratch = if numbers.one_in(4) { numbers.below(5) } else { 0 };
        problem.runs.push(Run {
            reads,
            writes,
            predecessors,
            cost: numbers.below(20),
            scratch,
            repeatable: !numbers.one_in(8),
        });
    }
    problem.validate().unwrap();
    problem
}

/// Returns the bytes of a step: present and new values, less the most that results take over from ending
/// operands.
fn bytes(problem: &Problem, resident: u32, run: &Run, ends: u32) -> u64 {
    let made = run.writes.iter().fold(0, |made, value| made | 1_u32 << value);
    let size = |value: usize| problem.values[value].size;
    let held: u64 =
        (0..problem.values.len()).filter(|value| (resident | made) >> value & 1 == 1).map(size).sum();
    // All pairings, one taker after the other.
    let mut ways = vec![(ends, 0_u64)];
    for value in &run.writes {
        let taker = &problem.values[*value as usize];
        for (free, shared) in ways.clone() {
            let partners = taker.takes_over.iter().filter(|other| free >> **other & 1 == 1);
            ways.extend(partners.map(|other| (free & !(1 << other), shared + taker.size)));
        }
    }
    held + run.scratch - ways.iter().map(|way| way.1).max().unwrap_or(0)
}

/// Returns the least cost of a plan within a capacity, by Dijkstra's algorithm over executed runs and
/// present values; `None` if no plan exists.
fn cheapest(problem: &Problem, capacity: u64, keeps_order: bool) -> Option<u64> {
    let all = (1_u32 << problem.runs.len()) - 1;
    let is = |value: &u32, what: fn(&Value) -> bool| what(&problem.values[*value as usize]);
    let start =
        (0..problem.values.len() as u32).filter(|value| is(value, |value| value.origin == Origin::Near));
    let start = start.fold(0_u32, |set, value| set | 1 << value);
    let held: u64 = (0..problem.values.len())
        .filter(|value| start >> value & 1 == 1)
        .map(|value| problem.values[value].size)
        .sum();
    if held > capacity {
        return None;
    }
    let mut best: BTreeMap<(u32, u32), u64> = BTreeMap::from([((0, start), 0)]);
    let mut queue = BinaryHeap::from([Reverse((0, (0_u32, start)))]);
    while let Some(Reverse((cost, (ran, resident)))) = queue.pop() {
        if ran == all {
            return Some(cost);
        }
        if best[&(ran, resident)] < cost {
            continue;
        }
        let mut reach = |state: (u32, u32), cost: u64| {
            if best.get(&state).is_none_or(|other| cost < *other) {
                best.insert(state, cost);
                queue.push(Reverse((cost, state)));
            }
        };
        for value in (0..problem.values.len() as u32)
            .filter(|value| resident >> value & 1 == 1 && !is(value, |value| value.kept))
        {
            reach((ran, resident & !(1 << value)), cost);
        }
        for (index, run) in problem.runs.iter().enumerate() {
            let again = ran >> index & 1 == 1;
            let makes_kept = run.writes.iter().any(|value| is(value, |value| value.kept));
            let waits = run.predecessors.iter().any(|other| ran >> other & 1 == 0);
            let misses = run.reads.iter().any(|value| resident >> value & 1 == 0);
            let out_of_turn = keeps_order && !again && ran != (1 << index) - 1;
            if (again && (!run.repeatable || makes_kept)) || waits || misses || out_of_turn {
                continue;
            }
            let made = run.writes.iter().fold(0, |made, value| made | 1_u32 << value);
            let operands: u32 = run
                .reads
                .iter()
                .filter(|value| !is(value, |value| value.kept))
                .fold(0, |set, value| set | 1 << value);
            let mut ends = operands;
            loop {
                if bytes(problem, resident, run, ends) <= capacity {
                    reach((ran | 1 << index, resident & !ends | made), cost + run.cost);
                }
                if ends == 0 {
                    break;
                }
                ends = (ends - 1) & operands;
            }
        }
    }
    None
}

#[test]
fn small_problems_are_settled() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let (mut optimal, mut infeasible) = (0, 0);
    for _ in 0..60 {
        let problem = random_problem(&mut numbers);
        let own = lower_bounds(&problem, &(0..problem.runs.len() as u32).collect::<Vec<u32>>(), u64::MAX, 0)
            .least_peak;
        let capacity = (own + numbers.below(4)).saturating_sub(1);
        let certified = plan(&problem, capacity, Limit::nodes(2000)).unwrap();
        let best = cheapest(&problem, capacity, false);
        assert_eq!(certified.outcome.value, best, "{capacity} {problem:#?}");
        if let Some(plan) = &certified.outcome.solution {
            check(&problem, capacity, plan).unwrap();
            assert_eq!(
                (certified.outcome.status(), certified.certificate.scope),
                (Status::Optimal, Scope::AnyOrder)
            );
            assert_eq!(Some(certified.certificate.cost), best);
            optimal += 1;
        } else {
            assert_eq!(certified.outcome.status(), Status::Infeasible);
            infeasible += 1;
        }
    }
    assert!(optimal > 10 && infeasible > 5, "{optimal} {infeasible}");
}

#[test]
fn no_bound_is_above_the_best_plan() {
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    let (mut reached, mut above_base, mut refused, mut plans) = (0, 0, 0, 0);
    for _ in 0..2000 {
        let problem = random_problem(&mut numbers);
        let given: Vec<u32> = (0..problem.runs.len() as u32).collect();
        let base: u64 = problem.runs.iter().map(|run| run.cost).sum();
        let events: Vec<Event> = given.iter().map(|run| Event::Run(*run)).collect();
        let peak = measure(&problem, &events).unwrap().peak;
        let least = lower_bounds(&problem, &given, u64::MAX, 0).least_peak;
        let capacity =
            (least + (peak - least) * numbers.below(100) / 100).saturating_sub(u64::from(numbers.one_in(8)));
        let any = cheapest(&problem, capacity, false);
        match (exact::solve(&problem, capacity, 100_000), any) {
            (Exact::Plan(events), Some(best)) => {
                let plan = measure(&problem, &events).unwrap();
                assert!(
                    plan.cost == best && plan.peak <= capacity,
                    "{best} {capacity} {plan:?} {problem:#?}"
                );
            }
            (Exact::Impossible, None) => {}
            (other, best) => panic!("{other:?} {best:?} {capacity} {problem:#?}"),
        }
        if let (Exact::AtLeast(extra), Some(best)) = (exact::solve(&problem, capacity, numbers.below(2)), any)
        {
            assert!(base + extra <= best, "{extra} {best} {capacity} {problem:#?}");
        }
        let bounds = lower_bounds(&problem, &given, capacity, numbers.below(3) * 5_000);
        let in_order = cheapest(&problem, capacity, true);
        let context = format!("capacity {capacity}, {in_order:?}, {any:?}, {bounds:?}, {problem:#?}");
        match (bounds.any_order, any) {
            (Ok(least), Some(best)) => {
                assert!(least.cost <= best && least.makespan <= best, "{context}");
                plans += 1;
                above_base += u32::from(least.cost > base);
            }
            (Err(conflict), best) => {
                assert!(
                    best.is_none() && conflict.needed > capacity && bounds.least_peak > capacity,
                    "{context}"
                );
                refused += 1;
            }
            (Ok(_), None) => {}
        }
        match (bounds.given_order, in_order) {
            (Ok(least), Some(best)) => {
                assert!(least.cost <= best && least.makespan <= best, "{context}");
                reached += u32::from(least.cost == best && best > base);
            }
            (Err(_), best) => assert_eq!(best, None, "{context}"),
            (Ok(_), None) => {}
        }
        let cover = gap_cover(&problem, &given, capacity, numbers.below(2) * 100);
        assert!(cover.impossible.is_none() || in_order.is_none(), "{context}");
        assert!(in_order.is_none_or(|best| cover.lower_bound <= best), "{context}");
        assert!(any.is_none() || bounds.least_peak <= capacity, "{context}");
    }
    assert!(
        plans > 1000 && reached > 30 && above_base > 50 && refused > 50,
        "{plans} {reached} {above_base} {refused}"
    );
}
