//! The independent checker of budget plans: replays the events as copies with times. It prefers simple
//! code to fast code and shares none with the solver.

use std::collections::BTreeMap;

use thiserror::Error;

use super::problem::{BudgetError, Event, Origin, Plan, Problem};

#[cfg(test)]
mod tests;

/// Why a plan is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BudgetViolation {
    /// The problem itself is invalid.
    #[error(transparent)]
    NoProblem(BudgetError),
    /// An event names a run, value or link that does not exist.
    #[error("event {event} names a run, value or link that does not exist")]
    NoSuchThing {
        /// Position of the event.
        event: usize,
    },
    /// The plan never executes a run.
    #[error("run {run} never runs")]
    NeverRuns {
        /// Index of the run.
        run: u32,
    },
    /// A run executes twice although it is not repeatable or makes a kept value.
    #[error("event {event} runs {run} again, which may run only once")]
    RunsAgain {
        /// Position of the event.
        event: usize,
        /// Index of the run.
        run: u32,
    },
    /// A run executes before the first execution of one of its predecessors.
    #[error("event {event} runs {run} before {predecessor}")]
    BeforePredecessor {
        /// Position of the event.
        event: usize,
        /// Index of the run.
        run: u32,
        /// The run that must execute before it.
        predecessor: u32,
    },
    /// An event reads a value from a space that holds no copy of it.
    #[error("event {event} reads value {value}, which is not in the device")]
    NotThere {
        /// Position of the event.
        event: usize,
        /// Index of the value.
        value: u32,
    },
    /// An event moves a value that is not movable, or stores a value that must stay.
    #[error("event {event} moves value {value}, which may not move")]
    MayNotMove {
        /// Position of the event.
        event: usize,
        /// Index of the value.
        value: u32,
    },
    /// A space holds more bytes than its capacity.
    #[error("the events need {needed} bytes at one time, but the capacity is {capacity}")]
    OverCapacity {
        /// The farther space; `None` for the near space.
        space: Option<u32>,
        /// Peak of the space, in bytes.
        needed: u128,
        /// Capacity of the space, in bytes.
        capacity: u64,
    },
    /// The plan states a wrong peak.
    #[error("the stated peak is {stated}, the actual peak is {actual}")]
    WrongPeak {
        /// Peak that the plan states, in bytes.
        stated: u64,
        /// Peak of its events, in bytes.
        actual: u128,
    },
    /// The plan states a wrong cost.
    #[error("the stated cost is {stated}, the actual cost is {actual}")]
    WrongCost {
        /// Cost that the plan states.
        stated: u64,
        /// Sum of the costs of its runs.
        actual: u128,
    },
    /// The plan states a wrong makespan.
    #[error("the stated makespan is {stated}, the actual makespan is {actual}")]
    WrongMakespan {
        /// Makespan that the plan states.
        stated: u64,
        /// End of its last event.
        actual: u128,
    },
}

/// Checks a plan against every rule of [`Problem`], `capacity` bytes of the near space, the capacities
/// of the farther spaces, and the sums that the plan states.
///
/// At one moment, ending events free their bytes before starting events take theirs. A result that takes
/// over a dying operand takes its bytes when the run ends; if a run has several candidate pairs, the
/// best matching counts. O((events + uses) log), plus the matching.
///
/// # Errors
/// Returns the first rule that the plan breaks.
pub fn check(problem: &Problem, capacity: u64, plan: &Plan) -> Result<(), BudgetViolation> {
    let replayed = replay(problem, &plan.events)?;
    let peaks = replayed.peaks(problem.spaces.len());
    let limits = std::iter::once(Some(capacity)).chain(problem.spaces.iter().map(|space| space.capacity));
    for (index, (&needed, limit)) in peaks.iter().zip(limits).enumerate() {
        if let Some(capacity) = limit.filter(|capacity| needed > u128::from(*capacity)) {
            return Err(BudgetViolation::OverCapacity {
                space: index.checked_sub(1).map(|space| space as u32),
                needed,
                capacity,
            });
        }
    }
    let (stated, actual) = (plan.peak, peaks[0]);
    if u128::from(stated) != actual {
        return Err(BudgetViolation::WrongPeak { stated, actual });
    }
    let (stated, actual) = (plan.cost, replayed.cost);
    if u128::from(stated) != actual {
        return Err(BudgetViolation::WrongCost { stated, actual });
    }
    let (stated, actual) = (plan.makespan, replayed.makespan);
    if u128::from(stated) != actual {
        return Err(BudgetViolation::WrongMakespan { stated, actual });
    }
    Ok(())
}

