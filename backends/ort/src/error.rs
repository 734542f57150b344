//! What can go wrong with the runtime, a plan that is played, or the arrays that go in.

use std::path::PathBuf;

/// Why something could not be played or measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No ONNX Runtime library was found.
    #[error("there is no ONNX Runtime library: {}", tried.join("; "))]
    NoLibrary {
        /// Where it was sought and what was there.
        tried: Vec<String>,
    },
    /// The library cannot be loaded, or is too old.
    #[error("{} cannot be used as ONNX Runtime", path.display())]
    Library {
        /// The file.
        path: PathBuf,
        /// What the loader said.
        source: ort::LoadDynamicError,
    },
    /// The runtime refused a call.
    #[error("ONNX Runtime cannot {what}: {message}")]
    Runtime {
        /// What was asked, as a verb.
        what: &'static str,
        /// The runtime's error code.
        code: i32,
        /// The runtime's words.
        message: String,
    },
    /// The library lacks kernels that the model needs.
    #[error("this ONNX Runtime has no kernel for {}: the model can be planned and checked, but not run here", kernels.join(", "))]
    MissingKernels {
        /// Operators, `domain::name`.
        kernels: Vec<String>,
    },
    /// A kernel failed.
    #[error("step {step}, node \"{node}\" ({op}): {message}")]
    Kernel {
        /// Position in the schedule.
        step: u64,
        /// Name of the node.
        node: String,
        /// Its operator.
        op: String,
        /// The runtime's words.
        message: String,
    },
    /// A kernel gives other extents than the plan has room for: the file states a size that follows from data.
    #[error("step {step}, node \"{node}\" ({op}): the file claims {claimed:?} for `{tensor}`, and this data gives {found:?}")]
    Claimed {
        /// Position in the schedule.
        step: u64,
        /// Name of the node.
        node: String,
        /// Its operator.
        op: String,
        /// The result.
        tensor: String,
        /// Its extents in the plan.
        claimed: Box<[u64]>,
        /// Those that the kernel gives.
        found: Box<[u64]>,
    },
    /// The layout was made for another model.
    #[error("the layout is of another model: it names {expected}, and this one is {found}")]
    OtherModel {
        /// SHA-256 that the layout names.
        expected: String,
        /// SHA-256 of the model.
        found: String,
    },
    /// The schedule names a node that the model does not have, or not exactly once.
    #[error("step {step} of the schedule is node \"{node}\", which the model has {count} times")]
    Schedule {
        /// Position in the schedule.
        step: u64,
        /// Name of the node.
        node: String,
        /// How often the model has it.
        count: usize,
    },
    /// An operand has no value when its reader runs.
    #[error("step {step}, node \"{node}\": operand `{tensor}` has no value yet")]
    NoValue {
        /// Position in the schedule.
        step: u64,
        /// Name of the node.
        node: String,
        /// The operand.
        tensor: String,
    },
    /// A tensor of the layout contradicts itself or its arena.
    #[error("tensor `{tensor}` of the layout: {reason}")]
    Tensor {
        /// The tensor.
        tensor: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// An alignment is no power of two.
    #[error("an alignment of {alignment} bytes is no power of two")]
    Alignment {
        /// What the layout says.
        alignment: u64,
    },
    /// The system refuses a block.
    #[error("there is no memory for {bytes} bytes")]
    NoMemory {
        /// What was asked.
        bytes: u64,
    },
    /// The machine has not enough memory to play the model.
    #[error("the model needs about {needed} bytes here, and {available} are free: it is too large for this machine")]
    TooLarge {
        /// Weights, arena and activations.
        needed: u64,
        /// What the system says is free.
        available: u64,
    },
    /// External data is absent or too short.
    #[error("the weights of `{tensor}` are missing: {} does not hold bytes {offset}..{end}", path.display())]
    Weights {
        /// The initializer.
        tensor: String,
        /// File that the model names.
        path: PathBuf,
        /// First byte.
        offset: u64,
        /// Byte after the last one.
        end: u64,
        /// What the system said, where it said something.
        source: Option<std::io::Error>,
    },
    /// An initializer has a type or size that cannot be given to a kernel.
    #[error("initializer `{tensor}`: {reason}")]
    Initializer {
        /// The initializer.
        tensor: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// A graph input was not given, and cannot be made up.
    #[error("graph input `{input}` {reason}")]
    Input {
        /// The input.
        input: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A graph input is of a kind that no array of numbers is.
    #[error(
        "graph input `{input}` is {kind}: memc makes up, reads and gives tensors of numbers only, so it does not run this model"
    )]
    NoArray {
        /// The input.
        input: String,
        /// What it is.
        kind: &'static str,
    },
    /// The model as it was given does not run on the inputs: nothing is said about the plan.
    #[error("the given model itself does not run on these inputs: {message}")]
    Given {
        /// The runtime's words.
        message: String,
    },
    /// A value was written that the step does not own.
    #[error("tensor `{tensor}` is overwritten while it is live: {writer}, found when step {step} (\"{node}\") needs it")]
    Clobbered {
        /// The tensor.
        tensor: String,
        /// Position of the reader in the schedule.
        step: u64,
        /// Name of the reader.
        node: String,
        /// Who wrote there.
        writer: String,
    },
    /// Bytes that belong to nobody were written.
    #[error("step {step}, node \"{node}\" wrote outside its results, beside `{tensor}`")]
    Guard {
        /// Position in the schedule.
        step: u64,
        /// Name of the node.
        node: String,
        /// The result whose neighborhood changed.
        tensor: String,
    },
    /// Bytes outside an arena were written.
    #[error("a kernel wrote outside the arena of `{space}`")]
    ArenaGuard {
        /// The space.
        space: String,
    },
    /// A kernel kept its workspace beyond its step.
    #[error("step {step}, node \"{node}\" keeps workspace that the plan gives to others")]
    WorkspaceKept {
        /// Position in the schedule.
        step: u64,
        /// Name of the node.
        node: String,
    },
    /// A copy between spaces failed.
    #[error("tensor `{tensor}` cannot be moved from `{from}` to `{to}`")]
    Transfer {
        /// The tensor.
        tensor: String,
        /// Space that is read.
        from: String,
        /// Space that is written.
        to: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The system has no thread for a link.
    #[error("the system starts no thread for the links between spaces")]
    NoThread {
        /// What the system said.
        source: std::io::Error,
    },
    /// A feature of layouts that the player does not have.
    #[error("the player cannot play {what}")]
    Unsupported {
        /// What the layout asks.
        what: &'static str,
    },
    /// An array file cannot be read.
    #[error("{} is not an array file that can be read: {reason}", path.display())]
    ArrayFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("cannot {what} {}", path.display())]
    File {
        /// `read` or `write`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}
