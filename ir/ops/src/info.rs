//! One entry of the operator table: all facts that memc knows about an operator.

use memc_ir::{Module, Node, NodeData, TensorType, Value};

use crate::algebra::Algebra;
use crate::context::{Infer, InferError};
use crate::indices::IndexRule;
use crate::pieces::{Pieces, ReachRule, Share};
use crate::size::Formula;

/// A shape function, which states the facts of all results.
pub type InferFn = fn(&mut Infer<'_>) -> Result<(), InferError>;

/// Extents at which a formula reads the types of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Extents {
    /// As the types state them, with symbols: for conditions, which must hold for all extents.
    Stated,
    /// At their upper bounds over the domain of the module: for costs and workspace.
    Largest,
}

/// A node with the types of its operands and results, as an argument of the formulas in a table entry.
#[derive(Clone, Copy, Debug)]
pub struct Typed<'m> {
    /// The module.
    pub module: &'m Module,
    /// The node.
    pub node: Node,
    extents: Extents,
}

impl<'m> Typed<'m> {
    /// Creates the node with its types as stated, for conditions that must hold for all extents.
    pub fn of(module: &'m Module, node: Node) -> Self {
        Self { module, node, extents: Extents::Stated }
    }
    /// Creates the node with all extents at their upper bounds over the domain of the module, for costs
    /// and workspace.
    pub fn largest(module: &'m Module, node: Node) -> Self {
        Self { module, node, extents: Extents::Largest }
    }
    /// Returns the node's data.
    pub fn data(&self) -> &'m NodeData {
        self.module.node(self.node)
    }
    /// Returns the tensor type of operand `index`; `None` if the operand is omitted or not a dense
    /// tensor.
    pub fn input(&self, index: usize) -> Option<&'m TensorType> {
        self.ty((*self.data().inputs.get(index)?)?)
    }
    /// Returns the tensor type of result `index`; `None` if the result is omitted or not a dense tensor.
    pub fn output(&self, index: usize) -> Option<&'m TensorType> {
        self.ty((*self.data().outputs.get(index)?)?)
    }
    fn ty(&self, value: Value) -> Option<&'m TensorType> {
        let stated = self.module.ty(value).tensor();
        match self.extents {
            Extents::Stated => stated,
            Extents::Largest => self.module.largest(value).or(stated),
        }
    }
    /// Returns the extents of operand `index`, or `None` unless all of them are known.
    pub fn input_dims(&self, index: usize) -> Option<Vec<u64>> {
        self.input(index)?.known_dims()
    }
    /// Returns the extents of result `index`, or `None` unless all of them are known.
    pub fn output_dims(&self, index: usize) -> Option<Vec<u64>> {
        self.output(index)?.known_dims()
    }
    /// Returns the number of elements of result 0, or `None` if it is unknown.
    pub fn output_elements(&self) -> Option<u64> {
        self.output(0)?.elements()
    }
}

/// Operands that result 0 may overwrite element by element. Shape and element width must match, and the
/// operand's live range must end at this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InPlace {
    /// No operand.
    Never,
    /// The operands at these positions.
    Operands(&'static [usize]),
    /// Any operand.
    Any,
    /// Operand 0, unless the node runs in training mode (see [`Repeat::UnlessTraining`]).
    UnlessTraining,
}

/// Whether a result is a view of an operand, or operands are views of the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View {
    /// No view: every result has its own bytes.
    None,
    /// Result 0 has exactly the bytes of operand 0 (Reshape, Squeeze, …).
    Reshape,
    /// Like [`View::Reshape`], if the element types of operand and result are equal (Cast).
    SameType,
    /// Operands are sub-views of the result along attribute `axis`.
    Concat,
    /// Results are sub-views of operand 0 along attribute `axis`.
    Split,
    /// The result is a sub-view of operand 0 if its elements are contiguous there.
    Slice,
}

