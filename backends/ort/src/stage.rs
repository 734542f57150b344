//! The memory that a plan is played in: arenas, weights, the caller's memory, and a value over each
//! place that is known before the run.
#![allow(unsafe_code)]

use std::collections::BTreeMap;

use memc_layout::{Arena, Class, Layout};

use crate::arrays::Array;
use crate::content::Content;
use crate::error::Error;
use crate::inputs::{Inputs, all_known, as_planned};
use crate::memory::{ArenaMemory, Block, Foreign, POISON, require};
use crate::options::PlayOptions;
use crate::places::{Place, Places, Slot};
use crate::played::ArenaUse;
use crate::runtime::{Runtime, Value};
use crate::weights::{Weight, Weights};

/// All memory of a plan. Nothing in it moves, so addresses stay valid as long as the stage lives.
#[derive(Debug)]
pub(crate) struct Stage<'r> {
    pub(crate) runtime: &'r Runtime,
    // Values come before the memory that they point into, so that they are dropped first.
    pub(crate) values: Vec<Option<Value<'r>>>,
    pub(crate) arenas: Vec<ArenaMemory>,
    pub(crate) places: Places,
    pub(crate) spaces: Vec<String>,
    weights: Weights,
    /// Size of each space's arena, in bytes.
    planned: Vec<u64>,
    /// The caller's own memory, by slot.
    held: BTreeMap<usize, Block>,
    /// Slots whose value was computed once before the runs.
    constants: Vec<bool>,
}

impl<'r> Stage<'r> {
    /// Allocates the arenas, filled with poison, and the caller's memory. Arenas of an earlier plan, `kept`,
    /// are taken instead if they have the sizes of this plan's.
    ///
    /// # Errors
    /// Memory is short, or an alignment is invalid.
    pub(crate) fn new(
        runtime: &'r Runtime,
        layout: &Layout,
        weights: Weights,
        places: Places,
        options: &PlayOptions,
        kept: Vec<ArenaMemory>,
    ) -> Result<Self, Error> {
        // A space that is a file has no memory of its own.
        let size = |arena: &Arena| if options.is_file(&arena.space) { 0 } else { arena.size };
        let held = |slot: usize| matches!(places.slots[slot].place, Place::Caller | Place::State);
        let held: Vec<usize> = (0..places.slots.len()).filter(|slot| held(*slot)).collect();
        let bytes = held.iter().map(|slot| places.slots[*slot].bytes as u64);
        let sizes = || layout.arenas.iter().map(|arena| usize::try_from(size(arena)).unwrap_or(usize::MAX));
        let is_kept = kept.iter().map(ArenaMemory::size).eq(sizes());
        let needed = layout.arenas.iter().map(size).filter(|_| !is_kept);
        require(needed.chain(bytes).fold(0, u64::saturating_add))?;
        let arenas = match is_kept {
            true => kept,
            false => {
                let arenas = layout.arenas.iter().map(|arena| ArenaMemory::new(size(arena), arena.alignment));
                arenas.collect::<Result<Vec<_>, _>>()?
            }
        };
        // Inputs are written before any kernel reads them, so zeros are enough.
        let block = |slot: &Slot| match slot.class {
            Some(Class::Input) => Block::zeros(slot.bytes as u64),
            _ => Block::poison(slot.bytes as u64),
        };
        let blocks = held.iter().map(|slot| Ok((*slot, block(&places.slots[*slot])?)));
        let mut stage = Self {
            runtime,
            values: places.slots.iter().map(|_| None).collect(),
            arenas,
            spaces: layout.arenas.iter().map(|arena| arena.space.clone()).collect(),
            planned: layout.arenas.iter().map(|arena| arena.size).collect(),
            held: blocks.collect::<Result<_, Error>>()?,
            constants: vec![false; places.slots.len()],
            weights,
            places,
        };
        stage.make_values()?;
        Ok(stage)
    }

    /// Makes a value over every place that is known before the run.
    fn make_values(&mut self) -> Result<(), Error> {
        for slot in 0..self.places.slots.len() {
            let data = &mut self.places.slots[slot];
            let placed = matches!(data.place, Place::Arena { .. } | Place::File { .. } | Place::State);
            if let Some(weight) = self.weights.tensors.get(&data.name).filter(|_| !placed) {
                data.place = Place::Weight;
                data.bytes = weight.bytes().len();
                data.ty = Some((weight.element, weight.shape.clone()));
            }
            let (Some(address), Some((element, shape))) = (self.address(slot), &self.places.slots[slot].ty)
            else {
                continue;
            };
            // SAFETY: arenas, weights and held blocks live as long as the stage and do not move; sizes
            // were compared with shapes.
            let value =
                unsafe { self.runtime.tensor(address, self.places.slots[slot].bytes, *element, shape)? };
            self.values[slot] = Some(value);
        }
        Ok(())
    }

