//! Simulated annealing over sequences with repeats: inserts, removes and moves runs.
//!
//! The method follows FastSA (Imanishi et al. 2023), with three changes. The price of a byte over the
//! capacity follows the search: high while the search is infeasible, lower while it is feasible. The
//! threshold is drawn before a change is tried, so that changes that cost too much are never made.
//! Changes aim at the worst slot while the capacity is exceeded.

use super::bridge::Bridge;
use super::relief::STEEPEST;
use crate::Stop;
use crate::basics::random::{Random, Weights};
use crate::budget::sequence::edits::Edits;
use crate::budget::sequence::model::{MAX_CHAIN, Model, NONE};
use crate::budget::sequence::state::State;

/// Maximum number of values drawn to find one that is live across the worst slot; halving and doubling
/// it moves plans by chance only.
const MAX_DRAWS: u32 = 8;

/// Parameters of one annealing run.
#[derive(Clone, Copy, Debug)]
pub(in crate::budget) struct Schedule {
    pub steps: u64,
    /// Temperatures at the start and at the end, in units of cost.
    pub hot: f64,
    pub cold: f64,
    /// Cost at which the run stops: no sequence costs less.
    pub enough: u64,
    /// Sharpness of the soft maximum that replaces the peak until the capacity holds; `None` to use the
    /// peak itself throughout.
    pub soft: Option<f64>,
}

/// The cheapest sequence found within the capacity.
#[derive(Clone, Debug, Default)]
pub(in crate::budget) struct Best {
    pub sequence: Vec<u32>,
    /// `None` until a sequence within the capacity is found.
    pub cost: Option<u64>,
    /// Lowest peak until then, in bytes.
    pub peak: i64,
}

/// State of the search.
pub(in crate::budget) struct Annealer<'s, 'm> {
    pub state: &'s mut State<'m>,
    pub capacity: i64,
    pub random: Random,
    /// Cost of one byte over the capacity.
    pub price: f64,
    lowest_price: f64,
    pub best: Best,
    /// Whether only repeated runs may move, because transfers were planned for this order.
    pub keeps_order: bool,
    pub stop: Stop,
    edits: Edits,
    /// Values that can be recomputed, and operations that can move, weighted by their bytes.
    values: Weights,
    operations: Weights,
}

impl<'s, 'm> Annealer<'s, 'm> {
    pub fn new(state: &'s mut State<'m>, capacity: i64, price: f64, seed: u64) -> Self {
        let state_model = state.model;
        let best = Best { sequence: state.sequence(), cost: None, peak: state.peak() };
        let mut annealer = Self {
            state,
            capacity,
            random: Random::new(seed),
            price,
            lowest_price: price / 10.0,
            best,
            keeps_order: false,
            stop: Stop::default(),
            edits: Edits::default(),
            values: value_weights(state_model),
            operations: operation_weights(state_model),
        };
        annealer.note_best();
        annealer
    }

    fn energy(&self) -> f64 {
        let over = self.state.soft_top().unwrap_or((self.state.peak() - self.capacity) as f64);
        // `max` would treat NaN as 0.
        self.state.cost() as f64 + if over < 0.0 { 0.0 } else { self.price * over }
    }

    fn note_best(&mut self) {
        let (peak, cost) = (self.state.peak(), self.state.cost());
        let better = match self.best.cost {
            Some(best) => peak <= self.capacity && cost < best,
            None => peak <= self.capacity || peak < self.best.peak,
        };
        if better {
            self.best.sequence = self.state.sequence();
            self.best.peak = peak;
            self.best.cost = (peak <= self.capacity).then_some(cost);
        }
    }

    /// Restarts at the best sequence.
    pub fn restart(&mut self) {
        *self.state = State::new(self.state.model, &self.best.sequence);
    }

