//! A segment tree over slots: adds bytes to ranges and finds the highest sum and its slot.

use std::cell::{RefCell, RefMut};

/// Sums at `2^k` slots, all zero at first; every operation is O(log slots).
///
/// A node keeps the total change over its slots, and the highest sum among them relative to the sum
/// before its first slot. So adding to a range changes only two differences. Several ranges that change
/// together are propagated upward once, and only as far as a node changes.
///
/// Changes wait until a query needs them, because many are undone before.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    leaves: usize,
    sums: RefCell<Sums>,
}

#[derive(Clone, Debug)]
struct Sums {
    nodes: Vec<Node>,
    /// Nodes to recompute, all on one level.
    front: Vec<u32>,
    /// Changes that the nodes do not contain yet: a slot, and the bytes added from that slot to the end.
    waiting: Vec<(u32, i64)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Node {
    change: i64,
    top: i64,
}

/// Maximum number of waiting changes: sorting more takes longer than applying them.
const MAX_WAITING: usize = 256;

impl Tree {
    /// Creates a tree over at least `slots` slots.
    pub fn new(slots: usize) -> Self {
        let leaves = slots.max(2).next_power_of_two();
        let sums = Sums { nodes: vec![Node::default(); 2 * leaves], front: Vec::new(), waiting: Vec::new() };
        Self { leaves, sums: RefCell::new(sums) }
    }

    /// Creates a tree over slots with these sums. O(slots).
    pub fn of(sums: impl Iterator<Item = i64>) -> Self {
        let mut before = 0;
        let steps = sums.map(|sum| sum - std::mem::replace(&mut before, sum));
        let steps: Vec<(u32, i64)> = (0..).zip(steps).collect();
        let mut tree = Self::new(steps.len());
        tree.change(&steps);
        tree
    }

    /// Adds `delta` to the slots `first..=last`; does nothing if the range is empty.
    pub fn add(&mut self, first: u32, last: u32, delta: i64) {
        if first <= last {
            self.change(&[(first, delta), (last + 1, -delta)]);
        }
    }

    /// Applies differences: each pair adds its bytes to all slots from its slot to the end. Ignores
    /// slots past the last one.
    pub fn change(&mut self, differences: &[(u32, i64)]) {
        let sums = self.sums.get_mut();
        sums.waiting.extend_from_slice(differences);
        if sums.waiting.len() > MAX_WAITING {
            sums.settle(self.leaves);
        }
    }

    /// Returns the sums with all changes applied.
    fn settled(&self) -> RefMut<'_, Sums> {
        let mut sums = self.sums.borrow_mut();
        sums.settle(self.leaves);
        sums
    }

    /// Returns the highest sum of all slots.
    pub fn top(&self) -> i64 {
        self.settled().nodes[1].top
    }

    /// Returns the first slot with the highest sum.
    pub fn peak(&self) -> u32 {
        let (mut node, sums) = (1, self.settled());
        while node < self.leaves {
            node *= 2;
            if sums.nodes[node].change + sums.nodes[node + 1].top > sums.nodes[node].top {
                node += 1;
            }
        }
        (node - self.leaves) as u32
    }

    /// Returns the highest sum of the slots `first..=last`; `i64::MIN` if the range is empty.
    pub fn top_of(&self, first: u32, last: u32) -> i64 {
        if first > last {
            return i64::MIN;
        }
        if first == last {
            return self.at(first);
        }
        let (mut left, mut right) = (first as usize + self.leaves, last as usize + self.leaves);
        let sums = self.settled();
        let (mut found, mut end) = (sums.nodes[left], sums.nodes[right]);
        while left ^ right > 1 {
            if left & 1 == 0 {
                found = joined(found, sums.nodes[left + 1]);
            }
            if right & 1 == 1 {
                end = joined(sums.nodes[right - 1], end);
            }
            left >>= 1;
            right >>= 1;
        }
        joined(found, end).top + sums.before(first as usize + self.leaves)
    }

