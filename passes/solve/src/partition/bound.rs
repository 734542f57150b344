//! Lower bounds of a partition, computed without search.

use super::merged::Merged;
use super::problem::Objective;

/// Returns a number that no partition beats: the largest group on its best device, or an even share of
/// the sum. Time of transfers does not count. O(groups · sorts).
pub(super) fn lower_bound(merged: &Merged<'_>) -> u64 {
    let devices = merged.problem.devices.len().max(1) as u64;
    let fastest = |times: &[Option<u64>]| {
        let on = merged.sorts.iter().filter_map(|sort| times.get(sort.kind as usize).copied().flatten());
        on.min().unwrap_or(0)
    };
    let (largest, sum) = match merged.problem.objective {
        Objective::Time => {
            let each = merged.groups.iter().map(|group| fastest(&group.times));
            (each.clone().max(), each.sum::<u64>())
        }
        Objective::Bytes => {
            let copies = merged.problem.pipeline.copies(1);
            let own = merged.groups.iter().map(|group| group.held_bytes + group.copy_bytes * copies);
            let replicas = merged.problem.replicas.iter().filter(|replica| !replica.readers.is_empty());
            let sum = own.clone().sum::<u64>() + replicas.map(|replica| replica.bytes).sum::<u64>();
            let alone = merged.groups.iter().zip(own).map(|(group, own)| {
                let read =
                    group.replicas.iter().map(|replica| merged.problem.replicas[*replica as usize].bytes);
                own + group.working_bytes + read.sum::<u64>()
            });
            (alone.max(), sum)
        }
    };
    largest.unwrap_or(0).max(sum.div_ceil(devices))
}
