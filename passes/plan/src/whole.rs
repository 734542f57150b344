//! Plans of one form of the model without recomputing: an order, sub-views, places; and the choice among several forms.

use std::collections::BTreeSet;
use std::rc::Rc;

use memc_ir::{Bytes, Stage};
use memc_passes::{Changed, Pipeline, PipelineError, Settings, Silent, window};

use crate::goal::Goal;
use crate::model::{Form, Model, Planned, arena, is_no_worse};
use crate::registry::REGISTRY;
use crate::score::Score;
use crate::tuning::Tuning;
use crate::windows;

/// Passes that never raise the peak of a plan, run first.
pub(crate) const PREPARE: &str = "fold,canonicalize,dce,micro-batch,dce";
/// Merges equal nodes. A merged value lives longer, which can raise the peak.
pub(crate) const MERGE: &str = "cse,dce,";
/// Rewrites, and cleans up behind it.
pub(crate) const REWRITE: &str = "cse,dce,rewrite,fold,canonicalize,dce,cse,dce";
/// Lays images out in blocks of channels.
pub(crate) const BLOCKS: &str = "nchwc,dce";
/// Computes regions around the peak in parts.
pub(crate) const REGIONS: &str = "split,dce";
/// Aliases that an order builds on.
const VIEWS: &str = "view";
/// Orders nodes with some sub-views.
const ORDER: &str = "window,schedule";
/// Gives every value its bytes.
pub(crate) const PLACE: &str = "in-place,place";

/// The order of the file, cleaned up.
pub const FILE_ORDER: &str = "fold,dce,micro-batch,dce,view,in-place,place";

/// A form with its plan by heuristics.
pub(crate) struct Candidate<'m> {
    pub(crate) form: Rc<Form<'m>>,
    /// In the words of the log.
    pub(crate) name: &'static str,
    /// Whether equal nodes are merged: heuristics do better so.
    merges: bool,
    /// The sub-views with which heuristics do best, once they were looked for.
    views: Option<BTreeSet<usize>>,
    /// Its plan by heuristics, without sub-views.
    pub(crate) quick: Planned,
}

impl<'m> Candidate<'m> {
    /// Plans a form by heuristics, with equal nodes merged and apart, and keeps the smaller plan.
    ///
    /// # Errors
    /// The first pass that fails.
    pub(crate) fn of(form: Rc<Form<'m>>, name: &'static str, settings: &Settings) -> Result<Self, PipelineError> {
        let quick = Settings { effort: Some(0), windows: Some(BTreeSet::new()), below: None, ..settings.clone() };
        let plan = |merges: bool| Ok::<_, PipelineError>(form.then(&whole(merges), &quick)?.planned());
        let (mut best, mut merges) = (plan(true)?, true);
        if has_equal_nodes(&form)? {
            let apart = plan(false)?;
            let size = |plan: &Planned| Goal::Least.score(arena(&plan.module), peak(plan, &form), nodes(plan));
            if size(&apart) < size(&best) {
                (best, merges) = (apart, false);
            }
        }
        Ok(Self { form, name, merges, views: None, quick: best })
    }

    /// Modelled time.
    pub(crate) fn nanos(&self) -> u64 {
        self.quick.nanos(self.form.ctx.options)
    }

    /// The best score that an order of the form could have, sub-views aside.
    fn promise(&self, goal: &Goal) -> Score {
        goal.score(self.order_bound(), self.nanos(), 0)
    }

    /// Bytes below which no order goes.
    fn order_bound(&self) -> Bytes {
        Bytes(self.quick.said.reports.iter().map(|report| report.lower_bound).min().unwrap_or(0))
    }

    /// Bytes below which no plan of the form goes; sub-views can go below the bound of an order without them.
    fn bound(&mut self, settings: &Settings) -> Result<Bytes, PipelineError> {
        let has_views = !self.views(settings)?.is_empty();
        Ok(if has_views { Bytes(0) } else { self.order_bound() })
    }

    /// The sub-views with which heuristics do best.
    fn views(&mut self, settings: &Settings) -> Result<&BTreeSet<usize>, PipelineError> {
        let views = match self.views.take() {
            Some(views) => views,
            None => self.choose_views(settings)?,
        };
        Ok(self.views.insert(views))
    }

    fn choose_views(&self, settings: &Settings) -> Result<BTreeSet<usize>, PipelineError> {
        if !self.form.ctx.options.profile.windows {
            return Ok(BTreeSet::new());
        }
        let merge = if self.merges { MERGE } else { "" };
        let Form { module: prepared, mut ctx, .. } = self.form.then(&format!("{merge}{VIEWS}"), settings)?;
        let candidates = window::candidates(&prepared, &ctx);
        let quick = Settings { effort: Some(0), below: None, ..settings.clone() };
        let placed = Pipeline::parse(PLACE, Stage::Scheduled, REGISTRY)?.with(&quick);
        let options = ctx.options;
        windows::search(&prepared, &candidates, options, |views, below| {
            let mut trial = prepared.clone();
            let with = Settings { windows: Some(views), ..quick.clone() };
            ctx.said.reports.clear();
            Pipeline::parse(ORDER, trial.stage, REGISTRY)?.with(&with).run(&mut trial, &mut ctx, false, &mut Silent)?;
            if ctx.said.reports.iter().any(|report| report.value >= below) {
                return Ok(None);
            }
            placed.run(&mut trial, &mut ctx, false, &mut Silent)?;
            Ok(Some(trial))
        })
    }

