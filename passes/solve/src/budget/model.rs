//! A valid budget problem in flat arrays: what the search works on.

use super::problem::{Origin, Problem};
use crate::lists::Lists;
use crate::tuning::BudgetTuning;

/// What no index is.
pub(super) const NONE: u32 = u32::MAX;

/// Most operations of a chain of recomputations: chains are built by recursion, and halving or doubling this moves plans by chance only.
pub(super) const MAX_CHAIN: usize = 64;

/// What an operation of the model does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Runs a run of the problem.
    Run,
    /// Brings a value from a farther space.
    Load { value: u32, link: u32 },
    /// The moment at which a value has arrived in a farther space: it uses the near copy, which may end there.
    Stored { value: u32, link: u32 },
}

/// Operations and the values that they read and make: runs first, in the given order; then loads of far values; then, fixed where transfers are planned,
/// stores and loads of movable values.
#[derive(Clone, Debug)]
pub(super) struct Model {
    /// What steers the searches.
    pub tuning: BudgetTuning,
    /// Operations below this index are runs of the problem.
    pub runs: usize,
    /// Operations from this index on are put in and moved by the planner of transfers alone.
    pub fixed: usize,
    /// The operations that say that a value is stored, and that load it again; none for a value that does not move.
    pub moves: Vec<Option<(u32, u32)>>,
    pub kinds: Vec<Kind>,
    pub reads: Lists,
    pub writes: Lists,
    /// Operations whose first time must be earlier, or later, than that of another.
    pub predecessors: Lists,
    pub successors: Lists,
    /// The operations that read a value.
    pub readers: Lists,
    /// The operations that make a value; the one that makes it first stands first.
    pub makers: Lists,
    pub takes_over: Lists,
    /// Whether something may take over a value.
    pub is_taken: Vec<bool>,
    pub sizes: Vec<i64>,
    pub kept: Vec<bool>,
    pub near: Vec<bool>,
    pub costs: Vec<u64>,
    pub scratch: Vec<i64>,
    pub repeatable: Vec<bool>,
    /// Whether an operation makes something that may take over an operand.
    pub takes: Vec<bool>,
    pub has_takeovers: bool,
}

