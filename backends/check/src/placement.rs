//! Checks places: membership in an arena, alignment, bounds, exact sizes, budget and capacity.

use std::collections::{BTreeMap, BTreeSet};

use memc_layout::{Arena, Class, Io, Space, Tensor};

use crate::codes::Kind;
use crate::ctx::Ctx;
use crate::findings::{At, Findings, exact};

/// Checks every placed tensor and every arena.
pub(crate) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    let layout = ctx.layout;
    let spaces: BTreeMap<&str, &Space> =
        layout.target.spaces.iter().map(|space| (space.name.as_str(), space)).collect();
    let mut arenas: BTreeMap<&str, &Arena> = BTreeMap::new();
    for arena in &layout.arenas {
        if arenas.insert(&arena.space, arena).is_some() {
            findings.add(Kind::Arena, At::default(), format!("space `{}` has two arenas", arena.space));
        }
    }
    let mut top: BTreeMap<&str, u64> = BTreeMap::new();
    for index in 0..layout.tensors.len() {
        let tensor = ctx.tensor(index);
        membership(ctx, index, findings);
        let (Some(space), Some(offset)) = (tensor.space.as_deref(), tensor.offset) else { continue };
        match (arenas.get(space), spaces.get(space)) {
            (Some(arena), Some(_)) => {
                let end = offset.saturating_add(tensor.bytes);
                let highest = top.entry(space).or_default();
                *highest = end.max(*highest);
                bounds(tensor, offset, end, arena, findings);
            }
            _ => {
                let message = format!(
                    "`{}` lies in `{space}`, which has no arena or is not in the target",
                    tensor.name
                );
                findings.add(Kind::Space, At::tensor(&tensor.name), message);
            }
        }
    }
    for (space, arena) in &arenas {
        sizes(arena, spaces.get(space).copied(), top.get(space).copied().unwrap_or(0), findings);
    }
    for (space, limit) in &layout.budget {
        let size = arenas.get(space.as_str()).map_or(0, |arena| arena.size);
        if size > *limit {
            let (size, limit) = (exact(size), exact(*limit));
            let message = format!("the arena of `{space}` has {size}, but the budget is {limit}");
            findings.add(Kind::Budget, At::default(), message);
        }
    }
    largest(ctx, findings);
    rates(&layout.target.spaces, findings);
    mixed(ctx, &spaces, findings);
}

/// Checks the limit of single values, if the layout states one: no value, and no body with all its values,
/// is larger, and each has a size.
fn largest(ctx: &Ctx<'_>, findings: &mut Findings) {
    let layout = ctx.layout;
    let Some(text) = layout.options.get("max_value") else { return };
    let Ok(limit) = text.parse::<u64>() else {
        findings.add(
            Kind::Budget,
            At::default(),
            format!("`{text}` is no number of bytes of the largest value"),
        );
        return;
    };
    let values = layout.tensors.iter().filter(|tensor| tensor.class != Class::Scratch);
    let values = values.map(|tensor| (&tensor.name, tensor.bytes));
    let bodies = layout.subgraphs.iter().map(|body| (&body.graph, body.arena_bytes));
    for (name, bytes) in values.chain(bodies).filter(|(_, bytes)| *bytes > limit) {
        let message =
            format!("`{name}` has {}, but the largest value may have {}", exact(bytes), exact(limit));
        findings.add(Kind::Budget, At::tensor(name), message);
    }
    for row in &layout.unplanned {
        let message =
            format!("the size of `{}` is unknown, but the largest value may have {}", row.name, exact(limit));
        findings.add(Kind::Budget, At::tensor(&row.name), message);
    }
}

/// Checks the rates at which nodes access farther spaces.
fn rates(spaces: &[Space], findings: &mut Findings) {
    for (index, space) in spaces.iter().enumerate() {
        let Some(rate) = space.access else { continue };
        if index == 0 || !rate.is_finite() || rate <= 0.0 {
            let message = format!("`{}` states an access of {rate} bytes per second", space.name);
            findings.add(Kind::Access, At::default(), message);
        }
    }
}

/// Checks that a tensor is in an arena exactly if its class and `io` require it.
fn membership(ctx: &Ctx<'_>, index: usize, findings: &mut Findings) {
    let tensor = ctx.tensor(index);
    let io = ctx.layout.io;
    let placed = tensor.offset.is_some();
    let must = match tensor.class {
        Class::Scratch => true,
        Class::Output => io != Io::External,
        Class::Input => io == Io::Arena && is_needed(ctx, index),
        Class::Constant | Class::State => false,
        // A view of a buffer that the caller holds needs no place.
        Class::Transient => placed || !ctx.views_of(index).iter().any(|other| unplaced_by_right(ctx, *other)),
    };
    if must != placed {
        let message = format!(
            "`{}` ({}) {} be in an arena with io `{}`",
            tensor.name,
            tensor.class.as_str(),
            if must { "must" } else { "must not" },
            io.as_str()
        );
        findings.add(Kind::Placed, At::tensor(&tensor.name), message);
    }
}

