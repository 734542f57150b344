//! The search for a plan whose arena, offsets included, keeps a budget: solve, carry out, place, and ask for less where offsets waste room.

use std::collections::BTreeSet;
use std::sync::Arc;

use memc_ir::{Bytes, Module, SecondaryMap, Value};
use memc_ops::Data;
use memc_solve::budget::bound::Bounding;
use memc_solve::{Limit, budget};

use super::realize::realize;
use super::shortage::shortage;
use super::state::{Stated, state};
use super::trial::{arena, fresh};
use crate::pass::{Budgeted, Changed, PassContext, PassError};
use crate::window::candidates;

/// So many plans are placed before the search for the smallest one begins.
const MAX_ROUNDS: u32 = 6;
/// So many plans are made for capacities between one that fits and one that does not, unless they are as close as this part of the budget.
const CLOSER_ROUNDS: u32 = 2;
const CLOSE: u64 = 200;
/// What offsets waste is learned with such a part of the effort.
const REHEARSAL: u64 = 8;
/// So many capacities are tried in the search for the smallest arena, each with such a part of the effort: most of them have no plan, which takes longest.
const LEAST_ROUNDS: u32 = 10;
const LEAST_SHARE: u64 = 25;

/// A plan that was carried out.
pub(crate) struct Found {
    /// The module with copies, before its results are placed.
    pub(crate) module: Module,
    /// Known elements, of copies too.
    pub(crate) data: SecondaryMap<Value, Option<Arc<Data>>>,
    /// The arena that placing it gives, or less.
    pub(crate) arena: Bytes,
    /// What the solver counts.
    pub(crate) peak: u64,
    pub(crate) budgeted: Budgeted,
    pub(crate) edits: u64,
}

/// The module as it came to the pass, with windows that copies do not have.
pub(crate) struct Given {
    pub(crate) module: Module,
    /// Its arena.
    pub(crate) arena: Bytes,
}

/// A plan whose arena is no larger than the budget. The constants of `fetched` lie in a farther space.
///
/// A short search learns at which capacity the offsets fit, and a whole one plans for that. Windows save bytes of which the solver does not know:
/// where the module came with some, the first capacity is larger by what they save.
///
/// # Errors
/// There is none, or none was found.
pub(crate) fn within(
    module: &Module,
    ctx: &PassContext<'_>,
    limit: Bytes,
    fetched: &[Value],
    given: Option<&Given>,
) -> Result<Found, PassError> {
    let stated = state(module, ctx.options, fetched);
    // The solver's sizes are whole multiples of the alignment; what lies on top need not fill its last one.
    let aligned = ctx.options.aligned(limit).0;
    let order: Vec<u32> = (0..stated.nodes.len() as u32).collect();
    let windowed = with_all_windows(module, ctx, &stated);
    let bounding = Bounding::new(&windowed, &order, aligned);
    let bound = working_set(&windowed).max(bounding.least_peak());
    // Whatever the plan was made for, its bound is that of the budget, in any order.
    let certified = |mut found: Found| {
        let makespan = found.budgeted.makespan;
        let least =
            bounding.any_order(ctx.options.stop.bounded(ctx.effort), makespan / stated.unit).map_or(0, |least| least.makespan);
        found.budgeted.lower_bound = least.saturating_mul(stated.unit).min(makespan);
        found
    };
    let saved = match given {
        Some(given) => arena(module, ctx, 0)?.0.saturating_sub(given.arena.0),
        None => 0,
    };
    let mut capacity = aligned.saturating_add(saved);
    let (mut best, mut effort): (Option<Found>, u64) = (None, ctx.effort / REHEARSAL);
    // The least capacity whose plan was too large once it was placed.
    let mut too_much = u64::MAX;
    for round in 0..MAX_ROUNDS {
        let is_whole = effort > ctx.effort / REHEARSAL;
        if capacity < bound {
            break;
        }
        let Some(mut found) = attempt(module, ctx, &stated, capacity, effort)? else {
            if is_whole {
                break;
            }
            effort = ctx.effort;
            continue;
        };
        found.budgeted.rounds = round + 1;
        settle_arena(&mut found, ctx, limit)?;
        if found.arena > limit {
            too_much = too_much.min(capacity);
            // What offsets waste is taken off the capacity; a plan that needs less than it was given starts from what it needs.
            capacity = capacity.min(found.peak).saturating_sub(found.arena.0 - limit.0);
            effort = if is_whole { effort / 2 } else { effort };
            continue;
        }
        if best.as_ref().is_none_or(|best| found.budgeted.makespan < best.budgeted.makespan) {
            best = Some(found);
        }
        if is_whole || ctx.options.stop.is_due() {
            break;
        }
        effort = ctx.effort;
    }
    if let Some(best) = best {
        return Ok(certified(closer(module, ctx, &stated, limit, best, too_much)?));
    }
    match least(module, ctx, &stated, bound)? {
        Some(found) if found.arena <= limit => Ok(certified(found)),
        found => {
            let bound = Bytes(bound.saturating_sub(stated.padding));
            let found = found.as_ref().map(|found| (found.arena, &found.module));
            let plans = found.into_iter().chain(given.map(|given| (given.arena, &given.module)));
            let smallest = plans.min_by_key(|(arena, _)| *arena).map_or(module, |(_, module)| module);
            Err(PassError::Budget(Box::new(shortage(smallest, ctx, &stated, limit, bound)?)))
        }
    }
}

