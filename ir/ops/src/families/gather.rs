//! Operators that pick elements by index: Gather, GatherElements, GatherND, Compress.

use memc_ir::{Dim, ElementType};

use crate::context::{Infer, InferError};
use crate::fact::{Data, Item};
use crate::families::broadcasting::{item_count, product, strides};
use crate::families::dims::least_of;
use crate::families::slicing::axis_of;
use crate::info::{OpInfo, Reads, SplitAxes, Work};
use crate::pieces::rules;

/// Returns the position for an index into an axis of this extent; negative indices count from the end.
/// `None` if the index is unknown or out of range.
pub(crate) fn index_into(item: &Item, extent: u64) -> Option<usize> {
    let extent = i64::try_from(extent).ok()?;
    let index = item.int()?;
    let index = if index < 0 { index.checked_add(extent)? } else { index };
    usize::try_from(index).ok().filter(|_| index < extent)
}

/// Rejects a known index that lies outside the known extent of the axis that it picks from: kernels fail
/// there. Indices pick from the axes in turn.
///
/// # Errors
/// Returns [`InferError::BadOperand`].
fn require_in_range(ctx: &Infer<'_>, axes: &[Dim]) -> Result<(), InferError> {
    let Some(indices) = ctx.data(1) else { return Ok(()) };
    for (item, axis) in indices.items.iter().zip(axes.iter().cycle()) {
        if let (Some(index), Some(extent)) = (item.int(), axis.known())
            && index_into(item, extent).is_none()
        {
            let why = format!("index {index} is out of range for an extent of {extent}");
            return Err(InferError::BadOperand { operand: 1, why });
        }
    }
    Ok(())
}

fn gathered_items(data: &Data, indices: &Data, axis: usize) -> Option<Vec<Item>> {
    let extent = *data.dims.get(axis)?;
    let (outer, inner) = (item_count(&data.dims[..axis])?, item_count(&data.dims[axis + 1..])?);
    item_count(&[outer as u64, indices.items.len() as u64, inner as u64])?;
    let mut items = Vec::new();
    for row in 0..outer {
        for index in &indices.items {
            match index_into(index, extent) {
                Some(at) => {
                    let first = (row * extent as usize + at) * inner;
                    items.extend_from_slice(data.items.get(first..first + inner)?);
                }
                None => items.resize(items.len() + inner, Item::Unknown),
            }
        }
    }
    Some(items)
}

pub(crate) fn gather(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(1)?;
    let axis = axis_of(ctx, 0, 0)?;
    if let Some((data, axis)) = ctx.dims(0).zip(axis) {
        require_in_range(ctx, &data[axis..=axis])?;
    }
    let element = ctx.element(0);
    let shape = match (ctx.dims(0), ctx.dims(1), axis) {
        (Some(data), Some(indices), Some(axis)) => Some([&data[..axis], indices, &data[axis + 1..]].concat()),
        _ => None,
    };
    let items = match (ctx.data(0), ctx.data(1), axis) {
        (Some(data), Some(indices), Some(axis)) => gathered_items(data, indices, axis),
        _ => None,
    };
    ctx.set_tensor(0, element, shape);
    if let Some(items) = items {
        ctx.set_items(0, items);
    }
    Ok(())
}

/// Returns the position in `data` to which element `at` of `indices` points: the coordinates of the
/// element, with the index itself as coordinate along `axis`. `None` if the index is unknown or out of
/// range.
pub(super) fn indexed_element(data: &Data, indices: &Data, axis: usize, at: usize) -> Option<usize> {
    let (own, other) = (strides(&data.dims), strides(&indices.dims));
    let mut rest = at as i64;
    let mut element = 0i64;
    for current in 0..data.dims.len() {
        let mut position = rest / other[current];
        rest %= other[current];
        if current == axis {
            position = index_into(&indices.items[at], data.dims[axis])? as i64;
        }
        if position as u64 >= data.dims[current] {
            return None;
        }
        element += position * own[current];
    }
    usize::try_from(element).ok()
}

