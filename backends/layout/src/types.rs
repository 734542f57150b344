//! Keys of a layout file as types: one struct for each object, with fields named like the keys.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer, ser::Error as _};

use crate::added::{AddedOutput, LastRow};
use crate::engines::Sync;
use crate::fetches::Fetch;
use crate::ranges::{Extents, FormulaRow, Limit};
use crate::searches::{ParetoPoint, Solver, Trace};

/// Value of the key `schema` in this version of the file.
pub const VERSION: &str = "memc.layout/1";

/// A memory plan of one model: schedule, and space, offset and live range of every tensor.
///
/// All sizes are bytes. A step is a position in `schedule`, from 0.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layout {
    /// Name and version of the format, `memc.layout/1`.
    pub schema: String,
    /// Version of memc that wrote the file.
    pub memc_version: String,
    /// Requested options, as given; no time stamps, no paths.
    pub options: BTreeMap<String, String>,
    /// The two ONNX files of the plan.
    pub model: Model,
    /// The memory system of the plan.
    pub target: Target,
    /// Which graph inputs and outputs the arenas hold.
    pub io: Io,
    /// Limit of each space, in bytes; a space without a key is not limited.
    pub budget: BTreeMap<String, u64>,
    /// The arena of each space.
    pub arenas: Vec<Arena>,
    /// Nodes of the main graph of the output model in the order in which they run.
    pub schedule: Vec<ScheduledNode>,
    /// Every value of known size, and the workspace of kernels and bodies.
    pub tensors: Vec<Tensor>,
    /// Waits between engines. Only they and the order of each engine's own steps order two steps. Absent if
    /// the plan has one engine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sync: Vec<Sync>,
    /// Tensors that leave their space and return.
    pub transfers: Vec<Transfer>,
    /// Values whose size cannot be derived.
    pub unplanned: Vec<Unplanned>,
    /// Bodies of control flow, planned separately and charged to their node as workspace.
    pub subgraphs: Vec<Subgraph>,
    /// Maximum of the bytes of distinct owners live at one step, by space.
    pub peak: BTreeMap<String, Peak>,
    /// Lower bounds of every plan, by space.
    pub lower_bound: BTreeMap<String, LowerBound>,
    /// Bytes of all constants.
    pub weights: u64,
    /// Peaks and weights of the input model under the plan's rules, before any change.
    pub baseline: Baseline,
    /// Cost of the plan in work and time.
    pub cost: Cost,
    /// Modelled time of each step, in schedule order: operators of an engine run one after another. Transfers
    /// run in parallel to them, and each direction of a link is its own engine. Absent if no time is
    /// modelled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<Busy>,
    /// Results of the searches for the plan. Absent if no search ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub solvers: Vec<Solver>,
    /// Strategy and pipeline that found the plan. Absent if the user gave the pipeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// Other budgets of the first space, with the best plan found for each. Absent if not requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pareto: Vec<ParetoPoint>,
    /// Fragments of the graph that rules replaced by equal forms, in the order of replacement. Absent
    /// if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rewrites: Vec<Rewrite>,
    /// Results that take the storage of the state that they update. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<StateUpdate>,
    /// Graph outputs that may be new values of state but share no storage with it, if pairs were
    /// requested. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unpaired: Vec<Unpaired>,
    /// Constants in a farther space, each copied to the near space before a reader. All other constants
    /// are in the near space. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fetches: Vec<Fetch>,
    /// Caches of the input model that grow with each run, and that the output model keeps in one buffer
    /// each. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<Cache>,
    /// Graph outputs of the output model that the input model does not have, in their order. Absent if there
    /// are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added_outputs: Vec<AddedOutput>,
    /// Graph outputs of which the output model has only the last row. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_rows: Vec<LastRow>,
    /// Tensors whose sizes do not follow from the model's inputs and operators. The file or the user
    /// states them, and other data may have other sizes. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stated: Vec<Stated>,
    /// Values that lie in fewer bytes between two uses, in the order of their decoding. Absent if there
    /// are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub encodings: Vec<Encoding>,
    /// Weights that the output model holds in few bits. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub encoded_weights: Vec<EncodedWeight>,
    /// Offsets that follow the extents, by space: rows in the order of their evaluation. Absent if no
    /// dimension is free.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub formula: BTreeMap<String, Vec<FormulaRow>>,
    /// Offsets for smaller largest extents, in ascending order of extents. A run takes the first entry
    /// with all of its extents at least as large. Absent if none were requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layouts: Vec<Bucket>,
}

