//! Plans that split regions of nodes into parts, and recompute nothing.

use memc_ir::Bytes;
use memc_passes::{PipelineError, Settings};

use crate::goal;
use crate::model::Planned;
use crate::search::Search;
use crate::split::is_split;
use crate::tuning::hundredths;

/// Checks that regions may be split into parts.
pub(super) fn may_split(search: &Search<'_>) -> Result<(), &'static str> {
    if search.may_split() { Ok(()) } else { Err("`--exact` or `--no-rewrite` forbids splitting") }
}

/// Checks that the best plan is slow, regions may be split, and a large model still lacks a plan.
pub(super) fn for_time_is_worth(search: &Search<'_>) -> Result<(), &'static str> {
    super::slow(search)?;
    may_split(search)?;
    let is_large = search.model.nodes() > search.tuning.large_model;
    if is_large && search.pool.best().is_some() { Err("the model is large, and a plan keeps the limit") } else { Ok(()) }
}

/// Plans the regions that a slowdown pays for; halves the slowdown while the plans keep the limit.
pub(super) fn for_time(search: &mut Search<'_>) -> Result<(), PipelineError> {
    let options = search.model.options;
    let mut slowdown = search.wish.slowdown.max(search.tuning.lavish_slowdown);
    let mut last = u64::MAX;
    while slowdown > search.tuning.frugal_slowdown {
        let settings = Settings { limit: None, slowdown, ..search.settings() };
        let name = format!("slowdown {}.{:02} %", slowdown / 100, slowdown % 100);
        // A search without the limit finds more at times: a greedy search can do worse with more
        // freedom.
        let found = search.plan(&settings, search.may_rewrite())?;
        let nanos = found.nanos(options);
        if !is_split(&found.module) || nanos >= last {
            search.nothing(name);
            break;
        }
        let need = found.need(options);
        if last == u64::MAX {
            search.pool.reach(need);
        }
        last = nanos;
        slowdown = goal::slowdown(nanos, search.model.nanos()).min(slowdown) / 2;
        let found = search.pool.measured(found);
        search.offer(name, found);
        if need > search.limit() {
            break;
        }
    }
    Ok(())
}

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
    search.plan(&Settings { limit: Some(limit), effort, ..search.settings() }, search.may_rewrite())
}
