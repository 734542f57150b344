//! Checks caches that grow: the input model appends rows to a cache, and the output model writes them into
//! a buffer of full capacity, after the valid rows.

use std::collections::BTreeSet;

use memc_ir::{DimExpr, ElementType, Value};
use memc_layout::Cache;
use memc_onnx_proto::onnx::ValueInfoProto;
use memc_onnx_proto::onnx::tensor_shape_proto::dimension::Value as Dimension;
use memc_onnx_proto::onnx::type_proto::Value as TypeKind;

use crate::codes::Kind;
use crate::ctx::Ctx;
use crate::findings::{At, Findings};
use crate::rows::{self, constant, is_onnx};
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
            findings.add(
                Kind::Cache,
                at(),
                format!("another row of `caches` names `{}` or `{}`", row.input, row.output),
            );
        } else if let Err(why) = pair(ctx, row) {
            findings.add(
                Kind::Cache,
                at(),
                format!("`{}` is no buffer for `{}`: {why}", row.input, row.output),
            );
        } else if let Err(why) = place(ctx, row) {
            let message = format!("new rows of `{}` are not written at `{}`: {why}", row.output, row.count);
            findings.add(Kind::CachePlace, at(), message);
        } else if let Err(why) = grown(ctx, row) {
            findings.add(Kind::Cache, at(), format!("`grows` of `{}` is wrong: {why}", row.input));
        } else if !ctx
            .layout
            .state
            .iter()
            .any(|state| state.tensor == row.input && state.result == row.output)
        {
            let message = format!(
                "`{}` does not have the storage of `{}`: no row of `state` names both",
                row.output, row.input
            );
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
        let known = side.known[value].clone().filter(|known| fits && axis < known.dims.len());
        let dims = known.and_then(|known| Some((known.element, known.dim_exprs()?)));
        dims.map(|dims| (value, dims))
            .ok_or_else(|| format!("`{name}` is no graph input or output with axis {}", row.axis))
    };
    let ((old, before), (new, after)) = (end(given, &row.input, true)?, end(given, &row.output, false)?);
    let ((_, buffer), (_, result)) = (end(out, &row.input, true)?, end(out, &row.output, false)?);
    let rows = appended(ctx, row)?;
    let mut grown = before.clone();
    let sum = before.1.get(axis).and_then(|extent| extent.add(&rows));
    if let (Some(extent), Some(sum)) = (grown.1.get_mut(axis), sum) {
        *extent = sum;
    }
    let capacity = i64::try_from(row.capacity).ok();
    if grown != after || after.1.get(axis).map(DimExpr::as_constant) != Some(capacity) {
        return Err(format!("the input model does not append {rows} rows up to {}", row.capacity));
    }
    if buffer != result || buffer != after {
        return Err("the output model has other extents than the input model after a run".to_owned());
    }
    let node = given.producer[new].map(|row| given.module.node(given.rows[row].node));
    let joins = node.is_some_and(|node| {
        let own = memc_ops::normalize_axis(node.int("axis", 0), after.1.len());
        is_onnx(node, "Concat") && own == Some(axis) && node.inputs.len() == 2 && node.inputs[0] == Some(old)
    });
    if joins {
        Ok(())
    } else {
        Err("Concat of the input and new rows does not compute the output in the input model".to_owned())
    }
}

/// Checks the dimensions that grow: they are dimensions of the input model with their extents for a full
/// buffer, and that of the rows before a run is one of them.
fn grown(ctx: &Ctx<'_>, row: &Cache) -> Result<(), String> {
    let model = &ctx.layout.model;
    let open = memc_onnx_import::open_dimensions(ctx.given.file).unwrap_or_default();
    for (name, stated) in &row.grows {
        let equal = || {
            ctx.given
                .extents
                .highest(ctx.given.extents.equal(name)?)
                .and_then(|most| u64::try_from(most).ok())
        };
        if model.dims.get(name).copied().or_else(equal) != Some(*stated) || !open.contains(name) {
            return Err(format!("`{name}` is no dimension of the input model with an extent of {stated}"));
        }
    }
    let axis = usize::try_from(row.axis).unwrap_or(usize::MAX);
    let input = ctx.given.file.graph().input.iter().find(|info| info.name() == row.input);
    match input.and_then(|info| symbol(info, axis)).filter(|name| !row.grows.contains_key(name)) {
        Some(name) => Err(format!("it leaves out `{name}`, the number of rows before a run")),
        None => Ok(()),
    }
}

