//! Edits of a model: plain data that the exporter fills in and [`crate::ModelSplice`] applies.
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::onnx::{AttributeProto, FunctionProto, NodeProto, TensorProto, ValueInfoProto};

/// Prefix of memc's own metadata keys. New metadata replaces all entries with this prefix from an
/// earlier run.
pub const METADATA_PREFIX: &str = "memc.";

/// Key and value pairs of a `metadata_props` field, in writing order.
pub type Metadata = Vec<(String, String)>;

/// Changes to a model; the default changes nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelEdit {
    /// New `ir_version`; `None` keeps the old one.
    pub ir_version: Option<i64>,
    /// New metadata entries of the model. `Some` also drops the entries with memc's prefix or with an
    /// equal key; all other entries stay verbatim.
    pub metadata: Option<Metadata>,
    /// Operator sets to import, as domain and version. A set that the model already imports is not
    /// repeated; an import in another version is an error, unless it is older and `raises_opsets` is set.
    /// `""` and `"ai.onnx"` denote one domain.
    pub opsets: Vec<(String, i64)>,
    /// Whether a newer version in `opsets` replaces the import of an older one.
    pub raises_opsets: bool,
    /// Functions to append.
    pub functions: Vec<FunctionProto>,
    /// Changes to the main graph.
    pub graph: GraphEdit,
}

/// Changes to a graph (the main graph or the body of a control-flow node); the default changes nothing.
///
/// Inputs and outputs keep their bytes, so the interface of the model stays. Exceptions are metadata,
/// the extents in `value_dims` and the entries in `dropped_inputs`, `new_inputs`, `dropped_outputs` and
/// `new_outputs`. Below IR version 4 every initializer is also a graph input.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GraphEdit {
    /// All nodes of the new graph, in order; `None` keeps the old nodes. The list is written at the
    /// position of the first old node.
    pub nodes: Option<Vec<NodePiece>>,
    /// Dense initializers to drop, by index in the old graph.
    pub dropped_initializers: BTreeSet<usize>,
    /// Initializers to append, by name.
    pub new_initializers: Vec<(String, TensorSource)>,
    /// Names whose `value_info` entries are dropped; names without an entry are ignored.
    pub dropped_values: BTreeSet<String>,
    /// Entries to append to `value_info`.
    pub new_values: Vec<ValueInfoProto>,
    /// Names whose `input` entries are dropped, such as weights that need not be inputs; names without
    /// an entry are ignored.
    pub dropped_inputs: BTreeSet<String>,
    /// Entries to append to `input`.
    pub new_inputs: Vec<ValueInfoProto>,
    /// Names whose `output` entries are dropped; names without an entry are ignored.
    pub dropped_outputs: BTreeSet<String>,
    /// Entries to append to `output`.
    pub new_outputs: Vec<ValueInfoProto>,
    /// New extents of tensors in existing `input`, `output` and `value_info` entries, by name: one per
    /// axis, `None` keeps the axis. All other bytes of the type stay. A type without a shape gets one.
    pub value_dims: BTreeMap<String, Vec<Option<i64>>>,
    /// New metadata of existing `value_info`, `input` and `output` entries, by name. It replaces memc's
    /// old metadata on them. A name without an entry is an error, so that no metadata is lost.
    pub value_metadata: BTreeMap<String, Metadata>,
    /// New metadata entries of the graph; see [`ModelEdit::metadata`].
    pub metadata: Option<Metadata>,
}

/// One node of the new graph.
#[derive(Debug, Clone, PartialEq)]
pub enum NodePiece {
    /// A node of the old graph, copied verbatim except for the edit. A node may occur several times,
    /// for example as a recomputed copy; then the edit gives each copy its own name and outputs.
    Original {
        /// Index of the node in the old graph.
        index: usize,
        /// Changes to the node.
        edit: NodeEdit,
    },
    /// A new node.
    New(NodeProto),
}

impl NodePiece {
    /// Creates an unchanged copy of the old node `index`.
    pub fn original(index: usize) -> Self {
        Self::Original { index, edit: NodeEdit::default() }
    }
}

/// Changes to a node; the default changes nothing. All other fields survive, including unknown ones.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeEdit {
    /// New name; `None` keeps the old one.
    pub name: Option<String>,
    /// All inputs of the new node; an empty string marks an omitted optional input.
    pub inputs: Option<Vec<String>>,
    /// All outputs of the new node.
    pub outputs: Option<Vec<String>>,
    /// New metadata entries of the node; see [`ModelEdit::metadata`].
    pub metadata: Option<Metadata>,
    /// Attributes to set; each replaces the attribute with its name, or is added.
    pub attributes: Vec<AttributeProto>,
    /// Changes to graphs in attributes (`then_branch`, `body`), by attribute name.
    pub bodies: BTreeMap<String, GraphEdit>,
}

/// Source of a new initializer.
#[derive(Debug, Clone, PartialEq)]
pub enum TensorSource {
    /// A tensor in memory. Its `raw_data` is shared, its `name` replaced.
    Owned(Box<TensorProto>),
    /// The payload of a `TensorProto` in the old file, for example as [`crate::attribute_tensor`] finds
    /// it. It is copied verbatim except for its `name`.
    Span(Range<usize>),
}
