//! Tables from layouts alone: how much memory members need together, and how much of it is free when.

use memc_layout::Class;
use memc_solve::joint;

use super::member::ShareMember;
use super::part::Buffers;
use super::{arena, distinct, spaces};
use crate::share_error::ShareError;

/// Memory of several members, with no choice made. All sizes are bytes.
#[derive(Clone, Debug)]
pub struct Table {
    /// Members, in their order.
    pub members: Vec<Use>,
    /// Each pair of different members, as host and guest.
    pub pairs: Vec<Pair>,
}

/// Memory of one member.
#[derive(Clone, Debug)]
pub struct Use {
    /// Name of the member.
    pub name: String,
    /// Its arenas, by space.
    pub spaces: Vec<SpaceUse>,
    /// Values that the caller keeps from run to run: state and caches.
    pub state: u64,
    /// Inputs and outputs that the caller holds during a run.
    pub caller: u64,
    /// Constants.
    pub weights: u64,
    /// Number of steps.
    pub steps: u64,
    /// Modelled time of a run in nanoseconds; 0 if the layout has none.
    pub nanoseconds: u64,
}

/// One arena of a member.
#[derive(Clone, Debug)]
pub struct SpaceUse {
    /// Space.
    pub space: String,
    /// Size of the arena.
    pub arena: u64,
    /// Most bytes in use at one step.
    pub peak: u64,
    /// Mean over modelled time of the bytes in use; over steps if no time is modelled.
    pub mean: u64,
    /// Mean over the boundaries between steps of the largest hole.
    pub hole: u64,
}

/// Two members in one memory.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Member that is interrupted.
    pub host: String,
    /// Member that runs inside.
    pub guest: String,
    /// Boundaries of the host's steps at which the guest's arenas fit into holes.
    pub boundaries: u64,
    /// All boundaries of the host's steps.
    pub all: u64,
    /// Longest modelled time from the end of a step to the next boundary at which the guest fits, in
    /// nanoseconds, over repeated runs of the host.
    pub wait: u64,
    /// Most bytes in use when both run at once, shifted for the lowest peak: no promise, but a number to
    /// compare with the sum of their arenas. 0 for the second mention of a pair.
    pub at_once: u64,
    /// Sum of both means: no shift needs less.
    pub at_once_bound: u64,
}

/// Derives the memory of members from their layouts.
///
/// # Errors
/// There are fewer than two members, or two have one name.
pub fn table(members: &[ShareMember]) -> Result<Table, ShareError> {
    distinct(members)?;
    let spaces = spaces(members);
    let first = spaces.first().cloned().unwrap_or_default();
    let views: Vec<Vec<Buffers>> = members
        .iter()
        .map(|member| spaces.iter().map(|space| Buffers::of(member, space)).collect())
        .collect();
    let uses = members.iter().zip(&views).map(|(member, views)| usage(member, &spaces, views));
    let uses: Vec<Use> = uses.collect();
    let mut pairs = Vec::new();
    for (one, host) in members.iter().enumerate() {
        for (other, guest) in members.iter().enumerate().filter(|(other, _)| *other != one) {
            let mut pair = fit(host, guest, &spaces, &views[one]);
            if one < other {
                let part = |at: usize| views[at].first().map(|view| view.part.clone()).unwrap_or_default();
                let both =
                    joint::Phased { parts: [part(one), part(other)], times: [host.times(), guest.times()] };
                pair.at_once = both.phase().load;
                let mean = |at: usize| {
                    uses[at].spaces.iter().find(|row| row.space == first).map_or(0, |row| row.mean)
                };
                pair.at_once_bound = mean(one).saturating_add(mean(other));
            }
            pairs.push(pair);
        }
    }
    Ok(Table { members: uses, pairs })
}

fn usage(member: &ShareMember, spaces: &[String], views: &[Buffers]) -> Use {
    let times = member.times();
    let row = |(space, view): (&String, &Buffers)| {
        let (size, _) = arena(member, space)?;
        let extents = view.taken();
        let loads = view.part.loads();
        let holes = joint::free_bytes(&extents, view.part.steps, size);
        let sum = holes.iter().map(|(_, hole)| u128::from(*hole)).sum::<u128>();
        Some(SpaceUse {
            space: space.clone(),
            arena: size,
            peak: loads.iter().copied().max().unwrap_or(0),
            mean: joint::mean(&loads, &times),
            hole: u64::try_from(sum.checked_div(holes.len() as u128).unwrap_or(0)).unwrap_or(u64::MAX),
        })
    };
    let held = |classes: &[Class]| {
        let held = member.layout.tensors.iter().filter(|tensor| {
            // A new value of state lies in the storage of the old one.
            let is_new = member.layout.state.iter().any(|row| row.result == tensor.name);
            tensor.offset.is_none() && tensor.alias.is_none() && classes.contains(&tensor.class) && !is_new
        });
        held.fold(0_u64, |sum, tensor| sum.saturating_add(tensor.bytes))
    };
    Use {
        name: member.name.clone(),
        spaces: spaces.iter().zip(views).filter_map(row).collect(),
        state: held(&[Class::State]),
        caller: held(&[Class::Input, Class::Output]),
        weights: member.layout.weights,
        steps: u64::from(member.steps()),
        nanoseconds: times.iter().fold(0, |sum, time| sum.saturating_add(*time)),
    }
}

/// Boundaries of a host at which a guest fits.
fn fit(host: &ShareMember, guest: &ShareMember, spaces: &[String], views: &[Buffers]) -> Pair {
    let count = host.steps().saturating_sub(1) as usize;
    let mut fits = vec![true; count];
    for own in guest.layout.arenas.iter().filter(|arena| arena.size > 0) {
        let view = spaces.iter().position(|space| *space == own.space).and_then(|at| views.get(at));
        let mut here = vec![false; count];
        if let Some(view) = view.filter(|view| own.size <= view.part.size) {
            let alignment = own.alignment.max(view.part.alignment);
            for run in joint::admissions(&view.taken(), host.steps(), view.part.size, own.size, alignment) {
                (run.first..=run.last).for_each(|at| here[at as usize] = true);
            }
        }
        fits.iter_mut().zip(here).for_each(|(fits, here)| *fits &= here);
    }
    let times = host.times();
    let boundaries = fits.iter().filter(|fits| **fits).count() as u64;
    // The last boundary wraps around to the first: the host runs again.
    let (mut wait, mut now) = (0_u64, 0_u64);
    if boundaries > 0 {
        for step in (0..times.len()).chain(0..times.len()) {
            now = now.saturating_add(times[step]);
            wait = wait.max(now);
            if fits.get(step).copied().unwrap_or(false) {
                now = 0;
            }
        }
    }
    Pair {
        host: host.name.clone(),
        guest: guest.name.clone(),
        boundaries,
        all: count as u64,
        wait,
        at_once: 0,
        at_once_bound: 0,
    }
}
