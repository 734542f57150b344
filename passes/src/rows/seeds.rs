//! Nodes that only move positions along an axis: cuts, picks, joins and pads.

use memc_ir::{Dim, DimExpr, Node, Value};
use memc_ops::{Stretch, normalize_axis};

use super::{Analysis, How, Need, Step, Wants, is_all};

/// Returns how a node makes the needed positions of its results: the outer `None` if another rule decides,
/// the inner one if it reads whole operands.
#[allow(clippy::option_option)]
pub(super) fn step(of: &Analysis<'_>, node: Node) -> Option<Option<Step>> {
    let data = of.module.node(node);
    if !data.operator.domain.is_empty() {
        return None;
    }
    let found = match &*data.operator.name {
        "Slice" => sliced(of, node),
        "Split" => split(of, node),
        "Gather" => return gathered(of, node).map(Some),
        "GatherND" => picked(of, node),
        "Concat" => return concatenated(of, node).map(Some),
        "Pad" => padded(of, node),
        _ => return None,
    };
    Some(found)
}

/// Returns the positions of a result that are needed; all if the value is needed whole or not at all.
fn wants(of: &Analysis<'_>, value: Value) -> Option<Wants> {
    let rank = of.dims(value)?.len();
    Some(match &of.needs[value] {
        Need::Part(wants) => wants.clone(),
        _ => vec![None; rank],
    })
}

/// Returns positions that are counted from the first one of a stretch, counted from zero.
fn within(base: &Stretch, own: Option<&Stretch>) -> Stretch {
    own.map_or_else(
        || base.clone(),
        |own| Stretch { start: base.start.add(&own.start), end: base.start.add(&own.end) },
    )
}

/// Returns the stretch of `count` positions from a position on, which counts from the end if it is
/// negative; `None` if it might be outside of an axis.
fn stretch(of: &Analysis<'_>, from: &DimExpr, extent: &Dim, count: &Dim) -> Option<Stretch> {
    let ranges = &of.module.domain().ranges;
    let zero = DimExpr::constant(0);
    let start = match (from.as_constant(), extent.known()) {
        (Some(from), Some(extent)) => {
            let extent = i64::try_from(extent).ok()?;
            let from = if from < 0 { from.checked_add(extent)? } else { from };
            DimExpr::constant(from.clamp(0, extent))
        }
        (Some(from), None) if from < 0 => extent.expr()?.add(&DimExpr::constant(from))?,
        _ => from.clone(),
    };
    if !start.at_least(&zero, ranges) {
        return None;
    }
    let start = Dim::from_expr(start);
    let end = start.add(count);
    let found = Stretch { start, end }.simplified(ranges);
    found.has_some(ranges).then_some(found)
}

fn sliced(of: &Analysis<'_>, node: Node) -> Option<Step> {
    let data = of.module.node(node);
    let (source, result) =
        (data.inputs.first().copied().flatten()?, data.outputs.first().copied().flatten()?);
    let (from, to) = (of.dims(source)?, of.dims(result)?);
    let stated = |name: &str, operand: usize| match data.inputs.get(operand).copied().flatten() {
        Some(value) => of.integers(value).map(Some),
        None => Some(
            data.ints(name).map(|numbers| numbers.iter().map(|number| DimExpr::constant(*number)).collect()),
        ),
    };
    let starts: Vec<DimExpr> = stated("starts", 1)??;
    let axes: Vec<usize> = match stated("axes", 3)? {
        Some(axes) => {
            axes.iter().map(|axis| normalize_axis(axis.as_constant()?, from.len())).collect::<Option<_>>()?
        }
        None => (0..starts.len()).collect(),
    };
    let steps = stated("steps", 4)?.unwrap_or_default();
    (steps.iter().all(|step| step.as_constant() == Some(1)) && axes.len() == starts.len()).then_some(())?;
    let mut base: Wants = vec![None; from.len()];
    for (axis, start) in axes.iter().zip(&starts) {
        base[*axis] = Some(stretch(of, start, &from[*axis], &to[*axis])?);
    }
    let made = wants(of, result)?;
    let cut = |(base, own): (&Option<Stretch>, &Option<Stretch>)| match base {
        Some(base) => Some(within(base, own.as_ref())),
        None => own.clone(),
    };
    let reads = of.without_all(source, base.iter().zip(&made).map(cut).collect());
    let mut all = vec![reads.clone()];
    all.resize(data.inputs.len(), Vec::new());
    Some(Step { made: vec![made], reads: all, how: How::Cut(vec![reads]) })
}

