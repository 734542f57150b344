//! Constants that are stored in an attribute of a node.

use memc_ir::{Attribute, ConstId, Module, Node};

/// Returns the `value` attribute of a Constant node, which is the node's only result; `None` for any
/// other node.
pub fn held_constant(module: &Module, node: Node) -> Option<ConstId> {
    let data = module.node(node);
    let is_constant = data.operator.domain.is_empty() && &*data.operator.name == "Constant";
    match data.attribute("value") {
        Some(Attribute::Tensor(constant)) if is_constant => Some(*constant),
        _ => None,
    }
}
