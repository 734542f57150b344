//! Tests of the budget solver: compares answers with exhaustive search on small problems, and checks the
//! plans of random problems of all kinds.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use memc_solve::budget::bound::Scope;
use memc_solve::budget::{
    Certified, Event, Link, Origin, Plan, Problem, Run, Space, Value, check, improve, plan, solve,
};
use memc_solve::{Limit, Status, Stop};
use problems::budget::{
    cheapest, given, plain, rich, seeds, with_codes, with_inverses, with_link, with_links,
};
use proptest::prelude::*;

use crate::problems;

fn small_effort() -> Limit {
    Limit::nodes(100)
}

/// Plans from the largest capacity to the smallest: bounds must not fall, and a capacity that was
/// refused must stay refused.
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
                prop_assert!(
                    bounds.iter().all(|(cost, makespan)| *cost <= plan.cost && *makespan <= plan.makespan)
                );
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
        let outcome = solve(&problem, capacity, Limit::nodes(1_000)).unwrap();
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
    fn a_plan_for_less_room_respects_the_bound_for_more_room(seeds in seeds(40), percents in prop::collection::btree_set(20_u64..110, 4)) {
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn small_problems_with_codes_are_solved_within_their_bounds(seeds in seeds(5), percent in 40_u64..100) {
        let problem = with_codes(plain(&seeds), &seeds);
        let capacity = given(&problem).unwrap().peak * percent / 100;
        let certified = plan(&problem, capacity, Limit::nodes(1_000)).unwrap();
        let best = cheapest(&problem, capacity);
        prop_assert!(best.is_none_or(|best| certified.certificate.scope == Scope::GivenOrder || certified.certificate.cost <= best));
        prop_assert!(certified.outcome.value.is_none_or(|value| best.is_some_and(|best| best <= value)));
        prop_assert!(best.is_none() || certified.outcome.status() != Status::Infeasible);
        if let Some(plan) = &certified.outcome.solution {
            prop_assert_eq!(check(&problem, capacity, plan), Ok(()));
        }
    }

    #[test]
    fn every_answer_with_codes_is_right(
        seeds in seeds(40),
        rate in 1_u64..40,
        percents in prop::collection::btree_set(20_u64..110, 3),
    ) {
        for problem in [with_codes(rich(&seeds), &seeds), with_codes(with_link(&seeds, rate), &seeds)] {
            sweep_down(&problem, given(&rich(&seeds)).unwrap().peak, &percents)?;
        }
    }

    #[test]
    fn every_answer_with_inverses_is_right(
        seeds in seeds(40),
        rate in 1_u64..40,
        percents in prop::collection::btree_set(20_u64..110, 3),
    ) {
        let coded = with_inverses(with_codes(rich(&seeds), &seeds), &seeds);
        for problem in [with_inverses(rich(&seeds), &seeds), with_inverses(with_link(&seeds, rate), &seeds), coded] {
            sweep_down(&problem, given(&rich(&seeds)).unwrap().peak, &percents)?;
        }
    }
}

/// Returns the optional runs of a plan.
fn optional(problem: &Problem, plan: &Plan) -> Vec<u32> {
    let is_optional = |event: &Event| match event {
        Event::Run(run) if *run as usize >= problem.runs.len() => Some(*run - problem.runs.len() as u32),
        _ => None,
    };
    plan.events.iter().filter_map(is_optional).collect()
}

/// Builds a chain as in training whose wide values may lie as codes of an eighth of their size, at a
/// cost of 1 to make and 1 to read.
fn there_and_back_with_codes(steps: u32) -> Problem {
    let mut problem = there_and_back(steps, None);
    for value in 0..steps {
        let code = problem.values.len() as u32;
        problem.values.push(Value { size: problem.values[value as usize].size / 8, ..Value::default() });
        problem.optional.push(Run { reads: vec![value], writes: vec![code], cost: 1, ..Run::default() });
        problem.optional.push(Run { reads: vec![code], writes: vec![value], cost: 1, ..Run::default() });
    }
    problem
}

fn budget_plan(problem: &Problem, capacity: u64) -> Certified {
    plan(problem, capacity, small_effort()).unwrap()
}

#[test]
fn codes_that_cost_less_than_recomputation_are_chosen() {
    let problem = there_and_back_with_codes(40);
    let base = given(&problem).unwrap();
    for percent in [95, 70, 40] {
        let capacity = base.peak * percent / 100;
        let plan = solve(&problem, capacity, Limit::default()).unwrap().solution.unwrap();
        assert_eq!(check(&problem, capacity, &plan), Ok(()));
        // A gap of 100 bytes frees 88 for a cost of 2; recomputation frees 100 for at least 10.
        let bridges = (base.peak - capacity).div_ceil(88);
        assert_eq!(plan.cost, base.cost + 2 * bridges, "{percent} %");
        assert_eq!(optional(&problem, &plan).len() as u64, 2 * bridges);
        // No bound is above a plan that some order allows.
        let certified = budget_plan(&problem, capacity);
        assert!(
            certified.certificate.cost <= plan.cost && certified.certificate.peak <= plan.peak,
            "{percent} %"
        );
        // A plan that fits by itself has no optional run.
        let free = solve(&problem, base.peak, Limit::default()).unwrap().solution.unwrap();
        assert_eq!((free.cost, optional(&problem, &free).len()), (base.cost, 0));
    }
}

