//! Tests of nearly perfect packings: cut rectangles with missing pieces are packed again, and the
//! checker accepts the result.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::super::{check, solve};
use super::holes::choices;
use super::lines::divisions;
use super::*;
use crate::basics::random::Xorshift;
use crate::place::problem::{Buffer, Problem, Solution};
use crate::{Limit, Status};

/// Generates a square that is cut straight and by pinwheels, with every eighth piece removed. Pieces
/// that live at the first step stay.
fn thinned(random: &mut Xorshift, side: u64, pieces: usize) -> Problem {
    let mut list = vec![[0, side, 0, side]];
    for _ in 0..pieces * 9 {
        if list.len() >= pieces {
            break;
        }
        let index = (0..3).map(|_| random.below(list.len() as u64) as usize).max_by_key(|index| {
            let [left, right, low, high] = list[*index];
            (right - left) * (high - low)
        });
        let index = index.unwrap();
        let [left, right, low, high] = list[index];
        let (wide, tall) = (right - left, high - low);
        if random.below(4) == 0 && wide > 4 && tall > 4 {
            let (a, b) =
                (left + 1 + random.below(wide / 2 - 1), left + wide / 2 + 1 + random.below(wide / 2 - 1));
            let (c, d) =
                (low + 1 + random.below(tall / 2 - 1), low + tall / 2 + 1 + random.below(tall / 2 - 1));
            list[index] = [a, b, c, d];
            list.extend([[left, b, low, c], [b, right, low, d], [a, right, d, high], [left, a, c, high]]);
        } else if random.below(2) == 0 && wide > 1 {
            let cut = left + 1 + random.below(wide - 1);
            list[index][1] = cut;
            list.push([cut, right, low, high]);
        } else if tall > 1 {
            let cut = low + 1 + random.below(tall - 1);
            list[index][3] = cut;
            list.push([left, right, cut, high]);
        }
    }
    let mut count = list.len() / 8;
    while count > 0 {
        let index = random.below(list.len() as u64) as usize;
        if list[index][0] > 0 {
            list.swap_remove(index);
        }
        count -= 1;
    }
    let buffer =
        |[left, right, low, high]: [u64; 4]| Buffer::new(left as u32, right as u32, (high - low) << 4);
    Problem { buffers: list.into_iter().map(buffer).collect(), capacity: None }
}

/// Returns whether a packing of height `height` was found, and checks it.
fn packs(problem: &Problem, height: u64, budget: u64) -> bool {
    let normal = Normal::new(problem);
    let Some(by_item) = pack(problem, &normal, height, &PlaceTuning::DEFAULT, &mut { budget }) else {
        return false;
    };
    let mut by_buffer = vec![0; problem.buffers.len()];
    normal.items.iter().zip(by_item).for_each(|(item, offset)| by_buffer[item.buffer as usize] = offset);
    let solution = Solution::from_offsets(problem, by_buffer);
    assert_eq!(check(problem, &solution), Ok(()));
    assert!(solution.height <= height);
    true
}

#[test]
fn cut_squares_with_missing_pieces_are_packed() {
    let mut random = Xorshift::new();
    let found = (0..12).filter(|_| packs(&thinned(&mut random, 512, 90), 512 << 4, 60_000)).count();
    assert!(found >= 10, "{found} of 12");
}

#[test]
fn coincidental_neighbors_cost_more_than_true_ones() {
    let mut random = Xorshift::new();
    let mut left = 0;
    let found = (0..6).filter(|_| {
        let (problem, mut budget) = (thinned(&mut random, 1024, 280), 20_000);
        let packed =
            pack(&problem, &Normal::new(&problem), 1024 << 4, &PlaceTuning::DEFAULT, &mut budget).is_some();
        left += budget;
        packed
    });
    let found = found.count();
    assert!(found >= 4, "{found} of 6, {left} reductions left");
}

#[test]
fn most_small_squares_with_coinciding_moments_are_packed() {
    let mut random = Xorshift::new();
    let found = (0..300).filter(|_| packs(&thinned(&mut random, 16, 16), 16 << 4, 20_000)).count();
    // In the others, few moments are balanced or chance puts too many items at one moment.
    assert!(found >= 180, "{found} of 300");
}

