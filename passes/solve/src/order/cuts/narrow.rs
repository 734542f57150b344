//! Narrowing: adds the pairs of operations that a requested peak forces, found by minimum cuts, until no
//! further pair follows.
//!
//! The pairs become predecessors. They hold in every order with the peak, so the search loses no valid
//! order. They end the search sooner, make segments, and guide the heuristics. A cycle of pairs, or an
//! operation without any cut within the peak, proves that no order has the peak.

use super::closure::{Forced, forced_at};
use super::witness::Witnesses;
use crate::basics::topological::topological;
use crate::order::model::{Model, positions};
use crate::order::problem::Problem;

/// Result of narrowing a problem to a requested peak.
pub(in crate::order) enum Narrowed {
    /// No order keeps the peak, nor any peak below this one, in bytes.
    Impossible(u64),
    /// The narrowed problem.
    Problem {
        /// The problem with the forced pairs as predecessors.
        problem: Problem,
        /// An order of that problem.
        order: Vec<u32>,
        /// Lowest peak that would force fewer pairs, in bytes.
        refused: u64,
        /// Whether no further pair follows; otherwise the looks ran out.
        complete: bool,
    },
}

/// Adds the predecessors that the peak `bound` forces. `order` is a good order and `steps` are its
/// bytes. Stops early if `looks` run out.
pub(in crate::order) fn narrow(
    problem: &Problem,
    order: &[u32],
    steps: &[u64],
    bound: u64,
    witnesses: &mut Witnesses,
    looks: &mut u64,
) -> Narrowed {
    // Ask at the operations of the highest steps first.
    let mut problem = problem.clone();
    let mut sequence: Vec<usize> = (0..order.len()).collect();
    sequence.sort_by_key(|place| (std::cmp::Reverse(steps[*place]), *place));
    let position = positions(order);
    let mut model = Model::new(&problem);
    let (mut refused, mut base, mut place_in_base) = (u64::MAX, order.to_vec(), position.clone());
    // Consecutive operations that forced no new pair.
    let mut idle = 0;
    for place in sequence.iter().cycle() {
        if idle == sequence.len() {
            break;
        }
        let Some(forced) = forced_at(&model, order[*place], bound, witnesses, looks) else { break };
        idle += 1;
        match forced {
            Forced::Impossible(value) => return Narrowed::Impossible(refused.min(value)),
            Forced::Pairs(pairs, value) if !pairs.is_empty() => {
                refused = refused.min(value);
                idle = 0;
                for &(before, after) in &pairs {
                    problem.operations[after as usize].predecessors.push(before);
                    witnesses.demand(before, after);
                }
                // The order closest to `order` remains valid unless it breaks a new pair.
                if pairs
                    .iter()
                    .any(|(before, after)| place_in_base[*before as usize] > place_in_base[*after as usize])
                {
                    match sorted(&problem, &position) {
                        Some(sorted) => base = sorted,
                        None => return Narrowed::Impossible(refused),
                    }
                    place_in_base = positions(&base);
                }
                model.follow(&problem);
            }
            Forced::Pairs(..) => {}
        }
    }
    Narrowed::Problem { problem, order: base, refused, complete: idle == sequence.len() }
}

/// Returns the topological order that always runs the ready operation with the smallest `position`;
/// `None` if there is a cycle.
pub(in crate::order) fn sorted(problem: &Problem, position: &[u32]) -> Option<Vec<u32>> {
    let before = |operation: u32| problem.operations[operation as usize].predecessors.as_slice();
    topological(problem.operations.len(), before, |operation| position[operation as usize]).ok()
}
