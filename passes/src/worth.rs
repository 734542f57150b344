//! What plans are compared by: bytes that do not fit, then time and memory in one sum.

use memc_ir::Bytes;

use crate::options::Options;

/// Where nothing limits memory, a byte is worth the time in which so many are read from memory.
const BYTES_READ: f64 = 10.0;
/// Or, where that is more, its share of this part of the time that the module takes as it is.
const PART_OF_TIME: f64 = 0.02;

/// What memory is worth in one module.
///
/// Where a budget or a capacity limits memory, what keeps within it costs nothing, and time decides. Where nothing does, memory and time are
/// added up: a plan that needs less is taken as long as the bytes that it saves are worth the time that it takes more. A byte is worth the
/// time in which ten are read from memory (a nanosecond on the default target), or its share of a fiftieth of the run, if that is more: half
/// the arena of a long run is worth a hundredth of its time. Where it is said how much time less memory may cost, memory decides.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Price {
    room: Option<Bytes>,
    nanos_per_byte: f64,
}

/// What a plan is worth; the least is the best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Worth {
    beyond: Bytes,
    nanos: u64,
    bytes: Bytes,
}

impl Price {
    /// The price for a module that needs so many bytes and takes so long as it is.
    pub(crate) fn new(options: &Options, bytes: Bytes, nanos: u64) -> Self {
        // Who says what less memory may cost wants as much of it as that buys.
        let new = if options.rewrite.slowdown > 0 { Self::of_least } else { Self::of_bytes };
        new(options, bytes, nanos)
    }

    /// The same where every byte less counts, before all time.
    pub(crate) fn of_least(options: &Options, bytes: Bytes, nanos: u64) -> Self {
        let price = Self::of_bytes(options, bytes, nanos);
        Self { room: price.room.or(Some(Bytes(0))), ..price }
    }

    /// The same as if nobody had said how much time less memory may cost.
    pub(crate) fn of_bytes(options: &Options, bytes: Bytes, nanos: u64) -> Self {
        let read = BYTES_READ * 1e9 / options.cost.target.machine.bytes_per_second;
        let share = PART_OF_TIME * nanos as f64 / bytes.0.max(1) as f64;
        Self { room: options.room(), nanos_per_byte: read.max(share) }
    }

    /// The same where there is this room.
    pub(crate) fn within(self, room: Option<Bytes>) -> Self {
        Self { room: room.or(self.room), ..self }
    }

    /// The same where there is no more room than this, if anything limits it.
    pub(crate) fn toward(&self, goal: Bytes) -> Self {
        Self { room: self.room.map(|room| room.min(goal)), ..*self }
    }

    /// What a plan is worth that needs so many bytes and takes so long.
    pub(crate) fn of(&self, bytes: Bytes, nanos: u64) -> Worth {
        match self.room {
            Some(room) => Worth { beyond: Bytes(bytes.0.saturating_sub(room.0)), nanos, bytes },
            None => Worth {
                beyond: Bytes(0),
                nanos: nanos.saturating_add((bytes.0 as f64 * self.nanos_per_byte).round() as u64),
                bytes,
            },
        }
    }
}

impl Worth {
    /// Whether it keeps within the room, if anything limits it.
    pub(crate) fn fits(&self) -> bool {
        self.beyond == Bytes(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(budget: Option<u64>) -> Options {
        Options { budget: budget.map(Bytes), ..Options::default() }
    }

    #[test]
    fn bytes_cost_time_where_nothing_limits_them() {
        // Ten bytes are read in a nanosecond.
        let price = Price::new(&options(None), Bytes(1000), 1000);
        assert!(price.of(Bytes(900), 1099) < price.of(Bytes(1000), 1000));
        assert!(price.of(Bytes(900), 1101) > price.of(Bytes(1000), 1000));
    }

    #[test]
    fn the_arena_of_a_long_run_is_worth_a_fiftieth_of_it() {
        let price = Price::new(&options(None), Bytes(1000), 1_000_000);
        assert!(price.of(Bytes(500), 1_009_999) < price.of(Bytes(1000), 1_000_000));
        assert!(price.of(Bytes(500), 1_010_001) > price.of(Bytes(1000), 1_000_000));
    }

    #[test]
    fn toward_a_goal_what_is_above_it_counts_first() {
        let price = Price::new(&options(Some(1000)), Bytes(5000), 1000);
        assert!(price.of(Bytes(900), 1) < price.of(Bytes(800), 2));
        assert!(price.toward(Bytes(700)).of(Bytes(900), 1) > price.toward(Bytes(700)).of(Bytes(800), 2));
        assert_eq!(price.toward(Bytes(2000)), price);
        let free = Price::new(&options(None), Bytes(5000), 1000);
        assert_eq!(free.toward(Bytes(700)), free);
    }

    #[test]
    fn within_a_room_time_decides() {
        let price = Price::new(&options(Some(1000)), Bytes(5000), 1000);
        assert!(price.of(Bytes(1000), 1000) < price.of(Bytes(1), 1001));
        assert!(price.of(Bytes(999), 1000) < price.of(Bytes(1000), 1000));
        assert!(price.of(Bytes(1000), 9000) < price.of(Bytes(1001), 1));
    }
}
