//! Chaos tests: answers are right with any tuning. Every field of the tuning is random, and so are
//! problems of the three kinds.
//!
//! A number that steers a search may make the search slow or poor. It must not cause a wrong answer, a
//! panic or an endless search. The checkers share no code with the solvers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use memc_solve::tuning::{BudgetTuning, OrderTuning, Percent, PlaceTuning, Share, Tuning};
use memc_solve::{Limit, Status, Stop, budget, order, place};
use proptest::prelude::*;

use crate::problems;

/// Raw random numbers, each used for one field.
struct Draws(std::vec::IntoIter<u32>);

impl Draws {
    /// Returns a number from 0 to `most`: 0 and `most` in a quarter of all draws each; otherwise any
    /// number, with small and large magnitudes equally likely.
    fn number(&mut self, most: u64) -> u64 {
        let raw = u64::from(self.0.next().expect("there is a number for each field"));
        let (kind, rest) = (raw & 3, raw >> 2);
        match kind {
            0 => 0,
            1 => most,
            _ => rest % (most >> ((rest >> 16) % u64::from(1 + most.max(1).ilog2()))).max(1),
        }
    }

    fn size(&mut self, most: u64) -> usize {
        self.number(most) as usize
    }

    fn count(&mut self, most: u64) -> u32 {
        self.number(most) as u32
    }

    fn share(&mut self) -> Share {
        Share(self.number(1 << 20))
    }

    fn percent(&mut self, most: u64) -> Percent {
        Percent(self.number(most))
    }
}

/// Generates any tuning. All fields are named, so that a new field must be drawn as well.
fn tuning() -> impl Strategy<Value = Tuning> {
    prop::collection::vec(any::<u32>(), 64).prop_map(|raw| {
        let mut draw = Draws(raw.into_iter());
        Tuning {
            order: order_tuning(&mut draw),
            place: place_tuning(&mut draw),
            budget: budget_tuning(&mut draw),
        }
    })
}

fn order_tuning(draw: &mut Draws) -> OrderTuning {
    OrderTuning {
        looks_per_node: draw.number(200),
        arcs_per_look: draw.number(20),
        heuristic_looks: draw.number(2_000),
        first_slice: draw.number(1 << 20),
        root_share: draw.share(),
        part_looks: draw.number(1 << 17),
        split_operations: draw.size(4_096),
        split_places: draw.size(16),
        first_share: draw.share(),
        first_looks: draw.number(10_000),
        share_growth: draw.number(16),
        hard_peaks: draw.count(8),
        negligible: draw.share(),
    }
}

fn place_tuning(draw: &mut Draws) -> PlaceTuning {
    PlaceTuning {
        small: draw.size(4_096),
        large: draw.size(100_000),
        looks_per_node: draw.number(200),
        more_looks: draw.number(16),
        lesser: draw.share(),
        minority: draw.share(),
        negligible: draw.share(),
        least_looks: draw.number(200_000),
        looks_per_buffer: draw.number(2_000),
        reductions_per_node: draw.number(16),
        slice: draw.number(8_000),
        valleys_per_node: draw.number(16),
        core_margins: [200, 200, 200].map(|most| draw.percent(most)),
        beam_widths: [60, 60, 60].map(|most| draw.size(most)),
    }
}

fn budget_tuning(draw: &mut Draws) -> BudgetTuning {
    BudgetTuning {
        steps: draw.number(400),
        large: draw.size(100_000),
        trial: draw.share(),
        exact: draw.share(),
        unfit: draw.share(),
        much: draw.share(),
        little: draw.share(),
        rounds: draw.count(12),
        seeds: draw.number(8),
        hot: draw.percent(1_000),
        effort_per_round: draw.share(),
        work_per_round: draw.number(4_000),
        heat: draw.percent(100),
        row: draw.share(),
        changes: draw.count(16),
        tried: draw.size(64),
        steepness: draw.number(200),
        noise: draw.percent(90),
    }
}

