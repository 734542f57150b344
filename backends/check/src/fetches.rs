//! Checks fetched constants: copies from a farther space, of the whole constant, of a part or of rows, made
//! right before their readers; the constant keeps its place.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use memc_ir::NodeData;
use memc_layout::{Class, Fetch, FetchedPart, FetchedRows, Tensor};

use crate::codes::Kind;
use crate::ctx::Ctx;
use crate::findings::{At, Findings, exact};
use crate::numbering::sliced;
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
            let message = format!(
                "`{}` is not a valid fetch of `{}` at step {}: {why}",
                row.result, row.tensor, row.step
            );
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
    let step = usize::try_from(row.step)
        .ok()
        .filter(|step| *step < ctx.steps())
        .ok_or("the schedule has no step of this number")?;
    let row_of = ctx.order[step];
    let data = ctx.out.module.node(ctx.out.rows[row_of].node);
    let [Some(result)] = &data.outputs[..] else { return Err("its node has other results") };
    let operand = data.inputs.first().copied().flatten().ok_or("its node has no operand")?;
    if ctx.out.name(operand) != row.tensor || ctx.out.name(*result) != row.result {
        return Err("its node has other operands or results");
    }
    if data.inputs.iter().filter(|other| **other == Some(operand)).count() > 1 {
        return Err("its node reads the constant in another way, too");
    }
    let entries = ctx.tensor_of[operand].zip(ctx.tensor_of[*result]).ok_or("one of them has no entry")?;
    let (constant, near) = (ctx.tensor(entries.0), ctx.tensor(entries.1));
    if constant.class != Class::Constant || ctx.out.producer[operand].is_some() || constant.offset.is_some() {
        return Err("the constant is not an initializer that the caller holds");
    }
    let bytes = match (&row.part, &row.rows) {
        (None, None) => whole(data, constant)?,
        (Some(stated), None) => part(ctx, row_of, [constant, near], stated)?,
        (None, Some(stated)) => rows(ctx, data, constant, stated)?,
        (Some(_), Some(_)) => return Err("it states both a part and rows"),
    };
    let is_placed = near.space.as_deref() == Some(&row.to) && near.offset.is_some() && near.alias.is_none();
    // Rows may be a result that the caller holds.
    if !is_placed && (row.rows.is_none() || near.class != Class::Output) {
        return Err("the copy has no place of its own in the near space");
    }
    if bytes != row.bytes || near.bytes != row.bytes {
        return Err("the copy has another size");
    }
    Ok(step)
}

/// Returns the size of a copy of a whole constant.
fn whole(data: &NodeData, constant: &Tensor) -> Result<u64, &'static str> {
    match (&data.inputs[..], is_onnx(data, "Identity")) {
        ([Some(_)], true) => Ok(constant.bytes),
        _ => Err("its node is not an Identity"),
    }
}

/// Returns the size of a copy of a part: the node is a Slice of the stated positions of one axis, and of all
/// positions of the other axes.
fn part(
    ctx: &Ctx<'_>,
    row: usize,
    [constant, near]: [&Tensor; 2],
    stated: &FetchedPart,
) -> Result<u64, &'static str> {
    let data = ctx.out.module.node(ctx.out.rows[row].node);
    if !is_onnx(data, "Slice") {
        return Err("its node is not a Slice");
    }
    let Some(place) = sliced(ctx.out, row) else {
        return Err("the positions of its Slice are unknown, or have steps");
    };
    let axis =
        usize::try_from(stated.axis).ok().filter(|axis| *axis < place.len()).ok_or("it has no such axis")?;
    let is_stated = |(own, (range, extent)): (usize, (&Range<u64>, &u64))| match own == axis {
        true => *range == (stated.start..stated.end),
        false => *range == (0..*extent),
    };
    if stated.start >= stated.end || !place.iter().zip(&constant.shape).enumerate().all(is_stated) {
        return Err("its Slice has other positions");
    }
    let mut shape = constant.shape.clone();
    shape[axis] = stated.end - stated.start;
    if near.shape != shape || near.dtype != constant.dtype {
        return Err("the copy has another type");
    }
    sized(constant, stated.end - stated.start, constant.shape[axis])
}

/// Returns the size of a copy of rows: the node is a Gather of the stated number of positions of axis 0.
fn rows(
    ctx: &Ctx<'_>,
    data: &NodeData,
    constant: &Tensor,
    stated: &FetchedRows,
) -> Result<u64, &'static str> {
    let ([_, Some(indices)], true) = (&data.inputs[..], is_onnx(data, "Gather")) else {
        return Err("its node is not a Gather");
    };
    let rank = constant.shape.len() as i64;
    if ![0, -rank].contains(&data.int("axis", 0)) {
        return Err("its Gather takes positions of another axis than the first");
    }
    if ctx.out.name(*indices) != stated.indices {
        return Err("its Gather reads other indices");
    }
    let known = ctx.out.known[*indices].as_ref().ok_or("the number of indices is unknown")?;
    if known.dims.iter().try_fold(1u64, |count, extent| count.checked_mul(*extent)) != Some(stated.count) {
        return Err("it states another number of rows");
    }
    sized(constant, stated.count, *constant.shape.first().ok_or("a number has no rows")?)
}

/// Returns the size of `count` of the `extent` equal shares of a constant.
fn sized(constant: &Tensor, count: u64, extent: u64) -> Result<u64, &'static str> {
    let share = constant.bytes.checked_div(extent).filter(|share| share * extent == constant.bytes);
    share.and_then(|share| share.checked_mul(count)).ok_or("the shares of the constant are no whole bytes")
}

/// Reports copies of constants that the plan added, but that are no fetches: only then is the constant
/// elsewhere.
fn missing(ctx: &Ctx<'_>, steps: &BTreeSet<usize>, findings: &mut Findings) {
    let given: BTreeSet<&str> = (0..ctx.given.rows.len()).map(|row| ctx.given.node_name(row)).collect();
    for step in (0..ctx.steps()).filter(|step| !steps.contains(step) && !given.contains(ctx.node_at(*step))) {
        let data = ctx.out.module.node(ctx.out.rows[ctx.order[step]].node);
        let ([Some(operand)], [Some(result)], true) =
            (&data.inputs[..], &data.outputs[..], is_onnx(data, "Identity"))
        else {
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
    let stays = tensors.filter(|tensor| {
        tensor.class == Class::Constant && tensor.alias.is_none() && !homes.contains_key(tensor.name.as_str())
    });
    let kept = stays.fold(0u64, |sum, tensor| sum.saturating_add(tensor.bytes));
    let arena = ctx.layout.arenas.iter().find(|arena| arena.space == near).map_or(0, |arena| arena.size);
    let capacity =
        ctx.layout.target.spaces.iter().find(|space| space.name == near).and_then(|space| space.capacity);
    let limit = ctx.layout.budget.get(near).copied().into_iter().chain(capacity).min();
    if let Some(limit) = limit.filter(|limit| arena.saturating_add(kept) > *limit) {
        let (arena, kept, limit) = (exact(arena), exact(kept), exact(limit));
        let message =
            format!("`{near}` holds an arena of {arena} and constants of {kept}, together more than {limit}");
        findings.add(Kind::Fetch, At::default(), message);
    }
}
