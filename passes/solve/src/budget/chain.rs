//! What runs again, and what lives on instead, where a run is to stand late: a minimum cut.
//!
//! Each operand of what runs late either lives until there, which weighs on the steps between, or its maker runs late as well, which takes time. Both
//! together are least where a minimum cut parts the runs that are late from the others (as in the selection of projects, Picard 1976, *Maximal closure of a
//! graph and applications to combinatorial problems*). What a unit of weight is worth in time is found as for any ratio (Dinkelbach 1967).

use std::collections::BTreeMap;

use super::model::NONE;
use super::state::State;

/// Operations that are looked at for one chain, at most.
const MOST: usize = 192;

/// Prices that are tried for one chain, at most, and by how much they grow while what lives on weighs more than what is gone.
const PRICES: u32 = 5;
const DEARER: f64 = 8.0;
/// The part by which a price must change to be tried.
const CHANGE: f64 = 0.02;

/// What runs again before a run that stands late.
#[derive(Debug)]
struct Chain {
    /// In the order of first runs, without the late run itself.
    operations: Vec<u32>,
    /// Time that these take.
    cost: f64,
    /// What lives on for them adds to the sum of weights.
    burden: f64,
}

/// The chain with the best ratio of what the absence takes off the sum of weights to the time that it takes; `None` where what lives on always weighs more.
/// `worth` and `cost` are those of the absence alone. O(prices x blocking flows x arcs looked at), few flows in practice.
pub(super) fn best(state: &State, operation: u32, before: u32, worth: f64, cost: f64) -> Option<Vec<u32>> {
    let (mut best, mut price): (Option<(f64, Chain)>, f64) = (None, (cost + 1.0) / worth);
    for _ in 0..PRICES {
        let chain = cut(state, operation, before, price);
        let gain = worth - chain.burden;
        if gain <= 0.0 {
            if best.is_some() {
                break;
            }
            price *= DEARER;
            continue;
        }
        let ratio = (cost + chain.cost + 1.0) / gain;
        let is_settled = (ratio - price).abs() <= CHANGE * price;
        if best.as_ref().is_none_or(|(best, _)| ratio < *best) {
            best = Some((ratio, chain));
        } else {
            break;
        }
        if is_settled {
            break;
        }
        price = ratio;
    }
    best.map(|(_, chain)| chain.operations)
}

/// The chain for which time, and weight at a price, are least together.
fn cut(state: &State, operation: u32, before: u32, price: f64) -> Chain {
    let model = state.model;
    let mut network = Network::default();
    let (sink, source) = (network.node(), network.node());
    let mut operations = vec![(operation, source)];
    let mut nodes: BTreeMap<u32, usize> = BTreeMap::new();
    let mut values: BTreeMap<u32, (usize, f64)> = BTreeMap::new();
    let mut next = 0;
    while let Some(&(reader, node)) = operations.get(next) {
        next += 1;
        for &value in model.reads.of(reader) {
            if let Some((known, _)) = values.get(&value) {
                network.join(node, *known, u64::MAX);
                continue;
            }
            let burden = burden(state, value, before);
            if burden <= 0.0 {
                continue;
            }
            let weight = ((burden * price) as u64).max(1);
            let own = network.node();
            values.insert(value, (own, burden));
            network.join(node, own, u64::MAX);
            // Where a run alone takes longer, what it makes lives on.
            let maker =
                model.makers.of(value).first().copied().filter(|maker| *maker != operation && may_repeat(state, *maker, weight));
            let target = match maker {
                None => sink,
                Some(maker) => match nodes.get(&maker) {
                    Some(known) => *known,
                    None if operations.len() >= MOST => sink,
                    None => {
                        let made = network.node();
                        nodes.insert(maker, made);
                        operations.push((maker, made));
                        network.join(made, sink, model.costs[maker as usize].max(1));
                        made
                    }
                },
            };
            network.join(own, target, weight);
        }
    }
    let late = network.cut(source, sink);
    let is_late = |maker: Option<&u32>| maker.and_then(|maker| nodes.get(maker)).is_some_and(|node| late[*node]);
    let lives_on = |value: &u32, node: usize| late[node] && !is_late(model.makers.of(*value).first());
    let burden = values.iter().filter(|(value, (node, _))| lives_on(value, *node)).map(|(_, (_, burden))| *burden).sum();
    let mut chain: Vec<u32> = operations.iter().skip(1).filter(|(_, node)| late[*node]).map(|(one, _)| *one).collect();
    chain.sort_by_key(|one| state.slots_of(*one).first().copied());
    let cost = chain.iter().map(|one| model.costs[*one as usize] as f64).sum();
    Chain { operations: chain, cost, burden }
}

/// Whether an operation may run again, and in less than so much time.
fn may_repeat(state: &State, operation: u32, weight: u64) -> bool {
    let model = state.model;
    model.repeatable[operation as usize] && (model.costs[operation as usize] < weight || model.writes.of(operation).len() > 1)
}

/// What a value adds to the sum of weights if it lives until a slot.
fn burden(state: &State, value: u32, before: u32) -> f64 {
    let Some((start, _)) = state.copy_at(value, before) else { return 0.0 };
    let used = state.used(value);
    let place = used.partition_point(|other| *other < before);
    let previous = place.checked_sub(1).map_or(start, |index| used[index].max(start));
    let next = used.get(place).copied().unwrap_or(NONE);
    let lives_on = next != NONE && state.next_made(value, before - 1) > next;
    if lives_on || previous + 1 >= before {
        return 0.0;
    }
    state.weight_of(previous + 1, before - 1) * state.relief(state.model.sizes[value as usize])
}

