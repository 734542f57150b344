//! The exact search for small problems: Dijkstra's algorithm over sets of executed runs and present
//! values.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::problem::{Event, Origin, Problem};

/// Maximum number of runs and of values: a set is a 64-bit word.
const MAX_MEMBERS: usize = 64;

/// Number of ways to make room that count as one node of a limit.
const WAYS_PER_NODE: u64 = 40;

/// Result of the exact search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exact {
    /// A cheapest plan.
    Plan(Vec<Event>),
    /// Proven: no plan exists.
    Impossible,
    /// The effort is spent; lower bound of the cost beyond all runs once.
    AtLeast(u64),
}

/// Whether the search accepts the problem: at most 64 runs and values, no optional runs, and no links.
#[must_use]
pub fn takes(problem: &Problem) -> bool {
    let is_small = problem.runs.len() <= MAX_MEMBERS && problem.values.len() <= MAX_MEMBERS;
    is_small && problem.optional.is_empty() && problem.links.is_empty()
}

/// Runs executed so far, and values in the near space.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    ran: u64,
    there: u64,
}

/// A reached state: its extra cost, its previous state and the run that leads to it.
struct Reached {
    state: State,
    extra: u64,
    from: u32,
    run: u32,
}

/// Searches a cheapest plan for a valid problem that [`takes`] accepts, by Dijkstra's algorithm over
/// states.
///
/// Values are dropped only to make room, and as few as possible, since present values never hurt. Values
/// that no run can read any more are dropped at once.
#[must_use]
pub fn solve(problem: &Problem, capacity: u64, effort: u64) -> Exact {
    let near = (0..problem.values.len()).filter(|value| problem.values[*value].origin == Origin::Near);
    let there = near.fold(0, |set, value| set | 1 << value);
    let mut search = Search {
        problem,
        capacity,
        reached: Vec::new(),
        best: HashMap::new(),
        queue: BinaryHeap::new(),
        ways_left: effort.saturating_mul(WAYS_PER_NODE),
    };
    if search.bytes(there) > capacity {
        return Exact::Impossible;
    }
    let start = State { ran: 0, there };
    search.reach(start, 0, u32::MAX, u32::MAX);
    let all = if problem.runs.len() == MAX_MEMBERS { u64::MAX } else { (1 << problem.runs.len()) - 1 };
    while let Some((Reverse(extra), _, Reverse(index))) = search.queue.pop() {
        let state = search.reached[index as usize].state;
        if search.best[&state] != index {
            continue;
        }
        if state.ran == all {
            return Exact::Plan(search.events(index));
        }
        search.expand(index);
        if search.ways_left == 0 {
            return Exact::AtLeast(extra);
        }
    }
    Exact::Impossible
}

struct Search<'a> {
    problem: &'a Problem,
    capacity: u64,
    reached: Vec<Reached>,
    best: HashMap<State, u32>,
    /// Least extra cost first, then the most executed runs, then the first state reached.
    queue: BinaryHeap<(Reverse<u64>, u32, Reverse<u32>)>,
    /// Remaining effort, in ways to make room. Once it is spent, every state not yet reached costs at
    /// least the extra cost of the current state.
    ways_left: u64,
}

fn members(set: u64) -> impl Iterator<Item = usize> {
    let mut rest = set;
    std::iter::from_fn(move || {
        let next = (rest > 0).then(|| rest.trailing_zeros() as usize);
        rest &= rest.wrapping_sub(1);
        next
    })
}

fn set(list: &[u32]) -> u64 {
    list.iter().fold(0, |set, value| set | 1 << value)
}

