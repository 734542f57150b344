//! Rules of operators: how a node passes on rows that are not valid.

use memc_ir::{DimExpr, Node, NodeData, Ranges, Value};
use memc_ops::pieces::{Piece, Share, pieces};
use memc_ops::{Typed, normalize_axis};

use super::fill;
use super::flow::Flow;
use super::rows::{Edit, Fill, Pad};
use crate::buffer::CacheError;

/// Rows of the results of a node.
type Rows = Vec<Option<Pad>>;

/// Returns the rows of the results of a node with a padded operand, or with a number of rows among its
/// operands; notes the changes that the node needs.
pub(super) fn apply(flow: &mut Flow<'_>, node: Node) -> Result<Rows, CacheError> {
    let data = flow.module().node(node);
    let first = data.inputs.first().copied().flatten();
    let is_onnx = data.operator.domain.is_empty();
    let pad = flow.pad(first);
    // The first operand of these operators is data; `usual` handles all operands.
    if let Some(number) = flow.number(first).filter(|_| is_onnx && READS_DATA.contains(&&*data.operator.name))
    {
        flow.edits.push(Edit::Count { node, position: 0, number });
    }
    match &*data.operator.name {
        "Softmax" | "LogSoftmax" if is_onnx && pad.is_some() => softmax(flow, node),
        "Range" if is_onnx => range(flow, node),
        "ConstantOfShape" if is_onnx && !flow.is_moved(first) => made(flow, node, Fill::Full),
        "Expand" if is_onnx && pad.is_none() && grows(flow, data).is_some() => expand(flow, node),
        "Flatten" | "Identity" | "Reshape" | "Squeeze" | "Unsqueeze" if is_onnx && pad.is_some() => {
            reshaped(flow, node)
        }
        "Slice" if is_onnx => slice(flow, node),
        "Gather" if is_onnx => gather(flow, node),
        "GatherND" if is_onnx => gather_nd(flow, node),
        "Trilu" if is_onnx => trilu(flow, node),
        "CumSum" if is_onnx => cumulated(flow, node),
        "Attention" if is_onnx => attention(flow, node),
        _ => usual(flow, node),
    }
}

/// Operators of this page whose first operand is data, not an extent.
const READS_DATA: &[&str] = &["Expand", "Slice", "Gather", "GatherND", "Trilu", "CumSum", "Attention"];

fn operand(data: &NodeData, position: usize) -> Option<Value> {
    data.inputs.get(position).copied().flatten()
}

/// Returns the only axis along which the first result grows.
fn grows(flow: &Flow<'_>, data: &NodeData) -> Option<usize> {
    match flow.lengths.growing_axes(data.results().next()?)?.as_slice() {
        [axis] => Some(*axis),
        _ => None,
    }
}

/// Positions of operands that state extents: they keep the extents of full buffers.
fn states_extents(data: &NodeData, position: usize) -> bool {
    match &*data.operator.name {
        "ConstantOfShape" => position == 0,
        "Reshape" | "Expand" | "Unsqueeze" | "Squeeze" | "Tile" | "Split" => position == 1,
        _ => false,
    }
}

