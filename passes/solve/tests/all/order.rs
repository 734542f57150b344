//! Tests of ordering: heuristics and bounds against brute force, the checker against the definition.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use memc_solve::order::{self, Buffer, Operation, OrderError, OrderViolation, Problem};
use memc_solve::{Limit, Status};
use problems::order::{all_orders, definition, given, optimum, problem};
use proptest::prelude::*;

use crate::problems;

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn peak_and_checker_follow_the_definition(problem in problem(6)) {
        all_orders(&problem, &mut Vec::new(), &mut |order| {
            let peak = definition(&problem, order);
            assert_eq!(order::peak(&problem, order), Ok(peak));
            assert_eq!(order::check(&problem, order, peak), Ok(()));
            let wrong = order::check(&problem, order, peak + 1);
            assert!(matches!(wrong, Err(OrderViolation::WrongPeak { .. })));
        });
    }

    #[test]
    fn answers_hold_against_brute_force(problem in problem(7)) {
        let best = optimum(&problem);
        let proven = order::solve(&problem, &given(&problem), &Limit::default()).unwrap();
        prop_assert_eq!((proven.value, proven.lower_bound), (Some(best), best));
        for outcome in [order::portfolio(&problem, &given(&problem), 0).unwrap(), order::solve(&problem, &given(&problem), &Limit::default()).unwrap()] {
            let (sequence, value) = (outcome.solution.clone().unwrap(), outcome.value.unwrap());
            prop_assert_eq!(order::check(&problem, &sequence, value), Ok(()));
            prop_assert!(outcome.lower_bound <= best && best <= value, "bound {} optimum {} value {}", outcome.lower_bound, best, value);
            let before = order::peak(&problem, &given(&problem)).unwrap();
            prop_assert!(value < before || sequence == given(&problem));
            if outcome.status() == Status::Optimal {
                prop_assert_eq!(value, best);
            }
        }
        // A peak of at most `enough` ends the heuristics early; all other guarantees hold.
        let before = order::peak(&problem, &given(&problem)).unwrap();
        for enough in [best.saturating_sub(1), best, (best + before) / 2, before] {
            let outcome = order::portfolio(&problem, &given(&problem), enough).unwrap();
            let (sequence, value) = (outcome.solution.clone().unwrap(), outcome.value.unwrap());
            prop_assert_eq!(order::check(&problem, &sequence, value), Ok(()));
            prop_assert!(best <= value && value <= before && (enough < before || sequence == given(&problem)));
        }
    }

    #[test]
    fn orders_no_better_than_a_known_peak_are_excluded(mut problem in problem(7), off in 0..3_u64) {
        // The sizes have a common divisor, but `below` need not be a multiple of it.
        problem.buffers.iter_mut().for_each(|buffer| buffer.size *= 3);
        problem.operations.iter_mut().for_each(|operation| operation.scratch *= 3);
        let best = optimum(&problem);
        for below in [best.saturating_sub(3) + off, best + off, best + 3 + off] {
            let outcome = order::solve_below(&problem, &given(&problem), below, &Limit::default()).unwrap();
            let (sequence, value) = (outcome.solution.clone().unwrap(), outcome.value.unwrap());
            prop_assert_eq!(order::check(&problem, &sequence, value), Ok(()));
            prop_assert!(outcome.lower_bound <= best && best <= value);
            let is_told = if best < below { value == best && outcome.lower_bound == best } else { outcome.lower_bound >= below };
            prop_assert!(is_told, "below {}: value {} bound {} optimum {}", below, value, outcome.lower_bound, best);
        }
    }
}

proptest! {
    #[test]
    fn nearer_orders_have_no_higher_peak(problem in problem(9)) {
        let reversed = order::default_order(&problem).unwrap();
        let near = order::nearer(&problem, &reversed, &given(&problem)).unwrap();
        prop_assert_eq!(problem.validate_order(&near), Ok(()));
        let (far, limit) = (order::peak(&problem, &reversed).unwrap(), order::peak(&problem, &given(&problem)).unwrap());
        prop_assert!(order::peak(&problem, &near).unwrap() <= far);
        // The whole order is a span too.
        prop_assert!(limit > far || near == given(&problem));
    }
}

#[test]
fn spans_without_cost_keep_the_given_order() {
    // Two wide values, narrowed one after the other or both at the end; then four small values.
    let mut problem = Problem::default();
    for (index, (size, reads)) in
        [(8, None), (8, None), (1, Some(0)), (1, Some(1))].into_iter().chain([(1, None); 4]).enumerate()
    {
        let index = index as u32;
        reads.into_iter().for_each(|read: u32| problem.buffers[read as usize].users.push(index));
        problem.operations.push(Operation { predecessors: reads.into_iter().collect(), scratch: 0 });
        problem.buffers.push(Buffer { size, users: vec![index], ..Buffer::default() });
    }
    let shuffled = [0, 2, 1, 3, 7, 5, 6, 4];
    assert_eq!((order::peak(&problem, &shuffled), order::peak(&problem, &given(&problem))), (Ok(9), Ok(17)));
    assert_eq!(order::nearer(&problem, &shuffled, &given(&problem)), Ok(vec![0, 2, 1, 3, 4, 5, 6, 7]));
}

