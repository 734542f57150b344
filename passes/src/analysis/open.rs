//! Open values: values without a size that the arena would otherwise hold. Only a run gives the size;
//! some have an upper bound.
//!
//! The arena does not hold them, but a runtime still allocates them. So an order must not count
//! them as zero bytes.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{Bytes, Module, SecondaryMap, Value};
use memc_ops::Typed;
use memc_solve::order;

use crate::analysis::class::{StorageClass, classes};
use crate::analysis::liveness::Liveness;
use crate::analysis::memory::Memory;
use crate::options::Options;

/// Maximum number of compared pairs of sets of open values; beyond it, an order counts as worse.
const MAX_PAIRS: usize = 1 << 20;

/// Bounds of this many bytes or more say nothing about a run and are ignored, which also keeps sums
/// small.
const MAX_BOUND: u64 = 1 << 40;

/// Open values that share bytes: a value and its views.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The member that is no view.
    pub head: Value,
    /// All members.
    pub members: Vec<Value>,
    /// Upper bound of their size; `None` if nothing bounds it.
    pub most: Option<Bytes>,
}

/// Returns whether a value has a class that the arena holds, but no size.
pub fn is_open(module: &Module, options: &Options, class: Option<StorageClass>, value: Value) -> bool {
    class.is_some_and(|class| class.is_placed(options.io)) && module.size(value).is_none()
}

/// Returns whether the main graph has open values (see [`is_open`]). Linear in the number of values.
pub fn has_open(module: &Module, options: &Options) -> bool {
    let classes = classes(module);
    module.values().keys().any(|value| is_open(module, options, classes[value], value))
}

/// Returns the open values of the main graph, grouped by the buffer that the runtime would use, in order
/// of their heads.
pub fn open(module: &Module, options: &Options) -> Vec<Open> {
    let classes = classes(module);
    let mut head: SecondaryMap<Value, Option<Value>> = SecondaryMap::default();
    let mut found: BTreeMap<Value, Open> = BTreeMap::new();
    let nodes = module.graph(module.main()).nodes.iter().flat_map(|node| module.node(*node).results());
    let inputs = module.graph(module.main()).inputs.iter().copied();
    for value in inputs.chain(nodes).filter(|value| is_open(module, options, classes[*value], *value)) {
        let viewed = module.producer(value).and_then(|node| {
            let data = module.node(node);
            let operand = options
                .profile
                .view_of(&Typed::of(module, node))
                .filter(|_| data.outputs.first() == Some(&Some(value)))?;
            head[(*data.inputs.get(operand)?)?]
        });
        let owner = viewed.unwrap_or(value);
        head.set(value, Some(owner));
        let entry =
            found.entry(owner).or_insert_with(|| Open { head: owner, members: Vec::new(), most: None });
        entry.members.push(value);
        // All members have equally many bytes, so the smallest bound is valid for all of them.
        let most = module.largest_size(value).filter(|most| most.0 < MAX_BOUND);
        entry.most = [entry.most, most].into_iter().flatten().min();
    }
    found.into_values().collect()
}

/// Guesses the size of each result: the largest operand of its node, constants left out.
fn guesses(module: &Module, open: &[Open]) -> SecondaryMap<Value, Option<Bytes>> {
    let mut bound: SecondaryMap<Value, Option<Bytes>> = SecondaryMap::default();
    for row in open {
        row.members.iter().for_each(|member| bound.set(*member, row.most));
    }
    let mut guesses: SecondaryMap<Value, Option<Bytes>> = SecondaryMap::default();
    for node in &module.graph(module.main()).nodes {
        let data = module.node(*node);
        let weights = data.operands().filter(|value| module.constant_of(*value).is_none());
        let largest =
            weights.filter_map(|value| module.size(value).or(bound[value]).or(guesses[value])).max();
        data.results().for_each(|result| guesses.set(result, largest));
    }
    guesses
}

/// Open values as buffers of an ordering problem.
#[derive(Clone, Debug, Default)]
pub struct OpenBuffers {
    buffers: Vec<order::Buffer>,
    most: Vec<Option<u64>>,
}