/// Returns the symbol of a dimension as the file states it; `None` for a number or another expression.
fn symbol(info: &ValueInfoProto, axis: usize) -> Option<String> {
    let TypeKind::TensorType(tensor) = info.r#type.as_ref()?.value.as_ref()? else { return None };
    let Dimension::DimParam(text) = tensor.shape.as_ref()?.dim.get(axis)?.value.as_ref()? else {
        return None;
    };
    let of = DimExpr::parse(text).unwrap_or_else(|| DimExpr::symbol(text));
    of.as_symbol().map(str::to_owned)
}

/// Returns the number of rows that a run appends, as a row of `caches` states it.
fn appended(ctx: &Ctx<'_>, row: &Cache) -> Result<DimExpr, String> {
    let number = i64::try_from(row.rows).map_err(|_| "it appends too many rows".to_owned())?;
    let Some(text) = &row.rows_expr else { return Ok(DimExpr::constant(number)) };
    let rows = DimExpr::parse_quoted(text).ok_or_else(|| format!("`{text}` is no number of rows"))?;
    match ctx.out.extents.highest(&rows) {
        Some(most) if most == i128::from(number) => Ok(rows),
        _ => Err(format!("`{text}` is not at most {number}")),
    }
}

/// Checks that the output model writes the new rows into the buffer, after the valid ones.
fn place(ctx: &Ctx<'_>, row: &Cache) -> Result<(), String> {
    let out = ctx.out;
    let count = out.named.get(&row.count).copied().filter(|value| out.is_input(*value));
    let count = count.ok_or("it is no graph input of the output model")?;
    let is_scalar = out.known[count]
        .as_ref()
        .is_some_and(|known| known.element == ElementType::Int64 && known.dims.is_empty());
    if !is_scalar || out.is_initializer(count) || ctx.given.named.contains_key(&row.count) {
        return Err("it is not a new 64-bit integer without axes and without a default".to_owned());
    }
    let (Some(old), Some(new)) = (out.named.get(&row.input), out.named.get(&row.output)) else {
        return Ok(());
    };
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
        .and_then(|value| out.known[value].as_ref()?.dim_exprs())
        .ok_or("the new rows have no known extents")?;
    let is_written = added.get(axis) == Some(&appended(ctx, row)?);
    let count_of =
        |dims: &[DimExpr]| dims.iter().try_fold(1u64, |all, extent| all.checked_mul(most(out, extent)?));
    if !is_written || count_of(&added[..=axis]).is_none_or(|all| all > MAX_PLACES) {
        return Err("the number of new rows is another one, or too large".to_owned());
    }
    let is_scatter = is_onnx(node, "TensorScatter");
    if is_scatter {
        let own = memc_ops::normalize_axis(node.int("axis", -2), added.len());
        let is_linear = matches!(node.string("mode"), None | Some("linear"));
        if own != Some(axis) || !is_linear {
            return Err("TensorScatter writes along another axis, or in a circle".to_owned());
        }
    } else if !is_onnx(node, "ScatterND") || !matches!(node.string("reduction"), None | Some("none")) {
        return Err(format!("{} does not replace rows", node.operator));
    }
    let places = places.ok_or("it has no places")?;
    let known: Option<Vec<u64>> =
        added.iter().map(|extent| u64::try_from(extent.as_constant()?).ok()).collect();
    let is_right = match known {
        None => rows::are_after(out, places, count, &added, if is_scatter { None } else { Some(axis) }),
        Some(added) => {
            let places = linear(out, places, count, MAX_DEPTH).ok_or("their places do not follow from it")?;
            places
                == match is_scatter {
                    true => Linear {
                        dims: vec![added[0]],
                        items: vec![(1, 0); usize::try_from(added[0]).unwrap_or(0)],
                    },
                    false => indices(&added, axis),
                }
        }
    };
    if is_right { Ok(()) } else { Err("their places are other rows".to_owned()) }
}

/// Returns the upper bound of an extent.
fn most(side: &Side<'_>, extent: &DimExpr) -> Option<u64> {
    u64::try_from(side.extents.highest(extent)?).ok()
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
    (known.dims.iter().fold(1, |product: u64, extent| product.saturating_mul(*extent)) <= MAX_PLACES)
        .then_some(())?;
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
            let items: Option<Vec<(i64, i64)>> =
                pairs.map(|(a, b)| if is_sum { add(a, b) } else { multiply(a, b) }).collect();
            Some(Linear { dims, items: items? })
        }
        "Expand" => own(0)?.broadcast(&dims),
        "Identity" | "Reshape" | "Unsqueeze" | "Squeeze" => Some(Linear { dims, ..own(0)? }),
        _ => None,
    }
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
