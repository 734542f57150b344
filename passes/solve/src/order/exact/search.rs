//! The decision search: is there an order whose peak is at most B?
//!
//! A state is the set of operations that ran; it determines the live bytes. Two rules act before any
//! branching (proofs in `doc/order.md`):
//!
//! - A ready operation that fits under B and does not raise the live bytes runs at once.
//! - A chain runs at once if it fits and ends with no more live bytes than before. A chain is a ready
//!   operation, followed by operations that the chain itself made ready.
//!
//! Otherwise the search tries every ready operation that fits, fewest live bytes first. When the search
//! reaches a set with the fewest live bytes of all sets since an earlier branch, it drops the untried
//! moves of the branches between. Failed states are remembered, so the search ends; then B is proven to
//! be too low.

use std::cell::Cell;

use crate::basics::no_goods::{MAX_STATES, NoGoods, mix};
use crate::order::cuts::commit::Interval;
use crate::order::model::{Model, State};

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::order) enum Verdict {
    /// An order with at most the requested peak.
    Found(Vec<u32>),
    /// No order has the requested peak; the next peak that may be possible is this one, in bytes.
    Impossible(u64),
    /// The limit of looks was reached.
    Limit,
}

/// An operation that ran, with the data that undoes the run.
struct Done {
    operation: u32,
    net: i64,
    ready_place: u32,
    allocated_from: u32,
}

/// A branching point: the operations still to try, and the number of operations that ran before it.
struct Branch {
    untried: Vec<u32>,
    past: usize,
    live: i64,
}

struct Search<'a> {
    state: State<'a>,
    bound: i64,
    ready: Vec<u32>,
    past: Vec<Done>,
    /// Buffers in the sequence of their allocation, for undoing runs.
    allocations: Vec<u32>,
    key: u128,
    /// Lowest step above the bound that was refused. The search would run identically at every bound
    /// below it.
    lowest_refused: Cell<i64>,
    /// Operations examined and lists walked so far. This measures work, because a state of a wide graph
    /// costs more than a state of a narrow graph.
    looks: Cell<u64>,
    most_looks: u64,
    /// Operations to which the rules without branching apply.
    may_be_free: Vec<bool>,
}

/// Searches for an order with a peak of at most `bound`, with at most `limit` looks at operations.
/// Counts `limit` down.
pub(in crate::order) fn decide(model: &Model, bound: u64, limit: &mut u64) -> Verdict {
    let ready = (0..model.operations as u32)
        .filter(|operation| model.predecessors.of(*operation).is_empty())
        .collect();
    let bound = i64::try_from(bound).unwrap_or(i64::MAX);
    let state = State::new(model);
    let mut search = Search {
        state,
        bound,
        ready,
        past: Vec::new(),
        allocations: Vec::new(),
        key: 0,
        lowest_refused: Cell::new(i64::MAX),
        looks: Cell::new(0),
        most_looks: *limit,
        may_be_free: may_be_free(model),
    };
    if search.state.live > bound {
        return Verdict::Impossible(search.state.live as u64);
    }
    let mut failed = NoGoods::default();
    let mut branches: Vec<Branch> = Vec::new();
    let mut interval = Interval::new(model.operations, model.sizes.len());
    loop {
        // If the set before the free operations is known, the free operations need not be found again.
        let is_new = remember(&mut failed, search.key) && {
            let key = search.key;
            search.run_free();
            search.key == key || remember(&mut failed, search.key)
        };
        *limit = search.most_looks.saturating_sub(search.looks.get());
        if search.past.len() == model.operations {
            return Verdict::Found(search.past.into_iter().map(|done| done.operation).collect());
        }
        // Branch over the ready operations that fit.
        search.commit(&mut branches, &mut interval);
        let untried = if is_new { search.moves() } else { Vec::new() };
        if *limit == 0 {
            return Verdict::Limit;
        }
        branches.push(Branch { untried, past: search.past.len(), live: search.state.live });
        // Return to the last branch that has an untried operation.
        let next = loop {
            let Some(branch) = branches.last_mut() else {
                return Verdict::Impossible(search.lowest_refused.get() as u64);
            };
            let past = branch.past;
            let next = branch.untried.pop();
            search.take_back(past);
            match next {
                Some(operation) => break operation,
                None => branches.pop(),
            };
        };
        search.run(next);
    }
}

/// Whether a state is new. Remembers it while fewer than `MAX_STATES` states are stored.
fn remember(met: &mut NoGoods, key: u128) -> bool {
    if met.len() < MAX_STATES { met.insert(key) } else { !met.contains(&key) }
}

