//! Attempts: one plan for one capacity, written into the module and placed by heuristics.

use std::sync::Arc;

use memc_ir::{Bytes, Module, SecondaryMap, Value};
use memc_ops::Data;
use memc_solve::{Limit, budget};

use super::realize::realize;
use super::state::Stated;
use super::trial::{arena, fresh};
use memc_passes::{Budgeted, Claims, PassContext, PassError, window};

/// A plan and the module that carries it out.
pub(crate) struct Found {
    /// The module with copies, before its results get offsets.
    pub(crate) module: Module,
    /// Known elements, copies included.
    pub(crate) data: SecondaryMap<Value, Option<Arc<Data>>>,
    /// Arena of a heuristic placement, in bytes; searches may find a smaller one.
    pub(crate) arena: Bytes,
    pub(crate) plan: budget::Plan,
    /// Peak in bytes, as the solver counts it; at most the arena.
    pub(crate) peak: u64,
    pub(crate) budgeted: Budgeted,
    /// Values that lie as codes.
    pub(crate) claims: Claims,
    pub(crate) edits: u64,
}

/// Solves for a capacity, writes the plan into the module and places it by heuristics; `None` if the
/// solver finds no plan.
pub(crate) fn attempt(
    module: &Module,
    ctx: &PassContext<'_>,
    stated: &Stated,
    capacity: u64,
    effort: u64,
) -> Result<Option<Found>, PassError> {
    attempt_from(module, ctx, stated, capacity, effort, None)
}

/// Like [`attempt`], but improves the plan `from` for this capacity, if there is one.
pub(crate) fn attempt_from(
    module: &Module,
    ctx: &PassContext<'_>,
    stated: &Stated,
    capacity: u64,
    effort: u64,
    from: Option<&Found>,
) -> Result<Option<Found>, PassError> {
    let (limit, stop) = (Limit::nodes(effort), &ctx.options.stop);
    let outcome = match from {
        Some(from) => budget::improve(&stated.problem, capacity, &from.plan, limit, stop),
        None => budget::solve_until(&stated.problem, capacity, limit, stop),
    };
    let outcome = outcome.map_err(refused)?;
    let Some(plan) = outcome.solution else { return Ok(None) };
    let found = carry_out(module, ctx, stated, capacity, plan)?;
    let budgeted = Budgeted { stop: outcome.stop.as_str(), effort: outcome.effort, ..found.budgeted };
    Ok(Some(Found { budgeted, ..found }))
}

/// Changes a plan until it keeps a smaller capacity; `None` if that fails or the plan has transfers.
pub(crate) fn narrowed(
    module: &Module,
    ctx: &PassContext<'_>,
    stated: &Stated,
    capacity: u64,
    from: &Found,
) -> Result<Option<Found>, PassError> {
    if moves(from) {
        return Ok(None);
    }
    let plan = budget::tighten(&stated.problem, capacity, &from.plan, Limit::nodes(0), &ctx.options.stop)
        .map_err(refused)?;
    let Some(plan) = plan else { return Ok(None) };
    let found = carry_out(module, ctx, stated, capacity, plan)?;
    let Budgeted { stop, effort, .. } = from.budgeted;
    Ok(Some(Found { budgeted: Budgeted { stop, effort, ..found.budgeted }, ..found }))
}

/// Returns whether a plan has transfers.
fn moves(found: &Found) -> bool {
    found.plan.events.iter().any(|event| !matches!(event, budget::Event::Run(_)))
}

/// Changes a plan so that each run leaves its margin of the capacity free; with zero effort, as little
/// as possible. A plan with transfers is solved again from scratch. `None` if there is no such plan.
pub(crate) fn tightened(
    module: &Module,
    ctx: &PassContext<'_>,
    stated: &Stated,
    margins: &[u64],
    from: &Found,
    effort: u64,
) -> Result<Option<Found>, PassError> {
    let mut problem = stated.problem.clone();
    for (run, margin) in problem.runs.iter_mut().zip(margins) {
        run.scratch = run.scratch.saturating_add(*margin);
    }
    let (capacity, limit, stop) = (from.budgeted.capacity, Limit::nodes(effort), &ctx.options.stop);
    let plan = match moves(from) {
        true => budget::solve_until(&problem, capacity, limit, stop).map_err(refused)?.solution,
        false => budget::tighten(&problem, capacity, &from.plan, limit, stop).map_err(refused)?,
    };
    let Some(plan) = plan else { return Ok(None) };
    // The margins were only added to steer the solver: measure the plan without them.
    let plan =
        budget::measure(&stated.problem, &plan.events).map_err(|violation| wrong(&violation.to_string()))?;
    let found = carry_out(module, ctx, stated, capacity, plan)?;
    let Budgeted { rounds, stop, effort, .. } = from.budgeted;
    Ok(Some(Found { budgeted: Budgeted { rounds: rounds + 1, stop, effort, ..found.budgeted }, ..found }))
}

/// Inserts the copies of a plan and places it by heuristics; takes sub-views if they make the arena
/// smaller.
fn carry_out(
    module: &Module,
    ctx: &PassContext<'_>,
    stated: &Stated,
    capacity: u64,
    plan: budget::Plan,
) -> Result<Found, PassError> {
    budget::check(&stated.problem, capacity, &plan).map_err(|violation| wrong(&violation.to_string()))?;
    let mut realized = module.clone();
    let mut trial = fresh(ctx);
    let mut edits = realize(&mut realized, &mut trial, stated, &plan.events);
    let mut least = arena(&realized, &trial, 0)?;
    let mut windowed = realized.clone();
    let aliases = window::take(&mut windowed, &trial, &stated.sub_views);
    if aliases > 0 {
        let less = arena(&windowed, &trial, 0)?;
        if less < least {
            (realized, least, edits) = (windowed, less, edits + aliases);
        }
    }
    let budgeted = Budgeted {
        base_cost: stated.problem.runs.iter().map(|run| run.cost).sum::<u64>().saturating_mul(stated.unit),
        makespan: plan.makespan.saturating_mul(stated.unit),
        lower_bound: 0,
        capacity,
        rounds: 1,
        stop: "",
        effort: 0,
    };
    let peak = plan.peak.min(least.0);
    let claims = trial.said.claims;
    Ok(Found { module: realized, data: trial.data, arena: least, plan, peak, budgeted, claims, edits })
}

fn refused(error: budget::BudgetError) -> PassError {
    match error {
        budget::BudgetError::TooLarge => PassError::TooLarge { pass: super::INFO.name },
        other => wrong(&other.to_string()),
    }
}

fn wrong(why: &str) -> PassError {
    PassError::WrongAnswer { pass: super::INFO.name, why: why.to_owned() }
}
