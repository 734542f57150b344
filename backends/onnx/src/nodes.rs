//! The list of nodes of a graph: nodes of the file by reference with only their changes, new nodes as
//! messages.

use std::collections::BTreeSet;

use memc_ir::{Attribute, ConstId, ConstOrigin, GraphId, Node, NodeData, Origin, Payload, Value};
use memc_onnx_proto::onnx::{AttributeProto, GraphProto, NodeProto, StringStringEntryProto, TensorProto};
use memc_onnx_proto::{GraphEdit, Metadata, NodeEdit, NodePiece};

use crate::encode::{MAX_DEPTH, Source, entry, same_operator};
use crate::error::ExportError;
use crate::pieces::are_unchanged;
use crate::{initializers, inputs};

/// Number of copy steps followed from a node back to a node of the file; nodes with a longer chain are
/// encoded as new messages.
const MAX_COPIES: usize = 64;

/// Additions of the exporter to a node: its name, and its metadata if metadata is written.
pub(crate) type Decoration = (String, Option<Metadata>);

/// Returns the given nodes of one graph in this order, each with the name and metadata from `decorate`.
/// Compares them with `proto`, the graph in the file.
///
/// O(size of the graph and of its bodies); [`MAX_DEPTH`] bounds the recursion.
pub(crate) fn pieces(
    source: Source<'_>,
    nodes: &[Node],
    proto: &GraphProto,
    decorate: &dyn Fn(Node) -> Decoration,
    depth: usize,
) -> Result<Vec<NodePiece>, ExportError> {
    nodes.iter().map(|node| piece(source, *node, proto, decorate(*node), depth)).collect()
}

fn piece(
    source: Source<'_>,
    node: Node,
    graph: &GraphProto,
    (name, metadata): Decoration,
    depth: usize,
) -> Result<NodePiece, ExportError> {
    let Some((index, proto)) = origin(source, node, graph) else {
        let mut proto = source.node(node, &name, depth)?;
        proto.metadata_props = entries(metadata.unwrap_or_default());
        return Ok(NodePiece::New(proto));
    };
    let data = source.module.node(node);
    let mut edit = NodeEdit { metadata, ..NodeEdit::default() };
    edit.name = (proto.name() != name).then_some(name);
    edit.inputs = Some(source.names(&data.inputs)).filter(|names| *names != proto.input);
    edit.outputs = Some(source.names(&data.outputs)).filter(|names| *names != proto.output);
    for ((key, value), old) in data.attributes.iter().zip(&proto.attribute) {
        let bodies = value.graphs().iter().zip(old.g.iter().chain(&old.graphs));
        let mut changes = Vec::new();
        for (body, old) in bodies {
            changes.push(body_change(source, *body, old, depth + 1)?);
        }
        match (value, changes.pop()) {
            (_, None | Some(BodyChange::Same))
                if changes.iter().all(|change| *change == BodyChange::Same) => {}
            (Attribute::Graph(_), Some(BodyChange::Edit(change))) => {
                edit.bodies.insert(key.clone(), *change);
            }
            _ => edit.attributes.push(source.attribute(node, key, value, depth)?),
        }
    }
    Ok(NodePiece::Original { index, edit })
}

/// Returns metadata as messages.
pub(crate) fn entries(metadata: Metadata) -> Vec<StringStringEntryProto> {
    metadata.iter().map(|(key, value)| entry(key, value)).collect()
}

/// Finds the node of the file that can be written for a node: its own origin, or the origin of the node
/// that it recomputes, if operator and attributes are equal. `None` if there is none.
fn origin<'p>(source: Source<'_>, node: Node, graph: &'p GraphProto) -> Option<(usize, &'p NodeProto)> {
    let data = source.module.node(node);
    let mut candidate = node;
    for _ in 0..MAX_COPIES {
        let from = source.module.node(candidate);
        if let Origin::File { index } = from.origin
            && from.graph == data.graph
            && let Some(proto) = graph.node.get(index as usize)
            && same_operator(proto, data)
            && same_attributes(source, data, index as usize, proto)
        {
            return Some((index as usize, proto));
        }
        candidate = from.recompute_of?;
    }
    None
}

