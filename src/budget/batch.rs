//! Plans that compute the batch in parts, in powers of two. Sums over parts are taken in another order than over the whole batch.

use memc_ir::Bytes;
use memc_passes::micro_batch::is_divided;
use memc_passes::{PassError, PipelineError, Planned, Seeks, Silent};

use super::search::{COSTLY, Search};

/// At most two to this power is the number of parts of a batch.
const MOST_DOUBLINGS: u32 = 6;
/// A batch is computed in so many parts at most that about so many nodes are left: plans of more take minutes.
const MOST_NODES: usize = 32_768;
/// Where so many nodes are left, several times, what does not fit is searched for with so many times less effort: each step takes longer.
const FULL_EFFORT: u64 = 8192;
/// The part of its bytes that a plan of twice as many parts must save for still more parts to be tried.
const WORTH: u64 = 32;
/// The part of a limit by which a plan without rewriting may pass it for one with rewriting to be tried.
const NEAR: u64 = 8;
/// Models of at most so many nodes are computed in two parts and again, where two parts by themselves save at least such a part of the bytes.
const LARGEST: usize = 4000;
const NOTICEABLE: u64 = 16;

impl Search<'_, '_> {
    /// Whether memc may compute the batch in parts without being asked.
    pub(super) fn may_divide_batch(&self) -> bool {
        let rewrite = self.own.rewrite;
        rewrite.enabled && !rewrite.exact && rewrite.micro_batches.is_none()
    }

    /// Looks for the fewest parts with which a plan fits, or with which it nearly fits and does where they compute again.
    pub(super) fn batch_in_parts(&mut self) -> Result<(), PipelineError> {
        let (mut last, mut near) = (Bytes(u64::MAX), Vec::new());
        for parts in numbers_of_parts(self.budgets.nodes()) {
            let quick = self.in_parts(parts, false)?;
            let need = self.budgets.need(&quick);
            self.halved.get_or_insert(need);
            if !is_divided(&quick.module) || need.0 > last.0 - last.0 / WORTH {
                break;
            }
            last = need;
            self.reaches(need);
            if need.0 <= self.limit.0.saturating_add(self.limit.0 / NEAR) {
                let plan = self.in_parts(parts, true)?;
                near.push((parts, plan.clone()));
                for found in [plan, quick].into_iter().filter(|found| is_divided(&found.module)) {
                    self.offer(found);
                }
                if self.is_kept() {
                    return Ok(());
                }
            }
        }
        // Plans of many nodes that compute again take longest to find.
        if !near.is_empty() {
            self.regions_for_time()?;
        }
        let known = self.known();
        for (parts, plan) in near {
            if self.takes(COSTLY) && self.known() == known {
                self.in_parts_and_again(parts, &plan)?;
            }
        }
        Ok(())
    }

    /// Looks for a plan that computes the batch in two parts, where these save bytes by themselves, and again what does not fit. They may be far from the
    /// limit, and still leave less to compute again than the whole batch.
    pub(super) fn two_parts_and_again(&mut self) -> Result<(), PipelineError> {
        if !self.may_divide_batch() || self.budgets.nodes() > LARGEST || !self.halves()? {
            return Ok(());
        }
        let plan = self.in_parts(2, true)?;
        let whole = self.budgets.need(self.free).0;
        if is_divided(&plan.module) && self.budgets.need(&plan).0 <= whole - whole / NOTICEABLE {
            self.in_parts_and_again(2, &plan)?;
        }
        Ok(())
    }

    /// Whether two parts save bytes where nothing else is changed.
    fn halves(&self) -> Result<bool, PipelineError> {
        let halved = match self.halved {
            Some(halved) => halved,
            None => self.budgets.need(&self.in_parts(2, false)?),
        };
        let saves = |whole: Bytes| halved.0 <= whole.0 - whole.0 / NOTICEABLE;
        let given = self.free.base.as_ref().map(|base| self.budgets.need_of(base));
        Ok(given.is_none_or(saves) && saves(self.budgets.need(&self.in_parts(1, false)?)))
    }

