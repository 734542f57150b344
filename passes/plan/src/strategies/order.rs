//! Plans without recomputation: order, sub-views and offsets of the nodes as given, rewritten, and with
//! regions split into parts.

use memc_passes::{PipelineError, Settings};

use crate::search::Search;
use crate::split::is_split;

/// Plans all these forms and offers the best plan.
pub(super) fn seek(search: &mut Search<'_>) -> Result<(), PipelineError> {
    let plan = search.plan(&search.settings(), search.may_rewrite())?;
    search.offer_free(plan.form, plan);
    Ok(())
}

/// Checks whether a plan without the limit could do better: always with a slowdown; with a limit, if the
/// best plan has split regions or some plan keeps the limit.
pub(super) fn plainer_is_worth(search: &Search<'_>) -> Result<(), &'static str> {
    match search.wish.limit {
        _ if search.wish.slowdown > 0 => Ok(()),
        Some(_) if is_split(&search.pool.free().module) || search.pool.best().is_some() => Ok(()),
        Some(_) => Err("the best plan has no split regions and exceeds the limit"),
        None => Err("no limit is set"),
    }
}

/// Offers the plan found without limits; with a limit and a slowdown, also the plan found for the
/// slowdown alone.
pub(super) fn plainer(search: &mut Search<'_>) -> Result<(), PipelineError> {
    // Without split regions only the plan's time matters, and heuristics suffice to know it.
    let effort = Some(0).filter(|_| search.wish.slowdown == 0 && !is_split(&search.pool.free().module));
    let free = Settings { limit: None, slowdown: 0, effort, ..search.settings() };
    let plan = search.plan(&free, search.may_rewrite())?;
    search.offer_free(format!("{}, without limits", plan.form), plan);
    if search.wish.limit.is_some() && search.wish.slowdown > 0 {
        let plan = search.plan(&Settings { slowdown: search.wish.slowdown, ..free }, search.may_rewrite())?;
        search.offer_free(format!("{}, for the slowdown alone", plan.form), plan);
    }
    Ok(())
}
