//! Where each field of a model and of a graph lies in the file.
use std::ops::Range;

use crate::error::{ReadError, SpliceError};
use crate::wire::{Field, WireError, WireType, fields, last_bytes};
use crate::{attribute, graph, model, node};

/// The fields of a `GraphProto`, in file order, known ones and unknown ones.
///
/// Node `i` and initializer `i` of the decoded graph are node and initializer `i` here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphSpans {
    payload: Range<usize>,
    fields: Vec<Field>,
    nodes: Vec<usize>,
    initializers: Vec<usize>,
}

impl GraphSpans {
    /// Finds the fields of the graph whose payload lies at `payload` of `bytes`; O(fields of the graph itself).
    ///
    /// # Errors
    ///
    /// Fails at the first field that is broken.
    pub fn new(bytes: &[u8], payload: Range<usize>) -> Result<Self, WireError> {
        let fields = fields(bytes, payload.clone()).collect::<Result<Vec<_>, _>>()?;
        let positions = |tag| {
            let of_tag = fields.iter().enumerate().filter(move |(_, field)| is_message(field, tag));
            of_tag.map(|(idx, _)| idx).collect()
        };
        let (nodes, initializers) = (positions(graph::NODE), positions(graph::INITIALIZER));
        Ok(Self { payload, fields, nodes, initializers })
    }

    /// The bytes of the graph message, without the key and length in front of it.
    pub fn payload(&self) -> Range<usize> {
        self.payload.clone()
    }

    /// All fields in file order.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The fields with this number in file order; O(fields of the graph). See [`crate::graph`] for the numbers.
    pub fn with_tag(&self, tag: u32) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(move |field| field.tag == tag)
    }

    /// How many nodes the graph has.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The field of node `idx`, `None` past the last one; O(1).
    pub fn node(&self, idx: usize) -> Option<&Field> {
        self.fields.get(*self.nodes.get(idx)?)
    }

    /// How many dense initializers the graph has.
    pub fn initializer_count(&self) -> usize {
        self.initializers.len()
    }

    /// The field of dense initializer `idx`, `None` past the last one; O(1).
    pub fn initializer(&self, idx: usize) -> Option<&Field> {
        self.fields.get(*self.initializers.get(idx)?)
    }
}

/// The fields of a `ModelProto`, in file order, and those of its main graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSpans {
    fields: Vec<Field>,
    graph: GraphSpans,
}

impl ModelSpans {
    /// Finds the fields of a serialized model; O(fields of the model and of its main graph).
    ///
    /// # Errors
    ///
    /// [`ReadError::Broken`] at the first broken field, [`ReadError::NoGraph`] without a graph, and
    /// [`ReadError::GraphRepeated`] with two: protobuf would merge them, and no byte span describes the result.
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

    /// All fields of the model in file order.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The fields with this number in file order. See [`crate::model`] for the numbers.
    pub fn with_tag(&self, tag: u32) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(move |field| field.tag == tag)
    }

    /// The main graph.
    pub fn graph(&self) -> &GraphSpans {
        &self.graph
    }
}

/// Where the tensor of attribute `name` lies, in the node whose payload is `node`; `None` without such an attribute.
///
/// The span is what [`crate::TensorSource::Span`] takes; O(fields of the node and its attributes).
///
/// # Errors
///
/// Fails on broken bytes, and when the attribute holds two tensors, which protobuf would merge.
pub fn attribute_tensor(bytes: &[u8], node: Range<usize>, name: &str) -> Result<Option<Range<usize>>, SpliceError> {
    attribute_message(bytes, node, name, attribute::T)
}

/// Where the graph of attribute `name` lies (an `If` branch, a `Loop` body), in the node whose payload is `node`.
///
/// # Errors
///
/// Fails on broken bytes, and when the attribute holds two graphs, which protobuf would merge.
pub fn attribute_graph(bytes: &[u8], node: Range<usize>, name: &str) -> Result<Option<Range<usize>>, SpliceError> {
    attribute_message(bytes, node, name, attribute::G)
}

/// Where the message in field `tag` of the attribute `name` of a node lies.
fn attribute_message(bytes: &[u8], node: Range<usize>, name: &str, tag: u32) -> Result<Option<Range<usize>>, SpliceError> {
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

/// The payload of the one field `tag` of the attribute at `span`; `None` without one, an error with two.
pub(crate) fn only_message(bytes: &[u8], span: Range<usize>, tag: u32, name: &str) -> Result<Option<Range<usize>>, SpliceError> {
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

/// Whether this field has this number and can hold a message.
pub(crate) fn is_message(field: &Field, tag: u32) -> bool {
    field.tag == tag && field.wire_type == WireType::LengthDelimited
}
