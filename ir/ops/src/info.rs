//! One entry of the operator table: everything that memc knows of an operator.

use memc_ir::{Bytes, Module, Node, NodeData, TensorType};

use crate::context::{Infer, InferError};
use crate::pieces::{Pieces, ReachRule, Share};

/// Shape function: states the facts of all results.
pub type InferFn = fn(&mut Infer<'_>) -> Result<(), InferError>;

/// A node with the types of its operands and results, for the parts of an entry that ask about sizes.
#[derive(Clone, Copy, Debug)]
pub struct Typed<'m> {
    /// The module.
    pub module: &'m Module,
    /// The node.
    pub node: Node,
}

impl<'m> Typed<'m> {
    /// The node's data.
    pub fn data(&self) -> &'m NodeData {
        self.module.node(self.node)
    }
    /// Tensor type of operand `index`, if it is there and a dense tensor.
    pub fn input(&self, index: usize) -> Option<&'m TensorType> {
        let value = (*self.data().inputs.get(index)?)?;
        self.module.ty(value).tensor()
    }
    /// Tensor type of result `index`, if it is there and a dense tensor.
    pub fn output(&self, index: usize) -> Option<&'m TensorType> {
        let value = (*self.data().outputs.get(index)?)?;
        self.module.ty(value).tensor()
    }
    /// Extents of operand `index`, where all are known.
    pub fn input_dims(&self, index: usize) -> Option<Vec<u64>> {
        self.input(index)?.known_dims()
    }
    /// Extents of result `index`, where all are known.
    pub fn output_dims(&self, index: usize) -> Option<Vec<u64>> {
        self.output(index)?.known_dims()
    }
    /// Number of elements of result 0, where known.
    pub fn output_elements(&self) -> Option<u64> {
        self.output(0)?.elements()
    }
}

/// Which operands the first result may overwrite element by element (same shape, same element width, operand dies here).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InPlace {
    /// None.
    Never,
    /// The operands at these positions.
    Operands(&'static [usize]),
    /// Any operand.
    Any,
    /// Operand 0, unless the node runs in training mode (see [`Repeat::UnlessTraining`]).
    UnlessTraining,
}

/// Whether a result is a window of an operand's bytes, or an operand a window of the result's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View {
    /// Own bytes.
    None,
    /// Result 0 has exactly the bytes of operand 0 (Reshape, Squeeze, …).
    Reshape,
    /// As [`View::Reshape`] where operand and result have the same element type (Cast).
    SameType,
    /// Operands are windows of the result along attribute `axis`.
    Concat,
    /// Results are windows of operand 0 along attribute `axis`.
    Split,
    /// The result is a window of operand 0 where it is contiguous.
    Slice,
}

