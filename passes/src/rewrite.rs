//! `rewrite`: replaces pieces of the graph by equal forms that need less memory or time.

use std::collections::BTreeMap;

use memc_ir::{Bytes, Module, Stage};
use memc_rewrite::{Candidate, Fragment, Limits, Measure, RuleBook, Setting, Shift, Window, apply, candidates, windows};

use crate::analysis::scratch::scratch;
use crate::analysis::{Liveness, buffers, classes, peak};
use crate::options::Options;
use crate::pass::{Changed, PassContext, PassError, PassInfo};
use crate::pipeline::{Pipeline, PipelineError, Silent};
use crate::window::WindowChoice;

/// The pass.
pub const INFO: PassInfo = PassInfo {
    name: "rewrite",
    summary: "Replaces pieces of the graph by equal forms that need less memory or time.",
    page: include_str!("../doc/rewrite.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    run,
};

/// Borders of windows, round by round: the last one sees what the first two left, in fewer and wider windows.
const ROUNDS: [Shift; 3] = [Shift::None, Shift::Half, Shift::None];
/// Nodes that may be planned on trial in all, and bounds on the number of trials that this gives.
const TRIAL_NODES: usize = 20_000;
const TRIALS: (usize, usize) = (3, 32);
/// What plans a module on trial: folding first, for rules leave what depends on constants alone to it.
const PLAN: &str = "fold,canonicalize,dce,view,schedule,in-place,place";
/// What orders one window on trial.
const ORDER: &str = "view,schedule,in-place";

/// The page of a rewriting rule, for `memc explain rule/NAME`.
pub fn rule_page(name: &str) -> Option<String> {
    RuleBook::standard().ok()?.find(name).map(memc_rewrite::Rule::page)
}

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let mut edits = 0;
    for shift in ROUNDS {
        edits += round(module, ctx, shift)?;
    }
    Ok(Changed::edits(edits))
}

/// Windows of one key, and their candidates.
struct Form<'w> {
    windows: Vec<&'w Window>,
    candidates: Vec<Candidate>,
}

/// Rewrites with one set of windows; returns the number of edits.
fn round(module: &mut Module, ctx: &mut PassContext<'_>, shift: Shift) -> Result<u64, PassError> {
    let book = RuleBook::standard().map_err(|error| PassError::Rules { pass: INFO.name, error })?;
    let options = ctx.options;
    let setting = Setting {
        book,
        profile: options.profile,
        cost: &options.cost,
        opset: module.opsets.get("").copied().unwrap_or(0),
        exact: options.rewrite.exact,
        standard: options.rewrite.standard,
        fold_cap: options.max_fold_bytes,
        limits: Limits::default(),
    };
    let all = windows(module, &setting.limits, shift);
    let mut place: BTreeMap<&str, usize> = BTreeMap::new();
    let mut forms: Vec<Form<'_>> = Vec::new();
    for window in &all {
        let next = forms.len();
        let at = *place.entry(&window.key).or_insert(next);
        if at == next {
            forms.push(Form {
                windows: Vec::new(),
                candidates: candidates(module, window, &setting, &|piece| alone(piece, options)),
            });
        }
        forms[at].windows.push(window);
    }
    forms.retain(|form| form.candidates.len() > 1);
    if forms.is_empty() {
        return Ok(0);
    }
    let choice = Search { module, options, forms: &forms, trials: 0 }.best();
    let chosen = chosen(&forms, &choice);
    let applied = apply(module, &chosen);
    if applied.edits > 0 {
        ctx.data = memc_ops::infer(module).data;
        for (rule, count) in applied.rules {
            *ctx.rules.entry(rule).or_default() += count;
        }
    }
    Ok(applied.edits)
}

/// Windows with the fragments that take their place.
fn chosen<'f>(forms: &'f [Form<'_>], choice: &[usize]) -> Vec<(&'f Window, &'f Fragment)> {
    let mut found = Vec::new();
    for (form, number) in forms.iter().zip(choice) {
        if let Some(fragment) = form.candidates.get(*number).and_then(|candidate| candidate.fragment.as_ref()) {
            found.extend(form.windows.iter().map(|window| (*window, fragment)));
        }
    }
    found.sort_by_key(|(window, _)| window.nodes.first().copied());
    found
}

