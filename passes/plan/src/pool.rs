//! The pool: the best plan under the goal, the smallest reachable arena, and the log of all candidates.

use memc_ir::Bytes;
use memc_passes::{Budgeted, Options, Shortage};

use crate::Goal;
use crate::model::{Planned, is_no_worse, pays_for_weights};
use crate::score::Score;
use crate::trial::AtLeast;

/// Outcome of a candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The strategy starts to search. Listeners receive this; the log does not hold it.
    Searching,
    /// Best plan so far.
    Best,
    /// Keeps the limits, but is no better than the best plan.
    Behind,
    /// Needs more bytes than the limit, or takes longer than the time limit.
    BeyondLimit,
    /// Parts run on nothing at the smallest extents of ranges, and take too long there.
    SlowAtLeast,
    /// Needs more than the file order.
    AboveFileOrder,
    /// Its weights grow by more than the arena shrinks.
    HeavyWeights,
    /// The search found no plan.
    Nothing,
    /// The strategy was skipped; the log entry says why.
    NotAsked,
}

impl Verdict {
    /// Returns the verdict in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Searching => "searching",
            Self::Best => "best so far",
            Self::Behind => "no better",
            Self::BeyondLimit => "exceeds the limit",
            Self::SlowAtLeast => "takes too long at the smallest extents",
            Self::AboveFileOrder => "needs more than the file order",
            Self::HeavyWeights => "weights grow by more than the arena shrinks",
            Self::Nothing => "no plan found",
            Self::NotAsked => "skipped",
        }
    }
}

/// One line of the log.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name of the strategy.
    pub strategy: &'static str,
    /// Short description of the candidate, or why the strategy was skipped.
    pub candidate: String,
    /// Kernel options that this search left out, as on the command line; empty if the search uses all
    /// requested kernels.
    pub without: String,
    /// Need of the first space, in bytes, if a plan was found.
    pub bytes: Option<Bytes>,
    /// Modelled time in nanoseconds, if a plan was found.
    pub nanos: Option<u64>,
    /// Search nodes that exact solvers spent on the candidate.
    pub effort: u64,
    /// Outcome of the candidate.
    pub verdict: Verdict,
}

impl Entry {
    /// Announces that a strategy starts to search.
    pub(crate) fn searching(strategy: &'static str) -> Self {
        let (candidate, without) = (String::new(), String::new());
        Self {
            strategy,
            candidate,
            without,
            bytes: None,
            nanos: None,
            effort: 0,
            verdict: Verdict::Searching,
        }
    }
}

/// The plans of one model under one goal.
pub(crate) struct Pool<'o> {
    options: &'o Options,
    pub(crate) goal: Goal,
    /// The file order under the rules of this search: upper bound of every plan without a limit.
    pub(crate) file_order: Planned,
    /// Best plan that keeps the limits.
    best: Option<Planned>,
    /// Whether the best plan was found without a search for the limit.
    best_is_free: bool,
    /// Best plan that was found without a search for the limit.
    free: Option<Planned>,
    /// Least modelled time, in nanoseconds, of the input model and of all plans found without a search
    /// for the limit.
    free_nanos: u64,
    /// Time of the file order at the smallest extents.
    at_least: AtLeast,
    /// Need, in bytes, of the smallest plan that the search finds under every limit.
    smallest: Bytes,
    /// Score of the best plan that keeps the byte limit and exceeds the time limit.
    late: Option<Score>,
    /// Need, in bytes, of the smallest plan that keeps the time limit.
    smallest_in_time: Bytes,
    /// Refusal of the last search that recomputes without splitting operators.
    shortage: Option<Box<Shortage>>,
    pub(crate) log: Vec<Entry>,
}

impl<'o> Pool<'o> {
    /// Creates a pool with the file order in it; `given_nanos` is the modelled time of the input model.
    pub(crate) fn new(options: &'o Options, goal: Goal, file_order: Planned, given_nanos: u64) -> Self {
        let smallest = Bytes(u64::MAX);
        let at_least = AtLeast::of(&file_order.module, options);
        Self {
            options,
            goal,
            at_least,
            file_order,
            best: None,
            best_is_free: false,
            free: None,
            free_nanos: given_nanos,
            smallest,
            late: None,
            smallest_in_time: smallest,
            shortage: None,
            log: Vec::new(),
        }
    }

    /// Offers a plan: stores the plan as the best one if it keeps the limits and has the best score.
    /// Without a byte limit, the plan must need no more than the file order.
    pub(crate) fn offer(&mut self, plan: Planned) -> Verdict {
        if self.goal.limit().is_none() && !is_no_worse(&plan.module, &self.file_order.module, self.options) {
            return Verdict::AboveFileOrder;
        }
        if self.goal.limit().is_none()
            && !pays_for_weights(&plan.module, &self.file_order.module, self.options)
        {
            return Verdict::HeavyWeights;
        }
        let score = self.score(&plan);
        if score.late == 0 {
            self.smallest_in_time = self.smallest_in_time.min(score.bytes);
        } else if score.beyond == 0 && self.late.is_none_or(|late| score < late) {
            self.late = Some(score);
        }
        let verdict = match () {
            () if !score.keeps() => Verdict::BeyondLimit,
            () if self.goal.limit().is_none() && self.is_slow_at_least(&plan) => Verdict::SlowAtLeast,
            () if self.best.as_ref().is_some_and(|best| self.score(best) <= score) => Verdict::Behind,
            () => Verdict::Best,
        };
        if verdict == Verdict::Best {
            (self.best, self.best_is_free) = (Some(plan), false);
        }
        verdict
    }

