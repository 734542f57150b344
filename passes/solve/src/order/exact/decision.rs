//! One decision: is there an order whose peak is at most a given number of bytes? Uses the pairs that
//! the peak forces, heuristics, and search in both directions.

use super::pairs::{pairs, ties};
use super::search::{Verdict, decide};
use super::span::{Span, segments};
use crate::order::cuts::narrow::{Narrowed, narrow, sorted};
use crate::order::cuts::witness::Witnesses;
use crate::order::heuristics::portfolio;
use crate::order::model::{Model, peak, positions, profile};
use crate::order::problem::Problem;
use crate::tuning::OrderTuning;

/// Runs `work`, which counts arcs, with at most `share` of the looks converted to arcs. Charges the arcs
/// used as looks.
pub(in crate::order) fn with_arcs<T>(
    arcs_per_look: u64,
    looks: &mut u64,
    share: u64,
    work: impl FnOnce(&mut u64) -> T,
) -> T {
    let arcs_per_look = arcs_per_look.max(1);
    let most = share.min(*looks).saturating_mul(arcs_per_look);
    let mut arcs = most;
    let result = work(&mut arcs);
    *looks = looks.saturating_sub((most - arcs).div_ceil(arcs_per_look));
    result
}

/// Runs `work` with at most `most` of the looks, and charges the looks used.
pub(in crate::order) fn limited<T>(looks: &mut u64, most: u64, work: impl FnOnce(&mut u64) -> T) -> T {
    let before = most.min(*looks);
    let mut left = before;
    let result = work(&mut left);
    *looks -= before - left;
    result
}

/// A problem with the predecessors that a peak forces.
#[derive(Clone)]
pub(in crate::order) struct Decision<'t> {
    tuning: &'t OrderTuning,
    problem: Problem,
    /// A topological order of the problem.
    order: Vec<u32>,
    /// Peak that forces the added predecessors, in bytes.
    pub bound: u64,
    /// Peak for which no further pair follows, in bytes.
    narrowed: Option<u64>,
    /// Lowest peak at which fewer pairs would be forced, in bytes.
    refused: u64,
    /// Known cuts.
    witnesses: Witnesses,
    /// Number of pairs on which the problem was split.
    depth: u32,
}

/// The possible sides of a problem that is split on a pair.
pub(in crate::order) struct Sides<'t> {
    pub decisions: Vec<Decision<'t>>,
    /// Lowest peak that may be possible on the excluded sides, in bytes.
    next: u64,
}

impl Sides<'_> {
    /// Returns a score of the pair: the product, over its sides, of the newly ordered pairs of
    /// operations plus one. `known` is the number of ordered pairs before the split.
    pub fn worth(&self, known: u64) -> u64 {
        let news =
            |side: &Decision<'_>| 1 + ties(&Model::new(&side.problem), &side.order).saturating_sub(known);
        self.decisions.iter().map(news).fold(1, u64::saturating_mul)
    }
}

impl<'t> Decision<'t> {
    pub fn new(problem: &Problem, order: &[u32], tuning: &'t OrderTuning) -> Self {
        Self {
            tuning,
            problem: problem.clone(),
            order: order.to_vec(),
            bound: u64::MAX,
            narrowed: None,
            refused: u64::MAX,
            witnesses: Witnesses::default(),
            depth: 0,
        }
    }

