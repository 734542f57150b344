//! The splitting rules of operators: how nodes of each operator family compute one part of a batch.
//!
//! Each rule gets at least one operand that is split along an axis, and no operand that is an addend. It
//! returns the pieces that the node reads and computes.

use memc_ir::{ConstData, Module, Operator, Payload, Value};

use super::{Piece, Pieces, Share};

/// Handles element-wise operators with broadcasting: all split operands must be split along one common
/// result axis.
pub(crate) fn element_wise(share: &Share<'_>) -> Option<Pieces> {
    let dims = share.output()?;
    let mut axis = None;
    for index in 0..share.count() {
        if let Some(own) = share.along(index) {
            let result = (own + dims.len()).checked_sub(share.input(index)?.len())?;
            (*axis.get_or_insert(result) == result).then_some(())?;
        }
    }
    let axis = axis?;
    let operand = |index: usize| match share.input(index) {
        None => Some(Piece::Whole),
        Some(own) => match (axis + own.len()).checked_sub(dims.len()) {
            None => Some(Piece::Whole),
            Some(at) if own[at] == 1 => Some(Piece::Whole),
            Some(at) => (own[at] == dims[axis]).then_some(Piece::Along(at)),
        },
    };
    let operands: Option<Vec<Piece>> = (0..share.count()).map(operand).collect();
    let alike = (1..share.node.data().outputs.len())
        .all(|index| share.node.output_dims(index).is_none_or(|other| other == dims));
    alike.then_some(share.made(operands?, Piece::Along(axis)))
}

/// Splits along an axis before attribute `axis`. Operands with the rank of the result must have its
/// extents and are split; all other operands are whole.
pub(crate) fn all_but_axis(share: &Share<'_>) -> Option<Pieces> {
    let axis = (0..share.count()).find_map(|index| share.along(index))?;
    let dims = share.output()?;
    (axis < share.axis(-1, dims.len())?).then_some(())?;
    let operand = |index: usize| match share.input(index) {
        Some(own) if own.len() == dims.len() => (own == dims).then_some(Piece::Along(axis)),
        _ => Some(Piece::Whole),
    };
    let operands: Option<Vec<Piece>> = (0..share.count()).map(operand).collect();
    Some(share.made(operands?, Piece::Along(axis)))
}

/// Splits operand 0 along any axis but the last, if all other operands are vectors and result 0 is the
/// only result.
pub(crate) fn all_but_last(share: &Share<'_>) -> Option<Pieces> {
    let axis = share.along(0)?;
    let rank = share.input(0)?.len();
    let vectors = (1..share.count()).all(|index| share.input(index).is_none_or(|dims| dims.len() <= 1));
    (axis + 1 < rank && vectors && alone(share)).then(|| share.made(share.only(0, axis), Piece::Along(axis)))
}

/// Splits the rows of a product with a packed weight: operand 0 along any axis but the last. No axis of the
/// other operands (weight, scales, zero points, addend) lies along rows.
pub(crate) fn packed_product(share: &Share<'_>) -> Option<Pieces> {
    let axis = share.along(0)?;
    (axis + 1 < share.input(0)?.len() && alone(share))
        .then(|| share.made(share.only(0, axis), Piece::Along(axis)))
}

/// Splits a normalization of a sum of two operands along any axis but the last, with its statistics and the
/// sum. The second operand may be repeated; all others are vectors.
pub(crate) fn skip_normalized(share: &Share<'_>) -> Option<Pieces> {
    let dims = share.input(0)?;
    let skip = share.input(1)?;
    let axis = share.along(0).or_else(|| (share.along(1)? + dims.len()).checked_sub(skip.len()))?;
    let vectors = (2..share.count()).all(|index| share.input(index).is_none_or(|dims| dims.len() <= 1));
    (axis + 1 < dims.len() && vectors).then_some(())?;
    let mut operands = share.only(0, axis);
    match (axis + skip.len()).checked_sub(dims.len()) {
        Some(own) if skip[own] == dims[axis] => operands[1] = Piece::Along(own),
        Some(own) if skip[own] != 1 => return None,
        _ => {}
    }
    Some(share.made(operands, Piece::Along(axis)))
}

