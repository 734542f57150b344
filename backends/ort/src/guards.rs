//! The checking mode: watches every value in an arena from its writer to its last reader, and guards the
//! bytes between values.

use memc_layout::Class;

use crate::error::Error;
use crate::memory::{ArenaMemory, Foreign, POISON};
use crate::places::{Place, Places};
use crate::step::{Kind, Step};

/// Number of free bytes that are examined on each side of a result.
const NEIGHBORHOOD: usize = 64;

/// What lies in the bytes of a span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    /// A value of another plan.
    Foreign,
    /// A value, by its slot.
    Slot(usize),
    /// The workspace of a step.
    Step(u64),
}

/// Bytes of an arena with their live range in the plan.
#[derive(Clone, Copy, Debug)]
struct Span {
    owner: Owner,
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
    /// Uses of each span, if steps run on several engines; otherwise their positions decide.
    uses: Option<Uses>,
}

/// Uses of spans by steps that run in no fixed order.
#[derive(Debug)]
struct Uses {
    /// Spans that each step uses.
    of_step: Vec<Vec<usize>>,
    /// Number of steps that still have to use each span, and one more for a span that is live to the end.
    open: Vec<usize>,
    /// Whether a step has begun to use each span.
    is_begun: Vec<bool>,
}

impl Watch {
    /// Watches the values of a plan. `foreign` are bytes of other plans, by arena, which stay as they are.
    pub(crate) fn new(places: &Places, steps: usize, foreign: &[Foreign]) -> Self {
        let mut spans = Vec::new();
        for bytes in foreign {
            spans.push(Span {
                owner: Owner::Foreign,
                arena: bytes.arena,
                start: bytes.start,
                end: bytes.end,
                from: 0,
                to: u64::MAX,
            });
        }
        for (number, slot) in places.slots.iter().enumerate() {
            if let Place::Arena { arena, offset } = slot.place {
                let (from, to) = (slot.live.start, slot.live.end);
                spans.push(Span {
                    owner: Owner::Slot(number),
                    arena,
                    start: offset,
                    end: offset + slot.bytes,
                    from,
                    to,
                });
            }
        }
        for (step, work) in &places.workspace {
            let (start, end) = (work.offset, work.offset + work.bytes);
            spans.push(Span {
                owner: Owner::Step(*step),
                arena: work.arena,
                start,
                end,
                from: *step,
                to: *step + 1,
            });
        }
        Self {
            spans,
            sums: vec![None; places.slots.len()],
            writes: Vec::new(),
            names: Vec::with_capacity(steps),
            steps: steps as u64,
            uses: None,
        }
    }

    /// Watches steps that run on several engines: bytes are live from the begin of their first use to the
    /// end of their last one.
    pub(crate) fn follow(&mut self, steps: &[Step<'_>]) {
        let mut uses = Uses {
            of_step: vec![Vec::new(); steps.len()],
            open: vec![0; self.spans.len()],
            is_begun: vec![false; self.spans.len()],
        };
        let running = || steps.iter().enumerate().filter(|(_, step)| step.kind != Kind::Constant);
        for (number, span) in self.spans.iter().enumerate() {
            let is_used = |position: usize, step: &Step<'_>| match span.owner {
                Owner::Foreign => false,
                Owner::Slot(slot) => step.inputs.contains(&slot) || step.outputs.contains(&slot),
                Owner::Step(of) => of == position as u64,
            };
            for (position, _) in running().filter(|(position, step)| is_used(*position, step)) {
                uses.of_step[position].push(number);
                uses.open[number] += 1;
            }
            let is_made = |slot: usize| running().any(|(_, step)| step.outputs.contains(&slot));
            uses.is_begun[number] = match span.owner {
                Owner::Foreign => true,
                Owner::Slot(slot) => !is_made(slot),
                Owner::Step(_) => false,
            };
            uses.open[number] += usize::from(span.owner == Owner::Foreign || span.to >= self.steps);
        }
        self.uses = Some(uses);
    }

    /// Records that a step begins, on one of several engines.
    pub(crate) fn begin(&mut self, position: usize) {
        if let Some(uses) = &mut self.uses {
            uses.of_step[position].iter().for_each(|span| uses.is_begun[*span] = true);
        }
    }

    /// Whether the bytes of a span are in use at a step.
    fn is_live(&self, number: usize, step: u64) -> bool {
        let span = &self.spans[number];
        match &self.uses {
            Some(uses) => uses.is_begun[number] && uses.open[number] > 0,
            None => span.from <= step && step < span.to,
        }
    }

