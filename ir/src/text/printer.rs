//! Module to text.

use crate::entity::Node;
use crate::module::Module;

/// The whole module.
pub fn print(module: &Module) -> String {
    module.graph(module.main()).nodes.iter().map(|node| print_node(module, *node) + "\n").collect()
}

/// The line of one node.
pub fn print_node(module: &Module, node: Node) -> String {
    module.node(node).operator.to_string()
}
