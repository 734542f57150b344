//! One segment: bounds, then ever lower peaks, each decided by what it forces, by heuristics, and by search in both directions.

use super::exact::positions;
use super::model::{Model, peak, profile};
use super::narrow::{Narrowed, narrow};
use super::problem::Problem;
use super::search::{Verdict, decide};
use super::window::{Window, segments};
use super::{bound, closure, portfolio};

/// Arcs of a network that cost about as much as one look at an operation.
const ARCS_PER_LOOK: u64 = 8;

/// One in so many looks goes to the first peak that is asked for, or so many for each operation; in each further round, each peak gets more.
const FIRST_SHARE: u64 = 64;
const FIRST_LOOKS: u64 = 1_500;
const SHARE_GROWTH: u64 = 4;

/// Peaks that may take too long in one round.
const GIVEN_UP: u32 = 3;

/// Looks at each operation that the heuristics cost.
const PORTFOLIO_LOOKS: u64 = 400;

/// Looks of the first slice of each direction of a search; each further one is eight times as long.
const FIRST_SLICE: u64 = 80_000;

/// Buffers of less than one in so many of the bytes asked for are left out of the coarse search.
const COARSE: u64 = 2_048;

/// What is known of a segment.
#[derive(Clone)]
pub(super) struct Answer {
    /// Its operations, by number within the segment.
    pub order: Vec<u32>,
    pub peak: u64,
    pub lower_bound: u64,
}

/// Runs what counts arcs at the cost of looks.
fn with_arcs<T>(looks: &mut u64, share: u64, work: impl FnOnce(&mut u64) -> T) -> T {
    let most = share.min(*looks).saturating_mul(ARCS_PER_LOOK);
    let mut arcs = most;
    let result = work(&mut arcs);
    *looks = looks.saturating_sub((most - arcs).div_ceil(ARCS_PER_LOOK));
    result
}

/// Lowers a segment's peak by search until it is proven or the looks are spent.
pub(super) fn solve_window(window: &Window, looks: &mut u64) -> Answer {
    let model = Model::new(&window.problem);
    let given: Vec<u32> = (0..model.operations as u32).collect();
    let mut answer = Answer { peak: peak(&model, &given), order: given, lower_bound: bound::lower_bound(&model) };
    if answer.peak > answer.lower_bound {
        let better = portfolio::improve(&model, &answer.order);
        (answer.order, answer.peak) = (better.order, better.peak);
    }
    if answer.peak > answer.lower_bound {
        let steps = profile(&model, &answer.order);
        let share = *looks / 4;
        answer.lower_bound =
            with_arcs(looks, share, |arcs| closure::raise(&model, &answer.order, &steps, answer.lower_bound, arcs));
    }
    let mut decisions = vec![Decision::new(&window.problem, &answer.order)];
    let granule = granule(&window.problem);
    let mut share = (*looks / FIRST_SHARE).max(FIRST_LOOKS * model.operations as u64);
    while answer.peak > answer.lower_bound && *looks > 0 {
        round(&model, &mut answer, &mut decisions, granule, share.max(1), looks);
        share = share.saturating_mul(SHARE_GROWTH).max(1);
    }
    answer
}

