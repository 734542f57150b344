//! Nearly perfect packings: first the search finds the vertical lines of a packing, then the offsets
//! follow from them.
//!
//! In a packing without waste, all buffers that end at a moment are usually adjacent, and the buffers
//! that begin at this moment take their place. So a packing is a planar network: vertical lines are its
//! nodes, buffers are its edges, and at each line the bytes from the left equal the bytes to the right.
//! Any network of this kind that can be drawn without crossings is a packing, and the heights follow.
//! Empty rectangles (holes) are edges too: if more ends than begins, a hole begins, and if more begins
//! than ends, holes end. So the search decides on the lines and the holes that end at them. It leaves
//! the vertical order of the live buffers open: a tree holds all orders that are still possible.

mod embed;
mod holes;
mod lines;
mod sweep;
mod tree;

use std::collections::{BTreeMap, BTreeSet};

use embed::{Line, offsets, replay};
use holes::Hole;
use sweep::{Moment, Path, Start, Sweep};
use tree::{bundle, hash};

use super::bound::gcd;
use super::normal::Normal;
use super::problem::Problem;
use crate::place::exact::instance::MAX_ITEMS;
use crate::tuning::PlaceTuning;

/// Divisor: at least this part of the moments must be balanced (bytes that end equal bytes that begin).
/// Otherwise there are too many holes to find; without holes every moment is balanced.
const MOMENTS_PER_BALANCED: usize = 2;

/// Start of an attempt: a moment of the highest load, or the first moment.
#[derive(Clone, Copy)]
enum From {
    Fullest,
    First,
}

/// Returns the offsets of all items below `height`, if the search finds them. Subtracts the reductions
/// of trees from `budget`. Needs items of one part without fixed offsets.
pub(super) fn pack(
    problem: &Problem,
    normal: &Normal,
    height: u64,
    tuning: &PlaceTuning,
    budget: &mut u64,
) -> Option<Vec<u64>> {
    let size: Vec<u64> = normal.items.iter().map(|item| item.size).collect();
    let unit = size.iter().fold(0, |divisor, size| gcd(divisor, *size));
    let aligned = normal.items.iter().all(|item| unit.is_multiple_of(item.alignment));
    if size.len() > MAX_ITEMS || size.is_empty() || !aligned {
        return None;
    }
    // Collect the moments, and give up if few of them are balanced.
    let mut moments: BTreeMap<u32, Moment> = BTreeMap::new();
    let mut at = |step: u32, item: usize, ends: bool| {
        let moment = moments.entry(step).or_insert_with(|| Moment { ends: Vec::new(), begins: Vec::new() });
        if ends { moment.ends.push(item as u32) } else { moment.begins.push(item as u32) }
    };
    for (index, item) in normal.items.iter().enumerate() {
        let buffer = &problem.buffers[item.buffer as usize];
        at(buffer.start, index, false);
        at(buffer.end, index, true);
    }
    let forth: Vec<Moment> = moments.into_values().collect();
    let sum = |items: &[u32]| items.iter().map(|item| size[*item as usize]).sum::<u64>();
    let balanced = forth.iter().filter(|moment| sum(&moment.ends) == sum(&moment.begins)).count();
    if balanced * MOMENTS_PER_BALANCED < forth.len() {
        return None;
    }
    // Try beam widths, starting points and both directions of time.
    let turned = |moment: &Moment| Moment { ends: moment.begins.clone(), begins: moment.ends.clone() };
    let back: Vec<Moment> = forth.iter().rev().map(turned).collect();
    for width in tuning.beam_widths {
        for from in [From::Fullest, From::First] {
            for moments in [&forth, &back] {
                let mut packing = Packing { size: &size, unit, height: height / unit * unit, width, budget };
                if let Some(offsets) = packing.attempt(moments, from) {
                    return Some(offsets);
                }
            }
        }
        if *budget == 0 {
            break;
        }
    }
    None
}

struct Packing<'a> {
    size: &'a [u64],
    unit: u64,
    height: u64,
    width: usize,
    budget: &'a mut u64,
}