impl OpenBuffers {
    /// Makes the buffers from a module in its present order.
    pub fn of(module: &Module, options: &Options) -> Self {
        let open = open(module, options);
        let mut index: SecondaryMap<Value, Option<usize>> = SecondaryMap::default();
        for (at, row) in open.iter().enumerate() {
            row.members.iter().for_each(|member| index.set(*member, Some(at)));
        }
        let guesses = guesses(module, &open);
        let mut found = Self::default();
        for row in &open {
            found.most.push(row.most.map(|most| most.0));
            found.buffers.push(order::Buffer {
                size: row.most.unwrap_or_else(|| guesses[row.head].unwrap_or_default()).0,
                live_from_start: module.producer(row.head).is_none(),
                ..order::Buffer::default()
            });
        }
        let main = module.graph(module.main());
        let uses = memc_ir::uses(module);
        for (position, node) in main.nodes.iter().enumerate() {
            let results: Vec<Value> = module.node(*node).results().collect();
            for value in module.reads(*node).into_iter().chain(results.iter().copied()) {
                let Some(at) = index[value] else { continue };
                let users = &mut found.buffers[at].users;
                if users.last() != Some(&(position as u32)) {
                    users.push(position as u32);
                }
            }
            for value in results
                .iter()
                .filter(|value| options.profile.holds_unread_results && uses[**value].is_empty())
            {
                index[*value].into_iter().for_each(|at| found.buffers[at].kept = true);
            }
        }
        for at in main.outputs.iter().filter_map(|value| index[*value]) {
            found.buffers[at].kept = true;
        }
        found
    }

    /// Returns whether there are no open values.
    pub fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// Returns the problem with open values added at their bounds, or at their guessed sizes without a
    /// bound.
    pub fn guessed(&self, problem: &order::Problem) -> order::Problem {
        let mut guessed = problem.clone();
        guessed.buffers.extend(self.buffers.iter().cloned());
        guessed
    }

    /// Returns the problem with bounded open values added at their bounds; the present order is kept
    /// around all others.
    pub fn weighed(&self, problem: &order::Problem) -> order::Problem {
        let mut weighed = problem.clone();
        let bounded = self.buffers.iter().zip(&self.most).filter(|(_, most)| most.is_some());
        weighed.buffers.extend(bounded.map(|(buffer, _)| buffer.clone()));
        self.fence(&mut weighed, |at| self.most[at].is_none());
        weighed
    }

    /// Returns the problem with the present order kept around all open values.
    pub fn fenced(&self, problem: &order::Problem) -> order::Problem {
        let mut fenced = problem.clone();
        self.fence(&mut fenced, |_| true);
        fenced
    }

    /// Keeps the present order at every step with a live chosen buffer.
    ///
    /// The nodes of these steps keep their sequence, all nodes before them stay before them, and all
    /// nodes after them stay after them. Therefore the sized bytes next to open values stay as they are
    /// in the present order.
    fn fence(&self, problem: &mut order::Problem, chosen: impl Fn(usize) -> bool) {
        let steps = problem.operations.len();
        let mut is_held = vec![false; steps];
        for (_, buffer) in self.buffers.iter().enumerate().filter(|(at, _)| chosen(*at)) {
            let (start, end) = Self::range(buffer, steps, |user| user as usize);
            is_held[start..end].iter_mut().for_each(|held| *held = true);
        }
        // First step of the present free stretch, and the last held step before it.
        let (mut free, mut last): (usize, Option<usize>) = (0, None);
        for (step, operation) in problem.operations.iter_mut().enumerate() {
            let mut before: Vec<u32> = last.map(|last| last as u32).into_iter().collect();
            if is_held[step] {
                before.extend((free..step).map(|step| step as u32));
                (free, last) = (step + 1, Some(step));
            }
            operation.predecessors.extend(before);
            operation.predecessors.sort_unstable();
            operation.predecessors.dedup();
        }
    }

    /// Returns the first and the end step of a buffer, with `place` as the step of each user.
    fn range(buffer: &order::Buffer, steps: usize, place: impl Fn(u32) -> usize) -> (usize, usize) {
        let places = || buffer.users.iter().map(|user| place(*user));
        let start = if buffer.live_from_start { 0 } else { places().min().unwrap_or(0) };
        let end = if buffer.kept { steps } else { places().max().map_or(start, |last| last + 1) };
        (start.min(end), end)
    }

