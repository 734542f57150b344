//! Nested programs: the boundaries of a host's steps at which a guest fits into bytes that are free there.

use std::collections::BTreeMap;

use super::shape::Extent;

/// A run of boundaries at which a guest fits at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// First step after which the guest may run.
    pub first: u32,
    /// Last step after which it may run.
    pub last: u32,
    /// First byte of the guest.
    pub base: u64,
}

/// Calls `found` with each boundary and its free bytes, ascending and disjoint, below `size`.
fn sweep(extents: &[Extent], steps: u32, size: u64, mut found: impl FnMut(u32, &[(u64, u64)])) {
    let mut starting: Vec<&Extent> = extents.iter().filter(|extent| extent.low < extent.high).collect();
    starting.sort_unstable_by_key(|extent| extent.start);
    let mut ending = starting.clone();
    ending.sort_unstable_by_key(|extent| extent.end);
    let (mut next, mut gone) = (0, 0);
    // Parts of one buffer may be listed twice.
    let mut live: BTreeMap<(u64, u64), u32> = BTreeMap::new();
    let mut free = Vec::new();
    for boundary in 0..steps.saturating_sub(1) {
        while let Some(extent) = starting.get(next).filter(|extent| extent.start <= boundary) {
            *live.entry((extent.low, extent.high)).or_default() += 1;
            next += 1;
        }
        while let Some(extent) = ending.get(gone).filter(|extent| extent.end <= boundary.saturating_add(1)) {
            // An extent that ends before it starts was never added.
            if let Some(count) = live.get_mut(&(extent.low, extent.high)).filter(|_| extent.start <= boundary)
            {
                *count -= 1;
                if *count == 0 {
                    live.remove(&(extent.low, extent.high));
                }
            }
            gone += 1;
        }
        free.clear();
        let mut at = 0;
        for (low, high) in live.keys() {
            if at < *low {
                free.push((at, *low));
            }
            at = at.max(*high);
        }
        if at < size {
            free.push((at, size));
        }
        found(boundary, &free);
    }
}

/// Returns, for each boundary, the free bytes and the largest hole. O(steps · extents live at once).
#[must_use]
pub fn free_bytes(extents: &[Extent], steps: u32, size: u64) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    sweep(extents, steps, size, |_, free| {
        let sizes = free.iter().map(|(low, high)| high - low);
        all.push((sizes.clone().sum(), sizes.max().unwrap_or(0)));
    });
    all
}

/// Returns the boundaries at which `bytes` bytes fit at a multiple of `alignment` below `size`, in as few
/// runs with one place each as possible. Each run takes the lowest place that holds for all of it.
///
/// O(steps · extents live at once): places of a run are intersected from boundary to boundary, and a run ends
/// when none is left.
#[must_use]
pub fn admissions(extents: &[Extent], steps: u32, size: u64, bytes: u64, alignment: u64) -> Vec<Admission> {
    let alignment = alignment.max(1);
    let mut runs: Vec<Admission> = Vec::new();
    // Places that hold for the run so far, as ranges of first bytes.
    let mut open: Option<(u32, Vec<(u64, u64)>)> = None;
    let mut last = 0;
    let close = |open: &mut Option<(u32, Vec<(u64, u64)>)>, last: u32, runs: &mut Vec<Admission>| {
        if let Some((first, places)) = open.take()
            && let Some((base, _)) = places.first()
        {
            runs.push(Admission { first, last, base: *base });
        }
    };
    sweep(extents, steps, size, |boundary, free| {
        let fitting = free.iter().filter_map(|(low, high)| {
            let first = low.checked_next_multiple_of(alignment)?;
            let end = high.checked_sub(bytes)? / alignment * alignment;
            (first <= end).then_some((first, end))
        });
        let mut places: Vec<(u64, u64)> = fitting.collect();
        if bytes == 0 {
            places = vec![(0, 0)];
        }
        let both =
            open.as_ref().map(|(_, known)| intersected(known, &places)).filter(|both| !both.is_empty());
        match (both, &mut open) {
            (Some(both), Some((_, known))) => *known = both,
            _ => {
                close(&mut open, last, &mut runs);
                open = (!places.is_empty()).then_some((boundary, places));
            }
        }
        last = boundary;
    });
    close(&mut open, last, &mut runs);
    runs
}

/// Returns the common parts of two lists of ascending, disjoint ranges with both ends inside.
fn intersected(one: &[(u64, u64)], other: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (mut left, mut right) = (0, 0);
    let mut found = Vec::new();
    while let (Some(a), Some(b)) = (one.get(left), other.get(right)) {
        let (low, high) = (a.0.max(b.0), a.1.min(b.1));
        if low <= high {
            found.push((low, high));
        }
        if a.1 <= b.1 { left += 1 } else { right += 1 }
    }
    found
}
