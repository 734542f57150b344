//! Gaps: rows at which a value is unused and needed later, the costs of its absence, and the bytes that
//! must be absent at each row.

use super::cover::Cover;
use super::interval::Interval;
use super::rows::Rows;
use crate::budget::problem::{Origin, Problem, Value};

/// Number of parts of the problem's cost unit, so that the results of one run can share its cost.
pub const COST_PARTS: u64 = 1 << 16;

/// Lower bounds of the cost of a value's absence, for each way to bring the value back; `None` if that
/// way does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Absence {
    /// The value's share of the cost of its maker, in 1/`COST_PARTS` of the unit.
    pub again: Option<u64>,
    /// Time on the engine that loads the value.
    pub load: Option<u64>,
    /// Time on the engine that stores the value; 0 for far values.
    pub store: u64,
}

/// Returns the absence costs of every value, by its index.
#[must_use]
pub fn absences(problem: &Problem) -> Vec<Absence> {
    let mut absences = vec![Absence::default(); problem.values.len()];
    for (absence, value) in absences.iter_mut().zip(&problem.values) {
        let is_far = |space: u32| matches!(value.origin, Origin::Far(far) if far == space);
        for link in &problem.links {
            let far = is_far(link.space);
            if far || (value.movable && !value.kept) {
                let load = link.load_latency + value.size.div_ceil(link.load_rate.max(1));
                let store =
                    if far { 0 } else { link.store_latency + value.size.div_ceil(link.store_rate.max(1)) };
                // Each minimum over all links is a bound for any choice of link.
                absence.store = if absence.load.is_some() { absence.store.min(store) } else { store };
                absence.load = Some(absence.load.map_or(load, |other| other.min(load)));
            }
        }
    }
    for run in &problem.runs {
        if !run.repeatable || run.writes.iter().any(|value| problem.values[*value as usize].kept) {
            continue;
        }
        // One more execution can bring back each result once, so the shares add up to its cost.
        let bytes: u128 =
            run.writes.iter().map(|value| u128::from(problem.values[*value as usize].size)).sum();
        for &value in &run.writes {
            let size = u128::from(problem.values[value as usize].size);
            let share =
                (u128::from(run.cost) * u128::from(COST_PARTS) * size).checked_div(bytes).unwrap_or(0);
            absences[value as usize].again = Some(u64::try_from(share).unwrap_or(u64::MAX));
        }
    }
    absences
}

/// Returns an upper bound of the bytes that results of a run can share with operands, in every plan.
#[must_use]
pub fn most_taken_over(problem: &Problem, run: u32) -> u64 {
    let run = &problem.runs[run as usize];
    let can_die = |value: &u32| !problem.values[*value as usize].kept;
    let takers = run.writes.iter().map(|value| &problem.values[*value as usize]);
    let shared: u64 =
        takers.filter(|taker| taker.takes_over.iter().any(can_die)).map(|taker| taker.size).sum();
    let operands: u64 = distinct(&run.reads)
        .into_iter()
        .filter(can_die)
        .map(|value| problem.values[value as usize].size)
        .sum();
    shared.min(operands)
}

/// Returns the bytes that the first execution of a run needs at least: operands, results and workspace,
/// less the most that results can take over.
#[must_use]
pub fn own_bytes(problem: &Problem, run: u32) -> u64 {
    let data = &problem.runs[run as usize];
    let touched = distinct(&data.reads).into_iter().chain(data.writes.iter().copied());
    let bytes: u64 = touched.map(|value| problem.values[value as usize].size).sum();
    bytes + data.scratch - most_taken_over(problem, run)
}

/// Returns each index once, ascending.
#[must_use]
pub fn distinct(list: &[u32]) -> Vec<u32> {
    let mut list = list.to_vec();
    list.sort_unstable();
    list.dedup();
    list
}

/// A cover problem with the values of its intervals.
pub struct CoverProblem {
    /// Value of each interval of the cover.
    pub values: Vec<u32>,
    /// For each row, the bytes live beyond the capacity; and the gaps of values that can be absent, by
    /// value and ascending. A gap whose bytes have different costs has several intervals.
    pub cover: Cover,
    /// For each row, the bytes that are present in any case.
    pub fixed: Vec<u64>,
}

/// The bytes of a value in a gap.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Bytes that can be absent, each with its cost beyond the previous parts. A part may be absent
    /// without the others.
    pub absent: Vec<(u64, u64)>,
    /// Bytes that are present in any case.
    pub stays: u64,
}

/// Builds gaps and rows without costs. `can_be_absent` has an entry for each value; `cuts` lists
/// additional rows before which each value is needed, or is empty. O((runs + uses) log).
///
/// A value that is used before a row and after it is either present at the row, or must come back before
/// its next use. Two absences separated by a use need two returns, so a use that certainly is between
/// two rows ends a gap.
#[must_use]
pub fn model(
    problem: &Problem,
    rows: &Rows,
    capacity: u64,
    can_be_absent: &[bool],
    cuts: &[Vec<u32>],
) -> CoverProblem {
    let whole = |value: u32, _| Parts { absent: vec![(problem.values[value as usize].size, 0)], stays: 0 };
    model_in_parts(problem, rows, capacity, &users(problem), can_be_absent, cuts, whole)
}

