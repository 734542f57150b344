//! The pool: every plan that was checked, the best one under the goal, the smallest arena that is reachable, and the log of what was tried.

use memc_ir::Bytes;
use memc_passes::{Budgeted, Options, Shortage};

use crate::Goal;
use crate::model::{Planned, is_no_worse};
use crate::score::Score;

/// What became of a candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is the best plan until now.
    Best,
    /// It keeps the limits and is no better than the best one.
    Behind,
    /// It needs more bytes than the limit, or takes longer than the longest time.
    BeyondLimit,
    /// It needs more than the order of the file.
    AboveFileOrder,
    /// The search found nothing.
    Nothing,
    /// The strategy was not asked: the reason says why.
    NotAsked,
}

impl Verdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Best => "best so far",
            Self::Behind => "no better",
            Self::BeyondLimit => "beyond the limit",
            Self::AboveFileOrder => "needs more than the file's order",
            Self::Nothing => "found nothing",
            Self::NotAsked => "not asked",
        }
    }
}

/// One line of the log.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The strategy.
    pub strategy: &'static str,
    /// Its candidate in a few words, or why it was not asked.
    pub candidate: String,
    /// Options of kernels that it was planned without, as on the command line; empty where all that were asked for may be used.
    pub without: String,
    /// Bytes of the first space, where a plan was found.
    pub bytes: Option<Bytes>,
    /// Modelled time in nanoseconds, where a plan was found.
    pub nanos: Option<u64>,
    /// Search nodes of exact solvers that it took.
    pub effort: u64,
    /// What became of it.
    pub verdict: Verdict,
}

/// The plans of one model under one goal.
pub(crate) struct Pool<'o> {
    options: &'o Options,
    pub(crate) goal: Goal,
    /// The file's order under the rules of this search: upper bound of every plan without a limit.
    pub(crate) file_order: Planned,
    /// The best plan that keeps the limits.
    best: Option<Planned>,
    /// The best plan that was found without a search for the limit.
    free: Option<Planned>,
    /// Least modelled time of the model as it was given and of all plans that no limit was sought for.
    free_nanos: u64,
    /// Need of the smallest plan that the search finds for every limit, in bytes.
    smallest: Bytes,
    /// The fastest plan that keeps the limit of bytes and passes that of time.
    late: Option<Score>,
    /// Bytes of the smallest plan that keeps the limit of time.
    smallest_in_time: Bytes,
    /// Refusal of the last search that recomputes whole nodes.
    shortage: Option<Box<Shortage>>,
    pub(crate) log: Vec<Entry>,
}

impl<'o> Pool<'o> {
    /// Pool with the file's order in it; `given_nanos` is the modelled time of the model as it was given.
    pub(crate) fn new(options: &'o Options, goal: Goal, file_order: Planned, given_nanos: u64) -> Self {
        let smallest = Bytes(u64::MAX);
        Self {
            options,
            goal,
            file_order,
            best: None,
            free: None,
            free_nanos: given_nanos,
            smallest,
            late: None,
            smallest_in_time: smallest,
            shortage: None,
            log: Vec::new(),
        }
    }

    /// Takes a plan, if it is the best one that keeps the limits; without a limit of bytes, it must need no more than the order of the file.
    pub(crate) fn offer(&mut self, plan: Planned) -> Verdict {
        if self.goal.limit().is_none() && !is_no_worse(&plan.module, &self.file_order.module, self.options) {
            return Verdict::AboveFileOrder;
        }
        let score = self.score(&plan);
        if score.late == 0 {
            self.smallest_in_time = self.smallest_in_time.min(score.bytes);
        } else if score.beyond == 0 && self.late.is_none_or(|late| score < late) {
            self.late = Some(score);
        }
        let verdict = match () {
            () if !score.keeps() => Verdict::BeyondLimit,
            () if self.best.as_ref().is_some_and(|best| self.score(best) <= score) => Verdict::Behind,
            () => Verdict::Best,
        };
        if verdict == Verdict::Best {
            self.best = Some(plan);
        }
        verdict
    }

