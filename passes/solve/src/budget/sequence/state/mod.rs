//! A sequence of operations in slots, with the bytes at each slot kept up to date as operations are
//! inserted and removed.
//!
//! The representation follows FastSA (Imanishi et al., "A fast heuristic to optimize time-space tradeoff
//! for large models", NeurIPS 2023). It has far more slots than operations, so that an operation can be
//! inserted between two others without renumbering; for each value the slots that make it and the slots
//! that use it; and a segment tree of bytes over the slots. An insertion or removal is O((operands +
//! results) log slots).

use super::model::{Model, NONE};
use super::soft::SoftTree;
use crate::basics::tree::Tree;

/// A sequence of operations in slots. Slot 0 is the start, which makes the near values; the last slot is
/// the end, which uses the kept values.
#[derive(Clone)]
pub(in crate::budget) struct State<'a> {
    pub model: &'a Model,
    /// Operation at each slot, or `NONE`.
    slots: Vec<u32>,
    /// Slots of each operation, ascending.
    at: Vec<Vec<u32>>,
    /// Slots that make each value, ascending; near values are made at slot 0.
    made: Vec<Vec<u32>>,
    /// Slots that use each value, ascending.
    used: Vec<Vec<u32>>,
    /// First slot that makes each value, and last slot that uses it; `NONE` and 0 if no slot does.
    spans: Vec<(u32, u32)>,
    pub tree: Tree,
    soft: Option<SoftTree>,
    /// Bytes saved by takeovers at each slot; empty if the model has no takeovers.
    saved: Vec<i64>,
    cost: u64,
    count: usize,
    /// Operations that are in the sequence more often than necessary (twice, or once if optional), in
    /// arbitrary order; and the index of each in this list.
    repeated: Vec<u32>,
    place: Vec<u32>,
    /// Number of insertions and removals so far.
    pub work: u64,
    /// Slots whose savings may have changed.
    stale: Vec<u32>,
    /// Differences of bytes that the trees do not contain yet: a slot, and the bytes added from that
    /// slot to the end.
    pending: Vec<(u32, i64)>,
}

impl<'a> State<'a> {
    /// Spreads the sequence evenly over at least `8` slots an operation. O(length log length).
    pub fn new(model: &'a Model, sequence: &[u32]) -> Self {
        let slots = (8 * sequence.len() + 64).next_power_of_two();
        let end = slots as u32 - 1;
        let mut state = Self {
            model,
            slots: vec![NONE; slots],
            at: vec![Vec::new(); model.operations()],
            made: vec![Vec::new(); model.values()],
            used: vec![Vec::new(); model.values()],
            spans: vec![(NONE, 0); model.values()],
            tree: Tree::new(slots),
            soft: None,
            saved: if model.has_takeovers { vec![0; slots] } else { Vec::new() },
            cost: 0,
            count: 0,
            repeated: Vec::new(),
            place: vec![NONE; model.operations()],
            work: 0,
            stale: Vec::new(),
            pending: Vec::new(),
        };
        for value in 0..model.values() {
            if model.kept[value] {
                state.used[value].push(end);
                state.spans[value].1 = end;
            }
            if model.near[value] {
                state.make(value as u32, 0);
            }
        }
        for (index, &operation) in sequence.iter().enumerate() {
            let slot = 1 + (index as u64 * (slots as u64 - 2) / sequence.len() as u64) as u32;
            state.place(operation, slot);
        }
        state.commit();
        state
    }

    /// Returns the operations in order.
    pub fn sequence(&self) -> Vec<u32> {
        self.slots.iter().copied().filter(|operation| *operation != NONE).collect()
    }

    /// Returns the highest number of bytes at a slot.
    pub fn peak(&self) -> i64 {
        self.tree.top()
    }

    /// Returns the sum of the costs of all operations in slots.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Returns the operations that are in the sequence more than once, or once if they are optional.
    pub fn repeated(&self) -> &[u32] {
        &self.repeated
    }

