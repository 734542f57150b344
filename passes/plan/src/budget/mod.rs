//! `budget`: keeps the arena within a limit by recomputing, moving or encoding values that do not fit.

mod attempt;
pub(crate) mod far;
pub(crate) mod fit;
mod issue;
mod mend;
pub(crate) mod near;
mod realize;
mod shortage;
pub(crate) mod state;
mod trial;
mod weights;

use memc_ir::{Module, Stage};
use memc_ops::families::memory::part_of_constant;
use memc_passes::window;

use memc_passes::analysis::scratch::scratch;
use memc_passes::{Changed, PassContext, PassError, PassInfo};

/// Entry of the pass in the registry.
pub const INFO: PassInfo = PassInfo {
    name: "budget",
    summary: "Keeps the arena within a budget by recomputing, transferring or encoding values.",
    page: include_str!("../../doc/budget.md"),
    needs: Stage::Scheduled,
    gives: Stage::Scheduled,
    reads: &["limit", "effort", "seek", "smallest", "fastest", "changes"],
    run,
};

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let Some(limit) = ctx.settings.limit else { return Ok(Changed::No) };
    let moves_weights = ctx.options.weights.is_some();
    let arena = trial::arena(module, ctx, ctx.effort())?;
    if !moves_weights && arena <= limit {
        return Ok(Changed::No);
    }
    let sub_views = window::taken(module, ctx);
    let given = fit::Given { module: module.clone(), arena };
    let mut edits = restore_plain_views(module, ctx)?;
    if moves_weights {
        edits += own_parts(module);
    }
    let found = match moves_weights {
        true => weights::within_room(module, ctx, limit, &sub_views)?,
        false => Some(fit::within(module, ctx, limit, &[], &sub_views, Some(&given))?),
    };
    let Some(found) = found else { return Ok(Changed::edits(edits)) };
    edits += found.edits;
    let before = std::mem::take(&mut module.plan.scratch);
    *module = found.module;
    ctx.data = found.data;
    ctx.said.budgeted = Some(found.budgeted);
    ctx.said.claims.extend(found.claims);
    module.plan.scratch = scratch(module, ctx.options);
    edits += u64::from(module.plan.scratch != before);
    Ok(Changed::edits(edits))
}

/// Lets parts of constants own their bytes, so that they can be fetched alone. Returns the number of changed
/// aliases.
fn own_parts(module: &mut Module) -> u64 {
    let nodes = module.graph(module.main()).nodes.iter();
    let parts = nodes.filter(|node| part_of_constant(module, **node).is_some());
    let results: Vec<memc_ir::Value> = parts.flat_map(|node| module.node(*node).results()).collect();
    results.into_iter().filter(|result| module.plan.alias[*result].take().is_some()).count() as u64
}

/// Removes sub-views of values that are made later or in place, since copies must own their bytes;
/// `carry_out` adds them back after the copies are made. Returns the number of changed aliases.
fn restore_plain_views(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<u64, PassError> {
    if state::has_only_plain_views(module) {
        return Ok(0);
    }
    let before = std::mem::take(&mut module.plan.alias);
    (memc_passes::view::INFO.run)(module, ctx)?;
    let changed = |value: &memc_ir::Value| module.plan.alias[*value] != before[*value];
    Ok(module.values().keys().filter(changed).count() as u64)
}
