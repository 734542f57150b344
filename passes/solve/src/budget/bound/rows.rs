//! Rows: runs whose first executions have a known order, and the known positions of all other runs among
//! them.

use crate::budget::problem::Problem;

/// Runs whose first executions follow each other in every plan for which a bound holds.
pub struct Rows {
    /// Runs of the rows, in order.
    pub runs: Vec<u32>,
    /// For each run of the problem, the number of rows that certainly come before it.
    pub from: Vec<u32>,
    /// For each run of the problem, the first row that certainly comes after it; the number of rows if
    /// none does. For a run that is a row, the next row.
    pub to: Vec<u32>,
}

impl Rows {
    /// Makes every run a row, for plans whose first runs keep this order.
    #[must_use]
    pub fn of_order(order: &[u32]) -> Self {
        let mut from = vec![0; order.len()];
        for (position, run) in order.iter().enumerate() {
            from[*run as usize] = position as u32;
        }
        let to = from.iter().map(|position| position + 1).collect();
        Self { runs: order.to_vec(), from, to }
    }

    /// Makes rows of the heaviest chain of runs in which each run needs the previous one, so that every
    /// plan has them in this order.
    ///
    /// A run that precedes or follows all others can always be part of the chain. `before` lists the
    /// predecessors of each run; `order` is an order that respects them. O(n + uses).
    #[must_use]
    pub fn of_heaviest_chain(before: &[Vec<u32>], order: &[u32], weights: &[u64]) -> Self {
        let count = before.len();
        // Weight of the heaviest chain that ends at each run, and the previous run in that chain.
        let mut heaviest: Vec<(u64, Option<u32>)> = vec![(0, None); count];
        for &run in order {
            let others = before[run as usize].iter().copied();
            let best = others.max_by_key(|other| (heaviest[*other as usize].0, std::cmp::Reverse(*other)));
            let weight = best.map_or(0, |other| heaviest[other as usize].0);
            heaviest[run as usize] = (weight.saturating_add(weights[run as usize]), best);
        }
        let mut next =
            (0..count as u32).max_by_key(|run| (heaviest[*run as usize].0, std::cmp::Reverse(*run)));
        let mut runs = Vec::new();
        while let Some(run) = next {
            runs.push(run);
            next = heaviest[run as usize].1;
        }
        runs.reverse();
        let mut row = vec![None; count];
        for (place, run) in runs.iter().enumerate() {
            row[*run as usize] = Some(place as u32);
        }
        // Count the rows before each run, in order; then find the first row after each run, in reverse
        // order.
        let mut from = vec![0; count];
        for &run in order {
            let (run, before) = (run as usize, &before[run as usize]);
            let behind = |other: &u32| row[*other as usize].map_or(from[*other as usize], |place| place + 1);
            from[run] = row[run].unwrap_or_else(|| before.iter().map(behind).max().unwrap_or(0));
        }
        let mut to = vec![runs.len() as u32; count];
        for &run in order.iter().rev() {
            let limit = row[run as usize].unwrap_or(to[run as usize]);
            for &other in &before[run as usize] {
                to[other as usize] = to[other as usize].min(limit);
            }
        }
        for (run, place) in row.iter().enumerate() {
            if let Some(place) = place {
                to[run] = place + 1;
            }
        }
        Self { runs, from, to }
    }
}

/// Returns the runs that must execute before each run, by its index; all have lower indices.
pub fn predecessors(problem: &Problem) -> Vec<Vec<u32>> {
    let mut maker = vec![None; problem.values.len()];
    let mut lists = Vec::with_capacity(problem.runs.len());
    for (index, run) in problem.runs.iter().enumerate() {
        let makers = run.reads.iter().filter_map(|value| maker[*value as usize]);
        lists.push(makers.chain(run.predecessors.iter().copied()).collect());
        for &value in &run.writes {
            maker[value as usize] = Some(index as u32);
        }
    }
    lists
}
