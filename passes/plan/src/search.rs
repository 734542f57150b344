//! One search: runs the strategies in order; the pool keeps their plans.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use memc_ir::Bytes;
use memc_passes::{PassError, PipelineError, Settings};

use crate::forms::Forms;
use crate::goal::{Goal, slowed};
use crate::model::{Model, Planned, arena, locked};
use crate::peak::needed_at_end;
use crate::pool::{Entry, Pool, Verdict};
use crate::strategies::{FIRST, STRATEGIES, Strategy};
use crate::tuning::Tuning;
use crate::whole::{self, Asked};
use crate::{Found, Refusal, Without};

/// The user's request to one search.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wish {
    /// Limit of the first space in bytes: for the arena, and for constants if the plan places weights.
    pub limit: Option<Bytes>,
    /// Slowdown allowed in exchange for memory, in hundredths of a percent of the input model's time.
    /// With a limit, both hold.
    pub slowdown: u32,
}

/// What strategies leave for later ones, whoever these are.
#[derive(Default)]
pub(crate) struct Known {
    /// Plan of the whole batch without recomputation.
    pub(crate) ordered: Option<Planned>,
    /// Plan that recomputes or transfers values of whole nodes, for the limit.
    pub(crate) recomputed: Option<Planned>,
    /// Whether a plan splits regions and recomputes other values, for the limit itself.
    pub(crate) is_split_and_recomputed: bool,
    /// Numbers of batch parts that nearly keep the limit, with their heuristic plans.
    pub(crate) near_parts: Vec<(u64, Planned)>,
}

/// State of one search.
pub(crate) struct Search<'m> {
    pub(crate) model: &'m Model<'m>,
    pub(crate) tuning: &'m Tuning,
    pub(crate) wish: Wish,
    pub(crate) pool: Pool<'m>,
    /// Best plan of each strategy that found a plan.
    found: BTreeMap<&'static str, Planned>,
    /// What strategies leave for later ones.
    pub(crate) known: Known,
    pub(crate) forms: Forms<'m>,
    free: Free,
    /// Bytes that every plan needs.
    floor: Bytes,
    /// Receives every log entry as soon as it is made; none in a search that serves another one.
    tell: Option<&'m mut dyn FnMut(&Entry)>,
    /// Name of the strategy that is running.
    asked: &'static str,
    spent: u64,
}

impl<'m> Search<'m> {
    /// Creates a search and plans the file order. Without a `goal`, the goal is made from `wish` and the
    /// file order.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails.
    pub(crate) fn new(
        model: &'m Model<'m>,
        tuning: &'m Tuning,
        wish: Wish,
        goal: Option<Goal>,
        tell: Option<&'m mut dyn FnMut(&Entry)>,
    ) -> Result<Self, PipelineError> {
        let parts = model.options.rewrite.micro_batches;
        let settings = Settings { effort: Some(0), parts, limit: wish.limit, ..Settings::default() };
        let file_order = whole::file_order(model, &settings)?;
        let longest = (wish.slowdown > 0).then(|| slowed(model.nanos(), wish.slowdown));
        let made = || match wish.limit {
            limit if wish.slowdown > 0 => Goal::Slowdown { longest, limit },
            Some(bytes) => Goal::Limit(bytes),
            // Without a request, memory costs no time. Options that change the nodes of the file order may.
            None => Goal::price(model.options, arena(&file_order.module), model.nanos())
                .within_time(model.nanos().max(file_order.nanos(model.options))),
        };
        let goal = goal.unwrap_or_else(made);
        let floor = needed_at_end(&file_order.module, model.options);
        Ok(Self {
            model,
            tuning,
            wish,
            pool: Pool::new(
                model.options,
                goal,
                Planned { strategy: "file-order", ..file_order },
                model.nanos(),
            ),
            found: BTreeMap::new(),
            known: Known::default(),
            forms: Forms::of(model),
            free: Free::default(),
            floor,
            tell,
            asked: "file-order",
            spent: 0,
        })
    }

    /// Returns the plan of the model for another request, or `None` if there is none. Its candidates are not
    /// logged; their search nodes count here.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails.
    pub(crate) fn aside(&self, wish: Wish) -> Result<Option<Planned>, PipelineError> {
        let (found, spent) = self.free.aside(self.model, self.tuning, wish)?;
        self.model.memo.spend(spent);
        Ok(found)
    }

    /// Returns whether this search serves another one.
    pub(crate) fn is_aside(&self) -> bool {
        self.tell.is_none()
    }

