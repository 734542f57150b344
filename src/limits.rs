//! Requested limits in bytes, by space, and the errors of plans that exceed them.

use std::collections::BTreeMap;

use memc_ir::Bytes;
use memc_layout::Layout;

use crate::error::{EARLY, Error};
use crate::request::Resolved;

/// Limits in bytes, by space: of the first space and of farther ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) all: BTreeMap<String, u64>,
    first: String,
}

impl Limits {
    /// Largest arena of the first space: its limit or its capacity, whichever is smaller.
    pub(crate) fn room(&self, options: &Resolved<'_>) -> Option<Bytes> {
        let asked = self.all.get(&self.first).copied().map(Bytes);
        [asked, options.plan.space.capacity].into_iter().flatten().min()
    }

    /// Limits of farther spaces.
    pub(crate) fn far(&self) -> BTreeMap<String, Bytes> {
        self.all
            .iter()
            .filter(|(space, _)| **space != self.first)
            .map(|(space, bytes)| (space.clone(), Bytes(*bytes)))
            .collect()
    }
}

/// Rejects weights that exceed the capacity of the spaces that the target names for them.
///
/// Fetched weights lie in the space that they are fetched from; the other weights count with the arena.
/// Weights without a named space belong to the caller.
pub(crate) fn keep_weights(plan: &Layout, options: &Resolved<'_>) -> Result<(), Error> {
    let target = &options.plan.cost.target;
    if let Some(name) = &options.plan.weights {
        // A constant that is fetched twice lies there once.
        let weights = plan.far_constants().into_values().fold(0u64, u64::saturating_add);
        let capacity = target.space(name).and_then(|space| target.spaces.get(space)?.capacity);
        return match capacity.filter(|capacity| weights > capacity.0) {
            Some(room) => Err(Error::Weights { place: format!("`{name}`"), weights, room: room.0 }),
            None => Ok(()),
        };
    }
    let Some((names, Some(all))) = target.constants() else { return Ok(()) };
    let first = target.spaces.first().filter(|space| space.constants);
    let arena = plan
        .arenas
        .iter()
        .find(|arena| first.is_some_and(|first| first.name == arena.space))
        .map_or(0, |arena| arena.size);
    let room = all.0.saturating_sub(arena);
    if plan.weights <= room {
        return Ok(());
    }
    let listed = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ");
    let place = if arena > 0 { format!("{listed}, beside the arena,") } else { listed };
    Err(Error::Weights { place, weights: plan.weights, room })
}

/// Resolves the limits of the options; `whole` is 100 %.
///
/// # Errors
/// A limit names a space that the target does not have.
pub(crate) fn limits(options: &Resolved<'_>, whole: Bytes) -> Result<Limits, Error> {
    let first = &options.plan.space.name;
    let spaces: Vec<&String> =
        std::iter::once(&options.plan.space).chain(&options.plan.farther).map(|space| &space.name).collect();
    let mut all = BTreeMap::new();
    for budget in &options.request.budgets {
        let name = budget.space.as_ref().unwrap_or(first);
        if !spaces.contains(&name) {
            let known = spaces.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            return Err(Error::UnknownSpace { space: name.clone(), known });
        }
        all.insert(name.clone(), budget.size.resolve(whole));
    }
    Ok(Limits { all, first: first.clone() })
}

/// Largest arena of a space: its budget or its capacity, whichever is smaller.
fn limit(plan: &Layout, space: &str) -> Option<u64> {
    let capacity =
        plan.target.spaces.iter().find(|known| known.name == space).and_then(|space| space.capacity);
    [plan.budget.get(space).copied(), capacity].into_iter().flatten().min()
}

/// Rejects a plan whose arena exceeds a budget or the capacity of its space, and lists the tensors alive
/// at its peak.
///
/// `constants` are bytes that lie in the first space beside its arena; `is_early` says that searches
/// ended early by request.
pub(crate) fn keep_budget(plan: &Layout, constants: Bytes, is_early: bool) -> Result<(), Error> {
    for (index, arena) in plan.arenas.iter().enumerate() {
        let beside = if index == 0 { constants.0 } else { 0 };
        let size = arena.size.saturating_add(beside);
        let Some(budget) = limit(plan, &arena.space).filter(|limit| size > *limit) else { continue };
        let profile = memc_layout::LiveCurve::of(plan);
        let mut notes = Vec::new();
        if let Some(space) = profile.spaces.iter().find(|space| space.space == arena.space) {
            let node = plan.schedule.get(usize::try_from(space.peak_step).unwrap_or(usize::MAX));
            let node = node.map(|node| format!("\"{}\" ({})", node.node, node.op)).unwrap_or_default();
            notes.push(format!("the peak of {} is at step {}: {node}", Bytes(space.peak), space.peak_step));
            let mut alive: Vec<_> = space.alive_at(space.peak_step);
            alive.sort_by_key(|owner| (std::cmp::Reverse(owner.bytes), owner.tensor));
            let name = |owner: &memc_layout::Owner| {
                plan.tensors.get(owner.tensor).map_or("?", |tensor| tensor.name.as_str())
            };
            notes.extend(
                alive
                    .iter()
                    .take(8)
                    .map(|owner| format!("alive there: `{}`, {}", name(owner), Bytes(owner.bytes))),
            );
        }
        notes.extend(is_early.then(|| EARLY.to_owned()));
        let lower = plan.lower_bound.get(&arena.space);
        let bound = lower.and_then(|lower| lower.order).unwrap_or(0);
        return Err(Error::Budget { space: arena.space.clone(), budget, arena: size, bound, notes });
    }
    Ok(())
}
