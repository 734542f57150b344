//! The module: a unit of graphs, nodes, values, constants and their memory plan.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::attribute::Attribute;
use crate::dim::Domain;
use crate::entity::{ConstId, EntityId, GraphId, Node, PrimaryMap, SecondaryMap, Value};
use crate::largest::Largest;
use crate::plan::Plan;
use crate::types::{TensorType, ValueType};

/// Processing stage of a module; the verifier has conditions for each stage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Stage {
    /// The structure is checked; types may be missing.
    #[default]
    Imported,
    /// Every value has the most precise type that inference finds.
    Typed,
    /// The order of nodes is the schedule.
    Scheduled,
    /// Every planned value has its storage.
    Planned,
}

impl Stage {
    /// All stages, first to last.
    pub const ALL: [Self; 4] = [Self::Imported, Self::Typed, Self::Scheduled, Self::Planned];
    /// Name of the stage in the text form.
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
/// The default domain is the empty string; import maps `ai.onnx` to it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Operator {
    /// Domain; empty for ONNX's own operators.
    pub domain: Arc<str>,
    /// Name within the domain.
    pub name: Arc<str>,
    /// Overload of a model-local function; empty for every other operator.
    pub overload: Arc<str>,
    /// Version of the domain's operator set that applies to the node.
    pub version: i64,
}

impl Operator {
    /// Creates an operator of ONNX's own domain.
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

/// Origin of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A node of the model file, in the main graph or a body.
    File {
        /// Position in the file's list of nodes of that graph.
        index: u32,
    },
    /// A node of a model-local function or of a body, inlined at the node that called or held it.
    Inlined {
        /// Name of that node.
        call: String,
    },
    /// A node that a pass created.
    Pass {
        /// Name of the pass.
        pass: Cow<'static, str>,
    },
    /// A node read from the text form.
    Text,
}

/// One application of an operator.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeData {
    /// The operator that the node applies.
    pub operator: Operator,
    /// Name in ONNX; may be empty or repeated until the exporter makes it unique.
    pub name: String,
    /// Operands; `None` for an omitted operand.
    pub inputs: Vec<Option<Value>>,
    /// Results; `None` for an omitted result.
    pub outputs: Vec<Option<Value>>,
    /// Attributes, in the order of the file.
    pub attributes: Vec<(String, Attribute)>,
    /// Graph that the node belongs to.
    pub graph: GraphId,
    /// Origin of the node.
    pub origin: Origin,
    /// The original node, if this node is a recomputed copy.
    pub recompute_of: Option<Node>,
}

impl NodeData {
    /// Finds an attribute by name.
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }
    /// Returns an integer attribute; `default` if it is missing or of another type.
    pub fn int(&self, name: &str, default: i64) -> i64 {
        match self.attribute(name) {
            Some(Attribute::Int(value)) => *value,
            _ => default,
        }
    }
    /// Returns a binary32 attribute; `default` if it is missing or of another type.
    pub fn float(&self, name: &str, default: f32) -> f32 {
        match self.attribute(name) {
            Some(Attribute::Float(value)) => *value,
            _ => default,
        }
    }
    /// Returns an attribute that is a list of integers; `None` if it is missing or of another type.
    pub fn ints(&self, name: &str) -> Option<&[i64]> {
        match self.attribute(name) {
            Some(Attribute::Ints(values)) => Some(values),
            _ => None,
        }
    }
    /// Returns a string attribute; `None` if it is missing, of another type or not UTF-8.
    pub fn string(&self, name: &str) -> Option<&str> {
        match self.attribute(name) {
            Some(Attribute::String(bytes)) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }
    /// Iterates over all bodies, each with the name of its attribute, in order.
    pub fn bodies(&self) -> impl Iterator<Item = (&str, GraphId)> {
        self.attributes
            .iter()
            .flat_map(|(name, value)| value.graphs().iter().map(move |graph| (name.as_str(), *graph)))
    }
    /// Iterates over the operands that are not omitted, in order, with repeats.
    pub fn operands(&self) -> impl Iterator<Item = Value> + '_ {
        self.inputs.iter().copied().flatten()
    }
    /// Iterates over the results that are not omitted, in order.
    pub fn results(&self) -> impl Iterator<Item = Value> + '_ {
        self.outputs.iter().copied().flatten()
    }
}

