//! Plans without recomputation: order, sub-views and offsets of the nodes as given, rewritten, and with
//! regions split into parts.

use memc_passes::PipelineError;

use crate::search::Search;

/// Plans all these forms and offers the best plan.
pub(super) fn seek(search: &mut Search<'_>) -> Result<(), PipelineError> {
    let plan = search.plan(&search.settings(), search.model.may_rewrite())?;
    search.known.ordered = Some(plan.clone());
    search.offer_free(plan.form, plan);
    Ok(())
}
