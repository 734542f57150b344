//! The stages of a placement: rules, cores and skeletons, exact search and repair. All of them run for
//! the large buffers first.

use super::bound;
use super::exact::{self, Known};
use super::heuristics::first_fit::first_fit;
use super::heuristics::orders::{RULES, loads_met, order};
use super::heuristics::portfolio::{Budget, best_of_rules, fixed_items_collide, keep_lower, solution};
use super::large::aside::large_items;
use super::large::core::{around, around_core, buffers_of};
use super::large::skeleton::around_skeleton;
use super::normal::Normal;
use super::planar::pack;
use super::problem::{Problem, ProblemError, Solution};
use super::repair::neighbors::Neighbors;
use super::repair::{reach, repair, repairable};
use crate::tuning::PlaceTuning;
use crate::{Limit, Outcome, StopReason};

/// Places all buffers as low as the limit allows. With a capacity, searches for any placement that keeps
/// it.
///
/// The height of the answer is the exact highest offset + size. O(n log n + conflicts) for the
/// heuristics, memory linear in the buffers; `limit` bounds the exact search.
///
/// # Errors
/// Fails if the problem is invalid, see [`Problem::validate`].
pub fn solve(problem: &Problem, limit: &Limit) -> Result<Outcome<Solution>, ProblemError> {
    problem.validate()?;
    let normal = Normal::new(problem);
    let lower_bound = bound::lower_bound(problem, &normal);
    let over_capacity = problem.capacity.is_some_and(|capacity| capacity < lower_bound);
    if over_capacity || fixed_items_collide(&normal) {
        return Ok(Outcome {
            solution: None,
            value: None,
            lower_bound,
            stop: StopReason::Exhausted,
            effort: 0,
        });
    }
    let known = large_first(problem, &normal, lower_bound, limit.nodes, &limit.tuning.place);
    let value = known.best.as_ref().map(|best| best.height);
    let stop = match value {
        Some(value) if value <= lower_bound => StopReason::BoundReached,
        Some(value) if value <= known.lower_bound => StopReason::Exhausted,
        _ => known.stop,
    };
    Ok(Outcome { solution: known.best, value, lower_bound: known.lower_bound, stop, effort: known.nodes })
}

/// Runs all stages for the large buffers and places the small ones around them. If that is not enough,
/// runs all stages for all buffers.
fn large_first(
    problem: &Problem,
    normal: &Normal,
    lower_bound: u64,
    nodes: u64,
    tuning: &PlaceTuning,
) -> Known {
    let target = problem.capacity.unwrap_or(lower_bound);
    let mut budget = Budget::new(normal, tuning);
    let mut best = first_placement(problem, normal, target, tuning, &mut budget);
    let members = if best.height > target && !normal.has_fixed && normal.items.len() < tuning.large {
        large_items(normal, lower_bound, tuning)
    } else {
        None
    };
    let Some(members) = members else {
        return all_stages(problem, normal, lower_bound, nodes, best, tuning, &mut budget);
    };
    // Place the large buffers alone, then the small ones around them.
    let large = buffers_of(problem, normal, &members, problem.capacity);
    let (part, own_nodes) = (Normal::new(&large), nodes - tuning.lesser.of(nodes));
    let mut own_budget = Budget::new(&part, tuning);
    let start = first_placement(&large, &part, target, tuning, &mut own_budget);
    let placed = all_stages(
        &large,
        &part,
        bound::lower_bound(&large, &part),
        own_nodes,
        start,
        tuning,
        &mut own_budget,
    );
    if let Some(placed) = &placed.best {
        let items = order(normal, RULES[0], &loads_met(normal));
        keep_lower(
            problem,
            normal,
            around(normal, &members, &placed.offsets, &items, &mut budget.left),
            &mut best,
        );
    } else if placed.stop == StopReason::Exhausted {
        return placed;
    }
    // A lower bound of some buffers holds for all.
    let lower_bound = lower_bound.max(placed.lower_bound);
    let rest = nodes - own_nodes;
    let known = all_stages(problem, normal, lower_bound, rest, best, tuning, &mut budget);
    Known { nodes: known.nodes + placed.nodes, ..known }
}

/// Returns a placement by first fit in order of size, or around the skeleton of a very large problem.
fn first_placement(
    problem: &Problem,
    normal: &Normal,
    target: u64,
    tuning: &PlaceTuning,
    budget: &mut Budget,
) -> Solution {
    let has_skeleton = normal.items.len() >= tuning.large && normal.is_plain();
    let around =
        if has_skeleton { around_skeleton(problem, normal, target, tuning, &mut budget.left) } else { None };
    let by_size = |budget: &mut Budget| {
        let items = order(normal, RULES[0], &loads_met(normal));
        first_fit(normal, &items, &mut budget.left).offsets
    };
    let offsets = around.unwrap_or_else(|| by_size(budget));
    solution(problem, normal, &offsets)
}

