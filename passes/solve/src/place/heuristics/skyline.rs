//! The skyline of a placement: the top of each section, with range maximum and range assignment in O(log
//! sections).

/// A segment tree over sections. Assigned values never fall, so an assignment can be stored as a minimum
/// height.
#[derive(Debug)]
pub(in crate::place) struct Skyline {
    leaves: usize,
    /// Highest top below each node.
    highest: Vec<u64>,
    /// Minimum height of all sections below each node.
    raised: Vec<u64>,
}

impl Skyline {
    /// Creates a flat skyline at 0.
    pub fn new(sections: usize) -> Self {
        let leaves = sections.max(1).next_power_of_two();
        Self { leaves, highest: vec![0; 2 * leaves], raised: vec![0; 2 * leaves] }
    }

    /// Returns the highest top in sections `first..last`.
    pub fn highest(&self, first: u32, last: u32) -> u64 {
        let (mut left, mut right) = (first as usize + self.leaves, last as usize + self.leaves);
        // The raised ancestors of every node in the range's cover are among the ancestors of the two end
        // leaves.
        let mut result = self.ancestors(left).max(self.ancestors(right - 1));
        while left < right {
            if left % 2 == 1 {
                result = result.max(self.highest[left]);
                left += 1;
            }
            if right % 2 == 1 {
                right -= 1;
                result = result.max(self.highest[right]);
            }
            (left, right) = (left / 2, right / 2);
        }
        result
    }

    /// Raises sections `first..last` to at least `top`.
    pub fn raise(&mut self, first: u32, last: u32, top: u64) {
        let (mut left, mut right) = (first as usize + self.leaves, last as usize + self.leaves);
        let ends = (left, right - 1);
        while left < right {
            if left % 2 == 1 {
                self.set(left, top);
                left += 1;
            }
            if right % 2 == 1 {
                right -= 1;
                self.set(right, top);
            }
            (left, right) = (left / 2, right / 2);
        }
        self.pull(ends.0);
        self.pull(ends.1);
    }

    fn set(&mut self, node: usize, top: u64) {
        self.highest[node] = self.highest[node].max(top);
        self.raised[node] = self.raised[node].max(top);
    }

    fn pull(&mut self, leaf: usize) {
        let mut node = leaf / 2;
        while node >= 1 {
            self.highest[node] =
                self.raised[node].max(self.highest[2 * node]).max(self.highest[2 * node + 1]);
            node /= 2;
        }
    }

    fn ancestors(&self, leaf: usize) -> u64 {
        let (mut node, mut result) = (leaf, 0);
        while node >= 1 {
            result = result.max(self.raised[node]);
            node /= 2;
        }
        result
    }
}
