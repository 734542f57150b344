//! What to say of a budget that no plan was found for: where the smallest plan is full, who is alive there, and what keeps them.

use memc_ir::{Bytes, Module, Node, Step};

use super::state::Stated;
use super::trial::place;
use crate::analysis::{Liveness, buffers, classes, live};
use crate::pass::{PassContext, PassError, Shortage};

/// So many values are named.
const SHOWN: usize = 8;

/// Describes the smallest plan that was found, with the bytes that it needs; without any, the given order.
pub(crate) fn shortage(
    (least, smallest): (Bytes, &Module),
    ctx: &PassContext<'_>,
    stated: &Stated,
    budget: Bytes,
    bound: Bytes,
) -> Result<Shortage, PassError> {
    let placed = place(smallest, ctx, 0)?;
    let liveness = Liveness::of(&placed, placed.main(), ctx.options.profile);
    let buffers = buffers(&placed, &liveness, &classes(&placed), ctx.options.io);
    let levels = live(&placed, &buffers, liveness.steps);
    let full = (0..levels.len()).max_by_key(|step| (levels[*step], std::cmp::Reverse(*step))).unwrap_or(0);
    let step = Step(full as u32);
    let mut there: Vec<_> = buffers.iter().filter(|buffer| buffer.range.start <= step && step < buffer.range.end).collect();
    there.sort_by_key(|buffer| (std::cmp::Reverse(buffer.bytes), buffer.owner));
    let alive = there.iter().take(SHOWN).map(|buffer| (placed.value(buffer.owner).name.clone(), buffer.bytes));
    let node = placed.graph(placed.main()).nodes.get(full).copied();
    Ok(Shortage {
        only_whole: false,
        space: ctx.options.space.name.clone(),
        budget,
        bound,
        least,
        capacity: ctx.options.space.capacity,
        node: node.map(|node| label(&placed, node)).unwrap_or_default(),
        step,
        alive: alive.collect(),
        reasons: reasons(stated),
        is_early: ctx.options.stop.is_due(),
    })
}

/// Name, or that of the first result where the node has none, and operator.
fn label(module: &Module, node: Node) -> (String, String) {
    let data = module.node(node);
    let result = || data.results().next().map(|result| module.value(result).name.clone());
    let name = Some(data.name.clone()).filter(|name| !name.is_empty()).or_else(result);
    (name.unwrap_or_default(), data.operator.to_string())
}

/// What keeps values from being dropped, with the bytes that it holds.
fn reasons(stated: &Stated) -> Vec<String> {
    let problem = &stated.problem;
    let mut kept = 0u64;
    let mut fixed = 0u64;
    for run in &problem.runs {
        for value in run.writes.iter().map(|value| &problem.values[*value as usize]) {
            if value.kept {
                kept = kept.saturating_add(value.size);
            } else if !run.repeatable {
                fixed = fixed.saturating_add(value.size);
            }
        }
    }
    let line = |bytes: u64, why: &str| (bytes > 0).then(|| format!("{}: {why}", Bytes(bytes)));
    let lines = [
        line(kept, "graph outputs, which stay to the end once they are made"),
        line(fixed, "results of operators that may run only once (random, stateful, with bodies, or unknown)"),
    ];
    lines.into_iter().flatten().collect()
}
