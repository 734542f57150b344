//! `window`: operands of Concat and results of Split and Slice lie inside the larger value.

use std::collections::BTreeSet;

use memc_ir::{Alias, AliasKind, Bytes, Module, Node, SecondaryMap, Stage, Value};
use memc_ops::Typed;
use memc_ops::profile::player;

use crate::analysis::buffers::is_placed;
use crate::analysis::class::{StorageClass, classes};
use crate::analysis::dependence::has_side_effect;
use crate::analysis::windows::{SubView, windows};
use crate::options::Options;
use crate::pass::{Changed, PassContext, PassError, PassInfo};

/// The pass.
pub const INFO: PassInfo = PassInfo {
    name: "window",
    summary: "Operands of Concat and results of Split and Slice lie inside the larger value.",
    page: include_str!("../doc/window.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &["windows"],
    run,
};

/// Chains of windows are no longer than this, so that the owner of a value is found quickly.
const MAX_DEPTH: usize = 1024;

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let candidates = candidates(module, ctx);
    let numbers = ctx.settings.windows.as_ref();
    let is_chosen = |number: &usize| numbers.is_none_or(|numbers| numbers.contains(number));
    let chosen = candidates.iter().enumerate().filter(|(number, _)| is_chosen(number)).map(|(_, window)| window);
    Ok(Changed::edits(join_all(module, ctx.options, chosen)))
}

/// Takes those of the windows that a module could have whose node and part are named, as far as they are legal together; gives the number of aliases
/// set.
pub fn take(module: &mut Module, ctx: &PassContext<'_>, named: &BTreeSet<(Node, Value)>) -> u64 {
    let candidates = candidates(module, ctx);
    let chosen = candidates.iter().filter(|window| named.contains(&(window.node, window.part)));
    join_all(module, ctx.options, chosen)
}

/// Node and part of each window that a module has. Linear in operands and results.
pub fn taken(module: &Module, ctx: &PassContext<'_>) -> BTreeSet<(Node, Value)> {
    let all = if ctx.options.profile.windows { windows(module, &ctx.data) } else { Vec::new() };
    let is_taken = |window: &&SubView| {
        let alias = module.plan.alias[window.part];
        alias.is_some_and(|alias| alias.of == window.whole && alias.kind == AliasKind::View && alias.offset == window.offset)
    };
    all.iter().filter(is_taken).map(|window| (window.node, window.part)).collect()
}

/// Joins windows one after another, each if it is still legal; gives the number of aliases set.
fn join_all<'w>(module: &mut Module, options: &Options, chosen: impl IntoIterator<Item = &'w SubView>) -> u64 {
    let families = Families::of(module, options);
    let mut edits = 0;
    for window in chosen {
        if families.allow(module, window) {
            edits += join(module, window);
        }
    }
    edits
}

/// The windows that a module could have one by one, in the order in which the pass takes them.
pub fn candidates(module: &Module, ctx: &PassContext<'_>) -> Vec<SubView> {
    if !ctx.options.profile.windows {
        return Vec::new();
    }
    let windows = windows(module, &ctx.data);
    let families = Families::of(module, ctx.options);
    in_order(&windows).filter(|window| families.allow(module, window)).copied().collect()
}

/// Operands from the last node to the first, so that a value that many read lies in the one that lives longest, and what contains a window has
/// its owner already; then results from the first node to the last, for the same reason.
fn in_order(windows: &[SubView]) -> impl Iterator<Item = &SubView> {
    let operands = windows.iter().rev().filter(|window| window.is_operand);
    operands.chain(windows.iter().filter(|window| !window.is_operand))
}

/// What is known of values that share bytes.
struct Families<'o> {
    options: &'o Options,
    classes: SecondaryMap<Value, Option<StorageClass>>,
    /// By owner: whether some member is a graph output.
    has_output: SecondaryMap<Value, bool>,
    /// By owner: whether a node reads some member that may write into it.
    is_written: SecondaryMap<Value, bool>,
    /// By owner: whether every bit must stay, and a node reads some member that adds up in an order that follows from its address.
    is_summed: SecondaryMap<Value, bool>,
}

impl<'o> Families<'o> {
    fn of(module: &Module, options: &'o Options) -> Self {
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
        Self { options, classes: classes(module), has_output, is_written, is_summed }
    }

    /// Whether the part, with all that shares its bytes, may move into the whole.
    ///
    /// What the part owns must be made by a node of the plan and be no graph output: those own their bytes. Where a Concat's operand is written, the
    /// result must be in the arena. Nobody may write into either behind the planner's back: what holds of the one would change with the other.
    /// Where every bit must stay, what a sum reads begins at an aligned address, as it does where it owns its bytes.
    fn allow(&self, module: &Module, window: &SubView) -> bool {
        let Some(owner) = reshape_owner(module, window.part, self.options) else { return false };
        let (home, depth) = owner_and_depth(module, window.whole);
        let moves = !window.is_operand && owner != window.part;
        let is_made = self.classes[owner] == Some(StorageClass::Transient);
        let has_room = !window.is_operand || is_placed(module, &self.classes, self.options.io, window.whole);
        let untouched = !self.has_output[owner] && !self.is_written[owner] && !self.is_written[home];
        let offset = module.plan.owner(window.whole).1.saturating_add(window.offset);
        let is_aligned = offset.0.is_multiple_of(self.options.profile.alignment) || !self.is_summed[owner];
        is_made && has_room && untouched && is_aligned && !moves && owner != home && depth < MAX_DEPTH
    }
}

/// Whether a kernel of the node adds up in an order that follows from the address of what it reads, or one of a node in its bodies.
fn sums_by_address(module: &Module, node: Node) -> bool {
    let data = module.node(node);
    player::sums_by_address(&data.operator.domain, &data.operator.name)
        || data.bodies().any(|(_, body)| module.graph(body).nodes.iter().any(|inner| sums_by_address(module, *inner)))
}

/// Makes the part a view of the whole, and what the part was a reshape of a view of the part; gives the number of aliases set.
fn join(module: &mut Module, window: &SubView) -> u64 {
    let mut edits = 0;
    let mut next = Some((window.part, Alias { of: window.whole, kind: AliasKind::View, offset: window.offset }));
    while let Some((value, alias)) = next {
        let old = module.plan.alias[value].replace(alias);
        next = old.map(|old| (old.of, Alias { of: value, kind: AliasKind::View, offset: Bytes(0) }));
        edits += 1;
    }
    edits
}

/// The owner of a value that has all of the owner's bytes, through results that are reshapes of their operand.
fn reshape_owner(module: &Module, value: Value, options: &Options) -> Option<Value> {
    let mut owner = value;
    while let Some(alias) = module.plan.alias[owner] {
        let node = module.producer(owner)?;
        let position = options.profile.view_of(&Typed { module, node })?;
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