    /// Offers a plan that was found without a search for the limit, and that every limit can therefore
    /// reach. The plan must need no more than the file order.
    pub(crate) fn offer_free(&mut self, plan: Planned) -> Verdict {
        if !is_no_worse(&plan.module, &self.file_order.module, self.options) {
            return Verdict::AboveFileOrder;
        }
        if !pays_for_weights(&plan.module, &self.file_order.module, self.options) {
            return Verdict::HeavyWeights;
        }
        self.free_nanos = self.free_nanos.min(plan.nanos(self.options));
        self.reach(plan.need(self.options));
        if self.free.as_ref().is_none_or(|free| self.score(&plan) < self.score(free)) {
            self.free = Some(plan.clone());
        }
        let verdict = self.offer(plan);
        self.best_is_free |= verdict == Verdict::Best;
        verdict
    }

    /// Returns whether a plan takes too long at the smallest extents.
    fn is_slow_at_least(&self, plan: &Planned) -> bool {
        AtLeast::of(&plan.module, self.options).is_slow(&self.at_least, self.options)
    }

    pub(crate) fn score(&self, plan: &Planned) -> Score {
        plan.score(&self.goal, self.options)
    }

    /// Returns the best plan that keeps the limits.
    pub(crate) fn best(&self) -> Option<&Planned> {
        self.best.as_ref()
    }

    /// Returns whether the best plan was found without a search for the limit.
    pub(crate) fn best_is_free(&self) -> bool {
        self.best_is_free
    }

    /// Returns the best plan found without a search for the limit, or the file order if there is no such
    /// plan yet.
    pub(crate) fn free(&self) -> &Planned {
        self.free.as_ref().unwrap_or(&self.file_order)
    }

    /// Returns the modelled time of the best plan, in nanoseconds.
    pub(crate) fn fastest(&self) -> Option<u64> {
        self.best.as_ref().map(|best| best.nanos(self.options))
    }

    /// Returns whether the best plan takes more than 1/`share` longer than the fastest unlimited plan,
    /// or no plan keeps the limits.
    pub(crate) fn is_slow(&self, share: u64) -> bool {
        self.fastest().is_none_or(|nanos| nanos > self.free_nanos + self.free_nanos / share)
    }

    /// Records the need of a plan that the search finds under every limit.
    pub(crate) fn reach(&mut self, need: Bytes) {
        self.smallest = self.smallest.min(need);
    }

    /// Returns the need, in bytes, of the smallest plan that the search finds under every limit.
    pub(crate) fn smallest(&self) -> Bytes {
        self.smallest
    }

    /// Returns the score of the best plan that keeps the byte limit and exceeds the time limit.
    pub(crate) fn late(&self) -> Option<Score> {
        self.late
    }

    /// Returns the need, in bytes, of the smallest plan that keeps the time limit; `None` if none was found.
    pub(crate) fn smallest_in_time(&self) -> Option<Bytes> {
        Some(self.smallest_in_time).filter(|bytes| *bytes != Bytes(u64::MAX))
    }

    /// Records the refusal of a search that recomputes without splitting operators.
    pub(crate) fn lacks(&mut self, shortage: Box<Shortage>) {
        self.reach(shortage.least);
        self.shortage = Some(shortage);
    }

    /// Returns the refusal for all strategies: the refusal of the search without splitting, with the
    /// need of the smallest plan of any strategy. Its bound holds for operands in the first space, so there
    /// is none if operators also access others.
    pub(crate) fn shortage(&self, only_whole: bool) -> Option<Box<Shortage>> {
        let shortage = self.shortage.clone()?;
        let is_alone = self.options.cost.target.spaces.iter().all(|space| space.access.is_none());
        let bound = if is_alone { shortage.bound } else { Bytes(0) };
        Some(Box::new(Shortage { least: self.smallest, bound, only_whole, ..*shortage }))
    }

    /// Adds the time, bound and effort to a plan with split operators. Bounds of its module do not hold
    /// for plans without splitting, so the reported lower bound is the time without a limit.
    pub(crate) fn measured(&self, plan: Planned) -> Planned {
        let Some(limit) = self.goal.limit() else { return plan };
        let makespan = plan.nanos(self.options);
        let (rounds, stop, effort) = match plan.budgeted() {
            Some(found) => (found.rounds, found.stop, found.effort),
            None => (1, "in parts", 0),
        };
        let (base_cost, lower_bound) = (self.free_nanos, self.free_nanos.min(makespan));
        let budgeted =
            Some(Budgeted { base_cost, makespan, lower_bound, capacity: limit.0, rounds, stop, effort });
        let said = memc_passes::Said { budgeted, ..plan.said };
        Planned { said, ..plan }
    }

    /// Returns the best plan, with the file order attached. Without limits, the file order is a plan, too.
    pub(crate) fn into_best(mut self) -> Option<Planned> {
        if self.best.is_none() && self.goal.limit().is_none() && self.score(&self.file_order).keeps() {
            self.best = Some(self.file_order.clone());
        }
        let base = self.file_order.module;
        self.best.map(|best| Planned { base: Some(base), ..best })
    }
}
