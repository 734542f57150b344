//! Proof and improvement: segments between cuts, each decided by search, the worst first; windows around the peak where a segment is too hard.

use std::collections::BTreeMap;
use std::ops::Range;

use super::bound;
use super::model::{Model, peak, profile};
use super::portfolio::{self, Best};
use super::search::{Verdict, decide};
use super::window::{Window, segments};

/// Looks at operations that cost about as much as one node of the limit.
const LOOKS_PER_NODE: u64 = 1_000;

/// Widths of the windows around the peak, in operations.
const WIDTHS: [usize; 4] = [24, 48, 96, 192];

/// Looks that one window may take.
const WINDOW_LOOKS: u64 = 120_000;

/// What is known of a segment.
#[derive(Clone)]
struct Answer {
    /// Its operations, by number within the segment.
    order: Vec<u32>,
    peak: u64,
    lower_bound: u64,
}

/// What is known of the whole.
pub(super) struct Known {
    pub lower_bound: u64,
    pub complete: bool,
    pub nodes: u64,
}

/// Improves `best` and finds a lower bound of all orders.
pub(super) fn improve(model: &Model, best: &mut Best<'_>, limit: u64) -> Known {
    let mut looks = limit.saturating_mul(LOOKS_PER_NODE);
    let before = looks;
    let mut lower_bound = bound::lower_bound(model);
    let mut complete = true;
    if best.peak > lower_bound {
        let (order, bound, ended) = solve_segments(model, &best.order, lower_bound, &mut looks);
        lower_bound = lower_bound.max(bound);
        complete = ended;
        best.offer(order);
    }
    if best.peak > lower_bound && !complete {
        let order = slide_windows(model, best.order.clone(), lower_bound, &mut looks);
        best.offer(order);
    }
    Known { lower_bound, complete: complete || best.peak <= lower_bound, nodes: (before - looks).div_ceil(LOOKS_PER_NODE) }
}

/// Solves the segments from the worst one down, until what is left cannot matter. Returns the order, a bound, and whether all that matter are proven.
fn solve_segments(model: &Model, order: &[u32], lower_bound: u64, looks: &mut u64) -> (Vec<u32>, u64, bool) {
    let position = positions(order);
    let steps = profile(model, order);
    let height = |range: &Range<usize>| steps[range.clone()].iter().copied().max().unwrap_or(0);
    let mut ranges: Vec<(u64, Range<usize>)> =
        segments(model, order, &position).into_iter().map(|range| (height(&range), range)).collect();
    ranges.sort_by_key(|(height, range)| (std::cmp::Reverse(*height), range.start));
    let mut result = order.to_vec();
    let mut proven = lower_bound;
    let mut complete = true;
    let mut known: BTreeMap<Vec<u64>, Answer> = BTreeMap::new();
    let mut highest_open = 0;
    for (height, range) in ranges {
        if height <= proven {
            break;
        }
        let window = Window::new(model, order, &position, range.clone());
        let answer = known.entry(window.key()).or_insert_with(|| solve_window(&window, height, looks)).clone();
        // Below the peak of an unproven segment, only the bound is of interest.
        if height > highest_open {
            for (place, local) in range.zip(&answer.order) {
                result[place] = window.operations[*local as usize];
            }
        }
        proven = proven.max(answer.lower_bound);
        if answer.peak > answer.lower_bound {
            complete = false;
            highest_open = highest_open.max(answer.peak);
        }
    }
    let complete = complete || peak(model, &result) <= proven;
    (result, proven, complete)
}

