//! Checks caches that grow: the input model appends rows to a cache, and the output model writes them into
//! a buffer of full capacity, after the valid rows.

use std::collections::BTreeSet;

use memc_ir::{ElementType, NodeData, Value};
use memc_layout::Cache;

use crate::codes::Kind;
use crate::ctx::Ctx;
use crate::findings::{At, Findings};
use crate::side::Side;

/// Maximum number of nodes between the number of valid rows and the places of new rows.
const MAX_DEPTH: u32 = 16;
/// Maximum number of elements of a value that is followed: a write of a million rows.
const MAX_PLACES: u64 = 1 << 22;

/// Checks all rows of `caches`.
pub(crate) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for row in &ctx.layout.caches {
        let at = || At::tensor(&row.input);
        if !seen.insert(&row.input) || !seen.insert(&row.output) {
            findings.add(Kind::Cache, at(), format!("another row of `caches` names `{}` or `{}`", row.input, row.output));
        } else if let Err(why) = pair(ctx, row) {
            findings.add(Kind::Cache, at(), format!("`{}` is no buffer for `{}`: {why}", row.input, row.output));
        } else if let Err(why) = place(ctx, row) {
            let message = format!("new rows of `{}` are not written at `{}`: {why}", row.output, row.count);
            findings.add(Kind::CachePlace, at(), message);
        } else if !ctx.layout.state.iter().any(|state| state.tensor == row.input && state.result == row.output) {
            let message = format!("`{}` does not have the storage of `{}`: no row of `state` names both", row.output, row.input);
            findings.add(Kind::CacheTwice, at(), message);
        }
    }
}

/// Returns whether the output model may have another extent of this input, by a row of `caches`.
pub(crate) fn is_buffer(ctx: &Ctx<'_>, input: &str) -> bool {
    ctx.layout.caches.iter().any(|row| row.input == input && pair(ctx, row).is_ok())
}

/// Returns the inputs that the output model has in addition: numbers of valid rows.
pub(crate) fn counts<'a>(ctx: &Ctx<'a>) -> BTreeSet<&'a str> {
    let rows = ctx.layout.caches.iter().map(|row| row.count.as_str());
    rows.filter(|name| !ctx.given.named.contains_key(*name)).collect()
}

/// Checks names and types of a row: in the input model the output is the input with rows appended, in the
/// output model both have the extents of the buffer.
fn pair(ctx: &Ctx<'_>, row: &Cache) -> Result<(), String> {
    let (given, out) = (ctx.given, ctx.out);
    let axis = usize::try_from(row.axis).unwrap_or(usize::MAX);
    let end = |side: &Side<'_>, name: &str, is_input: bool| {
        let value = side.named.get(name).copied().ok_or_else(|| format!("`{name}` is not in both models"))?;
        let fits = if is_input { side.is_input(value) } else { side.is_output[value] };
        let known = side.known[value].clone().filter(|known| fits && known.free.is_none() && axis < known.dims.len());
        known.map(|known| (value, known)).ok_or_else(|| format!("`{name}` is no graph input or output with axis {}", row.axis))
    };
    let ((old, before), (new, after)) = (end(given, &row.input, true)?, end(given, &row.output, false)?);
    let ((_, buffer), (_, result)) = (end(out, &row.input, true)?, end(out, &row.output, false)?);
    let mut grown = before.as_ref().clone();
    grown.dims[axis] = grown.dims[axis].saturating_add(row.rows);
    if grown != *after || after.dims[axis] != row.capacity {
        return Err(format!("the input model does not append {} rows up to {}", row.rows, row.capacity));
    }
    if buffer != result || buffer != after {
        return Err("the output model has other extents than the input model after a run".to_owned());
    }
    let node = given.producer[new].map(|row| given.module.node(given.rows[row].node));
    let joins = node.is_some_and(|node| {
        let own = memc_ops::normalize_axis(node.int("axis", 0), after.dims.len());
        is_onnx(node, "Concat") && own == Some(axis) && node.inputs.len() == 2 && node.inputs[0] == Some(old)
    });
    if joins { Ok(()) } else { Err("Concat of the input and new rows does not compute the output in the input model".to_owned()) }
}

/// Checks that the output model writes the new rows into the buffer, after the valid ones.
fn place(ctx: &Ctx<'_>, row: &Cache) -> Result<(), String> {
    let out = ctx.out;
    let count = out.named.get(&row.count).copied().filter(|value| out.is_input(*value));
    let count = count.ok_or("it is no graph input of the output model")?;
    let is_scalar = out.known[count].as_ref().is_some_and(|known| known.element == ElementType::Int64 && known.dims.is_empty());
    if !is_scalar || out.is_initializer(count) || ctx.given.named.contains_key(&row.count) {
        return Err("it is not a new 64-bit integer without axes and without a default".to_owned());
    }
    let (Some(old), Some(new)) = (out.named.get(&row.input), out.named.get(&row.output)) else { return Ok(()) };
    let writer = out.producer[*new].ok_or("no node computes the output")?;
    let node = out.module.node(out.rows[writer].node);
    let operand = |position: usize| node.inputs.get(position).copied().flatten();
    if operand(0) != Some(*old) {
        return Err(format!("{} does not write into `{}`", node.operator, row.input));
    }
    let axis = usize::try_from(row.axis).unwrap_or(0);
    let (places, added) = match is_onnx(node, "TensorScatter") {
        true => (operand(2), operand(1)),
        false => (operand(1), operand(2)),
    };
    let added = added
        .and_then(|value| out.known[value].clone())
        .filter(|known| known.free.is_none())
        .ok_or("the new rows have no known extents")?;
    if added.dims.get(axis) != Some(&row.rows) || added.dims[..=axis].iter().product::<u64>() > MAX_PLACES {
        return Err("the number of new rows is another one, or too large".to_owned());
    }
    let places = places.and_then(|value| linear(out, value, count, MAX_DEPTH)).ok_or("their places do not follow from it")?;
    let expected = if is_onnx(node, "TensorScatter") {
        let own = memc_ops::normalize_axis(node.int("axis", -2), added.dims.len());
        let is_linear = matches!(node.string("mode"), None | Some("linear"));
        if own != Some(axis) || !is_linear {
            return Err("TensorScatter writes along another axis, or in a circle".to_owned());
        }
        Linear { dims: vec![added.dims[0]], items: vec![(1, 0); usize::try_from(added.dims[0]).unwrap_or(0)] }
    } else if is_onnx(node, "ScatterND") && matches!(node.string("reduction"), None | Some("none")) {
        indices(&added.dims, axis)
    } else {
        return Err(format!("{} does not replace rows", node.operator));
    };
    if places == expected { Ok(()) } else { Err("their places are other rows".to_owned()) }
}

