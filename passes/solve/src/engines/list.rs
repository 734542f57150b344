//! List schedules: whenever an engine is free, it starts the ready operation of the lowest rank whose bytes
//! fit.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use crate::basics::lists::Lists;

use super::problem::{Problem, Schedule};

/// Facts of a problem that every list schedule reads.
pub(super) struct Lister<'p> {
    problem: &'p Problem,
    successors: Lists,
    /// Buffers that each operation uses.
    used: Lists,
    /// Number of users of each buffer.
    users: Vec<u32>,
    /// Bytes that live before the first operation.
    given: u64,
}

/// Priorities of one list schedule.
#[derive(Clone, Debug)]
pub(super) struct Priorities {
    /// Rank of each operation; the lowest starts first.
    pub(super) ranks: Vec<u64>,
    /// Most bytes that may live after the start of an operation for which an earlier one of the given order
    /// still waits. The rest of the capacity is left for that one.
    pub(super) room: u64,
}

impl<'p> Lister<'p> {
    /// Indexes a problem. O(n + uses).
    pub(super) fn new(problem: &'p Problem) -> Self {
        let (operations, buffers) = (&problem.order.operations, &problem.order.buffers);
        let count = operations.len();
        let after = operations.iter().enumerate().flat_map(|(operation, data)| {
            data.predecessors.iter().map(move |before| (*before, operation as u32))
        });
        let pairs = buffers
            .iter()
            .enumerate()
            .flat_map(|(buffer, data)| data.users.iter().map(move |user| (*user, buffer as u32)));
        let given = buffers.iter().filter(|buffer| buffer.live_from_start).map(|buffer| buffer.size).sum();
        let used = Lists::group(count, pairs.collect());
        let mut users = vec![0; buffers.len()];
        for operation in 0..count as u32 {
            for buffer in used.of(operation) {
                users[*buffer as usize] += 1;
            }
        }
        Self {
            problem,
            successors: Lists::with_duplicates(count, &after.collect::<Vec<_>>()),
            used,
            users,
            given,
        }
    }

    /// Returns the list schedule of these priorities; `None` if it needs more bytes than the capacity.
    /// O((n + uses) log n) for few waiting operations.
    pub(super) fn run(&self, priorities: &Priorities) -> Option<Schedule> {
        let count = self.problem.times.len();
        let mut clock = Clock::new(self);
        while clock.left > 0 {
            while let Some(engine) = clock.free_engine() {
                let Some(operation) = clock.choose(priorities) else { break };
                clock.start(operation, engine)?;
            }
            clock.pass();
        }
        (clock.schedule.starts.len() == count).then_some(clock.schedule)
    }
}

/// State of a buffer during a schedule.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bytes {
    /// Not written yet.
    None,
    /// In memory of its own.
    Own,
    /// Freed, or another buffer has taken over the bytes.
    Gone,
}

/// A list schedule under way.
struct Clock<'l> {
    lister: &'l Lister<'l>,
    schedule: Schedule,
    now: u64,
    /// Operations that have not started.
    left: usize,
    /// Predecessors of each operation that have not ended.
    waits: Vec<usize>,
    ready: BTreeSet<u32>,
    is_started: Vec<bool>,
    /// First operation of the given order that has not started.
    first: usize,
    /// Ends of running operations with their engines.
    running: BinaryHeap<Reverse<(u64, u32)>>,
    /// Operation that each engine runs, or ran last.
    on: Vec<Option<u32>>,
    is_busy: Vec<bool>,
    bytes: Vec<Bytes>,
    /// Users of each buffer that have not ended.
    open: Vec<u32>,
    live: u64,
}

impl<'l> Clock<'l> {
    fn new(lister: &'l Lister<'l>) -> Self {
        let problem = lister.problem;
        let count = problem.times.len();
        let waits: Vec<usize> =
            problem.order.operations.iter().map(|operation| operation.predecessors.len()).collect();
        let ready = (0..count as u32).filter(|operation| waits[*operation as usize] == 0).collect();
        let at_start =
            |buffer: &crate::order::Buffer| if buffer.live_from_start { Bytes::Own } else { Bytes::None };
        Self {
            lister,
            schedule: Schedule { engines: vec![0; count], starts: vec![0; count] },
            now: 0,
            left: count,
            waits,
            ready,
            is_started: vec![false; count],
            first: 0,
            running: BinaryHeap::new(),
            on: vec![None; problem.engines as usize],
            is_busy: vec![false; problem.engines as usize],
            bytes: problem.order.buffers.iter().map(at_start).collect(),
            open: lister.users.clone(),
            live: lister.given,
        }
    }

