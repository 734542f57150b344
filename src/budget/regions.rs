//! Plans that compute regions of nodes in parts.

use memc_ir::{Bytes, Module};
use memc_passes::split::is_split;
use memc_passes::{PassContext, PassError, PipelineError, Planned, Seeks, Silent};

use super::search::Search;
use super::without_limits;

/// Hundredths of a limit for which regions are divided where those for the whole limit do not keep it.
const LESS: [u64; 4] = [97, 90, 80, 65];
/// Hundredths of a per cent of time that less memory may cost where no plan for a limit keeps it; and how little that must be for no less to be tried.
const LAVISH: u32 = 2000;
const FRUGAL: u32 = 50;
/// Hundredths of a limit that a node may need by itself where regions are in parts so that all else can be computed again; and where that finds no smaller plan.
const ALONE: u64 = 75;
const LESS_ALONE: u64 = 60;
/// The smallest of them, and those of plans that compute again, are looked for with such a part of the effort.
const LESS_EFFORT: u64 = 4;
/// The same for regions of plans that compute again: what is left over the limit is too little to be computed again, and offsets need some.
const NEARLY_ALL: [u64; 2] = [99, 96];
/// Hundredths of a limit within which plans compute again that regions then bring down to it.
const WIDER: u64 = 115;
/// The part of its bytes that a plan must save beyond the one before for still smaller ones to be looked for.
const WORTH: u64 = 32;

impl Search<'_, '_> {
    /// Whether regions may be computed in parts.
    pub(super) fn may_split(&self) -> bool {
        self.own.rewrite.enabled && !self.own.rewrite.exact
    }

    /// Looks for regions in parts that save as much as time buys: for half of the time where that buys enough, too.
    pub(super) fn regions_for_time(&mut self) -> Result<(), PipelineError> {
        if !self.may_split() || self.is_kept() && self.budgets.is_large() {
            return Ok(());
        }
        self.is_time_bought = true;
        let mut own = without_limits(&self.own);
        let mut slowdown = own.rewrite.slowdown.max(LAVISH);
        let mut last = u64::MAX;
        while slowdown > FRUGAL {
            own.rewrite.slowdown = slowdown;
            let found = self.budgets.planned(&own, Seeks::Longest)?;
            let nanos = self.budgets.nanos(&found);
            if !is_split(&found.module) || nanos >= last {
                break;
            }
            if last == u64::MAX {
                self.reaches(self.budgets.need(&found));
            }
            if !self.fits(&found) {
                break;
            }
            last = nanos;
            slowdown = self.budgets.slowdown(&found).min(slowdown) / 2;
            self.offer(found);
        }
        Ok(())
    }

    /// Looks for a plan with regions in parts that let each node by itself keep within a part of the limit, and that computes again or moves what does not
    /// fit then; offers none where none is found soon.
    pub(super) fn regions_and_again(&mut self) -> Result<(), PipelineError> {
        if let Some(found) = self.again_in_regions(self.limit, ALONE, Seeks::Soon)? {
            self.is_again_kept = true;
            self.offer(found);
        }
        Ok(())
    }

    /// Looks for such a plan within a part of the limit where none was found for the limit itself: what is in parts then is smaller, and more of the rest
    /// can be kept.
    pub(super) fn regions_and_again_within_less(&mut self) -> Result<(), PipelineError> {
        let parts = LESS.into_iter().filter(|_| !self.is_again_kept).map(|part| hundredths(self.limit, part));
        let least = self.least;
        for less in parts.filter(|less| *less >= least) {
            if let Some(found) = self.again_in_regions(less, ALONE, Seeks::Soon)? {
                self.offer(found);
                break;
            }
        }
        Ok(())
    }

    /// Looks for regions in parts in plans that compute again: in that of whole nodes, in the place of what it computes again in passing; and in one within
    /// more, to come down to the limit.
    pub(super) fn regions_of_again(&mut self) -> Result<(), PipelineError> {
        // Transfers stand at the steps of their plan.
        if !self.may_split() || !self.own.farther.is_empty() {
            return Ok(());
        }
        if let Some(whole) = self.whole.take() {
            self.regions_of(&whole)?;
        }
        let wider = memc_passes::Options { budget: Some(hundredths(self.limit, WIDER)), ..self.with_less_effort() };
        match self.planned_within(&wider, Seeks::Soon, self.free, &mut Silent) {
            Err(PipelineError::Pass(PassError::Budget(_))) => Ok(()),
            found => self.regions_of(&found?),
        }
    }

