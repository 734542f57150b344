//! Scores: the total order of plans under a goal, and the choice between plans for ranges.

use memc_ir::Bytes;

use crate::goal::ARENA_SHARE_OF_TIME;

/// Units of a logarithm of bytes, by doubling: fine enough for differences of a thousandth.
const UNIT: u128 = 1 << 16;

/// Score of a plan under a goal; the smallest score is the best. Fields compare in this order. Made by
/// [`crate::Goal::score`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Score {
    /// Bytes above the limit.
    pub beyond: u64,
    /// Nanoseconds above the time limit.
    pub late: u64,
    /// The quantity that the goal minimizes: nanoseconds, bytes, or their priced sum.
    pub cost: u64,
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

    /// Returns whether a plan for ranges is better than another one. A plan that needs fewer bytes and costs
    /// no more at the largest extents is better, and plans that are not comparable in this way are compared
    /// by their cost times a power of their need at small extents: half the need is worth as much as half
    /// the arena. `small` returns both needs (see [`small_need`]); they are equal for plans without ranges.
    pub(crate) fn is_better(&self, than: &Self, small: impl FnOnce() -> [u64; 2]) -> bool {
        let limits = (self.beyond, self.late).cmp(&(than.beyond, than.late));
        let (bytes, cost) = (self.bytes.cmp(&than.bytes), self.cost.cmp(&than.cost));
        if limits.is_ne() || bytes.is_ne() && bytes != cost.reverse() {
            return self < than;
        }
        let [own, other] = small();
        let saved = (other as f64 - own as f64) / UNIT as f64;
        let worth = than.cost as f64 * (1.0 + saved * ARENA_SHARE_OF_TIME * std::f64::consts::LN_2);
        if own == other { self < than } else { (self.cost as f64) < worth }
    }
}

/// Returns one number for the needs of a plan at several extents, in bytes: the mean of their logarithms, so
/// that a tenth less counts equally at each of them. Logarithms to base 2 count in units of 1/65536, linear
/// between powers of two.
pub(crate) fn small_need(needs: &[u64]) -> u64 {
    let logarithm = |bytes: &u64| {
        let (bytes, whole) = (u128::from((*bytes).max(1)), (*bytes).max(1).ilog2());
        (u128::from(whole) * UNIT) + ((bytes * UNIT) >> whole)
    };
    let sum: u128 = needs.iter().map(logarithm).sum();
    sum.checked_div(needs.len() as u128).map_or(0, |mean| u64::try_from(mean).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Goal;

    #[test]
    fn small_extents_are_weighed_against_time() {
        let score = |bytes: u64, nanos: u64| Goal::Limit(Bytes(1000)).score(Bytes(bytes), nanos, 1);
        let [half, whole] = [1, 2].map(|bytes| small_need(&[bytes << 20, bytes << 10]));
        let less = || [half, whole];
        let more = || [whole, half];
        // Half the need is worth 1.4 % of the time, unless more bytes are needed at the largest extents.
        assert!(score(900, 1_013_000).is_better(&score(900, 1_000_000), less));
        assert!(score(899, 1_013_000).is_better(&score(900, 1_000_000), less));
        assert!(!score(900, 1_014_000).is_better(&score(900, 1_000_000), less));
        assert!(!score(901, 1_000_000).is_better(&score(900, 1_000_000), less));
        assert!(!score(900, 1_000_000).is_better(&score(900, 1_000_000), more));
        assert!(score(900, 980_000).is_better(&score(900, 1_000_000), more));
        assert!(score(899, 1_000_000).is_better(&score(900, 1_000_000), more));
        // Limits come first, and plans without ranges have the order of their scores.
        assert!(!score(1001, 1).is_better(&score(1000, 1_000_000), less));
        for (left, right) in [((900, 10), (900, 11)), ((900, 10), (899, 11)), ((900, 11), (899, 10)), ((900, 10), (900, 10))] {
            let [left, right] = [left, right].map(|(bytes, nanos)| score(bytes, nanos));
            assert_eq!(left.is_better(&right, || [0, 0]), left < right);
            assert_eq!(right.is_better(&left, || [0, 0]), right < left);
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
}
