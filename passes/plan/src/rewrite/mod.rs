//! `rewrite`: replaces fragments of the graph by equal forms that need less memory or time.

mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memc_ir::{Dim, Module, Stage};
use memc_rewrite::{Candidate, Fragment, Limits, RuleBook, Setting, Shift, apply, candidates, fragments};

use crate::Goal;
use crate::trial::alone;
use memc_passes::{Changed, Claim, PassContext, PassError, PassInfo};
use search::{Form, best, chosen};

/// Entry of the pass in the registry.
pub const INFO: PassInfo = PassInfo {
    name: "rewrite",
    summary: "Replaces fragments of the graph by equal forms that need less memory or time.",
    page: include_str!("../../doc/rewrite.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &["limit", "slowdown", "weights"],
    run,
};

/// Borders of fragments by round: the last round sees the results of the first two, in fewer and wider
/// fragments.
const ROUNDS: [Shift; 3] = [Shift::None, Shift::Half, Shift::None];
/// Returns the page of a rewriting rule, for `memc explain rule/NAME`.
pub fn rule_page(name: &str) -> Option<String> {
    RuleBook::standard().ok()?.find(name).map(memc_rewrite::Rule::page)
}

/// Names of all rewriting rules, in the order in which they are applied.
pub fn rule_names() -> impl Iterator<Item = &'static str> {
    RuleBook::standard().into_iter().flat_map(RuleBook::rules).map(|rule| rule.name.as_str())
}

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let book = RuleBook::standard().map_err(|error| PassError::Rules { pass: INFO.name, error })?;
    let mut known = BTreeMap::new();
    let mut goal = None;
    let mut edits = 0;
    for (number, shift) in ROUNDS.into_iter().enumerate() {
        // Without changes, equal borders give equal fragments.
        if edits > 0 || !ROUNDS[..number].contains(&shift) {
            edits += round(module, ctx, book, shift, &mut known, &mut goal);
        }
    }
    Ok(Changed::edits(edits))
}

/// Rewrites with one set of fragments; returns the number of edits. `known` keeps candidates by fragment
/// key, so equal fragments are solved once in all rounds. `goal` scores the input module of the first
/// round.
fn round(
    module: &mut Module,
    ctx: &mut PassContext<'_>,
    book: &RuleBook,
    shift: Shift,
    known: &mut BTreeMap<String, Arc<[Candidate]>>,
    goal: &mut Option<Goal>,
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
        weights: !ctx.settings.whole_weights && weights_are_readable(module, ctx),
        empty: may_be_empty(module),
        limits: Limits::default(),
    };
    let all = fragments(module, &setting.limits, shift, &|constant| ctx.bytes_of(constant));
    let mut met = BTreeSet::new();
    let new: Vec<&Fragment> = all
        .iter()
        .filter(|fragment| !known.contains_key(&fragment.key) && met.insert(fragment.key.as_str()))
        .collect();
    let (remembered, given) = (ctx.memo.kept::<Found>(), &*module);
    let found = options.threads.each(&new, |fragment| {
        let found = || candidates(given, fragment, &setting, &|module| alone(module, options));
        // Folded constants and available operators can differ between modules.
        let key = format!("{} {} {} {}", setting.opset, setting.weights, setting.empty, fragment.key);
        remembered.candidates(key, found)
    });
    known.extend(new.iter().map(|fragment| fragment.key.clone()).zip(found));
    let forms = forms(&all, known);
    if forms.is_empty() {
        return 0;
    }
    let applied = apply(module, &chosen(&forms, &best(module, ctx, &forms, goal)));
    if applied.edits > 0 {
        ctx.data = memc_ops::infer(module).data;
        ctx.said.claims.extend(applied.fragments.into_iter().map(Claim::Rewritten));
    }
    applied.edits
}

/// Returns whether a value may have no elements at some extents: parts of a divided range may.
fn may_be_empty(module: &Module) -> bool {
    let ranges = &module.domain().ranges;
    let mut met = BTreeSet::new();
    let dims = module.values().keys().filter_map(|value| module.ty(value).tensor()?.shape.as_ref()).flatten();
    let mut exprs = dims.filter_map(|dim| if let Dim::Symbolic(expr) = dim { Some(expr) } else { None });
    exprs.any(|expr| met.insert(expr) && expr.lower_bound(ranges).is_none_or(|least| least < 1))
}

/// Returns whether the bytes of all weights can be read.
fn weights_are_readable(module: &Module, ctx: &PassContext<'_>) -> bool {
    let constants =
        module.graph(module.main()).constants.iter().filter_map(|value| module.constant_of(*value));
    constants.into_iter().all(|constant| ctx.bytes_of(module.constant(constant)).is_some())
}

/// Groups fragments with equal keys, in graph order; fragments without a choice of candidates are left
/// out.
fn forms<'w>(fragments: &'w [Fragment], known: &'w BTreeMap<String, Arc<[Candidate]>>) -> Vec<Form<'w>> {
    let mut place: BTreeMap<&str, usize> = BTreeMap::new();
    let mut forms: Vec<Form<'w>> = Vec::new();
    for fragment in fragments {
        let Some(candidates) = known.get(&fragment.key).filter(|candidates| candidates.len() > 1) else {
            continue;
        };
        let at = *place.entry(&fragment.key).or_insert(forms.len());
        if at == forms.len() {
            forms.push(Form { fragments: Vec::new(), candidates });
        }
        forms[at].fragments.push(fragment);
    }
    forms
}

/// Maximum number of fragment keys whose candidates are cached.
const MAX_REMEMBERED: usize = 10_000;

/// Cached candidates, by fragment key.
#[derive(Debug, Default)]
struct Found(Mutex<BTreeMap<String, Arc<[Candidate]>>>);

impl Found {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Arc<[Candidate]>>> {
        // Every change is one step, so a thread that panicked leaves the cache whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the candidates of a key; calls `find` for a new key.
    fn candidates(&self, key: String, find: impl FnOnce() -> Vec<Candidate>) -> Arc<[Candidate]> {
        let known = self.all().get(&key).cloned();
        known.unwrap_or_else(|| {
            let found: Arc<[Candidate]> = find().into();
            let mut all = self.all();
            if all.len() >= MAX_REMEMBERED {
                all.clear();
            }
            all.insert(key, found.clone());
            found
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_searched_once_per_fragment_key() {
        let (found, asked) = (Found::default(), std::cell::Cell::new(0));
        let ask = |key: &str| {
            let find = || {
                asked.set(asked.get() + 1);
                Vec::new()
            };
            found.candidates(key.to_owned(), find).len()
        };
        assert_eq!([ask("one"), ask("other"), ask("one")], [0, 0, 0]);
        assert_eq!(asked.get(), 2);
    }
}
