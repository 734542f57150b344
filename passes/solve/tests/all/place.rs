//! Tests of placement: the heuristics against brute force, the checker against faults, the CSV form in a
//! round trip.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use memc_solve::place::{self, Buffer, Gap, Problem, Solution, Violation};
use memc_solve::{Limit, Status};
use problems::place::{brute_force, meets, problem};
use proptest::prelude::*;

use crate::problems;

/// Compares an outcome with brute force; with `proven`, also requires a proof of the optimum.
fn holds(problem: &Problem, proven: bool) {
    let outcome = place::solve(problem, &Limit::default()).unwrap();
    let Some(best) = brute_force(problem) else {
        assert_eq!(outcome.status(), Status::Infeasible);
        return;
    };
    let solution = outcome.solution.clone().expect("no capacity, so there is a placement");
    place::check(problem, &solution).unwrap();
    assert_eq!(outcome.value, Some(solution.height));
    assert!(outcome.lower_bound <= best, "bound {} above the optimum {best}", outcome.lower_bound);
    assert!(solution.height >= best, "height {} below the optimum {best}", solution.height);
    if outcome.status() == Status::Optimal || proven {
        assert_eq!((solution.height, outcome.lower_bound), (best, best));
    }
    let windowed = problem.buffers.iter().any(|buffer| buffer.gaps.iter().any(|gap| gap.window.is_some()));
    if best > 0 && !windowed {
        let tight = Problem { capacity: Some(best - 1), ..problem.clone() };
        assert_eq!(place::solve(&tight, &Limit::default()).unwrap().status(), Status::Infeasible);
        let enough = Problem { capacity: Some(best), ..problem.clone() };
        let outcome = place::solve(&enough, &Limit::default()).unwrap();
        place::check(&enough, &outcome.solution.unwrap()).unwrap();
    }
}

