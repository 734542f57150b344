//! Runtime profiles: how the runtime that executes a plan treats memory.
//!
//! The table entry of an operator states the bytes that it *may* share. A profile states the bytes that
//! the runtime *does* share, the rounding of sizes, and memory held in addition to tensors. All facts
//! about runtimes are in the files of this folder.

pub mod arena;
pub mod cuda;
mod device;
mod fusion;
pub mod ort;
mod ort_empty;
mod ort_kernels;
mod ort_names;
mod ort_regions;
mod ort_session;
mod ort_settings;
mod ort_temporaries;
pub mod player;

pub use fusion::may_fuse;
pub use ort_empty::{ADD_NOTHING, TAKE_EMPTY};
pub use ort_kernels::{Kernel, Overwrites, ort_kernel};
pub use ort_names::{REGISTERED, registered};
pub use ort_regions::{LEAST_REGION, begins, region};
pub use ort_session::{Language, Recipe, SessionNeeds};
pub use ort_settings::{Choice, Level, SessionSettings};

use memc_ir::{Attribute, Bytes, Definition, DimExpr, ElementType, Module, Operator, TensorType, Value};

use self::device::Device;
use crate::info::{InPlace, Typed, View};
use crate::repeat::may_train;
use crate::size::{Counted, Size};
use crate::table::lookup;

/// The kernels of a runtime, by which of them write in place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kernels {
    /// All kernels that their table entry allows.
    All,
    /// All kernels that their table entry allows, except ONNX Runtime's kernels that read an operand
    /// again.
    AllButReadingAgain,
    /// ONNX Runtime's kernels that ran in place in measurements.
    Measured,
    /// Kernels of a device that say that they may; facts about its kernels are in tables of their own.
    Device(&'static Device),
}

/// Prints the session options in a language, by the choices of recipes.
pub(crate) type SessionText = fn(Language, &[(Recipe, Choice)], SessionNeeds) -> String;

/// How a runtime treats memory.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Name, as option `--runtime` takes it.
    pub name: &'static str,
    /// Alignment of every offset, in bytes.
    pub alignment: u64,
    /// Granularity of buffer sizes, in bytes: every size is rounded up to a multiple.
    pub rounding: u64,
    /// Whether operands of Concat and results of Split and Slice can be sub-views of a larger buffer.
    pub windows: bool,
    /// Whether a graph's results may share bytes with other values, as views or as in-place results.
    pub shared_outputs: bool,
    /// Whether values that the caller owns (graph inputs) may be overwritten, with the caller's consent.
    pub caller_buffers: bool,
    /// Whether an unread result keeps its buffer until the run ends, rather than until its node is done.
    pub holds_unread_results: bool,
    /// Whether half-precision results reach a directly following conversion to a wider type unrounded.
    /// The runtime's kernels compute in full precision, and it removes pairs of conversions there and
    /// back.
    pub(crate) widens_halves: bool,
    /// Whether kernels need the workspace that the table states.
    pub(crate) takes_workspace: bool,
    /// Number of threads that workspace formulas assume.
    pub max_scratch_threads: u32,
    pub(crate) kernels: Kernels,
    /// Whether a conversion to an equal element type is a view rather than a copy.
    pub(crate) same_type_views: bool,
    /// Whether ONNX Runtime's kernels hold memory in addition to the table's workspace formula.
    pub(crate) takes_temporaries: bool,
    /// Whether the runtime replaces operators without a kernel by several nodes.
    pub(crate) expands_operators: bool,
    /// Whether the runtime has a kernel that multiplies by weights of 8 or 4 bits as they are stored
    /// (MatMulNBits).
    pub multiplies_codes: bool,
    /// Whether kernels keep buffers from their first run on.
    pub(crate) keeps_buffers: bool,
    /// Prints the setup of a session; `None` if the runtime has no sessions that users create.
    pub(crate) sessions: Option<SessionText>,
}

