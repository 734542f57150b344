//! `place`: gives every buffer its offset in the arena.

use std::collections::HashMap;

use memc_ir::{ArenaSize, Bytes, Module, Node, Plan, Space, SpaceData, Stage};
use memc_solve::{Limit, Outcome, Status, place};

use crate::analysis::memory::Memory;
use crate::analysis::open::has_open;
use crate::analysis::scratch::{scratch, scratch_expr};
use crate::options::Options;
use crate::pass::{Changed, PassContext, PassError, PassInfo, SCHEDULE, SolverReport};
use crate::placement::Placement;
use crate::slices::in_time;

/// Description of the pass.
pub const INFO: PassInfo = PassInfo {
    name: "place",
    summary: "Gives every buffer its offset in the arena.",
    page: include_str!("../doc/place.md"),
    needs: Stage::Scheduled,
    gives: Stage::Planned,
    reads: &["limit", "effort", "below"],
    run,
};

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let before = module.plan.clone();
    module.plan.scratch = scratch(module, ctx.options);
    keep_fixed(module, &before, ctx.options);
    let space = space(module, &ctx.options.space);
    let memory = Memory::of(module, ctx.options);
    let load = memory.peak(module).0;
    let placement = Placement::with_workspace(module, memory.buffers, ctx.options.space.alignment);
    let problem = &placement.problem;
    // If the peak already reaches the known arena, spend no effort: heuristics place the buffers.
    let effort = if ctx.settings.below.is_some_and(|below| load.0 >= below) { 0 } else { ctx.effort() };
    let outcome = solve(problem, ctx, effort).map_err(|_| PassError::TooLarge { pass: INFO.name })?;
    let solution = outcome
        .solution
        .ok_or_else(|| wrong("the solver found no placement, although no capacity is set"))?;
    place::check(problem, &solution).map_err(|violation| wrong(&violation.to_string()))?;
    placement.write(module, space, &solution.offsets);
    // Record the arena with its bounds.
    let scheduled = ctx.said.reports.iter().rev().find(|report| report.pass == SCHEDULE);
    // With a budget, recomputation can go below the bound of any order of the original nodes. Nor is the
    // order's bound valid if values without a size fix parts of the order.
    let is_bound = ctx.said.budgeted.is_none() && !has_open(module, ctx.options);
    let order_lower_bound = scheduled.filter(|_| is_bound).map(|report| Bytes(report.lower_bound));
    let (size, lower_bound) = (Bytes(solution.height), Bytes(outcome.lower_bound.min(solution.height)));
    module.plan.arenas = vec![ArenaSize { space, size, lower_bound, order_lower_bound }];
    for far in ctx.options.farther.clone() {
        place_far(module, ctx, &far)?;
    }
    let edits = edits(module, &before);
    module.stage = Stage::Planned;
    debug_assert!(load <= size);
    ctx.said.reports.push(SolverReport {
        pass: INFO.name,
        value: solution.height,
        lower_bound: lower_bound.0,
        stop: outcome.stop.as_str(),
        effort: outcome.effort,
    });
    Ok(Changed::edits(edits))
}

/// Keeps workspace as large as in an earlier plan of these nodes: a layout states one number for it, which
/// holds for narrower ranges, too. Kernels whose workspace follows free dimensions need no more than that.
/// Bodies may, as the bound of their bytes over symbols is that of the earlier plan.
fn keep_fixed(module: &mut Module, before: &Plan, options: &Options) {
    if module.domain().is_empty() {
        return;
    }
    let known: HashMap<(Node, bool), Bytes> =
        before.scratch.iter().map(|scratch| ((scratch.node, scratch.body), scratch.bytes)).collect();
    let mut rows = std::mem::take(&mut module.plan.scratch);
    for row in &mut rows {
        let is_followed = !row.body && scratch_expr(module, row, options).is_some();
        let kept = known.get(&(row.node, row.body)).filter(|_| !is_followed);
        row.bytes = kept.map_or(row.bytes, |kept| row.bytes.max(*kept));
    }
    module.plan.scratch = rows;
}