    /// Returns the plan of the model for a slowdown without a limit.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails.
    pub(crate) fn without_limit(&self, slowdown: u32) -> Result<Option<Planned>, PipelineError> {
        let (found, spent) = self.free.find(self.model, self.tuning, slowdown)?;
        self.model.memo.spend(spent);
        Ok(found)
    }

    /// Runs every strategy that is worth running. The plan without limits, which every limited search takes
    /// over, is found beside the first strategies.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails; a limit without a plan is not an error here.
    pub(crate) fn run(&mut self) -> Result<(), PipelineError> {
        let (first, later) = STRATEGIES.split_at(FIRST);
        let is_limited = self.wish != Wish { limit: None, slowdown: 0 };
        if is_limited && !self.is_aside() {
            let (model, tuning, free) = (self.model, self.tuning, self.free.clone());
            let (run, found) =
                model.options.threads.beside(|| self.run_all(first), || free.prepare(model, tuning, 0));
            run.and(found)?;
        } else {
            self.run_all(first)?;
        }
        self.run_all(later)
    }

    /// Runs strategies in their order.
    fn run_all(&mut self, strategies: &[Strategy]) -> Result<(), PipelineError> {
        for Strategy { name, is_worth, seek, .. } in strategies {
            (self.asked, self.spent) = (name, self.model.memo.spent());
            match is_worth(self) {
                Ok(()) => {
                    self.announce(&Entry::searching(name));
                    seek(self)?;
                }
                Err(why) => self.log(why.to_owned(), None, Verdict::NotAsked),
            }
        }
        Ok(())
    }

    /// Returns the best plan with its score.
    ///
    /// # Errors
    /// If no plan keeps the limits, returns the need of the smallest plan or the time of the fastest
    /// plan.
    pub(crate) fn finish(self) -> Result<Found, Refusal> {
        let only_whole = self.model.may_split() || self.may_divide_batch();
        let late = self.pool.late();
        let shortage = self.pool.shortage(only_whole);
        let smallest = self.pool.smallest_in_time();
        let goal = self.pool.goal;
        match (self.pool.into_best(), late, shortage) {
            (Some(planned), ..) => {
                let score = planned.score(&goal, self.model.options);
                Ok(Found {
                    planned,
                    score,
                    log: Vec::new(),
                    options: self.model.options.clone(),
                    without: Without::default(),
                })
            }
            (None, Some(score), _) => {
                let longest = slowed(self.model.nanos(), self.wish.slowdown);
                Err(Refusal::Slow { longest, nanos: score.nanos, needs: score.bytes, smallest })
            }
            (None, None, Some(short)) => Err(PipelineError::Pass(PassError::Budget(short)).into()),
            (None, None, None) => Err(PipelineError::Pass(PassError::WrongAnswer {
                pass: "plan",
                why: "no strategy found a plan".to_owned(),
            })
            .into()),
        }
    }

    /// Returns the settings of every pass of this search: limit, slowdown, and the requested number of
    /// batch parts.
    pub(crate) fn settings(&self) -> Settings {
        let parts = self.model.options.rewrite.micro_batches;
        // With both limits, a strategy of its own searches for plans for the slowdown alone.
        let slowdown = if self.wish.limit.is_some() { 0 } else { self.wish.slowdown };
        Settings { limit: self.wish.limit, slowdown, parts, ..Settings::default() }
    }

    /// Returns the limit, or the largest number of bytes without a limit.
    pub(crate) fn limit(&self) -> Bytes {
        self.wish.limit.unwrap_or(Bytes(u64::MAX))
    }