impl Profile {
    /// A runtime that obeys the layout.
    pub const ARENA: Self = arena::PROFILE;
    /// A runtime that obeys the layout, with its own kernels that need no workspace.
    pub const ARENA_WITHOUT_WORKSPACE: Self = Self { takes_workspace: false, ..arena::PROFILE };
    /// A stock ONNX Runtime session on the CPU.
    pub const ORT: Self = ort::PROFILE;
    /// A session of ONNX Runtime on a CUDA device.
    pub const CUDA: Self = cuda::PROFILE;
    /// memc's player: it obeys the layout and runs ONNX Runtime's kernels.
    pub const PLAYER: Self = player::PROFILE;
    /// All profiles, sorted by name.
    pub const ALL: [&'static Self; 4] = [&Self::ARENA, &Self::CUDA, &Self::ORT, &Self::PLAYER];

    /// Returns the profile with this name, or `None`.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }

    /// Returns the operand positions that result 0 may overwrite under this runtime, in ascending order.
    ///
    /// Each of these operands provably has the extents and the element width of the result. A node of
    /// this graph computes it, or it is an input of this graph and [`Profile::caller_buffers`] is set.
    /// The node reads it at no position whose elements it still needs.
    ///
    /// The caller must check that the live ranges of the operand and of all values that share its bytes
    /// end at this node, and that the owner of the bytes is neither a constant nor a value that a reader
    /// outside the graph needs.
    pub fn may_overwrite(&self, typed: &Typed<'_>) -> Vec<usize> {
        let Some(result) = typed.output(0) else { return Vec::new() };
        let allowed = self.allowed(typed);
        if allowed.is_empty() || !self.shared_outputs && is_output(typed) {
            return Vec::new();
        }
        let fits = |position: &usize| {
            let operand = typed.data().inputs[*position];
            operand
                .is_some_and(|value| self.owns(typed, value) && needed_nowhere_else(typed, value, &allowed))
                && typed.input(*position).is_some_and(|ty| same_bytes(ty, result))
        };
        allowed.iter().copied().filter(fits).collect()
    }

    /// Returns the operand positions that both the table entry and this runtime's kernel allow.
    fn allowed(&self, typed: &Typed<'_>) -> Vec<usize> {
        let data = typed.data();
        let Some(info) = typed.info() else { return Vec::new() };
        let by_table: Vec<usize> = match info.in_place {
            InPlace::Never => Vec::new(),
            InPlace::Operands(positions) => positions.to_vec(),
            InPlace::Any => (0..data.inputs.len()).collect(),
            InPlace::UnlessTraining if may_train(typed.module, typed.node) => Vec::new(),
            InPlace::UnlessTraining => vec![0],
        };
        let row = ort_kernel(info.domain, info.name);
        if row.is_some_and(|kernel| kernel.wrong_in_place) {
            return Vec::new();
        }
        let does = |position: &usize| match self.kernels {
            Kernels::All => true,
            Kernels::Device(device) => *position == 0 && device.is_in_place(info.domain, info.name),
            Kernels::AllButReadingAgain => row.is_none_or(|kernel| !kernel.reads_again),
            Kernels::Measured => row.and_then(|kernel| kernel.in_place).is_some_and(|overwrites| {
                let fits = |ty: &TensorType| {
                    overwrites.elements.is_empty() || overwrites.elements.contains(&ty.element)
                };
                overwrites.operand == *position && typed.input(*position).is_some_and(fits)
            }),
        };
        by_table.into_iter().filter(|position| *position < data.inputs.len()).filter(does).collect()
    }

    /// Whether the plan of the node's graph may reuse the bytes of a value.
    fn owns(&self, typed: &Typed<'_>, value: Value) -> bool {
        match typed.module.value(value).definition {
            Definition::Result(producer, _) => typed.module.node(producer).graph == typed.data().graph,
            Definition::Input(graph, _) => self.caller_buffers && graph == typed.data().graph,
            Definition::Constant(..) | Definition::Erased => false,
        }
    }

    /// Returns the operand of which result 0 is a full view, with all bytes in order; `None` if the
    /// result has its own bytes.
    ///
    /// A view of a constant or of a graph input needs no memory either.
    pub fn view_of(&self, typed: &Typed<'_>) -> Option<usize> {
        let info = typed.info()?;
        let (operand, result) = (typed.input(0)?, typed.output(0)?);
        let same = match info.view {
            View::Reshape => operand.element == result.element,
            View::SameType => self.same_type_views && operand.element == result.element,
            View::None | View::Concat | View::Split | View::Slice => false,
        };
        (same && result.element.bits().is_some() && (self.shared_outputs || !is_output(typed))).then_some(0)
    }

    /// Returns the operand of a conversion that the runtime passes on in more bits than its type has, as
    /// its producer computed it; `None` if there is none. A copy between producer and conversion (a
    /// Slice, a Concat) would round the value.
    pub fn reads_unrounded(&self, typed: &Typed<'_>) -> Option<Value> {
        let is_half = |ty: &TensorType| matches!(ty.element, ElementType::Float16 | ElementType::Bfloat16);
        let is_wide = |ty: &TensorType| matches!(ty.element, ElementType::Float | ElementType::Double);
        let data = typed.data();
        let is_cast = lookup(&data.operator).is_some_and(|info| info.view == View::SameType);
        let widens = is_cast && typed.input(0).is_some_and(is_half) && typed.output(0).is_some_and(is_wide);
        let operand = data.inputs.first().copied().flatten().filter(|_| self.widens_halves && widens)?;
        let Definition::Result(producer, _) = typed.module.value(operand).definition else { return None };
        // Operators that only move elements have a half-precision kernel, and return their elements
        // unchanged.
        let info = lookup(&typed.module.node(producer).operator)?;
        (!info.moves_elements()).then_some(operand)
    }

    /// Whether the runtime replaces nodes of this operator by several nodes of its own. It runs these
    /// when no other node is ready rather than in file order, so other ready nodes overtake them.
    pub fn expands(&self, operator: &Operator) -> bool {
        let is_native = self.device().is_some_and(|device| device.may_have(operator));
        self.expands_operators && !is_native && row(operator).is_some_and(|kernel| kernel.expanded)
    }

    /// Returns the kernels of the device that runs the nodes; `None` if the CPU runs them.
    fn device(&self) -> Option<&'static Device> {
        match self.kernels {
            Kernels::Device(device) => Some(device),
            Kernels::All | Kernels::AllButReadingAgain | Kernels::Measured => None,
        }
    }