impl Search<'_> {
    fn bytes(&self, values: u64) -> u64 {
        members(values).map(|value| self.problem.values[value].size).sum()
    }

    fn reach(&mut self, mut state: State, extra: u64, from: u32, run: u32) {
        state.there &= self.useful(state);
        let index = self.reached.len() as u32;
        if let Some(other) = self.best.get(&state)
            && self.reached[*other as usize].extra <= extra
        {
            return;
        }
        self.best.insert(state, index);
        self.reached.push(Reached { state, extra, from, run });
        self.queue.push((Reverse(extra), state.ran.count_ones(), Reverse(index)));
    }

    /// Returns the values that a run may still read, or that are kept.
    fn useful(&self, state: State) -> u64 {
        let mut useful = 0;
        for (value, data) in self.problem.values.iter().enumerate() {
            useful |= u64::from(data.kept) << value;
        }
        for (index, run) in self.problem.runs.iter().enumerate().rev() {
            let may_run =
                state.ran >> index & 1 == 0 || (self.may_repeat(index) && set(&run.writes) & useful != 0);
            if may_run {
                useful |= set(&run.reads);
            }
        }
        useful
    }

    fn may_repeat(&self, run: usize) -> bool {
        let run = &self.problem.runs[run];
        run.repeatable && !run.writes.iter().any(|value| self.problem.values[*value as usize].kept)
    }

    fn expand(&mut self, from: u32) {
        let Reached { state, extra, .. } = self.reached[from as usize];
        for (index, run) in self.problem.runs.iter().enumerate() {
            let again = state.ran >> index & 1 == 1;
            let (reads, writes) = (set(&run.reads), set(&run.writes));
            let waits = run.predecessors.iter().any(|other| state.ran >> other & 1 == 0);
            // A repeat gains nothing if all its results are present.
            let idle = again && (!self.may_repeat(index) || writes & !state.there == 0);
            if idle || waits || reads & !state.there != 0 {
                continue;
            }
            let next = State { ran: state.ran | 1 << index, there: state.there | writes };
            let extra = extra.saturating_add(if again { run.cost } else { 0 });
            self.make_room(next, index, extra, from);
        }
    }

    /// Spends one way; `false` if none is left.
    fn spend(&mut self) -> bool {
        self.ways_left = self.ways_left.saturating_sub(1);
        self.ways_left > 0
    }

    /// Reaches the state after a run in every minimal way to make room for the run.
    fn make_room(&mut self, next: State, run: usize, extra: u64, from: u32) {
        let problem = self.problem;
        let data = &problem.runs[run];
        let needed = self.bytes(next.there) + data.scratch;
        let (reads, writes) = (set(&data.reads), set(&data.writes));
        let kept = members(next.there)
            .filter(|value| self.problem.values[*value].kept)
            .fold(0, |set, value| set | 1 << value);
        // Operands that may end here, so that a result takes them over.
        let partners = data
            .writes
            .iter()
            .fold(0, |all, value| all | set(&self.problem.values[*value as usize].takes_over));
        let partners = partners & reads & !kept;
        let others: Vec<usize> = members(next.there & !reads & !writes & !kept)
            .filter(|value| self.problem.values[*value].size > 0)
            .collect();
        let mut ends = 0_u64;
        while self.spend() {
            let shared = self.taken_over(run, ends);
            let excess = (needed - shared).saturating_sub(self.capacity);
            if excess == 0 || self.bytes(others.iter().fold(0, |set, value| set | 1 << value)) >= excess {
                self.drop_some(
                    State { there: next.there & !ends, ..next },
                    &others,
                    excess,
                    (run as u32, extra, from),
                );
            }
            // Step to the next subset of the partners.
            ends = ends.wrapping_sub(partners) & partners;
            if ends == 0 {
                break;
            }
        }
    }

    /// Reaches a state for every minimal set of `others` that frees `excess` bytes: no member can be
    /// left out.
    fn drop_some(
        &mut self,
        state: State,
        others: &[usize],
        excess: u64,
        (run, extra, from): (u32, u64, u32),
    ) {
        let problem = self.problem;
        let size = |value: usize| problem.values[value].size;
        let mut least = Vec::new();
        // Dropped set so far, its bytes, and the index of the next candidate.
        let mut open = vec![(0_u64, 0_u64, 0_usize)];
        while let Some((dropped, bytes, place)) = open.pop().filter(|_| self.spend()) {
            if bytes >= excess {
                if members(dropped).all(|value| bytes - size(value) < excess) {
                    least.push(dropped);
                }
            } else if let Some(&value) = others.get(place) {
                open.push((dropped, bytes, place + 1));
                open.push((dropped | 1 << value, bytes + size(value), place + 1));
            }
        }
        for dropped in least {
            self.reach(State { there: state.there & !dropped, ..state }, extra, from, run);
        }
    }

    /// Returns the most bytes that results of a run take over from ending operands; tries every pairing.
    fn taken_over(&mut self, run: usize, ends: u64) -> u64 {
        let mut ways = vec![(ends, 0_u64)];
        let problem = self.problem;
        for value in &problem.runs[run].writes {
            let taker = &problem.values[*value as usize];
            for (free, shared) in ways.clone() {
                if !self.spend() {
                    break;
                }
                let partners = members(set(&taker.takes_over) & free);
                ways.extend(partners.map(|other| (free & !(1 << other), shared + taker.size)));
            }
        }
        ways.into_iter().map(|way| way.1).max().unwrap_or(0)
    }

    /// Returns the runs that led to a state.
    fn events(&self, last: u32) -> Vec<Event> {
        let reached = |index: &u32| self.reached.get(*index as usize);
        let path = std::iter::successors(Some(last), |index| reached(index).map(|at| at.from))
            .map_while(|index| reached(&index));
        let mut events: Vec<Event> =
            path.filter(|at| at.run != u32::MAX).map(|at| Event::Run(at.run)).collect();
        events.reverse();
        events
    }
}
