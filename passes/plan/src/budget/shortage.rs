//! Explains a limit without a plan: the fullest step of the smallest plan, its live values, and why they
//! are kept.

use std::collections::BTreeSet;

use memc_ir::{Bytes, Module, Node, Step, Value};

use super::state::Stated;
use super::trial::place;
use memc_passes::analysis::state::candidates;
use memc_passes::analysis::{Buffer, Memory};
use memc_passes::{PassContext, PassError, Shortage, StepBytes};

/// Maximum number of values that the message names.
const SHOWN: usize = 8;

/// Describes the smallest plan and its need in bytes; without a plan, the file order.
pub(crate) fn shortage(
    (least, smallest): (Bytes, &Module),
    ctx: &PassContext<'_>,
    stated: &Stated,
    budget: Bytes,
    bound: Bytes,
) -> Result<Shortage, PassError> {
    // Find the fullest step of the smallest plan.
    let placed = place(smallest, ctx, 0)?;
    let memory = Memory::of(&placed, ctx.options);
    let (levels, buffers) = (memory.live(&placed), memory.buffers);
    let full = (0..levels.len()).max_by_key(|step| (levels[*step], std::cmp::Reverse(*step))).unwrap_or(0);
    let step = Step(full as u32);
    // List the values that are live there, largest first.
    let mut there: Vec<_> =
        buffers.iter().filter(|buffer| buffer.range.start <= step && step < buffer.range.end).collect();
    there.sort_by_key(|buffer| (std::cmp::Reverse(buffer.bytes), buffer.owner));
    let node = placed.graph(placed.main()).nodes.get(full).copied();
    let mut parts = parts(&placed, &there, node);
    parts.total = levels.get(full).copied().unwrap_or_default();
    let alive =
        there.iter().take(SHOWN).map(|buffer| (placed.value(buffer.owner).name.clone(), buffer.bytes));
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
        parts,
        reasons: reasons(stated),
        is_early: ctx.options.stop.is_due(),
        allowed: ctx.options.rewrite,
        has_link: !ctx.options.cost.target.links.is_empty(),
        has_dims: !placed.dims.is_empty(),
    })
}

/// Sums the bytes of the values live at the step of a node, by the measure that would free them.
fn parts(module: &Module, there: &[&Buffer], node: Option<Node>) -> StepBytes {
    let main = module.graph(module.main());
    let updates: BTreeSet<Value> = candidates(module).into_iter().collect();
    let own: BTreeSet<Value> = node
        .iter()
        .flat_map(|node| module.reads(*node).into_iter().chain(module.node(*node).results()))
        .collect();
    let mut parts = StepBytes::default();
    for buffer in there {
        let has = |set: &dyn Fn(&Value) -> bool| buffer.members.iter().any(set);
        let add = |sum: &mut Bytes| *sum = sum.saturating_add(buffer.bytes);
        let is_output = has(&|member| main.outputs.contains(member));
        let is_own = has(&|member| own.contains(member));
        if is_output {
            add(&mut parts.outputs);
        }
        if has(&|member| updates.contains(member)) {
            add(&mut parts.updates);
            parts.update_count += 1;
        }
        if has(&|member| main.inputs.contains(member)) {
            add(&mut parts.inputs);
        }
        if is_own {
            add(&mut parts.own);
        } else if !is_output {
            add(&mut parts.waiting);
        }
    }
    for scratch in module.plan.scratch.iter().filter(|scratch| Some(scratch.node) == node) {
        parts.own = parts.own.saturating_add(scratch.bytes);
    }
    parts
}

/// Returns the name of a node, or of its first result if the node has no name, and its operator.
fn label(module: &Module, node: Node) -> (String, String) {
    let data = module.node(node);
    let result = || data.results().next().map(|result| module.value(result).name.clone());
    let name = Some(data.name.clone()).filter(|name| !name.is_empty()).or_else(result);
    (name.unwrap_or_default(), data.operator.to_string())
}

/// Lists the reasons why values cannot be dropped, each with its number of bytes.
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
        line(kept, "graph outputs, which stay until the end of the run"),
        line(
            fixed,
            "results of operators that may run only once (random, stateful, with bodies, or unknown)",
        ),
    ];
    lines.into_iter().flatten().collect()
}