fn gathered_element_items(data: &Data, indices: &Data, axis: usize) -> Option<Vec<Item>> {
    if data.dims.len() != indices.dims.len() {
        return None;
    }
    let pick = |at: usize| data.items.get(indexed_element(data, indices, axis, at)?).cloned();
    Some((0..indices.items.len()).map(|at| pick(at).unwrap_or(Item::Unknown)).collect())
}

fn gather_elements(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(1)?;
    let axis = axis_of(ctx, 0, 0)?;
    if let Some((left, right)) = ctx.rank(0).zip(ctx.rank(1)).filter(|(left, right)| left != right) {
        return Err(InferError::Mismatch { what: "rank", left: left.to_string(), right: right.to_string() });
    }
    if let Some((data, axis)) = ctx.dims(0).zip(axis) {
        require_in_range(ctx, &data[axis..=axis])?;
    }
    let items = match (ctx.data(0), ctx.data(1), axis) {
        (Some(data), Some(indices), Some(axis)) => gathered_element_items(data, indices, axis),
        _ => None,
    };
    ctx.set_tensor(0, ctx.element(0), ctx.shape(1));
    if let Some(items) = items {
        ctx.set_items(0, items);
    }
    Ok(())
}

/// Returns the number of batch axes, and the number of data axes that one index covers; `None` if it is
/// unknown.
fn index_depth(ctx: &Infer<'_>) -> Result<Option<(usize, usize)>, InferError> {
    let Some((data, indices)) = ctx.dims(0).zip(ctx.dims(1)) else { return Ok(None) };
    let batch = usize::try_from(ctx.int("batch_dims", 0)).unwrap_or(usize::MAX);
    if batch >= indices.len() || batch > data.len() {
        return Err(InferError::BadAttribute {
            name: "batch_dims",
            why: "must be less than the ranks".to_owned(),
        });
    }
    match indices.last().and_then(Dim::known) {
        Some(depth) if depth > (data.len() - batch) as u64 => Err(InferError::BadOperand {
            operand: 1,
            why: format!("an index names {depth} axes of {}", data.len() - batch),
        }),
        depth => Ok(depth.map(|depth| (batch, depth as usize))),
    }
}

fn gathered_slices(data: &Data, indices: &Data, batch: usize, depth: usize) -> Option<Vec<Item>> {
    let steps = strides(&data.dims);
    let named = data.dims.get(batch..batch + depth)?;
    let inner = item_count(&data.dims[batch + depth..])?;
    let outer = item_count(&data.dims[..batch])?;
    let count = item_count(&indices.dims[..indices.dims.len() - 1])?;
    item_count(&[count as u64, inner as u64])?;
    let per_batch = count.checked_div(outer)?;
    let batch_step = item_count(&data.dims[batch..])?;
    let mut items = Vec::new();
    for at in 0..count {
        let index = indices.items.get(at * depth..(at + 1) * depth)?;
        let offset: Option<i64> =
            index.iter().zip(named).enumerate().try_fold(0i64, |sum, (axis, (item, extent))| {
                Some(sum + index_into(item, *extent)? as i64 * steps[batch + axis])
            });
        match offset {
            Some(offset) => {
                let first = at.checked_div(per_batch)? * batch_step + offset as usize;
                items.extend_from_slice(data.items.get(first..first + inner)?);
            }
            None => items.resize(items.len() + inner, Item::Unknown),
        }
    }
    Some(items)
}

fn gather_nd(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(1)?;
    let depth = index_depth(ctx)?;
    if let Some((data, (batch, depth))) = ctx.dims(0).zip(depth) {
        require_in_range(ctx, &data[batch..batch + depth])?;
    }
    let element = ctx.element(0);
    let shape = match (ctx.dims(0), ctx.dims(1), depth) {
        (Some(data), Some([indices @ .., _]), Some((batch, depth))) => {
            Some([indices, &data[batch + depth..]].concat())
        }
        _ => None,
    };
    let items = match (ctx.data(0), ctx.data(1), depth) {
        (Some(data), Some(indices), Some((batch, depth))) => gathered_slices(data, indices, batch, depth),
        _ => None,
    };
    ctx.set_tensor(0, element, shape);
    if let Some(items) = items {
        ctx.set_items(0, items);
    }
    Ok(())
}

