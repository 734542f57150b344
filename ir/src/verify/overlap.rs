//! A sweep over steps that finds blocks which overlap in bytes while both are live.

use std::collections::{BTreeMap, BTreeSet};

use crate::units::LiveRange;

/// Maximum number of reported overlaps; a plan with more is wrong as a whole.
const MAX_OVERLAPS: usize = 100;

/// A range of bytes that is reserved for a range of steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    /// Position of the first byte.
    pub(super) start: u64,
    /// One past the last byte.
    pub(super) end: u64,
    /// Steps of the reservation.
    pub(super) range: LiveRange,
}

impl Block {
    fn meets(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end && self.range.meets(other.range)
    }
}

/// Returns pairs of positions in `blocks` that overlap in bytes and steps, at most 100.
///
/// Blocks enter in the order of their first step. Live blocks without overlap are kept sorted by
/// offset, so that a new block is compared only with its neighbors. Blocks with an overlap are kept in
/// a separate list and compared one by one. `O(n log n + n k)` for `k` blocks that overlap an earlier
/// block, `k <= 100`.
pub(super) fn overlaps(blocks: &[Block]) -> Vec<(usize, usize)> {
    let mut order: Vec<usize> =
        (0..blocks.len()).filter(|index| blocks[*index].start < blocks[*index].end).collect();
    order.sort_by_key(|index| (blocks[*index].range.start, *index));
    let mut live: BTreeMap<u64, usize> = BTreeMap::new();
    let mut ends: BTreeSet<(u32, u64)> = BTreeSet::new();
    let mut aside: Vec<usize> = Vec::new();
    let mut found = Vec::new();
    for index in order {
        let block = &blocks[index];
        while let Some((end, start)) = ends.first().copied().filter(|(end, _)| *end <= block.range.start.0) {
            ends.remove(&(end, start));
            live.remove(&start);
        }
        let mut hits: Vec<usize> =
            aside.iter().copied().filter(|other| blocks[*other].meets(block)).collect();
        let below = live.range(..block.start).next_back().map(|(_, other)| *other);
        hits.extend(below.filter(|other| blocks[*other].meets(block)));
        let room = MAX_OVERLAPS - found.len();
        hits.extend(live.range(block.start..block.end).map(|(_, other)| *other).take(room));
        if hits.is_empty() {
            live.insert(block.start, index);
            ends.insert((block.range.end.0, block.start));
        } else {
            aside.push(index);
            found.extend(hits.into_iter().map(|other| (other, index)));
        }
        if found.len() >= MAX_OVERLAPS {
            found.truncate(MAX_OVERLAPS);
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Step;
    use proptest::prelude::*;

    fn block((start, bytes, first, steps): (u64, u64, u32, u32)) -> Block {
        Block { start, end: start + bytes, range: LiveRange { start: Step(first), end: Step(first + steps) } }
    }

    proptest! {
        #[test]
        fn the_sweep_finds_all_overlaps_of_a_pairwise_comparison(
            raw in prop::collection::vec((0u64..20, 0u64..6, 0u32..20, 1u32..6), 0..12)
        ) {
            let blocks: Vec<Block> = raw.into_iter().map(block).collect();
            let mut expected = BTreeSet::new();
            for (i, a) in blocks.iter().enumerate() {
                for (j, b) in blocks.iter().enumerate().skip(i + 1) {
                    if a.start < a.end && b.start < b.end && a.meets(b) {
                        expected.insert((i, j));
                    }
                }
            }
            let found: BTreeSet<_> = overlaps(&blocks).into_iter().map(|(a, b)| (a.min(b), a.max(b))).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
