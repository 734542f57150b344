//! Minimum cuts and what they force, against all orders and all sets of small problems.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::closure::{Forced, forced_at, least_bytes_at};
use super::decision::Decision;
use super::model::{Model, State, peak, profile};
use super::narrow::{Narrowed, narrow};
use super::pairs::pair;
use super::problem::{Buffer, Operation, Problem};
use super::search::Verdict;
use super::witness::Witnesses;

/// Enough for any problem of these tests.
const LOOKS: u64 = 1 << 40;

/// Values with readers, shared buffers, scratch, inputs, results, and, with `takes`, bytes to take over.
fn problem(most: usize, takes: bool) -> impl Strategy<Value = Problem> {
    let operation = (0..9_u64, 0..10_u64, any::<u16>(), any::<u16>(), any::<u8>());
    prop::collection::vec(operation, 2..=most).prop_map(move |list| {
        let mut problem = Problem::default();
        for (index, (size, scratch, reads, order, flags)) in list.into_iter().enumerate() {
            let index = index as u32;
            let reads: Vec<u32> = (0..index).filter(|other| reads >> other & 1 == 1 && order >> other & 3 != 0).collect();
            for &other in &reads {
                problem.buffers[other as usize].users.push(index);
            }
            let over = |other: &u32| takes && flags & 1 == 1 && problem.buffers[*other as usize].size >= size;
            let takes_over = reads.iter().copied().filter(over).collect();
            problem.operations.push(Operation { predecessors: reads, scratch: scratch.saturating_sub(6) });
            let (kept, live_from_start) = (flags & 14 == 14, flags & 112 == 112);
            problem.buffers.push(Buffer { size, users: vec![index], kept, live_from_start, takes_over });
        }
        let users = (0..problem.operations.len() as u32).step_by(3).collect();
        problem.buffers.push(Buffer { size: 3, users, ..Buffer::default() });
        problem
    })
}

