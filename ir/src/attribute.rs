//! Attributes of nodes.

use bytes::Bytes;

use crate::entity::{ConstId, GraphId};
use crate::types::ValueType;

/// Value of one node attribute.
#[derive(Clone, PartialEq, Debug)]
pub enum Attribute {
    /// A 64-bit integer.
    Int(i64),
    /// A binary32 number.
    Float(f32),
    /// Bytes, by convention UTF-8.
    String(Bytes),
    /// A tensor: the id of its constant.
    Tensor(ConstId),
    /// A graph: the body of If, Loop or Scan.
    Graph(GraphId),
    /// A list of integers.
    Ints(Vec<i64>),
    /// A list of binary32 numbers.
    Floats(Vec<f32>),
    /// A list of byte strings.
    Strings(Vec<Bytes>),
    /// A list of tensors.
    Tensors(Vec<ConstId>),
    /// A list of bodies.
    Graphs(Vec<GraphId>),
    /// The type of a value.
    Type(ValueType),
    /// An attribute that memc does not interpret (sparse tensors, lists of types), kept as its encoded
    /// message.
    Opaque {
        /// Number of the attribute type in ONNX.
        kind: i32,
        /// The encoded attribute message, unchanged.
        message: Bytes,
    },
}

impl Attribute {
    /// Returns all bodies in the attribute; empty if it is not a graph or a list of graphs.
    pub fn graphs(&self) -> &[GraphId] {
        match self {
            Self::Graph(graph) => std::slice::from_ref(graph),
            Self::Graphs(graphs) => graphs,
            _ => &[],
        }
    }
}
