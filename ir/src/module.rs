//! The module: graphs, nodes, values and constants that travel together.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::attribute::Attribute;
use crate::entity::{ConstId, EntityId, GraphId, Node, PrimaryMap, Value};
use crate::plan::Plan;
use crate::types::{TensorType, ValueType};

/// How far a module has come; each stage has a verifier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Stage {
    /// Structure only.
    #[default]
    Imported,
    /// Every value has the type that could be derived.
    Typed,
    /// The order of nodes is the schedule.
    Scheduled,
    /// Every planned value has its storage.
    Planned,
}

impl Stage {
    /// All stages, first to last.
    pub const ALL: [Self; 4] = [Self::Imported, Self::Typed, Self::Scheduled, Self::Planned];
    /// Name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Self::Imported => "imported",
            Self::Typed => "typed",
            Self::Scheduled => "scheduled",
            Self::Planned => "planned",
        }
    }
}

/// An operator: domain, name, overload, and the version of its operator set.
///
/// The default domain is the empty string (`ai.onnx` is folded into it at import).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Operator {
    /// Domain; empty for ONNX's own.
    pub domain: Arc<str>,
    /// Name within the domain.
    pub name: Arc<str>,
    /// Overload of a model-local function; empty for everything else.
    pub overload: Arc<str>,
    /// Version of the domain's operator set that is in force where the node stands.
    pub version: i64,
}

impl Operator {
    /// An operator of ONNX's own domain.
    pub fn onnx(name: &str, version: i64) -> Self {
        Self { domain: Arc::from(""), name: Arc::from(name), overload: Arc::from(""), version }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.domain.is_empty() {
            write!(f, "{}::", self.domain)?;
        }
        f.write_str(&self.name)?;
        if !self.overload.is_empty() {
            write!(f, ":{}", self.overload)?;
        }
        Ok(())
    }
}

/// Where a node comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Node number `index` of the main graph (or of the body it stands in) of the file.
    File {
        /// Position in the file's list of nodes.
        index: u32,
    },
    /// Inlined from a model-local function called by the node of this name.
    Inlined {
        /// Name of the calling node.
        call: String,
    },
    /// Made by a pass.
    Pass {
        /// Name of the pass.
        pass: Cow<'static, str>,
    },
    /// Read from the text form.
    Text,
}

/// One application of an operator.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeData {
    /// What it computes.
    pub operator: Operator,
    /// Name as in ONNX; may be empty or repeated until the exporter makes it unique.
    pub name: String,
    /// Operands; `None` for an operand that is left out.
    pub inputs: Vec<Option<Value>>,
    /// Results; `None` for a result that is left out.
    pub outputs: Vec<Option<Value>>,
    /// Attributes in the file's order.
    pub attributes: Vec<(String, Attribute)>,
    /// Graph that the node belongs to.
    pub graph: GraphId,
    /// Where the node comes from.
    pub origin: Origin,
    /// The node whose results this one computes again.
    pub recompute_of: Option<Node>,
}

impl NodeData {
    /// The attribute of this name.
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }
    /// An integer attribute, or its default.
    pub fn int(&self, name: &str, default: i64) -> i64 {
        match self.attribute(name) {
            Some(Attribute::Int(value)) => *value,
            _ => default,
        }
    }
    /// A number attribute, or its default.
    pub fn float(&self, name: &str, default: f32) -> f32 {
        match self.attribute(name) {
            Some(Attribute::Float(value)) => *value,
            _ => default,
        }
    }
    /// A list of integers, if it is there.
    pub fn ints(&self, name: &str) -> Option<&[i64]> {
        match self.attribute(name) {
            Some(Attribute::Ints(values)) => Some(values),
            _ => None,
        }
    }
    /// A string attribute that is UTF-8, if it is there.
    pub fn string(&self, name: &str) -> Option<&str> {
        match self.attribute(name) {
            Some(Attribute::String(bytes)) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }
    /// All bodies with the names of their attributes, in order.
    pub fn bodies(&self) -> impl Iterator<Item = (&str, GraphId)> {
        self.attributes.iter().flat_map(|(name, value)| value.graphs().iter().map(move |graph| (name.as_str(), *graph)))
    }
    /// Operands that are there, in order, with repeats.
    pub fn operands(&self) -> impl Iterator<Item = Value> + '_ {
        self.inputs.iter().copied().flatten()
    }
    /// Results that are there, in order.
    pub fn results(&self) -> impl Iterator<Item = Value> + '_ {
        self.outputs.iter().copied().flatten()
    }
}

