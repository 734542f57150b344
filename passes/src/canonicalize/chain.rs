//! Chains of nodes of one kind: reshapes of reshapes, casts of casts, and functions that undo or repeat
//! themselves.

use memc_ir::{Attribute, ElementType, Node, Operator, TensorType, Value};
use memc_ops::{View, lookup, same_type};

use super::{Walk, extents};

/// Maximum number of links followed in a chain; in canonical order a chain has two links.
const MAX_LINKS: usize = 64;

/// Makes the last of several reshapes, squeezes and flattenings read the operand of the first. Removes
/// the last as well if its result has the type of that operand.
pub(super) fn reshapes(walk: &mut Walk<'_, '_, '_>, node: Node) -> bool {
    let Some((operand, result)) = reshape(walk, node) else { return false };
    let mut root = operand;
    for _ in 0..MAX_LINKS {
        match walk.module().producer(root).and_then(|producer| reshape(walk, producer)) {
            Some((further, made)) if made == root => root = further,
            _ => break,
        }
    }
    if root == operand {
        return false;
    }
    let types = walk.module().ty(root).tensor().zip(walk.module().ty(result).tensor());
    if types.is_some_and(|(from, to)| same_type(from, to)) {
        return walk.pass_on(node, root);
    }
    // If the intermediate value has another reader, it stays, and nothing is gained.
    if !walk.has_one_reader(operand) {
        return false;
    }
    if walk.name(node) == "Reshape" && copies_no_extent(walk, node) {
        walk.maker.set_operand(node, 0, root);
        return true;
    }
    to_reshape(walk, node, root, result)
}

/// Returns operand and result of a node that changes only the shape of its operand.
fn reshape(walk: &Walk<'_, '_, '_>, node: Node) -> Option<(Value, Value)> {
    let data = walk.module().node(node);
    let info = lookup(&data.operator)?;
    let plain =
        info.view == View::Reshape && data.operator.domain.is_empty() && data.graph == walk.module().main();
    let result = walk.maker.only_result(node).filter(|_| plain)?;
    let operand = walk.maker.operand(node, 0)?;
    (!walk.rests[operand] && !walk.rests[result]).then_some((operand, result))
}

/// Returns whether a Reshape states all its extents, with none copied from its operand.
fn copies_no_extent(walk: &Walk<'_, '_, '_>, node: Node) -> bool {
    let allows_zero = walk.module().node(node).int("allowzero", 0) != 0;
    let known = walk
        .maker
        .operand(node, 1)
        .and_then(|shape| walk.elements(shape))
        .and_then(|shape| shape.known_ints());
    known.is_some_and(|extents| allows_zero || !extents.contains(&0))
}

/// Turns a node into a Reshape of `source` to the type of its result, if a constant states the extents
/// for all symbols, and none is known to be zero.
pub(super) fn to_reshape(walk: &mut Walk<'_, '_, '_>, node: Node, source: Value, result: Value) -> bool {
    let version = walk.module().node(node).operator.version;
    let has_zero = |value: Value| walk.module().ty(value).tensor().and_then(TensorType::elements) == Some(0);
    let extents = extents::between(walk, Some(source), result)
        .filter(|_| extents::has_reshape(walk, node) && !has_zero(result));
    let Some(extents) = extents else { return false };
    let shape = walk.int_vector(&format!("{}_shape", walk.module().value(result).name), &extents);
    walk.maker.redefine(
        node,
        Operator::onnx("Reshape", version),
        vec![Some(source), Some(shape)],
        Vec::new(),
    );
    true
}

/// Shortens a cast of a lossless cast: the outer cast reads the source, or disappears if it restores the
/// source's type.
pub(super) fn casts(walk: &mut Walk<'_, '_, '_>, node: Node) -> bool {
    let Some(middle) = walk.maker.operand(node, 0).filter(|_| walk.name(node) == "Cast") else {
        return false;
    };
    let Some(inner) = walk.producer(middle, "Cast") else { return false };
    let (Some(source), Some(result)) = (walk.maker.operand(inner, 0), walk.maker.only_result(node)) else {
        return false;
    };
    let element = |value: Value| walk.module().ty(value).tensor().map(|ty| ty.element);
    let (Some(first), Some(second), Some(third)) = (element(source), element(middle), element(result)) else {
        return false;
    };
    if !holds(second, first) {
        return false;
    }
    if first == third {
        return walk.module().ty(source) == walk.module().ty(result) && walk.pass_on(node, source);
    }
    // Between two types that both hold every number, the intermediate type does not matter. Out of
    // range, a conversion to an integer depends on the type it starts from.
    if !holds(third, first) || !walk.has_one_reader(middle) {
        return false;
    }
    walk.maker.set_operand(node, 0, source);
    true
}

/// Returns whether every value of `small`, NaN and infinities included, has an exact counterpart in
/// `large`.
fn holds(large: ElementType, small: ElementType) -> bool {
    use ElementType::*;
    let integer = |ty: ElementType| match ty {
        Bool => Some((false, 1)),
        Uint8 | Uint16 | Uint32 | Uint64 => ty.bits().map(|bits| (false, bits)),
        Int8 | Int16 | Int32 | Int64 => ty.bits().map(|bits| (true, bits - 1)),
        _ => None,
    };
    // Number of digits of the significand, the leading digit included.
    let digits = |ty: ElementType| match ty {
        Float16 => Some(11),
        Float => Some(24),
        Double => Some(53),
        _ => None,
    };
    match (integer(small), integer(large)) {
        // A conversion to bool keeps only whether a number is zero, and bool is no range of integers.
        _ if large == Bool => small == Bool,
        (Some((signed, bits)), Some((holds_sign, room))) => bits <= room && (holds_sign || !signed),
        (Some((_, bits)), None) => digits(large).is_some_and(|digits| bits <= digits),
        (None, None) => match (small, large) {
            (Float16 | Bfloat16, Float | Double) | (Float, Double) => true,
            _ => small == large && digits(small).is_some(),
        },
        (None, Some(_)) => false,
    }
}

/// Removes functions that undo themselves, and the second of two functions that change nothing the
/// second time.
pub(super) fn repeated(walk: &mut Walk<'_, '_, '_>, node: Node) -> bool {
    let Some(algebra) = lookup(&walk.module().node(node).operator).and_then(|info| info.algebra) else {
        return false;
    };
    if !algebra.self_inverse && !algebra.idempotent {
        return false;
    }
    let name = walk.name(node).to_owned();
    let Some(operand) = walk.maker.operand(node, 0) else { return false };
    let Some(inner) = walk.producer(operand, &name) else { return false };
    let source = if algebra.idempotent { Some(operand) } else { walk.maker.operand(inner, 0) };
    source.is_some_and(|source| walk.pass_on(node, source))
}

/// Makes an attribute from a list of integers.
pub(super) fn ints(name: &str, values: Vec<i64>) -> (String, Attribute) {
    (name.to_owned(), Attribute::Ints(values))
}
