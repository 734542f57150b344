//! Orders of groups, whose prefixes the dynamic program divides where the down-sets are too many.

use super::merged::Merged;

/// Returns topological orders of the groups without repeats: the given one, and depth-first ones that
/// finish one branch before the next. O(groups + arcs).
pub(super) fn orders(merged: &Merged<'_>) -> Vec<Vec<u32>> {
    let mut found: Vec<Vec<u32>> = vec![(0..merged.groups.len() as u32).collect()];
    for order in [depth_first(merged, false), depth_first(merged, true), by_readers(merged)] {
        if !found.contains(&order) {
            found.push(order);
        }
    }
    found
}

/// Continues with a successor of the last group as long as one is ready; the first one, or the last one.
fn depth_first(merged: &Merged<'_>, takes_last: bool) -> Vec<u32> {
    let count = merged.groups.len() as u32;
    let mut waits: Vec<usize> = (0..count).map(|group| merged.predecessors.of(group).len()).collect();
    let arranged = |mut groups: Vec<u32>| {
        if !takes_last {
            groups.reverse();
        }
        groups
    };
    let mut ready = arranged((0..count).filter(|group| waits[*group as usize] == 0).collect());
    let mut order = Vec::with_capacity(count as usize);
    while let Some(group) = ready.pop() {
        order.push(group);
        let mut more = Vec::new();
        for &next in merged.successors.of(group) {
            waits[next as usize] -= 1;
            if waits[next as usize] == 0 {
                more.push(next);
            }
        }
        ready.extend(arranged(more));
    }
    order
}

/// Visits the operands of a group just before it: each branch comes as late as its reader permits.
fn by_readers(merged: &Merged<'_>) -> Vec<u32> {
    let count = merged.groups.len() as u32;
    let mut is_seen = vec![false; count as usize];
    let mut order = Vec::with_capacity(count as usize);
    for root in (0..count).filter(|group| merged.successors.of(*group).is_empty()) {
        let mut path = vec![(root, 0_usize)];
        while let Some((group, next)) = path.last_mut() {
            is_seen[*group as usize] = true;
            match merged.predecessors.of(*group).get(*next) {
                Some(&before) => {
                    *next += 1;
                    if !is_seen[before as usize] {
                        path.push((before, 0));
                    }
                }
                None => {
                    order.push(*group);
                    path.pop();
                }
            }
        }
    }
    order
}
