//! Plans whose buffers partly live in a slower space that nodes access directly.

use memc_ir::{Bytes, Module};
use memc_passes::{Options, PipelineError};

use crate::model::{Form, Planned};
use crate::search::Search;

/// Pass that chooses the buffers.
const DIRECT: &str = "direct";

/// Checks that the target has a space which nodes access directly, and that no plan keeps the limit or the
/// best plan is slow.
pub(super) fn is_worth(search: &Search<'_>) -> Result<(), &'static str> {
    if search.model.options.cost.target.spaces.iter().all(|space| space.access.is_none()) {
        return Err("nodes access the first space only");
    }
    if search.model.options.weights.is_some() {
        return Err("constants share the first space");
    }
    super::slow(search)
}

/// Offers plans with slower buffers, made of the file order and of the plans found so far.
pub(super) fn seek(search: &mut Search<'_>) -> Result<(), PipelineError> {
    let file_order = search.pool.file_order.clone();
    offer(search, &file_order)?;
    again(search)
}

/// Offers plans with slower buffers, made of the plans found so far.
pub(super) fn again(search: &mut Search<'_>) -> Result<(), PipelineError> {
    for plan in search.all_found() {
        offer(search, &plan)?;
    }
    Ok(())
}

/// Offers a plan whose buffers live in a slower space where it exceeds the limit.
fn offer(search: &mut Search<'_>, plan: &Planned) -> Result<(), PipelineError> {
    let options = search.model.options;
    // A plan that keeps the limit needs no slower space.
    if search.wish.limit.is_none_or(|limit| plan.need(options) <= limit) {
        return Ok(());
    }
    let mut form = Form::of_plan(search.model, plan);
    form.run(DIRECT, &search.settings())?;
    let name = if plan.strategy == "file-order" { "file order" } else { plan.strategy };
    if form.ctx.said.budgeted.is_none() || !keeps_far_limits(&form.module, options) {
        search.nothing(name);
        return Ok(());
    }
    search.offer(name, form.planned());
    Ok(())
}

/// Whether the arenas of all farther spaces keep their limits.
fn keeps_far_limits(module: &Module, options: &Options) -> bool {
    module.plan.arenas.iter().skip(1).all(|arena| {
        let space = &module.plan.spaces[arena.space];
        let limits = [options.far_budgets.get(&space.name).copied(), space.capacity];
        arena.size <= limits.into_iter().flatten().min().unwrap_or(Bytes(u64::MAX))
    })
}