    /// Returns the last slot, which holds no operation.
    pub fn end(&self) -> u32 {
        self.slots.len() as u32 - 1
    }

    /// Returns the number of occupied slots.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the operation at a slot, or `NONE`.
    pub fn operation(&self, slot: u32) -> u32 {
        self.slots[slot as usize]
    }

    /// Returns the slots of an operation, ascending.
    pub fn slots_of(&self, operation: u32) -> &[u32] {
        &self.at[operation as usize]
    }

    /// Returns the slots that use a value, ascending.
    pub fn used(&self, value: u32) -> &[u32] {
        &self.used[value as usize]
    }

    /// Whether a value is first made before a slot and last used after it; otherwise no copy of the
    /// value is live across the slot.
    pub fn spans(&self, value: u32, slot: u32) -> bool {
        let (first, last) = self.spans[value as usize];
        first < slot && slot < last
    }

    /// Returns the copy of a value that a use at `slot` reads: the slot that makes it, and the last slot
    /// that uses it (the slot that makes it, if it has no use). `None` if no slot before `slot` makes
    /// the value.
    pub fn copy_at(&self, value: u32, slot: u32) -> Option<(u32, u32)> {
        let made = &self.made[value as usize];
        let next = made.partition_point(|other| *other < slot);
        let start = *made.get(next.checked_sub(1)?)?;
        let stop = made.get(next).copied().unwrap_or(u32::MAX);
        Some((start, self.last_use(value, start, stop)))
    }

    /// Returns the last use of a value in `start..stop`, or `start` if it has none.
    fn last_use(&self, value: u32, start: u32, stop: u32) -> u32 {
        let used = &self.used[value as usize];
        let count = used.partition_point(|slot| *slot < stop);
        count.checked_sub(1).map_or(start, |index| used[index].max(start))
    }

    /// Whether the sequence stays valid without the operation at a slot: the operation also runs at
    /// another slot, early enough for its successors and for all readers of its results; or the
    /// operation is optional, and each of its results is made before or never read.
    pub fn is_spare(&self, slot: u32) -> bool {
        let model = self.model;
        let operation = self.operation(slot);
        let runs = self.slots_of(operation);
        if model.is_optional(operation) {
            return model.writes.of(operation).iter().all(|value| self.is_made_elsewhere(*value, slot));
        }
        if runs.len() < 2 {
            return false;
        }
        let first_after = runs[usize::from(runs[0] == slot)];
        let in_time = |other: &u32| self.slots_of(*other).first().is_none_or(|first| *first > first_after);
        model.successors.of(operation).iter().all(in_time)
            && model.writes.of(operation).iter().all(|value| self.is_made_elsewhere(*value, slot))
    }

    /// Whether each reader of a value that a slot makes finds a copy without that slot; a value that
    /// nothing reads needs no copy, unless its run is required.
    fn is_made_elsewhere(&self, value: u32, slot: u32) -> bool {
        let (made, used) = (&self.made[value as usize], &self.used[value as usize]);
        let first = used.first();
        made[0] != slot || made.get(1).map_or(first.is_none(), |next| first.is_none_or(|first| first > next))
    }

    /// Whether an operation may execute at a slot: each operand has a copy there, and each predecessor has
    /// executed before.
    pub fn may_stand(&self, operation: u32, slot: u32) -> bool {
        let model = self.model;
        let has_run = |other: &u32| self.slots_of(*other).first().is_some_and(|first| *first < slot);
        model.reads.of(operation).iter().all(|value| self.copy_at(*value, slot).is_some())
            && model.predecessors.of(operation).iter().all(has_run)
    }

