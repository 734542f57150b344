//! Choice of buffers that live in a slower space, so that the rest fits a limit at every step, at the
//! least cost.

use std::cmp::Reverse;

use crate::{Limit, Outcome, StopReason};

/// Rounds in which the local search tries every chosen buffer: gains come in the first few.
const MAX_ROUNDS: usize = 8;

/// Most buffers of problems that are searched exactly: each level of the search copies their state.
const MAX_EXACT: usize = 400;

/// A buffer that may live in the slower space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// First step at which the buffer is live.
    pub start: u32,
    /// Step after the last one.
    pub end: u32,
    /// Size in bytes.
    pub bytes: u64,
    /// Cost of living in the slower space, in nanoseconds.
    pub cost: u64,
}

/// Buffers of a space that is too small.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// Buffers that may leave the space.
    pub candidates: Vec<Candidate>,
    /// Bytes of all other buffers, by step.
    pub fixed: Vec<u64>,
    /// Limit of the space at every step, in bytes.
    pub limit: u64,
}

/// An answer that breaks the problem's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The answer has another number of buffers than the problem.
    #[error("the answer has {given} buffers, the problem {wanted}")]
    Count {
        /// Buffers of the answer.
        given: usize,
        /// Buffers of the problem.
        wanted: usize,
    },
    /// A step exceeds the limit.
    #[error("step {step} needs {bytes} bytes, more than the limit")]
    Beyond {
        /// The step.
        step: usize,
        /// Bytes that stay at the step.
        bytes: u64,
    },
}

/// Checks that the buffers that stay fit the limit at every step. O(buffers x steps).
///
/// # Errors
/// The first violation.
pub fn check(problem: &Problem, leaves: &[bool]) -> Result<(), Violation> {
    if leaves.len() != problem.candidates.len() {
        return Err(Violation::Count { given: leaves.len(), wanted: problem.candidates.len() });
    }
    for (step, fixed) in problem.fixed.iter().enumerate() {
        let stays = problem.candidates.iter().zip(leaves).filter(|(candidate, leaves)| {
            !**leaves && (candidate.start as usize) <= step && step < candidate.end as usize
        });
        let bytes = stays.fold(*fixed, |sum, (candidate, _)| sum.saturating_add(candidate.bytes));
        if bytes > problem.limit {
            return Err(Violation::Beyond { step, bytes });
        }
    }
    Ok(())
}

/// Returns the buffers that leave, with the sum of their costs as the value. There is no solution if the
/// fixed bytes exceed the limit.
///
/// Buffers leave greedily, by cost for the bytes that they free at steps beyond the limit; those that
/// turn out not to be needed return; then each one is tried without it. An exact search follows, within
/// the effort of `limit`.
///
/// # Panics
/// Never; buffers are cut to the steps of `fixed`.
#[must_use]
pub fn solve(problem: &Problem, limit: &Limit) -> Outcome<Vec<bool>> {
    let nothing = vec![false; problem.candidates.len()];
    if problem.fixed.iter().any(|bytes| *bytes > problem.limit) {
        return Outcome {
            solution: None,
            value: None,
            lower_bound: 0,
            stop: StopReason::Exhausted,
            effort: 0,
        };
    }
    let mut state = State::new(problem);
    let forbidden = nothing.clone();
    state.complete(&forbidden);
    state.give_back();
    let mut best = state.leaves.clone();
    best = improved(problem, best);
    let root = State::new(problem);
    let bound = root.bound(&forbidden);
    let most = if problem.candidates.len() > MAX_EXACT { 0 } else { limit.nodes };
    let mut search = Exact { problem, best, value: 0, nodes: 0, most };
    search.value = cost(problem, &search.best);
    if search.value > bound {
        search.branch(root, forbidden);
    }
    let is_done = search.nodes < search.most || search.value <= bound;
    let (value, lower_bound) = (search.value, if is_done { search.value } else { bound });
    let stop = match () {
        () if value <= bound => StopReason::BoundReached,
        () if is_done => StopReason::Exhausted,
        () => StopReason::NodeLimit,
    };
    Outcome { solution: Some(search.best), value: Some(value), lower_bound, stop, effort: search.nodes }
}

/// Returns the sum of the costs of the buffers that leave.
fn cost(problem: &Problem, leaves: &[bool]) -> u64 {
    let chosen = problem.candidates.iter().zip(leaves).filter(|(_, leaves)| **leaves);
    chosen.fold(0, |sum, (candidate, _)| sum.saturating_add(candidate.cost))
}

