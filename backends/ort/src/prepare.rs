//! Makes a plan ready to be played: memory, weights, values at their places, a session a kind of node.
#![allow(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use memc_layout::{Arena, Class, Layout};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::{NodeProto, TypeProto};
use sha2::{Digest as _, Sha256};

use crate::arrays::hex;
use crate::audit::audit;
use crate::cut::{Cut, Cutter, has_bodies, tensor_type};
use crate::error::Error;
use crate::memory::{ArenaMemory, Block, require, trim};
use crate::places::{Place, Places};
use crate::player::Player;
use crate::random;
use crate::runtime::{Bound, Runtime, Session, SessionOptions, Source, Value};
use crate::transfer::is_transfer;
use crate::weights::{Weight, Weights};

/// Start of the names of spaces that are files rather than memory.
const FILES: &str = "disk";

/// Bytes of operands for kernels to keep, after which freed memory goes back to the system.
const TRIM_AFTER: usize = 64 << 20;

/// How a plan is played.
#[derive(Clone, Debug, Default)]
pub struct PlayOptions {
    /// Refuse a layout that contradicts the schedule or itself; watch every value from its writer to its last reader, fill with poison
    /// what the plan says is dead, guard the bytes between.
    pub poison_check: bool,
    /// Play a layout whose hash is not the model's, and what it says even where it contradicts itself. For experiments with changed
    /// layouts only.
    pub any_model: bool,
    /// Where the files of spaces lie that are no memory (those whose names begin with `disk`); the system's folder for such files without.
    pub swap_folder: Option<PathBuf>,
    /// Gives nanoseconds since any moment, to measure how links and kernels wait for each other; the library has no clock of its own.
    pub clock: Option<fn() -> u64>,
}

impl PlayOptions {
    /// Whether a space is a file.
    pub(crate) fn is_file(&self, space: &str) -> bool {
        space.starts_with(FILES)
    }
}

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Runs a kernel.
    Run,
    /// Nothing: its results are where its operands are.
    Skip,
    /// Ran once, before the plan: its results are constants.
    Constant,
    /// Moves bytes from space to space, beside the kernels.
    Transfer,
}

/// A node in its place in the schedule.
#[derive(Debug)]
pub(crate) struct Step<'r> {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) op: String,
    pub(crate) domain: String,
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
    pub(crate) session: Option<Rc<Session<'r>>>,
    /// Operands and results fixed once, where all have their places before the run.
    pub(crate) bound: Option<Bound<'r>>,
    pub(crate) has_bodies: bool,
    pub(crate) is_transfer: bool,
}

impl<'r> Player<'r> {
    /// Makes a plan ready; takes about half a millisecond a kind of node.
    ///
    /// # Errors
    /// The layout is of another model or contradicts itself, weights are missing, memory is short, or kernels are missing.
    pub fn new(runtime: &'r Runtime, model: &ModelFile, layout: &Layout, options: PlayOptions) -> Result<Self, Error> {
        let folder = model.path().and_then(Path::parent).map(Path::to_owned).unwrap_or_default();
        Self::with_weights_in(runtime, model, layout, options, &folder)
    }

