//! Checks that every id refers to an existing entity. All later checks may index without further
//! checks.

use super::Report;
use crate::attribute::Attribute;
use crate::entity::EntityId;
use crate::module::Definition;

/// Reports every dangling id.
pub(super) fn check(report: &mut Report<'_>) {
    let module = report.module;
    if module.graphs.is_empty() {
        report.plain("E0201", "the module has no main graph".to_owned());
    }
    graphs(report);
    nodes(report);
    for (value, data) in module.values.iter() {
        let good = match data.definition {
            Definition::Input(graph, _) => module.graphs.contains(graph),
            Definition::Constant(graph, constant) => {
                module.graphs.contains(graph) && module.constants.contains(constant)
            }
            Definition::Result(node, _) => module.nodes.contains(node),
            Definition::Erased => true,
        };
        if !good {
            dangling(report, value, "is defined by a node or graph");
        }
        if data.default.is_some_and(|constant| !module.constants.contains(constant)) {
            dangling(report, value, "has a default");
        }
    }
    plan(report);
}

fn dangling<K: EntityId>(report: &mut Report<'_>, holder: K, what: &str) {
    report.plain("E0201", format!("`{holder}` {what} that does not exist"));
}

fn graphs(report: &mut Report<'_>) {
    let module = report.module;
    for (graph, data) in module.graphs.iter() {
        let lists =
            [(&data.inputs, "an input"), (&data.constants, "an initializer"), (&data.outputs, "a result")];
        for (list, what) in lists {
            if list.iter().any(|value| !module.values.contains(*value)) {
                dangling(report, graph, &format!("has {what}"));
            }
        }
        if data.nodes.iter().chain(&data.parent).any(|node| !module.nodes.contains(*node)) {
            dangling(report, graph, "has a node or a parent");
        }
    }
}

fn nodes(report: &mut Report<'_>) {
    let module = report.module;
    for (node, data) in module.nodes.iter() {
        if data.operands().chain(data.results()).any(|value| !module.values.contains(value)) {
            dangling(report, node, "has an operand or a result");
        }
        if !module.graphs.contains(data.graph)
            || data.recompute_of.is_some_and(|original| !module.nodes.contains(original))
        {
            dangling(report, node, "has a graph or an original");
        }
        for (name, attribute) in &data.attributes {
            let good = match attribute {
                Attribute::Tensor(constant) => module.constants.contains(*constant),
                Attribute::Tensors(constants) => {
                    constants.iter().all(|constant| module.constants.contains(*constant))
                }
                other => other.graphs().iter().all(|graph| module.graphs.contains(*graph)),
            };
            if !good {
                dangling(report, node, &format!("has a graph or constant in its attribute \"{name}\""));
            }
        }
    }
}

fn plan(report: &mut Report<'_>) {
    let module = report.module;
    let plan = &module.plan;
    for value in module.values.keys() {
        if plan.alias[value].is_some_and(|alias| !module.values.contains(alias.of)) {
            dangling(report, value, "is an alias of a value");
        }
        if plan.storage[value].is_some_and(|storage| !plan.spaces.contains(storage.space)) {
            dangling(report, value, "lies in a space");
        }
    }
    for scratch in &plan.scratch {
        if !module.nodes.contains(scratch.node) {
            dangling(report, scratch.node, "has scratch but is a node");
        }
        if scratch.storage.is_some_and(|storage| !plan.spaces.contains(storage.space)) {
            dangling(report, scratch.node, "has scratch in a space");
        }
    }
    for arena in plan.arenas.iter().filter(|arena| !plan.spaces.contains(arena.space)) {
        report
            .plain("E0201", format!("an arena of {} is in a space that does not exist", arena.size.exact()));
    }
}
