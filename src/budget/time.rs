//! Plans that keep a limit of bytes and a limit of time together, and plans that waste neither.

use memc_ir::Bytes;
use memc_passes::{Observer, PassError, Pipeline, PipelineError, Planned, Seeks, Silent};

use super::{Budgets, Free, without_limits};
use crate::error::Error;

/// Equal nodes are merged, and some of them split again, with this share of the effort.
const SHORT: u64 = 8;

impl Budgets<'_> {
    /// The plan that keeps the limit of bytes, if there is one, and the time that `--slowdown` allows, if it was given.
    ///
    /// With both limits: the smallest plan within the time, where it keeps the bytes; else the fastest plan within the bytes.
    ///
    /// # Errors
    /// No plan keeps the bytes, or the fastest one that does takes more time than is allowed.
    pub(crate) fn kept(&self, free: Free, limit: Option<Bytes>, observer: &mut dyn Observer) -> Result<Planned, Error> {
        let slowdown = self.options.plan.rewrite.slowdown;
        let Some(room) = limit.filter(|_| slowdown > 0) else {
            let planned = self.within(free, limit, observer)?;
            return self.unbeaten(planned, limit);
        };
        let smallest = self.planned(&without_limits(&self.options.plan), Seeks::Longest)?;
        let smallest = self.or_plainer(smallest, None)?.planned;
        if self.need(&smallest) <= room {
            return Ok(smallest);
        }
        let found = self.within(free, limit, observer)?;
        let takes = self.slowdown(&found);
        if takes <= slowdown {
            return Ok(found);
        }
        let smallest = self.need(&smallest);
        Err(Error::Slow { limit: room.0, slowdown, takes, needs: self.need(&found).0, smallest: smallest.0 })
    }

    /// The plan, or one that needs less and takes less time: where equal nodes stay apart, the choice of which to merge is worth a search.
    fn unbeaten(&self, planned: Planned, limit: Option<Bytes>) -> Result<Planned, Error> {
        if limit.is_some() || !self.has_equal_nodes(&planned)? {
            return Ok(planned);
        }
        let need = self.need(&planned);
        let less = memc_passes::Options {
            budget: Some(Bytes(need.0.saturating_sub(1))),
            effort: self.options.plan.effort / SHORT,
            ..self.options.plan.clone()
        };
        let free = Free::new(self, planned);
        let context = self.context(&less, Seeks::Soon);
        let found = memc_passes::plan_within(self.given, context, &free.planned, self.options.verify, &mut Silent);
        let found = match found {
            Err(PipelineError::Pass(PassError::Budget(_))) => return Ok(free.planned),
            found => found?,
        };
        let is_better = self.need(&found) < need && self.nanos(&found) <= self.nanos(&free.planned);
        // Nobody asked for a budget, so the plan names none.
        Ok(if is_better { Planned { base: free.planned.base, budgeted: None, ..found } } else { free.planned })
    }

    /// Whether nodes of a plan compute the same.
    fn has_equal_nodes(&self, planned: &Planned) -> Result<bool, PipelineError> {
        let mut module = planned.module.clone();
        let mut ctx = self.context(&self.options.plan, Seeks::Soon)(&module);
        let changed = Pipeline::parse("cse", module.stage)?.run(&mut module, &mut ctx, false, &mut Silent)?;
        Ok(changed != memc_passes::Changed::No)
    }
}