#[test]
fn padding_below_an_aligned_buffer_is_room_for_others() {
    let rows = [(0, 2, 1, 1), (1, 5, 1, 1), (5, 6, 10, 1), (0, 1, 1, 1), (5, 6, 3, 4), (4, 6, 1, 1)];
    let buffer = |(start, end, size, alignment)| Buffer {
        start,
        end,
        size,
        alignment,
        fixed_offset: None,
        gaps: Vec::new(),
    };
    let problem = Problem { buffers: rows.into_iter().map(buffer).collect(), capacity: Some(14) };
    let outcome = place::solve(&problem, &Limit::default()).unwrap();
    assert_eq!(outcome.status(), Status::Optimal);
    place::check(&problem, &outcome.solution.unwrap()).unwrap();
    assert_eq!(place::infeasible_subset(&problem, &Limit::default()).unwrap(), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn plain_problems_hold_against_brute_force(problem in problem(false, false)) {
        holds(&problem, true);
    }

    #[test]
    fn gaps_and_windows_hold_against_brute_force(problem in problem(true, false)) {
        holds(&problem, false);
    }

    #[test]
    fn fixed_offsets_hold_against_brute_force(problem in problem(true, true)) {
        holds(&problem, false);
    }

    #[test]
    fn an_infeasible_subset_is_infeasible_and_needs_all_its_buffers(problem in problem(false, false)) {
        let best = brute_force(&problem).unwrap();
        prop_assume!(best > 0);
        let at = |capacity| Problem { capacity: Some(capacity), ..problem.clone() };
        prop_assert_eq!(place::infeasible_subset(&at(best), &Limit::default()).unwrap(), None);
        let set = place::infeasible_subset(&at(best - 1), &Limit::default()).unwrap().expect("the capacity is too small");
        let height = |indices: &[usize]| {
            let buffers = indices.iter().map(|index| problem.buffers[*index].clone()).collect();
            brute_force(&Problem { buffers, capacity: None }).unwrap()
        };
        prop_assert!(height(&set) >= best);
        for left_out in 0..set.len() {
            let rest: Vec<usize> = set.iter().copied().filter(|index| *index != set[left_out]).collect();
            prop_assert!(rest.is_empty() || height(&rest) < best, "{:?} is not needed in {:?}", set[left_out], set);
        }
    }

    #[test]
    fn an_infeasible_subset_with_gaps_and_fixed_offsets_is_infeasible(problem in problem(true, true)) {
        let best = brute_force(&problem);
        prop_assume!(best != Some(0));
        // If no placement exists, every capacity is too small.
        let capacity = best.map_or(1_000, |best| best - 1);
        let found = place::infeasible_subset(&Problem { capacity: Some(capacity), ..problem.clone() }, &Limit::default()).unwrap();
        let windowed = problem.buffers.iter().any(|buffer| buffer.gaps.iter().any(|gap| gap.window.is_some()));
        prop_assert!(found.is_some() || windowed, "the search takes all problems without windows");
        if let Some(set) = found {
            let buffers = set.iter().map(|index| problem.buffers[*index].clone()).collect();
            let alone = brute_force(&Problem { buffers, capacity: None });
            prop_assert!(alone.is_none_or(|height| height > capacity), "{:?} keeps {capacity}", set);
        }
    }

    #[test]
    fn the_checker_agrees_with_the_definition(problem in problem(true, false), seeds in prop::collection::vec(0..30_u64, 7)) {
        let offsets: Vec<u64> = problem.buffers.iter().zip(&seeds).map(|(buffer, seed)| seed / buffer.alignment * buffer.alignment).collect();
        let clash = (0..offsets.len()).any(|a| (0..a).any(|b| meets(&problem.buffers[a], offsets[a], &problem.buffers[b], offsets[b])));
        let verdict = place::check(&problem, &Solution::from_offsets(&problem, offsets));
        prop_assert_eq!(matches!(verdict, Err(Violation::Overlap { .. })), clash);
    }

    #[test]
    fn csv_tables_survive_writing_and_reading(problem in problem(true, true)) {
        let ids = (0..problem.buffers.len()).map(|index| format!("b{index}")).collect();
        let table = place::csv::Table { ids, problem };
        prop_assert_eq!(place::csv::read(&place::csv::write(&table, None)).unwrap(), table);
    }
}

#[test]
fn inclusive_ends_and_gaps_are_read() {
    let table = place::csv::read("id,lower,end,size,gaps\na,0,4,16,1-2@0:8 3-3\n").unwrap();
    let gaps = vec![Gap { start: 1, end: 3, window: Some((0, 8)) }, Gap { start: 3, end: 4, window: None }];
    assert_eq!(table.problem.buffers, [Buffer { gaps, ..Buffer::new(0, 5, 16) }]);
}

#[test]
fn the_last_padding_is_not_counted() {
    let buffers = vec![
        Buffer { alignment: 64, ..Buffer::new(0, 2, 100) },
        Buffer { alignment: 64, ..Buffer::new(1, 3, 10) },
    ];
    let outcome = place::solve(&Problem { buffers, capacity: None }, &Limit::default()).unwrap();
    assert_eq!((outcome.value, outcome.status()), (Some(138), Status::Optimal));
}

#[test]
fn a_capacity_below_the_load_is_infeasible() {
    let buffers = vec![Buffer::new(0, 2, 100), Buffer::new(1, 3, 10)];
    let outcome = place::solve(&Problem { buffers, capacity: Some(109) }, &Limit::default()).unwrap();
    assert_eq!((outcome.solution.is_none(), outcome.status()), (true, Status::Infeasible));
}

#[test]
fn sizes_beyond_64_bits_are_refused() {
    let buffers = vec![Buffer::new(0, 1, u64::MAX / 2); 3];
    assert!(matches!(
        place::solve(&Problem { buffers, capacity: None }, &Limit::default()),
        Err(place::ProblemError::TooLarge { buffer: 0 })
    ));
}

/// Cuts a rectangle into pieces: a placement with the height of the rectangle exists, and every step is
/// full.
fn cut_rectangle(pieces: usize) -> Vec<Buffer> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut list = vec![Buffer::new(0, 1 << 20, 1 << 20)];
    while list.len() < pieces {
        let index = random(list.len() as u64) as usize;
        let piece = list[index].clone();
        let (steps, bytes) = (u64::from(piece.end - piece.start), piece.size);
        if random(2) == 0 && steps > 8 {
            let middle = piece.start + 1 + random(steps - 1) as u32;
            list[index].end = middle;
            list.push(Buffer { start: middle, ..piece });
        } else if bytes > 8 {
            let lower = 1 + random(bytes - 1);
            list[index].size = lower;
            list.push(Buffer { size: bytes - lower, ..piece });
        }
    }
    list
}

#[test]
fn rectangles_without_slack_are_packed_exactly() {
    for pieces in [40, 120, 200] {
        let problem = Problem { buffers: cut_rectangle(pieces), capacity: None };
        let outcome = place::solve(&problem, &Limit::default()).unwrap();
        place::check(&problem, &outcome.solution.unwrap()).unwrap();
        assert_eq!((outcome.value, outcome.lower_bound), (Some(1 << 20), 1 << 20), "{pieces} pieces");
    }
}

#[test]
fn problems_of_any_size_get_a_valid_placement_within_the_stack() {
    for pieces in [40, 1000, 3000] {
        let problem = Problem { buffers: cut_rectangle(pieces), capacity: None };
        let outcome = place::solve(&problem, &Limit::nodes(6000)).unwrap();
        place::check(&problem, &outcome.solution.unwrap()).unwrap();
        assert_eq!(outcome.lower_bound, 1 << 20);
        assert!(outcome.value.unwrap() < 3 << 19);
    }
}
