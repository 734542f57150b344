//! What no plan can beat: lower bounds on cost, end time and bytes, for the given order of first runs and for any order.

mod beyond;
mod branches;
mod chains;
mod conflict;
mod cover;
mod gaps;
mod integral;
mod interval;
mod last;
mod lower;
mod rows;
mod simplex;

use std::collections::BTreeMap;

pub use self::conflict::Conflict;
use self::gaps::COST_PARTS;
pub use self::lower::{Bounding, Bounds, Least, lower_bounds};
use self::rows::Rows;
use super::problem::Problem;

/// Which plans a bound speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Plans whose first runs keep the given order.
    GivenOrder,
    /// All plans.
    AnyOrder,
}

impl Scope {
    /// The scope as problem files and reports spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GivenOrder => "given order",
            Self::AnyOrder => "any order",
        }
    }
}

/// The proofs that are printed with a plan, or instead of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// No plan of the scope costs less.
    pub cost: u64,
    /// Which plans `cost` speaks of.
    pub scope: Scope,
    /// No plan ends earlier.
    pub makespan: u64,
    /// No plan needs less bytes of the near space.
    pub peak: u64,
}

/// A gap between two uses of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gap {
    /// The value.
    pub value: u32,
    /// Position in the order of the use before it; `None` for the start.
    pub after_use: Option<u32>,
    /// Position in the order of the use behind it.
    pub before_use: u32,
    /// Part of its bytes that is absent, from 0 to 1.
    pub fraction: f64,
}

/// The gap-cover linear program of an order: the least that absences can cost so that all first runs fit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GapCover {
    /// No plan with this order of first runs costs less; all runs once included.
    pub lower_bound: u64,
    /// All gaps of values that can be absent, by value and position.
    pub gaps: Vec<Gap>,
    /// What a byte costs at each position of the order.
    pub prices: Vec<f64>,
    /// A position that does not fit with everything absent: no plan with this order of first runs keeps the capacity.
    pub impossible: Option<u32>,
}

/// Solves the gap-cover program of an order of first runs, for a valid problem; what moves for nothing costs nothing.
///
/// `effort` limits a search for whole absences, in nodes of a [`crate::Limit`]: if it ends, fractions are 0 or 1. Prices are always those of the linear program.
#[must_use]
pub fn gap_cover(problem: &Problem, order: &[u32], capacity: u64, effort: u64) -> GapCover {
    gap_cover_with(problem, order, capacity, effort, &Guess::default())
}

/// What a program assumes beyond the rules that hold for every plan.
#[derive(Clone, Debug, Default)]
pub(super) struct Guess {
    /// Positions at which values are needed besides, by value, rising.
    pub cuts: Vec<Vec<u32>>,
    /// What the absence of a value before a position costs besides.
    pub more: BTreeMap<(u32, u32), u64>,
}

/// The same under a guess: no bound any more, and closer to a plan.
pub(super) fn gap_cover_with(problem: &Problem, order: &[u32], capacity: u64, effort: u64, guess: &Guess) -> GapCover {
    let base: u64 = problem.runs.iter().map(|run| run.cost).sum();
    let absences = gaps::absences(problem);
    let mut model = gaps::model(problem, &Rows::of_order(order), capacity, &gaps::can_be_absent(problem, &absences), &guess.cuts);
    for (gap, value) in model.cover.gaps.iter_mut().zip(&model.values) {
        let more = guess.more.get(&(*value, gap.last + 1)).map_or(0, |more| more.saturating_mul(COST_PARTS));
        gap.cost = gaps::run_cost(&absences[*value as usize]).saturating_add(more);
    }
    if let Some(position) = model.cover.uncoverable() {
        return GapCover { lower_bound: base, impossible: Some(position as u32), ..GapCover::default() };
    }
    let solution = model.cover.solve(cover::MAX_PIVOTS);
    let whole_gaps = integral::solve(&model.cover, effort, u128::MAX);
    let gap = |(index, value): (usize, &u32)| {
        let interval = &model.cover.gaps[index];
        let part = solution.absent[index] as f64 / interval.size.max(1) as f64;
        let fraction = whole_gaps.absent.as_ref().map_or(part, |absent| f64::from(u8::from(absent[index])));
        Gap { value: *value, after_use: interval.first.checked_sub(1), before_use: interval.last + 1, fraction }
    };
    let unit = (COST_PARTS as f64) * 2.0_f64.powi(solution.shift as i32);
    GapCover {
        lower_bound: base.saturating_add(gaps::whole_units(solution.bound.max(whole_gaps.bound))),
        gaps: model.values.iter().enumerate().map(gap).collect(),
        prices: solution.prices.iter().map(|price| *price as f64 / unit).collect(),
        impossible: None,
    }
}
