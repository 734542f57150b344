//! Goals: the purpose of a plan. A goal is made from the user's options in one place and scores every
//! plan.

use memc_ir::Bytes;
use memc_passes::{Options, Settings};

use crate::score::{Score, logarithm};

/// Minimum price of a byte without a limit, in bytes read from memory: saving a tenth of a node's
/// operands pays for reading the operands once more.
const BYTES_READ: f64 = 10.0;
/// Minimum price of the whole arena without a limit, as a share of the modelled time: half the arena of
/// a long run is worth a hundredth of the time.
const ARENA_SHARE_OF_TIME: f64 = 0.02;
/// Share of the need at small extents in a price, as 1/n of its logarithm: half the need is worth as much as
/// half the arena, see [`ARENA_SHARE_OF_TIME`].
const SMALL_IN_PRICE: u64 = 50;

/// Purpose of a plan.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Goal {
    /// Fewest bytes; time breaks ties.
    Least,
    /// Least time within a byte limit of the first space.
    Limit(Bytes),
    /// Least sum of time and memory; each byte has a price in time.
    Price {
        /// Price of a byte, in nanoseconds.
        nanos_per_byte: f64,
        /// Time limit, in modelled nanoseconds.
        longest: Option<u64>,
    },
    /// Fewest bytes within a time limit, and within a byte limit if there is one.
    Slowdown {
        /// Time limit, in modelled nanoseconds.
        longest: Option<u64>,
        /// Limit of the first space, in bytes.
        limit: Option<Bytes>,
    },
}

impl Goal {
    /// Returns the goal of one run of a pass, from its settings; `bytes` and `nanos` are the need and
    /// time of the module before the pass.
    pub(crate) fn of_run(settings: &Settings, options: &Options, bytes: Bytes, nanos: u64) -> Self {
        match settings.limit {
            Some(bytes) => Self::Limit(bytes),
            None if settings.slowdown > 0 => Self::Slowdown { longest: None, limit: None },
            None => Self::price(options, bytes, nanos),
        }
    }

    /// Returns a goal that adds up memory and time; `bytes` and `nanos` are the need and time of the
    /// module before the pass.
    pub(crate) fn price(options: &Options, bytes: Bytes, nanos: u64) -> Self {
        let read = BYTES_READ * 1e9 / options.cost.target.machine.bytes_per_second;
        let share = ARENA_SHARE_OF_TIME * nanos as f64 / bytes.0.max(1) as f64;
        Self::Price { nanos_per_byte: read.max(share), longest: None }
    }

    /// Returns the goal with a time limit in modelled nanoseconds; goals that ignore time limits stay as
    /// they are.
    pub(crate) fn within_time(self, nanos: u64) -> Self {
        let longest = Some(nanos);
        match self {
            Self::Price { nanos_per_byte, .. } => Self::Price { nanos_per_byte, longest },
            Self::Slowdown { limit, .. } => Self::Slowdown { longest, limit },
            Self::Least | Self::Limit(_) => self,
        }
    }

    /// Returns the time limit of the goal in modelled nanoseconds, or `None` if it has none.
    pub(crate) fn longest(&self) -> Option<u64> {
        match *self {
            Self::Price { longest, .. } | Self::Slowdown { longest, .. } => longest,
            Self::Least | Self::Limit(_) => None,
        }
    }

    /// Returns the byte limit of the goal, or `None` if the goal has no limit.
    pub fn limit(&self) -> Option<Bytes> {
        match *self {
            Self::Limit(bytes) => Some(bytes),
            Self::Slowdown { limit, .. } => limit,
            Self::Least | Self::Price { .. } => None,
        }
    }

    /// Returns the goal with a smaller limit; goals other than [`Goal::Limit`] stay as they are.
    pub(crate) fn toward(&self, smaller: Bytes) -> Self {
        match *self {
            Self::Limit(bytes) => Self::Limit(bytes.min(smaller)),
            other => other,
        }
    }

    /// Scores a plan by its need in bytes, its modelled time in nanoseconds and its number of nodes.
    pub fn score(&self, bytes: Bytes, nanos: u64, nodes: usize) -> Score {
        self.ranged(bytes, nanos, nodes, 0)
    }

