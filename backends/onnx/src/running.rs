//! The nodes of a model that exist at run time, and the dependences between them.

use memc_ir::{Module, Node, SecondaryMap};

/// Nodes of a list that exist at run time, numbered by their position, with their dependences.
pub(crate) struct RunningNodes {
    /// The nodes in the order of the list.
    pub(crate) nodes: Vec<Node>,
    /// For each node, the positions in `nodes` of the producers of its operands, with repeats.
    pub(crate) reads: Vec<Vec<usize>>,
}

impl RunningNodes {
    pub(crate) fn new(module: &Module, mut nodes: Vec<Node>) -> Self {
        nodes.retain(|node| !is_constant(module, *node));
        let mut position: SecondaryMap<Node, Option<usize>> = SecondaryMap::default();
        for (at, node) in nodes.iter().enumerate() {
            position.set(*node, Some(at));
        }
        let sources = |node: &Node| {
            let producers = module.reads(*node).into_iter().filter_map(|value| module.producer(value));
            producers.filter_map(|producer| position[producer]).collect()
        };
        let reads = nodes.iter().map(sources).collect();
        Self { nodes, reads }
    }
}

/// Whether the runtime turns the node into an initializer when it loads the model.
pub(crate) fn is_constant(module: &Module, node: Node) -> bool {
    let operator = &module.node(node).operator;
    operator.domain.is_empty() && &*operator.name == "Constant"
}
