//! What runs again, and what lives on instead, where a run is to stand late: a minimum cut.
//!
//! Each operand of what runs late either lives until there, which weighs on the steps between, or its maker runs late as well, which takes time. Both
//! together are least where a minimum cut parts the runs that are late from the others (as in the selection of projects, Picard 1976, *Maximal closure of a
//! graph and applications to combinatorial problems*). What a unit of weight is worth in time is found as for any ratio (Dinkelbach 1967).

use std::collections::BTreeMap;

use super::model::NONE;
use super::state::State;

/// Most operations that are looked at for one chain, and most prices that are tried for it: both guard the time of one chain.
const MAX_MAKERS: usize = 192;
const MAX_PRICES: u32 = 5;

/// The nodes of what is late for certain, and of what is not.
const SOURCE: u32 = 0;
const SINK: u32 = 1;
/// What a time or a weight counts as, at most, and the capacity of an arc that is never full.
const LARGEST: u64 = 1 << 50;
const UNLIMITED: u64 = 1 << 62;

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
    let mut chains = Chains { state, operation, before, burdens: BTreeMap::new() };
    let least = cost + 1.0;
    let mut best = chains.first(worth, least)?;
    let mut price = best.ratio(worth, least);
    for _ in 1..MAX_PRICES {
        // At this price, what is as good as the best one is worth nothing.
        let Some(chain) = chains.cheapest(price, worth * price - least) else { break };
        let ratio = chain.ratio(worth, least);
        // What is worth nothing only by rounding has no ratio that is a price.
        if !(0.0..price).contains(&ratio) {
            break;
        }
        (best, price) = (chain, ratio);
    }
    Some(best.operations)
}

impl Chain {
    /// Time for each unit of weight, of an absence that is worth so much and takes so long alone.
    fn ratio(&self, worth: f64, least: f64) -> f64 {
        (least + self.cost) / (worth - self.burden)
    }
}

/// The chains for one run that stands right before a slot.
struct Chains<'s, 'm> {
    state: &'s State<'m>,
    operation: u32,
    before: u32,
    /// What the values that were asked for add to the sum of weights if they live until there.
    burdens: BTreeMap<u32, f64>,
}

/// What of the network was looked at.
struct Part {
    network: Network,
    makers: Vec<Maker>,
    /// The places of operations in this list.
    places: BTreeMap<u32, usize>,
    /// The node of each value that somebody needs, what it weighs, and who may make it again.
    values: BTreeMap<u32, Needed>,
}

/// An operation that may be late.
struct Maker {
    operation: u32,
    node: u32,
    /// Whether what it needs is in the network.
    is_open: bool,
}

/// A value that lives on, or is made again.
#[derive(Clone, Copy)]
struct Needed {
    node: u32,
    burden: f64,
    maker: Option<u32>,
}

impl Chains<'_, '_> {
    /// A chain that is worth something, at the lowest of some prices at which there is one.
    fn first(&mut self, worth: f64, least: f64) -> Option<Chain> {
        let mut price = least / worth;
        for _ in 0..MAX_PRICES {
            let chain = self.cheapest(price, f64::INFINITY)?;
            if worth > chain.burden {
                return Some(chain);
            }
            price *= 8.0;
        }
        None
    }

    /// The chain for which time, and weight at a price, are least together; `None` if that is not below `most`.
    ///
    /// What an operation needs is looked at when a cut has it late. Until then it takes nothing but its own time, so the cut is no more than the whole
    /// network's; where all that is late has been looked at, it is just that. Mostly a few operations of hundreds are.
    fn cheapest(&mut self, price: f64, most: f64) -> Option<Chain> {
        let mut part = Part::new(self.operation);
        loop {
            let late = part.network.cut(SOURCE, SINK);
            if part.network.flow as f64 >= most {
                return None;
            }
            let fresh = |maker: &Maker| !maker.is_open && late[maker.node as usize];
            let fresh: Vec<usize> = (0..part.makers.len()).filter(|place| fresh(&part.makers[*place])).collect();
            if fresh.is_empty() {
                return Some(self.chain(&part, &late));
            }
            fresh.into_iter().for_each(|place| self.open(&mut part, place, price));
        }
    }

    /// Puts what an operation needs into the network.
    fn open(&mut self, part: &mut Part, place: usize, price: f64) {
        let (reader, node) = (part.makers[place].operation, part.makers[place].node);
        part.makers[place].is_open = true;
        for &value in self.state.model.reads.of(reader) {
            let needed = match part.values.get(&value) {
                Some(needed) => *needed,
                None => {
                    let burden = self.burden(value);
                    if burden <= 0.0 {
                        continue;
                    }
                    self.need(part, value, burden, price)
                }
            };
            part.network.join(node, needed.node, UNLIMITED);
        }
    }