impl Packing<'_> {
    /// Sweeps from a moment to the last one, then from the orders that this allows at that moment to the
    /// first one.
    fn attempt(&mut self, moments: &[Moment], from: From) -> Option<Vec<u64>> {
        let (at, live) = self.beginning(moments, from);
        let room = self.height.checked_sub(live.iter().map(|item| self.size[*item as usize]).sum())?;
        let count = self.size.len() as u32;
        let holes: Vec<Hole> = (room > 0).then_some(Hole { leaf: count, size: room }).into_iter().collect();
        let leaves = live.iter().copied().chain(holes.iter().map(|hole| hole.leaf));
        let start = Start { tree: bundle(leaves), next: count + 1, holes, cost: 0 };
        let right = self.sweep(&moments[at + 1..], &[start]);
        let (starts, of) = self.orders_at_beginning(&right);
        let turned = |moment: &Moment| Moment { ends: moment.begins.clone(), begins: moment.ends.clone() };
        let before: Vec<Moment> = moments[..=at].iter().rev().map(turned).collect();
        let left = self.sweep(&before, &starts);
        left.iter().find_map(|left| self.join(of[left.start], left))
    }

    fn sweep(&mut self, moments: &[Moment], starts: &[Start]) -> Vec<Path> {
        Sweep { size: self.size, unit: self.unit, width: self.width, budget: self.budget }
            .run(moments, starts)
    }

    /// Returns the moment after which an attempt begins, and the items that live there.
    fn beginning(&self, moments: &[Moment], from: From) -> (usize, Vec<u32>) {
        let mut load = 0;
        let mut loads = Vec::with_capacity(moments.len());
        for moment in moments {
            load += moment.begins.iter().map(|item| self.size[*item as usize]).sum::<u64>();
            load -= moment.ends.iter().map(|item| self.size[*item as usize]).sum::<u64>();
            loads.push(load);
        }
        let most = loads.iter().copied().max().unwrap_or(0);
        let full: Vec<usize> = (0..loads.len()).filter(|place| loads[*place] == most).collect();
        let at = match from {
            From::Fullest => full.get(full.len() / 2).copied().unwrap_or(0),
            From::First => 0,
        };
        let mut live = BTreeSet::new();
        for moment in &moments[..=at] {
            moment.ends.iter().for_each(|item| _ = live.remove(item));
            live.extend(&moment.begins);
        }
        (at, live.into_iter().collect())
    }

    /// Returns the distinct orders that the paths allow at their beginning, and the path of each.
    fn orders_at_beginning<'p>(&self, paths: &'p [Path]) -> (Vec<Start>, Vec<&'p Path>) {
        let count = self.size.len() as u32;
        let (mut starts, mut of, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
        for path in paths {
            let lines: Vec<Line> = path.lines.iter().rev().map(Line::reversed).collect();
            let Some((_, tree)) = replay(&path.last, &lines) else { continue };
            let size = |leaf: u32| path.size.get(&leaf).copied().unwrap_or(0);
            if seen.insert(hash(&tree, &|leaf| {
                if leaf < count { u64::from(leaf) } else { 1 << 63 | size(leaf) }
            })) {
                let parts = path.parts.get(&count).into_iter().flatten();
                let holes = parts.map(|leaf| Hole { leaf: *leaf, size: size(*leaf) }).collect();
                starts.push(Start { tree, holes, next: path.next, cost: path.cost - paths[0].cost });
                of.push(path);
            }
        }
        (starts, of)
    }

    /// Returns the offsets that follow from the lines on both sides of the beginning.
    fn join(&self, right: &Path, left: &Path) -> Option<Vec<u64>> {
        let cut = |leaves: &[u32]| -> Vec<u32> {
            leaves
                .iter()
                .flat_map(|leaf| left.parts.get(leaf).cloned().unwrap_or_else(|| vec![*leaf]))
                .collect()
        };
        let reversed = right.lines.iter().rev().map(|line| Line { from: cut(&line.to), to: cut(&line.from) });
        let lines: Vec<Line> = reversed.chain(left.lines.iter().cloned()).collect();
        let mut size: BTreeMap<u32, u64> = (0..).zip(self.size.iter().copied()).collect();
        size.extend(right.size.iter().chain(&left.size).map(|(leaf, size)| (*leaf, *size)));
        offsets(&cut(&right.last), &lines, &size, self.size.len())
    }
}

#[cfg(test)]
mod tests;
