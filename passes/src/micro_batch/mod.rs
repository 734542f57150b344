//! `micro-batch`: computes the batch in equal parts, one after another, and joins their results.

mod apart;
mod division;
mod drawn;
mod follow;

use memc_edit::{are_computable, has_made};
use memc_ir::{Module, Stage};

pub use apart::are_apart;

use crate::parts::{Weights, write};
use crate::pass::{Changed, PassContext, PassError, PassInfo};

/// Description of the pass.
pub const INFO: PassInfo = PassInfo {
    name: "micro-batch",
    summary: "Computes the batch in equal parts, one after another, and joins their results.",
    page: include_str!("../../doc/micro-batch.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &["limit", "parts"],
    run,
};

/// Returns whether this pass wrote nodes of the module.
pub fn is_divided(module: &Module) -> bool {
    has_made(module, INFO.name)
}

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let Some(parts) = ctx.settings.parts.filter(|parts| *parts > 1) else { return Ok(Changed::No) };
    if !are_computable(module) {
        return Ok(Changed::No);
    }
    let Some(divided) = follow::divided(module, ctx.options.profile, parts) else { return Ok(Changed::No) };
    if ctx.settings.limit.is_some_and(|limit| follow::held(module, &divided) > limit.0) {
        return Ok(Changed::No);
    }
    let edits = write(module, [&divided], &mut Weights::new(ctx), INFO.name);
    if edits > 0 {
        // Inference now knows the start of each slice of the caller's inputs, so these slices can become
        // sub-views.
        ctx.data = memc_ops::infer(module).data;
    }
    Ok(Changed::edits(edits))
}
