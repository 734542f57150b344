//! Runtime profiles: what the runtime that executes a plan does with memory on its own account.
//!
//! What an operator *may* share is in its table entry. What a runtime *does* share, how it rounds, and what it holds beside
//! tensors is a property of the runtime, and every such fact stands in one of the files of this folder and nowhere else.

pub mod arena;
pub mod ort;
mod ort_session;
mod ort_temporaries;
mod own;
pub mod player;

pub use ort_session::{Language, Recipe, SessionNeeds};

use memc_ir::{Bytes, Definition, ElementType, Module, Operator, TensorType, Value};

use crate::info::{InPlace, Typed, View, Work, Workspace};
use crate::repeat::may_train;
use crate::table::lookup;

/// A kernel that writes its result over an operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InPlaceKernel {
    /// Domain of the operator.
    pub(crate) domain: &'static str,
    /// Name of the operator.
    pub(crate) name: &'static str,
    /// The operand that is overwritten.
    pub(crate) operand: usize,
    /// Element types of the operand with which it does so; empty for all.
    pub(crate) elements: &'static [ElementType],
}

/// Which kernels write in place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kernels {
    /// All that their table entry allows.
    All,
    /// All that their table entry allows but of these operators, by domain and name.
    AllBut(&'static [(&'static str, &'static str)]),
    /// Only these.
    Listed(&'static [InPlaceKernel]),
}

/// Writes the options of a session in a language: of one recipe, or of all.
pub(crate) type SessionText = fn(Language, Option<Recipe>, SessionNeeds) -> String;

/// How a runtime treats memory.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Name, as `--runtime` takes it.
    pub name: &'static str,
    /// Every offset is a multiple of this, in bytes.
    pub alignment: u64,
    /// Every buffer takes a multiple of this, in bytes.
    pub rounding: u64,
    /// Whether operands of Concat and results of Split and Slice can be windows of a larger buffer.
    pub windows: bool,
    /// Whether a graph's results may share bytes with other values: views of them, or written over an operand.
    pub shared_outputs: bool,
    /// Whether values that the caller holds (graph inputs) may be overwritten where the caller agrees.
    pub caller_buffers: bool,
    /// Whether a result that nobody reads keeps its buffer until the run ends, rather than until its node is done.
    pub holds_unread_results: bool,
    /// Whether results of half precision reach a conversion to a wider type unrounded, where nothing stands between the two: kernels compute
    /// in full precision, and conversions there and back are left out.
    pub(crate) widens_halves: bool,
    /// Whether kernels take the workspace that the table states.
    pub(crate) takes_workspace: bool,
    /// Workspace formulas count this many threads.
    pub max_scratch_threads: u32,
    pub(crate) kernels: Kernels,
    /// Whether a conversion to the same element type is a view rather than a copy.
    pub(crate) same_type_views: bool,
    /// Bytes that the runtime's kernels hold beside the table's workspace formula.
    pub(crate) temporaries: fn(&Typed<'_>) -> Option<Bytes>,
    /// Operators of ONNX's own domain that the runtime replaces by several nodes.
    pub(crate) expanded: &'static [&'static str],
    /// Operators that it has beside the standard's.
    pub(crate) own: &'static [own::OwnKernel],
    /// Operators whose kernels keep a buffer: domain, name, bytes.
    pub(crate) kept: &'static [(&'static str, &'static str, u64)],
    /// How its sessions are set up, where users make them.
    pub(crate) sessions: Option<SessionText>,
}

