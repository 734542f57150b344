//! Tests of schedules for several engines: laws of random problems, and the checker against faults.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use memc_solve::engines::{EngineError, Problem, Schedule, Violation, bound, check, solve};
use memc_solve::order::{self, Operation};
use memc_solve::{Limit, StopReason};
use proptest::prelude::*;

use crate::problems::order as orders;

/// Random operations with times, without buffers that take over others: their bytes have one definition.
fn problem() -> impl Strategy<Value = Problem> {
    (orders::problem(14), proptest::collection::vec(1_u64..20, 14), 1_u32..4).prop_map(
        |(mut order, times, engines)| {
            order.buffers.iter_mut().for_each(|buffer| buffer.takes_over.clear());
            let times = times[..order.operations.len()].to_vec();
            Problem { order, times, engines, capacity: u64::MAX }
        },
    )
}

/// Most bytes that live at one time, by the definition.
fn load(problem: &Problem, schedule: &Schedule) -> u64 {
    let end = |user: &u32| schedule.end(problem, *user as usize);
    let live = |time: u64| {
        let buffers = problem.order.buffers.iter().filter(|buffer| {
            let begins = buffer.users.iter().map(|user| schedule.starts[*user as usize]).min();
            let ends = buffer.users.iter().map(end).max();
            let has_begun = buffer.live_from_start || begins.is_some_and(|begin| begin <= time);
            let is_open = buffer.kept || ends.is_some_and(|end| time < end);
            has_begun && is_open
        });
        let running = (0..schedule.starts.len()).filter(|operation| {
            schedule.starts[*operation] <= time && time < schedule.end(problem, *operation)
        });
        let scratch: u64 = running.map(|operation| problem.order.operations[operation].scratch).sum();
        buffers.map(|buffer| buffer.size).sum::<u64>() + scratch
    };
    schedule.starts.iter().map(|time| live(*time)).max().unwrap_or(0)
}

fn chains(count: u32, long: u32, engines: u32) -> Problem {
    let before =
        |operation: u32| (!operation.is_multiple_of(long)).then(|| operation - 1).into_iter().collect();
    let operations =
        (0..count * long).map(|operation| Operation { predecessors: before(operation), scratch: 0 });
    let order = order::Problem { operations: operations.collect(), buffers: Vec::new() };
    Problem { order, times: vec![5; (count * long) as usize], engines, capacity: 0 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn schedules_are_right_and_keep_their_capacity(problem in problem(), percent in 60_u64..160) {
        let given: Vec<u32> = (0..problem.times.len() as u32).collect();
        let peak = order::peak(&problem.order, &given).unwrap();
        let problem = Problem { capacity: peak * percent / 100, ..problem };
        let outcome = solve(&problem, &Limit::nodes(40)).unwrap();
        prop_assert_eq!(outcome.lower_bound, bound(&problem).unwrap());
        // One engine can run the given order, and so can several.
        prop_assert!(outcome.solution.is_some() || problem.capacity < peak);
        if let Some((schedule, end)) = outcome.solution.zip(outcome.value) {
            prop_assert_eq!(check(&problem, &schedule, end), Ok(()));
            prop_assert!(outcome.lower_bound <= end && end <= problem.times.iter().sum::<u64>());
            prop_assert!(load(&problem, &schedule) <= problem.capacity);
            prop_assert_eq!(schedule.order().len(), problem.times.len());
        }
    }

    #[test]
    fn without_a_capacity_engines_idle_only_along_one_path(problem in problem()) {
        // The law of list schedules (Graham 1966): end <= sum / engines + (1 - 1 / engines) * longest path.
        let alone = Problem { engines: u32::MAX, ..problem.clone() };
        let (longest, sum) = (bound(&alone).unwrap(), problem.times.iter().sum::<u64>());
        let end = solve(&problem, &Limit::nodes(0)).unwrap().value.unwrap();
        let engines = u64::from(problem.engines);
        prop_assert!(end * engines <= sum + (engines - 1) * longest);
    }

    #[test]
    fn faults_are_refused(problem in problem(), at in 0_usize..14, shift in 1_u64..30) {
        let outcome = solve(&problem, &Limit::nodes(0)).unwrap();
        let (right, end) = outcome.solution.zip(outcome.value).unwrap();
        let at = at % right.starts.len();
        prop_assert_eq!(check(&problem, &right, end + 1), Err(Violation::WrongEnd { stated: end + 1, actual: end }));
        let mut wrong = right.clone();
        wrong.engines[at] = problem.engines;
        prop_assert_eq!(check(&problem, &wrong, end), Err(Violation::NoSuchEngine { operation: at, engine: problem.engines }));
        let mut wrong = right.clone();
        wrong.starts[at] = wrong.starts[at].saturating_sub(shift);
        // An earlier start is wrong, or the engine and the predecessors were idle before.
        let ends = |other: usize| right.end(&problem, other);
        let before = problem.order.operations[at].predecessors.iter().map(|before| ends(*before as usize)).max().unwrap_or(0);
        let own = (0..right.starts.len()).filter(|other| right.engines[*other] == right.engines[at] && ends(*other) <= right.starts[at]);
        let free = own.map(ends).max().unwrap_or(0).max(before);
        if wrong.starts[at] < free {
            prop_assert!(check(&problem, &wrong, wrong.makespan(&problem)).is_err());
        }
    }
}

#[test]
fn two_chains_take_the_time_of_one_on_two_engines() {
    for (chain_count, engines, end) in
        [(2, 1, 40), (2, 2, 20), (3, 2, 30), (4, 2, 40), (4, 4, 20), (1, 4, 20)]
    {
        let problem = chains(chain_count, 4, engines);
        let outcome = solve(&problem, &Limit::nodes(0)).unwrap();
        assert_eq!(
            (outcome.value, outcome.stop),
            (Some(end), StopReason::BoundReached),
            "{chain_count} chains, {engines} engines"
        );
    }
}

#[test]
fn a_chain_stays_on_one_engine() {
    let problem = chains(2, 6, 2);
    let schedule = solve(&problem, &Limit::nodes(0)).unwrap().solution.unwrap();
    for chain in schedule.engines.chunks(6) {
        assert!(chain.iter().all(|engine| *engine == chain[0]), "{:?}", schedule.engines);
    }
}

#[test]
fn malformed_problems_are_refused() {
    let right = chains(2, 2, 2);
    let refused = |problem: Problem| solve(&problem, &Limit::nodes(0)).unwrap_err();
    assert_eq!(refused(Problem { engines: 0, ..right.clone() }), EngineError::NoEngine);
    assert_eq!(
        refused(Problem { times: vec![1; 3], ..right.clone() }),
        EngineError::Times { times: 3, operations: 4 }
    );
    assert_eq!(
        refused(Problem { times: vec![1, 0, 1, 1], ..right.clone() }),
        EngineError::Time { operation: 1 }
    );
    assert_eq!(
        refused(Problem { times: vec![1, u64::MAX, 1, 1], ..right.clone() }),
        EngineError::Time { operation: 1 }
    );
    let mut unordered = right;
    unordered.order.operations[0].predecessors.push(1);
    assert!(matches!(refused(unordered), EngineError::Order(_)));
}
