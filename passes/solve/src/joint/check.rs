//! The checker of joint places. It shares no code with the solvers, except for types.

use thiserror::Error;

use super::nested::Admission;
use super::problem::{Answer, Handoff, Part, Serial};
use super::shape::Extent;

/// Reason why places are no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    /// A list has another length than the problem.
    #[error("the answer has another number of programs or buffers than the problem")]
    Count,
    /// A buffer of a program is misaligned, or meets another one of the program.
    #[error("program {part}: buffer {buffer} is misaligned or meets another one")]
    Part {
        /// Position of the program.
        part: usize,
        /// Position of the buffer.
        buffer: usize,
    },
    /// A program that keeps its offsets is not moved as a whole.
    #[error("program {part}: the offset of buffer {buffer} is not that of its own arena plus the base")]
    Moved {
        /// Position of the program.
        part: usize,
        /// Position of the buffer.
        buffer: usize,
    },
    /// A buffer meets a value that is handed over.
    #[error("handoff {handoff}: buffer {buffer} of program {part} meets the value")]
    Met {
        /// Position of the handoff.
        handoff: usize,
        /// Program of the buffer.
        part: usize,
        /// Position of the buffer.
        buffer: usize,
    },
    /// Two values that are handed over meet.
    #[error("handoffs {one} and {other} meet")]
    Both {
        /// Position of a handoff.
        one: usize,
        /// Position of the other.
        other: usize,
    },
    /// A value is not in the place from which its reader takes it.
    #[error("handoff {handoff}: the reader's buffer is not in the place of the value")]
    Elsewhere {
        /// Position of the handoff.
        handoff: usize,
    },
    /// The stated size differs from the highest end.
    #[error("the stated size is {stated}, the highest end is {found}")]
    Size {
        /// Size in the answer, in bytes.
        stated: u64,
        /// Highest end, in bytes.
        found: u64,
    },
    /// A guest is misaligned, outside the arena, or meets a buffer of the host.
    #[error(
        "after step {boundary}, a guest at byte {base} is misaligned, outside, or meets a buffer of the host"
    )]
    Guest {
        /// The boundary.
        boundary: u32,
        /// First byte of the guest.
        base: u64,
    },
}

/// Checks the places of programs that run one after another. O(buffers · (log buffers + handoffs)).
///
/// # Errors
/// Returns the first rule that is broken.
pub fn check_serial(problem: &Serial, answer: &Answer) -> Result<(), Violation> {
    let count = problem.parts.len();
    if answer.offsets.len() != count || answer.bases.len() != count {
        return Err(Violation::Count);
    }
    let mut top = 0;
    for (number, (part, offsets)) in problem.parts.iter().zip(&answer.offsets).enumerate() {
        if part.buffers.len() != offsets.len() {
            return Err(Violation::Count);
        }
        for (buffer, (placed, offset)) in part.buffers.iter().zip(offsets).enumerate() {
            top = top.max(offset.saturating_add(placed.size));
            let is_moved = placed.offset.checked_add(answer.bases[number]) != Some(*offset);
            if is_moved && (answer.is_kept || part.is_rigid) {
                return Err(Violation::Moved { part: number, buffer });
            }
        }
        check_part(number, part, offsets)?;
    }
    check_handoffs(problem, answer)?;
    if top != answer.size {
        return Err(Violation::Size { stated: answer.size, found: top });
    }
    Ok(())
}

/// Checks the buffers of one program against each other. O(extents · extents live at once).
fn check_part(number: usize, part: &Part, offsets: &[u64]) -> Result<(), Violation> {
    let mut all: Vec<(usize, Extent)> = Vec::new();
    for (buffer, (placed, offset)) in part.buffers.iter().zip(offsets).enumerate() {
        if !offset.is_multiple_of(placed.alignment.max(1)) {
            return Err(Violation::Part { part: number, buffer });
        }
        all.extend(
            placed.at(*offset).filter(|extent| extent.start < extent.end).map(|extent| (buffer, extent)),
        );
    }
    all.sort_unstable_by_key(|(_, extent)| extent.start);
    let mut live: Vec<(usize, Extent)> = Vec::new();
    for (buffer, extent) in all {
        live.retain(|(_, other)| other.end > extent.start);
        if live
            .iter()
            .any(|(other, place)| *other != buffer && place.low < extent.high && extent.low < place.high)
        {
            return Err(Violation::Part { part: number, buffer });
        }
        live.push((buffer, extent));
    }
    Ok(())
}

