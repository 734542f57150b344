//! Positions in row-major tensors, and element-wise functions with multidirectional broadcasting over
//! known elements.

use memc_ir::{Dim, ElementType};

use crate::context::{Infer, InferError, broadcast};
use crate::fact::{Data, Item, MAX_ITEMS};

/// Returns the number of elements of a tensor with these extents; `None` if it exceeds [`MAX_ITEMS`].
pub(crate) fn item_count(dims: &[u64]) -> Option<usize> {
    if dims.contains(&0) {
        return Some(0);
    }
    let count = dims.iter().try_fold(1u64, |product, extent| product.checked_mul(*extent))?;
    usize::try_from(count).ok().filter(|count| *count <= MAX_ITEMS)
}

/// Returns the distance between neighbors along each axis of a row-major tensor, in elements.
pub(crate) fn strides(dims: &[u64]) -> Vec<i64> {
    let mut stride = 1i64;
    let mut result: Vec<i64> = dims
        .iter()
        .rev()
        .map(|extent| {
            let current = stride;
            stride = stride.saturating_mul(i64::try_from(*extent).unwrap_or(i64::MAX).max(1));
            current
        })
        .collect();
    result.reverse();
    result
}

/// Returns `base` plus the dot product of coordinates and `strides`, for each element of a tensor of
/// extents `dims` in row-major order.
///
/// `None` if there are more than [`MAX_ITEMS`] elements or a position is negative. O(elements * rank).
pub(crate) fn positions(dims: &[u64], base: i64, strides: &[i64]) -> Option<Vec<usize>> {
    let count = item_count(dims)?;
    let mut result = Vec::with_capacity(count);
    let mut coordinates = vec![0u64; dims.len()];
    let mut at = base;
    for _ in 0..count {
        result.push(usize::try_from(at).ok()?);
        for axis in (0..dims.len()).rev() {
            coordinates[axis] += 1;
            at = at.checked_add(strides[axis])?;
            if coordinates[axis] < dims[axis] {
                break;
            }
            let back = strides[axis].checked_mul(i64::try_from(dims[axis]).ok()?)?;
            at = at.checked_sub(back)?;
            coordinates[axis] = 0;
        }
    }
    Some(result)
}

/// Returns the elements at these positions; `None` if a position is out of range.
pub(crate) fn pick(items: &[Item], positions: &[usize]) -> Option<Vec<Item>> {
    positions.iter().map(|at| items.get(*at).cloned()).collect()
}

/// Returns the elements of operand `index`. If only its extents are known, returns unknown elements,
/// provided that they are few integers.
pub(crate) fn data_or_unknown(ctx: &Infer<'_>, index: usize) -> Option<Data> {
    if let Some(data) = ctx.data(index) {
        return Some(data.clone());
    }
    let ty = ctx.tensor(index)?;
    let dims = ty.known_dims()?;
    let count = item_count(&dims).filter(|_| ty.element.is_integral())?;
    Data::new(ty.element, dims, vec![Item::Unknown; count])
}

/// Broadcasts the elements of `data` to `dims`; `None` if the extents do not broadcast.
pub(crate) fn expand(data: &Data, dims: &[u64]) -> Option<Vec<Item>> {
    let missing = dims.len().checked_sub(data.dims.len())?;
    let own = strides(&data.dims);
    let mut steps = vec![0i64; missing];
    for (axis, extent) in data.dims.iter().enumerate() {
        match *extent {
            1 => steps.push(0),
            same if same == dims[missing + axis] => steps.push(own[axis]),
            _ => return None,
        }
    }
    pick(&data.items, &positions(dims, 0, &steps)?)
}

/// Returns the broadcast extents of all data; `None` if they do not agree.
pub(crate) fn broadcast_known(all: &[&Data]) -> Option<Vec<u64>> {
    let mut result: Vec<Dim> = Vec::new();
    for data in all {
        let dims: Vec<Dim> = data.dims.iter().copied().map(Dim::Known).collect();
        result = broadcast(&result, &dims).ok()?;
    }
    result.iter().map(Dim::known).collect()
}