    /// Returns the slots between which (both excluded) the operation at a slot may move, so that it
    /// finds its operands and its readers find its results.
    pub fn bounds(&self, slot: u32) -> (u32, u32) {
        let model = self.model;
        let operation = self.operation(slot);
        let (mut low, mut high) = (0, self.end());
        for &value in model.reads.of(operation) {
            low = low.max(self.made[value as usize].first().copied().unwrap_or(0));
        }
        // This repetition may become the first run of its operation, so it stays after its predecessors.
        for &other in model.predecessors.of(operation) {
            low = low.max(self.slots_of(other).first().copied().unwrap_or(0));
        }
        let runs = self.slots_of(operation);
        if runs.first() == Some(&slot) {
            // The next run of the operation could replace this run, so a move past it has no effect.
            high = runs.get(1).copied().unwrap_or(high);
            for &other in model.successors.of(operation) {
                high = high.min(self.slots_of(other).first().copied().unwrap_or(high));
            }
        }
        for &value in model.writes.of(operation) {
            if self.made[value as usize].first() == Some(&slot) {
                high = high.min(self.used[value as usize].first().copied().unwrap_or(high));
            }
        }
        (low, high)
    }

    /// Returns a free slot at or near `slot`, between `low` and `high` (both excluded). Searches 64
    /// slots in each direction.
    pub fn free_near(&self, slot: u32, low: u32, high: u32) -> Option<u32> {
        let free = |other: &u32| self.slots[*other as usize] == NONE;
        let above = (slot.max(low + 1)..high).take(64).find(free);
        above.or_else(|| (low + 1..slot.min(high)).rev().take(64).find(free))
    }

    /// Inserts an operation into a free slot.
    pub fn insert(&mut self, operation: u32, slot: u32) {
        self.place(operation, slot);
        self.commit();
    }

    /// Removes the operation at a slot.
    pub fn remove(&mut self, slot: u32) {
        self.clear(slot);
        self.commit();
    }

    /// Returns the number of slots that an operation needs at least.
    fn necessary(&self, operation: u32) -> usize {
        usize::from(!self.model.is_optional(operation))
    }

    /// Inserts an operation into a free slot; the bytes at slots change only with [`State::commit`].
    pub fn place(&mut self, operation: u32, slot: u32) {
        let model = self.model;
        self.work += 1;
        self.slots[slot as usize] = operation;
        if let Some(soft) = &mut self.soft {
            soft.occupy(slot, true);
        }
        insert_sorted(&mut self.at[operation as usize], slot);
        if self.at[operation as usize].len() == self.necessary(operation) + 1 {
            self.place[operation as usize] = self.repeated.len() as u32;
            self.repeated.push(operation);
        }
        self.cost += model.costs[operation as usize];
        self.count += 1;
        self.add(slot, slot, model.scratch[operation as usize]);
        for &value in model.reads.of(operation) {
            if let Some((start, last)) = self.copy_at(value, slot)
                && slot > last
            {
                self.add(last + 1, slot, model.sizes[value as usize]);
                self.note(value, last.max(start));
            }
            insert_sorted(&mut self.used[value as usize], slot);
            let last = &mut self.spans[value as usize].1;
            *last = slot.max(*last);
        }
        for &value in model.writes.of(operation) {
            self.make(value, slot);
        }
        self.refresh(slot);
    }

    /// Removes the operation at a slot; the bytes at slots change only with [`State::commit`].
    pub fn clear(&mut self, slot: u32) {
        let model = self.model;
        self.work += 1;
        let operation = std::mem::replace(&mut self.slots[slot as usize], NONE);
        if let Some(soft) = &mut self.soft {
            soft.occupy(slot, false);
        }
        remove_sorted(&mut self.at[operation as usize], slot);
        if self.at[operation as usize].len() == self.necessary(operation) {
            let place = self.place[operation as usize];
            self.repeated.swap_remove(place as usize);
            if let Some(moved) = self.repeated.get(place as usize) {
                self.place[*moved as usize] = place;
            }
        }
        self.cost -= model.costs[operation as usize];
        self.count -= 1;
        self.add(slot, slot, -model.scratch[operation as usize]);
        for &value in model.reads.of(operation) {
            remove_sorted(&mut self.used[value as usize], slot);
            self.spans[value as usize].1 = self.used[value as usize].last().copied().unwrap_or(0);
            if let Some((_, last)) = self.copy_at(value, slot)
                && slot > last
            {
                // The copy has no later use, so it ends earlier now.
                let next_make = self.next_made(value, slot);
                if self.next_used(value, slot) > next_make || self.next_used(value, slot) == NONE {
                    self.add(last + 1, slot, -model.sizes[value as usize]);
                    self.note(value, last);
                }
            }
        }
        for &value in model.writes.of(operation) {
            self.unmake(value, slot);
        }
        self.refresh(slot);
    }