/// Splits the batch axis of operand 0, if all other operands are constants and result 0 is the only
/// result (further results of pooling are indices over the whole batch).
pub(crate) fn batch(share: &Share<'_>) -> Option<Pieces> {
    let is_constant =
        |value: Option<Value>| value.is_none_or(|value| share.node.module.constant_of(value).is_some());
    let fixed = share.node.data().inputs[1..].iter().all(|value| is_constant(*value));
    (share.along(0)? == 0 && fixed && alone(share)).then(|| share.made(share.only(0, 0), Piece::Along(0)))
}

/// Whether result 0 is the only result.
fn alone(share: &Share<'_>) -> bool {
    share.node.data().outputs.iter().skip(1).all(Option::is_none)
}

/// Splits a convolution with its addends (a bias, an image). A split batch keeps the filters whole.
/// Split filters, or groups of filters, split the bias as well. Split channels give sums.
pub(crate) fn convolution(share: &Share<'_>) -> Option<Pieces> {
    let groups = u64::try_from(share.node.data().int("group", 1)).ok()?;
    let data = share.along(0);
    if data.or(share.along(3)) == Some(0) {
        return Some(share.made(convolved(share, [Some(0), None, None, Some(0)]), Piece::Along(0)));
    }
    if groups > 1 {
        let found = share.made(convolved(share, [Some(1), Some(0), Some(0), Some(1)]), Piece::Along(1));
        return groups.is_multiple_of(share.parts).then_some(Pieces { count: Some("group"), ..found });
    }
    match data {
        None => Some(share.made(convolved(share, [None, Some(0), Some(0), Some(1)]), Piece::Along(1))),
        Some(1) => Some(over_channels(share)),
        Some(_) => None,
    }
}

/// Splits a convolution over its input channels, which gives sums. The bias and the image are added
/// once. A kernel that takes an image adds to the result of the preceding parts, and applies the
/// nonlinear activation when the sum is complete.
fn over_channels(share: &Share<'_>) -> Pieces {
    let operator = &share.node.data().operator;
    let fused = Operator { domain: "com.microsoft".into(), ..Operator::onnx("FusedConv", 1) };
    let is_fused = operator.name == fused.name;
    let result = if is_fused { Piece::Accumulated } else { Piece::Sum };
    let in_first = [2, 3].into_iter().filter(|index| share.input(*index).is_some()).collect();
    Pieces {
        in_first,
        in_last: if is_fused { &["activation", "activation_params"] } else { &[] },
        accumulates: is_fused.then_some(3),
        adder: (!is_fused).then_some((fused, 3)),
        ..share.made(convolved(share, [Some(1), Some(1), None, None]), result)
    }
}

/// Returns the pieces of a convolution's data, filters, bias and addend: each is split along its axis in
/// `axes`, if present.
fn convolved(share: &Share<'_>, axes: [Option<usize>; 4]) -> Vec<Piece> {
    let piece = |index: usize| match (share.input(index), axes.get(index)) {
        (Some(_), Some(Some(axis))) => Piece::Along(*axis),
        _ => Piece::Whole,
    };
    (0..share.count()).map(piece).collect()
}

/// Splits the gradient of a convolution along the batch: the image gradient is a share, the gradients of
/// filters and bias are sums.
pub(crate) fn convolution_gradient(share: &Share<'_>) -> Option<Pieces> {
    let is_batch = |index: usize| share.along(index).is_none_or(|axis| axis == 0);
    (is_batch(0) && is_batch(1) && share.along(2).is_none() && share.count() == 3).then_some(())?;
    let mut found = share.made(vec![Piece::Along(0), Piece::Along(0), Piece::Whole], Piece::Sum);
    *found.results.first_mut()? = Piece::Along(0);
    Some(found)
}