/// What defines a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Definition {
    /// A formal input of a graph, by position.
    Input(GraphId, u32),
    /// An initializer of a graph.
    Constant(GraphId, ConstId),
    /// A result of a node, by position.
    Result(Node, u32),
    /// Nothing any more: the node was erased.
    Erased,
}

/// An SSA value.
#[derive(Clone, PartialEq, Debug)]
pub struct ValueData {
    /// Name as in ONNX, unique in its graph and the graphs around it.
    pub name: String,
    /// Type, as far as known.
    pub ty: ValueType,
    /// What defines it.
    pub definition: Definition,
    /// Initializer of a graph input: the default that a caller may override.
    pub default: Option<ConstId>,
}

/// Where the bytes of a constant are.
#[derive(Clone, PartialEq, Debug)]
pub enum Payload {
    /// At hand: little-endian, packed as ONNX's `raw_data`. A slice of the mapped file, or computed by a pass.
    Raw(Bytes),
    /// In another file; never opened.
    External {
        /// Path relative to the model's folder, as written.
        location: String,
        /// First byte.
        offset: u64,
        /// Number of bytes, where stated.
        length: Option<u64>,
    },
    /// Not at hand: strings, sparse tensors, or a text form that left them out.
    Elided,
}

/// Where a constant stands in the file, so that it can be copied byte for byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConstOrigin {
    /// Dense initializer number `index` of the main graph.
    Initializer(u32),
    /// Sparse initializer number `index` of the main graph.
    SparseInitializer(u32),
    /// A tensor message at these bytes of the model file (an attribute, or an initializer of a body).
    Message {
        /// First byte of the message.
        start: u64,
        /// One past its last byte.
        end: u64,
    },
    /// Not in the file.
    New,
}

/// A constant.
#[derive(Clone, PartialEq, Debug)]
pub struct ConstData {
    /// Type.
    pub ty: TensorType,
    /// Where its bytes are.
    pub payload: Payload,
    /// Where it stands in the file.
    pub origin: ConstOrigin,
}

/// A graph: the main graph or a body. The order of its nodes is the file's, and from [`Stage::Scheduled`] on the schedule.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct GraphData {
    /// Name as in ONNX.
    pub name: String,
    /// Formal inputs, those with a default included.
    pub inputs: Vec<Value>,
    /// Results, in order; the same value may stand twice, and an input may be a result.
    pub outputs: Vec<Value>,
    /// Values defined by initializers that are no inputs.
    pub constants: Vec<Value>,
    /// Nodes in order.
    pub nodes: Vec<Node>,
    /// The node whose body it is; `None` for the main graph.
    pub parent: Option<Node>,
}

/// Graphs, nodes, values and constants that travel together.
///
/// Values of an outer graph may be read in a body (a *capture*); that is an ordinary operand. Ids are never reused: an
/// erased node leaves the list of its graph and its results become [`Definition::Erased`].
#[derive(Clone, Debug, Default)]
pub struct Module {
    pub(crate) graphs: PrimaryMap<GraphId, GraphData>,
    pub(crate) nodes: PrimaryMap<Node, NodeData>,
    pub(crate) values: PrimaryMap<Value, ValueData>,
    pub(crate) constants: PrimaryMap<ConstId, ConstData>,
    /// Version of the IR that the file states.
    pub ir_version: i64,
    /// Operator sets by domain (the default domain is empty).
    pub opsets: BTreeMap<String, i64>,
    /// Symbols that were bound, with their extents.
    pub dims: BTreeMap<String, u64>,
    /// Types that values of the main graph are planned with although only a run tells them: what somebody says they will be. Order and places rest
    /// on them, rewrites never do. The text form leaves them out.
    pub assumed: BTreeMap<Value, TensorType>,
    /// Values of the main graph whose sizes are only what the file states. The text form leaves them out.
    pub claimed: BTreeSet<Value>,
    /// How far the module has come.
    pub stage: Stage,
    /// Aliases and storage, filled by planning passes.
    pub plan: Plan,
}