    /// Anneals, and leaves the state at the last sequence.
    pub fn run(&mut self, schedule: Schedule) {
        let cooling = (schedule.cold / schedule.hot).ln();
        let mut energy = self.energy();
        let mut temperature = schedule.hot;
        let mut fitting = 0_u32;
        for step in 0..schedule.steps {
            // Every 1,024 steps: cool, adapt the price, check for the end, and spread the sequence
            // again.
            if step & 0x3ff == 0 {
                temperature = schedule.hot * (cooling * step as f64 / schedule.steps as f64).exp();
                // About a third of the steps stay within the capacity, so that the search crosses the
                // boundary again and again.
                if step > 0 {
                    self.price = (self.price * if fitting < 300 { 1.02 } else { 0.98 })
                        .clamp(self.lowest_price, 300.0 * self.lowest_price);
                }
                fitting = 0;
                if self.stop.is_due()
                    || self.best.cost.is_some_and(|cost| schedule.soft.is_some() || cost <= schedule.enough)
                {
                    break;
                }
                if 3 * self.state.count() > self.state.end() as usize {
                    *self.state = State::new(self.state.model, &self.state.sequence());
                }
                match schedule.soft {
                    // Rebuild regularly: rounding errors add up.
                    Some(sharpness) if step & 0x3fff == 0 || self.state.soft_top().is_none() => {
                        self.soften(sharpness)
                    }
                    Some(_) => {}
                    None => self.state.harden(),
                }
                energy = self.energy();
            }
            let threshold = energy - temperature * self.random.unit().max(1e-300).ln();
            self.edits.settle();
            if self.change(threshold) {
                let after = self.energy();
                // NaN counts as no improvement.
                if after <= threshold {
                    energy = after;
                    self.note_best();
                } else {
                    self.undo();
                    if !after.is_finite()
                        && let Some(sharpness) = schedule.soft
                    {
                        self.soften(sharpness);
                    }
                }
            } else {
                self.undo();
            }
            fitting += u32::from(self.state.peak() <= self.capacity);
        }
    }

    /// Maintains a soft maximum whose weights stay finite, since infinite weights cannot be compared.
    fn soften(&mut self, sharpness: f64) {
        let over = self.state.peak().saturating_sub(self.capacity).max(1) as f64;
        self.state.soften(self.capacity, sharpness.min(STEEPEST / over));
    }

    fn undo(&mut self) {
        self.edits.undo(self.state, 0);
    }

    fn put_in(&mut self, operation: u32, slot: u32) {
        self.edits.put_in(self.state, operation, slot);
    }

    fn take_out(&mut self, slot: u32) {
        self.edits.take_out(self.state, slot);
    }

    /// Tries a random change; `false` if the change is impossible.
    fn change(&mut self, threshold: f64) -> bool {
        match self.random.below(16) {
            0..=4 => self.repeat(threshold),
            5..=7 => self.take_out_spare(),
            8 | 9 => self.take_out_spare() && self.repeat(threshold),
            _ => self.shift(),
        }
    }

    /// Draws a value that can be recomputed. If a slot is given, tries a few draws to find a value that
    /// is live across the slot.
    fn draw_value(&mut self, over: Option<u32>) -> Option<u32> {
        let mut value = self.values.draw(&mut self.random)?;
        for _ in 0..over.map_or(0, |_| MAX_DRAWS) {
            if over.is_some_and(|slot| self.state.copy_at(value, slot).is_some_and(|(_, last)| last > slot)) {
                break;
            }
            value = self.values.draw(&mut self.random)?;
        }
        Some(value)
    }