/// Handles a node that treats rows one by one, or that sums over rows which are zeros or meet zeros.
fn usual(flow: &mut Flow<'_>, node: Node) -> Result<Rows, CacheError> {
    let module = flow.module();
    let data = module.node(node);
    for (position, value) in data.inputs.iter().enumerate() {
        if states_extents(data, position) {
            if flow.is_moved(*value) {
                return flow.refuse(node, *value, "extents depend on the number of rows in a way that is not linear");
            }
        } else if let Some(number) = flow.number(*value)
            && !flow
                .edits
                .iter()
                .any(|edit| matches!(edit, Edit::Count { node: own, position: at, .. } if (*own, *at) == (node, position)))
        {
            flow.edits.push(Edit::Count { node, position, number });
        }
    }
    let pads: Rows = data.inputs.iter().map(|value| flow.pad(*value)).collect();
    if pads.iter().all(Option::is_none) {
        return Ok(vec![None; data.outputs.len()]);
    }
    let operands: Vec<Piece> =
        pads.iter().map(|pad| pad.map_or(Piece::Whole, |pad| Piece::Along(pad.axis))).collect();
    // Nodes treat rows alike at all extents if they do so at extents that differ from each other.
    let mut found = flow
        .lengths
        .points()
        .map(|module| pieces(Share { node: Typed::of(module, node), operands: &operands, parts: 1 }));
    let first = found.next().flatten();
    let Some(found) = first.filter(|first| found.all(|other| other.as_ref() == Some(first))) else {
        return flow.refuse(node, padded(data, &pads), "it does not treat rows one by one");
    };
    // A share of a whole operand is legal only if its rows are those of the caches.
    let taken = found.operands.iter().zip(&pads).any(|(piece, pad)| pad.is_none() && *piece != Piece::Whole);
    if (taken && flow.lengths.less.is_some()) || found.divided.is_some() || found.count.is_some() {
        return flow.refuse(node, padded(data, &pads), "another operand has rows of its own");
    }
    let fill = fill::of_results(module, node, &pads);
    let rows: Option<Rows> = (found.results.iter())
        .map(|piece| match piece {
            Piece::Along(axis) => Some(Some(Pad { axis: *axis, fill })),
            Piece::Whole => Some(None),
            Piece::Sum => vanishes(&pads).then_some(None),
            _ => None,
        })
        .collect();
    match rows {
        Some(rows) => Ok(rows),
        None => flow.refuse(node, padded(data, &pads), "it sums over rows that are not valid"),
    }
}

/// Returns the first padded operand.
fn padded(data: &NodeData, pads: &[Option<Pad>]) -> Option<Value> {
    data.inputs.iter().zip(pads).find(|(_, pad)| pad.is_some()).and_then(|(value, _)| *value)
}

/// Whether products over rows that are not valid are zeros: one operand is zero there, and no operand is
/// infinite.
fn vanishes(pads: &[Option<Pad>]) -> bool {
    let mut fills = pads.iter().flatten().map(|pad| pad.fill);
    pads.iter().flatten().any(|pad| pad.fill == Fill::Zero) && fills.all(Fill::is_finite)
}

/// Hides rows that are not valid from a Softmax over rows: they get the probability zero.
fn softmax(flow: &mut Flow<'_>, node: Node) -> Result<Rows, CacheError> {
    let data = flow.module().node(node);
    let value = operand(data, 0);
    let (Some(pad), Some(dims)) = (flow.pad(value), value.and_then(|value| flow.lengths.dims(value))) else {
        return usual(flow, node);
    };
    let is_new = data.operator.version >= 13;
    let axis = normalize_axis(data.int("axis", if is_new { -1 } else { 1 }), dims.len());
    if axis != Some(pad.axis) || (!is_new && pad.axis + 1 != dims.len()) {
        return usual(flow, node);
    }
    let (at, position, axis) = hidden(flow, value, pad.axis).unwrap_or((node, 0, pad.axis));
    flow.edits.push(Edit::Hide { node: at, position, axis });
    let fill = if &*data.operator.name == "Softmax" { Fill::Zero } else { Fill::Any };
    Ok(vec![Some(Pad { axis: pad.axis, fill })])
}

/// Returns the mask that is added to the operand of a Softmax, with its node and its axis of rows, if it
/// is smaller than the operand and can hide rows in its place: the other addend is finite at all rows.
fn hidden(flow: &Flow<'_>, value: Option<Value>, axis: usize) -> Option<(Node, usize, usize)> {
    let module = flow.module();
    let add = module.producer(value?)?;
    let data = module.node(add);
    if &*data.operator.name != "Add" || !data.operator.domain.is_empty() || !fill::is_wide(module, value) {
        return None;
    }
    let whole = flow.lengths.dims(value?)?;
    let ranges = flow.lengths.ranges();
    let (scores, mask) = (0..2).find_map(|position| {
        let (own, all) = (product(&flow.lengths.dims(operand(data, position)?)?)?, product(&whole)?);
        (own != all && all.at_least(&own, ranges)).then_some((1 - position, position))
    })?;
    let dims = flow.lengths.dims(operand(data, mask)?)?;
    let own = (axis + dims.len()).checked_sub(whole.len())?;
    let is_finite = flow.pad(operand(data, scores))?.fill.is_finite();
    (dims[own] == whole[axis] && is_finite).then_some((add, mask, own))
}