/// The amount of arithmetic of a node, in operations.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Moves or reinterprets data; no arithmetic. See [`OpInfo::moves_elements`].
    None,
    /// Operations per element of result 0.
    PerElement(u32),
    /// Operations per element of operand 0 (reductions, global pooling).
    PerInputElement(u32),
    /// A formula; `None` if extents are unknown.
    Flops(fn(&Typed<'_>) -> Option<u64>),
    /// The cost model charges the bodies; the node itself is free.
    Bodies,
}

/// The part of its operands that a node reads; determines the traffic that the cost model charges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reads {
    /// All operands, entirely.
    All,
    /// At most the size of result 0 from the operands at these positions (lookup tables), and all other
    /// operands entirely.
    Picked(&'static [usize]),
    /// Only the extents of operand 0, and all other operands entirely.
    Extents,
}

/// Steps of kernels that process one element at a time, without the vector unit. They are charged in
/// addition to [`Work`], and only in time models. The numbers follow measurements of ONNX Runtime 1.31
/// with `memc profile`.
#[derive(Clone, Copy, Debug)]
pub enum Scalar {
    /// No scalar steps: the kernel is fully vectorized.
    None,
    /// Scalar steps per element of result 0.
    PerElement(u32),
    /// A formula; `None` if extents are unknown.
    Count(fn(&Typed<'_>) -> Option<u64>),
}

/// Elements that a kernel rearranges into the layout of its matrix products before it multiplies. Their
/// number does not depend on the number of products that share them.
#[derive(Clone, Copy, Debug)]
pub enum Gathers {
    /// No elements.
    None,
    /// A formula; `None` if extents are unknown.
    Elements(fn(&Typed<'_>) -> Option<u64>),
}

/// Tells how a node computes its share of a batch that is split into parts; see [`crate::pieces()`].
pub type PieceRule = fn(&Share<'_>) -> Option<Pieces>;

/// Axes of result 0 along which a node can be computed piece by piece, from the corresponding pieces of
/// its operands.
#[derive(Clone, Copy, Debug)]
pub enum SplitAxes {
    /// No known axis.
    None,
    /// All axes (element-wise operators).
    All,
    /// All axes except attribute `axis`.
    AllButAxis,
    /// The first axis (the batch).
    Batch,
    /// All axes except the last.
    AllButLast,
    /// The axes that the rule finds.
    Rule(PieceRule),
}

/// Operands in which a node is linear: applied to a sum, it gives the sum of its results for the
/// addends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Linear {
    /// No operand.
    No,
    /// Operand 0. The other operands are parameters and stay whole.
    First,
    /// All operands together.
    All,
}

/// Whether a node gives identical results when it runs again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repeat {
    /// Always.
    Yes,
    /// Never: it draws random numbers.
    Random,
    /// Never: it writes into its first operand. It has no other side effect.
    Updating,
    /// Never: it changes external state or sends data.
    Stateful,
    /// Always, except in training mode, in which it draws a random mask (Dropout).
    UnlessTraining,
}

/// Rounding of operands or results to integers. A number near the middle between two integers may be
/// rounded to either, depending on the last bit of earlier results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rounding {
    /// No rounding to integers.
    None,
    /// To whole numbers of the operand's type.
    Whole,
    /// To integers of few bits, with a scale.
    FewBits,
}

/// The table entry of one operator.
#[derive(Clone, Copy, Debug)]
pub struct OpInfo {
    /// Domain; empty for the ONNX domain.
    pub domain: &'static str,
    /// Operator name.
    pub name: &'static str,
    /// Shape function.
    pub infer: InferFn,
    /// Operands that a result may overwrite.
    pub in_place: InPlace,
    /// View relation between operands and results.
    pub view: View,
    /// Amount of arithmetic.
    pub work: Work,
    /// Steps that the kernel takes without the vector unit.
    pub scalar: Scalar,
    /// Elements that the kernel rearranges before it multiplies.
    pub gathers: Gathers,
    /// Arithmetic rate of its kernels, in percent of the machine's rate: 100, or a measured ratio to
    /// other kernels for equal work.
    pub rate: u32,
    /// The part of the operands that it reads.
    pub reads: Reads,
    /// The element-wise kernels that compute it one after the other, for an operator for which runtimes have
    /// no kernel of its own: operations per element, and operands. Empty for one kernel.
    pub kernels: &'static [(u32, u32)],
    /// Memory that its kernels need in addition to operands and results, in bytes; `None` for none. Over
    /// symbols it is at all extents at least the bytes of the formula over numbers.
    pub workspace: Option<Formula>,
    /// Axes along which it can be split.
    pub split: SplitAxes,
    /// How far shares of images reach into operand 0.
    pub reach: Option<ReachRule>,
    /// Operands in which it is linear.
    pub linear: Linear,
    /// Whether it can run again.
    pub repeat: Repeat,
    /// Whether it rounds its operands or results to integers.
    pub rounding: Rounding,
    /// Algebraic facts; `None` if nobody has chosen them, which the tests reject for element-wise
    /// operators.
    pub algebra: Option<Algebra>,
    /// Whether the scale of its results is 1, independent of its operands. Its kernels add, divide or
    /// approximate numbers near 1, so a result near zero has the rounding error of 1, not of itself.
    pub unit_scale: bool,
    /// The ONNX operator whose kernel it runs on its first operands, in addition to element-wise work.
    /// Measurements of that operator apply to this operator as well.
    pub runs: Option<&'static str>,
    /// Results that a node may omit. The kernel does not write an omitted result, or writes it into
    /// workspace that the formula counts.
    pub optional: &'static [usize],
    /// Range of the integers in its results, if they are indices.
    pub indices: Option<IndexRule>,
}

impl OpInfo {
    /// Creates an entry in the ONNX domain with the defaults: one operation per element, no sharing,
    /// repeatable.
    pub const fn onnx(name: &'static str, infer: InferFn) -> Self {
        Self::of("", name, infer)
    }
    /// Creates an entry in any domain, with the defaults of [`OpInfo::onnx`].
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
            kernels: &[],
            workspace: None,
            split: SplitAxes::None,
            reach: None,
            linear: Linear::No,
            repeat: Repeat::Yes,
            rounding: Rounding::None,
            algebra: None,
            unit_scale: false,
            runs: None,
            optional: &[],
            indices: None,
        }
    }
    /// Sets the element-wise kernels that compute it: operations per element, and operands.
    pub const fn kernels(mut self, kernels: &'static [(u32, u32)]) -> Self {
        self.kernels = kernels;
        self
    }
    /// Marks the operator as rounding to integers of few bits.
    pub const fn rounds(mut self) -> Self {
        self.rounding = Rounding::FewBits;
        self
    }
    /// Marks the operator as rounding to whole numbers.
    pub const fn rounds_to_whole(mut self) -> Self {
        self.rounding = Rounding::Whole;
        self
    }
    /// Sets the algebraic facts.
    pub const fn algebra(mut self, algebra: Algebra) -> Self {
        self.algebra = Some(algebra);
        self
    }
    /// Whether it only moves elements: results consist of elements of operands, of fillers, or of numbers
    /// that say where elements are, without arithmetic.
    pub const fn moves_elements(&self) -> bool {
        matches!(self.work, Work::None)
    }
    /// Marks the scale of the results as 1.
    pub const fn unit_scale(mut self) -> Self {
        self.unit_scale = true;
        self
    }
    /// Sets the ONNX operator whose kernel it runs.
    pub const fn runs(mut self, name: &'static str) -> Self {
        self.runs = Some(name);
        self
    }
    /// Sets the positions of results that a node may omit.
    pub const fn optional(mut self, results: &'static [usize]) -> Self {
        self.optional = results;
        self
    }
    /// Sets the rule for the range of the indices in its results.
    pub const fn indices(mut self, rule: IndexRule) -> Self {
        self.indices = Some(rule);
        self
    }
    /// Sets the operands that a result may overwrite.
    pub const fn in_place(mut self, in_place: InPlace) -> Self {
        self.in_place = in_place;
        self
    }
    /// Sets the view relation between operands and results.
    pub const fn view(mut self, view: View) -> Self {
        self.view = view;
        self
    }
    /// Sets the amount of arithmetic.
    pub const fn work(mut self, work: Work) -> Self {
        self.work = work;
        self
    }
    /// Sets the steps that the kernel takes one element at a time.
    pub const fn scalar(mut self, scalar: Scalar) -> Self {
        self.scalar = scalar;
        self
    }
    /// Sets the formula for the elements that the kernel rearranges before it multiplies.
    pub const fn gathers(mut self, gathers: fn(&Typed<'_>) -> Option<u64>) -> Self {
        self.gathers = Gathers::Elements(gathers);
        self
    }
    /// Sets the arithmetic rate of the kernels, in percent of the machine's rate.
    pub const fn rate(mut self, rate: u32) -> Self {
        self.rate = rate;
        self
    }
    /// Sets the part of the operands that it reads.
    pub const fn reads(mut self, reads: Reads) -> Self {
        self.reads = reads;
        self
    }
    /// Sets the workspace of the kernel.
    pub const fn workspace(mut self, formula: Formula) -> Self {
        self.workspace = Some(formula);
        self
    }
    /// Sets the axes along which it can be split.
    pub const fn split(mut self, split: SplitAxes) -> Self {
        self.split = split;
        self
    }
    /// Sets the rule for the reach of shares of images.
    pub const fn reaches(mut self, rule: ReachRule) -> Self {
        self.reach = Some(rule);
        self
    }
    /// Sets the operands in which it is linear.
    pub const fn linear(mut self, linear: Linear) -> Self {
        self.linear = linear;
        self
    }
    /// Sets whether it can run again.
    pub const fn repeat(mut self, repeat: Repeat) -> Self {
        self.repeat = repeat;
        self
    }
}
