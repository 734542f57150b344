//! The budget solver: against exhaustive search on small problems, and held by the checker on random ones of all kinds.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use memc_solve::budget::bound::Scope;
use memc_solve::budget::{Event, Link, Origin, Plan, Problem, Run, Space, Value, check, improve, measure, plan, solve};
use memc_solve::{Limit, Status, Stop};
use proptest::prelude::*;

/// A run: size, cost, scratch, reads (as numbers that are reduced to earlier values), and flags.
type Seed = (u64, u64, u64, Vec<u16>, u8);

fn seeds(most: usize) -> impl Strategy<Value = Vec<Seed>> {
    let run = (0_u64..30, 0_u64..20, 0_u64..8, prop::collection::vec(any::<u16>(), 0..4), any::<u8>());
    prop::collection::vec(run, 2..most)
}

/// Each run makes one value, can run again and has no scratch.
fn plain(seeds: &[Seed]) -> Problem {
    let mut problem = Problem::default();
    for (index, (size, cost, _, reads, _)) in seeds.iter().enumerate() {
        let mut reads: Vec<u32> = reads.iter().filter(|_| index > 0).map(|read| u32::from(*read) % index.max(1) as u32).collect();
        reads.sort_unstable();
        reads.dedup();
        problem.runs.push(Run { reads, writes: vec![index as u32], cost: *cost, repeatable: true, ..Run::default() });
        problem.values.push(Value { size: *size, ..Value::default() });
    }
    problem
}

/// All that a problem may have, but farther spaces.
fn rich(seeds: &[Seed]) -> Problem {
    let mut problem = Problem::default();
    for (index, (size, cost, scratch, reads, flags)) in seeds.iter().enumerate() {
        if flags & 0x0f == 1 {
            problem.values.push(Value { size: *size, origin: Origin::Near, kept: flags & 0x10 > 0, ..Value::default() });
        }
        let values = problem.values.len();
        let mut reads: Vec<u32> =
            reads.iter().filter(|_| values > 0).map(|read| u32::from(*read) % values.max(1) as u32).collect();
        reads.sort_unstable();
        reads.dedup();
        let fits = |other: &&u32| problem.values[**other as usize].size >= *size;
        let takes_over = if flags & 0x40 > 0 { reads.iter().filter(fits).copied().collect() } else { Vec::new() };
        let predecessors = if flags & 0x0f == 2 && index > 0 { vec![index as u32 - 1] } else { Vec::new() };
        let mut writes = vec![values as u32];
        problem.values.push(Value { size: *size, kept: flags & 0x8f == 0x83, takes_over, ..Value::default() });
        if flags & 0x0f == 4 {
            writes.push(values as u32 + 1);
            problem.values.push(Value { size: size / 2, ..Value::default() });
        }
        let repeatable = flags & 0x0f != 5;
        problem.runs.push(Run { reads, writes, predecessors, cost: *cost, scratch: *scratch, repeatable });
    }
    problem
}

/// The same with a link, and with values that lie far.
fn with_link(seeds: &[Seed], rate: u64) -> Problem {
    let mut problem = rich(seeds);
    problem.spaces.push(Space { capacity: Some(400) });
    problem.links.push(Link { space: 0, store_rate: rate, load_rate: rate + 1, store_latency: 1, load_latency: 2 });
    for value in &mut problem.values {
        value.movable = value.size % 4 != 1;
        if value.origin == Origin::Near && value.size % 2 == 0 {
            *value = Value { origin: Origin::Far(0), kept: false, ..value.clone() };
        }
    }
    problem
}

/// The same with a second space, which is slower and has less room.
fn with_links(seeds: &[Seed], rate: u64) -> Problem {
    let mut problem = with_link(seeds, rate);
    problem.spaces.push(Space { capacity: Some(60) });
    problem.links.push(Link { space: 1, store_rate: 1, load_rate: 1 + rate / 4, store_latency: 0, load_latency: 9 });
    problem
}

