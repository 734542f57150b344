//! Keys of a manifest as types: one struct for each object, with fields named like the keys.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ranges::{Extents, Limit};

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
    /// Number of times that the program runs the model, each with inputs of its own; in a training pipeline,
    /// number of equal parts of the batch.
    pub micro_batches: u64,
    /// How a training step is divided; absent in other manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<Pipeline>,
    /// Devices by rank: the position in this list.
    pub devices: Vec<DeviceMemory>,
    /// Links between devices, in both directions.
    pub links: Vec<Path>,
    /// Sections by rank, and by phase on each device.
    pub sections: Vec<Section>,
    /// Graph inputs, values between sections, and graph outputs.
    pub values: Vec<Crossing>,
    /// Weights that several devices hold.
    pub copies: Vec<Copied>,
    /// What all devices do together, at most once for each value; absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collectives: Vec<Collective>,
    /// New values that lie in the storage of their old ones; absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<Updated>,
    /// Events of each device, in order.
    pub program: BTreeMap<String, Vec<Event>>,
}

/// How a training step is divided: a forward and a backward section on each device, and sections for what
/// happens once a step.
///
/// With several micro-batches, run `m` of a forward or backward section computes part `m` of the batch. The
/// number of micro-batches itself is the run of the whole step: of sections that run once, of their values,
/// and of values that are joined from all parts.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pipeline {
    /// Order of forward and backward runs on each device.
    pub schedule: Schedule,
    /// Results of Expand and ConstantOfShape that each part makes with fewer positions along an axis.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeated: Vec<Repeated>,
}

/// Order of forward and backward runs.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Schedule {
    /// One forward, one backward: the device of rank `r` of `n` holds the values of at most `n - r` parts.
    #[default]
    #[serde(rename = "1f1b")]
    OneForwardOneBackward,
    /// All forward runs, then all backward runs: each device holds the values of all parts.
    #[serde(rename = "gpipe")]
    Gpipe,
    /// Data parallel: one section runs on all devices, the one of rank `r` computes part `r` of the batch,
    /// and collectives join what the parts make.
    #[serde(rename = "data")]
    Data,
}

/// A value with equal positions along an axis, of which each part makes its share.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeated {
    /// Name of the value.
    pub value: String,
    /// The axis.
    pub axis: u64,
}

/// What a section of a training step does.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Once a step, before all parts: what parts read of the whole batch.
    Prepare,
    /// Once a part: from inputs to the loss.
    Forward,
    /// Once a part: from the loss to the gradients.
    Backward,
    /// Once a part, each on a device of its own: from inputs to the gradients.
    Gradient,
    /// Once a step, after all parts: new parameters, and results of the whole batch.
    Update,
}

impl Phase {
    /// Whether a section runs once a step if there are several parts.
    #[must_use]
    pub fn is_once(self) -> bool {
        matches!(self, Self::Prepare | Self::Update)
    }
}

/// The given model.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// SHA-256 of its file.
    pub sha256: String,
    /// Extents of its symbolic dimensions.
    pub dims: BTreeMap<String, u64>,
    /// Ranges of dimensions that stay free. Sizes are those at the largest extents; absent without ranges.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ranges: BTreeMap<String, Extents>,
    /// Limits on free dimensions together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
    /// Dimensions that equal expressions over free ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub equal: BTreeMap<String, String>,
    /// A model with equal results that was divided in place of the given one; absent if that was divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared: Option<Prepared>,
}

/// The given model with each cache in one buffer, as a plan of the whole model.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// The model.
    pub model: String,
    /// SHA-256 of that file.
    pub model_sha256: String,
    /// Its layout, which states the caches.
    pub layout: String,
    /// SHA-256 of that file.
    pub layout_sha256: String,
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

/// The part of the model that one device runs, or that it runs in one phase of a training step.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// Name of the device; the first one if there are several.
    pub device: String,
    /// All devices that run it, by rank, if there are several: each computes a part of the batch of its own,
    /// or all compute the same once a step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Name of the section; absent if it is that of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Phase of a training step; absent without a pipeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
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

impl Section {
    /// Name of the section.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.device)
    }

    /// All devices that run it, by rank.
    #[must_use]
    pub fn devices(&self) -> &[String] {
        if self.devices.is_empty() { std::slice::from_ref(&self.device) } else { &self.devices }
    }

    /// Whether a device runs it.
    #[must_use]
    pub fn runs_on(&self, device: &str) -> bool {
        self.devices().iter().any(|own| own == device)
    }
}