/// Splits a transposed convolution along the batch with whole filters, or along the filters.
pub(crate) fn transposed_convolution(share: &Share<'_>) -> Option<Pieces> {
    match share.along(0) {
        Some(0) => Some(share.made(share.only(0, 0), Piece::Along(0))),
        None if share.node.data().int("group", 1) == 1 => {
            Some(share.made(convolved(share, [None, Some(1), Some(0), None]), Piece::Along(1)))
        }
        _ => None,
    }
}

/// Splits pooling along batch or channels of operand 0. A further result contains element indices over
/// the whole batch, so it allows only the batch.
pub(crate) fn pooled(share: &Share<'_>) -> Option<Pieces> {
    let axis = share.along(0).filter(|axis| *axis < 2)?;
    (axis == 0 || alone(share)).then_some(())?;
    let mut found = share.made(share.only(0, axis), Piece::Within(axis));
    *found.results.first_mut()? = Piece::Along(axis);
    Some(found)
}

/// Splits unpooling of elements and their indices (see [`pooled`]) along the batch.
pub(crate) fn unpooled(share: &Share<'_>) -> Option<Pieces> {
    let elements = share.output()?.iter().product();
    (share.count() == 2 && share.along(0) == Some(0) && counts_in(share, 1, elements))
        .then(|| share.made(vec![Piece::Along(0), Piece::Within(0)], Piece::Along(0)))
}

/// Whether an operand contains element indices into the operand of a pooling node, which has this number
/// of elements in all; the indices of each share start at the share's first element.
fn counts_in(share: &Share<'_>, index: usize, elements: u64) -> bool {
    let Some(Piece::Within(0)) = share.operands.get(index) else { return false };
    let module = share.node.module;
    // Nodes between the pooling node and this operand only change extents.
    let mut value = share.node.data().inputs[index];
    while let Some(node) = value.and_then(|value| module.producer(value)) {
        let source = module.node(node).inputs.first().copied().flatten();
        if value.is_some_and(|value| module.node(node).outputs.first() != Some(&Some(value))) {
            let pooled = source.and_then(|source| module.ty(source).tensor()?.known_dims());
            return pooled.is_some_and(|dims| dims.iter().product::<u64>() == elements);
        }
        value = source;
    }
    false
}

/// Splits sums over neighboring channels along any other axis.
pub(crate) fn across_channels(share: &Share<'_>) -> Option<Pieces> {
    let axis = share.along(0).filter(|axis| *axis != 1)?;
    Some(share.made(share.only(0, axis), Piece::Along(axis)))
}

/// Handles operators with one number per channel: splits channels together with their numbers. Splits
/// another axis if `apart` allows it and result 0 is the only result.
fn per_channel(share: &Share<'_>, apart: impl Fn(usize) -> bool) -> Option<Pieces> {
    let numbers = (1..share.count()).find_map(|index| share.along(index));
    let vectors = (1..share.count()).all(|index| share.input(index).is_some_and(|dims| dims.len() == 1));
    match share.along(0).or(numbers.map(|_| 1))? {
        1 if vectors => {
            let operands = (0..share.count()).map(|index| Piece::Along(usize::from(index == 0))).collect();
            let mut found = share.made(operands, Piece::Along(0));
            *found.results.first_mut()? = Piece::Along(1);
            Some(found)
        }
        1 => None,
        axis => (apart(axis) && alone(share)).then(|| share.made(share.only(0, axis), Piece::Along(axis))),
    }
}

/// Splits batch normalization: along channels, and along other axes if the statistics are given rather
/// than computed.
pub(crate) fn batch_normalized(share: &Share<'_>) -> Option<Pieces> {
    let given = share.node.data().int("training_mode", 0) == 0;
    per_channel(share, |_| given)
}

/// Splits instance normalization along the batch, or along channels with their scales: each channel of
/// an image has its own statistics.
pub(crate) fn instance_normalized(share: &Share<'_>) -> Option<Pieces> {
    per_channel(share, |axis| axis == 0)
}

