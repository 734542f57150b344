//! The partition problem and its solution: nodes, values that cross links, devices, and a section of
//! nodes for each device.

use thiserror::Error;

/// A partition problem: give each node a device, so that data of forward nodes only flows to equal or
/// later sections and the objective is smallest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// Nodes. Ties are broken in favor of earlier ones.
    pub nodes: Vec<Node>,
    /// Values that one node makes and others read.
    pub values: Vec<Value>,
    /// What each device with a reader holds or computes by itself.
    pub replicas: Vec<Replica>,
    /// Sets of nodes that must run on one device.
    pub together: Vec<Vec<u32>>,
    /// Devices.
    pub devices: Vec<Device>,
    /// Which device may come after which.
    pub arrangement: Arrangement,
    /// Copies in flight.
    pub pipeline: Pipeline,
    /// What is minimized.
    pub objective: Objective,
}

/// An operation, with its costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Time of one run on each kind of device; `None` if the kind cannot run the node.
    pub times: Vec<Option<u64>>,
    /// Bytes that its device holds once.
    pub held_bytes: u64,
    /// Bytes that its device holds for each copy in flight.
    pub copy_bytes: u64,
    /// Bytes that live while the node runs; a device needs the maximum of its nodes.
    pub working_bytes: u64,
    /// Whether the node belongs to the backward half: its values flow to equal or earlier sections, and
    /// it must be together with a forward node.
    pub is_backward: bool,
}

/// A value that nodes of other devices may read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Value {
    /// Node that makes the value.
    pub maker: u32,
    /// Nodes that read it.
    pub readers: Vec<u32>,
    /// Amount to move, in the unit of the links; it moves once over the link of each device that makes
    /// it for others, or reads it without making it.
    pub amount: u64,
}

/// A weight, or a value that is cheaper to compute than to send: each device with a reader has its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replica {
    /// Bytes that a device with a reader holds, once.
    pub bytes: u64,
    /// Time of computing it on each kind of device; empty if it is only held.
    pub times: Vec<u64>,
    /// Nodes that read it.
    pub readers: Vec<u32>,
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    /// Index into the times of nodes and replicas.
    pub kind: u32,
    /// Bytes that it holds; `None` if they do not matter.
    pub capacity: Option<u64>,
    /// Link to all other devices; `None` if its transfers take no time of its own.
    pub link: Option<Link>,
}

/// Time of transfers: `latency` + amount · `time` / `amount`, rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// Time before the first byte arrives, for each value.
    pub latency: u64,
    /// Amount that moves in `time`; at least 1.
    pub amount: u64,
    /// Time in which `amount` moves.
    pub time: u64,
}

/// Which device may come after which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrangement {
    /// Sections follow the list of devices; a device may stay empty.
    #[default]
    Given,
    /// Any device may have any section.
    Any,
}

/// How many copies of a section's per-batch values live at once. Sections count from the end, empty
/// devices of a given arrangement included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pipeline {
    /// One forward, one backward: the section `n` from the end (the last is 1) holds the smaller of
    /// `micro_batches` and `n` copies.
    Alternating {
        /// Number of micro-batches.
        micro_batches: u64,
    },
    /// All forward runs come first: each section holds `micro_batches` copies.
    Filled {
        /// Number of micro-batches.
        micro_batches: u64,
    },
}

impl Default for Pipeline {
    fn default() -> Self {
        Self::Filled { micro_batches: 1 }
    }
}

impl Pipeline {
    /// Returns the copies that the section `from_end` from the end holds.
    #[must_use]
    pub fn copies(self, from_end: u64) -> u64 {
        match self {
            Self::Alternating { micro_batches } => micro_batches.min(from_end),
            Self::Filled { micro_batches } => micro_batches,
        }
    }
}

/// What is minimized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// Time of the slowest section, transfers included; capacities hold.
    #[default]
    Time,
    /// Bytes of the largest section; capacities hold.
    Bytes,
}

/// The nodes of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// Index of the device.
    pub device: u32,
    /// Nodes in increasing order.
    pub nodes: Vec<u32>,
}

/// Sections in the order in which data flows through them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Solution {
    /// Sections that have nodes.
    pub sections: Vec<Section>,
    /// Value of the objective.
    pub value: u64,
}

