//! Rule 5, handed-over bytes: no tensor meets a value from the end of its maker to its last reader.

use super::Ctx;
use super::spots::Spot;
use crate::codes::Kind;
use crate::findings::{At, Findings};

/// A value on its way: its bytes, the members of both ends, and the step of the reader before which it must
/// still be there.
pub(super) struct Carried<'c> {
    pub(super) spot: Spot<'c>,
    pub(super) from: (usize, usize),
    pub(super) to: (usize, usize),
    pub(super) until: u64,
}

/// All values on their way through the joint arenas.
pub(super) fn carried<'c>(ctx: &Ctx<'c>) -> Vec<Carried<'c>> {
    let value = |handoff: &'c memc_layout::joint::Handoff| {
        let (from, to) = (ctx.item(&handoff.from)?, ctx.item(&handoff.to)?);
        let spot = ctx.spots[from.0].spot[from.1]?;
        let repeats = ctx.joint.members[to.0].repeats;
        let until = if repeats { ctx.spots[to.0].steps() } else { ctx.spots[to.0].reads(to.1).0 };
        Some(Carried { spot, from, to, until })
    };
    ctx.joint.handoffs.iter().filter_map(value).collect()
}

pub(super) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    let values = carried(ctx);
    for value in &values {
        for member in value.from.0 + 1..=value.to.0 {
            let spots = &ctx.spots[member];
            let until = if member == value.to.0 { value.until } else { u64::MAX };
            // Tensors that are the value itself: those of inputs that it fills.
            let own: Vec<usize> = values
                .iter()
                .filter(|other| other.from == value.from && other.to.0 == member)
                .map(|other| other.to.1)
                .collect();
            for (at, tensor) in spots.layout.tensors.iter().enumerate() {
                let is_own = spots.root[at].is_some_and(|root| own.contains(&root));
                let Some(spot) = spots.spot[at].filter(|spot| !is_own && spot.meets(&value.spot)) else {
                    continue;
                };
                let Some((start, _)) = spots.live(at).find(|(start, end)| *start < until && start < end)
                else {
                    continue;
                };
                let made = &ctx.spots[value.from.0].layout.tensors[value.from.1].name;
                let message = format!(
                    "`{}` of {} at [{},{}) in {} meets `{made}` of {}, which {} reads later",
                    tensor.name,
                    ctx.name(member),
                    spot.low,
                    spot.high,
                    spot.space,
                    ctx.name(value.from.0),
                    ctx.name(value.to.0)
                );
                findings.add(
                    Kind::HandoffMet,
                    At::node(usize::try_from(start).unwrap_or(0), "").of(&tensor.name),
                    message,
                );
            }
        }
    }
    // Two values on their way at once lie apart, unless one member made both in one buffer, or one became the
    // other.
    for (number, one) in values.iter().enumerate() {
        for other in &values[number + 1..] {
            let together = one.from.0.max(other.from.0) < one.to.0.min(other.to.0) || one.to.0 == other.to.0;
            let is_one = one.from == other.from || passed_on(ctx, one, other) || passed_on(ctx, other, one);
            if together && !is_one && one.spot.meets(&other.spot) {
                let name = &ctx.spots[other.from.0].layout.tensors[other.from.1].name;
                let message = format!("`{name}` meets another value that is handed over at that time");
                findings.add(Kind::HandoffMet, At::tensor(name), message);
            }
        }
    }
}

/// Whether a member hands over the bytes of an input that was handed over to it.
fn passed_on(ctx: &Ctx<'_>, first: &Carried<'_>, second: &Carried<'_>) -> bool {
    first.to.0 == second.from.0 && ctx.spots[first.to.0].root[second.from.1] == Some(first.to.1)
}
