//! Checks offsets that follow the extents: rows of the formula, and offsets for smaller largest extents.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{DimExpr, TensorType};
use memc_layout::{Bucket, FormulaRow, Layout, LiveCurve, Owner, SpaceCurve, Tensor};

use crate::codes::Kind;
use crate::entries::element;
use crate::extents::Extents;
use crate::findings::{At, Findings};

/// Most rows for which chains of rows are followed: the test takes a bit for each pair. Beyond it,
/// tensors that meet must lie directly on each other.
const MAX_CHAINED: usize = 4096;

/// Checks the formula of each space, and each entry of `layouts`. Takes sizes and live ranges as
/// stated; other checks prove them.
pub(crate) fn check(layout: &Layout, extents: &Extents, findings: &mut Findings) {
    let mut refuse = |why: String| findings.add(Kind::Formula, At::default(), why);
    let is_ranged = !layout.model.ranges.is_empty();
    let has_none = layout.formula.is_empty() && layout.layouts.is_empty();
    if !is_ranged && !has_none {
        refuse("offsets follow the extents, but no dimension is free".to_owned());
    }
    let curve = LiveCurve::of(layout);
    for space in curve.spaces.iter().filter(|space| is_ranged && !space.owners.is_empty()) {
        let rows = layout.formula.get(&space.space).map(Vec::as_slice).unwrap_or_default();
        if let Some(why) = wrong_rows(layout, space, rows) {
            refuse(format!("the formula of space `{}` is wrong: {why}", space.space));
        }
    }
    for bucket in &layout.layouts {
        if let Some(why) = wrong_bucket(layout, extents, &curve, bucket) {
            refuse(format!("the offsets for extents up to {:?} are wrong: {why}", bucket.dims));
        }
    }
}

/// Returns the reason why the rows of a space let two tensors share a byte at some extents, or exceed
/// the arena.
fn wrong_rows(layout: &Layout, space: &SpaceCurve, rows: &[FormulaRow]) -> Option<String> {
    let name = |owner: &Owner| layout.tensors.get(owner.tensor).map_or("", |tensor| tensor.name.as_str());
    let owners: BTreeMap<&str, &Owner> = space.owners.iter().map(|owner| (name(owner), owner)).collect();
    let arena = layout.arenas.iter().find(|arena| arena.space == space.space)?;
    let mut position: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut ends, mut below): (Vec<u64>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
    for row in rows {
        let Some(owner) = owners.get(row.tensor.as_str()) else {
            return Some(format!("`{}` owns no bytes there", row.tensor));
        };
        let under: Option<Vec<usize>> =
            row.above.iter().map(|name| position.get(name.as_str()).copied()).collect();
        let Some(under) = under else {
            return Some(format!("`{}` lies on a tensor without an earlier row", row.tensor));
        };
        let top = under.iter().filter_map(|at| ends.get(*at)).copied().max().unwrap_or(0);
        let start = top.checked_next_multiple_of(arena.alignment.max(1)).unwrap_or(u64::MAX);
        ends.push(start.saturating_add(owner.bytes));
        if owner.bytes > 0 && start.saturating_add(owner.bytes) > arena.size {
            return Some(format!("`{}` ends beyond the arena at the largest extents", row.tensor));
        }
        below.push(under);
        if position.insert(&row.tensor, below.len() - 1).is_some() {
            return Some(format!("`{}` has two rows", row.tensor));
        }
    }
    // Neighbors in the order of rows must be connected at each step; then all tensors that meet are.
    let reached = if rows.len() <= MAX_CHAINED { chains(&below) } else { Vec::new() };
    let is_under = |low: usize, high: usize| match reached.get(high) {
        Some(reached) => reached.contains(&low),
        None => below.get(high).is_some_and(|below| below.contains(&low)),
    };
    let placed = owners.iter().filter(|(_, owner)| owner.bytes > 0 && !owner.live.is_empty());
    let rank = |(name, owner): (&&str, &&Owner)| {
        position.get(*name).copied().map_or(Err((*name).to_owned()), |at| Ok((at, owner.live.clone())))
    };
    let ranked = match placed.map(rank).collect::<Result<Vec<_>, String>>() {
        Ok(ranked) => ranked,
        Err(name) => return Some(format!("`{name}` has no row")),
    };
    let events =
        ranked.iter().flat_map(|(at, live)| live.iter().map(move |range| (range.start, range.end, *at)));
    let apart = unconnected(events.collect(), &is_under)?;
    let name = |at: usize| rows.get(at).map_or("", |row| row.tensor.as_str());
    Some(format!(
        "`{}` and `{}` are live at one step, and no chain of rows connects them",
        name(apart.0),
        name(apart.1)
    ))
}

