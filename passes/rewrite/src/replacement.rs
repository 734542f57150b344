//! A replacement: another form of a fragment's nodes, stated in terms of the fragment's operands, so
//! that it fits every fragment with an equal key.

use std::collections::BTreeMap;

use egg::Id;
use memc_ir::{Attribute, ConstData, Module, ModuleBuilder, Operator, Value, ValueType};
use memc_ops::{Fact, View, lookup};

use crate::extract::Choice;
use crate::fact::{Graph, LeafKind};
use crate::fragment::Fragment;
use crate::pricing::{NAME, border};
use crate::saturate::Trace;
use crate::term::{Head, Term};

/// Source of an operand of a replacement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Source {
    /// Input of the fragment, by number.
    Input(u32),
    /// Constant of the fragment, by number.
    Constant(u32),
    /// Constant of the replacement, by number.
    Made(u32),
    /// Result of a node of the replacement: number of the node, position of the result.
    Result(u32, u32),
}

/// A node of a replacement.
#[derive(Clone, PartialEq, Debug)]
pub struct FormNode {
    /// Operator that the node applies.
    pub operator: Operator,
    /// Attributes, sorted by name.
    pub attributes: Vec<(String, Attribute)>,
    /// Operands.
    pub inputs: Vec<Option<Source>>,
    /// Types of the results; `None` for a result without readers that the operator can do without.
    pub results: Vec<Option<ValueType>>,
    /// Position of the fragment's node with an equal operator and equal operands, if there is one.
    pub original: Option<u32>,
}

/// Another form of a fragment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Replacement {
    /// Nodes, operands before their readers.
    pub nodes: Vec<FormNode>,
    /// Constants that rules made.
    pub made: Vec<ConstData>,
    /// By output of the fragment: its source.
    pub outputs: Vec<Source>,
    /// Number of uses of each rule.
    pub rules: BTreeMap<String, u32>,
}

/// Builds the replacement of a choice.
pub(crate) struct Builder<'a, 'm> {
    pub(crate) graph: &'a Graph<'m>,
    pub(crate) choice: &'a Choice,
    /// Positions of the fragment's nodes, by their e-nodes.
    pub(crate) originals: &'a BTreeMap<Term, u32>,
    replacement: Replacement,
    done: BTreeMap<Id, Source>,
}

impl<'a, 'm> Builder<'a, 'm> {
    pub(crate) fn new(graph: &'a Graph<'m>, choice: &'a Choice, originals: &'a BTreeMap<Term, u32>) -> Self {
        Self { graph, choice, originals, replacement: Replacement::default(), done: BTreeMap::new() }
    }

    /// Builds the replacement that makes the classes of the fragment's outputs; `None` if the choice
    /// does not make them.
    pub(crate) fn build(
        mut self,
        outputs: &[Id],
        trace: &Trace,
        names: &dyn Fn(usize) -> String,
    ) -> Option<Replacement> {
        for output in outputs {
            let source = self.source(*output)?;
            if let Source::Result(form_node, position) = source {
                self.ask(form_node, position)?;
            }
            self.replacement.outputs.push(source);
        }
        for (term, rule) in &trace.made {
            let chosen = |class: Id| {
                self.choice.get(&class).is_some_and(|chosen| *chosen == term.clone().canonical(self.graph))
            };
            let is_new = !self.originals.contains_key(&term.clone().canonical(self.graph));
            if is_new && self.graph.lookup(term.clone()).is_some_and(|id| chosen(self.graph.find(id))) {
                *self.replacement.rules.entry(names(*rule)).or_default() += 1;
            }
        }
        for step in &trace.collapsed {
            if self.choice.contains_key(&self.graph.find(step.class)) {
                *self.replacement.rules.entry(names(step.rule)).or_default() += 1;
            }
        }
        Some(self.replacement)
    }

    /// Makes a class and everything that it needs, without recursion: fragments may be deep.
    fn source(&mut self, root: Id) -> Option<Source> {
        let mut stack = vec![self.graph.find(root)];
        while let Some(class) = stack.last().copied() {
            if self.done.contains_key(&class) {
                stack.pop();
                continue;
            }
            let term = self.choice.get(&class)?.clone();
            let open: Vec<Id> =
                term.children.iter().map(|id| self.graph.find(*id)).filter(|id| !self.is_done(*id)).collect();
            if open.is_empty() {
                let source = self.make(class, &term)?;
                self.done.insert(class, source);
                stack.pop();
            } else {
                stack.extend(open.into_iter().rev());
            }
        }
        self.done.get(&self.graph.find(root)).copied()
    }

    fn is_absent(&self, class: Id) -> bool {
        self.choice.get(&class).is_some_and(|term| term.head == Head::Absent)
    }
    fn is_done(&self, class: Id) -> bool {
        self.done.contains_key(&class) || self.is_absent(class)
    }

