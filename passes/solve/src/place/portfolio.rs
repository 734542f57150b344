//! The heuristics' portfolio: first fit and dive over ten orders, the best placement kept, stopped as soon as it reaches a target.

use super::dive::dive;
use super::first_fit::{complete_first_fit, first_fit};
use super::normal::Normal;
use super::occupied::Occupied;
use super::orders::{RULES, loads_met, order};
use super::problem::{Problem, Solution};
use crate::tuning::PlaceTuning;

/// Buffers that live with one, for one more look at each, and the most that count.
const LIVE_PER_LOOK: u64 = 4;
const MAX_LIVE: u64 = 2_000;

/// What the portfolio may still look at: some ten nanoseconds each.
pub(super) struct Budget {
    all: u64,
    pub left: u64,
}

impl Budget {
    pub fn new(normal: &Normal, tuning: &PlaceTuning) -> Self {
        let lengths: u64 = normal.parts.iter().map(|part| u64::from(part.last - part.first)).sum();
        let live = (lengths / normal.sections.max(1) as u64).min(MAX_LIVE);
        let for_each = tuning.looks_per_buffer.saturating_add(live / LIVE_PER_LOOK).saturating_mul(normal.items.len() as u64);
        let all = tuning.least_looks.saturating_add(for_each);
        Self { all, left: all }
    }
}

/// The best placement of first fit and dive over all rules.
pub(super) fn best_of_rules(problem: &Problem, normal: &Normal, target: u64, budget: &mut Budget) -> Solution {
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
        // Dive costs more, so it joins in only while there is plenty to spend.
        let dived =
            if best.height > target && budget.left > budget.all / 2 { dive(normal, &items, &mut budget.left) } else { None };
        keep_lower(problem, normal, dived, &mut best);
    }
    best
}

/// Keeps the placement that these offsets of items are, if it is lower.
pub(super) fn keep_lower(problem: &Problem, normal: &Normal, offsets: Option<Vec<u64>>, best: &mut Solution) {
    if let Some(next) = offsets.map(|offsets| solution(problem, normal, &offsets))
        && next.height < best.height
    {
        *best = next;
    }
}

/// Turns the offsets of items into those of all buffers; buffers that never live lie at their fixed offset or at 0.
pub(super) fn solution(problem: &Problem, normal: &Normal, offsets: &[u64]) -> Solution {
    let mut all: Vec<u64> = problem.buffers.iter().map(|buffer| buffer.fixed_offset.unwrap_or(0)).collect();
    for (item, offset) in normal.items.iter().zip(offsets) {
        all[item.buffer as usize] = *offset;
    }
    Solution::from_offsets(problem, all)
}

/// Whether two items with fixed offsets share a byte at some step. O(conflicts).
pub(super) fn fixed_items_collide(normal: &Normal) -> bool {
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
