//! Reductions: groups without cost of their own join a neighbor where no partition gains by keeping them
//! apart.

use super::merged::Merged;
use super::problem::{Objective, Problem};

/// Merges a problem, and groups without cost with a neighbor, until nothing changes. Some optimal
/// partition of the problem keeps each group together. O(rounds · (nodes + readers) log nodes).
pub(super) fn reduced(problem: &Problem) -> Merged<'_> {
    let matters = bytes_matter(problem);
    let mut tied: Vec<Vec<u32>> = Vec::new();
    loop {
        let merged = Merged::new(problem, &tied);
        let more = ties(&merged, matters);
        if more.is_empty() {
            return merged;
        }
        tied.extend(more);
    }
}

/// Whether bytes decide: they are minimized, or all of them together exceed a capacity.
fn bytes_matter(problem: &Problem) -> bool {
    let least = problem.devices.iter().filter_map(|device| device.capacity).min();
    let copies = problem.pipeline.copies(problem.devices.len() as u64);
    let nodes =
        problem.nodes.iter().map(|node| node.held_bytes + node.copy_bytes * copies + node.working_bytes);
    let all = nodes.chain(problem.replicas.iter().map(|replica| replica.bytes)).fold(0, u64::saturating_add);
    problem.objective == Objective::Bytes || least.is_some_and(|least| all > least)
}

/// Pairs of nodes of groups to merge; each group is in one pair at most.
fn ties(merged: &Merged<'_>, bytes_matter: bool) -> Vec<Vec<u32>> {
    let mut is_taken = vec![false; merged.groups.len()];
    let mut found = Vec::new();
    for group in 0..merged.groups.len() as u32 {
        if is_taken[group as usize] || !is_free(merged, group, bytes_matter) {
            continue;
        }
        let (before, after) = (merged.predecessors.of(group), merged.successors.of(group));
        let only = [after, before].into_iter().filter(|list| list.len() == 1).map(|list| list[0]);
        let Some(neighbor) =
            only.filter(|other| !is_taken[*other as usize]).find(|other| joins(merged, group, *other))
        else {
            continue;
        };
        is_taken[group as usize] = true;
        is_taken[neighbor as usize] = true;
        found.push(vec![merged.groups[group as usize].nodes[0], merged.groups[neighbor as usize].nodes[0]]);
    }
    found
}

/// Whether a group costs nothing on any device, apart from transfers.
fn is_free(merged: &Merged<'_>, group: u32, bytes_matter: bool) -> bool {
    let item = &merged.groups[group as usize];
    let holds = item.held_bytes + item.copy_bytes + item.working_bytes > 0;
    item.times.iter().all(|time| *time == Some(0)) && item.replicas.is_empty() && !(bytes_matter && holds)
}

/// Whether a group without cost, whose only forward predecessor or only forward successor is `neighbor`,
/// may join it.
///
/// Wherever the group is, its values that touch the neighbor cross in every partition that keeps the two
/// apart. If the neighbor alone shares these, the group's section and the neighbor's section pay them,
/// and together with the neighbor they pay the group's other values instead.
fn joins(merged: &Merged<'_>, group: u32, neighbor: u32) -> bool {
    let item = &merged.groups[group as usize];
    let (mut shared, mut others) = ((0_u64, 0_u64), (0_u64, 0_u64));
    let mut is_exclusive = true;
    for &value in item.makes.iter().chain(&item.reads) {
        let ends = merged.ends(value);
        let touches_others = ends.iter().any(|end| *end != group && *end != neighbor);
        let amount = merged.problem.values[value as usize].amount;
        if ends.contains(&neighbor) {
            is_exclusive &= !touches_others;
            shared = (shared.0 + amount, shared.1 + 1);
        } else {
            others = (others.0 + amount, others.1 + 1);
        }
    }
    // Its own values must not reach others where the values of the neighbor may.
    let reaches_others = item
        .makes
        .iter()
        .any(|value| merged.ends(*value).iter().any(|end| *end != group && *end != neighbor));
    others == (0, 0) && !reaches_others || is_exclusive && others.0 <= shared.0 && others.1 <= shared.1
}