/// Tries an answer without each of its buffers, the most expensive first, and keeps every gain.
fn improved(problem: &Problem, mut best: Vec<bool>) -> Vec<bool> {
    for _ in 0..MAX_ROUNDS {
        let before = cost(problem, &best);
        let mut chosen: Vec<usize> = (0..best.len()).filter(|index| best[*index]).collect();
        chosen.sort_by_key(|index| (Reverse(problem.candidates[*index].cost), *index));
        for without in chosen {
            let mut forbidden = vec![false; best.len()];
            forbidden[without] = true;
            let mut state = State::new(problem);
            for (index, _) in best.iter().enumerate().filter(|(index, leaves)| **leaves && *index != without)
            {
                state.leave(index);
            }
            state.complete(&forbidden);
            state.give_back();
            if state.is_kept() && cost(problem, &state.leaves) < cost(problem, &best) {
                best = state.leaves;
            }
        }
        if cost(problem, &best) == before {
            break;
        }
    }
    best
}

/// Bytes by step, with the buffers that have left so far.
#[derive(Clone)]
struct State<'p> {
    problem: &'p Problem,
    leaves: Vec<bool>,
    /// Bytes that stay at each step.
    load: Vec<u64>,
}

impl<'p> State<'p> {
    fn new(problem: &'p Problem) -> Self {
        let mut state =
            Self { problem, leaves: vec![false; problem.candidates.len()], load: problem.fixed.clone() };
        for index in 0..problem.candidates.len() {
            let bytes = problem.candidates[index].bytes;
            state.steps(index).iter_mut().for_each(|load| *load = load.saturating_add(bytes));
        }
        state
    }

    /// Returns the bytes at the steps of a buffer.
    fn steps(&mut self, index: usize) -> &mut [u64] {
        let candidate = &self.problem.candidates[index];
        let end = (candidate.end as usize).min(self.load.len());
        let start = (candidate.start as usize).min(end);
        &mut self.load[start..end]
    }

    fn leave(&mut self, index: usize) {
        let bytes = self.problem.candidates[index].bytes;
        self.leaves[index] = true;
        self.steps(index).iter_mut().for_each(|load| *load = load.saturating_sub(bytes));
    }

    fn stay(&mut self, index: usize) {
        let bytes = self.problem.candidates[index].bytes;
        self.leaves[index] = false;
        self.steps(index).iter_mut().for_each(|load| *load = load.saturating_add(bytes));
    }

    /// Whether no step exceeds the limit.
    fn is_kept(&self) -> bool {
        self.load.iter().all(|load| *load <= self.problem.limit)
    }

    /// Returns the step that exceeds the limit by most, the first of equals; `None` if none exceeds it.
    fn worst(&self) -> Option<usize> {
        let most = self.load.iter().copied().max().filter(|load| *load > self.problem.limit)?;
        self.load.iter().position(|load| *load == most)
    }

    /// Returns the buffers at a step that may still leave and free bytes.
    fn at(&self, step: usize, forbidden: &[bool]) -> Vec<usize> {
        let is_live =
            |candidate: &Candidate| (candidate.start as usize) <= step && step < candidate.end as usize;
        let all = self.problem.candidates.iter().enumerate();
        let free =
            all.filter(|(index, candidate)| !self.leaves[*index] && !forbidden[*index] && is_live(candidate));
        free.filter(|(_, candidate)| candidate.bytes > 0).map(|(index, _)| index).collect()
    }

    /// Lets buffers leave greedily until the limit holds, or none is left that could.
    fn complete(&mut self, forbidden: &[bool]) {
        while let Some(step) = self.worst() {
            // Sums of steps and bytes beyond the limit, for the gain of a buffer in constant time.
            let mut sums = vec![(0u64, 0u64)];
            for load in &self.load {
                let (steps, bytes) = sums.last().copied().unwrap_or_default();
                let beyond = load.saturating_sub(self.problem.limit);
                sums.push((steps + u64::from(beyond > 0), bytes.saturating_add(beyond)));
            }
            let gain = |index: usize| {
                let candidate = &self.problem.candidates[index];
                let end = (candidate.end as usize).min(self.load.len());
                let start = (candidate.start as usize).min(end);
                let steps = sums[end].0 - sums[start].0;
                candidate.bytes.saturating_mul(steps).min(sums[end].1.saturating_sub(sums[start].1)).max(1)
            };
            let found = self.at(step, forbidden);
            // Compare cost / gain by cross multiplication; of equals the larger buffer.
            let best = found.into_iter().min_by(|a, b| {
                let [one, other] = [*a, *b].map(|index| &self.problem.candidates[index]);
                let left = u128::from(one.cost) * u128::from(gain(*b));
                let right = u128::from(other.cost) * u128::from(gain(*a));
                left.cmp(&right).then(other.bytes.cmp(&one.bytes)).then(a.cmp(b))
            });
            let Some(best) = best else { return };
            self.leave(best);
        }
    }

