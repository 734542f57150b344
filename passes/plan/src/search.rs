//! One search: runs the strategies in order; the pool keeps their plans.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use memc_ir::{Bytes, ConstData, ConstOrigin};
use memc_passes::{PassError, PipelineError, Settings, Transform, Turn};

use crate::goal::{Goal, slowed};
use crate::model::{Form, Model, Planned, arena, pays_for_weights};
use crate::pool::{Entry, Pool, Verdict};
use crate::strategies::{STRATEGIES, Strategy};
use crate::tuning::Tuning;
use crate::whole::{self, CLEAN, Candidate, REGIONS, REWRITE};
use crate::{Found, Refusal};
use crate::{peak, split};

/// The user's request to one search.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wish {
    /// Limit of the first space in bytes: for the arena, and for constants if the plan places weights.
    pub limit: Option<Bytes>,
    /// Slowdown allowed in exchange for memory, in hundredths of a percent of the input model's time.
    /// With a limit, both hold.
    pub slowdown: u32,
}

/// State of one search.
pub(crate) struct Search<'m> {
    pub(crate) model: &'m Model<'m>,
    pub(crate) tuning: &'m Tuning,
    pub(crate) wish: Wish,
    pub(crate) pool: Pool<'m>,
    /// Best plan of each strategy that found a plan.
    found: BTreeMap<&'static str, Planned>,
    /// Numbers of batch parts that nearly keep the limit, with their heuristic plans.
    pub(crate) near_parts: Vec<(u64, Planned)>,
    /// Forms by the pipelines that make them.
    forms: Rc<RefCell<BTreeMap<String, Rc<Form<'m>>>>>,
    /// Plans without a limit, by their slowdowns.
    free: Rc<RefCell<BTreeMap<u32, Option<Planned>>>>,
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
        Ok(Self {
            model,
            tuning,
            wish,
            pool: Pool::new(model.options, goal, Planned { strategy: "file-order", ..file_order }, model.nanos()),
            found: BTreeMap::new(),
            near_parts: Vec::new(),
            forms: Rc::default(),
            free: Rc::default(),
            tell,
            asked: "file-order",
            spent: 0,
        })
    }

    /// Returns the plan of the model for another request, found with the forms of this search, or `None` if
    /// there is none. Its candidates are not logged.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails.
    pub(crate) fn aside(&self, wish: Wish) -> Result<Option<Planned>, PipelineError> {
        let new = Search::new(self.model, self.tuning, wish, None, None)?;
        let mut search = Search { forms: self.forms.clone(), free: self.free.clone(), ..new };
        search.run()?;
        Ok(search.pool.into_best())
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
        if let Some(known) = self.free.borrow().get(&slowdown) {
            return Ok(known.clone());
        }
        let found = self.aside(Wish { limit: None, slowdown })?;
        self.free.borrow_mut().insert(slowdown, found.clone());
        Ok(found)
    }

    /// Runs every strategy that is worth running.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails; a limit without a plan is not an error here.
    pub(crate) fn run(&mut self) -> Result<(), PipelineError> {
        for Strategy { name, is_worth, seek, .. } in STRATEGIES {
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
        let only_whole = self.may_split() || self.may_divide_batch();
        let late = self.pool.late();
        let shortage = self.pool.shortage(only_whole);
        let smallest = self.pool.smallest_in_time();
        let goal = self.pool.goal;
        match (self.pool.into_best(), late, shortage) {
            (Some(planned), ..) => {
                let score = planned.score(&goal, self.model.options);
                Ok(Found { planned, score, log: Vec::new(), options: self.model.options.clone(), without: Vec::new() })
            }
            (None, Some(score), _) => {
                let longest = slowed(self.model.nanos(), self.wish.slowdown);
                Err(Refusal::Slow { longest, nanos: score.nanos, needs: score.bytes, smallest })
            }
            (None, None, Some(short)) => Err(PipelineError::Pass(PassError::Budget(short)).into()),
            (None, None, None) => {
                Err(PipelineError::Pass(PassError::WrongAnswer { pass: "plan", why: "no strategy found a plan".to_owned() })
                    .into())
            }
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

    /// Returns whether rules may rewrite the model.
    pub(crate) fn may_rewrite(&self) -> bool {
        self.model.options.rewrite.enabled
    }

    /// Returns whether regions may be split into parts: kernels may then sum in another order.
    pub(crate) fn may_split(&self) -> bool {
        self.may_rewrite() && !self.model.options.rewrite.exact
    }

    /// Returns whether the search may split the batch without a request.
    pub(crate) fn may_divide_batch(&self) -> bool {
        self.may_split() && self.model.options.rewrite.micro_batches.is_none()
    }

    /// Returns the best plan of a strategy.
    pub(crate) fn found(&self, strategy: &str) -> Option<&Planned> {
        self.found.get(strategy)
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
        let is_better = self.found.get(self.asked).is_none_or(|known| self.pool.score(plan) < self.pool.score(known));
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

    /// Runs passes on a form, or returns the cached result of an equal run.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails.
    pub(crate) fn form(&self, from: &Form<'m>, passes: &str, settings: &Settings) -> Result<Rc<Form<'m>>, PipelineError> {
        let key = format!("{} {passes} {settings}", from.trace());
        if let Some(known) = self.forms.borrow().get(&key) {
            return Ok(known.clone());
        }
        let made = Rc::new(from.then(passes, settings)?);
        self.forms.borrow_mut().insert(key, made.clone());
        Ok(made)
    }

    /// Returns the model after the preparing passes, which never raise the peak.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails.
    pub(crate) fn prepared(&self, settings: &Settings) -> Result<Rc<Form<'m>>, PipelineError> {
        let passes = format!("{CLEAN}{}", self.model.transforms().passes_at(Turn::Prepared, self.model.module));
        self.form(&Form::given(self.model), &passes, &settings.only(&["limit", "parts"]))
    }

    /// Returns the transforms of a turn that are of use for the model.
    pub(crate) fn transforms(&self, turn: Turn) -> Vec<&'static Transform> {
        self.model.transforms().at(turn, self.model.module)
    }

    /// Returns a form after the transforms that come last; nodes that exceed `limit` by themselves stay as
    /// they are.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails.
    pub(crate) fn laid_out(&self, form: Rc<Form<'m>>, limit: Option<Bytes>) -> Result<Rc<Form<'m>>, PipelineError> {
        let passes = self.model.transforms().passes_at(Turn::Laid, self.model.module);
        if passes.is_empty() {
            return Ok(form);
        }
        self.form(&form, &passes, &Settings { alone: limit, ..Settings::default() })
    }

    /// Returns the rewritten form, or `None` if rules change nothing.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails.
    pub(crate) fn rewritten(&self, prepared: &Form<'m>, settings: &Settings) -> Result<Option<Rc<Form<'m>>>, PipelineError> {
        let form = self.form(prepared, REWRITE, &settings.only(&["limit", "slowdown", "weights"]))?;
        Ok(Some(form).filter(|form| form.ctx.said.claims.has_rewritten()))
    }

    /// Returns the rewritten form. If rewriting computes new weights, also returns the form that leaves
    /// weights unchanged: each choice of rules may save bytes that the other cannot.
    fn all_rewritten(&self, prepared: &Form<'m>, settings: &Settings) -> Result<Vec<Rc<Form<'m>>>, PipelineError> {
        let Some(form) = self.rewritten(prepared, settings)? else { return Ok(Vec::new()) };
        let makes_weights = makes_weights(&form);
        let mut forms = vec![form];
        if makes_weights {
            forms.extend(self.rewritten(prepared, &Settings { whole_weights: true, ..settings.clone() })?);
        }
        Ok(forms)
    }

    /// Returns a form with regions split into parts, or `None` if no region is worth splitting.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails.
    pub(crate) fn divided(&self, form: &Form<'m>, settings: &Settings) -> Result<Option<Rc<Form<'m>>>, PipelineError> {
        let divided = form.then(REGIONS, settings)?;
        Ok(split::is_split(&divided.module).then(|| Rc::new(divided)))
    }

    /// Returns candidates with rewritten nodes, and with regions split into parts. Blocks of channels
    /// come last: nodes in blocks have no rows to divide, but the parts of a region may be laid out in
    /// blocks.
    fn others(&self, prepared: &Rc<Form<'m>>, settings: &Settings) -> Result<Vec<Candidate<'m>>, PipelineError> {
        let rewritten = self.all_rewritten(prepared, settings)?;
        let nanos = self.model.options.total_nanos(&prepared.module);
        let time = settings.limit.is_none().then(|| self.longest(nanos, settings));
        let mut candidates = Vec::new();
        let is_rewritten = !rewritten.is_empty();
        for form in if is_rewritten { rewritten } else { vec![prepared.clone()] } {
            if self.may_split()
                && let Some(divided) = self.divided(&form, &Settings { time, ..settings.clone() })?
            {
                candidates.push(Candidate::of(self.laid_out(divided, settings.limit)?, "regions", settings)?);
            }
            if is_rewritten {
                candidates.push(Candidate::of(self.laid_out(form, settings.limit)?, "rewritten", settings)?);
            }
        }
        Ok(candidates)
    }

    /// Returns the best candidate after a transform, or `None` if heuristics find that it saves nothing.
    fn transformed(
        &self,
        transform: &'static Transform,
        candidates: &[Candidate<'m>],
        goal: &Goal,
        settings: &Settings,
    ) -> Result<Option<Candidate<'m>>, PipelineError> {
        let score = |candidate: &Candidate<'_>| candidate.quick.score(goal, self.model.options);
        let Some(best) = candidates.iter().min_by_key(|candidate| score(candidate)) else { return Ok(None) };
        let form = self.form(&best.form, transform.passes, &Settings::default())?;
        if !transform.is_in(&form.module) {
            return Ok(None);
        }
        let found = Candidate::larger(form, transform.pass.name, best, settings)?;
        Ok((score(&found) < score(best)).then_some(found))
    }

    /// Returns the time that plans of a form may take, in nanoseconds: that of the form with the slowdown,
    /// but no more than the goal allows. Preparing a form may cost time, too.
    fn longest(&self, nanos: u64, settings: &Settings) -> u64 {
        let longest = slowed(nanos, settings.slowdown);
        self.pool.goal.longest().map_or(longest, |most| longest.min(most))
    }

    /// Returns the best plan without recomputation among three kinds of forms: nodes as given,
    /// rewritten, and with regions split into parts. `rewrites` says whether the last two are tried.
    ///
    /// # Errors
    /// Returns the error of the first pass that fails.
    pub(crate) fn plan(&self, settings: &Settings, rewrites: bool) -> Result<Planned, PipelineError> {
        let prepared = self.prepared(settings)?;
        let given = Candidate::of(self.laid_out(prepared.clone(), settings.limit)?, "nodes as given", settings)?;
        let longest = self.longest(given.nanos(), settings);
        let need = arena(&given.quick.module);
        let goal = Goal::of_run(settings, self.model.options, need, given.nanos()).within_time(longest);
        let mut candidates = vec![given];
        if rewrites {
            candidates.extend(self.others(&prepared, settings)?);
        }
        // Heuristic plans are a good enough measure to rank the other candidates; only the best of them
        // stays.
        candidates[1..].sort_by_key(|candidate| {
            let is_heavy = !pays_for_weights(&candidate.quick.module, &self.pool.file_order.module, self.model.options);
            (is_heavy, candidate.quick.score(&goal, self.model.options))
        });
        candidates.truncate(2);
        for transform in self.transforms(Turn::Candidate).into_iter().filter(|_| rewrites) {
            candidates.extend(self.transformed(transform, &candidates, &goal, settings)?);
        }
        let file_order = &self.pool.file_order;
        let Some(best) = whole::best(candidates, &goal, settings, self.tuning, file_order)? else {
            return Ok(file_order.clone());
        };
        let options = self.model.options;
        let (peak, size) = (peak::planned_peak(&file_order.module, options), arena(&file_order.module));
        let is_loose = peak.saturating_add(Bytes(options.space.alignment)) <= arena(&best.module) && peak < size;
        if !is_loose {
            return Ok(best);
        }
        // The file order's peak is below the best arena and below its own arena: a better placement of the
        // file order may win, so it gets the full effort.
        let placed = whole::file_order(self.model, settings)?;
        Ok(if placed.score(&goal, options) < best.score(&goal, options) { placed } else { best })
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

/// Returns whether a form has large constants that were computed from weights.
fn makes_weights(form: &Form<'_>) -> bool {
    let (module, most) = (&form.module, form.ctx.options.max_fold_bytes);
    let constants = module.graph(module.main()).constants.iter().filter_map(|value| module.constant_of(*value));
    let is_made =
        |constant: &ConstData| constant.origin == ConstOrigin::New && constant.ty.size().is_some_and(|size| size > most);
    constants.into_iter().any(|constant| is_made(module.constant(constant)))
}