    fn free_engine(&self) -> Option<usize> {
        self.is_busy.iter().position(|is_busy| !is_busy)
    }

    /// Returns the ready operation of the lowest rank whose bytes fit. If none fits and nothing runs, the
    /// first one of the given order that has not started: its predecessors have all ended.
    fn choose(&self, priorities: &Priorities) -> Option<u32> {
        let capacity = self.lister.problem.capacity;
        let fits = |operation: &u32| {
            let most = if *operation as usize == self.first { capacity } else { priorities.room };
            self.live.saturating_add(self.needs(*operation)) <= most
        };
        let best = self
            .ready
            .iter()
            .copied()
            .filter(fits)
            .min_by_key(|operation| (priorities.ranks[*operation as usize], *operation));
        best.or_else(|| {
            self.running.is_empty().then_some(self.first as u32).filter(|first| self.ready.contains(first))
        })
    }

    /// Buffer that ends with an operation and whose bytes a new buffer of it takes over.
    fn taken_by(&self, buffer: u32) -> Option<u32> {
        let buffers = &self.lister.problem.order.buffers;
        let over = buffers[buffer as usize].takes_over.iter().copied();
        let ends = |other: &u32| {
            let at = *other as usize;
            self.bytes[at] == Bytes::Own
                && self.open[at] == 1
                && !buffers[at].kept
                && buffers[at].size == buffers[buffer as usize].size
        };
        over.into_iter().find(ends)
    }

    /// Bytes that an operation adds while it runs.
    fn needs(&self, operation: u32) -> u64 {
        let order = &self.lister.problem.order;
        let fresh = self
            .lister
            .used
            .of(operation)
            .iter()
            .filter(|buffer| self.bytes[**buffer as usize] == Bytes::None);
        let own = fresh
            .filter(|buffer| self.taken_by(**buffer).is_none())
            .map(|buffer| order.buffers[*buffer as usize].size);
        own.sum::<u64>() + order.operations[operation as usize].scratch
    }

    /// Starts an operation on a free engine, if possible on the one that ran one of its predecessors last.
    /// Returns `None` if its bytes exceed the capacity.
    fn start(&mut self, operation: u32, free: usize) -> Option<()> {
        let problem = self.lister.problem;
        let data = &problem.order.operations[operation as usize];
        let is_near = |engine: &usize| {
            !self.is_busy[*engine] && self.on[*engine].is_some_and(|last| data.predecessors.contains(&last))
        };
        let engine = (0..self.on.len()).find(is_near).unwrap_or(free);
        for buffer in self.lister.used.of(operation) {
            if self.bytes[*buffer as usize] != Bytes::None {
                continue;
            }
            match self.taken_by(*buffer) {
                Some(other) => self.bytes[other as usize] = Bytes::Gone,
                None => self.live += problem.order.buffers[*buffer as usize].size,
            }
            self.bytes[*buffer as usize] = Bytes::Own;
        }
        self.live += data.scratch;
        let at = operation as usize;
        (self.schedule.starts[at], self.schedule.engines[at]) = (self.now, engine as u32);
        (self.on[engine], self.is_busy[engine], self.is_started[at]) = (Some(operation), true, true);
        self.running.push(Reverse((self.now + problem.times[at], engine as u32)));
        self.ready.remove(&operation);
        self.left -= 1;
        while self.is_started.get(self.first) == Some(&true) {
            self.first += 1;
        }
        (self.live <= problem.capacity).then_some(())
    }

    /// Moves to the next end of an operation, and ends all that end then.
    fn pass(&mut self) {
        let Some(Reverse((end, _))) = self.running.peek().copied() else { return };
        self.now = end;
        while let Some(Reverse((_, engine))) =
            self.running.peek().copied().filter(|Reverse((at, _))| *at == end)
        {
            self.running.pop();
            self.is_busy[engine as usize] = false;
            if let Some(operation) = self.on[engine as usize] {
                self.end(operation);
            }
        }
    }

    fn end(&mut self, operation: u32) {
        let order = &self.lister.problem.order;
        self.live -= order.operations[operation as usize].scratch;
        for buffer in self.lister.used.of(operation) {
            let at = *buffer as usize;
            self.open[at] -= 1;
            if self.open[at] == 0 && self.bytes[at] == Bytes::Own && !order.buffers[at].kept {
                self.live -= order.buffers[at].size;
                self.bytes[at] = Bytes::Gone;
            }
        }
        for next in self.lister.successors.of(operation) {
            self.waits[*next as usize] -= 1;
            if self.waits[*next as usize] == 0 {
                self.ready.insert(*next);
            }
        }
    }
}