#[test]
fn values_that_may_not_run_again_lie_as_codes() {
    let mut problem = there_and_back_with_codes(10);
    problem.runs.iter_mut().for_each(|run| run.repeatable = false);
    let base = given(&problem).unwrap();
    let plan = solve(&problem, base.peak / 2, Limit::default()).unwrap().solution.unwrap();
    assert_eq!(check(&problem, base.peak / 2, &plan), Ok(()));
    // The bounds know that the values may shrink.
    assert_eq!(budget_plan(&problem, base.peak / 2).conflict, None);
    // Dear codes lose against recomputation.
    let mut dear = there_and_back_with_codes(10);
    dear.optional.iter_mut().for_each(|run| run.cost = 1_000);
    let plan = solve(&dear, base.peak * 3 / 4, Limit::default()).unwrap().solution.unwrap();
    assert!(optional(&dear, &plan).is_empty());
}

/// Builds a chain as in training whose forward values their results give back at a cost of 1.
fn there_and_back_with_inverses(steps: u32) -> Problem {
    let mut problem = there_and_back(steps, None);
    for value in 0..steps - 1 {
        problem.optional.push(Run { reads: vec![value + 1], writes: vec![value], cost: 1, ..Run::default() });
    }
    problem
}

#[test]
fn values_that_results_give_back_need_no_room() {
    let problem = there_and_back_with_inverses(40);
    let base = given(&problem).unwrap();
    // Two neighbours and two gradients of 1 byte: the value that is given back, and the one it is made from.
    let capacity = 202;
    assert!(base.peak > 10 * capacity);
    let plan = solve(&problem, capacity, Limit::default()).unwrap().solution.unwrap();
    assert_eq!(check(&problem, capacity, &plan), Ok(()));
    // Each value but the last two is given back once; recomputation at this capacity costs far more.
    assert!(plan.cost <= base.cost + 40, "{} after {}", plan.cost, base.cost);
    assert_eq!(budget_plan(&problem, capacity).conflict, None);
    // A value that is given back only after all others must wait for them.
    let mut late = there_and_back_with_inverses(10);
    late.optional.iter_mut().for_each(|run| run.predecessors = vec![9]);
    let plan = solve(&late, capacity, Limit::default()).unwrap().solution.unwrap();
    assert_eq!(check(&late, capacity, &plan), Ok(()));
}

/// Builds the step of a leapfrog net: `q' = q + p`, `t = f(q')`, `u = g(t)`, `p' = p - u`. Gradients read
/// `q'` and `t` in reverse. Values `q` and `p` are given back by their sums, so that a `p` must be given back
/// for a `q`, and both from the end.
fn leapfrog(steps: u32) -> Problem {
    let mut problem = Problem::default();
    let value = |problem: &mut Problem, size: u64, kept: bool| {
        problem.values.push(Value { size, kept, ..Value::default() });
        problem.values.len() as u32 - 1
    };
    let run = |reads: &[u32], writes: &[u32], cost: u64| Run {
        reads: reads.to_vec(),
        writes: writes.to_vec(),
        cost,
        repeatable: true,
        ..Run::default()
    };
    let (mut q, mut p) = (value(&mut problem, 100, false), value(&mut problem, 100, false));
    problem.runs.extend([run(&[], &[q], 1), run(&[], &[p], 1)]);
    let mut reads = Vec::new();
    for _ in 0..steps {
        let made: Vec<u32> = (0..4).map(|_| value(&mut problem, 100, false)).collect();
        problem.runs.extend([
            run(&[q, p], &[made[0]], 1),
            run(&[made[0]], &[made[1]], 20),
            run(&[made[1]], &[made[2]], 20),
            run(&[p, made[2]], &[made[3]], 1),
        ]);
        problem.optional.push(run(&[made[0], p], &[q], 1));
        problem.optional.push(run(&[made[3], made[2]], &[p], 1));
        (q, p) = (made[0], made[3]);
        reads.push([made[0], made[1]]);
    }
    let mut gradient = value(&mut problem, 100, false);
    problem.runs.push(run(&[q, p], &[gradient], 1));
    for reads in reads.iter().rev() {
        let next = value(&mut problem, 100, false);
        problem.runs.push(run(&[&[gradient], &reads[..]].concat(), &[next], 40));
        gradient = next;
    }
    problem.values[gradient as usize].kept = true;
    problem
}

