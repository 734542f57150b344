//! Keys of a layout file as types: one struct for each object, with fields named like the keys.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer, ser::Error as _};

/// Value of the key `schema` in this version of the file.
pub const VERSION: &str = "memc.layout/1";

/// A memory plan of one model: schedule, and space, offset and live range of every tensor.
///
/// All sizes are bytes. A step is a position in `schedule`, from 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Layout {
    /// Name and version of the format, `memc.layout/1`.
    pub schema: String,
    /// Version of memc that wrote the file.
    pub memc_version: String,
    /// What the user asked for, as given; no time stamps, no paths.
    pub options: BTreeMap<String, String>,
    /// The two ONNX files that the plan speaks of.
    pub model: Model,
    /// The memory system that the plan was made for.
    pub target: Target,
    /// Which graph inputs and outputs the arenas hold.
    pub io: Io,
    /// Bytes that each space may use at most; a space without a key is not limited.
    pub budget: BTreeMap<String, u64>,
    /// The arena of each space.
    pub arenas: Vec<Arena>,
    /// Nodes of the main graph of the output model in the order in which they run.
    pub schedule: Vec<ScheduledNode>,
    /// Every value of known size, and the scratch of kernels and bodies.
    pub tensors: Vec<Tensor>,
    /// Tensors that leave their space for a while.
    pub transfers: Vec<Transfer>,
    /// Values whose size nobody can derive.
    pub unplanned: Vec<Unplanned>,
    /// Bodies of control flow, planned alone and charged to their node as scratch.
    pub subgraphs: Vec<Subgraph>,
    /// Most bytes of distinct owners live at one step, a space at a time.
    pub peak: BTreeMap<String, Peak>,
    /// What no plan can go below, a space at a time.
    pub lower_bound: BTreeMap<String, LowerBound>,
    /// Bytes of all constants.
    pub weights: u64,
    /// The input model under the same rules, before any change.
    pub baseline: Baseline,
    /// What the plan costs in work and time.
    pub cost: Cost,
    /// When each step runs, in the order of the schedule, by the model of time: operators one after another, transfers beside them, each direction
    /// of a link an engine of its own. Left out where nothing is modelled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<Busy>,
    /// How the searches behind the plan ended. Left out where none ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub solvers: Vec<Solver>,
    /// How the plan was found. Left out where the pipeline was the user's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// Other budgets of the first space, and what plans within them take. Left out where nobody asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pareto: Vec<ParetoPoint>,
    /// Pieces of the graph that rules replaced by equal forms, in the order in which that was done. Left out where none was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rewrites: Vec<Rewrite>,
    /// Results that take the storage of the state whose new value they are. Left out where none does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<StateUpdate>,
    /// Graph outputs that may be new values of state and share storage with none, where that was asked for. Left out where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unpaired: Vec<Unpaired>,
    /// Constants that lie in a farther space and are copied to the near one where they are read; all others lie in the near one. Left
    /// out where none does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fetches: Vec<Fetch>,
    /// Tensors whose sizes do not follow from the model's inputs and operators: somebody says them, and other data may have others. Left out where
    /// all follow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stated: Vec<Stated>,
}

/// A tensor whose size somebody says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stated {
    /// The tensor.
    pub tensor: String,
    /// Who says it, or says the size that it follows from.
    pub by: StatedBy,
}

/// Who says a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StatedBy {
    /// The model file: a shape beside a result that its operator does not imply.
    File,
    /// The user, by `--assume` or by the extent of a dimension that only results have.
    User,
}

/// A time in which a step keeps its engine busy, `[start, end]` in nanoseconds from the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(from = "[u64; 2]", into = "[u64; 2]")]
#[schemars(with = "[u64; 2]")]
pub struct Busy {
    /// Start, in nanoseconds from the start of the run.
    pub start_ns: u64,
    /// End, in nanoseconds from the start of the run.
    pub end_ns: u64,
}

