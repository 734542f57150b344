//! A smooth approximation of the highest sum of a tree: the logarithm of a sum of exponentials over the
//! occupied slots.
//!
//! Its slope reflects every slot near or over the capacity, while the maximum reflects a single slot.
//! This brings sequences with several peaks below a capacity (FastSA describes this variant for graphs
//! with several peaks). Adding bytes to a range multiplies its exponentials by one number.

/// A node hands a larger factor down to its children, so that the product of the factors on a path, one
/// for each level, remains finite.
const EXTREME: f64 = 1e15;

/// Weights of slots, with range changes in O(log slots): an occupied slot weighs `exp(sharpness x
/// bytes)`, any other 0.
#[derive(Clone, Debug)]
pub(in crate::budget) struct SoftTree {
    leaves: usize,
    sharpness: f64,
    nodes: Vec<Node>,
    /// Number of nodes above the leaves with extreme factors.
    extremes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    factor: f64,
    sum: f64,
}

impl SoftTree {
    /// Creates a tree with all slots at zero bytes and unoccupied. `sharpness` is the inverse of the
    /// bytes over which a weight fades.
    pub fn new(slots: usize, sharpness: f64) -> Self {
        let leaves = slots.max(2).next_power_of_two();
        Self { leaves, sharpness, nodes: vec![Node { factor: 1.0, sum: 0.0 }; 2 * leaves], extremes: 0 }
    }

    /// Returns the soft maximum in bytes; not finite once a weight was too large for a floating-point
    /// number.
    pub fn top(&self) -> f64 {
        let sum = self.nodes[1].sum;
        if sum < f64::MIN_POSITIVE {
            f64::MIN_POSITIVE.ln() / self.sharpness
        } else {
            sum.ln() / self.sharpness
        }
    }

    /// Returns the part of its weight that a slot loses if it holds `bytes` less.
    pub fn relief(&self, bytes: i64) -> f64 {
        -(-self.sharpness * bytes as f64).exp_m1()
    }

    /// Returns the sum of the weights of all occupied slots.
    pub fn sum(&self) -> f64 {
        self.nodes[1].sum
    }

    /// Returns the sum of the weights of the occupied slots in `first..=last`.
    pub fn sum_of(&self, first: u32, last: u32) -> f64 {
        if first > last {
            return 0.0;
        }
        let (mut left, mut right) = (first as usize + self.leaves, last as usize + self.leaves);
        let mut left_sum = self.nodes[left].sum;
        let mut right_sum = if left == right { 0.0 } else { self.nodes[right].sum };
        while left ^ right > 1 {
            if left & 1 == 0 {
                left_sum += self.nodes[left + 1].sum;
            }
            if right & 1 == 1 {
                right_sum += self.nodes[right - 1].sum;
            }
            left >>= 1;
            right >>= 1;
            left_sum *= self.nodes[left].factor;
            right_sum *= self.nodes[right].factor;
        }
        let mut sum = left_sum + right_sum;
        let mut node = left >> 1;
        while node > 0 {
            sum *= self.nodes[node].factor;
            node >>= 1;
        }
        sum
    }

    /// Draws an occupied slot in proportion to its weight; `draw` is from 0 to 1.
    pub fn sample(&self, draw: f64) -> u32 {
        let (mut node, mut rest) = (1, draw);
        while node < self.leaves {
            node *= 2;
            let (left, right) = (self.nodes[node].sum, self.nodes[node + 1].sum);
            let share = left / (left + right);
            if rest < share {
                rest /= share;
            } else {
                rest = ((rest - share) / (1.0 - share)).min(1.0);
                node += 1;
            }
        }
        (node - self.leaves) as u32
    }

    /// Occupies or frees a slot.
    pub fn occupy(&mut self, slot: u32, occupied: bool) {
        let mut node = slot as usize + self.leaves;
        self.nodes[node].sum = if occupied { self.nodes[node].factor } else { 0.0 };
        while node > 1 {
            node >>= 1;
            self.renew(node);
        }
    }

