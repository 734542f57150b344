//! Shakes of a half-done placement: everything that has a place is pushed down or up.
//!
//! Repair changes only what is in the way of something. Where little room is left it comes back to the same places again and again; holes that
//! have become one, or lie elsewhere, let it go on. Nothing loses its place by a shake.

use super::normal::{Normal, Part, align_up};

/// Offset of an item that has no place.
pub(super) const NOWHERE: u64 = u64::MAX;

/// Moves of repair between two shakes: so many at least, and one for each so many items.
const LEAST_PERIOD: usize = 300;
const ITEMS_PER_MOVE: usize = 4;

/// One of so many shakes is upwards.
const UPWARDS: u64 = 4;

/// Rectangles that pushing reads in the time of one look of first fit.
const READ_PER_LOOK: u64 = 8;

/// Numbers that look random, always the same ones.
pub(super) struct Random(u64);

impl Random {
    pub fn new() -> Self {
        Self(0x2545_f491_4f6c_dd1d)
    }

    /// A number below a bound, which must not be 0. (Xorshift, Marsaglia 2003.)
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// When the next shake comes.
pub(super) struct Shakes {
    period: usize,
    left: usize,
}

/// A placed rectangle.
struct Placed {
    bottom: u64,
    top: u64,
    part: Part,
}

impl Shakes {
    /// Shakes for a problem of so many items.
    pub fn new(items: usize) -> Self {
        let period = LEAST_PERIOD.max(items / ITEMS_PER_MOVE);
        Self { period, left: period }
    }

    /// Counts a move, and shakes if it is time. Nothing is above `wanted` before or after. Needs whole items; `budget` shrinks.
    pub fn turn(&mut self, normal: &Normal, offsets: &mut [u64], wanted: u64, budget: &mut u64, random: &mut Random) {
        self.left -= 1;
        if self.left > 0 {
            return;
        }
        self.left = self.period;
        if random.below(UPWARDS) == 0 {
            push_up(normal, offsets, wanted, budget);
        } else {
            push_down(normal, offsets, budget);
        }
    }
}

/// Puts every placed item as low as it goes, the lowest first. O(n²) with a small factor.
fn push_down(normal: &Normal, offsets: &mut [u64], budget: &mut u64) {
    let mut order: Vec<usize> = (0..offsets.len()).filter(|item| offsets[*item] != NOWHERE).collect();
    order.sort_by_key(|item| offsets[*item]);
    let mut placed: Vec<Placed> = Vec::with_capacity(order.len());
    let mut read = 0;
    for index in order {
        let (item, part) = (&normal.items[index], normal.parts_of(index)[0]);
        let mut offset = 0;
        for other in &placed {
            read += 1;
            if other.bottom >= offset + item.size {
                break;
            }
            if other.top > offset && other.part.first < part.last && part.first < other.part.last {
                offset = align_up(other.top, item.alignment);
            }
        }
        offsets[index] = offset;
        let at = placed.partition_point(|other| other.bottom <= offset);
        placed.insert(at, Placed { bottom: offset, top: offset + item.size, part });
    }
    *budget = budget.saturating_sub(read / READ_PER_LOOK);
}

/// Puts every placed item as high below `wanted` as it goes, the highest first. O(n²) with a small factor.
fn push_up(normal: &Normal, offsets: &mut [u64], wanted: u64, budget: &mut u64) {
    let mut order: Vec<usize> = (0..offsets.len()).filter(|item| offsets[*item] != NOWHERE).collect();
    order.sort_by_key(|item| std::cmp::Reverse(offsets[*item] + normal.items[*item].size));
    let mut placed: Vec<Placed> = Vec::with_capacity(order.len());
    let mut read = 0;
    for index in order {
        let (item, part) = (&normal.items[index], normal.parts_of(index)[0]);
        let below = |top: u64| top.saturating_sub(item.size) / item.alignment * item.alignment;
        let mut offset = below(wanted);
        for other in &placed {
            read += 1;
            if other.top <= offset {
                break;
            }
            if other.bottom < offset + item.size && other.part.first < part.last && part.first < other.part.last {
                offset = below(other.bottom);
            }
        }
        offsets[index] = offset;
        let at = placed.partition_point(|other| other.top >= offset + item.size);
        placed.insert(at, Placed { bottom: offset, top: offset + item.size, part });
    }
    *budget = budget.saturating_sub(read / READ_PER_LOOK);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::super::check;
    use super::super::first_fit::first_fit;
    use super::super::problem::{Buffer, Problem, Solution};
    use super::*;

    #[test]
    fn pushed_placements_hold() {
        let mut random = Random::new();
        let mut buffer = |_| {
            let (start, life, size) = (random.below(100), 1 + random.below(40), 1 + random.below(4_000));
            Buffer { alignment: 1 << random.below(7), ..Buffer::new(start as u32, (start + life) as u32, size) }
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
        // What has no place gets none, and takes none.
        let without: Vec<u64> =
            offsets.iter().enumerate().map(|(item, offset)| if item % 2 == 0 { NOWHERE } else { *offset }).collect();
        let mut pushed = without.clone();
        push_down(&normal, &mut pushed, &mut budget);
        assert!(pushed.iter().zip(&without).all(|(now, then)| (*now == NOWHERE) == (*then == NOWHERE)));
        assert!(pushed != without);
    }
}