/// Returns whether some placement of the buffers without an offset has at most height `height`. Tries
/// all offsets.
fn fits_by_force(problem: &Problem, offsets: &mut Vec<Option<u64>>, height: u64) -> bool {
    let buffers = &problem.buffers;
    let Some(next) = offsets.iter().position(Option::is_none) else { return true };
    let meets =
        |other: usize| buffers[other].start < buffers[next].end && buffers[next].start < buffers[other].end;
    for offset in (0..=height.saturating_sub(buffers[next].size)).step_by(16) {
        let is_free = (0..next).filter(|other| meets(*other)).all(|other| {
            let bottom = offsets[other].unwrap_or(0);
            bottom + buffers[other].size <= offset || offset + buffers[next].size <= bottom
        });
        if is_free && buffers[next].size <= height {
            offsets[next] = Some(offset);
            if fits_by_force(problem, offsets, height) {
                return true;
            }
            offsets[next] = None;
        }
    }
    false
}

#[test]
fn the_stages_reach_the_bound_of_a_cut_square_with_missing_pieces() {
    let problem = thinned(&mut Xorshift::new(), 512, 90);
    let outcome = solve(&problem, &Limit::nodes(10_000)).unwrap();
    assert_eq!((outcome.value, outcome.status()), (Some(512 << 4), Status::Optimal));
}

/// Generates buffers with a constant load of eight units: at each step one or two buffers are replaced
/// by others of equal sum, at any place.
fn balanced(random: &mut Xorshift) -> Problem {
    let mut live: Vec<(u32, u64)> = vec![(0, 8)];
    let mut buffers = Vec::new();
    for step in 0..8 {
        let mut sum = 0;
        for _ in 0..(1 + random.below(2)).min(live.len() as u64) {
            let (start, units) = live.swap_remove(random.below(live.len() as u64) as usize);
            sum += units;
            buffers.push(Buffer::new(start, step, units << 4));
        }
        while sum > 0 {
            let units = (1 + random.below(4)).min(sum);
            live.push((step, units));
            sum -= units;
        }
    }
    buffers.extend(live.into_iter().map(|(start, units)| Buffer::new(start, 8, units << 4)));
    Problem { buffers, capacity: None }
}

#[test]
fn most_balanced_problems_that_brute_force_packs_are_packed() {
    let mut random = Xorshift::new();
    let (mut possible, mut found) = (0, 0);
    for _ in 0..300 {
        let problem = balanced(&mut random);
        let fits = fits_by_force(&problem, &mut vec![None; problem.buffers.len()], 8 << 4);
        let packed = packs(&problem, 8 << 4, 20_000);
        assert!(fits || !packed);
        possible += usize::from(fits);
        found += usize::from(packed);
    }
    assert!(possible < 295 && found * 20 >= possible * 19, "{found} of {possible}");
}

#[test]
fn missing_bytes_are_filled_by_the_cheapest_holes() {
    let holes = [Hole { leaf: 7, size: 3 }, Hole { leaf: 8, size: 5 }];
    let costs = |left, right| {
        let mut list: Vec<_> =
            choices(&holes, left, right, 48).into_iter().map(|c| (c.cost, c.whole, c.part, c.rest)).collect();
        list.sort();
        list
    };
    assert_eq!(costs(10, 13)[0], (0, vec![7], None, 0));
    assert_eq!(costs(10, 18)[0], (16, vec![7, 8], None, 0));
    assert_eq!(costs(10, 14)[0], (40, vec![], Some((8, 4)), 0));
    assert_eq!(costs(14, 10)[0], (0, vec![], None, 4));
    assert!(costs(10, 14).contains(&(48, vec![8], None, 1)));
}

#[test]
fn equal_sums_of_few_items_form_lines_and_of_many_are_chance() {
    let size = [400, 240, 400, 110, 130, 3, 5, 8, 9, 2, 4, 6, 7];
    let few = divisions(&[0, 1], &[2, 3, 4], &size, 1);
    assert_eq!(few[0].lines, [(vec![0], vec![2]), (vec![1], vec![3, 4])]);
    assert!(few.iter().any(|division| division.lines.len() == 1 && division.cost > 0));
    let many = divisions(&[3, 4, 5, 6, 7], &[8, 9, 10, 11, 12, 0], &size, 1);
    assert_eq!((many[0].cost, many[0].lines.len()), (0, 1));
}
