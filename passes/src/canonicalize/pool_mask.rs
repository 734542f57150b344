//! The mask of a Relu in front of a MaxPool: it is applied to the pooled gradient, before the gradient is
//! scattered to the places of the greatest elements.
//!
//! A MaxPool with indices returns the elements at its indices, so a comparison gives equal answers for a
//! pooled value and for the element at its index. All gradients of one place have one mask, and are
//! summed up in their old order. Places without a gradient hold zero either way.
//!
//! Exporters also test the operand of the Relu. `x > 0` equals `Relu(x) > 0`, and `x <= 0` equals
//! `Relu(x) <= 0`: Relu keeps positive numbers and NaN, and its other results compare as zero.

use memc_ir::{ElementType, NewNode, Node, TensorType, Use, Value, ValueType};
use memc_ops::{Item, View, holds_zeros, lookup, same_type};

use super::Walk;

/// Masks the pooled gradient instead of the scattered one, for a mask by a comparison (`Where`) or by
/// ONNX Runtime's operator (`ReluGrad`).
pub(super) fn moved(walk: &mut Walk<'_, '_, '_>, node: Node) -> bool {
    by_comparison(walk, node).or_else(|| by_gradient(walk, node)).is_some()
}

/// A gradient that is scattered by the indices of a MaxPool over the result of a Relu.
struct Scattered {
    /// Pooled gradient, with the elements of `pooled` and perhaps other extents.
    gradient: Value,
    /// Result of the MaxPool, and its operand, the result of a Relu.
    pooled: Value,
    rectified: Value,
    /// Operand of the Relu.
    original: Value,
}

/// Moves the mask of `Where(comparison, 0, scattered)`, with
/// `scattered = Reshape(ScatterElements(0, Reshape(indices), Reshape(gradient)))`.
fn by_comparison(walk: &mut Walk<'_, '_, '_>, node: Node) -> Option<()> {
    // Find the scattered gradient in one branch, and zero in the other.
    let (condition, branches) = match walk.module().node(node).inputs.as_slice() {
        [Some(condition), Some(yes), Some(no)] if walk.name(node) == "Where" => (*condition, [*yes, *no]),
        _ => return None,
    };
    let zero_at = branches.iter().position(|branch| is_positive_zero(walk, *branch))?;
    let (zero, whole) = (branches[zero_at], branches[1 - zero_at]);
    let back = walk.producer(whole, "Reshape").filter(|_| walk.has_one_reader(whole))?;
    let flat = walk.maker.operand(back, 0).filter(|flat| walk.has_one_reader(*flat))?;
    let scatter = walk.producer(flat, "ScatterElements").filter(|scatter| adds_to_zeros(walk, *scatter))?;
    let indices = walk.producer(walk.maker.operand(scatter, 1)?, "Reshape")?;
    let updates = walk.maker.operand(scatter, 2).filter(|updates| walk.has_one_reader(*updates))?;
    let flattening = walk.producer(updates, "Reshape")?;
    let found = scattered(walk, walk.maker.operand(flattening, 0)?, walk.maker.operand(indices, 0)?)?;
    // Find the comparison behind the mask.
    let inversion = walk.producer(condition, "Not").filter(|_| walk.has_one_reader(condition));
    let mask = inversion.map_or(Some(condition), |not| walk.maker.operand(not, 0))?;
    let comparison = walk.module().producer(mask).filter(|_| walk.has_one_reader(mask))?;
    let operands = compared(walk, comparison, &found)?;
    if !can_replace(walk, node, whole, found.rectified) {
        return None;
    }
    // Compare the pooled values, mask the pooled gradient, and flatten it.
    let (data, old) = (walk.module().node(comparison).clone(), walk.module().node(flattening).clone());
    let ty = ValueType::Tensor(TensorType {
        element: ElementType::Bool,
        ..walk.module().ty(found.pooled).tensor()?.clone()
    });
    let (new, hint) =
        (walk.maker.node(data.operator, operands, data.attributes), walk.maker.hint(found.pooled, "mask"));
    let mask = walk.maker.compute(Some(scatter), new, &hint, ty)?;
    let gradient = pooled_gradient(walk, scatter, &found)?;
    let zero_first = (zero_at == 0) != inversion.is_some();
    let (yes, no) = if zero_first { (zero, gradient) } else { (gradient, zero) };
    let choice = walk.module().node(node).operator.clone();
    let masked = masked(walk, scatter, walk.maker.node(choice, [mask, yes, no], Vec::new()), gradient)?;
    let operands = [Some(masked), *old.inputs.get(1)?];
    let flattened =
        self::masked(walk, scatter, walk.maker.node(old.operator, operands, old.attributes), updates)?;
    walk.maker.set_operand(scatter, 2, flattened);
    // The old mask would mask again; leave it out.
    walk.pass_on(node, whole);
    for unread in [inversion, Some(comparison), Some(flattening)].into_iter().flatten() {
        walk.maker.erase(unread);
    }
    Some(())
}

