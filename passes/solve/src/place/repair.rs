//! Repair of a large placement: what sticks out of a lower arena is put into it in place of smaller buffers, which then look for new places themselves.
//!
//! A placement by first fit is nearly everywhere as low as it needs to be; a few dozen buffers of a hundred thousand make its height. So each of those
//! evicts, at the offset where that costs least, whatever lies there, and what was evicted follows, the largest first. Every eviction makes a buffer
//! dearer to evict again, so that chains end. (Ejection chains, after Glover, *Ejection chains, reference structures and alternating path methods for
//! traveling salesman problems*, 1996.)

use std::collections::BinaryHeap;

use super::normal::{Normal, align_up};

/// Places that a repair may look for: at least so many, and one for so many buffers.
const BASE_MOVES: u64 = 2_000;
const BUFFERS_PER_MOVE: u64 = 20;

/// What a look at a buffer costs, in looks of first fit at rectangles: those are sorted already.
const LOOKS: u64 = 6;

/// Lowers a placement towards `target`. `budget` shrinks by the buffers looked at. Needs a [`repairable`] problem.
pub(super) fn repair(normal: &Normal, offsets: &[u64], target: u64, budget: &mut u64) -> Vec<u64> {
    let mut best = offsets.to_vec();
    let index = Index::new(normal);
    let mut lowest = target;
    let mut moves = BASE_MOVES + best.len() as u64 / BUFFERS_PER_MOVE;
    loop {
        let height = height(normal, &best);
        // Heights closer together than this are not worth a try.
        if height <= lowest || moves == 0 || *budget == 0 || height - lowest < (height >> 10).max(1) {
            return best;
        }
        let wanted = lowest + (height - lowest) / 5 * 3;
        let mut attempt = Attempt { normal, index: &index, offsets: best.clone(), evicted: vec![0; best.len()], wanted };
        if attempt.run(&mut moves, budget) {
            best = attempt.offsets;
        } else {
            lowest = wanted + 1;
        }
    }
}

/// Whether all buffers are whole while they live, and none has a fixed offset.
pub(super) fn repairable(normal: &Normal) -> bool {
    !normal.has_fixed && !normal.windowed && normal.parts.len() == normal.items.len()
}

fn height(normal: &Normal, offsets: &[u64]) -> u64 {
    offsets.iter().zip(&normal.items).map(|(offset, item)| offset + item.size).max().unwrap_or(0)
}

/// Items by how long they live and when they start, to find those that live at some time.
struct Index {
    /// For each class, the longest duration in it and its items by first section.
    classes: Vec<(u32, Vec<u32>)>,
}

impl Index {
    /// O(n log n).
    fn new(normal: &Normal) -> Self {
        let length = |item: u32| normal.items[item as usize].last - normal.items[item as usize].first;
        let mut items: Vec<u32> = (0..normal.items.len() as u32).collect();
        items.sort_by_key(|item| (length(*item).max(1).ilog2(), normal.items[*item as usize].first));
        let mut classes: Vec<(u32, Vec<u32>)> = Vec::new();
        for part in items.chunk_by(|a, b| length(*a).max(1).ilog2() == length(*b).max(1).ilog2()) {
            classes.push((part.iter().map(|item| length(*item)).max().unwrap_or(0), part.to_vec()));
        }
        Self { classes }
    }

    /// All other items that live while an item does.
    fn overlapping(&self, normal: &Normal, item: u32, budget: &mut u64, mut visit: impl FnMut(u32)) {
        let (first, last) = (normal.items[item as usize].first, normal.items[item as usize].last);
        for (longest, items) in &self.classes {
            let from = items.partition_point(|other| normal.items[*other as usize].first.saturating_add(*longest) <= first);
            let to = items.partition_point(|other| normal.items[*other as usize].first < last);
            let near = items.get(from..to).unwrap_or_default();
            *budget = budget.saturating_sub(LOOKS * near.len() as u64);
            near.iter()
                .copied()
                .filter(|other| *other != item && normal.items[*other as usize].last > first)
                .for_each(&mut visit);
        }
    }
}

/// Offset of an item that has no place.
const NOWHERE: u64 = u64::MAX;

struct Attempt<'a> {
    normal: &'a Normal,
    index: &'a Index,
    offsets: Vec<u64>,
    /// How often each item lost its place.
    evicted: Vec<u32>,
    wanted: u64,
}