/// Searches for a smaller arena of a plan that might fit; elsewhere heuristics have said enough.
fn settle_arena(found: &mut Found, ctx: &PassContext<'_>, limit: Bytes) -> Result<(), PassError> {
    if found.arena > limit && found.peak <= ctx.options.aligned(limit).0 {
        found.arena = arena(&found.module, ctx, ctx.effort)?;
    }
    Ok(())
}

/// A plan for a capacity between that of a plan that fits and one at which offsets wasted too much, if it takes less time.
fn closer(
    module: &Module,
    ctx: &PassContext<'_>,
    stated: &Stated,
    limit: Bytes,
    mut best: Found,
    mut too_much: u64,
) -> Result<Found, PassError> {
    let mut fits = best.budgeted.capacity;
    for _ in 0..CLOSER_ROUNDS {
        if too_much == u64::MAX || too_much.saturating_sub(fits) < limit.0 / CLOSE || ctx.options.stop.is_due() {
            break;
        }
        let capacity = fits.midpoint(too_much);
        let Some(mut found) = attempt(module, ctx, stated, capacity, ctx.effort / REHEARSAL)? else { break };
        settle_arena(&mut found, ctx, limit)?;
        if found.arena > limit {
            too_much = capacity;
            continue;
        }
        fits = capacity;
        if found.budgeted.makespan < best.budgeted.makespan {
            found.budgeted.rounds = best.budgeted.rounds + 1;
            best = found;
        }
    }
    Ok(best)
}

/// The problem as if every part that could lie in its whole did and took no bytes of its own: what no plan of this beats, none with windows does.
fn with_all_windows(module: &Module, ctx: &PassContext<'_>, stated: &Stated) -> budget::Problem {
    let mut problem = stated.problem.clone();
    let parts: BTreeSet<Value> = candidates(module, ctx).iter().map(|window| module.plan.owner(window.part).0).collect();
    for (value, _) in problem.values.iter_mut().zip(&stated.owners).filter(|(_, owner)| parts.contains(owner)) {
        value.size = 0;
    }
    problem
}

/// The plan with the smallest arena that a search over capacities finds. It depends on no budget, so that what is reported as reachable is.
fn least(module: &Module, ctx: &PassContext<'_>, stated: &Stated, bound: u64) -> Result<Option<Found>, PassError> {
    let (mut low, mut high) = (bound, arena(module, ctx, 0)?.0);
    let mut best: Option<Found> = None;
    for _ in 0..LEAST_ROUNDS {
        if low >= high {
            break;
        }
        let middle = low + (high - low) / 2;
        match attempt(module, ctx, stated, middle, ctx.effort / LEAST_SHARE)? {
            None => low = middle + 1,
            Some(found) => {
                high = middle.min(found.peak).max(low);
                let better = best.as_ref().is_none_or(|best| found.arena < best.arena);
                best = if better { Some(found) } else { best };
            }
        }
    }
    Ok(best)
}

/// Solves for a capacity, carries out the plan and places it by heuristics; `None` where the solver finds none.
pub(crate) fn attempt(
    module: &Module,
    ctx: &PassContext<'_>,
    stated: &Stated,
    capacity: u64,
    effort: u64,
) -> Result<Option<Found>, PassError> {
    let outcome = budget::solve_until(&stated.problem, capacity, Limit { nodes: effort }, ctx.options.stop).map_err(refused)?;
    let Some(plan) = outcome.solution else { return Ok(None) };
    budget::check(&stated.problem, capacity, &plan).map_err(|violation| wrong(&violation.to_string()))?;
    let mut realized = module.clone();
    let mut trial = fresh(ctx);
    let mut edits = realize(&mut realized, &mut trial, stated, &plan.events);
    let mut least = arena(&realized, &trial, 0)?;
    if let Some((windowed, aliases)) = with_windows(&realized, &mut trial)? {
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
        rounds: MAX_ROUNDS,
        stop: outcome.stop.as_str(),
        effort: outcome.effort,
    };
    Ok(Some(Found { module: realized, data: trial.data, arena: least, peak: plan.peak.min(least.0), budgeted, edits }))
}

/// The module with those of the chosen windows that are still legal, and how many aliases that takes; `None` where there are none.
fn with_windows(module: &Module, ctx: &mut PassContext<'_>) -> Result<Option<(Module, u64)>, PassError> {
    let mut windowed = module.clone();
    match (crate::window::INFO.run)(&mut windowed, ctx)? {
        Changed::Yes(edits) => Ok(Some((windowed, edits))),
        Changed::No => Ok(None),
    }
}

/// Bytes that every plan needs: the largest node with its operands, its results but for those that take over an operand, and its workspace;
/// and everything that is kept, which is all there at the end.
fn working_set(problem: &budget::Problem) -> u64 {
    let size = |value: &u32| problem.values[*value as usize].size;
    let need = problem.runs.iter().map(|run| {
        let made = run.writes.iter().filter(|value| problem.values[**value as usize].takes_over.is_empty()).map(size);
        run.reads.iter().map(size).chain(made).fold(run.scratch, u64::saturating_add)
    });
    let kept = problem.values.iter().filter(|value| value.kept).map(|value| value.size);
    need.max().unwrap_or(0).max(kept.fold(0, u64::saturating_add))
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
