//! Anchors: dead-end nodes that make ONNX Runtime's default order equal to the schedule.
//!
//! `Shape` nodes cost nothing, but each level of a session's optimizations folds them. No level folds a slice
//! of no positions, or a scalar expanded to none, which have empty results, too.
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
    Attribute, ConstData, ConstOrigin, Dim, ElementType, Module, NewNode, Node, Operator, Origin, Payload,
    Rewriter, SecondaryMap, TensorType, Use, Value, ValueType, uses,
};

use crate::names::{NamePool, name_nodes};
use crate::running::RunningNodes;
use crate::transfers::DEFAULT_OPSET;

/// First version of `Shape` whose result can be empty (`start` and `end` both 0). ONNX Runtime frees a
/// result that no node reads only at the end of the run, so an empty result saves the block that each
/// anchor would hold until then.
const EMPTY_SHAPE_OPSET: i64 = 15;
/// First version of `Slice` whose range is an operand.
const RANGE_OPSET: i64 = 10;
/// Name of the pass in the origin of anchors.
const PASS: &str = "anchor";

/// What an anchor is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AnchorKind {
    /// A `Shape` node: for sessions without optimizations, which fold it.
    #[default]
    Shape,
    /// A slice of no positions, or a scalar expanded to none: for sessions with optimizations. It reads the
    /// value itself, so that the session does not fuse the node before it with the next one.
    Slice,
}

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
/// Each anchor comes right after the node that it pins. Its result is empty, or of type `int64[rank]` for a
/// `Shape` node before version 15 of ONNX's operators. A node that already has an anchor gets no second one.
///
/// In a planned module, the new results do not have a place yet. Aliases stay valid, because an anchor
/// reads before any later node writes. Takes time linear in the size of the module, plus name lookups.
pub fn add_anchors(module: &mut Module, kind: AnchorKind) -> Anchored {
    let (pins, unpinned) = pins(module, Form::of(module, kind));
    Anchored { added: add(module, &pins, kind), unpinned }
}

/// Adds an anchor right after one node, so that a session runs it before all nodes that no anchor pins.
/// Returns whether the node can have one.
pub fn add_anchor(module: &mut Module, node: Node, kind: AnchorKind) -> bool {
    let pin = pin(module, node, &uses(module), Form::of(module, kind));
    add(module, pin.as_slice(), kind) > 0
}

/// Adds an anchor for each pin; returns their number.
fn add(module: &mut Module, pins: &[Pin], kind: AnchorKind) -> usize {
    if pins.is_empty() {
        return 0;
    }
    let form = Form::of(module, kind);
    let version = module.opsets.get("").copied().unwrap_or(DEFAULT_OPSET);
    let (node_names, mut names) = name_nodes(module);
    // Reserve names in bodies too: a body must not redefine a name of the graph around it.
    let mut value_names = NamePool::with(module.values().iter().map(|(_, data)| data.name.clone()));
    module.opsets.insert(String::new(), version);
    let main = module.main();
    let given = module.graph(main).nodes.clone();
    let mut order = Vec::with_capacity(given.len() + pins.len());
    let mut rewriter = Rewriter::new(module);
    let zero = pins.iter().any(|pin| form.zeros(pin.is_scalar) > 0).then(|| {
        let ty = TensorType::fixed(ElementType::Int64, &[1]);
        let data = ConstData { ty, payload: Payload::Raw(vec![0; 8].into()), origin: ConstOrigin::New };
        rewriter.initializer(main, &value_names.unique("memc.anchor.zero"), data)
    });
    let mut left = pins.iter().peekable();
    for node in given {
        order.push(node);
        let Some(pin) = left.next_if(|pin| pin.node == node) else { continue };
        let mut inputs = vec![Some(pin.value)];
        inputs.extend(std::iter::repeat_n(zero, form.zeros(pin.is_scalar)));
        let operator = Operator::onnx(form.operator(pin.is_scalar), version);
        let attributes = if pin.is_scalar { Vec::new() } else { form.attributes() };
        let new = NewNode::new(operator, inputs, attributes, Origin::Pass { pass: PASS.into() });
        let new = new.named(names.unique(&format!("{}.anchor", node_names[node])));
        let name = value_names.unique(&format!("{}.anchor", rewriter.module().value(pin.value).name));
        // Insert at the end of the list, which takes constant time; the schedule is set once after the
        // loop.
        order.push(rewriter.insert(main, None, new, &[Some((name, pin.result.clone()))]));
    }
    rewriter.set_schedule(main, order);
    rewriter.finish();
    pins.len()
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

/// The form of anchors in a version of ONNX's operators.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `Shape` with an empty range, or of the whole shape.
    Shape { is_empty: bool },
    /// `Slice` with its range as operands, or as attributes; `Expand` for scalars.
    Slice { has_operands: bool },
}