/// Generates operations that each read one to three earlier values, in an order that is far from
/// optimal.
fn network() -> impl Strategy<Value = order::Problem> {
    prop::collection::vec((1..64_u64, prop::collection::vec(1..24_u32, 1..4)), 30..70).prop_map(|list| {
        let mut problem = order::Problem::default();
        for (index, (size, back)) in (0_u32..).zip(list) {
            let before: std::collections::BTreeSet<u32> =
                back.iter().filter_map(|back| index.checked_sub(*back)).collect();
            before.iter().for_each(|other: &u32| problem.buffers[*other as usize].users.push(index));
            problem
                .operations
                .push(order::Operation { predecessors: before.into_iter().collect(), scratch: 0 });
            problem.buffers.push(order::Buffer { size, users: vec![index], ..order::Buffer::default() });
        }
        problem
    })
}

/// Generates tiny placements, with and without gaps and fixed offsets.
fn tiny_placement() -> impl Strategy<Value = place::Problem> {
    (any::<bool>(), any::<bool>()).prop_flat_map(|(gaps, fixed)| problems::place::problem(gaps, fixed))
}

/// Generates the pieces of a rectangle after horizontal and vertical cuts: input for the search for
/// packings without waste.
fn pieces() -> impl Strategy<Value = place::Problem> {
    let cut = (any::<u16>(), any::<bool>(), 1..100_u64);
    prop::collection::vec(cut, 4..40).prop_map(|cuts| {
        let mut buffers = vec![place::Buffer::new(0, 64, 64)];
        for (which, across, part) in cuts {
            let index = usize::from(which) % buffers.len();
            let piece = buffers[index].clone();
            let steps = piece.end - piece.start;
            if across && steps > 1 {
                let middle = piece.start + 1 + (u64::from(steps - 1) * part / 100) as u32;
                buffers[index].end = middle;
                buffers.push(place::Buffer { start: middle, ..piece });
            } else if !across && piece.size > 1 {
                let lower = 1 + (piece.size - 1) * part / 100;
                buffers[index].size = lower;
                buffers.push(place::Buffer { size: piece.size - lower, ..piece });
            }
        }
        buffers.retain(|buffer| buffer.size > 0 && buffer.start < buffer.end);
        place::Problem { buffers, capacity: None }
    })
}

/// Generates many buffers of all lengths and sizes, some of them aligned.
fn crowd() -> impl Strategy<Value = place::Problem> {
    let buffer = (0..200_u32, 0..9_u32, 1..4_000_u64, 0..7_u32);
    prop::collection::vec(buffer, 30..120).prop_map(|list| {
        let buffer = |(start, long, size, shift): (u32, u32, u64, u32)| place::Buffer {
            alignment: 1 << shift,
            ..place::Buffer::new(start, start + 1 + (1 << long), size)
        };
        place::Problem { buffers: list.into_iter().map(buffer).collect(), capacity: None }
    })
}

