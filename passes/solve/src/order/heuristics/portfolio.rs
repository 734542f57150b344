//! The portfolio of heuristics: depth-first and greedy orders in both directions, improved by moving
//! operations that cost nothing. The best order is kept.

use super::depth_first::{Estimates, VISITS, depth_first};
use super::greedy::{Aim, Tie, greedy, settle};
use crate::order::bound;
use crate::order::model::{Model, peak};

/// The best order so far; ties go to the order that is closest to the given order.
#[derive(Clone)]
pub(in crate::order) struct Best<'a> {
    model: &'a Model,
    given_position: Vec<u32>,
    pub order: Vec<u32>,
    pub peak: u64,
    distance: u64,
    /// All orders that were offered, the given order first.
    pub tried: Vec<Vec<u32>>,
}

impl<'a> Best<'a> {
    /// Starts with the given order as the best.
    pub fn new(model: &'a Model, given: &[u32]) -> Self {
        let mut given_position = vec![0; model.operations];
        for (place, operation) in given.iter().enumerate() {
            given_position[*operation as usize] = place as u32;
        }
        Self {
            model,
            given_position,
            order: given.to_vec(),
            peak: peak(model, given),
            distance: 0,
            tried: vec![given.to_vec()],
        }
    }

    /// Like [`Best::keep`], for an order whose peak is unknown.
    pub fn offer(&mut self, order: Vec<u32>) {
        let value = peak(self.model, &order);
        self.keep(order, value);
    }

    /// Keeps an order if its peak `value` is lower, or equal and the order is closer to the given order.
    fn keep(&mut self, order: Vec<u32>, value: u64) {
        self.tried.push(order.clone());
        if value > self.peak {
            return;
        }
        let moved = |(place, operation): (usize, &u32)| {
            (place as u64).abs_diff(u64::from(self.given_position[*operation as usize]))
        };
        let distance = order.iter().enumerate().map(moved).sum();
        if (value, distance) < (self.peak, self.distance) {
            (self.order, self.peak, self.distance) = (order, value, distance);
        }
    }
}

/// Runs all heuristics on the `given` topological order. O((n + uses) log n), with a constant of about
/// thirty orders.
pub(in crate::order) fn improve<'a>(model: &'a Model, given: &[u32]) -> Best<'a> {
    improve_to(model, given, bound::lower_bound(model))
}

/// Like [`improve`], but stops when an order needs at most `enough` bytes.
pub(in crate::order) fn improve_to<'a>(model: &'a Model, given: &[u32], enough: u64) -> Best<'a> {
    let mut best = Best::new(model, given);
    let reversed = model.reversed();
    let mut backward = given.to_vec();
    backward.reverse();
    let place = |order: &[u32]| {
        let mut position = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, operation)| position[*operation as usize] = place as u32);
        position
    };
    let (given_place, backward_place) = (place(given), place(&backward));
    let (estimates, backward_estimates) =
        (Estimates::new(model, given), Estimates::new(&reversed, &backward));
    // A candidate is built only if no earlier order was low enough. A reversed order has the peak of its
    // original.
    type Candidate<'c> = Box<dyn Fn() -> (Vec<u32>, u64) + 'c>;
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    for tie in [Tie::First, Tie::Newest, Tie::Last] {
        for aim in [Aim::Residual, Aim::FitThenResidual] {
            let (given_place, backward_place, reversed) = (&given_place, &backward_place, &reversed);
            candidates.push(Box::new(move || greedy(model, given_place, aim, tie)));
            candidates.push(Box::new(move || turned(greedy(reversed, backward_place, aim, tie))));
        }
    }
    for visit in VISITS {
        let (backward, reversed, estimates, backward_estimates) =
            (&backward, &reversed, &estimates, &backward_estimates);
        let measured = move |model: &Model, order: Vec<u32>| {
            let value = peak(model, &order);
            (order, value)
        };
        candidates.push(Box::new(move || measured(model, depth_first(model, given, estimates, visit))));
        candidates.push(Box::new(move || {
            turned(measured(reversed, depth_first(reversed, backward, backward_estimates, visit)))
        }));
    }
    // Build the candidates and remember them by peak.
    let mut runners_up: Vec<(u64, Vec<u32>)> = Vec::new();
    for candidate in candidates {
        if best.peak <= enough {
            return best;
        }
        let (order, value) = candidate();
        best.keep(order.clone(), value);
        runners_up.push((value, order));
    }
    // Settle the three best orders.
    runners_up.push((best.peak, given.to_vec()));
    runners_up.sort_by_key(|entry| entry.0);
    let mut polished: Vec<(Vec<u32>, u64)> = Vec::new();
    for (_, order) in runners_up.into_iter().take(3) {
        // Several heuristics may find one order.
        let start = (order, best.peak);
        if !polished.contains(&start) {
            polish(&mut best, model, &reversed, start.0.clone(), enough);
            polished.push(start);
        }
    }
    best
}

/// Settles an order forward and backward in turns, as long as that lowers the peak.
fn polish(best: &mut Best<'_>, model: &Model, reversed: &Model, mut order: Vec<u32>, lower_bound: u64) {
    let mut lowest = u64::MAX;
    while best.peak > lower_bound {
        // The room is one byte below the best peak, so the operation that makes the peak is delayed if
        // possible.
        let room = best.peak.saturating_sub(1);
        let (mut settled, forward) = settle(model, &order, room);
        best.keep(settled.clone(), forward);
        settled.reverse();
        let backward;
        (order, backward) = turned(settle(reversed, &settled, room));
        best.keep(order.clone(), backward);
        if forward.min(backward) >= lowest {
            return;
        }
        lowest = forward.min(backward);
    }
}

fn turned((mut order, peak): (Vec<u32>, u64)) -> (Vec<u32>, u64) {
    order.reverse();
    (order, peak)
}
