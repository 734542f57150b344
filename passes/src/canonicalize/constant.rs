//! Constants computed from constants beyond inference: reshaped, transposed, joined, negated, sliced and
//! split weights.

use memc_edit::constant;
use memc_ir::{ConstData, ConstOrigin, Dim, ElementType, Node, Payload, TensorType, Use, Value};
use memc_ops::{View, lookup, normalize_axis};

use super::{Walk, transpose};
use crate::analysis::windows::slice_starts;
use crate::fold::keeps_bits;

/// Turns the result of a node with constant operands into a constant, if that does not enlarge the
/// model.
pub(super) fn of_constants(walk: &mut Walk<'_, '_, '_>, node: Node) -> bool {
    if walk.name(node) == "Split" {
        return parted(walk, node).is_some();
    }
    let (Some(operand), Some(result)) = (walk.maker.operand(node, 0), walk.maker.only_result(node)) else {
        return false;
    };
    // A node makes each graph output, before and after the pass.
    if walk.constant_id(operand).is_none()
        || walk.maker.uses(result).iter().any(|site| matches!(site, Use::Output(..)))
    {
        return false;
    }
    if walk.ctx.options.rewrite.exact && !keeps_bits(&walk.maker, result) {
        return false;
    }
    let info = lookup(&walk.module().node(node).operator);
    let reshape = info.is_some_and(|info| info.view == View::Reshape && info.domain.is_empty());
    let constant = match walk.name(node) {
        "Concat" => joined(walk, node, result),
        "Neg" => negated(walk, operand),
        "Slice" => sliced(walk, node, operand, result),
        "Transpose" => transposed(walk, node, operand),
        _ if reshape => reshaped(walk, operand, result),
        _ => None,
    };
    let Some(constant) = constant else { return false };
    let id = walk.maker.constant(constant);
    walk.maker.make_initializer(result, id);
    walk.maker.erase(node);
    true
}

/// Returns whether a constant disappears with this one reader, or is small enough to be stored twice.
fn goes_or_is_small(walk: &Walk<'_, '_, '_>, value: Value) -> bool {
    let size = walk.module().ty(value).size();
    walk.maker.uses(value).len() == 1 || size.is_some_and(|size| size <= walk.ctx.options.max_fold_bytes)
}

/// Returns the bytes of a constant under another shape.
fn reshaped(walk: &Walk<'_, '_, '_>, operand: Value, result: Value) -> Option<ConstData> {
    let ty = walk.module().ty(result).tensor()?.clone();
    let source = walk.module().constant(walk.constant_id(operand)?);
    let external = matches!(source.payload, Payload::External { .. });
    // Bytes in another file can be referenced twice without a copy.
    let free = external || matches!(source.payload, Payload::Raw(_)) && goes_or_is_small(walk, operand);
    let same =
        ty.element == source.ty.element && ty.elements().is_some() && ty.elements() == source.ty.elements();
    (free && same).then(|| ConstData { ty, payload: source.payload.clone(), origin: ConstOrigin::New })
}

/// Returns a constant with its axes permuted.
fn transposed(walk: &mut Walk<'_, '_, '_>, node: Node, operand: Value) -> Option<ConstData> {
    let axes = transpose::axes(walk, node)?;
    if !goes_or_is_small(walk, operand) {
        return None;
    }
    let source = walk.module().constant(walk.constant_id(operand)?);
    let width = usize::try_from(source.ty.element.bits()?).ok().filter(|bits| bits % 8 == 0)? / 8;
    let (size, from) = (source.ty.size()?, source.ty.known_dims()?);
    if !walk.affordable(size.0) {
        return None;
    }
    let (ty, bytes) = walk.constant_bytes(operand)?;
    let to: Vec<u64> = axes.iter().map(|axis| from[*axis]).collect();
    Some(constant(TensorType::fixed(ty.element, &to), permuted(&bytes, width, &from, &axes)?))
}

/// Divides a constant into contiguous runs from an axis on: returns the number of runs and the bytes of
/// one run.
fn runs(ty: &TensorType, axis: i64) -> Option<(usize, usize)> {
    let dims = ty.known_dims()?;
    let axis = normalize_axis(axis, dims.len())?;
    let width = u64::from(ty.element.bits().filter(|bits| bits % 8 == 0)? / 8);
    let product = |dims: &[u64]| dims.iter().try_fold(1u64, |product, extent| product.checked_mul(*extent));
    let run = product(&dims[axis..])?.checked_mul(width)?;
    Some((usize::try_from(product(&dims[..axis])?).ok()?, usize::try_from(run).ok()?))
}

