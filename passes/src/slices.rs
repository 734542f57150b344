//! Interruptible searches: runs a solver in slices of growing effort, so that a stop request finds an
//! answer ready.

use memc_solve::{Limit, Outcome, Status};

use crate::pass::PassContext;

/// Effort of the first slice, in search nodes.
const FIRST: u64 = 5_000;
/// Factor by which the effort grows from one slice to the next.
const GROWTH: u64 = 4;

/// Returns a solver's answer within `effort` search nodes.
///
/// Without a possible stop request, the solver runs once with the full effort, so slicing cannot change
/// results. Otherwise the answer is that of the last slice that began before the stop.
///
/// # Errors
/// The solver refuses the problem.
pub(crate) fn in_time<S, E>(
    ctx: &PassContext<'_>,
    effort: u64,
    solve: impl Fn(&Limit) -> Result<Outcome<S>, E>,
) -> Result<Outcome<S>, E> {
    let stop = &ctx.options.stop;
    if !stop.may_come() {
        return solve(&Limit::nodes(effort));
    }
    let mut nodes = if stop.is_due() { 0 } else { FIRST.min(effort) };
    loop {
        let outcome = solve(&Limit::nodes(nodes))?;
        if nodes >= effort
            || stop.is_due()
            || matches!(outcome.status(), Status::Optimal | Status::Infeasible)
        {
            return Ok(outcome);
        }
        nodes = nodes.saturating_mul(GROWTH).min(effort);
    }
}