    /// The plan that the whole effort finds, of arenas below a number of bytes where one is given: with sub-views, and without where those
    /// helped heuristics alone.
    ///
    /// # Errors
    /// The first pass that fails.
    pub(crate) fn plan(&mut self, settings: &Settings) -> Result<Planned, PipelineError> {
        let views = self.views(settings)?.clone();
        let is_plain = views.is_empty();
        let with = Settings { windows: Some(views), ..settings.clone() };
        let found = self.form.then(&whole(self.merges), &with)?.planned();
        if is_plain {
            return Ok(found);
        }
        let enough = arena(&found.module).0 + 1;
        let below = Some(settings.below.map_or(enough, |below| below.min(enough)));
        let plain = Settings { windows: Some(BTreeSet::new()), below, ..settings.clone() };
        let without = self.form.then(&whole(self.merges), &plain)?.planned();
        let size = |plan: &Planned| Goal::Least.score(arena(&plan.module), peak(plan, &self.form), 0);
        Ok(if size(&without) <= size(&found) { without } else { found })
    }
}

/// The passes from a form to a plan.
fn whole(merges: bool) -> String {
    format!("{}{VIEWS},{ORDER},{PLACE}", if merges { MERGE } else { "" })
}

fn peak(plan: &Planned, form: &Form<'_>) -> u64 {
    crate::peak::planned_peak(&plan.module, form.ctx.options).0
}

fn nodes(plan: &Planned) -> usize {
    plan.module.graph(plan.module.main()).nodes.len()
}

/// Whether a form has equal nodes. Merges them in a copy, whose plan may break; the copy is dropped.
pub(crate) fn has_equal_nodes(form: &Form<'_>) -> Result<bool, PipelineError> {
    Ok(form.clone().unverified().run("cse", &Settings::default())? != Changed::No)
}

/// The best plan of several forms under a goal, none of which may need more than the order of the file.
///
/// The form that promises most is planned with the whole effort; another one only if its bound, in its time, could still win, and
/// only for so few bytes that it does.
///
/// # Errors
/// The first pass that fails.
pub(crate) fn best(
    mut candidates: Vec<Candidate<'_>>,
    goal: &Goal,
    settings: &Settings,
    tuning: &Tuning,
    file_order: &Planned,
) -> Result<Option<Planned>, PipelineError> {
    let mut best: Option<Planned> = None;
    candidates.sort_by_key(|candidate| (candidate.promise(goal), candidate.quick.score(goal, candidate.form.ctx.options)));
    for candidate in &mut candidates {
        let options = candidate.form.ctx.options;
        let mut asked = settings.clone();
        if let Some(best) = &best {
            let (bound, nanos) = (candidate.bound(settings)?, candidate.nanos());
            let wins = |bytes: u64| goal.score(Bytes(bytes), nanos, 0) < best.score(goal, options);
            if !wins(bound.0) {
                continue;
            }
            let most = most(bound.0, candidate.quick.need(options).0, wins);
            asked.below = Some(asked.below.map_or(most + 1, |below| below.min(most + 1)));
            // Heuristics leave it behind: a short search says whether they are wrong.
            if candidate.quick.score(goal, options) > best.score(goal, options) {
                asked.effort = Some(settings.effort.unwrap_or(options.effort) / tuning.behind.max(1));
            }
        }
        let found = Planned { form: candidate.name, ..candidate.plan(&asked)? };
        let is_better = best.as_ref().is_none_or(|best| found.score(goal, options) < best.score(goal, options));
        if is_better && is_no_worse(&found.module, &file_order.module, options) {
            best = Some(found);
        }
    }
    let Some(first) = candidates.iter().find(|_| best.is_none()) else { return Ok(best) };
    // Rewriting and merging can keep values without a size for longer, or make more of them: try the nodes apart.
    let plain = Settings { windows: Some(BTreeSet::new()), ..settings.clone() };
    let options = first.form.ctx.options;
    let apart = candidates.iter().map(|candidate| Ok::<_, PipelineError>(candidate.form.then(&whole(false), &plain)?.planned()));
    for apart in apart {
        let apart = apart?;
        if is_no_worse(&apart.module, &file_order.module, options) {
            return Ok(Some(apart));
        }
    }
    Ok(None)
}

/// Largest number from `bound` to `known` for which `holds` is true, if it is true for all smaller ones.
fn most(bound: u64, known: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (bound, known.max(bound));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if holds(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

/// Plans the file's order, the upper bound of every plan without a limit. Nothing is rewritten. Blocks and parts of the batch are asked for by name,
/// so their workspace and copies are part of the bound; integer kernels are for less memory, so they are not. Cleaning up may raise the peak, where
/// the runtime keeps unread results to the end: then the file is planned unchanged.
///
/// # Errors
/// The first pass that fails.
pub(crate) fn file_order(model: &Model<'_>, settings: &Settings) -> Result<Planned, PipelineError> {
    let has_blocks = model.options.rewrite.nchwc.is_some();
    let (kernels, blocks) = if has_blocks { ("canonicalize,", "nchwc,") } else { ("", "") };
    let cleaned = format!("fold,{kernels}dce,micro-batch,{blocks}dce,view,{PLACE}");
    let plan = |passes: &str| Ok::<_, PipelineError>(Form::given(model).then(passes, settings)?.planned());
    let cleaned = plan(&cleaned)?;
    if has_blocks || settings.parts.is_some() {
        return Ok(cleaned);
    }
    let given = plan(&format!("view,{PLACE}"))?;
    let is_smaller =
        is_no_worse(&given.module, &cleaned.module, model.options) && !is_no_worse(&cleaned.module, &given.module, model.options);
    Ok(if is_smaller { given } else { cleaned })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_bytes_with_which_something_holds_are_found_by_halving() {
        assert_eq!(most(0, 100, |bytes| bytes < 37), 36);
        assert_eq!(most(10, 100, |_| true), 100);
        assert_eq!(most(10, 5, |bytes| bytes <= 10), 10);
    }
}
