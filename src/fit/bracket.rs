//! Which extent to plan next, by the bytes of those that were planned.

use crate::need::Need;

/// The largest extent that fits is found up to this share of it.
const PRECISION: u64 = 64;
/// The same for plans within a budget, whose bytes follow the extent less closely.
const PRECISION_WITHIN: u64 = 16;
/// Tries after which an extent in the middle is tried, if the bytes of the ends have not halved the distance.
const PATIENCE: u32 = 3;

/// Numbers of steps between the largest known extent that fits and the smallest that does not.
#[derive(Clone, Debug)]
pub(super) struct Bracket {
    /// Smallest extent, and distance of extents.
    extents: [u64; 2],
    /// Bytes that do not follow the extent.
    rest: u64,
    /// Steps and bytes of extents that were planned without a budget, in ascending order.
    plain: Vec<(u64, u64)>,
    low: u64,
    /// Whether the plan of the largest extent that fits needs a budget.
    is_tight: bool,
    high: u64,
    /// Least bytes found for the smallest extent that does not fit; `None` if it was not planned.
    over: Option<u64>,
    /// Distance of the ends when it was last halved, and tries since.
    halved: (u64, u32),
}

impl Bracket {
    /// Starts with a plan of the smallest of `most + 1` extents, within a budget if it `is_tight`.
    pub(super) fn new(extents: [u64; 2], most: u64, need: Need, is_tight: bool) -> Self {
        let high = most.saturating_add(1);
        let plain = vec![(0, need.in_run())];
        Self { extents, rest: need.at_rest(), plain, low: 0, is_tight, high, over: None, halved: (high, 0) }
    }

    pub(super) fn low(&self) -> u64 {
        self.low
    }

    /// Notes a plan that fits.
    pub(super) fn fits(&mut self, steps: u64, need: Need, is_tight: bool) {
        (self.low, self.is_tight) = (steps, is_tight);
        if !is_tight {
            self.plain.push((steps, need.in_run()));
        }
    }

    /// Notes the least bytes of an extent that does not fit.
    pub(super) fn is_too_large(&mut self, steps: u64, bytes: u64) {
        (self.high, self.over) = (steps, Some(bytes));
    }

    /// Notes an extent that the model refuses.
    pub(super) fn is_refused(&mut self, steps: u64) {
        (self.high, self.over) = (steps, None);
    }

    /// Whether a plan without a budget needs more than `ram`, by a line through those that were made.
    pub(super) fn is_over(&self, steps: u64, ram: u64) -> bool {
        self.is_tight || self.reached(ram).is_some_and(|reached| steps > reached)
    }

    /// The largest number of steps of which a plan without a budget needs at most `ram`, by a line through
    /// the last two that were made: from all bytes that follow the extent, if there is only one. `None` if
    /// bytes do not grow.
    fn reached(&self, ram: u64) -> Option<u64> {
        let (at, bytes) = *self.plain.last()?;
        let (from, less) = match self.plain.len().checked_sub(2).and_then(|index| self.plain.get(index)) {
            Some((from, less)) => (i128::from(*from), *less),
            // At an extent of 0.
            None => (-i128::from(self.extents[0] / self.extents[1]), self.rest),
        };
        let (grown, distance) = (i128::from(bytes) - i128::from(less), i128::from(at) - from);
        let steps = i128::from(at)
            + (i128::from(ram) - i128::from(bytes)) * distance.max(1)
                / Some(grown).filter(|grown| *grown > 0)?;
        u64::try_from(steps.max(0)).ok()
    }

