//! Lower bounds on the height of any placement.
//!
//! The basic bound is the load of the busiest section. If all offsets are multiples of a granule (the
//! greatest common divisor of all alignments), every buffer except the topmost one of a section takes
//! its size rounded up to the granule. That bound is higher for odd sizes.

use std::collections::BTreeMap;

use super::normal::{Normal, align_up};
use super::problem::Problem;

/// Returns the best known lower bound on the height of every placement, in bytes. O(n log n).
pub(super) fn lower_bound(problem: &Problem, normal: &Normal) -> u64 {
    let alone = problem
        .buffers
        .iter()
        .map(|buffer| buffer.fixed_offset.unwrap_or(0) + buffer.size)
        .max()
        .unwrap_or(0);
    let load = normal.load.iter().copied().max().unwrap_or(0);
    alone.max(load).max(granule_bound(normal))
}

/// Returns the granule of all offsets: the greatest common divisor of alignments and fixed offsets.
/// Returns 1 if some buffer lives partly, since its parts may begin at any byte.
pub(super) fn granule(normal: &Normal) -> u64 {
    if normal.windowed {
        return 1;
    }
    let divisor = normal
        .items
        .iter()
        .fold(0, |divisor, item| gcd(gcd(divisor, item.alignment), item.fixed.unwrap_or(0)));
    divisor.max(1)
}

/// Returns the highest section bound: the load with sizes rounded up to the granule, minus the largest
/// padding. The topmost buffer of a section may save its padding.
fn granule_bound(normal: &Normal) -> u64 {
    let granule = granule(normal);
    if granule == 1 {
        return 0;
    }
    let padding = |bytes: u64| align_up(bytes, granule) - bytes;
    let rounded = normal.loads(|part| align_up(part.high - part.low, granule));
    let saving = largest_live(normal, padding);
    rounded.iter().zip(&saving).map(|(load, saved)| load - saved).max().unwrap_or(0)
}

/// Returns, for each section, the largest weight of a part that lives in it.
pub(super) fn largest_live(normal: &Normal, weight: impl Fn(u64) -> u64) -> Vec<u64> {
    let mut events: Vec<(u32, bool, u64)> = Vec::new();
    for part in &normal.parts {
        let value = weight(part.high - part.low);
        if value > 0 {
            events.push((part.first, true, value));
            events.push((part.last, false, value));
        }
    }
    events.sort_unstable();
    let mut live: BTreeMap<u64, u32> = BTreeMap::new();
    let mut result = vec![0; normal.sections];
    let mut next = events.into_iter().peekable();
    for (section, largest) in result.iter_mut().enumerate() {
        while let Some((_, starts, value)) = next.next_if(|event| event.0 as usize <= section) {
            let count = live.entry(value).or_insert(0);
            *count = if starts { *count + 1 } else { count.saturating_sub(1) };
            if *count == 0 {
                live.remove(&value);
            }
        }
        *largest = live.keys().next_back().copied().unwrap_or(0);
    }
    result
}

pub(super) fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
