//! Operators for which the runtime has no kernel, as the nodes that it runs in their place. A plan then
//! has a step for each of these, and the session makes no nodes that run late.

use memc_edit::Attributes;
use memc_ir::{Attribute, ElementType, Node, Operator};

use super::Walk;

/// Replaces a HardSwish by a product with its HardSigmoid, which is how the standard defines it.
///
/// Also that of a convolution: a kernel that computes both came with one of the latest versions, and a model
/// must load in older ones.
pub(super) fn taken_apart(walk: &mut Walk<'_, '_, '_>, node: Node) -> bool {
    let expanded = walk.ctx.options.profile.expands(&walk.module().node(node).operator);
    if !expanded || walk.name(node) != "HardSwish" {
        return false;
    }
    let Some(operand) = walk.maker.operand(node, 0) else { return false };
    let ty = walk.module().ty(operand).clone();
    if ty.tensor().is_none_or(|ty| ty.element != ElementType::Float) {
        return false;
    }
    let version = walk.module().node(node).operator.version;
    let float = |name: &str, number: f32| (name.to_owned(), Attribute::Float(number));
    let attributes: Attributes = vec![float("alpha", 1.0 / 6.0), float("beta", 0.5)];
    let new = walk.maker.node(Operator::onnx("HardSigmoid", version), [operand], attributes);
    let hint = walk.maker.hint(operand, "gate");
    let Some(gate) = walk.maker.compute(Some(node), new, &hint, ty) else { return false };
    walk.maker.redefine(node, Operator::onnx("Mul", version), vec![Some(operand), Some(gate)], Vec::new());
    true
}