    /// Recomputes a value before one of its uses.
    fn repeat(&mut self, threshold: f64) -> bool {
        let model = self.state.model;
        let worst = (self.state.peak() > self.capacity).then(|| self.state.bad_slot(self.random.unit()));
        let Some(value) = self.draw_value(worst) else { return false };
        let Some(&maker) = model.makers.of(value).first() else { return false };
        if !model.ways[value as usize].is_empty()
            && (!model.repeatable[maker as usize] || self.random.below(2) == 0)
        {
            return self.bridge(value, worst, threshold);
        }
        if !model.repeatable[maker as usize] {
            return false;
        }
        if (self.state.cost() + model.costs[maker as usize]) as f64 > threshold {
            return false;
        }
        let used = self.state.used(value);
        // Choose the range of slots: after the worst slot, or between two uses.
        let (low, high) = if let Some(worst) = worst {
            let next = used.partition_point(|slot| *slot <= worst);
            let Some((_, last)) = self.state.copy_at(value, worst) else { return false };
            if last <= worst {
                return false;
            }
            (worst, used[next])
        } else {
            let Some(next) = self.random.pick(used) else { return false };
            let Some((start, _)) = self.state.copy_at(value, next) else { return false };
            let place = used.partition_point(|slot| *slot < next);
            let previous = place.checked_sub(1).map_or(start, |index| used[index].max(start));
            (previous, next)
        };
        if high <= low + 1 {
            return false;
        }
        let width = high - low - 1;
        let slot = if self.random.below(2) == 0 { high - 1 } else { low + 1 + self.random.below(width) };
        let Some(slot) = self.state.free_near(slot, low, high) else { return false };
        self.put_in(maker, slot);
        if self.random.below(2) == 0 {
            self.repeat_operands(slot, low, threshold);
        }
        true
    }

    /// Bridges a gap of a value by a code: the gap around the worst slot, or one before a random use.
    fn bridge(&mut self, value: u32, worst: Option<u32>, threshold: f64) -> bool {
        let slot = match worst {
            Some(worst) => worst,
            None => match self.random.pick(self.state.used(value)) {
                Some(used) => used - 1,
                None => return false,
            },
        };
        let Some((start, last)) = self.state.copy_at(value, slot) else { return false };
        let bridges: Vec<Bridge> = Bridge::over(self.state, value, start, slot).collect();
        let Some(bridge) = self.random.pick(&bridges).filter(|_| last > slot) else { return false };
        let cost = self.state.cost() + bridge.cost(self.state);
        if cost as f64 > threshold || !bridge.put_in(self.state, &mut self.edits, slot) {
            return false;
        }
        if bridge.has_no_code() && self.random.below(2) == 0 {
            let made = self.state.last_made(value, bridge.next_use);
            self.repeat_operands(made, slot, threshold);
        }
        true
    }

    /// Recomputes operands that stay live longer because of the insertion at a slot: those with their
    /// last use at or before `low`. Skips each at random.
    fn repeat_operands(&mut self, slot: u32, low: u32, threshold: f64) {
        let model = self.state.model;
        let mut open = vec![slot];
        let mut put_in = 0;
        while let Some(slot) = open.pop() {
            for &value in model.reads.of(self.state.operation(slot)) {
                let Some(&(mut maker)) = model.makers.of(value).first() else { continue };
                let Some((start, last)) = self.state.copy_at(value, slot) else { continue };
                let back =
                    model.ways[value as usize].iter().find(|way| way.encode == NONE).map(|way| way.decode);
                if let Some(back) = back.filter(|_| self.random.below(2) == 0) {
                    maker = back;
                }
                if last > slot || !model.repeatable[maker as usize] {
                    continue;
                }
                let used = self.state.used(value);
                let place = used.partition_point(|other| *other < slot);
                let previous = place.checked_sub(1).map_or(start, |index| used[index].max(start));
                if previous > low
                    || (self.state.cost() + model.costs[maker as usize]) as f64 > threshold
                    || self.random.below(4) == 0
                {
                    continue;
                }
                let Some(free) = self.state.free_near(slot - 1, previous, slot) else { continue };
                if model.is_optional(maker) && !self.state.may_stand(maker, free) {
                    continue;
                }
                self.put_in(maker, free);
                open.push(free);
                // Values that give each other back could go on for ever.
                put_in += usize::from(model.is_optional(maker));
                if put_in >= MAX_CHAIN {
                    return;
                }
            }
        }
    }

    fn take_out_spare(&mut self) -> bool {
        let Some(operation) = self.random.pick(self.state.repeated()) else { return false };
        let Some(slot) = self.random.pick(self.state.slots_of(operation)) else { return false };
        if operation as usize >= self.state.model.fixed || !self.state.is_spare(slot) {
            return false;
        }
        self.take_out(slot);
        self.edits.take_out_unread(self.state, operation, slot);
        true
    }

