//! Neighbors: the items that live together with an item. They are stored as lists if there are few
//! pairs, and otherwise found by class of duration and start.
//!
//! Items with gaps are neighbors if some of their parts live together. Where they meet follows from these
//! parts: of two complete items one range of bytes, of items that live partly one range for each two parts.

use crate::place::normal::{Item, Normal};

/// Offset of an item that has no place.
pub(in crate::place) const NOWHERE: u64 = u64::MAX;

/// Most items, and most pairs, of problems with lists.
const MAX_LISTED: usize = 8_192;
const MAX_PAIRS: usize = 1 << 22;

/// Cost of visiting a neighbor, in first fit's looks at rectangles, which are already sorted.
const FOUND_LOOKS: u64 = 6;

/// The bytes in which an item meets a placed one, and the number of that one: an item of `size` bytes at
/// offset `p` meets it if `bottom < p + size` and `top > p`.
pub(in crate::place) type Met = (u64, u64, u32);

/// The items that live together with each item.
pub(in crate::place) struct Neighbors {
    index: Index,
    /// Whether each item lives only partly at some step; empty if none does.
    windowed: Vec<bool>,
}

enum Index {
    Lists(Vec<Vec<u32>>),
    Classes(Classes),
}

impl Neighbors {
    /// Builds lists if they are small enough, otherwise classes. O(n log n), plus a step for each pair if
    /// there are lists; with gaps, for each pair of items that live between the same steps.
    pub fn new(normal: &Normal) -> Self {
        lists(normal).map_or_else(|| Self::unlisted(normal), |lists| Self::of(normal, Index::Lists(lists)))
    }

    /// Builds classes for a problem of any size. O(n log n).
    pub fn unlisted(normal: &Normal) -> Self {
        Self::of(normal, Index::Classes(Classes::new(normal)))
    }

    fn of(normal: &Normal, index: Index) -> Self {
        let lives_partly = |(at, item): (usize, &Item)| {
            normal.parts_of(at).iter().any(|part| (part.low, part.high) != (0, item.size))
        };
        let windowed = if normal.windowed {
            normal.items.iter().enumerate().map(lives_partly).collect()
        } else {
            Vec::new()
        };
        Self { index, windowed }
    }

    pub fn are_listed(&self) -> bool {
        matches!(self.index, Index::Lists(_))
    }

    /// Visits all other items that live while `item` lives. Subtracts the cost from `budget`.
    pub fn visit(&self, normal: &Normal, item: u32, budget: &mut u64, mut visit: impl FnMut(u32)) {
        match &self.index {
            Index::Lists(lists) => {
                let others = &lists[item as usize];
                others.iter().for_each(|other| visit(*other));
                *budget = budget.saturating_sub(FOUND_LOOKS * others.len() as u64);
            }
            Index::Classes(classes) => classes.visit(normal, item, budget, visit),
        }
    }

    /// Collects where `item` meets its placed neighbors. Subtracts the cost from `budget`.
    pub fn collect(&self, normal: &Normal, item: u32, offsets: &[u64], budget: &mut u64, met: &mut Vec<Met>) {
        met.clear();
        let mut extra = 0;
        self.visit(normal, item, budget, |other| {
            let offset = offsets[other as usize];
            if offset != NOWHERE && (self.is_windowed(item) || self.is_windowed(other)) {
                extra += add_ranges(normal, item, (other, offset), met);
            } else if offset != NOWHERE {
                met.push((offset, offset + normal.items[other as usize].size, other));
            }
        });
        *budget = budget.saturating_sub(extra);
    }

    fn is_windowed(&self, item: u32) -> bool {
        self.windowed.get(item as usize).is_some_and(|windowed| *windowed)
    }
}

/// Returns a bound on the ranges in which one item meets all others. O(n).
pub(in crate::place) fn most_ranges(normal: &Normal) -> usize {
    let parts = normal.items.iter().map(|item| (item.part_to - item.part_from) as usize);
    let most = parts.max().unwrap_or(0);
    // A walk along the parts of two items ends one part at each step.
    if normal.windowed {
        most.saturating_mul(normal.items.len()).saturating_add(normal.parts.len())
    } else {
        normal.items.len()
    }
}

/// Adds the ranges of bytes in which `item` meets another one at an offset, and returns the number of pairs
/// of parts. No offset of `item` meets two of the ranges.
fn add_ranges(normal: &Normal, item: u32, (other, offset): (u32, u64), met: &mut Vec<Met>) -> u64 {
    let (from, size) = (met.len(), normal.items[item as usize].size);
    // Parts meet if `p + own.low < offset + their.high` and `offset + their.low < p + own.high`.
    met.extend(normal.together(item, other).map(|(own, their)| {
        let (bottom, top) =
            (offset + their.low + (size - own.high), (offset + their.high).saturating_sub(own.low));
        (bottom, top, other)
    }));
    let pairs = (met.len() - from) as u64;
    met[from..].sort_unstable();
    // Join ranges with a common offset.
    let mut last = from;
    for at in from + 1..met.len() {
        let next = met[at];
        if next.0 < met[last].1 + size {
            met[last].1 = met[last].1.max(next.1);
        } else {
            last += 1;
            met[last] = next;
        }
    }
    met.truncate(last + 1);
    pairs
}

