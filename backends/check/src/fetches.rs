//! Checks fetched constants: copies from a farther space, made right before their readers; the constant
//! keeps its place.

use std::collections::{BTreeMap, BTreeSet};

use memc_layout::{Class, Fetch};

use crate::codes::Kind;
use crate::ctx::Ctx;
use crate::findings::{At, Findings, exact};
use crate::rows::is_onnx;

/// Option that names the farther space of constants.
const FARTHER: &str = "weights";

/// Checks all rows of `fetches`. Also checks that the arena and the constants in the near space fit
/// there together.
pub(crate) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    let links: BTreeSet<(&str, &str)> =
        ctx.layout.target.links.iter().map(|link| (link.from.as_str(), link.to.as_str())).collect();
    let mut homes: BTreeMap<&str, &str> = BTreeMap::new();
    let mut steps: BTreeSet<usize> = BTreeSet::new();
    for row in &ctx.layout.fetches {
        let at = At::tensor(&row.result);
        let mut refuse = |why: &str| {
            let message = format!("`{}` is not a valid fetch of `{}` at step {}: {why}", row.result, row.tensor, row.step);
            findings.add(Kind::Fetch, at, message);
        };
        match copy(ctx, row) {
            Err(why) => refuse(why),
            Ok(step) if !steps.insert(step) => refuse("another row has this step"),
            Ok(_) => {}
        }
        if row.from == row.to || !links.contains(&(row.from.as_str(), row.to.as_str())) {
            refuse("the target has no link between these spaces");
        }
        if *homes.entry(&row.tensor).or_insert(&row.from) != row.from {
            refuse("the constant lies in two spaces");
        }
    }
    missing(ctx, &steps, findings);
    directly(ctx, &homes, &steps, findings);
    room(ctx, &homes, findings);
}

/// Returns the step of the row's node, or the reason that the node is not the stated copy of the
/// constant.
fn copy(ctx: &Ctx<'_>, row: &Fetch) -> Result<usize, &'static str> {
    let step =
        usize::try_from(row.step).ok().filter(|step| *step < ctx.steps()).ok_or("the schedule has no step of this number")?;
    let data = ctx.out.module.node(ctx.out.rows[ctx.order[step]].node);
    let ([Some(operand)], [Some(result)], true) = (&data.inputs[..], &data.outputs[..], is_onnx(data, "Identity")) else {
        return Err("its node is not an Identity");
    };
    if ctx.out.name(*operand) != row.tensor || ctx.out.name(*result) != row.result {
        return Err("its node has other operands or results");
    }
    let entries = ctx.tensor_of[*operand].zip(ctx.tensor_of[*result]).ok_or("one of them has no entry")?;
    let (constant, near) = (ctx.tensor(entries.0), ctx.tensor(entries.1));
    if constant.class != Class::Constant || ctx.out.producer[*operand].is_some() || constant.offset.is_some() {
        return Err("the constant is not an initializer that the caller holds");
    }
    if near.space.as_deref() != Some(&row.to) || near.offset.is_none() || near.alias.is_some() {
        return Err("the copy has no place of its own in the near space");
    }
    if constant.bytes != row.bytes || near.bytes != row.bytes {
        return Err("the copy has another size");
    }
    Ok(step)
}

/// Reports copies of constants that the plan added, but that are no fetches: only then is the constant
/// elsewhere.
fn missing(ctx: &Ctx<'_>, steps: &BTreeSet<usize>, findings: &mut Findings) {
    let given: BTreeSet<&str> = (0..ctx.given.rows.len()).map(|row| ctx.given.node_name(row)).collect();
    for step in (0..ctx.steps()).filter(|step| !steps.contains(step) && !given.contains(ctx.node_at(*step))) {
        let data = ctx.out.module.node(ctx.out.rows[ctx.order[step]].node);
        let ([Some(operand)], [Some(result)], true) = (&data.inputs[..], &data.outputs[..], is_onnx(data, "Identity")) else {
            continue;
        };
        let is_copy = ctx.tensor_of[*result].is_some_and(|index| {
            let near = ctx.tensor(index);
            near.offset.is_some() && near.alias.is_none() && !ctx.out.is_output[*result]
        });
        if is_copy && ctx.out.is_initializer(*operand) && !ctx.out.is_input(*operand) {
            let (node, name) = (ctx.node_at(step), ctx.out.name(*operand));
            let message = format!("step {step}: `{node}` copies `{name}`, but is in no row of `fetches`");
            findings.add(Kind::Fetch, At::node(step, node).of(name), message);
        }
    }
}

/// Reports nodes that read a constant of a farther space, or a view of it, without a fetch.
fn directly(ctx: &Ctx<'_>, homes: &BTreeMap<&str, &str>, steps: &BTreeSet<usize>, findings: &mut Findings) {
    for name in homes.keys() {
        let Some(index) = ctx.named.get(name) else { continue };
        for value in ctx.views_of(*index).iter().filter_map(|member| ctx.value_of[*member]) {
            if let Some(step) = ctx.readers[value].iter().find(|step| !steps.contains(step)) {
                let node = ctx.node_at(*step);
                let message = format!("step {step}: `{node}` reads `{name}`, which lies in a farther space");
                findings.add(Kind::Fetch, At::node(*step, node).of(name), message);
            }
        }
    }
}

/// Checks that the arena and the constants in the near space fit the budget and the space's capacity
/// together. Constants count if some are fetched, or if the options name the space of those without room.
fn room(ctx: &Ctx<'_>, homes: &BTreeMap<&str, &str>, findings: &mut Findings) {
    let first = || ctx.layout.target.spaces.first().filter(|_| ctx.layout.options.contains_key(FARTHER));
    let near = ctx.layout.fetches.first().map(|row| row.to.as_str()).or_else(|| Some(first()?.name.as_str()));
    let Some(near) = near else { return };
    let tensors = ctx.layout.tensors.iter();
    let stays = tensors
        .filter(|tensor| tensor.class == Class::Constant && tensor.alias.is_none() && !homes.contains_key(tensor.name.as_str()));
    let kept = stays.fold(0u64, |sum, tensor| sum.saturating_add(tensor.bytes));
    let arena = ctx.layout.arenas.iter().find(|arena| arena.space == near).map_or(0, |arena| arena.size);
    let capacity = ctx.layout.target.spaces.iter().find(|space| space.name == near).and_then(|space| space.capacity);
    let limit = ctx.layout.budget.get(near).copied().into_iter().chain(capacity).min();
    if let Some(limit) = limit.filter(|limit| arena.saturating_add(kept) > *limit) {
        let (arena, kept, limit) = (exact(arena), exact(kept), exact(limit));
        let message = format!("`{near}` holds an arena of {arena} and constants of {kept}, together more than {limit}");
        findings.add(Kind::Fetch, At::default(), message);
    }
}
