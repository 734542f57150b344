//! Plans without recomputation: orders, sub-views and places of one form of the model, and the choice
//! among forms.

use std::collections::BTreeSet;
use std::sync::Arc;

use memc_ir::{Bytes, Stage};
use memc_passes::{Changed, Pipeline, PipelineError, Settings, Silent, Transform, Turn, window};

use crate::forms::Forms;
use crate::goal::{Goal, slowed};
use crate::model::{Form, Model, Planned, arena, is_no_worse, pays_for_weights};
use crate::registry::REGISTRY;
use crate::score::Score;
use crate::tuning::Tuning;
use crate::windows;

/// Cleaning passes, which never raise the peak of a plan. They come first: they compute new weights from old
/// ones, which transforms may write in other forms.
pub(crate) const CLEAN: &str = "fold,canonicalize,dce,";
/// Merges equal nodes. A merged value lives longer, which can raise the peak.
pub(crate) const MERGE: &str = "cse,dce,";
/// Rewrites, and cleans up after the rewrite: equal fragments make equal weights.
pub(crate) const REWRITE: &str = "cse,dce,rewrite,fold,canonicalize,dce,cse,dce,tie";
/// Splits regions around the peak into parts, and keeps one of equal weights that parts make.
pub(crate) const REGIONS: &str = "split,dce,tie";
/// Makes the aliases that ordering relies on.
const VIEWS: &str = "view";
/// Takes some sub-views and orders the nodes.
const ORDER: &str = "window,schedule";
/// Shares bytes in place, and gives every value an offset.
pub(crate) const PLACE: &str = "in-place,place";

/// Plans the file order after cleaning up.
pub const FILE_ORDER: &str = "fold,dce,micro-batch,dce,view,in-place,place";

/// A form with its heuristic plan.
pub(crate) struct Candidate<'m> {
    pub(crate) form: Arc<Form<'m>>,
    /// Name in the log.
    pub(crate) name: &'static str,
    /// Whether equal nodes are merged: the choice with the smaller heuristic plan.
    merges: bool,
    /// Sub-views of the best heuristic plan; `None` until they are searched.
    views: Option<BTreeSet<usize>>,
    /// Full effort of this form, as a fraction of the usual one: numerator and denominator.
    effort: [u64; 2],
    /// Heuristic plan without sub-views.
    pub(crate) quick: Planned,
}

impl<'m> Candidate<'m> {
    /// Plans a form by heuristics, with equal nodes merged and apart, and keeps the smaller plan.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails.
    pub(crate) fn of(
        form: Arc<Form<'m>>,
        name: &'static str,
        settings: &Settings,
    ) -> Result<Self, PipelineError> {
        let quick =
            Settings { effort: Some(0), windows: Some(BTreeSet::new()), below: None, ..settings.clone() };
        let plan = |merges: bool| Ok::<_, PipelineError>(form.then(&whole(merges), &quick)?.planned());
        let apart =
            || Ok::<_, PipelineError>(if has_equal_nodes(&form)? { Some(plan(false)?) } else { None });
        let (merged, apart) = form.ctx.options.threads.both(|| plan(true), apart);
        let (mut best, mut merges) = (merged?, true);
        if let Some(apart) = apart? {
            let size =
                |plan: &Planned| Goal::Least.score(arena(&plan.module), peak(plan, &form), nodes(plan));
            if size(&apart) < size(&best) {
                (best, merges) = (apart, false);
            }
        }
        Ok(Self { form, name, merges, views: None, effort: [1, 1], quick: best })
    }

    /// Plans by heuristics a form with many more nodes than another candidate that it comes from. The form
    /// is planned in about the time of the other one: with less effort, with equal nodes apart, since equal
    /// cuts far apart would live long, and without sub-views.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails.
    pub(crate) fn larger(
        form: Arc<Form<'m>>,
        name: &'static str,
        from: &Self,
        settings: &Settings,
    ) -> Result<Self, PipelineError> {
        let views = Some(BTreeSet::new());
        let quick = Settings { effort: Some(0), windows: views.clone(), below: None, ..settings.clone() };
        let quick = form.then(&whole(false), &quick)?.planned();
        let effort = [nodes(&from.quick), nodes(&quick)].map(|count| count.max(1) as u64);
        Ok(Self { form, name, merges: false, views, effort, quick })
    }