/// Splits quantization and dequantization along any axis. Scale and zero point stay whole if they are
/// scalars or belong to another axis, and are split along the axis that they belong to. Block-wise
/// scales are not supported.
pub(crate) fn quantized(share: &Share<'_>) -> Option<Pieces> {
    let axis = share.along(0)?;
    let dims = share.input(0)?;
    let scales = share.input(1)?;
    (share.node.data().int("block_size", 0) == 0 && scales.len() <= 1).then_some(())?;
    let mut operands = share.only(0, axis);
    if scales.len() == 1 && scales[0] != 1 && share.axis(1, dims.len())? == axis {
        operands[1..].fill(Piece::Along(0));
    }
    Some(share.made(operands, Piece::Along(axis)))
}

/// Splits resizing along an axis whose extent does not change.
pub(crate) fn resized(share: &Share<'_>) -> Option<Pieces> {
    let (axis, from, to) = (share.along(0)?, share.input(0)?, share.output()?);
    let data = share.node.data();
    let plain = data.attribute("axes").is_none()
        && data.string("coordinate_transformation_mode") != Some("tf_crop_and_resize");
    let extents = data.inputs.get(3).copied().flatten().map(|_| 3);
    (plain && from[axis] == to[axis])
        .then(|| Pieces { extents, ..share.made(share.only(0, axis), Piece::Along(axis)) })
}

/// Splits a matrix product along rows, columns, leading axes (with broadcasting), or the inner axis,
/// which gives sums.
pub(crate) fn product(share: &Share<'_>) -> Option<Pieces> {
    let data = share.node.data();
    let (left, right) = (share.input(0)?, share.input(1)?);
    (left.len() >= 2 && right.len() >= 2).then_some(())?;
    let is_set = |name: &str| data.int(name, 0) != 0;
    let (row, inner) = matrix_axes(left.len(), is_set("transA"), is_set("transBatchA"));
    let (inner_right, column) = matrix_axes(right.len(), is_set("transB"), is_set("transBatchB"));
    let rank = share.output()?.len();
    let mut operands = vec![Piece::Whole; share.count()];
    let result = match (share.along(0), share.along(1)) {
        (Some(axis), _) if axis == inner => {
            (operands[0], operands[1]) = (Piece::Along(inner), Piece::Along(inner_right));
            Piece::Sum
        }
        (_, Some(axis)) if axis == inner_right => {
            (operands[0], operands[1]) = (Piece::Along(inner), Piece::Along(inner_right));
            Piece::Sum
        }
        (Some(axis), None) if axis == row => {
            operands[0] = Piece::Along(row);
            Piece::Along(rank - 2)
        }
        (None, Some(axis)) if axis == column => {
            operands[1] = Piece::Along(column);
            Piece::Along(rank - 1)
        }
        (Some(axis), _) if axis != row => {
            let moved = [is_set("transBatchA"), is_set("transBatchB")].map(usize::from);
            leading(&mut operands, axis + rank - left.len() - moved[0], [&left, &right], moved, rank)?
        }
        (_, Some(axis)) if axis != column => {
            let moved = [is_set("transBatchA"), is_set("transBatchB")].map(usize::from);
            leading(&mut operands, axis + rank - right.len() - moved[1], [&left, &right], moved, rank)?
        }
        _ => return None,
    };
    Some(share.made(operands, result))
}

/// Returns the axes of rows and columns of a matrix, whose rows may precede the batch axes.
fn matrix_axes(rank: usize, is_transposed: bool, has_rows_first: bool) -> (usize, usize) {
    let row = if has_rows_first { 0 } else { rank - 2 };
    if is_transposed { (rank - 1, row) } else { (row, rank - 1) }
}

/// Splits both operands along a leading axis of the result, unless their extent there is 1. `moved` is 1
/// for an operand whose rows come first, which shifts its leading axes.
fn leading(
    operands: &mut [Piece],
    axis: usize,
    dims: [&[u64]; 2],
    moved: [usize; 2],
    rank: usize,
) -> Option<Piece> {
    for ((piece, dims), moved) in operands.iter_mut().zip(dims).zip(moved) {
        let own = (axis + moved + dims.len()).checked_sub(rank).filter(|own| *own >= moved);
        if let Some(own) = own.filter(|own| dims[*own] != 1) {
            *piece = Piece::Along(own);
        }
    }
    Some(Piece::Along(axis))
}

