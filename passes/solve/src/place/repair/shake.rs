//! Shakes of an unfinished placement: every placed item is pushed down or up.
//!
//! Repair changes only the items that block another one. With little room left it keeps
//! returning to a few places. A shake merges holes or moves them, so that repair can continue. No item
//! loses its place by a shake.

use super::neighbors::{Met, NOWHERE, Neighbors};
use crate::basics::random::Xorshift;
use crate::place::normal::{Normal, align_up};

/// Least number of repair moves between two shakes. Large problems have one move for each
/// `ITEMS_PER_MOVE` items.
const LEAST_PERIOD: usize = 300;
const ITEMS_PER_MOVE: usize = 4;

/// Divisor: on average, one of this number of shakes pushes up, the others push down.
const UPWARDS: u64 = 4;

/// Rectangles that a push reads in the time of one look of first fit.
const READ_PER_LOOK: u64 = 8;

/// Counter of the moves until the next shake.
pub(in crate::place) struct Shakes {
    period: usize,
    left: usize,
}

/// A placed item.
struct Placed {
    bottom: u64,
    top: u64,
    first: u32,
    last: u32,
    item: u32,
}

impl Placed {
    fn new(normal: &Normal, item: usize, bottom: u64) -> Self {
        let data = &normal.items[item];
        Self { bottom, top: bottom + data.size, first: data.first, last: data.last, item: item as u32 }
    }

    /// Whether it lives together with an item that is no windowed one.
    fn meets(&self, normal: &Normal, is_whole: bool, item: usize) -> bool {
        let data = &normal.items[item];
        self.first < data.last && data.first < self.last && (is_whole || normal.meet(self.item, item as u32))
    }
}

impl Shakes {
    /// Creates the counter for a problem of `items` items.
    pub fn new(items: usize) -> Self {
        let period = LEAST_PERIOD.max(items / ITEMS_PER_MOVE);
        Self { period, left: period }
    }

    /// Counts a move, and shakes if it is time. Nothing is above `wanted` before or after. Subtracts the
    /// cost from `budget`.
    pub fn turn(
        &mut self,
        (normal, neighbors): (&Normal, &Neighbors),
        offsets: &mut [u64],
        wanted: u64,
        budget: &mut u64,
        random: &mut Xorshift,
    ) {
        self.left -= 1;
        if self.left > 0 {
            return;
        }
        self.left = self.period;
        let is_up = random.below(UPWARDS) == 0;
        push((normal, neighbors), offsets, is_up.then_some(wanted), budget);
    }
}

/// Pushes every placed item down; with a height, up to below it.
pub(in crate::place) fn push(
    (normal, neighbors): (&Normal, &Neighbors),
    offsets: &mut [u64],
    upto: Option<u64>,
    budget: &mut u64,
) {
    match upto {
        _ if normal.windowed => push_partly(normal, neighbors, offsets, upto, budget),
        Some(wanted) => push_up(normal, offsets, wanted, budget),
        None => push_down(normal, offsets, budget),
    }
}

/// Moves every placed item as low as all others let it, the lowest first; with a height, as high below it,
/// the highest first. Items that live partly can lie above and below one another, so that no order has each
/// one before those that it holds up. O(n · k log k) for k neighbors.
fn push_partly(
    normal: &Normal,
    neighbors: &Neighbors,
    offsets: &mut [u64],
    upto: Option<u64>,
    budget: &mut u64,
) {
    let mut order: Vec<usize> = (0..offsets.len()).filter(|item| offsets[*item] != NOWHERE).collect();
    if upto.is_some() {
        order.sort_by_key(|item| std::cmp::Reverse(offsets[*item] + normal.items[*item].size));
    } else {
        order.sort_by_key(|item| offsets[*item]);
    }
    let mut met: Vec<Met> = Vec::new();
    for index in order {
        let item = &normal.items[index];
        neighbors.collect(normal, index as u32, offsets, budget, &mut met);
        offsets[index] = if let Some(wanted) = upto {
            met.sort_unstable_by_key(|(_, top, _)| std::cmp::Reverse(*top));
            let below = |top: u64| top.saturating_sub(item.size) / item.alignment * item.alignment;
            let over = |offset: u64, (bottom, top, _): &Met| {
                if *top > offset && *bottom < offset + item.size { below(*bottom) } else { offset }
            };
            met.iter().fold(below(wanted), over)
        } else {
            met.sort_unstable();
            let under = |offset: u64, (bottom, top, _): &Met| {
                if *top > offset && *bottom < offset + item.size {
                    align_up(*top, item.alignment)
                } else {
                    offset
                }
            };
            met.iter().fold(0, under)
        };
    }
}

