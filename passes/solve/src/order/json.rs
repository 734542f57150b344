//! Ordering problems as JSON: nodes that each produce one value, and edges that name its readers.
//!
//! `{"name": …, "nodes": [{"id": 0, "size": 16, "cost": 1}, …], "edges": [[0, 1], …]}`. The list of
//! nodes is the given order. A file of this format also states a budget problem (`budget::json`), with
//! links in addition.
//!
//! Some ordering problems need `"buffers": [{"size": 16, "users": [0, 1]}, …]` too: bytes that several
//! nodes share, with `"live_from_start"`, `"kept"` and `"takes_over"` (positions in the list of buffers)
//! as in [`Buffer`]. Their nodes usually have no `size` and may have `scratch`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::problem::{Buffer, Operation, Problem};
use crate::{Outcome, Status};

/// A problem file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dag {
    /// Name for reports.
    #[serde(default)]
    pub name: String,
    /// Nodes, in the given order.
    pub nodes: Vec<Node>,
    /// Pairs of ids: the second node reads the first one's value.
    pub edges: Vec<(u64, u64)>,
    /// Links between memory spaces, one direction each. Ordering problems need none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Way>,
    /// Buffers in addition to the nodes' own values. Budget problems have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buffers: Vec<Shared>,
}

/// A buffer of a problem file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shared {
    /// Size in bytes.
    pub size: u64,
    /// Ids of the nodes that use it.
    pub users: Vec<u64>,
    /// Whether the buffer lives before the first step.
    #[serde(default, skip_serializing_if = "is_false")]
    pub live_from_start: bool,
    /// Whether the buffer lives after the last step.
    #[serde(default, skip_serializing_if = "is_false")]
    pub kept: bool,
    /// Positions, in the list of buffers, of the buffers whose bytes this one may take over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub takes_over: Vec<u32>,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// A link of a problem file, in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// Space that the link reads.
    pub from: String,
    /// Space that the link writes.
    pub to: String,
    /// Bytes moved in one unit of cost.
    pub bytes_per_unit: u64,
    /// Cost before the first byte arrives.
    #[serde(default)]
    pub latency: u64,
}

/// A node of a problem file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Name of the node, unique in the file.
    pub id: u64,
    /// Bytes of the value that the node produces.
    #[serde(default)]
    pub size: u64,
    /// Cost of running the node once.
    #[serde(default)]
    pub cost: u64,
    /// Bytes that live only while the node runs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub scratch: u64,
}

/// An answer file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Node ids in order; absent without a solution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<Vec<u64>>,
    /// Highest number of bytes at a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak: Option<u64>,
    /// Cost of all runs.
    pub cost: u64,
    /// Cost of running each node once.
    pub base_cost: u64,
    /// Peak of the given order, in bytes.
    pub base_peak: u64,
    /// Proven lower bound of the peak of any order, in bytes.
    pub lower_bound_peak: u64,
    /// Status of the outcome, such as `optimal` or `feasible`.
    pub status: String,
}

/// Reason why a file is not an ordering problem.
#[derive(Debug, Error)]
pub enum DagError {
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
    /// An edge contradicts the given order.
    #[error("the given order runs node {to} before node {from}, which it reads")]
    Backward {
        /// The node whose value is read.
        from: u64,
        /// The node that reads it.
        to: u64,
    },
}

/// Reads a problem file.
///
/// # Errors
/// Fails if the text is not JSON, or not of this format.
pub fn read(text: &str) -> Result<Dag, DagError> {
    Ok(serde_json::from_str(text)?)
}

