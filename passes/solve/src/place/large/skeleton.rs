//! The skeleton of a very large placement is placed first, all other items around it. It consists of the
//! few long-lived items and the items of the busiest sections.
//!
//! If a small part of the buffers makes most of the load because it lives much longer, that part decides
//! how full the arena gets. It is small enough to try several rules. The items of the busiest sections
//! must fit between the long-lived items without loss, so they join the skeleton before its repair. All
//! other sections have room to spare.

use super::core::{around, buffers_of, members};
use crate::place::heuristics::first_fit::complete_first_fit;
use crate::place::heuristics::orders::{Rule, loads_met, order};
use crate::place::normal::Normal;
use crate::place::problem::Problem;
use crate::place::repair::neighbors::Neighbors;
use crate::place::repair::repair;
use crate::tuning::{PlaceTuning, Share};

/// Minimum share of the long-lived items in all bytes · steps.
const SHARE: (u128, u128) = (2, 3);

/// A section is busy if its load is at most this far below the bound, in percent.
const MARGIN: u64 = 6;

/// Divisor of the bound: the skeleton may be higher than the bound by this part of it.
const SPARE: u64 = 128;

/// Rules tried for the long-lived items.
const LONG_RULES: [Rule; 2] = [Rule::SizeClassBirth, Rule::Area];

/// Returns the offsets of all items, or `None` if no small set of items is long-lived enough or the
/// budget runs out. Needs a repairable problem.
pub(in crate::place) fn around_skeleton(
    problem: &Problem,
    normal: &Normal,
    target: u64,
    tuning: &PlaceTuning,
    budget: &mut u64,
) -> Option<Vec<u64>> {
    let is_long = long_lived(normal, tuning.minority)?;
    let is_busy = members(normal, target - target / 100 * MARGIN);
    let mut skeleton: Vec<u32> =
        (0..normal.items.len() as u32).filter(|item| is_long[*item as usize]).collect();
    skeleton.extend(is_busy.into_iter().filter(|item| !is_long[*item as usize]));
    let offsets = place_skeleton(problem, normal, &skeleton, &is_long, target, budget)?;
    let brief = order(normal, Rule::Size, &loads_met(normal));
    around(normal, &skeleton, &offsets, &brief, budget)
}

/// Places the long-lived items by the better rule and the others around them, then repairs the result.
fn place_skeleton(
    problem: &Problem,
    normal: &Normal,
    skeleton: &[u32],
    is_long: &[bool],
    target: u64,
    budget: &mut u64,
) -> Option<Vec<u64>> {
    let part = Normal::new(&buffers_of(problem, normal, skeleton, None));
    let loads = loads_met(&part);
    let mut best: Option<(u64, Vec<u64>)> = None;
    for rule in LONG_RULES {
        let mut items = order(&part, rule, &loads);
        // A stable sort, so that both halves keep their order.
        items.sort_by_key(|item| !is_long[skeleton[*item as usize] as usize]);
        let placed =
            complete_first_fit(&part, &items, budget).map(|offsets| (part.height(&offsets), offsets));
        best = [best, placed].into_iter().flatten().min_by_key(|(height, _)| *height);
    }
    let (height, offsets) = best?;
    // The target leaves room, and there are no shakes. Fewer moved items leave more regular space for
    // the rest.
    let target = target + target / SPARE;
    if height <= target {
        return Some(offsets);
    }
    let mut share = *budget / 3;
    *budget -= share;
    let offsets = repair(&part, &Neighbors::unlisted(&part), &offsets, target, &mut share);
    *budget += share;
    Some(offsets)
}

/// Returns whether each item is long-lived, or `None` if there is no suitable threshold. A threshold is
/// a power of two of steps at which the items above it make the minimum share and are a minority. The
/// threshold with the fewest items just above it is chosen. O(n).
fn long_lived(normal: &Normal, minority: Share) -> Option<Vec<bool>> {
    let class = |item: usize| normal.items[item].duration.max(1).ilog2() as usize;
    let (mut count, mut area) = ([0_usize; 32], [0_u128; 32]);
    for (index, item) in normal.items.iter().enumerate() {
        count[class(index)] += 1;
        area[class(index)] += u128::from(item.size) * u128::from(item.duration);
    }
    let all: u128 = area.iter().sum();
    let enough = |class: &usize| area[*class..].iter().sum::<u128>() * SHARE.1 >= all * SHARE.0;
    let few = |class: &usize| {
        count[*class..].iter().sum::<usize>() as u64 <= minority.of(normal.items.len() as u64)
    };
    let lowest = (0..32).filter(|class| enough(class) && few(class)).min_by_key(|class| count[*class])?;
    Some((0..normal.items.len()).map(|item| class(item) >= lowest).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use crate::place::check;
    use crate::place::problem::{Buffer, Solution};

    /// One buffer in fifty lives at most an eighth of the time, the others at most four steps.
    fn buffers(count: u32, mut state: u64) -> Problem {
        let mut next = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let list = (0..count).map(|index| {
            let life = 1 + next(if index % 50 == 0 { u64::from(count) / 8 } else { 4 });
            let start = next(u64::from(count)) as u32;
            Buffer {
                alignment: 64,
                ..Buffer::new(start, start + life as u32, (1 + next(255)) << (6 + next(12)))
            }
        });
        Problem { buffers: list.collect(), capacity: None }
    }

    #[test]
    fn repair_brings_a_skeleton_placement_within_two_percent_of_the_load() {
        let problem = buffers(20_000, 0x9e37_79b9_7f4a_7c15);
        let normal = Normal::new(&problem);
        let target = normal.load.iter().copied().max().unwrap();
        let offsets =
            around_skeleton(&problem, &normal, target, &PlaceTuning::DEFAULT, &mut 20_000_000).unwrap();
        assert_eq!(check(&problem, &Solution::from_offsets(&problem, offsets.clone())), Ok(()));
        let placed = Solution::from_offsets(
            &problem,
            repair(&normal, &Neighbors::new(&normal), &offsets, target, &mut 20_000_000),
        );
        assert_eq!(check(&problem, &placed), Ok(()));
        assert!(placed.height * 100 < target * 102, "{} against {target}", placed.height);
    }

    #[test]
    fn without_long_lived_buffers_there_is_no_skeleton() {
        let buffers =
            (0..2_000).map(|index| Buffer::new(index, index + 4, 64 + u64::from(index % 7))).collect();
        let problem = Problem { buffers, capacity: None };
        let normal = Normal::new(&problem);
        assert!(around_skeleton(&problem, &normal, 1, &PlaceTuning::DEFAULT, &mut 1_000_000).is_none());
    }
}