/// Returns a plan with the peak, cost and makespan of the events, without checking limits. O(events log
/// events + uses).
///
/// # Errors
/// Returns the first rule that an event breaks.
pub fn measure(problem: &Problem, events: &[Event]) -> Result<Plan, BudgetViolation> {
    let replayed = replay(problem, events)?;
    let peak = replayed.peaks(problem.spaces.len())[0];
    let stated = |sum: u128| u64::try_from(sum).unwrap_or(u64::MAX);
    let (peak, cost, makespan) = (stated(peak), stated(replayed.cost), stated(replayed.makespan));
    Ok(Plan { events: events.to_vec(), peak, cost, makespan })
}

/// A point in time. At equal times, ends of events with a duration (phase 0) come before starts and
/// before ends of events without a duration (phase 1); then the order of the events decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Moment {
    time: u128,
    phase: u8,
    place: usize,
}

/// One copy of a value, or the workspace of a run.
struct Copy {
    /// 0 for the near space, then the farther spaces in order.
    space: usize,
    bytes: u64,
    taken: Moment,
    /// Moment at which its bytes are free again; `None` if never.
    freed: Option<Moment>,
    /// Time from which the copy can be read.
    ready: u128,
    /// Position, plus 1, of the last event that touches the copy; 0 for none.
    last: usize,
}

/// A finished run, kept until its takeovers are decided.
struct Finished {
    event: usize,
    run: u32,
    ends: Moment,
    /// Index of the copy of its first result; the other results follow.
    first_made: usize,
    /// Copies that it read, one for each operand.
    found: Vec<usize>,
}

/// Result of a replay.
struct Replayed {
    copies: Vec<Copy>,
    cost: u128,
    makespan: u128,
}

impl Replayed {
    /// Returns the peak of each space, in bytes.
    fn peaks(&self, spaces: usize) -> Vec<u128> {
        let mut changes: Vec<(Moment, bool, usize, u64)> = Vec::new();
        // A result that takes over an operand and is never read needs no bytes of its own.
        for copy in self.copies.iter().filter(|copy| copy.freed.is_none_or(|freed| freed > copy.taken)) {
            // The copy that is taken over and the copy that takes over change at one moment: frees sort
            // first.
            changes.push((copy.taken, true, copy.space, copy.bytes));
            changes.extend(copy.freed.map(|freed| (freed, false, copy.space, copy.bytes)));
        }
        changes.sort_unstable();
        let (mut held, mut peaks) = (vec![0_u128; spaces + 1], vec![0_u128; spaces + 1]);
        for (_, takes, space, bytes) in changes {
            if takes {
                held[space] += u128::from(bytes);
                peaks[space] = peaks[space].max(held[space]);
            } else {
                held[space] -= u128::from(bytes);
            }
        }
        peaks
    }
}

/// State of a replay, event by event.
struct Replay<'a> {
    problem: &'a Problem,
    copies: Vec<Copy>,
    /// Current copy of each value in each space, by space and value.
    here: BTreeMap<(usize, u32), usize>,
    /// Time from which each engine is free: compute, then the store and the load engine of each link.
    free: Vec<u128>,
    /// Start of the last run listed so far.
    issued: u128,
    ran: Vec<bool>,
    finished: Vec<Finished>,
    cost: u128,
    makespan: u128,
}

fn replay(problem: &Problem, events: &[Event]) -> Result<Replayed, BudgetViolation> {
    problem.validate().map_err(BudgetViolation::NoProblem)?;
    let mut replay = Replay::new(problem);
    for (event, what) in events.iter().enumerate() {
        match *what {
            Event::Run(run) => replay.run(event, run)?,
            Event::Store { value, link } => replay.transfer(event, value, link, true)?,
            Event::Load { value, link } => replay.transfer(event, value, link, false)?,
        }
    }
    match replay.ran[..problem.runs.len()].iter().position(|ran| !ran) {
        Some(run) => Err(BudgetViolation::NeverRuns { run: run as u32 }),
        None => {
            replay.take_over();
            Ok(Replayed { copies: replay.copies, cost: replay.cost, makespan: replay.makespan })
        }
    }
}

