//! `window`: places operands of Concat and results of Split and Slice inside the larger value, as
//! sub-views.

use std::collections::BTreeSet;

use memc_ir::{Alias, AliasKind, Bytes, Module, Node, SecondaryMap, Stage, Value};
use memc_ops::Typed;
use memc_ops::profile::ort_kernel;

use crate::analysis::buffers::is_placed;
use crate::analysis::class::{StorageClass, classes};
use crate::analysis::dependence::has_side_effect;
use crate::analysis::windows::{KnownData, SubView, first_byte, windows};
use crate::options::Options;
use crate::pass::{Changed, PassContext, PassError, PassInfo};

/// Description of the pass.
pub const INFO: PassInfo = PassInfo {
    name: "window",
    summary: "Places operands of Concat and results of Split and Slice inside the larger value.",
    page: include_str!("../doc/window.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &["windows"],
    run,
};

/// Maximum length of a chain of sub-views, so that the owner of a value is found quickly.
const MAX_DEPTH: usize = 1024;

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let candidates = candidates(module, ctx);
    let numbers = ctx.settings.windows.as_ref();
    let is_chosen = |number: &usize| numbers.is_none_or(|numbers| numbers.contains(number));
    let chosen =
        candidates.iter().enumerate().filter(|(number, _)| is_chosen(number)).map(|(_, window)| window);
    Ok(Changed::edits(join_all(module, ctx, chosen)))
}

/// Takes the legal sub-views whose node and part are in `named`, as far as they are legal together.
/// Returns the number of aliases set.
pub fn take(module: &mut Module, ctx: &PassContext<'_>, named: &BTreeSet<(Node, Value)>) -> u64 {
    let candidates = candidates(module, ctx);
    let chosen = candidates.iter().filter(|window| named.contains(&(window.node, window.part)));
    join_all(module, ctx, chosen)
}

/// Returns the node and the part of each sub-view in the module's plan. Linear in operands and results.
pub fn taken(module: &Module, ctx: &PassContext<'_>) -> BTreeSet<(Node, Value)> {
    let all = if ctx.options.profile.windows { windows(module, &ctx.data) } else { Vec::new() };
    let is_taken = |window: &&SubView| {
        let alias = module.plan.alias[window.part];
        alias.is_some_and(|alias| {
            alias.of == window.whole && alias.kind == AliasKind::View && alias.offset == window.offset
        })
    };
    all.iter().filter(is_taken).map(|window| (window.node, window.part)).collect()
}

/// Joins sub-views one after another, each only if it is still legal. Returns the number of aliases set.
fn join_all<'w>(
    module: &mut Module,
    ctx: &PassContext<'_>,
    chosen: impl IntoIterator<Item = &'w SubView>,
) -> u64 {
    let families = Families::of(module, ctx.options, &ctx.data);
    let mut edits = 0;
    for window in chosen {
        if families.allow(module, window) {
            edits += join(module, window);
        }
    }
    edits
}

/// Returns the sub-views that are legal by themselves, in the order in which the pass takes them.
pub fn candidates(module: &Module, ctx: &PassContext<'_>) -> Vec<SubView> {
    if !ctx.options.profile.windows {
        return Vec::new();
    }
    let windows = windows(module, &ctx.data);
    let families = Families::of(module, ctx.options, &ctx.data);
    in_order(&windows).filter(|window| families.allow(module, window)).copied().collect()
}

/// Orders sub-views for joining.
///
/// Operands come first, from the last node to the first: a value read by several Concats is placed in
/// the longest-lived result, and an enclosing value already has its owner. Results follow, from the
/// first node to the last, for this reason too.
fn in_order(windows: &[SubView]) -> impl Iterator<Item = &SubView> {
    let operands = windows.iter().rev().filter(|window| window.is_operand);
    operands.chain(windows.iter().filter(|window| !window.is_operand))
}

/// Facts about values that share bytes.
struct Families<'o> {
    options: &'o Options,
    data: &'o KnownData,
    classes: SecondaryMap<Value, Option<StorageClass>>,
    /// By owner: whether some member is a graph output.
    has_output: SecondaryMap<Value, bool>,
    /// By owner: whether a node that may write its operands reads some member.
    is_written: SecondaryMap<Value, bool>,
    /// By owner: whether results must keep every bit and a node that adds in an address-dependent order
    /// reads some member.
    is_summed: SecondaryMap<Value, bool>,
}

