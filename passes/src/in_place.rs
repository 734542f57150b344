//! `in-place`: results overwrite operands that die at their node.

use memc_ir::{Alias, AliasKind, Bytes, LiveRange, Module, Node, SecondaryMap, Stage, Step, Value};
use memc_ops::Typed;

use crate::analysis::buffers::is_placed;
use crate::analysis::class::StorageClass;
use crate::analysis::memory::Memory;
use crate::options::{Io, Options};
use crate::pass::{Changed, PassContext, PassError, PassInfo};

/// Description of the pass.
pub const INFO: PassInfo = PassInfo {
    name: "in-place",
    summary: "Lets results overwrite operands that die at their node.",
    page: include_str!("../doc/in-place.md"),
    needs: Stage::Scheduled,
    gives: Stage::Scheduled,
    reads: &[],
    run,
};

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let families = Families::of(module, ctx.options);
    let mut edits = 0;
    for (index, node) in module.graph(module.main()).nodes.clone().into_iter().enumerate() {
        if let Some((result, operand)) = choose(module, node, Step(index as u32), &families, ctx) {
            module
                .plan
                .alias
                .set(result, Some(Alias { of: operand, kind: AliasKind::InPlace, offset: Bytes(0) }));
            edits += 1;
        }
    }
    Ok(Changed::edits(edits))
}

/// Groups of views over shared bytes. All members die together, so each group is stored under its
/// head, the member that is no view.
struct Families {
    classes: SecondaryMap<Value, Option<StorageClass>>,
    io: Io,
    /// By head: the range in which some member is needed.
    needed: SecondaryMap<Value, Option<LiveRange>>,
    /// By head: whether some member is a graph output, which must not be overwritten.
    kept: SecondaryMap<Value, bool>,
}

impl Families {
    fn of(module: &Module, options: &Options) -> Self {
        let Memory { liveness, classes, .. } = Memory::of(module, options);
        let mut needed: SecondaryMap<Value, Option<LiveRange>> = SecondaryMap::default();
        for value in module.values().keys() {
            let Some(range) = liveness.range(value) else { continue };
            let head = head(module, value);
            let joined = needed[head].map_or(range, |other| LiveRange {
                start: other.start.min(range.start),
                end: other.end.max(range.end),
            });
            needed.set(head, Some(joined));
        }
        let mut kept = SecondaryMap::default();
        for output in &module.graph(module.main()).outputs {
            kept.set(head(module, *output), true);
        }
        Self { classes, io: options.io, needed, kept }
    }
}

/// Returns the head of a value's group: the member that is no view.
pub(crate) fn head(module: &Module, value: Value) -> Value {
    let mut head = value;
    while let Some(alias) = module.plan.alias[head].filter(|alias| alias.kind == AliasKind::View) {
        head = alias.of;
    }
    head
}

/// Returns the first result of a node and the first operand that this result may overwrite.
fn choose(
    module: &Module,
    node: Node,
    step: Step,
    families: &Families,
    ctx: &PassContext<'_>,
) -> Option<(Value, Value)> {
    let typed = Typed::of(module, node);
    let result = (*module.node(node).outputs.first()?)?;
    if module.plan.alias[result].is_some() || !is_placed(module, &families.classes, families.io, result) {
        return None;
    }
    let positions = ctx.options.profile.may_overwrite(&typed);
    positions.iter().find_map(|position| {
        let operand = (*module.node(node).inputs.get(*position)?)?;
        dies_here(module, node, step, operand, result, &positions, families).then_some((result, operand))
    })
}

fn dies_here(
    module: &Module,
    node: Node,
    step: Step,
    operand: Value,
    result: Value,
    positions: &[usize],
    families: &Families,
) -> bool {
    let family = head(module, operand);
    let ends_here = families.needed[family].is_some_and(|range| range.end == Step(step.0 + 1));
    // A result over a sub-view would keep all bytes of the owner live, and the scheduler does not
    // account for that.
    let same_size = module.same_size(operand, result) && module.same_size(operand, family);
    let alone = module.node(node).inputs.iter().enumerate().all(|(position, other)| match other {
        Some(other) if *other != operand && head(module, *other) == family => {
            positions.contains(&position) && module.same_size(*other, operand)
        }
        Some(other) if *other == operand => positions.contains(&position),
        _ => true,
    });
    let captured = module.node(node).bodies().next().is_some();
    ends_here
        && same_size
        && alone
        && !captured
        && !families.kept[family]
        && is_placed(module, &families.classes, families.io, operand)
}