impl Busy {
    /// Duration in nanoseconds; 0 if the end is before the start.
    pub fn ns(self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

impl From<[u64; 2]> for Busy {
    fn from([start_ns, end_ns]: [u64; 2]) -> Self {
        Self { start_ns, end_ns }
    }
}

impl From<Busy> for [u64; 2] {
    fn from(busy: Busy) -> Self {
        [busy.start_ns, busy.end_ns]
    }
}

/// How a plan was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trace {
    /// The strategy that found it.
    pub strategy: String,
    /// The pipeline that makes it of the model as it was given: `--passes` repeats it.
    pub passes: String,
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Solver {
    /// Pass that searched.
    pub pass: String,
    /// What the value counts: `bytes` or `ns`.
    pub unit: String,
    /// What it found; less is better.
    pub value: u64,
    /// What nothing goes below.
    pub lower_bound: u64,
    /// Why it stopped.
    pub stop: String,
    /// Search nodes.
    pub effort: u64,
}

/// A budget, and the best plan that was found within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ParetoPoint {
    /// Limit of the arena.
    pub budget: u64,
    /// Arena of the plan.
    pub arena: u64,
    /// Modelled time beyond that of a plan without a limit.
    pub extra_ns: u64,
    /// What no plan within the budget goes below, of the extra time; null when not derived.
    #[serde(deserialize_with = "Option::deserialize")]
    pub bound: Option<u64>,
}

/// A window of the input model that rules gave another form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rewrite {
    /// Its number, from 1.
    pub window: u64,
    /// How often each rule was used.
    pub rules: BTreeMap<String, u64>,
    /// What others read of it, where both models have a name for that.
    pub outputs: Vec<RewrittenValue>,
}

/// A value that two models compute in different ways.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RewrittenValue {
    /// Its name in the input model.
    pub given: String,
    /// Its name in the output model.
    pub written: String,
}

/// The two ONNX files that a plan speaks of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Model {
    /// SHA-256 of the input model file, lower-case hexadecimal.
    pub input_sha256: String,
    /// SHA-256 of the output model file, lower-case hexadecimal.
    pub output_sha256: String,
    /// IR version of the output model.
    pub ir_version: u64,
    /// Operator sets of the output model.
    pub opset_imports: Vec<OpsetImport>,
    /// Extents that free dimensions of graph inputs were bound to. The plan holds for these alone.
    pub dims: BTreeMap<String, u64>,
    /// Whether the inputs of the output model state the extents in `dims` in the place of the free dimensions, so that a runtime refuses
    /// others. Left out where nothing was bound.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bound: bool,
}

/// One operator set that a model imports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpsetImport {
    /// Domain of the operators; empty for the default domain.
    pub domain: String,
    /// Version of the operator set.
    pub version: u64,
}

/// The memory system that a plan was made for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// Name of the target description.
    pub name: String,
    /// Places where bytes may live, the one that operators compute in first.
    pub spaces: Vec<Space>,
    /// Directed connections between spaces.
    pub links: Vec<Link>,
}

/// A place where bytes may live.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Space {
    /// Name of the space, such as `device`, `host`, `sram`.
    pub name: String,
    /// Bytes that the space has; null when not limited.
    #[serde(deserialize_with = "Option::deserialize")]
    pub capacity: Option<u64>,
    /// Every offset in the space is a multiple of this many bytes.
    pub alignment: u64,
}

/// A directed connection between two spaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// Space that is read.
    pub from: String,
    /// Space that is written.
    pub to: String,
    /// Bandwidth.
    #[serde(serialize_with = "number")]
    pub bytes_per_second: f64,
    /// Time before the first byte arrives, in nanoseconds.
    #[serde(serialize_with = "number")]
    pub latency_ns: f64,
}

/// Which graph inputs and outputs the arenas hold; the rest is the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Io {
    /// Graph outputs, but no graph inputs.
    Outputs,
    /// Graph inputs and outputs.
    Arena,
    /// Neither.
    External,
}

impl Io {
    /// Whether arenas hold values of a class.
    pub fn holds(self, class: Class) -> bool {
        match class {
            Class::Input => self == Io::Arena,
            Class::Output => self != Io::External,
            Class::Transient | Class::Scratch => true,
            Class::Constant | Class::State => false,
        }
    }
    /// Returns the word that the file uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Io::Outputs => "outputs",
            Io::Arena => "arena",
            Io::External => "external",
        }
    }
}

/// The one block of memory that all tensors of a space lie in; its first byte is offset 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Arena {
    /// Space of the arena.
    pub space: String,
    /// Highest `offset + bytes` of the tensors in it.
    pub size: u64,
    /// What the address of the arena must be a multiple of, in bytes.
    pub alignment: u64,
}

