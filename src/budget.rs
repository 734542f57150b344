//! Budgets: what the user asked for in bytes, a plan that keeps it, and what to say where a plan does not.

use std::collections::BTreeMap;
use std::sync::Arc;

use memc_ir::{Bytes, Module, SecondaryMap, Value};
use memc_layout::Layout;
use memc_ops::Data;
use memc_passes::{ExternalData, Observer, PassContext, Planned};

use crate::error::Error;
use crate::options::OptimizeOptions;

/// What is known of elements, as inference found it.
pub(crate) type Known = SecondaryMap<Value, Option<Arc<Data>>>;

/// The most that the arena of the first space may have: its budget, and no more than the space holds.
pub(crate) fn room(options: &OptimizeOptions, whole: Bytes) -> Result<Option<Bytes>, Error> {
    let asked = budget(options, whole)?.get(&options.plan.space.name).copied().map(Bytes);
    Ok([asked, options.plan.space.capacity].into_iter().flatten().min())
}

/// The plan, if its arena keeps the limit; else one that computes again what there is no room to keep.
pub(crate) fn within(
    given: &Module,
    planned: Planned,
    limit: Option<Bytes>,
    options: &OptimizeOptions,
    data: &Known,
    external: &dyn ExternalData,
    observer: &mut dyn Observer,
) -> Result<Planned, Error> {
    let Some(limit) = limit.filter(|limit| planned.module.plan.arenas.iter().any(|arena| arena.size > *limit)) else {
        return Ok(planned);
    };
    let own = memc_passes::Options { budget: Some(limit), ..options.plan.clone() };
    let fresh = |module: &Module| PassContext { external: Some(external), ..PassContext::new(&own, data.clone(), module) };
    let found = memc_passes::plan_within(given, fresh, !planned.rules.is_empty(), options.verify, observer)?;
    Ok(Planned { base: planned.base, ..found })
}

/// Budgets by space, in bytes.
pub(crate) fn budget(options: &OptimizeOptions, whole: Bytes) -> Result<BTreeMap<String, u64>, Error> {
    let first = &options.plan.space.name;
    let spaces: Vec<&String> =
        std::iter::once(&options.plan.space).chain(&options.plan.farther).map(|space| &space.name).collect();
    let mut budget = BTreeMap::new();
    for (space, size) in &options.budget {
        let name = if space.is_empty() { first } else { space };
        if !spaces.contains(&name) {
            let known = spaces.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            return Err(Error::UnknownSpace { space: space.clone(), known });
        }
        budget.insert(name.clone(), size.resolve(whole));
    }
    Ok(budget)
}

/// What the arena of a space may take: the budget, or what there is.
fn limit(plan: &Layout, space: &str) -> Option<u64> {
    let capacity = plan.target.spaces.iter().find(|known| known.name == space).and_then(|space| space.capacity);
    [plan.budget.get(space).copied(), capacity].into_iter().flatten().min()
}

/// Refuses a plan whose arena passes a budget or what its space holds, and says why it is that large.
pub(crate) fn keep_budget(plan: &Layout) -> Result<(), Error> {
    for arena in &plan.arenas {
        let Some(budget) = limit(plan, &arena.space).filter(|limit| arena.size > *limit) else { continue };
        let profile = memc_layout::Profile::of(plan);
        let mut notes = Vec::new();
        if let Some(space) = profile.spaces.iter().find(|space| space.space == arena.space) {
            let node = plan.schedule.get(usize::try_from(space.peak_step).unwrap_or(usize::MAX));
            let node = node.map(|node| format!("\"{}\" ({})", node.node, node.op)).unwrap_or_default();
            notes.push(format!("the peak of {} is at step {}: {node}", Bytes(space.peak), space.peak_step));
            let mut alive: Vec<_> = space.alive_at(space.peak_step);
            alive.sort_by_key(|owner| (std::cmp::Reverse(owner.bytes), owner.tensor));
            let name = |owner: &memc_layout::Owner| plan.tensors.get(owner.tensor).map_or("?", |tensor| tensor.name.as_str());
            notes.extend(alive.iter().take(8).map(|owner| format!("alive there: `{}`, {}", name(owner), Bytes(owner.bytes))));
        }
        let lower = plan.lower_bound.get(&arena.space);
        let bound = lower.and_then(|lower| lower.order).unwrap_or(0);
        return Err(Error::Budget { space: arena.space.clone(), budget, arena: arena.size, bound, notes });
    }
    Ok(())
}
