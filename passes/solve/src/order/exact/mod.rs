//! Proof and improvement: segments between cuts, each decided by search, highest first. Spans around the
//! peak are searched if a segment is too hard.

pub(super) mod contract;
pub(super) mod decision;
pub(super) mod pairs;
pub(super) mod search;
pub(super) mod segment;
pub(super) mod span;
pub(super) mod twins;

use std::collections::BTreeMap;
use std::ops::Range;

use super::bound;
use super::heuristics::portfolio::Best;
use super::model::{Model, peak, positions, profile};
use crate::tuning::OrderTuning;
use decision::{decide_both_ways, limited};
use search::Verdict;
use segment::{Answer, solve_window};
use span::{Span, segments};

/// Widths of the spans around the peak, in operations. Half or twice these widths change no answer.
const WIDTHS: [usize; 4] = [24, 48, 96, 192];

/// Result of the exact search: a lower bound in bytes, and the search nodes used.
pub(super) struct Known {
    pub lower_bound: u64,
    pub nodes: u64,
}

/// Improves `best` and raises the lower bound, until it is proven that no order has fewer than `below`
/// bytes or the limit is reached.
///
/// An order that meets the bound without a search is kept: searching could find another one of equal
/// peak, and then the answer would depend on the limits of earlier questions, whose answers are
/// remembered.
pub(super) fn improve(
    model: &Model,
    best: &mut Best<'_>,
    below: u64,
    tuning: &OrderTuning,
    limit: u64,
) -> Known {
    let mut at_once = best.clone();
    let known = improve_within(model, &mut at_once, below, tuning, 0);
    if limit == 0 || at_once.peak <= known.lower_bound {
        *best = at_once;
        return known;
    }
    improve_within(model, best, below, tuning, limit)
}

/// Improves `best` and raises the lower bound within a number of search nodes.
fn improve_within(model: &Model, best: &mut Best<'_>, below: u64, tuning: &OrderTuning, limit: u64) -> Known {
    let looks_per_node = tuning.looks_per_node.max(1);
    let mut looks = limit.saturating_mul(looks_per_node);
    let before = looks;
    let mut lower_bound = bound::lower_bound(model);
    let mut complete = true;
    if best.peak.min(below) > lower_bound {
        let (order, bound, ended) =
            solve_segments(model, &best.order, lower_bound, below, tuning, &mut looks);
        lower_bound = lower_bound.max(bound);
        complete = ended;
        best.offer(order);
    }
    if best.peak.min(below) > lower_bound && !complete {
        let order = slide_windows(model, best.order.clone(), lower_bound, tuning, &mut looks);
        best.offer(order);
    }
    Known { lower_bound, nodes: (before - looks).div_ceil(looks_per_node) }
}

/// Solves the segments, highest first, until the remaining ones cannot change the peak or no order has
/// fewer than `below` bytes. Returns the order, a lower bound, and whether all segments that matter are
/// proven.
fn solve_segments(
    model: &Model,
    order: &[u32],
    lower_bound: u64,
    below: u64,
    tuning: &OrderTuning,
    looks: &mut u64,
) -> (Vec<u32>, u64, bool) {
    let position = positions(order);
    let steps = profile(model, order);
    let height = |range: &Range<usize>| steps[range.clone()].iter().copied().max().unwrap_or(0);
    // Sort the segments by their highest step.
    let mut ranges: Vec<(u64, Range<usize>)> =
        segments(model, order, &position).into_iter().map(|range| (height(&range), range)).collect();
    ranges.sort_by_key(|(height, range)| (std::cmp::Reverse(*height), range.start));
    let mut result = order.to_vec();
    let mut proven = lower_bound;
    let mut complete = true;
    let mut known: BTreeMap<Vec<u64>, Answer> = BTreeMap::new();
    let mut highest_open = 0;
    // Solve them. Equal segments (repeated layers) share one answer.
    for (height, range) in ranges {
        if height.min(below) <= proven {
            break;
        }
        let span = Span::new(model, order, &position, range.clone());
        let answer =
            known.entry(span.key()).or_insert_with(|| solve_window(&span, below, tuning, looks)).clone();
        // A segment below the peak of an unproven segment contributes only its bound.
        if height > highest_open {
            for (place, local) in range.zip(&answer.order) {
                result[place] = span.operations[*local as usize];
            }
        }
        proven = proven.max(answer.lower_bound);
        if answer.peak.min(below) > answer.lower_bound {
            complete = false;
            highest_open = highest_open.max(answer.peak);
        }
    }
    let complete = complete || peak(model, &result).min(below) <= proven;
    (result, proven, complete)
}

/// Reorders spans around the worst step, with growing width, as long as that lowers the peak.
fn slide_windows(
    model: &Model,
    mut order: Vec<u32>,
    lower_bound: u64,
    tuning: &OrderTuning,
    looks: &mut u64,
) -> Vec<u32> {
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
                let span = Span::new(model, &order, &position, range.clone());
                let freed = Model::new(&span.problem);
                let verdict = limited(looks, tuning.first_slice.saturating_mul(2), |looks| {
                    decide_both_ways(&freed, current - 1, tuning, looks)
                });
                if let Verdict::Found(local) = verdict {
                    for (place, local) in range.zip(local) {
                        order[place] = span.operations[local as usize];
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