#[test]
fn several_takers_are_matched_to_the_most_operands() {
    // Buffer 2 can take over 0 or 1, buffer 3 only 0: both find a partner.
    let buffer = |users: &[u32], takes_over: &[u32]| Buffer {
        size: 8,
        users: users.to_vec(),
        takes_over: takes_over.to_vec(),
        ..Buffer::default()
    };
    let operation = |before: &[u32]| Operation { predecessors: before.to_vec(), scratch: 0 };
    let buffers = vec![buffer(&[0, 2], &[]), buffer(&[1, 2], &[]), buffer(&[2], &[0, 1]), buffer(&[2], &[0])];
    let problem = Problem { operations: vec![operation(&[]), operation(&[]), operation(&[0, 1])], buffers };
    assert_eq!(order::peak(&problem, &[0, 1, 2]), Ok(16));
    assert_eq!(order::check(&problem, &[0, 1, 2], 16), Ok(()));
}

#[test]
fn wrong_orders_and_problems_are_refused() {
    let operation = |before: &[u32]| Operation { predecessors: before.to_vec(), scratch: 0 };
    let problem = Problem { operations: vec![operation(&[]), operation(&[0])], buffers: Vec::new() };
    assert_eq!(order::peak(&problem, &[1, 0]), Err(OrderError::TooEarly { operation: 1, predecessor: 0 }));
    assert_eq!(order::peak(&problem, &[0]), Err(OrderError::Incomplete { listed: 1, operations: 2 }));
    assert_eq!(order::peak(&problem, &[0, 0]), Err(OrderError::Repeated { operation: 0 }));
    let circle = Problem { operations: vec![operation(&[1]), operation(&[0])], buffers: Vec::new() };
    assert_eq!(circle.topological_order(), Err(OrderError::Cycle { operation: 0 }));
    let huge = Problem {
        operations: vec![operation(&[])],
        buffers: vec![Buffer { size: u64::MAX, ..Buffer::default() }; 2],
    };
    assert_eq!(huge.validate(), Err(OrderError::TooLarge));
}

#[test]
fn problem_files_hold_every_field_of_problems() {
    let text = r#"{"nodes": [{"id": 4, "scratch": 3}, {"id": 9}], "edges": [[4, 9]], "buffers": [
        {"size": 8, "users": [4, 9], "live_from_start": true}, {"size": 7, "users": [9], "kept": true, "takes_over": [0]}]}"#;
    let problem = order::json::read(text).unwrap().problem().unwrap();
    assert_eq!((order::peak(&problem, &[0, 1]), problem.operations[0].scratch), (Ok(11), 3));
    // After writing and reading, only the nodes' own empty values differ.
    let again = serde_json::to_string(&order::json::Dag::of("again", &problem)).unwrap();
    let again = order::json::read(&again).unwrap().problem().unwrap();
    assert_eq!(again.operations, problem.operations);
    let bytes = |problem: &Problem| {
        problem.buffers.iter().filter(|buffer| buffer.size > 0).cloned().collect::<Vec<_>>()
    };
    let plain = |buffers: Vec<Buffer>| {
        buffers.into_iter().map(|buffer| Buffer { takes_over: Vec::new(), ..buffer }).collect::<Vec<_>>()
    };
    assert_eq!(plain(bytes(&again)), plain(bytes(&problem)));
    assert_eq!(order::peak(&again, &[0, 1]), Ok(11));
}

#[test]
fn the_default_order_goes_from_the_last_result_to_its_last_operand() {
    // Two branches of two nodes and their sum, then a separate result.
    let before: [&[u32]; 6] = [&[], &[], &[0], &[1], &[2, 3], &[0]];
    let operations =
        before.iter().map(|before| Operation { predecessors: before.to_vec(), scratch: 0 }).collect();
    let problem = Problem { operations, buffers: Vec::new() };
    assert_eq!(order::default_order(&problem), Ok(vec![0, 5, 1, 3, 2, 4]));
}

#[test]
fn files_become_problems_and_answers() {
    let text = r#"{"name": "v", "nodes": [{"id": 7, "size": 4, "cost": 2}, {"id": 3, "size": 1, "cost": 1}], "edges": [[7, 3]]}"#;
    let dag = order::json::read(text).unwrap();
    let problem = dag.problem().unwrap();
    let outcome = order::solve(&problem, &[0, 1], &Limit::default()).unwrap();
    let answer = dag.answer(&outcome, order::peak(&problem, &[0, 1]).unwrap());
    assert_eq!(
        (answer.sequence, answer.peak, answer.cost, answer.status.as_str()),
        (Some(vec![7, 3]), Some(5), 3, "optimal")
    );
    let backward =
        order::json::read(r#"{"nodes": [{"id": 1, "size": 1}, {"id": 2, "size": 1}], "edges": [[2, 1]]}"#)
            .unwrap();
    assert!(matches!(backward.problem(), Err(order::json::DagError::Backward { from: 2, to: 1 })));
}

#[test]
fn only_small_problems_get_the_thorough_limit() {
    let operations =
        |count: usize| Problem { operations: vec![Operation::default(); count], ..Problem::default() };
    assert_eq!(order::thorough_limit(&operations(1_024)).nodes, 20 * Limit::default().nodes);
    assert_eq!(order::thorough_limit(&operations(1_025)), Limit::default());
}
