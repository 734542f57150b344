//! Lower bounds of all plans: on cost, end time and bytes, for the given order of first runs and for any
//! order.

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

/// The set of plans for which a bound holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Plans whose first runs keep the given order.
    GivenOrder,
    /// All plans.
    AnyOrder,
}

impl Scope {
    /// Returns the scope as problem files and reports spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GivenOrder => "given order",
            Self::AnyOrder => "any order",
        }
    }
}

/// The proven bounds reported with a plan, or instead of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Lower bound of the cost of plans in `scope`.
    pub cost: u64,
    /// Plans for which `cost` holds.
    pub scope: Scope,
    /// Lower bound of the makespan.
    pub makespan: u64,
    /// Lower bound of the peak in the near space, in bytes.
    pub peak: u64,
}

/// A gap between two uses of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gap {
    /// Index of the value.
    pub value: u32,
    /// Position in the order of the use before the gap; `None` for the start.
    pub after_use: Option<u32>,
    /// Position in the order of the use after the gap.
    pub before_use: u32,
    /// Absent part of the bytes, from 0 to 1.
    pub fraction: f64,
}

/// The gap-cover linear program of an order: the least cost of absences with which all first runs fit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GapCover {
    /// Lower bound of the cost of plans with this order of first runs; includes the cost of all runs
    /// once.
    pub lower_bound: u64,
    /// All gaps of values that can be absent, by value and position.
    pub gaps: Vec<Gap>,
    /// Price of a byte at each position of the order.
    pub prices: Vec<f64>,
    /// A position that does not fit even with all gaps absent: no plan with this order of first runs
    /// keeps the capacity.
    pub impossible: Option<u32>,
}

/// Solves the gap-cover program of an order of first runs, for a valid problem. A value that can be
/// loaded costs nothing.
///
/// `effort` limits a search for whole absences, in nodes of a [`crate::Limit`]. If the search completes,
/// fractions are 0 or
/// 1. Prices are always those of the linear program.
#[must_use]
pub fn gap_cover(problem: &Problem, order: &[u32], capacity: u64, effort: u64) -> GapCover {
    gap_cover_with(problem, order, capacity, effort, &Guess::default())
}

/// Assumptions of a program beyond the rules that hold for every plan.
#[derive(Clone, Debug, Default)]
pub(super) struct Guess {
    /// Additional positions at which each value is needed, by value, ascending.
    pub cuts: Vec<Vec<u32>>,
    /// Additional cost of the absence of a value before a position.
    pub more: BTreeMap<(u32, u32), u64>,
}

/// Solves the gap-cover program under a guess. The result is no lower bound, but is closer to a plan.
pub(super) fn gap_cover_with(
    problem: &Problem,
    order: &[u32],
    capacity: u64,
    effort: u64,
    guess: &Guess,
) -> GapCover {
    // Build the gaps of the order, with their costs.
    let base: u64 = problem.runs.iter().map(|run| run.cost).sum();
    let absences = gaps::absences(problem);
    let mut model = gaps::model(
        problem,
        &Rows::of_order(order),
        capacity,
        &gaps::can_be_absent(problem, &absences),
        &guess.cuts,
    );
    for (gap, value) in model.cover.gaps.iter_mut().zip(&model.values) {
        let more = guess.more.get(&(*value, gap.last + 1)).map_or(0, |more| more.saturating_mul(COST_PARTS));
        gap.cost = gaps::run_cost(&absences[*value as usize]).saturating_add(more);
    }
    if let Some(position) = model.cover.uncoverable() {
        return GapCover { lower_bound: base, impossible: Some(position as u32), ..GapCover::default() };
    }
    // Solve the linear program, then search for whole absences.
    let solution = model.cover.solve(cover::MAX_PIVOTS);
    let whole_gaps = integral::solve(&model.cover, effort, u128::MAX);
    let gap = |(index, value): (usize, &u32)| {
        let interval = &model.cover.gaps[index];
        let part = solution.absent[index] as f64 / interval.size.max(1) as f64;
        let fraction = whole_gaps.absent.as_ref().map_or(part, |absent| f64::from(u8::from(absent[index])));
        Gap {
            value: *value,
            after_use: interval.first.checked_sub(1),
            before_use: interval.last + 1,
            fraction,
        }
    };
    let unit = (COST_PARTS as f64) * 2.0_f64.powi(solution.shift as i32);
    GapCover {
        lower_bound: base.saturating_add(gaps::whole_units(solution.bound.max(whole_gaps.bound))),
        gaps: model.values.iter().enumerate().map(gap).collect(),
        prices: solution.prices.iter().map(|price| *price as f64 / unit).collect(),
        impossible: None,
    }
}