fn unplaced_by_right(ctx: &Ctx<'_>, index: usize) -> bool {
    let tensor = ctx.tensor(index);
    tensor.offset.is_none() && !matches!(tensor.class, Class::Transient | Class::Scratch)
}

/// Whether some step needs the input in the arena. The caller keeps inputs that are graph outputs too,
/// and inputs without readers.
fn is_needed(ctx: &Ctx<'_>, index: usize) -> bool {
    ctx.value_of[index].is_some_and(|value| !ctx.out.is_output[value] && !ctx.readers[value].is_empty())
}

fn bounds(tensor: &Tensor, offset: u64, end: u64, arena: &Arena, findings: &mut Findings) {
    let at = At::tensor(&tensor.name);
    if tensor.alias.is_none() && !offset.is_multiple_of(arena.alignment.max(1)) {
        let message =
            format!("offset {offset} of `{}` is not a multiple of {}", tensor.name, arena.alignment);
        findings.add(Kind::Alignment, at, message);
    }
    if end > arena.size {
        let (end, size) = (exact(end), exact(arena.size));
        let message =
            format!("`{}` ends at {end}, but the arena of `{}` has {size}", tensor.name, arena.space);
        findings.add(Kind::Bounds, at, message);
    }
}

fn sizes(arena: &Arena, space: Option<&Space>, top: u64, findings: &mut Findings) {
    let name = &arena.space;
    match space {
        None => findings.add(
            Kind::Arena,
            At::default(),
            format!("there is an arena in `{name}`, which is not in the target"),
        ),
        Some(space) => {
            if arena.alignment != space.alignment || arena.alignment == 0 {
                let message = format!(
                    "the arena of `{name}` has alignment {}; the target states {}",
                    arena.alignment, space.alignment
                );
                findings.add(Kind::Arena, At::default(), message);
            }
            if let Some(capacity) = space.capacity.filter(|capacity| arena.size > *capacity) {
                let (size, capacity) = (exact(arena.size), exact(capacity));
                let message =
                    format!("the arena of `{name}` has {size}, but the space has a capacity of {capacity}");
                findings.add(Kind::Capacity, At::default(), message);
            }
        }
    }
    if arena.size != top {
        let (size, top) = (exact(arena.size), exact(top));
        let message =
            format!("the layout states an arena of {size} for `{name}`; its last tensor ends at {top}");
        findings.add(Kind::ArenaSize, At::default(), message);
    }
}

/// Checks that every node except transfers uses the first space and those that nodes access directly.
fn mixed(ctx: &Ctx<'_>, spaces: &BTreeMap<&str, &Space>, findings: &mut Findings) {
    let first = ctx.layout.target.spaces.first().map_or("", |space| space.name.as_str());
    let is_near = |name: &str| name == first || spaces.get(name).is_some_and(|space| space.access.is_some());
    let mut scratch: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for tensor in ctx.layout.tensors.iter().filter(|tensor| tensor.class == Class::Scratch) {
        if let (Some(step), Some(space)) = (tensor.step, &tensor.space) {
            scratch.entry(step).or_default().push(space);
            if space != first && is_near(space) {
                let message = format!("`{}` lies in `{space}`, but workspace lies in `{first}`", tensor.name);
                findings.add(Kind::FarCompute, At::tensor(&tensor.name), message);
            }
        }
    }
    for (step, row) in ctx.order.iter().enumerate() {
        if ctx.out.is_transfer(*row) {
            continue;
        }
        let row = &ctx.out.rows[*row];
        let values = row.reads.iter().copied().chain(ctx.out.module.node(row.node).results());
        let mut used: BTreeSet<&str> =
            values.filter_map(|value| ctx.tensor(ctx.tensor_of[value]?).space.as_deref()).collect();
        used.extend(scratch.get(&(step as u64)).into_iter().flatten());
        let Some(far) = used.iter().find(|space| !is_near(space)) else { continue };
        let name = ctx.node_at(step);
        if used.len() == 1 {
            let message = format!("step {step}: `{name}` computes in `{far}`, which nodes cannot access");
            findings.add(Kind::FarCompute, At::node(step, name), message);
        } else {
            let spaces: Vec<&str> = used.into_iter().collect();
            let message = format!(
                "step {step}: operands and results of `{name}` lie in several spaces: {}",
                spaces.join(", ")
            );
            findings.add(Kind::SpaceMix, At::node(step, name), message);
        }
    }
}
