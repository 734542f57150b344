//! Tests of the checker: sums computed by hand, and each violation once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::budget::{Link, Run, Space, Value};

/// A chain `0 → 1 → 2 → 3`, in which 3 also reads 0. Sizes are 10, 20, 30 and 5, costs 1, 2, 3 and 4.
/// One link moves 10 bytes a unit to a host of 15 bytes.
fn chain() -> Problem {
    let run = |cost: u64, reads: &[u32], value: u32| Run {
        reads: reads.to_vec(),
        writes: vec![value],
        cost,
        repeatable: true,
        ..Run::default()
    };
    let value = |size| Value { size, movable: true, ..Value::default() };
    Problem {
        runs: vec![run(1, &[], 0), run(2, &[0], 1), run(3, &[1], 2), run(4, &[0, 2], 3)],
        values: vec![value(10), value(20), value(30), value(5)],
        spaces: vec![Space { capacity: Some(15) }],
        links: vec![Link { space: 0, store_rate: 10, load_rate: 5, store_latency: 1, load_latency: 0 }],
        ..Problem::default()
    }
}

fn runs(list: &[u32]) -> Vec<Event> {
    list.iter().map(|run| Event::Run(*run)).collect()
}

fn plan(events: &[Event], peak: u64, cost: u64, makespan: u64) -> Plan {
    Plan { events: events.to_vec(), peak, cost, makespan }
}

const STORE: Event = Event::Store { value: 0, link: 0 };
const LOAD: Event = Event::Load { value: 0, link: 0 };

#[test]
fn keeping_all_counts_operands_and_results() {
    // Values 0, 1 and 2 are live at step 2.
    assert_eq!(check(&chain(), 60, &plan(&runs(&[0, 1, 2, 3]), 60, 10, 10)), Ok(()));
}

#[test]
fn recomputation_frees_the_bytes_between_uses() {
    assert_eq!(check(&chain(), 50, &plan(&runs(&[0, 1, 2, 0, 3]), 50, 11, 11)), Ok(()));
}

#[test]
fn a_store_keeps_its_bytes_until_it_and_its_readers_end() {
    // Run 0 takes 0..1. The store waits for run 1 to start and takes 1..3, as long as run 1. Run 2 takes
    // 3..6 and the load 3..5.
    let events = [Event::Run(0), Event::Run(1), STORE, Event::Run(2), LOAD, Event::Run(3)];
    assert_eq!(check(&chain(), 60, &plan(&events, 60, 10, 10)), Ok(()));
    // Run 1 reads value 0 after its near copy was stored away.
    let events = [Event::Run(0), Event::Run(1), STORE, Event::Run(2), Event::Run(1), LOAD, Event::Run(3)];
    assert!(matches!(
        check(&chain(), 60, &plan(&events, 60, 12, 10)),
        Err(BudgetViolation::NotThere { event: 4, value: 0 })
    ));
}

#[test]
fn a_value_in_place_counts_once_with_its_operand() {
    let mut problem = chain();
    problem.values[3].takes_over = vec![0, 2];
    problem.values[1].takes_over = vec![];
    // Value 1 is larger than value 0, so only value 3 takes over: values 0 and 2 are live at the last
    // step.
    assert_eq!(check(&problem, 60, &plan(&runs(&[0, 1, 2, 0, 3]), 50, 11, 11)), Ok(()));
    problem.runs[3].scratch = 11;
    assert_eq!(check(&problem, 60, &plan(&runs(&[0, 1, 2, 0, 3]), 51, 11, 11)), Ok(()));
    // A kept operand cannot be taken over; the other operand still can.
    problem.values[2].kept = true;
    assert_eq!(check(&problem, 60, &plan(&runs(&[0, 1, 2, 0, 3]), 51, 11, 11)), Ok(()));
    problem.values[3].takes_over = vec![2];
    assert_eq!(check(&problem, 60, &plan(&runs(&[0, 1, 2, 0, 3]), 56, 11, 11)), Ok(()));
}

#[test]
fn two_results_share_out_two_operands_as_well_as_they_can() {
    assert_eq!(best_matching(&[(5, vec![7, 8]), (4, vec![7])]), [1, 0]);
    assert_eq!(best_matching(&[(5, vec![7]), (4, vec![7])]), [0]);
    assert_eq!(best_matching(&[(1, vec![7]), (4, vec![7]), (9, vec![])]), [1]);
    assert_eq!(best_matching(&[(3, vec![1, 2]), (2, vec![1, 3]), (1, vec![1])]).len(), 3);
}

