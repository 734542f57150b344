//! Plans that recompute nothing: an order, sub-views and places for the nodes as given, rewritten, and with regions in parts.

use memc_passes::{PipelineError, Settings};

use crate::search::Search;
use crate::split::is_split;

/// Offers the best plan of these forms.
pub(super) fn seek(search: &mut Search<'_>) -> Result<(), PipelineError> {
    let plan = search.plan(&search.settings(), search.may_rewrite())?;
    search.offer_free(plan.form, plan);
    Ok(())
}

/// Whether less freedom could do better: with a limit, where regions are in parts, or the limit is kept anyway; with a slowdown, always.
pub(super) fn plainer_is_worth(search: &Search<'_>) -> Result<(), &'static str> {
    match search.wish.limit {
        _ if search.wish.slowdown > 0 => Ok(()),
        Some(_) if is_split(&search.pool.free().module) || search.pool.best().is_some() => Ok(()),
        Some(_) => Err("the best plan has no regions, and needs more than the limit"),
        None => Err("the goal is the plainest"),
    }
}

/// Offers the plan that is found without a limit, and, with a slowdown, those without it and for it alone.
pub(super) fn plainer(search: &mut Search<'_>) -> Result<(), PipelineError> {
    // Without regions only time is of interest, and heuristics say it.
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