/// A value that is kept as a smaller code between two uses, or that other values give back.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Encoding {
    /// Wide tensor that is encoded.
    pub of: String,
    /// Tensors that hold its code. They are computed from it and from constants. Empty for `inverse`.
    pub code: Vec<String>,
    /// Tensor that is computed from the code and from constants, of equal type and shape; for `inverse`
    /// from the result of a node that reads the wide tensor, and from the other operands of that node.
    pub decoded: String,
    /// Name of the form: `bits`, `pool-position`, `narrow`; `f16`, `bf16` or `int8` for rounded values;
    /// `inverse` for values that follow from results.
    pub form: String,
    /// Whether the decoded tensor has the bits of the wide one.
    pub exact: bool,
    /// Relative error of an inverse that rounds, measured on normal numbers: root of the sum of squared
    /// errors, as a share of that of the squared numbers. Errors of a chain of inverses add up.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "optional_number")]
    pub error: Option<f64>,
}

/// A matrix of weights in few bits: each number is about its code times its scale.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EncodedWeight {
    /// The matrix: a constant of the input model, or one that was computed from its constants.
    pub of: String,
    /// Constant of the output model that holds the codes.
    pub codes: String,
    /// Constant of the output model that holds the scales.
    pub scales: String,
    /// First row of the matrix in these constants, and the one past the last. A product sums the numbers
    /// of a column to one result.
    pub rows: [u64; 2],
    /// First column of the matrix in these constants, and the one past the last.
    pub columns: [u64; 2],
    /// Bits of a code.
    pub bits: u64,
    /// Number of weights of a column that share a scale; null if whole columns do.
    #[serde(deserialize_with = "Option::deserialize")]
    pub block: Option<u64>,
    /// Bytes of these rows and columns of the matrix.
    pub before: u64,
    /// Bytes of codes and scales.
    pub after: u64,
    /// Root of the sum of squared errors of all decoded weights of the matrix, as a share of that of its
    /// squared weights.
    #[serde(serialize_with = "number")]
    pub relative_error: f64,
    /// Largest error of a decoded weight of the matrix.
    #[serde(serialize_with = "number")]
    pub largest_error: f64,
}

/// A tensor of stated size.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stated {
    /// The tensor.
    pub tensor: String,
    /// Source of the size, or of the size that it follows from.
    pub by: StatedBy,
}

/// Source of a stated size.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatedBy {
    /// The model file: a shape stated for a result, which its operator does not imply.
    File,
    /// The user, by `--assume` or by the extent of a dimension that only results have.
    User,
}

/// Interval in which a step keeps its engine busy, `[start, end]` in nanoseconds from the start of the
/// run.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "[u64; 2]", into = "[u64; 2]")]
#[cfg_attr(test, schemars(with = "[u64; 2]"))]
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

/// A fragment of the input model that rules replaced by an equal form.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewrite {
    /// Number of the fragment, from 1.
    pub window: u64,
    /// Number of uses of each rule.
    pub rules: BTreeMap<String, u64>,
    /// Values of the fragment with outside readers, if both models have a name for the value.
    pub outputs: Vec<RewrittenValue>,
}

/// A value that two models compute in different ways.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewrittenValue {
    /// Name in the input model.
    pub given: String,
    /// Name in the output model.
    pub written: String,
}

/// The two ONNX files of a plan.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// SHA-256 of the input model file, lower-case hexadecimal.
    pub input_sha256: String,
    /// SHA-256 of the output model file, lower-case hexadecimal.
    pub output_sha256: String,
    /// IR version of the output model.
    pub ir_version: u64,
    /// Operator sets of the output model.
    pub opset_imports: Vec<OpsetImport>,
    /// Extents that free dimensions of graph inputs were bound to. The plan is valid only for these.
    pub dims: BTreeMap<String, u64>,
    /// Whether the inputs of the output model state the extents in `dims` instead of free dimensions,
    /// so that a runtime rejects other extents. Absent if no dimension was bound.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bound: bool,
    /// Extents of the free dimensions of the output model for which the plan is valid, by name. Absent if
    /// no dimension is free. Shapes, sizes and offsets of tensors are upper bounds over these extents.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ranges: BTreeMap<String, Extents>,
    /// Limits that the extents keep together, in addition to their ranges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
    /// Dimensions of the output model that equal an expression over free dimensions, by name. Expressions
    /// of tensors do not use them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub equal: BTreeMap<String, String>,
}

/// Offsets for extents up to given ones.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Largest extents of some dimensions. The other dimensions keep their ranges.
    pub dims: BTreeMap<String, u64>,
    /// The arena of each space.
    pub arenas: Vec<Arena>,
    /// Offset of each tensor that owns bytes in an arena, by name.
    pub offsets: BTreeMap<String, u64>,
}

/// One operator set that a model imports.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpsetImport {
    /// Domain of the operators; empty for the default domain.
    pub domain: String,
    /// Version of the operator set.
    pub version: u64,
}