    /// Moves the maker or the last user of a value that is live across a bad slot to the other side of
    /// that slot.
    fn relieve(&mut self) -> bool {
        let worst = self.state.bad_slot(self.random.unit());
        let value = self.random.below(self.state.model.values() as u32);
        let Some((start, last)) = self.state.copy_at(value, worst) else { return false };
        if last <= worst {
            return false;
        }
        let used = self.state.used(value);
        let (before, after) =
            (used.partition_point(|slot| *slot < start), used.partition_point(|slot| *slot <= worst));
        let unused_before = before == after;
        let used_once_after = used[after] == last;
        let slot = if unused_before && (!used_once_after || self.random.below(2) == 0) {
            start
        } else if used_once_after {
            last
        } else {
            return false;
        };
        // The start and the end hold no operations.
        if self.state.operation(slot) as usize >= self.state.model.fixed {
            return false;
        }
        let (low, high) = self.state.bounds(slot);
        let (low, high) = if slot == start { (low.max(worst), high) } else { (low, high.min(worst)) };
        if high <= low + 1 {
            return false;
        }
        let width = high - low - 1;
        let target = match self.random.below(4) {
            0 => low + 1,
            1 => high - 1,
            _ => low + 1 + self.random.below(width),
        };
        let Some(target) = self.state.free_near(target, low, high) else { return false };
        self.edits.shift(self.state, slot, target);
        true
    }

    /// Moves an operation.
    fn shift(&mut self) -> bool {
        let model = self.state.model;
        if !self.keeps_order && self.state.peak() > self.capacity && self.random.below(2) == 0 {
            return self.relieve();
        }
        let operation = if self.keeps_order || self.random.below(3) == 0 {
            self.random.pick(self.state.repeated()).unwrap_or(NONE)
        } else {
            self.operations.draw(&mut self.random).unwrap_or(NONE)
        };
        if operation == NONE || operation as usize >= model.fixed {
            return false;
        }
        let Some(slot) = self.random.pick(self.state.slots_of(operation)) else { return false };
        if self.keeps_order && self.state.slots_of(operation).first() == Some(&slot) {
            return false;
        }
        let (low, high) = self.state.bounds(slot);
        if high <= low + 1 {
            return false;
        }
        let target = low + 1 + self.random.below(high - low - 1);
        let Some(target) = self.state.free_near(target, low, high) else { return false };
        self.edits.shift(self.state, slot, target);
        true
    }
}

/// Returns the square root of each value's bytes if it can be made again, otherwise 0: small values are
/// drawn rarely, but not never.
fn value_weights(model: &Model) -> Weights {
    let is_drawn = |value: u32| model.maker_again(value).is_some() || !model.ways[value as usize].is_empty();
    Weights::new(
        (0..model.values() as u32)
            .map(|value| if is_drawn(value) { (model.sizes[value as usize] as f64).sqrt() } else { 0.0 }),
    )
}

/// Returns the square root of the bytes that each operation reads and makes.
fn operation_weights(model: &Model) -> Weights {
    let bytes = |operation: u32| {
        let values = model.reads.of(operation).iter().chain(model.writes.of(operation));
        values.map(|value| model.sizes[*value as usize] as f64).sum::<f64>()
    };
    Weights::new((0..model.fixed as u32).map(|operation| bytes(operation).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::problem::{Problem, Run, Value};
    use crate::tuning::BudgetTuning;

    #[test]
    fn weights_far_above_the_capacity_are_numbers() {
        let run = |reads: &[u32], writes: &[u32]| Run {
            reads: reads.to_vec(),
            writes: writes.to_vec(),
            cost: 1,
            ..Run::default()
        };
        let values = [1000, 1000].map(|size| Value { size, ..Value::default() }).to_vec();
        let problem = Problem {
            runs: vec![run(&[], &[0]), run(&[0], &[1]), run(&[1], &[])],
            values,
            ..Problem::default()
        };
        let model = Model::new(&problem, &BudgetTuning::DEFAULT);
        let mut state = State::new(&model, &model.given());
        let mut annealer = Annealer::new(&mut state, 1, 1.0, 1);
        annealer.soften(100.0);
        assert!(annealer.state.soft_top().is_some_and(|top| top.is_finite() && top > 1990.0));
    }
}
