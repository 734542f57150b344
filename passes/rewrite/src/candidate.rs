//! Candidates of a window: saturate, extract under several weights and with choices taken away, keep what no other beats.

use std::collections::{BTreeMap, BTreeSet};

use egg::Id;
use memc_cost::CostModel;
use memc_ir::{Bytes, Module, Nanos, Operator};
use memc_ops::Profile;

use crate::extract::{Choice, Market, Weights};
use crate::fact::Graph;
use crate::fragment::{Builder, Fragment};
use crate::pricing::price;
use crate::rules::{Class, Rule, RuleBook, Template};
use crate::saturate::{Limits, Trace, saturate};
use crate::term::{Head, Term};
use crate::window::Window;

/// What rewriting is told.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// The rules.
    pub book: &'a RuleBook,
    /// Who runs the result.
    pub profile: &'a Profile,
    /// What nodes cost.
    pub cost: &'a CostModel,
    /// Version of ONNX's operator set in the module.
    pub opset: i64,
    /// Only rules that change no bit.
    pub exact: bool,
    /// Only operators of the ONNX standard.
    pub standard: bool,
    /// What depends on constants alone is folded up to this size.
    pub fold_cap: Bytes,
    /// Limits of each window.
    pub limits: Limits,
}

impl Setting<'_> {
    /// Whether a rule may be applied.
    pub(crate) fn admits(&self, rule: &Rule) -> bool {
        let class = if self.exact { rule.class == Class::Exact } else { rule.class <= Class::Reassociates };
        class
            && (rule.opset.0..=rule.opset.1).contains(&self.opset)
            && rule.make.iter().all(|(_, template)| self.has_operators(template))
    }
    fn has_operators(&self, template: &Template) -> bool {
        match template {
            Template::Apply { domain, name, operands, .. } => {
                let operator = self.operator(domain, name);
                operator.is_some() && operands.iter().all(|operand| self.has_operators(operand))
            }
            _ => true,
        }
    }
    /// An operator that the result may use.
    pub(crate) fn operator(&self, domain: &str, name: &str) -> Option<Operator> {
        let version = if domain.is_empty() { self.opset } else { 1 };
        let operator = Operator { domain: domain.into(), name: name.into(), overload: "".into(), version };
        let admitted = !(self.standard && self.profile.is_own(&operator)) && self.profile.may_have(&operator);
        admitted.then_some(operator)
    }
}

/// What a judge says of a module.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measure {
    /// Peak in a good order.
    pub peak: Bytes,
    /// Modelled time.
    pub nanos: Nanos,
}

/// A form of a window, and what a judge says of it by itself.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The form; `None` for the window as it is.
    pub fragment: Option<Fragment>,
    /// Measured alone.
    pub measure: Measure,
}

/// Bytes that weigh as much as 16 nanoseconds, from none to nearly all; each gives a candidate.
const WEIGHTS: [Weights; 4] = [
    Weights { nanos: 16, bytes: 0 },
    Weights { nanos: 16, bytes: 1 },
    Weights { nanos: 16, bytes: 16 },
    Weights { nanos: 1, bytes: 256 },
];
/// Choices of the fastest form that are taken away, one at a time.
const MAX_TAKEN: usize = 12;

/// The candidates of a window: the window as it is, then those that no other beats in both peak and time, fastest first.
pub fn candidates(module: &Module, window: &Window, setting: &Setting<'_>, judge: &dyn Fn(&Module) -> Measure) -> Vec<Candidate> {
    let (mut graph, classes, terms) = window.graph(module);
    let trace = saturate(&mut graph, setting);
    let roots: Option<Vec<Id>> = window.outputs.iter().map(|value| classes.get(value).copied()).collect();
    let Some(roots) = roots else { return Vec::new() };
    let originals: BTreeMap<Term, u32> =
        terms.iter().enumerate().rev().map(|(position, term)| (term.clone().canonical(&graph), position as u32)).collect();
    let market = market(&graph, &originals, setting, roots.clone());
    let build = |choice: &Choice| Builder::new(&graph, choice, &originals).build(&roots, &trace, &|rule| name(setting, rule));
    let mut fragments: Vec<Fragment> = Vec::new();
    for choice in choices(&market) {
        let fragment = build(&choice).filter(|fragment| !is_given(fragment, window, &trace) && !fragments.contains(fragment));
        fragments.extend(fragment);
    }
    let given = given(&graph, &originals, &market, &build);
    let measure = |fragment: &Fragment| judge(&fragment.module(module, window));
    let Some(own) = given.as_ref().map(measure) else { return Vec::new() };
    let found =
        fragments.into_iter().map(|fragment| Candidate { measure: measure(&fragment), fragment: Some(fragment) }).collect();
    let mut all = vec![Candidate { fragment: None, measure: own }];
    all.extend(front(found, setting.limits.candidates.saturating_sub(1)));
    all
}

