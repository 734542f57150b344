//! Scores: the total order of plans under a goal.

use memc_ir::Bytes;

/// Binary digits behind the point of a logarithm.
const DIGITS: u32 = 32;

/// Score of a plan under a goal; the smallest score is the best. Fields compare in this order. Made by
/// [`crate::Goal::score`] and [`crate::Goal::ranged`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Score {
    /// Bytes above the limit.
    pub beyond: u64,
    /// Nanoseconds above the time limit.
    pub late: u64,
    /// Logarithm of the priced sum and of the need at small extents, as one number; zero for goals without a
    /// price. Half the need at small extents is worth as much as half the arena.
    pub weighed: u64,
    /// The quantity that the goal minimizes: nanoseconds, bytes, or their priced sum.
    pub cost: u64,
    /// Need at small extents; zero without ranges.
    pub small: u64,
    /// Need of the first space, in bytes.
    pub bytes: Bytes,
    /// Modelled time, in nanoseconds.
    pub nanos: u64,
    /// Nodes of the main graph.
    pub nodes: usize,
}

impl Score {
    /// Returns whether the plan keeps the byte limit and the time limit.
    pub fn keeps(&self) -> bool {
        self.beyond == 0 && self.late == 0
    }
}

/// Returns the logarithm of a number to base 2, in units of 2^-32, rounded down; zero for zero. It is the
/// same on every machine: no floating-point function takes part.
pub(crate) fn logarithm(number: u64) -> u64 {
    let number = number.max(1);
    let whole = number.ilog2();
    // A number from 1 to 2, with 63 binary digits behind the point.
    let mut rest = u128::from(number) << (63 - whole);
    let mut found = u64::from(whole);
    for _ in 0..DIGITS {
        rest = (rest * rest) >> 63;
        let digit = rest >> 64;
        rest >>= digit;
        found = found << 1 | digit as u64;
    }
    found
}

/// Returns one number for the needs of a plan at several extents, in bytes: the mean of their logarithms, so
/// that a tenth less counts equally at each of them.
pub(crate) fn small_need(needs: &[u64]) -> u64 {
    let sum: u128 = needs.iter().map(|bytes| u128::from(logarithm(*bytes))).sum();
    sum.checked_div(needs.len() as u128).map_or(0, |mean| u64::try_from(mean).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Goal;

    const PRICE: Goal = Goal::Price { nanos_per_byte: 0.0, longest: Some(2_000_000) };

    #[test]
    fn small_extents_are_weighed_against_time() {
        let score = |bytes: u64, nanos: u64, need: u64| {
            PRICE.ranged(Bytes(bytes), nanos, 1, small_need(&[need << 20, need << 10]))
        };
        // Half the need is worth 1.4 % of the time.
        assert!(score(900, 1_013_000, 1) < score(900, 1_000_000, 2));
        assert!(score(900, 1_015_000, 1) > score(900, 1_000_000, 2));
        assert!(score(900, 1_000_000, 2) > score(900, 1_000_000, 1));
        // Limits come first.
        assert!(score(900, 2_000_001, 1) > score(900, 2_000_000, 2));
    }

    #[test]
    fn within_a_limit_no_time_is_paid_for_small_extents() {
        let goal = Goal::Limit(Bytes(1000));
        let score =
            |bytes: u64, nanos: u64, need: u64| goal.ranged(Bytes(bytes), nanos, 1, small_need(&[need]));
        assert!(score(900, 1000, 2) < score(900, 1001, 1));
        assert!(score(900, 1000, 1) < score(800, 1000, 2));
        assert!(score(1001, 1, 1) > score(1000, 1000, 2));
    }

    #[test]
    fn without_ranges_cost_decides() {
        let score = |bytes: u64, nanos: u64| PRICE.score(Bytes(bytes), nanos, 1);
        assert!(score(900, 1_000_000) < score(800, 1_000_001));
        assert!(score(900, 1_000_000) > score(899, 1_000_000));
    }

    #[test]
    fn logarithms_double_to_a_unit_and_never_fall() {
        let unit = 1 << DIGITS;
        assert_eq!((logarithm(0), logarithm(1), logarithm(2), logarithm(1 << 40)), (0, 0, unit, 40 * unit));
        assert_eq!(logarithm(3 << 20), logarithm(3) + 20 * unit);
        // log2(3) = 1.58496250072...
        assert!((logarithm(3) as f64 / unit as f64 - 1.584_962_500_72).abs() < 1e-9);
        for pair in [1_u64, 9, 1000, 1_000_000, u64::MAX / 3].map(|number| [number, number + 1]) {
            assert!(logarithm(pair[0]) <= logarithm(pair[1]));
        }
    }

    #[test]
    fn equal_ratios_count_equally_at_all_extents() {
        let need = |needs: &[u64]| small_need(needs);
        assert!(need(&[128, 1 << 30]) == need(&[256, 1 << 29]));
        assert!(need(&[90, 1 << 30]) < need(&[100, 1 << 30]) && need(&[0, 0]) == need(&[1, 1]));
        assert!(need(&[1 << 20, 1000]) < need(&[1 << 20, 1002]));
        assert!(need(&[u64::MAX]) > need(&[u64::MAX / 2]) && need(&[]) == 0);
    }

    /// Returns a number below `limit`, by a generator with a fixed seed.
    fn below(state: &mut u64, limit: u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % limit
    }

    #[test]
    fn scores_are_a_total_order() {
        let mut state = 1;
        for round in 0..1_000_000_u64 {
            // Plans that differ by a unit, and plans that differ by two per cent: an order that weighs some
            // quantities for some pairs alone has cycles there.
            let spread = [3, 20_000][(round % 2) as usize];
            let goal =
                [Goal::Price { nanos_per_byte: 10.0, longest: Some(1_015_000) }, Goal::Limit(Bytes(1000))];
            let mut score = || {
                let (bytes, nanos) =
                    (1001 - below(&mut state, spread.min(200)), 1_000_000 + below(&mut state, spread));
                let (nodes, need) =
                    (1 + below(&mut state, 2) as usize, (1 << 20) - below(&mut state, spread * 26));
                goal[(round / 2 % 2) as usize].ranged(Bytes(bytes), nanos, nodes, small_need(&[need]))
            };
            let [a, b, c] = [score(), score(), score()];
            assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
            assert!(!(a <= b && b <= c) || a <= c, "{a:?} {b:?} {c:?}");
            assert!(a.cmp(&b).is_ne() || a == b);
        }
    }
}
