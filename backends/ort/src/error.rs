//! Errors of the runtime, of plans that are played, and of arrays that are given to a run.

use std::path::PathBuf;

use memc_ir::Bytes;

/// Reason why a model or plan could not be played or measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No ONNX Runtime library was found.
    #[error("no ONNX Runtime library was found: {}", tried.join("; "))]
    NoLibrary {
        /// Places that were searched, each with its result.
        tried: Vec<String>,
    },
    /// The library cannot be loaded, or is too old.
    #[error("{} cannot be used as ONNX Runtime", path.display())]
    Library {
        /// The file.
        path: PathBuf,
        /// Error of the loader.
        source: ort::LoadDynamicError,
    },
    /// The runtime refused a call.
    #[error("ONNX Runtime cannot {what}: {message}")]
    Runtime {
        /// The failed action, as a verb.
        what: &'static str,
        /// The runtime's error code.
        code: i32,
        /// The runtime's message.
        message: String,
    },
    /// The library lacks kernels that the model needs.
    #[error("this ONNX Runtime has no kernel for {}: the model can be planned and checked, but not run here", kernels.join(", "))]
    MissingKernels {
        /// Operators, as `domain::name`.
        kernels: Vec<String>,
    },
    /// A kernel failed.
    #[error("step {step}, node \"{node}\" ({op}): {message}")]
    Kernel {
        /// Position in the schedule.
        step: u64,
        /// Name of the node.
        node: String,
        /// Operator of the node.
        op: String,
        /// The runtime's message.
        message: String,
    },
    /// A kernel's result has other extents than the plan has room for: the file states a size that in
    /// fact depends on the data.
    #[error(
        "step {step}, node \"{node}\" ({op}): the file states {claimed:?} for `{tensor}`, but this data gives {found:?}"
    )]
    Claimed {
        /// Position in the schedule.
        step: u64,
        /// Name of the node.
        node: String,
        /// Operator of the node.
        op: String,
        /// Name of the result.
        tensor: String,
        /// Extents of the result in the plan.
        claimed: Box<[u64]>,
        /// Extents that the kernel gives.
        found: Box<[u64]>,
    },
    /// The layout was made for another model.
    #[error("the layout is of another model: it names {expected}, but this model is {found}")]
    OtherModel {
        /// SHA-256 stated in the layout.
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
        /// Number of nodes of this name in the model.
        count: usize,
    },
    /// An operand has no value when its reader runs.
    #[error("step {step}, node \"{node}\": operand `{tensor}` has no value yet")]
    NoValue {
        /// Position in the schedule.
        step: u64,
        /// Name of the node.
        node: String,
        /// Name of the operand.
        tensor: String,
    },
    /// A tensor of the layout contradicts itself or its arena.
    #[error("tensor `{tensor}` of the layout: {reason}")]
    Tensor {
        /// Name of the tensor.
        tensor: String,
        /// Description of the contradiction.
        reason: &'static str,
    },
    /// An alignment is not a power of two.
    #[error("an alignment of {alignment} bytes is not a power of two")]
    Alignment {
        /// Alignment stated in the layout, in bytes.
        alignment: u64,
    },
    /// The system cannot allocate a block.
    #[error("the system has no memory for {}", Bytes(*bytes).exact())]
    NoMemory {
        /// Requested size, in bytes.
        bytes: u64,
    },
    /// The machine does not have enough memory to play the model.
    #[error("the model needs about {}, but this machine has {} free", Bytes(*needed), Bytes(*available))]
    TooLarge {
        /// Total size of weights, arena and activations, in bytes.
        needed: u64,
        /// Free memory reported by the system, in bytes.
        available: u64,
    },
    /// External data is absent or too short.
    #[error("the weights of `{tensor}` are missing: {} does not hold bytes {offset}..{end}", path.display())]
    Weights {
        /// Name of the initializer.
        tensor: String,
        /// File that the model names.
        path: PathBuf,
        /// Position of the first byte.
        offset: u64,
        /// Position after the last byte.
        end: u64,
        /// The system's error, if there was one.
        source: Option<std::io::Error>,
    },
    /// An initializer has a type or size that cannot be given to a kernel.
    #[error("initializer `{tensor}`: {reason}")]
    Initializer {
        /// Name of the initializer.
        tensor: String,
        /// Description of the defect.
        reason: &'static str,
    },
    /// A graph input was not given and cannot be made up.
    #[error("graph input `{input}` {reason}")]
    Input {
        /// Name of the input.
        input: String,
        /// Description of the defect.
        reason: String,
    },
    /// The extents of a run are outside those of the plan.
    #[error("no run with {extents}: {reason}")]
    Extent {
        /// The extents, by name.
        extents: String,
        /// Description of the planned extents.
        reason: String,
    },
    /// An error at some extents of a plan for ranges.
    #[error("at {at}: {error}")]
    At {
        /// The extents, by name.
        at: String,
        /// The error.
        error: Box<Self>,
    },
    /// A graph input is not a tensor of numbers.
    #[error("graph input `{input}` is {kind}: memc runs only models whose inputs are tensors of numbers")]
    NoArray {
        /// Name of the input.
        input: String,
        /// Kind of the input.
        kind: &'static str,
    },
    /// The given model itself does not run on the inputs; this says nothing about the plan.
    #[error("the input model itself does not run on these inputs: {message}")]
    Given {
        /// The runtime's message.
        message: String,
    },
    /// A step wrote to a value that it does not own.
    #[error("tensor `{tensor}` is overwritten while it is live: {writer}; step {step} (\"{node}\") needs it")]
    Clobbered {
        /// Name of the tensor.
        tensor: String,
        /// Position of the reader in the schedule.
        step: u64,
        /// Name of the reader.
        node: String,
        /// Description of the write.
        writer: String,
    },
    /// A node wrote to bytes that belong to no value.
    #[error("step {step}, node \"{node}\" wrote outside its results, beside `{tensor}`")]
    Guard {
        /// Position in the schedule.
        step: u64,
        /// Name of the node.
        node: String,
        /// The result next to the changed bytes.
        tensor: String,
    },
    /// Bytes outside an arena were written.
    #[error("a kernel wrote outside the arena of `{space}`")]
    ArenaGuard {
        /// Name of the space.
        space: String,
    },
    /// A kernel kept its workspace after its step.
    #[error("step {step}, node \"{node}\" keeps workspace that the plan assigns to other tensors")]
    WorkspaceKept {
        /// Position in the schedule.
        step: u64,
        /// Name of the node.
        node: String,
    },
    /// A copy between spaces failed.
    #[error("tensor `{tensor}` cannot be moved from `{from}` to `{to}`")]
    Transfer {
        /// Name of the tensor.
        tensor: String,
        /// Space that is read.
        from: String,
        /// Space that is written.
        to: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The engines of a plan, or its waits, are wrong.
    #[error("the plan cannot be played on its engines: {reason}")]
    Engines {
        /// Description of the defect.
        reason: String,
    },
    /// The system cannot start a thread for a link or an engine.
    #[error("the system refused to start a thread for a link between spaces, or for an engine")]
    NoThread {
        /// The system's error.
        source: std::io::Error,
    },
    /// The layout requires a feature that the player does not have.
    #[error("the player cannot play {what}")]
    Unsupported {
        /// Description of the feature.
        what: &'static str,
    },
    /// An event of a manifest names a value that its device does not hold.
    #[error("`{value}` of run {run} is not held at this event of the program")]
    NotHeld {
        /// Name of the value.
        value: String,
        /// Number of the run.
        run: u64,
    },
    /// Devices give different values of one output.
    #[error("devices give different values of `{value}`")]
    Unequal {
        /// Name of the value.
        value: String,
    },
    /// All devices wait for messages.
    #[error("all devices wait: {device} never receives the message of event {event}")]
    Waits {
        /// Name of a device.
        device: String,
        /// Position of its next event.
        event: usize,
    },
    /// A joint file lacks the place of a member.
    #[error("{member} has no place in the joint arenas")]
    NoPlace {
        /// Name of the member.
        member: String,
        /// The lacking place.
        source: memc_layout::joint::PlaceError,
    },
    /// A guest does not fit at a boundary.
    #[error("{guest} may not run after step {after} of the host")]
    NotAdmitted {
        /// Name of the guest.
        guest: String,
        /// The boundary.
        after: u64,
    },
    /// No step of members that run at once may begin.
    #[error("{member} waits for ever before its step {step}, and so does the other member")]
    Stuck {
        /// Name of a member that has not ended.
        member: String,
        /// Number of its steps that have ended, over all runs.
        step: u64,
    },
    /// An array file cannot be read.
    #[error("{} is not an array file that can be read: {reason}", path.display())]
    ArrayFile {
        /// The file.
        path: PathBuf,
        /// Description of the defect.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("cannot {what} {}", path.display())]
    File {
        /// `read` or `write`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}
