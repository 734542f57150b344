//! Ruin and recreate: some of what runs again is taken out of a plan, or runs elsewhere, and what pays most is put in until the capacity holds again.
//!
//! A large neighborhood search (Shaw 1998; Schrimpf, Schneider, Stamm-Wilbrandt and Dueck 2000) around `relief.rs`: each round decides anew what only makes
//! sense together, where annealing would have to pass through sequences that are far over the capacity.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::edits::Edits;
use super::model::{MAX_CHAIN, Model, NONE};
use super::random::Random;
use super::relief::{self, Whim};
use super::state::State;
use crate::Stop;

/// Rounds after which weights are computed anew: rounding errors add up.
const FRESH: u64 = 64;

/// How many rounds an effort is, for a model.
pub(super) fn rounds(model: &Model, effort: u64) -> u64 {
    model.tuning.effort_per_round.of(effort)
}

/// The search's state.
pub(super) struct Ruin<'s, 'm> {
    state: &'s mut State<'m>,
    capacity: i64,
    /// What sequences keep now: the capacity, or more for a while.
    room: i64,
    whim: Whim,
    edits: Edits,
    /// How many repeats were looked at to let their readers run earlier: in turn, since few are worth it.
    turn: usize,
    /// Operations that states before this one put in or took out.
    work: u64,
    /// Whether only what repeats may move, since transfers were planned for this order.
    keeps_order: bool,
    stop: Stop,
}

impl<'s, 'm> Ruin<'s, 'm> {
    /// A search from a state that keeps the capacity.
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

    /// The same by other chances: the first turn goes by those of a new search.
    pub fn in_turn(mut self, turn: u64) -> Self {
        self.whim.random = Random::new(1 + turn);
        self
    }

    /// Leaves the state at the cheapest sequence within the capacity that was met. O(rounds x absences x (values + tried chains) log slots).
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

    /// Begins every other half anew at the best sequence; what a half found with more room is changed by the next one to keep the capacity.
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

    /// Makes absences until the room holds, whatever that costs; `false` where it does not.
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

    /// Makes absences until the room holds, and takes out what it can do without; `false` if that costs more than is allowed.
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

    /// The slots of what runs more than once, ascending.
    fn repeats(&self) -> Vec<u32> {
        let repeated = self.state.repeated().iter().filter(|operation| self.is_free(**operation));
        let mut slots: Vec<u32> = repeated.flat_map(|operation| self.state.slots_of(*operation)).copied().collect();
        slots.sort_unstable();
        slots
    }

    /// Whether an operation may be taken out and moved: transfers stay as they were planned.
    fn is_free(&self, operation: u32) -> bool {
        operation != NONE && (operation as usize) < self.state.model.fixed
    }

    /// Takes out what is at a slot, if it runs elsewhere too, with what served it alone.
    fn take_out(&mut self, slot: u32) {
        let operation = self.state.operation(slot);
        if self.is_free(operation) && self.state.is_spare(slot) {
            self.edits.take_out(self.state, slot);
            self.edits.take_out_unread(self.state, operation, slot);
        }
    }

    /// Takes out repeats that follow each other.
    fn take_row(&mut self) {
        let slots = self.repeats();
        let count = slots.len() as u32;
        let first = self.whim.random.below(count);
        let last = (first + self.whim.random.below(1 + self.state.model.tuning.row.of(u64::from(count)) as u32))
            .min(count.saturating_sub(1));
        for index in (first..=last).rev() {
            if let Some(slot) = slots.get(index as usize) {
                self.take_out(*slot);
            }
        }
    }

    /// Takes out some repeats.
    fn take_anywhere(&mut self) {
        let slots = self.repeats();
        for _ in 0..=self.whim.random.below(self.state.model.tuning.changes.max(1)) {
            if let Some(slot) = self.whim.random.pick(&slots) {
                self.take_out(slot);
            }
        }
    }

    /// Lets everything that reads one repeat run as early as it can, and no second time, and takes the repeat out: what is made early may be smaller
    /// than what it is made of.
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

    /// Lets some operations run elsewhere, and takes out some repeats.
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

    /// Moves what is at a slot to or near another one between two (both excluded), if there is room.
    fn put_at(&mut self, slot: u32, target: u32, (low, high): (u32, u32)) {
        let operation = self.state.operation(slot);
        if !self.is_free(operation) || high <= low + 1 {
            return;
        }
        if let Some(free) = self.state.free_near(target, low, high) {
            self.edits.shift(self.state, slot, free);
        }
    }

    /// Takes out repeats that the capacity can do without, the costliest first.
    fn drop_spare(&mut self) {
        let mut slots = self.repeats();
        slots.sort_by_key(|slot| (Reverse(self.state.model.costs[self.state.operation(*slot) as usize]), *slot));
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
    use super::super::problem::{Problem, Run, Value};
    use super::*;
    use crate::tuning::BudgetTuning;

    /// `a` (ten bytes) is read early, and late by what makes `c` of it (one byte); two runs with ten bytes stand between.
    fn read_early_and_late() -> Problem {
        let sizes = [10, 1, 10, 1, 1];
        let run = |reads: &[u32], writes: &[u32]| Run {
            reads: reads.to_vec(),
            writes: writes.to_vec(),
            cost: 10,
            repeatable: true,
            ..Run::default()
        };
        let runs = vec![run(&[], &[0]), run(&[0], &[1]), run(&[1], &[2]), run(&[2], &[3]), run(&[0], &[4]), run(&[3, 4], &[])];
        Problem { runs, values: sizes.map(|size| Value { size, ..Value::default() }).to_vec(), ..Problem::default() }
    }

    /// `a` and `c`, both wide, are there together in the given order.
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
    fn what_is_found_with_more_room_is_made_to_keep_the_capacity() {
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
        // What only fits where there is more room is no answer.
        search.run(40);
        assert_eq!((search.state.cost(), search.state.peak() <= 129), (60, true));
    }

    #[test]
    fn what_is_made_late_of_a_repeat_is_made_early_without() {
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
        // Nothing may move there, and nothing can be done without.
        assert_eq!(searched(true), (70, sequence.to_vec()));
        assert_eq!((rounds(&model, 0), rounds(&model, 120)), (0, 30));
    }
}