/// Asks for peaks between bound and best peak with the same share of looks each, until what is left between those that took too long is nothing.
fn round(model: &Model, answer: &mut Answer, decisions: &mut Vec<Decision>, granule: u64, share: u64, looks: &mut u64) {
    let mut targets = Targets { hard: None, upward: false, granule };
    let mut given_up = 0;
    while *looks > 0
        && given_up < GIVEN_UP
        && let Some(target) = targets.next(answer.lower_bound, answer.peak)
    {
        // What is forced at one peak is forced at all lower ones.
        let known = decisions.iter().filter(|decision| decision.bound >= target).min_by_key(|decision| decision.bound);
        let Some(mut decision) = known.cloned() else { return };
        let before = share.min(*looks);
        let mut left = before;
        let verdict = decision.decide(target, &mut left);
        *looks -= before - left;
        match verdict {
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

/// The common divisor of all sizes: every peak is a multiple of it.
fn granule(problem: &Problem) -> u64 {
    fn common(a: u64, b: u64) -> u64 {
        if b == 0 { a } else { common(b, a % b) }
    }
    let sizes = problem.buffers.iter().map(|buffer| buffer.size);
    sizes.chain(problem.operations.iter().map(|operation| operation.scratch)).fold(0, common).max(1)
}

/// Which peaks are asked for: half way between bound and peak, and where that takes too long, half way to either of them by turns.
struct Targets {
    /// The lowest and the highest peak that took too long.
    hard: Option<(u64, u64)>,
    upward: bool,
    granule: u64,
}

impl Targets {
    /// The next peak to ask for, at least the bound and below the best peak; all are multiples of the granule.
    fn next(&mut self, bound: u64, peak: u64) -> Option<u64> {
        let middle = |low: u64, high: u64| (low < high).then(|| (low + (high - low) / 2) / self.granule * self.granule);
        let bound = bound.next_multiple_of(self.granule);
        let Some((low, high)) = self.hard.filter(|(_, high)| *high < peak) else { return middle(bound, peak) };
        self.upward = !self.upward;
        let (above, below) = (middle(high.max(bound) + self.granule, peak), middle(bound, low));
        if self.upward { above.or(below) } else { below.or(above) }
    }

    fn give_up(&mut self, target: u64) {
        let (low, high) = self.hard.unwrap_or((target, target));
        self.hard = Some((low.min(target), high.max(target)));
    }
}

/// A problem with what is forced at a peak.
#[derive(Clone)]
struct Decision {
    problem: Problem,
    /// An order of the problem.
    order: Vec<u32>,
    /// The peak at which all that was added is forced.
    bound: u64,
    /// The peak for which nothing more follows.
    narrowed: Option<u64>,
    /// The lowest peak at which less would be forced.
    refused: u64,
}

impl Decision {
    fn new(problem: &Problem, order: &[u32]) -> Self {
        Self { problem: problem.clone(), order: order.to_vec(), bound: u64::MAX, narrowed: None, refused: u64::MAX }
    }

    /// Decides whether there is an order with peak at most `target`: what the peak forces first, then heuristics, then each segment by search.
    fn decide(&mut self, target: u64, looks: &mut u64) -> Verdict {
        if let Some(next) = self.narrow(target, looks) {
            return Verdict::Impossible(next);
        }
        let model = Model::new(&self.problem);
        *looks = looks.saturating_sub(PORTFOLIO_LOOKS * model.operations as u64);
        let best = portfolio::improve(&model, &self.order);
        if best.peak <= target {
            return Verdict::Found(best.order);
        }
        self.order = best.order;
        match self.search_coarse(target, looks) {
            Verdict::Limit => {}
            other => return other,
        }
        match search_segments(&model, &self.order, target, looks) {
            Verdict::Impossible(next) => Verdict::Impossible(next.min(self.refused)),
            other => other,
        }
    }

    /// Adds what is forced at the target; gives the next peak that is possible if this one is not.
    fn narrow(&mut self, target: u64, looks: &mut u64) -> Option<u64> {
        if self.narrowed == Some(target) {
            return None;
        }
        let steps = profile(&Model::new(&self.problem), &self.order);
        let share = *looks / 4 * 3;
        match with_arcs(looks, share, |arcs| narrow(&self.problem, &self.order, &steps, target, arcs)) {
            Narrowed::Impossible(next) => Some(next.min(self.refused)),
            Narrowed::Problem { problem, order, refused, complete } => {
                let narrowed = complete.then_some(target);
                *self = Self { problem, order, bound: target, narrowed, refused: refused.min(self.refused) };
                None
            }
        }
    }

    /// Searches without the small buffers, with half of what is left; `Limit` if that tells nothing.
    fn search_coarse(&mut self, target: u64, looks: &mut u64) -> Verdict {
        let Some(coarse) = coarse(&self.problem, target) else { return Verdict::Limit };
        let before = *looks / 2;
        let mut left = before;
        let verdict = search_segments(&Model::new(&coarse), &self.order, target, &mut left);
        *looks -= before - left;
        match verdict {
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

/// The problem without the bytes of its small buffers, if there are any. No order of it has more bytes anywhere, so what it excludes is excluded.
fn coarse(problem: &Problem, target: u64) -> Option<Problem> {
    let is_small = |size: u64| size > 0 && size < target / COARSE;
    if !problem.buffers.iter().any(|buffer| is_small(buffer.size)) {
        return None;
    }
    let mut problem = problem.clone();
    problem.buffers.iter_mut().filter(|buffer| is_small(buffer.size)).for_each(|buffer| buffer.size = 0);
    Some(problem)
}

/// Decides each segment of an order that does not keep the target.
fn search_segments(model: &Model, base: &[u32], target: u64, looks: &mut u64) -> Verdict {
    let position = positions(base);
    let steps = profile(model, base);
    let mut order = base.to_vec();
    for range in segments(model, base, &position) {
        if steps[range.clone()].iter().all(|bytes| *bytes <= target) {
            continue;
        }
        let window = Window::new(model, base, &position, range.clone());
        match decide_both_ways(&Model::new(&window.problem), target, looks) {
            Verdict::Found(local) => {
                for (place, local) in range.zip(local) {
                    order[place] = window.operations[local as usize];
                }
            }
            other => return other,
        }
    }
    Verdict::Found(order)
}

/// Searches a problem and its reverse by turns, in longer and longer slices: which of them is easier is not known before.
pub(super) fn decide_both_ways(forward: &Model, target: u64, limit: &mut u64) -> Verdict {
    let backward = forward.reversed();
    let mut slice = FIRST_SLICE;
    while *limit > 0 {
        for model in [forward, &backward] {
            let mut left = slice.min(*limit);
            let before = left;
            let verdict = decide(model, target, &mut left);
            *limit -= before - left;
            match verdict {
                Verdict::Limit => {}
                Verdict::Found(mut order) if model.backward => {
                    order.reverse();
                    return Verdict::Found(order);
                }
                other => return other,
            }
        }
        slice *= 8;
    }
    Verdict::Limit
}
