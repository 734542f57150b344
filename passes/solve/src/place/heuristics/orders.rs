//! The orders in which the placement heuristics take buffers. Ties always follow the order of the input.

use crate::place::normal::Normal;

/// A rule that orders items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::place) enum Rule {
    /// Largest first.
    Size,
    /// Largest first, then longest-lived.
    SizeDuration,
    /// Largest product of size and duration first.
    Area,
    /// Longest-lived first, then largest.
    DurationSize,
    /// First to start first.
    Birth,
    /// Largest load of the item's sections first, then longest-lived, then largest.
    LoadDurationSize,
    /// Largest load first, then largest.
    LoadSize,
    /// Largest load first, then largest area.
    LoadArea,
    /// Size class (the highest bit of the size) first, then first to start.
    SizeClassBirth,
    /// Last to end first.
    Death,
}

/// All rules, the most successful first.
pub(in crate::place) const RULES: [Rule; 10] = [
    Rule::Size,
    Rule::LoadDurationSize,
    Rule::Area,
    Rule::SizeDuration,
    Rule::LoadSize,
    Rule::DurationSize,
    Rule::LoadArea,
    Rule::Birth,
    Rule::SizeClassBirth,
    Rule::Death,
];

/// Returns, for each item, the largest load of its sections. O(parts · log sections).
pub(in crate::place) fn loads_met(normal: &Normal) -> Vec<u64> {
    let table = RangeMaximum::new(&normal.load);
    (0..normal.items.len())
        .map(|index| {
            normal.parts_of(index).iter().map(|part| table.maximum(part.first, part.last)).max().unwrap_or(0)
        })
        .collect()
}

/// Returns the items in the order of a rule. `loads` is the result of `loads_met`. O(n log n).
pub(in crate::place) fn order(normal: &Normal, rule: Rule, loads: &[u64]) -> Vec<u32> {
    let mut keyed: Vec<(u128, u64, u32)> = normal
        .items
        .iter()
        .enumerate()
        .map(|(index, item)| {
            let (size, life, load) =
                (u128::from(item.size), u128::from(item.duration), u128::from(loads[index]));
            let (major, minor) = match rule {
                Rule::Size => (size, 0),
                Rule::SizeDuration => (size, u64::from(item.duration)),
                Rule::Area => (size * life, 0),
                Rule::DurationSize => (life, item.size),
                Rule::Birth => (u128::from(u32::MAX - item.first), 0),
                Rule::LoadDurationSize => (load << 32 | life, item.size),
                Rule::LoadSize => (load, item.size),
                // Both fit: loads and sizes are below 2^61, durations below 2^32.
                Rule::LoadArea => (
                    load << 64 | (size * life) >> 32,
                    (item.size).wrapping_mul(u64::from(item.duration)) & 0xffff_ffff,
                ),
                Rule::SizeClassBirth => {
                    (u128::from(item.size.max(1).ilog2()), u64::from(u32::MAX - item.first))
                }
                Rule::Death => (u128::from(item.last), item.size),
            };
            (major, minor, index as u32)
        })
        .collect();
    keyed.sort_unstable_by(|a, b| (b.0, b.1).cmp(&(a.0, a.1)).then(a.2.cmp(&b.2)));
    keyed.into_iter().map(|(_, _, index)| index).collect()
}

/// Range maxima over a constant array: a segment tree with linear memory.
struct RangeMaximum {
    leaves: usize,
    highest: Vec<u64>,
}

impl RangeMaximum {
    fn new(values: &[u64]) -> Self {
        let leaves = values.len().max(1);
        let mut highest = vec![0; leaves];
        highest.extend_from_slice(values);
        highest.resize(2 * leaves, 0);
        for node in (1..leaves).rev() {
            highest[node] = highest[2 * node].max(highest[2 * node + 1]);
        }
        Self { leaves, highest }
    }

    fn maximum(&self, first: u32, last: u32) -> u64 {
        let (mut left, mut right) = (first as usize + self.leaves, last as usize + self.leaves);
        let mut result = 0;
        while left < right {
            if left % 2 == 1 {
                result = result.max(self.highest[left]);
                left += 1;
            }
            if right % 2 == 1 {
                right -= 1;
                result = result.max(self.highest[right]);
            }
            (left, right) = (left / 2, right / 2);
        }
        result
    }
}