/// Returns the product of extents; `None` for too many terms.
fn product(dims: &[DimExpr]) -> Option<DimExpr> {
    dims.iter().try_fold(DimExpr::constant(1), |product, extent| product.mul(extent))
}

/// Other extents, with rows that stay an axis of their own.
fn reshaped(flow: &mut Flow<'_>, node: Node) -> Result<Rows, CacheError> {
    let data = flow.module().node(node);
    let first = operand(data, 0);
    let known = |value: Option<Value>| value.and_then(|value| flow.lengths.dims(value));
    let (Some(pad), Some(from), Some(to)) = (flow.pad(first), known(first), known(data.results().next()))
    else {
        return usual(flow, node);
    };
    let before = |dims: &[DimExpr], axis: usize| product(&dims[..axis]);
    let keeps = |axis: &usize| {
        let own = before(&to, *axis);
        to[*axis] == from[pad.axis] && own.is_some() && own == before(&from, pad.axis)
    };
    match (0..to.len()).find(keeps) {
        Some(axis) => Ok(vec![Some(Pad { axis, ..pad })]),
        None => flow.refuse(node, first, "it joins rows with other axes"),
    }
}

/// Range counts rows from a fixed start, or a fixed number of rows from a start that moves.
fn range(flow: &mut Flow<'_>, node: Node) -> Result<Rows, CacheError> {
    let data = flow.module().node(node);
    let fixed = |position: usize| {
        let value = operand(data, position);
        flow.number(value).is_none() && !flow.is_moved(value) && flow.pad(value).is_none()
    };
    let is_plain = !flow.is_moved(operand(data, 1)) && flow.pad(operand(data, 1)).is_none();
    match grows(flow, data) {
        Some(0) if fixed(0) && fixed(2) && is_plain => Ok(vec![Some(Pad { axis: 0, fill: Fill::Full })]),
        None if fixed(2) && is_plain => moving(flow, node),
        _ => flow.refuse(
            node,
            operand(data, 0),
            "only ranges from a fixed start to the number of rows are followed",
        ),
    }
}

/// Range from a start to a limit that move together.
fn moving(flow: &mut Flow<'_>, node: Node) -> Result<Rows, CacheError> {
    let data = flow.module().node(node);
    let first = operand(data, 0);
    let only = |value: Option<Value>| match flow.lengths.exprs(value?)?.as_slice() {
        [only] => Some(only.clone()),
        _ => None,
    };
    let steps = operand(data, 2).and_then(|value| flow.lengths.integers(value));
    let slope = |value: Option<Value>| flow.number(value).map(|number| number.slope);
    let fixed_length = data
        .results()
        .next()
        .and_then(|value| flow.lengths.growing_axes(value))
        .is_some_and(|axes| axes.is_empty());
    let distance = only(operand(data, 1)).zip(only(first)).and_then(|(limit, start)| limit.sub(&start));
    match (flow.number(first), steps.as_deref(), distance) {
        (Some(start), Some([step]), Some(distance))
            if fixed_length
                && !flow.is_moved(first)
                && slope(operand(data, 1)).as_ref() == Some(&start.slope) =>
        {
            flow.edits.push(Edit::Offset { node, start, distance, step: *step });
            Ok(vec![None])
        }
        _ => flow.refuse(node, first, "only ranges of all rows, or of a fixed number of rows, are followed"),
    }
}

/// A result of full extents whose elements do not depend on its extents.
fn made(flow: &mut Flow<'_>, node: Node, fill: Fill) -> Result<Rows, CacheError> {
    let data = flow.module().node(node);
    Ok(vec![grows(flow, data).map(|axis| Pad { axis, fill })])
}

