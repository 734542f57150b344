//! Rule 6, admissions: across each listed boundary the bytes of the guest are free in the host.

use std::collections::BTreeMap;

use memc_layout::joint::{Admission, Mode};

use super::Ctx;
use super::spots::{Spot, Spots};
use crate::codes::Kind;
use crate::findings::{At, Findings};

pub(super) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    if ctx.joint.mode != Mode::Nested {
        return;
    }
    let Some(host) = ctx.spots.first() else { return };
    let mut next: BTreeMap<&str, u64> = BTreeMap::new();
    for run in &ctx.joint.admissions {
        let [first, last] = run.after;
        let mut add = |message: String| {
            findings.add(
                Kind::Admission,
                At::default(),
                format!("{} after steps {first} to {last}: {message}", run.guest),
            );
        };
        let Some(guest) = ctx.member.get(run.guest.as_str()).filter(|guest| **guest > 0) else {
            add("the host is no guest".to_owned());
            continue;
        };
        if first > last || last.saturating_add(1) >= host.steps() {
            add(format!("a boundary lies between two of the {} steps of the host", host.steps()));
            continue;
        }
        if next.insert(&run.guest, last.saturating_add(1)).is_some_and(|next| first < next) {
            add("boundaries are listed twice, or not in ascending order".to_owned());
        }
        if let Err(message) = place(ctx, host, &ctx.spots[*guest], run) {
            add(message);
        }
    }
    for member in ctx.joint.members.iter().skip(1).filter(|member| !next.contains_key(member.name.as_str())) {
        findings.add(
            Kind::Admission,
            At::default(),
            format!("{}: there is no boundary at which it may run", member.name),
        );
    }
}

fn place(ctx: &Ctx<'_>, host: &Spots<'_>, guest: &Spots<'_>, run: &Admission) -> Result<(), String> {
    let is_own = |space: &String| guest.layout.arenas.iter().any(|arena| arena.space == *space);
    if let Some(space) = run.bases.keys().find(|space| !is_own(space)) {
        return Err(format!("it has no arena in {space}"));
    }
    for own in guest.layout.arenas.iter().filter(|arena| arena.size > 0) {
        let arena = ctx.joint.arenas.iter().find(|arena| arena.space == own.space);
        let Some((base, arena)) = run.bases.get(&own.space).zip(arena) else {
            return Err(format!("its place in {} is not stated", own.space));
        };
        let high = base.checked_add(own.size).filter(|high| *high <= arena.size);
        let Some(high) = high.filter(|_| base.is_multiple_of(arena.alignment.max(1))) else {
            return Err(format!(
                "byte {base} of {} is misaligned, or its arena ends beyond the joint one",
                own.space
            ));
        };
        // Stores write to their far bytes before their step.
        let first = host.layout.target.spaces.first().map_or("", |space| space.name.as_str());
        if !host.layout.transfers.is_empty() && own.space != first {
            return Err(format!("the host moves values to {} at any time", own.space));
        }
        let spot = Spot { space: &own.space, low: *base, high };
        for at in (0..host.spot.len()).filter(|at| host.spot[*at].is_some_and(|other| other.meets(&spot))) {
            // Bytes live across the boundary after a step if they live at the step and at the next one.
            let crossed = host
                .taken(at)
                .find(|(start, end)| *start <= run.after[1] && run.after[0].saturating_add(1) < *end);
            if let Some((start, end)) = crossed.filter(|(start, end)| start.saturating_add(1) < *end) {
                let name = &host.layout.tensors[at].name;
                return Err(format!(
                    "bytes {base} to {high} of {} are those of `{name}`, live at steps [{start},{end})",
                    own.space
                ));
            }
        }
    }
    Ok(())
}
