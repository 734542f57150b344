//! The independent checker of orders. It applies the rules to positions, treats live ranges as
//! intervals, and shares no code with the solvers.

use std::collections::BTreeMap;

use thiserror::Error;

use super::problem::{OrderError, Problem};

/// Reason why an answer is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OrderViolation {
    /// The sequence is not an order of the operations.
    #[error(transparent)]
    NoOrder(OrderError),
    /// The stated peak differs from the peak of the order.
    #[error("the stated peak is {stated}, the actual peak is {actual}, at step {step}")]
    WrongPeak {
        /// Peak stated in the answer, in bytes.
        stated: u64,
        /// Highest number of bytes at a step of the order.
        actual: u64,
        /// First step that reaches the actual peak.
        step: usize,
    },
}

/// Checks an order and its stated peak. O(n + uses), plus a matching of buffers that take over others.
///
/// # Errors
/// Returns the first rule that is broken.
pub fn check(problem: &Problem, order: &[u32], stated: u64) -> Result<(), OrderViolation> {
    problem.validate().map_err(OrderViolation::NoOrder)?;
    problem.validate_order(order).map_err(OrderViolation::NoOrder)?;
    let mut position = vec![0_usize; order.len()];
    for (step, operation) in order.iter().enumerate() {
        position[*operation as usize] = step;
    }
    let ranges: Vec<Option<(usize, usize)>> =
        problem.buffers.iter().map(|buffer| live_range(buffer, &position)).collect();
    let mut starts = vec![0_u64; order.len() + 1];
    let mut ends = vec![0_u64; order.len() + 1];
    for (buffer, (first, last)) in
        problem.buffers.iter().zip(&ranges).filter_map(|(buffer, range)| range.map(|range| (buffer, range)))
    {
        starts[first] += buffer.size;
        ends[last] += buffer.size;
    }
    let (mut live, mut actual, mut worst) = (0, 0, 0);
    let takers = takers_by_step(problem, &ranges);
    for (step, operation) in order.iter().enumerate() {
        live += starts[step];
        let shared = takers.get(&step).map_or(0, |takers| shared_bytes(problem, &ranges, step, takers));
        let bytes = live + problem.operations[*operation as usize].scratch - shared;
        if bytes > actual {
            (actual, worst) = (bytes, step);
        }
        live -= ends[step];
    }
    if actual == stated { Ok(()) } else { Err(OrderViolation::WrongPeak { stated, actual, step: worst }) }
}

/// Returns the first and last step at which a buffer lives, or `None` if it never lives.
fn live_range(buffer: &super::Buffer, position: &[usize]) -> Option<(usize, usize)> {
    let steps = || buffer.users.iter().map(|user| position[*user as usize]);
    let first = if buffer.live_from_start { Some(0) } else { steps().min() };
    let last = if buffer.kept { Some(position.len().saturating_sub(1)) } else { steps().max() };
    Some((first?, last?))
}

/// Returns, for each step, the buffers that start there and may take over others.
fn takers_by_step(problem: &Problem, ranges: &[Option<(usize, usize)>]) -> BTreeMap<usize, Vec<usize>> {
    let mut takers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, buffer) in problem.buffers.iter().enumerate() {
        if let (Some((first, _)), false, false) =
            (ranges[index], buffer.takes_over.is_empty(), buffer.live_from_start)
        {
            takers.entry(first).or_default().push(index);
        }
    }
    takers
}

/// Returns the most bytes that buffers starting at `step` can share with buffers that end there.
///
/// Takers are matched from the largest to the smallest. If all partners of a taker are taken, their
/// owners are asked to take another partner. A worklist holds the owners still to ask; a partner is
/// examined once.
fn shared_bytes(problem: &Problem, ranges: &[Option<(usize, usize)>], step: usize, takers: &[usize]) -> u64 {
    let mut takers = takers.to_vec();
    takers.sort_by_key(|taker| std::cmp::Reverse(problem.buffers[*taker].size));
    let dies_here = |other: usize| {
        let lives_before =
            problem.buffers[other].live_from_start || ranges[other].is_some_and(|range| range.0 < step);
        let used = ranges[other].is_some_and(|range| range.1 == step) && !problem.buffers[other].kept;
        lives_before && used
    };
    let partners = |taker: usize| {
        problem.buffers[taker]
            .takes_over
            .iter()
            .map(|other| *other as usize)
            .filter(|other| dies_here(*other))
    };
    let mut holder: BTreeMap<usize, usize> = BTreeMap::new();
    let mut shared = 0;
    for &taker in &takers {
        // Search for a partner that no taker holds.
        let mut trail: Vec<(usize, usize)> = Vec::new();
        let mut asking = vec![taker];
        let mut asked: Vec<usize> = Vec::new();
        while let Some(who) = asking.pop() {
            let mut open = None;
            for partner in partners(who) {
                if asked.contains(&partner) {
                    continue;
                }
                asked.push(partner);
                trail.push((partner, who));
                match holder.get(&partner) {
                    None => open = Some(partner),
                    Some(other) => asking.push(*other),
                }
                if open.is_some() {
                    break;
                }
            }
            if let Some(mut partner) = open {
                // Walk back along the trail: each owner takes the partner it reached and gives up its
                // previous one.
                shared += problem.buffers[taker].size;
                while let Some((_, who)) = trail.iter().find(|(reached, _)| *reached == partner).copied() {
                    let held = holder.iter().find(|(_, owner)| **owner == who).map(|(held, _)| *held);
                    holder.insert(partner, who);
                    match held {
                        Some(held) if who != taker => partner = held,
                        _ => break,
                    }
                }
                break;
            }
        }
    }
    shared
}
