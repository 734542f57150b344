//! Partition problems as JSON: reads the format of the public instances of throughput problems, and
//! writes the answer.
//!
//! `{"maxSizePerFPGA": bytes, "maxFPGAs": 6, "maxCPUs": 1, "nodes": [{"id", "fpgaLatency", "cpuLatency",
//! "size", "isBackwardNode", "colorClass", "supportedOnFpga"}, …], "edges": [{"sourceId", "destId",
//! "cost"}, …]}`. Accelerators (`FPGAs`) have a capacity and pay for transfers; hosts (`CPUs`) have and
//! pay neither. Nodes of one color class share a device. An edge's cost is the time of moving its
//! source's output; it is equal for all edges of a source. `"copySize"` of a node are bytes for each copy
//! in flight, and `"microBatches"` with `"schedule": "1f1b"` or `"gpipe"` states the copies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::check::Load;
use super::problem::{Arrangement, Device, Link, Node, Objective, Pipeline, Problem, Solution, Value};
use crate::Outcome;

/// A problem file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct File {
    /// Bytes of an accelerator.
    #[serde(rename = "maxSizePerFPGA")]
    pub accelerator_bytes: f64,
    /// Number of accelerators.
    #[serde(rename = "maxFPGAs")]
    pub accelerators: u32,
    /// Number of hosts.
    #[serde(rename = "maxCPUs", default)]
    pub hosts: u32,
    /// Number of micro-batches; 1 if absent.
    #[serde(rename = "microBatches", default, skip_serializing_if = "Option::is_none")]
    pub micro_batches: Option<u64>,
    /// Order of forward and backward runs; `gpipe` if absent.
    #[serde(default)]
    pub schedule: Schedule,
    /// Nodes, in any order.
    pub nodes: Vec<FileNode>,
    /// Edges from a maker to a reader.
    pub edges: Vec<Edge>,
}

/// Order of forward and backward runs of a pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    /// One forward, one backward.
    #[serde(rename = "1f1b")]
    Alternating,
    /// All forward runs first.
    #[default]
    #[serde(rename = "gpipe")]
    Filled,
}

/// A node of a problem file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileNode {
    /// Name of the node, unique in the file.
    pub id: u64,
    /// Time on an accelerator.
    pub fpga_latency: f64,
    /// Time on a host.
    #[serde(default)]
    pub cpu_latency: f64,
    /// Bytes that its device holds.
    #[serde(default)]
    pub size: f64,
    /// Bytes that its device holds for each copy in flight.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub copy_size: f64,
    /// Whether the node belongs to the backward half.
    #[serde(default)]
    pub is_backward_node: Flag,
    /// Nodes of one class share a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub color_class: Option<i64>,
    /// Whether accelerators run the node.
    #[serde(default = "yes")]
    pub supported_on_fpga: Flag,
}

/// `true`, `false`, 1 or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Flag {
    /// As a word.
    Word(bool),
    /// As a number.
    Number(u8),
}

impl Default for Flag {
    fn default() -> Self {
        Self::Word(false)
    }
}

impl Flag {
    fn is_set(self) -> bool {
        matches!(self, Self::Word(true)) || matches!(self, Self::Number(number) if number != 0)
    }
}

fn yes() -> Flag {
    Flag::Word(true)
}

fn is_zero(bytes: &f64) -> bool {
    *bytes == 0.0
}

/// An edge of a problem file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Edge {
    /// Node that makes the value.
    pub source_id: u64,
    /// Node that reads it.
    pub dest_id: u64,
    /// Time of moving the value.
    #[serde(default)]
    pub cost: f64,
}

/// Reason why a file is not a partition problem.
#[derive(Debug, Error)]
pub enum PartitionFileError {
    /// The text is not JSON, or not of this format.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Two nodes have one id.
    #[error("two nodes have the id {id}")]
    RepeatedId {
        /// The repeated id.
        id: u64,
    },
    /// An edge names a node that does not exist.
    #[error("an edge names node {id}, which does not exist")]
    NoSuchNode {
        /// The unknown id.
        id: u64,
    },
    /// Edges of one source have different costs.
    #[error("edges of node {id} have different costs: its output is one value")]
    DifferentCosts {
        /// Source of the edges.
        id: u64,
    },
    /// A time or size is negative, not finite, or too large.
    #[error("node {id}: a time must be from 0 to {MAX_TIME}, a size from 0 to 2^53 bytes")]
    OutOfRange {
        /// The node, or the source of the edge.
        id: u64,
    },
    /// There are too many devices.
    #[error("{count} devices exceed the limit of {MAX_DEVICES}")]
    TooManyDevices {
        /// Number of devices.
        count: u64,
    },
}

/// Times are integers in the solver: this number is one unit of the file.
const UNITS: f64 = 1e12;

/// Largest time of a file, in its unit.
const MAX_TIME: f64 = 1e6;

/// Most devices of a file.
const MAX_DEVICES: u64 = 1024;

/// Reads a problem file.
///
/// # Errors
/// Fails if the text is not JSON, or not of this format.
pub fn read(text: &str) -> Result<File, PartitionFileError> {
    Ok(serde_json::from_str(text)?)
}

