//! Candidates of a fragment: saturates, extracts under several weights and with banned choices, and
//! keeps the candidates that no other beats.

use std::collections::{BTreeMap, BTreeSet};

use egg::Id;
use memc_ir::{Bytes, Module, Nanos};

use crate::extract::{Choice, Market, Weights};
use crate::fact::Graph;
use crate::fragment::Fragment;
use crate::pricing::price;
use crate::replacement::{Builder, Replacement};
use crate::rules::Memory;
use crate::saturate::{Trace, saturate};
use crate::setting::Setting;
use crate::term::{Head, Term};

/// A judge's measure of a module.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measure {
    /// Peak in bytes, in a good order.
    pub peak: Bytes,
    /// Modelled time.
    pub nanos: Nanos,
}

/// A form of a fragment, with its measure.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The form; `None` for the fragment as it is.
    pub replacement: Option<Replacement>,
    /// Measure of the form by itself.
    pub measure: Measure,
}

/// Weights from time alone to nearly bytes alone; each gives a candidate.
const WEIGHTS: [Weights; 4] = [
    Weights { nanos: 16, bytes: 0 },
    Weights { nanos: 16, bytes: 1 },
    Weights { nanos: 16, bytes: 16 },
    Weights { nanos: 1, bytes: 256 },
];
/// Returns the candidates of a fragment: first the fragment as it is, then the forms that no other form
/// beats in both peak and time, fastest first.
pub fn candidates(
    module: &Module,
    fragment: &Fragment,
    setting: &Setting<'_>,
    judge: &dyn Fn(&Module) -> Measure,
) -> Vec<Candidate> {
    // Saturate, and price all e-nodes.
    let (mut graph, classes, terms) = fragment.graph(module);
    let trace = saturate(&mut graph, setting);
    let roots: Option<Vec<Id>> = fragment.outputs.iter().map(|value| classes.get(value).copied()).collect();
    let Some(roots) = roots else { return Vec::new() };
    let originals: BTreeMap<Term, u32> = terms
        .iter()
        .enumerate()
        .rev()
        .map(|(position, term)| (term.clone().canonical(&graph), position as u32))
        .collect();
    let market = market(&graph, &originals, setting, roots.clone());
    let build = |choice: &Choice| {
        Builder::new(&graph, choice, &originals).build(&roots, &trace, &|rule| name(setting, rule))
    };
    let measure = |replacement: &Replacement| judge(&replacement.module(module, fragment));
    let given = given(&graph, &originals, &market, &build);
    let Some(own) = given.as_ref().map(measure) else { return Vec::new() };
    let mut found: Vec<Candidate> = Vec::new();
    let mut consider = |choice: Choice| -> Option<Bytes> {
        let replacement = build(&choice)?;
        if let Some(known) =
            found.iter().find(|candidate| candidate.replacement.as_ref() == Some(&replacement))
        {
            return Some(known.measure.peak);
        }
        let measure = if is_given(&replacement, fragment, &trace) { own } else { measure(&replacement) };
        let peak = measure.peak;
        found.push(Candidate { measure, replacement: Some(replacement) });
        Some(peak)
    };
    // Extract forms under several weights, without the banned choices.
    for banned in beginnings(&market, &originals, &trace, setting) {
        for weights in WEIGHTS {
            if let Some(choice) = market.choose(weights, &banned) {
                consider(choice);
            }
        }
        descend(&market, &originals, banned, &mut consider);
    }
    found.retain(|candidate| {
        candidate.replacement.as_ref().is_some_and(|replacement| !is_given(replacement, fragment, &trace))
    });
    let mut all = vec![Candidate { replacement: None, measure: own }];
    all.extend(front(found, setting.limits.candidates.saturating_sub(1)));
    all
}

/// Returns forms of a fragment in which each way to compute a value is used at least once, at any cost;
/// the fragment as it is does not count. Tests use this to exercise rules that only help other rules.
pub fn every_form(module: &Module, fragment: &Fragment, setting: &Setting<'_>) -> Vec<Replacement> {
    let (mut graph, classes, terms) = fragment.graph(module);
    let trace = saturate(&mut graph, setting);
    let roots: Option<Vec<Id>> = fragment.outputs.iter().map(|value| classes.get(value).copied()).collect();
    let Some(roots) = roots else { return Vec::new() };
    let originals: BTreeMap<Term, u32> = terms
        .iter()
        .enumerate()
        .rev()
        .map(|(position, term)| (term.clone().canonical(&graph), position as u32))
        .collect();
    let market = market(&graph, &originals, setting, roots.clone());
    let mut found: Vec<Replacement> = Vec::new();
    for (class, offers) in &market.offers {
        for kept in 0..offers.len() {
            let others =
                (0..offers.len()).filter(|number| *number != kept).map(|number| (*class, number)).collect();
            let Some(choice) = market.choose(WEIGHTS[0], &others) else { continue };
            let built =
                Builder::new(&graph, &choice, &originals).build(&roots, &trace, &|rule| name(setting, rule));
            found.extend(built.filter(|replacement| {
                !is_given(replacement, fragment, &trace) && !found.contains(replacement)
            }));
        }
    }
    found
}