/// Returns the rows below each row, directly or not.
fn chains(below: &[Vec<usize>]) -> Vec<BTreeSet<usize>> {
    let mut all: Vec<BTreeSet<usize>> = Vec::with_capacity(below.len());
    for under in below {
        let mut reached: BTreeSet<usize> = under.iter().copied().collect();
        for at in under {
            reached.extend(all.get(*at).into_iter().flatten());
        }
        all.push(reached);
    }
    all
}

/// Returns neighbors that are live at one step and not connected. `events` are start, end and row.
fn unconnected(
    mut events: Vec<(u64, u64, usize)>,
    is_under: &dyn Fn(usize, usize) -> bool,
) -> Option<(usize, usize)> {
    events.sort_unstable();
    let mut live: BTreeMap<usize, u64> = BTreeMap::new();
    let mut steps: BTreeSet<u64> = events.iter().map(|(start, ..)| *start).collect();
    steps.extend(events.iter().map(|(_, end, _)| *end));
    let mut next = events.into_iter().peekable();
    for step in steps {
        live.retain(|_, end| *end > step);
        while let Some((_, end, at)) = next.next_if(|(start, ..)| *start <= step) {
            live.insert(at, end);
        }
        let pairs = live.keys().zip(live.keys().skip(1));
        if let Some((low, high)) = pairs.into_iter().find(|(low, high)| !is_under(**low, **high)) {
            return Some((*low, *high));
        }
    }
    None
}

/// Returns the reason why fixed offsets for smaller extents do not hold.
fn wrong_bucket(layout: &Layout, extents: &Extents, curve: &LiveCurve, bucket: &Bucket) -> Option<String> {
    let Some(extents) = extents.up_to(&bucket.dims) else {
        return Some("one of them is no free dimension".to_owned());
    };
    for space in curve.spaces.iter().filter(|space| !space.owners.is_empty()) {
        let arena = bucket.arenas.iter().find(|arena| arena.space == space.space);
        let Some(arena) = arena else { return Some(format!("space `{}` has no arena", space.space)) };
        let mut placed: Vec<(u64, u64, u64, u64)> = Vec::new();
        for owner in &space.owners {
            let Some(tensor) = layout.tensors.get(owner.tensor) else { continue };
            let place = bucket.offsets.get(&tensor.name).copied().zip(most(tensor, &extents));
            let Some((offset, bytes)) = place else {
                return Some(format!("`{}` has no place or no size", tensor.name));
            };
            let end = offset.saturating_add(bytes.min(tensor.bytes));
            if end > arena.size && bytes > 0 || offset.checked_rem(arena.alignment) != Some(0) {
                return Some(format!("`{}` lies outside the arena or is not aligned", tensor.name));
            }
            placed.extend(
                owner.live.iter().filter(|_| end > offset).map(|range| (range.start, range.end, offset, end)),
            );
        }
        if overlaps(placed) {
            return Some(format!("two tensors of space `{}` share bytes at one step", space.space));
        }
    }
    None
}

/// Returns an upper bound of a tensor's size: the smaller of the bound of the product of extents, and
/// the product of their bounds.
fn most(tensor: &Tensor, extents: &Extents) -> Option<u64> {
    let Some(text) = tensor.bytes_expr.as_deref() else { return Some(tensor.bytes) };
    let bound = |text: &str| u64::try_from(extents.most(&DimExpr::parse_quoted(text)?)?.max(0)).ok();
    let shape = || tensor.shape_expr.as_ref()?.iter().map(|text| bound(text)).collect::<Option<Vec<u64>>>();
    let product = || TensorType::fixed(element(&tensor.dtype)?, &shape()?).size();
    [bound(text), product().map(|size| size.0)].into_iter().flatten().min()
}