    /// Returns the modelled time of the heuristic plan, in nanoseconds.
    pub(crate) fn nanos(&self) -> u64 {
        self.quick.nanos(self.form.ctx.options)
    }

    /// Returns the best possible score of an order of this form, without sub-views.
    fn promise(&self, goal: &Goal) -> Score {
        goal.score(self.order_bound(), self.nanos(), 0)
    }

    /// Returns the lower bound of all orders, in bytes.
    fn order_bound(&self) -> Bytes {
        Bytes(self.quick.said.reports.iter().map(|report| report.lower_bound).min().unwrap_or(0))
    }

    /// Returns the lower bound of all plans of this form, in bytes: zero if the form has sub-views,
    /// since these can go below the bound of an order without them.
    fn bound(&mut self, settings: &Settings) -> Result<Bytes, PipelineError> {
        let has_views = !self.views(settings)?.is_empty();
        Ok(if has_views { Bytes(0) } else { self.order_bound() })
    }

    /// Returns the sub-views of the best heuristic plan; searches for them on the first call.
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
            Pipeline::parse(ORDER, trial.stage, REGISTRY)?.with(&with).run(
                &mut trial,
                &mut ctx,
                false,
                &mut Silent,
            )?;
            if ctx.said.reports.iter().any(|report| report.value >= below) {
                return Ok(None);
            }
            placed.run(&mut trial, &mut ctx, false, &mut Silent)?;
            Ok(Some(trial))
        })
    }

    /// Plans with the full effort; with `below` set, only arenas below that number of bytes count. If
    /// sub-views helped heuristics, the form is also planned without them, and the smaller plan is
    /// returned.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails.
    pub(crate) fn plan(&mut self, settings: &Settings) -> Result<Planned, PipelineError> {
        let views = self.views(settings)?.clone();
        let is_plain = views.is_empty();
        let [numerator, denominator] = self.effort;
        let effort = settings.effort.unwrap_or(self.form.ctx.options.effort);
        let effort =
            Some(effort / denominator * numerator).filter(|_| numerator < denominator).or(settings.effort);
        let with = Settings { windows: Some(views), effort, ..settings.clone() };
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

/// Conditions of plans without recomputation.
pub(crate) struct Asked<'a, 'm> {
    pub(crate) forms: &'a Forms<'m>,
    pub(crate) tuning: &'a Tuning,
    /// Goal of the search that asks.
    pub(crate) goal: Goal,
    /// Upper bound of every plan without a limit.
    pub(crate) file_order: &'a Planned,
}

impl<'m> Asked<'_, 'm> {
    /// Returns candidates with rewritten nodes, and with regions split into parts. Blocks of channels
    /// come last: nodes in blocks have no rows to divide, but the parts of a region may be laid out in
    /// blocks.
    fn others(
        &self,
        prepared: &Arc<Form<'m>>,
        settings: &Settings,
    ) -> Result<Vec<Candidate<'m>>, PipelineError> {
        let rewritten = self.forms.all_rewritten(prepared, settings)?;
        let nanos = self.forms.model.options.total_nanos(&prepared.module);
        let time = settings.limit.is_none().then(|| self.longest(nanos, settings));
        let is_rewritten = !rewritten.is_empty();
        let timed = Settings { time, ..settings.clone() };
        let mut forms = Vec::new();
        // One search for regions after another: each starts from the trials of the one before.
        for form in if is_rewritten { rewritten } else { vec![prepared.clone()] } {
            let divided =
                if self.forms.model.may_split() { self.forms.divided(&form, &timed)? } else { None };
            forms.extend(divided.map(|form| (form, "regions")));
            forms.extend(is_rewritten.then_some((form, "rewritten")));
        }
        let candidate = |(form, name): &(Arc<Form<'m>>, &'static str)| {
            Candidate::of(self.forms.laid_out(form.clone(), settings.limit)?, name, settings)
        };
        self.forms.model.options.threads.each(&forms, candidate).into_iter().collect()
    }

    /// Returns the best candidate after a transform, or `None` if heuristics find that it saves nothing.
    fn transformed(
        &self,
        transform: &'static Transform,
        candidates: &[Candidate<'m>],
        goal: &Goal,
        settings: &Settings,
    ) -> Result<Option<Candidate<'m>>, PipelineError> {
        let score = |candidate: &Candidate<'_>| candidate.quick.score(goal, self.forms.model.options);
        let Some(best) = candidates.iter().min_by_key(|candidate| score(candidate)) else { return Ok(None) };
        let form = self.forms.then(&best.form, transform.passes, &Settings::default())?;
        if !transform.is_in(&form.module) {
            return Ok(None);
        }
        let found = Candidate::larger(form, transform.pass.name, best, settings)?;
        Ok((score(&found) < score(best)).then_some(found))
    }

    /// Returns the time that plans of a form may take, in nanoseconds: that of the form with the slowdown,
    /// but no more than the goal allows. Preparing a form may cost time, too.
    fn longest(&self, nanos: u64, settings: &Settings) -> u64 {
        let longest = slowed(nanos, settings.slowdown);
        self.goal.longest().map_or(longest, |most| longest.min(most))
    }

    /// Returns the best plan without recomputation among three kinds of forms: nodes as given,
    /// rewritten, and with regions split into parts. `rewrites` says whether the last two are tried.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails.
    pub(crate) fn plan(&self, settings: &Settings, rewrites: bool) -> Result<Planned, PipelineError> {
        let prepared = self.forms.prepared(settings)?;
        let given = || {
            Candidate::of(self.forms.laid_out(prepared.clone(), settings.limit)?, "nodes as given", settings)
        };
        let others = || if rewrites { self.others(&prepared, settings) } else { Ok(Vec::new()) };
        let (given, others) = self.forms.model.options.threads.both(given, others);
        let given = given?;
        let longest = self.longest(given.nanos(), settings);
        let need = arena(&given.quick.module);
        let goal = Goal::of_run(settings, self.forms.model.options, need, given.nanos()).within_time(longest);
        let mut candidates = vec![given];
        candidates.extend(others?);
        // Heuristic plans are a good enough measure to rank the other candidates; only the best of them
        // stays.
        candidates[1..].sort_by_key(|candidate| {
            let is_heavy =
                !pays_for_weights(&candidate.quick.module, &self.file_order.module, self.forms.model.options);
            (is_heavy, candidate.quick.score(&goal, self.forms.model.options))
        });
        candidates.truncate(2);
        for transform in self.forms.transforms(Turn::Candidate).into_iter().filter(|_| rewrites) {
            candidates.extend(self.transformed(transform, &candidates, &goal, settings)?);
        }
        let Some(best) = best(candidates, &goal, settings, self.tuning, self.file_order)? else {
            return Ok(self.file_order.clone());
        };
        let options = self.forms.model.options;
        let (peak, size) =
            (crate::peak::planned_peak(&self.file_order.module, options), arena(&self.file_order.module));
        let is_loose =
            peak.saturating_add(Bytes(options.space.alignment)) <= arena(&best.module) && peak < size;
        if !is_loose {
            return Ok(best);
        }
        // The file order's peak is below the best arena and below its own arena: a better placement of the
        // file order may win, so it gets the full effort.
        let placed = file_order(self.forms.model, settings)?;
        Ok(if placed.score(&goal, options) < best.score(&goal, options) { placed } else { best })
    }
}

