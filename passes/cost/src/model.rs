//! What passes ask for costs: a target.

use memc_ir::{Module, Nanos, Node};

use crate::target::Target;

/// Costs on one target.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CostModel {
    /// The target.
    pub target: Target,
}

impl CostModel {
    /// Time of a node.
    pub fn nanos(&self, module: &Module, node: Node) -> Nanos {
        crate::node::nanos(module, node, &self.target.machine)
    }

    /// Time of the main graph, node after node.
    pub fn total_nanos(&self, module: &Module) -> Nanos {
        let nodes = &module.graph(module.main()).nodes;
        Nanos(nodes.iter().map(|node| self.nanos(module, *node).0).sum())
    }
}
