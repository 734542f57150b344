//! Budgets: what the user asked for in bytes, a plan that keeps it, and what to say where a plan does not.

use std::collections::BTreeMap;
use std::sync::Arc;

use memc_ir::{Bytes, Module, SecondaryMap, Value};
use memc_layout::{Layout, ParetoPoint};
use memc_ops::Data;
use memc_passes::analysis::near_constants;
use memc_passes::{ExternalData, Observer, PassContext, PassError, PipelineError, Planned, Silent};

use crate::error::{EARLY, Error};
use crate::options::{OptimizeOptions, Size};

/// What is known of elements, as inference found it.
pub(crate) type Known = SecondaryMap<Value, Option<Arc<Data>>>;

/// The most that the arena of the first space may have: its budget, and no more than the space holds.
pub(crate) fn room(options: &OptimizeOptions, whole: Bytes) -> Result<Option<Bytes>, Error> {
    let asked = budget(options, whole)?.get(&options.plan.space.name).copied().map(Bytes);
    Ok([asked, options.plan.space.capacity].into_iter().flatten().min())
}

/// A model whose budgets are planned.
pub(crate) struct Budgets<'a> {
    pub(crate) given: &'a Module,
    pub(crate) options: &'a OptimizeOptions,
    pub(crate) data: &'a Known,
    pub(crate) external: &'a dyn ExternalData,
}

impl Budgets<'_> {
    /// The plan, if its arena keeps the limit; else one that computes again what there is no room to keep.
    pub(crate) fn within(&self, planned: Planned, limit: Option<Bytes>, observer: &mut dyn Observer) -> Result<Planned, Error> {
        match limit.filter(|limit| self.need(&planned) > *limit) {
            None => Ok(planned),
            Some(limit) => {
                let found = self.plan(limit, &planned, observer)?;
                Ok(Planned { base: planned.base, ..found })
            }
        }
    }

    fn plan(&self, limit: Bytes, free: &Planned, observer: &mut dyn Observer) -> Result<Planned, PipelineError> {
        let own =
            memc_passes::Options { budget: Some(limit), far_budgets: far_budgets(self.options), ..self.options.plan.clone() };
        let fresh =
            |module: &Module| PassContext { external: Some(self.external), ..PassContext::new(&own, self.data.clone(), module) };
        memc_passes::plan_within(self.given, fresh, free, self.options.verify, observer)
    }

    /// What as many budgets as were asked for take, evenly from the smallest that is reachable to what the plan without a budget needs.
    ///
    /// A plan that fits a smaller budget takes the place of the one found there, and one that was found for a smaller budget and takes
    /// no more time that of a larger one: along the curve neither arena nor time ever goes the wrong way.
    pub(crate) fn sweep(&self, free: &Planned) -> Result<Vec<ParetoPoint>, Error> {
        let count = u64::from(self.options.pareto);
        if count == 0 {
            return Ok(Vec::new());
        }
        let whole = self.need(free).0;
        let base = self.nanos(free);
        let floor = match self.plan(Bytes(0), free, &mut Silent) {
            Err(PipelineError::Pass(PassError::Budget(short))) => short.least.0.min(whole),
            other => other.map(|_| 0)?,
        };
        let mut last = ParetoPoint { budget: whole, arena: whole, extra_ns: 0, bound: Some(0) };
        let mut points = vec![last];
        for step in 1..count {
            let budget = whole - ((u128::from(whole - floor) * u128::from(step)) / u128::from(count - 1)) as u64;
            if last.arena > budget {
                let found = match self.plan(Bytes(budget), free, &mut Silent) {
                    Ok(found) => found,
                    // What is reachable by one search need not be for another: the curve ends here.
                    Err(PipelineError::Pass(PassError::Budget(_))) => break,
                    Err(other) => return Err(other.into()),
                };
                let bound = found.budgeted.map(|budgeted| budgeted.lower_bound.saturating_sub(budgeted.base_cost));
                last =
                    ParetoPoint { budget, arena: self.need(&found).0, extra_ns: self.nanos(&found).saturating_sub(base), bound };
            }
            points.push(ParetoPoint { budget, ..last });
        }
        for index in (1..points.len()).rev() {
            let (smaller, larger) = (points[index], &mut points[index - 1]);
            if smaller.extra_ns <= larger.extra_ns {
                *larger = ParetoPoint { budget: larger.budget, bound: larger.bound, ..smaller };
            }
        }
        Ok(points)
    }

    /// Bytes of the first space: its arena, and constants where the plan says which of them lie there.
    fn need(&self, planned: &Planned) -> Bytes {
        let constants = self.options.plan.weights.as_ref().map(|_| near_constants(&planned.module));
        arena(planned).saturating_add(constants.unwrap_or_default())
    }

    /// Modelled time of a plan.
    fn nanos(&self, planned: &Planned) -> u64 {
        self.options.plan.cost.total_nanos(&planned.module).0.round() as u64
    }
}

/// Limits of farther spaces; a part of the whole means nothing there.
fn far_budgets(options: &OptimizeOptions) -> BTreeMap<String, Bytes> {
    let first = &options.plan.space.name;
    let sized = options.budget.iter().filter_map(|(space, size)| match size {
        Size::Bytes(bytes) if !space.is_empty() && space != first => Some((space.clone(), Bytes(*bytes))),
        _ => None,
    });
    sized.collect()
}

fn arena(planned: &Planned) -> Bytes {
    planned.module.plan.arenas.first().map(|arena| arena.size).unwrap_or_default()
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
///
/// `constants` are bytes that lie in the first space beside its arena; `is_early` says that searches were asked to end before they did.
pub(crate) fn keep_budget(plan: &Layout, constants: Bytes, is_early: bool) -> Result<(), Error> {
    for (index, arena) in plan.arenas.iter().enumerate() {
        let beside = if index == 0 { constants.0 } else { 0 };
        let size = arena.size.saturating_add(beside);
        let Some(budget) = limit(plan, &arena.space).filter(|limit| size > *limit) else { continue };
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
        notes.extend(is_early.then(|| EARLY.to_owned()));
        let lower = plan.lower_bound.get(&arena.space);
        let bound = lower.and_then(|lower| lower.order).unwrap_or(0);
        return Err(Error::Budget { space: arena.space.clone(), budget, arena: size, bound, notes });
    }
    Ok(())
}
