//! Checks that every value is defined before it is read and in scope, and that names are unambiguous.

use std::collections::HashMap;

use super::Report;
use super::structure::Tree;
use crate::entity::{GraphId, Node, Value};
use crate::module::Definition;

/// Values by graph and name.
type NameTable<'m> = HashMap<(GraphId, &'m str), Value>;

/// A point at which a value is read.
#[derive(Clone, Copy)]
struct Reader {
    graph: GraphId,
    step: u32,
    /// The reading node; `None` for a result of the graph.
    node: Option<Node>,
}

/// Reports values that are read too early or out of scope, and names that are ambiguous.
pub(super) fn check(report: &mut Report<'_>, tree: &Tree) {
    let module = report.module;
    let names = name_table(report, tree);
    for graph in &tree.graphs {
        let data = &module.graphs[*graph];
        for (step, node) in data.nodes.iter().enumerate() {
            let reader = Reader { graph: *graph, step: step as u32, node: Some(*node) };
            for value in module.nodes[*node].operands() {
                check_read(report, tree, &names, reader, value);
            }
            if let Some(original) = module.nodes[*node].recompute_of {
                check_original(report, tree, reader, *node, original);
            }
        }
        let reader = Reader { graph: *graph, step: data.nodes.len() as u32, node: None };
        for value in &data.outputs {
            check_read(report, tree, &names, reader, *value);
        }
    }
}

fn name_table<'m>(report: &mut Report<'m>, tree: &Tree) -> NameTable<'m> {
    let module = report.module;
    let mut names = NameTable::new();
    for graph in &tree.graphs {
        let data = &module.graphs[*graph];
        let results = data.nodes.iter().flat_map(|node| module.nodes[*node].results());
        for value in data.inputs.iter().chain(&data.constants).copied().chain(results) {
            let name = module.values[value].name.as_str();
            if name.is_empty() {
                report.at_value("E0204", value, "a value has no name".to_owned());
            } else if names.insert((*graph, name), value).is_some_and(|other| other != value) {
                let graph_name = &data.name;
                report.at_value(
                    "E0204",
                    value,
                    format!("`%{name}` is defined twice in the graph \"{graph_name}\""),
                );
            }
        }
    }
    names
}

fn check_read(report: &mut Report<'_>, tree: &Tree, names: &NameTable<'_>, reader: Reader, value: Value) {
    let module = report.module;
    let name = report.name(value);
    let home = module.home(value).filter(|home| tree.reaches(*home));
    let step = home.and_then(|home| tree.step_in(module, home, reader.graph, reader.step));
    let (Some(home), Some(step)) = (home, step) else {
        let why = match module.values[value].definition {
            Definition::Erased => "was erased",
            _ => "is defined in a graph that is not around the reader",
        };
        return at_reader(report, "E0203", reader, format!("{name} is read but {why}"));
    };
    if let Definition::Result(producer, _) = module.values[value].definition {
        match tree.position(producer) {
            Some(position) if position < step => {}
            Some(_) => at_reader(report, "E0203", reader, format!("{name} is read before it is defined")),
            None => at_reader(report, "E0203", reader, format!("{name} is read but its node is in no list")),
        }
    }
    let mut graph = reader.graph;
    while graph != home {
        if names.contains_key(&(graph, module.values[value].name.as_str())) {
            let message = format!("{name} is captured by a body in which another value has its name");
            at_reader(report, "E0204", reader, message);
        }
        let Some(parent) = module.graphs[graph].parent else { return };
        graph = module.nodes[parent].graph;
    }
}

fn at_reader(report: &mut Report<'_>, code: &'static str, reader: Reader, message: String) {
    match reader.node {
        Some(node) => report.at_node(code, node, message),
        None => {
            let graph = &report.module.graphs[reader.graph].name;
            report.plain(code, format!("{message}, as a result of the graph \"{graph}\""));
        }
    }
}

fn check_original(report: &mut Report<'_>, tree: &Tree, reader: Reader, node: Node, original: Node) {
    let module = report.module;
    let data = &module.nodes[original];
    let step = tree.step_in(module, data.graph, reader.graph, reader.step);
    // In one graph, the original may come before or after the copy. In an enclosing graph it must come
    // before the body's node.
    let in_sight = |position: u32| step.is_some_and(|step| data.graph == reader.graph || position < step);
    let visible = tree.position(original).is_some_and(in_sight);
    let problem = if original == node {
        "itself"
    } else if !visible {
        "a node that its graph does not see"
    } else if data.results().next().is_none() {
        "a node without results"
    } else {
        return;
    };
    report.at_node("E0207", node, format!("a node recomputes {problem}"));
}