/// The definition of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Definition {
    /// A formal input of a graph, by position.
    Input(GraphId, u32),
    /// An initializer of a graph.
    Constant(GraphId, ConstId),
    /// A result of a node, by position.
    Result(Node, u32),
    /// None: the defining node was erased.
    Erased,
}

/// An SSA value.
#[derive(Clone, PartialEq, Debug)]
pub struct ValueData {
    /// Name in ONNX, unique in its graph and the enclosing graphs.
    pub name: String,
    /// Type, as far as known.
    pub ty: ValueType,
    /// The input, initializer or node result that defines the value.
    pub definition: Definition,
    /// Default of a graph input (its initializer), which a caller may override.
    pub default: Option<ConstId>,
}

/// Location of the bytes of a constant.
#[derive(Clone, PartialEq, Debug)]
pub enum Payload {
    /// In memory: little-endian, packed as in ONNX's `raw_data`. A slice of the mapped file, or
    /// computed by a pass.
    Raw(Bytes),
    /// In another file, which memc does not open.
    External {
        /// Path relative to the model's folder, as in the model.
        location: String,
        /// Position of the first byte.
        offset: u64,
        /// Length in bytes, if stated.
        length: Option<u64>,
    },
    /// Not available: strings, sparse tensors, or bytes that a text form omits.
    Elided,
}

/// Position of a constant in the model file, for copying it byte for byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConstOrigin {
    /// Dense initializer number `index` of the main graph.
    Initializer(u32),
    /// Sparse initializer number `index` of the main graph.
    SparseInitializer(u32),
    /// A tensor message of the model file (an attribute, or an initializer of a body).
    Message {
        /// Position of the first byte of the message.
        start: u64,
        /// One past the last byte of the message.
        end: u64,
    },
    /// A constant that is not in the file.
    New,
}

/// A constant.
#[derive(Clone, PartialEq, Debug)]
pub struct ConstData {
    /// Type.
    pub ty: TensorType,
    /// Location of the bytes.
    pub payload: Payload,
    /// Position in the model file.
    pub origin: ConstOrigin,
}

/// A graph: the main graph or a body. Its nodes are in file order, and from [`Stage::Scheduled`] on in
/// schedule order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct GraphData {
    /// Name in ONNX.
    pub name: String,
    /// Formal inputs, including those with a default.
    pub inputs: Vec<Value>,
    /// Results, in order. A value may occur twice, and an input may be a result.
    pub outputs: Vec<Value>,
    /// Values that initializers define, except graph inputs.
    pub constants: Vec<Value>,
    /// Nodes, in order.
    pub nodes: Vec<Node>,
    /// The node that holds this body as an attribute; `None` for the main graph.
    pub parent: Option<Node>,
}