/// States that result 0 has this element type and the broadcast shape of all operands.
///
/// # Errors
/// Returns an error if operand 0 is missing or shapes do not agree.
pub(crate) fn broadcast_shapes(ctx: &mut Infer<'_>, element: ElementType) -> Result<(), InferError> {
    ctx.required(0)?;
    let mut shape = ctx.shape(0);
    for operand in 1..ctx.input_count() {
        if ctx.has(operand) {
            shape = match (shape, ctx.dims(operand)) {
                (Some(left), Some(right)) => Some(broadcast(&left, right)?),
                _ => None,
            };
        }
    }
    ctx.set_tensor(0, element, shape);
    Ok(())
}

/// Applies an element-wise function to several broadcast tensors; `None` if they do not broadcast or
/// have too many elements.
pub(crate) fn zip_items(all: &[&Data], function: impl Fn(&[&Item]) -> Item) -> Option<Vec<Item>> {
    let dims = broadcast_known(all)?;
    let columns: Vec<Vec<Item>> = all.iter().map(|data| expand(data, &dims)).collect::<Option<_>>()?;
    let count = item_count(&dims)?;
    Some(
        (0..count)
            .map(|at| function(&columns.iter().map(|column| &column[at]).collect::<Vec<_>>()))
            .collect(),
    )
}

/// Computes the elements of result 0 of a two-operand operator, if the elements of both operands are
/// followed.
pub(crate) fn follow(ctx: &mut Infer<'_>, function: impl Fn(&Item, &Item) -> Item) {
    let Some((left, right)) = ctx.data(0).zip(ctx.data(1)) else { return };
    if let Some(items) = zip_items(&[left, right], |items| function(items[0], items[1])) {
        ctx.set_items(0, items);
    }
}

/// Computes the elements of result 0 of a one-operand operator, if the elements of the operand are
/// followed.
pub(crate) fn follow_one(ctx: &mut Infer<'_>, function: impl Fn(&Item) -> Item) {
    let Some(data) = ctx.data(0) else { return };
    let items = data.items.iter().map(function).collect();
    ctx.set_items(0, items);
}

/// Copies the elements of operand 0 to result 0 in unchanged order. The shape of result 0 must already
/// be stated.
pub(crate) fn follow_same(ctx: &mut Infer<'_>) {
    follow_one(ctx, Item::clone);
}

/// Multiplies extents; an extent of zero gives zero even if others are unknown.
pub(crate) fn product(dims: &[Dim]) -> Dim {
    if dims.contains(&Dim::Known(0)) {
        return Dim::Known(0);
    }
    dims.iter().fold(Dim::Known(1), |product, dim| product.mul(dim))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn data(dims: &[u64], first: i64) -> Data {
        let count = item_count(dims).unwrap() as i64;
        Data::new(ElementType::Int64, dims.to_vec(), (first..first + count).map(Item::Int).collect()).unwrap()
    }

    #[test]
    fn positions_follow_strides() {
        assert_eq!(positions(&[2, 3], 0, &[1, 2]).unwrap(), [0, 2, 4, 1, 3, 5]);
        assert_eq!(positions(&[3], 2, &[-1]).unwrap(), [2, 1, 0]);
        assert_eq!(positions(&[], 4, &[]).unwrap(), [4]);
        assert_eq!(positions(&[2, 0], 0, &[1, 1]).unwrap(), [0usize; 0]);
        assert_eq!(positions(&[2], 0, &[-1]), None);
        assert_eq!(positions(&[1 << 40, 1 << 40], 0, &[0, 0]), None);
    }

    #[test]
    fn elements_broadcast_over_all_axes() {
        let sums = zip_items(&[&data(&[2, 1], 0), &data(&[3], 10)], |items| {
            Item::Int(items[0].int().unwrap() * 100 + items[1].int().unwrap())
        });
        let sums: Vec<i64> = sums.unwrap().iter().map(|item| item.int().unwrap()).collect();
        assert_eq!(sums, [10, 11, 12, 110, 111, 112]);
        assert_eq!(zip_items(&[&data(&[2], 0), &data(&[3], 0)], |_| Item::Unknown), None);
        assert_eq!(zip_items(&[&data(&[4096, 1], 0), &data(&[1, 4096], 0)], |_| Item::Unknown), None);
    }
}
