//! Plays the sections of a divided model in one process: an arena each, and the events of the manifest.
//!
//! Devices take turns: each one runs its events until it waits for a message. One device runs at a time,
//! because the workspace of kernels is counted for one plan at a time. The order of turns does not change
//! results: a program of sends and receives ends in one way or not at all.

use std::collections::{BTreeMap, BTreeSet};

use memc_layout::Layout;
use memc_layout::devices::{Carried, Collective, CollectiveKind, Crossing, Event, Manifest};
use memc_onnx_proto::ModelFile;

use crate::arrays::Array;
use crate::element::Element;
use crate::error::Error;
use crate::inputs::Inputs;
use crate::joining;
use crate::options::PlayOptions;
use crate::played::Played;
use crate::player::Player;
use crate::runtime::Runtime;

/// The files of a section.
#[derive(Debug)]
pub struct Part<'f> {
    /// Planned model.
    pub model: &'f ModelFile,
    /// Layout of the model.
    pub layout: &'f Layout,
}

/// What a device did.
#[derive(Debug, Default)]
pub struct DeviceUse {
    /// Name of the device.
    pub device: String,
    /// Memory and time of the last run of each of its sections.
    pub played: Vec<Played>,
    /// Most bytes of values held outside the arenas.
    pub held: u64,
    /// Nanoseconds in kernels; 0 without a clock.
    pub nanoseconds: u64,
}

impl DeviceUse {
    /// Bytes of the largest arenas: the sections of a device take turns.
    #[must_use]
    pub fn arenas(&self) -> u64 {
        let used = |played: &Played| played.arenas.iter().map(|arena| arena.used).sum::<u64>();
        self.played.iter().map(used).max().unwrap_or(0)
    }
}

/// What a program did.
#[derive(Debug, Default)]
pub struct PlayedSections {
    /// Graph outputs by name, for each run of the model; a pipeline has one. A graph input that is an output
    /// is among them if a section reads it.
    pub outputs: Vec<BTreeMap<String, Array>>,
    /// Devices with sections, by rank.
    pub devices: Vec<DeviceUse>,
    /// Bytes sent from device to device.
    pub sent: u64,
}

/// A source of graph inputs: the position of the section that reads them, and the number of the run. In a
/// pipeline, inputs have the extents of the whole batch.
pub type Feed<'a> = dyn Fn(usize, u64) -> Result<Box<dyn Inputs + 'a>, Error> + 'a;

/// A message: sender, receiver, value and run.
type Message<'f> = (&'f str, &'f str, &'f str, u64);

/// What is between devices.
#[derive(Default)]
struct Wire<'f> {
    messages: BTreeMap<Message<'f>, Array>,
    /// The collective of each value.
    joint: BTreeMap<&'f str, Joint<'f>>,
}

/// A collective, and what devices gave to it. Each one is there once it takes part, also if it gives nothing.
struct Joint<'f> {
    row: &'f Collective,
    parts: BTreeMap<&'f str, Option<Array>>,
}