impl<'a> Replay<'a> {
    fn new(problem: &'a Problem) -> Self {
        let mut replay = Self {
            problem,
            copies: Vec::new(),
            here: BTreeMap::new(),
            free: vec![0; 1 + 2 * problem.links.len()],
            issued: 0,
            ran: vec![false; problem.runs.len() + problem.optional.len()],
            finished: Vec::new(),
            cost: 0,
            makespan: 0,
        };
        let taken = Moment { time: 0, phase: 0, place: 0 };
        // A value that is never read is freed before the first event.
        let unread = Moment { time: 0, phase: 1, place: 0 };
        for (index, value) in problem.values.iter().enumerate() {
            let (space, freed) = match value.origin {
                Origin::Made => continue,
                Origin::Near => (0, (!value.kept).then_some(unread)),
                Origin::Far(space) => (space as usize + 1, None),
            };
            replay.appear(
                space,
                index as u32,
                Copy { space, bytes: value.size, taken, freed, ready: 0, last: 0 },
            );
        }
        replay
    }

    /// Adds a copy of a value; later readers find this copy.
    fn appear(&mut self, space: usize, value: u32, copy: Copy) {
        self.here.insert((space, value), self.copies.len());
        self.copies.push(copy);
    }

    /// Returns the copy that an event finds, and records that the event touches it.
    fn find(&mut self, event: usize, space: usize, value: u32) -> Result<usize, BudgetViolation> {
        let index = *self.here.get(&(space, value)).ok_or(BudgetViolation::NotThere { event, value })?;
        self.copies[index].last = event + 1;
        Ok(index)
    }

    /// Occupies an engine from the first moment, at or after `earliest`, at which the engine is free and
    /// all copies are ready. Keeps the copies until the end; returns start and end.
    fn occupy(
        &mut self,
        event: usize,
        engine: usize,
        earliest: u128,
        length: u64,
        found: &[usize],
    ) -> (Moment, Moment) {
        let ready = found.iter().map(|copy| self.copies[*copy].ready);
        let begin = ready.fold(self.free[engine].max(earliest), u128::max);
        let time = begin + u128::from(length);
        let starts = Moment { time: begin, phase: 1, place: 2 * event + 1 };
        let ends = Moment { time, phase: u8::from(length == 0), place: 2 * event + 2 };
        self.free[engine] = time;
        self.makespan = self.makespan.max(time);
        for &copy in found {
            if let Some(freed) = &mut self.copies[copy].freed {
                *freed = ends.max(*freed);
            }
        }
        (starts, ends)
    }

    fn run(&mut self, event: usize, run: u32) -> Result<(), BudgetViolation> {
        let problem = self.problem;
        let data = problem.run(run).ok_or(BudgetViolation::NoSuchThing { event })?;
        let makes_kept = data.writes.iter().any(|value| problem.values[*value as usize].kept);
        let is_optional = run as usize >= problem.runs.len();
        let may_repeat = is_optional || (data.repeatable && !makes_kept);
        if std::mem::replace(&mut self.ran[run as usize], true) && !may_repeat {
            return Err(BudgetViolation::RunsAgain { event, run });
        }
        if let Some(&predecessor) = data.predecessors.iter().find(|other| !self.ran[**other as usize]) {
            return Err(BudgetViolation::BeforePredecessor { event, run, predecessor });
        }
        let found =
            data.reads.iter().map(|value| self.find(event, 0, *value)).collect::<Result<Vec<_>, _>>()?;
        let (starts, ends) = self.occupy(event, 0, 0, data.cost, &found);
        self.issued = starts.time;
        self.cost += u128::from(data.cost);
        let scratch = Copy {
            space: 0,
            bytes: data.scratch,
            taken: starts,
            freed: Some(ends),
            ready: ends.time,
            last: event + 1,
        };
        self.copies.push(scratch);
        let first_made = self.copies.len();
        for &value in &data.writes {
            let made = &problem.values[value as usize];
            let freed = (!made.kept).then_some(ends);
            let copy =
                Copy { space: 0, bytes: made.size, taken: starts, freed, ready: ends.time, last: event + 1 };
            self.appear(0, value, copy);
        }
        self.finished.push(Finished { event, run, ends, first_made, found });
        Ok(())
    }

