//! Whole intervals: best-first branch and bound over the linear program; raises its bound as far as a
//! node limit allows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::cover::Cover;
use super::interval::Interval;

/// Number of rows and intervals of a program that takes about as long as a node of a limit.
const SIZE_PER_NODE: u64 = 64;

/// Maximum number of pivots of one program inside the tree.
const MAX_TREE_PIVOTS: u64 = 100_000;

/// Result of branch and bound.
pub struct Integral {
    /// Lower bound of the cost of whole covers.
    pub bound: u128,
    /// Intervals of a cheapest cover, if the search completed; their cost is `bound`.
    pub absent: Option<Vec<bool>>,
}

/// One decision, linked to the previous one.
struct Decision {
    parent: Option<u32>,
    gap: u32,
    absent: bool,
}

/// A part of the search space, with its bound.
struct Part {
    /// Last decision of the part; `None` for the whole space.
    last: Option<u32>,
    /// Interval to decide next; `None` if the solution of the program is whole.
    branch: Option<u32>,
    absent: Vec<bool>,
}

/// Searches until the cheapest part is a whole cover, its bound reaches `enough`, or the effort is
/// spent, in nodes of a [`crate::Limit`]. The cover must not be [`Cover::uncoverable`]. At least one
/// program is solved.
#[must_use]
pub fn solve(cover: &Cover, effort: u64, enough: u128) -> Integral {
    let core = cover.core();
    let limit = effort / (1 + (cover.needs.len() + cover.gaps.len()) as u64 / SIZE_PER_NODE);
    let step = cover.gaps.iter().fold(0, |step, gap| greatest_common_divisor(step, gap.cost));
    let mut search = Search {
        cover: &core.cover,
        shift: cover.shift(),
        step: u128::from(step.max(1)),
        decisions: Vec::new(),
        parts: Vec::new(),
        queue: BinaryHeap::new(),
        nodes: 0,
    };
    search.add(None);
    let mut bound = 0;
    while let Some((Reverse(least), _, index)) = search.queue.pop() {
        bound = least;
        let part = &mut search.parts[index as usize];
        let (last, absent) = (part.last, std::mem::take(&mut part.absent));
        let Some(branch) = part.branch else {
            let mut whole = vec![false; cover.gaps.len()];
            for (gap, absent) in core.gaps.iter().zip(absent) {
                whole[*gap as usize] = absent;
            }
            return Integral { bound, absent: Some(whole) };
        };
        if search.nodes >= limit || least >= enough {
            break;
        }
        for absent in [true, false] {
            search.decisions.push(Decision { parent: last, gap: branch, absent });
            search.add(Some(search.decisions.len() as u32 - 1));
        }
    }
    Integral { bound, absent: None }
}

struct Search<'a> {
    cover: &'a Cover,
    /// Number of binary digits after the point of prices.
    shift: u32,
    /// Common divisor of all costs, to whose multiples bounds are rounded up.
    step: u128,
    decisions: Vec<Decision>,
    parts: Vec<Part>,
    /// Parts by least bound; of equal bounds the deepest part first, then the last one.
    queue: BinaryHeap<(Reverse<u128>, u32, u32)>,
    nodes: u64,
}

impl Search<'_> {
    /// Bounds a part and adds it to the queue, unless it has no cover.
    fn add(&mut self, last: Option<u32>) {
        self.nodes += 1;
        let cover = self.cover;
        let mut decided: Vec<Option<bool>> = vec![None; cover.gaps.len()];
        let (mut at, mut depth) = (last, 0);
        while let Some(index) = at {
            let decision = &self.decisions[index as usize];
            decided[decision.gap as usize] = Some(decision.absent);
            (at, depth) = (decision.parent, depth + 1);
        }
        let Some((rest, open, paid)) = remainder(cover, &decided) else { return };
        let solution = rest.solve_with(MAX_TREE_PIVOTS, self.shift);
        let bound = (paid + solution.bound).div_ceil(self.step) * self.step;
        let mut absent: Vec<bool> = decided.iter().map(|decided| *decided == Some(true)).collect();
        let mut branch = None;
        let mut widest = 0.0;
        for ((index, gap), part) in open.iter().zip(&rest.gaps).zip(&solution.absent) {
            absent[*index as usize] = *part >= gap.size;
            if *part > 0 && *part < gap.size {
                // Both bounds rise more if the smaller side of the split is larger.
                let part = *part as f64 / gap.size as f64;
                let width = part.min(1.0 - part) * (gap.cost as f64 + 1.0);
                if width > widest {
                    (branch, widest) = (Some(*index), width);
                }
            }
        }
        self.parts.push(Part { last, branch, absent });
        self.queue.push((Reverse(bound), depth, self.parts.len() as u32 - 1));
    }
}

/// Returns the remaining cover, its intervals, and the cost of the decided absences; `None` if the
/// intervals cannot cover the rest.
fn remainder(cover: &Cover, decided: &[Option<bool>]) -> Option<(Cover, Vec<u32>, u128)> {
    let mut freed = vec![0_i128; cover.needs.len() + 1];
    let (mut paid, mut open) = (0, Vec::new());
    for (index, gap) in cover.gaps.iter().enumerate() {
        match decided[index] {
            None => open.push(index as u32),
            Some(false) => {}
            Some(true) => {
                paid += u128::from(gap.cost);
                freed[gap.first as usize] += i128::from(gap.size);
                freed[gap.last as usize + 1] -= i128::from(gap.size);
            }
        }
    }
    let mut sum = 0;
    let needs = cover.needs.iter().zip(&freed).map(|(need, freed)| {
        sum += freed;
        (i128::from(*need) - sum).max(0) as u64
    });
    let mut rest = Cover {
        needs: needs.collect(),
        gaps: open.iter().map(|index| cover.gaps[*index as usize]).collect(),
    };
    if rest.uncoverable().is_some() {
        return None;
    }
    trim(&mut rest);
    let used = rest.gaps.iter().map(|gap| gap.size > 0);
    let open = open.into_iter().zip(used).filter(|(_, used)| *used).map(|(index, _)| index).collect();
    rest.gaps.retain(|gap| gap.size > 0);
    Some((rest, open, paid))
}

/// Caps each interval at the greatest need of its rows, since a whole interval cannot use more (a
/// knapsack cover inequality for the decided part, Carr et al. 2000). O((rows + intervals) log rows).
fn trim(cover: &mut Cover) {
    // Greatest need among 1, 2, 4, … rows from each row on.
    let mut greatest = vec![cover.needs.clone()];
    let mut width = 1;
    while width * 2 <= cover.needs.len() {
        let narrow = &greatest[greatest.len() - 1];
        let wide =
            (0..=cover.needs.len() - 2 * width).map(|row| narrow[row].max(narrow[row + width])).collect();
        greatest.push(wide);
        width *= 2;
    }
    for Interval { first, last, size, .. } in &mut cover.gaps {
        let rows = (*last - *first + 1) as usize;
        let level = rows.ilog2() as usize;
        let most = greatest[level][*first as usize].max(greatest[level][*last as usize + 1 - (1 << level)]);
        *size = (*size).min(most);
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
