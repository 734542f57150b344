//! Ordering: heuristics and bounds against brute force, the checker against the definition.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use memc_solve::order::{self, Buffer, Operation, OrderError, OrderViolation, Problem};
use memc_solve::{Limit, Status};
use proptest::prelude::*;

/// The peak by the definition: what lives at each step, and the best way to take over bytes by trying all.
fn definition(problem: &Problem, order: &[u32]) -> u64 {
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
        let starts = |index: usize| !problem.buffers[index].live_from_start && ranges[index].is_some_and(|range| range.0 == step);
        let before = |index: usize| problem.buffers[index].live_from_start || ranges[index].is_some_and(|range| range.0 < step);
        let dies =
            |index: usize| before(index) && !problem.buffers[index].kept && ranges[index].is_some_and(|range| range.1 == step);
        let takers: Vec<usize> = (0..ranges.len()).filter(|index| starts(*index)).collect();
        let sum: u64 = problem.buffers.iter().zip(&ranges).map(live).sum();
        sum + problem.operations[order[step] as usize].scratch - most_shared(problem, &takers, &dies, &mut Vec::new())
    };
    (0..order.len()).map(bytes).max().unwrap_or(0)
}

fn most_shared(problem: &Problem, takers: &[usize], dies: &dyn Fn(usize) -> bool, taken: &mut Vec<u32>) -> u64 {
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

fn all_orders(problem: &Problem, prefix: &mut Vec<u32>, visit: &mut dyn FnMut(&[u32])) {
    if prefix.len() == problem.operations.len() {
        return visit(prefix);
    }
    for operation in 0..problem.operations.len() as u32 {
        let ready = problem.operations[operation as usize].predecessors.iter().all(|before| prefix.contains(before));
        if ready && !prefix.contains(&operation) {
            prefix.push(operation);
            all_orders(problem, prefix, visit);
            prefix.pop();
        }
    }
}

fn optimum(problem: &Problem) -> u64 {
    let mut best = u64::MAX;
    all_orders(problem, &mut Vec::new(), &mut |order| best = best.min(definition(problem, order)));
    best
}

/// Values with readers, some views by shared use, scratch, inputs, results and bytes to take over.
fn problem(most: usize) -> impl Strategy<Value = Problem> {
    let operation = (0..8_u64, 0..10_u8, any::<u16>(), any::<u16>(), any::<u8>());
    prop::collection::vec(operation, 1..=most).prop_map(|list| {
        let mut problem = Problem::default();
        for (index, (size, scratch, reads, extra, flags)) in list.into_iter().enumerate() {
            let index = index as u32;
            let before: Vec<u32> = (0..index).filter(|other| reads >> other & 1 == 1 && extra >> other & 1 == 1).collect();
            for &other in &before {
                problem.buffers[other as usize].users.push(index);
            }
            let takes_over =
                before.iter().copied().filter(|other| flags & 1 == 1 && problem.buffers[*other as usize].size >= size).collect();
            problem.operations.push(Operation { predecessors: before, scratch: u64::from(scratch.saturating_sub(7)) });
            problem.buffers.push(Buffer {
                size,
                users: vec![index],
                kept: flags & 14 == 14,
                live_from_start: flags & 112 == 112,
                takes_over,
            });
        }
        // One more buffer that several operations may be the first to use.
        let users = (0..problem.operations.len() as u32).step_by(3).collect();
        let takes_over = (0..problem.buffers.len() as u32).filter(|other| problem.buffers[*other as usize].size > 5).collect();
        problem.buffers.push(Buffer { size: 5, users, takes_over, ..Buffer::default() });
        problem
    })
}

fn given(problem: &Problem) -> Vec<u32> {
    (0..problem.operations.len() as u32).collect()
}

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
        // What is low enough ends the heuristics, and nothing else changes what they promise.
        let before = order::peak(&problem, &given(&problem)).unwrap();
        for enough in [best.saturating_sub(1), best, (best + before) / 2, before] {
            let outcome = order::portfolio(&problem, &given(&problem), enough).unwrap();
            let (sequence, value) = (outcome.solution.clone().unwrap(), outcome.value.unwrap());
            prop_assert_eq!(order::check(&problem, &sequence, value), Ok(()));
            prop_assert!(best <= value && value <= before && (enough < before || sequence == given(&problem)));
        }
    }

    #[test]
    fn what_is_no_better_than_known_is_excluded(mut problem in problem(7), off in 0..3_u64) {
        // Of sizes with a common divisor, what is known need not have it.
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
        // The whole is a stretch too.
        prop_assert!(limit > far || near == given(&problem));
    }
}