    /// Returns the first slot after `slot` that uses a value, or `NONE`.
    pub fn next_used(&self, value: u32, slot: u32) -> u32 {
        let used = &self.used[value as usize];
        used.get(used.partition_point(|other| *other <= slot)).copied().unwrap_or(NONE)
    }

    /// Returns the first slot after `slot` that makes a value, or `NONE`.
    pub fn next_made(&self, value: u32, slot: u32) -> u32 {
        let made = &self.made[value as usize];
        made.get(made.partition_point(|other| *other <= slot)).copied().unwrap_or(NONE)
    }

    /// Returns the last slot before `slot` that makes a value, or 0.
    pub fn last_made(&self, value: u32, slot: u32) -> u32 {
        let made = &self.made[value as usize];
        made.partition_point(|other| *other < slot).checked_sub(1).map_or(0, |index| made[index])
    }

    fn add(&mut self, first: u32, last: u32, bytes: i64) {
        if first <= last && bytes != 0 {
            self.pending.extend([(first, bytes), (last + 1, -bytes)]);
        }
    }

    /// Updates the bytes at slots. Several pending changes are applied together, and changes that cancel
    /// are dropped.
    pub fn commit(&mut self) {
        let mut pending = std::mem::take(&mut self.pending);
        if let Some(soft) = &mut self.soft {
            pending.sort_unstable_by_key(|(slot, _)| *slot);
            pending.dedup_by(|next, sum| {
                let same = next.0 == sum.0;
                sum.1 += if same { next.1 } else { 0 };
                same
            });
            pending.retain(|(_, bytes)| *bytes != 0);
            let mut bytes = 0;
            for (index, &(slot, difference)) in pending.iter().enumerate() {
                bytes += difference;
                if let Some((next, _)) = pending.get(index + 1) {
                    soft.add(slot, next - 1, bytes);
                }
            }
        }
        self.tree.change(&pending);
        pending.clear();
        self.pending = pending;
    }

    /// Maintains a soft maximum of the bytes over `capacity` from here on; its weights fade over `1 /
    /// sharpness` bytes.
    pub fn soften(&mut self, capacity: i64, sharpness: f64) {
        let mut soft = SoftTree::new(self.slots.len(), sharpness);
        for (slot, operation) in self.slots.iter().enumerate() {
            let slot = slot as u32;
            soft.add(slot, slot, self.tree.at(slot) - capacity);
            if *operation != NONE {
                soft.occupy(slot, true);
            }
        }
        self.soft = Some(soft);
    }

    /// Stops maintaining a soft maximum.
    pub fn harden(&mut self) {
        self.soft = None;
    }

    /// Returns the soft maximum of the bytes over the capacity; `None` without a soft maximum.
    pub fn soft_top(&self) -> Option<f64> {
        self.soft.as_ref().map(SoftTree::top)
    }

    /// Returns the sum of the weights of the occupied slots in `first..=last`; 0 without a soft maximum.
    pub fn weight_of(&self, first: u32, last: u32) -> f64 {
        self.soft.as_ref().map_or(0.0, |soft| soft.sum_of(first, last))
    }

    /// Returns the sum of the weights of all occupied slots; 0 without a soft maximum.
    pub fn weight(&self) -> f64 {
        self.soft.as_ref().map_or(0.0, SoftTree::sum)
    }

