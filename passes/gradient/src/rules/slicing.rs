//! Operators that join and cut along axes: Concat, Split, Slice, Pad.

use memc_edit::int;
use memc_ir::{Dim, DimExpr};
use memc_ops::normalize_axis;

use super::arithmetic::known_ints;
use super::shape::axis_of;
use super::{CodeRule, Gradients, Site};
use crate::emit::{Cut, Emit};
use crate::error::Refusal;

pub(super) const RULES: &[CodeRule] = &[
    CodeRule::of("Concat", concat).by_results(),
    CodeRule::of("Pad", pad).by_results(),
    CodeRule::of("Slice", slice).by_results(),
    CodeRule::of("Split", split).by_results(),
];

fn concat(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let gradient = site.gradient()?;
    let axis = axis_of(site, 0, emit.rank(gradient)?)?;
    let mut lengths = Vec::new();
    for operand in site.data.operands() {
        lengths.push(
            emit.dims(operand)?
                .get(axis)
                .cloned()
                .ok_or_else(|| Refusal::form("its axis is out of range"))?,
        );
    }
    if lengths.len() == 1 {
        return Site::only(gradient);
    }
    let sizes = emit.vector(&lengths);
    let parts = emit.node("Split", &[Some(gradient), Some(sizes)], int("axis", axis as i64), lengths.len());
    Ok(parts.into_iter().enumerate().map(|(position, part)| site.wants(position).then_some(part)).collect())
}

fn split(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let x = site.operand(0)?;
    let axis = axis_of(site, 0, emit.rank(x)?)?;
    let element = emit.element(x);
    let mut parts = Vec::new();
    for (result, gradient) in site.data.outputs.iter().zip(&site.gradients) {
        match (result, gradient) {
            (_, Some(gradient)) => parts.push(*gradient),
            (Some(result), None) => {
                let dims = emit.dims(*result)?;
                parts.push(emit.zeros(&dims, element));
            }
            (None, None) => return Err(Refusal::form("a result is left out")),
        }
    }
    Site::only(emit.op_with("Concat", &parts, int("axis", axis as i64)))
}

/// Zeros around the gradient, and between its elements if the slice has steps.
fn slice(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    let x = site.operand(0)?;
    let dims = emit.dims(x)?;
    let starts = known_ints(emit, site, 1, "starts")?;
    let axes = match site.operand_or_none(3) {
        Some(_) => known_ints(emit, site, 3, "axes")?,
        None => (0..starts.len() as i64).collect(),
    };
    let steps = match site.operand_or_none(4) {
        Some(_) => known_ints(emit, site, 4, "steps")?,
        None => vec![1; starts.len()],
    };
    let mut gradient = site.gradient()?;
    let cut = emit.dims(gradient)?;
    let (mut before, mut after) = (vec![Dim::Known(0); dims.len()], vec![Dim::Known(0); dims.len()]);
    let mut crops = Vec::new();
    for ((start, axis), step) in starts.iter().zip(&axes).zip(&steps) {
        let axis =
            normalize_axis(*axis, dims.len()).ok_or_else(|| Refusal::form("an axis is out of range"))?;
        if cut[axis].same(&dims[axis]) && *step == 1 {
            continue;
        }
        let (dim, length) = (&dims[axis], &cut[axis]);
        if *step == 1 {
            let first = first_of(*start, dim)?;
            after[axis] = dim.sub(&first).sub(length);
            before[axis] = first;
            continue;
        }
        let (Some(extent), Some(length)) = (dim.known(), length.known()) else {
            return Err(Refusal::form("a slice with steps along an axis of unknown extent"));
        };
        let (extent, length) =
            (i64::try_from(extent).unwrap_or(i64::MAX), i64::try_from(length).unwrap_or(i64::MAX));
        let first =
            if *start < 0 { start.saturating_add(extent) } else { *start }.clamp(0, (extent - 1).max(0));
        let stride = step.unsigned_abs();
        // The first position in ascending order.
        let lowest = if *step > 0 { first } else { first - (length - 1) * stride as i64 };
        if *step < 0 {
            gradient = emit.cut(gradient, &[Cut::mirrored(axis)]);
        }
        if stride > 1 {
            gradient = spread(emit, gradient, axis, stride)?;
        }
        before[axis] = Dim::Known(lowest.unsigned_abs());
        // The last element brings its gap along, which may reach over the end.
        let rest = extent - lowest - length * stride as i64;
        match u64::try_from(rest) {
            Ok(rest) => after[axis] = Dim::Known(rest),
            Err(_) => crops.push(Cut { axis, start: 0, end: length * stride as i64 + rest, step: 1 }),
        }
    }
    if !crops.is_empty() {
        gradient = emit.cut(gradient, &crops);
    }
    before.extend(after);
    if before.iter().all(|pad| pad.known() == Some(0)) {
        return Site::only(emit.reshape(gradient, &dims));
    }
    let pads = emit.vector(&before);
    let padded = emit.op("Pad", &[gradient, pads]);
    // The extents of the sum of borders and slice are those of the operand.
    Site::only(emit.stated(padded, &dims))
}

/// Returns the first position of a slice.
fn first_of(start: i64, dim: &Dim) -> Result<Dim, Refusal> {
    let unknown = || Refusal::form("a slice that begins at a position only known at run time");
    match (u64::try_from(start), dim.known()) {
        (Ok(start), Some(extent)) => Ok(Dim::Known(start.min(extent))),
        (Ok(start), None) => Ok(Dim::Known(start)),
        (Err(_), Some(extent)) => Ok(Dim::Known(extent.saturating_sub(start.unsigned_abs()))),
        (Err(_), None) => {
            let back = dim.expr().and_then(|extent| extent.add(&DimExpr::constant(start)));
            back.map(Dim::from_expr).ok_or_else(unknown)
        }
    }
}

/// Inserts `stride - 1` zeros after each position of an axis.
fn spread(
    emit: &mut Emit<'_>,
    gradient: memc_ir::Value,
    axis: usize,
    stride: u64,
) -> Result<memc_ir::Value, Refusal> {
    let mut dims = emit.dims(gradient)?;
    let apart = emit.unsqueeze(gradient, &[axis + 1]);
    let rank = dims.len() + 1;
    let mut pads = vec![0; 2 * rank];
    pads[rank + axis + 1] = stride as i64 - 1;
    let padded = emit.pad(apart, &pads);
    dims[axis] = dims[axis].mul(&Dim::Known(stride));
    Ok(emit.reshape(padded, &dims))
}

fn pad(emit: &mut Emit<'_>, site: &Site) -> Result<Gradients, Refusal> {
    if site.data.string("mode").is_some_and(|mode| mode != "constant") {
        return Err(Refusal::form("only constant borders have a gradient"));
    }
    let dims = emit.dims(site.operand(0)?)?;
    let pads = known_ints(emit, site, 1, "borders")?;
    let axes = match site.operand_or_none(3) {
        Some(_) => known_ints(emit, site, 3, "axes")?,
        None => (0..dims.len() as i64).collect(),
    };
    let mut whole = vec![0; 2 * dims.len()];
    for (at, axis) in axes.iter().enumerate() {
        let axis =
            normalize_axis(*axis, dims.len()).ok_or_else(|| Refusal::form("an axis is out of range"))?;
        let pair = pads
            .get(at)
            .zip(pads.get(at + axes.len()))
            .ok_or_else(|| Refusal::form("a border is missing"))?;
        (whole[axis], whole[axis + dims.len()]) = (-pair.0, -pair.1);
    }
    let cropped = emit.pad(site.gradient()?, &whole);
    Site::only(emit.stated(cropped, &dims))
}
