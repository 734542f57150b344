//! Rewriting of graphs, nodes and tensors for the splice writer.
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::edit::{GraphEdit, Metadata, NodeEdit, NodePiece, TensorSource};
use crate::error::SpliceError;
use crate::extents;
use crate::rewrite::{Anchor, Fate, Insertion, metadata_fate, metadata_insertion, rewrite};
use crate::rope::Rope;
use crate::spans::{GraphSpans, is_message, only_message};
use crate::wire::{Field, fields, last_bytes};
use crate::{attribute, graph, node, tensor, value_info};

/// Applies `edit` to the graph at `span` and returns its message.
///
/// Recurses only into edited bodies. They are nested in the old file, whose depth was checked when it
/// was opened.
pub(crate) fn rewrite_graph(bytes: &[u8], span: Range<usize>, edit: &GraphEdit) -> Result<Rope, SpliceError> {
    let spans = GraphSpans::new(bytes, span.clone())?;
    if let Some(&index) = edit.dropped_initializers.last()
        && index >= spans.initializer_count()
    {
        return Err(SpliceError::InitializerIndex { index, count: spans.initializer_count() });
    }
    let insertions = graph_insertions(bytes, &spans, edit)?;
    let mut initializer = 0;
    let mut undescribed: BTreeSet<&[u8]> = edit.value_metadata.keys().map(String::as_bytes).collect();
    let result = rewrite(bytes, span, insertions, |field| match field.tag {
        graph::NODE if edit.nodes.is_some() => Ok(Fate::Drop),
        graph::INITIALIZER if is_message(field, graph::INITIALIZER) => {
            let index = initializer;
            initializer += 1;
            Ok(if edit.dropped_initializers.contains(&index) { Fate::Drop } else { Fate::Keep })
        }
        graph::INPUT | graph::OUTPUT | graph::VALUE_INFO => value_fate(bytes, field, edit, &mut undescribed),
        graph::METADATA_PROPS => match &edit.metadata {
            Some(metadata) => Ok(metadata_fate(bytes, field, metadata)?),
            None => Ok(Fate::Keep),
        },
        _ => Ok(Fate::Keep),
    })?;
    match undescribed.first() {
        Some(name) => Err(SpliceError::UnknownValue { name: String::from_utf8_lossy(name).into() }),
        None => Ok(result),
    }
}

/// Collects the new fields of a graph.
fn graph_insertions(
    bytes: &[u8],
    spans: &GraphSpans,
    edit: &GraphEdit,
) -> Result<Vec<Insertion>, SpliceError> {
    let mut insertions = Vec::new();
    if let Some(pieces) = &edit.nodes {
        let mut content = Rope::default();
        for piece in pieces {
            write_node(bytes, spans, piece, &mut content)?;
        }
        insertions.push(Insertion { tag: graph::NODE, anchor: Anchor::First, content });
    }
    let mut content = Rope::default();
    for (name, source) in &edit.new_initializers {
        write_initializer(bytes, name, source, &mut content)?;
    }
    insertions.push(Insertion { tag: graph::INITIALIZER, anchor: Anchor::Last, content });
    let mut content = Rope::default();
    for value in &edit.new_values {
        content.encoded_field(graph::VALUE_INFO, value);
    }
    insertions.push(Insertion { tag: graph::VALUE_INFO, anchor: Anchor::Last, content });
    let mut content = Rope::default();
    for input in &edit.new_inputs {
        content.encoded_field(graph::INPUT, input);
    }
    insertions.push(Insertion { tag: graph::INPUT, anchor: Anchor::Last, content });
    let mut content = Rope::default();
    for output in &edit.new_outputs {
        content.encoded_field(graph::OUTPUT, output);
    }
    insertions.push(Insertion { tag: graph::OUTPUT, anchor: Anchor::Last, content });
    if let Some(metadata) = &edit.metadata {
        insertions.push(metadata_insertion(graph::METADATA_PROPS, metadata));
    }
    Ok(insertions)
}

/// Appends one node of the new graph to `out`.
fn write_node(
    bytes: &[u8],
    spans: &GraphSpans,
    piece: &NodePiece,
    out: &mut Rope,
) -> Result<(), SpliceError> {
    let (index, edit) = match piece {
        NodePiece::New(node) => {
            out.encoded_field(graph::NODE, node);
            return Ok(());
        }
        NodePiece::Original { index, edit } => (*index, edit),
    };
    let count = spans.node_count();
    let field = spans.node(index).ok_or(SpliceError::NodeIndex { index, count })?;
    if *edit == NodeEdit::default() {
        out.copy(field.span.clone());
    } else {
        let content = rewrite_node(bytes, field.payload.clone(), index, edit)?;
        out.message_field(graph::NODE, content);
    }
    Ok(())
}

