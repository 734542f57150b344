//! Plays the sections of a divided model in one process: an arena each, and the events of the manifest.
//!
//! Devices take turns: each one runs its events until it waits for a message. One device runs at a time,
//! because the workspace of kernels is counted for one plan at a time. The order of turns does not change
//! results: a program of sends and receives ends in one way or not at all.

use std::collections::BTreeMap;

use memc_layout::Layout;
use memc_layout::devices::{Carried, Event};
use memc_onnx_proto::ModelFile;

use crate::arrays::Array;
use crate::element::Element;
use crate::error::Error;
use crate::inputs::Inputs;
use crate::options::PlayOptions;
use crate::played::Played;
use crate::player::Player;
use crate::runtime::Runtime;

/// A section to play.
#[derive(Debug)]
pub struct Part<'f> {
    /// Name of the device.
    pub device: &'f str,
    /// Planned model.
    pub model: &'f ModelFile,
    /// Layout of the model.
    pub layout: &'f Layout,
    /// Events in order.
    pub events: &'f [Event],
}

/// What a device did.
#[derive(Debug, Default)]
pub struct DeviceUse {
    /// Name of the device.
    pub device: String,
    /// Memory and time of the last run of its section.
    pub played: Played,
    /// Most bytes of values held outside the arenas.
    pub held: u64,
    /// Nanoseconds in kernels; 0 without a clock.
    pub nanoseconds: u64,
}

/// What a program did.
#[derive(Debug, Default)]
pub struct PlayedSections {
    /// Graph outputs by name, for each run of the model.
    pub outputs: Vec<BTreeMap<String, Array>>,
    /// Devices, in the order of the parts.
    pub devices: Vec<DeviceUse>,
    /// Bytes sent from device to device.
    pub sent: u64,
}

/// A source of graph inputs: the position of the section that reads them, and the number of the run.
pub type Feed<'a> = dyn Fn(usize, u64) -> Result<Box<dyn Inputs + 'a>, Error> + 'a;

/// A message: sender, receiver, value and run.
type Message<'f> = (&'f str, &'f str, &'f str, u64);

/// Plays a program to its end. `options` hold for each section.
///
/// # Errors
/// A section cannot be prepared or fails, an event names a value that is not held, or all devices wait.
pub fn play_sections(
    runtime: &Runtime,
    parts: &[Part<'_>],
    feed: &Feed<'_>,
    options: &PlayOptions,
) -> Result<PlayedSections, Error> {
    let mut devices = Vec::new();
    for part in parts {
        let player = Player::new(runtime, part.model, part.layout, options.clone()).map_err(|error| on(part.device, error))?;
        devices.push(Device {
            part,
            player,
            at: 0,
            held: BTreeMap::new(),
            used: DeviceUse { device: part.device.to_owned(), ..DeviceUse::default() },
        });
    }
    let mut wire: BTreeMap<Message<'_>, Array> = BTreeMap::new();
    let mut played = PlayedSections::default();
    loop {
        let mut has_moved = false;
        for (position, device) in devices.iter_mut().enumerate() {
            while let Some(event) = device.part.events.get(device.at) {
                let went_on =
                    device.take(event, position, feed, &mut wire, &mut played).map_err(|error| on(device.part.device, error))?;
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
    if let Some(device) = devices.iter().find(|device| device.at < device.part.events.len()) {
        return Err(Error::Waits { device: device.part.device.to_owned(), event: device.at });
    }
    played.devices = devices.into_iter().map(|device| device.used).collect();
    Ok(played)
}

/// Names the device of an error.
fn on(device: &str, error: Error) -> Error {
    Error::At { at: device.to_owned(), error: Box::new(error) }
}

/// A device in the middle of its program.
struct Device<'f, 'r> {
    part: &'f Part<'f>,
    player: Player<'r>,
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
        position: usize,
        feed: &Feed<'_>,
        wire: &mut BTreeMap<Message<'f>, Array>,
        played: &mut PlayedSections,
    ) -> Result<bool, Error> {
        match event {
            Event::Feed(Carried { value, micro_batch }) => {
                let array = array(&*feed(position, *micro_batch)?, value)?;
                self.hold(value, *micro_batch, array);
            }
            Event::Recv { value, micro_batch, from } => {
                let Some(array) = wire.remove(&(from, self.part.device, value, *micro_batch)) else { return Ok(false) };
                self.hold(value, *micro_batch, array);
            }
            Event::Run { micro_batch } => self.run(*micro_batch)?,
            Event::Send { value, micro_batch, to } => {
                let array = Array::of(&self.held(value, *micro_batch)?.view())?;
                played.sent += array.bytes().len() as u64;
                wire.insert((self.part.device, to, value, *micro_batch), array);
            }
            Event::Give(Carried { value, micro_batch }) => {
                let array = Array::of(&self.held(value, *micro_batch)?.view())?;
                let run = usize::try_from(*micro_batch).unwrap_or(usize::MAX);
                while played.outputs.len() <= run {
                    played.outputs.push(BTreeMap::new());
                }
                played.outputs[run].insert(value.clone(), array);
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

    fn held(&self, value: &str, micro_batch: u64) -> Result<&Array, Error> {
        let lacking = || Error::NotHeld { value: value.to_owned(), run: micro_batch };
        self.held.get(&micro_batch).and_then(|values| values.get(value)).ok_or_else(lacking)
    }

    fn hold(&mut self, value: &'f str, micro_batch: u64, array: Array) {
        self.held.entry(micro_batch).or_default().insert(value, array);
        let bytes = self.held.values().flat_map(BTreeMap::values).map(|array| array.bytes().len() as u64).sum();
        self.used.held = self.used.held.max(bytes);
    }

    fn run(&mut self, micro_batch: u64) -> Result<(), Error> {
        let inputs =
            Held { arrays: self.held.get(&micro_batch).into_iter().flatten().map(|(name, array)| (*name, array)).collect() };
        let played = self.player.play(&inputs)?;
        self.used.nanoseconds = self.used.nanoseconds.saturating_add(played.nanoseconds);
        self.used.played = played;
        let mut results = Vec::new();
        for (name, content) in self.player.outputs()? {
            let view = content.tensor().ok_or(Error::Unsupported { what: "an output of a section that is not a tensor" })?;
            // Names live as long as the model.
            let known = self.part.model.graph().output.iter().map(|info| info.name()).find(|known| *known == name);
            results.extend(known.map(|known| Ok((known, Array::of(&view)?))));
        }
        for result in results {
            let (name, array) = result?;
            self.hold(name, micro_batch, array);
        }
        Ok(())
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
    Array::filled(element, shape, |place| inputs.fill(name, place))?.ok_or_else(|| wrong("has an impossible size"))
}
