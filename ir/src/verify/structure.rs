//! Checks of graphs, node lists, and definitions of values.

use super::Report;
use crate::entity::{EntityId, GraphId, Node, SecondaryMap, Value};
use crate::module::{Definition, Module};

/// Maximum nesting of bodies; the text form can express no more.
const MAX_DEPTH: usize = crate::text::MAX_DEPTH;

/// The tree of graphs reachable from the main graph, and the position of each node in its list.
pub(super) struct Tree {
    /// Reachable graphs, outer graphs before inner ones.
    pub(super) graphs: Vec<GraphId>,
    reached: SecondaryMap<GraphId, bool>,
    position: SecondaryMap<Node, Option<u32>>,
}

impl Tree {
    /// Whether the graph is in the tree.
    pub(super) fn reaches(&self, graph: GraphId) -> bool {
        self.reached[graph]
    }
    /// Position of a node in the list of its graph; `None` if it is in no list.
    pub(super) fn position(&self, node: Node) -> Option<u32> {
        self.position[node]
    }
    /// Maps `step` of `graph` to the enclosing step of `home`; `None` if `home` does not enclose
    /// `graph`.
    pub(super) fn step_in(
        &self,
        module: &Module,
        home: GraphId,
        mut graph: GraphId,
        mut step: u32,
    ) -> Option<u32> {
        while graph != home {
            let parent = module.graphs[graph].parent?;
            step = self.position[parent]?;
            graph = module.nodes[parent].graph;
        }
        Some(step)
    }
}

/// Walks the tree of graphs; `None`, after reports, if the graphs do not form a valid tree.
pub(super) fn check(report: &mut Report<'_>) -> Option<Tree> {
    let module = report.module;
    let main = module.main();
    let mut tree =
        Tree { graphs: vec![main], reached: SecondaryMap::default(), position: SecondaryMap::default() };
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

/// Whether the walk may enter a body; reports the reason if not.
fn check_body(
    report: &mut Report<'_>,
    tree: &Tree,
    node: Node,
    name: &str,
    body: GraphId,
    depth: usize,
) -> bool {
    let problem = if tree.reached[body] {
        "is already in another place"
    } else if report.module.graphs[body].parent != Some(node) {
        "has another parent"
    } else if depth >= MAX_DEPTH {
        "nests too deeply"
    } else {
        return true;
    };
    report.at_node("E0205", node, format!("the body in the attribute \"{name}\" {problem}"));
    false
}

/// Checks that every value is defined once and that its definition matches the lists.
pub(super) fn check_definitions(report: &mut Report<'_>, tree: &Tree) {
    let module = report.module;
    let mut listed: SecondaryMap<Value, bool> = SecondaryMap::default();
    let mut check = |report: &mut Report<'_>, value: Value, good: bool, place: &dyn Fn() -> String| {
        if !good || listed[value] {
            let name = report.name(value);
            let problem = if good { "occurs there a second time" } else { "states another definition" };
            report.plain("E0202", format!("{name} {problem}: {}", place()));
        }
        listed.set(value, true);
    };
    // Compare every list entry with the definition of its value.
    for graph in &tree.graphs {
        let data = &module.graphs[*graph];
        for (position, value) in data.inputs.iter().enumerate() {
            let good = module.values[*value].definition == Definition::Input(*graph, position as u32);
            check(report, *value, good, &|| format!("input {position} of the graph \"{}\"", data.name));
        }
        for value in &data.constants {
            let good =
                matches!(module.values[*value].definition, Definition::Constant(home, _) if home == *graph);
            check(report, *value, good, &|| format!("an initializer of the graph \"{}\"", data.name));
        }
        for node in &data.nodes {
            for (position, result) in module.nodes[*node].outputs.iter().enumerate() {
                let Some(value) = result else { continue };
                let good = module.values[*value].definition == Definition::Result(*node, position as u32);
                check(report, *value, good, &|| {
                    format!("result {position} of `{}`", crate::text::print_node(module, *node))
                });
            }
        }
    }
    // Find values whose definition names a list that does not contain them.
    for (value, data) in module.values.iter() {
        let claims = match data.definition {
            Definition::Input(graph, _) | Definition::Constant(graph, _) => tree.reaches(graph),
            Definition::Result(node, _) => tree.position(node).is_some(),
            Definition::Erased => false,
        };
        if claims && !listed[value] {
            report.plain(
                "E0202",
                format!("`%{}` ({}) is not in the list of its definition", data.name, value.index()),
            );
        }
    }
}
