//! Small buffers are set aside: what lives together of them is next to nothing, so the large ones are placed as if they were alone.
//!
//! Models have hundreds of scalars, masks and biases beside the few hundred buffers that make the height. Without them, searches and repair have
//! half as much to decide, and a small one in a corner keeps no large one from its place. Afterwards the small ones find holes, since the large
//! ones leave some nearly everywhere.

use super::normal::Normal;
use crate::tuning::PlaceTuning;

/// The items that remain when the small ones are set aside, or `None` if there are too few of those. O(n log n).
pub(super) fn large_items(normal: &Normal, bound: u64, tuning: &PlaceTuning) -> Option<Vec<u32>> {
    let mut sizes: Vec<u64> = normal.items.iter().map(|item| item.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    // Whatever is smaller than this size may be set aside.
    let is_little = |size: &u64| load_below(normal, *size) <= tuning.negligible.of(bound);
    let least = sizes[..sizes.partition_point(is_little)].last().copied()?;
    let large: Vec<u32> = (0..normal.items.len() as u32).filter(|item| normal.items[*item as usize].size >= least).collect();
    let count = normal.items.len();
    (large.len() <= count - tuning.minority.of(count as u64) as usize && large.len() < count).then_some(large)
}

/// The load of all items below a size. O(n).
fn load_below(normal: &Normal, size: u64) -> u64 {
    let mut change = vec![0_u64; normal.sections + 1];
    for index in (0..normal.items.len()).filter(|index| normal.items[*index].size < size) {
        for part in normal.parts_of(index) {
            let bytes = part.high - part.low;
            change[part.first as usize] = change[part.first as usize].wrapping_add(bytes);
            change[part.last as usize] = change[part.last as usize].wrapping_sub(bytes);
        }
    }
    let mut running = 0_u64;
    let loads = change.into_iter().map(|step| {
        running = running.wrapping_add(step);
        running
    });
    loads.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::super::problem::{Buffer, Problem};
    use super::*;

    #[test]
    fn what_is_set_aside_is_small_together() {
        // Two large ones and six of one byte, two of which live together.
        let mut buffers = vec![Buffer::new(0, 6, 1_500), Buffer::new(0, 6, 500)];
        buffers.extend((0..6).map(|step| Buffer::new(step, step + 1 + u32::from(step == 2), 1)));
        let normal = Normal::new(&Problem { buffers, capacity: None });
        assert_eq!(large_items(&normal, 2_002, &PlaceTuning::DEFAULT), Some(vec![0, 1]));
        // One byte more is too much, and without small ones nothing is gained.
        assert_eq!(large_items(&normal, 1_999, &PlaceTuning::DEFAULT), None);
        let buffers = (0..9).map(|step| Buffer::new(step, step + 2, 100)).collect();
        assert_eq!(large_items(&Normal::new(&Problem { buffers, capacity: None }), 200, &PlaceTuning::DEFAULT), None);
    }
}
