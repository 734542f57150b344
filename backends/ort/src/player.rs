//! Plays a plan: every kernel reads and writes at the offsets that the layout gives.
#![allow(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

use crate::arrays::Array;
use crate::error::Error;
use crate::guards::Watch;
use crate::memory::{ArenaMemory, Block, POISON};
use crate::places::{Place, Places};
use crate::prepare::{Kind, PlayOptions, Step};
use crate::runtime::{Runtime, SessionOptions, Value};
use crate::transfer::{LinkUse, Transfers};
use crate::weights::Weights;

/// A plan that is ready to be played, as often as wanted.
#[derive(Debug)]
pub struct Player<'r> {
    pub(crate) runtime: &'r Runtime,
    pub(crate) options: PlayOptions,
    pub(crate) spaces: Vec<String>,
    /// Bytes of each space's arena.
    pub(crate) planned: Vec<u64>,
    // Threads that move bytes come before the bytes, so that they are gone first.
    pub(crate) transfers: Option<Transfers>,
    // Sessions and values come before what they point into, so that they are dropped first.
    pub(crate) steps: Vec<Step<'r>>,
    pub(crate) values: Vec<Option<Value<'r>>>,
    /// Options of all sessions.
    pub(crate) reference: SessionOptions,
    pub(crate) arenas: Vec<ArenaMemory>,
    pub(crate) weights: Weights,
    pub(crate) places: Places,
    /// The caller's own memory, by slot.
    pub(crate) held: BTreeMap<usize, Block>,
    /// Slots that were computed once.
    pub(crate) constants: Vec<bool>,
    pub(crate) outputs: Vec<String>,
    pub(crate) inputs: Vec<String>,
    pub(crate) last_reader: Vec<usize>,
    /// Gives nanoseconds while nodes are measured.
    pub(crate) clock: Option<fn() -> u64>,
    /// Nanoseconds of each step's kernel in the last run, while nodes are measured.
    pub(crate) times: Vec<u64>,
}

/// What one arena was used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArenaUse {
    /// The space.
    pub space: String,
    /// Bytes that the layout plans, all of which were allocated.
    pub planned: u64,
    /// End of the highest byte that a kernel was given.
    pub used: u64,
}

/// A node that ran with memory of the runtime's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// Name of the node.
    pub node: String,
    /// Its operator.
    pub op: String,
    /// Why.
    pub reason: &'static str,
    /// Bytes of results that the runtime allocated.
    pub bytes: u64,
}

/// Workspace of a node that the plan has no room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeWork {
    /// Name of the node.
    pub node: String,
    /// Its operator.
    pub op: String,
    /// Bytes from the planned workspace.
    pub planned: u64,
    /// Most bytes beyond it at once.
    pub beyond: u64,
}

/// What playing a plan once gave.
#[derive(Debug)]
pub struct Played {
    /// Graph outputs by name; those that are no dense tensors are left out.
    pub outputs: BTreeMap<String, Array>,
    /// Each arena.
    pub arenas: Vec<ArenaUse>,
    /// Nodes whose kernel ran.
    pub ran: usize,
    /// Nodes with nothing to do.
    pub skipped: usize,
    /// Nodes that ran once before the plan, as their results are constants.
    pub constant: usize,
    /// Nodes that moved bytes between spaces.
    pub moved: usize,
    /// Each link between spaces that moved something.
    pub links: Vec<LinkUse>,
    /// Nodes that ran with memory of the runtime's own.
    pub outside: Vec<Outside>,
    /// Workspace of each node that asked for some.
    pub workspace: Vec<NodeWork>,
    /// Requests to the allocator.
    pub requests: u64,
}

