//! Bounds for any order by branching: each decision puts a run before or after a row whose side of it is
//! open. Each answer is a part of all orders, with more rows.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::gaps::own_bytes;
use super::rows::{Rows, predecessors};
use crate::budget::problem::Problem;

/// Number of runs and uses of a part that takes about as long to examine as a node of a limit.
const SIZE_PER_NODE: u64 = 32;

/// Effort of one thorough examination of a part, in nodes of a limit.
const LOOK: u64 = 400;

/// Branches over parts of all orders, each with a bound.
pub struct Branches<'a, F> {
    problem: &'a Problem,
    /// Weight of each run's position; 1 means that the position does not matter.
    weights: &'a [u64],
    /// Lower bound of the cost beyond all runs once, for plans whose first runs respect some rows, at
    /// some effort; `None` if no plan exists.
    bound: F,
    /// Runs that execute before each run in all orders.
    before: Vec<Vec<u32>>,
}

/// A set of orders: in each pair, the first run comes before the second.
#[derive(Clone, Default)]
struct Part {
    pairs: Vec<(u32, u32)>,
    /// Whether the bound is the result of a thorough examination.
    is_sharp: bool,
}

impl<'a, F: Fn(&Rows, u64) -> Option<u128>> Branches<'a, F> {
    /// Covers all orders of a valid problem.
    pub fn new(problem: &'a Problem, weights: &'a [u64], bound: F) -> Self {
        Self { problem, weights, bound, before: predecessors(problem) }
    }

    /// Returns a lower bound for all plans: the least bound of parts that together contain all orders.
    /// Works best first, until the bound reaches `enough` or the effort is spent, in nodes of a
    /// [`crate::Limit`]. Returns `None` if no part has a plan.
    ///
    /// Each part is examined twice, first roughly: most parts never have the least bound again.
    pub fn least(&self, effort: u64, enough: u128) -> Option<u128> {
        let uses: usize = self.problem.runs.iter().map(|run| run.reads.len() + run.writes.len()).sum();
        let glance = 1 + (self.problem.runs.len() + uses) as u64 / SIZE_PER_NODE;
        let mut parts = vec![Part::default()];
        // Among equal bounds, take the part with the most answers, then the last part.
        let mut queue = BinaryHeap::from([(Reverse(0), 0, 0)]);
        let mut spent = 0;
        while let Some((Reverse(least), answers, index)) = queue.pop() {
            if least >= enough || spent >= effort {
                return Some(least);
            }
            let part = std::mem::take(&mut parts[index]);
            let Some(rows) = self.rows(&part.pairs) else { continue };
            let mut open = vec![part.clone()];
            // A thoroughly examined part is split; a roughly examined part is examined again.
            if part.is_sharp {
                let Some((run, row)) = self.question(&rows) else { return Some(least) };
                let answer = |pair| Part {
                    pairs: part.pairs.iter().copied().chain([pair]).collect(),
                    is_sharp: false,
                };
                open = vec![answer((run, row)), answer((row, run))];
            }
            for mut part in open {
                let Some(rows) = self.rows(&part.pairs) else { continue };
                let (look, length) =
                    if part.pairs.len() > answers { (0, glance) } else { (LOOK, LOOK + glance) };
                spent += length;
                part.is_sharp = look > 0;
                let Some(bound) = (self.bound)(&rows, look) else { continue };
                queue.push((Reverse(bound.max(least)), part.pairs.len(), parts.len()));
                parts.push(part);
            }
        }
        None
    }

    /// Returns the rows of the orders that respect the pairs; `None` if the pairs form a cycle. O((runs
    /// + uses) log).
    fn rows(&self, pairs: &[(u32, u32)]) -> Option<Rows> {
        let mut before = self.before.clone();
        for (first, second) in pairs {
            before[*second as usize].push(*first);
        }
        let mut after = vec![Vec::new(); before.len()];
        let mut waits: Vec<usize> = before.iter().map(Vec::len).collect();
        for (run, before) in before.iter().enumerate() {
            before.iter().for_each(|other| after[*other as usize].push(run as u32));
        }
        let mut ready: BTreeSet<u32> =
            (0..before.len() as u32).filter(|run| waits[*run as usize] == 0).collect();
        let mut order = Vec::with_capacity(before.len());
        while let Some(run) = ready.pop_first() {
            order.push(run);
            for &other in &after[run as usize] {
                waits[other as usize] -= 1;
                if waits[other as usize] == 0 {
                    ready.insert(other);
                }
            }
        }
        (order.len() == before.len()).then(|| Rows::of_heaviest_chain(&before, &order, self.weights))
    }

    /// Returns the run that is no row and matters most, and a row whose side of it is open: the first
    /// such row after the run in the given order, or else the last one. `None` if no side is open.
    fn question(&self, rows: &Rows) -> Option<(u32, u32)> {
        let mut is_row = vec![false; self.weights.len()];
        rows.runs.iter().for_each(|run| is_row[*run as usize] = true);
        let open = |run: &u32| {
            let run = *run as usize;
            !is_row[run] && self.weights[run] > 1 && rows.from[run] < rows.to[run]
        };
        let run = (0..self.weights.len() as u32)
            .filter(open)
            .max_by_key(|run| (own_bytes(self.problem, *run), Reverse(*run)))?;
        let sides = &rows.runs[rows.from[run as usize] as usize..rows.to[run as usize] as usize];
        sides.iter().find(|row| **row > run).or(sides.last()).map(|row| (run, *row))
    }
}

#[cfg(test)]
mod tests {
    use super::{Branches, Rows};
    use crate::budget::problem::{Problem, Run, Value};

    /// Three runs without dependencies.
    fn problem() -> Problem {
        let run = |value| Run { writes: vec![value], ..Run::default() };
        Problem {
            runs: (0..3).map(run).collect(),
            values: vec![Value { size: 1, ..Value::default() }; 3],
            ..Problem::default()
        }
    }

    /// Returns the cost of an order: 7 if run 2 comes before run 1, otherwise 5; `None` while their
    /// order is open.
    fn cost(rows: &Rows) -> Option<u128> {
        let place = |run: u32| rows.runs.iter().position(|row| *row == run);
        let (one, two) = (place(1)?, place(2)?);
        Some(if two < one { 7 } else { 5 })
    }

    #[test]
    fn the_bound_is_the_least_over_all_branches() {
        let problem = problem();
        let bound = |rows: &Rows, _| cost(rows).or(Some(0));
        assert_eq!(Branches::new(&problem, &[2; 3], bound).least(100_000, u128::MAX), Some(5));
        // Without weights, without effort, and with a bound that is already enough.
        assert_eq!(Branches::new(&problem, &[1; 3], bound).least(100_000, u128::MAX), Some(0));
        assert_eq!(Branches::new(&problem, &[2; 3], bound).least(1, u128::MAX), Some(0));
        assert_eq!(Branches::new(&problem, &[2; 3], bound).least(100_000, 0), Some(0));
    }

    #[test]
    fn parts_without_a_plan_are_left_out() {
        let problem = problem();
        let bound =
            |rows: &Rows, _| if rows.runs.len() < 3 { Some(0) } else { cost(rows).filter(|cost| *cost > 5) };
        assert_eq!(Branches::new(&problem, &[2; 3], bound).least(100_000, u128::MAX), Some(7));
        let none = |rows: &Rows, _| (rows.runs.len() < 3).then_some(0);
        assert_eq!(Branches::new(&problem, &[2; 3], none).least(100_000, u128::MAX), None);
    }
}
