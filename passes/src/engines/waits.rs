//! Waits between engines: the fewest that order everything that must be ordered.

use memc_solve::{order, place};

use crate::parallel::Wait;

/// Bytes of a buffer or a workspace, with the steps that use them.
pub(super) struct Shared {
    low: u64,
    high: u64,
    /// Live range in numbered times.
    start: u32,
    end: u32,
    users: Vec<u32>,
}

impl Shared {
    /// Lists the bytes of all buffers and workspace at their offsets.
    pub(super) fn all(
        ordered: &order::Problem,
        workspace: &[u32],
        problem: &place::Problem,
        offsets: &[u64],
    ) -> Vec<Self> {
        let users = ordered.buffers.iter().map(|buffer| buffer.users.clone());
        let users = users.chain(workspace.iter().map(|step| vec![*step]));
        let rows = problem.buffers.iter().zip(offsets).zip(users);
        let shared = rows.map(|((row, offset), users)| Self {
            low: *offset,
            high: offset.saturating_add(row.size),
            start: row.start,
            end: row.end,
            users,
        });
        shared.collect()
    }
}

/// Numbers of steps of each engine.
type Counts = Vec<u32>;

/// Returns the waits that order operands before readers, the steps of each pair of `earlier`, and all uses
/// of the same bytes, sorted. Every required order is one of the steps' own, so nothing waits in a circle.
pub(super) fn waits(
    ordered: &order::Problem,
    earlier: &[(u32, u32)],
    shared: &[Shared],
    engines: &[u32],
) -> Vec<Wait> {
    let mut needed = Needed::new(engines);
    for (step, operation) in ordered.operations.iter().enumerate() {
        operation.predecessors.iter().for_each(|before| needed.add(*before, step as u32));
    }
    earlier.iter().for_each(|(before, step)| needed.add(*before, *step));
    let mut rows: Vec<&Shared> = shared.iter().filter(|row| row.low < row.high).collect();
    rows.sort_by_key(|row| row.low);
    for (position, one) in rows.iter().enumerate() {
        for other in rows[position + 1..].iter().take_while(|other| other.low < one.high) {
            let (first, second) = if one.end <= other.start { (one, other) } else { (other, one) };
            needed.add_all(&first.users, &second.users);
        }
    }
    needed.reduced()
}

/// What each step needs: for each engine, the number of its steps that must have ended.
struct Needed<'e> {
    engines: &'e [u32],
    /// Number of steps that its engine runs before each step.
    position: Vec<u32>,
    /// Steps of each engine, in order.
    steps: Vec<Vec<u32>>,
    needed: Vec<Counts>,
}

impl<'e> Needed<'e> {
    fn new(engines: &'e [u32]) -> Self {
        let count = engines.iter().max().map_or(0, |largest| *largest as usize + 1);
        let mut steps = vec![Vec::new(); count];
        let mut position = Vec::with_capacity(engines.len());
        for (step, engine) in engines.iter().enumerate() {
            let own: &mut Vec<u32> = &mut steps[*engine as usize];
            position.push(own.len() as u32);
            own.push(step as u32);
        }
        Self { engines, position, steps, needed: vec![vec![0; count]; engines.len()] }
    }

    fn add(&mut self, before: u32, step: u32) {
        let counts = &mut self.needed[step as usize][self.engines[before as usize] as usize];
        *counts = (*counts).max(self.position[before as usize] + 1);
    }

    /// Orders each of some steps before each of some others.
    fn add_all(&mut self, before: &[u32], steps: &[u32]) {
        let mut last: Vec<Option<u32>> = vec![None; self.steps.len()];
        for step in before {
            let of = &mut last[self.engines[*step as usize] as usize];
            *of = (*of).max(Some(*step));
        }
        for step in steps {
            last.iter().flatten().for_each(|before| self.add(*before, *step));
        }
    }

    /// Returns the waits that do not follow from other waits and the order of each engine's own steps.
    fn reduced(&self) -> Vec<Wait> {
        let mut waits = Vec::new();
        // For each step, the steps of each engine that have ended when it has.
        let mut ended: Vec<Counts> = Vec::with_capacity(self.engines.len());
        for step in 0..self.engines.len() {
            let own = self.engines[step] as usize;
            let previous = self.position[step].checked_sub(1).map(|before| self.steps[own][before as usize]);
            let mut known =
                previous.map_or_else(|| vec![0; self.steps.len()], |before| ended[before as usize].clone());
            let asked =
                self.needed[step].iter().enumerate().filter(|(engine, count)| *engine != own && **count > 0);
            let mut asked: Vec<u32> =
                asked.map(|(engine, count)| self.steps[engine][*count as usize - 1]).collect();
            // Later steps come first: they may have waited for the others.
            asked.sort_unstable_by_key(|after| std::cmp::Reverse(*after));
            for after in asked {
                if known[self.engines[after as usize] as usize] > self.position[after as usize] {
                    continue;
                }
                waits.push(Wait { step: step as u32, after });
                known
                    .iter_mut()
                    .zip(&ended[after as usize])
                    .for_each(|(known, more)| *known = (*known).max(*more));
            }
            known[own] = self.position[step] + 1;
            ended.push(known);
        }
        waits.sort_unstable();
        waits
    }
}
