//! A fragment: a run of nodes with its operands, its results that other nodes need, and its e-graph.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use egg::EGraph;
use memc_ir::{ConstData, Module, Node, SecondaryMap, Value};
use memc_ops::{Fact, holds_zeros};

use crate::fact::{Graph, Knowledge, Leaf, LeafKind, rebuild, shown};
use crate::term::{Head, Names, Term, attributes_key};

/// A run of nodes that is rewritten as a unit.
#[derive(Clone, Debug)]
pub struct Fragment {
    /// The nodes, in order.
    pub nodes: Vec<Node>,
    /// Values read from before the fragment, in order of first reading; no constants.
    pub inputs: Vec<Value>,
    /// By input: whether a node after the fragment also reads it.
    pub lasting: Vec<bool>,
    /// By input: whether all its elements are known to be zero.
    pub zeros: Vec<bool>,
    /// Constants that the nodes read, in order of first reading.
    pub constants: Vec<Value>,
    /// By constant: whether both halves of its last axis are known to be equal.
    pub repeating: Vec<bool>,
    /// Results that nodes after the fragment or graph outputs need, in order.
    pub outputs: Vec<Value>,
    /// Equal for fragments that compute equal results from equal operands: same operators, attributes,
    /// types and small constants.
    pub key: String,
}

/// Operand of a node of a fragment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operand {
    Input(u32),
    Constant(u32),
    Result(u32, u32),
}

impl Fragment {
    /// Creates the fragment of a run of nodes. `is_needed` tells whether nodes after the run read a
    /// result, `outlives` whether they read a value from before it, `repeats` whether both halves of a
    /// constant's last axis are equal.
    pub(crate) fn new(
        module: &Module,
        nodes: Vec<Node>,
        is_needed: impl Fn(Value) -> bool,
        outlives: impl Fn(Value) -> bool,
        repeats: impl Fn(Value) -> bool,
    ) -> Self {
        let (mut inputs, mut lasting, mut constants, mut outputs) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut repeating, mut zeros) = (Vec::new(), Vec::new());
        let mut known: SecondaryMap<Value, Option<Operand>> = SecondaryMap::default();
        let mut key = String::new();
        // Describe each node in the key: operator, operands, attributes, results.
        for (index, node) in (0u32..).zip(&nodes) {
            let data = module.node(*node);
            let _ = write!(
                key,
                "{}.{}@{} {}",
                data.operator.domain, data.operator.name, data.operator.version, data.operator.overload
            );
            for operand in &data.inputs {
                let Some(value) = *operand else {
                    key.push_str(" _");
                    continue;
                };
                let place = known[value].unwrap_or_else(|| {
                    let place = match module.constant_of(value) {
                        Some(constant) => {
                            let twice = if repeats(value) { " twice" } else { "" };
                            let _ = write!(
                                key,
                                " new {}{twice} {}",
                                module.ty(value),
                                content(module.constant(constant))
                            );
                            constants.push(value);
                            repeating.push(repeats(value));
                            Operand::Constant(constants.len() as u32 - 1)
                        }
                        None => {
                            let zero = if holds_zeros(module, value) { " zeros" } else { "" };
                            let _ = write!(
                                key,
                                " new {}{}{zero}",
                                module.ty(value),
                                if outlives(value) { "+" } else { "" }
                            );
                            inputs.push(value);
                            lasting.push(outlives(value));
                            zeros.push(!zero.is_empty());
                            Operand::Input(inputs.len() as u32 - 1)
                        }
                    };
                    known.set(value, Some(place));
                    place
                });
                let _ = write!(key, " {place:?}");
            }
            let mut attributes = data.attributes.clone();
            attributes.sort_by(|a, b| a.0.cmp(&b.0));
            let _ = write!(key, " {{{}}}", attributes_key(&attributes));
            for (position, result) in (0u32..).zip(&data.outputs) {
                let Some(value) = *result else {
                    key.push_str(" _");
                    continue;
                };
                known.set(value, Some(Operand::Result(index, position)));
                let needed = is_needed(value);
                if needed {
                    outputs.push(value);
                }
                let _ = write!(key, " {}{}", module.ty(value), if needed { "!" } else { "" });
            }
            key.push('\n');
        }
        // Outputs of the graph must be results of a node under their own name.
        for value in &outputs {
            key.push(if module.graph(module.main()).outputs.contains(value) { 'o' } else { '.' });
        }
        Self { nodes, inputs, lasting, zeros, constants, repeating, outputs, key }
    }

    /// Builds the e-graph of the fragment; returns it with the classes of all values and the e-nodes of
    /// all nodes.
    pub(crate) fn graph<'m>(&self, module: &'m Module) -> (Graph<'m>, BTreeMap<Value, egg::Id>, Vec<Term>) {
        let mut graph = EGraph::new(Knowledge { module, names: Names::default(), leaves: Vec::new() });
        let mut classes: BTreeMap<Value, egg::Id> = BTreeMap::new();
        let inputs = (0u32..).zip(&self.inputs).map(|(number, value)| (LeafKind::Input(number), *value));
        let constants =
            (0u32..).zip(&self.constants).map(|(number, value)| (LeafKind::Constant(number), *value));
        for (kind, value) in inputs.chain(constants) {
            let data = module.constant_of(value).and_then(|constant| shown(module.constant(constant)));
            let repeats = matches!(kind, LeafKind::Constant(number) if self.repeating[number as usize]);
            let zeros = matches!(kind, LeafKind::Input(number) if self.zeros[number as usize]);
            let fact = Fact { ty: module.ty(value).clone(), data, assumed: false };
            graph.analysis.leaves.push(Leaf { kind, fact, repeats, zeros });
            let number = graph.analysis.leaves.len() as u32 - 1;
            let id = graph.add(Term::leaf(Head::Leaf(number)));
            classes.insert(value, id);
        }
        let terms = self.nodes.iter().map(|node| add_node(&mut graph, &mut classes, module, *node)).collect();
        rebuild(&mut graph);
        (graph, classes, terms)
    }
}

