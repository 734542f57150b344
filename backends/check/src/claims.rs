//! Checks the numbers that the layout states: peaks, bounds, weights, counts, and the baseline.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{EntityId as _, Payload};
use memc_layout::{AliasKind, Class};

use crate::baseline;
use crate::bodies;
use crate::codes::Kind;
use crate::ctx::{Ctx, Steps};
use crate::findings::{At, Findings, exact};
use crate::last_rows;
use crate::levels::{Held, aligned_bound, highest, levels};
use crate::liveness::joined;
use crate::order_bound::order_bounds;
use crate::report::{SpaceSummary, Summary};

/// Checks all numbers and fills the summary.
pub(crate) fn check(ctx: &Ctx<'_>, recomputed: u64, findings: &mut Findings, summary: &mut Summary) {
    let mut spaces: BTreeSet<&str> = ctx.layout.arenas.iter().map(|arena| arena.space.as_str()).collect();
    spaces.extend(ctx.layout.tensors.iter().filter_map(|tensor| tensor.space.as_deref()));
    let stated = owners(ctx, |index| ctx.live[index].clone());
    let needed = owners(ctx, |index| ctx.derived[index].into_iter().collect());
    // Recomputation and transfers can go below the lower bound of pure reordering.
    let changed = recomputed > 0 || !ctx.layout.transfers.is_empty();
    let order = if changed { BTreeMap::new() } else { order_bounds(ctx) };
    for space in spaces {
        let empty = Vec::new();
        let found = space_summary(
            ctx,
            space,
            stated.get(space).unwrap_or(&empty),
            needed.get(space).unwrap_or(&empty),
            order.get(space).copied().unwrap_or(0),
        );
        peak(ctx, space, stated.get(space).unwrap_or(&empty), found, findings);
        bounds(ctx, space, found, stated.get(space).unwrap_or(&empty), changed, findings);
        summary.spaces.insert(space.to_owned(), found);
    }
    counts(ctx, recomputed, findings, summary);
    weights(ctx, findings, summary);
    baseline(ctx, findings, summary);
}

/// Returns the owners of bytes by space. An owner is in use while it or one of its aliases is live.
fn owners<'a>(ctx: &Ctx<'a>, live: impl Fn(usize) -> Vec<Steps>) -> BTreeMap<&'a str, Vec<Held>> {
    let mut families: BTreeMap<usize, Vec<Steps>> = BTreeMap::new();
    for index in 0..ctx.layout.tensors.len() {
        if let (Some(root), Some(_)) = (ctx.root[index], ctx.tensor(index).offset) {
            families.entry(root).or_default().extend(live(index));
        }
    }
    let mut spaces: BTreeMap<&str, Vec<Held>> = BTreeMap::new();
    for (root, ranges) in families {
        let owner = ctx.tensor(root);
        if let (Some(space), Some(_)) = (owner.space.as_deref(), owner.offset) {
            let held = joined(ranges).into_iter().map(|steps| Held { steps, bytes: owner.bytes });
            spaces.entry(space).or_default().extend(held);
        }
    }
    spaces
}

fn space_summary(
    ctx: &Ctx<'_>,
    space: &str,
    stated: &[Held],
    needed: &[Held],
    order_bound: u64,
) -> SpaceSummary {
    let level = levels(stated, ctx.steps());
    let peak = highest(&level);
    let ends = ctx.layout.tensors.iter().filter(|tensor| tensor.space.as_deref() == Some(space));
    let arena =
        ends.filter_map(|tensor| Some(tensor.offset?.saturating_add(tensor.bytes))).max().unwrap_or(0);
    let placement_bound = highest(&levels(needed, ctx.steps()));
    let peak_step = level.iter().position(|bytes| *bytes == peak).unwrap_or(0) as u64;
    SpaceSummary { arena, peak, peak_step, placement_bound, order_bound }
}

fn arena_size(ctx: &Ctx<'_>, space: &str) -> u64 {
    ctx.layout.arenas.iter().find(|arena| arena.space == space).map_or(0, |arena| arena.size)
}

