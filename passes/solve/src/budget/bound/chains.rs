//! Chains: the cost to bring back a value, beyond its own maker, if the operands of the maker are gone
//! by then.
//!
//! Let the maker of `v` read `u`, and let every first run that uses `u` come before a gap of `v`. At
//! each row of the gap, either one of both values is present, or `u` is recomputed as well before `v`
//! comes back. So at most size(`v`) − size(`u`) bytes become free at the cost of `v` alone; the rest
//! also costs `u`; and so on, from `u` to the operands of its maker. A value that cannot be recomputed
//! ends the chain: the least size so far then stays present in any case.

use super::gaps::{Absence, Parts, distinct};
use super::rows::Rows;
use crate::budget::problem::Problem;
use crate::budget::sequence::model::MAX_CHAIN;

/// An index that names no value.
const NOBODY: u32 = u32::MAX;

/// The links of all chains so far.
pub struct Chains<'a> {
    problem: &'a Problem,
    rows: &'a Rows,
    absences: &'a [Absence],
    users: &'a [Vec<u32>],
    makers: Vec<Option<u32>>,
    /// For each value, the single value whose chain contains it, so that bytes and runs of a chain count
    /// once.
    stands_behind: Vec<u32>,
}

impl<'a> Chains<'a> {
    /// Creates chains for a problem without links, since a load needs no operands.
    pub fn new(problem: &'a Problem, rows: &'a Rows, absences: &'a [Absence], users: &'a [Vec<u32>]) -> Self {
        let mut makers = vec![None; problem.values.len()];
        for (index, run) in problem.runs.iter().enumerate() {
            run.writes.iter().for_each(|value| makers[*value as usize] = Some(index as u32));
        }
        Self { problem, rows, absences, users, makers, stands_behind: vec![NOBODY; problem.values.len()] }
    }

    /// Returns the parts of a value in a gap that begins at row `first`.
    pub fn parts(&mut self, value: u32, first: u32) -> Parts {
        let mut parts = Parts::default();
        let mut least = self.problem.values[value as usize].size;
        let mut cost = 0_u64;
        let mut at = value;
        for _ in 0..MAX_CHAIN {
            let Some(again) = self.absences[at as usize].again else {
                parts.stays = least;
                return parts;
            };
            cost = cost.saturating_add(again);
            let Some(behind) = self.behind(at, first) else { break };
            self.stands_behind[behind as usize] = at;
            let size = self.problem.values[behind as usize].size;
            if size < least {
                parts.absent.push((least - size, std::mem::take(&mut cost)));
                least = size;
            }
            at = behind;
        }
        parts.absent.push((least, cost));
        parts
    }

    /// Returns the largest operand of a value's maker that no first run uses from row `first` on; `None`
    /// if every operand is used later or belongs to another chain.
    fn behind(&self, value: u32, first: u32) -> Option<u32> {
        let maker = self.makers[value as usize]?;
        let is_gone = |operand: &u32| {
            let claimed = self.stands_behind[*operand as usize];
            let data = &self.problem.values[*operand as usize];
            (claimed == NOBODY || claimed == value)
                && !data.kept
                && data.size > 0
                && self.users[*operand as usize].iter().all(|run| self.rows.to[*run as usize] <= first)
        };
        let gone = distinct(&self.problem.runs[maker as usize].reads).into_iter().filter(is_gone);
        gone.max_by_key(|operand| {
            (self.problem.values[*operand as usize].size, self.absences[*operand as usize].again)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::gaps::absences;
    use super::{Chains, Parts, Rows};
    use crate::budget::problem::{Problem, Run, Value};

    /// Builds a chain of runs with these sizes and costs, each reading the previous value. The last run
    /// reads the last value, and `also` if given.
    fn chain(values: &[(u64, u64)], also: Option<u32>) -> Problem {
        let mut problem = Problem::default();
        for (index, &(size, cost)) in values.iter().enumerate() {
            let index = index as u32;
            let reads = index.checked_sub(1).into_iter().collect();
            problem.runs.push(Run {
                reads,
                writes: vec![index],
                cost,
                repeatable: index > 0,
                ..Run::default()
            });
            problem.values.push(Value { size, ..Value::default() });
        }
        problem.runs.push(Run::default());
        let reads = also.into_iter().chain([values.len() as u32 - 1]).collect();
        problem.runs.push(Run { reads, ..Run::default() });
        problem
    }

    /// Returns the parts of the last value in its gap, with costs in the problem's unit.
    fn parts(problem: &Problem) -> Parts {
        let order: Vec<u32> = (0..problem.runs.len() as u32).collect();
        let (rows, absences) = (Rows::of_order(&order), absences(problem));
        let users = super::super::gaps::users(problem);
        let last = problem.runs.len() as u32 - 2;
        let mut parts = Chains::new(problem, &rows, &absences, &users).parts(last - 1, last);
        parts.absent.iter_mut().for_each(|(_, cost)| *cost /= super::super::gaps::COST_PARTS);
        parts
    }

    #[test]
    fn absent_bytes_cost_the_runs_that_repeat() {
        // Of 8 bytes, 3 are free for the last run alone, and 3 more if the run before it repeats; the
        // first run cannot repeat.
        let problem = chain(&[(2, 100), (5, 10), (8, 1)], None);
        assert_eq!(parts(&problem), Parts { absent: vec![(3, 1), (3, 10)], stays: 2 });
        // A value larger than its reader's result keeps no bytes by itself.
        let problem = chain(&[(0, 100), (9, 10), (8, 1)], None);
        assert_eq!(parts(&problem), Parts { absent: vec![(8, 11)], stays: 0 });
    }

    #[test]
    fn a_value_with_a_later_use_is_counted_by_itself() {
        let problem = chain(&[(2, 100), (5, 10), (8, 1)], Some(1));
        assert_eq!(parts(&problem), Parts { absent: vec![(8, 1)], stays: 0 });
    }
}
