//! The written nodes: their order in the schedule and in the file, their names, and the anchors among them.

use memc_ir::{Module, Node, SecondaryMap};
use memc_onnx_proto::NodePiece;
use memc_onnx_proto::onnx::NodeProto;

use crate::anchors::Pins;
use crate::names::{NamePool, name_nodes};
use crate::nodes::entries;
use crate::values::main_values;

/// One node of the main graph of the new model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrittenStep {
    /// The node of the module; `None` for an anchor.
    pub node: Option<Node>,
    /// Its name, unique and not empty.
    pub name: String,
    /// Name of its operator.
    pub op: String,
    /// Domain of its operator; empty for ONNX's own.
    pub domain: String,
    /// Whether it only pins a runtime's order.
    pub anchor: bool,
    /// Its position in the schedule, anchors counted: an anchor comes right behind the node that it pins.
    pub position: u32,
}

/// The result of an anchor: a tensor of `rank` 64-bit integers that nobody reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnchorValue {
    /// Its name.
    pub name: String,
    /// How many elements of 8 bytes it has.
    pub rank: usize,
    /// Name of the anchor that produces it.
    pub anchor: String,
    /// Name of the value whose shape it is.
    pub of: String,
}

/// Everything about the written nodes.
pub(crate) struct Steps {
    /// In the order of the file: the module's nodes, then the anchors, the last pinned node's first.
    pub(crate) steps: Vec<WrittenStep>,
    pub(crate) node_names: SecondaryMap<Node, String>,
    /// In the order of the schedule.
    pub(crate) anchor_values: Vec<AnchorValue>,
    /// Position in the schedule.
    pub(crate) positions: SecondaryMap<Node, u32>,
}

impl Steps {
    /// Names and numbers the nodes of the module and the anchors that `pins` asks for.
    pub(crate) fn new(module: &Module, pins: &Pins) -> Self {
        let (node_names, mut names) = name_nodes(module);
        // Names in bodies count too: a body may not define anew what the graph around it defines.
        let mut value_names = NamePool::with(module.values().iter().map(|(_, data)| data.name.clone()));
        let mut found = Self { steps: Vec::new(), node_names, anchor_values: Vec::new(), positions: SecondaryMap::default() };
        let mut anchors = Vec::new();
        let mut pins = pins.pins.iter().peekable();
        for (position, node) in (0u32..).zip(&module.graph(module.main()).nodes) {
            let position = position.saturating_add(anchors.len() as u32);
            let operator = &module.node(*node).operator;
            let name = found.node_names[*node].clone();
            found.positions.set(*node, position);
            if let Some(pin) = pins.next_if(|pin| pin.node == *node) {
                let of = module.value(pin.value).name.clone();
                let anchor = names.unique(&format!("{name}.anchor"));
                let value = value_names.unique(&format!("{of}.anchor"));
                let (op, domain) = ("Shape".to_owned(), String::new());
                let position = position.saturating_add(1);
                anchors.push(WrittenStep { node: None, name: anchor.clone(), op, domain, anchor: true, position });
                found.anchor_values.push(AnchorValue { name: value, rank: pin.rank, anchor, of });
            }
            let (op, domain) = (operator.name.to_string(), operator.domain.to_string());
            found.steps.push(WrittenStep { node: Some(*node), name, op, domain, anchor: false, position });
        }
        found.steps.extend(anchors.into_iter().rev());
        found
    }

    /// The anchors as nodes, in the order of the file.
    pub(crate) fn anchor_pieces(&self, metadata: bool) -> impl Iterator<Item = NodePiece> + '_ {
        let anchors = self.steps.iter().filter(|step| step.anchor);
        anchors.zip(self.anchor_values.iter().rev()).map(move |(step, value)| {
            let step_entry = metadata.then(|| entries(vec![("memc.step".to_owned(), step.position.to_string())]));
            NodePiece::New(NodeProto {
                input: vec![value.of.clone()],
                output: vec![value.name.clone()],
                name: Some(step.name.clone()),
                op_type: Some(step.op.clone()),
                metadata_props: step_entry.unwrap_or_default(),
                ..NodeProto::default()
            })
        })
    }
}

/// The name that does not name exactly one value of the main graph, if there is one.
pub(crate) fn ambiguous_name(module: &Module) -> Option<String> {
    let mut seen = std::collections::HashSet::new();
    let name = |value| module.value(value).name.as_str();
    main_values(module).map(name).find(|name| name.is_empty() || !seen.insert(*name)).map(str::to_owned)
}