/// Expand repeats an operand with one row, or without the axis of rows.
fn expand(flow: &mut Flow<'_>, node: Node) -> Result<Rows, CacheError> {
    let data = flow.module().node(node);
    let dims = operand(data, 0).and_then(|value| flow.lengths.dims(value));
    let whole = data.results().next().and_then(|value| flow.lengths.dims(value));
    if let (Some(dims), Some(whole), Some(axis), false) =
        (dims, whole, grows(flow, data), flow.is_moved(operand(data, 1)))
        && (axis + dims.len()).checked_sub(whole.len()).is_none_or(|own| dims[own].as_constant() == Some(1))
    {
        return made(flow, node, Fill::Full);
    }
    flow.refuse(node, operand(data, 0), "it repeats rows")
}

/// Slice keeps the first rows, or takes a fixed number of rows up to the last valid one.
fn slice(flow: &mut Flow<'_>, node: Node) -> Result<Rows, CacheError> {
    let data = flow.module().node(node);
    let first = operand(data, 0);
    let pad = flow.pad(first);
    let (Some(first_value), Some(result)) = (first, data.results().next()) else { return usual(flow, node) };
    let (Some(dims), Some(growing), Some(rank)) = (
        flow.lengths.dims(first_value),
        flow.lengths.growing_axes(result),
        flow.lengths.dims(result).map(|dims| dims.len()),
    ) else {
        return flow.refuse(node, first, "its extents are not known");
    };
    if (1..data.inputs.len()).any(|position| flow.is_moved(operand(data, position))) {
        return flow.refuse(
            node,
            first,
            "its limits depend on the number of rows in a way that is not linear",
        );
    }
    let integers = |position: usize| operand(data, position).and_then(|value| flow.lengths.integers(value));
    let full = |position: usize| operand(data, position).and_then(|value| flow.lengths.exprs(value));
    let less =
        |position: usize| operand(data, position).and_then(|value| flow.lengths.exprs_with_less(value));
    let (Some(starts), Some(ends), Some(low)) = (full(1), full(2), less(1)) else {
        return flow.refuse(node, first, "its limits are not known");
    };
    let axes = integers(3).unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = integers(4).unwrap_or_else(|| vec![1; starts.len()]);
    if ends.len() != starts.len()
        || low.len() != starts.len()
        || [&axes, &steps].iter().any(|list| list.len() != starts.len())
    {
        return flow.refuse(node, first, "its limits are not known");
    }
    let mut rows = pad.map(|pad| pad.axis);
    for (index, axis) in axes.iter().enumerate() {
        let Some(axis) = normalize_axis(*axis, rank) else {
            return flow.refuse(node, first, "an axis is not known");
        };
        let is_padded = pad.is_some_and(|pad| pad.axis == axis);
        let grows = growing.contains(&axis);
        let moves = starts[index] != low[index]
            || flow.number(operand(data, 1)).is_some_and(|number| number.slope.get(index) != Some(&0));
        if !is_padded && !grows && !moves {
            continue;
        }
        let (extent, ranges) = (&dims[axis], flow.lengths.ranges());
        let (Some(start), Some(end)) =
            (place(&starts[index], extent, ranges), place(&ends[index], extent, ranges))
        else {
            return flow.refuse(node, first, "its limits are not known");
        };
        // All rows, or the first ones: the rows keep their places.
        let is_first = start.as_constant() == Some(0);
        let from_end = is_negative(&starts[index], ranges);
        let is_prefix = !moves && !from_end && steps[index] == 1;
        if is_prefix && is_first && (grows || (is_padded && end == *extent && flow.lengths.less.is_none())) {
            rows = Some(axis);
            continue;
        }
        // A fixed number of rows whose place moves with the number of rows.
        let (count, rest) = (end.sub(&start), start.sub(&flow.caches.past));
        let follows = moves || from_end;
        let (Some(count), Some(rest), true) =
            (count, rest, steps[index] == 1 && !grows && follows && flow.lengths.less.is_some())
        else {
            return flow.refuse(node, first, "it takes rows at other places than the first ones");
        };
        if !count.at_least(&DimExpr::constant(0), ranges) {
            return flow.refuse(node, first, "it may take less than no rows");
        }
        let number = super::lengths::Number { slope: vec![1], rest: vec![rest] };
        flow.edits.push(Edit::Window { node, axis, number, rows: count });
        if is_padded {
            rows = None;
        }
    }
    let fill = pad.map_or(Fill::Full, |pad| pad.fill);
    Ok(vec![rows.map(|axis| Pad { axis, fill })])
}

