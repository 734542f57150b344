//! Chooses one e-node a class: a bottom-up search that pays for shared classes once, under several
//! weights of time and bytes.
//!
//! Each class keeps the set of classes that its best choice needs; the cost of a set is the sum over its
//! members, so classes shared by two operands are paid once. The sets are small because fragments are:
//! one bit a class.

use std::collections::{BTreeMap, BTreeSet};

use egg::Id;

use crate::fact::Graph;
use crate::pricing::Price;
use crate::term::{Head, Term};

/// Maximum number of sweeps over all classes.
const MAX_SWEEPS: usize = 40;

/// Weights of time and bytes, in units of 1/16 nanosecond.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    pub(crate) nanos: u64,
    pub(crate) bytes: u64,
}

/// The chosen e-node of each class.
pub(crate) type Choice = BTreeMap<Id, Term>;

/// Maximum number of sweeps that change one choice at a time.
const MAX_SHARING_SWEEPS: usize = 3;

/// An e-graph with the prices of its e-nodes.
pub(crate) struct Market<'a, 'm> {
    pub(crate) graph: &'a Graph<'m>,
    /// E-nodes of each class with their prices, in order of preference among equals.
    pub(crate) offers: BTreeMap<Id, Vec<(Term, Price)>>,
    /// Classes in the order of `offers`.
    classes: Vec<Id>,
    /// By class: its offers in the form that searches use.
    dense: Vec<Vec<Offer>>,
    /// Places of the classes that must be made.
    roots: Vec<usize>,
}

/// An e-node, with places of classes instead of their ids.
struct Offer {
    children: Vec<usize>,
    price: Price,
    /// Place of the application, if the e-node is one of its results.
    whole: Option<usize>,
}

/// By class: the chosen offer, if any.
type Picked = Vec<Option<usize>>;

/// Returns a price under weights; never zero, so that fewer e-nodes are better among equals.
fn worth(price: Price, weights: Weights) -> u64 {
    price
        .nanos
        .saturating_mul(weights.nanos)
        .saturating_add(price.bytes.saturating_mul(weights.bytes))
        .saturating_add(1)
}

struct Best {
    offer: usize,
    own: u64,
    needs: Bits,
    total: u64,
}

/// A set of places of classes.
#[derive(Clone)]
struct Bits(Vec<u64>);

impl Bits {
    fn none(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }
    fn insert(&mut self, place: usize) -> bool {
        let (word, bit) = (&mut self.0[place / 64], 1 << (place % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
    fn remove(&mut self, place: usize) {
        self.0[place / 64] &= !(1 << (place % 64));
    }
    fn contains(&self, place: usize) -> bool {
        self.0[place / 64] & (1 << (place % 64)) != 0
    }
    fn extend(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own |= other);
    }
    fn places(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(index, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(index * 64 + bit)
            })
        })
    }
}

impl<'a, 'm> Market<'a, 'm> {
    /// Creates the market of an e-graph, for these roots.
    pub(crate) fn new(graph: &'a Graph<'m>, offers: BTreeMap<Id, Vec<(Term, Price)>>, roots: &[Id]) -> Self {
        let classes: Vec<Id> = offers.keys().copied().collect();
        let place: BTreeMap<Id, usize> =
            classes.iter().enumerate().map(|(place, class)| (*class, place)).collect();
        let dense = |(term, price): &(Term, Price)| {
            let children: Vec<usize> = term.children.iter().map(|id| place[&graph.find(*id)]).collect();
            let whole = children.first().copied().filter(|_| matches!(term.head, Head::Result(_)));
            Offer { children, price: *price, whole }
        };
        let dense = offers.values().map(|offers| offers.iter().map(dense).collect()).collect();
        let roots = roots.iter().map(|id| place[&graph.find(*id)]).collect();
        Self { graph, offers, classes, dense, roots }
    }