    /// Returns the part of its weight that a slot loses if it holds `bytes` less; 0 without a soft
    /// maximum.
    pub fn relief(&self, bytes: i64) -> f64 {
        self.soft.as_ref().map_or(0.0, |soft| soft.relief(bytes))
    }

    /// Returns one of the worst slots: drawn by its weight in the soft maximum, or the peak slot without
    /// a soft maximum.
    pub fn bad_slot(&self, draw: f64) -> u32 {
        self.soft.as_ref().map_or_else(|| self.tree.peak(), |soft| soft.sample(draw))
    }

    fn make(&mut self, value: u32, slot: u32) {
        let size = self.model.sizes[value as usize];
        let made = &self.made[value as usize];
        let next = made.partition_point(|other| *other < slot);
        let stop = made.get(next).copied().unwrap_or(u32::MAX);
        let last = self.last_use(value, slot, stop);
        match next.checked_sub(1).map(|index| made[index]) {
            None => self.add(slot, last, size),
            Some(before) => {
                let ends = self.last_use(value, before, slot);
                if last > slot {
                    self.add(ends + 1, slot - 1, -size);
                } else {
                    self.add(slot, slot, size);
                }
                self.note(value, ends);
            }
        }
        self.made[value as usize].insert(next, slot);
        let first = &mut self.spans[value as usize].0;
        *first = slot.min(*first);
    }

    fn unmake(&mut self, value: u32, slot: u32) {
        let size = self.model.sizes[value as usize];
        remove_sorted(&mut self.made[value as usize], slot);
        let made = &self.made[value as usize];
        self.spans[value as usize].0 = made.first().copied().unwrap_or(NONE);
        let next = made.partition_point(|other| *other < slot);
        let stop = made.get(next).copied().unwrap_or(u32::MAX);
        let last = self.last_use(value, slot, stop);
        match next.checked_sub(1).map(|index| made[index]) {
            None => self.add(slot, last, -size),
            Some(before) => {
                let ends = self.last_use(value, before, slot);
                if last > slot {
                    self.add(ends + 1, slot - 1, size);
                } else {
                    self.add(slot, slot, -size);
                }
                self.note(value, ends);
            }
        }
    }

    /// Records that a copy may end, or no longer end, at a slot.
    fn note(&mut self, value: u32, slot: u32) {
        if self.model.has_takeovers && self.model.is_taken[value as usize] {
            self.stale.push(slot);
        }
    }

    /// Updates the savings at all stale slots and at `slot`.
    fn refresh(&mut self, slot: u32) {
        if !self.model.has_takeovers {
            return;
        }
        self.stale.push(slot);
        while let Some(slot) = self.stale.pop() {
            let operation = self.slots[slot as usize];
            let saved = if operation == NONE {
                0
            } else {
                self.model.saved(operation, |value| self.ends_at(value, slot))
            };
            let change = saved - std::mem::replace(&mut self.saved[slot as usize], saved);
            self.add(slot, slot, -change);
        }
    }

    /// Whether the copy of a value that a slot uses has no later use.
    fn ends_at(&self, value: u32, slot: u32) -> bool {
        let next = self.next_used(value, slot);
        next == NONE || self.next_made(value, slot) < next
    }

    /// Returns the number of slots.
    #[cfg(test)]
    pub fn tree_slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Returns the nearest free slot below `slot` and above `low`; `None` if every slot between them is
    /// occupied.
    pub fn free_before(&self, slot: u32, low: u32) -> Option<u32> {
        (low + 1..slot).rev().find(|other| self.slots[*other as usize] == NONE)
    }
}

fn insert_sorted(list: &mut Vec<u32>, entry: u32) {
    let place = list.partition_point(|other| *other < entry);
    list.insert(place, entry);
}

fn remove_sorted(list: &mut Vec<u32>, entry: u32) {
    let place = list.partition_point(|other| *other < entry);
    if list.get(place) == Some(&entry) {
        list.remove(place);
    }
}

#[cfg(test)]
mod tests;
