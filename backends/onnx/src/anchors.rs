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
//!
//! In the module an anchor is a node like others: it has its step, right behind the node that it pins, and its result has a live range
//! and a place. Where the pinned value is read anyway, the values alive at that step are alive at the pinned node's step too.

use memc_ir::{
    Attribute, ElementType, Module, NewNode, Node, Operator, Origin, Rewriter, SecondaryMap, TensorType, Value, ValueType, uses,
};

use crate::names::{NamePool, name_nodes};
use crate::running::RunningNodes;
use crate::transfers::DEFAULT_OPSET;

/// From this version on `Shape` can be told to give no extent at all. ONNX Runtime frees a result that nobody reads only at the end of the
/// run, so an empty one saves the block that each anchor would hold until then.
const EMPTY_SHAPE_OPSET: i64 = 15;
/// The pass that anchors name as their origin.
const PASS: &str = "anchor";

/// What [`add_anchors`] did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Anchored {
    /// How many anchors were added; none where the default order is the schedule already.
    pub added: usize,
    /// Nodes that need an anchor but have no result that is a dense tensor (before version 15 of ONNX's operators, of known
    /// rank): there the default order may deviate.
    pub unpinned: Vec<Node>,
}

/// Adds the fewest anchors that make ONNX Runtime's default order that of the module's main graph, each right behind the node
/// that it pins, with an empty result, or before version 15 of ONNX's operators one of type
/// `int64[rank]`. Nodes that carry an anchor already get no second one.
///
/// A planned module has no place for the new results yet. Aliases stay valid: an anchor reads before any later node writes.
/// O(size of the module) but for names.
pub fn add_anchors(module: &mut Module) -> Anchored {
    let version = module.opsets.get("").copied().unwrap_or(DEFAULT_OPSET);
    let can_be_empty = version >= EMPTY_SHAPE_OPSET;
    let (pins, unpinned) = pins(module, can_be_empty);
    if pins.is_empty() {
        return Anchored { added: 0, unpinned };
    }
    let (node_names, mut names) = name_nodes(module);
    // Names in bodies count too: a body may not define anew what the graph around it defines.
    let mut value_names = NamePool::with(module.values().iter().map(|(_, data)| data.name.clone()));
    module.opsets.insert(String::new(), version);
    let main = module.main();
    let given = module.graph(main).nodes.clone();
    let mut order = Vec::with_capacity(given.len() + pins.len());
    let mut rewriter = Rewriter::new(module);
    let window = ["start", "end"].map(|key| (key.to_owned(), Attribute::Int(0))).to_vec();
    let mut left = pins.iter().peekable();
    for node in given {
        order.push(node);
        let Some(pin) = left.next_if(|pin| pin.node == node) else { continue };
        let new = NewNode {
            operator: Operator::onnx("Shape", version),
            name: names.unique(&format!("{}.anchor", node_names[node])),
            inputs: vec![Some(pin.value)],
            attributes: if can_be_empty { window.clone() } else { Vec::new() },
            origin: Origin::Pass { pass: PASS.into() },
        };
        let name = value_names.unique(&format!("{}.anchor", rewriter.module().value(pin.value).name));
        let ty = ValueType::Tensor(TensorType::fixed(ElementType::Int64, &[pin.extent]));
        // At the end of the list, where it costs nothing; the schedule is set once.
        order.push(rewriter.insert(main, None, new, &[Some((name, ty))]));
    }
    rewriter.set_schedule(main, order);
    rewriter.finish();
    Anchored { added: pins.len(), unpinned }
}

/// Whether a node is one that [`add_anchors`] added.
pub fn is_anchor(module: &Module, node: Node) -> bool {
    matches!(&module.node(node).origin, Origin::Pass { pass } if pass == PASS)
}

/// The main graph's nodes in the order of the written file: as scheduled, but the anchors at the end, the last one first.
pub fn file_order(module: &Module) -> Vec<Node> {
    let schedule = module.graph(module.main()).nodes.iter().copied();
    let (anchors, mut order): (Vec<Node>, Vec<Node>) = schedule.partition(|node| is_anchor(module, *node));
    order.extend(anchors.into_iter().rev());
    order
}

/// A node to pin.
struct Pin {
    node: Node,
    /// Its result whose shape the anchor reads.
    value: Value,
    /// How many numbers the anchor gives.
    extent: u64,
}

/// Nodes that need an anchor and have none, in the module's order, and those that need one but can carry none.
fn pins(module: &Module, can_be_empty: bool) -> (Vec<Pin>, Vec<Node>) {
    let mut nodes = module.graph(module.main()).nodes.clone();
    let mut is_pinned: SecondaryMap<Node, bool> = SecondaryMap::default();
    for anchor in nodes.extract_if(.., |node| is_anchor(module, *node)) {
        let sources = module.node(anchor).operands().filter_map(|value| module.producer(value));
        sources.for_each(|source| is_pinned.set(source, true));
    }
    let running = RunningNodes::new(module, nodes);
    let uses = uses(module);
    let (mut pins, mut unpinned) = (Vec::new(), Vec::new());
    for (position, sources) in running.reads.iter().enumerate().skip(1) {
        let node = running.nodes[position - 1];
        if sources.contains(&(position - 1)) || is_pinned[node] {
            continue;
        }
        let eligible = module.node(node).results().filter_map(|value| match module.ty(value) {
            ValueType::Tensor(_) if can_be_empty => Some(Pin { node, value, extent: 0 }),
            ValueType::Tensor(tensor) => Some(Pin { node, value, extent: tensor.rank()? as u64 }),
            _ => None,
        });
        // A result that others read lives on anyway; a dead one would be kept for one more step. Then the smallest anchor.
        match eligible.min_by_key(|pin| (uses[pin.value].is_empty(), pin.extent)) {
            Some(pin) => pins.push(pin),
            None => unpinned.push(node),
        }
    }
    (pins, unpinned)
}
