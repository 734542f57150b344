//! Solves one segment: computes bounds, then decides ever lower peaks until the best peak is proven or
//! the looks are spent.

use super::contract::contract;
use super::decision::{Decision, limited, with_arcs};
use super::search::Verdict;
use super::span::Span;
use super::twins;
use crate::order::bound;
use crate::order::cuts::closure;
use crate::order::heuristics::portfolio;
use crate::order::model::{Model, peak, profile};
use crate::order::problem::Problem;
use crate::tuning::OrderTuning;

/// Best order and bounds of a segment.
#[derive(Clone)]
pub(in crate::order) struct Answer {
    /// Operations in order, by number within the segment.
    pub order: Vec<u32>,
    pub peak: u64,
    pub lower_bound: u64,
}

/// Lowers a segment's peak by search until the peak is proven, no order has fewer than `below` bytes, or
/// the looks are spent.
pub(in crate::order) fn solve_window(
    span: &Span,
    below: u64,
    tuning: &OrderTuning,
    looks: &mut u64,
) -> Answer {
    let contracted = contract(&span.problem);
    let given: Vec<u32> = (0..contracted.problem.operations.len() as u32).collect();
    let narrower = twins::ordered(&contracted.problem, &given);
    let (problem, given) = narrower
        .as_ref()
        .map_or((&contracted.problem, given.as_slice()), |(problem, order)| (problem, order.as_slice()));
    let answer = solve_problem(problem, given, below, tuning, looks);
    Answer { order: contracted.expand(&answer.order), ..answer }
}

fn solve_problem(
    problem: &Problem,
    given: &[u32],
    below: u64,
    tuning: &OrderTuning,
    looks: &mut u64,
) -> Answer {
    let model = Model::new(problem);
    let mut answer =
        Answer { peak: peak(&model, given), order: given.to_vec(), lower_bound: bound::lower_bound(&model) };
    let asked = Asked::new(problem, below);
    let mut tried = Vec::new();
    // Heuristics, then a lower bound by minimum cuts.
    if asked.ceiling(&answer) > answer.lower_bound {
        let better = portfolio::improve(&model, &answer.order);
        (answer.order, answer.peak, tried) = (better.order, better.peak, better.tried);
    }
    if asked.ceiling(&answer) > answer.lower_bound {
        let steps = profile(&model, &answer.order);
        let share = *looks / 4;
        answer.lower_bound = with_arcs(tuning.arcs_per_look, looks, share, |arcs| {
            closure::raise(&model, &answer.order, &steps, answer.lower_bound, arcs)
        });
    }
    // Decide peaks in rounds, each with more looks for a decision.
    let mut first = Decision::new(problem, &answer.order, tuning);
    first.learn(&model, &tried, answer.peak);
    let mut decisions = vec![first];
    let mut share =
        tuning.first_share.of(*looks).max(tuning.first_looks.saturating_mul(model.operations as u64));
    while asked.ceiling(&answer) > answer.lower_bound && *looks > 0 {
        round(&model, &mut answer, &mut decisions, asked, tuning, share.max(1), looks);
        share = share.saturating_mul(tuning.share_growth.max(2)).max(1);
    }
    answer
}

/// Decides peaks between bound and ceiling, each with `share` looks, until no peak is left between those
/// that took too long.
fn round(
    model: &Model,
    answer: &mut Answer,
    decisions: &mut Vec<Decision<'_>>,
    asked: Asked,
    tuning: &OrderTuning,
    share: u64,
    looks: &mut u64,
) {
    let granule = asked.granule;
    let mut targets = Targets { hard: None, upward: false, granule };
    let mut given_up = 0;
    while *looks > 0
        && given_up < tuning.hard_peaks.max(1)
        && let Some(target) = targets.next(answer.lower_bound, asked.ceiling(answer))
    {
        // A pair forced at one peak is forced at all lower peaks.
        let known = decisions
            .iter()
            .filter(|decision| decision.bound >= target)
            .min_by_key(|decision| decision.bound);
        let Some(mut decision) = known.cloned() else { return };
        // If this is the only peak left, it gets all remaining looks.
        let last = asked.ceiling(answer) - answer.lower_bound.next_multiple_of(granule) <= granule;
        let most = if last { u64::MAX } else { share };
        match limited(looks, most, |looks| decision.decide(target, looks)) {
            Verdict::Found(order) => {
                answer.peak = peak(model, &order);
                answer.order = order;
            }
            Verdict::Impossible(next) => answer.lower_bound = next.min(answer.peak),
            Verdict::Limit => {
                targets.give_up(target);
                given_up += 1;
            }
        }
        decisions.retain(|other| other.bound != decision.bound);
        decisions.push(decision);
    }
}

/// The range of peaks worth deciding.
#[derive(Clone, Copy)]
struct Asked {
    /// Exclusive upper bound of the peaks worth deciding, in bytes; a multiple of the granule.
    below: u64,
    granule: u64,
}

impl Asked {
    fn new(problem: &Problem, below: u64) -> Self {
        let granule = granule(problem);
        Self { below: below.checked_next_multiple_of(granule).unwrap_or(u64::MAX), granule }
    }

    /// Returns the exclusive upper bound of the peaks to decide, in bytes.
    fn ceiling(self, answer: &Answer) -> u64 {
        answer.peak.min(self.below)
    }
}

/// Returns the greatest common divisor of all sizes. Every peak is a multiple of it.
fn granule(problem: &Problem) -> u64 {
    fn common(a: u64, b: u64) -> u64 {
        if b == 0 { a } else { common(b, a % b) }
    }
    let sizes = problem.buffers.iter().map(|buffer| buffer.size);
    sizes.chain(problem.operations.iter().map(|operation| operation.scratch)).fold(0, common).max(1)
}

/// Sequence of peaks to decide: half way between bound and best peak. If that takes too long, half way
/// from there to either end, in turns.
struct Targets {
    /// Lowest and highest peak that took too long.
    hard: Option<(u64, u64)>,
    upward: bool,
    granule: u64,
}

impl Targets {
    /// Returns the next peak to decide, at least the bound and below the best peak. All are multiples of
    /// the granule.
    fn next(&mut self, bound: u64, peak: u64) -> Option<u64> {
        let middle = |low: u64, high: u64| {
            (low < high).then(|| (low + (high - low) / 2) / self.granule * self.granule)
        };
        let bound = bound.next_multiple_of(self.granule);
        let Some((low, high)) = self.hard.filter(|(_, high)| *high < peak) else {
            return middle(bound, peak);
        };
        self.upward = !self.upward;
        let (above, below) = (middle(high.max(bound) + self.granule, peak), middle(bound, low));
        if self.upward { above.or(below) } else { below.or(above) }
    }

    fn give_up(&mut self, target: u64) {
        let (low, high) = self.hard.unwrap_or((target, target));
        self.hard = Some((low.min(target), high.max(target)));
    }
}
