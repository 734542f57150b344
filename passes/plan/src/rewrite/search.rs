//! Chooses candidates for all fragments together: the fastest everywhere, then leaner ones at the peak,
//! while the peak falls.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use memc_edit::is_made_by;
use memc_ir::{Bytes, Module, Node, Rewriter, SecondaryMap, Value};
use memc_rewrite::{Candidate, Fragment, NAME, Replacement, apply};

use crate::trial::{Judged, judge};
use crate::{Goal, Score};
use memc_passes::{Options, PassContext};

/// Fragments with one key, and their candidates.
#[derive(Debug)]
pub(super) struct Form<'w> {
    pub(super) fragments: Vec<&'w Fragment>,
    pub(super) candidates: &'w [Candidate],
}

impl Form<'_> {
    fn nanos(&self, number: usize) -> i128 {
        self.candidates[number].measure.nanos.0.round() as i128 * self.fragments.len() as i128
    }
    /// Returns the number of the fastest candidate; of equals the leanest, then a rewritten one, which
    /// may keep values for fewer steps.
    fn fastest(&self) -> usize {
        let key = |number: &usize| (self.nanos(*number), self.candidates[*number].measure.peak, *number == 0);
        (0..self.candidates.len()).min_by_key(key).unwrap_or(0)
    }
    /// Returns the fastest candidate whose peak is at most `level`, or the leanest if none is.
    fn within(&self, level: Bytes) -> usize {
        let fits = (0..self.candidates.len()).filter(|number| self.candidates[*number].measure.peak <= level);
        fits.min_by_key(|number| (self.nanos(*number), self.candidates[*number].measure.peak))
            .unwrap_or_else(|| self.leanest())
    }
    /// Returns the candidate with the lowest peak; of equals the fastest.
    fn leanest(&self) -> usize {
        (0..self.candidates.len())
            .min_by_key(|number| (self.candidates[*number].measure.peak, self.nanos(*number)))
            .unwrap_or(0)
    }
}

/// Returns each fragment with its chosen replacement, in graph order; unchanged fragments are left out.
pub(super) fn chosen<'f>(forms: &'f [Form<'_>], choice: &[usize]) -> Vec<(&'f Fragment, &'f Replacement)> {
    let mut found = Vec::new();
    for (form, number) in forms.iter().zip(choice) {
        if let Some(replacement) =
            form.candidates.get(*number).and_then(|candidate| candidate.replacement.as_ref())
        {
            found.extend(form.fragments.iter().map(|fragment| (*fragment, replacement)));
        }
    }
    found.sort_by_key(|(fragment, _)| fragment.nodes.first().copied());
    found
}

/// A judged choice of one candidate for each form.
struct State {
    choice: Vec<usize>,
    score: Score,
    judged: Judged,
}

/// State of the search for a choice.
pub(super) struct Search<'s, 'w> {
    options: &'s Options,
    forms: &'s [Form<'w>],
    /// Goal that scores choices.
    goal: Goal,
    /// The input module, in its best known order.
    module: Module,
    /// Modelled time of the input module, in nanoseconds: slower choices are rejected.
    longest: u64,
    /// The larger of the input module's peak and the limit, in bytes: choices with a higher peak are
    /// rejected.
    most: u64,
    /// Number of trials left.
    trials: usize,
}

