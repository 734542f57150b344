//! Operators that write elements by index: Scatter, ScatterElements, ScatterND, TensorScatter.

use memc_ir::Dim;

use crate::context::{Infer, InferError};
use crate::fact::{Data, Item};
use crate::families::broadcasting::{data_or_unknown, item_count, strides};
use crate::families::dims::agree;
use crate::families::gather::{index_into, indexed_element};
use crate::families::slicing::axis_of;
use crate::info::{InPlace, InferFn, OpInfo, SplitAxes, Work};
use crate::pieces::rules;

/// Whether written elements replace the previous elements.
fn replaces(ctx: &Infer<'_>) -> bool {
    matches!(ctx.string("reduction"), None | Some("none"))
}

/// Returns data, indices and updates for following elements; `None` if neither data nor updates are
/// followed.
fn operands(ctx: &Infer<'_>) -> Option<(Data, Data, Data)> {
    if !replaces(ctx) || (ctx.data(0).is_none() && ctx.data(2).is_none()) {
        return None;
    }
    Some((data_or_unknown(ctx, 0)?, ctx.data(1)?.clone(), data_or_unknown(ctx, 2)?))
}

fn scattered_elements(mut data: Data, indices: &Data, updates: &Data, axis: usize) -> Option<Vec<Item>> {
    if data.dims.len() != indices.dims.len() || updates.dims != indices.dims {
        return None;
    }
    for (at, update) in updates.items.iter().enumerate() {
        // An unknown index may address any element.
        let target = indexed_element(&data, indices, axis, at)?;
        *data.items.get_mut(target)? = update.clone();
    }
    Some(data.items)
}

fn scatter_elements(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(2)?;
    let axis = axis_of(ctx, 0, 0)?;
    if let Some((left, right)) = ctx.rank(0).zip(ctx.rank(1)).filter(|(left, right)| left != right) {
        return Err(InferError::Mismatch { what: "rank", left: left.to_string(), right: right.to_string() });
    }
    ctx.set_like(0, 0);
    let items = operands(ctx)
        .zip(axis)
        .and_then(|((data, indices, updates), axis)| scattered_elements(data, &indices, &updates, axis));
    if let Some(items) = items {
        ctx.set_items(0, items);
    }
    Ok(())
}

fn scattered_slices(mut data: Data, indices: &Data, updates: &Data) -> Option<Vec<Item>> {
    let depth = usize::try_from(*indices.dims.last()?).ok()?;
    let named = data.dims.get(..depth)?.to_vec();
    let steps = strides(&data.dims);
    let inner = item_count(&data.dims[depth..])?;
    let count = item_count(&indices.dims[..indices.dims.len() - 1])?;
    if updates.items.len() != count.checked_mul(inner)? {
        return None;
    }
    for at in 0..count {
        let index = indices.items.get(at * depth..(at + 1) * depth)?;
        let first = index.iter().zip(&named).enumerate().try_fold(0i64, |sum, (axis, (item, extent))| {
            Some(sum + index_into(item, *extent)? as i64 * steps[axis])
        })?;
        let first = usize::try_from(first).ok()?;
        let update = updates.items.get(at * inner..(at + 1) * inner)?;
        data.items.get_mut(first..first + inner)?.clone_from_slice(update);
    }
    Some(data.items)
}

fn scatter_nd(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(2)?;
    if let (Some(data), Some([.., depth])) = (ctx.dims(0), ctx.dims(1))
        && depth.known().is_some_and(|depth| depth > data.len() as u64)
    {
        let why = format!("an index names {depth} axes of {}", data.len());
        return Err(InferError::BadOperand { operand: 1, why });
    }
    ctx.set_like(0, 0);
    if let Some(items) =
        operands(ctx).and_then(|(data, indices, updates)| scattered_slices(data, &indices, &updates))
    {
        ctx.set_items(0, items);
    }
    Ok(())
}

/// Infers TensorScatter: rows are written into a cache of fixed extent, whose other axes agree with the
/// update.
fn tensor_scatter(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(1)?;
    let axis = axis_of(ctx, 0, -2)?;
    let element = ctx.element(0);
    let (Some(cache), Some(axis)) = (ctx.shape(0), axis) else {
        ctx.set_like(0, 0);
        return Ok(());
    };
    let Some(update) = ctx.dims(1).filter(|update| update.len() == cache.len()) else {
        ctx.set_dims(0, element, cache);
        return Ok(());
    };
    let dims: Result<Vec<Dim>, InferError> = (0..cache.len())
        .map(|at| {
            if at == axis {
                Ok(cache[at].clone())
            } else {
                agree("extents beside the axis", &cache[at], &update[at])
            }
        })
        .collect();
    ctx.set_dims(0, element, dims?);
    Ok(())
}

/// The operators of this family. Elements that are not written keep their values, so the result may
/// overwrite the data.
pub const OPERATORS: &[OpInfo] = &[
    writing("Scatter", scatter_elements),
    writing("ScatterElements", scatter_elements).split(SplitAxes::Rule(rules::element_indexed)),
    writing("ScatterND", scatter_nd).split(SplitAxes::Rule(rules::slices_written)),
    writing("TensorScatter", tensor_scatter),
];

const fn writing(name: &'static str, infer: InferFn) -> OpInfo {
    OpInfo::onnx(name, infer).in_place(InPlace::Operands(&[0])).work(Work::None)
}

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    #[test]
    fn results_have_the_shape_of_the_data() {
        for name in ["Scatter", "ScatterElements", "ScatterND"] {
            let case = Case::new(name, 18).input("f32[N,3]").input("i64[2,1]").input("f32[2,1]");
            assert_eq!(case.show(), "f32[N,3]", "{name}");
        }
        assert_eq!(
            Case::new("TensorScatter", 24).input("f32[B,?,S,64]").input("f32[B,8,1,64]").show(),
            "f32[B,8,S,64]"
        );
        assert_eq!(
            Case::new("ScatterND", 18).input("f32[3]").input("i64[1,2]").input("f32[1]").show(),
            "error: operand 1: an index names 2 axes of 1"
        );
    }

    #[test]
    fn elements_are_replaced() {
        let of = |name: &str, data: (&str, &str), indices: (&str, &str), updates: (&str, &str)| {
            Case::new(name, 18).data(data.0, data.1).data(indices.0, indices.1).data(updates.0, updates.1)
        };
        let elements =
            of("ScatterElements", ("i64[1,4]", "1,2,3,4"), ("i64[1,2]", "3,-4"), ("i64[1,2]", "N,9"))
                .int("axis", 1);
        assert_eq!(elements.show(), "i64[1,4] = {9,2,3,N}");
        let slices = of("ScatterND", ("i64[2,2]", "1,2,3,4"), ("i64[1,1]", "-1"), ("i64[1,2]", "8,9"));
        assert_eq!(slices.show(), "i64[2,2] = {1,2,8,9}");
        let added =
            of("ScatterND", ("i64[1]", "1"), ("i64[1,1]", "0"), ("i64[1]", "8")).string("reduction", "add");
        assert_eq!(added.show(), "i64[1]");
        assert_eq!(of("ScatterND", ("i64[1]", "1"), ("i64[1,1]", "?"), ("i64[1]", "8")).show(), "i64[1]");
    }
}
