//! Plans in which values lie as codes between two uses, and nothing is recomputed.

use memc_ir::Bytes;
use memc_passes::encode::recipes;
use memc_passes::{PipelineError, Seek, Settings};

use crate::limited::planned_within;
use crate::model::{Form, Planned};
use crate::search::Search;

/// Checks that codes could win: memory has no limit, or the best plan is slow; and a value may have a
/// code.
pub(super) fn is_worth(search: &Search<'_>) -> Result<(), &'static str> {
    if search.wish.limit.is_some() {
        super::slow(search)?;
    }
    let options = search.model.options;
    let is_late = !options.encode.lossy.is_empty();
    let module = &search.pool.free().module;
    let uses = memc_ir::uses(module);
    let has_recipe =
        module.values().keys().any(|value| !recipes(module, options, &uses, value, is_late).is_empty());
    if has_recipe { Ok(()) } else { Err("no value has a code") }
}

/// Offers plans with codes: of the best plan, and of the plan whose batch and nodes are whole.
pub(super) fn seek(search: &mut Search<'_>) -> Result<(), PipelineError> {
    let free = search.pool.free().clone();
    let plain = search.known.ordered.clone().unwrap_or_else(|| free.clone());
    let best = search.pool.best().cloned().unwrap_or(free);
    let mut plans = vec![("best plan", best)];
    if plans[0].1.trace != plain.trace {
        plans.push(("plan without other changes", plain));
    }
    for (name, plan) in plans {
        match search.wish.limit {
            Some(limit) => within(search, &plan, limit, name)?,
            None => without_limit(search, &plan, name)?,
        }
    }
    Ok(())
}

/// Offers a plan with codes that keeps the limit.
fn within(search: &mut Search<'_>, plan: &Planned, limit: Bytes, name: &str) -> Result<(), PipelineError> {
    let found = coded(search, plan, limit, Seek::Soon);
    let name = format!("{name}, codes for the limit");
    if let Some(found) = search.or_nothing(&name, found)? {
        let found = search.pool.measured(found);
        search.offer(name, found);
    }
    Ok(())
}

/// Offers the smallest plan that the codes of a plan give; if its score is no better than that of the
/// plan, offers a plan with half of the saving.
fn without_limit(search: &mut Search<'_>, plan: &Planned, name: &str) -> Result<(), PipelineError> {
    let options = search.model.options;
    let whole = plan.need(options);
    let (all, half) = (format!("{name}, codes at the peak"), format!("{name}, codes for half of the saving"));
    let found = coded(search, plan, Bytes(whole.0.saturating_sub(1)), Seek::Least);
    let Some(smallest) = search.or_nothing(&all, found)? else { return Ok(()) };
    let (least, is_better) = (smallest.need(options), search.pool.score(&smallest) < search.pool.score(plan));
    search.offer(all, smallest);
    if is_better || least >= whole {
        return Ok(());
    }
    let found = coded(search, plan, Bytes(whole.0.midpoint(least.0)), Seek::Soon);
    if let Some(found) = search.or_nothing(&half, found)? {
        search.offer(half, found);
    }
    Ok(())
}

/// Plans the nodes of a plan in its order within a limit, with codes alone.
fn coded(search: &Search<'_>, plan: &Planned, limit: Bytes, seek: Seek) -> Result<Planned, PipelineError> {
    let limit = Some(limit);
    let smallest = limit.filter(|_| seek == Seek::Least);
    let effort = Some(search.model.options.effort / search.tuning.merging);
    let settings = Settings { limit, smallest, seek, only_codes: true, effort, ..search.settings() };
    let mut form = Form::of_plan(search.model, plan);
    form.run("reopen", &Settings::default())?;
    let mut found = planned_within(&form, &plan.windows, false, &settings)?;
    if search.wish.limit.is_none() {
        // The user set no limit, so the plan reports none.
        found.said.budgeted = None;
    }
    Ok(found)
}
