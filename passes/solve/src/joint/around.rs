//! Around a guest: the host is placed anew so that a guest fits at more boundaries of its steps.

use super::nested::{Admission, admissions};
use super::problem::{Part, Placed};
use super::shape::{Extent, buffer, loads};
use crate::place::{self, Buffer, Gap, ProblemError};
use crate::{Limit, StopReason};

/// Most placements that are tried.
const MAX_TRIALS: usize = 8;

/// A host with the boundaries at which its guest fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Around {
    /// Offsets of the host's buffers in bytes; `None` if those of the host are kept.
    pub offsets: Option<Vec<u64>>,
    /// Boundaries at which the guest fits.
    pub admissions: Vec<Admission>,
}

impl Around {
    /// Number of boundaries at which the guest fits.
    #[must_use]
    pub fn boundaries(&self) -> u64 {
        self.admissions.iter().map(|run| u64::from(run.last - run.first) + 1).sum()
    }
}

/// Places a host of at most `size` bytes around a guest of `bytes` bytes at a multiple of `alignment`, so
/// that the guest fits at as many boundaries as found; never at fewer than with the host's own offsets.
///
/// Time is doubled: buffers live at even steps, and across a boundary if they live on both of its sides; the
/// guest is one buffer that lives only at odd steps, those of boundaries with enough free bytes. If no
/// placement is found within the host's arena, boundaries with the least free bytes are given up, by
/// bisection.
///
/// # Errors
/// The buffers of the host are no placement problem.
pub fn around(host: &Part, bytes: u64, alignment: u64, limit: &Limit) -> Result<Around, ProblemError> {
    let extents = host.extents();
    let size = host.size;
    let own = admissions(&extents, host.steps, size, bytes, alignment);
    let mut best = Around { offsets: None, admissions: own };
    let loads = boundary_loads(host);
    // Free bytes of the boundaries with room, ascending: each one is a threshold.
    let mut room: Vec<u64> =
        loads.iter().filter_map(|load| size.checked_sub(*load).filter(|free| *free >= bytes)).collect();
    room.sort_unstable();
    if host.is_rigid || best.boundaries() >= room.len() as u64 || bytes == 0 {
        return Ok(best);
    }
    // Place for the boundaries with at least the free bytes of a threshold; the first one takes all.
    let (mut low, mut high) = (0_usize, room.len());
    for trial in 0..MAX_TRIALS {
        let at = if trial == 0 { 0 } else { low.midpoint(high) };
        let Some(threshold) = room.get(at).copied().filter(|_| low < high) else { break };
        let problem = doubled(host, &loads, size, threshold, (bytes, alignment));
        let outcome = place::solve(&problem, limit)?;
        let solution = outcome.solution.filter(|solution| solution.height <= size);
        let is_found = solution.is_some();
        if let Some(mut offsets) = solution.map(|solution| solution.offsets) {
            offsets.truncate(host.buffers.len());
            let moved: Vec<Extent> =
                host.buffers.iter().zip(&offsets).flat_map(|(placed, offset)| placed.at(*offset)).collect();
            let admissions = admissions(&moved, host.steps, size, bytes, alignment);
            let found = Around { offsets: Some(offsets), admissions };
            if found.boundaries() > best.boundaries() {
                best = found;
            }
        }
        // The bound is reached, or fewer boundaries are tried, or more.
        if is_found && (at == 0 || outcome.stop == StopReason::Exhausted) {
            break;
        }
        if is_found { high = at } else { low = at + 1 }
    }
    Ok(best)
}

/// Bytes in use across each boundary.
fn boundary_loads(host: &Part) -> Vec<u64> {
    let across = |placed: &Placed| -> Vec<Extent> {
        let long = placed.extents.iter().filter(|extent| extent.end > extent.start.saturating_add(1));
        long.map(|extent| Extent { end: extent.end - 1, ..*extent }).collect()
    };
    let buffers: Vec<Vec<Extent>> = host.buffers.iter().map(across).collect();
    loads(buffers.iter().map(Vec::as_slice), host.steps.saturating_sub(1))
}

/// The placement of the host's buffers and of the guest at all boundaries with free bytes of a threshold.
fn doubled(
    host: &Part,
    loads: &[u64],
    size: u64,
    threshold: u64,
    (bytes, alignment): (u64, u64),
) -> place::Problem {
    // The last step of a range does not reach the boundary behind it.
    let twice = |extent: &Extent| Extent { start: extent.start * 2, end: extent.end * 2 - 1, ..*extent };
    let mut buffers: Vec<Buffer> = Vec::with_capacity(host.buffers.len() + 1);
    for placed in &host.buffers {
        let extents: Vec<Extent> =
            placed.extents.iter().filter(|extent| extent.start < extent.end).map(twice).collect();
        buffers.push(buffer(&extents, placed.size, placed.alignment));
    }
    let has_room = |load: &u64| size.checked_sub(*load).is_some_and(|free| free >= threshold);
    let admitted: Vec<u32> =
        (0_u32..).zip(loads).filter(|(_, load)| has_room(load)).map(|(boundary, _)| boundary).collect();
    if let (Some(first), Some(last)) = (admitted.first(), admitted.last()) {
        let mut guest =
            Buffer { alignment: alignment.max(1), ..Buffer::new(first * 2 + 1, last * 2 + 2, bytes) };
        for pair in admitted.windows(2) {
            guest.gaps.push(Gap { start: pair[0] * 2 + 2, end: pair[1] * 2 + 1, window: None });
        }
        buffers.push(guest);
    }
    place::Problem { buffers, capacity: Some(size) }
}
