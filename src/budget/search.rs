//! The search for the fastest plan within a limit: one kind of plan after another, each where it is worth it after what the ones before found.

use memc_ir::{Bytes, Module};
use memc_passes::{Budgeted, Observer, PassContext, PassError, PipelineError, Planned, Seeks, Shortage};

use super::limits::far_budgets;
use super::{Budgets, Free};

/// The part of the time that a plan may take beyond what there is without a budget, for which no other plan is looked for.
pub(super) const SMALL: u64 = 100;
/// The part of the time beyond which plans are looked for that take long to find.
pub(super) const COSTLY: u64 = 20;

/// A kind of plan that does not leave each node whole.
struct Kind {
    /// Whether it is worth a search after what was found.
    is_worth: fn(&Search<'_, '_>) -> bool,
    /// Offers what it finds.
    seek: fn(&mut Search<'_, '_>) -> Result<(), PipelineError>,
}

/// Such kinds, in the order in which they are asked where plans of whole nodes take long or there are none.
const KINDS: [Kind; 7] = [
    Kind { is_worth: |search| !search.is_time_bought && search.takes(SMALL), seek: |search| search.regions_for_time() },
    Kind { is_worth: |search| search.takes(SMALL), seek: |search| search.regions_and_again() },
    Kind { is_worth: |search| search.is_kept() && search.takes(SMALL), seek: |search| search.regions_of_again() },
    Kind { is_worth: |search| search.is_kept() && search.takes(COSTLY), seek: |search| search.two_parts_and_again() },
    Kind { is_worth: |search| !search.is_kept(), seek: |search| search.regions_for_less() },
    Kind { is_worth: |search| !search.is_kept(), seek: |search| search.regions_and_again_for_less() },
    Kind { is_worth: |search| search.is_kept() && search.takes(COSTLY), seek: |search| search.regions_and_again_within_less() },
];

/// What is sought, and what was found so far.
pub(super) struct Search<'s, 'a> {
    pub(super) budgets: &'s Budgets<'a>,
    /// Options with the limit as the budget.
    pub(super) own: memc_passes::Options,
    pub(super) limit: Bytes,
    /// The plan without a budget, which needs more.
    pub(super) free: &'s Planned,
    /// Modelled time that needs no budget.
    base: u64,
    /// The fastest plan within the limit.
    pub(super) best: Option<Planned>,
    /// The plan of whole nodes that was found.
    pub(super) whole: Option<Planned>,
    /// What a plan needs that computes the batch in two parts and changes nothing else.
    pub(super) halved: Option<Bytes>,
    /// Whether regions in parts were looked for that save as much as time buys.
    pub(super) is_time_bought: bool,
    /// Whether a plan with regions in parts was found for the limit that computes again too.
    pub(super) is_again_kept: bool,
    /// What the smallest plan needs that is found for every limit alike.
    pub(super) least: Bytes,
}

impl<'s, 'a> Search<'s, 'a> {
    pub(super) fn new(budgets: &'s Budgets<'a>, limit: Bytes, free: &'s Free) -> Self {
        let options = budgets.options;
        let own = memc_passes::Options { budget: Some(limit), far_budgets: far_budgets(options), ..options.plan.clone() };
        let Free { planned: free, base } = free;
        Self {
            budgets,
            own,
            limit,
            free,
            base: *base,
            best: None,
            whole: None,
            halved: None,
            is_time_bought: false,
            is_again_kept: false,
            least: Bytes(u64::MAX),
        }
    }

    /// The fastest plan of all kinds that are worth a search.
    ///
    /// # Errors
    /// The first pipeline that fails; [`PassError::Budget`] where no plan is found.
    pub(super) fn run(mut self, observer: &mut dyn Observer) -> Result<Planned, PipelineError> {
        if self.may_divide_batch() {
            self.batch_in_parts()?;
        }
        if !self.takes(SMALL)
            && self.own.farther.is_empty()
            && let Some(best) = self.best.take()
        {
            return Ok(best);
        }
        let whole = self.whole_nodes(observer)?;
        self.whole = whole.as_ref().ok().cloned();
        for kind in KINDS {
            if (kind.is_worth)(&self) {
                (kind.seek)(&mut self)?;
            }
        }
        match (self.best.take(), whole) {
            (Some(best), _) | (None, Ok(best)) => Ok(best),
            (None, Err(short)) => Err(PipelineError::Pass(PassError::Budget(Box::new(self.shortage(*short))))),
        }
    }