/// Returns the row at which a limit of Slice lies; `None` if it depends on the free dimensions on which side
/// of the first or the last row.
fn place(limit: &DimExpr, extent: &DimExpr, ranges: &Ranges) -> Option<DimExpr> {
    let zero = DimExpr::constant(0);
    let from_start = match is_negative(limit, ranges) {
        true => limit.add(extent)?,
        false if limit.at_least(&zero, ranges) => limit.clone(),
        false => return None,
    };
    if is_negative(&from_start, ranges) {
        Some(zero)
    } else if from_start.at_least(extent, ranges) {
        Some(extent.clone())
    } else if extent.at_least(&from_start, ranges) && from_start.at_least(&zero, ranges) {
        Some(from_start)
    } else {
        None
    }
}

/// Whether a number is below zero for all extents of the free dimensions.
fn is_negative(number: &DimExpr, ranges: &Ranges) -> bool {
    DimExpr::constant(-1).at_least(number, ranges)
}

/// Gather looks up rows by fixed indices, by numbers that depend on the number of rows, by padded indices
/// that are legal at all rows, or by indices that a run states.
fn gather(flow: &mut Flow<'_>, node: Node) -> Result<Rows, CacheError> {
    let data = flow.module().node(node);
    let (table, indices) = (operand(data, 0), operand(data, 1));
    let (pad, by) = (flow.pad(table), flow.pad(indices));
    let Some(rank) = table.and_then(|value| flow.lengths.dims(value)).map(|dims| dims.len()) else {
        return flow.refuse(node, table, "its extents are not known");
    };
    let axis = normalize_axis(data.int("axis", 0), rank);
    if by.is_some_and(|by| !is_legal(flow, indices, by)) {
        return flow.refuse(node, indices, "indices at rows that are not valid may be out of bounds");
    }
    if pad.is_none_or(|pad| Some(pad.axis) != axis) {
        return usual(flow, node);
    }
    if by.is_some() {
        return flow.refuse(node, indices, "it looks up rows by rows");
    }
    if let Some(number) = flow.number(indices) {
        flow.edits.push(Edit::Count { node, position: 1, number });
        return Ok(vec![None]);
    }
    let known = indices.and_then(|value| flow.lengths.exprs(value));
    let zero = DimExpr::constant(0);
    match known {
        Some(known) if known.iter().all(|index| index.at_least(&zero, flow.lengths.ranges())) => {
            Ok(vec![None])
        }
        _ => {
            let extent = table
                .and_then(|value| flow.lengths.dims(value))
                .and_then(|dims| dims.get(pad?.axis).cloned());
            let Some(extent) = extent else { return flow.refuse(node, table, "its extents are not known") };
            flow.edits.push(Edit::FromEnd { node, extent });
            Ok(vec![None])
        }
    }
}

/// Whether indices at all rows are those of the given model, in a run that its ranges allow: with fewer new
/// rows than the largest number, only rows after a run are as many as in other runs.
fn is_legal(flow: &Flow<'_>, indices: Option<Value>, pad: Pad) -> bool {
    let capacity = i64::try_from(flow.caches.capacity).ok();
    let extent = || flow.lengths.dims(indices?)?.get(pad.axis)?.as_constant();
    pad.fill == Fill::Full && (flow.caches.rows.as_constant().is_some() || extent() == capacity)
}

/// GatherND looks up elements by padded indices that are legal at all rows.
fn gather_nd(flow: &mut Flow<'_>, node: Node) -> Result<Rows, CacheError> {
    let data = flow.module().node(node);
    let (table, indices) = (operand(data, 0), operand(data, 1));
    let rank = indices.and_then(|value| flow.lengths.dims(value)).map(|dims| dims.len());
    let is_legal = |pad: &Pad| is_legal(flow, indices, *pad) && rank.is_some_and(|rank| pad.axis + 1 < rank);
    let has_numbers = flow.number(indices).is_some() || flow.number(table).is_some();
    match flow.pad(indices).filter(is_legal) {
        Some(pad) if data.int("batch_dims", 0) == 0 && !has_numbers => {
            let fill = flow.pad(table).map_or(Fill::Full, |table| table.fill);
            Ok(vec![Some(Pad { axis: pad.axis, fill })])
        }
        _ if flow.pad(table).is_none() => usual(flow, node),
        // With one length, a mask of full extents is looked up by constants.
        _ => flow.refuse(node, table, "it looks up rows by indices that are not known"),
    }
}

