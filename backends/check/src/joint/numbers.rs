//! Rule 8, numbers: sums, bounds and shared weights are as stated.

use std::collections::{BTreeMap, BTreeSet};

use memc_layout::joint::Mode;

use super::Ctx;
use super::met::carried;
use crate::codes::Kind;
use crate::findings::{At, Findings, exact};

pub(super) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    let mut compare = |what: String, stated: u64, found: u64| {
        if stated != found {
            findings.add(
                Kind::JointNumber,
                At::default(),
                format!("{what} is {}, not {}", exact(found), exact(stated)),
            );
        }
    };
    let sum = ctx.members.iter().fold(0_u64, |sum, files| sum.saturating_add(files.layout.weights));
    compare("the sum of the weights".to_owned(), ctx.joint.weights_sum, sum);
    let saved = ctx.joint.constants.iter().fold(0_u64, |saved, constant| {
        let copies = (constant.uses.len() as u64).saturating_sub(1);
        saved.saturating_add(constant.bytes.saturating_mul(copies))
    });
    compare(
        "the sum of the weights with shared ones once".to_owned(),
        ctx.joint.weights_joint,
        sum.saturating_sub(saved),
    );
    for arena in &ctx.joint.arenas {
        let own = |layout: &memc_layout::Layout| {
            layout.arenas.iter().find(|own| own.space == arena.space).map(|own| own.size)
        };
        let sizes: Vec<u64> = ctx.members.iter().filter_map(|files| own(&files.layout)).collect();
        let padded = |size: &u64| size.checked_next_multiple_of(arena.alignment.max(1)).unwrap_or(u64::MAX);
        let sum = sizes.iter().map(padded).fold(0, u64::saturating_add);
        compare(format!("the sum of the arenas in {}", arena.space), arena.sum_alone, sum);
        let most = sizes.iter().copied().max().unwrap_or(0);
        compare(format!("the largest arena in {}", arena.space), arena.max_alone, most);
        compare(format!("the bound in {}", arena.space), arena.bound, bound(ctx, &arena.space));
    }
}

/// Most bytes in use at one step of a member, handed-over values included; at least the largest tensor.
/// Guests run in bytes of their host, so the host alone counts.
fn bound(ctx: &Ctx<'_>, space: &str) -> u64 {
    let values = carried(ctx);
    let members = if ctx.joint.mode == Mode::Nested { 1 } else { ctx.spots.len() };
    let mut most = 0;
    for (number, spots) in ctx.spots.iter().enumerate().take(members) {
        // Ranges of bytes that begin or end to be in use, by step.
        let mut events: BTreeMap<u64, Vec<(bool, u64, u64)>> = BTreeMap::new();
        let mut push = |start: u64, end: u64, low: u64, high: u64| {
            if start < end && low < high {
                events.entry(start).or_default().push((true, low, high));
                events.entry(end).or_default().push((false, low, high));
            }
        };
        for (at, spot) in spots.spot.iter().enumerate() {
            let Some(spot) = spot.filter(|spot| spot.space == space) else { continue };
            for (start, end) in spots.live(at) {
                push(start, end.min(spots.steps()), spot.low, spot.high);
            }
            if spots.layout.tensors[at].alias.is_none() {
                most = most.max(spots.layout.tensors[at].bytes);
            }
        }
        for value in values
            .iter()
            .filter(|value| value.spot.space == space && value.from.0 < number && number <= value.to.0)
        {
            let until = if number == value.to.0 { value.until } else { spots.steps() };
            push(0, until, value.spot.low, value.spot.high);
        }
        let mut live: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for changes in events.into_values() {
            for (begins, low, high) in changes {
                let count = live.entry((low, high)).or_default();
                *count = if begins { *count + 1 } else { count.saturating_sub(1) };
            }
            live.retain(|_, count| *count > 0);
            most = most.max(union(live.keys()));
        }
    }
    most
}

/// Number of bytes in at least one of the ranges, which ascend.
fn union<'r>(ranges: impl Iterator<Item = &'r (u64, u64)>) -> u64 {
    let (mut sum, mut end) = (0_u64, 0);
    let mut seen = BTreeSet::new();
    for (low, high) in ranges.filter(|range| seen.insert(**range)) {
        let from = (*low).max(end);
        if from < *high {
            sum = sum.saturating_add(high - from);
            end = *high;
        }
    }
    sum
}
