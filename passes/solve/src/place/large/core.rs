//! The core of a large placement: the buffers of the busiest sections are placed first and with care,
//! all others around them by first fit.
//!
//! Only sections whose load is close to the bound can exceed it by bad packing. There are few of them,
//! so their buffers are few enough for careful work. All other sections have room to spare.

use crate::StopReason;
use crate::place::exact::{self, Known};
use crate::place::heuristics::first_fit::complete_first_fit;
use crate::place::heuristics::portfolio::{Budget, best_of_rules};
use crate::place::normal::Normal;
use crate::place::problem::{Problem, Solution};
use crate::tuning::PlaceTuning;

/// Places a core and then the rest, for each margin. Returns the offsets of each attempt. `order` is the
/// order of the rest. Needs a problem without fixed offsets.
pub(in crate::place) fn around_core(
    problem: &Problem,
    normal: &Normal,
    order: &[u32],
    target: u64,
    tuning: &PlaceTuning,
    budget: &mut u64,
) -> Vec<Vec<u64>> {
    let mut results = Vec::new();
    let mut previous = 0;
    for margin in tuning.core_margins {
        let members = members(normal, target - target / 100 * margin.0.min(100));
        if members.len() == previous || members.len() > normal.items.len() / 2 || normal.has_fixed {
            continue;
        }
        previous = members.len();
        let core = place_core(problem, normal, &members, target, tuning);
        let Some(offsets) = around(normal, &members, &core.offsets, order, budget) else { return results };
        let height = normal.height(&offsets);
        results.push(offsets);
        if height <= target {
            return results;
        }
    }
    results
}

/// Runs first fit with some items pinned at given offsets. Returns `None` if the budget runs out.
pub(in crate::place) fn around(
    normal: &Normal,
    members: &[u32],
    offsets: &[u64],
    order: &[u32],
    budget: &mut u64,
) -> Option<Vec<u64>> {
    let mut pinned = normal.clone();
    for (item, offset) in members.iter().zip(offsets) {
        pinned.items[*item as usize].fixed = Some(*offset);
    }
    complete_first_fit(&pinned, order, budget)
}

/// Returns a problem that has only the given items.
pub(in crate::place) fn buffers_of(
    problem: &Problem,
    normal: &Normal,
    members: &[u32],
    capacity: Option<u64>,
) -> Problem {
    let buffer = |item: &u32| problem.buffers[normal.items[*item as usize].buffer as usize].clone();
    Problem { buffers: members.iter().map(buffer).collect(), capacity }
}

/// Returns the items that live in a section with at least this load.
pub(in crate::place) fn members(normal: &Normal, load: u64) -> Vec<u32> {
    let mut busy_before = vec![0_u32; normal.sections + 1];
    for (section, bytes) in normal.load.iter().enumerate() {
        busy_before[section + 1] = busy_before[section] + u32::from(*bytes >= load);
    }
    let is_member = |item: &u32| {
        normal
            .parts_of(*item as usize)
            .iter()
            .any(|part| busy_before[part.last as usize] > busy_before[part.first as usize])
    };
    (0..normal.items.len() as u32).filter(is_member).collect()
}

fn place_core(
    problem: &Problem,
    normal: &Normal,
    members: &[u32],
    target: u64,
    tuning: &PlaceTuning,
) -> Solution {
    let core = buffers_of(problem, normal, members, Some(target));
    let core_normal = Normal::new(&core);
    let best = best_of_rules(&core, &core_normal, target, &mut Budget::new(&core_normal, tuning));
    if best.height <= target {
        return best;
    }
    let known = Known { best: None, lower_bound: 0, stop: StopReason::HeuristicsOnly, nodes: 0 };
    exact::improve(&core, &core_normal, known, tuning, tuning.slice).best.unwrap_or(best)
}