    /// Looks for a plan that computes the batch in so many parts, and again or elsewhere what does not fit; offers none where none is found soon.
    fn in_parts_and_again(&mut self, parts: u64, free: &Planned) -> Result<(), PipelineError> {
        let rewrite = memc_passes::Rewriting { micro_batches: Some(parts), ..self.own.rewrite };
        let effort = share_of(self.own.effort, self.budgets.nodes() as u64 * parts);
        let own = memc_passes::Options { rewrite, effort, ..self.own.clone() };
        match self.planned_within(&own, Seeks::Soon, free, &mut Silent) {
            Err(PipelineError::Pass(PassError::Budget(_))) => {}
            found => self.offer(found?),
        }
        Ok(())
    }

    /// A plan by heuristics alone that computes the batch in so many parts.
    fn in_parts(&self, parts: u64, enabled: bool) -> Result<Planned, PipelineError> {
        let rewrite = memc_passes::Rewriting { micro_batches: Some(parts), enabled, ..self.own.rewrite };
        // What small models need in parts is found out even where the budget is hopeless, for what is said of smaller ones.
        let budget = self.own.budget.filter(|_| enabled || self.budgets.is_large());
        self.budgets.planned(&memc_passes::Options { rewrite, effort: 0, budget, ..self.own.clone() }, Seeks::Longest)
    }
}

/// The effort of a search where so many nodes are left.
fn share_of(effort: u64, nodes: u64) -> u64 {
    effort / (nodes / FULL_EFFORT).max(1)
}

/// Numbers of parts of a batch of which models of so many nodes are made, in powers of two.
fn numbers_of_parts(nodes: usize) -> impl Iterator<Item = u64> {
    let numbers = (1..=MOST_DOUBLINGS).map(|doublings| 1_u64 << doublings);
    numbers.take_while(move |parts| (nodes as u64).saturating_mul(*parts) <= MOST_NODES as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use memc_ir::Module;

    use super::*;
    use crate::budget::made::{step, with_free};
    use crate::options::OptimizeOptions;

    /// The plan in two parts within a part of what the plan without a limit needs, in hundredths.
    fn in_two_parts(given: Module, part: u64, options: &OptimizeOptions) -> Option<Planned> {
        with_free(given, options, |budgets, free| {
            let limit = Bytes(budgets.need(&free.planned).0 * part / 100);
            let mut search = Search::new(budgets, limit, free);
            search.two_parts_and_again().unwrap();
            let found = search.best;
            assert!(found.as_ref().is_none_or(|found| budgets.need(found) <= limit));
            found
        })
    }

    #[test]
    fn two_parts_compute_again_what_does_not_fit() {
        let mut options = OptimizeOptions::default();
        options.plan.effort = 1000;
        let found = in_two_parts(step(1024), 45, &options).unwrap();
        assert!(is_divided(&found.module));
        assert!(found.budgeted.is_some_and(|budgeted| budgeted.makespan > budgeted.base_cost), "something is computed again");
        // Batches of odd numbers are not divided, nor any where no bit may change.
        assert!(in_two_parts(step(1025), 45, &options).is_none());
        options.plan.rewrite.exact = true;
        assert!(in_two_parts(step(1024), 45, &options).is_none());
    }

    #[test]
    fn two_parts_are_not_planned_where_they_save_nothing_by_themselves() {
        with_free(step(1024), &OptimizeOptions::default(), |budgets, free| {
            let whole = budgets.need(&free.planned);
            let halves = |halved: Option<Bytes>| {
                let mut search = Search::new(budgets, whole, free);
                search.halved = halved;
                search.halves().unwrap()
            };
            assert!(halves(None) && halves(Some(Bytes(whole.0 / 2))));
            assert!(!halves(Some(whole)));
        });
    }

    #[test]
    fn many_nodes_are_searched_with_less_effort() {
        assert_eq!(
            [0, 8191, 16_383, 16_384, 32_768].map(|nodes| share_of(20_000, nodes)),
            [20_000, 20_000, 20_000, 10_000, 5000]
        );
    }

    #[test]
    fn many_nodes_leave_few_parts() {
        assert_eq!(numbers_of_parts(100).collect::<Vec<_>>(), [2, 4, 8, 16, 32, 64]);
        assert_eq!(numbers_of_parts(2000).collect::<Vec<_>>(), [2, 4, 8, 16]);
        assert_eq!(numbers_of_parts(16_385).count(), 0);
    }
}
