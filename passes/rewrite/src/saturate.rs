//! Applies rules to one fragment's e-graph until no rule finds anything new or a limit is reached.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use egg::Id;
use memc_ir::{Attribute, ElementType, Operator, TensorType};
use memc_ops::{Data, Fact, Item};

use crate::fact::{Facts, Graph, Leaf, LeafKind, agrees, rebuild};
use crate::matching::{Binding, Held, Matcher, Operand, evaluate};
use crate::rules::{Argument, Expression, Memory, Pattern, Rule, Template};
use crate::setting::Setting;
use crate::term::{Attributes, Head, Term};

/// Use of a rule whose result already existed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Number of the rule in the book.
    pub(crate) rule: usize,
    /// Class that matched.
    pub(crate) class: Id,
}

/// Record of a saturation.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    /// The rule that made an application, by the e-node at that time; only the outermost application of
    /// each match.
    pub(crate) made: BTreeMap<Term, usize>,
    /// Uses of rules whose result already existed.
    pub(crate) collapsed: Vec<Step>,
}

/// Rounds of rules that may raise memory: they may build on each other, but only for a few rounds.
const RAISING_ROUNDS: usize = 3;

/// Applies the rules; rules that may raise memory come last.
pub(crate) fn saturate(graph: &mut Graph<'_>, setting: &Setting<'_>) -> Trace {
    let mut trace = Trace::default();
    let rules: Vec<(usize, &Rule)> =
        setting.book.rules().iter().enumerate().filter(|(_, rule)| setting.admits(rule)).collect();
    for _ in 0..setting.limits.rounds {
        let calm = !round_of(graph, setting, &rules, false, &mut trace);
        if calm || graph.total_size() > setting.limits.terms {
            break;
        }
    }
    for _ in 0..RAISING_ROUNDS {
        round_of(graph, setting, &rules, true, &mut trace);
    }
    trace
}

/// Runs one round; returns whether anything changed.
fn round_of(
    graph: &mut Graph<'_>,
    setting: &Setting<'_>,
    rules: &[(usize, &Rule)],
    raising: bool,
    trace: &mut Trace,
) -> bool {
    let heads = heads(graph);
    let mut work: Vec<(usize, &Rule, Id, Binding)> = Vec::new();
    for (number, rule) in rules {
        if (rule.memory >= Memory::Raises) != raising {
            continue;
        }
        let matcher = Matcher { graph };
        let places = rule.find.iter().filter_map(|pattern| heads.get(&root(pattern)?)).flatten().copied();
        let places: BTreeSet<Id> = places.collect();
        let found = places
            .into_iter()
            .flat_map(|class| matcher.matches(rule, class).into_iter().map(move |binding| (class, binding)));
        work.extend(
            found.take(setting.limits.matches).map(|(class, binding)| (*number, *rule, class, binding)),
        );
    }
    let mut changed = false;
    for (number, rule, class, binding) in work {
        if graph.total_size() > setting.limits.terms {
            break;
        }
        changed |=
            Maker { graph: &mut *graph, setting, rule, number, trace: &mut *trace }.run(class, &binding);
    }
    rebuild(graph);
    changed
}

/// Returns the domain and name of the operator at the root of a pattern.
fn root(pattern: &Pattern) -> Option<(String, String)> {
    match pattern {
        Pattern::Named(_, inner) => root(inner),
        Pattern::Apply(apply) => Some((apply.domain.clone(), apply.name.clone())),
        Pattern::Variable(_) | Pattern::Absent | Pattern::Number { .. } => None,
    }
}

/// Returns, by operator, the classes with one of its results.
fn heads(graph: &Graph<'_>) -> BTreeMap<(String, String), Vec<Id>> {
    let mut found: BTreeMap<(String, String), Vec<Id>> = BTreeMap::new();
    for class in graph.classes() {
        for term in &class.nodes {
            let whole = match term.head {
                Head::Apply { results: 1, operator, .. } => vec![operator],
                Head::Result(_) => graph[term.children[0]].nodes.iter().filter_map(operator_number).collect(),
                _ => Vec::new(),
            };
            for operator in whole {
                let operator = graph.analysis.names.operator_at(operator);
                found
                    .entry((operator.domain.to_string(), operator.name.to_string()))
                    .or_default()
                    .push(class.id);
            }
        }
    }
    found
}

fn operator_number(term: &Term) -> Option<u32> {
    match term.head {
        Head::Apply { operator, .. } => Some(operator),
        _ => None,
    }
}

/// Applies one rule to one match.
struct Maker<'a, 'm> {
    graph: &'a mut Graph<'m>,
    setting: &'a Setting<'a>,
    rule: &'a Rule,
    number: usize,
    trace: &'a mut Trace,
}