    /// As [`Self::new`], for a model whose external data lies in a folder that is not the model's own.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn with_weights_in(
        runtime: &'r Runtime,
        model: &ModelFile,
        layout: &Layout,
        options: PlayOptions,
        folder: &Path,
    ) -> Result<Self, Error> {
        if !options.any_model {
            let found = hex(&Sha256::digest(model.bytes()));
            if found != layout.model.output_sha256 {
                return Err(Error::OtherModel { expected: layout.model.output_sha256.clone(), found });
            }
        }
        let weights = Weights::read(model, folder)?;
        let mut places = Places::new(layout, &|name| weights.tensors.contains_key(name), &|space| options.is_file(space))?;
        let nodes = scheduled(model, layout)?;
        let in_folder = |(name, weight): (&String, &Weight)| weight.is_in_folder().then(|| name.clone());
        let in_folder: BTreeSet<String> = weights.tensors.iter().filter_map(in_folder).collect();
        let in_file = |name: &str| in_folder.contains(name);
        let cutter = Cutter::new(model.model(), model.graph(), &in_file);
        let mut steps = Vec::with_capacity(nodes.len());
        for node in &nodes {
            let outputs = node.output.iter().filter(|name| !name.is_empty());
            steps.push(Step {
                kind: Kind::Run,
                name: node.name().to_owned(),
                op: node.op_type().to_owned(),
                domain: node.domain().to_owned(),
                inputs: cutter.operands(node).iter().map(|name| places.slot(name)).collect(),
                outputs: outputs.map(|name| places.slot(name)).collect(),
                session: None,
                bound: None,
                has_bodies: has_bodies(node),
                is_transfer: is_transfer(node),
            });
        }
        for name in weights.tensors.keys() {
            places.slot(name);
        }
        let callers =
            places.slots.iter().filter(|slot| matches!(slot.place, Place::Caller | Place::State)).map(|slot| slot.bytes as u64);
        // A space that is a file has no memory of its own.
        let size = |arena: &Arena| if options.is_file(&arena.space) { 0 } else { arena.size };
        require(layout.arenas.iter().map(size).chain(callers).fold(0, u64::saturating_add))?;
        let arenas = layout.arenas.iter().map(|arena| ArenaMemory::new(size(arena), arena.alignment));
        let arenas = arenas.collect::<Result<Vec<_>, _>>()?;
        let spaces = layout.arenas.iter().map(|arena| arena.space.clone()).collect();
        let count = places.slots.len();
        let mut player = Self {
            runtime,
            options,
            spaces,
            transfers: None,
            reference: reference(layout),
            planned: layout.arenas.iter().map(|arena| arena.size).collect(),
            arenas,
            weights,
            places,
            held: BTreeMap::new(),
            values: (0..count).map(|_| None).collect(),
            constants: vec![false; count],
            steps,
            outputs: model.graph().output.iter().map(|output| output.name().to_owned()).collect(),
            inputs: model.graph().input.iter().map(|input| input.name().to_owned()).collect(),
            last_reader: Vec::new(),
            clock: None,
            times: Vec::new(),
        };
        player.make_values()?;
        player.find_skips();
        if player.options.poison_check && !player.options.any_model {
            audit(&player.places, &player.steps, &player.outputs)?;
        }
        player.make_transfers(layout)?;
        player.make_sessions(model, &cutter, &nodes, folder)?;
        player.run_constants()?;
        player.bind()?;
        player.find_last_readers();
        Ok(player)
    }

    /// A value for everything whose place is known before the run.
    fn make_values(&mut self) -> Result<(), Error> {
        for slot in 0..self.places.slots.len() {
            if matches!(self.places.slots[slot].place, Place::Caller | Place::State) {
                let block = Block::new(self.places.slots[slot].bytes as u64, 64, crate::memory::POISON)?;
                self.held.insert(slot, block);
            }
        }
        for slot in 0..self.places.slots.len() {
            let name = self.places.slots[slot].name.clone();
            let placed = matches!(self.places.slots[slot].place, Place::Arena { .. } | Place::File { .. } | Place::State);
            if let Some(weight) = self.weights.tensors.get(&name).filter(|_| !placed) {
                self.places.slots[slot].place = Place::Weight;
                self.places.slots[slot].bytes = weight.bytes().len();
                self.places.slots[slot].ty = Some((weight.element, weight.shape.clone()));
            }
            let (Some(address), Some((element, shape))) = (self.address(slot), &self.places.slots[slot].ty) else { continue };
            // SAFETY: arenas, weights and held blocks live as long as the player and do not move; sizes were compared with shapes.
            let value = unsafe { self.runtime.tensor(address, self.places.slots[slot].bytes, *element, shape)? };
            self.values[slot] = Some(value);
        }
        Ok(())
    }

    /// Where the first byte of a value is, if that is known before the run.
    pub(crate) fn address(&self, slot: usize) -> Option<*mut u8> {
        let (mut slot, mut offset) = (slot, 0usize);
        for _ in 0..=self.places.slots.len() {
            let start = match self.places.slots[slot].place {
                Place::Arena { arena, offset } => self.arenas[arena].address(offset),
                Place::Weight => self.weights.tensors.get(&self.places.slots[slot].name)?.bytes().as_ptr().cast_mut(),
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

    fn span(&self, slot: usize) -> Option<(usize, usize)> {
        let start = self.address(slot)?.addr();
        Some((start, start.checked_add(self.places.slots[slot].bytes)?))
    }

    /// Nodes whose results already are where their operands are, by what the layout calls views.
    fn find_skips(&mut self) {
        for position in 0..self.steps.len() {
            let step = &self.steps[position];
            let is_constant = |slot: &usize| self.places.slots[*slot].class == Some(Class::Constant);
            if !step.outputs.is_empty() && step.outputs.iter().all(is_constant) {
                self.steps[position].kind = Kind::Constant;
            } else if !step.has_bodies && (self.reads_in_place(step) || self.is_assembled(step)) {
                self.steps[position].kind = Kind::Skip;
            }
        }
    }

    fn related(&self, one: usize, other: usize) -> bool {
        one != other && self.places.view_root(one) == self.places.view_root(other)
    }

    /// Every result lies inside an operand that it is a view of.
    fn reads_in_place(&self, step: &Step<'_>) -> bool {
        let inside = |output: &usize| {
            let Some((start, end)) = self.span(*output) else { return false };
            step.inputs.iter().any(|input| {
                self.related(*input, *output) && self.span(*input).is_some_and(|(from, to)| from <= start && end <= to)
            })
        };
        !step.outputs.is_empty() && step.outputs.iter().all(inside)
    }

    /// The one result is made of operands that are views of it, without a gap.
    fn is_assembled(&self, step: &Step<'_>) -> bool {
        let [output] = step.outputs[..] else { return false };
        let Some((start, end)) = self.span(output) else { return false };
        let mut parts = Vec::new();
        for input in &step.inputs {
            match self.span(*input) {
                Some((from, to)) if self.related(*input, output) && start <= from && to <= end => parts.push((from, to)),
                _ => return false,
            }
        }
        parts.sort_unstable();
        let mut at = start;
        parts.iter().all(|(from, to)| std::mem::replace(&mut at, *to) == *from) && at == end && !parts.is_empty()
    }

    /// One session for all nodes that are equal but for names.
    fn make_sessions(
        &mut self,
        model: &ModelFile,
        cutter: &Cutter<'_>,
        nodes: &[&NodeProto],
        folder: &Path,
    ) -> Result<(), Error> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let graph = model.graph();
        let described = graph.value_info.iter().chain(&graph.input).chain(&graph.output);
        let described: BTreeMap<&str, &TypeProto> =
            described.filter_map(|info| Some((info.name(), info.r#type.as_ref()?))).collect();
        let mut sessions: BTreeMap<Vec<u8>, Rc<Session<'r>>> = BTreeMap::new();
        let mut missing: Vec<String> = Vec::new();
        // Bytes of operands that kernels were given to keep in a form of their own; they free about as many on the way.
        let mut packed = 0usize;
        for (position, node) in nodes.iter().enumerate() {
            if matches!(self.steps[position].kind, Kind::Skip | Kind::Transfer) {
                continue;
            }
            let type_of = |name: &str| {
                let slot = self.places.by_name.get(name).map(|slot| &self.places.slots[*slot]);
                match slot.and_then(|slot| slot.ty.as_ref()) {
                    Some((element, _)) => Some(tensor_type(*element)),
                    None => described.get(name).map(|ty| (*ty).clone()),
                }
            };
            let Cut { bytes, operands, results, weights } = cutter.cut(node, random::draws(node), &type_of);
            let slots = |names: &[String]| names.iter().filter_map(|name| self.places.by_name.get(name).copied()).collect();
            let (inputs, outputs) = (slots(&operands), slots(&results));
            let value = |(inner, outer): &'_ (String, String)| {
                let slot = *self.places.by_name.get(outer)?;
                Some((inner.clone(), slot))
            };
            let known: Vec<(String, usize)> = weights.iter().filter_map(value).collect();
            let given: Vec<(&str, &Value<'_>)> =
                known.iter().filter_map(|(name, slot)| Some((name.as_str(), self.values[*slot].as_ref()?))).collect();
            let session = match sessions.get(&bytes) {
                Some(session) => session.clone(),
                None => {
                    let source = Source::Bytes(&bytes, Some(folder));
                    // SAFETY: weights live as long as the player, which owns the sessions.
                    match unsafe { self.runtime.session_with(source, self.reference, &given) } {
                        Ok(session) => {
                            packed += known.iter().map(|(_, slot)| self.places.slots[*slot].bytes).sum::<usize>();
                            if packed > TRIM_AFTER {
                                packed = 0;
                                trim();
                            }
                            let session = Rc::new(session);
                            sessions.insert(bytes, session.clone());
                            session
                        }
                        Err(error) => {
                            missing.push(lacking(error, position, node)?);
                            continue;
                        }
                    }
                }
            };
            let step = &mut self.steps[position];
            (step.inputs, step.outputs, step.session) = (inputs, outputs, Some(session));
        }
        trim();
        missing.sort();
        missing.dedup();
        if missing.is_empty() { Ok(()) } else { Err(Error::MissingKernels { kernels: missing }) }
    }

    /// Runs what depends on nothing but initializers, once.
    fn run_constants(&mut self) -> Result<(), Error> {
        for position in 0..self.steps.len() {
            if self.steps[position].kind != Kind::Constant {
                continue;
            }
            self.run_free(position)?;
            for slot in self.steps[position].outputs.clone() {
                self.constants[slot] = true;
                if let Some(view) = self.values[slot].as_ref().map(Value::tensor).transpose()?.flatten() {
                    let (element, shape, bytes) = (view.element, view.shape.clone(), view.bytes.len());
                    self.places.slots[slot].ty = Some((element, shape));
                    self.places.slots[slot].bytes = bytes;
                }
            }
        }
        Ok(())
    }

    /// Fixes operands and results of nodes for which all are known now.
    fn bind(&mut self) -> Result<(), Error> {
        for step in self.steps.iter_mut().filter(|step| step.kind == Kind::Run) {
            let find = |slots: &[usize]| slots.iter().map(|slot| self.values[*slot].as_ref()).collect::<Option<Vec<_>>>();
            let (Some(inputs), Some(outputs)) = (find(&step.inputs), find(&step.outputs)) else { continue };
            let Some(session) = &step.session else { continue };
            // SAFETY: the values live as long as the player. Which bytes results share with operands is what the plan says: a wrong plan
            // gives wrong numbers, inside the arena.
            step.bound = Some(unsafe { Session::bind(session, &inputs, &outputs)? });
        }
        Ok(())
    }

    fn find_last_readers(&mut self) {
        self.last_reader = vec![0; self.places.slots.len()];
        for (position, step) in self.steps.iter().enumerate() {
            for slot in step.inputs.iter().chain(&step.outputs) {
                self.last_reader[*slot] = position;
            }
        }
        for name in &self.outputs {
            if let Some(slot) = self.places.by_name.get(name) {
                self.last_reader[*slot] = self.steps.len();
            }
        }
    }
}

/// Options of sessions that a plan is compared with, and of its own. A constant that is fetched reaches its kernel as any other operand, which
/// may round otherwise than what a kernel has packed beforehand: then nobody packs.
pub(crate) fn reference(layout: &Layout) -> SessionOptions {
    SessionOptions { prepack: layout.fetches.is_empty(), ..SessionOptions::PLAIN }
}

/// The nodes in the order of the schedule.
fn scheduled<'m>(model: &'m ModelFile, layout: &Layout) -> Result<Vec<&'m NodeProto>, Error> {
    let mut by_name: BTreeMap<&str, Vec<&NodeProto>> = BTreeMap::new();
    for node in &model.graph().node {
        by_name.entry(node.name()).or_default().push(node);
    }
    let mut nodes = Vec::with_capacity(layout.schedule.len());
    for row in &layout.schedule {
        match by_name.get(row.node.as_str()).map(Vec::as_slice) {
            Some([node]) => nodes.push(*node),
            found => {
                let count = found.map_or(0, <[_]>::len);
                return Err(Error::Schedule { step: row.step, node: row.node.clone(), count });
            }
        }
    }
    Ok(nodes)
}

/// The operator that the library does not have, when that is why it refused the node.
fn lacking(error: Error, position: usize, node: &NodeProto) -> Result<String, Error> {
    let Error::Runtime { message, .. } = &error else { return Err(error) };
    let absent =
        ["is not a registered function/op", "Could not find an implementation", "No Op registered for", "is not registered"];
    let domain = if node.domain().is_empty() { "ai.onnx" } else { node.domain() };
    if absent.iter().any(|words| message.contains(words)) {
        return Ok(format!("{domain}::{}", node.op_type()));
    }
    let message = message.clone();
    Err(Error::Kernel { step: position as u64, node: node.name().to_owned(), op: node.op_type().to_owned(), message })
}
