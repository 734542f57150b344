//! Computes the order in which ONNX Runtime runs a model by default, without running it.
//!
//! The rules are those of `ExecutionOrder::DEFAULT` as implemented in
//! `onnxruntime/core/graph/graph_viewer.cc` and `Graph::ReverseDFSFrom` of `graph.cc` (inference builds,
//! sequential mode, no graph optimization). Nodes are numbered by their position in the file. `Constant`
//! nodes become initializers and are left out. A depth-first search runs backwards from the nodes whose
//! results no node reads. At every choice it takes the node with the highest number, and it lists a node
//! after all nodes that it reads.

use memc_ir::{Module, Node};
use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::DfsPostOrder;

use crate::anchors::file_order;
use crate::running::{RunningNodes, is_constant};

/// Returns the default order of nodes `0..reads.len()`. Node `i` stands at position `i` of the file and
/// reads results of the nodes `reads[i]`, including captures of its bodies. Repeats are harmless, and
/// numbers that are not a node are ignored.
///
/// Every node occurs once. In a cyclic graph, nodes that only a cycle reaches are left out. O(nodes +
/// edges * log edges) time, no recursion.
pub fn default_order(reads: &[Vec<usize>]) -> Vec<usize> {
    let graph = graph_of(reads);
    let mut search = DfsPostOrder::empty(&graph);
    // The search begins with the last entry: the highest node that no node reads.
    search.stack = graph.externals(Direction::Incoming).collect();
    std::iter::from_fn(|| search.next(&graph)).map(NodeIndex::index).collect()
}

/// Returns a graph with an arc from each node to every node that it reads. The search enters the arc that
/// was added first, so arcs to the highest numbers are added first.
fn graph_of(reads: &[Vec<usize>]) -> DiGraph<(), ()> {
    let mut graph = DiGraph::with_capacity(reads.len(), reads.iter().map(Vec::len).sum());
    reads.iter().for_each(|_| _ = graph.add_node(()));
    for (node, sources) in reads.iter().enumerate() {
        let mut sources: Vec<usize> =
            sources.iter().copied().filter(|source| *source < reads.len()).collect();
        sources.sort_unstable();
        for source in sources.into_iter().rev() {
            graph.add_edge(NodeIndex::new(node), NodeIndex::new(source), ());
        }
    }
    graph
}

/// Returns the order in which ONNX Runtime would run the main graph by default if it is written in the
/// order of [`file_order`].
///
/// `Constant` nodes, which do not exist at run time, come first. O(nodes + operands * log operands).
pub fn default_order_of(module: &Module) -> Vec<Node> {
    let running = RunningNodes::new(module, file_order(module));
    let constants =
        module.graph(module.main()).nodes.iter().copied().filter(|node| is_constant(module, *node));
    constants
        .chain(default_order(&running.reads).into_iter().map(|position| running.nodes[position]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_order_runs_the_highest_ready_node_first() {
        // Two branches 0-1 and 2-3 that meet in 4, and a dead end 5 that reads node 0.
        let reads = vec![vec![], vec![0], vec![], vec![2], vec![1, 3], vec![0]];
        assert_eq!(default_order(&reads), [0, 5, 2, 3, 1, 4]);
    }

    #[test]
    fn cycles_and_unknown_operands_never_panic() {
        assert_eq!(default_order(&[vec![1], vec![0], vec![7, 7]]), [2]);
        assert_eq!(default_order(&[vec![0]]), Vec::<usize>::new());
    }
}
