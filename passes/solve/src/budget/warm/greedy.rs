//! The greedy warm start: while the worst step is over the capacity, drops the value there that frees
//! the most bytes for the longest time at the least cost.

use crate::budget::sequence::model::{MAX_CHAIN, NONE};
use crate::budget::sequence::state::State;

/// A copy that is live across the worst slot and can be recomputed before its next use.
struct Candidate {
    maker: u32,
    next_use: u32,
    score: f64,
}

/// Inserts recomputations until the capacity holds, no insertion helps, or the cost of the sequence
/// reaches `dearest`. Returns whether the capacity holds at a cost below `dearest`.
///
/// The score follows the rematerialization of XLA and DTR: bytes x slots / cost. O(recomputations x
/// values log slots).
pub(in crate::budget) fn reduce(state: &mut State, capacity: i64, dearest: u64) -> bool {
    let operations = state.model.operations();
    let most = 8 * operations + 64;
    let patience = operations / 16 + 64;
    // Number of chains inserted in a row without a lower peak: many steps may be equally full, but the
    // search must end.
    let (mut lowest, mut idle) = (state.peak(), 0);
    while state.peak() > capacity {
        idle = if state.peak() < lowest { 0 } else { idle + 1 };
        lowest = lowest.min(state.peak());
        if state.count() > most || idle > patience || state.cost() >= dearest {
            return false;
        }
        if !lower_peak(state, capacity) {
            // Perhaps only free slots were missing: spread the sequence and try again.
            *state = State::new(state.model, &state.sequence());
            if !lower_peak(state, capacity) {
                return false;
            }
        }
    }
    state.cost() < dearest
}

/// Frees bytes at the worst slot; `false` if no candidate does.
fn lower_peak(state: &mut State, capacity: i64) -> bool {
    let worst = state.tree.peak();
    let before = state.peak();
    let mut candidates = candidates(state, worst);
    candidates.sort_by(|one, two| two.score.total_cmp(&one.score).then(one.maker.cmp(&two.maker)));
    for candidate in &candidates {
        let mut added = Vec::new();
        let works = regenerate(state, candidate.maker, candidate.next_use, worst, capacity, &mut added)
            && state.tree.at(worst) < before
            && state.peak() <= before;
        if works {
            return true;
        }
        for slot in added.into_iter().rev() {
            state.remove(slot);
        }
    }
    false
}

/// Returns all copies that are live across a slot, are neither made nor used there, and can be
/// recomputed.
fn candidates(state: &State, worst: u32) -> Vec<Candidate> {
    let model = state.model;
    let mut found = Vec::new();
    for value in (0..model.values() as u32).filter(|value| state.spans(*value, worst)) {
        let Some(maker) = model.maker_again(value) else { continue };
        let Some((start, last)) = state.copy_at(value, worst) else { continue };
        if last <= worst || state.next_used(value, worst.saturating_sub(1)) == worst {
            continue;
        }
        let used = state.used(value);
        let next = used.partition_point(|slot| *slot <= worst);
        let next_use = used[next];
        let previous = next.checked_sub(1).map_or(start, |index| used[index].max(start));
        let area = model.sizes[value as usize] as f64 * f64::from(next_use - previous);
        found.push(Candidate { maker, next_use, score: area / (model.costs[maker as usize] as f64 + 1.0) });
    }
    found
}

/// Inserts an operation right before a slot, together with those of its operands that are no longer live
/// there. Pushes the filled slots to `added`. Returns `false` if a free slot is missing, the chain is
/// too long or an operation may not run again.
///
/// An operand is recomputed as well if it would otherwise stay live across the worst slot or across a
/// slot over the capacity.
fn regenerate(
    state: &mut State,
    operation: u32,
    before: u32,
    worst: u32,
    capacity: i64,
    added: &mut Vec<u32>,
) -> bool {
    let mut open = vec![(operation, before)];
    while let Some((operation, before)) = open.pop() {
        if added.len() >= MAX_CHAIN || !state.model.repeatable[operation as usize] {
            return false;
        }
        let Some(slot) = state.free_before(before, worst) else { return false };
        state.insert(operation, slot);
        added.push(slot);
        let model = state.model;
        for &value in model.reads.of(operation) {
            let Some((start, _)) = state.copy_at(value, slot) else { return false };
            let used = state.used(value);
            let place = used.partition_point(|other| *other < slot);
            let previous = place.checked_sub(1).map_or(start, |index| used[index].max(start));
            let lives_over_full = previous < worst || state.tree.top_of(previous + 1, slot) > capacity;
            let next = used.get(place + 1).copied().unwrap_or(NONE);
            let lived_on = next != NONE && state.next_made(value, slot) > next;
            if lives_over_full && !lived_on {
                match model.makers.of(value).first() {
                    Some(&maker) => open.push((maker, slot)),
                    None => return false,
                }
            }
        }
    }
    true
}
