//! Facts about plans for ranges of dimensions: the ranges, and arenas at small extents by the formula.

use std::collections::BTreeMap;

use memc_layout::{Extents, Layout, Placement, Rule};
use serde_json::{Value, json};

use crate::facts::{Facts, Gap};
use crate::quantity::{bytes, shortened};

/// Most points with an arena in the summary.
const MAX_POINTS: usize = 3;
/// Longest text of ranges, in characters.
const WIDTH: usize = 82;

/// Arena of the first space at some extents.
pub(crate) struct Point {
    pub(crate) extents: BTreeMap<String, u64>,
    pub(crate) arena: u64,
}

/// Returns arenas by the formula at corners: each dimension alone at its largest extent and the others at
/// their smallest, then all at their smallest; points that break a limit are left out.
pub(crate) fn points(layout: &Layout) -> Vec<Point> {
    let ranges = &layout.model.ranges;
    let least: BTreeMap<String, u64> =
        ranges.iter().map(|(name, extents)| (name.clone(), extents.min)).collect();
    let alone = ranges.iter().rev().filter(|_| ranges.len() > 1).map(|(name, extents)| {
        let mut point = least.clone();
        point.insert(name.clone(), extents.max);
        point
    });
    let corners = alone.take(MAX_POINTS - 1).chain((!ranges.is_empty()).then(|| least.clone()));
    let arena = |extents: BTreeMap<String, u64>| {
        let placement = Placement::at(layout, &extents, Rule::Formula).ok()?;
        Some(Point { arena: placement.arenas.first().copied()?, extents })
    };
    corners.filter_map(arena).collect()
}

/// Formats the ranges: `batch 1..8, seq 32..960/32`, and limits.
pub(crate) fn ranges(layout: &Layout) -> String {
    let range = |(name, extents): (&String, &Extents)| {
        let step = if extents.step > 1 { format!("/{}", extents.step) } else { String::new() };
        format!("{name} {}..{}{step}", extents.min, extents.max)
    };
    let limits = layout.model.limits.iter().map(|limit| format!("{} <= {}", limit.of, limit.most));
    layout.model.ranges.iter().map(range).chain(limits).collect::<Vec<_>>().join(", ")
}

/// Formats extents in the order of their names: `(8,512)`.
fn tuple<'a>(extents: impl Iterator<Item = &'a u64>) -> String {
    format!("({})", extents.map(u64::to_string).collect::<Vec<_>>().join(","))
}

/// Formats the arenas at small extents: `17.5 MiB at (1,512), 27.1 KiB at (1,1)`.
pub(crate) fn small(layout: &Layout) -> String {
    let point = |point: &Point| format!("{} at {}", bytes(point.arena), tuple(point.extents.values()));
    points(layout).iter().map(point).collect::<Vec<_>>().join(", ")
}

/// Returns the line about the ranges; `None` if no dimension is free.
pub(crate) fn line(facts: &Facts) -> Option<String> {
    let layout = facts.layout;
    let space = facts.first().filter(|_| !layout.model.ranges.is_empty())?;
    let at = tuple(layout.model.ranges.values().map(|extents| &extents.max));
    let bound = match space.bound {
        Some(bound) => format!("{}, {}", bytes(bound.placement), space.gap().verdict()),
        None => Gap::Unknown.verdict(),
    };
    let small = small(layout);
    let small = if small.is_empty() { small } else { format!("; {small}") };
    Some(format!(
        "arena {} for {} (bound at {at} {bound}){small}",
        bytes(space.arena),
        shortened(&ranges(layout), WIDTH)
    ))
}

/// Returns ranges, limits, arenas at corners and arenas of buckets as JSON.
pub(crate) fn object(layout: &Layout) -> Value {
    let first = |bucket: &memc_layout::Bucket| bucket.arenas.first().map(|arena| arena.size);
    json!({
        "ranges": layout.model.ranges,
        "limits": layout.model.limits,
        "at": points(layout).iter().map(|point| json!({"dims": point.extents, "arena": point.arena})).collect::<Vec<_>>(),
        "buckets": layout.layouts.iter().map(|bucket| json!({"dims": bucket.dims, "arena": first(bucket)})).collect::<Vec<_>>(),
    })
}
