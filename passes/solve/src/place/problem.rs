//! The placement problem and its solution: buffers with live ranges, sizes and constraints, and their
//! offsets in one arena.

use thiserror::Error;

/// A placement problem: give each buffer an offset so that no two buffers share a byte at a step at
/// which both live.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// The buffers. Ties are broken in favor of earlier ones.
    pub buffers: Vec<Buffer>,
    /// Largest acceptable height, in bytes; `None` requests the smallest height.
    pub capacity: Option<u64>,
}

/// A range of bytes that lives for a range of steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// First step at which the buffer lives.
    pub start: u32,
    /// First step at which the buffer no longer lives (half-open); equal to `start` if it never lives.
    pub end: u32,
    /// Size in bytes.
    pub size: u64,
    /// Alignment of the offset, in bytes; 1 means no constraint.
    pub alignment: u64,
    /// Required offset in bytes; `None` if the buffer may be placed anywhere.
    pub fixed_offset: Option<u64>,
    /// Runs of steps at which only a part of the buffer lives, or none of it; sorted, disjoint, within
    /// the live range.
    pub gaps: Vec<Gap>,
}

impl Buffer {
    /// Creates a buffer that lives completely at steps `start..end`, without alignment and without a
    /// fixed offset.
    #[must_use]
    pub const fn new(start: u32, end: u32, size: u64) -> Self {
        Self { start, end, size, alignment: 1, fixed_offset: None, gaps: Vec::new() }
    }
}

/// A run of steps at which a buffer does not live completely. For an alias group with sub-views, there
/// is one gap for each run of steps with one range of live bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// First step of the gap.
    pub start: u32,
    /// First step after the gap.
    pub end: u32,
    /// Bytes of the buffer that live during the gap, as a half-open range relative to its offset; `None`
    /// if no byte lives.
    pub window: Option<(u64, u64)>,
}

/// Offsets for all buffers of a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// Offset of each buffer in bytes, in the order of [`Problem::buffers`].
    pub offsets: Vec<u64>,
    /// Size of the arena: the highest offset + size of all buffers, in bytes.
    pub height: u64,
}

impl Solution {
    /// Computes the height of the given offsets. O(n).
    #[must_use]
    pub fn from_offsets(problem: &Problem, offsets: Vec<u64>) -> Self {
        let tops =
            problem.buffers.iter().zip(&offsets).map(|(buffer, offset)| offset.saturating_add(buffer.size));
        let height = tops.max().unwrap_or(0);
        Self { offsets, height }
    }
}

/// Reason why a set of buffers is not a placement problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProblemError {
    /// A live range ends before it starts.
    #[error("buffer {buffer}: its live range {start}..{end} ends before it starts")]
    BackwardRange {
        /// Index of the buffer.
        buffer: usize,
        /// First step.
        start: u32,
        /// End step.
        end: u32,
    },
    /// An alignment is zero.
    #[error("buffer {buffer}: the alignment is 0")]
    ZeroAlignment {
        /// Index of the buffer.
        buffer: usize,
    },
    /// A fixed offset contradicts the alignment.
    #[error("buffer {buffer}: the fixed offset {offset} is not a multiple of its alignment {alignment}")]
    MisalignedFixedOffset {
        /// Index of the buffer.
        buffer: usize,
        /// The fixed offset.
        offset: u64,
        /// The alignment.
        alignment: u64,
    },
    /// A gap is outside the live range, is empty, overlaps its predecessor, or has live bytes outside
    /// the buffer.
    #[error(
        "buffer {buffer}: gap {gap} is outside the buffer's steps or bytes, empty, or not after its predecessor"
    )]
    BadGap {
        /// Index of the buffer.
        buffer: usize,
        /// Index of the gap.
        gap: usize,
    },
    /// The sum of all sizes and alignments, or a fixed offset, is too large for 64-bit offsets.
    #[error("buffer {buffer}: the sum of the sizes up to this one exceeds the range of 64-bit offsets")]
    TooLarge {
        /// Index of the buffer at which the sum overflows.
        buffer: usize,
    },
    /// There are more buffers or gaps than 32-bit indices can name.
    #[error("{count} live ranges exceed the limit of {}", u32::MAX / 4)]
    TooMany {
        /// Number of live ranges.
        count: usize,
    },
}

/// Largest allowed sum of sizes, in bytes. It keeps offsets, loads and areas of sections from
/// overflowing 64 bits.
const MAX_SUM: u64 = u64::MAX / 8;

impl Problem {
    /// Checks all properties that the solvers rely on. O(n + gaps).
    ///
    /// # Errors
    /// Returns the first rule that does not hold, with the buffer that breaks it.
    pub fn validate(&self) -> Result<(), ProblemError> {
        let mut sum = 0_u64;
        let mut highest_fixed = 0_u64;
        let mut ranges = self.buffers.len();
        for (index, buffer) in self.buffers.iter().enumerate() {
            buffer.validate(index)?;
            ranges = ranges.saturating_add(buffer.gaps.len().saturating_mul(2));
            let too_large = ProblemError::TooLarge { buffer: index };
            let padded = buffer.size.checked_add(buffer.alignment).ok_or(too_large)?;
            sum = sum.checked_add(padded).ok_or(too_large)?;
            if let Some(offset) = buffer.fixed_offset {
                highest_fixed = highest_fixed.max(offset.checked_add(buffer.size).ok_or(too_large)?);
            }
            if sum.checked_add(highest_fixed).is_none_or(|total| total > MAX_SUM) {
                return Err(too_large);
            }
        }
        if ranges > (u32::MAX / 4) as usize {
            return Err(ProblemError::TooMany { count: ranges });
        }
        Ok(())
    }
}

impl Buffer {
    fn validate(&self, index: usize) -> Result<(), ProblemError> {
        if self.start > self.end {
            return Err(ProblemError::BackwardRange { buffer: index, start: self.start, end: self.end });
        }
        if self.alignment == 0 {
            return Err(ProblemError::ZeroAlignment { buffer: index });
        }
        if let Some(offset) = self.fixed_offset.filter(|offset| offset % self.alignment != 0) {
            return Err(ProblemError::MisalignedFixedOffset {
                buffer: index,
                offset,
                alignment: self.alignment,
            });
        }
        let mut from = self.start;
        for (number, gap) in self.gaps.iter().enumerate() {
            let window = gap.window.unwrap_or((0, 0));
            let steps_hold = from <= gap.start && gap.start < gap.end && gap.end <= self.end;
            if !steps_hold || window.0 > window.1 || window.1 > self.size {
                return Err(ProblemError::BadGap { buffer: index, gap: number });
            }
            from = gap.end;
        }
        Ok(())
    }
}
