//! Chooses, by a minimum cut, which runs repeat and which values stay live instead if a run moves to a
//! later step.
//!
//! Each operand of a late run either stays live until then, which adds weight to the steps between, or
//! its maker runs late as well, which takes time. The sum of both is least at a minimum cut that
//! separates the late runs from the others (as in the selection of projects, Picard 1976, *Maximal
//! closure of a graph and applications to combinatorial problems*). The price of a unit of weight, in
//! time, follows from the method for ratios (Dinkelbach 1967).

use std::collections::BTreeMap;

use crate::basics::flow::Network;
use crate::budget::sequence::model::NONE;
use crate::budget::sequence::state::State;

/// Maximum number of operations examined for one chain, and maximum number of prices tried: both bound
/// the time of a chain.
const MAX_MAKERS: usize = 192;
const MAX_PRICES: u32 = 5;

/// Node of the late run.
const LATE: u32 = 0;

/// Upper bound of a time or a weight in the network: smaller than the capacity of an arc that never
/// fills.
const LARGEST: u64 = 1 << 50;

/// Operations that run again before a late run.
#[derive(Debug)]
struct Chain {
    /// Operations in the order of their first runs, without the late run itself.
    operations: Vec<u32>,
    /// Sum of the times of the operations.
    cost: f64,
    /// Increase of the sum of weights by values that stay live for the chain.
    burden: f64,
}

/// Returns the chain with the best ratio of time to weight saved; `None` if values that stay live always
/// weigh more than the absence saves. `worth` is the weight that the absence alone saves, `cost` its
/// time. O(prices x blocking flows x examined arcs), with few flows in practice.
pub(in crate::budget) fn best(
    state: &State,
    operation: u32,
    before: u32,
    worth: f64,
    cost: f64,
) -> Option<Vec<u32>> {
    let mut chains = Chains { state, operation, before, burdens: BTreeMap::new() };
    let least = cost + 1.0;
    let mut best = chains.first(worth, least)?;
    let mut price = best.ratio(worth, least);
    for _ in 1..MAX_PRICES {
        // At this price a chain as good as the best one has no net gain.
        let Some(chain) = chains.cheapest(price, worth * price - least) else { break };
        let ratio = chain.ratio(worth, least);
        // A rounding error can make a worthless chain look better; its ratio is then not a valid price.
        if !(0.0..price).contains(&ratio) {
            break;
        }
        (best, price) = (chain, ratio);
    }
    Some(best.operations)
}

impl Chain {
    /// Returns the time for each unit of weight saved, if the absence alone saves `worth` and takes
    /// `least`.
    fn ratio(&self, worth: f64, least: f64) -> f64 {
        (least + self.cost) / (worth - self.burden)
    }
}

/// Finds the chains for one run that is inserted right before a slot.
struct Chains<'s, 'm> {
    state: &'s State<'m>,
    operation: u32,
    before: u32,
    /// Increase of the sum of weights for each examined value if it stays live until `before`.
    burdens: BTreeMap<u32, f64>,
}

/// The part of the network that was examined.
struct Part {
    network: Network,
    makers: Vec<Maker>,
    /// Index of each operation in `makers`.
    places: BTreeMap<u32, usize>,
    /// The values that the chain needs, by their indices.
    values: BTreeMap<u32, Needed>,
}

/// An operation that may run late.
struct Maker {
    operation: u32,
    node: u32,
    /// Whether its operands are in the network.
    is_open: bool,
}

/// A value that stays live or is recomputed: its node, its weight, and its maker's node if the maker may
/// run late.
#[derive(Clone, Copy)]
struct Needed {
    node: u32,
    burden: f64,
    maker: Option<u32>,
}

impl Chains<'_, '_> {
    /// Returns a chain that saves weight, at the lowest price tried that gives one; `None` if none does.
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

