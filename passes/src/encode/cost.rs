//! Costs of one direction of a recipe: the time of its nodes, and the bytes between them.

use memc_ir::{Bytes, Module, Node};
use memc_ops::Typed;

use super::{Operand, Step, is_view, owner};
use crate::options::Options;

/// Costs of one direction of a recipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Way {
    /// Modelled time, in nanoseconds.
    pub nanos: u64,
    /// Bytes that are live next to operands and results, aligned.
    pub scratch: Bytes,
}

/// Bytes that one or several results use in turn.
struct Slot {
    /// Size, in bytes; 0 for the bytes of a result of the recipe, or of the encoded value, which the
    /// planner counts.
    bytes: Bytes,
    first: usize,
    last: usize,
}

/// Returns the costs of steps, given their nodes. `results` are the steps whose results are kept.
///
/// A result overwrites an operand without later readers where the runtime allows it; the encoded value
/// counts as one, since it is encoded after its last use. O(steps^2).
pub(super) fn way(
    steps: &[Step],
    nodes: &[Node],
    results: &[Operand],
    module: &Module,
    options: &Options,
) -> Way {
    let last_use = |owned: Operand| {
        let reads = |step: &Step| step.operands.iter().any(|operand| owner(steps, *operand) == owned);
        steps.iter().rposition(reads)
    };
    // The encoded value is the first slot.
    let mut slots = vec![Slot { bytes: Bytes(0), first: 0, last: last_use(Operand::Value).unwrap_or(0) }];
    let mut slot_of: Vec<usize> = vec![0; steps.len()];
    for (at, node) in nodes.iter().enumerate().filter(|(at, _)| !is_view(&steps[*at])) {
        let own = Operand::Step(at);
        let last = last_use(own).unwrap_or(at).max(at);
        let taken = overwritten(&steps[at], module, *node, options).into_iter().find_map(|operand| {
            let owned = owner(steps, operand);
            let slot = match owned {
                Operand::Value => 0,
                Operand::Step(made) => slot_of[made],
                Operand::Code(_) | Operand::Other(_) | Operand::Constant(_) => return None,
            };
            (last_use(owned) == Some(at) && slots[slot].last == at).then_some(slot)
        });
        slot_of[at] = taken.unwrap_or(slots.len());
        let bytes = options.aligned(steps[at].ty.size().unwrap_or_default());
        match taken {
            Some(slot) => slots[slot].last = last,
            None => slots.push(Slot { bytes, first: at, last }),
        }
        if results.contains(&own) {
            slots[slot_of[at]].bytes = Bytes(0);
        }
    }
    let mut way = Way::default();
    for (at, node) in nodes.iter().enumerate().filter(|(at, _)| !is_view(&steps[*at])) {
        let table = || options.profile.workspace(&Typed::largest(module, *node));
        let own = options.cost.declared(module, *node).or_else(table).unwrap_or_default();
        let live = slots.iter().filter(|slot| slot.first <= at && at <= slot.last).map(|slot| slot.bytes);
        way.scratch = way.scratch.max(live.fold(options.aligned(own), Bytes::saturating_add));
        way.nanos = way.nanos.saturating_add(options.nanos(module, *node));
    }
    way
}

/// Returns the operands of a step that its result may overwrite: of its size, and allowed by the runtime.
fn overwritten(step: &Step, module: &Module, node: Node, options: &Options) -> Vec<Operand> {
    let positions = options.profile.may_overwrite(&Typed::of(module, node));
    let size = |position: usize| module.size(module.node(node).inputs.get(position).copied().flatten()?);
    let fits = |position: &usize| size(*position).is_some_and(|size| Some(size) == step.ty.size());
    positions.into_iter().filter(fits).filter_map(|position| step.operands.get(position).copied()).collect()
}