    /// Returns whether an order never needs more than the present order, for all sizes of the open
    /// values.
    ///
    /// # Errors
    /// The sequence is no order of the problem.
    pub fn never_worse(&self, problem: &order::Problem, order: &[u32]) -> Result<bool, order::OrderError> {
        let steps = order.len();
        let given: Vec<u32> = (0..steps as u32).collect();
        if *order == given {
            return Ok(true);
        }
        let mut place = vec![0; steps];
        for (step, operation) in order.iter().enumerate() {
            place[*operation as usize] = step;
        }
        let need = |order: &[u32], place: &dyn Fn(u32) -> usize| {
            let ranges =
                self.buffers.iter().enumerate().map(|(at, buffer)| (at, Self::range(buffer, steps, place)));
            order::profile(problem, order).map(|sized| Need::new(&sized, ranges))
        };
        let (before, after) =
            (need(&given, &|user| user as usize)?, need(order, &|user| place[user as usize])?);
        Ok(after.is_covered_by(&before, |at| self.most.get(*at).copied().flatten()))
    }
}

/// For each set of live open values: the maximum of the sized bytes live with it.
#[derive(Clone, Debug)]
struct Need<K>(BTreeMap<Vec<K>, u64>);

impl<K: Ord + Clone> Need<K> {
    fn new(sized: &[u64], ranges: impl Iterator<Item = (K, (usize, usize))>) -> Self {
        let mut changes: Vec<(Vec<K>, Vec<K>)> = vec![(Vec::new(), Vec::new()); sized.len() + 1];
        for (key, (start, end)) in ranges.filter(|(_, (start, end))| start < end) {
            changes[start].0.push(key.clone());
            changes[end].1.push(key);
        }
        let (mut live, mut need): (BTreeSet<K>, BTreeMap<Vec<K>, u64>) = (BTreeSet::new(), BTreeMap::new());
        let mut set = Vec::new();
        for (bytes, (starts, ends)) in sized.iter().zip(changes) {
            if !starts.is_empty() || !ends.is_empty() {
                live.retain(|key| !ends.contains(key));
                live.extend(starts);
                set = live.iter().cloned().collect();
            }
            match need.get_mut(&set) {
                Some(most) => *most = (*most).max(*bytes),
                None => {
                    need.insert(set.clone(), *bytes);
                }
            }
        }
        Self(need)
    }

    /// Returns whether the largest sum here never exceeds the largest sum of `other`, for all sizes of
    /// the open values. `false` may also mean unknown.
    ///
    /// A set here is covered by a set there whose sized bytes reach the sized bytes here plus the bounds
    /// of all open values that the set there lacks.
    fn is_covered_by(&self, other: &Self, most: impl Fn(&K) -> Option<u64>) -> bool {
        let largest = other.0.values().max().copied().unwrap_or(0);
        if self.0.len().saturating_mul(other.0.len()) > MAX_PAIRS {
            return false;
        }
        let covers = |set: &[K], bytes: u64, there: &[K], room: u64| {
            let beside = set.iter().filter(|key| there.binary_search(key).is_err());
            let sum = beside.map(&most).try_fold(bytes, |sum, most| sum.checked_add(most?));
            sum.is_some_and(|sum| sum <= room)
        };
        self.0.iter().all(|(set, bytes)| {
            *bytes <= largest
                && (other.0.get(set).is_some_and(|room| bytes <= room)
                    || other.0.iter().any(|(there, room)| bytes <= room && covers(set, *bytes, there, *room)))
        })
    }
}

/// Returns the need of an ordered module: sized bytes and live open values, step by step.
fn need(module: &Module, options: &Options) -> Need<Value> {
    let memory = Memory::of(module, options);
    let sized: Vec<u64> = memory.live(module).into_iter().map(|bytes| bytes.0).collect();
    let ranges: Vec<(Value, (usize, usize))> =
        ranges(module, options, &memory.liveness).into_iter().map(|(row, range)| (row.head, range)).collect();
    Need::new(&sized, ranges.into_iter())
}

/// Returns the open values with the steps at which some member is live.
fn ranges(module: &Module, options: &Options, liveness: &Liveness) -> Vec<(Open, (usize, usize))> {
    let rows = open(module, options).into_iter().filter_map(|row| {
        let ranges = row.members.iter().filter_map(|member| liveness.range(*member));
        let joined = ranges.map(|range| (range.start.0 as usize, range.end.0 as usize));
        joined.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).map(|range| (row, range))
    });
    rows.collect()
}

