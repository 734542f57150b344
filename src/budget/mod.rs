//! Budgets: a plan that keeps what the user asked for in bytes, and takes as little more time as several kinds of search find.
//!
//! `limits` resolves what was asked and says why a plan does not keep it. `search` asks one kind of plan after another for the fastest within a
//! limit: nodes that stay whole, the batch in parts (`batch`), regions in parts (`regions`). `sweep` does so for many limits.

mod batch;
mod limits;
#[cfg(test)]
mod made;
mod regions;
mod search;
mod sweep;
mod time;

use std::sync::Arc;

use memc_ir::{Bytes, Module, SecondaryMap, Value};
use memc_ops::Data;
use memc_passes::analysis::near_constants;
use memc_passes::answers::Answers;
use memc_passes::split::is_split;
use memc_passes::{ExternalData, Observer, PassContext, PipelineError, Planned, Seeks, Silent};

pub(crate) use limits::{budget, keep_budget, keep_weights, room};

use crate::error::Error;
use crate::options::OptimizeOptions;
use search::{SMALL, Search};

/// Models of more nodes are not planned in many ways where one of them keeps the budget.
const LARGE: usize = 1000;

/// What is known of elements, as inference found it.
pub(crate) type Known = SecondaryMap<Value, Option<Arc<Data>>>;

/// The plan without a search for a limit.
pub(crate) struct Free {
    pub(crate) planned: Planned,
    /// Least modelled time of the model as it was given and of all plans made without such a search.
    base: u64,
}

impl Free {
    fn new(budgets: &Budgets<'_>, planned: Planned) -> Self {
        Self { base: budgets.nanos(&planned).min(budgets.given_nanos()), planned }
    }
}

/// A model whose budgets are planned.
pub(crate) struct Budgets<'a> {
    pub(crate) given: &'a Module,
    pub(crate) options: &'a OptimizeOptions,
    pub(crate) data: &'a Known,
    pub(crate) external: &'a dyn ExternalData,
    /// What plans of the same model found before.
    pub(crate) answers: Answers,
}

impl Budgets<'_> {
    /// The plan, or the one that is found where less is asked for, if that serves better: searches are greedy, and where memory counts for more they may
    /// end on more, or take more time than what fits anyway.
    pub(crate) fn or_plainer(&self, planned: Planned, limit: Option<Bytes>) -> Result<Free, Error> {
        let mut own = without_limits(&self.options.plan);
        match limit {
            Some(_) if !is_split(&planned.module) => return Ok(Free::new(self, planned)),
            None if own.rewrite.slowdown == 0 => return Ok(Free::new(self, planned)),
            _ => own.rewrite.slowdown = 0,
        }
        let plainer = self.planned(&own, Seeks::Longest)?;
        let rank = |planned: &Planned| {
            let (need, nanos) = (self.need(planned), self.nanos(planned));
            limit.map_or((need.0, nanos), |limit| (need.0.saturating_sub(limit.0), nanos))
        };
        let [planned, other] = if rank(&plainer) < rank(&planned) { [plainer, planned] } else { [planned, plainer] };
        let free = Free::new(self, planned);
        Ok(Free { base: free.base.min(self.nanos(&other)), ..free })
    }

    /// The plan, if its arena keeps the limit; else one that computes again what there is no room to keep. Where regions in parts keep the limit, but
    /// take noticeably longer, the faster of both.
    pub(crate) fn within(&self, free: Free, limit: Option<Bytes>, observer: &mut dyn Observer) -> Result<Planned, Error> {
        let Some(limit) = limit else { return Ok(free.planned) };
        let planned = &free.planned;
        let fits = self.need(planned) <= limit;
        if fits && (!is_split(&planned.module) || self.nanos(planned) <= free.base / SMALL * (SMALL + 1)) {
            return Ok(free.planned);
        }
        match self.plan(limit, &free, observer) {
            Ok(found) if !fits || self.nanos(&found) < self.nanos(planned) => Ok(Planned { base: free.planned.base, ..found }),
            Err(error) if !fits => Err(error.into()),
            _ => Ok(free.planned),
        }
    }

    /// The plan within a limit that takes least time of all kinds of plans that are worth a search. `free` needs more.
    ///
    /// # Errors
    /// The first pipeline that fails; that no plan was found, with what the smallest one needs.
    fn plan(&self, limit: Bytes, free: &Free, observer: &mut dyn Observer) -> Result<Planned, PipelineError> {
        Search::new(self, limit, free).run(observer)
    }

    /// Whether searches of more than one kind would take long.
    fn is_large(&self) -> bool {
        self.nodes() > LARGE
    }

    /// Nodes of the model.
    fn nodes(&self) -> usize {
        self.given.graph(self.given.main()).nodes.len()
    }

    /// The plan of some options.
    fn planned(&self, own: &memc_passes::Options, seeks: Seeks) -> Result<Planned, PipelineError> {
        memc_passes::plan(self.given, self.context(own, seeks), self.options.verify, &mut Silent)
    }

    /// What passes are given.
    fn context<'o>(&'o self, own: &'o memc_passes::Options, seeks: Seeks) -> impl Fn(&Module) -> PassContext<'o> {
        let answers = &self.answers;
        move |module| PassContext {
            external: Some(self.external),
            answers: answers.clone(),
            seeks,
            ..PassContext::new(own, self.data.clone(), module)
        }
    }

    /// Bytes of the first space: its arena, and constants where the plan says which of them lie there.
    fn need(&self, planned: &Planned) -> Bytes {
        self.need_of(&planned.module)
    }

    /// The same of a planned module.
    fn need_of(&self, module: &Module) -> Bytes {
        let arena = module.plan.arenas.first().map(|arena| arena.size).unwrap_or_default();
        let constants = self.options.plan.weights.as_ref().map(|_| near_constants(module));
        arena.saturating_add(constants.unwrap_or_default())
    }

    /// Modelled time of the model as it was given.
    fn given_nanos(&self) -> u64 {
        self.options.plan.cost.total_nanos(self.given).0.round() as u64
    }

    /// Hundredths of a per cent by which a plan takes longer than the model as it was given.
    fn slowdown(&self, planned: &Planned) -> u32 {
        let given = u128::from(self.given_nanos());
        let more = u128::from(self.nanos(planned)).saturating_sub(given);
        u32::try_from(more * 10_000 / given.max(1)).unwrap_or(u32::MAX)
    }

    /// Modelled time of a plan.
    fn nanos(&self, planned: &Planned) -> u64 {
        self.options.plan.cost.total_nanos(&planned.module).0.round() as u64
    }
}

/// The same options without a budget and without a capacity.
fn without_limits(own: &memc_passes::Options) -> memc_passes::Options {
    let mut own = memc_passes::Options { budget: None, ..own.clone() };
    own.space.capacity = None;
    own
}
