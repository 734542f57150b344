//! Tests of minimum cuts and the pairs that they force, against all orders and all sets of small
//! problems.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::cuts::closure::{Forced, forced_at, least_bytes_at};
use super::cuts::commit::Interval;
use super::cuts::narrow::{Narrowed, narrow};
use super::cuts::witness::Witnesses;
use super::exact::contract::contract;
use super::exact::decision::Decision;
use super::exact::pairs::{pairs, ties};
use super::exact::search::{Verdict, decide};
use super::exact::twins;
use super::model::{Model, State, peak, profile};
use super::problem::{Buffer, Operation, Problem};
use crate::tuning::OrderTuning;

/// More looks than any problem of these tests needs.
const LOOKS: u64 = 1 << 40;

const TUNING: OrderTuning = OrderTuning::DEFAULT;

/// Generates values with readers, shared buffers, scratch, inputs, results, and, with `takes`, bytes to
/// take over.
fn problem(most: usize, takes: bool) -> impl Strategy<Value = Problem> {
    let operation = (0..9_u64, 0..10_u64, any::<u16>(), any::<u16>(), any::<u8>());
    prop::collection::vec(operation, 2..=most).prop_map(move |list| {
        let mut problem = Problem::default();
        for (index, (size, scratch, reads, order, flags)) in list.into_iter().enumerate() {
            let index = index as u32;
            let reads: Vec<u32> =
                (0..index).filter(|other| reads >> other & 1 == 1 && order >> other & 3 != 0).collect();
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
            next.into_iter()
                .map(move |operation| order.iter().copied().chain([operation]).collect::<Vec<u32>>())
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    orders
}

/// Generates enough looks, or so few that they may run out anywhere.
fn looks() -> impl Strategy<Value = u64> {
    prop_oneof![Just(LOOKS), 1..200_u64]
}

/// Returns the fewest bytes at the step of an operation over all orders.
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
    fn few_looks_give_no_answer_or_the_full_one(problem in problem(9, true)) {
        let model = Model::new(&problem);
        for operation in 0..model.operations as u32 {
            let least = least_bytes_at(&model, operation, &mut LOOKS.clone());
            for looks in 1..100_u64 {
                let found = least_bytes_at(&model, operation, &mut looks.clone());
                prop_assert!(found.is_none() || found == least, "{found:?} {least:?} with {looks} looks");
            }
        }
    }

    #[test]
    fn every_order_below_the_refused_peak_keeps_forced_pairs(problem in problem(7, true), room in 0..12_u64, looks in looks()) {
        let (model, orders) = (Model::new(&problem), all_orders(&problem));
        let best = orders.iter().map(|order| peak(&model, order)).min().unwrap();
        let bound = (best + 4).saturating_sub(room);
        for operation in 0..model.operations as u32 {
            let forced = forced_at(&model, operation, bound, &mut Witnesses::default(), &mut looks.clone());
            prop_assert!(forced.is_some() || looks < LOOKS);
            match forced.unwrap_or(Forced::Pairs(Vec::new(), u64::MAX)) {
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
    fn narrowing_keeps_every_order_within_the_bound(problem in problem(7, true), room in 0..12_u64, looks in looks()) {
        let (model, orders) = (Model::new(&problem), all_orders(&problem));
        let best = orders.iter().map(|order| peak(&model, order)).min().unwrap();
        let bound = (best + 4).saturating_sub(room);
        let given = &orders[0];
        match narrow(&problem, given, &profile(&model, given), bound, &mut Witnesses::default(), &mut looks.clone()) {
            Narrowed::Impossible(next) => prop_assert!(bound < next && next <= best),
            Narrowed::Problem { problem: narrowed, order, refused, complete } => {
                prop_assert!((complete || looks < LOOKS) && refused > bound && narrowed.validate_order(&order).is_ok());
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
    fn witnesses_save_work_and_change_no_answer(problem in problem(7, true), further in (0..7_u32, 0..7_u32), room in 0..8_u64) {
        // Witnesses come from orders and flows of the problem. They are used for a problem with one more
        // predecessor and a lower bound.
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
            witnesses.demand(before, after);
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
    fn splitting_a_pair_decides_both_sides(problem in problem(7, true), below in 1..4_u64) {
        let (model, orders) = (Model::new(&problem), all_orders(&problem));
        let best = orders.iter().map(|order| peak(&model, order)).min().unwrap();
        let decision = Decision::new(&problem, &orders[0], &TUNING);
        for target in [best, best.saturating_sub(below)] {
            match decision.split(&model, target, &mut LOOKS.clone()) {
                Verdict::Found(order) => prop_assert!(problem.validate_order(&order).is_ok() && peak(&model, &order) <= target),
                Verdict::Impossible(next) => prop_assert!(target < best && target < next && next <= best, "{target} {next} {best}"),
                // Every pair of operations is ordered.
                Verdict::Limit => prop_assert!(orders.len() == 1 || pairs(&model, &orders[0], &TUNING, &mut LOOKS.clone()).is_empty()),
            }
        }
    }

    #[test]
    fn a_problem_is_split_at_the_pair_with_most_consequences(problem in problem(7, true), room in 0..3_u64) {
        let (model, orders) = (Model::new(&problem), all_orders(&problem));
        let (best, order) = orders.iter().map(|order| (peak(&model, order), order)).min().unwrap();
        let mut decision = Decision::new(&problem, order, &TUNING);
        let known = ties(&model, order);
        let target = best + room;
        let chosen = decision.best_sides(&model, target, &mut LOOKS.clone());
        for pair in pairs(&model, order, &TUNING, &mut LOOKS.clone()) {
            let sides = decision.sides(pair, target, &mut LOOKS.clone());
            let chosen = chosen.as_ref().unwrap();
            // If one side of a pair is impossible, only the other side is left to decide.
            prop_assert!(chosen.decisions.len() < 2 || (sides.decisions.len() == 2 && sides.worth(known) <= chosen.worth(known)));
        }
        prop_assert!(matches!(decision.decide(target, &mut LOOKS.clone()), Verdict::Found(_)));
    }
}

/// Generates chains with readers next to them: pairs that may be contracted, and pairs that only look
/// like it.
fn chains(most: usize) -> impl Strategy<Value = Problem> {
    let operation =
        (1..6_u64, prop_oneof![3 => Just(0_u64), 2 => 1..9_u64], 0..6_u8, any::<u8>(), any::<u8>());
    prop::collection::vec(operation, 2..=most).prop_map(|list| {
        let mut problem = Problem::default();
        for (index, (size, scratch, from, second, flags)) in list.into_iter().enumerate() {
            let index = index as u32;
            let before = match (index, from) {
                (0, _) => Vec::new(),
                (_, 0..3) => vec![index - 1],
                _ if flags & 3 == 3 && index > 1 => vec![u32::from(second) % (index - 1), index - 1],
                _ => vec![u32::from(second) % index],
            };
            // Some operations run after others without reading them.
            let reads = if from == 5 { Vec::new() } else { before.clone() };
            reads.iter().for_each(|other| problem.buffers[*other as usize].users.push(index));
            let over = |other: &u32| flags & 4 == 4 && problem.buffers[*other as usize].size >= size;
            let takes_over = reads.into_iter().filter(over).collect();
            problem.operations.push(Operation { predecessors: before, scratch });
            let (kept, live_from_start) = (flags & 56 == 56, flags & 248 == 192);
            problem.buffers.push(Buffer { size, users: vec![index], kept, live_from_start, takes_over });
        }
        problem
    })
}

fn least_peak(problem: &Problem) -> u64 {
    let model = Model::new(problem);
    all_orders(problem).iter().map(|order| peak(&model, order)).min().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn contraction_keeps_the_least_peak(problem in prop_oneof![chains(7), problem(7, true)]) {
        let contracted = contract(&problem);
        prop_assert_eq!(contracted.problem.validate(), Ok(()));
        prop_assert_eq!(least_peak(&contracted.problem), least_peak(&problem));
        let (before, after) = (Model::new(&problem), Model::new(&contracted.problem));
        for order in all_orders(&contracted.problem) {
            let expanded = contracted.expand(&order);
            prop_assert_eq!(problem.validate_order(&expanded), Ok(()));
            prop_assert_eq!(peak(&before, &expanded), peak(&after, &order));
        }
        let given: Vec<u32> = (0..contracted.problem.operations.len() as u32).collect();
        prop_assert_eq!(contracted.problem.validate_order(&given), Ok(()));
    }

    #[test]
    fn the_search_finds_the_least_peak_both_ways(problem in prop_oneof![chains(7), problem(7, true)]) {
        let best = least_peak(&problem);
        let forward = Model::new(&problem);
        for model in [&forward, &forward.reversed()] {
            prop_assert!(matches!(decide(model, best, &mut LOOKS.clone()), Verdict::Found(order) if peak(model, &order) <= best));
            if best > 0 {
                let verdict = decide(model, best - 1, &mut LOOKS.clone());
                prop_assert!(matches!(verdict, Verdict::Impossible(next) if next == best), "{verdict:?} {best}");
            }
        }
    }

    #[test]
    fn the_fewest_bytes_of_all_sets_between_two_states_are_known(problem in problem(7, true), start in 0..4_usize) {
        let model = Model::new(&problem);
        let order = all_orders(&problem).pop().unwrap();
        let start = start.min(order.len());
        for end in start + 1..=order.len() {
            let mut state = State::new(&model);
            order[..start].iter().for_each(|operation| {
                state.run(*operation);
            });
            let before = state.held.clone();
            let ran = &order[start..end];
            // Fewest bytes of all sets between that are closed under predecessors.
            let lowest = (0..1_u32 << ran.len()).filter_map(|set| {
                let mut state = state.clone();
                let chosen = ran.iter().enumerate().filter(|(place, _)| set >> place & 1 == 1);
                chosen.map(|(_, operation)| (state.waits[*operation as usize] == 0).then(|| state.run(*operation))).collect::<Option<Vec<_>>>()?;
                Some(state.live)
            });
            let lowest = lowest.min().unwrap();
            ran.iter().for_each(|operation| {
                state.run(*operation);
            });
            let new: Vec<u32> = (0..model.sizes.len() as u32)
                .filter(|buffer| state.held[*buffer as usize].allocated && !before[*buffer as usize].allocated)
                .collect();
            let mut interval = Interval::new(model.operations, model.sizes.len());
            let answer = interval.is_lowest(&state, ran.iter().copied(), &new, &mut LOOKS.clone());
            prop_assert_eq!(answer, state.live <= lowest);
        }
    }
}

/// Builds a problem of values: size, operands, and whether the value is kept.
fn values(list: &[(u64, &[u32], bool)]) -> Problem {
    let mut problem = Problem::default();
    for (index, (size, reads, kept)) in list.iter().enumerate() {
        reads.iter().for_each(|other| problem.buffers[*other as usize].users.push(index as u32));
        problem.operations.push(Operation { predecessors: reads.to_vec(), scratch: 0 });
        problem.buffers.push(Buffer {
            size: *size,
            users: vec![index as u32],
            kept: *kept,
            ..Buffer::default()
        });
    }
    problem
}

#[test]
fn a_network_counts_a_look_per_operation() {
    let problem = values(&[(1, &[], false), (2, &[0], false), (3, &[0], false), (1, &[1, 2], true)]);
    let model = Model::new(&problem);
    let least = |mut looks: u64| least_bytes_at(&model, 1, &mut looks).map(|bytes| (bytes, looks));
    let (bytes, left) = least(1000).unwrap_or_default();
    assert!(bytes > 0 && left <= 1000 - 4, "{left}");
    assert_eq!(least(3), None);
}

#[test]
fn pairs_with_a_possible_third_between_are_not_contracted() {
    // The first operation frees many bytes and the second allocates many. An operation that only waits
    // for the first runs between them.
    for (freed, result, scratch, least) in [(9, 5, [4, 0], 14), (5, 6, [0, 5], 13)] {
        let mut problem =
            values(&[(freed, &[], false), (1, &[0], false), (result, &[1], true), (12, &[], false)]);
        problem.operations[3].predecessors.push(0);
        (problem.operations[1].scratch, problem.operations[2].scratch) = (scratch[0], scratch[1]);
        assert_eq!(contract(&problem).problem.operations.len(), 4);
        assert_eq!(least_peak(&problem), least);
    }
}

#[test]
fn a_chain_contracts_to_fewer_operations() {
    // A sum, taken over by its activation, and two convolutions; the first value is read again.
    let list: [(u64, &[u32], bool); 6] = [
        (4, &[], false),
        (4, &[0], false),
        (4, &[1], false),
        (4, &[2], false),
        (4, &[3], false),
        (4, &[4, 0], true),
    ];
    let mut problem = values(&list);
    problem.buffers[2].takes_over = vec![1];
    let contracted = contract(&problem);
    assert_eq!(contracted.problem.operations.len(), 4);
    assert_eq!(contracted.expand(&[0, 1, 2, 3]), vec![0, 1, 2, 3, 4, 5]);
    assert_eq!(least_peak(&contracted.problem), 12);
}

#[test]
fn cuts_alone_prove_the_peak_of_a_training_step() {
    // Activations are needed again only through masks of a quarter of their size, which can be made at
    // any time. So no large buffer must live at any step, but one of each pair must.
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

/// Generates several copies of a few operations. Each copy reads a source of its own, or all read one
/// source. One operation reads all results, or they are added up one after the other, in either
/// sequence. Some buffers may take over others, and a few extra edges make copies differ.
fn copied(most: usize) -> impl Strategy<Value = Problem> {
    let part = prop::collection::vec((0..5_u64, 0..3_u64, any::<u8>(), any::<u8>()), 1..=3);
    let more = prop::collection::vec((any::<u8>(), any::<u8>()), 0..=3);
    (part, 2..=most, any::<u8>(), 0..4_u64, more).prop_map(|(part, copies, flags, size, more)| {
        let mut problem = Problem::default();
        let mut add =
            |predecessors: Vec<u32>, scratch: u64, size: u64, reads: &[u32], takes: &[u32], kept: bool| {
                let operation = problem.operations.len() as u32;
                reads.iter().for_each(|buffer| problem.buffers[*buffer as usize].users.push(operation));
                let takes_over = takes
                    .iter()
                    .copied()
                    .filter(|other| problem.buffers[*other as usize].size >= size)
                    .collect();
                problem.operations.push(Operation { predecessors, scratch });
                problem.buffers.push(Buffer {
                    size,
                    users: vec![operation],
                    kept,
                    takes_over,
                    ..Buffer::default()
                });
                operation
            };
        let mut source = add(Vec::new(), 0, size, &[], &[], false);
        let mut ends = Vec::new();
        for _ in 0..copies {
            // Each copy has a source made from the previous source, or all copies share one.
            if flags & 4 == 4 {
                source = add(vec![source], 0, size, &[source], &[], false);
            }
            let mut last = source;
            for (size, scratch, reads, takes) in &part {
                let mut from = vec![last];
                from.extend((reads & 1 == 1 && last != source).then_some(source));
                let taken = if takes & 3 == 3 { from.as_slice() } else { &[] };
                last = add(from.clone(), *scratch, *size, &from, taken, takes & 12 == 12);
            }
            ends.push(last);
        }
        if flags & 8 == 8 {
            ends.reverse();
        }
        if flags & 1 == 1 {
            let mut sum: Option<u32> = None;
            for end in ends {
                let from: Vec<u32> = sum.into_iter().chain([end]).collect();
                let taken = if flags & 2 == 2 { from.as_slice() } else { &[] };
                sum = Some(add(from.clone(), 0, size, &from, taken, false));
            }
        } else {
            add(ends.clone(), 0, size + 1, &ends, &[], true);
        }
        let count = problem.operations.len();
        for (from, to) in more {
            let (from, to) = (from as usize % count, to as usize % count);
            let (first, second) = (from.min(to), from.max(to) as u32);
            if first as u32 == second || problem.buffers[first].users.contains(&second) {
                continue;
            }
            problem.operations[second as usize].predecessors.push(first as u32);
            // Some edges are predecessors without a read.
            if to % 3 > 0 {
                problem.buffers[first].users.push(second);
            }
        }
        problem
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn twins_in_sequence_keep_the_best_order(copied in copied(2), other in copied(3)) {
        for problem in [copied, other] {
            let least = |problem: &Problem| {
                let model = Model::new(problem);
                all_orders(problem).iter().map(|order| peak(&model, order)).min().unwrap()
            };
            let given: Vec<u32> = (0..problem.operations.len() as u32).collect();
            let Some((narrower, order)) = twins::ordered(&problem, &given) else { continue };
            prop_assert!(peak(&Model::new(&problem), &order) <= peak(&Model::new(&problem), &given));
            prop_assert!(narrower.validate_order(&order).is_ok());
            prop_assert_eq!(least(&narrower), least(&problem), "{:?}", problem);
        }
    }
}

#[test]
fn equal_parts_have_one_sequence() {
    // Three parts of two operations each; one more operation joins their results.
    let mut problem = Problem::default();
    for part in 0..3 {
        problem.operations.push(Operation::default());
        problem.operations.push(Operation { predecessors: vec![2 * part], scratch: 0 });
        problem.buffers.push(Buffer { size: 4, users: vec![2 * part, 2 * part + 1], ..Buffer::default() });
        problem.buffers.push(Buffer { size: 2, users: vec![2 * part + 1, 6], ..Buffer::default() });
    }
    problem.operations.push(Operation { predecessors: vec![1, 3, 5], scratch: 0 });
    // The given order begins with the last part.
    let given = [4, 0, 1, 2, 5, 3, 6];
    let (narrower, order) = twins::ordered(&problem, &given).unwrap();
    assert_eq!(all_orders(&problem).len(), 90);
    // The number of ways to nest three pairs of brackets.
    assert_eq!(all_orders(&narrower).len(), 5);
    assert!(narrower.validate_order(&order).is_ok());
}

/// Returns the lowest peak of all orders, and of all orders with twins in sequence. Both are equal
/// without twins.
fn least_without_and_with_twins(problem: &Problem) -> [u64; 2] {
    let least = |problem: &Problem| {
        let model = Model::new(problem);
        all_orders(problem).iter().map(|order| peak(&model, order)).min().unwrap()
    };
    let given: Vec<u32> = (0..problem.operations.len() as u32).collect();
    [
        least(problem),
        twins::ordered(problem, &given).map_or_else(|| least(problem), |(narrower, _)| least(&narrower)),
    ]
}

/// Builds operations that each end a buffer that lives from the start, of size `ended`, and allocate a
/// kept buffer of size `made`. Operations listed in `in_place` may allocate the second in place of the
/// first.
fn ends_and_makes(count: u32, [ended, made]: [u64; 2], in_place: &[u32]) -> Problem {
    let mut problem = Problem::default();
    for operation in 0..count {
        let taken = 2 * operation;
        problem.operations.push(Operation::default());
        problem.buffers.push(Buffer {
            size: ended,
            users: vec![operation],
            live_from_start: true,
            ..Buffer::default()
        });
        let takes_over = in_place.iter().filter(|other| **other == operation).map(|_| taken).collect();
        problem.buffers.push(Buffer {
            size: made,
            users: vec![operation],
            kept: true,
            takes_over,
            ..Buffer::default()
        });
    }
    problem
}

#[test]
fn operations_that_differ_in_taking_over_bytes_are_no_twins() {
    // The second operation makes room for the first.
    assert_eq!(least_without_and_with_twins(&ends_and_makes(2, [5, 3], &[1])), [11, 11]);
    assert_eq!(least_without_and_with_twins(&ends_and_makes(2, [5, 3], &[0, 1])), [10, 10]);
    let given = [0, 1];
    assert!(twins::ordered(&ends_and_makes(2, [5, 3], &[1]), &given).is_none());
    assert!(twins::ordered(&ends_and_makes(2, [5, 3], &[0, 1]), &given).is_some());
    // If an operation has two buffers that may take over others, it gets no twin.
    let mut problem = ends_and_makes(2, [5, 3], &[0, 1]);
    for operation in 0..2 {
        let (taken, size) = (4 + 2 * operation, 5);
        problem.buffers.push(Buffer {
            size,
            users: vec![operation],
            live_from_start: true,
            ..Buffer::default()
        });
        problem.buffers.push(Buffer {
            size: 2,
            users: vec![operation],
            kept: true,
            takes_over: vec![taken],
            ..Buffer::default()
        });
    }
    assert!(twins::ordered(&problem, &given).is_none());
}

#[test]
fn operations_with_different_predecessors_are_no_twins() {
    // The last two operations free equally many bytes, but the first of them waits for an operation
    // whose scratch does not fit while both buffers live.
    let mut problem = Problem::default();
    problem.operations.extend([10, 4].map(|scratch| Operation { predecessors: Vec::new(), scratch }));
    for index in 0..2 {
        problem.operations.push(Operation { predecessors: vec![index], scratch: 0 });
        problem.buffers.push(Buffer {
            size: 5,
            users: vec![index + 2],
            live_from_start: true,
            ..Buffer::default()
        });
    }
    assert!(twins::ordered(&problem, &[0, 1, 2, 3]).is_none());
}