/// The memory system of a plan.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Name of the target description.
    pub name: String,
    /// Memory spaces. Operators compute in the first, and in those with a rate of access.
    pub spaces: Vec<Space>,
    /// Directed connections between spaces.
    pub links: Vec<Link>,
}

/// A memory space.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Space {
    /// Name of the space, such as `device`, `host`, `sram`.
    pub name: String,
    /// Capacity in bytes; null if not limited.
    #[serde(deserialize_with = "Option::deserialize")]
    pub capacity: Option<u64>,
    /// Alignment in bytes: every offset in the space is a multiple of it.
    pub alignment: u64,
    /// Bytes per second at which operators access tensors that live in the space; absent for the first
    /// space, and for spaces in which operators cannot compute.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "optional_number")]
    pub access: Option<f64>,
}

/// A directed connection between two spaces.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Space that is read.
    pub from: String,
    /// Space that is written.
    pub to: String,
    /// Bandwidth, in bytes per second.
    #[serde(serialize_with = "number")]
    pub bytes_per_second: f64,
    /// Time before the first byte arrives, in nanoseconds.
    #[serde(serialize_with = "number")]
    pub latency_ns: f64,
}

/// Graph inputs and outputs that the arenas hold; the caller holds the others.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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

/// Contiguous block of memory for all tensors of a space; its first byte is offset 0.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arena {
    /// Space of the arena.
    pub space: String,
    /// Maximum of `offset + bytes` over its tensors.
    pub size: u64,
    /// Alignment of the arena's address, in bytes.
    pub alignment: u64,
}

/// A node in the order of execution.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledNode {
    /// Position in the schedule.
    pub step: u64,
    /// Name of the node in the output model.
    pub node: String,
    /// Operator of the node.
    pub op: String,
    /// Domain of the operator; empty for the default domain.
    pub domain: String,
    /// Engine that runs the node, from 0: a thread, a core or a queue. It runs its nodes in the order of
    /// their steps. Absent from all rows if the plan has one engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<u64>,
    /// Whether the node is a dead end that only pins a runtime's order. Absent from the file if false.
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tensor {
    /// Name of the value in the output model; `scratch:<node>:<k>` or `scratch:<node>:body` for
    /// workspace.
    pub name: String,
    /// Element type, ONNX's name in lower case.
    pub dtype: String,
    /// Dimensions.
    pub shape: Vec<u64>,
    /// Size in bytes: elements × bits / 8, rounded up. An upper bound if the size depends on free
    /// dimensions; limits can make it smaller than that of `shape`.
    pub bytes: u64,
    /// Dimensions as expressions over free dimensions, if one of them depends on these; `shape` then has
    /// the upper bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape_expr: Option<Vec<String>>,
    /// Size in bytes as an expression over free dimensions, if it depends on these. Absent beside
    /// `shape_expr` if the product has too many terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_expr: Option<String>,
    /// Storage class of the value.
    pub class: Class,
    /// Space that holds the tensor; null if the caller holds it.
    #[serde(deserialize_with = "Option::deserialize")]
    pub space: Option<String>,
    /// First byte in the arena of the space; null if the caller holds the tensor.
    #[serde(deserialize_with = "Option::deserialize")]
    pub offset: Option<u64>,
    /// Steps at which the tensor is live. One range if placed; otherwise none or the range of its
    /// readers.
    pub live: Vec<LiveRange>,
    /// Owner of the bytes. Absent if the tensor owns its bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<Alias>,
    /// Original of a recomputed copy: the tensor that was computed from equal operands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recompute_of: Option<String>,
    /// Step of the node that uses a workspace; absent for values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
}

/// Storage class of a value.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// An initializer, or a value computed only from initializers.
    Constant,
    /// A graph input.
    Input,
    /// A graph output.
    Output,
    /// Any value between inputs and outputs.
    Transient,
    /// Read and updated from run to run.
    State,
    /// Workspace of a kernel or a body, live for one step.
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "[u64; 2]", into = "[u64; 2]")]
#[cfg_attr(test, schemars(with = "[u64; 2]"))]
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

/// Reason for which a tensor owns no bytes.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alias {
    /// Tensor that owns or shares the bytes.
    pub of: String,
    /// Kind of sharing.
    pub kind: AliasKind,
    /// First byte, counted from that tensor's first byte. An upper bound if it depends on free dimensions.
    pub alias_offset: u64,
    /// First byte as an expression over free dimensions, if it depends on these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias_offset_expr: Option<String>,
}

/// Way in which a tensor uses the bytes of another tensor.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AliasKind {
    /// The values of the other tensor in another shape, a sub-view of it, or a part that is written
    /// straight into the whole.
    View,
    /// A result that overwrites an operand whose last reader is this node.
    InPlace,
}