    /// Returns the chain with the least sum of time and priced weight; `None` if that sum is not below
    /// `most`.
    ///
    /// The operands of an operation enter the network only when a cut puts the operation on the late
    /// side. Until then the operation costs only its own time, so the cut is at most that of the whole
    /// network; once all late operations are expanded, both cuts are equal. Usually only a few of
    /// hundreds of operations are examined.
    fn cheapest(&mut self, price: f64, most: f64) -> Option<Chain> {
        let mut part = Part::new(self.operation);
        loop {
            let late = part.late(most)?;
            let fresh = |maker: &Maker| !maker.is_open && late[maker.node as usize];
            let fresh: Vec<usize> =
                (0..part.makers.len()).filter(|place| fresh(&part.makers[*place])).collect();
            if fresh.is_empty() {
                return Some(self.chain(&part, &late));
            }
            fresh.into_iter().for_each(|place| self.open(&mut part, place, price));
        }
    }

    /// Adds the operands of an operation to the network.
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
            part.network.follow(node, needed.node);
        }
    }

    /// Adds a value to the network: it stays live for its weight unless its maker is late.
    fn need(&self, part: &mut Part, value: u32, burden: f64, price: f64) -> Needed {
        let model = self.state.model;
        let weight = ((burden * price) as u64).clamp(1, LARGEST);
        let maker = model.makers.of(value).first().copied();
        // If the maker alone takes longer, the value stays live.
        let maker = maker.filter(|maker| *maker != self.operation && may_repeat(self.state, *maker, weight));
        let maker = maker.and_then(|maker| part.maker(maker, model.costs[maker as usize]));
        let needed = Needed { node: part.network.node(), burden, maker };
        match maker {
            Some(maker) => part.network.arc(needed.node, maker, weight),
            None => _ = part.network.sink_arc(needed.node, weight),
        }
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
        let makers = vec![Maker { operation, node: LATE, is_open: false }];
        Self { network: Network::new(1), makers, places: BTreeMap::new(), values: BTreeMap::new() }
    }

    /// Returns the nodes on the late side of the least cut, as few as possible; `None` if the cut is not
    /// below `most`. The flow continues from that of the last cut.
    fn late(&mut self, most: f64) -> Option<Vec<bool>> {
        let mut flow = std::mem::replace(&mut self.network, Network::new(0)).build();
        flow.demand_source(LATE);
        let cut = flow.maximize(most as u64, &mut { u64::MAX })?;
        let late = ((cut as f64) < most).then(|| flow.source_side());
        self.network = flow.grow();
        late
    }

    /// Returns the node of an operation that may run late at a time of `cost`; `None` if the network
    /// already has the maximum number of operations.
    fn maker(&mut self, operation: u32, cost: u64) -> Option<u32> {
        if let Some(place) = self.places.get(&operation) {
            return Some(self.makers[*place].node);
        }
        if self.makers.len() >= MAX_MAKERS {
            return None;
        }
        let node = self.network.node();
        self.network.sink_arc(node, cost.clamp(1, LARGEST));
        self.places.insert(operation, self.makers.len());
        self.makers.push(Maker { operation, node, is_open: false });
        Some(node)
    }
}

/// Whether an operation may run again, in less time than `weight`. An operation with several results may
/// take longer.
fn may_repeat(state: &State, operation: u32, weight: u64) -> bool {
    let model = state.model;
    model.repeatable[operation as usize]
        && (model.costs[operation as usize] < weight || model.writes.of(operation).len() > 1)
}

