//! A valid budget problem in flat arrays, as the searches use it.

use crate::basics::lists::Lists;
use crate::basics::matching::matched;
use crate::budget::problem::{Origin, Problem, Run};
use crate::tuning::BudgetTuning;

/// An index that names nothing.
pub(in crate::budget) const NONE: u32 = u32::MAX;

/// Maximum number of operations in a chain of recomputations: chains are built by recursion, and halving
/// or doubling this moves plans by chance only.
pub(in crate::budget) const MAX_CHAIN: usize = 64;

/// Kind of an operation of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::budget) enum Kind {
    /// Executes a run of the problem.
    Run,
    /// Loads a value from a farther space.
    Load { value: u32, link: u32 },
    /// The moment at which a value has arrived in a farther space. It uses the near copy, which may end
    /// there.
    Stored { value: u32, link: u32 },
}

/// Operations and the values that they read and make. Runs come first, in the given order; then optional
/// runs; then loads of far values; then stores and loads of movable values, which only the planner of
/// transfers inserts and moves.
#[derive(Clone, Debug)]
pub(in crate::budget) struct Model {
    /// Numbers that steer the searches.
    pub tuning: BudgetTuning,
    /// Number of runs that every sequence has.
    pub required: usize,
    /// Number of runs, optional runs included; operations below this index are runs of the problem.
    pub runs: usize,
    /// For each value, the ways to make it again by an optional run.
    pub ways: Vec<Vec<Way>>,
    /// First operation that only the planner of transfers inserts and moves.
    pub fixed: usize,
    /// For each value, the operations that store and load it; `None` for a value that does not move.
    pub moves: Vec<Option<(u32, u32)>>,
    pub kinds: Vec<Kind>,
    pub reads: Lists,
    pub writes: Lists,
    /// Operations whose first execution must come before, or after, that of another operation.
    pub predecessors: Lists,
    pub successors: Lists,
    /// Operations that read each value.
    pub readers: Lists,
    /// Operations that make each value; the first maker comes first.
    pub makers: Lists,
    pub takes_over: Lists,
    /// For each value, whether a result may take it over.
    pub is_taken: Vec<bool>,
    pub sizes: Vec<i64>,
    pub kept: Vec<bool>,
    pub near: Vec<bool>,
    pub costs: Vec<u64>,
    pub scratch: Vec<i64>,
    pub repeatable: Vec<bool>,
    /// For each operation, whether it makes a result that may take over an operand.
    pub takes: Vec<bool>,
    pub has_takeovers: bool,
}

/// A way to a value by optional runs, in place of its maker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::budget) struct Way {
    /// The operation that makes the value again.
    pub decode: u32,
    /// The operation that makes the operands of `decode` that no required run makes; `NONE` if `decode`
    /// has none.
    pub encode: u32,
    /// Bytes of the operands that `encode` makes.
    pub code: i64,
}

