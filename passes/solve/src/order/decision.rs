//! One decision: is there an order with peak at most so much? By what that forces, by heuristics, and by search in both directions.

use super::model::{Model, peak, positions, profile};
use super::narrow::{Narrowed, narrow, sorted};
use super::pairs::{pairs, ties};
use super::portfolio;
use super::problem::Problem;
use super::search::{Verdict, decide};
use super::span::{Span, segments};
use super::witness::Witnesses;
use crate::tuning::OrderTuning;

/// Runs what counts arcs at the cost of looks.
pub(super) fn with_arcs<T>(arcs_per_look: u64, looks: &mut u64, share: u64, work: impl FnOnce(&mut u64) -> T) -> T {
    let arcs_per_look = arcs_per_look.max(1);
    let most = share.min(*looks).saturating_mul(arcs_per_look);
    let mut arcs = most;
    let result = work(&mut arcs);
    *looks = looks.saturating_sub((most - arcs).div_ceil(arcs_per_look));
    result
}

/// Runs what counts looks with no more than `most` of them.
pub(super) fn limited<T>(looks: &mut u64, most: u64, work: impl FnOnce(&mut u64) -> T) -> T {
    let before = most.min(*looks);
    let mut left = before;
    let result = work(&mut left);
    *looks -= before - left;
    result
}

/// A problem with what is forced at a peak.
#[derive(Clone)]
pub(super) struct Decision<'t> {
    tuning: &'t OrderTuning,
    problem: Problem,
    /// An order of the problem.
    order: Vec<u32>,
    /// The peak at which all that was added is forced.
    pub bound: u64,
    /// The peak for which nothing more follows.
    narrowed: Option<u64>,
    /// The lowest peak at which less would be forced.
    refused: u64,
    /// What is known of cuts.
    witnesses: Witnesses,
    /// Pairs on which it was split.
    depth: u32,
}

/// What is left of a problem that is split.
pub(super) struct Sides<'t> {
    pub decisions: Vec<Decision<'t>>,
    /// The lowest peak that may be possible in the others.
    next: u64,
}

impl Sides<'_> {
    /// How much follows from the pair either way, where `known` says how many operations were tied to how many others before.
    pub fn worth(&self, known: u64) -> u64 {
        let news = |side: &Decision<'_>| 1 + ties(&Model::new(&side.problem), &side.order).saturating_sub(known);
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

    /// Decides whether there is an order with peak at most `target`: what the peak forces first, then heuristics, then each segment by search, then either
    /// side of a pair of operations of which neither need run first.
    pub fn decide(&mut self, target: u64, looks: &mut u64) -> Verdict {
        if let Some(next) = self.narrow(target, looks) {
            return Verdict::Impossible(next);
        }
        let model = Model::new(&self.problem);
        *looks = looks.saturating_sub(self.tuning.heuristic_looks.max(1).saturating_mul(model.operations as u64));
        let best = portfolio::improve(&model, &self.order);
        if best.peak <= target {
            return Verdict::Found(best.order);
        }
        self.learn(&model, &best.tried, target);
        self.order = best.order;
        // Of what may be split, most of the looks are for the parts.
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

    /// Searches without the small buffers, then with them.
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

    /// Keeps what orders show at their steps of at most `bound` bytes.
    pub fn learn(&mut self, model: &Model, orders: &[Vec<u32>], bound: u64) {
        for order in orders {
            self.witnesses.add_order(model, order, &profile(model, order), bound);
        }
    }

    /// Decides both sides of a pair of operations of which neither need run first; of one alone where the other has no order with the peak.
    pub fn split(&self, model: &Model, target: u64, looks: &mut u64) -> Verdict {
        let Some(Sides { decisions, mut next }) = self.best_sides(model, target, looks) else { return Verdict::Limit };
        for mut side in decisions {
            match side.decide(target, looks) {
                Verdict::Impossible(peak) => next = next.min(peak),
                other => return other,
            }
        }
        Verdict::Impossible(next)
    }

    /// The sides of the pair from which most follows either way, or of the first one of which a side is impossible.
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

    /// Both sides of a pair with what is forced then, but for those in which the target is impossible.
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

    /// Adds what is forced at the target; gives the next peak that is possible if this one is not.
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

    /// Searches without the small buffers, with half of what is left; `Limit` if that tells nothing.
    fn search_coarse(&mut self, target: u64, looks: &mut u64) -> Verdict {
        let Some(coarse) = coarse(&self.problem, self.tuning.negligible.of(target)) else { return Verdict::Limit };
        let half = *looks / 2;
        match limited(looks, half, |looks| search_segments(&Model::new(&coarse), &self.order, target, self.tuning, looks)) {
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

/// The problem without the bytes of its buffers of fewer than `least` bytes, if there are any. No order of it has more bytes anywhere, so what it excludes is excluded.
fn coarse(problem: &Problem, least: u64) -> Option<Problem> {
    let is_small = |size: u64| size > 0 && size < least;
    if !problem.buffers.iter().any(|buffer| is_small(buffer.size)) {
        return None;
    }
    let mut problem = problem.clone();
    problem.buffers.iter_mut().filter(|buffer| is_small(buffer.size)).for_each(|buffer| buffer.size = 0);
    Some(problem)
}

/// Decides each segment of an order that does not keep the target.
fn search_segments(model: &Model, base: &[u32], target: u64, tuning: &OrderTuning, looks: &mut u64) -> Verdict {
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

/// Searches a problem and its reverse by turns, in longer and longer slices: which of them is easier is not known before.
pub(super) fn decide_both_ways(forward: &Model, target: u64, tuning: &OrderTuning, limit: &mut u64) -> Verdict {
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