/// Runs all stages, starting from a first placement.
fn all_stages(
    problem: &Problem,
    normal: &Normal,
    lower_bound: u64,
    nodes: u64,
    first: Solution,
    tuning: &PlaceTuning,
    budget: &mut Budget,
) -> Known {
    let target = problem.capacity.unwrap_or(lower_bound);
    let mut best = first;
    let (count, all_nodes) = (normal.items.len(), nodes);
    // Rules for small problems, cores for large ones.
    if count < tuning.small || normal.has_fixed {
        keep_best_of_rules(problem, normal, target, &mut best, budget);
    }
    let neighbors = normal.is_plain().then(|| Neighbors::new(normal));
    let are_listed = neighbors.as_ref().is_some_and(Neighbors::are_listed);
    if best.height > target
        && (tuning.small..tuning.large).contains(&count)
        && !normal.has_fixed
        && !are_listed
    {
        let items = order(normal, RULES[0], &loads_met(normal));
        for offsets in around_core(problem, normal, &items, target, tuning, &mut budget.left) {
            keep_lower(problem, normal, Some(offsets), &mut best);
        }
    }
    // Repair before the exact search if neighbors are listed and the problem is not small.
    let prefers_repair = are_listed && count > tuning.small / 2 && problem.capacity.is_none();
    let looks_per_node =
        tuning.looks_per_node.saturating_mul(if prefers_repair { tuning.more_looks.max(1) } else { 1 });
    let looks = budget.left.saturating_add(nodes.saturating_mul(looks_per_node));
    let mut repaired = Repair { problem, normal, neighbors: neighbors.as_ref(), target, looks };
    if prefers_repair {
        repaired.lower(&mut best);
    }
    // Search exactly, with fewer nodes after a repair and close to the bound.
    let nodes = if prefers_repair { tuning.lesser.of(nodes) } else { nodes };
    let is_close = best.height - lower_bound.min(best.height) < bound::granule(normal);
    let nodes = if is_close && problem.capacity.is_none() { tuning.minority.of(nodes) } else { nodes };
    let mut known = Known { best: None, lower_bound, stop: StopReason::HeuristicsOnly, nodes: 0 };
    // In a tight problem this is faster than the exact search, or useless.
    let comes_first = target == lower_bound;
    let reductions = nodes.saturating_mul(tuning.reductions_per_node);
    if comes_first {
        keep_packed(problem, normal, target, target, tuning, reductions, &mut best);
    }
    if best.height > target && nodes > 0 {
        let kept = problem.capacity.is_none_or(|capacity| best.height <= capacity);
        known.best = kept.then(|| best.clone());
        known = exact::improve(problem, normal, known, tuning, nodes);
        best = known.best.take().unwrap_or(best);
    }
    // Spend the remaining effort on packings, repair and rules.
    if known.stop != StopReason::Exhausted {
        if !comes_first || known.lower_bound > lower_bound {
            keep_packed(problem, normal, known.lower_bound, target, tuning, reductions / 3, &mut best);
        }
        if !prefers_repair {
            repaired.lower(&mut best);
        }
        budget.left = budget.left.min(repaired.looks);
        if count >= tuning.small {
            keep_best_of_rules(problem, normal, target, &mut best, budget);
        }
        // Without nodes, only a quick answer is asked for.
        if best.height > target && all_nodes > 0 && !normal.is_plain() && repairable(normal) {
            let neighbors = Neighbors::new(normal);
            let more =
                if neighbors.are_listed() && count > tuning.small / 2 { tuning.more_looks.max(1) } else { 1 };
            // Nodes that the exact search did not take count twice: it takes no windows and no large problem.
            let nodes = all_nodes.saturating_add(all_nodes.saturating_sub(known.nodes));
            let for_nodes = nodes.saturating_mul(tuning.looks_per_node).saturating_mul(more);
            let looks = budget.left.saturating_add(for_nodes);
            Repair { problem, normal, neighbors: Some(&neighbors), target, looks }.lower(&mut best);
        }
    }
    let reached = best.height <= target;
    known.stop =
        if reached && known.stop != StopReason::Exhausted { StopReason::TargetReached } else { known.stop };
    let kept = problem.capacity.is_none_or(|capacity| best.height <= capacity);
    Known { best: kept.then_some(best), ..known }
}

/// Keeps a packing of height `height`, if one is found and the best placement is above the target.
fn keep_packed(
    problem: &Problem,
    normal: &Normal,
    height: u64,
    target: u64,
    tuning: &PlaceTuning,
    mut reductions: u64,
    best: &mut Solution,
) {
    if best.height > target && normal.is_plain() {
        keep_lower(problem, normal, pack(problem, normal, height, tuning, &mut reductions), best);
    }
}

fn keep_best_of_rules(
    problem: &Problem,
    normal: &Normal,
    target: u64,
    best: &mut Solution,
    budget: &mut Budget,
) {
    if best.height > target && budget.left > 0 {
        let next = best_of_rules(problem, normal, target, budget);
        if next.height < best.height {
            *best = next;
        }
    }
}