/// Splits a matrix product with an addend (Gemm), which is added once in sums over the inner axis.
pub(crate) fn general_product(share: &Share<'_>) -> Option<Pieces> {
    let mut found = product(&Share { operands: &share.operands[..2], ..*share })?;
    found.operands.resize(share.count(), Piece::Whole);
    let dims = share.output()?;
    let has_addend = share.node.data().inputs.get(2).copied().flatten().is_some();
    let Piece::Along(axis) = found.results[0] else {
        // The other parts omit the addend, which versions before 11 require.
        if share.node.data().operator.version < 11 {
            return None;
        }
        let accumulates = (share.node.data().float("beta", 1.0) == 1.0).then_some(2);
        let in_first = has_addend.then_some(2).into_iter().collect();
        return Some(Pieces { accumulates, in_first, ..found });
    };
    let Some(addend) = share.input(2) else { return (!has_addend).then_some(found) };
    if let Some(own) = (axis + addend.len()).checked_sub(dims.len()).filter(|own| addend[*own] != 1) {
        found.operands[2] = Piece::Along(own);
    }
    Some(found)
}

/// Splits a reduction; if the parts split a reduced axis, their results are added.
pub(crate) fn reduced_sum(share: &Share<'_>) -> Option<Pieces> {
    reduced(share, Some(Piece::Sum))
}

/// Splits a reduction; if equal parts split a reduced axis, their results are averaged.
pub(crate) fn reduced_mean(share: &Share<'_>) -> Option<Pieces> {
    reduced(share, Some(Piece::Mean))
}

/// Splits a reduction only along axes that are kept.
pub(crate) fn reduced_apart(share: &Share<'_>) -> Option<Pieces> {
    reduced(share, None)
}

fn reduced(share: &Share<'_>, joined: Option<Piece>) -> Option<Pieces> {
    let (axis, dims) = (share.along(0)?, share.input(0)?);
    let data = share.node.data();
    let is_stated = data.inputs.get(1).copied().flatten().is_some();
    let axes = match data.ints("axes") {
        Some(axes) => axes.to_vec(),
        None if is_stated => share.ints(1)?,
        None => Vec::new(),
    };
    let mut axes: Vec<usize> =
        axes.iter().map(|axis| crate::normalize_axis(*axis, dims.len())).collect::<Option<_>>()?;
    if axes.is_empty() {
        (data.int("noop_with_empty_axes", 0) == 0).then_some(())?;
        axes = (0..dims.len()).collect();
    }
    let result = if axes.contains(&axis) {
        joined?
    } else {
        let gone =
            if data.int("keepdims", 1) == 0 { axes.iter().filter(|other| **other < axis).count() } else { 0 };
        Piece::Along(axis - gone)
    };
    Some(share.made(share.only(0, axis), result))
}

/// Splits a transposition; the split axis moves with the permutation.
pub(crate) fn transposition(share: &Share<'_>) -> Option<Pieces> {
    let (axis, rank) = (share.along(0)?, share.input(0)?.len());
    let to = match share.node.data().ints("perm") {
        Some(perm) => perm.iter().position(|from| *from == axis as i64)?,
        None => rank - 1 - axis,
    };
    Some(share.made(share.only(0, axis), Piece::Along(to)))
}

/// Splits a reshape: finds the result axis after an equal number of elements, so that its shares have
/// identical bytes.
pub(crate) fn reshaped(share: &Share<'_>) -> Option<Pieces> {
    let given = *share.operands.first()?;
    let (Piece::Along(axis) | Piece::Within(axis)) = given else { return None };
    let (from, to) = (share.input(0)?, share.output()?);
    let before: u64 = from[..axis].iter().product();
    let mut product = 1;
    let mut found = None;
    for (index, extent) in to.iter().enumerate() {
        if product == before && extent.is_multiple_of(share.parts) && *extent > 0 {
            found = Some(index);
            break;
        }
        product *= extent;
    }
    let stated = share.node.data().inputs.get(1).copied().flatten().is_some();
    let is_stated = stated && &*share.node.data().operator.name == "Reshape";
    let made = match given {
        Piece::Within(_) => Piece::Within(found?),
        _ => Piece::Along(found?),
    };
    let mut operands = share.only(0, axis);
    operands[0] = given;
    Some(Pieces { extents: is_stated.then_some(1), ..share.made(operands, made) })
}

