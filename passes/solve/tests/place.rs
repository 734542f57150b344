//! Placement: the heuristics against brute force, the checker against faults, the CSV form against itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use memc_solve::place::{self, Buffer, Gap, Problem, Solution, Violation};
use memc_solve::{Limit, Status};
use proptest::prelude::*;

/// The smallest height, by trying for every sequence of buffers the lowest place of each; fixed buffers lie first.
fn brute_force(problem: &Problem) -> Option<u64> {
    let mut offsets = vec![None; problem.buffers.len()];
    for (index, buffer) in problem.buffers.iter().enumerate() {
        offsets[index] = buffer.fixed_offset.or((buffer.start == buffer.end || buffer.size == 0).then_some(0));
    }
    for a in 0..offsets.len() {
        for b in 0..a {
            if let (Some(x), Some(y)) = (offsets[a], offsets[b])
                && meets(&problem.buffers[a], x, &problem.buffers[b], y)
            {
                return None;
            }
        }
    }
    let mut best = u64::MAX;
    extend(problem, &mut offsets, &mut best);
    Some(best)
}

/// The rectangles of a buffer: steps and bytes.
fn rectangles(buffer: &Buffer) -> Vec<(u32, u32, u64, u64)> {
    (buffer.start..buffer.end)
        .filter_map(|step| match buffer.gaps.iter().find(|gap| gap.start <= step && step < gap.end) {
            None => Some((step, step + 1, 0, buffer.size)),
            Some(gap) => gap.window.map(|(low, high)| (step, step + 1, low, high)),
        })
        .filter(|(_, _, low, high)| low < high)
        .collect()
}

fn meets(a: &Buffer, x: u64, b: &Buffer, y: u64) -> bool {
    rectangles(a).iter().any(|p| rectangles(b).iter().any(|q| p.0 == q.0 && x + p.2 < y + q.3 && y + q.2 < x + p.3))
}

fn extend(problem: &Problem, offsets: &mut Vec<Option<u64>>, best: &mut u64) {
    let Some(_) = offsets.iter().position(Option::is_none) else {
        let height = problem.buffers.iter().zip(offsets.iter()).map(|(buffer, offset)| offset.unwrap() + buffer.size).max();
        *best = (*best).min(height.unwrap_or(0));
        return;
    };
    for index in 0..offsets.len() {
        if offsets[index].is_none() {
            offsets[index] = Some(lowest(problem, offsets, index));
            extend(problem, offsets, best);
            offsets[index] = None;
        }
    }
}

fn lowest(problem: &Problem, offsets: &[Option<u64>], index: usize) -> u64 {
    let buffer = &problem.buffers[index];
    (0..)
        .step_by(buffer.alignment as usize)
        .find(|offset| {
            let clash = |other: usize| offsets[other].is_some_and(|place| meets(buffer, *offset, &problem.buffers[other], place));
            !(0..offsets.len()).any(clash)
        })
        .unwrap()
}

fn buffer() -> impl Strategy<Value = Buffer> {
    (0..8_u32, 0..6_u32, 0..12_u64, prop_oneof![4 => Just(1_u64), 1 => Just(2), 1 => Just(4), 1 => Just(3)])
        .prop_map(|(start, length, size, alignment)| Buffer { alignment, ..Buffer::new(start, start + length, size) })
}

fn problem(with_gaps: bool, with_fixed: bool) -> impl Strategy<Value = Problem> {
    let extras = (any::<bool>(), 0..3_u32, 1..3_u32, 0..3_u64, 0..20_u64, 0..4_u8);
    prop::collection::vec((buffer(), extras), 0..7).prop_map(move |list| {
        let shape = |(mut buffer, (windowed, from, length, low, place, fix)): (Buffer, (bool, u32, u32, u64, u64, u8))| {
            let (start, end) = (buffer.start + from, buffer.start + from + length);
            if with_gaps && end <= buffer.end {
                let window = (windowed && low < buffer.size).then_some((low, buffer.size.min(low + 3)));
                buffer.gaps.push(Gap { start, end, window });
            }
            if with_fixed && fix == 0 {
                buffer.fixed_offset = Some(place * buffer.alignment);
            }
            buffer
        };
        Problem { buffers: list.into_iter().map(shape).collect(), capacity: None }
    })
}

/// Checks an outcome against brute force; with `proven`, also that the optimum is proven.
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
    let buffer = |(start, end, size, alignment)| Buffer { start, end, size, alignment, fixed_offset: None, gaps: Vec::new() };
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
        // Without any placement, every capacity is too small.
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
    fn csv_reads_what_it_writes(problem in problem(true, true)) {
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
    let buffers = vec![Buffer { alignment: 64, ..Buffer::new(0, 2, 100) }, Buffer { alignment: 64, ..Buffer::new(1, 3, 10) }];
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

/// Pieces of a rectangle that was cut in two again and again: a placement as high as the rectangle exists, and every step is full.
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
fn rectangles_without_slack_are_put_together_again() {
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
        let outcome = place::solve(&problem, &Limit { nodes: 6000 }).unwrap();
        place::check(&problem, &outcome.solution.unwrap()).unwrap();
        assert_eq!(outcome.lower_bound, 1 << 20);
        assert!(outcome.value.unwrap() < 3 << 19);
    }
}