impl Module {
    /// The main graph: the first one that was made.
    pub fn main(&self) -> GraphId {
        GraphId::new(0)
    }
    /// All graphs, the main one first.
    pub fn graphs(&self) -> &PrimaryMap<GraphId, GraphData> {
        &self.graphs
    }
    /// All nodes ever made, erased ones included.
    pub fn nodes(&self) -> &PrimaryMap<Node, NodeData> {
        &self.nodes
    }
    /// All values ever made, erased ones included.
    pub fn values(&self) -> &PrimaryMap<Value, ValueData> {
        &self.values
    }
    /// All constants.
    pub fn constants(&self) -> &PrimaryMap<ConstId, ConstData> {
        &self.constants
    }
    /// One graph.
    pub fn graph(&self, graph: GraphId) -> &GraphData {
        &self.graphs[graph]
    }
    /// One node.
    pub fn node(&self, node: Node) -> &NodeData {
        &self.nodes[node]
    }
    /// One value.
    pub fn value(&self, value: Value) -> &ValueData {
        &self.values[value]
    }
    /// One constant.
    pub fn constant(&self, constant: ConstId) -> &ConstData {
        &self.constants[constant]
    }
    /// Type of a value.
    pub fn ty(&self, value: Value) -> &ValueType {
        &self.values[value].ty
    }
    /// The tensor type that a value is planned with: its own, or the one that is assumed of it.
    pub fn planned(&self, value: Value) -> Option<&TensorType> {
        self.assumed.get(&value).or_else(|| self.values[value].ty.tensor())
    }
    /// Size that a value is planned with; `None` where nobody can tell it and none is assumed.
    pub fn size(&self, value: Value) -> Option<crate::units::Bytes> {
        self.planned(value).and_then(TensorType::size)
    }
    /// The node that produces a value.
    pub fn producer(&self, value: Value) -> Option<Node> {
        match self.values[value].definition {
            Definition::Result(node, _) => Some(node),
            _ => None,
        }
    }
    /// The constant that a value always is; a graph input with a default is none.
    pub fn constant_of(&self, value: Value) -> Option<ConstId> {
        match self.values[value].definition {
            Definition::Constant(_, constant) => Some(constant),
            _ => None,
        }
    }
    /// Graph that defines a value.
    pub fn home(&self, value: Value) -> Option<GraphId> {
        match self.values[value].definition {
            Definition::Input(graph, _) | Definition::Constant(graph, _) => Some(graph),
            Definition::Result(node, _) => Some(self.nodes[node].graph),
            Definition::Erased => None,
        }
    }
    /// Values of outer graphs that the bodies of `node` read, each once, in order of first reading (outputs of bodies included).
    pub fn captures(&self, node: Node) -> Vec<Value> {
        let mut bodies: Vec<GraphId> = self.nodes[node].bodies().map(|(_, graph)| graph).collect();
        let mut inside: Vec<GraphId> = Vec::new();
        let mut found = indexmap::IndexSet::new();
        while let Some(body) = bodies.pop() {
            inside.push(body);
            for inner in &self.graphs[body].nodes {
                found.extend(self.nodes[*inner].operands());
                bodies.extend(self.nodes[*inner].bodies().map(|(_, graph)| graph));
            }
            found.extend(self.graphs[body].outputs.iter().copied());
        }
        found.into_iter().filter(|value| self.home(*value).is_none_or(|home| !inside.contains(&home))).collect()
    }
    /// Everything that a node reads: operands, then captures of its bodies; with repeats.
    pub fn reads(&self, node: Node) -> Vec<Value> {
        let mut all: Vec<Value> = self.nodes[node].operands().collect();
        if self.nodes[node].bodies().next().is_some() {
            all.extend(self.captures(node));
        }
        all
    }
}
