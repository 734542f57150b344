//! Covers rows by intervals at the least cost: the linear program of every bound, and its exact dual
//! value.

use super::interval::Interval;
use super::simplex;

/// Maximum number of pivots of one linear program; at the limit the bound is valid but weaker.
pub const MAX_PIVOTS: u64 = 2_000_000;

/// Number of significant binary digits of the prices that matter.
const UNIT_COST_DIGITS: f64 = 34.0;

/// Rows that each need absent bytes, and intervals of rows over which bytes can be absent at a cost.
#[derive(Clone, Debug, Default)]
pub struct Cover {
    /// Bytes that must be absent at each row.
    pub needs: Vec<u64>,
    /// Intervals that can be absent.
    pub gaps: Vec<Interval>,
}

/// A solution of the linear program and of its dual.
#[derive(Clone, Debug, Default)]
pub struct Solution {
    /// Absent bytes of each interval.
    pub absent: Vec<u64>,
    /// Price of a byte at each row, in units of cost divided by 2^`shift`.
    pub prices: Vec<u64>,
    /// Number of binary digits after the point of the prices.
    pub shift: u32,
    /// Dual value of the prices, rounded up: a lower bound of the cost of whole intervals, valid for any
    /// prices.
    pub bound: u128,
}

/// A smaller cover, with the origin of its rows and intervals.
pub struct Core {
    /// The smaller cover.
    pub cover: Cover,
    /// Original row of each row.
    pub rows: Vec<u32>,
    /// Original interval of each interval.
    pub gaps: Vec<u32>,
}

impl Cover {
    /// Returns the first row that all intervals together cannot cover; `None` if they cover every row.
    #[must_use]
    pub fn uncoverable(&self) -> Option<usize> {
        let mut steps = vec![0_i128; self.needs.len() + 1];
        for gap in &self.gaps {
            steps[gap.first as usize] += i128::from(gap.size);
            steps[gap.last as usize + 1] -= i128::from(gap.size);
        }
        let mut free = 0;
        self.needs.iter().zip(&steps).position(|(need, step)| {
            free += step;
            i128::from(*need) > free
        })
    }

    /// Solves the linear program, in which any part of an interval may be absent. `pivots` limits the
    /// work; every bound is valid. The cover must not be [`Cover::uncoverable`]. A pivot is O(rows) at
    /// worst.
    #[must_use]
    pub fn solve(&self, pivots: u64) -> Solution {
        self.solve_with(pivots, self.shift())
    }

    /// Solves as [`Cover::solve`] does, with `shift` binary digits after the point of prices.
    #[must_use]
    pub fn solve_with(&self, pivots: u64, shift: u32) -> Solution {
        let core = self.core();
        let small = simplex::solve(&core.cover.needs, &core.cover.gaps, shift, pivots);
        let mut solution =
            Solution { absent: vec![0; self.gaps.len()], prices: vec![0; self.needs.len()], shift, bound: 0 };
        for (index, absent) in core.gaps.into_iter().zip(small.absent) {
            solution.absent[index as usize] = absent;
        }
        for (row, price) in core.rows.into_iter().zip(small.prices) {
            solution.prices[row as usize] = price;
        }
        solution.bound = self.dual_value(&solution.prices, shift);
        solution
    }

    /// Removes rows that other rows imply, and intervals that cover none of the rest. O(rows +
    /// intervals).
    #[must_use]
    pub fn core(&self) -> Core {
        let rows = self.undominated_rows();
        // For each row, the index of the first kept row at or after it.
        let mut place = vec![0_u32; self.needs.len() + 1];
        let mut next = 0;
        for (row, place) in place.iter_mut().enumerate() {
            *place = next;
            next += u32::from(rows.get(next as usize).is_some_and(|kept| *kept as usize == row));
        }
        let needs = rows.iter().map(|row| self.needs[*row as usize]).collect();
        let mut core = Core { cover: Self { needs, gaps: Vec::new() }, rows, gaps: Vec::new() };
        for (index, gap) in self.gaps.iter().enumerate() {
            let (first, end) = (place[gap.first as usize], place[gap.last as usize + 1]);
            if first < end {
                core.gaps.push(index as u32);
                core.cover.gaps.push(Interval { first, last: end - 1, ..*gap });
            }
        }
        core
    }