/// Builds gaps and rows; `parts` splits a value in a gap that begins at a row.
#[must_use]
pub fn model_in_parts(
    problem: &Problem,
    rows: &Rows,
    capacity: u64,
    users: &[Vec<u32>],
    can_be_absent: &[bool],
    cuts: &[Vec<u32>],
    mut parts: impl FnMut(u32, u32) -> Parts,
) -> CoverProblem {
    let count = rows.runs.len();
    // Differences, from each row to the next, of the bytes live and of the bytes that stay.
    let (mut alive, mut fixed) = (vec![0_i64; count + 1], vec![0_i64; count + 1]);
    let mut model = CoverProblem { values: Vec::new(), cover: Cover::default(), fixed: Vec::new() };
    for (index, users) in users.iter().enumerate() {
        let value = &problem.values[index];
        if value.size == 0 {
            continue;
        }
        for (first, end) in
            gaps(rows, value, users, can_be_absent[index], cuts.get(index).map_or(&[], Vec::as_slice))
        {
            alive[first as usize] += value.size as i64;
            alive[end as usize] -= value.size as i64;
            let parts = if can_be_absent[index] {
                parts(index as u32, first)
            } else {
                Parts { absent: Vec::new(), stays: value.size }
            };
            for (size, cost) in parts.absent {
                model.values.push(index as u32);
                model.cover.gaps.push(Interval { first, last: end - 1, size, cost });
            }
            fixed[first as usize] += parts.stays as i64;
            fixed[end as usize] -= parts.stays as i64;
        }
    }
    let (mut there, mut stays) = (0, 0);
    for (row, run) in rows.runs.iter().enumerate() {
        there += alive[row];
        stays += fixed[row];
        let own = own_bytes(problem, *run);
        model.cover.needs.push((own + there as u64).saturating_sub(capacity));
        model.fixed.push(own + stays as u64);
    }
    model
}

/// Returns the runs that use each value: its maker first, then its readers.
pub fn users(problem: &Problem) -> Vec<Vec<u32>> {
    let mut users = vec![Vec::new(); problem.values.len()];
    for (index, run) in problem.runs.iter().enumerate() {
        for value in run.writes.iter().copied().chain(distinct(&run.reads)) {
            users[value as usize].push(index as u32);
        }
    }
    users
}

/// Returns the ranges of rows, ascending, at which a value is certainly live and unused; a certain use
/// separates them.
fn gaps(rows: &Rows, value: &Value, users: &[u32], can_be_absent: bool, cuts: &[u32]) -> Vec<(u32, u32)> {
    let (from, to) = (|run: &u32| rows.from[*run as usize], |run: &u32| rows.to[*run as usize]);
    let start = match value.origin {
        Origin::Near => Some(0),
        Origin::Made => users.first().map(to),
        Origin::Far(_) => users.iter().map(to).min(),
    };
    let end = if value.kept {
        Some(rows.runs.len() as u32)
    } else {
        users.iter().map(from).chain(cuts.iter().copied()).max()
    };
    let (Some(mut start), Some(end)) = (start, end) else { return Vec::new() };
    let mut uses: Vec<(u32, u32, bool)> = users
        .iter()
        .map(|run| (from(run), to(run), rows.runs.get(from(run) as usize) == Some(run)))
        // A use that is no row separates two returns, but the rows that it may come before or after then
        // drop out of the gaps.
        .filter(|(from, to, is_row)| *is_row || (can_be_absent && to - from <= 1))
        .chain(cuts.iter().map(|cut| (*cut, *cut, false)))
        .collect();
    uses.sort_unstable();
    let mut gaps = Vec::new();
    for (from, to, is_row) in uses {
        let from = from.min(end);
        if from > start {
            gaps.push((start, from));
        }
        // A row that uses the value counts it as an operand. A use that is no row and has no gap before
        // it separates nothing.
        if from > start || is_row {
            start = start.max(to);
        }
    }
    if end > start {
        gaps.push((start, end));
    }
    gaps
}

/// Returns, for each value, whether it can be absent between two uses.
pub fn can_be_absent(problem: &Problem, absences: &[Absence]) -> Vec<bool> {
    let can = |(absence, value): (&Absence, &Value)| {
        !value.kept && (absence.again.is_some() || absence.load.is_some())
    };
    absences.iter().zip(&problem.values).map(can).collect()
}

/// Returns the cost that an absence adds to the runs: 0 if a transfer can end the absence.
pub fn run_cost(absence: &Absence) -> u64 {
    if absence.load.is_some() { 0 } else { absence.again.unwrap_or(0) }
}

/// Converts parts of the cost unit to whole units, rounded up because costs of plans are whole.
pub fn whole_units(parts: u128) -> u64 {
    u64::try_from(parts.div_ceil(u128::from(COST_PARTS))).unwrap_or(u64::MAX)
}
