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
    let after = (0..count as u32)
        .flat_map(|operation| predecessors(operation).iter().map(move |before| (*before, operation)));
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use petgraph::algo::is_cyclic_directed;
    use petgraph::graph::DiGraph;

    use super::topological;
    use crate::basics::random::Random;

    #[test]
    fn the_ready_operation_of_the_smallest_rank_runs_next() {
        let (mut random, mut cyclic) = (Random::new(5), 0);
        for _ in 0..300 {
            let mut predecessors: Vec<Vec<u32>> = vec![Vec::new(); 12];
            for _ in 0..14 {
                // Few arcs lead back.
                let (one, other) = (random.below(12), random.below(12));
                let is_back = random.below(30) == 0;
                let (before, after) = if (one < other) != is_back { (one, other) } else { (other, one) };
                if one != other {
                    predecessors[after as usize].push(before);
                }
            }
            let ranks: Vec<u32> = (0..12).map(|_| random.below(5)).collect();
            let found = topological(
                12,
                |operation| &predecessors[operation as usize],
                |operation| ranks[operation as usize],
            );
            let arcs = (0_u32..)
                .zip(&predecessors)
                .flat_map(|(after, list)| list.iter().map(move |before| (*before, after)));
            if is_cyclic_directed(&DiGraph::<(), ()>::from_edges(arcs)) {
                cyclic += 1;
                assert!(found.is_err());
                continue;
            }
            let mut expected: Vec<u32> = Vec::new();
            for _ in 0..12 {
                let is_ready = |operation: &u32| {
                    !expected.contains(operation)
                        && predecessors[*operation as usize].iter().all(|before| expected.contains(before))
                };
                expected.push(
                    (0..12).filter(is_ready).min_by_key(|operation| ranks[*operation as usize]).unwrap(),
                );
            }
            assert_eq!(found, Ok(expected));
        }
        assert!(cyclic > 20 && cyclic < 200, "{cyclic}");
    }
}