    /// Whether this operator is outside the ONNX standard and the runtime has it.
    pub fn is_own(&self, operator: &Operator) -> bool {
        extension(operator).is_some() && self.device().is_none_or(|device| device.may_make(operator))
    }

    /// Whether the runtime may have a kernel for this operator, for some element types.
    pub fn may_have(&self, operator: &Operator) -> bool {
        operator.domain.is_empty() || self.is_own(operator)
    }

    /// Whether the runtime has a kernel for this operator with these attributes, for this element type of
    /// the first operand. ONNX operators count as available.
    pub fn has_kernel(
        &self,
        operator: &Operator,
        attributes: &[(String, Attribute)],
        element: ElementType,
    ) -> bool {
        match (extension(operator), self.device()) {
            (Some(_), Some(device)) => {
                device.may_make(operator)
                    && device.has_kernel(operator, element)
                    && device.runs_with(operator, attributes)
            }
            (Some(elements), None) => elements.contains(&element),
            (None, _) => operator.domain.is_empty(),
        }
    }

    /// Whether the runtime has no kernel for a node on its device, and runs it on the CPU, between copies.
    pub fn runs_beside(&self, typed: &Typed<'_>) -> bool {
        let element = typed.input(0).map_or(ElementType::Undefined, |ty| ty.element);
        self.device().is_some_and(|device| !device.has_kernel(&typed.data().operator, element))
    }

    /// Whether a library of the device chooses the workspace of a node's kernel, so that no plan counts it.
    pub fn chooses_workspace(&self, typed: &Typed<'_>) -> bool {
        self.device().is_some_and(|device| device.chooses(&typed.data().operator))
    }

    /// Whether the kernel of an operator takes operands without elements along an axis of its result, as a
    /// part has them if the axis has fewer positions than there are parts, and makes a result without
    /// elements.
    pub fn takes_empty(&self, operator: &Operator) -> bool {
        self.device().is_none() && ort_empty::has(TAKE_EMPTY, &operator.domain, &operator.name)
    }

    /// Whether the kernel of an operator adds nothing if the axis that it sums over has no elements.
    pub fn adds_nothing(&self, operator: &Operator) -> bool {
        self.device().is_none() && ort_empty::has(ADD_NOTHING, &operator.domain, &operator.name)
    }

    /// Returns the workspace of the node's kernel, in addition to operands and results; `None` if it is
    /// unknown.
    pub fn workspace(&self, typed: &Typed<'_>) -> Option<Bytes> {
        self.counted(&Counted::in_numbers(typed))?.known().map(Bytes)
    }

