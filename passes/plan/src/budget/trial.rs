//! Trials: the arena of a module, found in a copy.

use memc_ir::{Bytes, Module};

use memc_passes::{PassContext, PassError, Said};

/// Arena in bytes, with results written in place and offsets found within `effort`. More effort never makes it larger.
pub(crate) fn arena(module: &Module, ctx: &PassContext<'_>, effort: u64) -> Result<Bytes, PassError> {
    let placed = place(module, ctx, effort)?;
    Ok(placed.plan.arenas.first().map(|arena| arena.size).unwrap_or_default())
}

/// A copy of the module that is placed.
pub(crate) fn place(module: &Module, ctx: &PassContext<'_>, effort: u64) -> Result<Module, PassError> {
    let mut placed = module.clone();
    let mut trial = fresh(ctx);
    trial.settings.effort = Some(effort);
    (memc_passes::in_place::INFO.run)(&mut placed, &mut trial)?;
    (memc_passes::place::INFO.run)(&mut placed, &mut trial)?;
    Ok(placed)
}

/// A context for a trial, with nothing said yet.
pub(crate) fn fresh<'o>(ctx: &PassContext<'o>) -> PassContext<'o> {
    PassContext { said: Said::default(), ..ctx.clone() }
}
