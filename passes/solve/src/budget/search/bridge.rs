//! Bridges over gaps: between two uses a value lies as a small code. One optional run makes the code
//! right after the use before the gap, another one makes the value again right before the use after it.

use crate::budget::sequence::edits::Edits;
use crate::budget::sequence::model::{MAX_CHAIN, NONE, Way};
use crate::budget::sequence::state::State;

/// A gap of a value, and the way to make the value again at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::budget) struct Bridge {
    pub way: Way,
    /// Last slot before the gap that uses or makes the value.
    pub previous: u32,
    /// First slot after the gap that uses the value.
    pub next_use: u32,
    /// Whether a new code must be made; otherwise the value was made from a code, which lives on.
    pub encodes: bool,
}

impl Bridge {
    /// Returns the bridges over the gap of a value that a copy, made at `start`, has around a slot.
    pub fn over<'s>(
        state: &'s State,
        value: u32,
        start: u32,
        slot: u32,
    ) -> impl Iterator<Item = Self> + use<'s> {
        let used = state.used(value);
        let next = used.partition_point(|other| *other <= slot);
        let previous = next.checked_sub(1).map_or(start, |index| used[index].max(start));
        let gap = used.get(next).copied().filter(|_| previous < slot);
        let ways = gap.into_iter().flat_map(move |next_use| {
            state.model.ways[value as usize].iter().map(move |way| (next_use, *way))
        });
        let has_code = move |way: &Way| way.encode != NONE && state.operation(start) != way.decode;
        ways.map(move |(next_use, way)| Self { way, previous, next_use, encodes: has_code(&way) })
    }

    /// Whether the value is made from others, which may be made again for it.
    pub fn has_no_code(&self) -> bool {
        self.way.encode == NONE
    }

    /// Returns the cost of the optional runs that the bridge inserts.
    pub fn cost(&self, state: &State) -> u64 {
        let costs = &state.model.costs;
        costs[self.way.decode as usize] + if self.encodes { costs[self.way.encode as usize] } else { 0 }
    }

    /// Inserts the optional runs: the code is made before `worst`, the value is made again after it.
    /// Predecessors of the second run that are late move before it. Returns `false`, perhaps with a part
    /// of the changes made, if free slots are missing or a predecessor cannot move.
    pub fn put_in(&self, state: &mut State, edits: &mut Edits, worst: u32) -> bool {
        let Some(slot) = state.free_before(self.next_use, worst) else { return false };
        let is_made = |value: &u32| state.copy_at(*value, slot).is_some();
        if self.way.encode == NONE && !state.model.reads.of(self.way.decode).iter().all(is_made) {
            return false;
        }
        for &before in state.model.predecessors.of(self.way.decode) {
            if !advance(state, edits, before, slot, MAX_CHAIN) {
                return false;
            }
        }
        if self.encodes {
            let after = self.previous + 1;
            let Some(slot) = state.free_near(after, self.previous, worst) else { return false };
            edits.put_in(state, self.way.encode, slot);
        }
        edits.put_in(state, self.way.decode, slot);
        true
    }
}

/// Moves the first run of an operation before a slot, together with the makers of its operands; `depth`
/// limits the chain. Returns `false`, perhaps with a part of the changes made, if that is impossible.
fn advance(state: &mut State, edits: &mut Edits, operation: u32, before: u32, depth: usize) -> bool {
    let model = state.model;
    let Some(&first) = state.slots_of(operation).first() else { return false };
    if first < before {
        return true;
    }
    if depth == 0 {
        return false;
    }
    let makers = model.reads.of(operation).iter().filter_map(|value| model.makers.of(*value).first());
    for &earlier in makers.chain(model.predecessors.of(operation)) {
        if !advance(state, edits, earlier, before, depth - 1) {
            return false;
        }
    }
    let low = state.bounds(first).0;
    let Some(slot) = (low + 1 < before).then(|| state.free_near(low + 1, low, before)).flatten() else {
        return false;
    };
    edits.shift(state, first, slot);
    true
}
