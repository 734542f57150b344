//! The portfolio: prefixes of a few orders, then all down-sets.

use super::bound::lower_bound;
use super::down_sets::DownSets;
use super::dynamic::{Answer, divide};
use super::merged::Merged;
use super::orders::orders;
use super::problem::{Problem, ProblemError, Solution};
use super::reduce::reduced;
use crate::{Limit, Outcome, StopReason};

/// Pieces that are visited for one search node.
const VISITS_OF_A_NODE: u64 = 1024;

/// Down-sets that are enumerated for one search node.
const SETS_OF_A_NODE: u64 = 8;

/// Finds a partition with the smallest objective. If the down-sets and pieces are within the limit, the
/// answer is optimal and the bound equals it.
///
/// # Errors
/// Returns the first rule that the problem breaks.
pub fn solve(problem: &Problem, limit: &Limit) -> Result<Outcome<Solution>, ProblemError> {
    problem.validate()?;
    let merged = reduced(problem);
    let mut found = prefixes(&merged, lower_bound(&merged));
    if found.value == Some(found.lower_bound) {
        return Ok(Outcome { stop: StopReason::BoundReached, ..found });
    }
    let sets = usize::try_from(limit.nodes.saturating_mul(SETS_OF_A_NODE)).unwrap_or(usize::MAX);
    let Some(sets) = DownSets::all(&merged, sets) else {
        return Ok(Outcome { stop: StopReason::NodeLimit, ..found });
    };
    let given = limit.nodes.saturating_mul(VISITS_OF_A_NODE);
    let mut visits = given;
    let answer = divide(&merged, &sets, found.value.unwrap_or(u64::MAX), &mut visits);
    found.effort = (given - visits).div_ceil(VISITS_OF_A_NODE);
    match answer {
        Answer::Better(solution) => {
            (found.value, found.lower_bound) = (Some(solution.value), solution.value);
            found.solution = Some(solution);
            found.stop = StopReason::Exhausted;
        }
        Answer::None => {
            found.lower_bound = found.value.unwrap_or(found.lower_bound);
            found.stop = StopReason::Exhausted;
        }
        Answer::Unfinished => found.stop = StopReason::NodeLimit,
    }
    Ok(found)
}

/// Finds the best partition whose sections are runs of one of a few orders; the time grows with the
/// square of the number of nodes at most.
///
/// # Errors
/// Returns the first rule that the problem breaks.
pub fn linear(problem: &Problem) -> Result<Outcome<Solution>, ProblemError> {
    problem.validate()?;
    let merged = reduced(problem);
    let found = prefixes(&merged, lower_bound(&merged));
    let is_best = found.value == Some(found.lower_bound);
    Ok(Outcome { stop: if is_best { StopReason::BoundReached } else { StopReason::HeuristicsOnly }, ..found })
}

fn prefixes(merged: &Merged<'_>, bound: u64) -> Outcome<Solution> {
    let mut best: Option<Solution> = None;
    for order in orders(merged) {
        let sets = DownSets::prefixes(&order);
        // With an upper bound near the optimum, few pieces are short enough to be visited.
        let mut upper = bound.saturating_add(bound / 4).saturating_add(1);
        loop {
            let known = best.as_ref().map_or(u64::MAX, |best| best.value);
            let mut visits = u64::MAX;
            match divide(merged, &sets, upper.min(known), &mut visits) {
                Answer::Better(solution) => best = Some(solution),
                Answer::None if upper < known => {
                    upper = upper.saturating_mul(2);
                    continue;
                }
                Answer::None | Answer::Unfinished => {}
            }
            break;
        }
    }
    Outcome {
        value: best.as_ref().map(|best| best.value),
        solution: best,
        lower_bound: bound,
        stop: StopReason::HeuristicsOnly,
        effort: 0,
    }
}

/// Nodes that cannot be apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Nodes in increasing order.
    pub nodes: Vec<u32>,
    /// Bytes of a section with these nodes alone.
    pub bytes: u64,
}

/// Returns the pieces of a problem in a topological order: sets of nodes that must share a device, and
/// cycles between them. O((nodes + readers) log nodes).
///
/// # Errors
/// Returns the first rule that the problem breaks.
pub fn pieces(problem: &Problem) -> Result<Vec<Piece>, ProblemError> {
    problem.validate()?;
    let merged = Merged::new(problem, &[]);
    let copies = problem.pipeline.copies(1);
    let of = |group: &super::merged::Group| {
        let read = group.replicas.iter().map(|replica| problem.replicas[*replica as usize].bytes);
        let bytes = group.held_bytes + group.copy_bytes * copies + group.working_bytes + read.sum::<u64>();
        Piece { nodes: group.nodes.clone(), bytes }
    };
    Ok(merged.groups.iter().map(of).collect())
}