/// Plays the program of a manifest to its end. `parts` are the files of its sections, and `options` hold for
/// each section.
///
/// # Errors
/// A section cannot be prepared or fails, an event names a value that is not held, or all devices wait.
pub fn play_sections(
    runtime: &Runtime,
    manifest: &Manifest,
    parts: &[Part<'_>],
    feed: &Feed<'_>,
    options: &PlayOptions,
) -> Result<PlayedSections, Error> {
    let values: BTreeMap<&str, &Crossing> =
        manifest.values.iter().map(|value| (value.name.as_str(), value)).collect();
    let step = (manifest.pipeline.is_some() && manifest.micro_batches > 1).then_some(manifest.micro_batches);
    let mut devices: Vec<Device<'_, '_>> = Vec::new();
    for stated in &manifest.devices {
        let own = manifest
            .sections
            .iter()
            .zip(parts)
            .enumerate()
            .filter(|(_, (section, _))| section.runs_on(&stated.name));
        let mut sections = Vec::new();
        for (position, (section, part)) in own {
            let player = Player::new(runtime, part.model, part.layout, options.clone());
            let player = player.map_err(|error| on(section.name(), error))?;
            sections.push(Sectioned {
                position,
                name: section.name(),
                is_once: manifest.is_once(section),
                part,
                player,
                played: Played::default(),
            });
        }
        if !sections.is_empty() {
            let events = manifest.program.get(&stated.name).map(Vec::as_slice).unwrap_or_default();
            let used = DeviceUse { device: stated.name.clone(), ..DeviceUse::default() };
            let (at, held) = (0, BTreeMap::new());
            let is_own = |section: &str| sections.iter().any(|own| own.name == section);
            let stored = manifest
                .state
                .iter()
                .filter(|row| is_own(&row.section))
                .map(|row| row.result.as_str())
                .collect();
            devices.push(Device {
                name: &stated.name,
                events,
                sections,
                values: &values,
                stored,
                step,
                at,
                held,
                used,
            });
        }
    }
    let mut wire = Wire::default();
    for row in &manifest.collectives {
        wire.joint.insert(&row.value, Joint { row, parts: BTreeMap::new() });
    }
    let mut played = PlayedSections::default();
    loop {
        let mut has_moved = false;
        for device in &mut devices {
            while let Some(event) = device.events.get(device.at) {
                let went_on = device
                    .take(event, feed, &mut wire, &mut played)
                    .map_err(|error| on(device.name, error))?;
                if !went_on {
                    break;
                }
                device.at += 1;
                has_moved = true;
            }
        }
        if !has_moved {
            break;
        }
    }
    if let Some(device) = devices.iter().find(|device| device.at < device.events.len()) {
        return Err(Error::Waits { device: device.name.to_owned(), event: device.at });
    }
    played.devices = devices.into_iter().map(Device::ended).collect();
    Ok(played)
}

/// Names the device or section of an error.
fn on(device: &str, error: Error) -> Error {
    Error::At { at: device.to_owned(), error: Box::new(error) }
}

/// A section of a device.
struct Sectioned<'f, 'r> {
    /// Position in the manifest.
    position: usize,
    name: &'f str,
    is_once: bool,
    part: &'f Part<'f>,
    player: Player<'r>,
    /// The last run.
    played: Played,
}

/// A device in the middle of its program.
struct Device<'f, 'r> {
    name: &'f str,
    events: &'f [Event],
    sections: Vec<Sectioned<'f, 'r>>,
    values: &'f BTreeMap<&'f str, &'f Crossing>,
    /// Results in the storage of old values, which is counted already.
    stored: BTreeSet<&'f str>,
    /// Number of the run of the step, with several parts.
    step: Option<u64>,
    /// Position of the next event.
    at: usize,
    /// Held values by run and name.
    held: BTreeMap<u64, BTreeMap<&'f str, Array>>,
    used: DeviceUse,
}

impl<'f> Device<'f, '_> {
    /// Does an event; returns false if it has to wait.
    fn take(
        &mut self,
        event: &'f Event,
        feed: &Feed<'_>,
        wire: &mut Wire<'f>,
        played: &mut PlayedSections,
    ) -> Result<bool, Error> {
        match event {
            Event::Feed(Carried { value, micro_batch }) => {
                let whole = self.fed(value, *micro_batch, feed)?;
                let share = self.share(&whole, value, *micro_batch)?;
                if self.values.get(value.as_str()).is_some_and(|value| value.output) {
                    self.give(value, *micro_batch, Array::of(&whole.view())?, played)?;
                }
                self.hold(value, *micro_batch, share.unwrap_or(whole));
            }
            Event::Recv { value, micro_batch, from } => {
                let Some(array) = wire.messages.remove(&(from, self.name, value, *micro_batch)) else {
                    return Ok(false);
                };
                self.hold(value, *micro_batch, array);
            }
            Event::Run { micro_batch, section } => self.run(*micro_batch, section.as_deref())?,
            Event::Join(Carried { value, micro_batch }) => self.join(value, *micro_batch)?,
            Event::Share(Carried { value, micro_batch }) => {
                let lacking = || Error::NotHeld { value: value.clone(), run: *micro_batch };
                let step = self.step.ok_or_else(lacking)?;
                let joined = self
                    .values
                    .get(value.as_str())
                    .and_then(|value| value.joined.as_ref())
                    .ok_or_else(lacking)?;
                let share = joining::share(self.held(value, step)?, value, joined, *micro_batch, step)?;
                self.hold(value, *micro_batch, share);
            }
            Event::Offer(Carried { value, micro_batch }) => self.offer(value, *micro_batch, wire, played)?,
            Event::Collect(Carried { value, micro_batch }) => {
                self.offer(value, *micro_batch, wire, played)?;
                let lacking = || Error::NotHeld { value: value.clone(), run: *micro_batch };
                let joint = wire.joint.get(value.as_str()).ok_or_else(lacking)?;
                if joint.row.devices.iter().any(|device| !joint.parts.contains_key(device.as_str())) {
                    return Ok(false);
                }
                let whole = self.collected(joint, *micro_batch)?;
                self.hold(value, *micro_batch, whole);
            }
            Event::Send { value, micro_batch, to } => {
                let array = Array::of(&self.held(value, *micro_batch)?.view())?;
                played.sent += array.bytes().len() as u64;
                wire.messages.insert((self.name, to, value, *micro_batch), array);
            }
            Event::Give(Carried { value, micro_batch }) => {
                let array = Array::of(&self.held(value, *micro_batch)?.view())?;
                self.give(value, *micro_batch, array, played)?;
            }
            Event::Free(Carried { value, micro_batch }) => {
                self.held(value, *micro_batch)?;
                if let Some(values) = self.held.get_mut(micro_batch) {
                    values.remove(value.as_str());
                }
            }
        }
        Ok(true)
    }

    /// Gives the caller a graph output. Devices that give one value give equal ones.
    fn give(&self, value: &str, run: u64, array: Array, played: &mut PlayedSections) -> Result<(), Error> {
        let run = if self.step.is_some() { 0 } else { usize::try_from(run).unwrap_or(usize::MAX) };
        while played.outputs.len() <= run {
            played.outputs.push(BTreeMap::new());
        }
        if let Some(before) = played.outputs[run].insert(value.to_owned(), array)
            && played.outputs[run].get(value).is_some_and(|array| array.bytes() != before.bytes())
        {
            return Err(Error::Unequal { value: value.to_owned() });
        }
        Ok(())
    }

    /// Takes a graph input from the caller, all of it.
    fn fed(&self, value: &str, run: u64, feed: &Feed<'_>) -> Result<Array, Error> {
        let reads = |section: &&Sectioned<'_, '_>| {
            section.part.model.graph().input.iter().any(|input| input.name() == value)
        };
        let lacking = || Error::NotHeld { value: value.to_owned(), run };
        let section = self.sections.iter().find(reads).ok_or_else(lacking)?;
        array(&*feed(section.position, run)?, value)
    }

    /// The share that a run takes of a graph input; `None` if it takes all of it.
    fn share(&self, whole: &Array, value: &str, run: u64) -> Result<Option<Array>, Error> {
        let joined = self.values.get(value).and_then(|value| value.joined.as_ref());
        let shared = joined.zip(self.step).filter(|(_, step)| run < *step);
        shared.map(|(joined, step)| joining::share(whole, value, joined, run, step)).transpose()
    }

    /// Adds a part to the value of the step.
    fn join(&mut self, value: &'f str, run: u64) -> Result<(), Error> {
        let lacking = || Error::NotHeld { value: value.to_owned(), run };
        let joined = self.values.get(value).and_then(|value| value.joined.as_ref()).ok_or_else(lacking)?;
        let step = self.step.ok_or_else(lacking)?;
        let so_far = self.held.get_mut(&step).and_then(|values| values.remove(value));
        let whole = joining::join(so_far, self.held(value, run)?, value, joined, run, step)?;
        self.hold(value, step, whole);
        Ok(())
    }

    /// Gives what this device has of a value to its collective, once.
    fn offer(
        &self,
        value: &str,
        step: u64,
        wire: &mut Wire<'f>,
        played: &mut PlayedSections,
    ) -> Result<(), Error> {
        let lacking = || Error::NotHeld { value: value.to_owned(), run: step };
        let joint = wire.joint.get_mut(value).ok_or_else(lacking)?;
        let rank =
            joint.row.devices.iter().zip(0..).find(|(device, _)| *device == self.name).map(|(_, rank)| rank);
        let rank: u64 = rank.ok_or_else(lacking)?;
        let run = match joint.row.kind {
            CollectiveKind::Broadcast if joint.row.root.as_deref() != Some(self.name) => None,
            CollectiveKind::Broadcast => Some(step),
            _ => Some(rank),
        };
        if !joint.parts.contains_key(self.name) {
            let part = run.map(|run| Array::of(&self.held(value, run)?.view())).transpose()?;
            played.sent += part.as_ref().map_or(0, |part| part.bytes().len() as u64);
            joint.parts.insert(self.name, part);
        }
        Ok(())
    }

    /// The value of a collective to which all devices gave.
    fn collected(&self, joint: &Joint<'_>, step: u64) -> Result<Array, Error> {
        let value = joint.row.value.as_str();
        let lacking = || Error::NotHeld { value: value.to_owned(), run: step };
        let mut parts =
            joint.row.devices.iter().filter_map(|device| joint.parts.get(device.as_str())?.as_ref());
        let joined = self.values.get(value).and_then(|value| value.joined.as_ref());
        if joint.row.kind == CollectiveKind::Broadcast {
            return Array::of(&parts.next_back().ok_or_else(lacking)?.view());
        }
        let mut whole = None;
        for (part, run) in parts.zip(0..) {
            whole = Some(joining::join(whole, part, value, joined.ok_or_else(lacking)?, run, step)?);
        }
        whole.ok_or_else(lacking)
    }

    fn held(&self, value: &str, micro_batch: u64) -> Result<&Array, Error> {
        let lacking = || Error::NotHeld { value: value.to_owned(), run: micro_batch };
        self.held.get(&micro_batch).and_then(|values| values.get(value)).ok_or_else(lacking)
    }

    fn hold(&mut self, value: &'f str, micro_batch: u64, array: Array) {
        self.held.entry(micro_batch).or_default().insert(value, array);
        let counted = self.held.values().flatten().filter(|(name, _)| !self.stored.contains(*name));
        let bytes = counted.map(|(_, array)| array.bytes().len() as u64).sum();
        self.used.held = self.used.held.max(bytes);
    }

    fn run(&mut self, micro_batch: u64, name: Option<&str>) -> Result<(), Error> {
        let is_it = |section: &&mut Sectioned<'f, '_>| name.is_none_or(|name| section.name == name);
        let lacking = || Error::NotHeld { value: name.unwrap_or(self.name).to_owned(), run: micro_batch };
        let section = self.sections.iter_mut().find(is_it).ok_or_else(lacking)?;
        let mut arrays = BTreeMap::new();
        for input in &section.part.model.graph().input {
            let is_whole = section.is_once || self.values.get(input.name()).is_some_and(|value| value.once);
            let run = self.step.filter(|_| is_whole).unwrap_or(micro_batch);
            if let Some(array) = self.held.get(&run).and_then(|values| values.get(input.name())) {
                arrays.insert(input.name(), array);
            }
        }
        let played = section.player.play(&Held { arrays })?;
        self.used.nanoseconds = self.used.nanoseconds.saturating_add(played.nanoseconds);
        section.played = played;
        let mut results = Vec::new();
        for (name, content) in section.player.outputs()? {
            let view = content
                .tensor()
                .ok_or(Error::Unsupported { what: "an output of a section that is not a tensor" })?;
            // Names live as long as the model.
            let known =
                section.part.model.graph().output.iter().map(|info| info.name()).find(|known| *known == name);
            results.extend(known.map(|known| Ok((known, Array::of(&view)?))));
        }
        for result in results {
            let (name, array) = result?;
            self.hold(name, micro_batch, array);
        }
        Ok(())
    }

    fn ended(self) -> DeviceUse {
        DeviceUse { played: self.sections.into_iter().map(|section| section.played).collect(), ..self.used }
    }
}

/// Held values of one run, as the inputs of a section.
struct Held<'h> {
    arrays: BTreeMap<&'h str, &'h Array>,
}

impl Inputs for Held<'_> {
    fn names(&self) -> Vec<&str> {
        self.arrays.keys().copied().collect()
    }

    fn kind(&self, input: &str) -> Option<(Element, &[u64])> {
        self.arrays.get(input).map(|array| (array.element, array.shape.as_slice()))
    }

    fn fill(&self, input: &str, place: &mut [u8]) -> Result<(), Error> {
        if let Some(array) = self.arrays.get(input) {
            place.copy_from_slice(array.bytes());
        }
        Ok(())
    }
}

/// Reads one input of a source.
fn array(inputs: &dyn Inputs, name: &str) -> Result<Array, Error> {
    let wrong = |reason: &str| Error::Input { input: name.to_owned(), reason: reason.to_owned() };
    let (element, shape) = inputs.kind(name).ok_or_else(|| wrong("is missing"))?;
    let shape = shape.to_vec();
    Array::filled(element, shape, |place| inputs.fill(name, place))?
        .ok_or_else(|| wrong("has an impossible size"))
}
