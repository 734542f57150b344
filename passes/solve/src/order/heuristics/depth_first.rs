//! Depth-first orders: each operation runs after its operands, and a visiting rule picks the operand to
//! visit first.
//!
//! For trees, visiting subtrees by falling (peak - result) is the best depth-first order (Sethi and
//! Ullman 1970 for unit sizes; Liu 1986 for any). For graphs the numbers are estimates that count shared
//! parts more than once, and the order is one candidate among many.

use crate::order::model::Model;

/// Sequence in which the operands of an operation are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::order) enum Visit {
    /// Largest difference of the subtree's peak and the bytes that it leaves first.
    PeakMinusRest,
    /// Largest subtree peak first.
    Peak,
    /// In the sequence of the base order.
    First,
    /// Against the base order, also for results. This is the default order of ONNX Runtime (the reverse
    /// depth-first search of its `GraphViewer`, highest index first).
    Last,
    /// Operand with the most bytes first.
    Bytes,
    /// Operand with the fewest bytes first.
    FewBytes,
}

/// All visiting rules.
pub(in crate::order) const VISITS: [Visit; 6] =
    [Visit::PeakMinusRest, Visit::Peak, Visit::First, Visit::Last, Visit::Bytes, Visit::FewBytes];

/// Estimates of each operation's subtree, computed as if the graph were a tree.
#[derive(Clone, Debug)]
pub(in crate::order) struct Estimates {
    peak: Vec<u64>,
    /// Bytes that the operation leaves: the sizes of the buffers that it is the first to use.
    rest: Vec<u64>,
}

impl Estimates {
    /// Computes the estimates along the topological order `base`. O(edges log edges).
    pub fn new(model: &Model, base: &[u32]) -> Self {
        let mut rest = vec![0_u64; model.operations];
        let mut allocated = model.from_start.clone();
        for &operation in base {
            for &buffer in model.uses.of(operation) {
                if !std::mem::replace(&mut allocated[buffer as usize], true) {
                    rest[operation as usize] += model.sizes[buffer as usize];
                }
            }
        }
        let mut peak = vec![0_u64; model.operations];
        for &operation in base {
            let mut operands = model.predecessors.of(operation).to_vec();
            operands.sort_by_key(|before| {
                std::cmp::Reverse(peak[*before as usize].saturating_sub(rest[*before as usize]))
            });
            let (mut held, mut highest) = (0_u64, 0_u64);
            for before in operands {
                highest = highest.max(held.saturating_add(peak[before as usize]));
                held = held.saturating_add(rest[before as usize]);
            }
            let own = held
                .saturating_add(rest[operation as usize])
                .saturating_add(model.scratch[operation as usize]);
            peak[operation as usize] = highest.max(own);
        }
        Self { peak, rest }
    }
}

/// Returns a depth-first order from the operations without successors. `base` is a topological order.
/// O(edges log edges).
pub(in crate::order) fn depth_first(
    model: &Model,
    base: &[u32],
    estimates: &Estimates,
    visit: Visit,
) -> Vec<u32> {
    let mut position = vec![0_u32; model.operations];
    for (place, operation) in base.iter().enumerate() {
        position[*operation as usize] = place as u32;
    }
    // The operand with the smallest key is visited first.
    let key = |operation: u32| -> (i128, u32) {
        let (place, peak, rest) = (
            position[operation as usize],
            i128::from(estimates.peak[operation as usize]),
            i128::from(estimates.rest[operation as usize]),
        );
        match visit {
            Visit::PeakMinusRest => (rest - peak, place),
            Visit::Peak => (-peak, place),
            Visit::First => (0, place),
            Visit::Last => (0, u32::MAX - place),
            Visit::Bytes => (-rest, place),
            Visit::FewBytes => (rest, place),
        }
    };
    let sorted = |operation: u32| {
        // Reversed, because the last operand pushed is visited first.
        let mut operands = model.predecessors.of(operation).to_vec();
        operands.sort_by_key(|before| std::cmp::Reverse(key(*before)));
        operands
    };
    let mut order = Vec::with_capacity(model.operations);
    let mut seen = vec![false; model.operations];
    // Visit from each result; an entry comes back from the stack after its operands.
    let mut stack: Vec<(u32, bool)> = Vec::new();
    let mut sinks: Vec<u32> =
        base.iter().copied().filter(|operation| model.successors.of(*operation).is_empty()).collect();
    if visit == Visit::Last {
        sinks.reverse();
    }
    for sink in sinks {
        stack.push((sink, false));
        while let Some((operation, operands_done)) = stack.pop() {
            if operands_done {
                order.push(operation);
            } else if !std::mem::replace(&mut seen[operation as usize], true) {
                stack.push((operation, true));
                stack.extend(
                    sorted(operation)
                        .into_iter()
                        .filter(|before| !seen[*before as usize])
                        .map(|before| (before, false)),
                );
            }
        }
    }
    order
}