/// Returns the passes from a form to a plan.
fn whole(merges: bool) -> String {
    format!("{}{VIEWS},{ORDER},{PLACE}", if merges { MERGE } else { "" })
}

fn peak(plan: &Planned, form: &Form<'_>) -> u64 {
    crate::peak::planned_peak(&plan.module, form.ctx.options).0
}

fn nodes(plan: &Planned) -> usize {
    plan.module.graph(plan.module.main()).nodes.len()
}

/// Returns whether a form has equal nodes, by merging them in an unverified copy.
pub(crate) fn has_equal_nodes(form: &Form<'_>) -> Result<bool, PipelineError> {
    Ok(form.clone().unverified().run("cse", &Settings::default())? != Changed::No)
}

/// Returns the best plan of several forms under a goal; no plan may need more than the file order.
///
/// The form with the best promise is planned with the full effort. Another form is planned only if its
/// bound, at its modelled time, could still win, and only for arenas small enough to win.
///
/// # Errors
/// Returns the error of the first pass that fails.
pub(crate) fn best(
    mut candidates: Vec<Candidate<'_>>,
    goal: &Goal,
    settings: &Settings,
    tuning: &Tuning,
    file_order: &Planned,
) -> Result<Option<Planned>, PipelineError> {
    let mut best: Option<Planned> = None;
    candidates.sort_by_key(|candidate| {
        (candidate.promise(goal), candidate.quick.score(goal, candidate.form.ctx.options))
    });
    for candidate in &mut candidates {
        let options = candidate.form.ctx.options;
        let mut asked = settings.clone();
        if let Some(best) = &best {
            let (bound, nanos) = (candidate.bound(settings)?, candidate.nanos());
            let known = best.score(goal, options);
            // Needs at small extents are known once the form is planned; until then they are taken as equal.
            let wins = |bytes: u64| goal.ranged(Bytes(bytes), nanos, 0, known.small) < known;
            if !wins(bound.0) {
                continue;
            }
            let most = most(bound.0, candidate.quick.need(options).0, wins);
            asked.below = Some(asked.below.map_or(most + 1, |below| below.min(most + 1)));
            // Heuristics rank this form lower: a short search checks that.
            if candidate.quick.score(goal, options) > best.score(goal, options) {
                asked.effort = Some(settings.effort.unwrap_or(options.effort) / tuning.behind.max(1));
            }
        }
        let found = Planned { form: candidate.name, ..candidate.plan(&asked)? };
        let is_better =
            best.as_ref().is_none_or(|best| found.score(goal, options) < best.score(goal, options));
        if is_better
            && is_no_worse(&found.module, &file_order.module, options)
            && pays_for_weights(&found.module, &file_order.module, options)
        {
            best = Some(found);
        }
    }
    let Some(first) = candidates.iter().find(|_| best.is_none()) else { return Ok(best) };
    // Rewriting and merging can extend the live range of values without a size, or add more of them: try
    // without merging.
    let plain = Settings { windows: Some(BTreeSet::new()), ..settings.clone() };
    let options = first.form.ctx.options;
    let apart = candidates
        .iter()
        .map(|candidate| Ok::<_, PipelineError>(candidate.form.then(&whole(false), &plain)?.planned()));
    for apart in apart {
        let apart = apart?;
        if is_no_worse(&apart.module, &file_order.module, options) {
            return Ok(Some(apart));
        }
    }
    Ok(None)
}