/// Measures a window by itself, in the order that heuristics find.
fn alone(piece: &Module, options: &Options) -> Measure {
    let mut module = piece.clone();
    let nanos = options.cost.total_nanos(&module);
    let planned = on_trial(&mut module, options, ORDER);
    module.plan.scratch = scratch(&module, options);
    let liveness = Liveness::of(&module, module.main(), options.profile);
    let (peak, _) = peak(&module, &buffers(&module, &liveness, &classes(&module), options.io), liveness.steps);
    Measure { peak: if planned.is_ok() { peak } else { Bytes(u64::MAX) }, nanos }
}

fn on_trial(module: &mut Module, options: &Options, text: &str) -> Result<Changed, PipelineError> {
    let data = memc_ops::infer(module).data;
    let mut ctx = PassContext::new(options, data, module);
    ctx.effort = 0;
    ctx.windows = WindowChoice::Only(Default::default());
    Pipeline::parse(text, module.stage)?.run(module, &mut ctx, false, &mut Silent)
}

/// What plans are compared by, most important first: the arena as far as it passes the capacity, modelled time, arena, nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Rank {
    wanted: u64,
    nanos: u64,
    arena: u64,
    nodes: usize,
}

/// Chooses candidates for all forms together.
struct Search<'s, 'w> {
    module: &'s Module,
    options: &'s Options,
    forms: &'s [Form<'w>],
    trials: usize,
}

impl Search<'_, '_> {
    /// From the module as it is, the fastest and the leanest candidates everywhere, the best; then one form at a time, those with the
    /// highest peaks first, every candidate is tried and kept where it helps.
    fn best(&mut self) -> Vec<usize> {
        let nodes = self.module.graph(self.module.main()).nodes.len().max(1);
        let most = (TRIAL_NODES / nodes).clamp(TRIALS.0, TRIALS.1);
        let given = vec![0; self.forms.len()];
        let Some(base) = self.rank(&given) else { return given };
        let fastest = vec![1; self.forms.len()];
        let leanest = self.forms.iter().map(leanest).collect();
        let (mut best, mut rank) = (given, base);
        for choice in [fastest, leanest] {
            if let Some(found) = self.rank(&choice).filter(|found| found.nanos <= base.nanos && *found < rank) {
                (best, rank) = (choice, found);
            }
        }
        let mut order: Vec<usize> = (0..self.forms.len()).collect();
        order.sort_by_key(|form| std::cmp::Reverse(self.forms[*form].candidates[0].measure.peak));
        for form in order {
            for number in 0..self.forms[form].candidates.len() {
                if number == best[form] || self.trials >= most {
                    continue;
                }
                let mut choice = best.clone();
                choice[form] = number;
                if let Some(found) = self.rank(&choice).filter(|found| found.nanos <= base.nanos && *found < rank) {
                    (best, rank) = (choice, found);
                }
            }
        }
        best
    }

    fn rank(&mut self, choice: &[usize]) -> Option<Rank> {
        self.trials += 1;
        let mut module = self.module.clone();
        apply(&mut module, &chosen(self.forms, choice));
        on_trial(&mut module, self.options, PLAN).ok()?;
        let arena = module.plan.arenas.iter().map(|arena| arena.size.0).max().unwrap_or(0);
        let nanos = self.options.cost.total_nanos(&module).0.round() as u64;
        let wanted = arena.max(self.options.room().map_or(0, |room| room.0));
        Some(Rank { wanted, nanos, arena, nodes: module.graph(module.main()).nodes.len() })
    }
}

/// The candidate with the lowest peak, the fastest of equals.
fn leanest(form: &Form<'_>) -> usize {
    let key = |number: &usize| (form.candidates[*number].measure.peak, form.candidates[*number].measure.nanos.0.round() as u64);
    (0..form.candidates.len()).min_by_key(key).unwrap_or(0)
}