impl File {
    /// Converts the file to a problem: node `i` of the list is node `i`; accelerators come before hosts.
    /// Times are in units of 1e-12. O((nodes + edges) log nodes).
    ///
    /// # Errors
    /// Rejects repeated and unknown ids, different costs of one source, and numbers out of range.
    pub fn problem(&self) -> Result<Problem, PartitionFileError> {
        let mut index = BTreeMap::new();
        for (place, node) in self.nodes.iter().enumerate() {
            if index.insert(node.id, place as u32).is_some() {
                return Err(PartitionFileError::RepeatedId { id: node.id });
            }
        }
        let devices = u64::from(self.accelerators) + u64::from(self.hosts);
        if devices > MAX_DEVICES {
            return Err(PartitionFileError::TooManyDevices { count: devices });
        }
        let micro_batches = self.micro_batches.unwrap_or(1).max(1);
        let mut problem = Problem {
            arrangement: Arrangement::Any,
            objective: Objective::Time,
            pipeline: match self.schedule {
                Schedule::Alternating => Pipeline::Alternating { micro_batches },
                Schedule::Filled => Pipeline::Filled { micro_batches },
            },
            ..Problem::default()
        };
        let link = Some(Link { latency: 0, amount: 1, time: 1 });
        let capacity = Some(bytes(self.accelerator_bytes, 0)?);
        problem.devices.extend((0..self.accelerators).map(|_| Device { kind: 0, capacity, link }));
        problem.devices.extend((0..self.hosts).map(|_| Device { kind: 1, capacity: None, link: None }));
        let mut classes: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
        for (place, node) in self.nodes.iter().enumerate() {
            let accelerated = time(node.fpga_latency, node.id)?;
            problem.nodes.push(Node {
                times: vec![
                    node.supported_on_fpga.is_set().then_some(accelerated),
                    Some(time(node.cpu_latency, node.id)?),
                ],
                held_bytes: bytes(node.size, node.id)?,
                copy_bytes: bytes(node.copy_size, node.id)?,
                working_bytes: 0,
                is_backward: node.is_backward_node.is_set(),
            });
            if let Some(class) = node.color_class {
                classes.entry(class).or_default().push(place as u32);
            }
        }
        problem.together = classes.into_values().filter(|nodes| nodes.len() > 1).collect();
        let mut values: BTreeMap<u32, Value> = BTreeMap::new();
        for edge in &self.edges {
            let find = |id: u64| index.get(&id).copied().ok_or(PartitionFileError::NoSuchNode { id });
            let (maker, reader, amount) =
                (find(edge.source_id)?, find(edge.dest_id)?, time(edge.cost, edge.source_id)?);
            let value = values.entry(maker).or_insert_with(|| Value { maker, readers: Vec::new(), amount });
            if value.amount != amount {
                return Err(PartitionFileError::DifferentCosts { id: edge.source_id });
            }
            value.readers.push(reader);
        }
        problem.values = values.into_values().collect();
        Ok(problem)
    }

    /// Converts an outcome to an answer file; `loads` belongs to its sections.
    #[must_use]
    pub fn answer(&self, outcome: &Outcome<Solution>, loads: &[Load]) -> Answer {
        let sections = outcome.solution.as_ref().map(|solution| {
            let sections = solution.sections.iter().zip(loads).map(|(section, load)| {
                let is_host = section.device >= self.accelerators;
                let number = section.device - if is_host { self.accelerators } else { 0 };
                AnswerSection {
                    device: format!("{}{number}", if is_host { "cpu" } else { "fpga" }),
                    nodes: section
                        .nodes
                        .iter()
                        .filter_map(|node| self.nodes.get(*node as usize))
                        .map(|node| node.id)
                        .collect(),
                    load: load.time as f64 / UNITS,
                    bytes: load.bytes,
                }
            });
            sections.collect()
        });
        Answer {
            sections,
            load: outcome.value.map(|value| value as f64 / UNITS),
            lower_bound_load: outcome.lower_bound as f64 / UNITS,
            status: outcome.status().as_str().to_owned(),
        }
    }
}

/// An answer file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Sections in the order in which data flows; absent without a solution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sections: Option<Vec<AnswerSection>>,
    /// Largest load, in the file's unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// Proven lower bound of the largest load.
    pub lower_bound_load: f64,
    /// `optimal`, `feasible`, `infeasible` or `unknown`.
    pub status: String,
}

/// A section of an answer file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerSection {
    /// `fpga` or `cpu` with its number.
    pub device: String,
    /// Ids of its nodes.
    pub nodes: Vec<u64>,
    /// Time of nodes and transfers, in the file's unit.
    pub load: f64,
    /// Bytes that the device holds.
    pub bytes: u64,
}

fn time(time: f64, id: u64) -> Result<u64, PartitionFileError> {
    if (0.0..=MAX_TIME).contains(&time) {
        Ok((time * UNITS).round() as u64)
    } else {
        Err(PartitionFileError::OutOfRange { id })
    }
}

fn bytes(bytes: f64, id: u64) -> Result<u64, PartitionFileError> {
    let most = (1_u64 << 53) as f64;
    if (0.0..=most).contains(&bytes) {
        Ok(bytes.ceil() as u64)
    } else {
        Err(PartitionFileError::OutOfRange { id })
    }
}
