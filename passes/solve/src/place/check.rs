//! The independent checker of placements: a sweep over time that shares no code with the solvers.

use std::collections::BTreeMap;

use thiserror::Error;

use super::problem::{Buffer, Problem, Solution};

/// Reason why a placement is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    /// The number of offsets differs from the number of buffers.
    #[error("{offsets} offsets for {buffers} buffers")]
    Count {
        /// Number of offsets.
        offsets: usize,
        /// Number of buffers.
        buffers: usize,
    },
    /// Two buffers share bytes at a step at which both live.
    #[error("at step {step}, buffers {first} and {second} share byte {byte}")]
    Overlap {
        /// Index of the buffer that already lived.
        first: usize,
        /// Index of the buffer that starts to live.
        second: usize,
        /// First step at which they overlap.
        step: u32,
        /// A byte that both buffers occupy.
        byte: u64,
    },
    /// An offset is not a multiple of the buffer's alignment.
    #[error("buffer {buffer}: offset {offset} is not a multiple of {alignment}")]
    Misaligned {
        /// Index of the buffer.
        buffer: usize,
        /// Its offset.
        offset: u64,
        /// Its alignment.
        alignment: u64,
    },
    /// A fixed buffer is placed at another offset.
    #[error("buffer {buffer}: offset {offset}, but it is fixed at {fixed}")]
    Moved {
        /// Index of the buffer.
        buffer: usize,
        /// Its offset.
        offset: u64,
        /// Its fixed offset.
        fixed: u64,
    },
    /// The stated height differs from the highest offset + size.
    #[error("the stated height is {stated}, the actual height is {actual}")]
    WrongHeight {
        /// Height stated in the solution, in bytes.
        stated: u64,
        /// Highest offset + size, in bytes.
        actual: u64,
    },
    /// The height exceeds the problem's capacity.
    #[error("the height {height} is above the capacity {capacity}")]
    AboveCapacity {
        /// Height of the solution, in bytes.
        height: u64,
        /// Capacity of the problem, in bytes.
        capacity: u64,
    },
    /// The end of a buffer does not fit into 64 bits.
    #[error("buffer {buffer}: offset {offset} + its size overflows")]
    Overflow {
        /// Index of the buffer.
        buffer: usize,
        /// Its offset.
        offset: u64,
    },
}

/// Checks a placement. O(n log n).
///
/// # Errors
/// Returns the first rule that is broken, with the buffers and the step.
pub fn check(problem: &Problem, solution: &Solution) -> Result<(), Violation> {
    let count = problem.buffers.len();
    if solution.offsets.len() != count {
        return Err(Violation::Count { offsets: solution.offsets.len(), buffers: count });
    }
    let mut actual = 0;
    for (index, (buffer, &offset)) in problem.buffers.iter().zip(&solution.offsets).enumerate() {
        actual = actual.max(check_alone(index, buffer, offset)?);
    }
    if actual != solution.height {
        return Err(Violation::WrongHeight { stated: solution.height, actual });
    }
    if let Some(capacity) = problem.capacity.filter(|capacity| solution.height > *capacity) {
        return Err(Violation::AboveCapacity { height: solution.height, capacity });
    }
    check_overlaps(problem, &solution.offsets)
}

/// Checks one buffer by itself and returns its top, in bytes.
fn check_alone(index: usize, buffer: &Buffer, offset: u64) -> Result<u64, Violation> {
    if !offset.is_multiple_of(buffer.alignment) {
        return Err(Violation::Misaligned { buffer: index, offset, alignment: buffer.alignment });
    }
    if let Some(fixed) = buffer.fixed_offset.filter(|fixed| *fixed != offset) {
        return Err(Violation::Moved { buffer: index, offset, fixed });
    }
    offset.checked_add(buffer.size).ok_or(Violation::Overflow { buffer: index, offset })
}

/// Step, whether a range starts, buffer, bottom and top. Ends sort before starts.
type Event = (u32, bool, usize, u64, u64);

fn check_overlaps(problem: &Problem, offsets: &[u64]) -> Result<(), Violation> {
    let mut events: Vec<Event> = Vec::new();
    for (index, (buffer, &offset)) in problem.buffers.iter().zip(offsets).enumerate() {
        let mut since = buffer.start;
        for gap in &buffer.gaps {
            push(&mut events, index, (since, gap.start), (offset, offset + buffer.size));
            if let Some((low, high)) = gap.window {
                push(
                    &mut events,
                    index,
                    (gap.start, gap.end),
                    (offset.saturating_add(low), offset.saturating_add(high)),
                );
            }
            since = gap.end;
        }
        push(&mut events, index, (since, buffer.end), (offset, offset + buffer.size));
    }
    events.sort_unstable();
    // The live ranges are disjoint so far. A new range can therefore only overlap the live range with
    // the highest bottom below the new top.
    let mut live: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    for (step, starts, index, bottom, top) in events {
        if !starts {
            live.remove(&bottom);
            continue;
        }
        if let Some((other_bottom, (other_top, other))) = live.range(..top).next_back()
            && *other_top > bottom
        {
            return Err(Violation::Overlap {
                first: *other,
                second: index,
                step,
                byte: bottom.max(*other_bottom),
            });
        }
        live.insert(bottom, (top, index));
    }
    Ok(())
}

fn push(events: &mut Vec<Event>, index: usize, (start, end): (u32, u32), (bottom, top): (u64, u64)) {
    if start < end && bottom < top {
        events.push((start, true, index, bottom, top));
        events.push((end, false, index, bottom, top));
    }
}
