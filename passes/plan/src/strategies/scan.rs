//! Plans that compute the rows of a batch one after another.

use memc_passes::PipelineError;

use crate::scan::is_scanned;
use crate::search::Search;

/// Checks that the batch may be split, and that a limit needs more than the current best plan. A search that
/// serves another one has no Scans: those of one row would be Scans within a Scan.
pub(super) fn is_worth(search: &Search<'_>) -> Result<(), &'static str> {
    if search.is_aside() {
        return Err("the search serves another one");
    }
    super::may_split(search)?;
    super::batch::is_worth(search)
}

/// Plans the rows in the body of a Scan.
pub(super) fn seek(search: &mut Search<'_>) -> Result<(), PipelineError> {
    let settings = search.settings();
    let form = search.forms.uncleaned(&settings)?.then("scan", &settings)?;
    if !is_scanned(&form.module) {
        search.nothing("rows are not apart");
        return Ok(());
    }
    let plan = form.then("dce,view,schedule,in-place,place", &settings)?.planned();
    search.pool.reach(plan.need(search.model.options));
    search.offer("rows one after another", plan);
    Ok(())
}
