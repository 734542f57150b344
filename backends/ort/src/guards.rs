//! The checking mode: watches every value in an arena from its writer to its last reader, and guards the
//! bytes between values.

use memc_layout::Class;

use crate::error::Error;
use crate::memory::{ArenaMemory, Foreign, POISON};
use crate::places::{Place, Places};
use crate::step::Step;

/// Number of free bytes that are examined on each side of a result.
const NEIGHBORHOOD: usize = 64;

/// Bytes of an arena with their live range in the plan.
#[derive(Clone, Copy, Debug)]
struct Span {
    arena: usize,
    start: usize,
    end: usize,
    /// First step that uses the bytes, and the step after the last one.
    from: u64,
    to: u64,
}

/// Log of all writes, and checksums of the written values.
#[derive(Debug)]
pub(crate) struct Watch {
    /// All values and workspaces in arenas.
    spans: Vec<Span>,
    /// For each slot, the checksum of its bytes when it was written, and the length of `writes` at that
    /// time.
    sums: Vec<Option<(u64, usize)>>,
    /// Writes in order: step, arena, first byte, end, and whether the write poisoned dead bytes.
    writes: Vec<(usize, usize, usize, usize, bool)>,
    names: Vec<String>,
    /// Number of steps of the schedule; values that are live to the end are not poisoned.
    steps: u64,
}

impl Watch {
    /// Watches the values of a plan. `foreign` are bytes of other plans, by arena, which stay as they are.
    pub(crate) fn new(places: &Places, steps: usize, foreign: &[Foreign]) -> Self {
        let mut spans = Vec::new();
        for bytes in foreign {
            spans.push(Span { arena: bytes.arena, start: bytes.start, end: bytes.end, from: 0, to: u64::MAX });
        }
        for slot in &places.slots {
            if let Place::Arena { arena, offset } = slot.place {
                let (from, to) = (slot.live.start, slot.live.end);
                spans.push(Span { arena, start: offset, end: offset + slot.bytes, from, to });
            }
        }
        for (step, work) in &places.workspace {
            let (start, end) = (work.offset, work.offset + work.bytes);
            spans.push(Span { arena: work.arena, start, end, from: *step, to: *step + 1 });
        }
        Self {
            spans,
            sums: vec![None; places.slots.len()],
            writes: Vec::new(),
            names: Vec::with_capacity(steps),
            steps: steps as u64,
        }
    }

    /// Records that a value is complete; `step` is `None` for graph inputs.
    pub(crate) fn wrote(&mut self, slot: usize, step: Option<usize>, places: &Places, arenas: &[ArenaMemory]) {
        if let Place::Arena { arena, offset } = places.slots[slot].place {
            let end = offset + places.slots[slot].bytes;
            self.sums[slot] = Some((checksum(&arenas[arena].bytes()[offset..end]), self.writes.len()));
            if let Some(step) = step {
                self.writes.push((step, arena, offset, end, false));
            }
        }
    }

    /// Checks that every operand still has the bytes that its producer wrote.
    pub(crate) fn before(&self, position: usize, step: &Step<'_>, places: &Places, arenas: &[ArenaMemory]) -> Result<(), Error> {
        step.inputs.iter().try_for_each(|slot| self.intact(*slot, position, &step.name, places, arenas))
    }

    fn intact(&self, slot: usize, position: usize, node: &str, places: &Places, arenas: &[ArenaMemory]) -> Result<(), Error> {
        let data = &places.slots[slot];
        let Place::Arena { arena, offset } = data.place else { return Ok(()) };
        // A body may read a value that is written later or, on the path taken, never. Only written
        // values are compared.
        let none = || Error::NoValue { step: position as u64, node: node.to_owned(), tensor: data.name.clone() };
        let (sum, since) = self.sums[slot].ok_or_else(none)?;
        let end = offset + data.bytes;
        if checksum(&arenas[arena].bytes()[offset..end]) == sum {
            return Ok(());
        }
        // Find the latest write that hit the value, for the message.
        let hits = |write: &&(usize, usize, usize, usize, bool)| write.1 == arena && write.2 < end && offset < write.3;
        let writer = match self.writes.iter().skip(since + 1).rev().find(hits) {
            Some((step, .., true)) => format!("the plan says that its bytes are dead after step {step}"),
            Some((step, ..)) => {
                let name = self.names.get(*step).map_or("?", String::as_str);
                format!("step {step} (\"{name}\") writes there")
            }
            None => "a kernel wrote outside its results".to_owned(),
        };
        Err(Error::Clobbered { tensor: data.name.clone(), step: position as u64, node: node.to_owned(), writer })
    }

