//! The checking mode: every value in an arena is watched from its writer to its last reader, and the bytes between values are guarded.

use memc_layout::Class;

use crate::error::Error;
use crate::memory::{ArenaMemory, POISON};
use crate::places::{Place, Places};
use crate::step::Step;

/// Free bytes that are looked at on both sides of a result.
const NEIGHBORHOOD: usize = 64;

/// Bytes of an arena, with what they are to the plan.
#[derive(Clone, Copy, Debug)]
struct Span {
    arena: usize,
    start: usize,
    end: usize,
    /// Steps in which the plan says they are in use.
    from: u64,
    to: u64,
}

/// Who wrote where, and what stood there then.
#[derive(Debug)]
pub(crate) struct Watch {
    /// All values and workspaces in arenas.
    spans: Vec<Span>,
    /// Checksum of each slot's bytes when it was written, and the writer's step.
    sums: Vec<Option<(u64, usize)>>,
    /// Writes in order: step, arena, first byte, end; whether it was the poison of dead bytes.
    writes: Vec<(usize, usize, usize, usize, bool)>,
    names: Vec<String>,
    /// Steps of the schedule; what is live to the end is not buried.
    steps: u64,
}

impl Watch {
    pub(crate) fn new(places: &Places, steps: usize) -> Self {
        let mut spans = Vec::new();
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

    /// Notes that a value is complete; `step` is `None` for graph inputs.
    pub(crate) fn wrote(&mut self, slot: usize, step: Option<usize>, places: &Places, arenas: &[ArenaMemory]) {
        if let Place::Arena { arena, offset } = places.slots[slot].place {
            let end = offset + places.slots[slot].bytes;
            self.sums[slot] = Some((checksum(&arenas[arena].bytes()[offset..end]), self.writes.len()));
            if let Some(step) = step {
                self.writes.push((step, arena, offset, end, false));
            }
        }
    }

    /// Every operand still is what its producer left.
    pub(crate) fn before(&self, position: usize, step: &Step<'_>, places: &Places, arenas: &[ArenaMemory]) -> Result<(), Error> {
        step.inputs.iter().try_for_each(|slot| self.intact(*slot, position, &step.name, places, arenas))
    }

    fn intact(&self, slot: usize, position: usize, node: &str, places: &Places, arenas: &[ArenaMemory]) -> Result<(), Error> {
        let data = &places.slots[slot];
        let Place::Arena { arena, offset } = data.place else { return Ok(()) };
        // A body may read what is written later, or never, on the path that is taken; only what was written is compared.
        let none = || Error::NoValue { step: position as u64, node: node.to_owned(), tensor: data.name.clone() };
        let (sum, since) = self.sums[slot].ok_or_else(none)?;
        let end = offset + data.bytes;
        if checksum(&arenas[arena].bytes()[offset..end]) == sum {
            return Ok(());
        }
        let hits = |write: &&(usize, usize, usize, usize, bool)| write.1 == arena && write.2 < end && offset < write.3;
        let writer = match self.writes.iter().skip(since + 1).rev().find(hits) {
            Some((step, .., true)) => format!("the plan says that its bytes are dead after step {step}"),
            Some((step, ..)) => {
                let name = self.names.get(*step).map_or("?", String::as_str);
                format!("step {step} (\"{name}\") writes there")
            }
            None => "a kernel wrote beyond its results".to_owned(),
        };
        Err(Error::Clobbered { tensor: data.name.clone(), step: position as u64, node: node.to_owned(), writer })
    }

    /// Notes the results, looks beside them, and fills what the plan says is dead from now on.
    pub(crate) fn after(
        &mut self,
        position: usize,
        step: &Step<'_>,
        places: &Places,
        arenas: &mut [ArenaMemory],
    ) -> Result<(), Error> {
        // Steps without watch (constants) keep their place in the list of names.
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

    /// Parts of a stretch that no live value covers at a step.
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

    /// The outputs still are what their producers left.
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

/// Sum over 8-byte words, each spread over all bits: one changed bit changes it.
fn checksum(bytes: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let words = bytes.chunks_exact(8);
    let rest = words.remainder().iter().fold(bytes.len() as u64, |word, byte| (word << 8) ^ u64::from(*byte));
    let step = |sum: u64, word: u64| (sum.rotate_left(5) ^ word).wrapping_mul(MULTIPLIER);
    let sum = words.fold(0, |sum, word| step(sum, word.iter().rev().fold(0, |value, byte| (value << 8) | u64::from(*byte))));
    step(sum, rest)
}
