//! Plans that recompute or move values that do not fit, without splitting operators.

use memc_ir::Bytes;
use memc_passes::{Lossy, PassError, PipelineError, Seek, Settings, Turn};

use crate::goal::slowed;
use crate::limited::{of_given_nodes, within};
use crate::model::Form;
use crate::pool::Verdict;
use crate::search::Search;
use crate::split::is_split;
use crate::whole::has_equal_nodes;

/// Checks that the limit needs recomputation.
pub(super) fn is_worth(search: &Search<'_>) -> Result<(), &'static str> {
    super::slow(search)?;
    // Split regions that keep the limit may take noticeably longer than recomputation.
    match search.pool.best().filter(|_| search.pool.best_is_free()) {
        Some(best) if !is_split(&best.module) => Err("a plan without recomputation keeps the limit"),
        _ => Ok(()),
    }
}

/// Offers the plan within the limit, or records the refusal.
pub(super) fn seek(search: &mut Search<'_>) -> Result<(), PipelineError> {
    // If another plan keeps the limit, a short search is enough.
    let seek = if search.pool.best().is_some() { Seek::Soon } else { Seek::Longest };
    let settings = Settings { seek, ..search.settings() };
    let free = search.pool.free().clone();
    match within(search, &settings, &free) {
        Err(PipelineError::Pass(PassError::Budget(short))) => {
            search.pool.lacks(short);
            search.nothing("nodes not split");
        }
        found => {
            let found = found?;
            search.known.recomputed = Some(found.clone());
            search.offer("nodes not split", found);
        }
    }
    Ok(())
}

/// Checks that the plan that recomputes is slow and rewritten: rewriting may leave fewer values worth
/// recomputing.
pub(super) fn given_is_worth(search: &Search<'_>) -> Result<(), &'static str> {
    super::slow(search)?;
    match &search.known.recomputed {
        Some(found) if found.said.claims.has_rewritten() => Ok(()),
        Some(_) => Err("the plan with recomputation has the nodes as given"),
        // Rewriting changes the sums that give values back.
        None if search.model.options.encode.lossy.contains(&Lossy::Inverse) => Ok(()),
        None => Err("no plan recomputes without splitting operators"),
    }
}

/// Plans the nodes as given with a short search and offers the plan.
pub(super) fn of_given(search: &mut Search<'_>) -> Result<(), PipelineError> {
    let effort = Some(search.model.options.effort / search.tuning.short);
    let settings = Settings { effort, seek: Seek::Soon, fastest: search.pool.fastest(), ..search.settings() };
    let file_order = search.pool.file_order.clone();
    let found = of_given_nodes(search, &settings, &file_order);
    if let Some(found) = search.or_nothing("nodes as given, not split", found)? {
        search.offer("nodes as given, not split", found);
    }
    Ok(())
}

/// Checks that memory is unlimited and the best plan has equal nodes that are not merged.
pub(super) fn merging_is_worth(search: &Search<'_>) -> Result<(), &'static str> {
    let Some(best) = search.pool.best().filter(|_| search.wish.limit.is_none()) else {
        return Err("a memory limit is set");
    };
    if search.forms.transforms(Turn::Candidate).iter().any(|transform| transform.is_in(&best.module)) {
        return Err("equal nodes of a transform stay apart");
    }
    match has_equal_nodes(&Form::of_plan(search.model, best)) {
        Ok(false) => Err("the best plan has no equal nodes"),
        // The search meets this error again, and returns it.
        Ok(true) | Err(_) => Ok(()),
    }
}

/// Offers a plan that needs fewer bytes than the best plan and takes no more time; the solver decides
/// which equal nodes to merge.
pub(super) fn merge_again(search: &mut Search<'_>) -> Result<(), PipelineError> {
    let Some(best) = search.pool.best().cloned() else { return Ok(()) };
    let options = search.model.options;
    let limit = Some(Bytes(best.need(options).0.saturating_sub(1)));
    let effort = Some(options.effort / search.tuning.merging);
    let settings = Settings { limit, effort, seek: Seek::Soon, ..search.settings() };
    let found = within(search, &settings, &best);
    let Some(mut found) = search.or_nothing("equal nodes merged, some recomputed", found)? else {
        return Ok(());
    };
    // The user set no limit, so the plan reports none.
    found.said.budgeted = None;
    if found.nanos(options) <= best.nanos(options) {
        search.offer("equal nodes merged, some recomputed", found);
    }
    Ok(())
}

/// Checks that there is a slowdown and no limit.
pub(super) fn in_time_is_worth(search: &Search<'_>) -> Result<(), &'static str> {
    if search.wish.limit.is_some() {
        return Err("a memory limit is set");
    }
    if search.wish.slowdown > 0 { Ok(()) } else { Err("no time may be spent") }
}

/// Searches for smaller plans than the best one that keep the time limit: within half of its bytes, and then
/// in smaller steps.
pub(super) fn in_time(search: &mut Search<'_>) -> Result<(), PipelineError> {
    let options = search.model.options;
    let effort = Some(options.effort / search.tuning.merging);
    // Only plans that are faster than a known one count.
    let fastest = Some(slowed(search.model.nanos(), search.wish.slowdown).saturating_add(1));
    for share in search.tuning.steps_in_time {
        while let Some(best) = search.pool.best().cloned() {
            let need = best.need(options);
            let limit = Bytes(need.0 - (need.0 / share).max(1).min(need.0));
            let settings = Settings {
                limit: Some(limit),
                slowdown: 0,
                effort,
                seek: Seek::Soon,
                fastest,
                ..search.settings()
            };
            let name = format!("recomputed, 1/{share} less");
            let found = within(search, &settings, &best);
            let Some(mut found) = search.or_nothing(&name, found)? else { break };
            // The user set no byte limit, so the plan reports none.
            found.said.budgeted = None;
            if search.offer(name, found) != Verdict::Best {
                break;
            }
        }
    }
    Ok(())
}