/// Adds a node of the module, with the types that the module states; returns its e-node.
fn add_node(
    graph: &mut Graph<'_>,
    classes: &mut BTreeMap<Value, egg::Id>,
    module: &Module,
    node: Node,
) -> Term {
    let data = module.node(node);
    let mut inputs = data.inputs.as_slice();
    while let [head @ .., None] = inputs {
        inputs = head;
    }
    let mut children = Vec::with_capacity(inputs.len());
    for operand in inputs {
        let child = match operand.and_then(|value| classes.get(&value)) {
            Some(id) => *id,
            None => graph.add(Term::leaf(Head::Absent)),
        };
        children.push(child);
    }
    let results = data.outputs.len().max(1) as u32;
    let names = &mut graph.analysis.names;
    let head = Head::Apply {
        operator: names.operator(&data.operator),
        attributes: names.attributes(data.attributes.clone()),
        results,
    };
    let term = Term { head, children };
    let whole = graph.add(term.clone());
    let mut facts = graph[whole].data.clone();
    for (fact, result) in facts.values.iter_mut().zip(&data.outputs) {
        if let Some(value) = result {
            fact.ty = module.ty(*value).clone();
        }
    }
    graph.set_analysis_data(whole, facts);
    for (position, result) in (0u32..).zip(&data.outputs) {
        let Some(value) = *result else { continue };
        let id = if results == 1 {
            whole
        } else {
            graph.add(Term { head: Head::Result(position), children: vec![whole] })
        };
        classes.insert(value, id);
    }
    term
}

/// Returns the elements of a constant that rules may see, as text.
fn content(constant: &ConstData) -> String {
    match shown(constant) {
        None => String::new(),
        Some(data) => match data.items.split_first() {
            Some((first, rest)) if rest.iter().all(|item| item == first) => format!("all {first:?}"),
            _ => format!("{:?}", data.items),
        },
    }
}
