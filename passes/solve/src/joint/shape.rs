//! Shapes of buffers: bytes in use as one range for each run of steps, as placement takes them.

use crate::place::{Buffer, Gap};

/// Bytes of an arena that are in use at some steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extent {
    /// First step.
    pub start: u32,
    /// Step after the last one.
    pub end: u32,
    /// First byte.
    pub low: u64,
    /// Byte after the last one.
    pub high: u64,
}

/// Returns a buffer of the placement problem with these bytes in use.
pub(super) fn buffer(extents: &[Extent], size: u64, alignment: u64) -> Buffer {
    let hulls = hulls(extents);
    let (start, end) = (hulls.first().map_or(0, |hull| hull.start), hulls.last().map_or(0, |hull| hull.end));
    let mut buffer = Buffer { alignment: alignment.max(1), ..Buffer::new(start, end, size) };
    let mut since = start;
    for hull in hulls {
        if since < hull.start {
            buffer.gaps.push(Gap { start: since, end: hull.start, window: None });
        }
        if (hull.low, hull.high) != (0, size) {
            buffer.gaps.push(Gap { start: hull.start, end: hull.end, window: Some((hull.low, hull.high)) });
        }
        since = hull.end;
    }
    buffer
}

/// Joins the extents of a buffer: for each run of steps, the range from the lowest to the highest byte in
/// use; ascending and disjoint in time.
pub(super) fn hulls(extents: &[Extent]) -> Vec<Extent> {
    let mut found: Vec<Extent> = Vec::new();
    by_steps(extents, |start, end, live| {
        let low = live.iter().map(|extent| extent.low).min().unwrap_or(0);
        let high = live.iter().map(|extent| extent.high).max().unwrap_or(low);
        match found.last_mut() {
            Some(last) if last.end == start && (last.low, last.high) == (low, high) => last.end = end,
            _ => found.push(Extent { start, end, low, high }),
        }
    });
    found
}

/// Returns the bytes in use at each step, where each buffer is the list of its extents, and bytes of one
/// buffer count once. O(steps + extents · extents of one buffer).
pub(super) fn loads<'e>(buffers: impl Iterator<Item = &'e [Extent]>, steps: u32) -> Vec<u64> {
    let mut change = vec![0_i128; steps as usize + 1];
    for extents in buffers {
        by_steps(extents, |start, end, live| {
            let mut ranges: Vec<(u64, u64)> = live.iter().map(|extent| (extent.low, extent.high)).collect();
            ranges.sort_unstable();
            let (mut bytes, mut top) = (0_i128, 0);
            for (low, high) in ranges {
                bytes += i128::from(high.saturating_sub(low.max(top)));
                top = top.max(high);
            }
            change[start.min(steps) as usize] += bytes;
            change[end.min(steps) as usize] -= bytes;
        });
    }
    let mut now = 0;
    let sums = change.iter().take(steps as usize).map(|step| {
        now += step;
        u64::try_from(now).unwrap_or(u64::MAX)
    });
    sums.collect()
}

/// Calls `found` with each longest run of steps at which the extents in use are the same ones, and with
/// these.
fn by_steps(extents: &[Extent], mut found: impl FnMut(u32, u32, &[Extent])) {
    let mut times: Vec<u32> = extents.iter().flat_map(|extent| [extent.start, extent.end]).collect();
    times.sort_unstable();
    times.dedup();
    let mut sorted: Vec<Extent> =
        extents.iter().filter(|extent| extent.start < extent.end).copied().collect();
    sorted.sort_unstable_by_key(|extent| extent.start);
    let mut live: Vec<Extent> = Vec::new();
    let mut next = 0;
    for pair in times.windows(2) {
        let (start, end) = (pair[0], pair[1]);
        live.retain(|extent| extent.end > start);
        while let Some(extent) = sorted.get(next).filter(|extent| extent.start <= start) {
            live.push(*extent);
            next += 1;
        }
        if !live.is_empty() {
            found(start, end, &live);
        }
    }
}
