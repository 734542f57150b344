//! A plan with its certificate: the solver's answer together with the bounds.

use super::bound::{Bounding, Certificate, Conflict, Scope};
use super::check::measure;
use super::exact::{self, Exact};
use super::problem::{BudgetError, Plan, Problem};
use super::solve;
use crate::{Limit, Outcome, StopReason};

/// The best plan and the bounds of a problem at a capacity.
#[derive(Clone, Debug)]
pub struct Certified {
    /// The plan; its value is its makespan, its lower bound is that of the certificate. Without a plan,
    /// [`crate::Status::Infeasible`] is a proof.
    pub outcome: Outcome<Plan>,
    /// Bound to report: for any order if the plan reaches it, or if the plan is better than every plan
    /// in the given order; otherwise for the given order.
    pub certificate: Certificate,
    /// Without a plan: a run that fits in no plan, if a single run proves it.
    pub conflict: Option<Conflict>,
}

/// Solves the problem and bounds it.
///
/// # Errors
/// Returns an error if the problem is not valid.
pub fn plan(problem: &Problem, capacity: u64, limit: Limit) -> Result<Certified, BudgetError> {
    problem.validate()?;
    let order: Vec<u32> = (0..problem.runs.len() as u32).collect();
    let base: u64 = problem.runs.iter().map(|run| run.cost).sum();
    let bounding = Bounding::new(problem, &order, capacity);
    // A run that cannot fit proves that no plan exists.
    let peak = bounding.least_peak();
    if let Err(conflict) = bounding.any_order(0, base) {
        let certificate = Certificate { cost: base, scope: Scope::AnyOrder, makespan: base, peak };
        let outcome = Outcome {
            solution: None,
            value: None,
            lower_bound: base,
            stop: StopReason::Exhausted,
            effort: 0,
        };
        return Ok(Certified { outcome, certificate, conflict: Some(conflict) });
    }
    // Search for a plan, and bound all orders up to its cost.
    let mut outcome = solve(problem, capacity, limit)?;
    let mut certificate = Certificate { cost: base, scope: Scope::AnyOrder, makespan: base, peak };
    let reached = |outcome: &Outcome<Plan>| {
        outcome.solution.as_ref().map_or((u64::MAX, u64::MAX), |plan| (plan.cost, plan.makespan))
    };
    let (cost, _) = reached(&outcome);
    let any_order = bounding.any_order(limit.nodes, cost);
    if let Ok(any) = any_order {
        certificate = Certificate { cost: any.cost, makespan: any.makespan, ..certificate };
    }
    if reached(&outcome).1 > certificate.makespan && exact::takes(problem) {
        certificate = settle(problem, capacity, limit, &mut outcome, certificate);
    }
    // Bound the given order if that may prove more.
    let (cost, makespan) = reached(&outcome);
    if makespan > certificate.makespan
        && outcome.stop != StopReason::Exhausted
        && let Ok(given) = bounding.given_order(any_order, limit.nodes, cost)
        && given.makespan > certificate.makespan
        && given.cost <= cost
        && given.makespan <= makespan
    {
        certificate =
            Certificate { cost: given.cost, scope: Scope::GivenOrder, makespan: given.makespan, peak };
    }
    outcome.lower_bound = certificate.makespan;
    if makespan <= certificate.makespan {
        outcome.stop = StopReason::BoundReached;
    }
    Ok(Certified { outcome, certificate, conflict: None })
}

/// Runs the exact search, which may find the best plan, prove that none exists, or raise the bound.
fn settle(
    problem: &Problem,
    capacity: u64,
    limit: Limit,
    outcome: &mut Outcome<Plan>,
    certificate: Certificate,
) -> Certificate {
    let proven = |cost: u64| Certificate {
        cost: certificate.cost.max(cost),
        makespan: certificate.makespan.max(cost),
        ..certificate
    };
    match exact::solve(problem, capacity, limit.nodes) {
        Exact::Plan(events) => {
            let Ok(best) = measure(problem, &events) else { return certificate };
            let cost = best.cost;
            if outcome.value.is_none_or(|value| cost < value) {
                outcome.value = Some(cost);
                outcome.solution = Some(best);
            }
            proven(cost)
        }
        Exact::Impossible => {
            outcome.stop = StopReason::Exhausted;
            certificate
        }
        Exact::AtLeast(extra) => {
            let base: u64 = problem.runs.iter().map(|run| run.cost).sum();
            proven(base.saturating_add(extra))
        }
    }
}