/// Solves a placement twice and checks the guarantees of every answer.
fn placed(problem: &place::Problem, limit: &Limit) -> Result<Option<u64>, TestCaseError> {
    let outcome = place::solve(problem, limit).unwrap();
    prop_assert_eq!(&outcome, &place::solve(problem, limit).unwrap());
    if let Some(solution) = &outcome.solution {
        prop_assert_eq!(place::check(problem, solution), Ok(()));
        prop_assert_eq!(outcome.value, Some(solution.height));
        prop_assert!(
            solution.height >= outcome.lower_bound
                && problem.capacity.is_none_or(|most| solution.height <= most)
        );
    } else {
        prop_assert_eq!(outcome.value, None);
    }
    Ok(outcome.solution.map(|solution| solution.height))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn tiny_placements_are_right(tuning in tuning(), nodes in 0..4_000_u64, problem in tiny_placement(), less in 0..4_u64) {
        let limit = Limit { nodes, tuning };
        let best = problems::place::brute_force(&problem);
        let height = placed(&problem, &limit)?;
        prop_assert_eq!(height.is_some(), best.is_some());
        if let Some(best) = best {
            let outcome = place::solve(&problem, &limit).unwrap();
            prop_assert!(outcome.lower_bound <= best && height.is_some_and(|height| best <= height));
            let tight = place::Problem { capacity: Some(best.saturating_sub(less)), ..problem.clone() };
            let found = placed(&tight, &limit)?;
            prop_assert!(less == 0 || best < less || found.is_none());
            let is_refused = place::solve(&tight, &limit).unwrap().status() == Status::Infeasible;
            prop_assert!(!is_refused || (less > 0 && best > 0), "a capacity of the optimum is kept by some placement");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn orders_are_right(tuning in tuning(), nodes in 0..60_u64, tiny in problems::order::problem(6), large in network()) {
        let limit = Limit { nodes, tuning };
        let default = order::solve(&large, &problems::order::given(&large), &Limit::nodes(100)).unwrap();
        let best = problems::order::optimum(&tiny);
        // The large problem has a known order and a bound, the tiny one an optimum.
        for (problem, known, bound) in [(&tiny, best, best), (&large, default.value.unwrap(), default.lower_bound)] {
            let given = problems::order::given(problem);
            let before = order::peak(problem, &given).unwrap();
            let outcome = order::solve(problem, &given, &limit).unwrap();
            prop_assert_eq!(&outcome, &order::solve(problem, &given, &limit).unwrap());
            let (sequence, value) = (outcome.solution.unwrap(), outcome.value.unwrap());
            prop_assert_eq!(order::check(problem, &sequence, value), Ok(()));
            prop_assert!(value < before || sequence == given, "the given order is left for better ones alone");
            prop_assert!(outcome.lower_bound <= value && outcome.lower_bound <= known, "{} {}", outcome.lower_bound, known);
            prop_assert!(bound <= value);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn placements_of_all_kinds_are_right(tuning in tuning(), nodes in 0..60_u64, tight in pieces(), crowd in crowd()) {
        let limit = Limit { nodes, tuning };
        prop_assert!(placed(&tight, &limit)?.is_some_and(|height| height >= 64));
        prop_assert!(placed(&crowd, &limit)?.is_some());
        let capacity = Some(placed(&crowd, &Limit::nodes(0))?.unwrap_or(0));
        placed(&place::Problem { capacity, ..crowd }, &limit)?;
    }

    #[test]
    fn budgets_are_right(
        tuning in tuning(),
        nodes in 0..20_u64,
        tiny in problems::budget::seeds(7),
        large in problems::budget::seeds(24),
        percent in 40..105_u64,
        rate in 1..20_u64,
    ) {
        let limit = Limit { nodes, tuning };
        let tiny = problems::budget::plain(&tiny);
        let rich = problems::budget::rich(&large);
        let linked = problems::budget::with_link(&large, rate);
        for (problem, is_tiny) in [(&tiny, true), (&rich, false), (&linked, false)] {
            let base = problems::budget::given(if is_tiny { &tiny } else { &rich }).unwrap();
            let capacity = base.peak * percent / 100;
            let certified = budget::plan(problem, capacity, limit).unwrap();
            let again = budget::plan(problem, capacity, limit).unwrap();
            prop_assert_eq!(&certified.outcome, &again.outcome);
            let best = if is_tiny { problems::budget::cheapest(problem, capacity) } else { None };
            let outcome = &certified.outcome;
            if let Some(plan) = &outcome.solution {
                prop_assert_eq!(budget::check(problem, capacity, plan), Ok(()));
                prop_assert!(outcome.lower_bound <= plan.makespan && base.cost <= plan.cost);
                prop_assert!(best.is_none_or(|best| best <= plan.cost));
                prop_assert!(!is_tiny || best.is_some());
                // An improved plan keeps the capacity, and so does a plan for a stricter capacity, if
                // one exists.
                let improved = budget::improve(problem, capacity, plan, limit, &Stop::default()).unwrap();
                let next = improved.solution.as_ref().map(|plan| budget::check(problem, capacity, plan));
                prop_assert!(next.is_none_or(|checked| checked == Ok(())));
                let less = capacity - capacity / 8;
                if let Some(stricter) = budget::tighten(problem, less, plan, limit, &Stop::default()).unwrap() {
                    prop_assert_eq!(budget::check(problem, less, &stricter), Ok(()));
                }
            }
            if is_tiny {
                prop_assert!(best.is_none_or(|best| outcome.lower_bound <= best && outcome.status() != Status::Infeasible));
            } else if !problem.links.is_empty() {
                continue;
            }
            prop_assert!(capacity < base.peak || outcome.value == Some(base.cost), "the given order keeps the capacity");
        }
    }
}