fn is_onnx(node: &NodeData, name: &str) -> bool {
    node.operator.domain.is_empty() && &*node.operator.name == name
}

/// Integers as linear functions of the number of valid rows: slope and rest, in row-major order.
#[derive(Clone, PartialEq, Eq)]
struct Linear {
    dims: Vec<u64>,
    items: Vec<(i64, i64)>,
}

/// Returns the indices of rows of these extents after the valid rows.
fn indices(dims: &[u64], axis: usize) -> Linear {
    let named = &dims[..=axis];
    let count = named.iter().product::<u64>();
    let mut items = Vec::new();
    for place in 0..count {
        let mut rest = place;
        let mut index: Vec<(i64, i64)> = named
            .iter()
            .rev()
            .map(|extent| {
                let own = rest % extent;
                rest /= extent;
                (0, i64::try_from(own).unwrap_or(i64::MAX))
            })
            .collect();
        index[0].0 = 1;
        index.reverse();
        items.extend(index);
    }
    Linear { dims: named.iter().copied().chain([axis as u64 + 1]).collect(), items }
}

/// Returns the elements of a value as linear functions of `count`; `None` if they are not.
fn linear(side: &Side<'_>, value: Value, count: Value, depth: u32) -> Option<Linear> {
    let known = side.known[value].as_ref().filter(|known| known.free.is_none())?;
    (known.dims.iter().fold(1, |product: u64, extent| product.saturating_mul(*extent)) <= MAX_PLACES).then_some(())?;
    let dims = known.dims.clone();
    if value == count {
        return Some(Linear { dims, items: vec![(1, 0)] });
    }
    if let Some(known) = side.integers(value).or_else(|| constant(side, value)) {
        return Some(Linear { dims, items: known.into_iter().map(|item| (0, item)).collect() });
    }
    let node = side.module.node(side.rows[side.producer[value]?].node);
    let own = |position: usize| linear(side, (*node.inputs.get(position)?)?, count, depth.checked_sub(1)?);
    match &*node.operator.name {
        _ if !node.operator.domain.is_empty() => None,
        "Add" | "Mul" => {
            let (left, right) = (own(0)?.broadcast(&dims)?, own(1)?.broadcast(&dims)?);
            let is_sum = &*node.operator.name == "Add";
            let pairs = left.items.into_iter().zip(right.items);
            let items: Option<Vec<(i64, i64)>> = pairs.map(|(a, b)| if is_sum { add(a, b) } else { multiply(a, b) }).collect();
            Some(Linear { dims, items: items? })
        }
        "Expand" => own(0)?.broadcast(&dims),
        "Identity" | "Reshape" | "Unsqueeze" | "Squeeze" => Some(Linear { dims, ..own(0)? }),
        _ => None,
    }
}

/// Returns the integers of an initializer of any size.
fn constant(side: &Side<'_>, value: Value) -> Option<Vec<i64>> {
    let constant = side.module.constant(side.module.constant_of(value)?);
    let memc_ir::Payload::Raw(bytes) = &constant.payload else { return None };
    let items = bytes.chunks_exact(8).map(|chunk| chunk.try_into().map(i64::from_le_bytes).ok());
    items.collect::<Option<Vec<i64>>>().filter(|_| constant.ty.element == ElementType::Int64)
}

fn add(left: (i64, i64), right: (i64, i64)) -> Option<(i64, i64)> {
    Some((left.0.checked_add(right.0)?, left.1.checked_add(right.1)?))
}

/// Multiplies two linear functions, of which one is constant.
fn multiply(left: (i64, i64), right: (i64, i64)) -> Option<(i64, i64)> {
    let ((slope, rest), by) = match (left, right) {
        (left, (0, by)) => (left, by),
        ((0, by), right) => (right, by),
        _ => return None,
    };
    Some((slope.checked_mul(by)?, rest.checked_mul(by)?))
}

impl Linear {
    /// Repeats the elements to larger extents, as ONNX broadcasts.
    fn broadcast(&self, dims: &[u64]) -> Option<Self> {
        let missing = dims.len().checked_sub(self.dims.len())?;
        let count = usize::try_from(dims.iter().product::<u64>()).ok()?;
        let mut items = Vec::new();
        for place in 0..count as u64 {
            let (mut rest, mut at, mut step) = (place, 0, 1);
            for axis in (0..dims.len()).rev() {
                let own = rest % dims[axis];
                rest /= dims[axis];
                let Some(extent) = axis.checked_sub(missing).map(|axis| self.dims[axis]) else { continue };
                at += if extent == 1 { 0 } else { own * step };
                step *= extent;
            }
            items.push(*self.items.get(usize::try_from(at).ok()?)?);
        }
        Some(Self { dims: dims.to_vec(), items })
    }
}