    /// Puts a value into the network, which lives on for its weight unless its maker is late.
    fn need(&self, part: &mut Part, value: u32, burden: f64, price: f64) -> Needed {
        let model = self.state.model;
        let weight = ((burden * price) as u64).clamp(1, LARGEST);
        let maker = model.makers.of(value).first().copied();
        // Where a run alone takes longer, what it makes lives on.
        let maker = maker.filter(|maker| *maker != self.operation && may_repeat(self.state, *maker, weight));
        let maker = maker.and_then(|maker| part.maker(maker, model.costs[maker as usize]));
        let needed = Needed { node: part.network.node(), burden, maker };
        part.network.join(needed.node, maker.unwrap_or(SINK), weight);
        part.values.insert(value, needed);
        needed
    }

    fn burden(&mut self, value: u32) -> f64 {
        let (state, before) = (self.state, self.before);
        *self.burdens.entry(value).or_insert_with(|| burden(state, value, before))
    }

    fn chain(&self, part: &Part, late: &[bool]) -> Chain {
        let is_late = |node: u32| late[node as usize];
        let lives_on = |needed: &&Needed| is_late(needed.node) && !needed.maker.is_some_and(is_late);
        let burden = part.values.values().filter(lives_on).map(|needed| needed.burden).sum();
        let again = part.makers.iter().skip(1).filter(|maker| is_late(maker.node));
        let mut operations: Vec<u32> = again.map(|maker| maker.operation).collect();
        operations.sort_by_key(|one| self.state.slots_of(*one).first().copied());
        let cost = operations.iter().map(|one| self.state.model.costs[*one as usize] as f64).sum();
        Chain { operations, cost, burden }
    }
}

impl Part {
    fn new(operation: u32) -> Self {
        let mut network = Network::default();
        let (source, _) = (network.node(), network.node());
        let makers = vec![Maker { operation, node: source, is_open: false }];
        Self { network, makers, places: BTreeMap::new(), values: BTreeMap::new() }
    }

    /// The node of an operation that may be late and then takes so much time; `None` where too many are there already.
    fn maker(&mut self, operation: u32, cost: u64) -> Option<u32> {
        if let Some(place) = self.places.get(&operation) {
            return Some(self.makers[*place].node);
        }
        if self.makers.len() >= MAX_MAKERS {
            return None;
        }
        let node = self.network.node();
        self.network.join(node, SINK, cost.clamp(1, LARGEST));
        self.places.insert(operation, self.makers.len());
        self.makers.push(Maker { operation, node, is_open: false });
        Some(node)
    }
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

/// A flow network that grows.
#[derive(Default)]
struct Network {
    /// The arc that leaves each node and was joined last, or none.
    last: Vec<u32>,
    /// Arcs; each and its opposite stand side by side.
    arcs: Vec<Arc>,
    /// What flows from the source to the sink.
    flow: u64,
}

#[derive(Clone, Copy)]
struct Arc {
    head: u32,
    /// The arc that leaves the same node and was joined before, or none.
    next: u32,
    /// What still fits.
    left: u64,
}

impl Network {
    fn node(&mut self) -> u32 {
        self.last.push(NONE);
        self.last.len() as u32 - 1
    }

    fn join(&mut self, tail: u32, head: u32, capacity: u64) {
        for (tail, head, left) in [(tail, head, capacity), (head, tail, 0)] {
            let next = std::mem::replace(&mut self.last[tail as usize], self.arcs.len() as u32);
            self.arcs.push(Arc { head, next, left });
        }
    }

    /// The nodes that reach no sink across a minimum cut, the fewest there are: blocking flows (Dinic 1970), beginning with what flows already.
    fn cut(&mut self, source: u32, sink: u32) -> Vec<bool> {
        loop {
            let levels = self.levels(source, sink);
            if levels[sink as usize] == NONE {
                return levels.into_iter().map(|level| level != NONE).collect();
            }
            self.block(source, sink, &levels);
        }
    }

    /// How many arcs that are not full lie between the source and each node, at least: of all nodes that are no farther than the sink.
    fn levels(&self, source: u32, sink: u32) -> Vec<u32> {
        let mut levels = vec![NONE; self.last.len()];
        levels[source as usize] = 0;
        let mut queue = vec![source];
        let mut next = 0;
        while let Some(&node) = queue.get(next) {
            next += 1;
            let mut arc = self.last[node as usize];
            while let Some(&Arc { head, next, left }) = self.arcs.get(arc as usize) {
                if left > 0 && levels[head as usize] == NONE {
                    levels[head as usize] = levels[node as usize] + 1;
                    if head == sink {
                        return levels;
                    }
                    queue.push(head);
                }
                arc = next;
            }
        }
        levels
    }

