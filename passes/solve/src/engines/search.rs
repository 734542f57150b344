//! The search: list schedules of many priorities, then random changes of the best ones.

use crate::basics::random::Random;
use crate::{Limit, Outcome, StopReason};

use super::list::{Lister, Priorities};
use super::problem::{EngineError, Problem, Schedule};

/// Number of operations of a list schedule that take about as long as one search node.
const OPERATIONS_PER_NODE: u64 = 64;

/// Shares of the capacity, in percent, that operations ahead of the given order may fill. With 100 the
/// first ones fill the memory, and one engine idles until they are done. With 0 operations start in the
/// given order, so that the bytes fit if they fit on one engine.
const ROOMS: [u64; 10] = [100, 97, 94, 90, 85, 80, 70, 55, 35, 0];

/// Weights of the given order in ranks, in sixteenths; the rest is the weight of the longest path to the end.
const WEIGHTS: [u64; 7] = [0, 2, 4, 8, 12, 14, 16];

/// One in this many operations gets another rank in a step of the search.
const CHANGED: u32 = 24;

/// Returns a lower bound of the end of every schedule: the longest path, and the sum of all times over the
/// engines.
///
/// # Errors
/// The problem is invalid.
pub fn bound(problem: &Problem) -> Result<u64, EngineError> {
    problem.validate()?;
    let longest = to_end(problem).into_iter().max().unwrap_or(0);
    let sum: u64 = problem.times.iter().sum();
    Ok(longest.max(sum.div_ceil(u64::from(problem.engines))))
}

/// Returns the schedule of the earliest end that was found within the capacity, with its end as value; no
/// schedule if none of them keeps the capacity.
///
/// # Errors
/// The problem is invalid.
pub fn solve(problem: &Problem, limit: &Limit) -> Result<Outcome<Schedule>, EngineError> {
    let lower_bound = bound(problem)?;
    let lister = Lister::new(problem);
    let mut best = Best { problem, lower_bound, found: None };
    for priorities in rules(problem) {
        best.offer(&lister, &priorities);
    }
    // Each run of the lister takes time in proportion to the operations.
    let nodes = (problem.times.len() as u64).div_ceil(OPERATIONS_PER_NODE).max(1);
    let mut random = Random::new(1);
    let mut effort = 0;
    while effort + nodes <= limit.nodes && !best.is_proven() {
        let Some(mut changed) = best.found.as_ref().map(|found| found.2.clone()) else { break };
        change(&mut changed, problem, &mut random);
        best.offer(&lister, &changed);
        effort += nodes;
    }
    let stop = if best.is_proven() { StopReason::BoundReached } else { StopReason::NodeLimit };
    let (value, solution) = best.found.map(|(end, schedule, _)| (end, schedule)).unzip();
    Ok(Outcome { solution, value, lower_bound, stop, effort })
}

/// The best schedule so far.
struct Best<'p> {
    problem: &'p Problem,
    lower_bound: u64,
    /// End, schedule and the priorities that give it.
    found: Option<(u64, Schedule, Priorities)>,
}

impl Best<'_> {
    fn is_proven(&self) -> bool {
        self.found.as_ref().is_some_and(|(end, ..)| *end <= self.lower_bound)
    }

    /// Keeps the schedule of these priorities if it ends no later than the best one: equal ends let a
    /// search drift.
    fn offer(&mut self, lister: &Lister<'_>, priorities: &Priorities) {
        let Some(schedule) = lister.run(priorities) else { return };
        let end = schedule.makespan(self.problem);
        if self.found.as_ref().is_none_or(|(best, ..)| end <= *best) {
            self.found = Some((end, schedule, priorities.clone()));
        }
    }
}

/// Returns the priorities that are tried first: the given order, the longest paths to the end, and mixes of
/// both, each with less and less room for operations ahead of the given order.
fn rules(problem: &Problem) -> Vec<Priorities> {
    let to_end = to_end(problem);
    let longest = to_end.iter().copied().max().unwrap_or(0);
    let mut begins = Vec::with_capacity(problem.times.len());
    let mut end = 0;
    for time in &problem.times {
        begins.push(end);
        end += time;
    }
    let mut all = Vec::with_capacity(WEIGHTS.len() * ROOMS.len());
    for weight in WEIGHTS {
        let rank = |(begin, path): (&u64, &u64)| {
            let sum = u128::from(*begin) * u128::from(weight)
                + u128::from(longest - path) * u128::from(16 - weight);
            (sum / 16) as u64
        };
        let ranks: Vec<u64> = begins.iter().zip(&to_end).map(rank).collect();
        for percent in ROOMS {
            let room = (u128::from(problem.capacity) * u128::from(percent) / 100) as u64;
            all.push(Priorities { ranks: ranks.clone(), room });
        }
    }
    all
}

/// Gives a few operations the ranks of others, and sometimes changes the room.
fn change(priorities: &mut Priorities, problem: &Problem, random: &mut Random) {
    let count = priorities.ranks.len() as u32;
    for _ in 0..1 + random.below(1 + count / CHANGED) {
        let (one, other) = (random.below(count) as usize, random.below(count) as usize);
        if one < priorities.ranks.len() && other < priorities.ranks.len() {
            priorities.ranks.swap(one, other);
        }
    }
    if random.below(4) == 0
        && let Some(percent) = random.pick(&ROOMS)
    {
        priorities.room = (u128::from(problem.capacity) * u128::from(percent) / 100) as u64;
    }
}

/// Returns, for each operation, the time of the longest path from its start to the end. O(n + edges).
fn to_end(problem: &Problem) -> Vec<u64> {
    let mut longest = problem.times.clone();
    for operation in (0..longest.len()).rev() {
        let own = longest[operation];
        for before in &problem.order.operations[operation].predecessors {
            let at = *before as usize;
            longest[at] = longest[at].max(problem.times[at] + own);
        }
    }
    longest
}
