//! Anchors: dead-end `Shape` nodes that make ONNX Runtime's default order equal to the schedule.
//!
//! Anchors stand at the end of the file in reverse order. The runtime's search (see
//! [`crate::default_order`]) therefore starts at the anchor of the earliest pinned node. It runs that
//! node and all its transitive operands that did not run yet, then goes on to the next anchor.
//!
//! Why few anchors are enough: let all nodes before position `k` of the schedule have run. A search from
//! the node at `j >= k` first follows the latest operand of `j`, then the latest operand of that
//! operand, down to a node that is ready. It lists exactly `k..=j` if and only if each node of `k+1..=j`
//! reads the node right before it: the latest operand of `j` is listed before `j` with nothing in
//! between, so it is `j - 1`, and the argument repeats. So one anchor serves exactly one run of nodes in
//! which each node reads the previous one. The anchors of all runs but the last pin the schedule, and
//! without any one of them the order deviates.
//!
//! In the module an anchor is an ordinary node: its step is right after the node that it pins, and its
//! result has a live range and a place. If a later node also reads the pinned value, the values alive at
//! the anchor's step are alive at the pinned node's step too.

use memc_ir::{
    Attribute, ElementType, Module, NewNode, Node, Operator, Origin, Rewriter, SecondaryMap, TensorType, Value, ValueType, uses,
};

use crate::names::{NamePool, name_nodes};
use crate::running::RunningNodes;
use crate::transfers::DEFAULT_OPSET;

/// First version of `Shape` whose result can be empty (`start` and `end` both 0). ONNX Runtime frees a
/// result that no node reads only at the end of the run, so an empty result saves the block that each
/// anchor would hold until then.
const EMPTY_SHAPE_OPSET: i64 = 15;
/// Name of the pass in the origin of anchors.
const PASS: &str = "anchor";

/// Result of [`add_anchors`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Anchored {
    /// Number of added anchors; 0 if the default order already is the schedule.
    pub added: usize,
    /// Nodes that need an anchor but cannot have one, because none of their results is a dense tensor
    /// (before version 15 of ONNX's operators: a dense tensor of known rank). The default order may
    /// deviate at these nodes.
    pub unpinned: Vec<Node>,
}

/// Adds the fewest anchors that make ONNX Runtime's default order equal to the schedule of the main
/// graph.
///
/// Each anchor comes right after the node that it pins. Its result is empty, or of type `int64[rank]`
/// before version 15 of ONNX's operators. A node that already has an anchor gets no second one.
///
/// In a planned module, the new results do not have a place yet. Aliases stay valid, because an anchor
/// reads before any later node writes. Takes time linear in the size of the module, plus name lookups.
pub fn add_anchors(module: &mut Module) -> Anchored {
    let version = module.opsets.get("").copied().unwrap_or(DEFAULT_OPSET);
    let can_be_empty = version >= EMPTY_SHAPE_OPSET;
    let (pins, unpinned) = pins(module, can_be_empty);
    if pins.is_empty() {
        return Anchored { added: 0, unpinned };
    }
    let (node_names, mut names) = name_nodes(module);
    // Reserve names in bodies too: a body must not redefine a name of the graph around it.
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
        // Insert at the end of the list, which takes constant time; the schedule is set once after the
        // loop.
        order.push(rewriter.insert(main, None, new, &[Some((name, ty))]));
    }
    rewriter.set_schedule(main, order);
    rewriter.finish();
    Anchored { added: pins.len(), unpinned }
}

/// Whether [`add_anchors`] added a node.
pub fn is_anchor(module: &Module, node: Node) -> bool {
    matches!(&module.node(node).origin, Origin::Pass { pass } if pass == PASS)
}

/// Returns the main graph's nodes in the order of the written file: the schedule without its anchors,
/// then the anchors in reverse order.
pub fn file_order(module: &Module) -> Vec<Node> {
    let schedule = module.graph(module.main()).nodes.iter().copied();
    let (anchors, mut order): (Vec<Node>, Vec<Node>) = schedule.partition(|node| is_anchor(module, *node));
    order.extend(anchors.into_iter().rev());
    order
}

/// A node that needs an anchor.
struct Pin {
    node: Node,
    /// Result of the node whose shape the anchor reads.
    value: Value,
    /// Length of the anchor's result, in elements.
    extent: u64,
}

/// Returns the nodes that need an anchor and have none, in the module's order, and the nodes that need
/// an anchor but cannot have one.
fn pins(module: &Module, can_be_empty: bool) -> (Vec<Pin>, Vec<Node>) {
    let mut nodes = module.graph(module.main()).nodes.clone();
    let mut is_pinned: SecondaryMap<Node, bool> = SecondaryMap::default();
    // Take the existing anchors out of the list and mark the nodes that they pin.
    for anchor in nodes.extract_if(.., |node| is_anchor(module, *node)) {
        let sources = module.node(anchor).operands().filter_map(|value| module.producer(value));
        sources.for_each(|source| is_pinned.set(source, true));
    }
    let running = RunningNodes::new(module, nodes);
    let uses = uses(module);
    let (mut pins, mut unpinned) = (Vec::new(), Vec::new());
    // Every node whose successor in the list does not read it needs an anchor.
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
        // Prefer a result that other nodes read: a dead result would live one step longer. Then prefer
        // the smallest anchor.
        match eligible.min_by_key(|pin| (uses[pin.value].is_empty(), pin.extent)) {
            Some(pin) => pins.push(pin),
            None => unpinned.push(node),
        }
    }
    (pins, unpinned)
}
