//! Finds a small set of buffers that cannot be placed together, as the reason why a capacity is too
//! small.

use super::normal::Normal;
use super::problem::{Problem, ProblemError};
use super::stages::solve;
use crate::{Limit, Status};

/// Most problems that are tried; each costs one call of [`solve`].
const MAX_TRIALS: usize = 1_000;

/// Returns the indices, ascending, of a set of buffers that exceed the problem's capacity by themselves.
/// Returns `None` if there is no capacity, or no proof within the limit that the capacity is too small.
///
/// The set is proven to be infeasible. Without any one of its buffers it is either feasible or not
/// decided within `limit`, which applies to each trial. The first trial has the buffers of the busiest
/// section, further trials those of ever wider ranges around it. Then blocks of buffers are left out,
/// each half as long as the previous block. There are at most a thousand trials, each a call of
/// [`solve`].
///
/// # Errors
/// Fails if the problem is invalid, see [`Problem::validate`].
pub fn infeasible_subset(problem: &Problem, limit: &Limit) -> Result<Option<Vec<usize>>, ProblemError> {
    problem.validate()?;
    if problem.capacity.is_none() {
        return Ok(None);
    }
    let mut trials = Trials { problem, limit, left: MAX_TRIALS };
    let Some(mut set) = seed(&mut trials)? else { return Ok(None) };
    // Leave out the smallest buffers first, so that the few that remain are large.
    set.sort_by_key(|index| (problem.buffers[*index].size, *index));
    let mut block = set.len().div_ceil(2);
    loop {
        let mut from = 0;
        while from < set.len() && set.len() > 1 {
            let to = (from + block).min(set.len());
            let rest: Vec<usize> = set[..from].iter().chain(&set[to..]).copied().collect();
            if trials.excludes(&rest)? {
                set = rest;
            } else {
                from = to;
            }
        }
        if block == 1 {
            break;
        }
        block = block.div_ceil(2);
    }
    set.sort_unstable();
    Ok(Some(set))
}

/// Returns a first infeasible set: the buffers of a range of sections around the busiest section, as
/// narrow as found.
fn seed(trials: &mut Trials<'_>) -> Result<Option<Vec<usize>>, ProblemError> {
    let normal = Normal::new(trials.problem);
    let busiest =
        (0..normal.sections).max_by_key(|section| (normal.load[*section], std::cmp::Reverse(*section)));
    let center = busiest.unwrap_or(0);
    let mut width = 0;
    while width < normal.sections {
        let (first, last) = (center.saturating_sub(width) as u32, (center + width + 1) as u32);
        let lives =
            |index: &usize| normal.parts_of(*index).iter().any(|part| part.first < last && first < part.last);
        let live: Vec<usize> =
            (0..normal.items.len()).filter(lives).map(|index| normal.items[index].buffer as usize).collect();
        if live.len() < trials.problem.buffers.len() && trials.excludes(&live)? {
            return Ok(Some(live));
        }
        width = width * 4 + 1;
    }
    // Buffers that never live count too: a fixed offset may exceed the capacity.
    let all: Vec<usize> = (0..trials.problem.buffers.len()).collect();
    Ok(trials.excludes(&all)?.then_some(all))
}

struct Trials<'a> {
    problem: &'a Problem,
    limit: &'a Limit,
    left: usize,
}

impl Trials<'_> {
    /// Returns whether these buffers alone are proven to exceed the capacity.
    fn excludes(&mut self, set: &[usize]) -> Result<bool, ProblemError> {
        if self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        let buffers = set.iter().map(|index| self.problem.buffers[*index].clone()).collect();
        let part = Problem { buffers, capacity: self.problem.capacity };
        Ok(solve(&part, self.limit)?.status() == Status::Infeasible)
    }
}