fn peak(ctx: &Ctx<'_>, space: &str, stated: &[Held], found: SpaceSummary, findings: &mut Findings) {
    let level = levels(stated, ctx.steps());
    let claim = ctx.layout.peak.get(space);
    let right = claim.is_some_and(|claim| {
        let there = usize::try_from(claim.step).ok().and_then(|step| level.get(step)).copied();
        let is_covered =
            claim.at_most.is_none_or(|most| most >= claim.bytes && !ctx.layout.unplanned.is_empty());
        claim.bytes == found.peak && (found.peak == 0 || there == Some(found.peak)) && is_covered
    });
    if !right {
        let said = claim
            .map_or("nothing".to_owned(), |claim| format!("{} at step {}", exact(claim.bytes), claim.step));
        let (peak, step) = (exact(found.peak), found.peak_step);
        let message = format!("the peak of `{space}` is {peak} at step {step}; the layout states {said}");
        findings.add(Kind::Peak, At::default(), message);
    }
    let size = arena_size(ctx, space);
    if found.peak > size {
        let (peak, step, size) = (exact(found.peak), found.peak_step, exact(size));
        let message = format!("{peak} of `{space}` are live at step {step}, but its arena has {size}");
        findings.add(Kind::PeakOverArena, At::default(), message);
    }
}

fn bounds(
    ctx: &Ctx<'_>,
    space: &str,
    found: SpaceSummary,
    stated: &[Held],
    changed: bool,
    findings: &mut Findings,
) {
    let mut refuse = |why: String| findings.add(Kind::LowerBound, At::default(), format!("`{space}`: {why}"));
    let Some(claim) = ctx.layout.lower_bound.get(space) else {
        refuse("the layout states no lower bound".to_owned());
        return;
    };
    // Placement bound: at most the arena size, and equal to it if claimed as proved.
    let size = arena_size(ctx, space);
    if claim.placement > size {
        let (bound, size) = (exact(claim.placement), exact(size));
        refuse(format!("the stated lower bound of placements is {bound}, but this placement needs {size}"));
    } else if claim.placement_proved && claim.placement != size {
        let (bound, size) = (exact(claim.placement), exact(size));
        refuse(format!("the placement of {size} is stated to be optimal, but its lower bound is {bound}"));
    }
    // Order bound: only meaningful if nothing is recomputed or moved.
    match claim.order {
        None if claim.order_proved => refuse("the order is stated to be optimal, but has no lower bound".to_owned()),
        None => {}
        Some(_) if claim.order_proved && changed => {
            refuse("the order is stated to be optimal, but the plan recomputes or transfers values".to_owned());
        }
        Some(_) if changed => {}
        Some(order) if order > found.peak => {
            let (bound, peak) = (exact(order), exact(found.peak));
            refuse(format!("the stated lower bound of orders is {bound}, but this order has a peak of {peak}"));
        }
        Some(order) if claim.order_proved && order != found.peak => {
            let (bound, peak) = (exact(order), exact(found.peak));
            refuse(format!("the order is stated to be optimal with a lower bound of {bound}, but its peak is {peak}"));
        }
        Some(order) if claim.order_proved && order < found.order_bound => refuse(format!(
            "the order is stated to be optimal with {}, but the step of one node needs at least {}",
            exact(order),
            exact(found.order_bound)
        )),
        Some(order) if order > found.order_bound => findings.remark(format!(
            "`{space}`: the order's bound of {} is not verified; the check derives a bound of {} from single steps",
            exact(order),
            exact(found.order_bound)
        )),
        Some(order) if order < found.order_bound => findings.remark(format!(
            "`{space}`: the order's bound of {} is weak; the check derives a bound of {} from single steps",
            exact(order),
            exact(found.order_bound)
        )),
        Some(_) => {}
    }
    // Compare the placement bound with the bounds derived here.
    let alignment =
        ctx.layout.arenas.iter().find(|arena| arena.space == space).map_or(1, |arena| arena.alignment);
    let derived = aligned_bound(stated, ctx.steps(), alignment);
    if claim.placement > derived && claim.placement <= size {
        findings.remark(format!(
            "`{space}`: the placement bound of {} is not verified; the check derives a bound of {} from single steps",
            exact(claim.placement),
            exact(derived)
        ));
    } else if claim.placement < found.placement_bound {
        findings.remark(format!(
            "`{space}`: the placement bound of {} is weak; the check derives a bound of {} from single steps",
            exact(claim.placement),
            exact(found.placement_bound)
        ));
    }
}

