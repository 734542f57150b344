//! Lower bounds for both scopes: the given order of first runs, and any order.

use std::borrow::Cow;

use super::branches::Branches;
use super::chains::Chains;
use super::conflict::Conflict;
use super::cover::MAX_PIVOTS;
use super::gaps::{self, Absence, COST_PARTS, CoverProblem, Parts, can_be_absent, run_cost, whole_units};
use super::integral;
use super::last::last_of_kept;
use super::rows::{Rows, predecessors};
use crate::budget::problem::{Origin, Problem};

/// Lower bounds of the plans of one scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Least {
    /// Sum of the costs of all runs.
    pub cost: u64,
    /// End of the last event; equals `cost` without links.
    pub makespan: u64,
}

/// Lower bounds of a problem at a capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bounds of plans whose first runs keep the given order; `Err` if no plan exists.
    pub given_order: Result<Least, Conflict>,
    /// Bounds of all plans; `Err` if no plan exists.
    pub any_order: Result<Least, Conflict>,
    /// Lower bound of the peak in the near space of every plan, in bytes.
    pub least_peak: u64,
}

/// Returns lower bounds of a valid problem. `order` lists all runs; `effort` limits the search for whole
/// absences in each scope, in nodes of a [`crate::Limit`].
#[must_use]
pub fn lower_bounds(problem: &Problem, order: &[u32], capacity: u64, effort: u64) -> Bounds {
    let bounding = Bounding::new(problem, order, capacity);
    let any_order = bounding.any_order(effort, u64::MAX);
    Bounds {
        given_order: bounding.given_order(any_order, effort, u64::MAX),
        any_order,
        least_peak: bounding.least_peak(),
    }
}

/// Data that the bounds of both scopes share.
pub struct Bounding<'a> {
    /// The problem without optional runs, in place of which values are small.
    problem: Cow<'a, Problem>,
    capacity: u64,
    absences: Vec<Absence>,
    in_order: CoverProblem,
    chain: CoverProblem,
    /// Excess of the given order over the capacity at each run, plus 1.
    weights: Vec<u64>,
    /// Run with the highest need in every plan, and run with the highest need in plans that keep the
    /// order.
    worst: Option<Conflict>,
    worst_in_order: Option<Conflict>,
}

impl<'a> Bounding<'a> {
    /// Builds the rows of a valid problem. O((runs + uses) log).
    #[must_use]
    pub fn new(given: &'a Problem, order: &[u32], capacity: u64) -> Self {
        let relaxed = given.relaxed();
        let problem = &*relaxed;
        let absences = gaps::absences(problem);
        let in_order = priced_model(problem, &Rows::of_order(order), capacity, &absences);
        // The weights lead the chain through the steps at which memory is short.
        let mut weights = vec![1_u64; problem.runs.len()];
        for (run, need) in order.iter().zip(&in_order.cover.needs) {
            weights[*run as usize] = need.saturating_add(1);
        }
        let chain_rows = Rows::of_heaviest_chain(&predecessors(problem), order, &weights);
        let chain = priced_model(problem, &chain_rows, capacity, &absences);
        let own =
            (0..problem.runs.len() as u32).map(|run| Conflict { run, needed: gaps::own_bytes(given, run) });
        let worst = most_needed(own.chain(last_of_kept(problem)).chain(conflicts(&chain_rows.runs, &chain)));
        let worst_in_order = most_needed(conflicts(order, &in_order));
        Self { problem: relaxed, capacity, absences, in_order, chain, weights, worst, worst_in_order }
    }

    /// Returns a lower bound of the peak in the near space of every plan, in bytes.
    #[must_use]
    pub fn least_peak(&self) -> u64 {
        self.worst.map_or(0, |worst| worst.needed)
    }

    /// Returns lower bounds of all plans. Stops early once the cost reaches `enough`.
    ///
    /// # Errors
    /// Returns a conflict if no plan exists.
    pub fn any_order(&self, effort: u64, enough: u64) -> Result<Least, Conflict> {
        self.refuse(self.worst)?;
        let chain = least(&self.problem, &self.absences, &self.chain, effort, enough);
        if chain.cost >= enough || effort == 0 || !self.problem.links.is_empty() {
            return Ok(chain);
        }
        let base = all_once(&self.problem);
        let more = u128::from(enough.saturating_sub(base)) * u128::from(COST_PARTS);
        let bound = |rows: &Rows, effort: u64| {
            let model = priced_model(&self.problem, rows, self.capacity, &self.absences);
            model.cover.uncoverable().is_none().then(|| integral::solve(&model.cover, effort, more).bound)
        };
        let extra = Branches::new(&self.problem, &self.weights, bound).least(effort, more).unwrap_or(0);
        let cost = chain.cost.max(base.saturating_add(whole_units(extra)));
        Ok(Least { cost, makespan: cost })
    }

    /// Returns lower bounds of the plans whose first runs keep the order; includes the bounds of
    /// `any_order`.
    ///
    /// # Errors
    /// Returns a conflict if no plan with this order exists.
    pub fn given_order(
        &self,
        any_order: Result<Least, Conflict>,
        effort: u64,
        enough: u64,
    ) -> Result<Least, Conflict> {
        let any = any_order?;
        self.refuse(self.worst_in_order)?;
        let given = least(&self.problem, &self.absences, &self.in_order, effort, enough);
        Ok(Least { cost: given.cost.max(any.cost), makespan: given.makespan.max(any.makespan) })
    }