impl Model {
    /// Builds the arrays of a valid problem. O(n + uses), plus sorting.
    pub fn new(problem: &Problem, tuning: &BudgetTuning) -> Self {
        let (required, values) = (problem.runs.len(), problem.values.len());
        let runs = required + problem.optional.len();
        let mut kinds = vec![Kind::Run; runs];
        let (mut reads, mut writes, mut before, mut takes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        // Collect the runs, then a load for each far value.
        for (index, run) in problem.all_runs().enumerate() {
            reads.extend(run.reads.iter().map(|value| (index as u32, *value)));
            writes.extend(run.writes.iter().map(|value| (index as u32, *value)));
            before.extend(run.predecessors.iter().map(|other| (index as u32, *other)));
        }
        let makes_kept = |run: &Run| run.writes.iter().any(|value| problem.values[*value as usize].kept);
        let mut costs: Vec<u64> = problem.all_runs().map(|run| run.cost).collect();
        let mut repeatable: Vec<bool> =
            problem.runs.iter().map(|run| run.repeatable && !makes_kept(run)).collect();
        repeatable.resize(runs, true);
        for (index, value) in problem.values.iter().enumerate() {
            takes.extend(value.takes_over.iter().map(|other| (index as u32, *other)));
            if let Some((link, time)) = fetch(problem, index) {
                writes.push((kinds.len() as u32, index as u32));
                kinds.push(Kind::Load { value: index as u32, link });
                costs.push(time);
                repeatable.push(!value.kept);
            }
        }
        // Add the store and the load of each movable value.
        let fixed = kinds.len();
        let readers = Lists::group(values, swapped(&reads));
        let mut moves = vec![None; values];
        for (index, value) in problem.values.iter().enumerate() {
            let Some(link) = there_and_back(problem, index).filter(|_| value.movable && !value.kept) else {
                continue;
            };
            let (value, stored, load) = (index as u32, kinds.len() as u32, kinds.len() as u32 + 1);
            reads.push((stored, value));
            writes.push((load, value));
            kinds.extend([Kind::Stored { value, link }, Kind::Load { value, link }]);
            moves[index] = Some((stored, load));
        }
        costs.resize(kinds.len(), 0);
        repeatable.resize(kinds.len(), false);
        let operations = kinds.len();
        let mut scratch: Vec<i64> = problem.all_runs().map(|run| run.scratch as i64).collect();
        scratch.resize(operations, 0);
        let mut is_taken = vec![false; values];
        takes.iter().for_each(|(_, other)| is_taken[*other as usize] = true);
        let taking =
            |run: &Run| run.writes.iter().any(|value| !problem.values[*value as usize].takes_over.is_empty());
        let mut takes_any: Vec<bool> = problem.runs.iter().map(taking).collect();
        takes_any.resize(operations, false);
        Self {
            tuning: *tuning,
            required,
            ways: ways(problem),
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

    /// Returns the number of operations.
    pub fn operations(&self) -> usize {
        self.kinds.len()
    }

    /// Returns the number of values.
    pub fn values(&self) -> usize {
        self.sizes.len()
    }

    /// Returns the given order, with a load of each far value before its first reader.
    pub fn given(&self) -> Vec<u32> {
        let mut loaded = vec![false; self.values()];
        let mut order = Vec::with_capacity(self.operations());
        for run in 0..self.required as u32 {
            for &value in self.reads.of(run) {
                let maker = self.makers.of(value).first().copied().unwrap_or(NONE);
                if maker != NONE
                    && maker as usize >= self.runs
                    && !std::mem::replace(&mut loaded[value as usize], true)
                {
                    order.push(maker);
                }
            }
            order.push(run);
        }
        order
    }

    /// Returns the first maker of a value if it may execute again; `None` for a code, which is made again
    /// only together with a bridge.
    pub fn maker_again(&self, value: u32) -> Option<u32> {
        let maker = self.makers.of(value).first().copied();
        maker.filter(|maker| self.repeatable[*maker as usize] && !self.is_optional(*maker))
    }

    /// Whether a sequence may leave an operation out.
    pub fn is_optional(&self, operation: u32) -> bool {
        (self.required..self.runs).contains(&(operation as usize))
    }

    /// Returns the bytes that results save at a step because they take over operands that end there.
    pub fn saved(&self, operation: u32, ends: impl Fn(u32) -> bool) -> i64 {
        if !self.takes[operation as usize] {
            return 0;
        }
        // A single candidate, the usual case, needs no matching.
        let mut may_take = self.may_take(operation);
        if let (Some(taker), None) = (may_take.next(), may_take.next()) {
            return if self.takes_over.of(taker).iter().any(|other| ends(*other)) {
                self.sizes[taker as usize]
            } else {
                0
            };
        }
        self.takers(operation, ends).into_iter().map(|taker| self.sizes[taker as usize]).sum()
    }

    /// Returns the results that take over an operand which ends at their step: the best matching by size.
    pub fn takers(&self, operation: u32, ends: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut takers: Vec<u32> = self.may_take(operation).collect();
        takers.sort_by_key(|value| std::cmp::Reverse(self.sizes[*value as usize]));
        matched(&takers, |taker| self.takes_over.of(taker).iter().copied().filter(|other| ends(*other)))
    }

    /// Returns the results that may take over an operand.
    fn may_take(&self, operation: u32) -> impl Iterator<Item = u32> {
        self.writes.of(operation).iter().copied().filter(|value| !self.takes_over.of(*value).is_empty())
    }
}

/// Returns the ways to each value by optional runs.
fn ways(problem: &Problem) -> Vec<Vec<Way>> {
    let mut ways = vec![Vec::new(); problem.values.len()];
    let is_code = problem.codes();
    for (index, run) in (problem.runs.len() as u32..).zip(&problem.optional) {
        let codes: Vec<u32> = run.reads.iter().filter(|value| is_code[**value as usize]).copied().collect();
        let makes_codes =
            |other: &Run| !codes.is_empty() && codes.iter().all(|code| other.writes.contains(code));
        let encode =
            problem.optional.iter().position(makes_codes).map(|index| (problem.runs.len() + index) as u32);
        let code = codes.iter().map(|code| problem.values[*code as usize].size as i64).sum();
        if encode.is_some() || codes.is_empty() {
            for &value in run.writes.iter().filter(|value| !is_code[**value as usize]) {
                ways[value as usize].push(Way { decode: index, encode: encode.unwrap_or(NONE), code });
            }
        }
    }
    ways
}

/// Returns the link with the fastest load of a far value, and the time of that load; `None` if the value
/// is not far or no link leads to its space.
fn fetch(problem: &Problem, value: usize) -> Option<(u32, u64)> {
    let Origin::Far(space) = problem.values[value].origin else { return None };
    let time = |index: usize| {
        let link = &problem.links[index];
        link.load_latency.saturating_add(problem.values[value].size.div_ceil(link.load_rate))
    };
    let links = (0..problem.links.len()).filter(|index| problem.links[*index].space == space);
    links.map(|index| (time(index), index)).min().map(|(time, index)| (index as u32, time))
}

/// Returns the link over which a value is stored and loaded in the least time; `None` for far values,
/// which need no store.
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