fn check_handoffs(problem: &Serial, answer: &Answer) -> Result<(), Violation> {
    let offset =
        |part: usize, buffer: usize| answer.offsets.get(part).and_then(|all| all.get(buffer)).copied();
    let mut values = Vec::new();
    for (number, handoff) in problem.handoffs.iter().enumerate() {
        let low = offset(handoff.from, handoff.buffer)
            .and_then(|offset| offset.checked_add(handoff.at))
            .ok_or(Violation::Count)?;
        values.push((low, low.saturating_add(handoff.bytes)));
        if handoff.into.is_some_and(|into| offset(handoff.to, into) != Some(low)) {
            return Err(Violation::Elsewhere { handoff: number });
        }
    }
    let meets = |(low, high): (u64, u64), (other, end): (u64, u64)| low < end && other < high;
    for (number, (handoff, value)) in problem.handoffs.iter().zip(&values).enumerate() {
        for part in handoff.from + 1..=handoff.to {
            let until = if part == handoff.to { handoff.until } else { u32::MAX };
            for (buffer, placed) in problem.parts[part].buffers.iter().enumerate() {
                let own = is_value(problem, part, buffer, number);
                let lives =
                    |extent: &Extent| extent.start < until && meets(*value, (extent.low, extent.high));
                if !own && placed.at(answer.offsets[part][buffer]).any(|extent| lives(&extent)) {
                    return Err(Violation::Met { handoff: number, part, buffer });
                }
            }
        }
        // Values with common steps have common bytes only if one buffer holds both.
        for (second, (other, place)) in problem.handoffs.iter().zip(&values).enumerate().skip(number + 1) {
            let together = handoff.from.max(other.from) < handoff.to.min(other.to) || handoff.to == other.to;
            let one_source = (handoff.from, handoff.buffer) == (other.from, other.buffer);
            if together && !one_source && meets(*value, *place) && !is_passed_on(problem, number, second) {
                return Err(Violation::Both { one: number, other: second });
            }
        }
    }
    Ok(())
}

/// Whether a buffer is the value of a handoff, in the program that reads it or in one that passes it on.
fn is_value(problem: &Serial, part: usize, buffer: usize, handoff: usize) -> bool {
    let source = (problem.handoffs[handoff].from, problem.handoffs[handoff].buffer);
    let fills = |other: &Handoff| {
        (other.from, other.buffer) == source && other.to == part && other.into == Some(buffer)
    };
    problem.handoffs.iter().any(fills)
}

/// Whether one handoff hands over the buffer that the other one filled.
fn is_passed_on(problem: &Serial, one: usize, other: usize) -> bool {
    let (one, other) = (&problem.handoffs[one], &problem.handoffs[other]);
    let follows =
        |first: &Handoff, second: &Handoff| first.into == Some(second.buffer) && first.to == second.from;
    follows(one, other) || follows(other, one)
}

/// Checks that a guest of `bytes` bytes fits at all boundaries of its admissions. O(boundaries · extents).
///
/// # Errors
/// Returns the first boundary at which it does not.
pub fn check_nested(
    extents: &[Extent],
    steps: u32,
    size: u64,
    (bytes, alignment): (u64, u64),
    admissions: &[Admission],
) -> Result<(), Violation> {
    for run in admissions {
        for boundary in run.first..=run.last {
            let end = run
                .base
                .checked_add(bytes)
                .filter(|end| *end <= size && run.base.is_multiple_of(alignment.max(1)));
            let fits = end.is_some_and(|end| is_free(extents, boundary, run.base, end));
            if !fits || boundary.saturating_add(1) >= steps {
                return Err(Violation::Guest { boundary, base: run.base });
            }
        }
    }
    Ok(())
}

/// Whether bytes are in use across the boundary after a step: before it and behind it.
fn crosses(extent: &Extent, boundary: u32) -> bool {
    extent.start <= boundary && boundary.saturating_add(1) < extent.end
}

/// Whether a place is free across a boundary. O(extents).
fn is_free(extents: &[Extent], boundary: u32, low: u64, high: u64) -> bool {
    let meets = |extent: &Extent| crosses(extent, boundary) && extent.low < high && low < extent.high;
    !extents.iter().any(meets)
}