/// Returns the increase of the sum of weights if a value stays live until a slot; 0 if it is live there
/// anyway.
pub(super) fn burden(state: &State, value: u32, before: u32) -> f64 {
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

#[cfg(test)]
mod tests {
    use super::super::relief::soften;
    use super::*;
    use crate::basics::random::Random;
    use crate::budget::problem::{Problem, Run, Value};
    use crate::budget::sequence::model::Model;
    use crate::tuning::BudgetTuning;

    /// Builds values of these sizes, each made from the previous value at a cost; then a run with a
    /// large workspace, and a use of the last value.
    fn row(sizes: &[u64], costs: &[u64]) -> Problem {
        let mut problem = Problem::default();
        for (index, (size, cost)) in (0..).zip(sizes.iter().zip(costs)) {
            problem.values.push(Value { size: *size, ..Value::default() });
            let reads = if index > 0 { vec![index - 1] } else { Vec::new() };
            problem.runs.push(Run {
                reads,
                writes: vec![index],
                cost: *cost,
                repeatable: true,
                ..Run::default()
            });
        }
        problem.runs.push(Run { scratch: 20_000, ..Run::default() });
        problem.runs.push(Run { reads: vec![sizes.len() as u32 - 1], ..Run::default() });
        problem
    }

    /// Returns the chain for the last value, without its own maker, at the end.
    fn chain(problem: &Problem) -> Option<Vec<u32>> {
        let model = Model::new(problem, &BudgetTuning::DEFAULT);
        let mut state = State::new(&model, &model.given());
        soften(&mut state, 20_000);
        let last = problem.values.len() as u32 - 1;
        let worth = state.weight() * state.relief(model.sizes[last as usize]);
        best(&state, last, state.end(), worth, problem.runs[last as usize].cost as f64)
    }

    #[test]
    fn small_costly_values_stay_live_to_recompute_large_cheap_ones() {
        assert_eq!(chain(&row(&[900, 100, 900, 900, 500], &[10, 1000, 10, 10, 10])), Some(vec![2, 3]));
        // The narrow value is cheap here, but its operand is expensive and wide.
        assert_eq!(chain(&row(&[900, 100, 900, 900, 500], &[1_000_000, 1, 10, 10, 10])), Some(vec![2, 3]));
        assert_eq!(chain(&row(&[100, 900, 900, 900, 500], &[1000, 10, 10, 10, 10])), Some(vec![1, 2, 3]));
    }

    /// Builds runs that each make a value from some earlier values; the last run reads every value
    /// without a reader.
    fn random_problem(random: &mut Random) -> Problem {
        let mut problem = Problem::default();
        let mut is_read = [false; 9];
        for index in 0..9_u32 {
            problem.values.push(Value { size: 100 + u64::from(random.below(900)), ..Value::default() });
            let reads: Vec<u32> = (0..index)
                .filter(|value| random.below(3) == 0 || (index == 8 && !is_read[*value as usize]))
                .collect();
            reads.iter().for_each(|value| is_read[*value as usize] = true);
            let cost = 1000 + u64::from(random.below(100_000));
            problem.runs.push(Run {
                reads,
                writes: vec![index],
                cost,
                repeatable: random.below(8) > 0,
                ..Run::default()
            });
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
            let found = chains
                .cheapest(price, f64::INFINITY)
                .map_or(f64::NAN, |found| found.cost + price * found.burden);
            let weight = |value: u32| price * burden(&state, value, before);
            let total = |late: u32| {
                let is_late = |run: u32| late >> run & 1 == 1 || run == 8;
                let lives_on = |value: &u32| {
                    !is_late(*value) && (0..9).any(|run| is_late(run) && model.reads.of(run).contains(value))
                };
                let times = (0..8)
                    .filter(|run| is_late(*run))
                    .map(|run| model.costs[run as usize] as f64)
                    .sum::<f64>();
                times + (0..8).filter(lives_on).map(weight).sum::<f64>()
            };
            let may_be_late =
                |late: &u32| (0..8).all(|run| late >> run & 1 == 0 || model.repeatable[run as usize]);
            let least = (0..1 << 8).filter(may_be_late).map(total).fold(f64::INFINITY, f64::min);
            // Weights are rounded down once for each value.
            assert!((found - least).abs() < 10.0, "{found} {least}");
            assert!(
                chains.cheapest(price, least - 20.0).is_none()
                    && chains.cheapest(price, least + 20.0).is_some()
            );
        }
    }

    #[test]
    fn results_of_unrepeatable_runs_stay_live() {
        let mut problem = row(&[100, 300, 900, 900, 500], &[10; 5]);
        assert_eq!(chain(&problem), Some(vec![0, 1, 2, 3]));
        problem.runs[1].repeatable = false;
        assert_eq!(chain(&problem), Some(vec![2, 3]));
        // The value weighs more than the absence saves.
        problem.values[1].size = 5000;
        assert_eq!(chain(&problem), None);
    }
}