    fn make(&mut self, class: Id, term: &Term) -> Option<Source> {
        match term.head {
            Head::Absent => None,
            Head::Leaf(number) => Some(match &self.graph.analysis.leaves[number as usize].kind {
                LeafKind::Input(number) => Source::Input(*number),
                LeafKind::Constant(number) => Source::Constant(*number),
                LeafKind::Made(constant) => {
                    self.replacement.made.push(constant.clone());
                    Source::Made(self.replacement.made.len() as u32 - 1)
                }
            }),
            Head::Result(position) => match self.done.get(&self.graph.find(*term.children.first()?))? {
                Source::Result(form_node, _) => Some(Source::Result(*form_node, position)),
                _ => None,
            },
            Head::Apply { operator, attributes, .. } => {
                let mut inputs = Vec::new();
                for child in &term.children {
                    let child = self.graph.find(*child);
                    let source = if self.is_absent(child) { None } else { Some(*self.done.get(&child)?) };
                    inputs.push(source);
                }
                for source in inputs.iter().flatten() {
                    if let Source::Result(form_node, position) = source {
                        self.ask(*form_node, *position)?;
                    }
                }
                let names = &self.graph.analysis.names;
                let results = required(names.operator_at(operator), &self.graph[class].data.values);
                let form_node = FormNode {
                    operator: names.operator_at(operator).clone(),
                    attributes: names.attributes_at(attributes).clone(),
                    inputs,
                    results,
                    original: self.originals.get(term).copied(),
                };
                self.replacement.nodes.push(form_node);
                Some(Source::Result(self.replacement.nodes.len() as u32 - 1, 0))
            }
        }
    }

    /// Marks a result as read; sets its type if it had none.
    fn ask(&mut self, form_node: u32, position: u32) -> Option<()> {
        let piece_data = self.replacement.nodes.get(form_node as usize)?;
        if piece_data.results.get(position as usize)?.is_none() {
            let ty = self.result_type(form_node, position)?;
            self.replacement.nodes[form_node as usize].results[position as usize] = Some(ty);
        }
        Some(())
    }
    fn result_type(&self, form_node: u32, position: u32) -> Option<ValueType> {
        let (class, _) = self.done.iter().find(|(class, source)| {
            let whole = matches!(self.choice.get(class).map(|term| term.head), Some(Head::Apply { .. }));
            whole && **source == Source::Result(form_node, 0)
        })?;
        Some(self.graph[*class].data.values.get(position as usize)?.ty.clone())
    }
}

impl Term {
    /// Returns the e-node with the present ids of its children.
    pub(crate) fn canonical(mut self, graph: &Graph<'_>) -> Self {
        for child in &mut self.children {
            *child = graph.find(*child);
        }
        self
    }
}

impl Replacement {
    /// Returns the replacement as a module of its own, in the types of one fragment. One opaque node
    /// makes the inputs and another one takes the outputs, so that all values between may share bytes as
    /// in the middle of a graph.
    pub(crate) fn module(&self, given: &Module, fragment: &Fragment) -> Module {
        let mut builder = ModuleBuilder::new();
        builder.module_mut().opsets = given.opsets.clone();
        builder.module_mut().set_domain(given.domain().clone());
        builder.module_mut().stage = memc_ir::Stage::Typed;
        let main = builder.module().main();
        let results: Vec<_> = (0..)
            .zip(&fragment.inputs)
            .map(|(number, value): (u32, _)| Some((format!("i{number}"), given.ty(*value).clone())))
            .collect();
        let start = builder.node(main, border(Vec::new()), &results);
        let inputs = builder.module().node(start).outputs.clone();
        let constant = |builder: &mut ModuleBuilder, name: String, data: &ConstData| {
            let id = builder.constant(data.clone());
            Some(builder.initializer(main, &name, id))
        };
        let mut constants = Vec::new();
        for (number, value) in fragment.constants.iter().enumerate() {
            let data = given.constant_of(*value).map(|id| given.constant(id));
            constants.push(data.and_then(|data| constant(&mut builder, format!("c{number}"), data)));
        }
        // Add the nodes, each with the results of earlier nodes as operands.
        let made: Vec<Option<Value>> = (0..self.made.len())
            .map(|number| constant(&mut builder, format!("m{number}"), &self.made[number]))
            .collect();
        let mut results: Vec<Vec<Option<Value>>> = Vec::new();
        let find = |results: &Vec<Vec<Option<Value>>>, source: Source| match source {
            Source::Input(number) => inputs.get(number as usize).copied().flatten(),
            Source::Constant(number) => constants.get(number as usize).copied().flatten(),
            Source::Made(number) => made.get(number as usize).copied().flatten(),
            Source::Result(form_node, position) => {
                results.get(form_node as usize)?.get(position as usize).copied().flatten()
            }
        };
        for (number, form_node) in self.nodes.iter().enumerate() {
            let operands = form_node
                .inputs
                .iter()
                .map(|source| source.and_then(|source| find(&results, source)))
                .collect();
            let (operator, attributes) = (form_node.operator.clone(), form_node.attributes.clone());
            let new = memc_edit::node(NAME, operator, operands, attributes);
            let types: Vec<_> = (0..)
                .zip(&form_node.results)
                .map(|(position, ty): (u32, _)| Some((format!("p{number}.{position}"), ty.clone()?)))
                .collect();
            let node = builder.node(main, new, &types);
            results.push(builder.module().node(node).outputs.clone());
        }
        // The last node reads the outputs, and the inputs that outlive the fragment.
        let mut last: Vec<Option<Value>> =
            self.outputs.iter().map(|source| find(&results, *source)).collect();
        last.extend(
            inputs.iter().zip(&fragment.lasting).filter(|(_, lasting)| **lasting).map(|(value, _)| *value),
        );
        builder.node(main, border(last), &[]);
        builder.finish()
    }
}

/// Returns the types of the results that a node with several results must have even without readers: the
/// first one, and all results of a Split.
fn required(operator: &Operator, values: &[Fact]) -> Vec<Option<ValueType>> {
    let all = lookup(operator).is_some_and(|info| info.view == View::Split);
    let several = values.len() > 1;
    values
        .iter()
        .enumerate()
        .map(|(position, fact)| (several && (all || position == 0)).then(|| fact.ty.clone()))
        .collect()
}