    /// Looks for a plan that leaves each node whole, and computes again or moves what does not fit; returns it, or what the smallest one is short of.
    fn whole_nodes(&mut self, observer: &mut dyn Observer) -> Result<Result<Planned, Box<Shortage>>, PipelineError> {
        // What is more than a short search would find is not needed where there is another plan.
        let seeks = if self.is_kept() { Seeks::Soon } else { Seeks::Longest };
        match self.planned_within(&self.own, seeks, self.free, observer) {
            Err(PipelineError::Pass(PassError::Budget(short))) => {
                self.reaches(short.least);
                Ok(Err(short))
            }
            found => {
                let found = found?;
                if self.best.as_ref().is_none_or(|best| self.budgets.nanos(&found) <= self.budgets.nanos(best)) {
                    self.best = Some(found.clone());
                }
                Ok(Ok(found))
            }
        }
    }

    /// The plan within the budget of some options, where `free` needs more, if it may be faster than what was found; none smaller is looked for than what is reached.
    pub(super) fn planned_within(
        &self,
        own: &memc_passes::Options,
        seeks: Seeks,
        free: &Planned,
        observer: &mut dyn Observer,
    ) -> Result<Planned, PipelineError> {
        let context = self.budgets.context(own, seeks);
        let (dearest, smallest) = (self.known(), Some(self.least).filter(|least| *least < Bytes(u64::MAX)));
        let context = |module: &Module| PassContext { dearest, smallest, ..context(module) };
        memc_passes::plan_within(self.budgets.given, context, free, self.budgets.options.verify, observer)
    }

    /// Takes a plan that does not leave each node whole, if it keeps the limit and is faster than what was found.
    pub(super) fn offer(&mut self, planned: Planned) {
        let nanos = |planned: &Planned| self.budgets.nanos(planned);
        if self.fits(&planned) && self.best.as_ref().is_none_or(|best| nanos(&planned) < nanos(best)) {
            self.best = Some(self.measured(planned));
        }
    }

    /// Remembers that a plan that needs so much is found whatever the limit.
    pub(super) fn reaches(&mut self, need: Bytes) {
        self.least = self.least.min(need);
    }

    /// Whether a plan keeps the limit.
    pub(super) fn fits(&self, planned: &Planned) -> bool {
        self.budgets.need(planned) <= self.limit
    }

    /// Whether some plan was found that keeps the limit.
    pub(super) fn is_kept(&self) -> bool {
        self.best.is_some()
    }

    /// Modelled time of the fastest plan that was found.
    pub(super) fn known(&self) -> Option<u64> {
        self.best.as_ref().map(|best| self.budgets.nanos(best))
    }

    /// Whether all that was found takes more than such a part of the time more.
    pub(super) fn takes(&self, part: u64) -> bool {
        self.best.as_ref().is_none_or(|best| self.budgets.nanos(best) > self.base + self.base / part)
    }

    /// A plan in parts that keeps a budget, with what that takes: what is proven of its module says nothing of plans of the whole batch.
    fn measured(&self, planned: Planned) -> Planned {
        let makespan = self.budgets.nanos(&planned);
        let (rounds, stop, effort) = match planned.budgeted {
            Some(found) => (found.rounds, found.stop, found.effort),
            None => (1, "in parts", 0),
        };
        let (base_cost, lower_bound) = (self.base, self.base.min(makespan));
        let budgeted = Budgeted { base_cost, makespan, lower_bound, capacity: self.limit.0, rounds, stop, effort };
        Planned { budgeted: Some(budgeted), ..planned }
    }

    /// What plans of all kinds are short of, by what those of whole nodes are.
    fn shortage(&self, whole: Shortage) -> Shortage {
        let only_whole = self.may_split() || self.may_divide_batch();
        Shortage { least: self.least, only_whole, ..whole }
    }
}
