//! Chooses the sub-views that lower the arena: a local search over sets of sub-views, each judged by a
//! heuristic plan.
//!
//! A sub-view keeps the bytes of its whole value from the first part on: that saves the bytes of a copy
//! at one step and may cost more at others. The effect of a set depends on the order and the offsets
//! that follow from it, so every set is planned.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{Bytes, Module, Node, SecondaryMap, Value};

use memc_passes::Options;
use memc_passes::PipelineError;
use memc_passes::analysis::Memory;
use memc_passes::analysis::windows::SubView;

/// A set of sub-views, as pairs of node and part.
type Set = BTreeSet<(Node, Value)>;

/// Cost of a set, most important field first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Cost {
    arena: Bytes,
    peak: Bytes,
    /// Number of steps at the peak: this counts progress in models with equal layers, which improve one
    /// by one.
    peaks: usize,
}

/// A set and the cost of its plan.
struct Trial {
    set: Set,
    cost: Cost,
    /// Values that are live at the first step of the peak.
    held: SecondaryMap<Value, bool>,
}

impl Trial {
    /// Returns the sort key: cost first, then the number of sub-views.
    fn rank(&self) -> (Cost, usize) {
        (self.cost, self.set.len())
    }
}

/// State of the search: remaining trials, and sets already planned.
struct Search<'a, F> {
    module: &'a Module,
    candidates: &'a [SubView],
    options: &'a Options,
    plan: F,
    left: usize,
    seen: BTreeSet<Set>,
}

/// Returns the best set of sub-views found, as candidate numbers; empty if no set is better than no
/// sub-views.
///
/// `plan` plans `module` with the sub-views of the given numbers, unless its order needs at least
/// `below` bytes. Each of the `candidates` must be legal on its own. The search starts from the best of
/// three sets: no sub-views, all of them, and the last operand of each Concat with all results. Then it
/// adds and removes sub-views at the peak. The settings limit the number of plans and their total number of
/// nodes.
///
/// # Errors
/// Returns the error of a plan that fails.
pub(crate) fn search(
    module: &Module,
    candidates: &[SubView],
    options: &Options,
    plan: impl FnMut(BTreeSet<usize>, u64) -> Result<Option<Module>, PipelineError>,
) -> Result<BTreeSet<usize>, PipelineError> {
    let nodes = module.graph(module.main()).nodes.len().max(1);
    let tuning = &options.tuning.views;
    let left = (tuning.max_nodes / nodes).min(tuning.max_trials);
    let mut search = Search { module, candidates, options, plan, left, seen: BTreeSet::new() };
    if candidates.is_empty() || left < 2 {
        return Ok(BTreeSet::new());
    }
    let mut starts = Vec::new();
    for set in [Set::new(), all(candidates), last_operands(module, candidates)] {
        starts.extend(search.trial(set, u64::MAX)?);
    }
    let Some(start) = starts.into_iter().min_by_key(Trial::rank) else { return Ok(BTreeSet::new()) };
    Ok(numbers(candidates, &search.descend(start)?.set))
}

