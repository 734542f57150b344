//! Which holes may end at a line, so that as much lies on its right as on its left.

use super::lines::{MAX_MEMBERS, MAX_UNBALANCED_ITEMS};

/// Empty bytes between two lines; the second one is not known yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hole {
    pub leaf: u32,
    pub size: u64,
}

/// Holes that end at a line.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub cost: u32,
    /// Those that end whole.
    pub whole: Vec<u32>,
    /// One of which only so many bytes end here.
    pub part: Option<(u32, u64)>,
    /// What begins as a hole on the right.
    pub rest: u64,
}

/// What it costs, in eighths of a bit, that a second hole ends here, and a third; that a hole ends in two places; that one ends here and
/// another one begins; and each further hole beside such a one. Holes that just fit cost nothing.
const SECOND: u32 = 16;
const SPLIT: u32 = 40;
const THROUGH: u32 = 48;

/// The choices of at most some cost where `left` bytes end and `right` begin.
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
    /// Adds the choices of the holes that are taken, `sum` bytes, and of those with any of the holes from `from` on.
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
