//! Indices of a MaxPool over single elements: each index is the position of its element, for all data,
//! so it is a constant.
//!
//! Exporters subtract the first index of each channel from the indices of another MaxPool, and compute
//! all indices for that: eight bytes per element. A kernel may leave out the position of an element that
//! is not greater than the least finite number, so this rule is not exact.

use memc_ir::{Dim, Node, Value};

use super::Walk;
use crate::analysis::windows::slice_starts;

/// Turns a Slice of these indices into a constant.
pub(super) fn sliced(walk: &mut Walk<'_, '_, '_>, node: Node) -> bool {
    let Some(taken) = taken(walk, node) else { return false };
    let ty = walk.module().ty(taken.result).tensor().cloned();
    let Some((ty, size)) = ty.and_then(|ty| Some((ty.clone(), ty.size()?.0))) else { return false };
    let numbers =
        if walk.affordable(size) { numbered(&taken.whole, &taken.starts, &taken.extents) } else { None };
    let Some(numbers) = numbers else { return false };
    let id = walk
        .maker
        .constant(memc_edit::constant(ty, numbers.into_iter().flat_map(i64::to_le_bytes).collect()));
    walk.maker.make_initializer(taken.result, id);
    walk.maker.erase(node);
    true
}

/// The box that a Slice takes from an array.
struct Taken {
    result: Value,
    whole: Vec<u64>,
    starts: Vec<u64>,
    extents: Vec<u64>,
}

/// Returns the box that a Slice takes from the indices; `None` if the operand holds no such indices, or
/// the result must keep its node and name.
fn taken(walk: &Walk<'_, '_, '_>, node: Node) -> Option<Taken> {
    let indices = walk.maker.operand(node, 0).filter(|_| walk.name(node) == "Slice")?;
    let pool = walk.module().producer(indices).filter(|pool| looks_at_one_element(walk, *pool))?;
    let result = walk.maker.only_result(node).filter(|result| !walk.maker.is_pinned(*result))?;
    if walk.module().node(pool).outputs.get(1) != Some(&Some(indices)) {
        return None;
    }
    let ty = |value: Value| walk.module().ty(value).tensor();
    let (whole, extents) = (ty(indices)?.known_dims()?, ty(result)?.known_dims()?);
    let starts = slice_starts(walk.module(), node, ty(indices)?.shape.as_deref()?, &walk.ctx.data)?;
    let starts = starts.iter().map(Dim::known).collect::<Option<_>>()?;
    Some(Taken { result, whole, starts, extents })
}

/// Returns whether a node is a MaxPool over single elements, with stride 1 and without padding.
fn looks_at_one_element(walk: &Walk<'_, '_, '_>, node: Node) -> bool {
    let data = walk.module().node(node);
    let all =
        |name: &str, number: i64| data.ints(name).is_none_or(|list| list.iter().all(|each| *each == number));
    let has_kernel = data.ints("kernel_shape").is_some();
    walk.name(node) == "MaxPool"
        && has_kernel
        && all("kernel_shape", 1)
        && all("strides", 1)
        && all("pads", 0)
        && data.int("storage_order", 0) == 0
}

/// Returns the numbers of the elements of a box inside an array, in row-major order; `None` if the box
/// exceeds the array.
fn numbered(whole: &[u64], starts: &[u64], extents: &[u64]) -> Option<Vec<i64>> {
    let mut found = vec![0i64];
    for (axis, all) in whole.iter().enumerate() {
        let (start, extent, stride) = (*starts.get(axis)?, *extents.get(axis)?, i64::try_from(*all).ok()?);
        let end = start.checked_add(extent).filter(|end| end <= all)?;
        let at = |before: &i64, at: u64| before.checked_mul(stride)?.checked_add(i64::try_from(at).ok()?);
        found = found
            .iter()
            .flat_map(|before| (start..end).map(|place| at(before, place)))
            .collect::<Option<_>>()?;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::numbered;

    #[test]
    fn boxes_are_numbered_in_the_order_of_rows() {
        assert_eq!(numbered(&[2, 3, 4], &[0, 1, 2], &[2, 2, 1]), Some(vec![6, 10, 18, 22]));
        assert_eq!(numbered(&[2, 3], &[0, 0], &[2, 3]), Some((0..6).collect()));
        assert_eq!(numbered(&[2, 3], &[1, 1], &[1, 3]), None);
        assert_eq!(numbered(&[2, 3], &[1, 1], &[0, 2]), Some(vec![]));
    }
}