/// One node in the order of execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduledNode {
    /// Position in the schedule.
    pub step: u64,
    /// Name of the node in the output model.
    pub node: String,
    /// Operator of the node.
    pub op: String,
    /// Domain of the operator; empty for the default domain.
    pub domain: String,
    /// Whether the node is a dead end that only pins a runtime's order. Absent from the file when false.
    #[serde(default, skip_serializing_if = "is_false")]
    pub anchor: bool,
    /// Names of its operands in order, empty for an omitted operand. Only the planner fills them: the
    /// file omits them, because the model next to it has them.
    #[serde(skip)]
    pub reads: Vec<String>,
    /// Names of its results in order, filled by the planner only.
    #[serde(skip)]
    pub writes: Vec<String>,
}

/// A value of known size, or a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tensor {
    /// Name of the value in the output model; `scratch:<node>:<k>` or `scratch:<node>:body` for a workspace.
    pub name: String,
    /// Element type, ONNX's name in lower case.
    pub dtype: String,
    /// Dimensions.
    pub shape: Vec<u64>,
    /// Size, elements × bits / 8 rounded up.
    pub bytes: u64,
    /// What the value is to the model.
    pub class: Class,
    /// Space that holds the tensor; null when the caller holds it.
    #[serde(deserialize_with = "Option::deserialize")]
    pub space: Option<String>,
    /// First byte in the arena of the space; null when the caller holds the tensor.
    #[serde(deserialize_with = "Option::deserialize")]
    pub offset: Option<u64>,
    /// Steps at which the tensor is live. One range when placed, else none or that of its readers.
    pub live: Vec<LiveRange>,
    /// Whose bytes these are, when not the tensor's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<Alias>,
    /// The tensor that this one is computed again from the same operands as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recompute_of: Option<String>,
    /// Step of the node that uses a workspace; absent for values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
}

/// What a value is to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// An initializer, or computed from nothing but initializers.
    Constant,
    /// A graph input.
    Input,
    /// A graph output.
    Output,
    /// Everything between inputs and outputs.
    Transient,
    /// Read and updated across runs.
    State,
    /// A kernel's or body's workspace, live for one step.
    Scratch,
}

impl Class {
    /// Returns the word that the file uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Class::Constant => "constant",
            Class::Input => "input",
            Class::Output => "output",
            Class::Transient => "transient",
            Class::State => "state",
            Class::Scratch => "scratch",
        }
    }
}

/// Steps `start..end`, written as the pair `[start, end]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(from = "[u64; 2]", into = "[u64; 2]")]
#[schemars(with = "[u64; 2]")]
pub struct LiveRange {
    /// First step.
    pub start: u64,
    /// Step after the last step of the range.
    pub end: u64,
}

impl LiveRange {
    /// Whether the range contains the step.
    pub fn contains(self, step: u64) -> bool {
        self.start <= step && step < self.end
    }
}

impl From<[u64; 2]> for LiveRange {
    fn from([start, end]: [u64; 2]) -> Self {
        LiveRange { start, end }
    }
}

impl From<LiveRange> for [u64; 2] {
    fn from(range: LiveRange) -> Self {
        [range.start, range.end]
    }
}

/// Why a tensor owns no bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Alias {
    /// The tensor whose bytes are used.
    pub of: String,
    /// How they are used.
    pub kind: AliasKind,
    /// First byte, counted from that tensor's first byte.
    pub alias_offset: u64,
}

/// How a tensor uses another one's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AliasKind {
    /// The same values under another shape or a window of them, or a part that is written straight into the whole.
    View,
    /// An output that overwrites an operand whose last reader is the very node.
    InPlace,
}

/// A tensor that leaves its space for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Transfer {
    /// What is moved out.
    pub tensor: String,
    /// What is there again afterwards.
    pub result: String,
    /// Space of both.
    pub from: String,
    /// Space of the bytes in between.
    pub to: String,
    /// Step of the node that moves out.
    pub store_step: u64,
    /// Step of the node that moves back.
    pub load_step: u64,
    /// Size of the tensor.
    pub bytes: u64,
}

/// State that the caller holds, and the result that overwrites it.
///
/// The result's node and all later ones read no byte of the old value, but for operands of that node which it may overwrite element by
/// element.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StateUpdate {
    /// The old value: a graph input, with or without a default, of class `state`.
    pub tensor: String,
    /// Its new value: a graph output of the same type and shape.
    pub result: String,
}