    /// Decides whether there is an order with peak at most `target`. Adds the forced pairs first, then
    /// tries heuristics, then searches each segment, and at last splits on a pair of operations that no
    /// predecessor orders.
    pub fn decide(&mut self, target: u64, looks: &mut u64) -> Verdict {
        if let Some(next) = self.narrow(target, looks) {
            return Verdict::Impossible(next);
        }
        let model = Model::new(&self.problem);
        *looks =
            looks.saturating_sub(self.tuning.heuristic_looks.max(1).saturating_mul(model.operations as u64));
        let best = portfolio::improve(&model, &self.order);
        if best.peak <= target {
            return Verdict::Found(best.order);
        }
        self.learn(&model, &best.tried, target);
        self.order = best.order;
        // If the problem may be split, keep most of the looks for the parts.
        let may_split = self.narrowed == Some(target) && model.operations <= self.tuning.split_operations;
        let most = match (may_split, self.depth) {
            (false, _) => u64::MAX,
            (true, 0) => self.tuning.root_share.of(*looks),
            (true, _) => self.tuning.part_looks,
        };
        match limited(looks, most, |looks| self.search(&model, target, looks)) {
            Verdict::Limit if may_split && *looks > 0 => self.split(&model, target, looks),
            verdict => verdict,
        }
    }

    /// Searches without the small buffers, then with all buffers.
    fn search(&mut self, model: &Model, target: u64, looks: &mut u64) -> Verdict {
        match self.search_coarse(target, looks) {
            Verdict::Limit => {}
            other => return other,
        }
        match search_segments(model, &self.order, target, self.tuning, looks) {
            Verdict::Impossible(next) => Verdict::Impossible(next.min(self.refused)),
            other => other,
        }
    }

    /// Stores as witnesses the steps of `orders` that have at most `bound` bytes.
    pub fn learn(&mut self, model: &Model, orders: &[Vec<u32>], bound: u64) {
        for order in orders {
            self.witnesses.add_order(model, order, &profile(model, order), bound);
        }
    }

    /// Splits on a pair of operations that no predecessor orders, and decides each side. A side without
    /// an order of the target peak is left out.
    pub fn split(&self, model: &Model, target: u64, looks: &mut u64) -> Verdict {
        let Some(Sides { decisions, mut next }) = self.best_sides(model, target, looks) else {
            return Verdict::Limit;
        };
        for mut side in decisions {
            match side.decide(target, looks) {
                Verdict::Impossible(peak) => next = next.min(peak),
                other => return other,
            }
        }
        Verdict::Impossible(next)
    }

    /// Returns the sides of the pair with the highest score, or of the first pair with an impossible
    /// side.
    pub fn best_sides(&self, model: &Model, target: u64, looks: &mut u64) -> Option<Sides<'t>> {
        let enough = *looks - self.tuning.root_share.of(*looks);
        let known = ties(model, &self.order);
        let mut best: Option<(u64, Sides<'t>)> = None;
        for pair in pairs(model, &self.order, self.tuning, looks) {
            let sides = self.sides(pair, target, looks);
            if sides.decisions.len() < 2 {
                return Some(sides);
            }
            let worth = sides.worth(known);
            if best.as_ref().is_none_or(|(most, _)| worth > *most) {
                best = Some((worth, sides));
            }
            if *looks < enough {
                break;
            }
        }
        best.map(|(_, sides)| sides)
    }