impl Attempt<'_> {
    /// Whether everything found a place below the wanted height.
    fn run(&mut self, moves: &mut u64, budget: &mut u64) -> bool {
        let items = &self.normal.items;
        let mut open: BinaryHeap<(u128, u32)> = BinaryHeap::new();
        for (index, item) in items.iter().enumerate() {
            if self.offsets[index] + item.size > self.wanted {
                self.offsets[index] = NOWHERE;
                open.push((self.area(index as u32), index as u32));
            }
        }
        while let Some((_, item)) = open.pop() {
            if *moves == 0 || *budget == 0 {
                return false;
            }
            *moves -= 1;
            let Some((offset, losers)) = self.cheapest(item, budget) else { return false };
            self.offsets[item as usize] = offset;
            for loser in losers {
                self.offsets[loser as usize] = NOWHERE;
                self.evicted[loser as usize] += 1;
                open.push((self.area(loser), loser));
            }
        }
        true
    }

    fn area(&self, item: u32) -> u128 {
        let data = &self.normal.items[item as usize];
        u128::from(data.size) * u128::from(data.duration)
    }

    /// What it costs to evict an item.
    fn price(&self, item: u32) -> u64 {
        let data = &self.normal.items[item as usize];
        let times = u64::from(self.evicted[item as usize]) + 1;
        data.size.saturating_mul(u64::from(data.duration)).max(1).saturating_mul(times * times)
    }

    /// The offset at which an item evicts least, the lowest one of several, and what it evicts. O(k log k) for k items that live with it.
    fn cheapest(&self, item: u32, budget: &mut u64) -> Option<(u64, Vec<u32>)> {
        let data = &self.normal.items[item as usize];
        let mut others: Vec<(u64, u64, u32)> = Vec::new();
        self.index.overlapping(self.normal, item, budget, |other| {
            let offset = self.offsets[other as usize];
            if offset != NOWHERE {
                others.push((offset, offset + self.normal.items[other as usize].size, other));
            }
        });
        // An item at `p` meets those with `bottom < p + size` and `top > p`; as `p` rises, the price falls only where a top is passed.
        let mut by_bottom: Vec<(u64, u64)> = others.iter().map(|(bottom, _, other)| (*bottom, self.price(*other))).collect();
        by_bottom.sort_unstable();
        let mut by_top: Vec<(u64, u64)> = others.iter().map(|(_, top, other)| (*top, self.price(*other))).collect();
        by_top.sort_unstable();
        let highest = self.wanted.checked_sub(data.size)?;
        let (mut met, mut passed, mut price) = (0, 0, 0_u128);
        let mut best: Option<(u128, u64)> = None;
        for candidate in std::iter::once(0).chain(by_top.iter().map(|(top, _)| align_up(*top, data.alignment))) {
            if candidate > highest {
                break;
            }
            while let Some((_, more)) = by_bottom.get(met).filter(|(bottom, _)| *bottom < candidate + data.size) {
                price += u128::from(*more);
                met += 1;
            }
            while let Some((_, less)) = by_top.get(passed).filter(|(top, _)| *top <= candidate) {
                price -= u128::from(*less);
                passed += 1;
            }
            if best.is_none_or(|(least, _)| price < least) {
                best = Some((price, candidate));
            }
            if price == 0 {
                break;
            }
        }
        let offset = best?.1;
        let meets = |(bottom, top, _): &&(u64, u64, u32)| *bottom < offset + data.size && *top > offset;
        Some((offset, others.iter().filter(meets).map(|(_, _, other)| *other).collect()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::super::problem::{Buffer, Problem, Solution};
    use super::*;
    use crate::place::check;

    #[test]
    fn what_sticks_out_takes_the_place_of_something_smaller() {
        // The large buffer found no hole between two small ones; one of them moves on top.
        let buffers = [1, 1, 4].map(|size| Buffer::new(0, 2, size));
        let problem = Problem { buffers: buffers.to_vec(), capacity: None };
        let normal = Normal::new(&problem);
        assert!(repairable(&normal));
        let offsets = repair(&normal, &[0, 3, 4], 6, &mut 1_000_000);
        let solution = Solution::from_offsets(&problem, offsets);
        assert_eq!((solution.height, check(&problem, &solution)), (6, Ok(())));
        // Without anything to spend, it stays as it is.
        assert_eq!(repair(&normal, &[0, 3, 4], 6, &mut 0), [0, 3, 4]);
    }

    #[test]
    fn repaired_placements_hold_and_are_no_higher() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut next = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        for _ in 0..20 {
            let mut buffer = |_| {
                let (start, life, size) = (next(300), 1 + next(60), 1 + next(4_000));
                Buffer { alignment: 1 << next(7), ..Buffer::new(start as u32, (start + life) as u32, size) }
            };
            let problem = Problem { buffers: (0..400).map(&mut buffer).collect(), capacity: None };
            let normal = Normal::new(&problem);
            let order: Vec<u32> = (0..normal.items.len() as u32).collect();
            let before = super::super::first_fit::first_fit(&normal, &order, &mut 10_000_000).offsets;
            let target = normal.load.iter().copied().max().unwrap();
            let after = Solution::from_offsets(&problem, repair(&normal, &before, target, &mut 100_000_000));
            assert_eq!(check(&problem, &after), Ok(()));
            assert!(after.height < height(&normal, &before), "first fit by input order leaves something to gain");
        }
    }
}
