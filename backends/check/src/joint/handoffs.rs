//! Rule 4, handoffs: both ends are one value, in one place, and nothing overwrites it before its last reader.

use std::collections::BTreeSet;

use memc_layout::Class;
use memc_layout::joint::Handoff;

use super::Ctx;
use crate::codes::Kind;
use crate::findings::{At, Findings};

pub(super) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    let mut filled = BTreeSet::new();
    for handoff in &ctx.joint.handoffs {
        let (from, to) = (&handoff.from, &handoff.to);
        let mut add = |message: String| {
            let text = format!("{}.{} to {}.{}: {message}", from.member, from.tensor, to.member, to.tensor);
            findings.add(Kind::Handoff, At::tensor(&to.tensor), text);
        };
        let (Some(maker), Some(reader)) = (ctx.item(from), ctx.item(to)) else {
            add("one of them is no tensor".to_owned());
            continue;
        };
        if maker.0 >= reader.0 {
            add("the reader does not run later than the maker".to_owned());
        }
        if !filled.insert(reader) {
            add("the input is filled twice".to_owned());
        }
        if let Err(message) = ends(ctx, handoff, maker, reader) {
            add(message);
        }
        let (_, is_overwritten) = ctx.spots[reader.0].reads(reader.1);
        let reads_later = |other: &Handoff| {
            let is_later = ctx.item(&other.to).is_some_and(|other| other.0 > reader.0);
            is_later && ctx.item(&other.from) == Some(maker)
        };
        if is_overwritten
            && (ctx.joint.members[reader.0].repeats || ctx.joint.handoffs.iter().any(reads_later))
        {
            add("the reader writes a result over it, and it is read later".to_owned());
        }
    }
}

/// Checks types, classes and places of both ends.
fn ends(
    ctx: &Ctx<'_>,
    handoff: &Handoff,
    maker: (usize, usize),
    reader: (usize, usize),
) -> Result<(), String> {
    let interface = |member: usize| ctx.members[member].model.graph();
    let (from, to) =
        (&ctx.spots[maker.0].layout.tensors[maker.1], &ctx.spots[reader.0].layout.tensors[reader.1]);
    if from.class != Class::Output
        || !interface(maker.0).output.iter().any(|output| output.name() == from.name)
    {
        return Err("the maker does not give it as a graph output".to_owned());
    }
    let is_input = interface(reader.0).input.iter().any(|input| input.name() == to.name);
    if !is_input || !matches!(to.class, Class::Input | Class::State) {
        return Err("the reader does not take it as a graph input".to_owned());
    }
    if from.shape_expr.is_some() || to.shape_expr.is_some() {
        return Err("its extents are free".to_owned());
    }
    if (&from.dtype, &from.shape, from.bytes) != (&to.dtype, &to.shape, to.bytes)
        || handoff.bytes != from.bytes
    {
        return Err(format!(
            "types or sizes differ: {} {:?}, {} {:?}, {} B",
            from.dtype, from.shape, to.dtype, to.shape, handoff.bytes
        ));
    }
    let made = ctx.spots[maker.0].spot[maker.1].map(|spot| (spot.space, spot.low));
    let stated = handoff.space.as_deref().zip(handoff.offset);
    if made != stated || handoff.space.is_some() != handoff.offset.is_some() {
        return Err("it is stated in another place than that in which it is made".to_owned());
    }
    let read = ctx.spots[reader.0].spot[reader.1].map(|spot| (spot.space, spot.low));
    match (made, read) {
        (Some(made), Some(read)) if made != read => Err("the reader takes it from another place".to_owned()),
        (None, Some(_)) => Err("the caller holds it, and the reader takes it from an arena".to_owned()),
        (Some(_), None) if to.class == Class::State => {
            Err("state outlives a run, and an arena does not".to_owned())
        }
        _ => Ok(()),
    }
}