    /// Scores a plan for ranges by its need, time and nodes at the largest extents, and by its need at small
    /// ones, as a logarithm; zero without ranges. Only a price weighs small extents against time: within a
    /// limit, they decide between plans of the same time.
    pub fn ranged(&self, bytes: Bytes, nanos: u64, nodes: usize, small: u64) -> Score {
        let late = |longest: Option<u64>| longest.map_or(0, |longest| nanos.saturating_sub(longest));
        let beyond = self.limit().map_or(0, |limit| bytes.0.saturating_sub(limit.0));
        let (late, cost) = match *self {
            Self::Least => (0, bytes.0),
            Self::Limit(_) => (0, nanos),
            Self::Price { nanos_per_byte, longest } => {
                (late(longest), nanos.saturating_add((bytes.0 as f64 * nanos_per_byte).round() as u64))
            }
            Self::Slowdown { longest, .. } => (late(longest), bytes.0),
        };
        let weighed = match self {
            Self::Price { .. } => logarithm(cost).saturating_add(small / SMALL_IN_PRICE),
            Self::Least | Self::Limit(_) | Self::Slowdown { .. } => 0,
        };
        Score { beyond, late, weighed, cost, small, bytes, nanos, nodes }
    }
}

/// Adds a slowdown, in hundredths of a percent, to a time in nanoseconds.
pub fn slowed(nanos: u64, slowdown: u32) -> u64 {
    nanos.saturating_add((u128::from(nanos) * u128::from(slowdown) / 10_000) as u64)
}

/// Returns the slowdown of `nanos` against `given`, in hundredths of a percent, rounded up: [`slowed`]
/// with it is at least `nanos`.
pub fn slowdown(nanos: u64, given: u64) -> u32 {
    let more = u128::from(nanos.saturating_sub(given)) * 10_000;
    u32::try_from(more.div_ceil(u128::from(given.max(1)))).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slowdown_allows_the_time_that_it_was_computed_from() {
        for (nanos, given) in [(1000, 1000), (1001, 1000), (3, 7), (7, 3), (123_457, 99_991), (1, 0)] {
            let slowdown = slowdown(nanos, given);
            assert!(given == 0 || slowed(given, slowdown) >= nanos, "{nanos} {given}");
            assert!(slowdown == 0 || given == 0 || slowed(given, slowdown - 1) < nanos, "{nanos} {given}");
        }
    }

    #[test]
    fn without_a_limit_bytes_are_priced_in_time() {
        // Reading ten bytes takes a nanosecond.
        let price = Goal::price(&Options::default(), Bytes(1000), 1000);
        assert!(price.score(Bytes(900), 1099, 1) < price.score(Bytes(1000), 1000, 1));
        assert!(price.score(Bytes(900), 1101, 1) > price.score(Bytes(1000), 1000, 1));
    }

    #[test]
    fn the_arena_of_a_long_run_is_priced_at_a_fiftieth_of_its_time() {
        let price = Goal::price(&Options::default(), Bytes(1000), 1_000_000);
        assert!(price.score(Bytes(500), 1_009_999, 1) < price.score(Bytes(1000), 1_000_000, 1));
        assert!(price.score(Bytes(500), 1_010_001, 1) > price.score(Bytes(1000), 1_000_000, 1));
    }

    #[test]
    fn within_a_limit_time_decides() {
        let goal = Goal::Limit(Bytes(1000));
        assert!(goal.score(Bytes(1000), 1000, 1) < goal.score(Bytes(1), 1001, 1));
        assert!(goal.score(Bytes(999), 1000, 1) < goal.score(Bytes(1000), 1000, 1));
        assert!(goal.score(Bytes(1000), 5001, 1) < goal.score(Bytes(1001), 1, 1));
        assert!(goal.score(Bytes(900), 10, 1) < goal.score(Bytes(900), 10, 2));
    }

    #[test]
    fn toward_a_smaller_limit_bytes_above_it_count_first() {
        let goal = Goal::Limit(Bytes(1000));
        assert!(goal.score(Bytes(900), 1, 1) < goal.score(Bytes(800), 2, 1));
        assert!(
            goal.toward(Bytes(700)).score(Bytes(900), 1, 1) > goal.toward(Bytes(700)).score(Bytes(800), 2, 1)
        );
        assert_eq!(goal.toward(Bytes(2000)), goal);
        assert_eq!(Goal::Least.toward(Bytes(1)), Goal::Least);
    }

    #[test]
    fn within_a_limit_of_time_bytes_decide() {
        let goal = Goal::Slowdown { longest: Some(slowed(1000, 100)), limit: Some(Bytes(100)) };
        assert!(goal.score(Bytes(10), 1010, 1) < goal.score(Bytes(11), 1, 1));
        assert!(goal.score(Bytes(11), 1, 1) < goal.score(Bytes(1), 1011, 1));
        // The byte limit takes precedence over the time limit.
        assert!(goal.score(Bytes(100), 2000, 1) < goal.score(Bytes(101), 1, 1));
    }
}