fn split(of: &Analysis<'_>, node: Node) -> Option<Step> {
    let data = of.module.node(node);
    let source = data.inputs.first().copied().flatten()?;
    let axis = normalize_axis(data.int("axis", 0), of.dims(source)?.len())?;
    let ranges = &of.module.domain().ranges;
    let (mut start, mut made, mut cuts) = (Dim::Known(0), Vec::new(), Vec::new());
    let mut hull: Option<Wants> = None;
    for result in &data.outputs {
        let result = (*result)?;
        let end = start.add(of.dims(result)?.get(axis)?).simplified(ranges);
        let own = wants(of, result)?;
        let mut cut = own.clone();
        cut[axis] = Some(within(&Stretch { start, end: end.clone() }, own[axis].as_ref()));
        if of.needs[result] != Need::Unread {
            let both = |(a, b): (&Option<Stretch>, &Option<Stretch>)| a.as_ref()?.hull(b.as_ref()?, ranges);
            hull = Some(hull.map_or_else(|| cut.clone(), |known| known.iter().zip(&cut).map(both).collect()));
        }
        made.push(own);
        cuts.push(cut);
        start = end;
    }
    let reads = of.without_all(source, hull?);
    (!is_all(&reads)).then_some(())?;
    let mut all = vec![reads];
    all.resize(data.inputs.len(), Vec::new());
    Some(Step { made, reads: all, how: How::Cut(cuts) })
}

/// Returns the smallest stretch that holds all positions, which may count from the end.
fn hull(of: &Analysis<'_>, positions: &[DimExpr], extent: &Dim) -> Option<(Stretch, Vec<i64>)> {
    if let [one] = positions {
        return Some((stretch(of, one, extent, &Dim::Known(1))?, vec![0]));
    }
    let count = i64::try_from(extent.known()?).ok()?;
    let at = |position: &DimExpr| {
        let position = position.as_constant()?;
        let position = if position < 0 { position + count } else { position };
        (0..count).contains(&position).then_some(position)
    };
    let all: Vec<i64> = positions.iter().map(at).collect::<Option<_>>()?;
    let (least, most) = (*all.iter().min()?, *all.iter().max()?);
    let own = u64::try_from(least).ok()?..u64::try_from(most).ok()? + 1;
    Some((own.into(), all.into_iter().map(|position| position - least).collect()))
}

/// Handles lookups by known indices.
fn gathered(of: &Analysis<'_>, node: Node) -> Option<Step> {
    let data = of.module.node(node);
    let [Some(source), Some(indices)] = data.inputs[..] else { return None };
    let result = data.outputs.first().copied().flatten()?;
    let (from, own) = (of.dims(source)?, of.dims(indices)?);
    let axis = normalize_axis(data.int("axis", 0), from.len())?;
    let (positions, others) = hull(of, &of.integers(indices)?, &from[axis])?;
    let wanted = wants(of, result)?;
    let mut made = wanted.clone();
    made.get_mut(axis..axis + own.len())?.fill(None);
    let mut reads: Wants = made[..axis].to_vec();
    reads.push(Some(positions));
    reads.extend_from_slice(&made[axis + own.len()..]);
    let reads = of.without_all(source, reads);
    let counts = |(index, other): (usize, &i64)| i64::try_from(index) == Ok(*other);
    let how = match own {
        [] => How::Shape,
        [_] if others.iter().enumerate().all(counts) => How::Cut(vec![reads.clone()]),
        _ => How::Integers(own.iter().map(Dim::known).collect::<Option<_>>()?, others),
    };
    Some(Step { made: vec![made], reads: vec![reads, Vec::new()], how })
}

/// Handles lookups by known tuples of indices.
fn picked(of: &Analysis<'_>, node: Node) -> Option<Step> {
    let data = of.module.node(node);
    let [Some(source), Some(indices)] = data.inputs[..] else { return None };
    let result = data.outputs.first().copied().flatten()?;
    let (from, own) = (of.dims(source)?, of.dims(indices)?);
    let own: Vec<u64> = own.iter().map(Dim::known).collect::<Option<_>>()?;
    let count = usize::try_from(*own.last()?).ok()?;
    (data.int("batch_dims", 0) == 0 && count > 0 && count <= from.len()).then_some(())?;
    let all = of.integers(indices)?;
    let mut reads: Wants = Vec::new();
    let mut moved = vec![0; all.len()];
    for (axis, extent) in from.iter().enumerate().take(count) {
        let column: Vec<DimExpr> = all.iter().skip(axis).step_by(count).cloned().collect();
        let (positions, others) = hull(of, &column, extent)?;
        moved.iter_mut().skip(axis).step_by(count).zip(others).for_each(|(to, from)| *to = from);
        reads.push(Some(positions));
    }
    let mut made = wants(of, result)?;
    made.get_mut(..own.len() - 1)?.fill(None);
    reads.extend_from_slice(&made[own.len() - 1..]);
    let reads = of.without_all(source, reads);
    Some(Step { made: vec![made], reads: vec![reads, Vec::new()], how: How::Integers(own, moved) })
}

