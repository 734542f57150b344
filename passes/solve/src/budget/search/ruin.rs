//! Ruin and recreate: removes or moves some repeated runs of a plan, then inserts the best
//! recomputations until the capacity holds again.
//!
//! This is a large neighborhood search (Shaw 1998; Schrimpf, Schneider, Stamm-Wilbrandt and Dueck 2000)
//! around `relief.rs`. Each round changes together the decisions that depend on each other; annealing
//! would have to pass through sequences far over the capacity.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::relief::{self, Whim};
use crate::Stop;
use crate::basics::random::Random;
use crate::budget::sequence::edits::Edits;
use crate::budget::sequence::model::{MAX_CHAIN, Model, NONE};
use crate::budget::sequence::state::State;

/// Number of rounds after which weights are recomputed, because rounding errors add up.
const FRESH: u64 = 64;

/// Returns the number of rounds of an effort.
pub(in crate::budget) fn rounds(model: &Model, effort: u64) -> u64 {
    model.tuning.effort_per_round.of(effort)
}

/// State of the search.
pub(in crate::budget) struct Ruin<'s, 'm> {
    state: &'s mut State<'m>,
    capacity: i64,
    /// Current limit of the sequences, in bytes: the capacity, or more for part of the rounds.
    room: i64,
    whim: Whim,
    edits: Edits,
    /// Number of repeats tried by `advance` so far; they take turns, since few are worth it.
    turn: usize,
    /// Number of operations inserted or removed in earlier states.
    work: u64,
    /// Whether only repeated runs may move, because transfers were planned for this order.
    keeps_order: bool,
    stop: Stop,
}

impl<'s, 'm> Ruin<'s, 'm> {
    /// Creates a search from a state that keeps the capacity.
    pub fn new(state: &'s mut State<'m>, capacity: i64, keeps_order: bool, stop: &Stop) -> Self {
        let noise = state.model.tuning.noise.factor();
        Self {
            state,
            capacity,
            room: capacity,
            whim: Whim { random: Random::new(1), noise, banned: BTreeSet::new() },
            edits: Edits::default(),
            turn: 0,
            work: 0,
            keeps_order,
            stop: stop.clone(),
        }
    }

    /// Changes the random numbers to those of a turn; turn 0 equals a new search.
    pub fn in_turn(mut self, turn: u64) -> Self {
        self.whim.random = Random::new(1 + turn);
        self
    }

    /// Searches, and leaves the state at the cheapest sequence found within the capacity. O(rounds x
    /// absences x (values + tried chains) log slots).
    pub fn run(&mut self, rounds: u64) {
        if rounds == 0 {
            return;
        }
        let tuning = &self.state.model.tuning;
        let given = State::new(self.state.model, &self.state.model.given()).cost();
        let mut best = (self.state.cost(), self.state.sequence());
        let hot = tuning.heat.factor() * best.0.saturating_sub(given) as f64;
        let work = tuning.work_per_round.max(1).saturating_mul(rounds) as f64;
        let restarts = tuning.rounds;
        let (mut round, mut halves) = (0, 0);
        loop {
            // The search is done when its rounds, or the work expected of them, are spent.
            let worked = (self.work + self.state.work) as f64 / work;
            let done = worked.max(round as f64 / rounds as f64);
            let is_bare = self.room == self.capacity && self.state.repeated().is_empty();
            if done >= 1.0 || self.stop.is_due() || is_bare {
                break;
            }
            if done * 2.0 * f64::from(restarts) >= f64::from(halves) {
                self.begin_half(halves, &best.1);
                halves += 1;
            } else if round % FRESH == 0 || 3 * self.state.count() > self.state.end() as usize {
                self.begin(&self.state.sequence());
            }
            round += 1;
            // One round: ruin, recreate, and keep the result if it costs little enough.
            let heat = hot * (1.0 - done);
            let allowed = self.state.cost() as f64 - heat * self.whim.random.unit().max(1e-300).ln();
            self.edits.settle();
            self.whim.banned.clear();
            self.ruin();
            if self.edits.mark() == 0 || !self.recreate(allowed) {
                self.edits.undo(self.state, 0);
            } else if self.state.cost() < best.0 && self.state.peak() <= self.capacity {
                best = (self.state.cost(), self.state.sequence());
            }
        }
        *self.state = State::new(self.state.model, &best.1);
    }

    /// Restarts every other half at the best sequence. A half may use more room; the next half changes
    /// its result so that it keeps the capacity.
    fn begin_half(&mut self, half: u32, best: &[u32]) {
        let tuning = &self.state.model.tuning;
        let loose = tuning.rounds / 2;
        let more = tuning.little.of(self.capacity.unsigned_abs());
        self.room = if half == loose { self.capacity.saturating_add_unsigned(more) } else { self.capacity };
        let goes_on = half % 2 == 1 && (half != loose + 1 || self.tighten());
        if !goes_on {
            self.begin(best);
        }
    }