    /// Records the results of a step, checks the free bytes next to them, and poisons bytes that are
    /// dead after the step.
    pub(crate) fn after(
        &mut self,
        position: usize,
        step: &Step<'_>,
        places: &Places,
        arenas: &mut [ArenaMemory],
    ) -> Result<(), Error> {
        // Steps without a watch (constants) keep their place in the list of names.
        self.names.resize(position, String::new());
        self.names.push(step.name.clone());
        for slot in &step.outputs {
            self.wrote(*slot, Some(position), places, arenas);
        }
        let now = position as u64;
        for slot in &step.outputs {
            let data = &places.slots[*slot];
            let Place::Arena { arena, offset } = data.place else { continue };
            let end = offset + data.bytes;
            let beside = [(offset.saturating_sub(NEIGHBORHOOD), offset), (end, (end + NEIGHBORHOOD).min(arenas[arena].size()))];
            for (from, to) in beside {
                for (from, to) in self.free(arena, from, to, now) {
                    if arenas[arena].bytes()[from..to].iter().any(|byte| *byte != POISON) {
                        return Err(Error::Guard { step: now, node: step.name.clone(), tensor: data.name.clone() });
                    }
                }
            }
        }
        self.bury(position, arenas);
        Ok(())
    }

    /// Returns the parts of a range of bytes that no live value covers at a step.
    fn free(&self, arena: usize, from: usize, to: usize, step: u64) -> Vec<(usize, usize)> {
        let mut parts = vec![(from, to)];
        for span in &self.spans {
            let is_live = span.from <= step && step < span.to;
            if !is_live || span.arena != arena || span.end <= from || to <= span.start {
                continue;
            }
            parts = parts
                .into_iter()
                .flat_map(|(a, b)| [(a, b.min(span.start)), (a.max(span.end), b)])
                .filter(|(a, b)| a < b)
                .collect();
        }
        parts
    }

    fn bury(&mut self, position: usize, arenas: &mut [ArenaMemory]) {
        let next = position as u64 + 1;
        if next >= self.steps {
            return;
        }
        let dying: Vec<Span> = self.spans.iter().filter(|span| span.to == next).copied().collect();
        for span in dying {
            for (from, to) in self.free(span.arena, span.start, span.end, next) {
                arenas[span.arena].bytes_mut()[from..to].fill(POISON);
                self.writes.push((position, span.arena, from, to, true));
            }
        }
    }

    /// Checks that the outputs still have the bytes that their producers wrote.
    pub(crate) fn at_end(&self, outputs: &[String], places: &Places, arenas: &[ArenaMemory]) -> Result<(), Error> {
        let end = self.names.len();
        for name in outputs {
            if let Some(slot) = places.by_name.get(name) {
                let is_held = places.slots[*slot].class != Some(Class::Constant);
                if is_held {
                    self.intact(*slot, end, "end of the run", places, arenas)?;
                }
            }
        }
        Ok(())
    }
}

/// Returns a checksum over 8-byte words. Each word is spread over all bits, so any single changed bit
/// changes the sum.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let words = bytes.chunks_exact(8);
    let rest = words.remainder().iter().fold(bytes.len() as u64, |word, byte| (word << 8) ^ u64::from(*byte));
    let step = |sum: u64, word: u64| (sum.rotate_left(5) ^ word).wrapping_mul(MULTIPLIER);
    let sum = words.fold(0, |sum, word| step(sum, word.iter().rev().fold(0, |value, byte| (value << 8) | u64::from(*byte))));
    step(sum, rest)
}