/// Joins constants along an axis.
fn joined(walk: &mut Walk<'_, '_, '_>, node: Node, result: Value) -> Option<ConstData> {
    let data = walk.module().node(node);
    let (axis, operands) = (data.int("axis", 0), data.operands().collect::<Vec<Value>>());
    let ty = walk.module().ty(result).tensor()?.clone();
    if !operands.iter().all(|value| goes_or_is_small(walk, *value)) || !walk.affordable(ty.size()?.0) {
        return None;
    }
    let parts: Option<Vec<_>> = operands.iter().map(|value| walk.constant_bytes(*value)).collect();
    let parts: Option<Vec<_>> =
        parts?.into_iter().map(|(ty, bytes)| Some((runs(&ty, axis)?, bytes))).collect();
    let parts = parts?;
    let (count, run) = runs(&ty, axis)?;
    let whole = parts.iter().try_fold(0usize, |sum, ((_, run), _)| sum.checked_add(*run));
    if whole != Some(run) || parts.iter().any(|((own, _), _)| *own != count) {
        return None;
    }
    let mut bytes = Vec::with_capacity(count.checked_mul(run)?);
    for number in 0..count {
        for ((_, run), part) in &parts {
            bytes.extend_from_slice(part.get(number * run..(number + 1) * run)?);
        }
    }
    Some(constant(ty, bytes))
}

/// Negates a constant of IEEE floats by flipping the sign bits.
fn negated(walk: &mut Walk<'_, '_, '_>, operand: Value) -> Option<ConstData> {
    let width = match walk.module().ty(operand).tensor()?.element {
        ElementType::Float16 => 2,
        ElementType::Float => 4,
        ElementType::Double => 8,
        _ => return None,
    };
    let size = walk.module().ty(operand).size()?.0;
    if !goes_or_is_small(walk, operand) || !walk.affordable(size) {
        return None;
    }
    let (ty, bytes) = walk.constant_bytes(operand)?;
    let mut bytes = bytes.to_vec();
    bytes.chunks_exact_mut(width).filter_map(<[u8]>::last_mut).for_each(|last| *last ^= 0x80);
    Some(constant(ty, bytes))
}

/// Returns a box of a constant. The constant disappears if all its readers are slices; together, these may
/// not be larger.
fn sliced(walk: &mut Walk<'_, '_, '_>, node: Node, operand: Value, result: Value) -> Option<ConstData> {
    let ty = walk.module().ty(result).tensor()?.clone();
    let part = |site: &Use| {
        let Use::Operand(reader, 0) = site else { return None };
        let size = walk.module().ty(walk.maker.only_result(*reader)?).size();
        size.filter(|_| walk.name(*reader) == "Slice")
    };
    let parts =
        walk.maker.uses(operand).iter().map(part).try_fold(0u64, |sum, part| sum.checked_add(part?.0));
    if parts.is_none_or(|parts| walk.module().ty(operand).size().is_none_or(|whole| parts > whole.0)) {
        return None;
    }
    let dims = walk.module().ty(operand).tensor()?.shape.clone()?;
    let starts = slice_starts(walk.module(), node, &dims, &walk.ctx.data)?;
    let starts: Vec<u64> = starts.iter().map(Dim::known).collect::<Option<_>>()?;
    if !walk.affordable(ty.size()?.0) {
        return None;
    }
    let (whole, bytes) = walk.constant_bytes(operand)?;
    let width = usize::try_from(whole.element.bits().filter(|bits| bits % 8 == 0)? / 8).ok()?;
    let taken = taken(&bytes, width, &whole.known_dims()?, &starts, &ty.known_dims()?)?;
    Some(constant(TensorType { element: whole.element, ..ty }, taken))
}

/// Takes a box from an array of elements of `width` bytes; `None` if the box exceeds the array.
fn taken(bytes: &[u8], width: usize, whole: &[u64], starts: &[u64], extents: &[u64]) -> Option<Vec<u8>> {
    let (Some((start, starts)), Some((extent, extents))) = (starts.split_first(), extents.split_first())
    else {
        return bytes.get(..width).map(<[u8]>::to_vec);
    };
    let (all, whole) = whole.split_first()?;
    let end = start.checked_add(*extent).filter(|end| end <= all)?;
    let block = whole.iter().try_fold(width as u64, |block, extent| block.checked_mul(*extent))?;
    let at = |place: u64| usize::try_from(place.checked_mul(block)?).ok();
    // Inner axes that are taken whole lie in one run.
    if starts.iter().all(|start| *start == 0) && extents == whole {
        return bytes.get(at(*start)?..at(end)?).map(<[u8]>::to_vec);
    }
    let mut found = Vec::new();
    for place in *start..end {
        found.extend(taken(bytes.get(at(place)?..at(place + 1)?)?, width, whole, starts, extents)?);
    }
    Some(found)
}

