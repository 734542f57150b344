//! Neighbors: the items that live together with an item. They are stored as lists if there are few
//! pairs, and otherwise found by class of duration and start.

use crate::place::normal::{Item, Normal};

/// Most items, and most pairs, of problems with lists.
const MAX_LISTED: usize = 8_192;
const MAX_PAIRS: usize = 1 << 22;

/// Cost of visiting a neighbor, in first fit's looks at rectangles, which are already sorted.
const FOUND_LOOKS: u64 = 6;

/// The items that live together with each item.
pub(in crate::place) enum Neighbors {
    Lists(Vec<Vec<u32>>),
    Classes(Classes),
}

impl Neighbors {
    /// Builds lists if they are small enough, otherwise classes. Each item must be one part. O(n log n),
    /// plus a step for each pair if there are lists.
    pub fn new(normal: &Normal) -> Self {
        lists(normal).map_or_else(|| Self::unlisted(normal), Self::Lists)
    }

    /// Builds classes for a problem of any size. O(n log n).
    pub fn unlisted(normal: &Normal) -> Self {
        Self::Classes(Classes::new(normal))
    }

    pub fn are_listed(&self) -> bool {
        matches!(self, Self::Lists(_))
    }

    /// Visits all other items that live while `item` lives. Subtracts the cost from `budget`.
    pub fn visit(&self, normal: &Normal, item: u32, budget: &mut u64, mut visit: impl FnMut(u32)) {
        match self {
            Self::Lists(lists) => {
                let others = &lists[item as usize];
                others.iter().for_each(|other| visit(*other));
                *budget = budget.saturating_sub(FOUND_LOOKS * others.len() as u64);
            }
            Self::Classes(classes) => classes.visit(normal, item, budget, visit),
        }
    }
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
    let (mut live, mut pairs): (Vec<u32>, usize) = (Vec::new(), 0);
    for item in by_start {
        let first = normal.items[item as usize].first;
        live.retain(|other| normal.items[*other as usize].last > first);
        pairs += live.len();
        if pairs > MAX_PAIRS {
            return None;
        }
        for other in &live {
            lists[*other as usize].push(item);
        }
        lists[item as usize].extend(&live);
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
}

impl Classes {
    /// Builds the classes. O(n log n).
    fn new(normal: &Normal) -> Self {
        let life = |(item, data): (usize, &Item)| Life { first: data.first, last: data.last, item: item as u32 };
        let length = |life: &Life| life.last - life.first;
        let class = |life: &Life| length(life).max(1).ilog2();
        let mut lives: Vec<Life> = normal.items.iter().enumerate().map(life).collect();
        lives.sort_by_key(|life| (class(life), life.first));
        let classes = lives.chunk_by(|a, b| class(a) == class(b));
        Self { classes: classes.map(|part| (part.iter().map(length).max().unwrap_or(0), part.to_vec())).collect() }
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
                visit(other.item);
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