impl Manifest {
    /// Whether a section runs once a step: in a pipeline with several parts, if its phase does.
    #[must_use]
    pub fn is_once(&self, section: &Section) -> bool {
        self.pipeline.is_some() && self.micro_batches > 1 && section.phase.is_some_and(Phase::is_once)
    }
}

/// A value that enters or leaves a section.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crossing {
    /// Name in the given model.
    pub name: String,
    /// Element type.
    pub dtype: String,
    /// Extents in one run.
    pub shape: Vec<u64>,
    /// Size in one run.
    pub bytes: u64,
    /// Extents as expressions over free dimensions, if one of them depends on these; `shape` and `bytes` are
    /// upper bounds then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape_expr: Option<Vec<String>>,
    /// Size as an expression over free dimensions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_expr: Option<String>,
    /// Section that makes it; null for a graph input, which the caller feeds.
    pub from: Option<String>,
    /// Sections that read it, in the order of the sections.
    pub to: Vec<String>,
    /// Whether it is a graph output, which the caller gets. If it is a graph input as well, no section gives
    /// it: the caller has it.
    pub output: bool,
    /// Whether there is one value a step, although there are several parts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub once: bool,
    /// How the values of all parts make that of the step, for values that differ from part to part and that
    /// something reads as a whole, and for graph inputs and values of the step of which parts take shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<Joined>,
}

/// A value of the whole step, from the values of its parts.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// The way of joining. Sums are added in the order of the parts.
    pub by: Join,
    /// Axis along which parts follow each other; null for sums and means.
    pub axis: Option<u64>,
    /// Extents of the whole.
    pub shape: Vec<u64>,
    /// Size of the whole.
    pub bytes: u64,
}

/// How values of parts make the value of a step.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// The sum of all parts.
    #[default]
    Sum,
    /// The sum of all parts times the reciprocal of their number.
    Mean,
    /// All parts one after another.
    Concat,
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
    /// When the copies are equal; absent if they always are.
    #[serde(default, skip_serializing_if = "Equal::is_always")]
    pub equal: Equal,
}

/// When copies of a weight are equal.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Equal {
    /// Nothing writes to the weight.
    #[default]
    Always,
    /// Devices that run the section with the new value write it over their copies. The caller gives it to all
    /// others before the next run of the program.
    AfterStep,
}

impl Equal {
    fn is_always(&self) -> bool {
        *self == Self::Always
    }
}

/// A value that all devices make or get together.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Collective {
    /// Name of the value.
    pub value: String,
    /// What the devices do.
    pub kind: CollectiveKind,
    /// Devices that take part, by rank.
    pub devices: Vec<String>,
    /// The device that alone gets the value, or that sends it to all others; absent if all give and get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// Order of additions; absent if nothing is added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
}

/// What devices do together.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CollectiveKind {
    /// The parts are added, and all devices get the sum or mean.
    #[default]
    AllReduce,
    /// The parts are added, and one device gets the sum or mean.
    Reduce,
    /// The parts follow each other, and all devices get the whole.
    AllGather,
    /// The parts follow each other, and one device gets the whole.
    Gather,
    /// One device gives its value to all others.
    Broadcast,
}

/// Order in which parts of several devices are added.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// By rank: the bits are those of one device that adds all parts.
    #[default]
    Index,
    /// As the engine likes: last bits may differ.
    Engine,
}

/// A result of a section in the storage of a graph input or weight, whose new value it is.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Updated {
    /// Name of the section that writes the new value.
    pub section: String,
    /// Name of the old value.
    pub tensor: String,
    /// Name of the new value, a graph output.
    pub result: String,
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
    /// Runs a section; from here on its results are held outside the arena.
    Run {
        /// Number of the run.
        micro_batch: u64,
        /// Name of the section; absent if the device has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        section: Option<String>,
    },
    /// Takes the share of a part from a held value of the step, and holds it.
    Share(Carried),
    /// Joins a held value of a part with those of the parts before; from the first one on, the value of the
    /// step is held as well.
    Join(Carried),
    /// Takes part in the collective of a value, and holds the value of the step from here on.
    Collect(Carried),
    /// Takes part in the collective of a value, and gets nothing.
    Offer(Carried),
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