/// Trilu keeps a triangle of its operand; the diagonal may depend on the number of rows.
fn trilu(flow: &mut Flow<'_>, node: Node) -> Result<Rows, CacheError> {
    let data = flow.module().node(node);
    let is_moved = flow
        .number(operand(data, 1))
        .map(|number| flow.edits.push(Edit::Count { node, position: 1, number }))
        .is_some();
    let pad = flow.pad(operand(data, 0));
    let fill = if is_moved { Fill::Any } else { pad.map_or(Fill::Any, |pad| pad.fill) };
    Ok(vec![pad.map(|pad| Pad { fill, ..pad })])
}

/// Sums from the first row on depend on valid rows alone.
fn cumulated(flow: &mut Flow<'_>, node: Node) -> Result<Rows, CacheError> {
    let data = flow.module().node(node);
    let axis = operand(data, 1).and_then(|value| flow.lengths.integers(value));
    let Some(pad) = flow.pad(operand(data, 0)) else { return usual(flow, node) };
    if data.int("reverse", 0) != 0 || axis.is_none() {
        return flow.refuse(node, operand(data, 0), "it sums from the last row on");
    }
    let fill = if pad.fill == Fill::Full { Fill::Full } else { Fill::Any };
    Ok(vec![Some(Pad { fill, ..pad })])
}

/// Attention hides rows that are not valid by its mask, and sums over the others.
fn attention(flow: &mut Flow<'_>, node: Node) -> Result<Rows, CacheError> {
    /// Position of the mask.
    const MASK: usize = 3;
    let module = flow.module();
    let data = module.node(node);
    let (keys, values) = (operand(data, 1), operand(data, 2));
    let (Some(left), Some(right), None) = (flow.pad(keys), flow.pad(values), flow.pad(operand(data, 0)))
    else {
        return flow.refuse(
            node,
            keys,
            "keys and values must have the rows of a cache, and queries must not",
        );
    };
    let rank = keys.and_then(|value| flow.lengths.dims(value)).map_or(0, |dims| dims.len());
    let is_row_axis = left.axis == right.axis && left.axis == if rank == 3 { 1 } else { 2 };
    if !is_row_axis || !left.fill.is_finite() || !right.fill.is_finite() {
        return flow.refuse(
            node,
            keys,
            "rows that are not valid may be infinite, or are not on the axis of keys",
        );
    }
    let is_plain = data.int("is_causal", 0) == 0
        && data.int("left_window_size", -1) < 0
        && data.int("right_window_size", -1) < 0;
    let has_more = (4..data.inputs.len()).any(|position| operand(data, position).is_some())
        || data.results().count() > 1;
    if !is_plain || has_more {
        return flow.refuse(
            node,
            keys,
            "only attention without own caches, windows and causal masks is followed",
        );
    }
    let mask = operand(data, MASK);
    let extents = |value: Option<Value>| value.and_then(|value| flow.lengths.dims(value));
    let (Some(queries), Some(rows)) = (extents(operand(data, 0)), extents(keys)) else {
        return flow.refuse(node, keys, "its extents are not known");
    };
    match mask {
        None => {
            let (queries, rows) = (queries[queries.len() - 2].clone(), rows[left.axis].clone());
            flow.edits.push(Edit::Mask { node, position: MASK, queries, rows });
        }
        Some(_) => {
            let Some(dims) = extents(mask).filter(|dims| dims.last() == rows.get(left.axis)) else {
                return flow.refuse(node, mask, "the mask has other rows than the keys");
            };
            flow.edits.push(Edit::Hide { node, position: MASK, axis: dims.len() - 1 });
        }
    }
    Ok(vec![None; data.outputs.len()])
}