/// Splits Expand along an axis that it does not expand.
pub(crate) fn expanded(share: &Share<'_>) -> Option<Pieces> {
    let (axis, from, to) = (share.along(0)?, share.input(0)?, share.output()?);
    let result = (axis + to.len()).checked_sub(from.len())?;
    (to[result] == from[axis]).then_some(())?;
    Some(Pieces { extents: Some(1), ..share.made(share.only(0, axis), Piece::Along(result)) })
}

/// Splits a lookup of rows along the axes of the indices, or along another axis of the table.
pub(crate) fn gathered(share: &Share<'_>) -> Option<Pieces> {
    let (table, indices) = (share.input(0)?, share.input(1)?);
    let axis = share.axis(0, table.len())?;
    let (index, own, result) = match (share.along(0), share.along(1)) {
        (None, Some(own)) => (1, own, axis + own),
        (Some(own), None) if own < axis => (0, own, own),
        (Some(own), None) if own > axis => (0, own, own + indices.len() - 1),
        _ => return None,
    };
    Some(share.made(share.only(index, own), Piece::Along(result)))
}

/// Splits a lookup of slices along the axes of the indices, along the axes of the slices, or along a batch
/// axis, which data and indices have in common.
pub(crate) fn slices_gathered(share: &Share<'_>) -> Option<Pieces> {
    let (data, indices) = (share.input(0)?, share.input(1)?);
    let batch = usize::try_from(share.node.data().int("batch_dims", 0)).ok()?;
    let (last, depth) = (indices.len().checked_sub(1)?, usize::try_from(*indices.last()?).ok()?);
    let [of_data, of_indices] = [0, 1].map(|index| share.along(index));
    if let Some(own) = of_data.or(of_indices).filter(|own| *own < batch.min(last)) {
        (data.get(own) == indices.get(own)).then_some(())?;
        return Some(share.made(vec![Piece::Along(own); 2], Piece::Along(own)));
    }
    let (index, own, result) = match (of_data, of_indices) {
        (None, Some(own)) if own < last => (1, own, own),
        (Some(own), None) => (0, own, last + own.checked_sub(batch + depth)?),
        _ => return None,
    };
    Some(share.made(share.only(index, own), Piece::Along(result)))
}

/// Splits lookups and writes of single elements along one axis. All operands are split along another
/// axis on which they agree; or along the batch if the indices count within shares; or, for additions to
/// zeros, along the indexed axis, which gives sums.
pub(crate) fn element_indexed(share: &Share<'_>) -> Option<Pieces> {
    let dims = share.input(0)?;
    let axis = share.axis(0, dims.len())?;
    if dims.len() == 1 && counts_in(share, 1, dims[0]) {
        let piece = |index: usize| if index == 1 { Piece::Within(0) } else { Piece::Along(0) };
        return Some(share.made((0..share.count()).map(piece).collect(), Piece::Along(0)));
    }
    let own = (0..share.count()).find_map(|index| share.along(index))?;
    if own != axis {
        let agree = (1..share.count())
            .all(|index| share.input(index).is_some_and(|other| other.get(own) == dims.get(own)));
        let all = vec![Piece::Along(own); share.count()];
        return agree.then(|| share.made(all, Piece::Along(own)));
    }
    adds_to_zeros(share, own)
}

/// Splits ScatterND that adds to zeros along the axes of the indices, which gives sums.
pub(crate) fn slices_written(share: &Share<'_>) -> Option<Pieces> {
    let own = share.along(2).or(share.along(1))?;
    (own + 1 < share.input(1)?.len()).then_some(())?;
    adds_to_zeros(share, own)
}