#[test]
fn couplings_are_given_back_along_the_whole_chain() {
    let problem = leapfrog(24);
    let base = given(&problem).unwrap();
    let capacity = 900;
    assert!(base.peak > 4 * capacity, "{}", base.peak);
    let plan = solve(&problem, capacity, Limit::default()).unwrap().solution.unwrap();
    assert_eq!(check(&problem, capacity, &plan), Ok(()));
    // A step takes back `q`, `p` and what `p` needs, once each: 20 + 20 + 2.
    assert!(plan.cost <= base.cost + 24 * 42, "{} after {}", plan.cost, base.cost);
    // Without the way back it takes more.
    let plain = solve(&problem.without_optional(), capacity, Limit::default()).unwrap();
    assert!(plain.value.is_none_or(|cost| cost > plan.cost + 200), "{:?} and {}", plain.value, plan.cost);
}

/// Builds a chain as in training: each backward run reads the value of its forward counterpart.
fn there_and_back(steps: u32, link: Option<Link>) -> Problem {
    let mut problem = Problem::default();
    for index in 0..2 * steps {
        let mut reads: Vec<u32> = index.checked_sub(1).into_iter().collect();
        if index > steps {
            reads.insert(0, 2 * steps - 1 - index);
        }
        problem.runs.push(Run { reads, writes: vec![index], cost: 10, repeatable: true, ..Run::default() });
        problem.values.push(Value {
            size: if index < steps { 100 } else { 1 },
            movable: true,
            ..Value::default()
        });
    }
    if let Some(link) = link {
        problem.spaces.push(Space::default());
        problem.links.push(link);
    }
    problem
}

#[test]
fn half_of_the_memory_costs_less_than_half_more_time() {
    let problem = there_and_back(40, None);
    let base = given(&problem).unwrap();
    let plan = solve(&problem, base.peak / 2, Limit::default()).unwrap().solution.unwrap();
    assert!(plan.cost > base.cost && plan.cost < base.cost * 3 / 2, "{}", plan.cost);
}

#[test]
fn a_search_continues_from_a_given_plan() {
    let problem = there_and_back(40, None);
    let capacity = given(&problem).unwrap().peak / 2;
    let from = solve(&problem, capacity / 2, Limit::nodes(0)).unwrap().solution.unwrap();
    let improved = |problem: &Problem, from: &Plan, nodes: u64| {
        let plan = improve(problem, capacity, from, Limit::nodes(nodes), &Stop::default())
            .unwrap()
            .solution
            .unwrap();
        assert_eq!(check(problem, capacity, &plan), Ok(()));
        plan
    };
    // `improve` begins at the plan: without effort it only removes repeats that now have room.
    let is_within = |plan: &Plan| {
        let mut all = from.events.iter();
        plan.events.iter().all(|event| all.any(|other| other == event))
    };
    assert!(is_within(&improved(&problem, &from, 0)));
    assert!(!is_within(&solve(&problem, capacity, Limit::nodes(0)).unwrap().solution.unwrap()));
    let anew = solve(&problem, capacity, Limit::nodes(1000)).unwrap().solution.unwrap();
    assert!(anew.cost < from.cost && improved(&problem, &from, 1000).cost <= anew.cost);
    // With movable values it begins from the start.
    let link = Link { space: 0, store_rate: 20, load_rate: 20, store_latency: 0, load_latency: 0 };
    let linked = there_and_back(40, Some(link));
    assert_eq!(improved(&linked, &from, 0).makespan, given(&linked).unwrap().cost);
}

#[test]
fn a_fast_link_hides_all_transfers() {
    let link = Link { space: 0, store_rate: 20, load_rate: 20, store_latency: 0, load_latency: 0 };
    let problem = there_and_back(40, Some(link));
    let base = given(&problem).unwrap();
    let outcome = solve(&problem, base.peak / 2, Limit::default()).unwrap();
    assert_eq!((outcome.value, outcome.status()), (Some(base.cost), Status::Optimal));
    assert!(outcome.solution.unwrap().events.iter().any(|event| matches!(event, Event::Store { .. })));
}

#[test]
fn results_run_late_if_their_operands_are_transferred() {
    // A wide value and a kept result of it. The result fits next to another wide value only if the first
    // wide value is gone by then.
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
        ..Problem::default()
    };
    let outcome = solve(&problem, 1910, Limit::default()).unwrap();
    assert_eq!((outcome.value, outcome.status()), (Some(350), Status::Optimal));
}

#[test]
fn unrepeatable_runs_are_never_repeated() {
    let mut problem = there_and_back(10, None);
    problem.runs.iter_mut().for_each(|run| run.repeatable = false);
    let base = given(&problem).unwrap();
    // The exact search proves it.
    assert_eq!(solve(&problem, base.peak - 1, Limit::default()).unwrap().status(), Status::Infeasible);
    assert_eq!(solve(&problem, base.peak - 1, Limit::nodes(0)).unwrap().status(), Status::Unknown);
    problem.runs[1].repeatable = true;
    let plan = solve(&problem, base.peak - 1, Limit::default()).unwrap().solution.unwrap();
    assert_eq!(plan.events.iter().filter(|event| **event == Event::Run(1)).count(), 2);
    assert_eq!(plan.events.len(), 21);
}

#[test]
fn far_values_are_fetched_in_time() {
    // Ten far weights, of which two fit at once; each run reads one weight.
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
