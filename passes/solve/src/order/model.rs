//! The ordering problem in flat arrays, and the state of a partial order. All heuristics and the exact
//! search work on them.

use super::problem::Problem;
use crate::basics::lists::Lists;
use crate::basics::matching::matched;

/// A valid ordering problem in flat arrays.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub operations: usize,
    pub predecessors: Lists,
    pub successors: Lists,
    /// For each operation, the buffers that it uses.
    pub uses: Lists,
    /// For each buffer, the operations that use it.
    pub users: Lists,
    pub takes_over: Lists,
    pub sizes: Vec<u64>,
    pub scratch: Vec<u64>,
    pub from_start: Vec<bool>,
    pub kept: Vec<bool>,
    /// Whether steps run from the last to the first. A buffer that a step allocates then ends at that
    /// step in real time.
    pub backward: bool,
}

impl Model {
    /// Builds the model of a valid problem. O(n + uses), plus sorting.
    pub fn new(problem: &Problem) -> Self {
        let (operations, buffers) = (problem.operations.len(), problem.buffers.len());
        let (mut uses, mut users, mut takes) = (Vec::new(), Vec::new(), Vec::new());
        for (index, buffer) in problem.buffers.iter().enumerate() {
            for &user in &buffer.users {
                uses.push((user, index as u32));
                users.push((index as u32, user));
            }
            takes.extend(buffer.takes_over.iter().map(|&other| (index as u32, other)));
        }
        let mut model = Self {
            operations,
            predecessors: Lists::default(),
            successors: Lists::default(),
            uses: Lists::group(operations, uses),
            users: Lists::group(buffers, users),
            takes_over: Lists::group(buffers, takes),
            sizes: problem.buffers.iter().map(|buffer| buffer.size).collect(),
            scratch: problem.operations.iter().map(|operation| operation.scratch).collect(),
            from_start: problem.buffers.iter().map(|buffer| buffer.live_from_start).collect(),
            kept: problem.buffers.iter().map(|buffer| buffer.kept).collect(),
            backward: false,
        };
        model.follow(problem);
        model
    }

    /// Replaces the predecessors by those of a problem that is otherwise equal. O(edges), plus sorting.
    pub fn follow(&mut self, problem: &Problem) {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for (index, operation) in problem.operations.iter().enumerate() {
            for &other in &operation.predecessors {
                before.push((index as u32, other));
                after.push((other, index as u32));
            }
        }
        self.predecessors = Lists::group(self.operations, before);
        self.successors = Lists::group(self.operations, after);
    }

    /// Returns the problem run backward: buffers that were kept live from the start. A reversed order
    /// has the bytes of the original order at each step.
    pub fn reversed(&self) -> Self {
        Self {
            predecessors: self.successors.clone(),
            successors: self.predecessors.clone(),
            from_start: self.kept.clone(),
            kept: self.from_start.clone(),
            backward: !self.backward,
            ..self.clone()
        }
    }

    /// Returns, for each operation, the set of itself and all operations reachable through `neighbors`,
    /// as one row of bits each. `sequence` lists all operations, neighbors first. O(edges · n / 64).
    pub fn closures(&self, neighbors: &Lists, sequence: impl Iterator<Item = u32>) -> Vec<u64> {
        let words = self.operations.div_ceil(64);
        let mut sets = vec![0_u64; self.operations * words];
        let mut row = vec![0_u64; words];
        for operation in sequence {
            row.fill(0);
            row[operation as usize / 64] |= 1 << (operation % 64);
            for &neighbor in neighbors.of(operation) {
                let other = &sets[neighbor as usize * words..(neighbor as usize + 1) * words];
                row.iter_mut().zip(other).for_each(|(own, other)| *own |= other);
            }
            sets[operation as usize * words..(operation as usize + 1) * words].copy_from_slice(&row);
        }
        sets
    }

    /// Returns the bytes that a step saves because buffers that it allocates take over buffers that end
    /// at it.
    ///
    /// `allocates` and `ends` say whether the step allocates or ends a buffer. The larger takers are
    /// matched first, each along an augmenting path if one exists. This is optimal because the worth of
    /// a pair is the size of its taker alone. O(takers · pairs) of the operation; there is nearly always
    /// one pair.
    pub fn saved(&self, operation: u32, allocates: impl Fn(u32) -> bool, ends: impl Fn(u32) -> bool) -> u64 {
        let uses = self.uses.of(operation);
        let can_take = |buffer: &u32| !self.takes_over.of(*buffer).is_empty() && allocates(*buffer);
        let mut found = uses.iter().copied().filter(can_take);
        let Some(first) = found.next() else { return 0 };
        let candidates = |taker: u32| {
            self.takes_over
                .of(taker)
                .iter()
                .copied()
                .filter(|other| uses.binary_search(other).is_ok() && ends(*other))
        };
        let Some(second) = found.next() else {
            return if candidates(first).next().is_some() { self.sizes[first as usize] } else { 0 };
        };
        let mut takers: Vec<u32> = [first, second].into_iter().chain(found).collect();
        takers.sort_by_key(|buffer| std::cmp::Reverse(self.sizes[*buffer as usize]));
        matched(&takers, candidates).into_iter().map(|taker| self.sizes[taker as usize]).sum()
    }
}