fn counts(ctx: &Ctx<'_>, recomputed: u64, findings: &mut Findings, summary: &mut Summary) {
    let cost = &ctx.layout.cost;
    let inlined = ctx.given.rows.len() as u64;
    let added = last_rows::NODES * ctx.layout.last_rows.len() as u64;
    let in_file = (ctx.given.file.graph().node.len() as u64).saturating_sub(added);
    let moved = ctx.layout.transfers.iter().fold(0u64, |sum, row| sum.saturating_add(row.bytes));
    // Accept either count of the input model: model-local functions inlined, or nodes as they are in
    // the file.
    let before = if cost.nodes_before == in_file { in_file } else { inlined };
    let expected = [
        ("nodes_before", cost.nodes_before, before),
        ("nodes_after", cost.nodes_after, ctx.steps() as u64),
        ("recomputed_nodes", cost.recomputed_nodes, recomputed),
        ("transferred_bytes", cost.transferred_bytes, moved),
    ];
    for (key, claimed, found) in expected {
        if claimed != found {
            findings.add(
                Kind::Cost,
                At::default(),
                format!("cost.{key} is {found}; the layout states {claimed}"),
            );
        }
    }
    let tensors = &ctx.layout.tensors;
    let aliases = |kind| {
        tensors.iter().filter(|tensor| tensor.alias.as_ref().is_some_and(|alias| alias.kind == kind)).count()
            as u64
    };
    let swaps = (0..ctx.out.rows.len()).filter(|row| ctx.out.is_transfer(*row)).count() as i64;
    summary.nodes_before = inlined;
    summary.nodes = ctx.steps() as u64;
    summary.recomputed_nodes = recomputed;
    summary.anchors = ctx.layout.schedule.iter().filter(|entry| entry.anchor).count() as u64;
    summary.extra_nodes =
        ctx.steps() as i64 - inlined as i64 - recomputed as i64 - swaps - summary.anchors as i64;
    summary.tensors = tensors.len() as u64;
    summary.views = aliases(AliasKind::View);
    summary.in_place = aliases(AliasKind::InPlace);
    summary.states = tensors.iter().filter(|tensor| tensor.class == Class::State).count() as u64;
    summary.transfers = ctx.layout.transfers.len() as u64;
    summary.transferred_bytes = moved;
    summary.unplanned = ctx.layout.unplanned.len() as u64;
}

fn weights(ctx: &Ctx<'_>, findings: &mut Findings, summary: &mut Summary) {
    let constants =
        ctx.layout.tensors.iter().filter(|tensor| tensor.class == Class::Constant && tensor.alias.is_none());
    let found =
        constants.fold(bodies::constants(&ctx.out.module), |sum, tensor| sum.saturating_add(tensor.bytes));
    if found != ctx.layout.weights {
        let message =
            format!("the constants have {}; the layout states {}", exact(found), exact(ctx.layout.weights));
        findings.add(Kind::Weights, At::default(), message);
    }
    let (least, most) = baseline::weights(ctx);
    let claimed = ctx.layout.baseline.weights;
    if claimed > 0 && !(least..=most).contains(&claimed) {
        let message = format!(
            "the constants of the input model have {}; the layout states {}",
            between(least, most),
            exact(claimed)
        );
        findings.add(Kind::Weights, At::default(), message);
    }
    summary.weights = found;
    let module = &ctx.out.module;
    let outside =
        ctx.out.values.iter().filter_map(|value| module.value(*value).default.or(module.constant_of(*value)));
    summary.external_constants = outside
        .filter(|id| matches!(module.constant(*id).payload, Payload::External { .. }))
        .filter(|id| !ctx.out.outside.contains_key(&id.index()))
        .count() as u64;
    if summary.external_constants > 0 {
        findings.remark(format!(
            "{} constants outside the model file are compared by location, not by content",
            summary.external_constants
        ));
    }
}

/// A range of byte counts, or one count if both ends are equal.
fn between(least: u64, most: u64) -> String {
    if least == most { exact(least) } else { format!("{} to {}", exact(least), exact(most)) }
}

fn baseline(ctx: &Ctx<'_>, findings: &mut Findings, summary: &mut Summary) {
    let found = baseline::derive(ctx);
    // Only the planner knows the workspace that a profile states, so no upper bound exists.
    let bounded = !ctx.layout.options.contains_key("profile");
    if (bounded && found.claimed > found.most) || found.claimed < found.least {
        let message = format!(
            "the layout states a file_order_peak of {}; the input model needs {}, with other views between {} and {}",
            exact(found.claimed),
            exact(found.derived),
            exact(found.least),
            exact(found.most)
        );
        findings.add(Kind::Baseline, At::default(), message);
    } else if found.claimed != found.derived {
        findings.remark(format!(
            "the layout states a file_order_peak of {}; it is {} with the plan's workspace and every possible view",
            exact(found.claimed),
            exact(found.derived)
        ));
    }
    if (bounded && found.claimed_own > found.most_own)
        || (found.claimed_own < found.least && found.claimed_own > 0)
    {
        let message = format!(
            "the layout states an own_peak of {}; the input model needs {}",
            exact(found.claimed_own),
            between(found.least, found.most_own)
        );
        findings.add(Kind::Baseline, At::default(), message);
    }
    summary.baseline = found;
}