/// A tensor that leaves its space and returns.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// Tensor that is moved out.
    pub tensor: String,
    /// Tensor that is moved back in.
    pub result: String,
    /// Space of both tensors.
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
/// The result's node and all later nodes read no byte of the old value, except for operands that this
/// node may overwrite element by element.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateUpdate {
    /// The old value: a graph input, with or without a default, of class `state`.
    pub tensor: String,
    /// New value: a graph output of equal type and shape.
    pub result: String,
}

/// A cache that the input model returns with appended rows, and that the output model keeps in one buffer
/// of full capacity: new rows are written after the valid ones.
///
/// `state` has a row for the pair, too, so the output has the storage of the input.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// Graph input with the rows so far; in the output model, the buffer.
    pub input: String,
    /// Graph output with the rows so far and the new rows; in the output model, the buffer.
    pub output: String,
    /// Axis of the rows.
    pub axis: u64,
    /// Number of rows of the buffer.
    pub capacity: u64,
    /// Number of rows that a run appends; the largest number if it depends on free dimensions.
    pub rows: u64,
    /// `rows` as an expression over free dimensions. Absent if it is one number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_expr: Option<String>,
    /// Graph input of the output model, an integer without axes: the number of valid rows before the
    /// run, at most `capacity - rows`. Rows from there on may have any finite elements.
    pub count: String,
    /// Dimensions of the input model that grow with the number of rows, with their largest extents for a
    /// full buffer; `equal` has expressions. Empty if the input model has one number of rows.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub grows: BTreeMap<String, u64>,
}

/// A graph output that may be the new value of a graph input, but has its own storage.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpaired {
    /// The graph output.
    pub result: String,
    /// Graph inputs that it may be the new value of.
    pub candidates: Vec<String>,
    /// Reason for which it shares no storage with them.
    pub reason: String,
}

/// A value whose size cannot be derived.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unplanned {
    /// Name of the value.
    pub name: String,
    /// Reason for which its size is unknown.
    pub reason: String,
    /// Storage class of the value. Absent in files of older writers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// Upper bound of its size in bytes. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<u64>,
}

/// A body of control flow.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subgraph {
    /// Node of the main graph that runs the body.
    pub node: String,
    /// Name of the body.
    pub graph: String,
    /// Arena size of the body.
    pub arena_bytes: u64,
}

/// Maximum of the bytes of distinct owners live at one step of a space, independent of offsets.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peak {
    /// Bytes of the owners that are live.
    pub bytes: u64,
    /// A step with this maximum.
    pub step: u64,
    /// Upper bound of the peak including the values of `unplanned` that the arena would hold. Absent if
    /// there are no such values, or if a value has no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<u64>,
}

/// Lower bounds of every plan of a space.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LowerBound {
    /// Lower bound of the arena size for the live ranges of this plan, in bytes.
    pub placement: u64,
    /// Lower bound of the peak over all orders of the nodes, in bytes; null if not derived.
    #[serde(deserialize_with = "Option::deserialize")]
    pub order: Option<u64>,
    /// Whether the peak equals `order`, without recomputation or transfers.
    pub order_proved: bool,
    /// Whether the arena size equals `placement`.
    pub placement_proved: bool,
}

/// Peaks and weights of the input model under the plan's rules, before any change.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Peak of the input model in file order, by space: views aliased, nothing in place. Workspace
    /// counts only if the node's name identifies it, so that the number can be derived from both files.
    pub file_order_peak: BTreeMap<String, u64>,
    /// Peak with all workspace, which plans are compared with. Absent in files of writers before
    /// version 0.1.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub own_peak: BTreeMap<String, u64>,
    /// Bytes of all constants of the input model. Absent if there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub weights: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Cost of a plan in work and time.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Nodes of the input model.
    pub nodes_before: u64,
    /// Nodes of the output model.
    pub nodes_after: u64,
    /// Nodes that recompute a value.
    pub recomputed_nodes: u64,
    /// Floating-point operations of the recomputing nodes.
    #[serde(serialize_with = "number")]
    pub extra_flops: f64,
    /// Floating-point operations of the input model.
    #[serde(serialize_with = "number")]
    pub base_flops: f64,
    /// Bytes moved between spaces; each pair counts once.
    pub transferred_bytes: u64,
    /// Modelled time of one run of the input model, in nanoseconds.
    #[serde(serialize_with = "number")]
    pub modelled_ns_before: f64,
    /// Modelled time of one run of the output model, in nanoseconds.
    #[serde(serialize_with = "number")]
    pub modelled_ns_after: f64,
    /// Mean relative error of the modelled times, weighted by time: of probes that the target's lines left
    /// out; absent if the target is not calibrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modelled_error: Option<f64>,
    /// Lower bound of the extra time of any plan within the budget, as a fraction of the time of a plan
    /// without a limit; null if not derived.
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
        return Err(S::Error::custom(format_args!("{value} is not a finite number of at least 0")));
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
