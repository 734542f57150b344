//! Topological orders with a fixed choice among the operations that are ready.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::lists::Lists;

/// Returns the topological order that always runs the ready operation with the smallest rank, and the
/// smallest index among equal ranks. O((count + edges) log count).
///
/// # Errors
/// Returns the first operation that is on a cycle or behind one.
pub(crate) fn topological<'a>(
    count: usize,
    predecessors: impl Fn(u32) -> &'a [u32],
    rank: impl Fn(u32) -> u32,
) -> Result<Vec<u32>, u32> {
    let mut waits: Vec<usize> = (0..count as u32).map(|operation| predecessors(operation).len()).collect();
    let after = (0..count as u32).flat_map(|operation| predecessors(operation).iter().map(move |before| (*before, operation)));
    let successors = Lists::with_duplicates(count, &after.collect::<Vec<(u32, u32)>>());
    let is_ready = |operation: &u32| waits[*operation as usize] == 0;
    let mut ready: BinaryHeap<Reverse<(u32, u32)>> =
        (0..count as u32).filter(is_ready).map(|operation| Reverse((rank(operation), operation))).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(Reverse((_, operation))) = ready.pop() {
        order.push(operation);
        for &next in successors.of(operation) {
            waits[next as usize] -= 1;
            if waits[next as usize] == 0 {
                ready.push(Reverse((rank(next), next)));
            }
        }
    }
    match waits.iter().position(|left| *left > 0) {
        Some(operation) => Err(operation as u32),
        None => Ok(order),
    }
}