    /// Offers a plan with regions in parts of one that computes again; for a little less where none keeps the limit or no regions help.
    fn regions_of(&mut self, planned: &Planned) -> Result<(), PipelineError> {
        for part in NEARLY_ALL {
            let own = memc_passes::Options { budget: Some(hundredths(self.limit, part)), ..self.with_less_effort() };
            let (context, dearest) = (self.budgets.context(&own, Seeks::Soon), self.known());
            let context = |module: &Module| PassContext { dearest, ..context(module) };
            match memc_passes::plan_in_regions_again(&planned.module, context, self.budgets.options.verify) {
                Err(PipelineError::Pass(PassError::Budget(_))) => {}
                found => {
                    if let Some(found) = found? {
                        self.offer(found);
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Options for the limit with less effort.
    fn with_less_effort(&self) -> memc_passes::Options {
        memc_passes::Options { effort: self.own.effort / LESS_EFFORT, ..self.own.clone() }
    }

    /// Looks for the smallest plan of the same kind, from the smallest one of other kinds on: none of that depends on the limit, so that what it reaches is
    /// found for every larger limit.
    pub(super) fn regions_and_again_for_less(&mut self) -> Result<(), PipelineError> {
        let mut parts = [ALONE, LESS_ALONE].into_iter().peekable();
        while let Some(part) = parts.peek() {
            let less = Bytes(self.least.0.saturating_sub((self.least.0 / WORTH).max(1)));
            let found = self.again_in_regions(less, *part, Seeks::Least)?;
            match found.filter(|found| self.budgets.need(found) <= less) {
                Some(found) => {
                    self.reaches(self.budgets.need(&found));
                    self.offer(found);
                }
                None => _ = parts.next(),
            }
        }
        Ok(())
    }

    /// A plan within so many bytes with regions in parts that let each node by itself keep within a part of them, in hundredths.
    fn again_in_regions(&self, limit: Bytes, part: u64, seeks: Seeks) -> Result<Option<Planned>, PipelineError> {
        if !self.may_split() {
            return Ok(None);
        }
        let effort = if seeks == Seeks::Least { self.own.effort / LESS_EFFORT } else { self.own.effort };
        let own = memc_passes::Options { budget: Some(limit), effort, ..self.own.clone() };
        let context = self.budgets.context(&own, seeks);
        let (smallest, dearest) = (Some(limit).filter(|_| seeks == Seeks::Least), self.known());
        let context = |module: &Module| PassContext { smallest, dearest, ..context(module) };
        let alone = hundredths(limit, part);
        match memc_passes::plan_in_regions(self.budgets.given, context, alone, self.budgets.options.verify) {
            Err(PipelineError::Pass(PassError::Budget(_))) => Ok(None),
            found => found,
        }
    }

    /// Looks for regions in parts that keep the limit, whatever their time.
    ///
    /// Regions are chosen by what is live, and offsets may need a little more: plans for less may keep the limit where one for it does not.
    pub(super) fn regions_for_less(&mut self) -> Result<(), PipelineError> {
        if !self.may_split() {
            return Ok(());
        }
        let smallest = self.regions_within(Bytes(0), Seeks::Least, 0)?;
        let in_regions = [&smallest, self.free].into_iter().filter(|planned| is_split(&planned.module));
        let Some(least) = in_regions.min_by_key(|planned| self.budgets.need(planned)) else { return Ok(()) };
        self.reaches(self.budgets.need(least));
        for part in LESS.into_iter().filter(|_| self.fits(least)) {
            let found = self.regions_within(hundredths(self.limit, part), Seeks::Longest, self.own.effort)?;
            if self.fits(&found) {
                self.offer(found);
                return Ok(());
            }
        }
        self.offer(least.clone());
        Ok(())
    }

    /// A plan with regions in parts for a budget.
    fn regions_within(&self, budget: Bytes, seeks: Seeks, effort: u64) -> Result<Planned, PipelineError> {
        self.budgets.planned(&memc_passes::Options { budget: Some(budget), effort, ..self.own.clone() }, seeks)
    }
}

/// So many hundredths of a number of bytes.
fn hundredths(bytes: Bytes, part: u64) -> Bytes {
    Bytes((u128::from(bytes.0) * u128::from(part) / 100) as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::budget::made::{wide, with_free};
    use crate::options::OptimizeOptions;

    #[test]
    fn plans_within_less_are_looked_for_where_there_is_none_for_the_limit() {
        let mut options = OptimizeOptions::default();
        options.plan.effort = 1000;
        with_free(wide(), &options, |budgets, free| {
            let limit = hundredths(budgets.need(&free.planned), 70);
            let within_less = |is_again_kept: bool, least: Bytes| {
                let mut search = Search::new(budgets, limit, free);
                (search.is_again_kept, search.least) = (is_again_kept, least);
                search.regions_and_again_within_less().unwrap();
                search.best
            };
            let found = within_less(false, Bytes(0)).unwrap();
            assert!(budgets.need(&found) <= hundredths(limit, LESS[0]));
            assert!(within_less(true, Bytes(0)).is_none());
            // What is known to be out of reach is not asked for.
            assert!(within_less(false, limit).is_none());
        });
    }
}
