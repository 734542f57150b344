//! Constants that a node holds as an attribute.

use memc_ir::{Attribute, ConstId, Module, Node};

/// The constant that is the node's only result: the `value` of a Constant.
pub fn held_constant(module: &Module, node: Node) -> Option<ConstId> {
    let data = module.node(node);
    let is_constant = data.operator.domain.is_empty() && &*data.operator.name == "Constant";
    match data.attribute("value") {
        Some(Attribute::Tensor(constant)) if is_constant => Some(*constant),
        _ => None,
    }
}