/// Moves every placed item as low as possible, the lowest first. O(n²) with a small factor.
fn push_down(normal: &Normal, offsets: &mut [u64], budget: &mut u64) {
    let mut order: Vec<usize> = (0..offsets.len()).filter(|item| offsets[*item] != NOWHERE).collect();
    order.sort_by_key(|item| offsets[*item]);
    let mut placed: Vec<Placed> = Vec::with_capacity(order.len());
    let (mut read, is_whole) = (0, normal.is_whole());
    for index in order {
        let item = &normal.items[index];
        let mut offset = 0;
        for other in &placed {
            read += 1;
            if other.bottom >= offset + item.size {
                break;
            }
            if other.top > offset && other.meets(normal, is_whole, index) {
                offset = align_up(other.top, item.alignment);
            }
        }
        offsets[index] = offset;
        let at = placed.partition_point(|other| other.bottom <= offset);
        placed.insert(at, Placed::new(normal, index, offset));
    }
    *budget = budget.saturating_sub(read / READ_PER_LOOK);
}

/// Moves every placed item as high below `wanted` as possible, the highest first. O(n²) with a small
/// factor.
fn push_up(normal: &Normal, offsets: &mut [u64], wanted: u64, budget: &mut u64) {
    let mut order: Vec<usize> = (0..offsets.len()).filter(|item| offsets[*item] != NOWHERE).collect();
    order.sort_by_key(|item| std::cmp::Reverse(offsets[*item] + normal.items[*item].size));
    let mut placed: Vec<Placed> = Vec::with_capacity(order.len());
    let (mut read, is_whole) = (0, normal.is_whole());
    for index in order {
        let item = &normal.items[index];
        let below = |top: u64| top.saturating_sub(item.size) / item.alignment * item.alignment;
        let mut offset = below(wanted);
        for other in &placed {
            read += 1;
            if other.top <= offset {
                break;
            }
            if other.bottom < offset + item.size && other.meets(normal, is_whole, index) {
                offset = below(other.bottom);
            }
        }
        offsets[index] = offset;
        let at = placed.partition_point(|other| other.top >= offset + item.size);
        placed.insert(at, Placed::new(normal, index, offset));
    }
    *budget = budget.saturating_sub(read / READ_PER_LOOK);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use crate::place::check;
    use crate::place::heuristics::first_fit::first_fit;
    use crate::place::problem::{Buffer, Problem, Solution};

    #[test]
    fn pushed_placements_hold() {
        let mut random = Xorshift::new();
        let mut buffer = |_| {
            let (start, life, size) = (random.below(100), 1 + random.below(40), 1 + random.below(4_000));
            Buffer {
                alignment: 1 << random.below(7),
                ..Buffer::new(start as u32, (start + life) as u32, size)
            }
        };
        let problem = Problem { buffers: (0..300).map(&mut buffer).collect(), capacity: None };
        let normal = Normal::new(&problem);
        let order: Vec<u32> = (0..300).collect();
        let mut offsets = first_fit(&normal, &order, &mut 10_000_000).offsets;
        let mut budget = 1_000_000;
        let wanted = normal.height(&offsets) + 1_000;
        for round in 0..6 {
            let before = offsets.clone();
            if round % 2 == 0 {
                push_up(&normal, &mut offsets, wanted, &mut budget)
            } else {
                push_down(&normal, &mut offsets, &mut budget)
            }
            let solution = Solution::from_offsets(&problem, offsets.clone());
            assert_eq!(check(&problem, &solution), Ok(()));
            assert!(solution.height <= wanted);
            let in_order = |(now, then): (&u64, &u64)| if round % 2 == 0 { now >= then } else { now <= then };
            assert!(offsets.iter().zip(&before).all(in_order), "nothing goes the other way");
            assert!(offsets.iter().zip(&before).filter(|(now, then)| now != then).count() > 200);
        }
        assert!(budget < 1_000_000);
        // An item without a place gets none, and blocks no other.
        let without: Vec<u64> = offsets
            .iter()
            .enumerate()
            .map(|(item, offset)| if item % 2 == 0 { NOWHERE } else { *offset })
            .collect();
        let mut pushed = without.clone();
        push_down(&normal, &mut pushed, &mut budget);
        assert!(pushed.iter().zip(&without).all(|(now, then)| (*now == NOWHERE) == (*then == NOWHERE)));
        assert!(pushed != without);
    }
}
