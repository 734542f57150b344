//! Finds matches of the left side of a rule, up to the order of operands of commutative operators.

use egg::Id;
use memc_ir::Attribute;
use memc_ops::lookup;

use crate::fact::Graph;
use crate::rules::{
    ApplyPattern, Argument, AttributePattern, Condition, Expression, Pattern, Rule, Scene, Wanted, splat,
};
use crate::term::{Attributes, Head, Term};

/// Maximum number of matches of one pattern at one class.
const MAX_MATCHES: usize = 32;

/// Value of an operand variable of a rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand {
    /// One class.
    One(Id),
    /// All operands that `?xs...` matched.
    Many(Vec<Id>),
}

/// Value of an attribute variable of a rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Held {
    /// An attribute.
    One(Attribute),
    /// The attribute is left out.
    Absent,
    /// All attributes that `..$rest` matched.
    Rest(Attributes),
}

/// A match: the values of the rule's variables.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    pub(crate) operands: Vec<Option<Operand>>,
    pub(crate) attributes: Vec<Option<Held>>,
}

impl Binding {
    fn new(rule: &Rule) -> Self {
        Self { operands: vec![None; rule.operands], attributes: vec![None; rule.attributes] }
    }
    /// Binds an operand; returns `false` if it is bound to another value.
    fn bind(&mut self, number: usize, operand: Operand) -> bool {
        match &self.operands[number] {
            Some(bound) => *bound == operand,
            None => {
                self.operands[number] = Some(operand);
                true
            }
        }
    }
    fn hold(&mut self, number: usize, held: Held) -> bool {
        match &self.attributes[number] {
            Some(bound) => *bound == held,
            None => {
                self.attributes[number] = Some(held);
                true
            }
        }
    }
}

/// Matches rules in one e-graph.
pub(crate) struct Matcher<'a, 'm> {
    pub(crate) graph: &'a Graph<'m>,
}

impl Matcher<'_, '_> {
    /// Returns all matches of a rule at a class that satisfy its conditions.
    pub(crate) fn matches(&self, rule: &Rule, class: Id) -> Vec<Binding> {
        let mut found = Vec::new();
        for pattern in &rule.find {
            found.extend(self.at(pattern, class, vec![Binding::new(rule)]));
        }
        found.retain(|binding| rule.conditions.iter().all(|condition| self.holds(condition, binding)));
        found
    }

    /// Extends each binding in every way in which the pattern matches at a class.
    fn at(&self, pattern: &Pattern, class: Id, bindings: Vec<Binding>) -> Vec<Binding> {
        let class = self.graph.find(class);
        let bound = |number: usize, bindings: Vec<Binding>| {
            bindings
                .into_iter()
                .filter_map(move |mut binding| binding.bind(number, Operand::One(class)).then_some(binding))
                .collect()
        };
        match pattern {
            // A variable never matches an operand that is left out.
            Pattern::Variable(_) | Pattern::Number { .. } if self.is_absent(class) => Vec::new(),
            Pattern::Variable(number) => bound(*number, bindings),
            Pattern::Named(number, inner) => self.at(inner, class, bound(*number, bindings)),
            Pattern::Absent => {
                if self.is_absent(class) {
                    bindings
                } else {
                    Vec::new()
                }
            }
            Pattern::Number { value, near } => {
                if self.is_number(class, *value, *near) {
                    bindings
                } else {
                    Vec::new()
                }
            }
            Pattern::Apply(apply) => {
                let mut found = Vec::new();
                for binding in bindings {
                    for term in &self.graph[class].nodes {
                        found.extend(self.application(apply, term, &binding));
                        if found.len() >= MAX_MATCHES {
                            return found;
                        }
                    }
                }
                found
            }
        }
    }

    fn is_absent(&self, class: Id) -> bool {
        self.graph[class].nodes.iter().any(|term| term.head == Head::Absent)
    }

    /// Returns whether all elements of a class equal a number, rounded to the element type.
    fn is_number(&self, class: Id, value: f64, near: bool) -> bool {
        let Some(found) = splat(self.graph, class) else { return false };
        let rounded = f64::from(value as f32);
        // The written number matches exactly, or after rounding to binary32.
        found == value || found == rounded || near && (found - value).abs() <= 1e-5 * value.abs()
    }

