//! Greedy orders: always run the ready operation that leaves the fewest bytes alive.
//!
//! Effects of ready operations change as others run, so an operation that changes moves within the sorted set of what is ready.

use std::collections::BTreeSet;

use super::model::{Effect, Model, State};

/// Which of several equally good operations runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tie {
    /// The first one of the base order.
    First,
    /// The last one of the base order.
    Last,
    /// The one that became ready last: depth first.
    Newest,
}

/// How effects are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// Fewest bytes after the step, then fewest at the step.
    Residual,
    /// Of those that fit under the highest step so far, fewest bytes after the step; if none fits, fewest at the step.
    FitThenResidual,
}

/// Most operations that are looked at for each one: guards heuristics against quadratic time. Half and twice of it leave all answers as they are.
pub(super) const MAX_LOOKS: usize = 64;

/// An operation that is ready: effect and tie, smallest first.
type Entry = (Effect, i64, u32);

struct Ready<'a> {
    state: State<'a>,
    sorted: BTreeSet<Entry>,
    /// The entry of each operation; `None` if it is not ready.
    current: Vec<Option<(Effect, i64)>>,
    tie: Tie,
    position: &'a [u32],
    clock: i64,
}

impl<'a> Ready<'a> {
    /// What is ready at the start, in the order of operations.
    fn new(model: &'a Model, position: &'a [u32], tie: Tie) -> Self {
        let state = State::new(model);
        let mut ready = Self { state, sorted: BTreeSet::new(), current: vec![None; model.operations], tie, position, clock: 0 };
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

    /// The next operation, given the highest step so far.
    fn choose(&self, aim: Aim, highest: i64) -> Option<u32> {
        let chosen = match aim {
            Aim::Residual => self.sorted.first(),
            Aim::FitThenResidual => {
                let room = highest - self.state.live;
                let fitting = self.looks().find(|(effect, ..)| effect.hill <= room);
                fitting.or_else(|| self.looks().min_by_key(|(effect, tie, _)| (effect.hill, effect.net, *tie)))
            }
        };
        chosen.map(|(.., operation)| *operation)
    }

    /// An operation that fits into a room and does not raise the live bytes.
    fn eager(&self, room: i64) -> Option<u32> {
        let mut free = self.looks().take_while(|(effect, ..)| effect.net <= 0);
        free.find(|(effect, ..)| self.state.live + effect.hill <= room).map(|(.., operation)| *operation)
    }

    /// The first operations.
    fn looks(&self) -> impl Iterator<Item = &Entry> {
        self.sorted.iter().take(MAX_LOOKS)
    }

    /// Runs an operation and refreshes what it changed.
    fn run(&mut self, operation: u32) -> i64 {
        let before = self.state.live;
        // Whatever is ready has its effect of now.
        let Some((effect, tie)) = self.current[operation as usize].take() else { return before };
        self.sorted.remove(&(effect, tie, operation));
        debug_assert_eq!(effect, self.state.effect(operation), "a change was missed");
        self.state.apply(operation, effect);
        self.clock += 1;
        let model = self.state.model;
        for &buffer in model.uses.of(operation) {
            // Only a last user's effect changes, or, where several operations may allocate, that of the other users.
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

/// A greedy order, and its peak. `position` is each operation's place in the base order. O((n + uses) log n).
pub(super) fn greedy(model: &Model, position: &[u32], aim: Aim, tie: Tie) -> (Vec<u32>, u64) {
    let mut ready = Ready::new(model, position, tie);
    let mut highest = 0;
    let mut order = Vec::with_capacity(model.operations);
    while let Some(operation) = ready.choose(aim, highest) {
        highest = highest.max(ready.run(operation));
        order.push(operation);
    }
    (order, highest as u64)
}

/// Follows a base order, but runs at once whatever is ready, fits under `room` and leaves no more bytes alive than before.
///
/// If an order keeps `room`, the result does too: such an operation may always be moved forward (see `doc/order.md`). With the result's peak.
/// O((n + uses) log n).
pub(super) fn settle(model: &Model, base: &[u32], room: u64) -> (Vec<u32>, u64) {
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
