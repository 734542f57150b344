//! Chooses candidates for all fragments together: the fastest everywhere, then leaner ones where the peak stands, while it falls.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use memc_ir::{Bytes, Module, Node, Rewriter, SecondaryMap, Value};
use memc_rewrite::{Candidate, Fragment, Replacement, apply};

use crate::trial::{Judged, judge};
use crate::{Goal, Score};
use memc_passes::{Options, PassContext};

/// Fragments of one key, and their candidates.
#[derive(Debug)]
pub(super) struct Form<'w> {
    pub(super) fragments: Vec<&'w Fragment>,
    pub(super) candidates: &'w [Candidate],
}

impl Form<'_> {
    fn nanos(&self, number: usize) -> i128 {
        self.candidates[number].measure.nanos.0.round() as i128 * self.fragments.len() as i128
    }
    /// The fastest candidate, the leanest of equals; what rules made before what was there, for it may hold values for a shorter time.
    fn fastest(&self) -> usize {
        let key = |number: &usize| (self.nanos(*number), self.candidates[*number].measure.peak, *number == 0);
        (0..self.candidates.len()).min_by_key(key).unwrap_or(0)
    }
    /// The fastest candidate whose peak is no higher than this, or else the leanest.
    fn within(&self, level: Bytes) -> usize {
        let fits = (0..self.candidates.len()).filter(|number| self.candidates[*number].measure.peak <= level);
        fits.min_by_key(|number| (self.nanos(*number), self.candidates[*number].measure.peak)).unwrap_or_else(|| self.leanest())
    }
    /// The candidate with the lowest peak, the fastest of equals.
    fn leanest(&self) -> usize {
        (0..self.candidates.len()).min_by_key(|number| (self.candidates[*number].measure.peak, self.nanos(*number))).unwrap_or(0)
    }
}

/// Fragments with the replacements that take their place.
pub(super) fn chosen<'f>(forms: &'f [Form<'_>], choice: &[usize]) -> Vec<(&'f Fragment, &'f Replacement)> {
    let mut found = Vec::new();
    for (form, number) in forms.iter().zip(choice) {
        if let Some(replacement) = form.candidates.get(*number).and_then(|candidate| candidate.replacement.as_ref()) {
            found.extend(form.fragments.iter().map(|fragment| (*fragment, replacement)));
        }
    }
    found.sort_by_key(|(fragment, _)| fragment.nodes.first().copied());
    found
}

/// A choice of one candidate for each form, judged.
struct State {
    choice: Vec<usize>,
    score: Score,
    judged: Judged,
}

/// Chooses candidates for all forms together.
pub(super) struct Search<'s, 'w> {
    options: &'s Options,
    forms: &'s [Form<'w>],
    /// What choices are scored by.
    goal: Goal,
    /// The module that came in, in the best order known for it.
    module: Module,
    /// Modelled time of the module that came in: nothing that takes longer is kept.
    longest: u64,
    /// Its peakor the limit where that is more: nothing that needs more is kept.
    most: u64,
    /// Trials that are left.
    trials: usize,
}

/// The best choice found for all forms: the number of a candidate each. Where nothing is better, all stay as they are. The first search
/// sets what memory is worth.
pub(super) fn best(module: &Module, ctx: &PassContext<'_>, forms: &[Form<'_>], goal: &mut Option<Goal>) -> Vec<usize> {
    let options = ctx.options;
    let nodes = module.graph(module.main()).nodes.len().max(1);
    let tuning = &options.tuning.rewrite;
    let [fewest, most_trials] = tuning.trials;
    let trials = (tuning.trial_nodes / nodes).clamp(fewest.min(most_trials), most_trials);
    let given = vec![0; forms.len()];
    let Some(judged) = judge(module.clone(), options, 0) else { return given };
    let goal = *goal.get_or_insert_with(|| Goal::of_run(&ctx.settings, options, Bytes(judged.peak), judged.nanos));
    let most = judged.peak.max(goal.limit().unwrap_or_default().0);
    let mut search = Search { options, forms, goal, module: module.clone(), longest: judged.nanos, most, trials };
    search.follow(&judged.module);
    let base = State { choice: given, score: search.score(&judged), judged };
    search.improve(base).choice
}

impl Search<'_, '_> {
    /// Takes the order of a judged module over, so that trials begin with an order that is good.
    fn follow(&mut self, ordered: &Module) {
        let mut is_ordered: SecondaryMap<Node, bool> = SecondaryMap::default();
        let order = &ordered.graph(ordered.main()).nodes;
        order.iter().for_each(|node| is_ordered.set(*node, true));
        // What was left out depends on constants alone, and goes first.
        let main = self.module.main();
        let others = self.module.graph(main).nodes.iter().copied().filter(|node| !is_ordered[*node]);
        let schedule: Vec<Node> = others.chain(order.iter().copied()).collect();
        let mut rewriter = Rewriter::new(&mut self.module);
        rewriter.set_schedule(main, schedule);
        rewriter.finish();
    }