impl<'o> Families<'o> {
    fn of(module: &Module, options: &'o Options, data: &'o KnownData) -> Self {
        let (mut has_output, mut is_written, mut is_summed) =
            <(SecondaryMap<_, _>, SecondaryMap<_, _>, SecondaryMap<_, _>)>::default();
        let main = module.graph(module.main());
        for output in &main.outputs {
            has_output.set(module.plan.owner(*output).0, true);
        }
        for node in main.nodes.iter().filter(|node| has_side_effect(module, **node)) {
            for value in module.reads(*node) {
                is_written.set(module.plan.owner(value).0, true);
            }
        }
        let sums = |node: &&Node| options.rewrite.exact && sums_by_address(module, **node);
        for node in main.nodes.iter().filter(sums) {
            for value in module.reads(*node) {
                is_summed.set(module.plan.owner(value).0, true);
            }
        }
        Self { options, data, classes: classes(module), has_output, is_written, is_summed }
    }

    /// Returns whether the part and all values that share its bytes may move into the whole.
    ///
    /// - The part's owner must be made by a node of the plan and be no graph output, since outputs own
    ///   their bytes.
    /// - For an operand of Concat, the result must be in the arena, so that it can be written there.
    /// - No node with a side effect may read either value: its write into one would change the other.
    /// - If results must keep every bit, the operand of a sum begins at an aligned address, as it does
    ///   when it owns its bytes.
    fn allow(&self, module: &Module, window: &SubView) -> bool {
        let Some(owner) = reshape_owner(module, window.part, self.options) else { return false };
        let (home, depth) = owner_and_depth(module, window.whole);
        let moves = !window.is_operand && owner != window.part;
        let is_made = self.classes[owner] == Some(StorageClass::Transient);
        let has_room = !window.is_operand || is_placed(module, &self.classes, self.options.io, window.whole);
        let untouched = !self.has_output[owner] && !self.is_written[owner] && !self.is_written[home];
        let offset = module.plan.owner(window.whole).1.saturating_add(window.offset);
        let is_aligned =
            !self.is_summed[owner] || (self.is_multiple(offset) && self.stays_aligned(module, window));
        is_made && has_room && untouched && is_aligned && !moves && owner != home && depth < MAX_DEPTH
    }
}

impl Families<'_> {
    fn is_multiple(&self, offset: Bytes) -> bool {
        offset.0.is_multiple_of(self.options.profile.alignment)
    }

    /// Whether a part whose first byte is aligned at the largest extents is aligned at all extents of free
    /// dimensions. The larger value must begin where its owner begins.
    fn stays_aligned(&self, module: &Module, window: &SubView) -> bool {
        let ranges = &module.domain().ranges;
        let first = || first_byte(module, window, self.data);
        let is_multiple =
            || first().is_some_and(|first| first.is_multiple_of(self.options.profile.alignment, ranges));
        module.domain().is_empty() || (module.plan.owner(window.whole).1 == Bytes(0) && is_multiple())
    }
}

/// Returns whether a kernel of the node, or of a node in its bodies, adds in an order that depends on
/// the address of its operand.
fn sums_by_address(module: &Module, node: Node) -> bool {
    let data = module.node(node);
    ort_kernel(&data.operator.domain, &data.operator.name).is_some_and(|kernel| kernel.sums_by_address)
        || data
            .bodies()
            .any(|(_, body)| module.graph(body).nodes.iter().any(|inner| sums_by_address(module, *inner)))
}

/// Makes the part a view of the whole, and reverses the chain of reshapes: each former base becomes a
/// view of its former view. Returns the number of aliases set.
fn join(module: &mut Module, window: &SubView) -> u64 {
    let mut edits = 0;
    let mut next =
        Some((window.part, Alias { of: window.whole, kind: AliasKind::View, offset: window.offset }));
    while let Some((value, alias)) = next {
        let old = module.plan.alias[value].replace(alias);
        next = old.map(|old| (old.of, Alias { of: value, kind: AliasKind::View, offset: Bytes(0) }));
        edits += 1;
    }
    edits
}

/// Returns the owner of a value through a chain of reshapes, or `None` if some alias is no reshape or
/// the owner has another size.
fn reshape_owner(module: &Module, value: Value, options: &Options) -> Option<Value> {
    let mut owner = value;
    while let Some(alias) = module.plan.alias[owner] {
        let node = module.producer(owner)?;
        let position = options.profile.view_of(&Typed::of(module, node))?;
        let is_reshape = module.node(node).inputs.get(position).copied().flatten() == Some(alias.of)
            && module.node(node).outputs.first().copied().flatten() == Some(owner);
        if !is_reshape || alias.kind != AliasKind::View || alias.offset != Bytes(0) {
            return None;
        }
        owner = alias.of;
    }
    (module.size(owner) == module.size(value)).then_some(owner)
}

fn owner_and_depth(module: &Module, value: Value) -> (Value, usize) {
    let (mut owner, mut depth) = (value, 0);
    while let Some(alias) = module.plan.alias[owner] {
        owner = alias.of;
        depth += 1;
    }
    (owner, depth)
}