    fn refuse(&self, worst: Option<Conflict>) -> Result<(), Conflict> {
        worst.filter(|worst| worst.needed > self.capacity).map_or(Ok(()), Err)
    }
}

/// Builds gaps and rows with their costs; these are costs of chains if the problem has no links.
fn priced_model(problem: &Problem, rows: &Rows, capacity: u64, absences: &[Absence]) -> CoverProblem {
    let users = gaps::users(problem);
    let mut chains = problem.links.is_empty().then(|| Chains::new(problem, rows, absences, &users));
    let parts = |value: u32, first| match &mut chains {
        Some(chains) => chains.parts(value, first),
        None => {
            let (size, cost) = (problem.values[value as usize].size, run_cost(&absences[value as usize]));
            Parts { absent: vec![(size, cost)], stays: 0 }
        }
    };
    gaps::model_in_parts(problem, rows, capacity, &users, &can_be_absent(problem, absences), &[], parts)
}

fn conflicts<'a>(runs: &'a [u32], model: &'a CoverProblem) -> impl Iterator<Item = Conflict> + 'a {
    runs.iter().zip(&model.fixed).map(|(run, needed)| Conflict { run: *run, needed: *needed })
}

fn most_needed(conflicts: impl Iterator<Item = Conflict>) -> Option<Conflict> {
    conflicts.max_by_key(|conflict| (conflict.needed, std::cmp::Reverse(conflict.run)))
}

/// Returns the cost of all runs once.
fn all_once(problem: &Problem) -> u64 {
    problem.runs.iter().map(|run| run.cost).sum()
}

/// Returns bounds from one set of rows, which must be coverable.
fn least(problem: &Problem, absences: &[Absence], model: &CoverProblem, effort: u64, enough: u64) -> Least {
    let base = all_once(problem);
    let enough = u128::from(enough.saturating_sub(base)) * u128::from(COST_PARTS);
    let cost = base.saturating_add(whole_units(integral::solve(&model.cover, effort, enough).bound));
    let makespan =
        if problem.links.is_empty() { cost } else { least_makespan(problem, absences, model, cost) };
    Least { cost, makespan }
}

/// Number of parts of a mix; the shares of the engines in a mix add up to it.
const MIX_PARTS: u64 = 64;

/// Returns a lower bound of the makespan. No engine is busy for longer than the plan, so no weighted mix
/// of engines is either. In a mix, an absence costs the cheaper way back; the best of all tried mixes
/// counts.
fn least_makespan(problem: &Problem, absences: &[Absence], model: &CoverProblem, least_cost: u64) -> u64 {
    let mut cover = model.cover.clone();
    let base = all_once(problem);
    let mut absences_of = vec![0_u64; absences.len()];
    for value in &model.values {
        absences_of[*value as usize] += 1;
    }
    let mut best = least_cost;
    // Try shares of compute, store and load.
    for compute in (0..MIX_PARTS).step_by(8) {
        for store in [0, (MIX_PARTS - compute) / 2] {
            let load = MIX_PARTS - compute - store;
            for (gap, value) in cover.gaps.iter_mut().zip(&model.values) {
                let absence = &absences[*value as usize];
                let again = absence.again.map(|parts| mixed(parts, compute));
                // A value is stored once, and its absences share that cost.
                let stored = absence.store.saturating_mul(COST_PARTS) / absences_of[*value as usize].max(1);
                let moved = absence.load.map(|time| {
                    mixed(time.saturating_mul(COST_PARTS), load).saturating_add(mixed(stored, store))
                });
                gap.cost = again.into_iter().chain(moved).min().unwrap_or(0);
            }
            let first_loads = mixed(first_loads(problem, absences), load);
            let always = u128::from(mixed(base, compute)) + u128::from(first_loads);
            let extra = cover.solve(MAX_PIVOTS).bound / u128::from(COST_PARTS);
            let engines = u128::from(compute) + u128::from(load + store) * problem.links.len() as u128;
            let bound = (always + extra) * u128::from(MIX_PARTS) / engines.max(1);
            best = best.max(u64::try_from(bound).unwrap_or(u64::MAX));
        }
    }
    best
}

/// Returns a share of a time or cost, rounded down.
fn mixed(amount: u64, parts: u64) -> u64 {
    (u128::from(amount) * u128::from(parts) / u128::from(MIX_PARTS)) as u64
}

/// Returns the time to load each read far value once.
fn first_loads(problem: &Problem, absences: &[Absence]) -> u64 {
    let mut is_read = vec![false; problem.values.len()];
    for value in problem.runs.iter().flat_map(|run| &run.reads) {
        is_read[*value as usize] = true;
    }
    let far = problem.values.iter().zip(absences).zip(is_read);
    let far = far.filter(|((value, _), is_read)| *is_read && matches!(value.origin, Origin::Far(_)));
    far.fold(0_u64, |sum, ((_, absence), _)| sum.saturating_add(absence.load.unwrap_or(0)))
}