/// How much arithmetic a node does.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Moves or reinterprets data; no arithmetic.
    None,
    /// So many operations for each element of result 0.
    PerElement(u32),
    /// So many operations for each element of operand 0 (reductions, pooling over all).
    PerInputElement(u32),
    /// A formula; `None` where extents are unknown.
    Flops(fn(&Typed<'_>) -> Option<u64>),
    /// Bodies are charged by the cost model, the node itself is free.
    Bodies,
}

/// How much of its operands a node reads; for the traffic that it is charged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reads {
    /// All of them.
    All,
    /// Of the operands at these positions no more than result 0 holds (a table that is looked up), and all of the others.
    Picked(&'static [usize]),
    /// Of operand 0 only the extents, and all of the others.
    Extents,
}

/// Steps that kernels take one element at a time, where they use no vector unit; beside [`Work`], and for times only. The numbers follow what
/// `memc profile` measures of ONNX Runtime 1.31.
#[derive(Clone, Copy, Debug)]
pub enum Scalar {
    /// None: what there is to do is done in vectors.
    None,
    /// So many for each element of result 0.
    PerElement(u32),
    /// A formula; `None` where extents are unknown.
    Count(fn(&Typed<'_>) -> Option<u64>),
}

/// Workspace of a kernel, beside operands and results.
#[derive(Clone, Copy, Debug)]
pub enum Workspace {
    /// Needs none.
    None,
    /// A formula; `None` where extents are unknown.
    Bytes(fn(&Typed<'_>) -> Option<Bytes>),
}

/// Elements that a kernel brings into the order of its products before it multiplies: as many however many products share them.
#[derive(Clone, Copy, Debug)]
pub enum Gathers {
    /// None.
    None,
    /// A formula; `None` where extents are unknown.
    Elements(fn(&Typed<'_>) -> Option<u64>),
}

/// How a node takes part in the computation of a part of a batch; see [`crate::pieces`].
pub type PieceRule = fn(&Share<'_>) -> Option<Pieces>;

/// Axes of result 0 along which a node can be computed piece by piece from the same pieces of its operands.
#[derive(Clone, Copy, Debug)]
pub enum SplitAxes {
    /// None is known.
    None,
    /// All (element-wise operators).
    All,
    /// All but the one that attribute `axis` names.
    AllButAxis,
    /// The first (the batch).
    Batch,
    /// All but the last.
    AllButLast,
    /// Those that the rule finds.
    Rule(PieceRule),
}

/// Operands in which a node is linear: what it makes of sums is the sum of what it makes of the addends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Linear {
    /// None.
    No,
    /// Operand 0; others say how, not how much.
    First,
    /// All together.
    All,
}

/// Whether running a node again gives the same result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repeat {
    /// Always.
    Yes,
    /// Never: it draws random numbers.
    Random,
    /// Never: it writes into its first operand, and does nothing else beside its results.
    Updating,
    /// Never: it changes state that it was given, or sends something.
    Stateful,
    /// Not if it runs in training mode and draws a random mask (Dropout).
    UnlessTraining,
}

/// One operator.
#[derive(Clone, Copy, Debug)]
pub struct OpInfo {
    /// Domain; empty for ONNX's own.
    pub domain: &'static str,
    /// Name.
    pub name: &'static str,
    /// Shape function.
    pub infer: InferFn,
    /// What may be overwritten.
    pub in_place: InPlace,
    /// What may be a window of what.
    pub view: View,
    /// Arithmetic.
    pub work: Work,
    /// Steps of kernels that use no vector unit.
    pub scalar: Scalar,
    /// Elements that are brought into the order of products before these begin.
    pub gathers: Gathers,
    /// Arithmetic rate of its kernels, in hundredths of the machine's rate: 100, or a measured ratio to other kernels for equal work.
    pub rate: u32,
    /// Part of the operands that is read.
    pub reads: Reads,
    /// Kernel workspace.
    pub workspace: Workspace,
    /// Where it can be split.
    pub split: SplitAxes,
    /// How far shares of images reach.
    pub reach: Option<ReachRule>,
    /// In which operands it is linear.
    pub linear: Linear,
    /// Whether it can run again.
    pub repeat: Repeat,
    /// Whether it rounds numbers to integers of few bits, or what it computes of them: one near the middle of two of these may become either, by the
    /// last bit of what came before.
    pub rounds: bool,
    /// Whether the scale of its results is one, whatever it reads: its kernels add up, divide or approximate numbers near one, so that a result
    /// near zero is off by roundings of one rather than of itself.
    pub unit_scale: bool,
    /// The operator of ONNX's own domain whose kernel it runs on its first operands, with element-wise work beside it: what was measured of the one
    /// tells of the other.
    pub runs: Option<&'static str>,
    /// Results that a node may leave out, and that its kernel then does not write, or writes into workspace that the formula counts.
    pub optional: &'static [usize],
}

impl OpInfo {
    /// An operator of ONNX's own domain: one operation an element, nothing shared, repeatable, until said otherwise.
    pub const fn onnx(name: &'static str, infer: InferFn) -> Self {
        Self::of("", name, infer)
    }
    /// An operator of any domain.
    pub const fn of(domain: &'static str, name: &'static str, infer: InferFn) -> Self {
        Self {
            domain,
            name,
            infer,
            in_place: InPlace::Never,
            view: View::None,
            work: Work::PerElement(1),
            scalar: Scalar::None,
            gathers: Gathers::None,
            rate: 100,
            reads: Reads::All,
            workspace: Workspace::None,
            split: SplitAxes::None,
            reach: None,
            linear: Linear::No,
            repeat: Repeat::Yes,
            rounds: false,
            unit_scale: false,
            runs: None,
            optional: &[],
        }
    }
    /// Says that it rounds to integers of few bits.
    pub const fn rounds(mut self) -> Self {
        self.rounds = true;
        self
    }
    /// Says that the scale of its results is one.
    pub const fn unit_scale(mut self) -> Self {
        self.unit_scale = true;
        self
    }
    /// Names the operator of ONNX's own domain whose kernel it runs.
    pub const fn runs(mut self, name: &'static str) -> Self {
        self.runs = Some(name);
        self
    }
    /// Says which results may be left out.
    pub const fn optional(mut self, results: &'static [usize]) -> Self {
        self.optional = results;
        self
    }
    /// Says what may be overwritten.
    pub const fn in_place(mut self, in_place: InPlace) -> Self {
        self.in_place = in_place;
        self
    }
    /// Says what is a window of what.
    pub const fn view(mut self, view: View) -> Self {
        self.view = view;
        self
    }
    /// Says how much arithmetic it does.
    pub const fn work(mut self, work: Work) -> Self {
        self.work = work;
        self
    }
    /// Says what its kernel does one element at a time.
    pub const fn scalar(mut self, scalar: Scalar) -> Self {
        self.scalar = scalar;
        self
    }
    /// Says what it gathers before it multiplies.
    pub const fn gathers(mut self, gathers: fn(&Typed<'_>) -> Option<u64>) -> Self {
        self.gathers = Gathers::Elements(gathers);
        self
    }
    /// Says at which rate its kernels compute, in hundredths of the machine's.
    pub const fn rate(mut self, rate: u32) -> Self {
        self.rate = rate;
        self
    }
    /// Says how much of its operands it reads.
    pub const fn reads(mut self, reads: Reads) -> Self {
        self.reads = reads;
        self
    }
    /// Says what workspace its kernel needs.
    pub const fn workspace(mut self, workspace: Workspace) -> Self {
        self.workspace = workspace;
        self
    }
    /// Says where it can be split.
    pub const fn split(mut self, split: SplitAxes) -> Self {
        self.split = split;
        self
    }
    /// Says how far shares of images reach.
    pub const fn reaches(mut self, rule: ReachRule) -> Self {
        self.reach = Some(rule);
        self
    }
    /// Says in which operands it is linear.
    pub const fn linear(mut self, linear: Linear) -> Self {
        self.linear = linear;
        self
    }
    /// Says whether it can run again.
    pub const fn repeat(mut self, repeat: Repeat) -> Self {
        self.repeat = repeat;
        self
    }
}