fn name(setting: &Setting<'_>, rule: usize) -> String {
    setting.book.rules().get(rule).map(|rule| rule.name.clone()).unwrap_or_default()
}

fn market<'a, 'm>(
    graph: &'a Graph<'m>,
    originals: &BTreeMap<Term, u32>,
    setting: &Setting<'_>,
    roots: Vec<Id>,
) -> Market<'a, 'm> {
    let mut offers: BTreeMap<Id, Vec<(Term, crate::pricing::Price)>> = BTreeMap::new();
    for class in graph.classes() {
        let priced = class.nodes.iter().map(|term| {
            let is_original = originals.contains_key(term);
            (term.clone(), price(graph, term, &class.data, setting, is_original))
        });
        let mut priced: Vec<_> = priced.collect();
        // Among equals, what the model had is kept.
        priced.sort_by_key(|(term, _)| !matches!(term.head, Head::Leaf(_)) && !originals.contains_key(term));
        offers.insert(class.id, priced);
    }
    Market { graph, offers, roots }
}

/// Choices under all weights, then with each of the dearest choices taken away.
fn choices(market: &Market<'_, '_>) -> Vec<Choice> {
    let none = BTreeSet::new();
    let mut found: Vec<Choice> = WEIGHTS.iter().filter_map(|weights| market.choose(*weights, &none)).collect();
    let Some(first) = found.first().cloned() else { return found };
    let mut open: Vec<(u64, Id, usize)> = Vec::new();
    for (class, term) in &first {
        let Some(offers) = market.offers.get(class).filter(|offers| offers.len() > 1) else { continue };
        if let Some(number) = offers.iter().position(|(other, _)| other == term) {
            let price = offers[number].1;
            open.push((price.nanos.saturating_add(price.bytes), *class, number));
        }
    }
    open.sort_by(|a, b| b.cmp(a));
    for (_, class, number) in open.into_iter().take(MAX_TAKEN) {
        found.extend(market.choose(WEIGHTS[0], &BTreeSet::from([(class, number)])));
    }
    found
}

/// The window as it is, as a fragment: only what the model had may be chosen.
fn given(
    graph: &Graph<'_>,
    originals: &BTreeMap<Term, u32>,
    market: &Market<'_, '_>,
    build: &dyn Fn(&Choice) -> Option<Fragment>,
) -> Option<Fragment> {
    let mut banned = BTreeSet::new();
    for (class, offers) in &market.offers {
        for (number, (term, _)) in offers.iter().enumerate() {
            if matches!(term.head, Head::Apply { .. }) && !originals.contains_key(term) {
                banned.insert((graph.find(*class), number));
            }
        }
    }
    build(&market.choose(WEIGHTS[0], &banned)?)
}

/// Whether a fragment is the window, node for node.
fn is_given(fragment: &Fragment, window: &Window, trace: &Trace) -> bool {
    let all = fragment.pieces.len() == window.nodes.len() && fragment.pieces.iter().all(|piece| piece.original.is_some());
    all && trace.collapsed.is_empty()
}

/// What no other beats in both peak and time, fastest first; at most `most`.
fn front(mut all: Vec<Candidate>, most: usize) -> Vec<Candidate> {
    let key = |candidate: &Candidate| (candidate.measure.nanos.0.round() as u64, candidate.measure.peak);
    all.sort_by_key(key);
    let mut kept: Vec<Candidate> = Vec::new();
    for candidate in all {
        if kept.iter().all(|other| candidate.measure.peak < other.measure.peak) {
            kept.push(candidate);
        }
    }
    if kept.len() > most {
        // The ends of the front are worth more than its middle.
        let last = kept.pop();
        kept.truncate(most.saturating_sub(1));
        kept.extend(last);
    }
    kept
}