    /// Checks that a plan may keep the limit, or be noticeably smaller than the smallest one known.
    pub(crate) fn is_open(&self) -> Result<(), &'static str> {
        let near = self.floor.0.saturating_add(self.floor.0 / self.tuning.small_overhead);
        let is_over = self.limit() < self.floor && self.pool.smallest().0 <= near;
        if is_over {
            Err("no plan can keep the limit, or be noticeably smaller than the smallest one")
        } else {
            Ok(())
        }
    }

    /// Returns whether the search may split the batch without a request.
    pub(crate) fn may_divide_batch(&self) -> bool {
        self.model.may_split() && self.model.options.rewrite.micro_batches.is_none()
    }

    /// Returns the best plan of each strategy that found one, in the order of their names.
    pub(crate) fn all_found(&self) -> Vec<Planned> {
        self.found.values().cloned().collect()
    }

    /// Offers a plan that was searched for the limit.
    pub(crate) fn offer(&mut self, candidate: impl Into<String>, plan: Planned) -> Verdict {
        let plan = Planned { strategy: self.asked, ..plan };
        self.keep(&plan);
        let verdict = self.pool.offer(plan.clone());
        self.log(candidate.into(), Some(&plan), verdict);
        verdict
    }

    /// Offers a plan that was found without a search for the limit.
    pub(crate) fn offer_free(&mut self, candidate: impl Into<String>, plan: Planned) -> Verdict {
        let plan = Planned { strategy: self.asked, ..plan };
        self.keep(&plan);
        let verdict = self.pool.offer_free(plan.clone());
        self.log(candidate.into(), Some(&plan), verdict);
        verdict
    }

    /// Logs a candidate without a plan.
    pub(crate) fn nothing(&mut self, candidate: impl Into<String>) {
        self.log(candidate.into(), None, Verdict::Nothing);
    }

    fn keep(&mut self, plan: &Planned) {
        let is_better =
            self.found.get(self.asked).is_none_or(|known| self.pool.score(plan) < self.pool.score(known));
        if is_better {
            self.found.insert(self.asked, plan.clone());
        }
    }

    fn announce(&mut self, entry: &Entry) {
        if let Some(tell) = &mut self.tell {
            tell(entry);
        }
    }

    fn log(&mut self, candidate: String, plan: Option<&Planned>, verdict: Verdict) {
        let (options, spent) = (self.model.options, self.model.memo.spent());
        let entry = Entry {
            strategy: self.asked,
            candidate,
            without: String::new(),
            bytes: plan.map(|plan| plan.need(options)),
            nanos: plan.map(|plan| plan.nanos(options)),
            effort: spent - self.spent,
            verdict,
        };
        self.announce(&entry);
        self.pool.log.push(entry);
        self.spent = spent;
    }

    /// Returns the best plan without recomputation; `rewrites` says whether rewritten nodes and split regions
    /// are tried.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails.
    pub(crate) fn plan(&self, settings: &Settings, rewrites: bool) -> Result<Planned, PipelineError> {
        let (goal, file_order) = (self.pool.goal, &self.pool.file_order);
        Asked { forms: &self.forms, tuning: self.tuning, goal, file_order }.plan(settings, rewrites)
    }

    /// Returns the plan of a search for the limit; logs an empty line and returns `None` if the search
    /// found none.
    ///
    /// # Errors
    /// Returns every error except a lack of memory.
    pub(crate) fn or_nothing(
        &mut self,
        candidate: &str,
        found: Result<Planned, PipelineError>,
    ) -> Result<Option<Planned>, PipelineError> {
        match found {
            Err(PipelineError::Pass(PassError::Budget(_))) => {
                self.nothing(candidate);
                Ok(None)
            }
            found => found.map(Some),
        }
    }
}

/// A plan, if there is one, with the search nodes that it took and that nobody has counted yet.
type Uncounted = (Option<Planned>, u64);

/// Plans without a limit, by their slowdowns. Clones share them.
#[derive(Clone, Default)]
struct Free(Arc<Mutex<BTreeMap<u32, Uncounted>>>);

impl Free {
    /// Finds the plan of a model for a request by a search of its own. Returns it with the search nodes that
    /// it took.
    fn aside(&self, model: &Model<'_>, tuning: &Tuning, wish: Wish) -> Result<Uncounted, PipelineError> {
        let model = Model { memo: model.memo.apart(), ..model.clone() };
        let mut search = Search { free: self.clone(), ..Search::new(&model, tuning, wish, None, None)? };
        search.run()?;
        Ok((search.pool.into_best(), model.memo.spent()))
    }

    /// Finds the plan for a slowdown, for later.
    fn prepare(&self, model: &Model<'_>, tuning: &Tuning, slowdown: u32) -> Result<(), PipelineError> {
        let found = self.aside(model, tuning, Wish { limit: None, slowdown })?;
        locked(&self.0).insert(slowdown, found);
        Ok(())
    }

    /// Returns the plan for a slowdown, with the search nodes that nobody has counted yet.
    fn find(&self, model: &Model<'_>, tuning: &Tuning, slowdown: u32) -> Result<Uncounted, PipelineError> {
        if !locked(&self.0).contains_key(&slowdown) {
            self.prepare(model, tuning, slowdown)?;
        }
        let mut all = locked(&self.0);
        let known = all.get_mut(&slowdown).map(|(found, spent)| (found.clone(), std::mem::take(spent)));
        Ok(known.unwrap_or_default())
    }
}
