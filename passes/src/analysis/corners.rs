//! Extents at which plans for ranges of dimensions are compared.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{DimExpr, Domain, Range};

/// Most points: four levels of two symbols, and some for symbols alone.
const MAX_POINTS: usize = 24;
/// Levels of each symbol, in geometric steps from the smallest to the largest extent.
const LEVELS: u32 = 4;

/// Returns points of a domain, as far as limits allow: all combinations of four extents of each symbol if
/// these are few, else all symbols at equal levels, each alone at its largest, and each alone at its
/// smallest extent. Empty without a domain, and if a symbol has no upper bound.
pub fn corners(domain: &Domain) -> Vec<BTreeMap<String, u64>> {
    let Some(levels) =
        domain.ranges.iter().map(|(name, range)| Some((name, levels(range)?))).collect::<Option<Vec<_>>>()
    else {
        return Vec::new();
    };
    let count = levels.iter().try_fold(1usize, |count, (_, levels)| count.checked_mul(levels.len()));
    let points =
        if count.is_some_and(|count| count <= MAX_POINTS) { grid(&levels) } else { diagonals(&levels) };
    let mut points: Vec<_> =
        points.into_iter().filter(|point| !point.is_empty() && domain.contains(point)).collect();
    points.truncate(MAX_POINTS);
    points
}

/// Returns the points of a domain at which plans with equal needs at the largest extents are compared: all
/// symbols at equal levels below the largest one. Empty without a domain, and if a symbol has no upper bound.
pub fn small(domain: &Domain) -> Vec<BTreeMap<String, u64>> {
    let Some(levels) =
        domain.ranges.iter().map(|(name, range)| Some((name, levels(range)?))).collect::<Option<Vec<_>>>()
    else {
        return Vec::new();
    };
    let mut points = diagonals(&levels);
    let largest: Vec<u64> = levels.iter().filter_map(|(_, levels)| levels.last().copied()).collect();
    points.retain(|point| {
        let level = |(at, extent): (&Vec<u64>, &u64)| at.iter().position(|level| level == extent);
        let all: BTreeSet<_> =
            levels.iter().map(|(_, levels)| levels).zip(point.values()).map(level).collect();
        let is_largest = point.values().copied().eq(largest.iter().copied());
        !is_largest && all.len() == 1 && domain.contains(point)
    });
    points.into_iter().collect()
}

/// Returns the size of each buffer at each point: the value of its expression, at most its largest size. A
/// buffer without an expression has its largest size at all points.
pub fn sizes<'b>(points: &[BTreeMap<String, u64>], buffers: &'b [(u64, Option<DimExpr>)]) -> Vec<Vec<u64>> {
    let at = |point: &BTreeMap<String, u64>| {
        let mut known: BTreeMap<&'b DimExpr, Option<u64>> = BTreeMap::new();
        let value = |of: &DimExpr| u64::try_from(of.bind(point)?.as_constant()?.max(0)).ok();
        let mut size = |(most, of): &'b (u64, Option<DimExpr>)| {
            let own = of.as_ref().and_then(|of| *known.entry(of).or_insert_with(|| value(of)));
            own.map_or(*most, |own| own.min(*most))
        };
        buffers.iter().map(&mut size).collect()
    };
    points.iter().map(at).collect()
}

type Levels<'d> = (&'d String, Vec<u64>);