    /// Returns the sides of a pair with their forced predecessors, without the sides in which the target
    /// is impossible.
    pub fn sides(&self, (first, second): (u32, u32), target: u64, looks: &mut u64) -> Sides<'t> {
        let position = positions(&self.order);
        let mut sides = Sides { decisions: Vec::new(), next: u64::MAX };
        for (before, after) in [(first, second), (second, first)] {
            let mut side = Self { narrowed: None, depth: self.depth + 1, ..self.clone() };
            side.problem.operations[after as usize].predecessors.push(before);
            side.witnesses.demand(before, after);
            let Some(order) = sorted(&side.problem, &position) else { continue };
            side.order = order;
            match side.narrow(target, looks) {
                Some(next) => sides.next = sides.next.min(next),
                None => sides.decisions.push(side),
            }
        }
        sides
    }

    /// Adds the predecessors that the target forces. Returns the next peak that may be possible if the
    /// target is impossible.
    fn narrow(&mut self, target: u64, looks: &mut u64) -> Option<u64> {
        if self.narrowed == Some(target) {
            return None;
        }
        let steps = profile(&Model::new(&self.problem), &self.order);
        let share = *looks / 4 * 3;
        let witnesses = &mut self.witnesses;
        match with_arcs(self.tuning.arcs_per_look, looks, share, |arcs| {
            narrow(&self.problem, &self.order, &steps, target, witnesses, arcs)
        }) {
            Narrowed::Impossible(next) => Some(next.min(self.refused)),
            Narrowed::Problem { problem, order, refused, complete } => {
                let narrowed = complete.then_some(target);
                *self = Self {
                    tuning: self.tuning,
                    problem,
                    order,
                    bound: target,
                    narrowed,
                    refused: refused.min(self.refused),
                    witnesses: std::mem::take(&mut self.witnesses),
                    depth: self.depth,
                };
                None
            }
        }
    }

    /// Searches without the small buffers, with half of the remaining looks. Returns `Limit` if that
    /// decides nothing.
    fn search_coarse(&mut self, target: u64, looks: &mut u64) -> Verdict {
        let Some(coarse) = coarse(&self.problem, self.tuning.negligible.of(target)) else {
            return Verdict::Limit;
        };
        let half = *looks / 2;
        match limited(looks, half, |looks| {
            search_segments(&Model::new(&coarse), &self.order, target, self.tuning, looks)
        }) {
            Verdict::Impossible(next) => Verdict::Impossible(next.min(self.refused)),
            Verdict::Limit => Verdict::Limit,
            Verdict::Found(order) => {
                let model = Model::new(&self.problem);
                let best = portfolio::improve(&model, &order);
                if best.peak <= target {
                    return Verdict::Found(best.order);
                }
                if best.peak < peak(&model, &self.order) {
                    self.order = best.order;
                }
                Verdict::Limit
            }
        }
    }
}

/// Returns the problem with all buffers of fewer than `least` bytes set to zero, or `None` if there are
/// none. No order needs more bytes in it, so a peak that is impossible in it is impossible in the full
/// problem.
fn coarse(problem: &Problem, least: u64) -> Option<Problem> {
    let is_small = |size: u64| size > 0 && size < least;
    if !problem.buffers.iter().any(|buffer| is_small(buffer.size)) {
        return None;
    }
    let mut problem = problem.clone();
    problem.buffers.iter_mut().filter(|buffer| is_small(buffer.size)).for_each(|buffer| buffer.size = 0);
    Some(problem)
}

/// Decides each segment of an order whose peak is above the target.
fn search_segments(
    model: &Model,
    base: &[u32],
    target: u64,
    tuning: &OrderTuning,
    looks: &mut u64,
) -> Verdict {
    let position = positions(base);
    let steps = profile(model, base);
    let mut order = base.to_vec();
    for range in segments(model, base, &position) {
        if steps[range.clone()].iter().all(|bytes| *bytes <= target) {
            continue;
        }
        let span = Span::new(model, base, &position, range.clone());
        match decide_both_ways(&Model::new(&span.problem), target, tuning, looks) {
            Verdict::Found(local) => {
                for (place, local) in range.zip(local) {
                    order[place] = span.operations[local as usize];
                }
            }
            other => return other,
        }
    }
    Verdict::Found(order)
}

/// Searches a problem and its reverse in turns, with slices that grow by a factor of 8, because which
/// direction is easier is unknown.
pub(in crate::order) fn decide_both_ways(
    forward: &Model,
    target: u64,
    tuning: &OrderTuning,
    limit: &mut u64,
) -> Verdict {
    let backward = forward.reversed();
    let mut slice = tuning.first_slice.max(1);
    while *limit > 0 {
        for model in [forward, &backward] {
            match limited(limit, slice, |looks| decide(model, target, looks)) {
                Verdict::Limit => {}
                Verdict::Found(mut order) if model.backward => {
                    order.reverse();
                    return Verdict::Found(order);
                }
                other => return other,
            }
        }
        slice = slice.saturating_mul(8);
    }
    Verdict::Limit
}
