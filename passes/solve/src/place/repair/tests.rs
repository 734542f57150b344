//! Tests of repair: plain problems, and gaps and windows on the circle of a period.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::neighbors::{Met, NOWHERE, Neighbors};
use super::shake::push;
use super::{reach, repair, repairable};
use crate::basics::random::Random;
use crate::place::check;
use crate::place::heuristics::first_fit::first_fit;
use crate::place::normal::Normal;
use crate::place::problem::{Buffer, Gap, Problem, Solution};

/// A buffer that lives for `long` of `period` steps from `start` on, in each period.
fn on_circle(period: u32, start: u32, long: u32, size: u64) -> Buffer {
    let (start, end) = (start % period, start % period + long.min(period));
    if end <= period {
        return Buffer::new(start, end, size);
    }
    let gaps = if end - period < start {
        vec![Gap { start: end - period, end: start, window: None }]
    } else {
        Vec::new()
    };
    Buffer { gaps, ..Buffer::new(0, period, size) }
}

/// Buffers on a circle; with `windows`, some live partly for a while.
fn random_circle(
    random: &mut Random,
    count: u32,
    (period, long, size): (u32, u32, u32),
    windows: bool,
) -> Problem {
    let buffer = |_| {
        let size = 1 + u64::from(random.below(size));
        let mut buffer = on_circle(period, random.below(period), 1 + random.below(long), size);
        buffer.alignment = [1, 1, 2, 4][random.below(4) as usize];
        let from = buffer.gaps.last().map_or(buffer.start, |gap| gap.end);
        if windows && random.below(2) == 0 && from + 1 < buffer.end {
            let low = u64::from(random.below(size as u32));
            let high = low + 1 + u64::from(random.below((size - low) as u32));
            let start = from + random.below(buffer.end - from);
            let end = start + 1 + random.below(buffer.end - start);
            buffer.gaps.push(Gap { start, end: end.min(buffer.end), window: Some((low, high)) });
        }
        buffer
    };
    Problem { buffers: (0..count).map(buffer).collect(), capacity: None }
}

/// Cuts a cylinder of `period` steps and `height` bytes into pieces and leaves out one piece in `without`, if
/// that is not 0: a placement with the height of the cylinder exists.
fn cut_cylinder(random: &mut Random, pieces: usize, (period, height): (u32, u32), without: u32) -> Problem {
    // Start, length, and size of each piece.
    let mut list = vec![(0, period, height)];
    while list.len() < pieces {
        let at = random.below(list.len() as u32) as usize;
        let (start, long, size) = list[at];
        if random.below(2) == 0 && long > 4 {
            let cut = 1 + random.below(long - 1);
            list[at].1 = cut;
            list.push((start + cut, long - cut, size));
        } else if size > 8 {
            let cut = 1 + random.below(size - 1);
            list[at].2 = cut;
            list.push((start, long, size - cut));
        }
    }
    let turn = random.below(period);
    let mut buffers = Vec::new();
    for (start, long, size) in list {
        if without == 0 || random.below(without) > 0 {
            buffers.push(on_circle(period, start + turn, long, u64::from(size)));
        }
    }
    Problem { buffers, capacity: None }
}

/// First fit in the order of the input.
fn fitted(normal: &Normal) -> Vec<u64> {
    let order: Vec<u32> = (0..normal.items.len() as u32).collect();
    first_fit(normal, &order, &mut 100_000_000).offsets
}

fn load(normal: &Normal) -> u64 {
    normal.load.iter().copied().max().unwrap_or(0)
}

/// Repairs first fit towards the load, checks the result, and returns both heights.
fn repaired(problem: &Problem, budget: u64) -> (u64, u64) {
    let normal = Normal::new(problem);
    assert!(repairable(&normal) && normal.items.len() == problem.buffers.len());
    let (before, neighbors) = (fitted(&normal), Neighbors::new(&normal));
    let target = load(&normal);
    let after = repair(&normal, &neighbors, &before, target, &mut budget.clone());
    assert_eq!(
        after,
        repair(&normal, &neighbors, &before, target, &mut budget.clone()),
        "not the same answer twice"
    );
    let solution = Solution::from_offsets(problem, after);
    assert_eq!(check(problem, &solution), Ok(()), "{problem:?}");
    let height = normal.height(&before);
    assert!(solution.height <= height, "{} above {height}: {problem:?}", solution.height);
    (height, solution.height)
}

/// The least height of all placements: every offset of every buffer.
fn least(problem: &Problem, above: u64) -> u64 {
    fn place(problem: &Problem, offsets: &mut Vec<u64>, best: &mut u64) {
        let at = offsets.len();
        let Some(buffer) = problem.buffers.get(at) else {
            *best = problem
                .buffers
                .iter()
                .zip(&*offsets)
                .map(|(buffer, offset)| buffer.size + offset)
                .max()
                .unwrap_or(0);
            return;
        };
        let mut offset = 0;
        while offset + buffer.size < *best {
            offsets.push(offset);
            let part = Problem { buffers: problem.buffers[..=at].to_vec(), capacity: None };
            if check(&part, &Solution::from_offsets(&part, offsets.clone())).is_ok() {
                place(problem, offsets, best);
            }
            offsets.pop();
            offset += buffer.alignment;
        }
    }
    let mut best = above + 1;
    place(problem, &mut Vec::new(), &mut best);
    best
}

