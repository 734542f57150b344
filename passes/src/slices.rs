//! Searches that may be asked to end: in slices of growing effort, so that the answer of the slice before is at hand.

use memc_solve::{Limit, Outcome, Status};

use crate::pass::PassContext;

/// The first slice, and by how much each is larger than the one before.
const FIRST: u64 = 5_000;
const GROWTH: u64 = 4;

/// A solver's answer with so much effort: at once where nobody may ask for an end, so that slices change nothing there; else that of the last
/// slice which began in time.
///
/// # Errors
/// What the solver refuses.
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
        if nodes >= effort || stop.is_due() || matches!(outcome.status(), Status::Optimal | Status::Infeasible) {
            return Ok(outcome);
        }
        nodes = nodes.saturating_mul(GROWTH).min(effort);
    }
}