/// What is done after each step.
type After<'a, 'r> = dyn FnMut(&Player<'r>, usize) -> Result<(), Error> + 'a;

impl Played {
    /// Bytes of results that lay outside all arenas.
    pub fn bytes_outside(&self) -> u64 {
        self.outside.iter().map(|node| node.bytes).sum()
    }

    /// The largest workspace that a node took beyond what was planned, in bytes.
    pub fn workspace_beyond(&self) -> u64 {
        self.workspace.iter().map(|node| node.beyond).max().unwrap_or(0)
    }
}

impl<'r> Player<'r> {
    /// Plays the plan once over the given graph inputs.
    ///
    /// # Errors
    /// An input is missing or of the wrong type or shape, a kernel fails, or a check finds the plan wrong.
    pub fn play(&mut self, inputs: &BTreeMap<String, Array>) -> Result<Played, Error> {
        self.play_with(inputs, &mut |_, _| Ok(()))
    }

    /// Plays the plan and names the first node a result of which is not the expected one; values without an expectation are passed over.
    ///
    /// # Errors
    /// As for [`Self::play`].
    pub(crate) fn play_against(
        &mut self,
        inputs: &BTreeMap<String, Array>,
        expected: &BTreeMap<String, Array>,
    ) -> Result<Option<String>, Error> {
        let mut first = None;
        let mut look = |player: &Self, position: usize| {
            let step = &player.steps[position];
            if first.is_some() {
                return Ok(());
            }
            for slot in &step.outputs {
                let pair = expected.get(&player.places.slots[*slot].name).zip(player.values[*slot].as_ref());
                if let Some((array, value)) = pair
                    && value.tensor()?.is_none_or(|view| view.bytes != array.bytes())
                {
                    first = Some(format!("{} ({})", step.name, step.op));
                }
            }
            Ok(())
        };
        self.play_with(inputs, &mut look)?;
        Ok(first)
    }

    fn play_with(&mut self, inputs: &BTreeMap<String, Array>, after: &mut After<'_, 'r>) -> Result<Played, Error> {
        let outcome = self.play_through(inputs, after);
        self.stop_transfers();
        outcome
    }

    fn play_through(&mut self, inputs: &BTreeMap<String, Array>, after: &mut After<'_, 'r>) -> Result<Played, Error> {
        let mut watch = self.options.poison_check.then(|| Watch::new(&self.places, self.steps.len()));
        if watch.is_some() {
            self.arenas.iter_mut().for_each(|arena| arena.bytes_mut().fill(POISON));
            self.refill_constants()?;
        }
        self.give(inputs)?;
        if let Some(watch) = &mut watch {
            let placed: Vec<usize> = self.inputs.iter().filter_map(|name| self.places.by_name.get(name).copied()).collect();
            placed.into_iter().for_each(|slot| watch.wrote(slot, None, &self.places, &self.arenas));
        }
        let mut played = Played {
            outputs: BTreeMap::new(),
            arenas: Vec::new(),
            ran: 0,
            skipped: 0,
            constant: 0,
            moved: 0,
            links: Vec::new(),
            outside: Vec::new(),
            workspace: Vec::new(),
            requests: 0,
        };
        self.begin_transfers(&mut played);
        for position in 0..self.steps.len() {
            if let Some(watch) = &watch
                && self.steps[position].kind != Kind::Constant
            {
                watch.before(position, &self.steps[position], &self.places, &self.arenas)?;
            }
            self.move_before(position, &mut played)?;
            match self.steps[position].kind {
                Kind::Constant => {
                    played.constant += 1;
                    continue;
                }
                Kind::Skip => played.skipped += 1,
                Kind::Transfer => played.moved += 1,
                Kind::Run => {
                    played.ran += 1;
                    self.step(position, &mut played)?;
                }
            }
            after(self, position)?;
            if let Some(watch) = &mut watch {
                watch.after(position, &self.steps[position], &self.places, &mut self.arenas)?;
            }
        }
        self.end_transfers(&mut played)?;
        if let Some(watch) = &watch {
            watch.at_end(&self.outputs, &self.places, &self.arenas)?;
        }
        if let Some(broken) = self.arenas.iter().position(|arena| !arena.guards_hold()) {
            return Err(Error::ArenaGuard { space: self.spaces[broken].clone() });
        }
        self.gather(&mut played)?;
        Ok(played)
    }

    /// Copies graph inputs to their places.
    fn give(&mut self, inputs: &BTreeMap<String, Array>) -> Result<(), Error> {
        for (slot, value) in self.values.iter_mut().enumerate() {
            // What the runtime allocated in an earlier run.
            if self.places.slots[slot].place == Place::Runtime && !self.constants[slot] {
                *value = None;
            }
        }
        for name in &self.inputs {
            let Some(slot) = self.places.by_name.get(name).copied() else { continue };
            let wrong = |reason: String| Error::Input { input: name.clone(), reason };
            let data = &self.places.slots[slot];
            let Some(array) = inputs.get(name) else {
                match (data.place, self.weights.tensors.get(name)) {
                    (Place::Weight, _) => continue,
                    (Place::State, Some(weight)) => {
                        if let Some(block) = self.held.get_mut(&slot) {
                            block.bytes_mut().copy_from_slice(weight.bytes());
                        }
                        continue;
                    }
                    _ => return Err(wrong("is not given".to_owned())),
                }
            };
            let Some((element, shape)) = &data.ty else { return Err(wrong("has a type that cannot be given".to_owned())) };
            if array.element != *element || array.shape != *shape {
                let found = format!("{}{:?}", array.element.name(), array.shape);
                return Err(wrong(format!("is {}{shape:?} in the plan, and {found} was given", element.name())));
            }
            match data.place {
                Place::Arena { arena, offset } => {
                    self.arenas[arena].bytes_mut()[offset..offset + array.bytes().len()].copy_from_slice(array.bytes());
                }
                Place::Caller | Place::State => {
                    if let Some(block) = self.held.get_mut(&slot) {
                        block.bytes_mut().copy_from_slice(array.bytes());
                    }
                }
                Place::Weight if self.weights.tensors.get(name).is_some_and(|weight| weight.bytes() == array.bytes()) => {}
                _ => return Err(wrong("has a default in the model, which the player does not replace".to_owned())),
            }
        }
        Ok(())
    }

    /// Runs the kernel of a step.
    fn step(&mut self, position: usize, played: &mut Played) -> Result<(), Error> {
        let step = &self.steps[position];
        let work = self.places.workspace.get(&(position as u64)).filter(|_| step.bound.is_some());
        let region = work.map(|work| (self.arenas[work.arena].address(work.offset), work.bytes));
        // SAFETY: `Places` holds that the workspace lies inside its arena; the plan gives it to this step alone.
        unsafe { self.runtime.begin_count(region) };
        let (is_bound, has_bodies) = (step.bound.is_some(), step.has_bodies);
        let before = self.clock.map(|clock| clock());
        let outcome = match &step.bound {
            Some(bound) => bound.run().map_err(|error| self.blame(position, error)),
            None => self.run_free(position),
        };
        if let (Some(clock), Some(before)) = (self.clock, before)
            && let Some(time) = self.times.get_mut(position)
        {
            *time = clock().saturating_sub(before);
        }
        let tally = self.runtime.end_count();
        outcome?;
        let step = &self.steps[position];
        if tally.planned_kept > 0 {
            return Err(Error::WorkspaceKept { step: position as u64, node: step.name.clone() });
        }
        played.requests += tally.requests;
        let loose = step.outputs.iter().filter(|slot| self.places.slots[**slot].place == Place::Runtime);
        let mut bytes = 0;
        for slot in loose {
            bytes +=
                self.values[*slot].as_ref().map(Value::tensor).transpose()?.flatten().map_or(0, |view| view.bytes.len() as u64);
        }
        if !is_bound || (has_bodies && tally.peak > 0) {
            let reason = match has_bodies {
                true => "its bodies need more than was planned for them",
                false if bytes > 0 => "nobody knows the size of its results before they are there",
                false => "it works on values without a fixed place",
            };
            played.outside.push(Outside { node: step.name.clone(), op: step.op.clone(), reason, bytes });
        }
        let beyond = tally.peak.saturating_sub(tally.kept.min(bytes));
        if tally.planned_peak > 0 || beyond > 0 {
            let (node, op) = (step.name.clone(), step.op.clone());
            played.workspace.push(NodeWork { node, op, planned: tally.planned_peak, beyond });
        }
        if !is_bound {
            self.release(position);
        }
        Ok(())
    }

    /// Runs a node of which not every operand and result has its place; the runtime allocates what has none.
    pub(crate) fn run_free(&mut self, position: usize) -> Result<(), Error> {
        let step = &self.steps[position];
        let mut inputs = Vec::with_capacity(step.inputs.len());
        for slot in &step.inputs {
            let none = || Error::NoValue {
                step: position as u64,
                node: step.name.clone(),
                tensor: self.places.slots[*slot].name.clone(),
            };
            inputs.push(self.values[*slot].as_ref().ok_or_else(none)?);
        }
        let place = |slot: &usize| self.values[*slot].as_ref().filter(|_| self.places.slots[*slot].place != Place::Runtime);
        let outputs: Vec<Option<&Value<'_>>> = step.outputs.iter().map(place).collect();
        let Some(session) = &step.session else { return Ok(()) };
        // SAFETY: all values live; sharing of bytes is what the plan says.
        let fresh = unsafe { session.run_into(&inputs, &outputs) }.map_err(|error| self.blame(position, error))?;
        let slots = self.steps[position].outputs.clone();
        for (slot, value) in slots.into_iter().zip(fresh) {
            if let Some(value) = value {
                self.values[slot] = Some(value);
            }
        }
        Ok(())
    }

    /// Drops what the runtime allocated and nobody reads any more.
    fn release(&mut self, position: usize) {
        let step = &self.steps[position];
        let dead = step.inputs.iter().chain(&step.outputs).copied();
        let dead: BTreeSet<usize> = dead
            .filter(|slot| {
                let is_ours = self.places.slots[*slot].place == Place::Runtime && !self.constants[*slot];
                is_ours && self.last_reader.get(*slot) == Some(&position)
            })
            .collect();
        for slot in dead {
            self.values[slot] = None;
        }
    }

    fn blame(&self, position: usize, error: Error) -> Error {
        let step = &self.steps[position];
        match error {
            Error::Runtime { message, .. } => {
                Error::Kernel { step: position as u64, node: step.name.clone(), op: step.op.clone(), message }
            }
            other => other,
        }
    }

    /// Copies the outputs out and measures the arenas.
    fn gather(&self, played: &mut Played) -> Result<(), Error> {
        for name in &self.outputs {
            let slot = self.places.by_name.get(name).copied();
            let Some(value) = slot.and_then(|slot| self.values[slot].as_ref()) else { continue };
            if let Some(array) = Array::of(value)? {
                played.outputs.insert(name.clone(), array);
            }
        }
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
        played.arenas = rows
            .map(|((planned, space), used)| ArenaUse { space: space.clone(), planned: *planned, used: used as u64 })
            .collect();
        Ok(())
    }
}