/// Turns all results of a Split of a constant into constants.
fn parted(walk: &mut Walk<'_, '_, '_>, node: Node) -> Option<()> {
    let operand = walk.maker.operand(node, 0).filter(|value| walk.constant_id(*value).is_some())?;
    let results: Vec<Value> = walk.module().node(node).results().collect();
    let is_output =
        |value: &Value| walk.maker.uses(*value).iter().any(|site| matches!(site, Use::Output(..)));
    let exact = walk.ctx.options.rewrite.exact;
    if results.iter().any(|value| is_output(value) || exact && !keeps_bits(&walk.maker, *value)) {
        return None;
    }
    let size = walk.module().ty(operand).size()?.0;
    if results.len() != walk.module().node(node).outputs.len()
        || !goes_or_is_small(walk, operand)
        || !walk.affordable(size)
    {
        return None;
    }
    let axis = walk.module().node(node).int("axis", 0);
    let (ty, bytes) = walk.constant_bytes(operand)?;
    let (count, run) = runs(&ty, axis)?;
    let mut begin = 0;
    let mut parts = Vec::with_capacity(results.len());
    for value in &results {
        let ty = walk.module().ty(*value).tensor()?.clone();
        let (own, part) = runs(&ty, axis)?;
        let end = Some(begin + part).filter(|end| own == count && *end <= run)?;
        let mut raw = Vec::with_capacity(count.checked_mul(part)?);
        for number in 0..count {
            raw.extend_from_slice(bytes.get(number * run + begin..number * run + end)?);
        }
        parts.push(constant(ty, raw));
        begin = end;
    }
    if begin != run {
        return None;
    }
    for (value, constant) in results.into_iter().zip(parts) {
        let id = walk.maker.constant(constant);
        walk.maker.make_initializer(value, id);
    }
    walk.maker.erase(node);
    Some(())
}

/// Permutes the axes of elements of `width` bytes, in one walk over the result. `None` if the extents do
/// not fit the bytes.
fn permuted(bytes: &[u8], width: usize, dims: &[u64], axes: &[usize]) -> Option<Vec<u8>> {
    let dims: Vec<usize> =
        dims.iter().map(|extent| usize::try_from(*extent)).collect::<Result<_, _>>().ok()?;
    let mut steps = vec![width; dims.len()];
    for axis in (0..dims.len().saturating_sub(1)).rev() {
        steps[axis] = steps[axis + 1].checked_mul(dims[axis + 1])?;
    }
    let (extents, steps): (Vec<usize>, Vec<usize>) =
        axes.iter().map(|axis| (dims[*axis], steps[*axis])).unzip();
    let mut result = Vec::with_capacity(bytes.len());
    let mut index = vec![0usize; axes.len()];
    let mut at = 0usize;
    while result.len() < bytes.len() {
        result.extend_from_slice(bytes.get(at..at + width)?);
        for axis in (0..index.len()).rev() {
            index[axis] += 1;
            at += steps[axis];
            if index[axis] < extents[axis] {
                break;
            }
            at -= steps[axis] * extents[axis];
            index[axis] = 0;
        }
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::{permuted, taken};

    #[test]
    fn boxes_are_taken_in_the_order_of_rows() {
        let bytes: Vec<u8> = (0..24).collect();
        assert_eq!(taken(&bytes, 1, &[2, 3, 4], &[0, 1, 2], &[2, 2, 1]), Some(vec![6, 10, 18, 22]));
        assert_eq!(taken(&bytes, 2, &[4, 3], &[1, 0], &[2, 3]), Some((6..18).collect()));
        assert_eq!(taken(&bytes, 4, &[6], &[5], &[1]), Some(vec![20, 21, 22, 23]));
        assert_eq!(taken(&bytes, 1, &[2, 3, 4], &[1, 2, 3], &[1, 1, 2]), None);
        assert_eq!(taken(&bytes, 1, &[4, 6], &[0, 5], &[0, 1]), Some(vec![]));
        assert_eq!(taken(&[7], 1, &[], &[], &[]), Some(vec![7]));
    }

    #[test]
    fn axes_change_places() {
        let bytes: Vec<u8> = (0..24).collect();
        let expected: Vec<u8> =
            (0..4).flat_map(|k| (0..2).flat_map(move |i| (0..3).map(move |j| i * 12 + j * 4 + k))).collect();
        assert_eq!(permuted(&bytes, 1, &[2, 3, 4], &[2, 0, 1]), Some(expected));
        assert_eq!(permuted(&[1, 2, 3, 4], 2, &[2], &[0]), Some(vec![1, 2, 3, 4]));
        assert_eq!(permuted(&[7], 1, &[], &[]), Some(vec![7]));
        assert_eq!(permuted(&[], 4, &[0, 3], &[1, 0]), Some(vec![]));
    }
}