/// Returns the largest number from `bound` to `known` that satisfies `holds`, which must hold for every
/// smaller number. Takes O(log(known - bound)) calls.
fn most(bound: u64, known: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (bound, known.max(bound));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if holds(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

/// Plans the file order, the upper bound of every plan without a limit. No rules rewrite the nodes.
/// Transforms that the options ask for are part of the bound, with their workspace and copies; integer
/// kernels only serve to save memory, so they are not. Cleaning up may raise the peak if the runtime keeps
/// unread results to the end: then the unchanged file is planned.
///
/// # Errors
/// Returns the error of the first pass that fails.
pub(crate) fn file_order(model: &Model<'_>, settings: &Settings) -> Result<Planned, PipelineError> {
    let at = |turn| model.transforms().passes_at(turn, model.module);
    let asked = model.transforms().are_asked(model.module);
    let clean = if asked { CLEAN } else { "fold,dce," };
    let cleaned = format!("{clean}{}{}view,{PLACE}", at(Turn::Prepared), at(Turn::Laid));
    let plan = |passes: &str| Ok::<_, PipelineError>(Form::given(model).then(passes, settings)?.planned());
    let cleaned = plan(&cleaned)?;
    if asked || settings.parts.is_some() {
        return Ok(cleaned);
    }
    let given = plan(&format!("view,{PLACE}"))?;
    let is_smaller = is_no_worse(&given.module, &cleaned.module, model.options)
        && !is_no_worse(&cleaned.module, &given.module, model.options);
    Ok(if is_smaller { given } else { cleaned })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bisection_finds_the_most_bytes_that_satisfy_a_condition() {
        assert_eq!(most(0, 100, |bytes| bytes < 37), 36);
        assert_eq!(most(10, 100, |_| true), 100);
        assert_eq!(most(10, 5, |bytes| bytes <= 10), 10);
    }
}