    /// Sends as much as there is room for along paths that rise one level with each arc.
    fn block(&mut self, source: u32, sink: u32, levels: &[u32]) {
        let (mut open, mut path, mut node) = (self.last.clone(), Vec::new(), source);
        loop {
            if node == sink {
                node = self.fill(&mut path);
                continue;
            }
            let arc = open[node as usize];
            match self.arcs.get(arc as usize) {
                Some(&Arc { head, left, .. }) if left > 0 && levels[head as usize] == levels[node as usize] + 1 => {
                    path.push(arc);
                    node = head;
                }
                Some(Arc { next, .. }) => open[node as usize] = *next,
                None => {
                    // Nothing leads on from here any more.
                    let Some(arc) = path.pop() else { return };
                    node = self.arcs[arc as usize ^ 1].head;
                    open[node as usize] = self.arcs[arc as usize].next;
                }
            }
        }
    }

    /// Sends as much along a path as its arcs take; what is left of the path ends before the first full arc, at the node that is returned.
    fn fill(&mut self, path: &mut Vec<u32>) -> u32 {
        let flow = path.iter().map(|arc| self.arcs[*arc as usize].left).min().unwrap_or(0);
        self.flow = self.flow.saturating_add(flow);
        for arc in path.iter() {
            self.arcs[*arc as usize].left -= flow;
            self.arcs[*arc as usize ^ 1].left += flow;
        }
        let full = path.iter().position(|arc| self.arcs[*arc as usize].left == 0).unwrap_or(0);
        let node = self.arcs[path[full] as usize ^ 1].head;
        path.truncate(full);
        node
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::Model;
    use super::super::problem::{Problem, Run, Value};
    use super::super::random::Random;
    use super::super::relief::soften;
    use super::*;
    use crate::tuning::BudgetTuning;

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
        let model = Model::new(problem, &BudgetTuning::DEFAULT);
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

    /// Each run makes a value of some of the ones before; the last reads all that nobody reads.
    fn random_problem(random: &mut Random) -> Problem {
        let mut problem = Problem::default();
        let mut is_read = [false; 9];
        for index in 0..9_u32 {
            problem.values.push(Value { size: 100 + u64::from(random.below(900)), ..Value::default() });
            let reads: Vec<u32> =
                (0..index).filter(|value| random.below(3) == 0 || (index == 8 && !is_read[*value as usize])).collect();
            reads.iter().for_each(|value| is_read[*value as usize] = true);
            let cost = 1000 + u64::from(random.below(100_000));
            problem.runs.push(Run { reads, writes: vec![index], cost, repeatable: random.below(8) > 0, ..Run::default() });
        }
        problem.runs.push(Run { scratch: 20_000, ..Run::default() });
        problem.runs.push(Run { reads: vec![8], ..Run::default() });
        problem
    }

    #[test]
    fn no_chain_is_cheaper_than_the_one_that_is_found() {
        let mut random = Random::new(3);
        for _ in 0..100 {
            let problem = random_problem(&mut random);
            let model = Model::new(&problem, &BudgetTuning::DEFAULT);
            let mut state = State::new(&model, &model.given());
            soften(&mut state, 20_000);
            let before = state.end();
            let price = random.unit() * 200_000.0 / state.weight();
            let mut chains = Chains { state: &state, operation: 8, before, burdens: BTreeMap::new() };
            let found = chains.cheapest(price, f64::INFINITY).map_or(f64::NAN, |found| found.cost + price * found.burden);
            let weight = |value: u32| price * burden(&state, value, before);
            let total = |late: u32| {
                let is_late = |run: u32| late >> run & 1 == 1 || run == 8;
                let lives_on =
                    |value: &u32| !is_late(*value) && (0..9).any(|run| is_late(run) && model.reads.of(run).contains(value));
                let times = (0..8).filter(|run| is_late(*run)).map(|run| model.costs[run as usize] as f64).sum::<f64>();
                times + (0..8).filter(lives_on).map(weight).sum::<f64>()
            };
            let may_be_late = |late: &u32| (0..8).all(|run| late >> run & 1 == 0 || model.repeatable[run as usize]);
            let least = (0..1 << 8).filter(may_be_late).map(total).fold(f64::INFINITY, f64::min);
            // Weights are rounded down, one for each value.
            assert!((found - least).abs() < 10.0, "{found} {least}");
            assert!(chains.cheapest(price, least - 20.0).is_none() && chains.cheapest(price, least + 20.0).is_some());
        }
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
