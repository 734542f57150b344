//! Pairs of operations on which a decision is split: one operation runs first, and either choice forces
//! many other pairs.

use std::cmp::Reverse;

use crate::order::model::{Model, profile};
use crate::tuning::OrderTuning;

const WORD: usize = u64::BITS as usize;

/// Returns pairs of operations that no predecessor orders, one of them at one of the highest steps of
/// the order. The list is empty if the operations at the highest steps have no partner.
///
/// The best pair comes first: the pair whose weaker side orders the most other pairs, because every
/// ancestor of the first operation then runs before every descendant of the second. Counts down `looks`.
/// O(n² · candidates / 64 · ancestors).
pub(in crate::order) fn pairs(
    model: &Model,
    order: &[u32],
    tuning: &OrderTuning,
    looks: &mut u64,
) -> Vec<(u32, u32)> {
    let steps = profile(model, order);
    let mut places: Vec<usize> = (0..order.len()).collect();
    places.sort_by_key(|place| (Reverse(steps[*place]), *place));
    let relation = Relation::new(model, order);
    let mut found: Vec<(u64, (u32, u32))> = Vec::new();
    let highest: Vec<u32> = places.into_iter().take(tuning.split_places).map(|place| order[place]).collect();
    for (index, &own) in highest.iter().enumerate() {
        for other in (0..model.operations as u32).filter(|other| relation.is_open(own, *other)) {
            let worth = relation.ordered_by(own, other, looks).min(relation.ordered_by(other, own, looks));
            if !highest[..index].contains(&other) {
                found.push((worth, (own, other)));
            }
        }
    }
    found.sort_by_key(|(worth, _)| Reverse(*worth));
    found.into_iter().map(|(_, pair)| pair).collect()
}

/// Returns the number of ordered pairs of operations: the sum of all descendants, each operation
/// included. O(n · edges / 64).
pub(in crate::order) fn ties(model: &Model, order: &[u32]) -> u64 {
    let behind = model.closures(&model.successors, order.iter().rev().copied());
    behind.iter().map(|bits| u64::from(bits.count_ones())).sum()
}

/// For each operation, its ancestors and its descendants, both with the operation itself, as one row of
/// bits each.
struct Relation {
    words: usize,
    before: Vec<u64>,
    behind: Vec<u64>,
}

impl Relation {
    fn new(model: &Model, order: &[u32]) -> Self {
        let words = model.operations.div_ceil(WORD);
        let before = model.closures(&model.predecessors, order.iter().copied());
        let behind = model.closures(&model.successors, order.iter().rev().copied());
        Self { words, before, behind }
    }

    fn row<'a>(&self, sets: &'a [u64], operation: u32) -> &'a [u64] {
        &sets[operation as usize * self.words..][..self.words]
    }

    fn is_open(&self, a: u32, b: u32) -> bool {
        let has = |sets: &[u64]| self.row(sets, a)[b as usize / WORD] >> (b as usize % WORD) & 1 == 1;
        !has(&self.before) && !has(&self.behind)
    }

    /// Returns the number of pairs that become ordered if `first` runs before `second`.
    fn ordered_by(&self, first: u32, second: u32, looks: &mut u64) -> u64 {
        let behind = self.row(&self.behind, second);
        let mut count = 0;
        for (word, bits) in self.row(&self.before, first).iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 {
                let ancestor = word * WORD + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let known = self.row(&self.behind, ancestor as u32);
                count += behind
                    .iter()
                    .zip(known)
                    .map(|(new, known)| u64::from((new & !known).count_ones()))
                    .sum::<u64>();
                *looks = looks.saturating_sub(1 + behind.len() as u64 / 4);
            }
        }
        count
    }
}