/// Returns whether a module never needs more than the module `than` that it was made from, for all sizes
/// of the open values.
pub fn never_needs_more(module: &Module, than: &Module, options: &Options) -> bool {
    let bounds: BTreeMap<Value, u64> =
        open(module, options).into_iter().filter_map(|row| Some((row.head, row.most?.0))).collect();
    need(module, options).is_covered_by(&need(than, options), |value| bounds.get(value).copied())
}

/// Returns the largest number of bytes live at one step with all open values at their bounds; `None` if
/// some value has no bound. `sized` holds the sized bytes of each step.
pub fn largest_peak(module: &Module, options: &Options, sized: &[u64]) -> Option<Bytes> {
    let memory = Memory::of(module, options);
    let mut change = vec![0i128; sized.len() + 1];
    for (row, (start, end)) in ranges(module, options, &memory.liveness) {
        let most = i128::from(row.most?.0);
        change[start.min(sized.len())] += most;
        change[end.min(sized.len())] -= most;
    }
    let mut open = 0;
    let sums = sized.iter().zip(&change).map(|(sized, change)| {
        open += change;
        i128::from(*sized) + open
    });
    u64::try_from(sums.max().unwrap_or(0)).ok().map(Bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use memc_solve::Limit;

    /// Returns a pseudo-random generator of numbers below a limit, from a seed.
    fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed;
        move |limit| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        }
    }

    /// Makes a graph of nodes that each read some earlier results; some results are open values.
    fn case(seed: u64) -> (order::Problem, OpenBuffers) {
        let mut below = numbers(seed);
        let count = 6 + below(8) as u32;
        let (mut problem, mut open) = (order::Problem::default(), OpenBuffers::default());
        let mut buffers: Vec<order::Buffer> = Vec::new();
        for node in 0..count {
            let mut predecessors: Vec<u32> = (0..node).filter(|_| below(4) == 0).collect();
            predecessors.dedup();
            predecessors.iter().for_each(|before| buffers[*before as usize].users.push(node));
            problem.operations.push(order::Operation { predecessors, scratch: below(3) * 8 });
            buffers.push(order::Buffer {
                size: 8 + 8 * below(20),
                users: vec![node],
                kept: below(8) == 0,
                ..order::Buffer::default()
            });
        }
        for buffer in buffers {
            match below(4) {
                0 => open.most.push(None),
                1 => open.most.push(Some(buffer.size)),
                _ => {
                    problem.buffers.push(buffer);
                    continue;
                }
            }
            open.buffers.push(buffer);
        }
        (problem, open)
    }

    #[test]
    fn a_never_worse_order_is_no_worse_for_any_sizes() {
        let (mut better, mut refused) = (0, 0);
        for seed in 0..400 {
            let (problem, open) = case(seed);
            let given: Vec<u32> = (0..problem.operations.len() as u32).collect();
            let best = |problem: &order::Problem| {
                order::solve(problem, &given, &Limit::nodes(200)).unwrap().solution.unwrap()
            };
            let fenced = best(&open.fenced(&problem));
            assert!(open.never_worse(&problem, &fenced).unwrap(), "{seed}: a fenced order may need more");
            for order in
                [best(&problem), best(&open.guessed(&problem)), best(&open.weighed(&problem)), fenced]
            {
                if !open.never_worse(&problem, &order).unwrap() {
                    refused += 1;
                    continue;
                }
                better += usize::from(order != given);
                let mut below = numbers(seed + 1000);
                for _ in 0..20 {
                    let mut real = problem.clone();
                    for (buffer, most) in open.buffers.iter().zip(&open.most) {
                        let size = match most {
                            Some(most) => below(most + 1),
                            None => below(3) * below(1000),
                        };
                        real.buffers.push(order::Buffer { size, ..buffer.clone() });
                    }
                    let peak = |order: &[u32]| order::peak(&real, order).unwrap();
                    assert!(
                        peak(&order) <= peak(&given),
                        "{seed}: {order:?} needs more with {:?}",
                        real.buffers
                    );
                }
            }
        }
        assert!(better > 100 && refused > 100, "{better} {refused}");
    }
}
