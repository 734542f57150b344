//! Attributes of nodes.

use bytes::Bytes;

use crate::entity::{ConstId, GraphId};
use crate::types::ValueType;

/// Value of one attribute.
#[derive(Clone, PartialEq, Debug)]
pub enum Attribute {
    /// A 64-bit integer.
    Int(i64),
    /// A binary32 number.
    Float(f32),
    /// Bytes, by convention UTF-8.
    String(Bytes),
    /// A tensor.
    Tensor(ConstId),
    /// A body.
    Graph(GraphId),
    /// Integers.
    Ints(Vec<i64>),
    /// Numbers.
    Floats(Vec<f32>),
    /// Byte strings.
    Strings(Vec<Bytes>),
    /// Tensors.
    Tensors(Vec<ConstId>),
    /// Bodies.
    Graphs(Vec<GraphId>),
    /// A type.
    Type(ValueType),
    /// What memc has no use for (sparse tensors, lists of types): kept as its encoded message.
    Opaque {
        /// ONNX's number of the attribute type.
        kind: i32,
        /// The encoded attribute message.
        message: Bytes,
    },
}

impl Attribute {
    /// All bodies that the attribute holds.
    pub fn graphs(&self) -> &[GraphId] {
        match self {
            Self::Graph(graph) => std::slice::from_ref(graph),
            Self::Graphs(graphs) => graphs,
            _ => &[],
        }
    }
}
