//! Compares a plan with limits: sizes that the user states, and sizes of an earlier plan.

use memc_layout::Layout;

use crate::facts::{Facts, SpaceFacts};

/// Hundredths of a percent in a whole.
const WHOLE: u128 = 10_000;

/// Limits of a plan. Without any, nothing exceeds them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits<'a> {
    /// Largest arena of the target's first space, in bytes.
    pub max_arena: Option<u64>,
    /// Most bytes of all weights.
    pub max_weights: Option<u64>,
    /// An earlier plan, whose arenas and weights are limits.
    pub baseline: Option<&'a Layout>,
    /// Growth that is allowed beyond the earlier plan, in hundredths of a percent.
    pub allowed: u32,
}

/// A size with its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// `arena` or `weights`.
    pub name: &'static str,
    /// Space of an arena.
    pub space: Option<String>,
    /// Size, in bytes; an upper bound if the arena leaves out values of unknown size. `None` if these
    /// values have no bound.
    pub bytes: Option<u64>,
    /// Size in the earlier plan, in bytes.
    pub before: Option<u64>,
    /// The smallest limit, in bytes.
    pub limit: Option<u64>,
}

impl Row {
    /// Whether the size exceeds its limit, or might.
    pub fn exceeds(&self) -> bool {
        self.limit.is_some_and(|limit| self.bytes.is_none_or(|bytes| bytes > limit))
    }

    /// Names the size for readers.
    pub(crate) fn title(&self) -> String {
        match &self.space {
            Some(space) => format!("{} of {}", self.name, crate::quantity::shortened(space, 24)),
            None => self.name.to_owned(),
        }
    }
}

/// Returns a row for the arena of each space in use, the target's first space first, then one for the
/// weights.
pub fn compare(layout: &Layout, limits: &Limits<'_>) -> Vec<Row> {
    let (facts, earlier) = (Facts::of(layout), limits.baseline.map(Facts::of));
    let grown = |before: u64| {
        let most = u128::from(before) * (WHOLE + u128::from(limits.allowed)) / WHOLE;
        u64::try_from(most).unwrap_or(u64::MAX)
    };
    let least = |stated: Option<u64>, before: Option<u64>| stated.into_iter().chain(before.map(grown)).min();
    let mut rows: Vec<Row> = Vec::with_capacity(facts.spaces.len() + 1);
    for (position, space) in facts.spaces.iter().enumerate() {
        let name = &space.profile.space;
        let there = |earlier: &Facts<'_>| {
            earlier.spaces.iter().find(|other| other.profile.space == *name).and_then(certain)
        };
        // A space that the earlier plan does not use has an arena of 0 bytes there.
        let before = earlier.as_ref().map(|earlier| there(earlier).unwrap_or(0));
        let stated = limits.max_arena.filter(|_| position == 0);
        let limit = least(stated, before);
        rows.push(Row { name: "arena", space: Some(name.clone()), bytes: certain(space), before, limit });
    }
    let before = limits.baseline.map(|baseline| baseline.weights);
    let limit = least(limits.max_weights, before);
    rows.push(Row { name: "weights", space: None, bytes: Some(layout.weights), before, limit });
    rows
}

/// Bytes that the arena surely does not exceed; `None` if values of unknown size have no bound.
fn certain(space: &SpaceFacts) -> Option<u64> {
    if space.open == 0 { Some(space.arena) } else { space.at_most.map(|most| most.max(space.arena)) }
}