impl Maker<'_, '_> {
    fn run(&mut self, class: Id, binding: &Binding) -> bool {
        let mut changed = false;
        for (target, template) in &self.rule.make {
            let target = match target {
                None => class,
                Some(number) => match &binding.operands[*number] {
                    Some(Operand::One(id)) => *id,
                    _ => return changed,
                },
            };
            let Some(new) = self.template(template, binding, true) else { return changed };
            if !agrees(&self.graph[new].data, &self.graph[target].data) {
                return changed;
            }
            if self.graph.find(new) == self.graph.find(target) {
                continue;
            }
            if matches!(template, Template::Variable(_)) {
                self.trace.collapsed.push(Step { rule: self.number, class: target });
            }
            changed |= self.graph.union(target, new);
        }
        changed
    }

    fn template(&mut self, template: &Template, binding: &Binding, outermost: bool) -> Option<Id> {
        match template {
            Template::Variable(number) => match binding.operands.get(*number)?.as_ref()? {
                Operand::One(id) => Some(*id),
                Operand::Many(_) => None,
            },
            Template::Splice(_) => None,
            Template::Absent => Some(self.graph.add(Term::leaf(Head::Absent))),
            Template::Constant { value, like } => self.constant(value, *like, binding),
            Template::Apply { domain, name, result, attributes, open, operands } => {
                let operator = self.setting.operator(domain, name)?;
                let mut children = Vec::new();
                for operand in operands {
                    match operand {
                        Template::Splice(number) => match binding.operands.get(*number)?.as_ref()? {
                            Operand::Many(ids) => children.extend(ids),
                            Operand::One(id) => children.push(*id),
                        },
                        other => children.push(self.template(other, binding, false)?),
                    }
                }
                let attributes = self.attributes(attributes, *open, binding)?;
                self.apply(&operator, attributes, *result, children, outermost)
            }
        }
    }

    fn apply(
        &mut self,
        operator: &Operator,
        attributes: Attributes,
        result: Option<(u32, u32)>,
        mut children: Vec<Id>,
        outermost: bool,
    ) -> Option<Id> {
        while children
            .last()
            .is_some_and(|id| self.graph[*id].data == Facts { values: Vec::new(), is_constant: false })
        {
            children.pop();
        }
        let element = self.graph[*children.first()?].data.tensor().map(|ty| ty.element);
        let element = element.unwrap_or(ElementType::Undefined);
        if !self.setting.profile.has_kernel(operator, &attributes, element) {
            return None;
        }
        let results = result.map_or(1, |(_, count)| count);
        let names = &mut self.graph.analysis.names;
        let head = Head::Apply {
            operator: names.operator(operator),
            attributes: names.attributes(attributes),
            results,
        };
        let children = children.into_iter().map(|id| self.graph.find(id)).collect();
        let term = Term { head, children };
        if outermost && self.graph.lookup(term.clone()).is_none() {
            self.trace.made.insert(term.clone(), self.number);
        }
        let whole = self.graph.add(term);
        match result {
            None => Some(whole),
            Some((position, _)) => {
                Some(self.graph.add(Term { head: Head::Result(position), children: vec![whole] }))
            }
        }
    }

    fn attributes(
        &self,
        list: &[(String, Expression)],
        open: Option<usize>,
        binding: &Binding,
    ) -> Option<Attributes> {
        let mut made = Attributes::new();
        if let Some(Held::Rest(rest)) = open.and_then(|number| binding.attributes.get(number)?.as_ref()) {
            made.extend(rest.iter().cloned());
        }
        for (name, expression) in list {
            match evaluate(self.graph, expression, binding)? {
                Argument::Attribute(value) => made.push((name.clone(), value)),
                Argument::Nothing => {}
                Argument::Class(_) | Argument::Classes(_) | Argument::Rest(_) => return None,
            }
        }
        Some(made)
    }

    fn constant(&mut self, value: &Expression, like: Option<usize>, binding: &Binding) -> Option<Id> {
        let Argument::Attribute(value) = evaluate(self.graph, value, binding)? else { return None };
        let data = match (value, like) {
            (Attribute::Ints(values), None) => Data::ints(&values),
            (value, Some(number)) => {
                let Some(Some(Operand::One(like))) = binding.operands.get(number) else { return None };
                let element = self.graph[*like].data.tensor()?.element;
                let number = match value {
                    Attribute::Int(value) => value as f64,
                    Attribute::Float(value) => f64::from(value),
                    _ => return None,
                };
                Data::new(element, Vec::new(), vec![Item::Float(number)])?
            }
            _ => return None,
        };
        let ty = TensorType::fixed(data.element, &data.dims);
        let constant = memc_edit::constant(ty.clone(), data.to_raw()?);
        let leaves = &mut self.graph.analysis.leaves;
        let same =
            leaves.iter().position(|leaf| matches!(&leaf.kind, LeafKind::Made(other) if *other == constant));
        let number = same.unwrap_or_else(|| {
            let fact =
                Fact { ty: memc_ir::ValueType::Tensor(ty), data: Some(Arc::new(data)), assumed: false };
            leaves.push(Leaf { kind: LeafKind::Made(constant), fact, repeats: false, zeros: false });
            leaves.len() - 1
        });
        Some(self.graph.add(Term::leaf(Head::Leaf(number as u32))))
    }
}