    /// Returns the workspace of the node's kernel over symbols: at all extents at least
    /// [`Profile::workspace`]. `None` if no such expression is known; types must be as stated.
    pub fn workspace_over(&self, typed: &Typed<'_>) -> Option<DimExpr> {
        self.counted(&Counted::in_symbols(typed))?.expr()
    }

    /// Returns the workspace by the formulas of both tables.
    fn counted(&self, node: &Counted<'_>) -> Option<Size> {
        if let Some(device) = self.device() {
            return device.workspace(node).map(|bytes| bytes.multiple_of(self.rounding));
        }
        let formula = node.info()?.workspace.filter(|_| self.takes_workspace);
        let bytes = formula.map_or(Some(Size::from(0)), |formula| formula(node))?.multiple_of(self.rounding);
        Some(if self.takes_temporaries { bytes + ort_temporaries::temporaries(node)? } else { bytes })
    }

    /// Returns the bytes that the kernels of `module` keep from their first run on, over all steps of
    /// the schedule: buffers of a thread that the runtime never frees. O(nodes).
    pub fn kept(&self, module: &Module) -> Bytes {
        if !self.keeps_buffers {
            return Bytes(0);
        }
        let nodes = module.graphs().keys().flat_map(|graph| &module.graph(graph).nodes);
        let kept = nodes.map(|node| row(&module.node(*node).operator).map_or(0, |kernel| kernel.keeps));
        Bytes(kept.max().unwrap_or(0))
    }

    /// Returns program text that sets up a session of this runtime by one recipe, or by `fast` and
    /// `smallest`, without counting; `None` if the runtime has no sessions.
    pub fn session_options(
        &self,
        language: Language,
        recipe: Option<Recipe>,
        needs: SessionNeeds,
    ) -> Option<String> {
        let recipes = Recipe::printed(recipe).into_iter();
        let choices: Vec<_> = recipes.map(|recipe| (recipe, recipe.predicted(language, needs))).collect();
        self.session_options_of(language, &choices, needs)
    }

    /// As [`Self::session_options`], by choices that were made.
    pub fn session_options_of(
        &self,
        language: Language,
        choices: &[(Recipe, Choice)],
        needs: SessionNeeds,
    ) -> Option<String> {
        self.sessions.map(|text| text(language, choices, needs))
    }

    /// Returns the size of a buffer after rounding; `None` on 64-bit overflow.
    pub fn buffer(&self, size: Bytes) -> Option<Bytes> {
        size.0.checked_next_multiple_of(self.rounding).map(Bytes)
    }
}

/// Returns the row of an operator in the table of ONNX Runtime's kernels.
fn row(operator: &Operator) -> Option<&'static Kernel> {
    ort_kernel(&operator.domain, &operator.name)
}

/// Whether a file should not state the extents of a result of this operator: a session that knows them
/// runs the kernel in place, and its results are then wrong.
pub fn wrong_in_place(operator: &Operator) -> bool {
    row(operator).is_some_and(|kernel| kernel.wrong_in_place)
}

/// Returns the element types of an operator outside the ONNX standard; `None` for all other operators.
fn extension(operator: &Operator) -> Option<&'static [ElementType]> {
    row(operator).and_then(|kernel| kernel.extension)
}

/// Whether result 0 of the node is a result of its graph.
fn is_output(typed: &Typed<'_>) -> bool {
    let result = typed.data().outputs.first().copied().flatten();
    result.is_some_and(|value| typed.module.graph(typed.data().graph).outputs.contains(&value))
}

/// Whether the node may overwrite every position at which it reads `value`.
fn needed_nowhere_else(typed: &Typed<'_>, value: Value, allowed: &[usize]) -> bool {
    let inputs = &typed.data().inputs;
    inputs
        .iter()
        .enumerate()
        .all(|(position, operand)| *operand != Some(value) || allowed.contains(&position))
}

/// Whether two tensors provably have equal extents and equal element width.
fn same_bytes(left: &TensorType, right: &TensorType) -> bool {
    let bits = left.element.bits();
    let shapes = left.shape.as_deref().zip(right.shape.as_deref());
    bits.is_some()
        && bits == right.element.bits()
        && shapes.is_some_and(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b)))
}

#[cfg(test)]
mod law;
#[cfg(test)]
mod tests;