/// Starts from the fastest form and bans applications made by rules, one operator at a time; a ban stays
/// if it lowers the peak. A single ban rarely lowers a peak that occurs in several layers, so all
/// applications of an operator are banned together.
fn descend(
    market: &Market<'_, '_>,
    originals: &BTreeMap<Term, u32>,
    mut banned: BTreeSet<(Id, usize)>,
    consider: &mut dyn FnMut(Choice) -> Option<Bytes>,
) {
    let Some(first) = market.choose(WEIGHTS[0], &banned) else { return };
    let is_new = |term: &Term| !originals.contains_key(term);
    let mut kinds: BTreeMap<u32, u64> = BTreeMap::new();
    for (class, term) in &first {
        let Head::Apply { operator, .. } = term.head else { continue };
        let offer =
            market.offers.get(class).and_then(|offers| offers.iter().find(|(other, _)| other == term));
        if let Some((_, price)) = offer.filter(|_| is_new(term)) {
            let bytes = kinds.entry(operator).or_default();
            *bytes = price.bytes.max(*bytes);
        }
    }
    let Some(mut peak) = consider(first) else { return };
    let mut order: Vec<(u64, u32)> = kinds.into_iter().map(|(operator, bytes)| (bytes, operator)).collect();
    order.sort_by(|a, b| b.cmp(a));
    for (_, kind) in order {
        let mut more = banned.clone();
        for (class, offers) in &market.offers {
            let is_kind = |term: &Term| {
                matches!(term.head, Head::Apply { operator, .. } if operator == kind) && is_new(term)
            };
            more.extend(
                (0..offers.len()).filter(|number| is_kind(&offers[*number].0)).map(|number| (*class, number)),
            );
        }
        if let Some(found) =
            market.choose(WEIGHTS[0], &more).and_then(&mut *consider).filter(|found| *found < peak)
        {
            (banned, peak) = (more, found);
        }
    }
}

/// Returns the initial sets of banned offers: none; the offers that rules which may raise memory made,
/// since a sum of prices does not show the peak; and each of these with wide values in halves.
fn beginnings(
    market: &Market<'_, '_>,
    originals: &BTreeMap<Term, u32>,
    trace: &Trace,
    setting: &Setting<'_>,
) -> Vec<BTreeSet<(Id, usize)>> {
    let raised = made_by(market, trace, setting, Memory::Raises);
    let is_raised = |class: Id, number: usize| raised.contains(&market.offers[&class][number].0);
    let numbers = market
        .offers
        .iter()
        .flat_map(|(class, offers)| (0..offers.len()).map(move |number| (*class, number)));
    let lean: BTreeSet<(Id, usize)> = numbers.filter(|(class, number)| is_raised(*class, *number)).collect();
    let halves = made_by(market, trace, setting, Memory::Halves);
    let mut all = vec![BTreeSet::new()];
    if !halves.is_empty() {
        all.extend([Depth::Once, Depth::Fully].map(|depth| others_than(&halves, market, originals, depth)));
    }
    if !lean.is_empty() {
        let leaner: Vec<_> = all.iter().map(|banned| banned.union(&lean).copied().collect()).collect();
        all.extend(leaner);
    }
    all
}

/// Returns the e-nodes that rules with this effect on memory made.
fn made_by(market: &Market<'_, '_>, trace: &Trace, setting: &Setting<'_>, memory: Memory) -> BTreeSet<Term> {
    let is_it = |rule: usize| setting.book.rules().get(rule).is_some_and(|rule| rule.memory == memory);
    trace
        .made
        .iter()
        .filter(|(_, rule)| is_it(**rule))
        .map(|(term, _)| term.clone().canonical(market.graph))
        .collect()
}

/// Depth to which wide values are halved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// Only values of the model.
    Once,
    /// Halves are halved again.
    Fully,
}

/// Returns the offers other than halves in classes that have halves: with these banned, halves are
/// chosen that no sum of prices would choose.
fn others_than(
    halves: &BTreeSet<Term>,
    market: &Market<'_, '_>,
    originals: &BTreeMap<Term, u32>,
    depth: Depth,
) -> BTreeSet<(Id, usize)> {
    let mut banned = BTreeSet::new();
    for (class, offers) in &market.offers {
        let is_half = |number: &usize| halves.contains(&offers[*number].0);
        let forced = depth == Depth::Fully || offers.iter().any(|(term, _)| originals.contains_key(term));
        if (0..offers.len()).any(|number| is_half(&number)) {
            banned.extend(
                (0..offers.len()).filter(|number| is_half(number) != forced).map(|number| (*class, number)),
            );
        }
    }
    banned
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
        // Of equal offers, the model's own comes first.
        priced.sort_by_key(|(term, _)| !matches!(term.head, Head::Leaf(_)) && !originals.contains_key(term));
        offers.insert(class.id, priced);
    }
    Market::new(graph, offers, &roots)
}

/// Returns the fragment as it is, as a replacement: only the model's own e-nodes may be chosen.
fn given(
    graph: &Graph<'_>,
    originals: &BTreeMap<Term, u32>,
    market: &Market<'_, '_>,
    build: &dyn Fn(&Choice) -> Option<Replacement>,
) -> Option<Replacement> {
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

/// Returns whether a replacement is the fragment, node for node.
fn is_given(replacement: &Replacement, fragment: &Fragment, trace: &Trace) -> bool {
    let all = replacement.nodes.len() == fragment.nodes.len()
        && replacement.nodes.iter().all(|form_node| form_node.original.is_some());
    all && trace.collapsed.is_empty()
}

/// Returns the candidates that no other beats in both peak and time, fastest first; at most `most`.
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
