//! Dive: always place the buffer that can lie lowest, on top of what is there; ties by a given order.
//!
//! It never fills holes, but it grows the whole skyline evenly, which first fit does not: together they are far better than each alone.
//! Possible offsets only rise, so a heap with lazy re-evaluation finds the lowest one exactly.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::normal::{Normal, Part, align_up};
use super::skyline::Skyline;

/// The lowest offset at which the parts lie on top of everything.
pub(super) fn floor(skyline: &Skyline, parts: &[Part], alignment: u64) -> u64 {
    let floors = parts.iter().map(|part| skyline.highest(part.first, part.last).saturating_sub(part.low));
    align_up(floors.max().unwrap_or(0), alignment)
}

/// Puts the parts on the skyline.
pub(super) fn raise(skyline: &mut Skyline, parts: &[Part], offset: u64) {
    for part in parts {
        skyline.raise(part.first, part.last, offset + part.high);
    }
}

/// Offsets of all items, or `None` if the budget was not enough or if there are fixed items.
///
/// O(re-evaluations · log n) time; in the worst case one for each conflict. `budget` shrinks by what was spent.
pub(super) fn dive(normal: &Normal, order: &[u32], budget: &mut u64) -> Option<Vec<u64>> {
    if normal.has_fixed {
        return None;
    }
    let mut skyline = Skyline::new(normal.sections);
    let mut offsets = vec![0_u64; normal.items.len()];
    let mut heap: BinaryHeap<Reverse<(u64, u32)>> = (0..order.len() as u32).map(|rank| Reverse((0, rank))).collect();
    while let Some(Reverse((offset, rank))) = heap.pop() {
        let index = order[rank as usize] as usize;
        let parts = normal.parts_of(index);
        // A look at the tree costs about as much as first fit's look at forty rectangles.
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