impl Model {
    /// Needs a valid problem. O(n + uses, sorted).
    pub fn new(problem: &Problem, tuning: &BudgetTuning) -> Self {
        let (runs, values) = (problem.runs.len(), problem.values.len());
        let mut kinds = vec![Kind::Run; runs];
        let (mut reads, mut writes, mut before, mut takes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (index, run) in problem.runs.iter().enumerate() {
            reads.extend(run.reads.iter().map(|value| (index as u32, *value)));
            writes.extend(run.writes.iter().map(|value| (index as u32, *value)));
            before.extend(run.predecessors.iter().map(|other| (index as u32, *other)));
        }
        let makes_kept = |index: usize| problem.runs[index].writes.iter().any(|value| problem.values[*value as usize].kept);
        let mut costs: Vec<u64> = problem.runs.iter().map(|run| run.cost).collect();
        let mut repeatable: Vec<bool> = (0..runs).map(|index| problem.runs[index].repeatable && !makes_kept(index)).collect();
        for (index, value) in problem.values.iter().enumerate() {
            takes.extend(value.takes_over.iter().map(|other| (index as u32, *other)));
            if let Some((link, time)) = fetch(problem, index) {
                writes.push((kinds.len() as u32, index as u32));
                kinds.push(Kind::Load { value: index as u32, link });
                costs.push(time);
                repeatable.push(!value.kept);
            }
        }
        let fixed = kinds.len();
        let readers = Lists::group(values, swapped(&reads));
        let mut moves = vec![None; values];
        for (index, value) in problem.values.iter().enumerate() {
            let Some(link) = there_and_back(problem, index).filter(|_| value.movable && !value.kept) else { continue };
            let (value, stored, load) = (index as u32, kinds.len() as u32, kinds.len() as u32 + 1);
            reads.push((stored, value));
            writes.push((load, value));
            kinds.extend([Kind::Stored { value, link }, Kind::Load { value, link }]);
            moves[index] = Some((stored, load));
        }
        costs.resize(kinds.len(), 0);
        repeatable.resize(kinds.len(), false);
        let operations = kinds.len();
        let mut scratch: Vec<i64> = problem.runs.iter().map(|run| run.scratch as i64).collect();
        scratch.resize(operations, 0);
        let mut is_taken = vec![false; values];
        takes.iter().for_each(|(_, other)| is_taken[*other as usize] = true);
        let taking =
            |run: &super::problem::Run| run.writes.iter().any(|value| !problem.values[*value as usize].takes_over.is_empty());
        let mut takes_any: Vec<bool> = problem.runs.iter().map(taking).collect();
        takes_any.resize(operations, false);
        Self {
            tuning: *tuning,
            runs,
            fixed,
            moves,
            takes: takes_any,
            kinds,
            makers: Lists::group(values, swapped(&writes)),
            readers,
            reads: Lists::group(operations, reads),
            writes: Lists::group(operations, writes),
            successors: Lists::group(operations, swapped(&before)),
            has_takeovers: !takes.is_empty(),
            predecessors: Lists::group(operations, before),
            takes_over: Lists::group(values, takes),
            is_taken,
            sizes: problem.values.iter().map(|value| value.size as i64).collect(),
            kept: problem.values.iter().map(|value| value.kept).collect(),
            near: problem.values.iter().map(|value| value.origin == Origin::Near).collect(),
            costs,
            scratch,
            repeatable,
        }
    }

    /// How many operations there are.
    pub fn operations(&self) -> usize {
        self.kinds.len()
    }

    /// How many values there are.
    pub fn values(&self) -> usize {
        self.sizes.len()
    }

    /// The given order, with a load of each far value before its first reader.
    pub fn given(&self) -> Vec<u32> {
        let mut loaded = vec![false; self.values()];
        let mut order = Vec::with_capacity(self.operations());
        for run in 0..self.runs as u32 {
            for &value in self.reads.of(run) {
                let maker = self.makers.of(value).first().copied().unwrap_or(NONE);
                if maker != NONE && maker as usize >= self.runs && !std::mem::replace(&mut loaded[value as usize], true) {
                    order.push(maker);
                }
            }
            order.push(run);
        }
        order
    }

    /// The bytes that results need not have of their own at a step, since operands that end there make room.
    pub fn saved(&self, operation: u32, ends: impl Fn(u32) -> bool) -> i64 {
        if !self.takes[operation as usize] {
            return 0;
        }
        // One result, as nearly always, needs no matching.
        let mut may_take = self.may_take(operation);
        if let (Some(taker), None) = (may_take.next(), may_take.next()) {
            return if self.takes_over.of(taker).iter().any(|other| ends(*other)) { self.sizes[taker as usize] } else { 0 };
        }
        self.takers(operation, ends).into_iter().map(|taker| self.sizes[taker as usize]).sum()
    }

    /// The results that take over an operand which ends at their step: the best matching, by size (greedy over the transversal matroid, each by an
    /// augmenting path).
    pub fn takers(&self, operation: u32, ends: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut takers: Vec<u32> = self.may_take(operation).collect();
        takers.sort_by_key(|value| std::cmp::Reverse(self.sizes[*value as usize]));
        matched(&takers, |taker| self.takes_over.of(taker).iter().copied().filter(|other| ends(*other)).collect())
    }

    /// The results that may take over an operand.
    fn may_take(&self, operation: u32) -> impl Iterator<Item = u32> {
        self.writes.of(operation).iter().copied().filter(|value| !self.takes_over.of(*value).is_empty())
    }
}

/// The takers that find a partner.
fn matched(takers: &[u32], candidates: impl Fn(u32) -> Vec<u32>) -> Vec<u32> {
    let mut taken: Vec<(u32, u32)> = Vec::new();
    for &taker in takers {
        // Breadth first over (taker, the partner through which it was reached).
        let (mut queue, mut reached, mut next) = (vec![(taker, usize::MAX, NONE)], Vec::new(), 0);
        let mut end = None;
        'search: while let Some(&(from, _, _)) = queue.get(next) {
            for other in candidates(from) {
                if reached.contains(&other) {
                    continue;
                }
                reached.push(other);
                match taken.iter().find(|(_, partner)| *partner == other) {
                    None => {
                        end = Some((next, other));
                        break 'search;
                    }
                    Some(&(holder, _)) => queue.push((holder, next, other)),
                }
            }
            next += 1;
        }
        let Some((mut place, mut partner)) = end else { continue };
        while let Some(&(holder, parent, through)) = queue.get(place) {
            taken.retain(|(one, _)| *one != holder);
            taken.push((holder, partner));
            (place, partner) = (parent, through);
        }
    }
    taken.into_iter().map(|(taker, _)| taker).collect()
}

/// The link with the fastest load of a far value, and the time that takes.
fn fetch(problem: &Problem, value: usize) -> Option<(u32, u64)> {
    let Origin::Far(space) = problem.values[value].origin else { return None };
    let time = |index: usize| {
        let link = &problem.links[index];
        link.load_latency.saturating_add(problem.values[value].size.div_ceil(link.load_rate))
    };
    let links = (0..problem.links.len()).filter(|index| problem.links[*index].space == space);
    links.map(|index| (time(index), index)).min().map(|(time, index)| (index as u32, time))
}

/// The link over which a value goes and comes back soonest; none for far values, which need not go.
fn there_and_back(problem: &Problem, value: usize) -> Option<u32> {
    if matches!(problem.values[value].origin, Origin::Far(_)) {
        return None;
    }
    let time = |index: usize| {
        let (link, size) = (&problem.links[index], problem.values[value].size);
        let (store, load) = (size.div_ceil(link.store_rate), size.div_ceil(link.load_rate));
        u128::from(store) + u128::from(load) + u128::from(link.store_latency) + u128::from(link.load_latency)
    };
    (0..problem.links.len()).min_by_key(|index| (time(*index), *index)).map(|index| index as u32)
}

fn swapped(pairs: &[(u32, u32)]) -> Vec<(u32, u32)> {
    pairs.iter().map(|&(one, two)| (two, one)).collect()
}