    /// Returns the cheapest choice found for the roots without the banned offers; `None` if there is
    /// none.
    pub(crate) fn choose(&self, weights: Weights, banned: &BTreeSet<(Id, usize)>) -> Option<Choice> {
        let is_free = |place: usize, number: usize| {
            !self.dense[place][number].price.forbidden && !banned.contains(&(self.classes[place], number))
        };
        let free: Vec<Vec<usize>> = (0..self.dense.len())
            .map(|place| (0..self.dense[place].len()).filter(|number| is_free(place, *number)).collect())
            .collect();
        // Find the cheapest offer of each class, until no sweep finds a cheaper one.
        let mut best: Vec<Option<Best>> = (0..self.dense.len()).map(|_| None).collect();
        for _ in 0..MAX_SWEEPS {
            let mut changed = false;
            for (place, offers) in free.iter().enumerate() {
                for number in offers {
                    let Some(found) = self.cost(place, *number, weights, &best) else { continue };
                    if best[place].as_ref().is_none_or(|old| found.total < old.total) {
                        best[place] = Some(found);
                        changed = true;
                    }
                }
            }
            if !changed {
                break;
            }
        }
        let mut picked: Picked = best.iter().map(|best| best.as_ref().map(|best| best.offer)).collect();
        let needed = self.collect(&picked)?;
        self.share(&mut picked, needed, weights, &free);
        let choice = self.collect(&picked)?;
        choice
            .places()
            .map(|place| {
                Some((self.classes[place], self.offers[&self.classes[place]][picked[place]?].0.clone()))
            })
            .collect()
    }

    /// Changes one choice at a time while the total falls: an e-node that is expensive by itself is free
    /// if other classes need it too.
    fn share(&self, picked: &mut Picked, needed: Bits, weights: Weights, free: &[Vec<usize>]) {
        let mut total = self.total(&needed, picked, weights);
        for _ in 0..MAX_SHARING_SWEEPS {
            let before = total;
            let Some(needed) = self.collect(picked) else { return };
            for place in needed.places().filter(|place| free[*place].len() > 1) {
                for number in &free[place] {
                    if picked[place] == Some(*number) {
                        continue;
                    }
                    let before = self.switch(picked, &needed, place, *number, free);
                    let found = self.collect(picked).map(|needed| self.total(&needed, picked, weights));
                    match found.filter(|found| *found < total) {
                        Some(found) => total = found,
                        None => before.into_iter().for_each(|(place, number)| picked[place] = number),
                    }
                }
            }
            if total == before {
                return;
            }
        }
    }

    /// Chooses an offer for its class. For a result of an application with several results, also chooses
    /// the application's other results: a single one would only raise the cost. Returns the previous
    /// choices.
    fn switch(
        &self,
        picked: &mut Picked,
        needed: &Bits,
        place: usize,
        number: usize,
        free: &[Vec<usize>],
    ) -> Vec<(usize, Option<usize>)> {
        let mut changes = vec![(place, number)];
        let whole = self.dense[place][number].whole;
        for other in needed.places().filter(|other| whole.is_some() && *other != place) {
            let same = free[other].iter().find(|number| self.dense[other][**number].whole == whole);
            changes.extend(same.map(|number| (other, *number)));
        }
        let before = changes.iter().map(|(place, _)| (*place, picked[*place])).collect();
        changes.into_iter().for_each(|(place, number)| picked[place] = Some(number));
        before
    }

    /// Returns the cost of the needed classes, each counted once.
    fn total(&self, needed: &Bits, picked: &Picked, weights: Weights) -> u64 {
        let own =
            |place: usize| picked[place].map_or(0, |number| worth(self.dense[place][number].price, weights));
        needed.places().map(own).fold(0, u64::saturating_add)
    }

    fn cost(&self, place: usize, number: usize, weights: Weights, best: &[Option<Best>]) -> Option<Best> {
        let offer = &self.dense[place][number];
        let own = worth(offer.price, weights);
        let mut needs = Bits::none(self.dense.len());
        for child in &offer.children {
            needs.extend(&best[*child].as_ref()?.needs);
        }
        if needs.contains(place) {
            return None;
        }
        let sum = |sum: u64, need: usize| sum.saturating_add(best[need].as_ref().map_or(0, |best| best.own));
        let total = needs.places().fold(own, sum);
        needs.insert(place);
        Some(Best { offer: number, own, needs, total })
    }

    /// Returns the classes that the roots need; `None` if choices form a cycle.
    fn collect(&self, picked: &Picked) -> Option<Bits> {
        let mut needed = Bits::none(self.dense.len());
        let mut open = Bits::none(self.dense.len());
        let mut stack: Vec<(usize, bool)> = self.roots.iter().rev().map(|place| (*place, false)).collect();
        while let Some((place, done)) = stack.pop() {
            if done {
                open.remove(place);
                continue;
            }
            if !needed.insert(place) {
                if open.contains(place) {
                    return None;
                }
                continue;
            }
            open.insert(place);
            stack.push((place, true));
            for child in &self.dense[place][picked[place]?].children {
                if open.contains(*child) {
                    return None;
                }
                stack.push((*child, false));
            }
        }
        Some(needed)
    }
}
