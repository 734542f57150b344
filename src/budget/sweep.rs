//! The curve of budgets against time.

use memc_ir::Bytes;
use memc_layout::ParetoPoint;
use memc_passes::{PassError, PipelineError, Silent};

use super::{Budgets, Free};
use crate::error::Error;

impl Budgets<'_> {
    /// What as many budgets as were asked for take, evenly from the smallest that is reachable to what the plan without a budget needs.
    ///
    /// A plan that fits a smaller budget takes the place of the one found there, and one that was found for a smaller budget and takes
    /// no more time that of a larger one: along the curve neither arena nor time ever goes the wrong way.
    pub(crate) fn sweep(&self, free: &Free) -> Result<Vec<ParetoPoint>, Error> {
        let count = u64::from(self.options.pareto);
        if count == 0 {
            return Ok(Vec::new());
        }
        let whole = self.need(&free.planned).0;
        let base = self.nanos(&free.planned);
        let floor = match self.plan(Bytes(0), free, &mut Silent) {
            Err(PipelineError::Pass(PassError::Budget(short))) => short.least.0.min(whole),
            other => other.map(|_| 0)?,
        };
        let mut last = ParetoPoint { budget: whole, arena: whole, extra_ns: 0, bound: Some(0) };
        let mut points = vec![last];
        for step in 1..count {
            let budget = whole - ((u128::from(whole - floor) * u128::from(step)) / u128::from(count - 1)) as u64;
            if last.arena > budget {
                let found = match self.plan(Bytes(budget), free, &mut Silent) {
                    Ok(found) => found,
                    // What is reachable by one search need not be for another: the curve ends here.
                    Err(PipelineError::Pass(PassError::Budget(_))) => break,
                    Err(other) => return Err(other.into()),
                };
                let bound = found.budgeted.map(|budgeted| budgeted.lower_bound.saturating_sub(budgeted.base_cost));
                last =
                    ParetoPoint { budget, arena: self.need(&found).0, extra_ns: self.nanos(&found).saturating_sub(base), bound };
            }
            points.push(ParetoPoint { budget, ..last });
        }
        for index in (1..points.len()).rev() {
            let (smaller, larger) = (points[index], &mut points[index - 1]);
            if smaller.extra_ns <= larger.extra_ns {
                *larger = ParetoPoint { budget: larger.budget, bound: larger.bound, ..smaller };
            }
        }
        Ok(points)
    }
}
