//! Dive: always places the buffer that can be placed lowest on the skyline; ties follow a given order.
//!
//! Dive never fills holes, but it grows the whole skyline evenly, which first fit does not. Together
//! they are far better than either alone. Possible offsets only rise, so a heap with lazy re-evaluation
//! finds the lowest one exactly.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::skyline::Skyline;
use crate::place::normal::{Normal, Part, align_up};

/// Returns the lowest offset at which all parts are above the skyline.
pub(in crate::place) fn floor(skyline: &Skyline, parts: &[Part], alignment: u64) -> u64 {
    let floors = parts.iter().map(|part| skyline.highest(part.first, part.last).saturating_sub(part.low));
    align_up(floors.max().unwrap_or(0), alignment)
}

/// Raises the skyline to the tops of the parts.
pub(in crate::place) fn raise(skyline: &mut Skyline, parts: &[Part], offset: u64) {
    for part in parts {
        skyline.raise(part.first, part.last, offset + part.high);
    }
}

/// Returns the offsets of all items, or `None` if the budget runs out or some item has a fixed offset.
///
/// O(re-evaluations · log n) time; in the worst case one re-evaluation for each conflict. Subtracts the
/// cost from `budget`.
pub(in crate::place) fn dive(normal: &Normal, order: &[u32], budget: &mut u64) -> Option<Vec<u64>> {
    if normal.has_fixed {
        return None;
    }
    let mut skyline = Skyline::new(normal.sections);
    let mut offsets = vec![0_u64; normal.items.len()];
    let mut heap: BinaryHeap<Reverse<(u64, u32)>> =
        (0..order.len() as u32).map(|rank| Reverse((0, rank))).collect();
    while let Some(Reverse((offset, rank))) = heap.pop() {
        let index = order[rank as usize] as usize;
        let parts = normal.parts_of(index);
        // A query of the tree takes about the time in which first fit examines forty rectangles.
        *budget = budget.checked_sub(40)?;
        let now = floor(&skyline, parts, normal.items[index].alignment);
        if now > offset {
            heap.push(Reverse((now, rank)));
            continue;
        }
        offsets[index] = offset;
        raise(&mut skyline, parts, offset);
    }
    Some(offsets)
}