    /// Makes absences at any cost until the limit holds; `false` if it does not hold.
    fn tighten(&mut self) -> bool {
        self.begin(&self.state.sequence());
        self.edits.settle();
        self.whim.banned.clear();
        self.recreate(f64::MAX)
    }

    fn begin(&mut self, sequence: &[u32]) {
        self.work += self.state.work;
        *self.state = State::new(self.state.model, sequence);
        relief::soften(self.state, self.room);
    }

    fn ruin(&mut self) {
        match self.whim.random.below(if self.keeps_order { 2 } else { 4 }) {
            0 => self.take_row(),
            1 => self.take_anywhere(),
            2 => self.advance(),
            _ => self.displace(),
        }
    }

    /// Makes absences until the limit holds, then removes unnecessary repeats; `false` if the result
    /// costs more than `allowed`.
    fn recreate(&mut self, allowed: f64) -> bool {
        for _ in 0..MAX_CHAIN {
            if self.state.peak() <= self.room || self.state.cost() as f64 > allowed {
                break;
            }
            if !relief::lower_peak(self.state, &mut self.edits, allowed as u64, Some(&mut self.whim)) {
                return false;
            }
        }
        if self.state.peak() > self.room {
            return false;
        }
        self.drop_spare();
        self.state.cost() as f64 <= allowed
    }

    /// Returns the slots of operations that run more than once, ascending.
    fn repeats(&self) -> Vec<u32> {
        let repeated = self.state.repeated().iter().filter(|operation| self.is_free(**operation));
        let mut slots: Vec<u32> =
            repeated.flat_map(|operation| self.state.slots_of(*operation)).copied().collect();
        slots.sort_unstable();
        slots
    }

    /// Whether an operation may be removed and moved; transfers stay as planned.
    fn is_free(&self, operation: u32) -> bool {
        operation != NONE && (operation as usize) < self.state.model.fixed
    }

    /// Removes the operation at a slot, if it also runs elsewhere, together with runs that served it
    /// alone.
    fn take_out(&mut self, slot: u32) {
        let operation = self.state.operation(slot);
        if self.is_free(operation) && self.state.is_spare(slot) {
            self.edits.take_out(self.state, slot);
            self.edits.take_out_unread(self.state, operation, slot);
        }
    }

    /// Removes repeats that follow each other.
    fn take_row(&mut self) {
        let slots = self.repeats();
        let count = slots.len() as u32;
        let first = self.whim.random.below(count);
        let last = (first
            + self.whim.random.below(1 + self.state.model.tuning.row.of(u64::from(count)) as u32))
        .min(count.saturating_sub(1));
        for index in (first..=last).rev() {
            if let Some(slot) = slots.get(index as usize) {
                self.take_out(*slot);
            }
        }
    }

    /// Removes some repeats at random places.
    fn take_anywhere(&mut self) {
        let slots = self.repeats();
        for _ in 0..=self.whim.random.below(self.state.model.tuning.changes.max(1)) {
            if let Some(slot) = self.whim.random.pick(&slots) {
                self.take_out(slot);
            }
        }
    }

    /// Moves every reader of one repeat as early as possible, bans these readers from repeats in this
    /// round, and removes the repeat. A result that is made early may be smaller than its operands.
    fn advance(&mut self) {
        let is_first = |slot: &u32| self.state.slots_of(self.state.operation(*slot)).first() == Some(slot);
        let slots: Vec<u32> = self.repeats().into_iter().filter(|slot| !is_first(slot)).collect();
        let Some(&slot) = slots.get(self.turn % slots.len().max(1)) else { return };
        self.turn += 1;
        let model = self.state.model;
        let operation = self.state.operation(slot);
        for &value in model.writes.of(operation) {
            let stop = self.state.next_made(value, slot);
            let read_here = self.state.used(value).iter().filter(|used| **used > slot && **used <= stop);
            for reader in read_here.copied().collect::<Vec<u32>>() {
                let (low, high) = self.state.bounds(reader);
                self.whim.banned.insert(self.state.operation(reader));
                self.put_at(reader, low + 1, (low, reader.min(high)));
            }
        }
        if self.state.operation(slot) == operation {
            self.take_out(slot);
        }
    }

