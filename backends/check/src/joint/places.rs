//! Rule 2, places: each tensor of an arena has one place, aligned, inside the joint arena, whose size is the
//! highest end.

use std::collections::BTreeMap;

use memc_layout::joint::{Mode, VERSION};

use super::Ctx;
use crate::codes::Kind;
use crate::findings::{At, Findings, exact};

pub(super) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    let mut top: BTreeMap<&str, u64> = BTreeMap::new();
    let arenas: BTreeMap<&str, (u64, u64)> =
        ctx.joint.arenas.iter().map(|arena| (arena.space.as_str(), (arena.size, arena.alignment))).collect();
    if ctx.joint.schema != VERSION {
        let message = format!("the schema is `{}`, not `{VERSION}`", ctx.joint.schema);
        findings.add(Kind::JointPlace, At::default(), message);
    }
    for (number, (member, spots)) in ctx.joint.members.iter().zip(&ctx.spots).enumerate() {
        let is_guest = ctx.joint.mode == Mode::Nested && number > 0;
        let mut add = |tensor: &str, message: String| {
            let at = if tensor.is_empty() { At::default() } else { At::tensor(tensor) };
            findings.add(Kind::JointPlace, at, format!("{}: {message}", member.name));
        };
        if !member.offsets.is_empty() && !member.bases.is_empty() {
            add("", "it has both bases and offsets of its own".to_owned());
        }
        if is_guest && !(member.offsets.is_empty() && member.bases.is_empty()) {
            add("", "the places of a guest follow from admissions".to_owned());
        }
        let is_ranged = !spots.layout.model.ranges.is_empty() || !spots.layout.layouts.is_empty();
        if is_ranged && !member.offsets.is_empty() {
            add("", "its plan holds for ranges of dimensions, so it keeps its offsets".to_owned());
        }
        // Each owner has an offset, and nothing else has.
        let is_owner = |name: &String| {
            let tensor = spots.named.get(name.as_str()).map(|at| &spots.layout.tensors[*at]);
            tensor.is_some_and(|tensor| tensor.offset.is_some() && tensor.alias.is_none())
        };
        if let Some(name) = member.offsets.keys().find(|name| !is_owner(name)) {
            add(name, format!("`{name}` has an offset, and is no tensor that owns bytes of an arena"));
        }
        for at in &spots.lost {
            let name = &spots.layout.tensors[*at].name;
            add(name, format!("the place of `{name}` is not stated, or beyond 64 bits"));
        }
        for (space, base) in &member.bases {
            let alignment = arenas.get(space.as_str()).map_or(1, |(_, alignment)| (*alignment).max(1));
            let is_own = spots.layout.arenas.iter().any(|arena| arena.space == *space);
            if !is_own || !base.is_multiple_of(alignment) {
                add(
                    "",
                    format!(
                        "base {base} in {space} is not that of an arena, or not a multiple of {alignment}"
                    ),
                );
            }
        }
        for arena in &spots.layout.arenas {
            let Some((_, alignment)) = arenas.get(arena.space.as_str()) else {
                add("", format!("there is no joint arena in {}", arena.space));
                continue;
            };
            if !alignment.is_multiple_of(arena.alignment.max(1)) || !alignment.is_power_of_two() {
                add(
                    "",
                    format!(
                        "the arena of {} has alignment {alignment}; the member needs {}",
                        arena.space, arena.alignment
                    ),
                );
            }
        }
        if is_guest {
            continue;
        }
        for (tensor, spot) in spots.layout.tensors.iter().zip(&spots.spot) {
            let Some(spot) = spot else { continue };
            let (size, alignment) = arenas.get(spot.space).copied().unwrap_or((0, 1));
            let highest = top.entry(spot.space).or_default();
            *highest = spot.high.max(*highest);
            let own = spots
                .layout
                .arenas
                .iter()
                .find(|arena| arena.space == spot.space)
                .map_or(1, |arena| arena.alignment.max(1));
            if tensor.alias.is_none() && !spot.low.is_multiple_of(own.min(alignment.max(1))) {
                add(
                    &tensor.name,
                    format!("`{}` begins at byte {}, not at a multiple of {own}", tensor.name, spot.low),
                );
            }
            if spot.high > size {
                let message = format!(
                    "`{}` ends at {}, but the joint arena has {}",
                    tensor.name,
                    exact(spot.high),
                    exact(size)
                );
                add(&tensor.name, message);
            }
        }
    }
    for run in &ctx.joint.admissions {
        let Some(guest) = ctx.member.get(run.guest.as_str()).and_then(|guest| ctx.spots.get(*guest)) else {
            continue;
        };
        for (space, base) in &run.bases {
            let own =
                guest.layout.arenas.iter().find(|arena| arena.space == *space).map_or(0, |arena| arena.size);
            if let Some((name, _)) = arenas.get_key_value(space.as_str()) {
                let highest = top.entry(*name).or_default();
                *highest = base.saturating_add(own).max(*highest);
            }
        }
    }
    for arena in &ctx.joint.arenas {
        let own =
            ctx.members.iter().flat_map(|files| &files.layout.arenas).filter(|own| own.space == arena.space);
        let alignment = own.map(|own| own.alignment.max(1)).max().unwrap_or(0);
        if arena.alignment != alignment {
            let message = format!(
                "the joint arena of {} has alignment {}, not {alignment}",
                arena.space, arena.alignment
            );
            findings.add(Kind::JointPlace, At::default(), message);
        }
        let found = top.get(arena.space.as_str()).copied().unwrap_or(0);
        if arena.size != found {
            let message = format!(
                "the joint arena of {} has {}; its last tensor ends at {}",
                arena.space,
                exact(arena.size),
                exact(found)
            );
            findings.add(Kind::JointPlace, At::default(), message);
        }
    }
}