/// A graph output that may be the new value of a graph input and has storage of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unpaired {
    /// The graph output.
    pub result: String,
    /// The graph inputs whose new value it may be.
    pub candidates: Vec<String>,
    /// Why it shares storage with none of them.
    pub reason: String,
}

/// A constant that is copied from a farther space before it is read; its own bytes stay where they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fetch {
    /// The constant.
    pub tensor: String,
    /// Its near copy.
    pub result: String,
    /// Space of the constant.
    pub from: String,
    /// Space of the copy.
    pub to: String,
    /// Step of the node that copies it, an `Identity`.
    pub step: u64,
    /// Size of the constant.
    pub bytes: u64,
}

/// A value whose size nobody can derive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unplanned {
    /// Name of the value.
    pub name: String,
    /// Why its size is unknown.
    pub reason: String,
    /// What the value is to the model. Left out by older writers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// The most bytes that it can have. Left out where nothing bounds them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<u64>,
}

/// A body of control flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Subgraph {
    /// Node of the main graph that runs the body.
    pub node: String,
    /// Name of the body.
    pub graph: String,
    /// Arena size of the body.
    pub arena_bytes: u64,
}

/// Most bytes of distinct owners live at one step of a space, independent of offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Peak {
    /// Bytes of the owners that are live.
    pub bytes: u64,
    /// A step at which they are.
    pub step: u64,
    /// The most bytes with the values of `unplanned` that the arena would hold, each as large as it can be. Left out where there are none, or one has
    /// no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<u64>,
}

/// What no plan of a space can go below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LowerBound {
    /// Least arena size for the live ranges of this plan.
    pub placement: u64,
    /// Least peak over all orders of the nodes; null when not derived.
    #[serde(deserialize_with = "Option::deserialize")]
    pub order: Option<u64>,
    /// Whether the peak equals `order`, with nothing recomputed or moved.
    pub order_proved: bool,
    /// Whether the arena size equals `placement`.
    pub placement_proved: bool,
}

/// The input model under the same rules, before any change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Baseline {
    /// Peak of the input model in file order, views aliased, nothing in place; a space at a time. Workspace counts only where the node's
    /// name tells it apart, so that whoever has both files can derive the number.
    pub file_order_peak: BTreeMap<String, u64>,
    /// The same with all workspace; what plans are compared with. Left out by writers before version 0.1.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub own_peak: BTreeMap<String, u64>,
    /// Bytes of all constants of the input model. Left out where there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub weights: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What a plan costs in work and time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Nodes of the input model.
    pub nodes_before: u64,
    /// Nodes of the output model.
    pub nodes_after: u64,
    /// Nodes that compute something a second time.
    pub recomputed_nodes: u64,
    /// Floating-point operations of those.
    #[serde(serialize_with = "number")]
    pub extra_flops: f64,
    /// Floating-point operations of the input model.
    #[serde(serialize_with = "number")]
    pub base_flops: f64,
    /// Bytes moved between spaces, each pair counted once.
    pub transferred_bytes: u64,
    /// Modelled time of one run of the input model, in nanoseconds.
    #[serde(serialize_with = "number")]
    pub modelled_ns_before: f64,
    /// Modelled time of one run of the output model, in nanoseconds.
    #[serde(serialize_with = "number")]
    pub modelled_ns_after: f64,
    /// Least time that any plan within the budget takes beyond one without a limit, as a part of the latter; null when not derived.
    #[serde(deserialize_with = "Option::deserialize", serialize_with = "optional_number")]
    pub overhead_lower_bound: Option<f64>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Writes whole numbers without a fraction, so that readers with integer types accept them.
fn number<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    /// 2^53: from this value on, some integers have no exact `f64`.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if !value.is_finite() || *value < 0.0 {
        return Err(S::Error::custom(format_args!("{value} is no finite number from 0 up")));
    }
    if value.fract() == 0.0 && *value < EXACT {
        // Exact: the value is a whole number within the range of u64.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        return serializer.serialize_u64(*value as u64);
    }
    serializer.serialize_f64(*value)
}

fn optional_number<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => number(value, serializer),
        None => serializer.serialize_none(),
    }
}
