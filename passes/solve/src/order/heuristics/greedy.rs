//! Greedy orders: always run the ready operation that leaves the fewest live bytes.
//!
//! Running an operation changes the effects of other ready operations. A changed operation moves within
//! the sorted set of ready operations.

use std::collections::BTreeSet;

use crate::order::model::{Effect, Model, State};

/// Rule for choosing among equally good operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::order) enum Tie {
    /// The first operation of the base order.
    First,
    /// The last operation of the base order.
    Last,
    /// The operation that became ready last: depth first.
    Newest,
}

/// Comparison of effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::order) enum Aim {
    /// Fewest bytes after the step, then fewest bytes at the step.
    Residual,
    /// Of the operations that fit under the highest step so far, fewest bytes after the step. If none
    /// fits, fewest bytes at the step.
    FitThenResidual,
}

/// Most ready operations examined at each step. Guards the heuristics against quadratic time. Half or
/// twice this number changes no answer.
pub(in crate::order) const MAX_LOOKS: usize = 64;

/// A ready operation: effect, tie key and index, smallest first.
type Entry = (Effect, i64, u32);

struct Ready<'a> {
    state: State<'a>,
    sorted: BTreeSet<Entry>,
    /// Effect and tie key of each operation; `None` if it is not ready.
    current: Vec<Option<(Effect, i64)>>,
    tie: Tie,
    position: &'a [u32],
    clock: i64,
}

impl<'a> Ready<'a> {
    /// Starts with the operations that have no predecessors.
    fn new(model: &'a Model, position: &'a [u32], tie: Tie) -> Self {
        let state = State::new(model);
        let mut ready = Self {
            state,
            sorted: BTreeSet::new(),
            current: vec![None; model.operations],
            tie,
            position,
            clock: 0,
        };
        for operation in 0..model.operations as u32 {
            if ready.state.waits[operation as usize] == 0 {
                ready.push(operation);
            }
        }
        ready
    }

    fn push(&mut self, operation: u32) {
        let before = self.current[operation as usize];
        let tie = match self.tie {
            Tie::First => i64::from(self.position[operation as usize]),
            Tie::Last => -i64::from(self.position[operation as usize]),
            Tie::Newest => before.map_or(-self.clock, |(_, tie)| tie),
        };
        let effect = self.state.effect(operation);
        if before != Some((effect, tie)) {
            self.current[operation as usize] = Some((effect, tie));
            if let Some((effect, tie)) = before {
                self.sorted.remove(&(effect, tie, operation));
            }
            self.sorted.insert((effect, tie, operation));
        }
    }

    /// Returns the next operation, given the bytes of the highest step so far.
    fn choose(&self, aim: Aim, highest: i64) -> Option<u32> {
        let chosen = match aim {
            Aim::Residual => self.sorted.first(),
            Aim::FitThenResidual => {
                let room = highest - self.state.live;
                let fitting = self.looks().find(|(effect, ..)| effect.hill <= room);
                fitting
                    .or_else(|| self.looks().min_by_key(|(effect, tie, _)| (effect.hill, effect.net, *tie)))
            }
        };
        chosen.map(|(.., operation)| *operation)
    }

    /// Returns an operation that fits into `room` bytes and does not raise the live bytes.
    fn eager(&self, room: i64) -> Option<u32> {
        let mut free = self.looks().take_while(|(effect, ..)| effect.net <= 0);
        free.find(|(effect, ..)| self.state.live + effect.hill <= room).map(|(.., operation)| *operation)
    }

    /// Returns the first `MAX_LOOKS` ready operations.
    fn looks(&self) -> impl Iterator<Item = &Entry> {
        self.sorted.iter().take(MAX_LOOKS)
    }

    /// Runs an operation and updates the effects that it changed. Returns the bytes at its step.
    fn run(&mut self, operation: u32) -> i64 {
        let before = self.state.live;
        // The stored effect of a ready operation is always current.
        let Some((effect, tie)) = self.current[operation as usize].take() else { return before };
        self.sorted.remove(&(effect, tie, operation));
        debug_assert_eq!(effect, self.state.effect(operation), "a change was missed");
        self.state.apply(operation, effect);
        self.clock += 1;
        let model = self.state.model;
        for &buffer in model.uses.of(operation) {
            // Only the last user's effect changes, or, if several operations may allocate the buffer,
            // the effects of its other users.
            let allocators = model.users.of(buffer);
            let held = &self.state.held[buffer as usize];
            if held.left == 1 {
                let last = held.last_user;
                if self.current[last as usize].is_some() {
                    self.push(last);
                }
            } else if allocators.len() as u32 == held.left + 1 && !model.from_start[buffer as usize] {
                for &user in allocators {
                    if self.current[user as usize].is_some() {
                        self.push(user);
                    }
                }
            }
        }
        for &next in model.successors.of(operation) {
            if self.state.waits[next as usize] == 0 {
                self.push(next);
            }
        }
        before + effect.hill
    }
}

/// Returns a greedy order and its peak. `position` is the position of each operation in the base order.
/// O((n + uses) log n).
pub(in crate::order) fn greedy(model: &Model, position: &[u32], aim: Aim, tie: Tie) -> (Vec<u32>, u64) {
    let mut ready = Ready::new(model, position, tie);
    let mut highest = 0;
    let mut order = Vec::with_capacity(model.operations);
    while let Some(operation) = ready.choose(aim, highest) {
        highest = highest.max(ready.run(operation));
        order.push(operation);
    }
    (order, highest as u64)
}

/// Follows a base order, but first runs any ready operation that fits under `room` and does not raise
/// the live bytes. Returns the order and its peak.
///
/// If the base order keeps `room`, the result keeps it too: a free operation may always move forward
/// (see `doc/order.md`). O((n + uses) log n).
pub(in crate::order) fn settle(model: &Model, base: &[u32], room: u64) -> (Vec<u32>, u64) {
    let mut position = vec![0; model.operations];
    for (place, operation) in base.iter().enumerate() {
        position[*operation as usize] = place as u32;
    }
    let mut ready = Ready::new(model, &position, Tie::First);
    let mut rest = base.iter().copied();
    let mut done = vec![false; model.operations];
    let room = i64::try_from(room).unwrap_or(i64::MAX);
    let mut order = Vec::with_capacity(model.operations);
    let mut highest = 0;
    loop {
        let next = ready.eager(room).or_else(|| rest.find(|operation| !done[*operation as usize]));
        let Some(operation) = next else { return (order, highest as u64) };
        highest = highest.max(ready.run(operation));
        done[operation as usize] = true;
        order.push(operation);
    }
}
