//! `rewrite`: replaces pieces of the graph by equal forms that need less memory or time.

mod search;

use std::collections::BTreeMap;
use std::rc::Rc;

use memc_ir::{Module, Stage};
use memc_rewrite::{Candidate, Limits, RuleBook, Setting, Shift, Window, apply, candidates, windows};

use crate::judge::alone;
use crate::pass::{Changed, PassContext, PassError, PassInfo};
use crate::worth::Price;
use search::{Form, best, chosen};

/// The pass.
pub const INFO: PassInfo = PassInfo {
    name: "rewrite",
    summary: "Replaces pieces of the graph by equal forms that need less memory or time.",
    page: include_str!("../../doc/rewrite.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    run,
};

/// Borders of windows, round by round: the last one sees what the first two left, in fewer and wider windows.
const ROUNDS: [Shift; 3] = [Shift::None, Shift::Half, Shift::None];
/// The page of a rewriting rule, for `memc explain rule/NAME`.
pub fn rule_page(name: &str) -> Option<String> {
    RuleBook::standard().ok()?.find(name).map(memc_rewrite::Rule::page)
}

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let book = RuleBook::standard().map_err(|error| PassError::Rules { pass: INFO.name, error })?;
    let mut known = BTreeMap::new();
    let mut price = None;
    let mut edits = 0;
    for (number, shift) in ROUNDS.into_iter().enumerate() {
        // Where nothing changed, the same borders would show the same windows.
        if edits > 0 || !ROUNDS[..number].contains(&shift) {
            edits += round(module, ctx, book, shift, &mut known, &mut price);
        }
    }
    Ok(Changed::edits(edits))
}

/// Rewrites with one set of windows; returns the number of edits. `known` keeps the candidates of windows by their keys: equal ones are
/// solved once in all rounds. `price` is what memory is worth in the module that came in.
fn round(
    module: &mut Module,
    ctx: &mut PassContext<'_>,
    book: &RuleBook,
    shift: Shift,
    known: &mut BTreeMap<String, Rc<[Candidate]>>,
    price: &mut Option<Price>,
) -> u64 {
    let options = ctx.options;
    let setting = Setting {
        book,
        profile: options.profile,
        cost: &options.cost,
        opset: module.opsets.get("").copied().unwrap_or(0),
        exact: options.rewrite.exact,
        standard: options.rewrite.standard,
        fold_cap: options.max_fold_bytes,
        weights: weights_are_readable(module, ctx),
        limits: Limits::default(),
    };
    let all = windows(module, &setting.limits, shift, &|constant| ctx.bytes_of(constant));
    for window in &all {
        if !known.contains_key(&window.key) {
            let found = || candidates(module, window, &setting, &|piece| alone(piece, options));
            // What is folded and which operators there are can differ from one module to the next.
            let key = format!("{} {} {}", setting.opset, setting.weights, window.key);
            known.insert(window.key.clone(), ctx.answers.candidates(key, found));
        }
    }
    let forms = forms(&all, known);
    if forms.is_empty() {
        return 0;
    }
    let applied = apply(module, &chosen(&forms, &best(module, options, &forms, price)));
    if applied.edits > 0 {
        ctx.data = memc_ops::infer(module).data;
        ctx.rewrites.extend(applied.windows);
    }
    applied.edits
}

/// Whether the bytes of all weights can be read.
fn weights_are_readable(module: &Module, ctx: &PassContext<'_>) -> bool {
    let constants = module.graph(module.main()).constants.iter().filter_map(|value| module.constant_of(*value));
    constants.into_iter().all(|constant| ctx.bytes_of(module.constant(constant)).is_some())
}

/// Windows of equal keys together, in the order of the graph, where there is anything to choose.
fn forms<'w>(windows: &'w [Window], known: &'w BTreeMap<String, Rc<[Candidate]>>) -> Vec<Form<'w>> {
    let mut place: BTreeMap<&str, usize> = BTreeMap::new();
    let mut forms: Vec<Form<'w>> = Vec::new();
    for window in windows {
        let Some(candidates) = known.get(&window.key).filter(|candidates| candidates.len() > 1) else { continue };
        let at = *place.entry(&window.key).or_insert(forms.len());
        if at == forms.len() {
            forms.push(Form { windows: Vec::new(), candidates });
        }
        forms[at].windows.push(window);
    }
    forms
}