/// Returns the lowest placement found with `effort`.
///
/// Under a limit, the result is never higher than the placement without effort, because plans within
/// limits are first tried without effort.
fn solve(
    problem: &place::Problem,
    ctx: &PassContext<'_>,
    effort: u64,
) -> Result<Outcome<place::Solution>, place::ProblemError> {
    let outcome = in_time(ctx, effort, |limit| ctx.memo.place(problem, limit))?;
    if effort == 0 || ctx.settings.limit.is_none() || outcome.status() == Status::Optimal {
        return Ok(outcome);
    }
    let at_once = ctx.memo.place(problem, &Limit::nodes(0))?;
    let is_lower = at_once.value.is_some_and(|value| outcome.value.is_none_or(|other| value < other));
    Ok(if is_lower {
        Outcome { solution: at_once.solution, value: at_once.value, ..outcome }
    } else {
        outcome
    })
}

/// Counts the changed placements, arenas, scratch lists, spaces and stages, compared with the plan
/// before the pass.
fn edits(module: &Module, before: &Plan) -> u64 {
    let plan = &module.plan;
    let moved =
        module.values().keys().filter(|value| plan.storage[*value] != before.storage[*value]).count() as u64;
    let sized = u64::from(plan.arenas != before.arenas) + u64::from(plan.scratch != before.scratch);
    let described = u64::from(!plan.spaces.iter().eq(before.spaces.iter()));
    moved + sized + described + u64::from(module.stage < Stage::Planned)
}

fn wrong(why: &str) -> PassError {
    PassError::WrongAnswer { pass: INFO.name, why: why.to_owned() }
}

/// Assigns offsets in a farther space to the values that transfers send there, and to those that live
/// there.
fn place_far(module: &mut Module, ctx: &PassContext<'_>, data: &SpaceData) -> Result<(), PassError> {
    let buffers = Memory::of(module, ctx.options).far(module, &data.name);
    if buffers.is_empty() {
        return Ok(());
    }
    let space = space(module, data);
    let placement = Placement::of_buffers(buffers, data.alignment);
    let problem = &placement.problem;
    let outcome = in_time(ctx, ctx.effort(), |limit| ctx.memo.place(problem, limit))
        .map_err(|_| PassError::TooLarge { pass: INFO.name })?;
    let solution = outcome
        .solution
        .ok_or_else(|| wrong("the solver found no placement, although no capacity is set"))?;
    place::check(problem, &solution).map_err(|violation| wrong(&violation.to_string()))?;
    placement.write(module, space, &solution.offsets);
    let (size, lower_bound) = (Bytes(solution.height), Bytes(outcome.lower_bound.min(solution.height)));
    module.plan.arenas.push(ArenaSize { space, size, lower_bound, order_lower_bound: None });
    Ok(())
}

/// Returns the space described by the options, updating a space of that name: a plan that was read in
/// may have stored another alignment.
fn space(module: &mut Module, wanted: &SpaceData) -> Space {
    let found = module.plan.spaces.iter().find(|(_, data)| data.name == wanted.name).map(|(space, _)| space);
    match found {
        Some(space) => {
            module.plan.spaces[space] = wanted.clone();
            space
        }
        None => module.plan.spaces.push(wanted.clone()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use crate::options::Options;
    use crate::placement::row;

    /// Makes overlapping buffers of a few sizes, pseudo-randomly from `seed`.
    fn run_of_buffers(seed: u64) -> place::Problem {
        let mut state = seed;
        let mut below = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        let mut buffers = Vec::new();
        for start in 0..90 {
            for _ in 0..7 {
                let longest = if below(5) == 0 { 70 } else { 12 };
                let life = 1 + below(longest);
                let size = (64 << below(9)) * (1 + below(3));
                buffers.push(row(start, start + life as u32, Bytes(size), 64));
            }
        }
        place::Problem { buffers, capacity: None }
    }

    #[test]
    fn under_a_limit_more_effort_never_raises_the_placement() {
        let options = Options::default();
        let mut ctx = PassContext::new(&options, memc_ir::SecondaryMap::default());
        ctx.settings.limit = Some(Bytes(1));
        for seed in 0..12 {
            let problem = run_of_buffers(seed);
            let height = |effort: u64| solve(&problem, &ctx, effort).unwrap().value.unwrap();
            for effort in [20, 200] {
                assert!(height(effort) <= height(0), "{seed} {effort}");
            }
        }
    }
}