/// Moves the mask of `ReluGrad(MaxPoolGrad(gradient, indices), operand of the MaxPool)`.
fn by_gradient(walk: &mut Walk<'_, '_, '_>, node: Node) -> Option<()> {
    let operator = &walk.module().node(node).operator;
    let is_mask = &*operator.domain == "com.microsoft" && &*operator.name == "ReluGrad";
    let whole = walk.maker.operand(node, 0).filter(|whole| is_mask && walk.has_one_reader(*whole))?;
    let scatter = walk.producer(whole, "MaxPoolGrad")?;
    let found = scattered(walk, walk.maker.operand(scatter, 0)?, walk.maker.operand(scatter, 1)?)?;
    let fits =
        can_replace(walk, node, whole, found.rectified) && equal_types(walk, found.gradient, found.pooled);
    tested(walk, &found, node).filter(|_| fits)?;
    let operator = walk.module().node(node).operator.clone();
    let new = walk.maker.node(operator, [found.gradient, found.pooled], Vec::new());
    let masked = masked(walk, scatter, new, found.gradient)?;
    walk.maker.set_operand(scatter, 0, masked);
    walk.pass_on(node, whole);
    Some(())
}

/// Returns whether a scattered gradient has the type of the MaxPool's operand and of the result of its
/// mask, and can stand for that result.
fn can_replace(walk: &Walk<'_, '_, '_>, mask: Node, whole: Value, rectified: Value) -> bool {
    let Some(result) = walk.maker.only_result(mask) else { return false };
    let keeps_name = walk.maker.is_pinned(result);
    equal_types(walk, whole, rectified)
        && equal_types(walk, whole, result)
        && (!keeps_name || walk.module().ty(result) == walk.module().ty(whole))
}

/// Returns the pooled gradient with the extents of the pooled values: a product's result has others, if
/// Reshapes lead from the pool to the product and back.
fn pooled_gradient(walk: &mut Walk<'_, '_, '_>, before: Node, found: &Scattered) -> Option<Value> {
    if equal_types(walk, found.gradient, found.pooled) {
        return Some(found.gradient);
    }
    let ty = walk.module().ty(found.pooled).clone();
    let extents = ty.tensor()?.known_dims()?;
    let extents: Vec<i64> = extents.into_iter().filter_map(|extent| i64::try_from(extent).ok()).collect();
    let shape = walk.maker.integers(&extents);
    let new = walk.maker.onnx("Reshape", [found.gradient, shape], Vec::new());
    walk.maker.compute(Some(before), new, &walk.maker.hint(found.gradient, "pooled"), ty)
}

/// Whether two tensors have elements of one type, and the same known number of them, at least one.
fn same_elements(walk: &Walk<'_, '_, '_>, left: Value, right: Value) -> bool {
    let types = walk.module().ty(left).tensor().zip(walk.module().ty(right).tensor());
    types.is_some_and(|(left, right)| {
        let count = left.elements().filter(|count| *count > 0);
        left.element == right.element && count.is_some() && count == right.elements()
    })
}

/// Returns the MaxPool over a Relu's result behind these indices, with a gradient of as many elements as its
/// result that has no other reader.
fn scattered(walk: &Walk<'_, '_, '_>, gradient: Value, indices: Value) -> Option<Scattered> {
    let pool = walk.module().producer(indices).filter(|pool| points_at_its_results(walk, *pool))?;
    let data = walk.module().node(pool);
    let (pooled, rectified) = match data.outputs.as_slice() {
        [Some(pooled), Some(second)] if *second == indices => (*pooled, walk.maker.operand(pool, 0)?),
        _ => return None,
    };
    let original = walk.maker.operand(walk.producer(rectified, "Relu")?, 0)?;
    let fits = walk.has_one_reader(gradient)
        && (equal_types(walk, gradient, pooled) || same_elements(walk, gradient, pooled));
    fits.then_some(Scattered { gradient, pooled, rectified, original })
}

