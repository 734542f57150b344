//! The independent checker of orders: rules by position, live ranges as intervals; it shares no code with the solvers.

use std::collections::BTreeMap;

use thiserror::Error;

use super::problem::{OrderError, Problem};

/// Why an answer is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OrderViolation {
    /// The sequence is no order of the operations.
    #[error(transparent)]
    NoOrder(OrderError),
    /// The stated peak is not the order's.
    #[error("the peak is stated as {stated} and is {actual}, at step {step}")]
    WrongPeak {
        /// What the answer states.
        stated: u64,
        /// The highest number of bytes at a step.
        actual: u64,
        /// The first step that has it.
        step: usize,
    },
}

/// Judges an order and its stated peak, for a valid problem. O(n + uses), plus the matching of buffers that take over others.
///
/// # Errors
/// The first rule that is broken.
pub fn check(problem: &Problem, order: &[u32], stated: u64) -> Result<(), OrderViolation> {
    problem.validate().map_err(OrderViolation::NoOrder)?;
    problem.validate_order(order).map_err(OrderViolation::NoOrder)?;
    let mut position = vec![0_usize; order.len()];
    for (step, operation) in order.iter().enumerate() {
        position[*operation as usize] = step;
    }
    let ranges: Vec<Option<(usize, usize)>> = problem.buffers.iter().map(|buffer| live_range(buffer, &position)).collect();
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

/// First and last step at which a buffer lives.
fn live_range(buffer: &super::Buffer, position: &[usize]) -> Option<(usize, usize)> {
    let steps = || buffer.users.iter().map(|user| position[*user as usize]);
    let first = if buffer.live_from_start { Some(0) } else { steps().min() };
    let last = if buffer.kept { Some(position.len().saturating_sub(1)) } else { steps().max() };
    Some((first?, last?))
}

/// For each step the buffers that start at it and may take over others.
fn takers_by_step(problem: &Problem, ranges: &[Option<(usize, usize)>]) -> BTreeMap<usize, Vec<usize>> {
    let mut takers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, buffer) in problem.buffers.iter().enumerate() {
        if let (Some((first, _)), false, false) = (ranges[index], buffer.takes_over.is_empty(), buffer.live_from_start) {
            takers.entry(first).or_default().push(index);
        }
    }
    takers
}

/// The most bytes that buffers which start at `step` can share with buffers that end there.
///
/// Takers in falling size; one that finds all its partners taken asks their owners to move on, over a worklist of those already asked.
fn shared_bytes(problem: &Problem, ranges: &[Option<(usize, usize)>], step: usize, takers: &[usize]) -> u64 {
    let mut takers = takers.to_vec();
    takers.sort_by_key(|taker| std::cmp::Reverse(problem.buffers[*taker].size));
    let dies_here = |other: usize| {
        let lives_before = problem.buffers[other].live_from_start || ranges[other].is_some_and(|range| range.0 < step);
        let used = ranges[other].is_some_and(|range| range.1 == step) && !problem.buffers[other].kept;
        lives_before && used
    };
    let partners =
        |taker: usize| problem.buffers[taker].takes_over.iter().map(|other| *other as usize).filter(|other| dies_here(*other));
    let mut holder: BTreeMap<usize, usize> = BTreeMap::new();
    let mut shared = 0;
    for &taker in &takers {
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
                // Walk back: whoever reached this partner takes it and frees the one it held.
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