/// The cheapest cost within a capacity, by Dijkstra's algorithm over what has run and what is there.
fn cheapest(problem: &Problem, capacity: u64) -> Option<u64> {
    let count = problem.runs.len();
    let bytes = |set: u32| (0..count).filter(|value| set >> value & 1 == 1).map(|value| problem.values[value].size).sum::<u64>();
    let mut open = BinaryHeap::from([(std::cmp::Reverse(0_u64), 0_u32, 0_u32)]);
    let mut known = BTreeMap::from([((0, 0), 0_u64)]);
    while let Some((std::cmp::Reverse(cost), ran, here)) = open.pop() {
        if ran == (1 << count) - 1 {
            return Some(cost);
        }
        if known.get(&(ran, here)).is_some_and(|best| *best < cost) {
            continue;
        }
        for (index, run) in problem.runs.iter().enumerate() {
            let all = here | 1 << index;
            if run.reads.iter().any(|value| here >> value & 1 == 0) || here >> index & 1 == 1 {
                continue;
            }
            // Anything may be dropped before, but operands: what stays beside them is chosen here.
            let forced = run.reads.iter().fold(1 << index, |set, value| set | 1 << value);
            let mut kept = all & !forced;
            loop {
                let (next, total) = ((ran | 1 << index, kept | forced), cost + run.cost);
                if bytes(next.1) <= capacity && known.get(&next).is_none_or(|best| total < *best) {
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

fn given(problem: &Problem) -> Option<Plan> {
    let runs: Vec<Event> = (0..problem.runs.len() as u32).map(Event::Run).collect();
    measure(problem, &runs).ok()
}

fn small_effort() -> Limit {
    Limit { nodes: 100 }
}

/// Plans from the most bytes to the least: what no plan can beat rises, and what no plan can keep stays so.
fn sweep_down(problem: &Problem, peak: u64, percents: &BTreeSet<u64>) -> Result<(), TestCaseError> {
    let mut bounds: Vec<(u64, u64)> = Vec::new();
    let mut is_refused = false;
    for percent in percents.iter().rev() {
        let capacity = peak * percent / 100;
        let certified = plan(problem, capacity, small_effort()).unwrap();
        match &certified.outcome.solution {
            Some(plan) => {
                prop_assert!(!is_refused);
                prop_assert_eq!(check(problem, capacity, plan), Ok(()));
                prop_assert!(bounds.iter().all(|(cost, makespan)| *cost <= plan.cost && *makespan <= plan.makespan));
            }
            None => is_refused |= certified.outcome.status() == Status::Infeasible,
        }
        if certified.certificate.scope == Scope::AnyOrder {
            bounds.push((certified.certificate.cost, certified.certificate.makespan));
        }
        prop_assert!(certified.outcome.value.is_none_or(|value| certified.outcome.lower_bound <= value));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn small_problems_are_solved_to_the_optimum(seeds in seeds(7), percent in 40_u64..100) {
        let problem = plain(&seeds);
        let capacity = given(&problem).unwrap().peak * percent / 100;
        let outcome = solve(&problem, capacity, Limit { nodes: 1_000 }).unwrap();
        prop_assert_eq!(outcome.value, cheapest(&problem, capacity));
        if let Some(plan) = &outcome.solution {
            prop_assert_eq!(check(&problem, capacity, plan), Ok(()));
        }
    }

    #[test]
    fn every_answer_is_right_at_every_capacity(seeds in seeds(40), percents in prop::collection::vec(20_u64..110, 4)) {
        let problem = rich(&seeds);
        let base = given(&problem).unwrap();
        for percent in percents {
            let capacity = base.peak * percent / 100;
            let outcome = solve(&problem, capacity, small_effort()).unwrap();
            prop_assert_eq!(&outcome, &solve(&problem, capacity, small_effort()).unwrap());
            if let Some(plan) = &outcome.solution {
                prop_assert_eq!(check(&problem, capacity, plan), Ok(()));
                prop_assert!(plan.makespan >= base.cost);
            }
            if capacity >= base.peak {
                prop_assert_eq!(outcome.value, Some(base.cost));
                prop_assert_eq!(outcome.status(), Status::Optimal);
            }
        }
    }

    #[test]
    fn a_plan_for_less_is_never_below_the_bound_for_more(seeds in seeds(40), percents in prop::collection::btree_set(20_u64..110, 4)) {
        let problem = rich(&seeds);
        sweep_down(&problem, given(&problem).unwrap().peak, &percents)?;
    }

    #[test]
    fn bounds_hold_as_budgets_fall_beside_links(
        seeds in seeds(40),
        rate in 1_u64..20,
        percents in prop::collection::btree_set(20_u64..110, 4),
    ) {
        let peak = given(&rich(&seeds)).unwrap().peak;
        sweep_down(&with_link(&seeds, rate), peak, &percents)?;
        sweep_down(&with_links(&seeds, rate), peak, &percents)?;
    }

    #[test]
    fn every_answer_with_transfers_is_right(seeds in seeds(40), rate in 1_u64..40, percents in prop::collection::vec(20_u64..110, 3)) {
        let problem = with_link(&seeds, rate);
        let base = given(&rich(&seeds)).unwrap();
        for percent in percents {
            let capacity = base.peak * percent / 100;
            let outcome = solve(&problem, capacity, small_effort()).unwrap();
            if let Some(plan) = &outcome.solution {
                prop_assert_eq!(check(&problem, capacity, plan), Ok(()));
                prop_assert_eq!(outcome.value, Some(plan.makespan));
            }
        }
    }
}

/// A chain there and back, as training has it: each step back reads what the same step made on the way there.
fn there_and_back(steps: u32, link: Option<Link>) -> Problem {
    let mut problem = Problem::default();
    for index in 0..2 * steps {
        let mut reads: Vec<u32> = index.checked_sub(1).into_iter().collect();
        if index > steps {
            reads.insert(0, 2 * steps - 1 - index);
        }
        problem.runs.push(Run { reads, writes: vec![index], cost: 10, repeatable: true, ..Run::default() });
        problem.values.push(Value { size: if index < steps { 100 } else { 1 }, movable: true, ..Value::default() });
    }
    if let Some(link) = link {
        problem.spaces.push(Space::default());
        problem.links.push(link);
    }
    problem
}

#[test]
fn half_of_the_memory_costs_less_than_another_way_there() {
    let problem = there_and_back(40, None);
    let base = given(&problem).unwrap();
    let plan = solve(&problem, base.peak / 2, Limit::default()).unwrap().solution.unwrap();
    assert!(plan.cost > base.cost && plan.cost < base.cost * 3 / 2, "{}", plan.cost);
}

#[test]
fn a_search_goes_on_from_a_plan() {
    let problem = there_and_back(40, None);
    let capacity = given(&problem).unwrap().peak / 2;
    let from = solve(&problem, capacity / 2, Limit { nodes: 0 }).unwrap().solution.unwrap();
    let improved = |problem: &Problem, from: &Plan, nodes: u64| {
        let plan = improve(problem, capacity, from, Limit { nodes }, Stop::default()).unwrap().solution.unwrap();
        assert_eq!(check(problem, capacity, &plan), Ok(()));
        plan
    };
    // It begins there and not anew: without effort it only leaves out what there is room to keep.
    let is_within = |plan: &Plan| {
        let mut all = from.events.iter();
        plan.events.iter().all(|event| all.any(|other| other == event))
    };
    assert!(is_within(&improved(&problem, &from, 0)));
    assert!(!is_within(&solve(&problem, capacity, Limit { nodes: 0 }).unwrap().solution.unwrap()));
    let anew = solve(&problem, capacity, Limit { nodes: 1000 }).unwrap().solution.unwrap();
    assert!(anew.cost < from.cost && improved(&problem, &from, 1000).cost <= anew.cost);
    // Where something may be moved it begins anew.
    let link = Link { space: 0, store_rate: 20, load_rate: 20, store_latency: 0, load_latency: 0 };
    let linked = there_and_back(40, Some(link));
    assert_eq!(improved(&linked, &from, 0).makespan, given(&linked).unwrap().cost);
}

#[test]
fn a_fast_link_hides_all() {
    let link = Link { space: 0, store_rate: 20, load_rate: 20, store_latency: 0, load_latency: 0 };
    let problem = there_and_back(40, Some(link));
    let base = given(&problem).unwrap();
    let outcome = solve(&problem, base.peak / 2, Limit::default()).unwrap();
    assert_eq!((outcome.value, outcome.status()), (Some(base.cost), Status::Optimal));
    assert!(outcome.solution.unwrap().events.iter().any(|event| matches!(event, Event::Store { .. })));
}

#[test]
fn results_run_late_where_what_they_are_made_of_is_moved_away() {
    // A wide value and a result of it, which have room beside another wide value only if the first one is gone by then.
    let run = |reads: &[u32], value: u32| Run {
        reads: reads.to_vec(),
        writes: vec![value],
        cost: 50,
        repeatable: true,
        ..Run::default()
    };
    let value = |(size, kept): (u64, bool)| Value { size, kept, movable: !kept, ..Value::default() };
    let sizes = [(1, false), (1000, false), (800, true), (1, false), (1200, false), (100, true), (1, false)];
    let reads: [&[u32]; 7] = [&[], &[0], &[1], &[1], &[3], &[4], &[5]];
    let link = Link { space: 0, store_rate: 100, load_rate: 100, store_latency: 0, load_latency: 0 };
    let problem = Problem {
        runs: reads.into_iter().zip(0..).map(|(reads, made)| run(reads, made)).collect(),
        values: sizes.map(value).to_vec(),
        spaces: vec![Space::default()],
        links: vec![link],
    };
    let outcome = solve(&problem, 1910, Limit::default()).unwrap();
    assert_eq!((outcome.value, outcome.status()), (Some(350), Status::Optimal));
}

#[test]
fn what_runs_once_is_never_run_twice() {
    let mut problem = there_and_back(10, None);
    problem.runs.iter_mut().for_each(|run| run.repeatable = false);
    let base = given(&problem).unwrap();
    assert_eq!(solve(&problem, base.peak - 1, Limit::default()).unwrap().status(), Status::Unknown);
    problem.runs[1].repeatable = true;
    let plan = solve(&problem, base.peak - 1, Limit::default()).unwrap().solution.unwrap();
    assert_eq!(plan.events.iter().filter(|event| **event == Event::Run(1)).count(), 2);
    assert_eq!(plan.events.len(), 21);
}

#[test]
fn far_values_are_fetched_in_time() {
    // Ten weights that lie far, of which two fit at once; each run reads one.
    let link = Link { space: 0, store_rate: 1, load_rate: 10, store_latency: 0, load_latency: 0 };
    let mut problem = Problem { spaces: vec![Space::default()], links: vec![link], ..Problem::default() };
    for index in 0..10 {
        problem.values.push(Value { size: 100, origin: Origin::Far(0), ..Value::default() });
        problem.runs.push(Run { reads: vec![index], cost: 10, repeatable: true, ..Run::default() });
    }
    let plan = solve(&problem, 200, Limit::default()).unwrap().solution.unwrap();
    assert_eq!(check(&problem, 200, &plan), Ok(()));
    // The first load cannot hide; the others do.
    assert_eq!(plan.makespan, 110);
}