impl Profile {
    /// A runtime that obeys the layout.
    pub const ARENA: Self = arena::PROFILE;
    /// The same with kernels of its own, which need no workspace beside operands and results.
    pub const ARENA_WITHOUT_WORKSPACE: Self = Self { takes_workspace: false, ..arena::PROFILE };
    /// A stock ONNX Runtime session on the CPU.
    pub const ORT: Self = ort::PROFILE;
    /// memc's player: the layout is obeyed, on ONNX Runtime's kernels.
    pub const PLAYER: Self = player::PROFILE;
    /// All profiles, sorted by name.
    pub const ALL: [&'static Self; 3] = [&Self::ARENA, &Self::ORT, &Self::PLAYER];

    /// The profile of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }

    /// Operand positions that result 0 may overwrite under this runtime, in ascending order.
    ///
    /// Each such operand has the result's extents, provably, and as many bits an element, was computed in the same graph (or is one of
    /// its inputs, if [`Profile::caller_buffers`]), and is at no other position whose elements are still needed.
    ///
    /// Left to the caller: the operand dies here, and so do all values that share its bytes; the owner of its bytes is no
    /// constant, and no value that somebody outside still reads.
    pub fn may_overwrite(&self, typed: &Typed<'_>) -> Vec<usize> {
        let Some(result) = typed.output(0) else { return Vec::new() };
        let allowed = self.allowed(typed);
        if allowed.is_empty() || !self.shared_outputs && is_output(typed) {
            return Vec::new();
        }
        let fits = |position: &usize| {
            let operand = typed.data().inputs[*position];
            operand.is_some_and(|value| self.owns(typed, value) && needed_nowhere_else(typed, value, &allowed))
                && typed.input(*position).is_some_and(|ty| same_bytes(ty, result))
        };
        allowed.iter().copied().filter(fits).collect()
    }

    /// Operand positions that the table entry and this runtime's kernel allow.
    fn allowed(&self, typed: &Typed<'_>) -> Vec<usize> {
        let data = typed.data();
        let Some(info) = lookup(&data.operator) else { return Vec::new() };
        let by_table: Vec<usize> = match info.in_place {
            InPlace::Never => Vec::new(),
            InPlace::Operands(positions) => positions.to_vec(),
            InPlace::Any => (0..data.inputs.len()).collect(),
            InPlace::UnlessTraining if may_train(typed.module, typed.node) => Vec::new(),
            InPlace::UnlessTraining => vec![0],
        };
        let does = |position: &usize| match self.kernels {
            Kernels::All => true,
            Kernels::AllBut(excluded) => !excluded.contains(&(info.domain, info.name)),
            Kernels::Listed(kernels) => kernels.iter().any(|kernel| {
                (kernel.domain, kernel.name, kernel.operand) == (info.domain, info.name, *position)
                    && typed
                        .input(*position)
                        .is_some_and(|ty| kernel.elements.is_empty() || kernel.elements.contains(&ty.element))
            }),
        };
        by_table.into_iter().filter(|position| *position < data.inputs.len()).filter(does).collect()
    }

    /// Whether the bytes of a value belong to the plan of the graph that the node stands in.
    fn owns(&self, typed: &Typed<'_>, value: Value) -> bool {
        match typed.module.value(value).definition {
            Definition::Result(producer, _) => typed.module.node(producer).graph == typed.data().graph,
            Definition::Input(graph, _) => self.caller_buffers && graph == typed.data().graph,
            Definition::Constant(..) | Definition::Erased => false,
        }
    }

    /// The operand whose bytes result 0 has, all of them and in the same order; `None` where the result has bytes of its own.
    ///
    /// A view of a constant or of a graph input costs nothing either.
    pub fn view_of(&self, typed: &Typed<'_>) -> Option<usize> {
        let info = lookup(&typed.data().operator)?;
        let (operand, result) = (typed.input(0)?, typed.output(0)?);
        let same = match info.view {
            View::Reshape => operand.element == result.element,
            View::SameType => self.same_type_views && operand.element == result.element,
            View::None | View::Concat | View::Split | View::Slice => false,
        };
        (same && result.element.bits().is_some() && (self.shared_outputs || !is_output(typed))).then_some(0)
    }

    /// The operand of a node that the runtime hands to it in more bits than its type has, as the node that makes it computed it. A copy between
    /// the two (a Slice, a Concat) would round it.
    pub fn reads_unrounded(&self, typed: &Typed<'_>) -> Option<Value> {
        let is_half = |ty: &TensorType| matches!(ty.element, ElementType::Float16 | ElementType::Bfloat16);
        let is_wide = |ty: &TensorType| matches!(ty.element, ElementType::Float | ElementType::Double);
        let data = typed.data();
        let is_cast = data.operator.domain.is_empty() && matches!(&*data.operator.name, "Cast" | "CastLike");
        let widens = is_cast && typed.input(0).is_some_and(is_half) && typed.output(0).is_some_and(is_wide);
        let operand = data.inputs.first().copied().flatten().filter(|_| self.widens_halves && widens)?;
        let Definition::Result(producer, _) = typed.module.value(operand).definition else { return None };
        // What only moves elements has a kernel for them, and gives what it was given.
        let info = lookup(&typed.module.node(producer).operator)?;
        let moves = matches!(info.work, Work::None) && info.view != View::SameType;
        (!moves).then_some(operand)
    }

    /// Whether the runtime replaces nodes of this operator by several nodes of its own, and runs these when nothing else is ready rather
    /// than in the file's order: other nodes that are ready overtake them.
    pub fn expands(&self, operator: &Operator) -> bool {
        operator.domain.is_empty() && self.expanded.contains(&&*operator.name)
    }

    /// Whether the runtime has this operator beside the standard's.
    pub fn is_own(&self, operator: &Operator) -> bool {
        self.own_kernel(operator).is_some()
    }

    /// Whether the runtime may have a kernel for this operator, for some element types.
    pub fn may_have(&self, operator: &Operator) -> bool {
        operator.domain.is_empty() || self.is_own(operator)
    }

    /// Whether the runtime has a kernel for this operator with a first operand of this element type. Operators of the standard count as
    /// present.
    pub fn has_kernel(&self, operator: &Operator, element: ElementType) -> bool {
        match self.own_kernel(operator) {
            Some(kernel) => kernel.elements.contains(&element),
            None => operator.domain.is_empty(),
        }
    }

    fn own_kernel(&self, operator: &Operator) -> Option<&own::OwnKernel> {
        self.own.iter().find(|kernel| (kernel.domain, kernel.name) == (&*operator.domain, &*operator.name))
    }

    /// Workspace of the node's kernel beside operands and results; `None` where nobody can tell it.
    pub fn workspace(&self, typed: &Typed<'_>) -> Option<Bytes> {
        let formula = match lookup(&typed.data().operator)?.workspace {
            Workspace::None => Bytes(0),
            Workspace::Bytes(_) if !self.takes_workspace => Bytes(0),
            Workspace::Bytes(formula) => formula(typed)?,
        };
        self.buffer(formula)?.checked_add((self.temporaries)(typed)?)
    }

    /// Bytes that kernels of `module` keep from their first run on, beside all steps of the schedule: buffers of a thread, which the
    /// runtime never gives back. Linear in the number of nodes.
    pub fn kept(&self, module: &Module) -> Bytes {
        let kept = module.graphs().keys().flat_map(|graph| &module.graph(graph).nodes).map(|node| {
            let operator = &module.node(*node).operator;
            let found = self.kept.iter().find(|(domain, name, _)| (*domain, *name) == (&*operator.domain, &*operator.name));
            found.map_or(0, |(_, _, bytes)| *bytes)
        });
        Bytes(kept.max().unwrap_or(0))
    }

    /// Program text that sets up a session of this runtime by a recipe, or by each of them; `None` where there are no sessions.
    pub fn session_options(&self, language: Language, recipe: Option<Recipe>, needs: SessionNeeds) -> Option<String> {
        self.sessions.map(|text| text(language, recipe, needs))
    }

    /// What a buffer of this size takes in this runtime; `None` where it passes 64 bits.
    pub fn buffer(&self, size: Bytes) -> Option<Bytes> {
        size.0.checked_next_multiple_of(self.rounding).map(Bytes)
    }
}

/// Whether result 0 of the node is a result of its graph.
fn is_output(typed: &Typed<'_>) -> bool {
    let result = typed.data().outputs.first().copied().flatten();
    result.is_some_and(|value| typed.module.graph(typed.data().graph).outputs.contains(&value))
}

/// Whether every position at which the node reads `value` may be overwritten.
fn needed_nowhere_else(typed: &Typed<'_>, value: Value, allowed: &[usize]) -> bool {
    let inputs = &typed.data().inputs;
    inputs.iter().enumerate().all(|(position, operand)| *operand != Some(value) || allowed.contains(&position))
}

/// Whether two tensors provably have the same extents and as many bits an element.
fn same_bytes(left: &TensorType, right: &TensorType) -> bool {
    let bits = left.element.bits();
    let shapes = left.shape.as_deref().zip(right.shape.as_deref());
    bits.is_some()
        && bits == right.element.bits()
        && shapes.is_some_and(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b)))
}

#[cfg(test)]
mod tests;