impl Search<'_> {
    fn run(&mut self, operation: u32) {
        let model = self.state.model;
        self.look(2 + self.ready.len() as u64 / 8);
        let place = self.ready.iter().position(|other| *other == operation).unwrap_or(0);
        self.ready.swap_remove(place);
        let allocated_from = self.allocations.len() as u32;
        let new =
            model.uses.of(operation).iter().filter(|buffer| !self.state.held[**buffer as usize].allocated);
        self.allocations.extend(new);
        let effect = self.state.run(operation);
        let newly =
            model.successors.of(operation).iter().filter(|next| self.state.waits[**next as usize] == 0);
        self.ready.extend(newly);
        self.key ^= mix(operation, 0);
        self.past.push(Done { operation, net: effect.net, ready_place: place as u32, allocated_from });
    }

    /// Undoes runs until `past` operations are left.
    fn take_back(&mut self, past: usize) {
        let model = self.state.model;
        while self.past.len() > past {
            let Some(done) = self.past.pop() else { return };
            let successors = model.successors.of(done.operation);
            let newly = successors.iter().filter(|next| self.state.waits[**next as usize] == 0).count();
            self.ready.truncate(self.ready.len() - newly);
            self.state.take_back(
                done.operation,
                done.net,
                self.allocations.drain(done.allocated_from as usize..),
            );
            self.key ^= mix(done.operation, 0);
            // The inverse of `swap_remove`.
            let place = done.ready_place as usize;
            self.ready.push(done.operation);
            let end = self.ready.len() - 1;
            self.ready.swap(place, end);
        }
    }

    /// Runs all operations and chains that are free.
    fn run_free(&mut self) {
        while self.looks.get() < self.most_looks {
            if let Some(operation) = self.free_operation() {
                self.run(operation);
            } else if !self.run_free_chain() {
                return;
            }
        }
    }

    /// Drops the untried operations of a branch and all later branches, if the operations that ran since
    /// then leave no more bytes than any subset of them would. Running all of them first is safe then.
    fn commit(&self, branches: &mut [Branch], interval: &mut Interval) {
        let live = self.state.live;
        let low = branches.iter().rev().take_while(|branch| branch.live >= live).count();
        let first = branches.len() - low;
        for index in first..branches.len() {
            if branches[index..].iter().all(|branch| branch.untried.is_empty()) {
                return;
            }
            let ran = &self.past[branches[index].past..];
            if !ran.iter().all(|done| self.may_be_free[done.operation as usize]) {
                continue;
            }
            let allocated = &self.allocations[ran[0].allocated_from as usize..];
            let mut arcs = self.most_looks.saturating_sub(self.looks.get()).saturating_mul(8);
            let before = arcs;
            let lowest =
                interval.is_lowest(&self.state, ran.iter().map(|done| done.operation), allocated, &mut arcs);
            self.look((before - arcs) / 8 + 1);
            if lowest {
                branches[index..].iter_mut().for_each(|branch| branch.untried.clear());
                return;
            }
        }
    }

    fn free_operation(&self) -> Option<u32> {
        self.ready.iter().copied().find(|operation| self.is_free(*operation))
    }

    fn look(&self, count: u64) {
        self.looks.set(self.looks.get().saturating_add(count));
    }

    fn is_free(&self, operation: u32) -> bool {
        self.look(1);
        let effect = self.state.effect(operation);
        self.may_be_free[operation as usize] && effect.net <= 0 && self.fits(effect.hill)
    }

    fn fits(&self, hill: i64) -> bool {
        let step = self.state.live + hill;
        if step > self.bound {
            self.lowest_refused.set(self.lowest_refused.get().min(step));
        }
        step <= self.bound
    }

    /// Tries the chain that each ready operation starts. Keeps the first chain that ends with no more
    /// live bytes than it began with.
    fn run_free_chain(&mut self) -> bool {
        let (past, live, model) = (self.past.len(), self.state.live, self.state.model);
        for start in self.ready.clone() {
            self.look(1);
            if self.looks.get() >= self.most_looks {
                return false;
            }
            // A start that raises the live bytes needs a successor that it makes ready.
            if !model.successors.of(start).iter().any(|next| self.state.waits[*next as usize] == 1) {
                continue;
            }
            // Only operations that the chain itself made ready may join, so all of them depend on its
            // start.
            let others = self.ready.len() - 1;
            let mut next = Some(start);
            while let Some(operation) = next {
                if !self.may_be_free[operation as usize] || !self.fits(self.state.effect(operation).hill) {
                    break;
                }
                self.run(operation);
                if self.state.live <= live {
                    return true;
                }
                next = self.chain_next(others);
            }
            self.take_back(past);
        }
        false
    }

    /// Returns the next operation of a chain: a free operation among those that the chain made ready, or
    /// else the only one.
    fn chain_next(&self, others: usize) -> Option<u32> {
        // The chain's own ready operations come after the others, whose number does not change while it
        // runs.
        let own = self.ready.get(others..)?;
        match own.iter().find(|operation| self.is_free(**operation)) {
            Some(operation) => Some(*operation),
            None if own.len() == 1 => own.first().copied(),
            None => None,
        }
    }

    /// Returns the ready operations that fit, the best one last.
    fn moves(&self) -> Vec<u32> {
        let mut moves = Vec::new();
        for &operation in &self.ready {
            self.look(1);
            let effect = self.state.effect(operation);
            if self.fits(effect.hill) {
                moves.push((effect.net, effect.hill, operation));
            }
        }
        moves.sort_unstable_by(|a, b| b.cmp(a));
        moves.into_iter().map(|(_, _, operation)| operation).collect()
    }
}

/// Returns, for each operation, whether running it earlier never prevents another operation from taking
/// over bytes.
///
/// Forward, an operation fails this if it uses a buffer that may take over others and that several
/// operations could be the first to use. Backward, it fails if it uses a buffer that can be taken over
/// and that several operations could be the last to use.
fn may_be_free(model: &Model) -> Vec<bool> {
    let mut free = vec![true; model.operations];
    let buffers = 0..model.sizes.len() as u32;
    let takers = buffers.clone().filter(|buffer| !model.takes_over.of(*buffer).is_empty());
    let mut critical: Vec<u32> = if model.backward {
        takers.flat_map(|taker| model.takes_over.of(taker)).copied().collect()
    } else {
        takers.collect()
    };
    critical.sort_unstable();
    critical.dedup();
    for buffer in critical.into_iter().filter(|buffer| !model.from_start[*buffer as usize]) {
        let users = model.users.of(buffer);
        let follows = |user: &&u32| {
            model.predecessors.of(**user).iter().any(|before| users.binary_search(before).is_ok())
        };
        if users.len() - users.iter().filter(follows).count() > 1 {
            users.iter().for_each(|user| free[*user as usize] = false);
        }
    }
    free
}
