//! Channels that are zero, or that no reader counts, are cut out of the weights around them.
//!
//! Pruning sets whole columns, rows and filters of weights to zero. A channel of an activation goes if
//! every product that reads it either finds zeros there or multiplies it by zeros. The results of the
//! products do not change, but for infinities and NaN (times zero they are NaN) and for the order in
//! which a kernel adds: this rule is never exact.

mod region;
mod slices;

use std::collections::BTreeMap;

use memc_edit::{constant, int};
use memc_ir::{ConstData, Dim, Node, SecondaryMap, Use, Value, ValueType};
use memc_ops::{AtZero, lookup};

use super::Walk;
use region::{Kind, Member, Part, Region};
use slices::{are_zero, kept_slices};

/// Cuts channels out of all regions of the main graph. `stays` marks nodes that must not change.
pub(super) fn cut(walk: &mut Walk<'_, '_, '_>, nodes: &[Node], stays: &SecondaryMap<Node, bool>) {
    let mut seen: SecondaryMap<Value, bool> = SecondaryMap::default();
    for node in nodes {
        if walk.maker.is_erased(*node) {
            continue;
        }
        let Some(result) = region::source(walk, *node).filter(|result| !seen[*result]) else { continue };
        let Some(found) = region::around(walk, result, &mut seen, stays) else { continue };
        if let Some(kept) = kept_channels(walk, &found) {
            apply(walk, &found, &kept);
        }
    }
}

/// Returns the channels of a region that stay, in order; `None` if all do, or if weights cannot be read.
fn kept_channels(walk: &Walk<'_, '_, '_>, region: &Region) -> Option<Vec<usize>> {
    let mut zero: BTreeMap<Value, Vec<bool>> = BTreeMap::new();
    let mut goes = vec![true; region.channels];
    for (node, member) in &region.members {
        let own = zeros_of(walk, region, *node, member, &zero)?;
        if member.kind == Kind::Reader {
            goes.iter_mut().zip(own).for_each(|(goes, zero)| *goes &= zero);
            if !goes.contains(&true) {
                return None;
            }
        } else if let Some(result) = walk.maker.only_result(*node) {
            zero.insert(result, own);
        }
    }
    let mut kept: Vec<usize> = (0..region.channels).filter(|channel| !goes[*channel]).collect();
    // Images in blocks of channels take whole blocks, and an empty array has no kernel in some runtimes.
    let block = walk.ctx.options.rewrite.nchwc.map_or(1, |block| (block as usize).max(1));
    let least = kept.len().max(1).next_multiple_of(block).min(region.channels);
    let mut spare = (0..region.channels).filter(|channel| goes[*channel]);
    kept.extend(spare.by_ref().take(least - kept.len().min(least)));
    kept.sort_unstable();
    (kept.len() < region.channels).then_some(kept)
}

/// Returns, for each channel, whether a node's result is zero there. For a reader: whether the channel adds
/// nothing to its result.
fn zeros_of(
    walk: &Walk<'_, '_, '_>,
    region: &Region,
    node: Node,
    member: &Member,
    zero: &BTreeMap<Value, Vec<bool>>,
) -> Option<Vec<bool>> {
    let none = || vec![false; region.channels];
    let mut operands: Vec<Vec<bool>> = Vec::new();
    for part in &member.parts {
        operands.push(zeros_of_constant(walk, region, node, *part)?);
    }
    let weights = operands.len();
    for value in walk.module().node(node).operands().filter(|value| region.axes.contains_key(value)) {
        operands.push(zero.get(&value).cloned().unwrap_or_else(none));
    }
    let all = |vectors: &[Vec<bool>]| -> Vec<bool> {
        (0..region.channels).map(|channel| vectors.iter().all(|vector| vector[channel])).collect()
    };
    let any = |vectors: &[Vec<bool>]| -> Vec<bool> {
        (0..region.channels).map(|channel| vectors.iter().any(|vector| vector[channel])).collect()
    };
    Some(match member.kind {
        Kind::Source | Kind::Channels => all(&operands),
        Kind::Reader => any(&operands),
        Kind::Depthwise => {
            // The filter and the image are factors, the bias is added.
            let factors = any(&[operands.first()?.clone(), operands.get(weights)?.clone()]);
            let bias = operands.get(1..weights).filter(|bias| !bias.is_empty());
            bias.map_or_else(|| factors.clone(), |bias| all(&[all(bias), factors.clone()]))
        }
        Kind::Elements => {
            let algebra = lookup(&walk.module().node(node).operator)?.algebra;
            match algebra {
                Some(algebra) if algebra.absorbs_zero => any(&operands),
                Some(algebra) if algebra.at_zero == AtZero::Zero => all(&operands),
                _ => none(),
            }
        }
    })
}

