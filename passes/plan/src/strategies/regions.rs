//! Plans that split regions of nodes into parts, and recompute nothing.

use memc_ir::Bytes;
use memc_passes::{PipelineError, Settings};

use crate::model::Planned;
use crate::search::Search;
use crate::split::is_split;
use crate::tuning::hundredths;

/// Searches for regions that keep the limit, regardless of time.
///
/// Regions are chosen by live bytes, and offsets may need a little more: a plan for a smaller limit may
/// keep the limit even if the plan for the limit itself does not.
pub(super) fn for_less(search: &mut Search<'_>) -> Result<(), PipelineError> {
    let options = search.model.options;
    let effort = Some(options.effort);
    let smallest = for_limit(search, Bytes(0), Some(0))?;
    let free = search.pool.free().clone();
    let in_regions = [smallest, free].into_iter().filter(|plan| is_split(&plan.module));
    let Some(least) = in_regions.min_by_key(|plan| plan.need(options)) else {
        search.nothing("smallest");
        return Ok(());
    };
    search.pool.reach(least.need(options));
    if least.need(options) <= search.limit() {
        for part in search.tuning.smaller_limits {
            let found = for_limit(search, hundredths(search.limit(), part), effort)?;
            if found.need(options) <= search.limit() {
                let found = search.pool.measured(found);
                search.offer(format!("{part} % of the limit"), found);
                return Ok(());
            }
            search.nothing(format!("{part} % of the limit"));
        }
    }
    let least = search.pool.measured(least);
    search.offer("smallest", least);
    Ok(())
}

/// Plans with regions split into parts for a limit.
fn for_limit(search: &Search<'_>, limit: Bytes, effort: Option<u64>) -> Result<Planned, PipelineError> {
    search.plan(&Settings { limit: Some(limit), effort, ..search.settings() }, search.model.may_rewrite())
}
