//! Serial programs: one arena for programs that run one after another, with values that are handed over.

use std::collections::BTreeMap;

use super::problem::{Answer, Serial, SerialError};
use super::shape::{Extent, buffer, loads};
use crate::{Limit, Outcome, StopReason, place};

/// Returns the lower bound of the arena: most bytes of buffers and handed-over values at one step.
/// O(buffers log buffers).
///
/// # Errors
/// The problem is invalid, see [`Serial::validate`].
pub fn bound(problem: &Serial) -> Result<u64, SerialError> {
    problem.validate()?;
    let groups = Groups::of(problem);
    let steps = problem.parts.iter().fold(0_u32, |sum, part| sum.saturating_add(part.steps));
    let most = loads(groups.pieces.iter().map(Vec::as_slice), steps).into_iter().max().unwrap_or(0);
    let sizes = problem.parts.iter().flat_map(|part| &part.buffers).map(|placed| placed.size);
    Ok(most.max(sizes.max().unwrap_or(0)))
}

/// Places programs that run one after another.
///
/// First all programs keep their offsets: each one begins at the lowest byte at which it meets no value that
/// is handed over around it, or at the byte that its own input demands. If this is above the lower bound and
/// no program is rigid, all buffers are placed anew, with a buffer and the values that it becomes as one; the
/// smaller arena counts, and among equal ones kept offsets. With `keep`, offsets are always kept.
///
/// Without handoffs the answer is the largest arena of a program.
///
/// # Errors
/// The problem is invalid, or a program cannot keep its offsets and must.
pub fn serial(problem: &Serial, keep: bool, limit: &Limit) -> Result<Outcome<Answer>, SerialError> {
    let bound = bound(problem)?;
    let kept = kept(problem);
    let is_rigid = keep || problem.parts.iter().any(|part| part.is_rigid);
    let found = |answer: Answer, stop, effort| {
        let (value, stop) =
            (Some(answer.size), if answer.size <= bound { StopReason::BoundReached } else { stop });
        Outcome { solution: Some(answer), value, lower_bound: bound, stop, effort }
    };
    match kept {
        Ok(answer) if is_rigid || answer.size <= bound || problem.handoffs.is_empty() => {
            Ok(found(answer, StopReason::HeuristicsOnly, 0))
        }
        Err(error) if is_rigid => Err(error),
        kept => {
            let groups = Groups::of(problem);
            let outcome = place::solve(&groups.place(problem), limit)?;
            let moved = outcome.solution.map(|solution| groups.answer(problem, &solution.offsets));
            let best = [kept.ok(), moved].into_iter().flatten().min_by_key(|answer| answer.size);
            // The placement has no capacity, so there is an answer.
            let best = best.ok_or(SerialError::Rigid { part: 0 })?;
            Ok(found(best, outcome.stop, outcome.effort))
        }
    }
}

/// Moves each program as a whole.
fn kept(problem: &Serial) -> Result<Answer, SerialError> {
    let alignment = problem.parts.iter().map(|part| part.alignment.max(1)).max().unwrap_or(1);
    let mut bases: Vec<u64> = Vec::new();
    for (number, part) in problem.parts.iter().enumerate() {
        let place = |from: usize, buffer: usize, at: u64| {
            let offset = problem.parts[from].buffers[buffer].offset;
            bases[from].saturating_add(offset).saturating_add(at)
        };
        let mut forced = None;
        // Ranges of bases at which some extent meets a value, both ends outside.
        let mut forbidden: Vec<(i128, i128)> = Vec::new();
        for handoff in problem.handoffs.iter().filter(|handoff| handoff.from < number && number <= handoff.to)
        {
            let low = place(handoff.from, handoff.buffer, handoff.at);
            let value = (i128::from(low), i128::from(low) + i128::from(handoff.bytes));
            let until = if handoff.to == number { handoff.until } else { u32::MAX };
            let own = |buffer: usize| {
                let source = (handoff.from, handoff.buffer);
                let fills = |other: &super::problem::Handoff| {
                    (other.from, other.buffer) == source && (other.to, other.into) == (number, Some(buffer))
                };
                problem.handoffs.iter().any(fills)
            };
            if let Some(into) = handoff.into.filter(|_| handoff.to == number) {
                let base =
                    low.checked_sub(part.buffers[into].offset).filter(|base| base.is_multiple_of(alignment));
                let base = base.filter(|base| forced.is_none_or(|forced| forced == *base));
                forced = Some(base.ok_or(SerialError::Rigid { part: number })?);
            }
            for (_, placed) in part.buffers.iter().enumerate().filter(|(buffer, _)| !own(*buffer)) {
                for extent in placed.at(placed.offset).filter(|extent| extent.start < until) {
                    forbidden.push((value.0 - i128::from(extent.high), value.1 - i128::from(extent.low)));
                }
            }
        }
        forbidden.sort_unstable();
        let base = match forced {
            Some(base) => {
                let is_free =
                    !forbidden.iter().any(|(low, high)| *low < i128::from(base) && i128::from(base) < *high);
                is_free.then_some(base).ok_or(SerialError::Rigid { part: number })?
            }
            None => lowest(&forbidden, alignment).ok_or(SerialError::Rigid { part: number })?,
        };
        bases.push(base);
    }
    let offsets: Vec<Vec<u64>> = problem
        .parts
        .iter()
        .zip(&bases)
        .map(|(part, base)| part.buffers.iter().map(|placed| placed.offset.saturating_add(*base)).collect())
        .collect();
    Ok(Answer { is_kept: true, bases, size: size(problem, &offsets), offsets })
}