    /// Returns the sum at a slot.
    pub fn at(&self, slot: u32) -> i64 {
        let (sums, leaf) = (self.sums.borrow(), slot as usize + self.leaves);
        let waiting = sums.waiting.iter().filter(|(from, _)| *from <= slot).map(|(_, delta)| delta);
        sums.before(leaf) + sums.nodes[leaf].change + waiting.sum::<i64>()
    }
}

impl Sums {
    /// Applies the waiting changes.
    fn settle(&mut self, leaves: usize) {
        if self.waiting.is_empty() {
            return;
        }
        // Apply the differences at the leaves, one for each slot.
        self.waiting.sort_unstable_by_key(|(slot, _)| *slot);
        self.front.clear();
        for same in self.waiting.chunk_by(|one, other| one.0 == other.0) {
            let (slot, delta) = (same[0].0 as usize, same.iter().map(|(_, delta)| delta).sum::<i64>());
            if slot < leaves && delta != 0 {
                let leaf = slot + leaves;
                self.nodes[leaf].change += delta;
                self.nodes[leaf].top += delta;
                push_new(&mut self.front, leaf as u32 >> 1);
            }
        }
        self.waiting.clear();
        // Propagate level by level while several nodes change, then along the single path that is left.
        while self.front.len() > 1 {
            let mut kept = 0;
            for index in 0..self.front.len() {
                let node = self.front[index];
                let above = node >> 1;
                if self.renew(node as usize) && above > 0 && (kept == 0 || self.front[kept - 1] != above) {
                    self.front[kept] = above;
                    kept += 1;
                }
            }
            self.front.truncate(kept);
        }
        let mut node = self.front.pop().map_or(0, |node| node as usize);
        while node > 0 && self.renew(node) {
            node >>= 1;
        }
    }

    /// Recomputes a node from its children; returns whether it changed.
    fn renew(&mut self, node: usize) -> bool {
        let (left, right) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
        let new = joined(left, right);
        std::mem::replace(&mut self.nodes[node], new) != new
    }

    /// Returns the sum of all changes before a leaf.
    fn before(&self, leaf: usize) -> i64 {
        let (mut node, mut sum) = (leaf, 0);
        while node > 1 {
            if node & 1 == 1 {
                sum += self.nodes[node - 1].change;
            }
            node >>= 1;
        }
        sum
    }
}

fn joined(left: Node, right: Node) -> Node {
    Node { change: left.change + right.change, top: left.top.max(left.change + right.top) }
}

fn push_new(list: &mut Vec<u32>, entry: u32) {
    if list.last() != Some(&entry) {
        list.push(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::Tree;
    use crate::basics::random::Random;

    #[test]
    fn agrees_with_a_plain_array() {
        let mut random = Random::new(7);
        let mut next = |below: u32| random.below(below);
        let mut plain: Vec<i64> = (0..64).map(|_| i64::from(next(100))).collect();
        let mut tree = Tree::of(plain.iter().copied());
        for _ in 0..2_000 {
            let (one, two) = (next(64), next(64));
            let (first, last) = (one.min(two), one.max(two));
            let delta = i64::from(next(100)) - 50;
            tree.add(first, last, delta);
            plain[first as usize..=last as usize].iter_mut().for_each(|sum| *sum += delta);
            let mut slots = [0; 3].map(|_| next(65));
            slots.sort_unstable();
            let differences = slots.map(|slot| (slot, i64::from(next(9)) - 4));
            tree.change(&differences);
            for (slot, delta) in differences {
                plain.iter_mut().skip(slot as usize).for_each(|sum| *sum += delta);
            }
            let highest = plain.iter().copied().max().unwrap_or(0);
            // Waiting changes count, too.
            let slot = next(64);
            assert_eq!(tree.at(slot), plain[slot as usize]);
            if next(4) == 0 {
                continue;
            }
            assert_eq!(tree.top(), highest);
            assert_eq!(plain.iter().position(|sum| *sum == highest), Some(tree.peak() as usize));
            let (one, two) = (next(64), next(64));
            let (first, last) = (one.min(two), one.max(two));
            assert_eq!(
                Some(tree.top_of(first, last)),
                plain[first as usize..=last as usize].iter().copied().max()
            );
            assert_eq!(tree.at(first), plain[first as usize]);
        }
    }
}
