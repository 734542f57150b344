//! What to change in a model: plain data, filled in by the exporter and carried out by [`crate::ModelSplice`].
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::onnx::{AttributeProto, FunctionProto, NodeProto, TensorProto, TypeProto, ValueInfoProto};

/// Metadata keys that begin with this are memc's own: those of an earlier run go when new ones come.
pub const METADATA_PREFIX: &str = "memc.";

/// Key and value pairs for a `metadata_props` field, in the order in which they are written.
pub type Metadata = Vec<(String, String)>;

/// Changes to a model; the default changes nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelEdit {
    /// The new `ir_version`.
    pub ir_version: Option<i64>,
    /// Entries for the model's metadata. `Some` also drops the entries with memc's prefix and those with an equal key;
    /// all others stay verbatim.
    pub metadata: Option<Metadata>,
    /// Operator sets (domain, version) to import. One that the model imports already is not written again; one that it
    /// imports in another version is an error. `""` and `"ai.onnx"` are the same domain.
    pub opsets: Vec<(String, i64)>,
    /// Functions to append.
    pub functions: Vec<FunctionProto>,
    /// Changes to the main graph.
    pub graph: GraphEdit,
}

/// Changes to a graph, the main one or the body of a control-flow node; the default changes nothing.
///
/// Inputs and outputs keep their bytes, so the model's interface stays, but for metadata, the types in `value_types` and the entries in
/// `dropped_inputs`. Mind that below IR version 4 every initializer is also a graph input.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GraphEdit {
    /// All nodes of the new graph, in order; `None` leaves the old nodes. The list stands where the first node stood.
    pub nodes: Option<Vec<NodePiece>>,
    /// Dense initializers to leave out, by their index in the old graph.
    pub dropped_initializers: BTreeSet<usize>,
    /// Initializers to append, by name.
    pub new_initializers: Vec<(String, TensorSource)>,
    /// Names whose `value_info` entries are left out; a name without an entry is no error.
    pub dropped_values: BTreeSet<String>,
    /// Entries to append to `value_info`.
    pub new_values: Vec<ValueInfoProto>,
    /// Names whose `input` entries are left out, such as weights that need not be inputs; a name without an entry is no error.
    pub dropped_inputs: BTreeSet<String>,
    /// Types for the existing `input` and `output` entries of these names, in the place of theirs.
    pub value_types: BTreeMap<String, TypeProto>,
    /// Metadata for the existing `value_info`, `input` and `output` entries of these names; memc's old entries on
    /// them go. A name without an entry is an error, so that nothing gets lost.
    pub value_metadata: BTreeMap<String, Metadata>,
    /// Entries for the graph's own metadata; as for [`ModelEdit::metadata`].
    pub metadata: Option<Metadata>,
}

/// One node of the new graph.
#[derive(Debug, Clone, PartialEq)]
pub enum NodePiece {
    /// A node of the old graph, its bytes verbatim but for what the edit names. The same node may come several times, as
    /// it does when its result is recomputed; the edit then gives each copy its own name and outputs.
    Original {
        /// Its index in the old graph.
        index: usize,
        /// What changes.
        edit: NodeEdit,
    },
    /// A node that was not there.
    New(NodeProto),
}

impl NodePiece {
    /// The old node `index`, unchanged.
    pub fn original(index: usize) -> Self {
        Self::Original { index, edit: NodeEdit::default() }
    }
}

/// Changes to a node; the default changes nothing. Fields not named here survive, unknown ones too.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeEdit {
    /// The new name.
    pub name: Option<String>,
    /// The new inputs, all of them; an empty string stands for an optional input that is absent.
    pub inputs: Option<Vec<String>>,
    /// The new outputs, all of them.
    pub outputs: Option<Vec<String>>,
    /// Entries for the node's metadata; as for [`ModelEdit::metadata`].
    pub metadata: Option<Metadata>,
    /// Attributes to add; each takes the place of the one with its name.
    pub attributes: Vec<AttributeProto>,
    /// Changes inside the graphs that attributes hold (`then_branch`, `body`), by attribute name.
    pub bodies: BTreeMap<String, GraphEdit>,
}

/// Where a new initializer comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum TensorSource {
    /// A tensor built in memory; its `raw_data` is shared, its `name` replaced.
    Owned(Box<TensorProto>),
    /// The payload of a `TensorProto` in the old file, such as [`crate::attribute_tensor`] finds: copied verbatim but
    /// for its `name`.
    Span(Range<usize>),
}
