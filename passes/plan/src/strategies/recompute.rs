//! Plans that recompute or move values that do not fit, without splitting operators.

use std::collections::BTreeSet;

use memc_ir::Bytes;
use memc_passes::{PassError, PipelineError, Seek, Settings, Shortage, Turn};

use crate::goal::slowed;
use crate::model::{Form, Planned};
use crate::pool::Verdict;
use crate::search::Search;
use crate::split::is_split;
use crate::whole::{MERGE, PLACE, has_equal_nodes};

/// Checks that the limit needs recomputation.
pub(super) fn is_worth(search: &Search<'_>) -> Result<(), &'static str> {
    super::slow(search)?;
    let free = search.pool.best().filter(|best| ["order", "front"].contains(&best.strategy));
    // Split regions that keep the limit may take noticeably longer than recomputation.
    match free {
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
        found => _ = search.offer("nodes not split", found?),
    }
    Ok(())
}

/// Checks that the plan that recomputes is slow and rewritten: rewriting may leave fewer values worth
/// recomputing.
pub(super) fn given_is_worth(search: &Search<'_>) -> Result<(), &'static str> {
    super::slow(search)?;
    match search.found("recompute") {
        Some(found) if found.said.claims.has_rewritten() => Ok(()),
        Some(_) => Err("the plan with recomputation has the nodes as given"),
        None => Err("no plan recomputes without splitting operators"),
    }
}

/// Plans the nodes as given with a short search and offers the plan.
pub(super) fn of_given(search: &mut Search<'_>) -> Result<(), PipelineError> {
    let effort = Some(search.model.options.effort / search.tuning.short);
    let settings = Settings { effort, seek: Seek::Soon, fastest: search.pool.fastest(), ..search.settings() };
    let file_order = search.pool.file_order.clone();
    let limited = Limited { search, settings: &settings, free: &file_order };
    let found = limited.plan(Way::Merged, Seek::Soon, None);
    if let Some(found) = search.or_nothing("nodes as given, not split", found)? {
        search.offer("nodes as given, not split", found);
    }
    Ok(())
}

/// Checks that memory is unlimited and the best plan has equal nodes that are not merged.
pub(super) fn merging_is_worth(search: &Search<'_>) -> Result<(), &'static str> {
    let Some(best) = search.pool.best().filter(|_| search.wish.limit.is_none()) else { return Err("a memory limit is set") };
    if search.transforms(Turn::Candidate).iter().any(|transform| transform.is_in(&best.module)) {
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
    let Some(mut found) = search.or_nothing("equal nodes merged, some recomputed", found)? else { return Ok(()) };
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
            let settings = Settings { limit: Some(limit), slowdown: 0, effort, seek: Seek::Soon, fastest, ..search.settings() };
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

/// Returns the plan within a limit, given a plan `free` that needs more.
///
/// The plan is rewritten if `free` was, and takes over the sub-views of `free`. Equal nodes are merged
/// first; the plan may split them again if that pays. If a short search finds no plan, equal nodes stay
/// apart and the search goes on, except for [`Seek::Soon`]. If a known arena is no larger than the bound
/// of merged nodes, the search for the smallest plan is skipped.
///
/// # Errors
/// Returns the error of the first pass that fails; [`PassError::Budget`] with the need of the smallest
/// plan if no plan keeps the limit.
pub(super) fn within(search: &Search<'_>, settings: &Settings, free: &Planned) -> Result<Planned, PipelineError> {
    let smallest = Some(search.pool.smallest()).filter(|least| *least < Bytes(u64::MAX));
    let settings = Settings { smallest, fastest: settings.fastest.or(search.pool.fastest()), ..settings.clone() };
    // Start from merged nodes, or from rewritten nodes if the unlimited plan is rewritten.
    let limited = Limited { search, settings: &settings, free };
    let is_rewritten = free.said.claims.has_rewritten();
    let first = if is_rewritten { Way::Rewritten } else { Way::Merged };
    let ends_soon = settings.seek == Seek::Soon;
    let is_only = !ends_soon && !is_rewritten && !has_equal_nodes(&*search.prepared(&settings)?)?;
    let mut short = match limited.plan(first, if is_only { Seek::Longest } else { Seek::Soon }, None) {
        Err(PipelineError::Pass(PassError::Budget(short))) if !is_only && !ends_soon => short,
        other => return other,
    };
    let is_beaten = |short: &Shortage| smallest.is_some_and(|known| known <= short.bound);
    if is_beaten(&short) {
        // A bound of rewritten nodes need not hold for the given nodes.
        let other = if is_rewritten { or_short(limited.plan(Way::Apart, Seek::Soon, None), &mut short)? } else { None };
        if let Some(found) = other {
            return Ok(found);
        }
        if is_beaten(&short) {
            return Err(PipelineError::Pass(PassError::Budget(short)));
        }
    }
    // A bound of merged nodes also holds for nodes apart: a plan may run a merged node again in place of
    // each equal node.
    if !is_rewritten && is_hopeless(&short) {
        return limited.plan(first, Seek::Least, None);
    }
    // The smallest plan says whether longer searches are worth it. The first form gives the smallest
    // plans.
    let mut least = short;
    let smallest = or_short(limited.plan(first, Seek::Least, None), &mut least)?;
    let near = least.budget.0.saturating_add(least.budget.0 / search.tuning.far_from_limit);
    let is_far = smallest.is_none() && least.least.0 > near;
    for way in [Way::Apart, Way::FileOrder] {
        if is_far || way == Way::FileOrder && is_hopeless(&least) {
            break;
        }
        if let Some(found) = or_short(limited.plan(way, Seek::Fully, None), &mut least)? {
            let faster = |smallest: &Planned| search.pool.score(smallest) < search.pool.score(&found);
            return Ok(smallest.filter(faster).unwrap_or(found));
        }
    }
    if let Some(smallest) = smallest {
        return Ok(smallest);
    }
    // The smallest plans of the other forms only matter below the smallest one known.
    for way in [Way::Apart, Way::FileOrder] {
        if way == Way::FileOrder && (is_far || is_hopeless(&least)) {
            break;
        }
        let known = Some(least.least);
        if let Some(found) = or_short(limited.plan(way, Seek::Least, known), &mut least)? {
            return Ok(found);
        }
    }
    Err(PipelineError::Pass(PassError::Budget(least)))
}

/// Start of a search within a limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Equal nodes are merged.
    Merged,
    /// Equal nodes stay apart.
    Apart,
    /// Equal nodes stay apart, in file order: the best order without a limit need not be the best order
    /// for recomputation.
    FileOrder,
    /// Nodes are rewritten.
    Rewritten,
}

/// A search within one limit.
struct Limited<'s, 'm> {
    search: &'s Search<'m>,
    settings: &'s Settings,
    free: &'s Planned,
}

impl Limited<'_, '_> {
    fn plan(&self, way: Way, seek: Seek, smallest: Option<Bytes>) -> Result<Planned, PipelineError> {
        let mut settings = Settings { seek, smallest, ..self.settings.clone() };
        let prepared = self.search.prepared(&settings)?;
        let form = match way {
            Way::Rewritten => self.search.rewritten(&prepared, &settings)?,
            Way::Merged => Some(self.search.form(&prepared, MERGE, &Settings::default())?),
            Way::Apart | Way::FileOrder => None,
        };
        let mut transforms = self.search.transforms(Turn::Candidate);
        transforms.retain(|transform| transform.is_in(&self.free.module));
        let mut form = self.search.laid_out(form.unwrap_or(prepared), settings.limit)?;
        for transform in transforms.iter().filter(|_| way == Way::Rewritten) {
            let count = |form: &Form<'_>| form.module.graph(form.module.main()).nodes.len().max(1) as u64;
            let given = count(&form);
            form = self.search.form(&form, transform.passes, &Settings::default())?;
            // Search in about the time that the form without the transform would take.
            let effort = settings.effort.unwrap_or(self.search.model.options.effort);
            settings.effort = Some((effort / count(&form) * given).min(effort));
        }
        // Sub-views of a module with split regions refer to values that do not exist here.
        let none = BTreeSet::new();
        let named = if is_split(&self.free.module) || !transforms.is_empty() { &none } else { &self.free.windows };
        planned_within(&form, named, way != Way::FileOrder, &settings)
    }
}

/// Plans a form within a limit, with the given sub-views; `orders` says whether to schedule first.
///
/// # Errors
/// Returns the error of the first pass that fails; [`PassError::Budget`] if no plan is found.
pub(super) fn planned_within(
    form: &Form<'_>,
    views: &BTreeSet<(memc_ir::Node, memc_ir::Value)>,
    orders: bool,
    settings: &Settings,
) -> Result<Planned, PipelineError> {
    let mut form = form.then("view", &Settings::default())?;
    let windows = Some(form.numbers_of(views));
    form.run("window", &Settings { windows, ..Settings::default() })?;
    form.run(&format!("{}budget,{PLACE}", if orders { "schedule," } else { "" }), settings)?;
    Ok(form.planned())
}

/// Returns whether the bound proves that no plan keeps the limit.
fn is_hopeless(short: &Shortage) -> bool {
    short.bound > short.budget
}

/// Returns the plan, or `None` after merging the refusal into `least`, which keeps the smaller plan.
fn or_short(found: Result<Planned, PipelineError>, least: &mut Box<Shortage>) -> Result<Option<Planned>, PipelineError> {
    match found {
        Err(PipelineError::Pass(PassError::Budget(short))) => {
            let (bound, own) = (least.bound, short.bound);
            *least = if least.least <= short.least { least.clone().with_bound(own) } else { short.with_bound(bound) };
            Ok(None)
        }
        found => found.map(Some),
    }
}