/// Returns, for each channel, whether a constant operand is zero there. `None` if its bytes cannot be read.
fn zeros_of_constant(walk: &Walk<'_, '_, '_>, region: &Region, node: Node, part: Part) -> Option<Vec<bool>> {
    let (ty, bytes) = walk.constant_bytes(walk.maker.operand(node, part.position)?)?;
    are_zero(&ty, &bytes, part.axis, region.channels)
}

/// Replaces the nodes of a region by nodes over the channels that stay.
fn apply(walk: &mut Walk<'_, '_, '_>, region: &Region, kept: &[usize]) -> Option<()> {
    let constants = cut_constants(walk, region, kept)?;
    let mut values: BTreeMap<Value, Value> = BTreeMap::new();
    for (node, member) in &region.members {
        let data = walk.module().node(*node).clone();
        let position = |position: usize| member.parts.iter().find(|part| part.position == position);
        let operand = |(at, value): (usize, &Option<Value>)| {
            let value = (*value)?;
            let cut = position(at).and_then(|part| constants.get(&(value, part.axis?)));
            Some(cut.or(values.get(&value)).copied().unwrap_or(value))
        };
        let inputs: Vec<Option<Value>> = data.inputs.iter().enumerate().map(operand).collect();
        if member.kind == Kind::Reader {
            walk.maker.set_operands(*node, inputs);
            walk.rounds("zero-channels", *node);
            continue;
        }
        let Some(result) = walk.maker.only_result(*node) else { continue };
        let mut attributes = data.attributes;
        if member.kind == Kind::Depthwise {
            attributes.retain(|(name, _)| name != "group");
            attributes.extend(int("group", kept.len() as i64));
        }
        let ty = narrowed(walk.module().ty(result), region.axes.get(&result).copied(), kept.len());
        let name = walk.maker.name_after(result, "cut");
        let new = walk.maker.node(data.operator, inputs, attributes).named(data.name);
        let made = walk.maker.insert(Some(*node), new, &[Some((name, ty))]);
        if let Some(made) = walk.maker.result(made) {
            values.insert(result, made);
        }
    }
    for (node, _) in region.members.iter().rev().filter(|(_, member)| member.kind != Kind::Reader) {
        walk.maker.erase(*node);
    }
    Some(())
}

/// Returns a type with another extent along an axis.
fn narrowed(ty: &ValueType, axis: Option<usize>, channels: usize) -> ValueType {
    let mut ty = ty.clone();
    if let (ValueType::Tensor(tensor), Some(axis)) = (&mut ty, axis)
        && let Some(extent) = tensor.shape.as_mut().and_then(|shape| shape.get_mut(axis))
    {
        *extent = Dim::Known(channels as u64);
    }
    ty
}

/// Returns the constants of a region without the channels that go, by original and axis. `None` if the
/// originals stay for other readers and are large, or if the allowance for new weights is spent.
fn cut_constants(
    walk: &mut Walk<'_, '_, '_>,
    region: &Region,
    kept: &[usize],
) -> Option<BTreeMap<(Value, usize), Value>> {
    let mut made: Vec<((Value, usize), ConstData)> = Vec::new();
    let parts =
        region.members.iter().flat_map(|(node, member)| member.parts.iter().map(move |part| (*node, *part)));
    for (node, part) in parts {
        let (Some(value), Some(axis)) = (walk.maker.operand(node, part.position), part.axis) else {
            continue;
        };
        if made.iter().any(|(known, _)| *known == (value, axis)) {
            continue;
        }
        let (ty, bytes) = walk.constant_bytes(value)?;
        let is_here = |site: &Use| matches!(site, Use::Operand(reader, _) if region.has(*reader));
        let goes = walk.maker.uses(value).iter().all(is_here)
            || bytes.len() as u64 <= walk.ctx.options.max_fold_bytes.0;
        let (ty, raw) = kept_slices(&ty, &bytes, axis, kept)?;
        if !goes || !walk.affordable(raw.len() as u64) {
            return None;
        }
        made.push(((value, axis), constant(ty, raw)));
    }
    let mut values = BTreeMap::new();
    for ((value, axis), constant) in made {
        values.insert((value, axis), walk.initializer(&walk.maker.hint(value, "cut"), constant));
    }
    Some(values)
}