/// Splits indices and updates along an axis if the node adds them to zeros.
fn adds_to_zeros(share: &Share<'_>, axis: usize) -> Option<Pieces> {
    let data = share.node.data();
    let sound = data.string("reduction") == Some("add") && share.operands[0] == Piece::Whole;
    let zero = data.inputs[0].is_some_and(|value| holds_zeros(share.node.module, value));
    let operands = vec![Piece::Whole, Piece::Along(axis), Piece::Along(axis)];
    let found = || Pieces { accumulates: Some(0), ..share.made(operands, Piece::Sum) };
    (sound && zero && share.count() == 3).then(found)
}

/// Whether a value provably contains only zeros: a constant, an Expand of a constant, or a
/// ConstantOfShape.
pub fn holds_zeros(module: &Module, value: Value) -> bool {
    let zeros = |constant: &ConstData| matches!(&constant.payload, Payload::Raw(bytes) if bytes.iter().all(|byte| *byte == 0));
    if let Some(constant) = module.constant_of(value) {
        return zeros(module.constant(constant));
    }
    let Some(data) = module.producer(value).map(|node| module.node(node)) else { return false };
    match &*data.operator.name {
        "Expand" => data.inputs[0]
            .and_then(|value| module.constant_of(value))
            .is_some_and(|id| zeros(module.constant(id))),
        "ConstantOfShape" => match data.attribute("value") {
            Some(memc_ir::Attribute::Tensor(constant)) => zeros(module.constant(*constant)),
            _ => true,
        },
        _ => false,
    }
}

/// Splits the gradient of a lookup table along the indices, which gives sums.
pub(crate) fn gathered_gradient(share: &Share<'_>) -> Option<Pieces> {
    let shape = share.ints(0).map(|dims| dims.len()).or(Some(share.output()?.len()))?;
    let axis = share.axis(0, shape)?;
    let own = share.along(1).or(share.along(2)?.checked_sub(axis))?;
    (own < share.input(1)?.len()).then_some(())?;
    let operands = vec![Piece::Whole, Piece::Along(own), Piece::Along(axis + own)];
    (share.count() == 3).then(|| share.made(operands, Piece::Sum))
}

/// Splits layer normalization, with its mean and deviation, along the axes before attribute `axis`.
pub(crate) fn layer_normalized(share: &Share<'_>) -> Option<Pieces> {
    let axis = share.along(0)?;
    (axis < share.axis(-1, share.input(0)?.len())?)
        .then(|| share.made(share.only(0, axis), Piece::Along(axis)))
}

/// Splits the gradient of layer normalization along the axes before attribute `axis`: the data gradient
/// is a share, the gradients of scale and shift are sums.
pub(crate) fn layer_gradient(share: &Share<'_>) -> Option<Pieces> {
    let axis = share.along(0).or(share.along(1))?;
    (axis < share.axis(-1, share.input(1)?.len())? && share.count() == 5).then_some(())?;
    let part = Piece::Along(axis);
    let mut found = share.made(vec![part, part, Piece::Whole, part, part], Piece::Sum);
    *found.results.first_mut()? = part;
    Some(found)
}

/// Splits Softmax and its gradient along the axes before the axis that it sums over.
pub(crate) fn softmax(share: &Share<'_>) -> Option<Pieces> {
    let operator = &share.node.data().operator;
    let coerces =
        if operator.domain.is_empty() { operator.version < 13 } else { !operator.name.ends_with("_13") };
    let axis = (0..share.count()).find_map(|index| share.along(index))?;
    let summed = share.axis(if coerces { 1 } else { -1 }, share.output()?.len())?;
    (axis < summed).then(|| share.made(vec![Piece::Along(axis); share.count()], Piece::Along(axis)))
}

/// Splits Concat along any axis but its own.
pub(crate) fn joined(share: &Share<'_>) -> Option<Pieces> {
    let axis = share.along(0).or_else(|| (1..share.count()).find_map(|index| share.along(index)))?;
    (axis != share.axis(0, share.output()?.len())?)
        .then(|| share.made(vec![Piece::Along(axis); share.count()], Piece::Along(axis)))
}