/// Whether a node has the attributes of node `index` of the file. The contents of bodies are compared in
/// `body_change`.
fn same_attributes(source: Source<'_>, data: &NodeData, index: usize, proto: &NodeProto) -> bool {
    let is_main = data.graph == source.module.main();
    let span = source.file.spans().graph().node(index).filter(|_| is_main).map(|field| field.payload.clone());
    let same_tensor = |constant: &ConstId, old: &TensorProto| {
        let tensor = source.module.constant(*constant);
        match tensor.origin {
            ConstOrigin::Message { start, end } => {
                span.as_ref().is_some_and(|span| span.start as u64 <= start && end <= span.end as u64)
            }
            ConstOrigin::New => {
                let dims: Option<Vec<i64>> = tensor
                    .ty
                    .known_dims()
                    .and_then(|dims| dims.into_iter().map(|dim| i64::try_from(dim).ok()).collect());
                let same_bytes = match (&tensor.payload, &old.raw_data) {
                    // Buffers that share their bytes need no comparison.
                    (Payload::Raw(new), Some(old)) => new.as_ptr() == old.as_ptr() || new == old,
                    _ => true,
                };
                dims.as_ref() == Some(&old.dims)
                    && tensor.ty.element.to_onnx() == old.data_type()
                    && same_bytes
            }
            _ => false,
        }
    };
    let same = |value: &Attribute, old: &AttributeProto| match value {
        Attribute::Int(value) => *value == old.i(),
        Attribute::Float(value) => value.to_bits() == old.f().to_bits(),
        Attribute::String(value) => **value == *old.s(),
        Attribute::Ints(values) => *values == old.ints,
        Attribute::Floats(values) => {
            values.iter().map(|value| value.to_bits()).eq(old.floats.iter().map(|old| old.to_bits()))
        }
        Attribute::Strings(values) => {
            values.iter().map(|value| &value[..]).eq(old.strings.iter().map(|old| &old[..]))
        }
        Attribute::Tensor(constant) => {
            same_tensor(constant, old.t.as_ref().unwrap_or(&TensorProto::default()))
        }
        Attribute::Tensors(constants) => {
            constants.len() == old.tensors.len()
                && constants.iter().zip(&old.tensors).all(|(new, old)| same_tensor(new, old))
        }
        Attribute::Graph(_) => old.g.is_some(),
        Attribute::Graphs(bodies) => bodies.len() == old.graphs.len(),
        // No pass makes or changes these attributes.
        Attribute::Type(_) | Attribute::Opaque { .. } => true,
    };
    data.attributes.len() == proto.attribute.len()
        && data
            .attributes
            .iter()
            .zip(&proto.attribute)
            .all(|((key, value), old)| key == old.name() && same(value, old))
}

/// Difference between a body and the file's.
#[derive(PartialEq)]
enum BodyChange {
    /// No difference.
    Same,
    /// Nodes or initializers differ.
    Edit(Box<GraphEdit>),
    /// The interface differs as well, so the body is encoded as a new message.
    Whole,
}

fn body_change(
    source: Source<'_>,
    body: GraphId,
    proto: &GraphProto,
    depth: usize,
) -> Result<BodyChange, ExportError> {
    if depth > MAX_DEPTH {
        return Err(ExportError::TooDeep { limit: MAX_DEPTH });
    }
    let data = source.module.graph(body);
    let names = |values: &[Value]| values.iter().map(|value| source.name(*value)).collect::<Vec<_>>();
    let inputs = inputs::stated(source.file, proto);
    let outputs: Vec<&str> = proto.output.iter().map(|info| info.name()).collect();
    if names(&data.inputs) != inputs || names(&data.outputs) != outputs {
        return Ok(BodyChange::Whole);
    }
    let plain = |node: Node| (source.module.node(node).name.clone(), None);
    let pieces = pieces(source, &data.nodes, proto, &plain, depth)?;
    let mut edit = GraphEdit::default();
    initializers::body(source, body, proto, &mut edit)?;
    if !are_unchanged(&pieces, proto.node.len()) {
        let made: BTreeSet<&str> = data
            .nodes
            .iter()
            .flat_map(|node| source.module.node(*node).results())
            .map(|value| source.name(value))
            .collect();
        let gone = proto
            .node
            .iter()
            .flat_map(|node| &node.output)
            .filter(|name| !name.is_empty() && !made.contains(name.as_str()));
        edit.dropped_values = gone.cloned().collect();
        edit.nodes = Some(pieces);
    }
    Ok(if edit == GraphEdit::default() { BodyChange::Same } else { BodyChange::Edit(Box::new(edit)) })
}
