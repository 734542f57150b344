//! The portfolio of heuristics: first fit and dive over ten orders. It keeps the best placement and
//! stops as soon as a placement reaches a target.

use super::dive::dive;
use super::first_fit::{complete_first_fit, first_fit};
use super::occupied::Occupied;
use super::orders::{RULES, loads_met, order};
use crate::place::normal::Normal;
use crate::place::problem::{Problem, Solution};
use crate::tuning::PlaceTuning;

/// Live buffers that earn each buffer one more look, and the most live buffers that count.
const LIVE_PER_LOOK: u64 = 4;
const MAX_LIVE: u64 = 2_000;

/// Remaining looks of the portfolio; a look takes some ten nanoseconds.
pub(in crate::place) struct Budget {
    all: u64,
    pub left: u64,
}

impl Budget {
    pub fn new(normal: &Normal, tuning: &PlaceTuning) -> Self {
        let lengths: u64 = normal.parts.iter().map(|part| u64::from(part.last - part.first)).sum();
        let live = (lengths / normal.sections.max(1) as u64).min(MAX_LIVE);
        let for_each = tuning
            .looks_per_buffer
            .saturating_add(live / LIVE_PER_LOOK)
            .saturating_mul(normal.items.len() as u64);
        let all = tuning.least_looks.saturating_add(for_each);
        Self { all, left: all }
    }
}

/// Returns the best placement of first fit and dive over all rules.
pub(in crate::place) fn best_of_rules(
    problem: &Problem,
    normal: &Normal,
    target: u64,
    budget: &mut Budget,
) -> Solution {
    let loads = loads_met(normal);
    let first = first_fit(normal, &order(normal, RULES[0], &loads), &mut budget.left);
    let mut best = solution(problem, normal, &first.offsets);
    for (number, rule) in RULES.into_iter().enumerate() {
        if best.height <= target || budget.left == 0 {
            break;
        }
        let items = order(normal, rule, &loads);
        let fitted = if number > 0 { complete_first_fit(normal, &items, &mut budget.left) } else { None };
        keep_lower(problem, normal, fitted, &mut best);
        // Dive costs more than first fit, so it runs only while more than half of the budget is left.
        let dived = if best.height > target && budget.left > budget.all / 2 {
            dive(normal, &items, &mut budget.left)
        } else {
            None
        };
        keep_lower(problem, normal, dived, &mut best);
    }
    best
}

/// Replaces the best placement by these offsets of items, if their placement is lower.
pub(in crate::place) fn keep_lower(
    problem: &Problem,
    normal: &Normal,
    offsets: Option<Vec<u64>>,
    best: &mut Solution,
) {
    if let Some(next) = offsets.map(|offsets| solution(problem, normal, &offsets))
        && next.height < best.height
    {
        *best = next;
    }
}

/// Converts the offsets of items to a placement of all buffers. Buffers that never live are placed at
/// their fixed offset or at 0.
pub(in crate::place) fn solution(problem: &Problem, normal: &Normal, offsets: &[u64]) -> Solution {
    let mut all: Vec<u64> = problem.buffers.iter().map(|buffer| buffer.fixed_offset.unwrap_or(0)).collect();
    for (item, offset) in normal.items.iter().zip(offsets) {
        all[item.buffer as usize] = *offset;
    }
    Solution::from_offsets(problem, all)
}

/// Returns whether two items with fixed offsets share a byte at some step. O(conflicts).
pub(in crate::place) fn fixed_items_collide(normal: &Normal) -> bool {
    let mut occupied = Occupied::new(normal.sections, 1);
    for (index, item) in normal.items.iter().enumerate() {
        if let Some(offset) = item.fixed {
            let parts = normal.parts_of(index);
            if occupied.lowest_fit(parts, 1, offset) != offset {
                return true;
            }
            for part in parts {
                occupied.insert(part, offset);
            }
        }
    }
    false
}