    /// Returns the rows that have a need and are not implied by a neighbor. A neighbor implies a row if
    /// its need is at least as large and every interval that covers the neighbor covers the row.
    fn undominated_rows(&self) -> Vec<u32> {
        let (mut starts, mut ends) = (vec![0_u32; self.needs.len() + 1], vec![0_u32; self.needs.len() + 1]);
        for gap in &self.gaps {
            starts[gap.first as usize] += 1;
            ends[gap.last as usize + 1] += 1;
        }
        // Count the starts and ends up to each row: a difference of counts shows whether any is between
        // two rows.
        for counts in [&mut starts, &mut ends] {
            for row in 1..counts.len() {
                counts[row] += counts[row - 1];
            }
        }
        let mut kept: Vec<u32> = Vec::new();
        for row in (0..self.needs.len()).filter(|row| self.needs[*row] > 0) {
            let mut implied = false;
            while let Some(&before) = kept.last() {
                let before = before as usize;
                // No interval ends on the way, so all that cover `before` cover `row`.
                if ends[row] == ends[before] && self.needs[before] >= self.needs[row] {
                    implied = true;
                } else if starts[row] == starts[before] && self.needs[row] >= self.needs[before] {
                    kept.pop();
                    continue;
                }
                break;
            }
            if !implied {
                kept.push(row as u32);
            }
        }
        kept
    }

    /// Returns the number of binary digits of prices: enough for the cheap bytes that suffice to cover
    /// every row, and few enough that no sum overflows.
    #[must_use]
    pub fn shift(&self) -> u32 {
        let unit = |gap: &Interval| gap.cost as f64 / gap.size.max(1) as f64;
        let mut by_unit: Vec<&Interval> = self.gaps.iter().collect();
        by_unit.sort_by(|a, b| unit(a).total_cmp(&unit(b)));
        // Binary search for the fewest of the cheapest intervals that cover all rows.
        let (mut low, mut high) = (0, by_unit.len());
        while low < high {
            let middle = low.midpoint(high);
            let gaps = by_unit[..middle].iter().map(|gap| **gap).collect();
            let part = Self { needs: self.needs.clone(), gaps };
            if part.uncoverable().is_some() { low = middle + 1 } else { high = middle }
        }
        let dearest = low.checked_sub(1).map_or(0.0, |last| unit(by_unit[last]));
        let total_cost = self.gaps.iter().fold(0_u128, |sum, gap| sum + u128::from(gap.cost));
        let most = 120_u32.saturating_sub(128 - total_cost.leading_zeros());
        let wanted =
            if dearest > 0.0 { (UNIT_COST_DIGITS - dearest.log2()).clamp(0.0, 120.0) as u32 } else { 0 };
        wanted.min(most)
    }

    /// Returns the sum of price times need, less the gain of each interval: by weak duality a lower
    /// bound of whole and partial covers, for any prices.
    #[must_use]
    pub fn dual_value(&self, prices: &[u64], shift: u32) -> u128 {
        // Costs are whole, so the bound may be rounded up. Values that do not fit in 128 bits become 0,
        // which is always a bound.
        self.exact_dual_value(prices, shift).map_or(0, |value| (value.max(0) as u128).div_ceil(1 << shift))
    }