    /// Adds bytes to the slots `first..=last`; does nothing if the range is empty.
    pub fn add(&mut self, first: u32, last: u32, delta: i64) {
        if first > last || delta == 0 {
            return;
        }
        let factor = (self.sharpness * delta as f64).exp();
        let (mut left, mut right) = (first as usize + self.leaves, last as usize + self.leaves);
        if self.extremes > 0 {
            self.hand_down(left);
            self.hand_down(right);
        }
        self.scale(left, factor);
        if left != right {
            self.scale(right, factor);
        }
        while left ^ right > 1 {
            if left & 1 == 0 {
                self.scale(left + 1, factor);
            }
            if right & 1 == 1 {
                self.scale(right - 1, factor);
            }
            left >>= 1;
            right >>= 1;
            self.renew(left);
            self.renew(right);
        }
        while left > 1 {
            left >>= 1;
            self.renew(left);
        }
    }

    /// Hands extreme factors above a leaf down to children. Otherwise adding over a node and subtracting
    /// below it would let both factors grow without limit, until their products overflow.
    fn hand_down(&mut self, leaf: usize) {
        for level in (1..=self.leaves.trailing_zeros()).rev() {
            let node = leaf >> level;
            let factor = self.nodes[node].factor;
            if is_extreme(factor) {
                self.nodes[node].factor = 1.0;
                self.extremes -= 1;
                self.scale(2 * node, factor);
                self.scale(2 * node + 1, factor);
            }
        }
    }

    fn scale(&mut self, node: usize, by: f64) {
        let Node { factor, sum } = &mut self.nodes[node];
        let before = *factor;
        *factor *= by;
        *sum *= by;
        if node < self.leaves {
            self.extremes += usize::from(is_extreme(*factor));
            self.extremes -= usize::from(is_extreme(before));
        }
    }

    fn renew(&mut self, node: usize) {
        let below = self.nodes[2 * node].sum + self.nodes[2 * node + 1].sum;
        let node = &mut self.nodes[node];
        node.sum = below * node.factor;
    }
}

/// Whether a factor is extreme enough to be handed down.
fn is_extreme(factor: f64) -> bool {
    !(1.0 / EXTREME..EXTREME).contains(&factor)
}

#[cfg(test)]
mod tests {
    use super::SoftTree;

    #[test]
    fn the_soft_maximum_lies_slightly_above_the_maximum() {
        let mut tree = SoftTree::new(64, 0.5);
        tree.add(3, 60, 40);
        tree.add(10, 20, 10);
        tree.add(0, 63, -30);
        for slot in [5, 15, 30] {
            tree.occupy(slot, true);
        }
        assert!((tree.top() - 20.0).abs() < 0.1);
        let weight = |bytes: f64| (0.5 * bytes).exp();
        assert!((tree.sum_of(5, 15) / (weight(10.0) + weight(20.0)) - 1.0).abs() < 1e-9);
        assert!((tree.sum_of(30, 30) / weight(10.0) - 1.0).abs() < 1e-9);
        assert!((tree.sum_of(0, 63) / tree.sum() - 1.0).abs() < 1e-9);
        assert!(tree.sum_of(6, 14) == 0.0 && tree.sum_of(9, 8) == 0.0);
        tree.occupy(15, false);
        assert!(tree.top() > 10.0 && tree.top() < 10.0 + 2.0_f64.ln() / 0.5 + 1e-6);
        tree.add(0, 63, -4);
        assert!(tree.top() > 6.0 && tree.top() < 6.0 + 2.0_f64.ln() / 0.5 + 1e-6);
    }

    #[test]
    fn the_tree_stays_accurate_after_many_changes() {
        let mut tree = SoftTree::new(64, 0.5);
        tree.occupy(5, true);
        for _ in 0..1000 {
            // Add bytes over a node, and subtract them at the leaves below it.
            tree.add(0, 63, 40);
            (0..64).for_each(|slot| tree.add(slot, slot, -40));
        }
        assert!(tree.top().abs() < 1e-6);
        // A weight that overflows must not count as the least weight.
        tree.add(5, 5, 100_000);
        tree.occupy(6, true);
        tree.add(5, 5, -200_000);
        assert!(!tree.top().is_finite() || tree.top() > -1e-6);
    }
}