    /// Moves some operations, and removes some repeats.
    fn displace(&mut self) {
        for _ in 0..=self.whim.random.below((self.state.model.tuning.changes / 2).max(1)) {
            let operation = self.whim.random.below(self.state.model.fixed as u32);
            let Some(slot) = self.whim.random.pick(self.state.slots_of(operation)) else { continue };
            let (low, high) = self.state.bounds(slot);
            if high > low + 1 {
                let target = match self.whim.random.below(3) {
                    0 => low + 1,
                    1 => high - 1,
                    _ => low + 1 + self.whim.random.below(high - low - 1),
                };
                self.put_at(slot, target, (low, high));
            }
        }
        self.take_anywhere();
    }

    /// Moves the operation at a slot to or near a target slot between `low` and `high` (both excluded),
    /// if there is room.
    fn put_at(&mut self, slot: u32, target: u32, (low, high): (u32, u32)) {
        let operation = self.state.operation(slot);
        if !self.is_free(operation) || high <= low + 1 {
            return;
        }
        if let Some(free) = self.state.free_near(target, low, high) {
            self.edits.shift(self.state, slot, free);
        }
    }

    /// Removes repeats that the capacity does not need, the costliest first.
    fn drop_spare(&mut self) {
        let mut slots = self.repeats();
        slots.sort_by_key(|slot| {
            (Reverse(self.state.model.costs[self.state.operation(*slot) as usize]), *slot)
        });
        for slot in slots {
            let mark = self.edits.mark();
            self.take_out(slot);
            if self.state.peak() > self.room {
                self.edits.undo(self.state, mark);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::problem::{Problem, Run, Value};
    use crate::tuning::BudgetTuning;

    /// Value 0 (ten bytes) is read early, and late by the maker of value 4 (one byte). Between them two
    /// runs make and read another value of ten bytes.
    fn read_early_and_late() -> Problem {
        let sizes = [10, 1, 10, 1, 1];
        let run = |reads: &[u32], writes: &[u32]| Run {
            reads: reads.to_vec(),
            writes: writes.to_vec(),
            cost: 10,
            repeatable: true,
            ..Run::default()
        };
        let runs = vec![
            run(&[], &[0]),
            run(&[0], &[1]),
            run(&[1], &[2]),
            run(&[2], &[3]),
            run(&[0], &[4]),
            run(&[3, 4], &[]),
        ];
        Problem {
            runs,
            values: sizes.map(|size| Value { size, ..Value::default() }).to_vec(),
            ..Problem::default()
        }
    }

    /// Values 0 and 2, both wide, are live together in the given order.
    fn wide_ones_that_meet() -> Problem {
        let run = |reads: &[u32], writes: &[u32]| Run {
            reads: reads.to_vec(),
            writes: writes.to_vec(),
            cost: 10,
            repeatable: true,
            ..Run::default()
        };
        let runs = vec![run(&[], &[0]), run(&[0], &[1]), run(&[1], &[2]), run(&[2], &[3]), run(&[0, 3], &[])];
        let values = [60, 1, 70, 1].map(|size| Value { size, ..Value::default() }).to_vec();
        Problem { runs, values, ..Problem::default() }
    }

    #[test]
    fn a_sequence_found_with_more_room_is_made_to_fit() {
        let problem = wide_ones_that_meet();
        let model = Model::new(&problem, &BudgetTuning::DEFAULT);
        let best = [0, 1, 2, 3, 0, 4];
        let mut state = State::new(&model, &best);
        let mut search = Ruin::new(&mut state, 129, false, &Stop::default());
        search.begin_half(2, &best);
        search.drop_spare();
        assert_eq!((search.state.cost(), search.state.peak()), (50, 131));
        search.begin_half(3, &best);
        assert_eq!((search.room, search.state.cost()), (129, 60));
        assert!(search.state.peak() <= 129);
        // A sequence that fits only with more room is no answer.
        search.run(40);
        assert_eq!((search.state.cost(), search.state.peak() <= 129), (60, true));
    }

    #[test]
    fn moving_a_run_early_removes_an_unnecessary_repeat() {
        let problem = read_early_and_late();
        let model = Model::new(&problem, &BudgetTuning::DEFAULT);
        let sequence = [0, 1, 2, 3, 0, 4, 5];
        let searched = |keeps_order: bool| {
            let mut state = State::new(&model, &sequence);
            assert!(state.peak() <= 12 && state.cost() == 70);
            Ruin::new(&mut state, 12, keeps_order, &Stop::default()).run(20);
            assert!(state.peak() <= 12);
            (state.cost(), state.sequence())
        };
        assert_eq!(searched(false).0, 60);
        // With the order kept no run may move, and no repeat is unnecessary.
        assert_eq!(searched(true), (70, sequence.to_vec()));
        assert_eq!((rounds(&model, 0), rounds(&model, 120)), (0, 30));
    }
}