/// Handles joins of which only some positions along the joined axis are needed.
fn concatenated(of: &Analysis<'_>, node: Node) -> Option<Step> {
    let data = of.module.node(node);
    let result = data.outputs.first().copied().flatten()?;
    let axis = normalize_axis(data.int("axis", 1), of.dims(result)?.len())?;
    let ranges = &of.module.domain().ranges;
    let wanted = wants(of, result)?;
    let positions = wanted[axis].clone()?;
    let (mut start, mut kept, mut reads) = (Dim::Known(0), Vec::new(), Vec::new());
    for (index, operand) in data.inputs.iter().enumerate() {
        let operand = (*operand)?;
        let end = start.add(of.dims(operand)?.get(axis)?).simplified(ranges);
        let held = Stretch { start: start.clone(), end: end.clone() };
        reads.push(match held.common(&positions, ranges)? {
            None => Vec::new(),
            Some(own) => {
                kept.push(index);
                let mut own_wants = wanted.clone();
                own_wants[axis] = Some(own.counted_from(&start).simplified(ranges));
                of.without_all(operand, own_wants)
            }
        });
        start = end;
    }
    (!kept.is_empty()).then(|| Step { made: vec![wanted], reads, how: How::Some(kept) })
}

/// Handles pads of which only some positions are needed.
fn padded(of: &Analysis<'_>, node: Node) -> Option<Step> {
    let data = of.module.node(node);
    let (source, result) =
        (data.inputs.first().copied().flatten()?, data.outputs.first().copied().flatten()?);
    let from: Vec<u64> = of.dims(source)?.iter().map(Dim::known).collect::<Option<_>>()?;
    let is_moved = data.inputs.get(3).copied().flatten().is_some();
    let pads: Vec<i64> = match data.ints("pads") {
        Some(pads) => pads.to_vec(),
        None => {
            let stated = of.integers(data.inputs.get(1).copied().flatten()?)?;
            stated.iter().map(DimExpr::as_constant).collect::<Option<_>>()?
        }
    };
    let is_constant = data.string("mode").unwrap_or("constant") == "constant";
    (!is_moved && pads.len() == 2 * from.len() && pads.iter().all(|pad| *pad >= 0)).then_some(())?;
    let wanted = wants(of, result)?;
    let (mut made, mut reads, mut left) = (wanted.clone(), wanted.clone(), pads.clone());
    for (axis, want) in wanted.iter().enumerate() {
        let Some(want) = want else { continue };
        let (begin, end) = (pads[axis], pads[axis + from.len()]);
        if begin == 0 && end == 0 {
            continue;
        }
        let (want, extent) = (want.known()?, i64::try_from(from[axis]).ok()?);
        let (start, stop) = (i64::try_from(want.start).ok()? - begin, i64::try_from(want.end).ok()? - begin);
        let own = start.clamp(0, extent)..stop.clamp(0, extent);
        let (before, after) = ((-start).max(0), (stop - extent).max(0));
        if own.is_empty() || (!is_constant && before + after > 0) {
            (made[axis], reads[axis]) = (None, None);
            continue;
        }
        reads[axis] = Some((u64::try_from(own.start).ok()?..u64::try_from(own.end).ok()?).into());
        (left[axis], left[axis + from.len()]) = (before, after);
    }
    (!is_all(&made)).then_some(())?;
    let reads = of.without_all(source, reads);
    let mut all = vec![reads.clone()];
    all.resize(data.inputs.len(), Vec::new());
    let how = if left.iter().all(|pad| *pad == 0) {
        How::Cut(vec![reads])
    } else if data.ints("pads").is_some() {
        How::Node { pads: Some(left), extents: None }
    } else {
        How::Integers(vec![pads.len() as u64], left)
    };
    Some(Step { made: vec![made], reads: all, how })
}
