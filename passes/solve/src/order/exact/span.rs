//! A span: a stretch of an order as a problem of its own. Operations outside it stay in place,
//! operations inside may be reordered.
//!
//! A buffer that lives across a border of the span lives from the start or is kept to the end. Buffers
//! that live across the whole span unused become one constant buffer.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::order::model::Model;
use crate::order::problem::{Buffer, Operation, Problem};

/// A span: its problem, and the original operation of each of its operations.
pub(in crate::order) struct Span {
    pub problem: Problem,
    pub operations: Vec<u32>,
}

impl Span {
    /// Builds the span of `order[range]`. `position` is the position of each operation in `order`. O(all
    /// buffers + uses in the span).
    pub fn new(model: &Model, order: &[u32], position: &[u32], range: Range<usize>) -> Self {
        let operations = order[range.clone()].to_vec();
        let inside = |operation: u32| range.contains(&(position[operation as usize] as usize));
        let local = |operation: u32| position[operation as usize] - range.start as u32;
        let mut problem = Problem::default();
        for &operation in &operations {
            let predecessors = model
                .predecessors
                .of(operation)
                .iter()
                .copied()
                .filter(|before| inside(*before))
                .map(local)
                .collect();
            problem.operations.push(Operation { predecessors, scratch: model.scratch[operation as usize] });
        }
        let used: Vec<u32> =
            operations.iter().flat_map(|operation| model.uses.of(*operation)).copied().collect();
        let mut index: BTreeMap<u32, u32> = BTreeMap::new();
        for buffer in used {
            let next = index.len() as u32;
            if *index.entry(buffer).or_insert(next) != next {
                continue;
            }
            let users = model.users.of(buffer);
            let before = users.iter().any(|user| (position[*user as usize] as usize) < range.start);
            let after = users.iter().any(|user| position[*user as usize] as usize >= range.end);
            problem.buffers.push(Buffer {
                size: model.sizes[buffer as usize],
                users: users.iter().copied().filter(|user| inside(*user)).map(local).collect(),
                live_from_start: model.from_start[buffer as usize] || before,
                kept: model.kept[buffer as usize] || after,
                takes_over: Vec::new(),
            });
        }
        for (&buffer, &place) in &index {
            let taken = model.takes_over.of(buffer).iter().filter_map(|other| index.get(other).copied());
            problem.buffers[place as usize].takes_over = taken.collect();
        }
        let constant = constant_bytes(model, position, &range, |buffer| index.contains_key(&buffer));
        problem.buffers.push(Buffer {
            size: constant,
            live_from_start: true,
            kept: true,
            ..Buffer::default()
        });
        Self { problem, operations }
    }

    /// Returns a canonical form: equal spans (repeated layers) have equal keys.
    pub fn key(&self) -> Vec<u64> {
        let mut key = Vec::new();
        for operation in &self.problem.operations {
            key.push(operation.scratch);
            key.push(operation.predecessors.len() as u64);
            key.extend(operation.predecessors.iter().map(|before| u64::from(*before)));
        }
        for buffer in &self.problem.buffers {
            key.extend([
                buffer.size,
                u64::from(buffer.live_from_start),
                u64::from(buffer.kept),
                buffer.users.len() as u64,
                buffer.takes_over.len() as u64,
            ]);
            key.extend(buffer.users.iter().chain(&buffer.takes_over).map(|entry| u64::from(*entry)));
        }
        key
    }
}

/// Returns the bytes of buffers that live across the whole span and are not used in it.
fn constant_bytes(
    model: &Model,
    position: &[u32],
    range: &Range<usize>,
    is_used: impl Fn(u32) -> bool,
) -> u64 {
    let lives_across = |buffer: &u32| {
        let places = || model.users.of(*buffer).iter().map(|user| position[*user as usize] as usize);
        let starts = model.from_start[*buffer as usize] || places().any(|place| place < range.start);
        let goes_on = model.kept[*buffer as usize] || places().any(|place| place >= range.end);
        starts && goes_on && !is_used(*buffer)
    };
    (0..model.sizes.len() as u32).filter(lives_across).map(|buffer| model.sizes[buffer as usize]).sum()
}

/// Splits an order at its cuts. A cut is an operation that every other operation must precede or follow,
/// so every order passes one common state there.
///
/// An operation at position `p` of a topological order is a cut if every earlier operation has its first
/// successor at or before `p`, and every later operation has its last predecessor at or after `p`. O(n +
/// edges).
pub(in crate::order) fn segments(model: &Model, order: &[u32], position: &[u32]) -> Vec<Range<usize>> {
    let count = order.len();
    let place = |operation: &u32| position[*operation as usize] as usize;
    // `reach`: the latest position at which an operation so far gets its first successor.
    let mut cut = vec![true; count];
    let mut reach = 0;
    for (here, operation) in order.iter().enumerate() {
        cut[here] &= reach <= here;
        reach = reach.max(model.successors.of(*operation).iter().map(place).min().unwrap_or(usize::MAX));
    }
    // The mirrored condition, backward. An operation without predecessors is comparable to none of the
    // operations before it.
    let mut reach = usize::MAX;
    for (here, operation) in order.iter().enumerate().rev() {
        cut[here] &= reach > here;
        reach = reach
            .min(model.predecessors.of(*operation).iter().map(|before| place(before) + 1).max().unwrap_or(0));
    }
    let mut result = Vec::new();
    let mut start = 0;
    for (here, is_cut) in cut.into_iter().enumerate() {
        if is_cut || here + 1 == count {
            result.push(start..here + 1);
            start = here + 1;
        }
    }
    result
}