    /// Returns the address of a value's first byte; `None` if it is not known before the run.
    pub(crate) fn address(&self, slot: usize) -> Option<*mut u8> {
        let (mut slot, mut offset) = (slot, 0usize);
        // Links are no more than slots: a longer walk is a cycle.
        for _ in 0..=self.places.slots.len() {
            let start = match self.places.slots[slot].place {
                Place::Arena { arena, offset } => self.arenas[arena].address(offset),
                Place::Weight => {
                    self.weights.tensors.get(&self.places.slots[slot].name)?.bytes().as_ptr().cast_mut()
                }
                Place::Caller | Place::State => self.held.get(&slot)?.address(),
                Place::Runtime | Place::File { .. } => return None,
                Place::Window { of, offset: more } => {
                    (slot, offset) = (of, offset.checked_add(more)?);
                    continue;
                }
            };
            return Some(start.wrapping_add(offset));
        }
        None
    }

    /// Returns the address of a value's first byte and the address after its last; `None` if they are
    /// not known before the run.
    pub(crate) fn span(&self, slot: usize) -> Option<(usize, usize)> {
        let start = self.address(slot)?.expose_provenance();
        Some((start, start.checked_add(self.places.slots[slot].bytes)?))
    }

    /// Returns an initializer that the plan places in a space; `None` for other values.
    pub(crate) fn placed_constant(&self, slot: usize) -> Option<&Weight> {
        let data = &self.places.slots[slot];
        self.weights.tensors.get(&data.name).filter(|_| data.class == Some(Class::Constant))
    }

    /// Copies the initializers that the plan places in an arena to their places.
    pub(crate) fn fill_constants(&mut self) {
        for slot in &self.places.slots {
            let constant =
                self.weights.tensors.get(&slot.name).filter(|_| slot.class == Some(Class::Constant));
            if let (Some(weight), Place::Arena { arena, offset }) = (constant, slot.place) {
                self.arenas[arena].bytes_mut()[offset..offset + slot.bytes].copy_from_slice(weight.bytes());
            }
        }
    }

    /// Fills all arenas with poison, except for constants and the bytes of other plans.
    pub(crate) fn poison(&mut self, foreign: &[Foreign]) {
        for (number, arena) in self.arenas.iter_mut().enumerate() {
            let mut others: Vec<&Foreign> = foreign.iter().filter(|bytes| bytes.arena == number).collect();
            others.sort_by_key(|bytes| bytes.start);
            let (size, mut at) = (arena.size(), 0);
            for other in others {
                if at < other.start.min(size) {
                    arena.bytes_mut()[at..other.start.min(size)].fill(POISON);
                }
                at = at.max(other.end);
            }
            if at < size {
                arena.bytes_mut()[at..].fill(POISON);
            }
        }
        self.fill_constants();
    }

    /// Drops all values that the runtime allocated in an earlier run.
    pub(crate) fn forget(&mut self) {
        for slot in 0..self.values.len() {
            self.drop_loose(slot);
        }
    }

    /// Drops a value that the runtime allocated, unless it is a constant.
    pub(crate) fn drop_loose(&mut self, slot: usize) {
        if self.places.slots[slot].place == Place::Runtime && !self.constants[slot] {
            self.values[slot] = None;
        }
    }

    /// Copies a tensor to the place of a slot in its arena.
    ///
    /// # Errors
    /// The runtime cannot describe the value.
    pub(crate) fn put(&mut self, slot: usize, value: &Value<'_>) -> Result<(), Error> {
        let view = value.tensor()?;
        if let (Some(view), Place::Arena { arena, offset }) = (view, self.places.slots[slot].place) {
            let bytes = view.bytes.len().min(self.places.slots[slot].bytes);
            self.arenas[arena].bytes_mut()[offset..offset + bytes].copy_from_slice(&view.bytes[..bytes]);
        }
        Ok(())
    }

    /// Whether two slots share bytes of one arena.
    pub(crate) fn meet(&self, left: usize, right: usize) -> bool {
        let span = |slot: usize| match self.places.slots[slot] {
            Slot { place: Place::Arena { arena, offset }, bytes, .. } => {
                Some((arena, offset, offset + bytes))
            }
            _ => None,
        };
        let spans = span(left).zip(span(right));
        spans.is_some_and(|((arena, from, to), (other, start, end))| {
            arena == other && from < end && start < to
        })
    }

