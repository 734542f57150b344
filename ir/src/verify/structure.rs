//! Graphs, their lists of nodes, and where values are defined.

use super::Report;
use crate::entity::{EntityId, GraphId, Node, SecondaryMap, Value};
use crate::module::{Definition, Module};

/// Bodies nest at most this deep; more cannot be printed and read again.
const MAX_DEPTH: usize = crate::text::MAX_DEPTH;

/// The graphs that are reached from the main one, and where each node stands in its list.
pub(super) struct Tree {
    /// Outer graphs before inner ones.
    pub(super) graphs: Vec<GraphId>,
    reached: SecondaryMap<GraphId, bool>,
    position: SecondaryMap<Node, Option<u32>>,
}

impl Tree {
    /// Whether the graph belongs to the module's tree.
    pub(super) fn reaches(&self, graph: GraphId) -> bool {
        self.reached[graph]
    }
    /// Position of a node in the list of its graph, if it stands in one.
    pub(super) fn position(&self, node: Node) -> Option<u32> {
        self.position[node]
    }
    /// The step of `home` at which something happens at `step` of `graph`; `None` where `home` is not around `graph`.
    pub(super) fn step_in(&self, module: &Module, home: GraphId, mut graph: GraphId, mut step: u32) -> Option<u32> {
        while graph != home {
            let parent = module.graphs[graph].parent?;
            step = self.position[parent]?;
            graph = module.nodes[parent].graph;
        }
        Some(step)
    }
}

/// Walks the tree of graphs; `None` (after reports) where it is not one.
pub(super) fn check(report: &mut Report<'_>) -> Option<Tree> {
    let module = report.module;
    let main = module.main();
    let mut tree = Tree { graphs: vec![main], reached: SecondaryMap::default(), position: SecondaryMap::default() };
    let mut depths = vec![0];
    tree.reached.set(main, true);
    if module.graphs[main].parent.is_some() {
        report.plain("E0205", "the main graph has a parent node".to_owned());
    }
    let mut next = 0;
    while let (Some(graph), Some(depth)) = (tree.graphs.get(next).copied(), depths.get(next).copied()) {
        next += 1;
        for (position, node) in module.graphs[graph].nodes.iter().enumerate() {
            check_listed(report, &mut tree, graph, *node, position);
            for (name, body) in module.nodes[*node].bodies() {
                if check_body(report, &tree, *node, name, body, depth) {
                    tree.reached.set(body, true);
                    tree.graphs.push(body);
                    depths.push(depth + 1);
                }
            }
        }
    }
    report.violations.is_empty().then_some(tree)
}

fn check_listed(report: &mut Report<'_>, tree: &mut Tree, graph: GraphId, node: Node, position: usize) {
    let module = report.module;
    let data = &module.nodes[node];
    if data.graph != graph {
        report.at_node("E0206", node, format!("a node of {} is in the list of {graph}", data.graph));
    }
    if data.results().any(|value| module.values[value].definition == Definition::Erased) {
        report.at_node("E0206", node, "an erased node is in the list of its graph".to_owned());
    }
    match u32::try_from(position) {
        Ok(position) if tree.position[node].is_none() => tree.position.set(node, Some(position)),
        _ => report.at_node("E0206", node, "a node is in a list twice".to_owned()),
    }
}

/// Whether the body is good to walk into.
fn check_body(report: &mut Report<'_>, tree: &Tree, node: Node, name: &str, body: GraphId, depth: usize) -> bool {
    let problem = if tree.reached[body] {
        "is already in another place"
    } else if report.module.graphs[body].parent != Some(node) {
        "has another parent"
    } else if depth >= MAX_DEPTH {
        "nests too deep"
    } else {
        return true;
    };
    report.at_node("E0205", node, format!("the body in the attribute \"{name}\" {problem}"));
    false
}

/// Every value is defined once, and where it says.
pub(super) fn check_definitions(report: &mut Report<'_>, tree: &Tree) {
    let module = report.module;
    let mut listed: SecondaryMap<Value, bool> = SecondaryMap::default();
    let mut check = |report: &mut Report<'_>, value: Value, good: bool, place: &dyn Fn() -> String| {
        if !good || listed[value] {
            let name = report.name(value);
            let problem = if good { "stands there a second time" } else { "says that it is defined elsewhere" };
            report.plain("E0202", format!("{name} {problem}: {}", place()));
        }
        listed.set(value, true);
    };
    for graph in &tree.graphs {
        let data = &module.graphs[*graph];
        for (position, value) in data.inputs.iter().enumerate() {
            let good = module.values[*value].definition == Definition::Input(*graph, position as u32);
            check(report, *value, good, &|| format!("input {position} of the graph \"{}\"", data.name));
        }
        for value in &data.constants {
            let good = matches!(module.values[*value].definition, Definition::Constant(home, _) if home == *graph);
            check(report, *value, good, &|| format!("an initializer of the graph \"{}\"", data.name));
        }
        for node in &data.nodes {
            for (position, result) in module.nodes[*node].outputs.iter().enumerate() {
                let Some(value) = result else { continue };
                let good = module.values[*value].definition == Definition::Result(*node, position as u32);
                check(report, *value, good, &|| format!("result {position} of `{}`", crate::text::print_node(module, *node)));
            }
        }
    }
    for (value, data) in module.values.iter() {
        let claims = match data.definition {
            Definition::Input(graph, _) | Definition::Constant(graph, _) => tree.reaches(graph),
            Definition::Result(node, _) => tree.position(node).is_some(),
            Definition::Erased => false,
        };
        if claims && !listed[value] {
            report.plain(
                "E0202",
                format!("`%{}` ({}) is not in the list where it says that it is defined", data.name, value.index()),
            );
        }
    }
}