/// Returns the best choice found for all forms, as candidate numbers; all zero if no choice is better
/// than the input module. The first search sets the goal and with it the price of memory.
pub(super) fn best(
    module: &Module,
    ctx: &PassContext<'_>,
    forms: &[Form<'_>],
    goal: &mut Option<Goal>,
) -> Vec<usize> {
    let options = ctx.options;
    let nodes = module.graph(module.main()).nodes.len().max(1);
    let tuning = &options.tuning.rewrite;
    let [fewest, most_trials] = tuning.trials;
    let trials = (tuning.trial_nodes / nodes).clamp(fewest.min(most_trials), most_trials);
    let given = vec![0; forms.len()];
    let Some(judged) = judge(module.clone(), options, 0) else { return given };
    let goal =
        *goal.get_or_insert_with(|| Goal::of_run(&ctx.settings, options, Bytes(judged.peak), judged.nanos));
    let most = judged.peak.max(goal.limit().unwrap_or_default().0);
    let mut search =
        Search { options, forms, goal, module: module.clone(), longest: judged.nanos, most, trials };
    search.follow(&judged.module);
    let base = State { choice: given, score: search.score(&judged), judged };
    search.improve(base).choice
}

impl Search<'_, '_> {
    /// Takes over the order of a judged module, so that trials begin with a good order.
    fn follow(&mut self, ordered: &Module) {
        let mut is_ordered: SecondaryMap<Node, bool> = SecondaryMap::default();
        let order = &ordered.graph(ordered.main()).nodes;
        order.iter().for_each(|node| is_ordered.set(*node, true));
        // Nodes that the judge removed depend on constants alone and go first.
        let main = self.module.main();
        let others = self.module.graph(main).nodes.iter().copied().filter(|node| !is_ordered[*node]);
        let schedule: Vec<Node> = others.chain(order.iter().copied()).collect();
        let mut rewriter = Rewriter::new(&mut self.module);
        rewriter.set_schedule(main, schedule);
        rewriter.finish();
    }

    fn improve(&mut self, base: State) -> State {
        // If no form touches the peak, no choice can lower it.
        let enough = if self.at_peak(&base).is_empty() { base.judged.peak } else { self.limit() };
        let mut best = base;
        for choice in self.levels() {
            if choice == best.choice {
                continue;
            }
            if let Some(found) = self.state(choice, enough).filter(|found| found.score < best.score) {
                best = found;
            }
        }
        let best = self.descend(best);
        self.hasten(best)
    }

    /// Returns the initial choices: the fastest candidates everywhere, the leanest everywhere, and
    /// choices between. For each peak of any candidate there is one choice: the fastest candidate of
    /// each form within that peak. Choices between are ordered by their score, with each form measured
    /// by itself.
    fn levels(&self) -> Vec<Vec<usize>> {
        let own = |form: &Form<'_>, number: usize| form.candidates[number].measure.peak;
        let peaks: BTreeSet<Bytes> =
            self.forms.iter().flat_map(|form| form.candidates.iter().map(|one| one.measure.peak)).collect();
        let within =
            |level: Bytes| -> Vec<usize> { self.forms.iter().map(|form| form.within(level)).collect() };
        let promise = |choice: &Vec<usize>| {
            let chosen = || self.forms.iter().zip(choice);
            let nanos: i128 = chosen().map(|(form, number)| form.nanos(*number)).sum();
            let peak = chosen().map(|(form, number)| own(form, *number)).max().unwrap_or_default();
            self.goal.score(peak, u64::try_from(nanos).unwrap_or(u64::MAX), 0)
        };
        let mut between: Vec<Vec<usize>> = peaks.into_iter().map(within).collect();
        between.dedup();
        between.sort_by_key(promise);
        let ends =
            [self.forms.iter().map(Form::fastest).collect(), self.forms.iter().map(Form::leanest).collect()];
        between.retain(|choice| !ends.contains(choice));
        between.truncate(self.trials / 3);
        ends.into_iter().chain(between).collect()
    }

    /// Takes leaner candidates at the peak while the peak falls: of all forms there at once, or else of
    /// one form at a time.
    fn descend(&mut self, mut state: State) -> State {
        loop {
            if state.judged.peak <= self.limit() {
                return state;
            }
            let mut there: Vec<usize> = self.at_peak(&state).into_iter().collect();
            there.sort_by_key(|form| Reverse(self.forms[*form].candidates[state.choice[*form]].measure.peak));
            let mut together = state.choice.clone();
            there.iter().for_each(|form| together[*form] = self.forms[*form].leanest());
            let mut choices = vec![together];
            for form in &there {
                let candidates = self.forms[*form].candidates;
                let own = candidates[state.choice[*form]].measure.peak;
                let leaner = (0..candidates.len()).filter(|number| candidates[*number].measure.peak < own);
                choices.extend(leaner.map(|number| with(&state.choice, *form, number)));
            }
            choices.dedup();
            let better = choices.into_iter().filter(|choice| *choice != state.choice);
            let found = better
                .filter_map(|choice| self.state(choice, self.limit()))
                .find(|found| found.score < state.score);
            match found {
                Some(found) => state = found,
                None => return state,
            }
        }
    }

    /// Takes faster candidates if the time saved is worth the higher peak.
    fn hasten(&mut self, mut best: State) -> State {
        for form in 0..self.forms.len() {
            for number in 0..self.forms[form].candidates.len() {
                if self.forms[form].nanos(number) >= self.forms[form].nanos(best.choice[form]) {
                    continue;
                }
                let enough = best.judged.peak.max(self.limit());
                let found = self.state(with(&best.choice, form, number), enough);
                if let Some(found) = found.filter(|found| found.score < best.score) {
                    best = found;
                }
            }
        }
        best
    }

    /// Judges a choice; `None` if the choice is too slow or no trials are left. The judge stops at the
    /// first order within `enough` bytes.
    fn state(&mut self, choice: Vec<usize>, enough: u64) -> Option<State> {
        let change: i128 =
            self.forms.iter().zip(&choice).map(|(form, number)| form.nanos(*number) - form.nanos(0)).sum();
        // Forms were measured by themselves; only the judge sees how they overlap.
        if change > 0 || self.trials == 0 {
            return None;
        }
        self.trials -= 1;
        let mut module = self.module.clone();
        apply(&mut module, &chosen(self.forms, &choice));
        let judged = judge(module, self.options, enough)?;
        (judged.nanos <= self.longest && judged.peak <= self.most).then(|| State {
            choice,
            score: self.score(&judged),
            judged,
        })
    }

    fn score(&self, judged: &Judged) -> Score {
        self.goal.score(Bytes(judged.peak), judged.nanos, judged.profile.len())
    }

    fn limit(&self) -> u64 {
        self.goal.limit().map_or(0, |limit| limit.0)
    }

    /// Returns the forms with a fragment that computes, reads or makes a value live at the peak.
    fn at_peak(&self, state: &State) -> BTreeSet<usize> {
        let module = &state.judged.module;
        let nodes = &module.graph(module.main()).nodes;
        let steps: Vec<usize> =
            (0..nodes.len()).filter(|step| state.judged.profile[*step] == state.judged.peak).collect();
        let mut last: SecondaryMap<Value, usize> = SecondaryMap::default();
        for (step, node) in nodes.iter().enumerate() {
            module.reads(*node).into_iter().for_each(|value| last.set(value, step));
        }
        let mut is_live: SecondaryMap<Value, bool> = SecondaryMap::default();
        for (step, node) in nodes.iter().enumerate() {
            // The first peak step at or after this step.
            let next = steps.get(steps.partition_point(|other| *other < step));
            for value in module.node(*node).results() {
                is_live.set(value, next.is_some_and(|peak| *peak <= last[value].max(step)));
            }
        }
        let forms = self.forms_of(module);
        let touches = |node: &Node| {
            let data = module.node(*node);
            data.results().chain(module.reads(*node)).any(|value| is_live[value])
        };
        nodes.iter().filter(|node| touches(node)).filter_map(|node| forms[*node]).collect()
    }

    /// Returns the form of each node of a rewritten module. A node made by rules belongs to the form
    /// that its results feed.
    fn forms_of(&self, module: &Module) -> SecondaryMap<Node, Option<usize>> {
        let mut of_node: SecondaryMap<Node, Option<usize>> = SecondaryMap::default();
        let mut of_value: SecondaryMap<Value, Option<usize>> = SecondaryMap::default();
        for (number, form) in self.forms.iter().enumerate() {
            for fragment in &form.fragments {
                fragment.nodes.iter().for_each(|node| of_node.set(*node, Some(number)));
                fragment.outputs.iter().for_each(|value| of_value.set(*value, Some(number)));
            }
        }
        // Backwards, readers come before their operands.
        for node in module.graph(module.main()).nodes.iter().rev() {
            let form =
                of_node[*node].or_else(|| module.node(*node).results().find_map(|value| of_value[value]));
            let own = is_made_by(module, *node, NAME);
            of_node.set(*node, form);
            for value in module.reads(*node) {
                if own && of_value[value].is_none() {
                    of_value.set(value, form);
                }
            }
        }
        of_node
    }
}

/// Returns a choice with another candidate for one form.
fn with(choice: &[usize], form: usize, number: usize) -> Vec<usize> {
    let mut choice = choice.to_vec();
    choice[form] = number;
    choice
}
