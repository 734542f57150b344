//! Chooses one e-node a class: a bottom-up search that shares what is shared, under several weights of time and bytes.
//!
//! Each class keeps the set of classes that its best choice needs; the cost of a set is the sum over its members, so what two operands
//! share is paid once. Sets are small because windows are.

use std::collections::{BTreeMap, BTreeSet};

use egg::Id;

use crate::fact::Graph;
use crate::pricing::Price;
use crate::term::{Head, Term};

/// Sweeps over all classes at most.
const MAX_SWEEPS: usize = 40;

/// What counts, in units of one nanosecond over 16.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    pub(crate) nanos: u64,
    pub(crate) bytes: u64,
}

/// One e-node a class.
pub(crate) type Choice = BTreeMap<Id, Term>;

/// An e-graph with the prices of its e-nodes.
pub(crate) struct Market<'a, 'm> {
    pub(crate) graph: &'a Graph<'m>,
    /// E-nodes of each class with their prices, in order of preference among equals.
    pub(crate) offers: BTreeMap<Id, Vec<(Term, Price)>>,
    /// The classes that must be made.
    pub(crate) roots: Vec<Id>,
}

/// Sweeps over all choices at most, when choices are changed one at a time.
const MAX_SHARING_SWEEPS: usize = 3;

/// Price under weights; never zero, so that fewer e-nodes are better among equals.
fn worth(price: Price, weights: Weights) -> u64 {
    price.nanos.saturating_mul(weights.nanos).saturating_add(price.bytes.saturating_mul(weights.bytes)).saturating_add(1)
}

struct Best {
    offer: usize,
    own: u64,
    needs: BTreeSet<Id>,
    total: u64,
}

impl Market<'_, '_> {
    /// The cheapest choice that the search finds for the roots, without the offers that are banned; `None` if there is none.
    pub(crate) fn choose(&self, weights: Weights, banned: &BTreeSet<(Id, usize)>) -> Option<Choice> {
        let mut best: BTreeMap<Id, Best> = BTreeMap::new();
        for _ in 0..MAX_SWEEPS {
            let mut changed = false;
            for (class, offers) in &self.offers {
                for (number, (term, price)) in offers.iter().enumerate() {
                    if price.forbidden || banned.contains(&(*class, number)) {
                        continue;
                    }
                    let Some(found) = self.cost(*class, number, term, *price, weights, &best) else { continue };
                    if best.get(class).is_none_or(|old| found.total < old.total) {
                        best.insert(*class, found);
                        changed = true;
                    }
                }
            }
            if !changed {
                break;
            }
        }
        let mut picked: BTreeMap<Id, usize> = best.iter().map(|(class, best)| (*class, best.offer)).collect();
        let choice = self.collect(&picked)?;
        self.share(&mut picked, self.total(&choice, weights), weights, banned);
        self.collect(&picked)
    }

    /// Changes one choice at a time while the whole becomes cheaper: an e-node that is dear by itself is free where others need it too.
    fn share(&self, picked: &mut BTreeMap<Id, usize>, mut total: u64, weights: Weights, banned: &BTreeSet<(Id, usize)>) {
        for _ in 0..MAX_SHARING_SWEEPS {
            let before = total;
            let Some(choice) = self.collect(picked) else { return };
            for class in choice.keys() {
                let offers = self.offers.get(class).map_or(&[][..], Vec::as_slice);
                for (number, (_, price)) in offers.iter().enumerate() {
                    let old = picked.get(class).copied();
                    if offers.len() == 1 || price.forbidden || old == Some(number) || banned.contains(&(*class, number)) {
                        continue;
                    }
                    let before = self.switch(picked, &choice, *class, number);
                    let found = self.collect(picked).map(|choice| self.total(&choice, weights));
                    match found.filter(|found| *found < total) {
                        Some(found) => total = found,
                        None => picked.extend(before),
                    }
                }
            }
            if total == before {
                return;
            }
        }
    }

    /// Makes an offer the choice of its class, and for a result of an application with several, takes its other results along: alone,
    /// they would only be dearer. Returns what was chosen before.
    fn switch(&self, picked: &mut BTreeMap<Id, usize>, choice: &Choice, class: Id, number: usize) -> Vec<(Id, usize)> {
        let mut changes = vec![(class, number)];
        let whole = self.whole(&self.offers[&class][number].0);
        for other in choice.keys().filter(|other| whole.is_some() && **other != class) {
            let offers = self.offers.get(other).map_or(&[][..], Vec::as_slice);
            let same = offers.iter().position(|(term, price)| !price.forbidden && self.whole(term) == whole);
            changes.extend(same.map(|number| (*other, number)));
        }
        let before = changes.iter().filter_map(|(class, _)| Some((*class, *picked.get(class)?))).collect();
        picked.extend(changes);
        before
    }

    /// The application that an e-node is a result of.
    fn whole(&self, term: &Term) -> Option<Id> {
        matches!(term.head, Head::Result(_)).then(|| term.children.first().map(|id| self.graph.find(*id))).flatten()
    }

    /// Cost of a choice, each class once.
    fn total(&self, choice: &Choice, weights: Weights) -> u64 {
        let own = |(class, term): (&Id, &Term)| {
            let price = self.offers.get(class)?.iter().find(|(other, _)| other == term)?.1;
            Some(worth(price, weights))
        };
        choice.iter().filter_map(own).fold(0, u64::saturating_add)
    }

    fn cost(
        &self,
        class: Id,
        offer: usize,
        term: &Term,
        price: Price,
        weights: Weights,
        best: &BTreeMap<Id, Best>,
    ) -> Option<Best> {
        let own =
            price.nanos.saturating_mul(weights.nanos).saturating_add(price.bytes.saturating_mul(weights.bytes)).saturating_add(1);
        let mut needs = BTreeSet::new();
        for child in &term.children {
            let child = self.graph.find(*child);
            if !needs.contains(&child) {
                needs.extend(&best.get(&child)?.needs);
            }
        }
        if needs.contains(&class) {
            return None;
        }
        let total = needs.iter().fold(own, |sum, need| sum.saturating_add(best.get(need).map_or(0, |best| best.own)));
        needs.insert(class);
        Some(Best { offer, own, needs, total })
    }

    /// What the roots need; `None` where choices made at different times refer to each other in a circle.
    fn collect(&self, picked: &BTreeMap<Id, usize>) -> Option<Choice> {
        let mut choice = Choice::new();
        let mut open: BTreeSet<Id> = BTreeSet::new();
        let mut stack: Vec<(Id, bool)> = self.roots.iter().rev().map(|id| (self.graph.find(*id), false)).collect();
        while let Some((class, done)) = stack.pop() {
            if done {
                open.remove(&class);
                continue;
            }
            if choice.contains_key(&class) {
                if open.contains(&class) {
                    return None;
                }
                continue;
            }
            let (term, _) = self.offers.get(&class)?.get(*picked.get(&class)?)?;
            choice.insert(class, term.clone());
            open.insert(class);
            stack.push((class, true));
            for child in term.children.iter().rev() {
                let child = self.graph.find(*child);
                if open.contains(&child) {
                    return None;
                }
                stack.push((child, false));
            }
        }
        Some(choice)
    }
}