/// Applies `edit` to the node at `span` and returns its message.
fn rewrite_node(
    bytes: &[u8],
    span: Range<usize>,
    index: usize,
    edit: &NodeEdit,
) -> Result<Rope, SpliceError> {
    let mut pending = Pending::new(edit);
    let mut insertions = node_insertions(edit);
    // Attributes that replace old ones are placed below; the others follow the last attribute.
    let mut content = Rope::default();
    let present = attribute_names(bytes, span.clone())?;
    for new in edit.attributes.iter().filter(|new| !present.contains(new.name().as_bytes())) {
        content.encoded_field(node::ATTRIBUTE, new);
    }
    insertions.push(Insertion { tag: node::ATTRIBUTE, anchor: Anchor::Last, content });
    let content = rewrite(bytes, span, insertions, |field| {
        Ok::<_, SpliceError>(match field.tag {
            node::INPUT if edit.inputs.is_some() => Fate::Drop,
            node::OUTPUT if edit.outputs.is_some() => Fate::Drop,
            node::NAME if edit.name.is_some() => Fate::Drop,
            node::METADATA_PROPS => match &edit.metadata {
                Some(metadata) => metadata_fate(bytes, field, metadata)?,
                None => Fate::Keep,
            },
            node::ATTRIBUTE => attribute_fate(bytes, field, &mut pending)?,
            _ => Fate::Keep,
        })
    })?;
    match pending.bodies.first_key_value() {
        Some((name, _)) => Err(SpliceError::NoBody { index, attribute: (*name).into() }),
        None => Ok(content),
    }
}

/// Collects the new fields of a node, except attributes.
fn node_insertions(edit: &NodeEdit) -> Vec<Insertion> {
    let strings = |tag: u32, values: &[String]| {
        let mut content = Rope::default();
        values.iter().for_each(|value| content.bytes_field(tag, value.as_bytes()));
        Insertion { tag, anchor: Anchor::First, content }
    };
    let mut insertions = Vec::new();
    insertions.extend(edit.inputs.as_ref().map(|names| strings(node::INPUT, names)));
    insertions.extend(edit.outputs.as_ref().map(|names| strings(node::OUTPUT, names)));
    insertions.extend(edit.name.as_ref().map(|name| strings(node::NAME, std::slice::from_ref(name))));
    insertions.extend(edit.metadata.as_ref().map(|new| metadata_insertion(node::METADATA_PROPS, new)));
    insertions
}

/// Parts of a node's edit that apply to its old attributes.
struct Pending<'a> {
    /// New attributes by name. The first old attribute with the name is replaced, later ones are
    /// dropped.
    attributes: BTreeMap<&'a str, Option<Rope>>,
    /// Edits of bodies that were not applied yet.
    bodies: BTreeMap<&'a str, &'a GraphEdit>,
}

impl<'a> Pending<'a> {
    fn new(edit: &'a NodeEdit) -> Self {
        let mut attributes: BTreeMap<&str, Option<Rope>> = BTreeMap::new();
        for new in &edit.attributes {
            let content = attributes.entry(new.name()).or_default().get_or_insert_default();
            content.encoded_field(node::ATTRIBUTE, new);
        }
        let bodies = edit.bodies.iter().map(|(name, body)| (name.as_str(), body)).collect();
        Self { attributes, bodies }
    }
}

/// Returns the names of a node's attributes, as bytes.
fn attribute_names(bytes: &[u8], node: Range<usize>) -> Result<BTreeSet<&[u8]>, SpliceError> {
    let mut names = BTreeSet::new();
    for field in fields(bytes, node) {
        let field = field?;
        if is_message(&field, node::ATTRIBUTE) {
            names.insert(last_bytes(bytes, field.payload, attribute::NAME)?.unwrap_or_default());
        }
    }
    Ok(names)
}

