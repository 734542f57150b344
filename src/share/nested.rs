//! Nested members: guests run in free bytes of a host, between two of its steps.

use std::collections::BTreeMap;

use memc_layout::joint::{Admission, Joint, Mode};
use memc_solve::joint::{self, Extent};
use memc_solve::{Limit, joint::Around};

use super::member::ShareMember;
use super::part::Buffers;
use super::{arena, distinct, draft, joint_arena, spaces};
use crate::share_error::ShareError;

/// Finds the boundaries of the first member's steps at which each other member fits into bytes that are free
/// there, in an arena of the host's size. Unless `keep_offsets`, the host is placed around its largest guest
/// if that one then fits at more boundaries. `effort` is that of the placement, in search nodes.
///
/// # Errors
/// Two members have one name, or a guest fits at no boundary.
pub fn nested(members: &[ShareMember], keep_offsets: bool, effort: u64) -> Result<Joint, ShareError> {
    distinct(members)?;
    let mut joint = draft(members, Mode::Nested);
    let Some((host, guests)) = members.split_first() else { return Ok(joint) };
    let spaces = spaces(members);
    let mut views: BTreeMap<&str, (Buffers, Vec<Extent>)> = BTreeMap::new();
    for space in &spaces {
        let buffers = Buffers::of(host, space);
        let extents = buffers.taken();
        views.insert(space, (buffers, extents));
    }
    for guest in guests {
        fits(host, guest)?;
    }
    // Place the host around the largest guest, in the space of its largest arena.
    let sizes = guests.iter().flat_map(|guest| guest.layout.arenas.iter().filter(|arena| arena.size > 0));
    if let Some(largest) = sizes.max_by_key(|arena| arena.size).filter(|_| !keep_offsets)
        && let Some((buffers, extents)) = views.get_mut(largest.space.as_str())
        && buffers.under_way.is_empty()
    {
        let alignment = largest.alignment.max(buffers.part.alignment);
        let found = joint::around(&buffers.part, largest.size, alignment, &Limit::nodes(effort));
        let Around { offsets, .. } =
            found.map_err(|error| ShareError::Solver { cause: error.to_string() })?;
        if let Some(offsets) = offsets {
            *extents = buffers
                .part
                .buffers
                .iter()
                .zip(&offsets)
                .flat_map(|(placed, offset)| placed.at(*offset))
                .collect();
            let owners = buffers.owners.iter().map(|owner| host.layout.tensors[*owner].name.clone());
            let moved: BTreeMap<String, u64> = owners.zip(offsets).collect();
            // Offsets of the other spaces stay, and are stated with the moved ones.
            for (space, (buffers, _)) in views.iter().filter(|(space, _)| **space != largest.space) {
                debug_assert_ne!(**space, largest.space);
                let stay = buffers.owners.iter().zip(&buffers.part.buffers);
                let names =
                    stay.map(|(owner, placed)| (host.layout.tensors[*owner].name.clone(), placed.offset));
                joint.members[0].offsets.extend(names);
            }
            joint.members[0].offsets.extend(moved);
        }
    }
    for guest in guests {
        let mut runs: Option<Vec<Admission>> = None;
        for arena in guest.layout.arenas.iter().filter(|arena| arena.size > 0) {
            let Some((buffers, extents)) = views.get(arena.space.as_str()) else { continue };
            let alignment = arena.alignment.max(buffers.part.alignment);
            let found = joint::admissions(extents, host.steps(), buffers.part.size, arena.size, alignment);
            debug_assert_eq!(
                joint::check_nested(
                    extents,
                    host.steps(),
                    buffers.part.size,
                    (arena.size, alignment),
                    &found
                ),
                Ok(())
            );
            let found = found.iter().map(|run| Admission {
                guest: guest.name.clone(),
                after: [u64::from(run.first), u64::from(run.last)],
                bases: BTreeMap::from([(arena.space.clone(), run.base)]),
            });
            let found: Vec<Admission> = found.collect();
            runs = Some(match runs {
                Some(runs) => both(&runs, &found),
                None => found,
            });
        }
        // A guest without an arena runs anywhere.
        let all = || Admission {
            guest: guest.name.clone(),
            after: [0, u64::from(host.steps()).saturating_sub(2)],
            ..Admission::default()
        };
        let runs = runs.unwrap_or_else(|| if host.steps() > 1 { vec![all()] } else { Vec::new() });
        if runs.is_empty() {
            return Err(nowhere(host, guest, &views));
        }
        joint.admissions.extend(runs);
    }
    for (space, (buffers, extents)) in &views {
        let top = extents.iter().map(|extent| extent.high).max().unwrap_or(0);
        let size = if joint.members[0].offsets.is_empty() { buffers.part.size } else { top };
        let guests = joint.admissions.iter().filter_map(|run| {
            let guest = guests.iter().find(|guest| guest.name == run.guest)?;
            run.bases.get(*space)?.checked_add(arena(guest, space)?.0)
        });
        let size = guests.fold(size, u64::max);
        let bound = buffers.part.bound();
        joint.arenas.extend(joint_arena(members, space, size, bound));
    }
    joint.arenas.sort_by_key(|arena| spaces.iter().position(|space| *space == arena.space));
    Ok(joint)
}

/// Rejects a guest with an arena that is larger than the host's, or in a space whose free bytes are unknown.
fn fits(host: &ShareMember, guest: &ShareMember) -> Result<(), ShareError> {
    let first = host.layout.target.spaces.first().map_or("", |space| space.name.as_str());
    for own in guest.layout.arenas.iter().filter(|arena| arena.size > 0) {
        let room = arena(host, &own.space).map_or(0, |(size, _)| size);
        if own.size > room {
            return Err(ShareError::Guest {
                guest: guest.name.clone(),
                host: host.name.clone(),
                needs: own.size,
                hole: room,
                space: own.space.clone(),
            });
        }
        // Stores write to their far bytes before their step.
        if !host.layout.transfers.is_empty() && own.space != first {
            return Err(ShareError::Transfers { host: host.name.clone(), space: own.space.clone() });
        }
    }
    Ok(())
}

/// Runs of boundaries that two lists have in common, with the places of both.
fn both(one: &[Admission], other: &[Admission]) -> Vec<Admission> {
    let mut found = Vec::new();
    for a in one {
        for b in other {
            let (first, last) = (a.after[0].max(b.after[0]), a.after[1].min(b.after[1]));
            if first <= last {
                let bases =
                    a.bases.iter().chain(&b.bases).map(|(space, base)| (space.clone(), *base)).collect();
                found.push(Admission { guest: a.guest.clone(), after: [first, last], bases });
            }
        }
    }
    found
}

/// The refusal of a guest that fits at no boundary, with the largest hole.
fn nowhere(
    host: &ShareMember,
    guest: &ShareMember,
    views: &BTreeMap<&str, (Buffers, Vec<Extent>)>,
) -> ShareError {
    let holes = guest.layout.arenas.iter().filter_map(|arena| {
        let (buffers, extents) = views.get(arena.space.as_str())?;
        let holes = joint::free_bytes(extents, host.steps(), buffers.part.size);
        let hole = holes.into_iter().map(|(_, hole)| hole).max().unwrap_or(0);
        Some((arena, hole))
    });
    let worst = holes.max_by_key(|(arena, hole)| arena.size.saturating_sub(*hole));
    let (needs, hole, space) =
        worst.map_or((0, 0, String::new()), |(arena, hole)| (arena.size, hole, arena.space.clone()));
    ShareError::Guest { guest: guest.name.clone(), host: host.name.clone(), needs, hole, space }
}