fn compress(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(1)?;
    let element = ctx.element(0);
    let flat = ctx.int_attribute("axis").is_none();
    let axis = if flat { Some(0) } else { axis_of(ctx, 0, 0)? };
    let dims = if flat { ctx.dims(0).map(|dims| vec![product(dims)]) } else { ctx.shape(0) };
    // The number of picked elements is at most the extent and at most the number of flags.
    let along =
        dims.as_ref().zip(axis).and_then(|(dims, axis)| dims.get(axis)).cloned().unwrap_or(Dim::Unknown);
    let most = least_of(&[&along, &ctx.dims(1).map_or(Dim::Unknown, product)]);
    // Flags beyond the extent pick no elements.
    let looked_at = along.upper().and_then(|extent| usize::try_from(extent).ok()).unwrap_or(usize::MAX);
    let wanted: Option<Vec<usize>> = ctx.int_data(1).map(|flags| {
        let flags = flags.iter().take(looked_at).enumerate();
        flags.filter(|(_, flag)| **flag != 0).map(|(at, _)| at).collect()
    });
    let count = wanted.as_ref().map_or(most, |wanted| Dim::Known(wanted.len() as u64));
    let items = match (ctx.data(0), &wanted, axis) {
        (Some(data), Some(wanted), Some(axis)) => {
            let dims = if flat { vec![data.items.len() as u64] } else { data.dims.clone() };
            let data = Data { dims, ..data.clone() };
            let indices = wanted.iter().map(|at| Item::Int(*at as i64)).collect();
            Data::new(ElementType::Int64, vec![wanted.len() as u64], indices)
                .and_then(|indices| gathered_items(&data, &indices, axis))
        }
        _ => None,
    };
    let shape = match (dims, axis) {
        _ if flat => Some(vec![count]),
        (Some(mut dims), Some(axis)) => {
            dims[axis] = count;
            Some(dims)
        }
        _ => None,
    };
    ctx.set_tensor(0, element, shape);
    if let Some(items) = items {
        ctx.set_items(0, items);
    }
    Ok(())
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    OpInfo::onnx("Compress", compress).work(Work::None).reads(Reads::Picked(&[0])),
    OpInfo::onnx("Gather", gather)
        .work(Work::None)
        .reads(Reads::Picked(&[0]))
        .split(SplitAxes::Rule(rules::gathered)),
    OpInfo::onnx("GatherElements", gather_elements)
        .work(Work::None)
        .reads(Reads::Picked(&[0]))
        .split(SplitAxes::Rule(rules::element_indexed)),
    OpInfo::onnx("GatherND", gather_nd)
        .work(Work::None)
        .reads(Reads::Picked(&[0]))
        .split(SplitAxes::Rule(rules::slices_gathered)),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    #[test]
    fn gather_replaces_one_axis_by_the_indices() {
        let of = |data: &str, indices: &str, axis: i64| {
            Case::new("Gather", 13).input(data).input(indices).int("axis", axis).show()
        };
        assert_eq!(of("f32[V,64]", "i64[N,S]", 0), "f32[N,S,64]");
        assert_eq!(of("f32[V,64]", "i64[]", -1), "f32[V]");
        assert_eq!(of("f32[*]", "i64[2]", 0), "f32[*]");
        assert_eq!(of("f32[V,64]", "i64[2]", 2), "error: attribute `axis`: 2 is out of range for rank 2");
        assert_eq!(Case::new("Gather", 13).data("i64[3]", "N,?,3").data("i64[]", "0").show(), "i64[] = {N}");
        assert_eq!(
            Case::new("Gather", 13).data("i64[3]", "N,?,3").ints_data(&[-1, 1, -3]).show(),
            "i64[3] = {3,?,N}"
        );
        assert_eq!(
            Case::new("Gather", 13).input("f32[N,3]").ints_data(&[0, 3]).int("axis", 1).show(),
            "error: operand 1: index 3 is out of range for an extent of 3"
        );
        assert_eq!(Case::new("Gather", 13).input("f32[N,3]").ints_data(&[0, 3]).show(), "f32[2,3]");
        let columns = Case::new("Gather", 13).data("i64[2,2]", "1,2,3,4").data("i64[1]", "1").int("axis", 1);
        assert_eq!(columns.show(), "i64[2,1] = {2,4}");
    }

    #[test]
    fn gather_elements_has_the_shape_of_the_indices() {
        assert_eq!(Case::new("GatherElements", 13).input("f32[N,3]").input("i64[M,2]").show(), "f32[M,2]");
        let rows = Case::new("GatherElements", 13)
            .data("i64[2,2]", "1,2,3,4")
            .data("i64[2,2]", "0,0,1,-2")
            .int("axis", 1);
        assert_eq!(rows.show(), "i64[2,2] = {1,1,4,3}");
        let columns = Case::new("GatherElements", 13).data("i64[3,1]", "1,2,3").data("i64[2,1]", "2,-4");
        assert_eq!(columns.show(), "error: operand 1: index -4 is out of range for an extent of 3");
        assert_eq!(
            Case::new("GatherElements", 13).input("f32[3]").input("i64[1,1]").show(),
            "error: rank: 1 and 2 do not agree"
        );
    }

    #[test]
    fn gather_nd_names_leading_axes() {
        let of = |data: &str, indices: &str, batch: i64| {
            Case::new("GatherND", 13).input(data).input(indices).int("batch_dims", batch).show()
        };
        assert_eq!(of("f32[2,3,4]", "i64[N,2]", 0), "f32[N,4]");
        assert_eq!(of("f32[B,3,4]", "i64[B,5,1]", 1), "f32[B,5,4]");
        assert_eq!(of("f32[2,3]", "i64[N,?]", 0), "f32[*]");
        assert_eq!(of("f32[2,3]", "i64[N,3]", 0), "error: operand 1: an index names 3 axes of 2");
        assert_eq!(of("f32[2,3]", "i64[4]", 1), "error: attribute `batch_dims`: must be less than the ranks");
        let slices = Case::new("GatherND", 13).data("i64[2,2]", "1,2,3,4").data("i64[2,1]", "1,0");
        assert_eq!(slices.show(), "i64[2,2] = {3,4,1,2}");
        let outside = Case::new("GatherND", 13).input("f32[9,2]").data("i64[2,2]", "8,0,1,8");
        assert_eq!(outside.show(), "error: operand 1: index 8 is out of range for an extent of 2");
        let batched = Case::new("GatherND", 13)
            .data("i64[2,2]", "1,2,3,4")
            .data("i64[2,1]", "1,0")
            .int("batch_dims", 1);
        assert_eq!(batched.show(), "i64[2] = {2,3}");
    }

    #[test]
    fn compress_keeps_flagged_elements() {
        let of = |case: Case| case.show();
        assert_eq!(
            of(Case::new("Compress", 11).input("f32[3,N]").data("bool[3]", "1,0,1").int("axis", 0)),
            "f32[2,N]"
        );
        assert_eq!(
            of(Case::new("Compress", 11).input("f32[3,N]").input("bool[3]").int("axis", 1)),
            "f32[3,?<=min(3,N)]"
        );
        assert_eq!(of(Case::new("Compress", 11).input("f32[3,4]").input("bool[?]")), "f32[?<=12]");
        assert_eq!(
            of(Case::new("Compress", 11).input("f32[3,4]").input("bool[2]").int("axis", 1)),
            "f32[3,?<=2]"
        );
        assert_eq!(of(Case::new("Compress", 11).input("f32[*]").data("bool[2]", "0,1")), "f32[1]");
        assert_eq!(
            of(Case::new("Compress", 11).data("i64[2,2]", "1,2,3,4").data("bool[3]", "0,1,1")),
            "i64[2] = {2,3}"
        );
        assert_eq!(
            of(Case::new("Compress", 11).data("i64[2,2]", "1,2,3,4").data("bool[2]", "0,1").int("axis", 1)),
            "i64[2,1] = {2,4}"
        );
    }
}