#[test]
fn a_protruding_buffer_takes_the_place_of_a_smaller_one() {
    // The large buffer found no hole between two small ones; one of them moves on top.
    let buffers = [1, 1, 4].map(|size| Buffer::new(0, 2, size));
    let problem = Problem { buffers: buffers.to_vec(), capacity: None };
    let normal = Normal::new(&problem);
    assert!(repairable(&normal));
    let offsets = repair(&normal, &Neighbors::new(&normal), &[0, 3, 4], 6, &mut 1_000_000);
    let solution = Solution::from_offsets(&problem, offsets);
    assert_eq!((solution.height, check(&problem, &solution)), (6, Ok(())));
    // Without budget the placement does not change.
    assert_eq!(repair(&normal, &Neighbors::new(&normal), &[0, 3, 4], 6, &mut 0), [0, 3, 4]);
}

#[test]
fn repaired_placements_hold_and_are_no_higher() {
    let mut random = Random::new(9);
    for _ in 0..20 {
        let mut buffer = |_| {
            let (start, life) = (random.below(300), 1 + random.below(60));
            let (size, alignment) = (1 + u64::from(random.below(4_000)), 1 << random.below(7));
            Buffer { alignment, ..Buffer::new(start, start + life, size) }
        };
        let problem = Problem { buffers: (0..400).map(&mut buffer).collect(), capacity: None };
        let normal = Normal::new(&problem);
        let before = fitted(&normal);
        let target = normal.load.iter().copied().max().unwrap();
        let after = Solution::from_offsets(
            &problem,
            repair(&normal, &Neighbors::new(&normal), &before, target, &mut 3_000_000),
        );
        assert_eq!(check(&problem, &after), Ok(()));
        assert!(after.height < normal.height(&before), "first fit by input order leaves something to gain");
    }
}

#[test]
fn neighbors_are_the_items_with_a_common_step() {
    let mut random = Random::new(1);
    for windows in [false, true] {
        let problem = random_circle(&mut random, 120, (40, 30, 20), windows);
        let normal = Normal::new(&problem);
        let (listed, classes) = (Neighbors::new(&normal), Neighbors::unlisted(&normal));
        assert!(listed.are_listed() && !classes.are_listed() && !normal.is_whole());
        let lives = |buffer: &Buffer, step: u32| {
            let is_over = |gap: &Gap| gap.start <= step && step < gap.end && gap.window.is_none();
            buffer.start <= step && step < buffer.end && !buffer.gaps.iter().any(is_over)
        };
        for item in 0..120 {
            let of = |neighbors: &Neighbors| {
                let mut found = Vec::new();
                neighbors.visit(&normal, item, &mut 1_000_000, |other| found.push(other));
                found.sort_unstable();
                found
            };
            let meets = |other: &u32| {
                let (a, b) = (&problem.buffers[item as usize], &problem.buffers[*other as usize]);
                *other != item && (0..40).any(|step| lives(a, step) && lives(b, step))
            };
            let expected: Vec<u32> = (0..120).filter(meets).collect();
            assert_eq!((of(&listed), of(&classes)), (expected.clone(), expected));
        }
    }
}

#[test]
fn ranges_agree_with_overlaps() {
    let (mut random, mut apart) = (Random::new(2), 0);
    for _ in 0..3_000 {
        let mut problem = random_circle(&mut random, 2, (6, 6, 12), true);
        if random.below(2) == 0 {
            // A window at each of two steps: the ranges need not touch.
            for buffer in &mut problem.buffers {
                let mut window = |start: u32| {
                    let low = u64::from(random.below(buffer.size as u32));
                    Gap { start, end: start + 1, window: Some((low, buffer.size.min(low + 2))) }
                };
                let gaps = vec![window(0), window(1)];
                *buffer = Buffer { alignment: buffer.alignment, gaps, ..Buffer::new(0, 2, buffer.size) };
            }
        }
        let normal = Normal::new(&problem);
        let neighbors = Neighbors::new(&normal);
        let [size, alignment] = [problem.buffers[0].size, problem.buffers[1].alignment];
        let other = u64::from(random.below(20)) * alignment;
        let mut met: Vec<Met> = Vec::new();
        neighbors.collect(&normal, 0, &[NOWHERE, other], &mut 1_000_000, &mut met);
        apart += usize::from(met.len() > 1);
        for offset in (0..120).step_by(problem.buffers[0].alignment as usize) {
            let number =
                met.iter().filter(|(bottom, top, _)| *bottom < offset + size && *top > offset).count();
            let verdict = check(&problem, &Solution::from_offsets(&problem, vec![offset, other]));
            assert_eq!(
                number,
                usize::from(verdict.is_err()),
                "at {offset} and {other}: {met:?} in {problem:?}"
            );
        }
        neighbors.collect(&normal, 0, &[NOWHERE; 2], &mut 1_000_000, &mut met);
        assert!(met.is_empty());
    }
    assert!(apart > 20, "two ranges in {apart} cases");
}