    /// Returns buffers that are not needed any more, the most expensive first.
    fn give_back(&mut self) {
        let mut chosen: Vec<usize> = (0..self.leaves.len()).filter(|index| self.leaves[*index]).collect();
        chosen.sort_by_key(|index| (Reverse(self.problem.candidates[*index].cost), *index));
        for index in chosen {
            let (bytes, limit) = (self.problem.candidates[index].bytes, self.problem.limit);
            if self.steps(index).iter().all(|load| load.saturating_add(bytes) <= limit) {
                self.stay(index);
            }
        }
    }

    /// Returns a lower bound of the further cost: at one step, the cheapest parts of buffers that free
    /// enough bytes. `u64::MAX` if a step cannot keep the limit.
    fn bound(&self, forbidden: &[bool]) -> u64 {
        let Some(step) = self.worst() else { return 0 };
        let mut rest = self.load[step] - self.problem.limit;
        let mut found = self.at(step, forbidden);
        let ratio = |index: usize| {
            let candidate = &self.problem.candidates[index];
            candidate.cost as f64 / candidate.bytes as f64
        };
        found.sort_by(|a, b| ratio(*a).total_cmp(&ratio(*b)).then(a.cmp(b)));
        let mut sum = 0u64;
        for index in found {
            let candidate = &self.problem.candidates[index];
            if candidate.bytes >= rest {
                // A part of the cost, rounded down.
                return sum.saturating_add(
                    (u128::from(candidate.cost) * u128::from(rest) / u128::from(candidate.bytes)) as u64,
                );
            }
            rest -= candidate.bytes;
            sum = sum.saturating_add(candidate.cost);
        }
        u64::MAX
    }
}

/// Exact search: at the worst step some buffer must leave; each one does in turn, and stays after that.
struct Exact<'p> {
    problem: &'p Problem,
    best: Vec<bool>,
    value: u64,
    nodes: u64,
    most: u64,
}

impl Exact<'_> {
    fn branch(&mut self, state: State<'_>, mut forbidden: Vec<bool>) {
        if self.nodes >= self.most {
            return;
        }
        self.nodes += 1;
        let known = cost(self.problem, &state.leaves);
        if known.saturating_add(state.bound(&forbidden)) >= self.value {
            return;
        }
        let Some(step) = state.worst() else {
            (self.value, self.best) = (known, state.leaves);
            return;
        };
        let mut found = state.at(step, &forbidden);
        found.sort_by_key(|index| (Reverse(self.problem.candidates[*index].bytes), *index));
        for index in found {
            let mut next = state.clone();
            next.leave(index);
            self.branch(next, forbidden.clone());
            forbidden[index] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;

    fn problems() -> impl Strategy<Value = Problem> {
        let candidate = (0u32..8, 0u32..6, 0u64..50, 0u64..30)
            .prop_map(|(start, length, bytes, cost)| Candidate { start, end: start + length, bytes, cost });
        let fixed = proptest::collection::vec(0u64..40, 0..9);
        (proptest::collection::vec(candidate, 0..9), fixed, 0u64..90)
            .prop_map(|(candidates, fixed, limit)| Problem { candidates, fixed, limit })
    }

    /// Returns the least cost by trying all subsets.
    fn least(problem: &Problem) -> Option<u64> {
        let count = problem.candidates.len();
        let subsets = (0u32..1 << count)
            .map(|bits| (0..count).map(|index| bits >> index & 1 == 1).collect::<Vec<bool>>());
        subsets.filter(|leaves| check(problem, leaves).is_ok()).map(|leaves| cost(problem, &leaves)).min()
    }

    proptest! {
        #[test]
        fn answers_are_valid_and_optimal_and_bounds_hold(problem in problems()) {
            let least = least(&problem);
            for nodes in [0, 3, 100_000] {
                let outcome = solve(&problem, &Limit::nodes(nodes));
                prop_assert_eq!(outcome.solution.is_some(), least.is_some());
                let Some(leaves) = outcome.solution else { continue };
                prop_assert_eq!(check(&problem, &leaves), Ok(()));
                prop_assert_eq!(outcome.value, Some(cost(&problem, &leaves)));
                prop_assert!(outcome.lower_bound <= least.unwrap());
                if nodes == 100_000 {
                    prop_assert_eq!(outcome.value, least);
                }
            }
        }
    }

    #[test]
    fn a_wrong_answer_is_refused() {
        let candidate = Candidate { start: 0, end: 1, bytes: 10, cost: 1 };
        let problem = Problem { candidates: vec![candidate], fixed: vec![5], limit: 12 };
        assert_eq!(check(&problem, &[]), Err(Violation::Count { given: 0, wanted: 1 }));
        assert_eq!(check(&problem, &[false]), Err(Violation::Beyond { step: 0, bytes: 15 }));
        assert_eq!(solve(&problem, &Limit::nodes(0)).solution, Some(vec![true]));
    }
}