/// Returns the neighbors of each item, or `None` if there are too many.
fn lists(normal: &Normal) -> Option<Vec<Vec<u32>>> {
    let count = normal.items.len();
    if count > MAX_LISTED {
        return None;
    }
    let mut by_start: Vec<u32> = (0..count as u32).collect();
    by_start.sort_by_key(|item| normal.items[*item as usize].first);
    let mut lists = vec![Vec::new(); count];
    let is_whole = normal.is_whole();
    let (mut live, mut met, mut pairs): (Vec<u32>, Vec<u32>, usize) = (Vec::new(), Vec::new(), 0);
    for item in by_start {
        let first = normal.items[item as usize].first;
        live.retain(|other| normal.items[*other as usize].last > first);
        met.clear();
        met.extend(live.iter().filter(|other| is_whole || normal.meet(item, **other)));
        pairs += met.len();
        if pairs > MAX_PAIRS {
            return None;
        }
        for other in &met {
            lists[*other as usize].push(item);
        }
        lists[item as usize].extend(&met);
        live.push(item);
    }
    Some(lists)
}

/// The sections at which an item lives.
#[derive(Clone, Copy)]
struct Life {
    first: u32,
    last: u32,
    item: u32,
}

/// Items sorted by duration class and start, to find those that live at a time. Memory is linear: each
/// item is stored once.
pub(in crate::place) struct Classes {
    /// For each class, the longest duration in it and its items by first section.
    classes: Vec<(u32, Vec<Life>)>,
    /// Whether no item has gaps; with gaps, items of one time need not live together.
    is_whole: bool,
}

impl Classes {
    /// Builds the classes. O(n log n).
    fn new(normal: &Normal) -> Self {
        let life =
            |(item, data): (usize, &Item)| Life { first: data.first, last: data.last, item: item as u32 };
        let length = |life: &Life| life.last - life.first;
        let class = |life: &Life| length(life).max(1).ilog2();
        let mut lives: Vec<Life> = normal.items.iter().enumerate().map(life).collect();
        lives.sort_by_key(|life| (class(life), life.first));
        let classes = lives.chunk_by(|a, b| class(a) == class(b));
        let classes =
            classes.map(|part| (part.iter().map(length).max().unwrap_or(0), part.to_vec())).collect();
        Self { classes, is_whole: normal.is_whole() }
    }

    fn visit(&self, normal: &Normal, item: u32, budget: &mut u64, mut visit: impl FnMut(u32)) {
        let (first, last) = (normal.items[item as usize].first, normal.items[item as usize].last);
        let (mut looks, mut found) = (0, 0);
        for (longest, lives) in &self.classes {
            let from = lives.partition_point(|other| other.first.saturating_add(*longest) <= first);
            let to = lives.partition_point(|other| other.first < last);
            let near = lives.get(from..to).unwrap_or_default();
            looks += near.len() as u64;
            for other in near.iter().filter(|other| other.item != item && other.last > first) {
                found += 1;
                if self.is_whole || normal.meet(item, other.item) {
                    visit(other.item);
                }
            }
        }
        *budget = budget.saturating_sub(looks + FOUND_LOOKS * found);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use crate::place::problem::{Buffer, Problem};

    #[test]
    fn lists_and_classes_agree() {
        let buffers = (0..200_u32).map(|index| {
            let start = index * 37 % 100;
            Buffer::new(start, start + 1 + index * 13 % 29, 1)
        });
        let normal = Normal::new(&Problem { buffers: buffers.collect(), capacity: None });
        let (listed, classes) = (Neighbors::new(&normal), Neighbors::unlisted(&normal));
        assert!(listed.are_listed() && !classes.are_listed());
        for item in 0..200 {
            let of = |neighbors: &Neighbors| {
                let mut found = Vec::new();
                neighbors.visit(&normal, item, &mut 1_000_000, |other| found.push(other));
                found.sort_unstable();
                found
            };
            assert_eq!(of(&listed), of(&classes));
            let meets = |other: &u32| {
                let (a, b) = (&normal.items[item as usize], &normal.items[*other as usize]);
                *other != item && a.first < b.last && b.first < a.last
            };
            assert_eq!(of(&listed), (0..200).filter(meets).collect::<Vec<u32>>());
        }
    }
}
