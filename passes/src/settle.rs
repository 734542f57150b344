//! `settle`: places buffers so that small extents need little memory.

use memc_ir::{Bytes, Module, Stage};
use memc_solve::place;

use crate::analysis::corners::{corners, sizes};
use crate::analysis::memory::Memory;
use crate::pass::{Changed, PassContext, PassError, PassInfo};
use crate::placement::Placement;

/// Description of the pass.
pub const INFO: PassInfo = PassInfo {
    name: "settle",
    summary: "Places buffers so that small extents need little memory.",
    page: include_str!("../doc/settle.md"),
    needs: Stage::Planned,
    gives: Stage::Planned,
    reads: &["effort"],
    run,
};

/// Visits of neighbors in the search: about 0.2 s, a tenth of the time to plan a network of 500 nodes for
/// ranges.
const EFFORT: u64 = 60_000_000;

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let corners = corners(module.domain());
    let Some(arena) = module
        .plan
        .arenas
        .iter()
        .position(|arena| module.plan.spaces[arena.space].name == ctx.options.space.name)
    else {
        return Ok(Changed::No);
    };
    if corners.is_empty() {
        return Ok(Changed::No);
    }
    let (space, alignment) =
        (module.plan.arenas[arena].space, module.plan.spaces[module.plan.arenas[arena].space].alignment);
    let placement = Placement::with_workspace(module, Memory::of(module, ctx.options).buffers, alignment);
    let problem = &placement.problem;
    let Some(offsets) = placement.offsets(module) else { return Ok(Changed::No) };
    let sizes = sizes(&corners, &placement.sizes(module, ctx.options));
    let before = place::Solution::from_offsets(problem, offsets);
    let settled = place::settle(
        problem,
        &before,
        &sizes,
        if ctx.effort() == 0 || ctx.options.stop.is_due() { 0 } else { EFFORT },
    );
    place::check(problem, &settled)
        .map_err(|violation| PassError::WrongAnswer { pass: INFO.name, why: violation.to_string() })?;

    let edits =
        before.offsets.iter().zip(&settled.offsets).filter(|(before, after)| before != after).count() as u64;
    placement.write(module, space, &settled.offsets);
    module.plan.arenas[arena].size = Bytes(settled.height);
    Ok(Changed::edits(edits))
}
