//! Plans of whole nodes within a limit: what does not fit is recomputed, transferred or kept as a code.

use std::collections::BTreeSet;

use memc_ir::Bytes;
use memc_passes::{PassError, PipelineError, Seek, Settings, Shortage, Turn};

use crate::model::{Form, Planned};
use crate::search::Search;
use crate::split::is_split;
use crate::whole::{MERGE, PLACE, has_equal_nodes};

/// Returns the plan within a limit, given a plan `free` that needs more.
///
/// The plan is rewritten if `free` was, and takes over the sub-views of `free`. Equal nodes are merged
/// first; the plan may split them again if that pays. If a short search finds no plan, equal nodes stay
/// apart and the search goes on, except for [`Seek::Soon`]. If a known arena is hardly larger than the bound
/// of merged nodes, which the limit lies below, the search for the smallest plan is skipped.
///
/// # Errors
/// Returns the error of the first pass that fails; [`PassError::Budget`] with the need of the smallest
/// plan if no plan keeps the limit.
pub(crate) fn within(
    search: &Search<'_>,
    settings: &Settings,
    free: &Planned,
) -> Result<Planned, PipelineError> {
    let smallest = Some(search.pool.smallest()).filter(|least| *least < Bytes(u64::MAX));
    let settings =
        Settings { smallest, fastest: settings.fastest.or(search.pool.fastest()), ..settings.clone() };
    // Start from merged nodes, or from rewritten nodes if the unlimited plan is rewritten.
    let limited = Limited { search, settings: &settings, free };
    let is_rewritten = free.said.claims.has_rewritten();
    let first = if is_rewritten { Way::Rewritten } else { Way::Merged };
    let ends_soon = settings.seek == Seek::Soon;
    let is_only = !ends_soon && !is_rewritten && !has_equal_nodes(&*search.forms.prepared(&settings)?)?;
    let mut short = match limited.plan(first, if is_only { Seek::Longest } else { Seek::Soon }, None) {
        Err(PipelineError::Pass(PassError::Budget(short))) if !is_only && !ends_soon => short,
        other => return other,
    };
    let near = |bound: Bytes| Bytes(bound.0.saturating_add(bound.0 / search.tuning.small_overhead));
    let is_beaten =
        |short: &Shortage| is_hopeless(short) && smallest.is_some_and(|known| known <= near(short.bound));
    if is_beaten(&short) {
        // A bound of rewritten nodes need not hold for the given nodes.
        let other = if is_rewritten {
            or_short(limited.plan(Way::Apart, Seek::Soon, None), &mut short)?
        } else {
            None
        };
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

/// Plans the nodes as given within a limit, with equal nodes merged first, by a short search.
///
/// # Errors
/// As [`within`].
pub(crate) fn of_given_nodes(
    search: &Search<'_>,
    settings: &Settings,
    free: &Planned,
) -> Result<Planned, PipelineError> {
    Limited { search, settings, free }.plan(Way::Merged, Seek::Soon, None)
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
        let prepared = self.search.forms.prepared(&settings)?;
        let form = match way {
            Way::Rewritten => self.search.forms.rewritten(&prepared, &settings)?,
            Way::Merged => Some(self.search.forms.then(&prepared, MERGE, &Settings::default())?),
            Way::Apart | Way::FileOrder => None,
        };
        let mut transforms = self.search.forms.transforms(Turn::Candidate);
        transforms.retain(|transform| transform.is_in(&self.free.module));
        let mut form = self.search.forms.laid_out(form.unwrap_or(prepared), settings.limit)?;
        for transform in transforms.iter().filter(|_| way == Way::Rewritten) {
            let count = |form: &Form<'_>| form.module.graph(form.module.main()).nodes.len().max(1) as u64;
            let given = count(&form);
            form = self.search.forms.then(&form, transform.passes, &Settings::default())?;
            // Search in about the time that the form without the transform would take.
            let effort = settings.effort.unwrap_or(self.search.model.options.effort);
            settings.effort = Some((effort / count(&form) * given).min(effort));
        }
        // Sub-views of a module with split regions refer to values that do not exist here.
        let none = BTreeSet::new();
        let named =
            if is_split(&self.free.module) || !transforms.is_empty() { &none } else { &self.free.windows };
        planned_within(&form, named, way != Way::FileOrder, &settings)
    }
}

/// Plans a form within a limit, with the given sub-views; `orders` says whether to schedule first.
///
/// # Errors
/// Returns the error of the first pass that fails; [`PassError::Budget`] if no plan is found.
pub(crate) fn planned_within(
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
fn or_short(
    found: Result<Planned, PipelineError>,
    least: &mut Box<Shortage>,
) -> Result<Option<Planned>, PipelineError> {
    match found {
        Err(PipelineError::Pass(PassError::Budget(short))) => {
            let (bound, own) = (least.bound, short.bound);
            *least = if least.least <= short.least {
                least.clone().with_bound(own)
            } else {
                short.with_bound(bound)
            };
            Ok(None)
        }
        found => found.map(Some),
    }
}
