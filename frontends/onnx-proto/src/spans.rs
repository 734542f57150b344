//! Byte spans of the fields of a model and of a graph.
use std::ops::Range;

use crate::error::{ReadError, SpliceError};
use crate::wire::{Field, WireError, WireType, fields, last_bytes};
use crate::{attribute, graph, model, node};

/// Fields of a `GraphProto` in file order, both known and unknown.
///
/// Nodes and initializers have the indices of the decoded graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphSpans {
    payload: Range<usize>,
    fields: Vec<Field>,
    nodes: Vec<usize>,
    initializers: Vec<usize>,
}

impl GraphSpans {
    /// Finds the fields of the graph whose payload is at `payload` in `bytes`;
    /// `O(fields of the graph)`.
    ///
    /// # Errors
    ///
    /// The first broken field.
    pub fn new(bytes: &[u8], payload: Range<usize>) -> Result<Self, WireError> {
        let fields = fields(bytes, payload.clone()).collect::<Result<Vec<_>, _>>()?;
        let positions = |tag| {
            let of_tag = fields.iter().enumerate().filter(move |(_, field)| is_message(field, tag));
            of_tag.map(|(idx, _)| idx).collect()
        };
        let (nodes, initializers) = (positions(graph::NODE), positions(graph::INITIALIZER));
        Ok(Self { payload, fields, nodes, initializers })
    }

    /// Span of the graph message, without its key and length.
    pub fn payload(&self) -> Range<usize> {
        self.payload.clone()
    }

    /// All fields, in file order.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Iterates over the fields with number `tag`, in file order; `O(fields of the graph)`. See
    /// [`crate::graph`] for numbers.
    pub fn with_tag(&self, tag: u32) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(move |field| field.tag == tag)
    }

    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Field of node `idx`, `None` past the last; `O(1)`.
    pub fn node(&self, idx: usize) -> Option<&Field> {
        self.fields.get(*self.nodes.get(idx)?)
    }

    /// Number of dense initializers.
    pub fn initializer_count(&self) -> usize {
        self.initializers.len()
    }

    /// Field of dense initializer `idx`, `None` past the last; `O(1)`.
    pub fn initializer(&self, idx: usize) -> Option<&Field> {
        self.fields.get(*self.initializers.get(idx)?)
    }
}

/// Fields of a `ModelProto` and of its main graph, in file order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSpans {
    fields: Vec<Field>,
    graph: GraphSpans,
}

impl ModelSpans {
    /// Finds the fields of a serialized model; `O(fields of the model and of its main graph)`.
    ///
    /// # Errors
    ///
    /// [`ReadError::Broken`] for the first broken field, [`ReadError::NoGraph`] if there is no graph,
    /// and [`ReadError::GraphRepeated`] if there are two: protobuf would merge them, and no byte span
    /// describes the result.
    pub fn new(bytes: &[u8]) -> Result<Self, ReadError> {
        let fields = fields(bytes, 0..bytes.len()).collect::<Result<Vec<_>, _>>()?;
        let mut graphs = fields.iter().filter(|field| is_message(field, model::GRAPH));
        let first = graphs.next().ok_or(ReadError::NoGraph)?;
        if let Some(second) = graphs.next() {
            let (first, second) = (first.span.start, second.span.start);
            return Err(ReadError::GraphRepeated { first, second });
        }
        let graph = GraphSpans::new(bytes, first.payload.clone())?;
        Ok(Self { fields, graph })
    }

    /// All fields of the model, in file order.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Iterates over the fields with number `tag`, in file order. See [`crate::model`] for numbers.
    pub fn with_tag(&self, tag: u32) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(move |field| field.tag == tag)
    }

    /// Spans of the main graph.
    pub fn graph(&self) -> &GraphSpans {
        &self.graph
    }
}

/// Finds the tensor in attribute `name` of the node whose payload is `node`; `None` if the node does
/// not have the attribute, or if the attribute has no tensor.
///
/// Returns a span for [`crate::TensorSource::Span`]; `O(fields of the node and its attributes)`.
///
/// # Errors
///
/// Broken bytes, or an attribute with two tensors, which protobuf would merge.
pub fn attribute_tensor(
    bytes: &[u8],
    node: Range<usize>,
    name: &str,
) -> Result<Option<Range<usize>>, SpliceError> {
    attribute_message(bytes, node, name, attribute::T)
}

/// Finds the graph in attribute `name` (an `If` branch, a `Loop` body) of the node whose payload is
/// `node`.
///
/// # Errors
///
/// Broken bytes, or an attribute with two graphs, which protobuf would merge.
pub fn attribute_graph(
    bytes: &[u8],
    node: Range<usize>,
    name: &str,
) -> Result<Option<Range<usize>>, SpliceError> {
    attribute_message(bytes, node, name, attribute::G)
}

/// Finds the payload of field `tag` in the attribute `name` of a node.
fn attribute_message(
    bytes: &[u8],
    node: Range<usize>,
    name: &str,
    tag: u32,
) -> Result<Option<Range<usize>>, SpliceError> {
    for field in fields(bytes, node) {
        let field = field?;
        if !is_message(&field, node::ATTRIBUTE) {
            continue;
        }
        let found = last_bytes(bytes, field.payload.clone(), attribute::NAME)?;
        if found.unwrap_or_default() == name.as_bytes() {
            return only_message(bytes, field.payload, tag, name);
        }
    }
    Ok(None)
}

/// Returns the payload of the only field `tag` in the attribute at `span`; `None` if there is none, an
/// error if there are two.
pub(crate) fn only_message(
    bytes: &[u8],
    span: Range<usize>,
    tag: u32,
    name: &str,
) -> Result<Option<Range<usize>>, SpliceError> {
    let mut found = None;
    for field in fields(bytes, span) {
        let field = field?;
        if is_message(&field, tag) && found.replace(field.payload).is_some() {
            let offset = field.span.start;
            return Err(SpliceError::AttributeRepeated { attribute: name.into(), offset });
        }
    }
    Ok(found)
}

/// Whether a field has number `tag` and can contain a message.
pub(crate) fn is_message(field: &Field, tag: u32) -> bool {
    field.tag == tag && field.wire_type == WireType::LengthDelimited
}