/// Graphs, nodes, values and constants of one model, with its plan.
///
/// A body may read values of an enclosing graph (a *capture*) as ordinary operands. Ids are never
/// reused: an erased node leaves the node list of its graph, and its results become
/// [`Definition::Erased`].
#[derive(Clone, Debug, Default)]
pub struct Module {
    pub(crate) graphs: PrimaryMap<GraphId, GraphData>,
    pub(crate) nodes: PrimaryMap<Node, NodeData>,
    pub(crate) values: PrimaryMap<Value, ValueData>,
    pub(crate) constants: PrimaryMap<ConstId, ConstData>,
    /// IR version that the file states.
    pub ir_version: i64,
    /// Operator set versions by domain (the default domain is empty).
    pub opsets: BTreeMap<String, i64>,
    /// Bound symbols with their extents.
    pub dims: BTreeMap<String, u64>,
    /// Extents of the unbound symbols.
    pub(crate) domain: Domain,
    /// Bounds of the values whose types have symbols with upper bounds.
    pub(crate) largest: SecondaryMap<Value, Option<Largest>>,
    /// Assumed types of main-graph values whose real types only a run determines. The user states these
    /// types. Schedules and offsets use them, rewrites never do. The text form omits them.
    pub assumed: BTreeMap<Value, TensorType>,
    /// Values of the main graph whose sizes rest only on a statement of the file. The text form omits
    /// them.
    pub claimed: BTreeSet<Value>,
    /// Nodes whose operands do not fit their operator: memc treats them as opaque, since no fact about the
    /// operator holds for them. The text form omits them.
    pub misfits: BTreeSet<Node>,
    /// Processing stage of the module.
    pub stage: Stage,
    /// Memory plan, filled by planning passes.
    pub plan: Plan,
}

impl Module {
    /// Id of the main graph: the graph that was created first.
    pub fn main(&self) -> GraphId {
        GraphId::new(0)
    }
    /// All graphs, the main graph first.
    pub fn graphs(&self) -> &PrimaryMap<GraphId, GraphData> {
        &self.graphs
    }
    /// All nodes ever created, including erased ones.
    pub fn nodes(&self) -> &PrimaryMap<Node, NodeData> {
        &self.nodes
    }
    /// All values ever created, including erased ones.
    pub fn values(&self) -> &PrimaryMap<Value, ValueData> {
        &self.values
    }
    /// All constants.
    pub fn constants(&self) -> &PrimaryMap<ConstId, ConstData> {
        &self.constants
    }
    /// Returns a graph.
    pub fn graph(&self, graph: GraphId) -> &GraphData {
        &self.graphs[graph]
    }
    /// Returns a node.
    pub fn node(&self, node: Node) -> &NodeData {
        &self.nodes[node]
    }
    /// Returns a value.
    pub fn value(&self, value: Value) -> &ValueData {
        &self.values[value]
    }
    /// Returns a constant.
    pub fn constant(&self, constant: ConstId) -> &ConstData {
        &self.constants[constant]
    }
    /// Type of a value.
    pub fn ty(&self, value: Value) -> &ValueType {
        &self.values[value].ty
    }
    /// Returns the node that produces a value; `None` for inputs, constants and erased values.
    pub fn producer(&self, value: Value) -> Option<Node> {
        match self.values[value].definition {
            Definition::Result(node, _) => Some(node),
            _ => None,
        }
    }
    /// Returns the constant of an initializer value; `None` for every other value, including a graph
    /// input with a default.
    pub fn constant_of(&self, value: Value) -> Option<ConstId> {
        match self.values[value].definition {
            Definition::Constant(_, constant) => Some(constant),
            _ => None,
        }
    }
    /// Returns the graph that defines a value; `None` if the value was erased.
    pub fn home(&self, value: Value) -> Option<GraphId> {
        match self.values[value].definition {
            Definition::Input(graph, _) | Definition::Constant(graph, _) => Some(graph),
            Definition::Result(node, _) => Some(self.nodes[node].graph),
            Definition::Erased => None,
        }
    }
    /// Lists the values of outer graphs that the bodies of `node` read, without repeats, including
    /// those that a body only returns.
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
        found
            .into_iter()
            .filter(|value| self.home(*value).is_none_or(|home| !inside.contains(&home)))
            .collect()
    }
    /// Lists all values that a node reads: its operands, then the captures of its bodies; with repeats.
    pub fn reads(&self, node: Node) -> Vec<Value> {
        let mut all: Vec<Value> = self.nodes[node].operands().collect();
        if self.nodes[node].bodies().next().is_some() {
            all.extend(self.captures(node));
        }
        all
    }
}
