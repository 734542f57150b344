//! A segment tree over slots: adds to ranges, the highest sum of a range, and where it is.

/// Numbers at `2^k` slots, all zero at first; every operation is O(log slots).
///
/// Non-propagating form: a node keeps what was added to its whole range, and the highest sum below it with that.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    leaves: usize,
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    top: i64,
    added: i64,
}

impl Tree {
    /// A tree over at least `slots` slots.
    pub fn new(slots: usize) -> Self {
        let leaves = slots.max(2).next_power_of_two();
        Self { leaves, nodes: vec![Node::default(); 2 * leaves] }
    }

    /// Adds to the slots `first..=last`; nothing if there are none.
    pub fn add(&mut self, first: u32, last: u32, delta: i64) {
        if first > last || delta == 0 {
            return;
        }
        let (mut left, mut right) = (first as usize + self.leaves, last as usize + self.leaves);
        let (mut left_done, mut right_done) = (left, right);
        self.lift(left, delta);
        if left != right {
            self.lift(right, delta);
        }
        // Siblings between the two paths are whole inside the range.
        while left ^ right > 1 {
            if left & 1 == 0 {
                self.lift(left + 1, delta);
            }
            if right & 1 == 1 {
                self.lift(right - 1, delta);
            }
            left >>= 1;
            right >>= 1;
            (left_done, right_done) = (left, right);
            self.renew(left);
            self.renew(right);
        }
        let mut node = left_done.min(right_done) >> 1;
        while node > 0 {
            self.renew(node);
            node >>= 1;
        }
    }

    fn lift(&mut self, node: usize, delta: i64) {
        self.nodes[node].top += delta;
        self.nodes[node].added += delta;
    }

    fn renew(&mut self, node: usize) {
        let below = self.nodes[2 * node].top.max(self.nodes[2 * node + 1].top);
        let node = &mut self.nodes[node];
        node.top = below + node.added;
    }

    /// The highest sum of all slots.
    pub fn top(&self) -> i64 {
        self.nodes[1].top
    }

    /// The first slot with the highest sum.
    pub fn peak(&self) -> u32 {
        let mut node = 1;
        while node < self.leaves {
            node *= 2;
            if self.nodes[node + 1].top > self.nodes[node].top {
                node += 1;
            }
        }
        (node - self.leaves) as u32
    }

    /// The highest sum of the slots `first..=last`; the lowest number if there are none.
    pub fn top_of(&self, first: u32, last: u32) -> i64 {
        if first > last {
            return i64::MIN;
        }
        let (mut left, mut right) = (first as usize + self.leaves, last as usize + self.leaves);
        let (mut left_top, mut right_top) = (self.nodes[left].top, self.nodes[right].top);
        while left ^ right > 1 {
            if left & 1 == 0 {
                left_top = left_top.max(self.nodes[left + 1].top);
            }
            if right & 1 == 1 {
                right_top = right_top.max(self.nodes[right - 1].top);
            }
            left >>= 1;
            right >>= 1;
            left_top += self.nodes[left].added;
            right_top += self.nodes[right].added;
        }
        let mut top = left_top.max(right_top);
        let mut node = left >> 1;
        // A range of one slot has not met its sibling: the walk above it is the same.
        while node > 0 {
            top += self.nodes[node].added;
            node >>= 1;
        }
        top
    }

    /// The sum at a slot.
    #[cfg(test)]
    pub fn at(&self, slot: u32) -> i64 {
        self.top_of(slot, slot)
    }
}

#[cfg(test)]
mod tests {
    use super::Tree;

    #[test]
    fn agrees_with_a_plain_array() {
        let (mut tree, mut plain) = (Tree::new(37), vec![0_i64; 64]);
        let mut seed = 7_u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..2_000 {
            let (one, two) = (next(64) as u32, next(64) as u32);
            let (first, last) = (one.min(two), one.max(two));
            let delta = next(100) as i64 - 50;
            tree.add(first, last, delta);
            plain[first as usize..=last as usize].iter_mut().for_each(|sum| *sum += delta);
            let highest = plain.iter().copied().max().unwrap_or(0);
            assert_eq!(tree.top(), highest);
            assert_eq!(plain.iter().position(|sum| *sum == highest), Some(tree.peak() as usize));
            let (one, two) = (next(64) as u32, next(64) as u32);
            let (first, last) = (one.min(two), one.max(two));
            assert_eq!(Some(tree.top_of(first, last)), plain[first as usize..=last as usize].iter().copied().max());
            assert_eq!(tree.at(first), plain[first as usize]);
        }
    }
}