/// Lowest multiple of an alignment outside of sorted ranges whose ends are allowed.
fn lowest(forbidden: &[(i128, i128)], alignment: u64) -> Option<u64> {
    let mut base = 0_u64;
    for (low, high) in forbidden {
        if *low < i128::from(base) && i128::from(base) < *high {
            base = u64::try_from(*high).ok()?.checked_next_multiple_of(alignment)?;
        }
    }
    // Ranges are sorted by their beginnings, so an earlier one may end behind a later base.
    let is_free = !forbidden.iter().any(|(low, high)| *low < i128::from(base) && i128::from(base) < *high);
    if is_free { Some(base) } else { None }
}

fn size(problem: &Serial, offsets: &[Vec<u64>]) -> u64 {
    let tops = problem.parts.iter().zip(offsets).flat_map(|(part, offsets)| {
        part.buffers.iter().zip(offsets).map(|(placed, offset)| offset.saturating_add(placed.size))
    });
    tops.max().unwrap_or(0)
}

/// Buffers that must lie together: a buffer, and those that its bytes become in later programs.
struct Groups {
    /// Group of each buffer, and its first byte in the group, by program.
    of: Vec<Vec<(usize, u64)>>,
    /// Bytes in use of each group, counted from its first one, by steps of all programs in a row.
    pieces: Vec<Vec<Extent>>,
    alignments: Vec<u64>,
}

impl Groups {
    fn of(problem: &Serial) -> Self {
        let filled: BTreeMap<(usize, usize), (usize, usize, u64)> = problem
            .handoffs
            .iter()
            .filter_map(|handoff| {
                Some(((handoff.to, handoff.into?), (handoff.from, handoff.buffer, handoff.at)))
            })
            .collect();
        let mut starts = vec![0_u32];
        starts.extend(problem.parts.iter().scan(0_u32, |sum, part| {
            *sum = sum.saturating_add(part.steps);
            Some(*sum)
        }));
        let mut groups = Self { of: Vec::new(), pieces: Vec::new(), alignments: Vec::new() };
        for (number, part) in problem.parts.iter().enumerate() {
            let mut of = Vec::with_capacity(part.buffers.len());
            for (buffer, placed) in part.buffers.iter().enumerate() {
                // Sources are in earlier programs, whose groups are known.
                let source = filled.get(&(number, buffer)).map(|(from, buffer, at)| {
                    let (group, inside): (usize, u64) = groups.of[*from][*buffer];
                    (group, inside.saturating_add(*at))
                });
                let (group, inside) = source.unwrap_or_else(|| {
                    groups.pieces.push(Vec::new());
                    groups.alignments.push(1);
                    (groups.pieces.len() - 1, 0)
                });
                groups.alignments[group] = groups.alignments[group].max(placed.alignment);
                let start = starts[number];
                groups.pieces[group].extend(placed.at(inside).map(|extent| Extent {
                    start: extent.start.saturating_add(start),
                    end: extent.end.saturating_add(start),
                    ..extent
                }));
                of.push((group, inside));
            }
            groups.of.push(of);
        }
        for handoff in &problem.handoffs {
            let (group, inside) = groups.of[handoff.from][handoff.buffer];
            let low = inside.saturating_add(handoff.at);
            groups.pieces[group].push(Extent {
                start: starts[handoff.from + 1],
                end: starts[handoff.to].saturating_add(handoff.until),
                low,
                high: low.saturating_add(handoff.bytes),
            });
        }
        groups
    }

    /// The placement of all groups.
    fn place(&self, problem: &Serial) -> place::Problem {
        let mut sizes = vec![0_u64; self.pieces.len()];
        for (part, of) in problem.parts.iter().zip(&self.of) {
            for (placed, (group, inside)) in part.buffers.iter().zip(of) {
                sizes[*group] = sizes[*group].max(inside.saturating_add(placed.size));
            }
        }
        let all = self.pieces.iter().zip(sizes).zip(&self.alignments);
        let buffers = all.map(|((pieces, size), alignment)| buffer(pieces, size, *alignment));
        place::Problem { buffers: buffers.collect(), capacity: None }
    }

    fn answer(&self, problem: &Serial, places: &[u64]) -> Answer {
        let offset =
            |(group, inside): &(usize, u64)| places.get(*group).copied().unwrap_or(0).saturating_add(*inside);
        let offsets: Vec<Vec<u64>> = self.of.iter().map(|of| of.iter().map(offset).collect()).collect();
        Answer { is_kept: false, bases: vec![0; problem.parts.len()], size: size(problem, &offsets), offsets }
    }
}