/// Repair with the remaining looks.
struct Repair<'a> {
    problem: &'a Problem,
    normal: &'a Normal,
    neighbors: Option<&'a Neighbors>,
    target: u64,
    looks: u64,
}

impl Repair<'_> {
    fn lower(&mut self, best: &mut Solution) {
        let Some(neighbors) = self.neighbors.filter(|_| best.height > self.target && self.looks > 0) else {
            return;
        };
        let offsets: Vec<u64> =
            self.normal.items.iter().map(|item| best.offsets[item.buffer as usize]).collect();
        // Only a placement within the capacity is an answer.
        let is_limit = self.problem.capacity.is_some() && !self.normal.is_plain();
        let lower = if is_limit { reach } else { repair }(
            self.normal,
            neighbors,
            &offsets,
            self.target,
            &mut self.looks,
        );
        keep_lower(self.problem, self.normal, Some(lower), best);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::super::check;
    use super::super::problem::Buffer;
    use super::*;
    use crate::Status;
    use crate::basics::random::Xorshift;

    /// Generates buffers like those of a training run under a budget: each buffer fits under the budget
    /// at its steps. A few have a quarter of the budget, many have sizes that double, and some are
    /// small.
    fn training_run(steps: usize) -> Problem {
        let mut random = Xorshift::new();
        let (budget, mut load, mut buffers) = (256_u64 << 20, vec![0_u64; steps], Vec::new());
        for start in 0..steps {
            for turn in 0..12 {
                let (kind, long) = (random.below(60), random.below(5) == 0);
                let life = 1 + random.below(if long { steps as u64 / 2 } else { 12 }) as usize;
                let (size, life) =
                    if kind == 0 { (64 << 20, life.min(24)) } else { ((1 << 20) << random.below(4), life) };
                let end = (start + life).min(steps);
                if load[start..end].iter().all(|load| load + size <= budget) {
                    load[start..end].iter_mut().for_each(|load| *load += size);
                    buffers.push((start, end, size));
                }
                if turn < 2 {
                    buffers.push((start, end, 512));
                }
            }
        }
        let buffer = |(start, end, size): (usize, usize, u64)| Buffer {
            alignment: 64,
            ..Buffer::new(start as u32, end as u32, size)
        };
        Problem { buffers: buffers.into_iter().map(buffer).collect(), capacity: None }
    }

    #[test]
    fn training_runs_are_placed_closer_to_their_load_than_by_rules() {
        for steps in [100, 200, 400] {
            let problem = training_run(steps);
            let normal = Normal::new(&problem);
            let bound = bound::lower_bound(&problem, &normal);
            let large = large_items(&normal, bound, &PlaceTuning::DEFAULT);
            let by_rules =
                best_of_rules(&problem, &normal, bound, &mut Budget::new(&normal, &PlaceTuning::DEFAULT))
                    .height;
            let outcome = solve(&problem, &Limit::nodes(500)).unwrap();
            let placed = outcome.solution.unwrap();
            assert_eq!(check(&problem, &placed), Ok(()));
            assert!(large.is_some_and(|large| large.len() * 5 < normal.items.len() * 4));
            assert!(
                (placed.height - bound) * 5 < (by_rules - bound) * 4,
                "{} and {by_rules} for {bound}",
                placed.height
            );
        }
    }

    #[test]
    fn small_buffers_do_not_change_feasibility() {
        let (mut random, mut impossible) = (Xorshift::new(), 0);
        for _ in 0..600 {
            // Buffers that keep a load of eight.
            let (mut loads, mut buffers) = ([0_u64; 12], Vec::new());
            for _ in 0..200 {
                let (start, size) = (random.below(12) as usize, 1 + random.below(4));
                let end = (start + 1 + random.below(6) as usize).min(12);
                if loads[start..end].iter().all(|load| load + size <= 8) {
                    loads[start..end].iter_mut().for_each(|load| *load += size);
                    buffers.push(Buffer::new(start as u32, end as u32, size * 10_000));
                }
            }
            let load = loads.into_iter().max().map(|load| load * 10_000);
            let alone = Problem { buffers: buffers.clone(), capacity: load };
            let status = solve(&alone, &Limit::default()).unwrap().status();
            buffers.extend((0..24).map(|step| Buffer::new(step / 2, step / 2 + 1, 1)));
            // Half of the size of the smallest large buffer.
            let with_small = Problem { buffers, capacity: load.map(|load| load + 5_000) };
            let outcome = solve(&with_small, &Limit::default()).unwrap();
            assert_eq!(
                outcome.status() == Status::Infeasible,
                status == Status::Infeasible,
                "{with_small:?}"
            );
            assert!(outcome.solution.is_none_or(|solution| check(&with_small, &solution) == Ok(())));
            impossible += usize::from(status == Status::Infeasible);
        }
        assert!(impossible > 3, "{impossible} of 600");
    }
}