fn all_orders(problem: &Problem) -> Vec<Vec<u32>> {
    let mut orders = vec![Vec::new()];
    for _ in 0..problem.operations.len() {
        let longer = |order: &Vec<u32>| {
            let ready = |operation: &u32| {
                let before = &problem.operations[*operation as usize].predecessors;
                !order.contains(operation) && before.iter().all(|before| order.contains(before))
            };
            let order = order.clone();
            let next: Vec<u32> = (0..problem.operations.len() as u32).filter(ready).collect();
            next.into_iter().map(move |operation| order.iter().copied().chain([operation]).collect::<Vec<u32>>())
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    orders
}

/// The fewest bytes at the step of an operation over all orders.
fn least_at(model: &Model, orders: &[Vec<u32>], operation: u32) -> u64 {
    let bytes = |order: &Vec<u32>| {
        let mut state = State::new(model);
        for other in order {
            let before = state.live;
            let effect = state.run(*other);
            if *other == operation {
                return (before + effect.hill) as u64;
            }
        }
        u64::MAX
    };
    orders.iter().map(bytes).min().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn least_cuts_are_the_fewest_bytes(problem in problem(7, false)) {
        let (model, orders) = (Model::new(&problem), all_orders(&problem));
        for operation in 0..model.operations as u32 {
            let cut = least_bytes_at(&model, operation, &mut LOOKS.clone());
            prop_assert_eq!(cut, Some(least_at(&model, &orders, operation)));
        }
    }

    #[test]
    fn least_cuts_are_never_too_high(problem in problem(7, true)) {
        let (model, orders) = (Model::new(&problem), all_orders(&problem));
        for operation in 0..model.operations as u32 {
            let cut = least_bytes_at(&model, operation, &mut LOOKS.clone()).unwrap();
            prop_assert!(cut <= least_at(&model, &orders, operation));
        }
    }

    #[test]
    fn every_order_with_the_peak_keeps_what_is_forced(problem in problem(7, true), room in 0..12_u64) {
        let (model, orders) = (Model::new(&problem), all_orders(&problem));
        let best = orders.iter().map(|order| peak(&model, order)).min().unwrap();
        let bound = (best + 4).saturating_sub(room);
        for operation in 0..model.operations as u32 {
            match forced_at(&model, operation, bound, &mut Witnesses::default(), &mut LOOKS.clone()).unwrap() {
                Forced::Impossible(next) => prop_assert!(bound < next && next <= best),
                Forced::Pairs(pairs, refused) => {
                    prop_assert!(pairs.is_empty() || refused > bound);
                    for order in orders.iter().filter(|order| peak(&model, order) < refused.max(bound + 1)) {
                        let place = |wanted: u32| order.iter().position(|other| *other == wanted);
                        prop_assert!(refused == u64::MAX || pairs.iter().all(|(before, after)| place(*before) < place(*after)));
                    }
                }
            }
        }
    }

    #[test]
    fn narrowing_loses_no_order(problem in problem(7, true), room in 0..12_u64) {
        let (model, orders) = (Model::new(&problem), all_orders(&problem));
        let best = orders.iter().map(|order| peak(&model, order)).min().unwrap();
        let bound = (best + 4).saturating_sub(room);
        let given = &orders[0];
        match narrow(&problem, given, &profile(&model, given), bound, &mut Witnesses::default(), &mut LOOKS.clone()) {
            Narrowed::Impossible(next) => prop_assert!(bound < next && next <= best),
            Narrowed::Problem { problem: narrowed, order, refused, complete } => {
                prop_assert!(complete && refused > bound && narrowed.validate_order(&order).is_ok());
                for order in orders.iter().filter(|order| peak(&model, order) <= bound) {
                    prop_assert_eq!(narrowed.validate_order(order), Ok(()));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn witnesses_spare_questions_and_change_no_answer(problem in problem(7, true), further in (0..7_u32, 0..7_u32), room in 0..8_u64) {
        // Learned from orders and flows of the problem, used for one with a further predecessor and a lower bound.
        let (model, orders) = (Model::new(&problem), all_orders(&problem));
        let best = orders.iter().map(|order| peak(&model, order)).min().unwrap();
        let mut witnesses = Witnesses::default();
        for order in orders.iter().step_by(5) {
            witnesses.add_order(&model, order, &profile(&model, order), best + 4);
        }
        for operation in 0..model.operations as u32 {
            forced_at(&model, operation, best + 4, &mut witnesses, &mut LOOKS.clone()).unwrap();
        }
        let mut tighter = problem.clone();
        let last = model.operations as u32 - 1;
        let (before, after) = (further.0.min(further.1).min(last), further.0.max(further.1).min(last));
        if before < after {
            tighter.operations[after as usize].predecessors.push(before);
        }
        let (model, bound) = (Model::new(&tighter), (best + 3).saturating_sub(room));
        for operation in 0..model.operations as u32 {
            let fresh = forced_at(&model, operation, bound, &mut Witnesses::default(), &mut LOOKS.clone()).unwrap();
            match (fresh, forced_at(&model, operation, bound, &mut witnesses, &mut LOOKS.clone()).unwrap()) {
                (Forced::Impossible(_), Forced::Impossible(_)) => {}
                (Forced::Pairs(fresh, _), Forced::Pairs(known, _)) => prop_assert_eq!(fresh, known),
                _ => prop_assert!(false, "one of them is impossible"),
            }
        }
    }

    #[test]
    fn either_side_of_a_pair_is_decided(problem in problem(7, true), below in 1..4_u64) {
        let (model, orders) = (Model::new(&problem), all_orders(&problem));
        let best = orders.iter().map(|order| peak(&model, order)).min().unwrap();
        let decision = Decision::new(&problem, &orders[0]);
        for target in [best, best.saturating_sub(below)] {
            match decision.split(&model, target, &mut LOOKS.clone()) {
                Verdict::Found(order) => prop_assert!(problem.validate_order(&order).is_ok() && peak(&model, &order) <= target),
                Verdict::Impossible(next) => prop_assert!(target < best && target < next && next <= best, "{target} {next} {best}"),
                // No two operations are open to each other.
                Verdict::Limit => prop_assert!(orders.len() == 1 || pair(&model, &orders[0], &mut LOOKS.clone()).is_none()),
            }
        }
    }
}

#[test]
fn the_heart_of_a_training_step_is_seen_by_cuts_alone() {
    // Activations are needed again only through masks that are a quarter as large, made whenever it suits: nothing large must live at any step, but some
    // of each pair must.
    let mut problem = Problem::default();
    let mut add = |reads: &[u32], size: u64| {
        let index = problem.operations.len() as u32;
        reads.iter().for_each(|other| problem.buffers[*other as usize].users.push(index));
        problem.operations.push(Operation { predecessors: reads.to_vec(), scratch: 0 });
        problem.buffers.push(Buffer { size, users: vec![index], ..Buffer::default() });
        index
    };
    let mut layers = Vec::new();
    let mut value = add(&[], 16);
    for _ in 0..6 {
        let mask = add(&[value], 4);
        layers.push(mask);
        value = add(&[value], 16);
    }
    let loss = add(&[value], 1);
    let mut gradient = loss;
    for mask in layers.into_iter().rev() {
        gradient = add(&[gradient, mask], 16);
    }
    let model = Model::new(&problem);
    assert_eq!(super::bound::lower_bound(&model), 36, "two gradients and a mask");
    assert_eq!(least_bytes_at(&model, loss, &mut LOOKS.clone()), Some(16 + 1 + 6 * 4));
}