    /// Records that a value is complete; `step` is `None` for graph inputs.
    pub(crate) fn wrote(
        &mut self,
        slot: usize,
        step: Option<usize>,
        places: &Places,
        arenas: &[ArenaMemory],
    ) {
        if let Place::Arena { arena, offset } = places.slots[slot].place {
            let end = offset + places.slots[slot].bytes;
            self.sums[slot] = Some((checksum(arenas[arena].part(offset, end)), self.writes.len()));
            if let Some(step) = step {
                self.writes.push((step, arena, offset, end, false));
            }
        }
    }

    /// Checks that every operand still has the bytes that its producer wrote.
    pub(crate) fn before(
        &self,
        position: usize,
        step: &Step<'_>,
        places: &Places,
        arenas: &[ArenaMemory],
    ) -> Result<(), Error> {
        step.inputs.iter().try_for_each(|slot| self.intact(*slot, position, &step.name, places, arenas))
    }

    fn intact(
        &self,
        slot: usize,
        position: usize,
        node: &str,
        places: &Places,
        arenas: &[ArenaMemory],
    ) -> Result<(), Error> {
        let data = &places.slots[slot];
        let Place::Arena { arena, offset } = data.place else { return Ok(()) };
        // A body may read a value that is written later or, on the path taken, never. Only written
        // values are compared.
        let none =
            || Error::NoValue { step: position as u64, node: node.to_owned(), tensor: data.name.clone() };
        let (sum, since) = self.sums[slot].ok_or_else(none)?;
        let end = offset + data.bytes;
        if checksum(arenas[arena].part(offset, end)) == sum {
            return Ok(());
        }
        // Find the latest write that hit the value, for the message.
        let hits = |write: &&(usize, usize, usize, usize, bool)| {
            write.1 == arena && write.2 < end && offset < write.3
        };
        let writer = match self.writes.iter().skip(since + 1).rev().find(hits) {
            Some((step, .., true)) => format!("the plan says that its bytes are dead after step {step}"),
            Some((step, ..)) => {
                let name = self.names.get(*step).map_or("?", String::as_str);
                format!("step {step} (\"{name}\") writes there")
            }
            None => "a kernel wrote outside its results".to_owned(),
        };
        Err(Error::Clobbered {
            tensor: data.name.clone(),
            step: position as u64,
            node: node.to_owned(),
            writer,
        })
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
        // Steps without a watch (constants), or on another engine, keep their place in the list of names.
        self.names.resize(self.names.len().max(position + 1), String::new());
        self.names[position].clone_from(&step.name);
        for slot in &step.outputs {
            self.wrote(*slot, Some(position), places, arenas);
        }
        let now = position as u64;
        for slot in &step.outputs {
            let data = &places.slots[*slot];
            let Place::Arena { arena, offset } = data.place else { continue };
            let end = offset + data.bytes;
            let beside = [
                (offset.saturating_sub(NEIGHBORHOOD), offset),
                (end, (end + NEIGHBORHOOD).min(arenas[arena].size())),
            ];
            for (from, to) in beside {
                for (from, to) in self.free(arena, from, to, now) {
                    if arenas[arena].part(from, to).iter().any(|byte| *byte != POISON) {
                        return Err(Error::Guard {
                            step: now,
                            node: step.name.clone(),
                            tensor: data.name.clone(),
                        });
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
        for (number, span) in self.spans.iter().enumerate() {
            if !self.is_live(number, step) || span.arena != arena || span.end <= from || to <= span.start {
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

    /// Ends the uses of a step, and returns the spans that no later step uses.
    fn dying(&mut self, position: usize) -> Vec<Span> {
        let next = position as u64 + 1;
        let Some(uses) = &mut self.uses else {
            return self.spans.iter().filter(|span| span.to == next && next < self.steps).copied().collect();
        };
        let mut dying = Vec::new();
        for span in &uses.of_step[position] {
            uses.open[*span] -= 1;
            if uses.open[*span] == 0 {
                dying.push(self.spans[*span]);
            }
        }
        dying
    }

    fn bury(&mut self, position: usize, arenas: &mut [ArenaMemory]) {
        let next = position as u64 + 1;
        for span in self.dying(position) {
            for (from, to) in self.free(span.arena, span.start, span.end, next) {
                arenas[span.arena].bury(from, to);
                self.writes.push((position, span.arena, from, to, true));
            }
        }
    }

    /// Checks that the outputs still have the bytes that their producers wrote.
    pub(crate) fn at_end(
        &self,
        outputs: &[String],
        places: &Places,
        arenas: &[ArenaMemory],
    ) -> Result<(), Error> {
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
    let sum = words.fold(0, |sum, word| {
        step(sum, word.iter().rev().fold(0, |value, byte| (value << 8) | u64::from(*byte)))
    });
    step(sum, rest)
}