impl Dag {
    /// Converts the file to a problem: node `i` of the list is operation `i` and produces buffer `i`;
    /// the given order is `0, 1, 2, …`. O((n + edges) log n).
    ///
    /// # Errors
    /// Fails if ids repeat or are unknown, or if an edge contradicts the given order.
    pub fn problem(&self) -> Result<Problem, DagError> {
        let mut problem = Problem::default();
        for (place, reads) in self.operands()?.into_iter().enumerate() {
            let reader = place as u32;
            problem.buffers.push(Buffer {
                size: self.nodes[place].size,
                users: vec![reader],
                ..Buffer::default()
            });
            for read in &reads {
                problem.buffers[*read as usize].users.push(reader);
            }
            problem.operations.push(Operation { predecessors: reads, scratch: self.nodes[place].scratch });
        }
        let index: BTreeMap<u64, u32> =
            self.nodes.iter().enumerate().map(|(place, node)| (node.id, place as u32)).collect();
        for shared in &self.buffers {
            let find = |id: &u64| index.get(id).copied().ok_or(DagError::NoSuchNode { id: *id });
            problem.buffers.push(Buffer {
                size: shared.size,
                users: shared.users.iter().map(find).collect::<Result<_, _>>()?,
                live_from_start: shared.live_from_start,
                kept: shared.kept,
                takes_over: shared
                    .takes_over
                    .iter()
                    .map(|other| other.saturating_add(self.nodes.len() as u32))
                    .collect(),
            });
        }
        Ok(problem)
    }

    /// Converts a problem to a file. The sequence of its operations must be a valid order; it becomes
    /// the given order.
    #[must_use]
    pub fn of(name: &str, problem: &Problem) -> Self {
        let nodes = problem.operations.iter().enumerate();
        let edges = nodes.clone().flat_map(|(reader, operation)| {
            operation.predecessors.iter().map(move |before| (u64::from(*before), reader as u64))
        });
        Self {
            name: name.to_owned(),
            edges: edges.collect(),
            nodes: nodes
                .map(|(id, operation)| Node { id: id as u64, size: 0, cost: 0, scratch: operation.scratch })
                .collect(),
            links: Vec::new(),
            buffers: problem
                .buffers
                .iter()
                .map(|buffer| Shared {
                    size: buffer.size,
                    users: buffer.users.iter().map(|user| u64::from(*user)).collect(),
                    live_from_start: buffer.live_from_start,
                    kept: buffer.kept,
                    takes_over: buffer.takes_over.clone(),
                })
                .collect(),
        }
    }

    /// Returns, for each node of the list, the positions of the nodes whose values it reads, in the
    /// order of the edges.
    ///
    /// # Errors
    /// Fails if ids repeat or are unknown, or if an edge contradicts the given order.
    pub fn operands(&self) -> Result<Vec<Vec<u32>>, DagError> {
        let mut index = BTreeMap::new();
        for (place, node) in self.nodes.iter().enumerate() {
            if index.insert(node.id, place as u32).is_some() {
                return Err(DagError::RepeatedId { id: node.id });
            }
        }
        let mut operands = vec![Vec::new(); self.nodes.len()];
        for &(from, to) in &self.edges {
            let find = |id: u64| index.get(&id).copied().ok_or(DagError::NoSuchNode { id });
            let (reads, reader) = (find(from)?, find(to)?);
            if reads >= reader {
                return Err(DagError::Backward { from, to });
            }
            operands[reader as usize].push(reads);
        }
        Ok(operands)
    }

    /// Converts an outcome to an answer file. `base_peak` is the peak of the given order, in bytes.
    #[must_use]
    pub fn answer(&self, outcome: &Outcome<Vec<u32>>, base_peak: u64) -> Answer {
        let cost = self.nodes.iter().fold(0_u64, |sum, node| sum.saturating_add(node.cost));
        let id = |operation: &u32| self.nodes.get(*operation as usize).map(|node| node.id);
        Answer {
            sequence: outcome.solution.as_ref().map(|order| order.iter().filter_map(id).collect()),
            peak: outcome.value,
            cost: if outcome.status() == Status::Unknown { 0 } else { cost },
            base_cost: cost,
            base_peak,
            lower_bound_peak: outcome.lower_bound,
            status: outcome.status().as_str().to_owned(),
        }
    }
}