    /// Takes a plan that no limit was sought for: it must need no more than the order of the file. It is reachable under every limit.
    pub(crate) fn offer_free(&mut self, plan: Planned) -> Verdict {
        if !is_no_worse(&plan.module, &self.file_order.module, self.options) {
            return Verdict::AboveFileOrder;
        }
        self.free_nanos = self.free_nanos.min(plan.nanos(self.options));
        self.reach(plan.need(self.options));
        if self.free.as_ref().is_none_or(|free| self.score(&plan) < self.score(free)) {
            self.free = Some(plan.clone());
        }
        self.offer(plan)
    }

    pub(crate) fn score(&self, plan: &Planned) -> Score {
        plan.score(&self.goal, self.options)
    }

    /// The best plan that keeps the limits.
    pub(crate) fn best(&self) -> Option<&Planned> {
        self.best.as_ref()
    }

    /// The best plan of those that no limit was sought for; the order of the file before there is one.
    pub(crate) fn free(&self) -> &Planned {
        self.free.as_ref().unwrap_or(&self.file_order)
    }

    /// Modelled time of the best plan.
    pub(crate) fn fastest(&self) -> Option<u64> {
        self.best.as_ref().map(|best| best.nanos(self.options))
    }

    /// Whether there is a plan, and it takes more than this share of the time more than the fastest one without a limit; or there is none.
    pub(crate) fn is_slow(&self, share: u64) -> bool {
        self.fastest().is_none_or(|nanos| nanos > self.free_nanos + self.free_nanos / share)
    }

    /// Remembers the need of a plan that the search finds for every limit.
    pub(crate) fn reach(&mut self, need: Bytes) {
        self.smallest = self.smallest.min(need);
    }

    /// Need of the smallest plan that the search finds for every limit, in bytes.
    pub(crate) fn smallest(&self) -> Bytes {
        self.smallest
    }

    /// The fastest plan that keeps the limit of bytes and passes that of time.
    pub(crate) fn late(&self) -> Option<Score> {
        self.late
    }

    /// Bytes of the smallest plan that keeps the limit of time.
    pub(crate) fn smallest_in_time(&self) -> Bytes {
        self.smallest_in_time
    }

    /// Remembers the refusal of a search that recomputes whole nodes.
    pub(crate) fn lacks(&mut self, shortage: Box<Shortage>) {
        self.reach(shortage.least);
        self.shortage = Some(shortage);
    }

    /// Refusal for all strategies: the one of whole nodes, with the smallest plan of all.
    pub(crate) fn shortage(&self, only_whole: bool) -> Option<Box<Shortage>> {
        let shortage = self.shortage.clone()?;
        Some(Box::new(Shortage { least: self.smallest, only_whole, ..*shortage }))
    }

    /// Adds time, bound and effort to a plan in parts. Bounds of its module do not hold for plans of whole nodes, so the time without a limit is
    /// the bound.
    pub(crate) fn measured(&self, plan: Planned) -> Planned {
        let Some(limit) = self.goal.limit() else { return plan };
        let makespan = plan.nanos(self.options);
        let (rounds, stop, effort) = match plan.budgeted() {
            Some(found) => (found.rounds, found.stop, found.effort),
            None => (1, "in parts", 0),
        };
        let (base_cost, lower_bound) = (self.free_nanos, self.free_nanos.min(makespan));
        let budgeted = Some(Budgeted { base_cost, makespan, lower_bound, capacity: limit.0, rounds, stop, effort });
        let said = memc_passes::Said { budgeted, ..plan.said };
        Planned { said, ..plan }
    }

    /// The best plan, with the order of the file beside it.
    pub(crate) fn into_best(self) -> Option<Planned> {
        let base = self.file_order.module;
        self.best.map(|best| Planned { base: Some(base), ..best })
    }
}
