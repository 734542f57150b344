//! Bytes in use at each step, and the lower bound of the arena that follows from them.

use std::collections::BTreeMap;

use crate::ctx::Steps;

/// Bytes in use during a range of steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub(crate) steps: Steps,
    pub(crate) bytes: u64,
}

/// Returns the bytes in use at each of `steps` steps. Sums saturate at `u64::MAX`.
pub(crate) fn levels(held: &[Held], steps: usize) -> Vec<u64> {
    let mut change = vec![0i128; steps + 1];
    for item in held {
        let (start, end) = (index(item.steps.0, steps), index(item.steps.1, steps));
        change[start] += i128::from(item.bytes);
        change[end] -= i128::from(item.bytes);
    }
    let mut now = 0i128;
    change
        .iter()
        .take(steps)
        .map(|step| {
            now += step;
            u64::try_from(now).unwrap_or(u64::MAX)
        })
        .collect()
}

fn index(step: u64, steps: usize) -> usize {
    usize::try_from(step).map_or(steps, |step| step.min(steps))
}

/// Returns the maximum, or 0 if there are no steps.
pub(crate) fn highest(levels: &[u64]) -> u64 {
    levels.iter().copied().max().unwrap_or(0)
}

/// Returns a lower bound of the arena size, in bytes. At each step the live buffers are at aligned
/// offsets, so all but the last are followed by padding. The last is assumed to have the largest
/// padding.
pub(crate) fn aligned_bound(held: &[Held], steps: usize, alignment: u64) -> u64 {
    let alignment = alignment.max(1);
    let mut events: BTreeMap<usize, (Vec<u64>, Vec<u64>)> = BTreeMap::new();
    for item in held.iter().filter(|item| item.bytes > 0) {
        let (start, end) = (index(item.steps.0, steps), index(item.steps.1, steps));
        if start < end {
            events.entry(start).or_default().0.push(item.bytes);
            events.entry(end).or_default().1.push(item.bytes);
        }
    }
    let waste = |bytes: u64| (alignment - bytes % alignment) % alignment;
    let (mut sum, mut bound) = (0u128, 0u128);
    let mut wasted: BTreeMap<u64, u64> = BTreeMap::new();
    for (begun, ended) in events.into_values() {
        for bytes in ended {
            sum -= u128::from(bytes) + u128::from(waste(bytes));
            if let Some(count) = wasted.get_mut(&waste(bytes)) {
                *count -= 1;
                if *count == 0 {
                    wasted.remove(&waste(bytes));
                }
            }
        }
        for bytes in begun {
            sum += u128::from(bytes) + u128::from(waste(bytes));
            *wasted.entry(waste(bytes)).or_default() += 1;
        }
        let last = wasted.keys().next_back().copied().unwrap_or(0);
        bound = bound.max(sum - u128::from(last));
    }
    u64::try_from(bound).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_add_up_and_the_bound_counts_alignment() {
        let held = [
            Held { steps: (0, 2), bytes: 10 },
            Held { steps: (1, 3), bytes: 100 },
            Held { steps: (2, 9), bytes: u64::MAX },
        ];
        assert_eq!(levels(&held, 3), [10, 110, u64::MAX]);
        // 100 bytes at offset 0, 10 bytes at offset 128.
        assert_eq!(aligned_bound(&held[..2], 3, 64), 138);
        assert_eq!(aligned_bound(&held[..2], 3, 1), 110);
    }
}