/// A flow network.
#[derive(Default)]
struct Network {
    /// Arcs that leave each node; an arc and its opposite stand side by side.
    leaving: Vec<Vec<usize>>,
    heads: Vec<usize>,
    left: Vec<u64>,
}

impl Network {
    fn node(&mut self) -> usize {
        self.leaving.push(Vec::new());
        self.leaving.len() - 1
    }

    fn join(&mut self, tail: usize, head: usize, capacity: u64) {
        for (tail, head, left) in [(tail, head, capacity), (head, tail, 0)] {
            self.leaving[tail].push(self.heads.len());
            self.heads.push(head);
            self.left.push(left);
        }
    }

    /// The nodes that reach no sink across a minimum cut, the fewest there are: blocking flows (Dinic 1970).
    fn cut(&mut self, source: usize, sink: usize) -> Vec<bool> {
        loop {
            let levels = self.levels(source);
            if levels[sink] == usize::MAX {
                return levels.into_iter().map(|level| level != usize::MAX).collect();
            }
            self.block(source, sink, &levels);
        }
    }

    /// How many arcs that are not full lie between the source and each node, at least.
    fn levels(&self, source: usize) -> Vec<usize> {
        let mut levels = vec![usize::MAX; self.leaving.len()];
        levels[source] = 0;
        let mut queue = vec![source];
        let mut next = 0;
        while let Some(&node) = queue.get(next) {
            next += 1;
            for &arc in &self.leaving[node] {
                let head = self.heads[arc];
                if self.left[arc] > 0 && levels[head] == usize::MAX {
                    levels[head] = levels[node] + 1;
                    queue.push(head);
                }
            }
        }
        levels
    }

    /// Sends as much as there is room for along paths that rise one level with each arc.
    fn block(&mut self, source: usize, sink: usize, levels: &[usize]) {
        let (mut open, mut path, mut node) = (vec![0; self.leaving.len()], Vec::new(), source);
        loop {
            if node == sink {
                node = self.fill(&mut path);
                continue;
            }
            let arcs = &self.leaving[node];
            let rises = |arc: usize| self.left[arc] > 0 && levels[self.heads[arc]] == levels[node] + 1;
            match arcs[open[node]..].iter().position(|arc| rises(*arc)) {
                Some(place) => {
                    open[node] += place;
                    let arc = arcs[open[node]];
                    path.push(arc);
                    node = self.heads[arc];
                }
                None => {
                    // Nothing leads on from here any more.
                    let Some(arc) = path.pop() else { return };
                    node = self.heads[arc ^ 1];
                    open[node] += 1;
                }
            }
        }
    }

    /// Sends as much along a path as its arcs take; what is left of the path ends before the first full arc, at the node that is returned.
    fn fill(&mut self, path: &mut Vec<usize>) -> usize {
        let flow = path.iter().map(|arc| self.left[*arc]).min().unwrap_or(0);
        for arc in path.iter() {
            self.left[*arc] = self.left[*arc].saturating_sub(flow);
            self.left[*arc ^ 1] = self.left[*arc ^ 1].saturating_add(flow);
        }
        let full = path.iter().position(|arc| self.left[*arc] == 0).unwrap_or(0);
        let node = self.heads[path[full] ^ 1];
        path.truncate(full);
        node
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::Model;
    use super::super::problem::{Problem, Run, Value};
    use super::super::relief::soften;
    use super::*;

    /// Values of these sizes, each but the first made from the one before at a cost; then a run for which memory is short, and a use of the last value.
    fn row(sizes: &[u64], costs: &[u64]) -> Problem {
        let mut problem = Problem::default();
        for (index, (size, cost)) in (0..).zip(sizes.iter().zip(costs)) {
            problem.values.push(Value { size: *size, ..Value::default() });
            let reads = if index > 0 { vec![index - 1] } else { Vec::new() };
            problem.runs.push(Run { reads, writes: vec![index], cost: *cost, repeatable: true, ..Run::default() });
        }
        problem.runs.push(Run { scratch: 20_000, ..Run::default() });
        problem.runs.push(Run { reads: vec![sizes.len() as u32 - 1], ..Run::default() });
        problem
    }

    /// The chain for the last value but for its own maker, at the end.
    fn chain(problem: &Problem) -> Option<Vec<u32>> {
        let model = Model::new(problem);
        let mut state = State::new(&model, &model.given());
        soften(&mut state, 20_000);
        let last = problem.values.len() as u32 - 1;
        let worth = state.weight() * state.relief(model.sizes[last as usize]);
        best(&state, last, state.end(), worth, problem.runs[last as usize].cost as f64)
    }

    #[test]
    fn what_is_small_and_dear_lives_on_for_what_is_wide_and_cheap() {
        assert_eq!(chain(&row(&[900, 100, 900, 900, 500], &[10, 1000, 10, 10, 10])), Some(vec![2, 3]));
        // The narrow one is cheap here, but what it is made of is not, and wide.
        assert_eq!(chain(&row(&[900, 100, 900, 900, 500], &[1_000_000, 1, 10, 10, 10])), Some(vec![2, 3]));
        assert_eq!(chain(&row(&[100, 900, 900, 900, 500], &[1000, 10, 10, 10, 10])), Some(vec![1, 2, 3]));
    }

    #[test]
    fn what_cannot_run_again_lives_on() {
        let mut problem = row(&[100, 300, 900, 900, 500], &[10; 5]);
        assert_eq!(chain(&problem), Some(vec![0, 1, 2, 3]));
        problem.runs[1].repeatable = false;
        assert_eq!(chain(&problem), Some(vec![2, 3]));
        // It weighs more than what is gone.
        problem.values[1].size = 5000;
        assert_eq!(chain(&problem), None);
    }
}