#[test]
fn near_values_live_from_the_start_and_far_ones_can_be_loaded() {
    let mut problem = chain();
    problem.values.push(Value { size: 7, origin: Origin::Near, movable: true, ..Value::default() });
    problem.runs[3].reads.push(4);
    assert_eq!(check(&problem, 67, &plan(&runs(&[0, 1, 2, 3]), 67, 10, 10)), Ok(()));
    problem.values[4].origin = Origin::Far(0);
    let late = BudgetViolation::NotThere { event: 3, value: 4 };
    assert_eq!(check(&problem, 67, &plan(&runs(&[0, 1, 2, 3]), 67, 10, 10)), Err(late));
    let mut events = runs(&[0, 1, 2, 3]);
    events.insert(3, Event::Load { value: 4, link: 0 });
    // The load starts together with run 2 and takes 2 units; run 2 takes 3.
    assert_eq!(check(&problem, 67, &plan(&events, 67, 10, 10)), Ok(()));
}

#[test]
fn kept_values_stay_to_the_end() {
    let mut problem = chain();
    problem.values[1].kept = true;
    assert_eq!(check(&problem, 65, &plan(&runs(&[0, 1, 2, 3]), 65, 10, 10)), Ok(()));
    let moves = [Event::Run(0), Event::Run(1), Event::Store { value: 1, link: 0 }];
    let violation = BudgetViolation::MayNotMove { event: 2, value: 1 };
    assert_eq!(check(&problem, 65, &plan(&moves, 0, 0, 0)), Err(violation));
    let again = BudgetViolation::RunsAgain { event: 2, run: 1 };
    assert_eq!(check(&problem, 65, &plan(&runs(&[0, 1, 1]), 0, 0, 0)), Err(again));
}

#[test]
fn each_rule_that_is_broken_is_named() {
    let check =
        |problem: &Problem, events: &[Event]| check(problem, 60, &plan(events, 60, 10, 10)).unwrap_err();
    let mut problem = chain();
    assert_eq!(check(&problem, &runs(&[0, 1, 2])), BudgetViolation::NeverRuns { run: 3 });
    assert_eq!(check(&problem, &runs(&[0, 9])), BudgetViolation::NoSuchThing { event: 1 });
    assert_eq!(
        check(&problem, &[Event::Load { value: 9, link: 0 }]),
        BudgetViolation::NoSuchThing { event: 0 }
    );
    assert_eq!(
        check(&problem, &[Event::Load { value: 0, link: 9 }]),
        BudgetViolation::NoSuchThing { event: 0 }
    );
    assert_eq!(check(&problem, &runs(&[1])), BudgetViolation::NotThere { event: 0, value: 0 });
    assert_eq!(check(&problem, &[Event::Run(0), LOAD]), BudgetViolation::NotThere { event: 1, value: 0 });
    problem.runs[1].predecessors = vec![0];
    problem.runs[1].reads = vec![];
    let violation = BudgetViolation::BeforePredecessor { event: 0, run: 1, predecessor: 0 };
    assert_eq!(check(&problem, &runs(&[1, 0])), violation);
    problem.runs[0].repeatable = false;
    assert_eq!(check(&problem, &runs(&[0, 0])), BudgetViolation::RunsAgain { event: 1, run: 0 });
    problem.values[0].movable = false;
    assert_eq!(check(&problem, &[Event::Run(0), STORE]), BudgetViolation::MayNotMove { event: 1, value: 0 });
    problem.values[0].size = u64::MAX;
    assert_eq!(check(&problem, &[]), BudgetViolation::NoProblem(BudgetError::TooLarge));
}

#[test]
fn each_sum_is_compared() {
    let order = runs(&[0, 1, 2, 3]);
    let over = BudgetViolation::OverCapacity { space: None, needed: 60, capacity: 59 };
    assert_eq!(check(&chain(), 59, &plan(&order, 60, 10, 10)), Err(over));
    let wrong = BudgetViolation::WrongPeak { stated: 59, actual: 60 };
    assert_eq!(check(&chain(), 60, &plan(&order, 59, 10, 10)), Err(wrong));
    let wrong = BudgetViolation::WrongCost { stated: 9, actual: 10 };
    assert_eq!(check(&chain(), 60, &plan(&order, 60, 9, 10)), Err(wrong));
    let wrong = BudgetViolation::WrongMakespan { stated: 11, actual: 10 };
    assert_eq!(check(&chain(), 60, &plan(&order, 60, 10, 11)), Err(wrong));
    let mut problem = chain();
    problem.spaces[0].capacity = Some(9);
    let events = [Event::Run(0), Event::Run(1), STORE, Event::Run(2), LOAD, Event::Run(3)];
    let over = BudgetViolation::OverCapacity { space: Some(0), needed: 10, capacity: 9 };
    assert_eq!(check(&problem, 60, &plan(&events, 60, 10, 10)), Err(over));
}
