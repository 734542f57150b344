//! Choice of the points at which a plan for ranges is run: corners, their neighbors, and points inside.

use std::collections::BTreeSet;

use memc_layout::{Extents, Layout};

use crate::point::{Point, keeps};
use crate::splitmix::SplitMix;

/// Most free dimensions for which all corners are points; with more, corners that differ in one dimension.
const MAX_CORNERS_OF: usize = 3;
/// Default number of points inside the ranges.
pub(crate) const INSIDE: usize = 8;
/// Draws of an extent until one is prime or odd.
const DRAWS: usize = 24;

/// Returns points of a layout's ranges, without repeats: the largest and the smallest extents first, then
/// points inside, mostly with prime and odd extents, in turn with the other corners and with points one
/// step inside each corner. Points that break a limit come back to its border.
pub fn points(layout: &Layout, seed: u64, inside: usize) -> Vec<Point> {
    let ranges: Vec<(&String, &Extents)> = layout.model.ranges.iter().collect();
    if ranges.is_empty() {
        return Vec::new();
    }
    let mut random = SplitMix(seed ^ 0x6d65_6d63);
    let corners = corners(&ranges, 0);
    let near = self::corners(&ranges, 1);
    let inside: Vec<Point> = (0..inside).map(|at| drawn(&ranges, at, &mut random)).collect();
    // Take one of each list in turn.
    let mut all: Vec<Point> = corners.iter().take(2).cloned().collect();
    let longest = corners.len().max(near.len()).max(inside.len());
    for at in 0..longest {
        all.extend([inside.get(at), near.get(at), corners.get(at + 2)].into_iter().flatten().cloned());
    }
    let mut seen = BTreeSet::new();
    let fitting = all.into_iter().filter_map(|point| fitted(layout, &ranges, point));
    fitting.filter(|point| seen.insert(point.clone())).collect()
}

/// Returns the corners of the box that begins and ends `distance` steps inside the ranges, the largest
/// and the smallest first.
fn corners(ranges: &[(&String, &Extents)], distance: u64) -> Vec<Point> {
    let end = |range: &Extents, high: bool| {
        let inside = range.step.saturating_mul(distance).min(range.max.saturating_sub(range.min));
        if high { range.max - inside } else { range.min + inside }
    };
    let point = |high: &dyn Fn(usize) -> bool| {
        let ends =
            ranges.iter().enumerate().map(|(at, (name, range))| ((*name).clone(), end(range, high(at))));
        Point(ends.collect())
    };
    let mut all = vec![point(&|_| true), point(&|_| false)];
    if ranges.len() <= MAX_CORNERS_OF {
        all.extend((1..(1usize << ranges.len()) - 1).map(|bits| point(&|at| bits >> at & 1 == 1)));
    } else {
        all.extend((0..ranges.len()).flat_map(|one| [point(&|at| at == one), point(&|at| at != one)]));
    }
    all
}

/// Draws a point inside the ranges; every third point prefers small extents.
fn drawn(ranges: &[(&String, &Extents)], number: usize, random: &mut SplitMix) -> Point {
    let mut extent = |range: &Extents| {
        let count = range.max.saturating_sub(range.min).checked_div(range.step.max(1)).unwrap_or(0) + 1;
        let count = if number % 3 == 2 { count.min(9) } else { count };
        let mut draw = || range.min + random.below(count) * range.step;
        let first = draw();
        let wanted =
            |extent: &u64| if number.is_multiple_of(2) { is_prime(*extent) } else { extent % 2 == 1 };
        (0..DRAWS).map(|_| draw()).find(wanted).unwrap_or(first)
    };
    Point(ranges.iter().map(|(name, range)| ((*name).clone(), extent(range))).collect())
}

fn is_prime(number: u64) -> bool {
    /// Divisors beyond this are not tried; a large extent then counts as prime.
    const MAX_DIVISOR: u64 = 1 << 12;
    number > 1
        && (2..=MAX_DIVISOR)
            .take_while(|by| by.saturating_mul(*by) <= number)
            .all(|by| !number.is_multiple_of(by))
}

/// Returns the point, or a point toward the smallest extents that keeps the limits; then raises each
/// extent again as far as the limits allow. `None` if the smallest extents break a limit.
fn fitted(layout: &Layout, ranges: &[(&String, &Extents)], point: Point) -> Option<Point> {
    if keeps(layout, &point).is_ok() {
        return Some(point);
    }
    let mut fit = point.clone();
    while keeps(layout, &fit).is_err() {
        // Halve the distance of the extent that is the most steps above its smallest.
        let steps = |(name, range): &&(&String, &Extents)| {
            (fit.0[*name].saturating_sub(range.min)) / range.step.max(1)
        };
        let (name, range) = *ranges.iter().max_by_key(steps)?;
        let steps = steps(&&(name, range));
        if steps == 0 {
            return None;
        }
        fit.0.insert(name.clone(), range.min + steps / 2 * range.step);
    }
    for (name, range) in ranges {
        let (mut low, mut high) = (fit.0[*name], point.0[*name]);
        while low < high {
            let steps = (high - low) / range.step.max(1);
            let middle = low + steps.div_ceil(2) * range.step;
            let mut raised = fit.0.clone();
            raised.insert((*name).clone(), middle);
            if keeps(layout, &Point(raised)).is_ok() {
                low = middle;
            } else {
                high = middle - range.step;
            }
        }
        fit.0.insert((*name).clone(), low);
    }
    keeps(layout, &fit).is_ok().then_some(fit)
}