    fn transfer(&mut self, event: usize, value: u32, link: u32, stores: bool) -> Result<(), BudgetViolation> {
        let problem = self.problem;
        let missing = BudgetViolation::NoSuchThing { event };
        let (data, way) = (
            problem.values.get(value as usize).ok_or(missing)?,
            problem.links.get(link as usize).ok_or(missing)?,
        );
        let is_far = matches!(data.origin, Origin::Far(_));
        if (stores && data.kept) || (!data.movable && (stores || !is_far)) {
            return Err(BudgetViolation::MayNotMove { event, value });
        }
        let far = way.space as usize + 1;
        let (source, target) = if stores { (0, far) } else { (far, 0) };
        let (rate, latency) =
            if stores { (way.store_rate, way.store_latency) } else { (way.load_rate, way.load_latency) };
        let found = [self.find(event, source, value)?];
        let engine = 1 + 2 * link as usize + usize::from(!stores);
        let (starts, ends) =
            self.occupy(event, engine, self.issued, latency + data.size.div_ceil(rate), &found);
        if stores {
            self.here.remove(&(0, value));
        }
        let freed = (stores || !data.kept).then_some(ends);
        let copy =
            Copy { space: target, bytes: data.size, taken: starts, freed, ready: ends.time, last: event + 1 };
        self.appear(target, value, copy);
        Ok(())
    }

    /// Lets results take over operands that no later event touches.
    fn take_over(&mut self) {
        for Finished { event, run, ends, first_made, found } in std::mem::take(&mut self.finished) {
            let Some(data) = self.problem.run(run) else { continue };
            let dies = |copy: usize| self.copies[copy].last == event + 1 && self.copies[copy].freed.is_some();
            let operands: Vec<(u32, usize)> =
                data.reads.iter().copied().zip(found).filter(|(_, copy)| dies(*copy)).collect();
            let partners = |made: &u32| -> Vec<usize> {
                let others = &self.problem.values[*made as usize].takes_over;
                operands.iter().filter(|(value, _)| others.contains(value)).map(|(_, copy)| *copy).collect()
            };
            let wishes: Vec<(u64, Vec<usize>)> = data
                .writes
                .iter()
                .map(|made| (self.problem.values[*made as usize].size, partners(made)))
                .collect();
            for taker in best_matching(&wishes) {
                self.copies[first_made + taker].taken = ends;
            }
        }
    }
}

/// Chooses the takers that get one of their partners, so that the sum of their sizes is the largest; no
/// partner serves two takers.
///
/// Takers come in falling size, and each searches an augmenting path. The sets of takers that can be
/// matched form a matroid, so this greedy choice is optimal.
fn best_matching(wishes: &[(u64, Vec<usize>)]) -> Vec<usize> {
    let mut takers: Vec<usize> = (0..wishes.len()).filter(|taker| !wishes[*taker].1.is_empty()).collect();
    takers.sort_by_key(|taker| std::cmp::Reverse(wishes[*taker].0));
    let mut holder: BTreeMap<usize, usize> = BTreeMap::new();
    for &taker in &takers {
        // For each partner reached, the taker from which it was reached.
        let mut asked_by: BTreeMap<usize, usize> = BTreeMap::new();
        let mut asking = vec![taker];
        let mut open = None;
        // Search an augmenting path to a partner that no taker holds.
        while let Some(who) = asking.pop().filter(|_| open.is_none()) {
            for &partner in &wishes[who].1 {
                if asked_by.contains_key(&partner) {
                    continue;
                }
                asked_by.insert(partner, who);
                match holder.get(&partner) {
                    Some(other) => asking.push(*other),
                    None => open = Some(partner),
                }
            }
        }
        // Shift the partners along the path.
        while let Some(partner) = open {
            let who = asked_by[&partner];
            open = holder.iter().find(|(_, owner)| **owner == who).map(|(held, _)| *held);
            if let Some(held) = open {
                holder.remove(&held);
            }
            holder.insert(partner, who);
        }
    }
    holder.into_values().collect()
}