#[test]
fn pushes_keep_placements_and_go_one_way() {
    let mut random = Random::new(3);
    for round in 0..40 {
        let problem = random_circle(&mut random, 80, (60, 25, 400), round % 2 == 0);
        let normal = Normal::new(&problem);
        let neighbors = Neighbors::new(&normal);
        let mut offsets = fitted(&normal);
        let wanted = normal.height(&offsets) + 500;
        for is_up in [true, false, true] {
            let (before, mut budget) = (offsets.clone(), 1_000_000);
            push((&normal, &neighbors), &mut offsets, is_up.then_some(wanted), &mut budget);
            let solution = Solution::from_offsets(&problem, offsets.clone());
            assert_eq!(check(&problem, &solution), Ok(()), "{problem:?}");
            let in_order = |(now, then): (&u64, &u64)| if is_up { now >= then } else { now <= then };
            assert!(solution.height <= wanted && offsets.iter().zip(&before).all(in_order));
            assert!(
                budget < 1_000_000
                    && offsets.iter().zip(&before).filter(|(now, then)| now != then).count() > 20
            );
        }
    }
}

#[test]
fn small_circles_are_repaired_to_the_optimum() {
    let (mut random, mut cases, mut optimal, mut gained) = (Random::new(4), [0; 2], [0; 2], 0);
    for round in 0..1_200 {
        let windows = round % 2 == 1;
        let (count, period) = (2 + random.below(5), 3 + random.below(6));
        let problem = random_circle(&mut random, count, (period, period, 6), windows);
        let (before, after) = repaired(&problem, 200_000);
        let best = least(&problem, before);
        assert!(after >= best, "{after} below {best}: {problem:?}");
        cases[usize::from(windows)] += 1;
        optimal[usize::from(windows)] += usize::from(after == best);
        gained += usize::from(after < before);
    }
    assert!(gained > 200, "{gained} of {cases:?} gained, {optimal:?} are optimal");
    assert!(
        optimal.iter().zip(cases).all(|(optimal, cases)| optimal * 100 >= cases * 95),
        "{optimal:?} of {cases:?}"
    );
}

#[test]
fn large_circles_become_no_higher_and_most_of_them_lower() {
    let (mut random, mut gained) = (Random::new(5), 0);
    for round in 0..40 {
        let (count, long) = (100 + random.below(400), 5 + random.below(60));
        let problem = random_circle(&mut random, count, (100, long, 4_000), round % 2 == 1);
        let (before, after) = repaired(&problem, 1_000_000);
        gained += usize::from(after < before);
    }
    assert!(gained >= 35, "{gained} of 40");
}

#[test]
fn thinned_cylinders_are_repaired_close_to_their_height() {
    let (mut random, mut worst, mut sum) = (Random::new(6), 1.0_f64, 0.0);
    for _ in 0..12 {
        let problem = cut_cylinder(&mut random, 400, (300, 100_000), 8);
        let (before, after) = repaired(&problem, 20_000_000);
        assert!(before > 100_000);
        worst = worst.max(after as f64 / 100_000.0);
        sum += after as f64 / 100_000.0;
    }
    assert!(worst < 1.06 && sum / 12.0 < 1.04, "{worst} at worst, {} on average", sum / 12.0);
}

#[test]
fn a_height_is_reached_exactly_or_nothing_changes() {
    let (mut random, mut reached) = (Random::new(8), 0);
    for round in 0..300 {
        let windows = round % 2 == 1;
        let (count, period) = (3 + random.below(4), 3 + random.below(6));
        let problem = random_circle(&mut random, count, (period, period, 6), windows);
        let normal = Normal::new(&problem);
        let (before, neighbors) = (fitted(&normal), Neighbors::new(&normal));
        let best = least(&problem, normal.height(&before));
        let at = |height| reach(&normal, &neighbors, &before, height, &mut 200_000);
        if best > load(&normal) {
            assert_eq!(at(best - 1), before, "no placement is lower than {best}: {problem:?}");
        }
        let after = Solution::from_offsets(&problem, at(best));
        assert_eq!(check(&problem, &after), Ok(()));
        assert!(after.height <= best || after.offsets == before);
        reached += usize::from(after.height <= best);
    }
    assert!(reached >= 290, "{reached} of 300");
}

#[test]
fn classes_repair_as_lists_do() {
    let mut random = Random::new(7);
    for windows in [false, true] {
        let problem = random_circle(&mut random, 600, (200, 60, 4_000), windows);
        let normal = Normal::new(&problem);
        let before = fitted(&normal);
        let after = repair(&normal, &Neighbors::unlisted(&normal), &before, load(&normal), &mut 20_000_000);
        let solution = Solution::from_offsets(&problem, after);
        assert_eq!(check(&problem, &solution), Ok(()));
        assert!(solution.height < normal.height(&before));
    }
}