/// Returns whether a node is a MaxPool whose indices count along the rows of its operand, whose windows
/// all touch the operand, and whose result is no larger than the operand.
fn points_at_its_results(walk: &Walk<'_, '_, '_>, node: Node) -> bool {
    let data = walk.module().node(node);
    let Some(kernel) = data.ints("kernel_shape").filter(|_| walk.name(node) == "MaxPool") else {
        return false;
    };
    // Padding of each axis below the length of the window: no window lies in it, and with any stride
    // windows are no more than elements.
    let pads = data.ints("pads").unwrap_or_default();
    let explicit = data.string("auto_pad").is_none_or(|mode| mode == "NOTSET");
    let total = |axis: usize| {
        pads.iter().skip(axis).step_by(kernel.len()).fold(0i64, |sum, pad| sum.saturating_add(*pad))
    };
    let fits = !explicit
        || pads.iter().all(|pad| *pad >= 0)
            && kernel.iter().enumerate().all(|(axis, length)| total(axis) < *length);
    let dense = data.ints("dilations").is_none_or(|steps| steps.iter().all(|step| *step == 1));
    fits && dense && data.int("ceil_mode", 0) == 0 && data.int("storage_order", 0) == 0
}

/// Returns whether a node adds elements to a vector of zeros. Written elements may be negative zeros,
/// which kernels of Where keep or make positive.
fn adds_to_zeros(walk: &Walk<'_, '_, '_>, node: Node) -> bool {
    let data = walk.module().node(node);
    let Some(base) = walk.maker.operand(node, 0) else { return false };
    let is_vector = walk.module().ty(base).tensor().and_then(TensorType::rank) == Some(1);
    is_vector && data.string("reduction") == Some("add") && holds_zeros(walk.module(), base)
}

/// Returns the operands of a comparison with one number, with the result of the MaxPool in place of the
/// tested value.
fn compared(walk: &Walk<'_, '_, '_>, node: Node, found: &Scattered) -> Option<Vec<Option<Value>>> {
    let value = tested(walk, found, node)?;
    let mut operands = walk.module().node(node).inputs.clone();
    let at = operands.iter().position(|operand| *operand == Some(value))?;
    let number = one_number(walk, operands.get(1usize.checked_sub(at)?).copied().flatten()?)?;
    let is_sign_test = number == 0.0
        && matches!((walk.name(node), at), ("Greater" | "LessOrEqual", 0) | ("Less" | "GreaterOrEqual", 1));
    let is_comparison =
        matches!(walk.name(node), "Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual");
    *operands.get_mut(at)? = Some(found.pooled);
    (is_sign_test || is_comparison && value == found.rectified).then_some(operands)
}

/// Returns the value that a node tests for the mask: the result of the Relu, or its operand.
///
/// The value is kept for the test only: it has no reader but the test and the next node on the way to the
/// MaxPool. Otherwise the pooled values might be kept beside it.
fn tested(walk: &Walk<'_, '_, '_>, found: &Scattered, node: Node) -> Option<Value> {
    let reads_one_of_two = |value: Value| {
        let readers = walk.maker.uses(value);
        readers.len() == 2
            && readers.iter().any(|site| matches!(site, Use::Operand(reader, _) if *reader == node))
    };
    if reads_one_of_two(found.rectified) {
        return Some(found.rectified);
    }
    let alone = walk.has_one_reader(found.rectified) && reads_one_of_two(found.original);
    (alone && owns_its_bytes(walk, found.original)).then_some(found.original)
}

/// Returns whether a value is the result of a node, and no view of another value.
fn owns_its_bytes(walk: &Walk<'_, '_, '_>, value: Value) -> bool {
    let Some(producer) = walk.module().producer(value) else { return false };
    lookup(&walk.module().node(producer).operator).is_none_or(|info| info.view == View::None)
}

/// Returns the element of a constant that has one element, a floating-point number.
fn one_number(walk: &Walk<'_, '_, '_>, value: Value) -> Option<f64> {
    walk.constant_id(value)?;
    match walk.elements(value)?.items.as_slice() {
        [Item::Float(number)] => Some(*number),
        _ => None,
    }
}

fn equal_types(walk: &Walk<'_, '_, '_>, left: Value, right: Value) -> bool {
    let types = walk.module().ty(left).tensor().zip(walk.module().ty(right).tensor());
    types.is_some_and(|(left, right)| same_type(left, right))
}

fn is_positive_zero(walk: &Walk<'_, '_, '_>, value: Value) -> bool {
    one_number(walk, value).is_some_and(|number| number == 0.0 && number.is_sign_positive())
}

/// Inserts a node that masks a value before another node; returns its result.
fn masked(walk: &mut Walk<'_, '_, '_>, before: Node, new: NewNode, value: Value) -> Option<Value> {
    let ty = walk.module().ty(value).clone();
    walk.maker.compute(Some(before), new, &walk.maker.hint(value, "masked"), ty)
}