/// Splits Split along any axis but its own.
pub(crate) fn cut(share: &Share<'_>) -> Option<Pieces> {
    let axis = share.along(0)?;
    (axis != share.axis(0, share.input(0)?.len())?)
        .then(|| share.made(share.only(0, axis), Piece::Along(axis)))
}

/// Splits Slice along an axis that it keeps whole: the axis is not listed, or its range covers the
/// entire extent.
pub(crate) fn sliced(share: &Share<'_>) -> Option<Pieces> {
    let (axis, dims) = (share.along(0)?, share.input(0)?);
    let data = share.node.data();
    let is_stated = |index: usize| data.inputs.get(index).copied().flatten().is_some();
    let stated = |name: &str, index: usize| match data.ints(name) {
        Some(numbers) => Some(numbers.to_vec()),
        None => share.ints(index),
    };
    let axes = match stated("axes", 3) {
        Some(axes) => axes,
        None if is_stated(3) => return None,
        None => (0..dims.len() as i64).collect(),
    };
    let keeps = |position: usize| {
        let at = |numbers: Option<Vec<i64>>| numbers.and_then(|numbers| numbers.get(position).copied());
        let to_end = |end: i64| u64::try_from(end).is_ok_and(|end| end >= dims[axis]);
        let by_one = !is_stated(4) || at(share.ints(4)) == Some(1);
        at(stated("starts", 1)) == Some(0) && at(stated("ends", 2)).is_some_and(to_end) && by_one
    };
    let kept =
        axes.iter().enumerate().all(|(position, other)| match crate::normalize_axis(*other, dims.len()) {
            Some(other) => other != axis || keeps(position),
            None => false,
        });
    kept.then(|| share.made(share.only(0, axis), Piece::Along(axis)))
}

/// Splits Pad along an axis without pads.
pub(crate) fn padded(share: &Share<'_>) -> Option<Pieces> {
    let (axis, from, to) = (share.along(0)?, share.input(0)?, share.output()?);
    let pads = match share.node.data().ints("pads") {
        Some(pads) => pads.to_vec(),
        None => share.ints(1)?,
    };
    let plain = pads.len() == 2 * from.len()
        && pads[axis] == 0
        && pads[axis + from.len()] == 0
        && from[axis] == to[axis];
    plain.then(|| share.made(share.only(0, axis), Piece::Along(axis)))
}

/// Splits cross entropy along the batch, if every label has equal weight.
pub(crate) fn cross_entropy(share: &Share<'_>) -> Option<Pieces> {
    let loss = loss_piece(share, 2)?;
    let operands = vec![Piece::Along(0); share.count()];
    let mut found = share.made(operands, Piece::Along(0));
    *found.results.first_mut()? = loss;
    Some(found)
}

/// Splits the gradient of cross entropy along the batch. For a mean, the incoming gradient is divided by
/// the number of parts.
pub(crate) fn cross_entropy_gradient(share: &Share<'_>) -> Option<Pieces> {
    let loss = loss_piece(share, 3)?;
    let mut operands = vec![Piece::Along(0); share.count()];
    operands[0] = if loss == Piece::Along(0) { Piece::Along(0) } else { Piece::Whole };
    Some(Pieces { divided: (loss == Piece::Mean).then_some(0), ..share.made(operands, Piece::Along(0)) })
}

/// Returns the piece of a loss, or `None` if the node has an operand of class weights, which would be at
/// position `count`.
fn loss_piece(share: &Share<'_>, count: usize) -> Option<Piece> {
    let data = share.node.data();
    let batch = (0..share.count()).all(|index| share.along(index).is_none_or(|axis| axis == 0));
    (batch && share.count() == count).then_some(())?;
    match data.string("reduction").unwrap_or("mean") {
        "none" => Some(Piece::Along(0)),
        "sum" => Some(Piece::Sum),
        // With ignored labels, the parts have unequal weights in the mean.
        "mean" if data.attribute("ignore_index").is_none() => Some(Piece::Mean),
        _ => None,
    }
}
