//! Codes of plans for several engines: E0650 to E0652.

use super::{Entry, Kind, entry};

/// Codes of engines.
pub(super) const ENTRIES: &[Entry] = &[
    entry(
        Kind::Engine,
        "E0650",
        "engine",
        "the engines of a plan, or its waits, are wrong",
        "If a step has an engine, all have one, and each engine from 0 to the largest number runs a step. A wait is for an earlier step of another engine, and waits are sorted. Such a plan has no transfers, no ranges of dimensions, and no nodes with side effects.",
        "a wait of step 4 for step 9",
    ),
    entry(
        Kind::EngineOrder,
        "E0651",
        "engine-order",
        "a step may start before its operand is made",
        "Only the order of an engine's own steps, and waits, order two steps. They must lead from the maker of each value to each of its readers.",
        "a reader on engine 1 that does not wait for the maker on engine 0",
    ),
    entry(
        Kind::Race,
        "E0652",
        "race",
        "two engines may use the same bytes at once",
        "If two tensors share bytes, waits and the order of each engine's own steps must lead from all uses of one to the first write of the other. Times do not count: an engine may be late.",
        "a result over the bytes of a value that another engine may still read",
    ),
];
