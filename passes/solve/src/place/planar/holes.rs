//! Finds the holes that may end at a line, so that equal bytes are on its left and right.

use super::lines::{MAX_MEMBERS, MAX_UNBALANCED_ITEMS};

/// Empty bytes between two lines, the second of which is not known yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hole {
    pub leaf: u32,
    pub size: u64,
}

/// Holes that end at a line.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub cost: u32,
    /// Leaves of the holes that end completely.
    pub whole: Vec<u32>,
    /// A hole of which only a part ends here: its leaf and the bytes of the part.
    pub part: Option<(u32, u64)>,
    /// Bytes of the hole that begins on the right.
    pub rest: u64,
}

/// Cost, in eighths of a bit, of each further hole that ends at a line. A first hole that fits exactly
/// costs nothing.
const SECOND: u32 = 16;
/// Cost, in eighths of a bit, of a hole that ends in two places.
const SPLIT: u32 = 40;
/// Cost, in eighths of a bit, of a line at which a hole ends and another begins.
const THROUGH: u32 = 48;

/// Returns the choices of cost at most `most` for a line with `left` ending and `right` beginning bytes.
pub(super) fn choices(holes: &[Hole], left: u64, right: u64, most: u32) -> Vec<Choice> {
    let mut search = Search { holes, left, right, most, whole: Vec::new(), found: Vec::new() };
    search.visit(0, 0);
    search.found
}

struct Search<'a> {
    holes: &'a [Hole],
    left: u64,
    right: u64,
    most: u32,
    whole: Vec<u32>,
    found: Vec<Choice>,
}

impl Search<'_> {
    /// Adds the choices with the holes taken so far, which have `sum` bytes, and with any of the holes
    /// from `from` on.
    fn visit(&mut self, from: usize, sum: u64) {
        self.add(sum);
        let count = self.whole.len();
        let is_last = self.holes.len() > MAX_UNBALANCED_ITEMS && count == MAX_MEMBERS;
        if is_last || SECOND * count as u32 > self.most {
            return;
        }
        for (place, &hole) in self.holes.iter().enumerate().skip(from) {
            self.whole.push(hole.leaf);
            self.visit(place + 1, sum + hole.size);
            self.whole.pop();
        }
    }

    fn add(&mut self, sum: u64) {
        let (left, count) = (self.left + sum, self.whole.len() as u32);
        let further = SECOND * count.saturating_sub(1);
        let Some(missing) = self.right.checked_sub(left) else {
            self.push(if count == 0 { 0 } else { THROUGH + further }, None, left - self.right);
            return;
        };
        if missing == 0 {
            self.push(further, None, 0);
            return;
        }
        let holes = self.holes;
        for hole in holes.iter().filter(|hole| hole.size > missing) {
            if !self.whole.contains(&hole.leaf) {
                self.push(SPLIT + SECOND * count, Some((hole.leaf, missing)), 0);
            }
        }
    }

    fn push(&mut self, cost: u32, part: Option<(u32, u64)>, rest: u64) {
        if cost <= self.most {
            self.found.push(Choice { cost, whole: self.whole.clone(), part, rest });
        }
    }
}