#[test]
fn stretches_that_cost_nothing_keep_the_given_order() {
    // Two wide values, each narrowed at once or both first, then four small ones.
    let mut problem = Problem::default();
    for (index, (size, reads)) in [(8, None), (8, None), (1, Some(0)), (1, Some(1))].into_iter().chain([(1, None); 4]).enumerate()
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
fn several_takers_share_in_the_best_way() {
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
    let huge = Problem { operations: vec![operation(&[])], buffers: vec![Buffer { size: u64::MAX, ..Buffer::default() }; 2] };
    assert_eq!(huge.validate(), Err(OrderError::TooLarge));
}

#[test]
fn files_say_all_that_problems_say() {
    let text = r#"{"nodes": [{"id": 4, "scratch": 3}, {"id": 9}], "edges": [[4, 9]], "buffers": [
        {"size": 8, "users": [4, 9], "live_from_start": true}, {"size": 7, "users": [9], "kept": true, "takes_over": [0]}]}"#;
    let problem = order::json::read(text).unwrap().problem().unwrap();
    assert_eq!((order::peak(&problem, &[0, 1]), problem.operations[0].scratch), (Ok(11), 3));
    // Written and read again, all but the nodes' own empty values is the same.
    let again = serde_json::to_string(&order::json::Dag::of("again", &problem)).unwrap();
    let again = order::json::read(&again).unwrap().problem().unwrap();
    assert_eq!(again.operations, problem.operations);
    let bytes = |problem: &Problem| problem.buffers.iter().filter(|buffer| buffer.size > 0).cloned().collect::<Vec<_>>();
    let plain =
        |buffers: Vec<Buffer>| buffers.into_iter().map(|buffer| Buffer { takes_over: Vec::new(), ..buffer }).collect::<Vec<_>>();
    assert_eq!(plain(bytes(&again)), plain(bytes(&problem)));
    assert_eq!(order::peak(&again, &[0, 1]), Ok(11));
}

#[test]
fn the_default_order_goes_from_the_last_result_to_its_last_operand() {
    // Two branches of two nodes and their sum, then a result of its own.
    let before: [&[u32]; 6] = [&[], &[], &[0], &[1], &[2, 3], &[0]];
    let operations = before.iter().map(|before| Operation { predecessors: before.to_vec(), scratch: 0 }).collect();
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
    assert_eq!((answer.sequence, answer.peak, answer.cost, answer.status.as_str()), (Some(vec![7, 3]), Some(5), 3, "optimal"));
    let backward = order::json::read(r#"{"nodes": [{"id": 1, "size": 1}, {"id": 2, "size": 1}], "edges": [[2, 1]]}"#).unwrap();
    assert!(matches!(backward.problem(), Err(order::json::DagError::Backward { from: 2, to: 1 })));
}

#[test]
fn small_problems_alone_are_worth_more_looks() {
    let operations = |count: usize| Problem { operations: vec![Operation::default(); count], ..Problem::default() };
    assert_eq!(order::thorough_limit(&operations(1_024)).nodes, 20 * Limit::default().nodes);
    assert_eq!(order::thorough_limit(&operations(1_025)), Limit::default());
}
