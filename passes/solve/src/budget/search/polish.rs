//! Descent: removes repeated and optional runs that the capacity does not need.

use crate::budget::sequence::state::State;

/// Removes repeated and optional runs, the costliest first, as long as the peak stays within the
/// capacity. O(rounds x runs log slots).
pub(in crate::budget) fn drop_spare(state: &mut State, capacity: i64) {
    loop {
        let mut spare = spare_slots(state);
        spare.sort_by_key(|slot| {
            (std::cmp::Reverse(state.model.costs[state.operation(*slot) as usize]), *slot)
        });
        let mut changed = false;
        for slot in spare {
            if !state.is_spare(slot) {
                continue;
            }
            let operation = state.operation(slot);
            state.remove(slot);
            if state.peak() <= capacity {
                changed = true;
            } else {
                state.insert(operation, slot);
            }
        }
        if !changed {
            return;
        }
    }
}

/// Returns the cost from which descent from a sequence is not worthwhile, if the best sequence costs
/// `best` and all runs together cost `least`: twice the extra cost of the best sequence, since removing
/// repeated runs seldom saves more than half.
pub(in crate::budget) fn dearest(least: u64, best: u64) -> u64 {
    least.saturating_add(2_u64.saturating_mul(best.saturating_sub(least))).max(best)
}

/// Returns the slots of all operations that run more than once, or that are optional.
fn spare_slots(state: &State) -> Vec<u32> {
    let operations = 0..state.model.fixed as u32;
    let is_spare =
        |operation: &u32| state.model.is_optional(*operation) || state.slots_of(*operation).len() > 1;
    operations.filter(is_spare).flat_map(|operation| state.slots_of(operation)).copied().collect()
}
