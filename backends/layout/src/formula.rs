//! Formula of offsets: which tensors lie directly under each tensor, derived from the offsets of a layout.
//!
//! Fixed offsets place every tensor at its largest size. The formula keeps the order of neighbors and
//! closes the gaps of smaller sizes: a tensor begins at the first aligned byte above the tensors that it
//! lies on. At the largest sizes no tensor lies higher than its fixed offset, by induction in ascending
//! order of offsets, and smaller sizes only lower all offsets. Two tensors that are live at one step are
//! connected by a chain of rows, so they share no byte at any extents.

use std::collections::{BTreeMap, BTreeSet};

use crate::live_curve::{LiveCurve, Owner};
use crate::ranges::FormulaRow;
use crate::types::Layout;

/// Most owners of a space for which rows that follow from other rows are removed: the test takes a bit for
/// each pair of owners, 2 MB in total.
const MAX_REDUCED: usize = 4096;

/// Returns the rows of each space in ascending order of offsets.
pub fn formula(layout: &Layout) -> BTreeMap<String, Vec<FormulaRow>> {
    let curve = LiveCurve::of(layout);
    let spaces = curve.spaces.iter().filter(|space| !space.owners.is_empty());
    let rows = spaces.map(|space| (space.space.clone(), rows(layout, &space.owners)));
    rows.collect()
}

/// Returns the rows of one space.
fn rows(layout: &Layout, owners: &[Owner]) -> Vec<FormulaRow> {
    let mut sorted: Vec<&Owner> = owners.iter().collect();
    sorted.sort_by_key(|owner| (owner.offset, owner.tensor));
    let mut under = neighbors(&sorted);
    if sorted.len() <= MAX_REDUCED {
        reduce(&mut under);
    }
    let name = |at: usize| {
        sorted.get(at).and_then(|owner| layout.tensors.get(owner.tensor)).map(|tensor| tensor.name.clone())
    };
    let row = |(at, under): (usize, &BTreeSet<usize>)| {
        Some(FormulaRow { tensor: name(at)?, above: under.iter().filter_map(|below| name(*below)).collect() })
    };
    under.iter().enumerate().filter_map(row).collect()
}

/// Returns, for each owner, those that lie next below it at some step at which both are live. Owners
/// without bytes have no neighbors. Takes O(n log n) time: each start or end of an owner makes at most
/// two new pairs.
fn neighbors(sorted: &[&Owner]) -> Vec<BTreeSet<usize>> {
    let mut events: BTreeMap<u64, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
    for (at, owner) in sorted.iter().enumerate().filter(|(_, owner)| owner.bytes > 0) {
        for range in &owner.live {
            events.entry(range.end).or_default().0.push(at);
            events.entry(range.start).or_default().1.push(at);
        }
    }
    let mut under = vec![BTreeSet::new(); sorted.len()];
    let mut live: BTreeSet<usize> = BTreeSet::new();
    for (ended, started) in events.into_values() {
        for at in &ended {
            live.remove(at);
        }
        live.extend(&started);
        for at in ended.iter().chain(&started) {
            let (below, above) = (live.range(..at).next_back(), live.range(at + 1..).next());
            let own = live.get(at);
            let pairs = [(below, own), (own, above), (if own.is_none() { below } else { None }, above)];
            for (below, above) in pairs.into_iter().filter_map(|(below, above)| below.zip(above)) {
                if let Some(under) = under.get_mut(*above) {
                    under.insert(*below);
                }
            }
        }
    }
    under
}

/// Removes each neighbor that also lies under another neighbor, directly or not.
fn reduce(under: &mut [BTreeSet<usize>]) {
    let words = under.len().div_ceil(64);
    // Bits of the owners below each owner.
    let mut below: Vec<Vec<u64>> = Vec::with_capacity(under.len());
    for under in under.iter_mut() {
        let mut reached = vec![0u64; words];
        // From the highest neighbor down: a lower one can only follow from a higher one.
        let descending: Vec<usize> = under.iter().rev().copied().collect();
        for at in descending {
            if reached.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1) {
                under.remove(&at);
                continue;
            }
            if let Some(word) = reached.get_mut(at / 64) {
                *word |= 1 << (at % 64);
            }
            for (word, other) in reached.iter_mut().zip(below.get(at).into_iter().flatten()) {
                *word |= other;
            }
        }
        below.push(reached);
    }
}
