//! Anchors: dead-end `Shape` nodes that make ONNX Runtime's default order be the schedule.
//!
//! Anchors stand at the end of the file in reverse order, so the runtime's search (see [`crate::default_order`]) starts at the anchor of
//! the earliest pinned node, and runs that node with whatever of its operands did not run yet; then comes the next anchor, and so on.
//!
//! How few are enough: let everything before position `k` of the schedule have run. A search from the node at `j >= k` first
//! follows its latest operand, then that one's latest operand, down to a node that is ready. It lists exactly `k..=j` if and only
//! if each node of `k+1..=j` reads the node right before it: the latest operand of `j` is listed before `j` with nothing in between, so it
//! is `j - 1`, and the argument repeats. So one anchor serves exactly one run of nodes in which each reads the one before, the
//! anchors of all runs but the last pin the schedule, and with one of them missing the order deviates.

use memc_ir::{Module, Node, Value, ValueType, uses};

use crate::ort_order::RunningNodes;

/// A node to pin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pin {
    /// The node.
    pub node: Node,
    /// Its result whose shape the anchor reads.
    pub value: Value,
    /// Rank of that result: the anchor's own result has this many 64-bit elements.
    pub rank: usize,
}

/// Which nodes need an anchor so that ONNX Runtime's default order is the module's.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pins {
    /// Nodes to pin, in the module's order; none where the default order is that of the module already.
    pub pins: Vec<Pin>,
    /// Nodes that would need an anchor but have no result that is a dense tensor of known rank: there the default order may deviate.
    pub unpinned: Vec<Node>,
}

/// The fewest anchors that make ONNX Runtime's default order that of the module's main graph; O(nodes + operands).
pub fn pins(module: &Module) -> Pins {
    let running = RunningNodes::new(module);
    let uses = uses(module);
    let mut found = Pins::default();
    for (position, sources) in running.reads.iter().enumerate().skip(1) {
        if sources.contains(&(position - 1)) {
            continue;
        }
        let node = running.nodes[position - 1];
        let eligible = module.node(node).results().filter_map(|value| match module.ty(value) {
            ValueType::Tensor(tensor) => Some(Pin { node, value, rank: tensor.rank()? }),
            _ => None,
        });
        // A result that others read lives on anyway; a dead one would be kept for one more step. Then the smallest anchor.
        match eligible.min_by_key(|pin| (uses[pin.value].is_empty(), pin.rank)) {
            Some(pin) => found.pins.push(pin),
            None => found.unpinned.push(node),
        }
    }
    found
}
