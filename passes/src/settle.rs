//! `settle`: places buffers so that small extents need little memory.

use memc_ir::{Bytes, Module, Stage, Storage};
use memc_solve::place;

use crate::analysis::corners::{corners, sizes};
use crate::analysis::memory::Memory;
use crate::analysis::scratch::kernel_expr;
use crate::pass::{Changed, PassContext, PassError, PassInfo};
use crate::place::{row, steps_of_scratch};

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
    let Some(arena) = module.plan.arenas.iter().position(|arena| module.plan.spaces[arena.space].name == ctx.options.space.name)
    else {
        return Ok(Changed::No);
    };
    if corners.is_empty() {
        return Ok(Changed::No);
    }
    let (space, alignment) = (module.plan.arenas[arena].space, module.plan.spaces[module.plan.arenas[arena].space].alignment);
    let buffers = Memory::of(module, ctx.options).buffers;
    // State the placement as it is: one row per buffer, one per scratch entry.
    let (mut problem, mut all, mut offsets) = (place::Problem::default(), Vec::new(), Vec::new());
    for buffer in &buffers {
        problem.buffers.push(row(buffer.range.start.0, buffer.range.end.0, buffer.bytes, alignment));
        let ty = module.ty(buffer.owner).tensor().filter(|_| !module.assumed.contains_key(&buffer.owner));
        all.push((buffer.bytes.0, ty.and_then(memc_ir::TensorType::size_expr)));
        offsets.push(module.plan.storage[buffer.owner]);
    }
    for (scratch, step) in module.plan.scratch.iter().zip(steps_of_scratch(module)) {
        problem.buffers.push(row(step.0, step.0 + 1, scratch.bytes, alignment));
        all.push((scratch.bytes.0, kernel_expr(module, scratch, ctx.options)));
        offsets.push(scratch.storage);
    }
    let Some(offsets) = offsets.into_iter().map(|storage| storage.map(|storage| storage.offset.0)).collect::<Option<Vec<u64>>>()
    else {
        return Ok(Changed::No);
    };
    let sizes = sizes(&corners, &all);
    let before = place::Solution::from_offsets(&problem, offsets);
    let settled =
        place::settle(&problem, &before, &sizes, if ctx.effort() == 0 || ctx.options.stop.is_due() { 0 } else { EFFORT });
    place::check(&problem, &settled)
        .map_err(|violation| PassError::WrongAnswer { pass: INFO.name, why: violation.to_string() })?;

    // Store the offsets; aliases follow their owners.
    let edits = before.offsets.iter().zip(&settled.offsets).filter(|(before, after)| before != after).count() as u64;
    let place = |offset: u64| Storage { space, offset: Bytes(offset) };
    for (buffer, offset) in buffers.iter().zip(&settled.offsets) {
        for value in &buffer.members {
            let (_, within) = module.plan.owner(*value);
            module.plan.storage.set(*value, Some(place(offset.saturating_add(within.0))));
        }
    }
    for (scratch, offset) in module.plan.scratch.iter_mut().zip(&settled.offsets[buffers.len()..]) {
        scratch.storage = Some(place(*offset));
    }
    module.plan.arenas[arena].size = Bytes(settled.height);
    Ok(Changed::edits(edits))
}
