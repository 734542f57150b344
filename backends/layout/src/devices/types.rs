//! Keys of a manifest as types: one struct for each object, with fields named like the keys.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Value of the key `schema` in this version of the file.
pub const VERSION: &str = "memc.devices/1";

/// A model divided over devices. All sizes are bytes; paths are relative to the folder of the manifest.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Name and version of the format, `memc.devices/1`.
    pub schema: String,
    /// Version of memc that wrote the file.
    pub memc_version: String,
    /// The given model.
    pub source: Source,
    /// Number of times that the program runs the model, each with inputs of its own.
    pub micro_batches: u64,
    /// Devices by rank: the position in this list.
    pub devices: Vec<DeviceMemory>,
    /// Links between devices, in both directions.
    pub links: Vec<Path>,
    /// Sections by rank.
    pub sections: Vec<Section>,
    /// Graph inputs, values between sections, and graph outputs.
    pub values: Vec<Crossing>,
    /// Weights that several devices hold.
    pub copies: Vec<Copied>,
    /// Events of each device, in order.
    pub program: BTreeMap<String, Vec<Event>>,
}

/// The given model.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// SHA-256 of its file.
    pub sha256: String,
    /// Extents of its symbolic dimensions.
    pub dims: BTreeMap<String, u64>,
}

/// Memory of a device.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceMemory {
    /// Name of the device.
    pub name: String,
    /// Limit of all its bytes; null without one.
    pub budget: Option<u64>,
    /// Weights of its section.
    pub weights: u64,
    /// Arenas of its section.
    pub arena: u64,
    /// Most bytes of weights, arenas and held values.
    pub peak: u64,
    /// First event after which that many bytes are held, as a position in the device's program.
    pub event: u64,
}

/// A link between two devices.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// One device.
    pub from: String,
    /// The other device.
    pub to: String,
    /// Rate of each direction.
    pub bytes_per_second: f64,
    /// Time before the first byte arrives, in nanoseconds.
    pub latency_ns: f64,
}

/// The part of the model that one device runs.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// Name of the device.
    pub device: String,
    /// Planned model of the section.
    pub model: String,
    /// SHA-256 of that file.
    pub model_sha256: String,
    /// Layout of the section.
    pub layout: String,
    /// SHA-256 of that file.
    pub layout_sha256: String,
    /// Nodes of the given model's main graph, as positions in its list of nodes, ascending. Nodes that are
    /// cheaper to run than to send are in several sections.
    pub nodes: Vec<u64>,
    /// Small integers that follow from the extents and that the section reads as constants.
    pub known: Vec<String>,
}

/// A value that enters or leaves a section.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crossing {
    /// Name in the given model.
    pub name: String,
    /// Element type.
    pub dtype: String,
    /// Extents.
    pub shape: Vec<u64>,
    /// Size.
    pub bytes: u64,
    /// Device that makes it; null for a graph input, which the caller feeds.
    pub from: Option<String>,
    /// Devices that read it, by rank.
    pub to: Vec<String>,
    /// Whether it is a graph output, which the caller gets.
    pub output: bool,
}

/// A weight that several devices hold.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    /// Name of the weight in the given model.
    pub tensor: String,
    /// Devices that hold it, by rank.
    pub devices: Vec<String>,
    /// Size of one copy.
    pub bytes: u64,
}

/// A value of one run of the model.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Carried {
    /// Name of the value.
    pub value: String,
    /// Number of the run, from 0.
    pub micro_batch: u64,
}

/// What a device does at one point of its program.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Takes a graph input from the caller and holds it.
    Feed(Carried),
    /// Receives a value from another device and holds it.
    Recv {
        /// Name of the value.
        value: String,
        /// Number of the run.
        micro_batch: u64,
        /// Device that sends it.
        from: String,
    },
    /// Runs the section; from here on its results are held outside the arena.
    Run {
        /// Number of the run.
        micro_batch: u64,
    },
    /// Sends a held value.
    Send {
        /// Name of the value.
        value: String,
        /// Number of the run.
        micro_batch: u64,
        /// Device that receives it.
        to: String,
    },
    /// Gives a held graph output to the caller.
    Give(Carried),
    /// Ends holding a value.
    Free(Carried),
}