    fn exact_dual_value(&self, prices: &[u64], shift: u32) -> Option<i128> {
        let mut sums = vec![0_i128; prices.len() + 1];
        let mut value = 0_i128;
        for (row, price) in prices.iter().enumerate() {
            sums[row + 1] = sums[row].checked_add(i128::from(*price))?;
            value = value.checked_add(i128::from(*price).checked_mul(i128::from(self.needs[row]))?)?;
        }
        for gap in &self.gaps {
            let price = sums[gap.last as usize + 1] - sums[gap.first as usize];
            let gain = price.checked_mul(i128::from(gap.size))? - (i128::from(gap.cost) << shift);
            value = value.checked_sub(gain.max(0))?;
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    /// Returns a cover of a few rows that the gaps can cover.
    fn random_cover(seed: u64) -> Cover {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 9) % below
        };
        let rows = 1 + next(8);
        let gap = |first: u64, length: u64, size: u64, cost: u64| Interval {
            first: first as u32,
            last: (first + length).min(rows - 1) as u32,
            size,
            cost,
        };
        let gaps: Vec<Interval> =
            (0..1 + next(10)).map(|_| gap(next(rows), next(rows), 1 + next(1 << 20), next(1000))).collect();
        let covered = |row: u64| {
            gaps.iter()
                .filter(|gap| gap.first as u64 <= row && row <= gap.last as u64)
                .map(|gap| gap.size)
                .sum()
        };
        let covered: Vec<u64> = (0..rows).map(covered).collect();
        let needs =
            covered.into_iter().map(|covered| if next(4) == 0 { 0 } else { next(covered + 1) }).collect();
        Cover { needs, gaps }
    }

    fn covers(cover: &Cover, absent: &[u64]) -> bool {
        let row = |row: usize| {
            (0..absent.len()).filter(move |gap| {
                (cover.gaps[*gap].first as usize..=cover.gaps[*gap].last as usize).contains(&row)
            })
        };
        cover
            .needs
            .iter()
            .enumerate()
            .all(|(index, need)| row(index).map(|gap| absent[gap]).sum::<u64>() >= *need)
    }

    fn cheapest_whole(cover: &Cover) -> u64 {
        let sets = 0_u32..1 << cover.gaps.len();
        let absent = |set: u32| -> Vec<u64> {
            cover.gaps.iter().enumerate().map(|(gap, data)| data.size * u64::from(set >> gap & 1)).collect()
        };
        let cost = |set: u32| {
            cover.gaps.iter().enumerate().map(|(gap, data)| data.cost * u64::from(set >> gap & 1)).sum()
        };
        sets.filter(|set| covers(cover, &absent(*set))).map(cost).min().unwrap()
    }

    #[test]
    fn the_program_is_solved_and_its_dual_value_proves_it() {
        let mut below = 0;
        for seed in 1..600 {
            let cover = random_cover(seed);
            assert_eq!(cover.uncoverable(), None);
            let solution = cover.solve(10_000);
            assert!(covers(&cover, &solution.absent), "{cover:?} {solution:?}");
            let paid = cover
                .gaps
                .iter()
                .zip(&solution.absent)
                .map(|(gap, absent)| gap.cost as f64 * *absent as f64 / gap.size as f64);
            let paid: f64 = paid.sum();
            // Equal up to rounding of the bound and of prices, so the solution is optimal.
            assert!(
                (solution.bound as f64 - paid) < 1.0 + 1e-6 && (solution.bound as f64) > paid - 1e-3,
                "{paid} {cover:?} {solution:?}"
            );
            let best = cheapest_whole(&cover);
            assert!(solution.bound <= u128::from(best), "{best} {cover:?} {solution:?}");
            below += u32::from(solution.bound < u128::from(best));
            assert!(cover.solve(3).bound <= u128::from(best));
        }
        assert!(below > 50, "{below}");
    }

    #[test]
    fn the_first_uncoverable_need_is_named() {
        let gap = |first, last, size| Interval { first, last, size, cost: 1 };
        let cover = Cover { needs: vec![1, 5, 2], gaps: vec![gap(0, 2, 2), gap(1, 1, 2)] };
        assert_eq!(cover.uncoverable(), Some(1));
    }

    #[test]
    fn large_numbers_do_not_overflow() {
        let gap = Interval { first: 0, last: 0, size: 1 << 60, cost: u64::MAX };
        let cover = Cover { needs: vec![1 << 60, 1 << 60], gaps: vec![gap, Interval { last: 1, ..gap }] };
        assert!(cover.solve(100).bound <= u128::from(u64::MAX));
        let tiny = Interval { size: 1, ..gap };
        assert!(
            Cover { needs: vec![1], gaps: vec![tiny, Interval { cost: 1, ..gap }] }.solve(100).bound <= 1
        );
    }
}