    fn improve(&mut self, base: State) -> State {
        // Where no form stands at the peak, none can lower it.
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

    /// Choices to begin with: the fastest everywhere, the leanest everywhere, and what lies between. One choice for each peak that a form
    /// has by itself: of each form the fastest candidate that keeps within it. The most promising by what is known of forms by themselves.
    fn levels(&self) -> Vec<Vec<usize>> {
        let own = |form: &Form<'_>, number: usize| form.candidates[number].measure.peak;
        let peaks: BTreeSet<Bytes> =
            self.forms.iter().flat_map(|form| form.candidates.iter().map(|one| one.measure.peak)).collect();
        let within = |level: Bytes| -> Vec<usize> { self.forms.iter().map(|form| form.within(level)).collect() };
        let promise = |choice: &Vec<usize>| {
            let chosen = || self.forms.iter().zip(choice);
            let nanos: i128 = chosen().map(|(form, number)| form.nanos(*number)).sum();
            let peak = chosen().map(|(form, number)| own(form, *number)).max().unwrap_or_default();
            self.goal.score(peak, u64::try_from(nanos).unwrap_or(u64::MAX), 0)
        };
        let mut between: Vec<Vec<usize>> = peaks.into_iter().map(within).collect();
        between.dedup();
        between.sort_by_key(promise);
        let ends = [self.forms.iter().map(Form::fastest).collect(), self.forms.iter().map(Form::leanest).collect()];
        between.retain(|choice| !ends.contains(choice));
        between.truncate(self.trials / 3);
        ends.into_iter().chain(between).collect()
    }

    /// Takes leaner candidates where the peak stands while it falls: all there at once, or else one form at a time.
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
            let found = better.filter_map(|choice| self.state(choice, self.limit())).find(|found| found.score < state.score);
            match found {
                Some(found) => state = found,
                None => return state,
            }
        }
    }

    /// Takes faster candidates where that raises the peak by no more than the time is worth.
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

    /// Judges a choice, unless it takes too long or no trial is left. The order is good enough where it keeps within `enough` bytes.
    fn state(&mut self, choice: Vec<usize>, enough: u64) -> Option<State> {
        let change: i128 = self.forms.iter().zip(&choice).map(|(form, number)| form.nanos(*number) - form.nanos(0)).sum();
        // Forms were measured by themselves: what they hide from each other is left to the judge.
        if change > 0 || self.trials == 0 {
            return None;
        }
        self.trials -= 1;
        let mut module = self.module.clone();
        apply(&mut module, &chosen(self.forms, &choice));
        let judged = judge(module, self.options, enough)?;
        (judged.nanos <= self.longest && judged.peak <= self.most).then(|| State { choice, score: self.score(&judged), judged })
    }

    fn score(&self, judged: &Judged) -> Score {
        self.goal.score(Bytes(judged.peak), judged.nanos, judged.profile.len())
    }

    fn limit(&self) -> u64 {
        self.goal.limit().map_or(0, |limit| limit.0)
    }

    /// Forms of which some fragment computes, reads or makes what is live at a step where the peak stands.
    fn at_peak(&self, state: &State) -> BTreeSet<usize> {
        let module = &state.judged.module;
        let nodes = &module.graph(module.main()).nodes;
        let steps: Vec<usize> = (0..nodes.len()).filter(|step| state.judged.profile[*step] == state.judged.peak).collect();
        let mut last: SecondaryMap<Value, usize> = SecondaryMap::default();
        for (step, node) in nodes.iter().enumerate() {
            module.reads(*node).into_iter().for_each(|value| last.set(value, step));
        }
        let mut is_live: SecondaryMap<Value, bool> = SecondaryMap::default();
        for (step, node) in nodes.iter().enumerate() {
            // The first step of the peak that is not before this one.
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

    /// The form that each node of a rewritten module belongs to. What rules made belongs to where its results go.
    fn forms_of(&self, module: &Module) -> SecondaryMap<Node, Option<usize>> {
        let mut of_node: SecondaryMap<Node, Option<usize>> = SecondaryMap::default();
        let mut of_value: SecondaryMap<Value, Option<usize>> = SecondaryMap::default();
        for (number, form) in self.forms.iter().enumerate() {
            for fragment in &form.fragments {
                fragment.nodes.iter().for_each(|node| of_node.set(*node, Some(number)));
                fragment.outputs.iter().for_each(|value| of_value.set(*value, Some(number)));
            }
        }
        // Backwards, readers are met before what they read.
        for node in module.graph(module.main()).nodes.iter().rev() {
            let form = of_node[*node].or_else(|| module.node(*node).results().find_map(|value| of_value[value]));
            let own = module.node(*node).origin == memc_rewrite::ORIGIN;
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

/// A choice with another candidate for one form.
fn with(choice: &[usize], form: usize, number: usize) -> Vec<usize> {
    let mut choice = choice.to_vec();
    choice[form] = number;
    choice
}
