//! Price of one e-node: time, bytes of results with storage of their own, and workspace.

use memc_edit::node;
use memc_ir::{ConstData, ConstOrigin, Module, ModuleBuilder, NewNode, Node, Payload, ValueType};
use memc_ops::Typed;

use crate::fact::{Facts, Graph};
use crate::setting::Setting;
use crate::term::{Head, Term};

/// Cost of an e-node by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Price {
    /// Modelled time in nanoseconds.
    pub(crate) nanos: u64,
    /// Workspace, and results that are neither views nor may overwrite an operand, in bytes.
    pub(crate) bytes: u64,
    /// Whether the e-node must not be chosen.
    pub(crate) forbidden: bool,
}

/// Prices an e-node. Nodes that depend on constants alone are folded, so they are free, up to `fold_cap`
/// bytes.
pub(crate) fn price(
    graph: &Graph<'_>,
    term: &Term,
    facts: &Facts,
    setting: &Setting<'_>,
    is_original: bool,
) -> Price {
    let (profile, fold_cap) = (setting.profile, setting.fold_cap.0);
    let size = facts.ty().and_then(|ty| graph.analysis.module.domain().size(ty)).unwrap_or_default().0;
    match term.head {
        Head::Leaf(_) | Head::Absent => Price::default(),
        Head::Result(_) if facts.is_constant => Price::default(),
        Head::Result(_) => Price { bytes: size, ..Price::default() },
        Head::Apply { operator, results, .. } if facts.is_constant && !is_original => {
            let operator = graph.analysis.names.operator_at(operator);
            // Joined, split or transposed weights keep their number of bytes.
            let moved = setting.weights
                && operator.domain.is_empty()
                && matches!(&*operator.name, "Concat" | "Neg" | "Reshape" | "Split" | "Transpose");
            let small = results == 1 && size <= fold_cap;
            Price { forbidden: !(moved || small) || size == 0, nanos: 1, ..Price::default() }
        }
        Head::Apply { results, .. } => {
            let (module, node) = alone(graph, term, facts);
            let typed = Typed::of(&module, node);
            let shares = profile.view_of(&typed).is_some() || !profile.may_overwrite(&typed).is_empty();
            let own = if shares || results > 1 { 0 } else { size };
            let table = || profile.workspace(&Typed::largest(&module, node));
            let workspace = setting.cost.declared(&module, node).or_else(table).unwrap_or_default().0;
            let nanos = setting.cost.nanos(&module, node).0.round() as u64;
            Price { nanos, bytes: own.saturating_add(workspace), forbidden: false }
        }
    }
}

/// Builds a module with one node, the application of the e-node; operands that are not constant are
/// results of nodes, so that they may be overwritten.
fn alone(graph: &Graph<'_>, term: &Term, facts: &Facts) -> (Module, Node) {
    let mut builder = ModuleBuilder::new();
    builder.module_mut().opsets = graph.analysis.module.opsets.clone();
    builder.module_mut().set_domain(graph.analysis.module.domain().clone());
    let main = builder.module().main();
    let mut inputs = Vec::new();
    for (position, child) in term.children.iter().enumerate() {
        let facts = &graph[*child].data;
        let (name, ty) = (format!("i{position}"), facts.ty().cloned());
        let value = match ty {
            None => None,
            Some(ValueType::Tensor(ty)) if facts.is_constant => {
                let constant =
                    builder.constant(ConstData { ty, payload: Payload::Elided, origin: ConstOrigin::New });
                Some(builder.initializer(main, &name, constant))
            }
            Some(ty) => {
                let node = builder.node(main, border(Vec::new()), &[Some((name, ty))]);
                builder.module().node(node).outputs.first().copied().flatten()
            }
        };
        inputs.push(value);
    }
    let new = new_node(graph, term, inputs);
    let results: Vec<_> = facts
        .values
        .iter()
        .enumerate()
        .map(|(position, fact)| Some((format!("r{position}"), fact.ty.clone())))
        .collect();
    let node = builder.node(main, new, &results);
    (builder.finish(), node)
}

/// Returns an opaque node that stands for the graph around a fragment.
pub(crate) fn border(inputs: Vec<Option<memc_ir::Value>>) -> NewNode {
    let operator =
        memc_ir::Operator { domain: "memc".into(), name: "Border".into(), overload: "".into(), version: 1 };
    node(NAME, operator, inputs, Vec::new())
}

/// Name of the pass that is the origin of nodes that rules made.
pub const NAME: &str = "rewrite";

fn new_node(graph: &Graph<'_>, term: &Term, inputs: Vec<Option<memc_ir::Value>>) -> NewNode {
    let names = &graph.analysis.names;
    let (operator, attributes) = match term.head {
        Head::Apply { operator, attributes, .. } => {
            (names.operator_at(operator).clone(), names.attributes_at(attributes).clone())
        }
        _ => (border(Vec::new()).operator, Vec::new()),
    };
    node(NAME, operator, inputs, attributes)
}
