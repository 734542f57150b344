//! Trials: place a copy of a module to learn the size of its arena.

use memc_ir::{Bytes, Module};

use memc_passes::{PassContext, PassError, Said};

/// Returns the arena in bytes, with in-place results and offsets found within `effort`. More effort
/// never makes the arena larger.
pub(crate) fn arena(module: &Module, ctx: &PassContext<'_>, effort: u64) -> Result<Bytes, PassError> {
    let placed = place(module, ctx, effort)?;
    Ok(placed.plan.arenas.first().map(|arena| arena.size).unwrap_or_default())
}

/// Returns a copy of the module with in-place results and offsets.
pub(crate) fn place(module: &Module, ctx: &PassContext<'_>, effort: u64) -> Result<Module, PassError> {
    let mut placed = module.clone();
    let mut trial = fresh(ctx);
    trial.settings.effort = Some(effort);
    (memc_passes::in_place::INFO.run)(&mut placed, &mut trial)?;
    (memc_passes::place::INFO.run)(&mut placed, &mut trial)?;
    Ok(placed)
}

/// Returns a context for a trial, without remarks.
pub(crate) fn fresh<'o>(ctx: &PassContext<'o>) -> PassContext<'o> {
    PassContext { said: Said::default(), ..ctx.clone() }
}