fn grid(levels: &[Levels<'_>]) -> BTreeSet<BTreeMap<String, u64>> {
    let mut points = BTreeSet::from([BTreeMap::new()]);
    for (name, levels) in levels {
        let with = |point: &BTreeMap<String, u64>, extent: u64| {
            let mut point = point.clone();
            point.insert((*name).clone(), extent);
            point
        };
        points =
            points.iter().flat_map(|point| levels.iter().map(move |extent| with(point, *extent))).collect();
    }
    points
}

fn diagonals(levels: &[Levels<'_>]) -> BTreeSet<BTreeMap<String, u64>> {
    let at = |level: usize| -> BTreeMap<String, u64> {
        let extent =
            |levels: &[u64]| levels.get(level.min(levels.len().saturating_sub(1))).copied().unwrap_or(0);
        levels.iter().map(|(name, levels)| ((*name).clone(), extent(levels))).collect()
    };
    let (least, most) = (at(0), at(usize::MAX));
    let alone = |of: &BTreeMap<String, u64>, others: &BTreeMap<String, u64>| -> Vec<BTreeMap<String, u64>> {
        let point = |(name, extent): (&String, &u64)| {
            let mut point = others.clone();
            point.insert(name.clone(), *extent);
            point
        };
        of.iter().map(point).collect()
    };
    let all = (0..LEVELS as usize).map(at).chain(alone(&most, &least)).chain(alone(&least, &most));
    all.collect()
}

/// Returns the levels of a range in ascending order; `None` without an upper bound.
fn levels(range: &Range) -> Option<Vec<u64>> {
    let max = range.max?;
    let first = range.min.max(1) as f64;
    let extent = |level: u32| {
        let share = f64::from(level) / f64::from(LEVELS - 1);
        // Casts of floats are defined: they saturate.
        let wanted = (first * (max as f64 / first).powf(share)).round() as u64;
        let steps = wanted.saturating_sub(range.min).checked_div(range.step).unwrap_or(0);
        if level == 0 {
            range.min
        } else {
            range.min.saturating_add(steps.saturating_mul(range.step)).min(max)
        }
    };
    let mut all: Vec<u64> = (0..LEVELS).map(extent).chain([max]).collect();
    all.sort_unstable();
    all.dedup();
    Some(all)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn points(ranges: &[(&str, &str)], limits: &[&str]) -> Vec<Vec<u64>> {
        let domain = Domain {
            ranges: ranges.iter().map(|(name, range)| ((*name).to_owned(), range.parse().unwrap())).collect(),
            limits: limits.iter().map(|limit| limit.parse().unwrap()).collect(),
        };
        let all = corners(&domain);
        assert!(all.iter().all(|point| domain.contains(point)));
        all.into_iter().map(|point| point.into_values().collect()).collect()
    }

    #[test]
    fn few_symbols_have_a_grid() {
        assert_eq!(points(&[("N", "1..512")], &[]), [[1], [8], [64], [512]]);
        assert_eq!(points(&[("N", "0..7")], &[]), [[0], [2], [4], [7]]);
        assert_eq!(points(&[("N", "3..3")], &[]), [[3]]);
        assert_eq!(points(&[("H", "32..960/32"), ("W", "1..2")], &[]).len(), 8);
        assert_eq!(points(&[("H", "32..64/32"), ("W", "1..2")], &["H*W<=64"]), [[32, 1], [32, 2], [64, 1]]);
        assert_eq!(points(&[], &[]), Vec::<Vec<u64>>::new());
    }

    #[test]
    fn many_symbols_have_diagonals() {
        let many: Vec<(&str, &str)> = ["A", "B", "C", "D"].map(|name| (name, "1..64")).into();
        let all = points(&many, &[]);
        assert!(all.contains(&vec![64; 4]) && all.contains(&vec![1; 4]) && all.contains(&vec![4; 4]));
        assert!(all.contains(&vec![64, 1, 1, 1]) && all.contains(&vec![64, 64, 1, 64]));
    }

    #[test]
    fn small_points_are_at_equal_levels_below_the_largest() {
        let small = |ranges: &[(&str, &str)], limits: &[&str]| -> Vec<Vec<u64>> {
            let domain = Domain {
                ranges: ranges
                    .iter()
                    .map(|(name, range)| ((*name).to_owned(), range.parse().unwrap()))
                    .collect(),
                limits: limits.iter().map(|limit| limit.parse().unwrap()).collect(),
            };
            small(&domain).into_iter().map(|point| point.into_values().collect()).collect()
        };
        assert_eq!(small(&[("N", "1..512")], &[]), [[1], [8], [64]]);
        assert_eq!(small(&[("B", "1..8"), ("S", "1..512")], &[]), [[1, 1], [2, 8], [4, 64]]);
        assert_eq!(small(&[("B", "1..8"), ("S", "1..512")], &["B*S<=100"]), [[1, 1], [2, 8]]);
        assert_eq!(small(&[("N", "0..7")], &[]), [[0], [2], [4]]);
        assert_eq!(small(&[("N", "3..3")], &[]), Vec::<Vec<u64>>::new());
        assert_eq!(small(&[], &[]), Vec::<Vec<u64>>::new());
    }

    #[test]
    fn sizes_follow_their_expressions_up_to_the_largest() {
        let points = [1u64, 5].map(|extent| BTreeMap::from([("N".to_owned(), extent)]));
        let expr = |text: &str| DimExpr::parse(text);
        let buffers = [(16, expr("4*N")), (7, None), (9, expr("3-N")), (8, expr("M")), (16, expr("4*N"))];
        assert_eq!(sizes(&points, &buffers), [[4, 7, 2, 8, 4], [16, 7, 0, 8, 16]]);
    }
}