impl Form {
    fn of(module: &Module, kind: AnchorKind) -> Self {
        let version = module.opsets.get("").copied().unwrap_or(DEFAULT_OPSET);
        match kind {
            AnchorKind::Shape => Self::Shape { is_empty: version >= EMPTY_SHAPE_OPSET },
            AnchorKind::Slice => Self::Slice { has_operands: version >= RANGE_OPSET },
        }
    }

    fn operator(self, is_scalar: bool) -> &'static str {
        match self {
            Self::Shape { .. } => "Shape",
            Self::Slice { .. } if is_scalar => "Expand",
            Self::Slice { .. } => "Slice",
        }
    }

    /// Returns how often an anchor reads a vector of one zero.
    fn zeros(self, is_scalar: bool) -> usize {
        match self {
            Self::Slice { .. } if is_scalar => 1,
            // Start, end and axis.
            Self::Slice { has_operands: true } => 3,
            Self::Shape { .. } | Self::Slice { .. } => 0,
        }
    }

    fn attributes(self) -> Vec<(String, Attribute)> {
        let named = |key: &str, value| (key.to_owned(), value);
        match self {
            Self::Shape { is_empty: true } => {
                ["start", "end"].map(|key| named(key, Attribute::Int(0))).to_vec()
            }
            Self::Slice { has_operands: false } => {
                ["starts", "ends", "axes"].map(|key| named(key, Attribute::Ints(vec![0]))).to_vec()
            }
            Self::Shape { .. } | Self::Slice { .. } => Vec::new(),
        }
    }

    /// Returns the type of the result that reads a value of this type, and its number of elements; `None` if
    /// no anchor can read the value.
    fn result(self, ty: &ValueType) -> Option<(ValueType, u64)> {
        let ValueType::Tensor(tensor) = ty else { return None };
        match self {
            Self::Shape { is_empty: true } => Some((TensorType::fixed(ElementType::Int64, &[0]), 0)),
            Self::Shape { .. } => {
                let rank = tensor.rank()? as u64;
                Some((TensorType::fixed(ElementType::Int64, &[rank]), rank))
            }
            Self::Slice { .. } => {
                let mut empty = tensor.clone();
                let dims = empty.shape.as_mut()?;
                match dims.first_mut() {
                    Some(first) => *first = Dim::Known(0),
                    None => dims.push(Dim::Known(0)),
                }
                SLICED.contains(&tensor.element).then_some((empty, 0))
            }
        }
        .map(|(ty, elements)| (ValueType::Tensor(ty), elements))
    }
}

/// Element types of values that a session slices in every version of the operator.
const SLICED: &[ElementType] =
    &[ElementType::Float, ElementType::Double, ElementType::Int32, ElementType::Int64];

/// A node that needs an anchor.
struct Pin {
    node: Node,
    /// Result of the node that the anchor reads.
    value: Value,
    /// Type of the anchor's result.
    result: ValueType,
    /// Whether the value is a scalar.
    is_scalar: bool,
}

/// Returns the anchor of a node; `None` if none of its results can be read by one.
fn pin(module: &Module, node: Node, uses: &SecondaryMap<Value, Vec<Use>>, form: Form) -> Option<Pin> {
    let eligible = module.node(node).results().filter_map(|value| {
        let (result, elements) = form.result(module.ty(value))?;
        let is_scalar = matches!(form, Form::Slice { .. }) && module.ty(value).tensor()?.rank() == Some(0);
        Some((Pin { node, value, result, is_scalar }, elements))
    });
    // Prefer a result that other nodes read: a dead result would live one step longer. Then prefer
    // the smallest anchor.
    eligible.min_by_key(|(pin, elements)| (uses[pin.value].is_empty(), *elements)).map(|(pin, _)| pin)
}

/// Returns the nodes that need an anchor and have none, in the module's order, and the nodes that need
/// an anchor but cannot have one.
fn pins(module: &Module, form: Form) -> (Vec<Pin>, Vec<Node>) {
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
        match pin(module, node, &uses, form) {
            Some(pin) => pins.push(pin),
            None => unpinned.push(node),
        }
    }
    (pins, unpinned)
}