/// Reason why data is not a partition problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProblemError {
    /// There is no device.
    #[error("there is no device")]
    NoDevice,
    /// A node has fewer times than devices have kinds.
    #[error("node {node} has no time for devices of kind {kind}")]
    MissingTime {
        /// Index of the node.
        node: u32,
        /// Kind without a time.
        kind: u32,
    },
    /// A list names a node that does not exist.
    #[error("node {node} does not exist")]
    NoSuchNode {
        /// The wrong index.
        node: u32,
    },
    /// A backward node has no forward node on its device.
    #[error("backward node {node} is together with no forward node")]
    AloneBackward {
        /// Index of the node.
        node: u32,
    },
    /// A link moves an amount of 0.
    #[error("device {device}: the amount of its link is 0")]
    ZeroLink {
        /// Index of the device.
        device: u32,
    },
    /// Numbers exceed the range of the solver.
    #[error("the sum of all times, amounts or bytes exceeds the range of the solver")]
    TooLarge,
}

/// Largest sum of times, amounts or bytes: sums of two such values do not overflow.
const MAX_SUM: u64 = u64::MAX / 8;

impl Problem {
    /// Checks all properties that the solvers rely on. O(nodes + readers).
    ///
    /// # Errors
    /// Returns the first rule that does not hold.
    pub fn validate(&self) -> Result<(), ProblemError> {
        let kinds =
            self.devices.iter().map(|device| device.kind as usize + 1).max().ok_or(ProblemError::NoDevice)?;
        if let Some(device) =
            self.devices.iter().position(|device| device.link.is_some_and(|link| link.amount == 0))
        {
            return Err(ProblemError::ZeroLink { device: device as u32 });
        }
        for (node, item) in self.nodes.iter().enumerate() {
            if item.times.len() < kinds {
                return Err(ProblemError::MissingTime { node: node as u32, kind: item.times.len() as u32 });
            }
        }
        let named = self.values.iter().flat_map(|value| value.readers.iter().chain([&value.maker]));
        let named = named
            .chain(self.replicas.iter().flat_map(|replica| &replica.readers))
            .chain(self.together.iter().flatten());
        if let Some(node) = named.copied().find(|node| *node as usize >= self.nodes.len()) {
            return Err(ProblemError::NoSuchNode { node });
        }
        if self.replicas.iter().any(|replica| !replica.times.is_empty() && replica.times.len() < kinds) {
            return Err(ProblemError::MissingTime { node: 0, kind: kinds as u32 - 1 });
        }
        let mut has_forward: Vec<bool> = self.nodes.iter().map(|node| !node.is_backward).collect();
        for set in &self.together {
            if set.iter().any(|node| !self.nodes[*node as usize].is_backward) {
                set.iter().for_each(|node| has_forward[*node as usize] = true);
            }
        }
        if let Some(node) = has_forward.iter().position(|has| !has) {
            return Err(ProblemError::AloneBackward { node: node as u32 });
        }
        self.validate_sums()
    }

    fn validate_sums(&self) -> Result<(), ProblemError> {
        let copies = match self.pipeline {
            Pipeline::Alternating { micro_batches } | Pipeline::Filled { micro_batches } => micro_batches,
        };
        let slowest = self.devices.iter().filter_map(|device| device.link);
        let slowest = slowest.fold(1_u128, |most, link| most.max(u128::from(link.time)));
        let latency =
            self.devices.iter().filter_map(|device| device.link).map(|link| link.latency).max().unwrap_or(0);
        let times = self.nodes.iter().map(|node| node.times.iter().flatten().max().copied().unwrap_or(0));
        let times: u128 = times
            .chain(self.replicas.iter().map(|replica| replica.times.iter().max().copied().unwrap_or(0)))
            .map(u128::from)
            .sum();
        let amounts = self.values.iter().map(|value| u128::from(value.amount)).sum::<u128>();
        let moved =
            amounts.saturating_mul(slowest) + u128::from(latency).saturating_mul(self.values.len() as u128);
        let bytes =
            self.nodes.iter().map(|node| u128::from(node.held_bytes) + u128::from(node.working_bytes));
        let bytes: u128 = bytes.chain(self.replicas.iter().map(|replica| u128::from(replica.bytes))).sum();
        let copied = self
            .nodes
            .iter()
            .map(|node| u128::from(node.copy_bytes))
            .sum::<u128>()
            .saturating_mul(u128::from(copies));
        let most = u128::from(MAX_SUM);
        let fits = times <= most && moved <= most && bytes <= most && copied <= most && copies <= MAX_SUM;
        if fits { Ok(()) } else { Err(ProblemError::TooLarge) }
    }
}