    /// The next number of steps to plan; `None` if the largest extent is found.
    pub(super) fn next(&mut self, ram: u64) -> Option<u64> {
        let distance = self.high - self.low;
        let share = if self.is_tight { PRECISION_WITHIN } else { PRECISION };
        if distance <= (self.low / share).max(1) {
            return None;
        }
        if distance <= self.halved.0 / 2 {
            self.halved = (distance, 0);
        }
        self.halved.1 += 1;
        let middle = self.low + distance / 2;
        Some(match self.over {
            Some(_) if self.halved.1 > PATIENCE => middle,
            Some(over) if self.is_tight => {
                // The least bytes of plans within budgets follow the extent above those that stay.
                let [least, step] = self.extents;
                let extent = u128::from(least) + u128::from(self.high) * u128::from(step);
                let share = u128::from(ram.saturating_sub(self.rest)) * extent;
                let found = share / u128::from(over.saturating_sub(self.rest).max(1));
                let steps = u64::try_from(found).unwrap_or(u64::MAX).saturating_sub(least) / step;
                Some(steps).filter(|steps| *steps > self.low && *steps < self.high).unwrap_or(middle)
            }
            Some(over) => {
                // Bytes that grow faster and faster are between a line to the end and a line beyond the
                // start.
                let (at, bytes) = self.plain.last().copied().unwrap_or_default();
                let share = u128::from(ram.saturating_sub(bytes)) * u128::from(self.high.saturating_sub(at));
                let chord = share / u128::from(over.saturating_sub(bytes).max(1));
                let chord = self.inside(at.saturating_add(u64::try_from(chord).unwrap_or(u64::MAX)));
                let line = self.inside(self.reached(ram).unwrap_or(u64::MAX));
                self.inside(chord.midpoint(line))
            }
            None if self.is_tight => self.inside(2 * self.low + 1),
            None => self.inside(self.reached(ram).unwrap_or(u64::MAX)),
        })
    }

    /// The number of steps between the ends that is nearest to another one.
    fn inside(&self, steps: u64) -> u64 {
        steps.min(self.high - 1).max(self.low + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(bytes: u64) -> Need {
        Need { weights: 1000, arena: bytes - 1000, ..Need::default() }
    }

    /// Searches with given bytes of plans without a budget and of the smallest plans; returns the steps found
    /// and the number of tries.
    fn search(ram: u64, most: u64, plain: impl Fn(u64) -> u64, small: impl Fn(u64) -> u64) -> (u64, u32) {
        let mut bracket = Bracket::new([1, 1], most, need(plain(0)), false);
        let mut tries = 1;
        while let Some(next) = bracket.next(ram) {
            tries += 1;
            if plain(next) <= ram {
                bracket.fits(next, need(plain(next)), false);
            } else if small(next) <= ram {
                bracket.fits(next, need(ram), true);
            } else {
                bracket.is_too_large(next, small(next));
            }
        }
        (bracket.low(), tries)
    }

    fn next(found: u64, share: u64) -> u64 {
        found + (found / share).max(1)
    }

    #[test]
    fn bytes_that_follow_the_extent_take_few_plans() {
        let line = |steps: u64| 1700 + 96 * steps;
        let square = |steps: u64| 1700 + 40 * steps + 3 * steps * steps;
        for ram in [2_000, 5_000, 60_000, 1_000_000] {
            for of in [&line as &dyn Fn(u64) -> u64, &square] {
                let (found, tries) = search(ram, 65_535, of, of);
                assert!(of(found) <= ram && of(next(found, PRECISION)) > ram, "{ram}: {found}");
                assert!(tries <= 8, "{ram}: {tries}");
            }
        }
        assert_eq!(search(100_000, 17, line, line), (17, 2), "all that is asked for");
    }

    #[test]
    fn smallest_plans_are_found_within_the_precision() {
        let (plain, small) = (|steps: u64| 1700 + 96 * steps, |steps: u64| 1300 + 31 * steps);
        for ram in [5_000, 60_000, 1_000_000] {
            let (found, tries) = search(ram, 65_535, plain, small);
            assert!(small(found) <= ram && small(next(found, PRECISION_WITHIN)) > ram, "{ram}: {found}");
            assert!(tries <= 8, "{ram}: {tries}");
        }
    }

    #[test]
    fn jumps_end_too() {
        // Bytes that fall back at multiples of 8, which parts divide.
        let of = |steps: u64| 1700 + 90 * steps / if steps % 8 == 7 { 4 } else { 1 };
        for ram in [2_000, 5_000, 60_000] {
            let (found, tries) = search(ram, 65_535, of, of);
            assert!(of(found) <= ram && tries <= 24, "{ram}: {found}, {tries}");
        }
    }
}
