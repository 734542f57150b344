//! Sets small buffers aside: their common load is negligible, so the large buffers are placed first,
//! without them.
//!
//! A model has hundreds of scalars, masks and biases in addition to the few hundred buffers that
//! determine the height. Without the small buffers, searches and repair have half the decisions, and no
//! small buffer blocks the place of a large one. Afterwards the small buffers are placed in holes, since
//! the large buffers leave holes nearly everywhere.

use crate::place::normal::Normal;
use crate::tuning::PlaceTuning;

/// Returns the items that remain without the small ones, or `None` if there are too few small items. O(n
/// log n).
pub(in crate::place) fn large_items(normal: &Normal, bound: u64, tuning: &PlaceTuning) -> Option<Vec<u32>> {
    let mut sizes: Vec<u64> = normal.items.iter().map(|item| item.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    // Items smaller than this size are set aside.
    let is_little = |size: &u64| load_below(normal, *size) <= tuning.negligible.of(bound);
    let least = sizes[..sizes.partition_point(is_little)].last().copied()?;
    let large: Vec<u32> =
        (0..normal.items.len() as u32).filter(|item| normal.items[*item as usize].size >= least).collect();
    let count = normal.items.len();
    (large.len() <= count - tuning.minority.of(count as u64) as usize && large.len() < count).then_some(large)
}

/// Returns the highest load of all items smaller than `size`. O(n).
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

    use super::*;
    use crate::place::problem::{Buffer, Problem};

    #[test]
    fn buffers_set_aside_have_a_small_total() {
        // Two large buffers and six of one byte, two of which live together.
        let mut buffers = vec![Buffer::new(0, 6, 1_500), Buffer::new(0, 6, 500)];
        buffers.extend((0..6).map(|step| Buffer::new(step, step + 1 + u32::from(step == 2), 1)));
        let normal = Normal::new(&Problem { buffers, capacity: None });
        assert_eq!(large_items(&normal, 2_002, &PlaceTuning::DEFAULT), Some(vec![0, 1]));
        // With a smaller bound the small buffers are not negligible. Without small buffers nothing is
        // gained.
        assert_eq!(large_items(&normal, 1_999, &PlaceTuning::DEFAULT), None);
        let buffers = (0..9).map(|step| Buffer::new(step, step + 2, 100)).collect();
        assert_eq!(
            large_items(&Normal::new(&Problem { buffers, capacity: None }), 200, &PlaceTuning::DEFAULT),
            None
        );
    }
}
