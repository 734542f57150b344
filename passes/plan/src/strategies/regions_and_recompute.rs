//! Plans that split regions into parts and recompute other values, in either order.

use std::collections::BTreeSet;

use memc_ir::Bytes;
use memc_passes::{PassError, PipelineError, Seek, Settings};

use crate::budget::fit::leaves_room;
use crate::limited::{planned_within, within};
use crate::model::{Form, Planned};
use crate::search::Search;
use crate::split::is_split;
use crate::tuning::hundredths;
use crate::whole::{MERGE, REGIONS};

/// Splits every node that needs more than a share of the limit by itself, and recomputes or moves values
/// that still do not fit.
pub(super) fn for_the_limit(search: &mut Search<'_>) -> Result<(), PipelineError> {
    let part = search.tuning.alone[0];
    let found = in_regions(search, search.limit(), part, Seek::Soon)?;
    search.known.is_split_and_recomputed = found.is_some();
    offer(search, format!("nodes within {part} % of the limit"), found);
    Ok(())
}

/// Searches with smaller limits if no such plan was found for the limit itself: smaller parts leave
/// room to keep more values.
pub(super) fn within_less(search: &mut Search<'_>) -> Result<(), PipelineError> {
    if search.known.is_split_and_recomputed {
        return Ok(());
    }
    for part in search.tuning.smaller_limits {
        let less = hundredths(search.limit(), part);
        if less < search.pool.smallest() {
            continue;
        }
        let found = in_regions(search, less, search.tuning.alone[0], Seek::Soon)?;
        let is_found = found.is_some();
        offer(search, format!("{part} % of the limit"), found);
        if is_found {
            break;
        }
    }
    Ok(())
}

/// Searches for the smallest plan of this kind below the smallest known plan. The search does not depend
/// on the limit, so every larger limit finds an equal plan.
pub(super) fn for_less(search: &mut Search<'_>) -> Result<(), PipelineError> {
    let options = search.model.options;
    let mut parts = search.tuning.alone.into_iter().peekable();
    while let Some(part) = parts.peek().copied() {
        let least = search.pool.smallest();
        let less = Bytes(least.0.saturating_sub((least.0 / search.tuning.least_saving).max(1)));
        let found = in_regions(search, less, part, Seek::Least)?;
        match found.filter(|found| found.need(options) <= less) {
            Some(found) => {
                search.pool.reach(found.need(options));
                offer(search, format!("smaller, nodes within {part} %"), Some(found));
            }
            None => {
                search.nothing(format!("smaller, nodes within {part} %"));
                parts.next();
            }
        }
    }
    Ok(())
}

/// Checks that regions may be split in plans that recompute: plans with transfers are excluded, since
/// transfers are tied to the steps of their plan.
pub(super) fn stands_still(search: &Search<'_>) -> Result<(), &'static str> {
    super::may_split(search)?;
    if search.model.options.farther.is_empty() {
        Ok(())
    } else {
        Err("the target has farther spaces: transfers are tied to the steps of their plan")
    }
}

/// Searches for regions in plans that recompute: in the plan without split operators, in place of copies
/// shortly after the last use; and in a plan for a larger limit, to bring it down to the limit.
pub(super) fn of_plans_that_recompute(search: &mut Search<'_>) -> Result<(), PipelineError> {
    if let Some(whole) = search.known.recomputed.clone() {
        regions_of(search, &whole, "nodes not split")?;
    }
    let wider = Some(hundredths(search.limit(), search.tuning.wider_limit));
    let settings = Settings { limit: wider, effort: short(search), seek: Seek::Soon, ..search.settings() };
    let free = search.pool.free().clone();
    let found = within(search, &settings, &free);
    if let Some(found) = search.or_nothing("nodes not split, larger limit", found)? {
        regions_of(search, &found, "nodes not split, larger limit")?;
    }
    Ok(())
}

/// Offers a plan with split regions made from a plan that recomputes; tries a slightly smaller limit if
/// no plan keeps the first.
fn regions_of(search: &mut Search<'_>, planned: &Planned, name: &str) -> Result<(), PipelineError> {
    for part in search.tuning.nearly_all {
        let limit = Some(hundredths(search.limit(), part));
        let fastest = search.pool.fastest();
        let settings =
            Settings { limit, fastest, effort: short(search), seek: Seek::Soon, ..search.settings() };
        let name = format!("{name}, {part} % of the limit");
        match regions_again(search, planned, &settings) {
            Err(PipelineError::Pass(PassError::Budget(_))) | Ok(None) => search.nothing(name),
            found => {
                offer(search, name, found?);
                break;
            }
        }
    }
    Ok(())
}

/// Plans the module of a plan that recomputes again, with split regions. First removes copies shortly
/// after the last use of their original. `None` if no region helps.
fn regions_again(
    search: &Search<'_>,
    planned: &Planned,
    settings: &Settings,
) -> Result<Option<Planned>, PipelineError> {
    let mut form = Form::of_plan(search.model, planned);
    form.run(&format!("reopen,dce,{REGIONS}"), settings)?;
    if !is_split(&form.module) {
        return Ok(None);
    }
    planned_within(&form, &BTreeSet::new(), true, settings).map(Some)
}

/// Plans within `limit` with split regions; no node may need more than `part` hundredths of the limit by
/// itself. `None` if there is no plan.
fn in_regions(
    search: &Search<'_>,
    limit: Bytes,
    part: u64,
    seek: Seek,
) -> Result<Option<Planned>, PipelineError> {
    let effort = if seek == Seek::Least { short(search) } else { None };
    let (smallest, fastest) = (Some(limit).filter(|_| seek == Seek::Least), search.pool.fastest());
    let limited = Settings { limit: Some(limit), effort, seek, smallest, fastest, ..search.settings() };
    let given = Form::given(search.model);
    if !leaves_room(&given.module, &given.ctx, limit) {
        return Ok(None);
    }
    let prepared = search.forms.prepared(&limited)?;
    let form = match search.forms.rewritten(&prepared, &limited)? {
        Some(form) => form,
        None => search.forms.then(&prepared, MERGE, &Settings::default())?,
    };
    let alone = Some(hundredths(limit, part));
    let Some(form) = search.forms.divided(&form, &Settings { alone, ..limited.clone() })? else {
        return Ok(None);
    };
    let form = search.forms.laid_out(form, Some(limit))?;
    match planned_within(&form, &BTreeSet::new(), true, &limited) {
        Err(PipelineError::Pass(PassError::Budget(_))) => Ok(None),
        found => found.map(Some),
    }
}

fn offer(search: &mut Search<'_>, name: String, found: Option<Planned>) {
    match found.map(|found| search.pool.measured(found)) {
        Some(found) => _ = search.offer(name, found),
        None => search.nothing(name),
    }
}

/// Returns the share of the effort for short searches.
fn short(search: &Search<'_>) -> Option<u64> {
    Some(search.model.options.effort / search.tuning.short)
}