    /// Matches an e-node, which may be a result of an application with several results.
    fn application(&self, apply: &ApplyPattern, term: &Term, binding: &Binding) -> Vec<Binding> {
        match (term.head, apply.result) {
            (Head::Apply { results: 1, .. }, None) => self.operator(apply, term, binding),
            // Other results of this operator have no readers: it matches as result 0.
            (Head::Apply { results: 1, .. }, Some(0)) => self.operator(apply, term, binding),
            (Head::Result(position), result) if position == result.unwrap_or(0) => {
                let Some(whole) = term.children.first() else { return Vec::new() };
                self.graph[*whole]
                    .nodes
                    .iter()
                    .flat_map(|inner| self.operator(apply, inner, binding))
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    fn operator(&self, apply: &ApplyPattern, term: &Term, binding: &Binding) -> Vec<Binding> {
        let Head::Apply { operator, attributes, .. } = term.head else { return Vec::new() };
        let operator = self.graph.analysis.names.operator_at(operator);
        if *operator.name != *apply.name || *operator.domain != *apply.domain {
            return Vec::new();
        }
        let Some(binding) =
            self.attributes(apply, self.graph.analysis.names.attributes_at(attributes), binding.clone())
        else {
            return Vec::new();
        };
        let children = &term.children;
        let fits = children.len() == apply.operands.len()
            || apply.rest.is_some() && children.len() >= apply.operands.len();
        if !fits {
            return Vec::new();
        }
        let mut found = self.operands(apply, children, binding.clone());
        if children.len() == 2
            && children[0] != children[1]
            && lookup(operator).and_then(|info| info.algebra).is_some_and(|algebra| algebra.commutes)
        {
            found.extend(self.operands(apply, &[children[1], children[0]], binding));
        }
        found
    }

    fn operands(&self, apply: &ApplyPattern, children: &[Id], binding: Binding) -> Vec<Binding> {
        let mut bindings = vec![binding];
        for (pattern, child) in apply.operands.iter().zip(children) {
            bindings = self.at(pattern, *child, bindings);
            if bindings.is_empty() {
                return bindings;
            }
        }
        if let Some(number) = apply.rest {
            let rest: Vec<Id> =
                children[apply.operands.len()..].iter().map(|id| self.graph.find(*id)).collect();
            bindings.retain_mut(|binding| binding.bind(number, Operand::Many(rest.clone())));
        }
        bindings
    }

    /// Matches attributes. An attribute that the pattern does not name must be taken by an open list: a
    /// rule that does not know an attribute is not right for its node.
    fn attributes(&self, apply: &ApplyPattern, own: &Attributes, mut binding: Binding) -> Option<Binding> {
        let named = |name: &str| apply.attributes.iter().any(|attribute| attribute.name == name);
        for attribute in &apply.attributes {
            let found = own.iter().find(|(name, _)| *name == attribute.name).map(|(_, value)| value);
            if !fits(attribute, found, &mut binding) {
                return None;
            }
        }
        let rest: Attributes = own.iter().filter(|(name, _)| !named(name)).cloned().collect();
        match apply.open {
            Some(number) => binding.hold(number, Held::Rest(rest)).then_some(binding),
            None => rest.is_empty().then_some(binding),
        }
    }

    fn holds(&self, condition: &Condition, binding: &Binding) -> bool {
        let arguments: Option<Vec<Argument>> =
            condition.arguments.iter().map(|argument| evaluate(self.graph, argument, binding)).collect();
        let scene = Scene { graph: self.graph };
        // If an argument cannot be computed, the condition is false, negated or not.
        arguments.is_some_and(|arguments| (condition.predicate.holds)(scene, &arguments) != condition.negated)
    }
}

fn fits(attribute: &AttributePattern, found: Option<&Attribute>, binding: &mut Binding) -> bool {
    match (&attribute.wanted, found) {
        (Wanted::Literal(wanted), Some(found)) => same(wanted, found),
        (Wanted::Variable(number), Some(found)) => binding.hold(*number, Held::One(found.clone())),
        (Wanted::Variable(number), None) => attribute.optional && binding.hold(*number, Held::Absent),
        (Wanted::Literal(_), None) => attribute.optional,
    }
}

/// Compares attributes; a written integer also matches the equal float.
fn same(wanted: &Attribute, found: &Attribute) -> bool {
    match (wanted, found) {
        (Attribute::Int(wanted), Attribute::Float(found)) => *wanted as f32 == *found,
        _ => wanted == found,
    }
}

/// Evaluates an expression; `None` if the rule does not apply.
pub(crate) fn evaluate(graph: &Graph<'_>, expression: &Expression, binding: &Binding) -> Option<Argument> {
    match expression {
        Expression::Literal(value) => Some(Argument::Attribute(value.clone())),
        // A variable that this alternative of the pattern does not name is left out.
        Expression::Attribute(number) => Some(match binding.attributes.get(*number)? {
            Some(Held::One(value)) => Argument::Attribute(value.clone()),
            Some(Held::Absent) | None => Argument::Nothing,
            Some(Held::Rest(list)) => Argument::Rest(list.clone()),
        }),
        Expression::Operand(number) => match binding.operands.get(*number)?.as_ref()? {
            Operand::One(id) => Some(Argument::Class(*id)),
            Operand::Many(ids) => Some(Argument::Classes(ids.clone())),
        },
        Expression::Call(function, arguments) => {
            let arguments: Option<Vec<Argument>> =
                arguments.iter().map(|inner| evaluate(graph, inner, binding)).collect();
            (function.value)(graph, &arguments?).map(Argument::Attribute)
        }
    }
}