/// Whether two rectangles of steps and bytes, each as first and last step, first and last byte, share a byte.
fn overlaps(mut placed: Vec<(u64, u64, u64, u64)>) -> bool {
    placed.sort_unstable();
    let mut live: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for (start, end, low, high) in placed {
        live.retain(|_, (_, until)| *until > start);
        let reaches_in = live.range(..=low).next_back().is_some_and(|(_, (top, _))| *top > low);
        if reaches_in || live.range(low..high).next().is_some() {
            return true;
        }
        live.insert(low, (high, end));
    }
    false
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use memc_layout::{Arena, formula, read};

    use super::*;

    /// Makes the shared fixture a plan for a range, with its formula and one bucket.
    fn ranged() -> Layout {
        let mut layout = read(include_str!("../../layout/tests/data/residual_block.layout.json")).unwrap();
        layout.model.ranges =
            BTreeMap::from([("n m".to_owned(), memc_layout::Extents { min: 0, max: 8, step: 1 })]);
        for tensor in layout.tensors.iter_mut().filter(|tensor| tensor.bytes % 8 == 0) {
            tensor.bytes_expr = Some(format!("{}*\"n m\"", tensor.bytes / 8));
        }
        layout.formula = formula(&layout);
        let owners = layout.tensors.iter().filter(|tensor| tensor.alias.is_none());
        let offsets = owners.filter_map(|tensor| Some((tensor.name.clone(), tensor.offset?))).collect();
        layout.layouts = vec![Bucket {
            dims: BTreeMap::from([("n m".to_owned(), 5)]),
            arenas: layout.arenas.clone(),
            offsets,
        }];
        layout
    }

    fn found(layout: &Layout) -> usize {
        let mut findings = Findings::default();
        if let Some(extents) = Extents::of(layout, &mut findings) {
            check(layout, &extents, &mut findings);
        }
        findings.finish().0.len()
    }

    #[test]
    fn honest_plans_are_accepted() {
        assert_eq!(found(&ranged()), 0);
    }

    #[test]
    fn each_lost_row_or_edge_is_found() {
        let layout = ranged();
        let mut count = 0;
        for (space, rows) in &layout.formula {
            for (at, row) in rows.iter().enumerate() {
                let mut lost = layout.clone();
                lost.formula.get_mut(space).unwrap().remove(at);
                assert!(found(&lost) > 0, "{at}");
                for edge in 0..row.above.len() {
                    let mut lost = layout.clone();
                    lost.formula.get_mut(space).unwrap()[at].above.remove(edge);
                    assert!(found(&lost) > 0, "{at} {edge}");
                    count += 1;
                }
            }
            let mut turned = layout.clone();
            turned.formula.get_mut(space).unwrap().reverse();
            assert!(rows.len() < 2 || found(&turned) > 0);
        }
        assert!(count > 5, "{count}");
        let mut bound = layout.clone();
        bound.model.ranges.clear();
        assert!(found(&bound) > 0);
    }

    #[test]
    fn wrong_buckets_are_found() {
        let layout = ranged();
        let broken = |change: &dyn Fn(&mut Bucket)| {
            let mut layout = layout.clone();
            change(&mut layout.layouts[0]);
            found(&layout)
        };
        let zero: &dyn Fn(&mut Bucket) = &|bucket| bucket.offsets.values_mut().for_each(|offset| *offset = 0);
        let shift: &dyn Fn(&mut Bucket) = &|bucket| *bucket.offsets.values_mut().last().unwrap() += 1;
        let small: &dyn Fn(&mut Bucket) =
            &|bucket| bucket.arenas.iter_mut().for_each(|arena: &mut Arena| arena.size /= 4);
        let lost: &dyn Fn(&mut Bucket) = &|bucket| drop(bucket.offsets.pop_first());
        let dims: &dyn Fn(&mut Bucket) = &|bucket| bucket.dims.extend([("other".to_owned(), 3)]);
        for change in [zero, shift, small, lost, dims] {
            assert!(broken(change) > 0);
        }
    }
}
