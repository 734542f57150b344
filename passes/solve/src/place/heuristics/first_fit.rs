//! First fit: takes the buffers in a given order and places each at the lowest offset that fits, holes
//! included.

use super::dive::{floor, raise};
use super::occupied::Occupied;
use super::skyline::Skyline;
use crate::place::normal::Normal;

/// For each section, the height up to which it is occupied from offset 0 without a hole. This lets a
/// query skip the full bottom of the arena.
struct Solid {
    height: Vec<u64>,
}

/// Longest part that uses the shortcut, in sections. Limits its cost for each buffer.
const MAX_SHORTCUT: usize = 4096;

impl Solid {
    fn floor(&self, first: u32, last: u32) -> u64 {
        let range = &self.height[first as usize..last as usize];
        if range.len() > MAX_SHORTCUT { 0 } else { range.iter().copied().max().unwrap_or(0) }
    }

    fn fill(&mut self, first: u32, last: u32, bottom: u64, top: u64) {
        let range = &mut self.height[first as usize..last as usize];
        if range.len() <= MAX_SHORTCUT {
            for height in range {
                *height = if *height >= bottom { (*height).max(top) } else { *height };
            }
        }
    }
}

/// A placement, and whether first fit placed all items.
pub(in crate::place) struct FirstFit {
    pub offsets: Vec<u64>,
    pub complete: bool,
}

/// Returns the offsets of all items; fixed items are placed first. Subtracts the rectangles examined
/// from `budget`. When the budget runs out, the remaining items are stacked on the skyline in the given
/// order, so there is always a placement.
///
/// O(conflicts) time with a factor of about three for bucket borders, O(n) memory; stacking is O(n log
/// n).
pub(in crate::place) fn first_fit(normal: &Normal, order: &[u32], budget: &mut u64) -> FirstFit {
    let mut occupied = Occupied::new(normal.sections, typical_length(normal));
    let mut solid = Solid { height: vec![0; normal.sections] };
    let mut offsets = vec![0_u64; normal.items.len()];
    let fixed = (0..normal.items.len() as u32).filter(|item| normal.items[*item as usize].fixed.is_some());
    let free = order.iter().copied().filter(|item| normal.items[*item as usize].fixed.is_none());
    let sequence: Vec<u32> = fixed.chain(free).collect();
    let mut placed = 0;
    while placed < sequence.len() {
        let index = sequence[placed] as usize;
        let item = &normal.items[index];
        if occupied.effort > *budget && item.fixed.is_none() {
            break;
        }
        let parts = normal.parts_of(index);
        let offset = item.fixed.unwrap_or_else(|| {
            let floors = parts.iter().map(|part| solid.floor(part.first, part.last).saturating_sub(part.low));
            occupied.lowest_fit(parts, item.alignment, floors.max().unwrap_or(0))
        });
        for part in parts {
            occupied.insert(part, offset);
            solid.fill(part.first, part.last, offset + part.low, offset + part.high);
        }
        offsets[index] = offset;
        placed += 1;
    }
    *budget = budget.saturating_sub(occupied.effort);
    stack(normal, &sequence, placed, &mut offsets);
    FirstFit { offsets, complete: placed == sequence.len() }
}

/// Returns the offsets of all items by first fit alone, or `None` if the budget runs out.
pub(in crate::place) fn complete_first_fit(
    normal: &Normal,
    order: &[u32],
    budget: &mut u64,
) -> Option<Vec<u64>> {
    let result = first_fit(normal, order, budget);
    result.complete.then_some(result.offsets)
}

/// Stacks the items of the sequence from position `placed` on the skyline of the earlier items.
fn stack(normal: &Normal, sequence: &[u32], placed: usize, offsets: &mut [u64]) {
    if placed == sequence.len() {
        return;
    }
    let mut skyline = Skyline::new(normal.sections);
    for (number, &index) in sequence.iter().enumerate() {
        let parts = normal.parts_of(index as usize);
        if number >= placed {
            offsets[index as usize] = floor(&skyline, parts, normal.items[index as usize].alignment);
        }
        raise(&mut skyline, parts, offsets[index as usize]);
    }
}

/// Returns the median length of the parts in sections: the width of the finest time buckets.
fn typical_length(normal: &Normal) -> u32 {
    let mut lengths: Vec<u32> = normal.parts.iter().map(|part| part.last - part.first).collect();
    if lengths.is_empty() {
        return 1;
    }
    let middle = lengths.len() / 2;
    *lengths.select_nth_unstable(middle).1
}