/// Change of the live bytes at one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Effect {
    /// Live bytes after the step minus live bytes before it.
    pub net: i64,
    /// Bytes at the step minus live bytes before it.
    pub hill: i64,
}

/// State of a buffer in a partial order, with the properties that every step reads.
#[derive(Clone, Debug)]
pub(super) struct Held {
    size: i64,
    /// Number of users that did not run yet.
    pub left: u32,
    /// Exclusive or of the indices of those users: the index of the last user when one is left.
    pub last_user: u32,
    /// Whether the buffer was allocated. An allocated buffer lives while users are left or if it is
    /// kept.
    pub allocated: bool,
    kept: bool,
    /// Whether it may take over other buffers.
    takes: bool,
}

impl Held {
    /// Whether the next user that runs is the last one and frees the buffer.
    fn ends(&self) -> bool {
        self.left == 1 && !self.kept
    }
}

/// A partial order: the operations that ran, and the bytes that live now.
#[derive(Clone, Debug)]
pub(super) struct State<'a> {
    pub model: &'a Model,
    /// State of each buffer.
    pub held: Vec<Held>,
    /// For each operation, the number of predecessors that did not run yet.
    pub waits: Vec<u32>,
    pub live: i64,
}

impl<'a> State<'a> {
    /// Returns the state before any operation ran.
    pub fn new(model: &'a Model) -> Self {
        let held = |buffer: u32| {
            let users = model.users.of(buffer);
            Held {
                size: model.sizes[buffer as usize] as i64,
                left: users.len() as u32,
                last_user: users.iter().fold(0, |all, user| all ^ user),
                allocated: model.from_start[buffer as usize],
                kept: model.kept[buffer as usize],
                takes: !model.takes_over.of(buffer).is_empty(),
            }
        };
        let held: Vec<Held> = (0..model.sizes.len() as u32).map(held).collect();
        let waits = (0..model.operations as u32)
            .map(|operation| model.predecessors.of(operation).len() as u32)
            .collect();
        let live = held
            .iter()
            .filter(|held| held.allocated && (held.left > 0 || held.kept))
            .map(|held| held.size)
            .sum();
        Self { model, held, waits, live }
    }

    /// Returns the effect of running `operation` next. O(its buffers).
    pub fn effect(&self, operation: u32) -> Effect {
        let (mut allocated, mut freed) = (0_i64, 0_i64);
        let mut takes = false;
        for &buffer in self.model.uses.of(operation) {
            let held = &self.held[buffer as usize];
            let (starts, ends) = (!held.allocated, held.ends());
            allocated += if starts { held.size } else { 0 };
            freed += if ends { held.size } else { 0 };
            takes |= held.takes && if self.model.backward { ends } else { starts };
        }
        let mut hill = allocated + self.model.scratch[operation as usize] as i64;
        if takes {
            let starts = |buffer: u32| !self.held[buffer as usize].allocated;
            let ends = |buffer: u32| self.held[buffer as usize].ends();
            let saved = if self.model.backward {
                self.model.saved(operation, ends, |taken| starts(taken) && !ends(taken))
            } else {
                self.model.saved(operation, starts, |taken| !starts(taken) && ends(taken))
            };
            hill -= saved as i64;
        }
        Effect { net: allocated - freed, hill }
    }

    /// Runs `operation` and returns its effect.
    pub fn run(&mut self, operation: u32) -> Effect {
        let effect = self.effect(operation);
        self.apply(operation, effect);
        effect
    }

    /// Runs `operation`, whose effect is known.
    pub fn apply(&mut self, operation: u32, effect: Effect) {
        for &buffer in self.model.uses.of(operation) {
            let held = &mut self.held[buffer as usize];
            held.allocated = true;
            held.left -= 1;
            held.last_user ^= operation;
        }
        for &next in self.model.successors.of(operation) {
            self.waits[next as usize] -= 1;
        }
        self.live += effect.net;
    }

    /// Undoes the last run of `operation`, given its change of live bytes and the buffers that it
    /// allocated.
    pub fn take_back(&mut self, operation: u32, net: i64, allocated: impl IntoIterator<Item = u32>) {
        for &next in self.model.successors.of(operation) {
            self.waits[next as usize] += 1;
        }
        for &buffer in self.model.uses.of(operation) {
            let held = &mut self.held[buffer as usize];
            held.left += 1;
            held.last_user ^= operation;
        }
        allocated.into_iter().for_each(|buffer| self.held[buffer as usize].allocated = false);
        self.live -= net;
    }
}

/// Returns the bytes at each step of an order. O(n + uses).
pub(super) fn profile(model: &Model, order: &[u32]) -> Vec<u64> {
    let mut state = State::new(model);
    let mut steps = Vec::with_capacity(order.len());
    for &operation in order {
        let before = state.live;
        let effect = state.run(operation);
        steps.push((before + effect.hill).max(0) as u64);
    }
    steps
}

/// Returns the highest number of bytes at a step of an order. O(n + uses).
pub(super) fn peak(model: &Model, order: &[u32]) -> u64 {
    profile(model, order).into_iter().max().unwrap_or(0)
}

/// Returns the position of each operation in an order.
pub(super) fn positions(order: &[u32]) -> Vec<u32> {
    let mut position = vec![0; order.len()];
    for (place, operation) in order.iter().enumerate() {
        position[*operation as usize] = place as u32;
    }
    position
}
