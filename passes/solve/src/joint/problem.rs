//! Programs with placed buffers, the values that pass between them, and the places of all.

use thiserror::Error;

use super::shape::Extent;
use crate::place::ProblemError;

/// A buffer at its offset in the arena of its program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// First byte in the arena of the program, in bytes.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
    /// Alignment of the offset, in bytes.
    pub alignment: u64,
    /// Bytes in use, counted from the first byte of the buffer. Extents that follow each other in one value
    /// have a common step: the one that reads the first and writes the second.
    pub extents: Vec<Extent>,
}

impl Placed {
    /// Returns the bytes in use for an offset of the buffer. O(extents).
    pub fn at(&self, offset: u64) -> impl Iterator<Item = Extent> {
        self.extents.iter().map(move |extent| Extent {
            low: offset.saturating_add(extent.low),
            high: offset.saturating_add(extent.high),
            ..*extent
        })
    }
}

/// A program: its steps, and its buffers in an arena of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Number of steps.
    pub steps: u32,
    /// Buffers with their offsets.
    pub buffers: Vec<Placed>,
    /// Alignment of the arena, in bytes; a power of two.
    pub alignment: u64,
    /// Size of the arena, in bytes.
    pub size: u64,
    /// Whether the offsets must stay as they are, relative to each other.
    pub is_rigid: bool,
}

impl Part {
    /// Returns the bytes in use by steps, at the offsets of the program.
    #[must_use]
    pub fn extents(&self) -> Vec<Extent> {
        self.buffers.iter().flat_map(|placed| placed.at(placed.offset)).collect()
    }

    /// Returns the bytes in use at each step: bytes of one buffer count once. O(steps + extents · extents of
    /// one buffer).
    #[must_use]
    pub fn loads(&self) -> Vec<u64> {
        super::shape::loads(self.buffers.iter().map(|placed| &placed.extents[..]), self.steps)
    }

    /// Returns the most bytes in use at one step, and at least the largest buffer: no arena is smaller.
    #[must_use]
    pub fn bound(&self) -> u64 {
        let sizes = self.buffers.iter().map(|placed| placed.size);
        self.loads().into_iter().chain(sizes).max().unwrap_or(0)
    }
}

/// A value that one program leaves in its arena for a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handoff {
    /// Program that makes the value, as a position in the list of programs.
    pub from: usize,
    /// Buffer that holds it there.
    pub buffer: usize,
    /// First byte of the value in that buffer.
    pub at: u64,
    /// Size of the value, in bytes.
    pub bytes: u64,
    /// Program that reads it, later than `from`.
    pub to: usize,
    /// Buffer of that program that is the value; `None` if its arena has none.
    pub into: Option<usize>,
    /// Step of that program before which the value must still be there.
    pub until: u32,
}

/// Programs that run one after another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Serial {
    /// Programs in the order of their runs.
    pub parts: Vec<Part>,
    /// Values that pass between them.
    pub handoffs: Vec<Handoff>,
}

/// Places of all programs in one arena.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether the offsets of a program are those of its own arena, moved by one number of bytes.
    pub is_kept: bool,
    /// First byte of each program's own arena; 0 if offsets are not kept.
    pub bases: Vec<u64>,
    /// Offsets of all buffers, by program, in bytes.
    pub offsets: Vec<Vec<u64>>,
    /// Highest end of a buffer, in bytes.
    pub size: u64,
}

/// Reason why programs cannot share an arena.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SerialError {
    /// A handoff names no program, no buffer, or one that runs earlier.
    #[error(
        "handoff {handoff} leads from a program to none that runs later, or names bytes outside its buffer"
    )]
    Handoff {
        /// Position of the handoff.
        handoff: usize,
    },
    /// Two handoffs fill one buffer.
    #[error("handoff {handoff} fills a buffer that another one fills")]
    Twice {
        /// Position of the second handoff.
        handoff: usize,
    },
    /// A value begins at a byte at which its reader cannot have a buffer.
    #[error("handoff {handoff} begins at byte {at} of its buffer, which is not a multiple of {alignment}")]
    Alignment {
        /// Position of the handoff.
        handoff: usize,
        /// First byte.
        at: u64,
        /// Alignment of the reader's buffers.
        alignment: u64,
    },
    /// With the offsets of each program kept, the places of a program contradict each other.
    #[error(
        "program {part} cannot keep its offsets: a value that is handed over to it would have to lie elsewhere"
    )]
    Rigid {
        /// Position of the program.
        part: usize,
    },
    /// The buffers are no placement problem.
    #[error(transparent)]
    Place(#[from] ProblemError),
}

impl Serial {
    /// Checks the handoffs. O(programs + buffers + handoffs).
    ///
    /// # Errors
    /// The first one that cannot be.
    pub fn validate(&self) -> Result<(), SerialError> {
        let mut filled = std::collections::BTreeSet::new();
        for (number, handoff) in self.handoffs.iter().enumerate() {
            let wrong = SerialError::Handoff { handoff: number };
            let from = self
                .parts
                .get(handoff.from)
                .and_then(|part| part.buffers.get(handoff.buffer))
                .ok_or_else(|| wrong.clone())?;
            let to = self
                .parts
                .get(handoff.to)
                .filter(|_| handoff.from < handoff.to)
                .ok_or_else(|| wrong.clone())?;
            let end = handoff.at.checked_add(handoff.bytes).filter(|end| *end <= from.size);
            let fits = handoff
                .into
                .is_none_or(|into| to.buffers.get(into).is_some_and(|into| into.size <= handoff.bytes));
            if end.is_none() || !fits || handoff.until > to.steps {
                return Err(wrong);
            }
            let Some(into) = handoff.into else { continue };
            if !filled.insert((handoff.to, into)) {
                return Err(SerialError::Twice { handoff: number });
            }
            let alignment = to.buffers[into].alignment;
            if !handoff.at.is_multiple_of(alignment.max(1)) {
                return Err(SerialError::Alignment { handoff: number, at: handoff.at, alignment });
            }
        }
        Ok(())
    }
}
