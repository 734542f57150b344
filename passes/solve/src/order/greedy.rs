//! Greedy orders: always run the ready operation that leaves the fewest bytes alive.
//!
//! Effects of ready operations change as others run, so the heap is lazy: a change pushes a new entry, and entries that are no longer true are dropped.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

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

/// Entries that `FitThenResidual` looks at before it gives up on finding one that fits.
const LOOKS: usize = 48;

/// What the lazy heap holds: effect and tie, smallest first.
type Entry = Reverse<(Effect, i64, u32)>;

struct Ready<'a> {
    state: State<'a>,
    heap: BinaryHeap<Entry>,
    /// The valid entry of each operation; `None` if it is not ready.
    current: Vec<Option<(Effect, i64)>>,
    tie: Tie,
    position: &'a [u32],
    clock: i64,
}

impl Ready<'_> {
    fn push(&mut self, operation: u32) {
        let tie = match self.tie {
            Tie::First => i64::from(self.position[operation as usize]),
            Tie::Last => -i64::from(self.position[operation as usize]),
            Tie::Newest => self.current[operation as usize].map_or(-self.clock, |(_, tie)| tie),
        };
        let effect = self.state.effect(operation);
        if self.current[operation as usize] != Some((effect, tie)) {
            self.current[operation as usize] = Some((effect, tie));
            self.heap.push(Reverse((effect, tie, operation)));
        }
    }

    fn pop(&mut self) -> Option<(Effect, i64, u32)> {
        while let Some(Reverse((effect, tie, operation))) = self.heap.pop() {
            if self.current[operation as usize] == Some((effect, tie)) {
                return Some((effect, tie, operation));
            }
        }
        None
    }

    /// The next operation, given the highest step so far.
    fn choose(&mut self, aim: Aim, highest: i64) -> Option<u32> {
        if aim == Aim::Residual {
            return self.pop().map(|(_, _, operation)| operation);
        }
        let room = highest - self.state.live;
        let mut passed: Vec<(Effect, i64, u32)> = Vec::new();
        let mut chosen = None;
        while passed.len() < LOOKS {
            let Some(entry) = self.pop() else { break };
            if entry.0.hill <= room {
                chosen = Some(entry.2);
                break;
            }
            passed.push(entry);
        }
        let lowest = passed.iter().min_by_key(|entry| (entry.0.hill, entry.0.net, entry.1)).map(|entry| entry.2);
        let chosen = chosen.or(lowest)?;
        self.heap.extend(passed.into_iter().filter(|entry| entry.2 != chosen).map(Reverse));
        Some(chosen)
    }

    /// Runs an operation and refreshes what it changed.
    fn run(&mut self, operation: u32) -> i64 {
        let before = self.state.live;
        // Whatever is ready has its effect of now.
        let Some((effect, _)) = self.current[operation as usize].take() else { return before };
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
    let state = State::new(model);
    let mut ready = Ready { state, heap: BinaryHeap::new(), current: vec![None; model.operations], tie, position, clock: 0 };
    for operation in 0..model.operations as u32 {
        if ready.state.waits[operation as usize] == 0 {
            ready.push(operation);
        }
    }
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
    let state = State::new(model);
    let mut ready = Ready {
        state,
        heap: BinaryHeap::new(),
        current: vec![None; model.operations],
        tie: Tie::First,
        position: &position,
        clock: 0,
    };
    let mut waiting: BinaryHeap<Reverse<(u32, u32)>> = BinaryHeap::new();
    let mut done = vec![false; model.operations];
    for operation in 0..model.operations as u32 {
        if ready.state.waits[operation as usize] == 0 {
            ready.push(operation);
            waiting.push(Reverse((position[operation as usize], operation)));
        }
    }
    let room = i64::try_from(room).unwrap_or(i64::MAX);
    let mut order = Vec::with_capacity(model.operations);
    let mut highest = 0;
    loop {
        let free = eager(&mut ready, room);
        let next = free.or_else(|| {
            std::iter::from_fn(|| waiting.pop())
                .map(|Reverse((_, operation))| operation)
                .find(|operation| !done[*operation as usize])
        });
        let Some(operation) = next else { return (order, highest as u64) };
        highest = highest.max(ready.run(operation));
        done[operation as usize] = true;
        order.push(operation);
        for &next in model.successors.of(operation) {
            if ready.state.waits[next as usize] == 0 {
                waiting.push(Reverse((position[next as usize], next)));
            }
        }
    }
}

/// A ready operation that fits and does not raise the live bytes.
fn eager(ready: &mut Ready<'_>, room: i64) -> Option<u32> {
    let mut passed = Vec::new();
    let mut found = None;
    while passed.len() < LOOKS {
        let Some(entry) = ready.pop() else { break };
        if entry.0.net <= 0 && ready.state.live + entry.0.hill <= room {
            found = Some(entry.2);
            break;
        }
        let hopeless = entry.0.net > 0;
        passed.push(entry);
        if hopeless {
            break;
        }
    }
    ready.heap.extend(passed.into_iter().map(Reverse));
    found
}