/// Lowers a segment's peak by search until it is proven or the looks are spent.
fn solve_window(window: &Window, height: u64, looks: &mut u64) -> Answer {
    let model = Model::new(&window.problem);
    let given: Vec<u32> = (0..model.operations as u32).collect();
    let mut answer = Answer { peak: peak(&model, &given), order: given, lower_bound: bound::lower_bound(&model) };
    debug_assert!(answer.peak == height);
    if answer.peak > answer.lower_bound {
        let better = portfolio::improve(&model, &answer.order);
        (answer.order, answer.peak) = (better.order, better.peak);
    }
    let mut both = BothWays::new(&model);
    // Peaks between those that were found or excluded and those that took too long.
    let mut too_hard = answer.peak;
    let mut share = *looks / 2;
    while answer.peak > answer.lower_bound && *looks > 0 && too_hard > answer.lower_bound {
        let target =
            if too_hard == answer.peak { answer.peak - 1 } else { answer.lower_bound + (too_hard - answer.lower_bound) / 2 };
        let mut left = share.min(*looks);
        let before = left;
        let verdict = both.decide(target, &mut left);
        *looks -= before - left;
        match verdict {
            Verdict::Found(order) => {
                answer.peak = peak(&model, &order);
                answer.order = order;
                too_hard = answer.peak;
            }
            Verdict::Impossible(next) => answer.lower_bound = next.min(answer.peak),
            Verdict::Limit => {
                too_hard = target;
                share = (*looks / 4).max(1);
            }
        }
    }
    answer
}

/// A problem and its reverse: which of them is easier to search is not known before.
struct BothWays<'a> {
    forward: &'a Model,
    backward: Model,
    /// The direction that ended first the last time.
    backward_first: bool,
}

/// Looks of the first slice of each direction; each further one is eight times as long.
const FIRST_SLICE: u64 = 80_000;

impl<'a> BothWays<'a> {
    fn new(forward: &'a Model) -> Self {
        Self { forward, backward: forward.reversed(), backward_first: false }
    }

    /// Searches in both directions by turns, in longer and longer slices.
    fn decide(&mut self, target: u64, limit: &mut u64) -> Verdict {
        let mut slice = FIRST_SLICE;
        while *limit > 0 {
            for backward in [self.backward_first, !self.backward_first] {
                let mut left = slice.min(*limit);
                let before = left;
                let verdict = decide(if backward { &self.backward } else { self.forward }, target, &mut left);
                *limit -= before - left;
                if verdict == Verdict::Limit {
                    continue;
                }
                self.backward_first = backward;
                return match verdict {
                    Verdict::Found(mut order) if backward => {
                        order.reverse();
                        Verdict::Found(order)
                    }
                    other => other,
                };
            }
            slice *= 8;
        }
        Verdict::Limit
    }
}

/// Frees windows around the worst step, one after the other, wider and wider, while that lowers the peak.
fn slide_windows(model: &Model, mut order: Vec<u32>, lower_bound: u64, looks: &mut u64) -> Vec<u32> {
    let mut current = peak(model, &order);
    'improved: while current > lower_bound {
        let position = positions(&order);
        let steps = profile(model, &order);
        let worst = steps.iter().position(|bytes| *bytes == current).unwrap_or(0);
        for width in WIDTHS {
            for shift in [width / 2, width / 4, 3 * width / 4] {
                if *looks == 0 {
                    return order;
                }
                let start = worst.saturating_sub(shift);
                let range = start..(start + width).min(order.len());
                let window = Window::new(model, &order, &position, range.clone());
                let mut left = WINDOW_LOOKS.min(*looks);
                let before = left;
                let verdict = BothWays::new(&Model::new(&window.problem)).decide(current - 1, &mut left);
                *looks -= before - left;
                if let Verdict::Found(local) = verdict {
                    for (place, local) in range.zip(local) {
                        order[place] = window.operations[local as usize];
                    }
                    current = peak(model, &order);
                    continue 'improved;
                }
            }
        }
        return order;
    }
    order
}

fn positions(order: &[u32]) -> Vec<u32> {
    let mut position = vec![0; order.len()];
    for (place, operation) in order.iter().enumerate() {
        position[*operation as usize] = place as u32;
    }
    position
}