/// Decides about an attribute: replaces it, edits its graph, or keeps it.
fn attribute_fate(bytes: &[u8], field: &Field, pending: &mut Pending<'_>) -> Result<Fate, SpliceError> {
    let name = last_bytes(bytes, field.payload.clone(), attribute::NAME)?.unwrap_or_default();
    // The decoder accepted the file, so every name in it is UTF-8.
    let Ok(name) = std::str::from_utf8(name) else {
        return Ok(Fate::Keep);
    };
    if let Some(replacement) = pending.attributes.get_mut(name) {
        return Ok(replacement.take().map_or(Fate::Drop, Fate::Replace));
    }
    let Some(edit) = pending.bodies.get(name).copied() else {
        return Ok(Fate::Keep);
    };
    if only_message(bytes, field.payload.clone(), attribute::G, name)?.is_none() {
        // The edit stays pending, and the caller reports it.
        return Ok(Fate::Keep);
    }
    let content = rewrite(bytes, field.payload.clone(), Vec::new(), |inner| {
        if !is_message(inner, attribute::G) {
            return Ok::<_, SpliceError>(Fate::Keep);
        }
        let mut body = Rope::default();
        body.message_field(attribute::G, rewrite_graph(bytes, inner.payload.clone(), edit)?);
        Ok(Fate::Replace(body))
    })?;
    pending.bodies.remove(name);
    let mut changed = Rope::default();
    changed.message_field(node::ATTRIBUTE, content);
    Ok(Fate::Replace(changed))
}

/// Appends one new initializer to `out`.
fn write_initializer(
    bytes: &[u8],
    name: &str,
    source: &TensorSource,
    out: &mut Rope,
) -> Result<(), SpliceError> {
    match source {
        TensorSource::Owned(tensor) => out.tensor_field(graph::INITIALIZER, name, tensor),
        TensorSource::Span(span) => {
            let mut content = Rope::default();
            content.bytes_field(tensor::NAME, name.as_bytes());
            let insertion = Insertion { tag: tensor::NAME, anchor: Anchor::First, content };
            let renamed = rewrite(bytes, span.clone(), vec![insertion], |field| {
                let is_name = field.tag == tensor::NAME;
                Ok::<_, SpliceError>(if is_name { Fate::Drop } else { Fate::Keep })
            })?;
            out.message_field(graph::INITIALIZER, renamed);
        }
    }
    Ok(())
}

/// Decides about a `value_info`, `input` or `output` entry; removes its name from `undescribed`.
fn value_fate(
    bytes: &[u8],
    field: &Field,
    edit: &GraphEdit,
    undescribed: &mut BTreeSet<&[u8]>,
) -> Result<Fate, SpliceError> {
    let dropped = match field.tag {
        graph::VALUE_INFO => Some(&edit.dropped_values),
        graph::INPUT => Some(&edit.dropped_inputs),
        graph::OUTPUT => Some(&edit.dropped_outputs),
        _ => None,
    };
    // No edit concerns this kind of entry, so its name is not needed.
    if dropped.is_none_or(BTreeSet::is_empty) && edit.value_dims.is_empty() && edit.value_metadata.is_empty()
    {
        return Ok(Fate::Keep);
    }
    let name = last_bytes(bytes, field.payload.clone(), value_info::NAME)?.unwrap_or_default();
    let Ok(name) = std::str::from_utf8(name) else {
        return Ok(Fate::Keep);
    };
    if dropped.is_some_and(|dropped| dropped.contains(name)) {
        undescribed.remove(name.as_bytes());
        return Ok(Fate::Drop);
    }
    let metadata = edit.value_metadata.get(name);
    let extents = edit.value_dims.get(name);
    if metadata.is_none() && extents.is_none() {
        return Ok(Fate::Keep);
    }
    undescribed.remove(name.as_bytes());
    let mut changed = Rope::default();
    changed.message_field(field.tag, rewrite_value(bytes, field.payload.clone(), extents, metadata)?);
    Ok(Fate::Replace(changed))
}

/// Returns the `ValueInfoProto` at `span` with the given extents and metadata.
fn rewrite_value(
    bytes: &[u8],
    span: Range<usize>,
    extents: Option<&Vec<Option<i64>>>,
    metadata: Option<&Metadata>,
) -> Result<Rope, SpliceError> {
    let mut insertions = Vec::new();
    insertions.extend(metadata.map(|metadata| metadata_insertion(value_info::METADATA_PROPS, metadata)));
    rewrite(bytes, span, insertions, |field| match (field.tag, metadata, extents) {
        (value_info::TYPE, _, Some(extents)) if is_message(field, value_info::TYPE) => {
            Ok(Fate::Replace(extents::rewrite_type(bytes, field, extents)?))
        }
        (value_info::METADATA_PROPS, Some(metadata), _) => Ok(metadata_fate(bytes, field, metadata)?),
        _ => Ok(Fate::Keep),
    })
}