    /// Keeps a value that was computed once, and records its actual type and size.
    ///
    /// # Errors
    /// The runtime cannot describe the value.
    pub(crate) fn keep(&mut self, slot: usize) -> Result<(), Error> {
        self.constants[slot] = true;
        if let Some(view) = self.values[slot].as_ref().map(Value::tensor).transpose()?.flatten() {
            self.places.slots[slot].ty = Some((view.element, view.shape));
            self.places.slots[slot].bytes = view.bytes.len();
        }
        Ok(())
    }

    /// Fills the graph inputs of these names at their places.
    ///
    /// # Errors
    /// An input is missing, unknown, or of the wrong type or shape, or its source fails.
    pub(crate) fn give(&mut self, names: &[String], inputs: &dyn Inputs) -> Result<(), Error> {
        all_known(names, inputs)?;
        for name in names {
            let Some(slot) = self.places.by_name.get(name).copied() else { continue };
            let wrong = |reason: String| Error::Input { input: name.clone(), reason };
            let default = self.weights.tensors.get(name);
            let data = &self.places.slots[slot];
            // An input that is not given needs a default.
            let Some((element, shape)) = inputs.kind(name) else {
                match (data.place, default) {
                    (Place::Weight, _) => {}
                    (Place::State, Some(weight)) => {
                        if let Some(block) = self.held.get_mut(&slot) {
                            block.bytes_mut().copy_from_slice(weight.bytes());
                        }
                    }
                    _ => return Err(wrong("is not given".to_owned())),
                }
                continue;
            };
            let Some((planned, extents)) = &data.ty else {
                return Err(wrong("has a type that `--inputs` cannot give".to_owned()));
            };
            as_planned(name, (*planned, extents), (element, shape))?;
            // Write the input into the arena or the caller's memory; a given weight must equal the
            // model's default.
            match data.place {
                Place::Arena { arena, offset } => {
                    inputs.fill(name, &mut self.arenas[arena].bytes_mut()[offset..offset + data.bytes])?;
                }
                Place::Caller | Place::State => {
                    if let Some(block) = self.held.get_mut(&slot) {
                        inputs.fill(name, block.bytes_mut())?;
                    }
                }
                _ => {
                    let mut given = Block::poison(data.bytes as u64)?;
                    inputs.fill(name, given.bytes_mut())?;
                    if default.is_none_or(|weight| weight.bytes() != given.bytes()) {
                        return Err(wrong(
                            "has a default in the model, which the player does not replace".to_owned(),
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the content of the value of a name; `None` if it has no value.
    ///
    /// # Errors
    /// The runtime cannot describe the value.
    pub(crate) fn content(&self, name: &str) -> Result<Option<Content<'_>>, Error> {
        let slot = self.places.by_name.get(name).copied();
        slot.and_then(|slot| self.values[slot].as_ref()).map(Value::content).transpose()
    }

    /// Whether a value has exactly these elements; false for values other than dense tensors.
    ///
    /// # Errors
    /// The runtime cannot describe the value.
    pub(crate) fn holds(&self, slot: usize, expected: &Array) -> Result<bool, Error> {
        let view = self.values[slot].as_ref().map(Value::tensor).transpose()?.flatten();
        Ok(view.is_some_and(|view| view.bytes == expected.bytes()))
    }

    /// Returns the size of a value that the runtime allocated, in bytes; 0 for other values.
    ///
    /// # Errors
    /// The runtime cannot describe the value.
    pub(crate) fn loose_bytes(&self, slot: usize) -> Result<u64, Error> {
        let is_loose = self.places.slots[slot].place == Place::Runtime;
        let value = self.values[slot].as_ref().filter(|_| is_loose);
        Ok(value.map(Value::tensor).transpose()?.flatten().map_or(0, |view| view.bytes.len() as u64))
    }

    /// Returns the size of the caller's own memory, in bytes.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held.values().map(|block| block.bytes().len() as u64).sum()
    }

    /// Returns the first space whose guard zones were overwritten; `None` if all are intact.
    pub(crate) fn broken_guard(&self) -> Option<&str> {
        self.arenas.iter().position(|arena| !arena.guards_hold()).map(|arena| self.spaces[arena].as_str())
    }

    /// Returns the use of each arena.
    pub(crate) fn uses(&self) -> Vec<ArenaUse> {
        let mut used = vec![0usize; self.arenas.len()];
        for slot in &self.places.slots {
            if let Place::Arena { arena, offset } | Place::File { arena, offset } = slot.place {
                used[arena] = used[arena].max(offset + slot.bytes);
            }
        }
        for work in self.places.workspace.values() {
            used[work.arena] = used[work.arena].max(work.offset + work.bytes);
        }
        let rows = self.planned.iter().zip(&self.spaces).zip(used);
        rows.map(|((planned, space), used)| ArenaUse {
            space: space.clone(),
            planned: *planned,
            used: used as u64,
        })
        .collect()
    }
}
