//! The order in which ONNX Runtime runs a model by default, computed without running it.
//!
//! Rules of `ExecutionOrder::DEFAULT` as implemented in `onnxruntime/core/graph/graph_viewer.cc` and `Graph::ReverseDFSFrom` of
//! `graph.cc` (inference builds, sequential mode, no graph optimization): nodes are numbered by their position in the file, `Constant`
//! nodes become initializers and are not there; a depth-first search runs backwards from the nodes that nothing reads, at every
//! choice takes the node with the highest number, and lists a node once everything that it reads is listed.

use memc_ir::{Module, Node, SecondaryMap};

use crate::anchors::file_order;

/// The default order of nodes `0..reads.len()`, where node `i` stands at position `i` of the file and reads results of the nodes
/// `reads[i]` (bodies' captures included; repeats do no harm, numbers that are no node are ignored).
///
/// Every node occurs once, unless the graph is cyclic: then nodes that only a cycle reaches are left out.
/// O(nodes + edges * log edges) time, no recursion.
pub fn default_order(reads: &[Vec<usize>]) -> Vec<usize> {
    let mut is_read = vec![false; reads.len()];
    for source in reads.iter().flatten() {
        if let Some(flag) = is_read.get_mut(*source) {
            *flag = true;
        }
    }
    // Each entry is a node and whether everything below it was listed; the end of the list is taken first.
    let mut stack: Vec<(usize, bool)> = (0..reads.len()).filter(|node| !is_read[*node]).map(|leaf| (leaf, false)).collect();
    let mut visited = vec![false; reads.len()];
    let mut order = Vec::with_capacity(reads.len());
    while let Some((node, leave)) = stack.pop() {
        if leave {
            order.push(node);
            continue;
        }
        if std::mem::replace(&mut visited[node], true) {
            continue;
        }
        stack.push((node, true));
        let mut sources: Vec<usize> = reads[node].iter().copied().filter(|source| *source < reads.len()).collect();
        sources.sort_unstable();
        sources.dedup();
        stack.extend(sources.into_iter().filter(|source| !visited[*source]).map(|source| (source, false)));
    }
    order
}

/// The order in which ONNX Runtime would run the main graph by default once it is written in the order of [`file_order`].
///
/// `Constant` nodes, which are no nodes at run time, come first. O(nodes + operands * log operands).
pub fn default_order_of(module: &Module) -> Vec<Node> {
    let running = RunningNodes::new(module, file_order(module));
    let constants = module.graph(module.main()).nodes.iter().copied().filter(|node| is_constant(module, *node));
    constants.chain(default_order(&running.reads).into_iter().map(|position| running.nodes[position])).collect()
}

/// Those nodes of a list that exist at run time, numbered by their position, with what each reads of the others.
pub(crate) struct RunningNodes {
    /// The nodes in the order of the list.
    pub(crate) nodes: Vec<Node>,
    /// For each, positions in `nodes` of those whose results it reads, with repeats.
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
fn is_constant(module: &Module, node: Node) -> bool {
    let operator = &module.node(node).operator;
    operator.domain.is_empty() && &*operator.name == "Constant"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_number_goes_first_at_every_choice() {
        // Two branches 0-1 and 2-3 that meet in 4, and a dead end 5 on node 0.
        let reads = vec![vec![], vec![0], vec![], vec![2], vec![1, 3], vec![0]];
        assert_eq!(default_order(&reads), [0, 5, 2, 3, 1, 4]);
    }

    #[test]
    fn cycles_and_strange_numbers_do_no_harm() {
        assert_eq!(default_order(&[vec![1], vec![0], vec![7, 7]]), [2]);
        assert_eq!(default_order(&[vec![0]]), Vec::<usize>::new());
    }
}
