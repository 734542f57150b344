//! Extents that nodes compute from shapes and that follow from an operand: a constant states them, and the
//! nodes that compute them have no reader left.

use memc_ir::{Dim, Node, Value};
use memc_ops::{Item, expand_target, reshape_target};

use super::Walk;

/// First version of the operator set in which Reshape reads its extents from an operand.
const RESHAPE_BY_OPERAND: i64 = 5;

/// Replaces the computed target of a Reshape or Expand by a constant. Inference must know each element of
/// the target, possibly over symbols: a target that a caller gives stays.
pub(super) fn stated(walk: &mut Walk<'_, '_, '_>, node: Node) {
    let Some(target) =
        walk.maker.operand(node, 1).filter(|target| walk.module().constant_of(*target).is_none())
    else {
        return;
    };
    let (Some(operand), Some(result)) = (walk.maker.operand(node, 0), walk.maker.only_result(node)) else {
        return;
    };
    let is_exact = |item: &Item| matches!(item, Item::Int(_) | Item::Symbolic(_));
    if !walk.elements(target).is_some_and(|elements| elements.items.iter().all(is_exact)) {
        return;
    }
    let constant = match walk.name(node) {
        "Reshape" => between(walk, Some(operand), result),
        "Expand" => {
            dims(walk, operand).zip(dims(walk, result)).and_then(|(from, to)| expand_target(from, to))
        }
        _ => None,
    };
    let Some(constant) = constant else { return };
    let shape = walk.int_vector(&format!("{}_shape", walk.module().value(result).name), &constant);
    let operator = walk.module().node(node).operator.clone();
    walk.maker.redefine(node, operator, vec![Some(operand), Some(shape)], Vec::new());
    erase_unread(walk, target);
}

/// Erases the node that computes a value, if nothing reads its results, and then the nodes before it that
/// are left unread. They read the shapes of values that then have fewer readers.
pub(super) fn erase_unread(walk: &mut Walk<'_, '_, '_>, value: Value) {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        let Some(node) = walk.module().producer(value) else { continue };
        let data = walk.module().node(node);
        let is_read = |value: Value| !walk.maker.uses(value).is_empty() || walk.maker.is_pinned(value);
        let is_plain = data.bodies().next().is_none() && memc_ops::repeatable(walk.module(), node);
        if is_plain && !walk.maker.is_erased(node) && !data.results().any(is_read) {
            open.extend(data.operands().collect::<Vec<_>>());
            walk.maker.erase(node);
        }
    }
}

/// Returns the constant target of a Reshape from a value to the type of `result`.
pub(super) fn between(walk: &Walk<'_, '_, '_>, from: Option<Value>, result: Value) -> Option<Vec<i64>> {
    let from = from.and_then(|value| dims(walk, value));
    reshape_target(from, dims(walk, result)?, &walk.module().domain().ranges)
}

/// Returns whether a node's version of the operator set has a Reshape that reads its extents from an
/// operand.
pub(super) fn has_reshape(walk: &Walk<'_, '_, '_>, node: Node) -> bool {
    walk.module().node(node).operator.version >= RESHAPE_BY_OPERAND
}

fn dims<'w>(walk: &'w Walk<'_, '_, '_>, value: Value) -> Option<&'w [Dim]> {
    walk.module().ty(value).tensor()?.shape.as_deref()
}