impl<F: FnMut(BTreeSet<usize>, u64) -> Result<Option<Module>, PipelineError>> Search<'_, F> {
    /// Plans a set and returns its trial; `None` if the set is known, no trials are left, or its order
    /// needs at least `below` bytes.
    fn trial(&mut self, set: Set, below: u64) -> Result<Option<Trial>, PipelineError> {
        if self.left == 0 || !self.seen.insert(set.clone()) {
            return Ok(None);
        }
        self.left -= 1;
        let planned = (self.plan)(numbers(self.candidates, &set), below)?;
        Ok(planned.map(|planned| judge(set, &planned, self.options)))
    }

    /// Takes the first move that lowers the cost, until no move does.
    fn descend(&mut self, start: Trial) -> Result<Trial, PipelineError> {
        let mut current = start;
        'next: loop {
            for set in self.moves(&current) {
                if let Some(found) =
                    self.trial(set, current.cost.arena.0 + 1)?.filter(|found| found.cost < current.cost)
                {
                    current = found;
                    continue 'next;
                }
            }
            return Ok(current);
        }
    }

    /// Returns the sets one move away, which add or remove sub-views of values live at the peak: first
    /// all at once, then one by one (largest whole first), then node by node.
    fn moves(&self, current: &Trial) -> Vec<Set> {
        let is_held = |window: &&SubView| current.held[window.part] || current.held[window.whole];
        let mut at_peak: Vec<&SubView> = self.candidates.iter().filter(is_held).collect();
        at_peak.sort_by_key(|window| (Reverse(self.module.size(window.whole)), key(window)));
        let mut by_node: BTreeMap<Node, Vec<&SubView>> = BTreeMap::new();
        for window in &at_peak {
            by_node.entry(window.node).or_default().push(window);
        }
        let mut sets = vec![without(&current.set, &at_peak), with(&current.set, &at_peak)];
        sets.extend(at_peak.iter().map(|window| match current.set.contains(&key(window)) {
            true => without(&current.set, &[window]),
            false => with(&current.set, &[window]),
        }));
        let several = by_node.values().filter(|windows| windows.len() > 1);
        sets.extend(
            several.flat_map(|windows| [without(&current.set, windows), with(&current.set, windows)]),
        );
        sets
    }
}

fn judge(set: Set, planned: &Module, options: &Options) -> Trial {
    let memory = Memory::of(planned, options);
    let (live, buffers) = (memory.live(planned), memory.buffers);
    let peak = live.iter().copied().max().unwrap_or_default();
    let at = live.iter().position(|bytes| *bytes == peak).unwrap_or(0) as u32;
    let mut held = SecondaryMap::default();
    for buffer in buffers.iter().filter(|buffer| buffer.range.start.0 <= at && at < buffer.range.end.0) {
        for member in &buffer.members {
            held.set(*member, true);
        }
    }
    let arena = planned.plan.arenas.iter().map(|arena| arena.size).max().unwrap_or_default();
    let peaks = live.iter().filter(|bytes| **bytes == peak).count();
    Trial { set, cost: Cost { arena, peak, peaks }, held }
}

/// Returns the candidate numbers of the sub-views in a set.
fn numbers(candidates: &[SubView], set: &Set) -> BTreeSet<usize> {
    let is_in = |(_, window): &(usize, &SubView)| set.contains(&key(window));
    candidates.iter().enumerate().filter(is_in).map(|(number, _)| number).collect()
}

fn key(window: &SubView) -> (Node, Value) {
    (window.node, window.part)
}

fn without(set: &Set, windows: &[&SubView]) -> Set {
    let out: Set = windows.iter().map(|window| key(window)).collect();
    set.difference(&out).copied().collect()
}

/// Returns the set with these sub-views added; a part has one sub-view only, the last in `windows`.
fn with(set: &Set, windows: &[&SubView]) -> Set {
    let places: BTreeMap<Value, Node> = windows.iter().map(|window| (window.part, window.node)).collect();
    let kept = set.iter().filter(|(_, part)| !places.contains_key(part)).copied();
    kept.chain(places.iter().map(|(part, node)| (*node, *part))).collect()
}

/// Returns the set with each part in its first candidate, as the pass would choose.
fn all(candidates: &[SubView]) -> Set {
    let last_first: Vec<&SubView> = candidates.iter().rev().collect();
    with(&Set::new(), &last_first)
}

/// Returns the operand of each Concat that the file computes last, and all results: these sub-views do
/// not extend live ranges much.
fn last_operands(module: &Module, candidates: &[SubView]) -> Set {
    let mut position: SecondaryMap<Node, usize> = SecondaryMap::default();
    for (index, node) in module.graph(module.main()).nodes.iter().enumerate() {
        position.set(*node, index);
    }
    let made = |window: &&SubView| module.producer(window.part).map(|node| position[node]);
    let mut last: BTreeMap<Node, &SubView> = BTreeMap::new();
    for window in candidates.iter().filter(|window| window.is_operand) {
        let best = last.entry(window.node).or_insert(window);
        if made(&window) > made(best) {
            *best = window;
        }
    }
    let results = candidates.iter().filter(|window| !window.is_operand);
    with(&Set::new(), &results.chain(last.into_values()).collect::<Vec<_>>())
}
