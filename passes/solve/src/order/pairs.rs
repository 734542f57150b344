//! The pair of operations on which a decision is split: one of the two runs first, and either way much more follows.

use super::model::{Model, profile};

/// Operations at the highest steps of an order of which pairs are looked at.
const CANDIDATES: usize = 2;
const WORD: usize = u64::BITS as usize;

/// Two operations of which neither need run first, the one at a high step of the order; `None` if those at the highest steps have no such partner.
///
/// Of all such pairs the one of which the weaker side orders the most other pairs, since what runs before the first then runs before what runs
/// behind the second. Counts down `looks`. O(n² · candidates / 64 · ancestors).
pub(super) fn pair(model: &Model, order: &[u32], looks: &mut u64) -> Option<(u32, u32)> {
    let steps = profile(model, order);
    let mut places: Vec<usize> = (0..order.len()).collect();
    places.sort_by_key(|place| (std::cmp::Reverse(steps[*place]), *place));
    let relation = Relation::new(model, order);
    let mut best: Option<(u64, (u32, u32))> = None;
    for place in places.into_iter().take(CANDIDATES) {
        let own = order[place];
        for other in (0..model.operations as u32).filter(|other| relation.is_open(own, *other)) {
            let worth = relation.ordered_by(own, other, looks).min(relation.ordered_by(other, own, looks));
            if best.is_none_or(|(most, _)| worth > most) {
                best = Some((worth, (own, other)));
            }
        }
    }
    best.map(|(_, pair)| pair)
}

/// Which operations run before which in every order: themselves and all ancestors, and all descendants, one row of bits each.
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

    /// How many pairs are ordered that are not yet, if `first` runs before `second`.
    fn ordered_by(&self, first: u32, second: u32, looks: &mut u64) -> u64 {
        let behind = self.row(&self.behind, second);
        let mut count = 0;
        for (word, bits) in self.row(&self.before, first).iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 {
                let ancestor = word * WORD + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let known = self.row(&self.behind, ancestor as u32);
                count += behind.iter().zip(known).map(|(new, known)| u64::from((new & !known).count_ones())).sum::<u64>();
                *looks = looks.saturating_sub(1 + behind.len() as u64 / 4);
            }
        }
        count
    }
}
