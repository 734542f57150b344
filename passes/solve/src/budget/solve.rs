//! The budget solver: returns the given order if it fits; otherwise runs reordering, recomputation,
//! hidden transfers, ruin and recreate, and annealing, and returns the fastest plan.

use super::check::measure;
use super::exact::{self, Exact};
use super::problem::{BudgetError, Origin, Plan, Problem};
use super::search::anneal::{Annealer, Best, Schedule};
use super::search::ruin::Ruin;
use super::search::{polish, relief, ruin};
use super::sequence::emit::events;
use super::sequence::evaluate::evaluate;
use super::sequence::model::{Model, NONE};
use super::sequence::state::State;
use super::transfers::{Score, hide, hoist};
use super::warm::cover::sequences;
use super::warm::greedy;
use super::warm::reorder::reorder;
use crate::tuning::Share;
use crate::{Limit, Outcome, Stop, StopReason};

/// Maximum number of searches from each kind of start. More effort than the default goes into more
/// searches of the default length, because their results depend more on chance than on length.
const MAX_SEARCHES: u64 = 16;

/// Maximum number of annealing steps for each operation: searches of small problems run dry long before
/// the effort is spent.
const MAX_STEPS_PER_OPERATION: u64 = 30_000;

/// Maximum number of attempts for a plan with transfers; if the times of transfers push it over the
/// capacity, the next attempt aims at fewer bytes.
const MAX_REPAIRS: u32 = 4;

/// Inserts recomputations into a sequence until a capacity holds or a cost is reached; returns whether
/// the capacity holds at a lower cost.
type Reduce = fn(&mut State, i64, u64) -> bool;

/// Returns the fastest plan found that keeps the near space within `capacity` bytes.
///
/// [`Outcome::value`] and [`Outcome::lower_bound`] are times: the makespan, and the sum of all costs,
/// which no plan can beat; an exact search of a small problem ([`exact::takes`]) may raise that bound. If the
/// given order keeps the capacity, it is the answer. Without a solution nothing is proven, and the outcome is
/// [`crate::Status::Unknown`], unless the exact search proves that there is none. Without effort only the
/// heuristics run: reordering, greedy recomputation, hidden transfers, descent.
///
/// A unit of effort is 200 annealing steps, plus one for every two operations, up to 700 more; each step
/// is O(operands log n). The default effort is 5 million steps for 100 operations, 18 million from 1,400
/// operations; about a third of that if short searches agree. More than the default effort goes into up
/// to 16 searches of default length, so that the answer is never worse than with the default.
///
/// # Errors
/// Returns an error if the problem is not valid.
pub fn solve(problem: &Problem, capacity: u64, limit: Limit) -> Result<Outcome<Plan>, BudgetError> {
    solve_until(problem, capacity, limit, &Stop::default())
}

/// Solves as [`solve`] does, but ends early, with the best plan so far, if `stop` is due.
///
/// # Errors
/// Returns an error if the problem is not valid.
pub fn solve_until(
    problem: &Problem,
    capacity: u64,
    limit: Limit,
    stop: &Stop,
) -> Result<Outcome<Plan>, BudgetError> {
    problem.validate()?;
    let model = Model::new(problem, &limit.tuning.budget);
    let mut search = Search::new(problem, &model, capacity, stop);
    search.run(limit);
    Ok(search.outcome(limit))
}

/// Improves a plan that keeps the capacity: searches for other repeats with the given effort. Searches
/// from the beginning instead if the plan has transfers or if any value may be moved.
///
/// # Errors
/// Returns an error if the problem is not valid.
pub fn improve(
    problem: &Problem,
    capacity: u64,
    from: &Plan,
    limit: Limit,
    stop: &Stop,
) -> Result<Outcome<Plan>, BudgetError> {
    problem.validate()?;
    let model = Model::new(problem, &limit.tuning.budget);
    let mut search = Search::new(problem, &model, capacity, stop);
    match from.runs().filter(|_| !search.moves()) {
        Some(sequence) => search.go_on(&sequence, limit),
        None => search.run(limit),
    }
    Ok(search.outcome(limit))
}

/// A sequence at which annealing can begin.
#[derive(Clone)]
struct Start {
    sequence: Vec<u32>,
    peak: i64,
    cost: u64,
    /// Cost of a byte over the capacity; and a typical difference in cost, as the unit of temperatures.
    price: f64,
    unit: f64,
    has_transfers: bool,
}

struct Search<'m> {
    problem: &'m Problem,
    model: &'m Model,
    capacity: u64,
    /// The capacity as a signed number for the searches.
    ceiling: i64,
    lower_bound: u64,
    stop: Stop,
    best: Option<Plan>,
    starts: Vec<Start>,
    /// Number of this search among the searches from equal starts.
    turn: u64,
    /// Whether it is proven that no plan exists.
    is_impossible: bool,
}

impl<'m> Search<'m> {
    fn new(problem: &'m Problem, model: &'m Model, capacity: u64, stop: &Stop) -> Self {
        let lower_bound = problem.runs.iter().fold(0_u64, |sum, run| sum.saturating_add(run.cost));
        let ceiling = i64::try_from(capacity).unwrap_or(i64::MAX).min(i64::MAX >> 2);
        Self {
            problem,
            model,
            capacity,
            ceiling,
            lower_bound,
            stop: stop.clone(),
            best: None,
            starts: Vec::new(),
            turn: 0,
            is_impossible: false,
        }
    }

    /// Converts the search to its outcome.
    fn outcome(self, limit: Limit) -> Outcome<Plan> {
        let effort = if self.is_done() { 0 } else { limit.nodes };
        let Self { best: solution, lower_bound, is_impossible, .. } = self;
        let value = solution.as_ref().map(|plan| plan.makespan);
        let stop = match value {
            Some(value) if value <= lower_bound => StopReason::BoundReached,
            None if is_impossible => StopReason::Exhausted,
            _ if limit.nodes == 0 => StopReason::HeuristicsOnly,
            _ => StopReason::NodeLimit,
        };
        Outcome { solution, value, lower_bound, stop, effort }
    }

    /// Searches for better plans from a sequence of runs that keeps the capacity.
    fn go_on(&mut self, sequence: &[u32], limit: Limit) {
        let given = self.model.given();
        let (plain, state) = (State::new(self.model, &given), State::new(self.model, sequence));
        let added = sequence.len().saturating_sub(given.len());
        let fits = state.peak() <= self.ceiling;
        self.offer(&state);
        self.push_start(&state, (plain.cost(), plain.peak(), added), fits, false);
        self.in_turns(limit, Self::improve_starts);
    }

    /// Returns the number of annealing steps of an effort.
    fn steps(&self, limit: Limit) -> u64 {
        let (operations, tuning) = (self.model.fixed as u64, &self.model.tuning);
        let steps = limit
            .nodes
            .saturating_mul(tuning.steps.saturating_add((operations / 2).min(tuning.large as u64)));
        steps.min(MAX_STEPS_PER_OPERATION.saturating_mul(operations))
    }

    /// Searches from the beginning.
    fn run(&mut self, limit: Limit) {
        self.in_turns(limit, Self::search);
    }

    /// Searches once. With more effort than the default, searches again from the starts with other
    /// random numbers.
    fn in_turns(&mut self, limit: Limit, search: impl FnOnce(&mut Self, Limit)) {
        let usual = limit.with_nodes(limit.nodes.min(Limit::default().nodes));
        search(self, usual);
        let searches = (limit.nodes / usual.nodes.max(1)).min(MAX_SEARCHES);
        for turn in 1..searches {
            if self.is_done() || self.stop.is_due() {
                break;
            }
            self.turn = turn;
            self.improve_starts(usual);
        }
    }

    /// Makes starts of all kinds from all orders, and searches for better plans from the best of them.
    fn search(&mut self, limit: Limit) {
        let given = self.model.given();
        // An order that fits is the answer.
        let mut orders = vec![given.clone()];
        if State::new(self.model, &given).peak() <= self.ceiling {
            self.warm_start(&given, None, relief::reduce);
            return;
        }
        let reordered = reorder(self.model, &given, limit.with_nodes(self.stop.bounded(limit.nodes)));
        orders.extend(reordered.filter(|order| *order != given));
        // Recompute, by relief and greedily, in each order.
        for reduce in [relief::reduce, greedy::reduce] {
            for order in orders.iter().rev() {
                if !self.is_done() {
                    self.warm_start(order, None, reduce);
                }
            }
        }
        for order in orders.iter().rev() {
            if !self.is_done() && self.model.ways.iter().any(|ways| !ways.is_empty()) {
                self.warm_start(&self.with_codes(order), None, relief::reduce);
            }
        }
        for order in orders.iter().rev() {
            if !self.is_done() && self.model.ways.iter().flatten().any(|way| way.encode == NONE) {
                self.warm_start(&self.with_inverses(order), None, relief::reduce);
            }
        }
        // Covers help only if greedy recomputation works; otherwise their chains are too long.
        for order in orders.iter().filter(|_| self.problem.links.is_empty()) {
            if self.best.is_some() && !self.is_done() {
                self.gap_starts(order, limit);
            }
        }
        self.settle(limit);
        // A run that makes room by running late may do so for moved values, too.
        let late = self.best_start(false).map(|start| first_runs(self.model, &start.sequence));
        orders.extend(late.filter(|late| !orders.contains(late)));
        orders.iter().for_each(|order| self.transfer_starts(order));
        self.improve_starts(limit);
    }

    /// Searches for better plans from the best start of each kind.
    fn improve_starts(&mut self, limit: Limit) {
        let steps = self.steps(limit);
        let kinds = if self.moves() { 2 } else { 1 };
        for has_transfers in [false, true] {
            let Some(mut start) =
                self.best_start(has_transfers).cloned().filter(|_| steps > 0 && !self.is_done())
            else {
                continue;
            };
            if !has_transfers && let Some(best) = self.goes_on() {
                start.sequence = best;
            }
            self.improve(&mut start, limit.nodes / kinds, steps / kinds);
            if !has_transfers {
                self.transfer_starts(&first_runs(self.model, &start.sequence));
            }
        }
    }

    /// Returns the best plan so far if this turn begins there and the plan has no transfers; every other
    /// turn does.
    fn goes_on(&self) -> Option<Vec<u32>> {
        if self.turn % 2 == 1 { self.best.as_ref().and_then(Plan::runs) } else { None }
    }

    /// Whether any value may be moved away.
    fn moves(&self) -> bool {
        self.model.moves.iter().any(Option::is_some)
    }

    /// Makes starts with transfers from an order, if any value may be moved.
    fn transfer_starts(&mut self, order: &[u32]) {
        for score in [Score::Longest, Score::Dearest] {
            for reduce in [greedy::reduce, relief::reduce] {
                if self.moves() && !self.is_done() {
                    self.warm_start(order, Some(score), reduce);
                }
            }
        }
    }

    /// Returns the cheapest start of a kind that keeps the capacity; without one, the start with the
    /// lowest peak.
    fn best_start(&self, has_transfers: bool) -> Option<&Start> {
        let of_kind = self.starts.iter().filter(|start| start.has_transfers == has_transfers);
        of_kind.min_by_key(|start| (start.peak.max(self.ceiling), start.cost))
    }

    /// Searches for better plans from a start: by ruin and recreate, then by annealing. Annealing comes
    /// first if no start keeps the capacity.
    fn improve(&mut self, start: &mut Start, effort: u64, steps: u64) {
        let tuning = &self.model.tuning;
        let is_large = self.model.fixed > tuning.large;
        let part = |share: Share, whole: u64| if is_large { share.of(whole) } else { whole };
        let fits = start.peak <= self.ceiling;
        let rebuilt = if fits { self.rebuild(start, effort) } else { u64::MAX };
        let found = self.anneal(start, part(if fits { tuning.trial } else { tuning.unfit }, steps));
        let Some(annealed) = found.cost else { return };
        let pays = if fits {
            rebuilt.saturating_sub(annealed) > tuning.much.of(self.extra(rebuilt))
        } else {
            start.sequence = found.sequence.clone();
            let rebuilt = self.rebuild(start, part(tuning.unfit, effort));
            annealed.saturating_sub(rebuilt) < tuning.little.of(self.extra(annealed))
        };
        if is_large && pays {
            let goes_on = Start { sequence: found.sequence, ..start.clone() };
            self.anneal(&goes_on, steps / 2);
        }
    }

    /// Returns the extra time of a sequence: its cost beyond all runs once.
    fn extra(&self, cost: u64) -> u64 {
        cost.saturating_sub(self.lower_bound)
    }

    /// Runs ruin and recreate from a start that keeps the capacity, moves the start to the result, and
    /// returns its cost.
    fn rebuild(&mut self, start: &mut Start, effort: u64) -> u64 {
        let mut state = State::new(self.model, &start.sequence);
        let rounds = ruin::rounds(self.model, effort);
        Ruin::new(&mut state, self.ceiling, start.has_transfers, &self.stop).in_turn(self.turn).run(rounds);
        self.offer(&state);
        start.sequence = state.sequence();
        state.cost()
    }

    /// Returns the cost above which a sequence is useless.
    fn dearest(&self) -> u64 {
        self.best.as_ref().map_or(u64::MAX, |best| polish::dearest(self.lower_bound, best.makespan))
    }

    /// Whether the best plan is proven optimal, or it is proven that there is none.
    fn is_done(&self) -> bool {
        self.is_impossible || self.best.as_ref().is_some_and(|best| best.makespan <= self.lower_bound)
    }

    /// Searches a small problem exactly, with a part of the effort: for the best plan, a proof that there is
    /// none, or a higher bound.
    fn settle(&mut self, limit: Limit) {
        if self.is_done() || limit.nodes == 0 || !exact::takes(self.problem) {
            return;
        }
        match exact::solve(self.problem, self.capacity, self.model.tuning.exact.of(limit.nodes)) {
            Exact::Plan(events) => {
                let found = measure(self.problem, &events).ok();
                self.lower_bound = found.as_ref().map_or(self.lower_bound, |plan| plan.makespan);
                self.best = found.into_iter().chain(self.best.take()).min_by_key(|plan| plan.makespan);
            }
            Exact::Impossible => self.is_impossible = self.best.is_none(),
            Exact::AtLeast(extra) => self.lower_bound = self.lower_bound.saturating_add(extra),
        }
    }

    /// Makes an order fit: by hidden transfers if a score for them is given, then by recomputation.
    fn warm_start(&mut self, order: &[u32], transfers: Option<Score>, reduce: Reduce) {
        let mut ceiling = self.ceiling;
        for repair in 0..MAX_REPAIRS {
            let mut state = State::new(self.model, order);
            let (base, top) = (state.cost(), state.peak());
            if let Some(score) = transfers {
                hide(self.problem, &mut state, ceiling, score);
            }
            let before = state.count();
            let dearest = if transfers.is_none() { self.dearest() } else { u64::MAX };
            let fits = reduce(&mut state, ceiling, dearest);
            if fits {
                polish::drop_spare(&mut state, ceiling);
            }
            let over_capacity = if fits { self.offer(&state) } else { 0 };
            if repair == 0 || over_capacity == 0 {
                let added = state.count().saturating_sub(before);
                self.push_start(&state, (base, top, added), fits, transfers.is_some());
            }
            if over_capacity == 0 {
                return;
            }
            ceiling = ceiling.saturating_sub_unsigned(over_capacity);
        }
    }

    /// Returns an order with the codes that alone bring it down to the capacity, or near it. Relief that
    /// may also recompute takes cheap runs first, and these stand in the way of codes that together cost
    /// less.
    fn with_codes(&self, order: &[u32]) -> Vec<u32> {
        let mut only_codes = self.model.clone();
        only_codes.repeatable[..self.model.required].fill(false);
        let mut state = State::new(&only_codes, order);
        relief::reduce(&mut state, self.ceiling, u64::MAX);
        state.sequence()
    }

    /// Returns an order in which results give values back wherever they can, as if that took no time: a chain
    /// of values that give each other back pays only as a whole.
    fn with_inverses(&self, order: &[u32]) -> Vec<u32> {
        let mut free = self.model.clone();
        for way in self.model.ways.iter().flatten().filter(|way| way.encode == NONE) {
            free.costs[way.decode as usize] = 0;
        }
        let mut state = State::new(&free, order);
        relief::reduce(&mut state, self.ceiling, u64::MAX);
        state.sequence()
    }

    /// Makes starts from the gap cover of an order.
    fn gap_starts(&mut self, order: &[u32], limit: Limit) {
        let plain = State::new(self.model, order);
        let (base, top) = (plain.cost(), plain.peak());
        // Covers know no optional runs.
        let (required, effort) =
            (self.problem.without_optional(), self.model.tuning.trial.of(self.stop.bounded(limit.nodes)));
        for sequence in sequences(&required, order, self.capacity, effort) {
            let mut state = State::new(self.model, &sequence);
            // If one round is far from fitting, the other rounds are too.
            let dearest = self.dearest();
            if !greedy::reduce(&mut state, self.ceiling, dearest) {
                if state.cost() >= dearest {
                    continue;
                }
                break;
            }
            polish::drop_spare(&mut state, self.ceiling);
            self.offer(&state);
            let added = state.count().saturating_sub(order.len());
            self.push_start(&state, (base, top, added), true, false);
        }
    }

    fn push_start(
        &mut self,
        state: &State,
        (base, top, added): (u64, i64, usize),
        fits: bool,
        has_transfers: bool,
    ) {
        let (extra, added) = (state.cost().saturating_sub(base) as f64, added.max(1) as f64);
        let mean = base as f64 / self.model.required.max(1) as f64;
        let unit = if extra > 0.0 { extra / added } else { mean.max(1.0) };
        let mut price = 2.0 * unit * added / (top - self.ceiling).max(1) as f64;
        if !fits {
            price = price.max(base as f64 / self.ceiling.max(1) as f64);
        }
        let (sequence, peak, cost) = (state.sequence(), state.peak(), state.cost());
        self.starts.push(Start { sequence, peak, cost, price, unit, has_transfers });
    }

    /// Keeps a sequence as a plan if it fits and is the fastest so far. Returns the bytes by which it
    /// exceeds the capacity, times of transfers included.
    fn offer(&mut self, state: &State) -> u64 {
        let over = self.offer_sequence(&state.sequence());
        if self.problem.links.is_empty() || self.is_done() {
            return over;
        }
        let mut hoisted = state.clone();
        hoist(self.problem, &mut hoisted, self.ceiling);
        over.min(self.offer_sequence(&hoisted.sequence()))
    }

    fn offer_sequence(&mut self, sequence: &[u32]) -> u64 {
        let Some(found) = evaluate(self.problem, self.model, &events(self.model, sequence)) else { return 0 };
        let over = found.plan.peak.saturating_sub(self.capacity);
        if over == 0
            && found.far_fits
            && self.best.as_ref().is_none_or(|best| found.plan.makespan < best.makespan)
        {
            self.best = Some(found.plan);
        }
        over
    }

    /// Offers the cheapest sequence within the capacity that annealing finds from a start, and returns
    /// it.
    ///
    /// Some short searches differ only in their random numbers; the next search begins at the best
    /// result. It is short too if all short searches end at an equal cost; otherwise it is long, and a
    /// cool search from the start follows.
    fn anneal(&mut self, start: &Start, steps: u64) -> Best {
        let tuning = &self.model.tuning;
        let (short, seeds) = (tuning.trial.of(steps), tuning.seeds);
        // The cool search stays near its start; the hot searches may remove many of its repeats.
        let hot = tuning.hot.factor().max(0.01);
        let cool = 0.05 * hot;
        let is_telling = short >= tuning.steps.saturating_mul(self.model.fixed as u64);
        let [part, little] =
            [tuning.much, tuning.little].map(|share| share.of(self.ceiling.max(0) as u64) as i64);
        let over = |best: &Best| {
            if is_telling && best.cost.is_none() { best.peak.saturating_sub(self.ceiling) } else { 0 }
        };
        // Run the short searches; give up early if the first one ends far above the capacity.
        let mut found = vec![self.annealed(start, &start.sequence, short, hot, 1)];
        if over(&found[0]) > part {
            return found.swap_remove(0);
        }
        found.extend((2..=seeds).map(|seed| self.annealed(start, &start.sequence, short, hot, seed)));
        let agree = found.iter().all(|one| one.cost.is_some() && one.cost == found[0].cost);
        let rank = |one: &Best| (one.cost.is_none(), one.cost, one.peak);
        found.sort_by_key(rank);
        let Some(first) = found.first() else { return Best::default() };
        if over(first) > little {
            return found.swap_remove(0);
        }
        // Search from the best result.
        let mut best =
            self.annealed(start, &first.sequence, if agree { short } else { steps / 2 }, hot, seeds + 1);
        if !agree {
            let near = self.annealed(start, &start.sequence, short, cool, seeds + 2);
            best = [best, near].into_iter().min_by_key(rank).unwrap_or_default();
        }
        if best.cost.is_some() {
            let mut state = State::new(self.model, &best.sequence);
            polish::drop_spare(&mut state, self.ceiling);
            self.offer(&state);
        }
        best
    }

    /// Runs one search from a sequence, with the price and unit of a start, and returns its best
    /// sequence.
    fn annealed(&self, start: &Start, sequence: &[u32], steps: u64, heat: f64, seed: u64) -> Best {
        let tuning = &self.model.tuning;
        let mut state = State::new(self.model, sequence);
        let mut annealer =
            Annealer::new(&mut state, self.ceiling, start.price, self.turn * (tuning.seeds + 2) + seed);
        annealer.keeps_order = start.has_transfers;
        annealer.stop = self.stop.clone();
        let loads: u64 = self.model.costs[self.model.runs..].iter().sum();
        let enough = self.lower_bound
            + if self.problem.values.iter().any(|value| matches!(value.origin, Origin::Far(_))) {
                loads
            } else {
                0
            };
        let mut hot = heat * start.unit;
        let rounds = tuning.rounds.max(1);
        let mut schedule =
            Schedule { steps: steps / u64::from(rounds), hot, cold: 0.01 * hot, enough, soft: None };
        let mut sharpness = 50.0 / self.ceiling.max(1) as f64;
        // Lower the soft maximum until the capacity holds, then anneal in cooling rounds.
        for _ in 0..rounds {
            if annealer.best.cost.is_some() {
                break;
            }
            annealer.run(Schedule { soft: Some(sharpness), ..schedule });
            sharpness *= 2.0;
        }
        for _ in 0..rounds {
            annealer.restart();
            schedule = Schedule { hot, cold: 0.01 * hot, ..schedule };
            annealer.run(schedule);
            hot *= 0.5;
        }
        annealer.best
    }
}

/// Returns the operations of a sequence in the order of their first runs.
fn first_runs(model: &Model, sequence: &[u32]) -> Vec<u32> {
    let mut met = vec![false; model.operations()];
    sequence
        .iter()
        .copied()
        .filter(|operation| !std::mem::replace(&mut met[*operation as usize], true))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::problem::{Run, Value};
    use super::*;
    use crate::basics::random::Random;
    use crate::tuning::BudgetTuning;

    /// Builds more runs than `large`, each reading up to three of the 60 values before it.
    fn many_at_random() -> Problem {
        let mut random = Random::new(7);
        let mut problem = Problem::default();
        for index in 0..BudgetTuning::DEFAULT.large as u32 + 20 {
            let count = if index > 0 { random.below(4) } else { 0 };
            let mut reads: Vec<u32> = (0..count).map(|_| index - 1 - random.below(index.min(60))).collect();
            reads.sort_unstable();
            reads.dedup();
            let cost = u64::from(random.below(1000));
            problem.runs.push(Run { reads, writes: vec![index], cost, repeatable: true, ..Run::default() });
            problem.values.push(Value { size: u64::from(10 + random.below(600)), ..Value::default() });
        }
        problem
    }

    #[test]
    fn search_turns_draw_other_random_numbers_and_never_get_worse() {
        let problem = many_at_random();
        let model = Model::new(&problem, &BudgetTuning::DEFAULT);
        let peak = State::new(&model, &model.given()).peak();
        let mut search = Search::new(&problem, &model, (peak * 7 / 10) as u64, &Stop::default());
        search.warm_start(&model.given(), None, relief::reduce);
        let costs: Vec<u64> = (0..6)
            .map(|turn| {
                search.turn = turn;
                search.improve_starts(Limit::nodes(100));
                search.best.as_ref().unwrap().cost
            })
            .collect();
        assert!(costs.is_sorted_by(|before, after| before >= after) && costs[5] < costs[0], "{costs:?}");
    }

    #[test]
    fn further_annealing_lowers_the_cost() {
        let problem = many_at_random();
        let model = Model::new(&problem, &BudgetTuning::DEFAULT);
        let peak = State::new(&model, &model.given()).peak();
        let limit = Limit::nodes(800);
        // A start that keeps the capacity, and a start from which only annealing keeps it.
        for (part, fits) in [(70, true), (39, false)] {
            let search = || {
                let mut search = Search::new(&problem, &model, (peak * part / 100) as u64, &Stop::default());
                search.warm_start(&model.given(), None, relief::reduce);
                let start = search.best_start(false).cloned().unwrap();
                assert_eq!(start.peak <= search.ceiling, fits);
                (search, start)
            };
            let (mut once, mut start) = search();
            let steps = once.steps(limit);
            if fits {
                once.rebuild(&mut start, limit.nodes);
                once.anneal(&start, BudgetTuning::DEFAULT.trial.of(steps));
            } else {
                start.sequence = once.anneal(&start, BudgetTuning::DEFAULT.unfit.of(steps)).sequence;
                once.rebuild(&mut start, BudgetTuning::DEFAULT.unfit.of(limit.nodes));
            }
            let (mut further, mut start) = search();
            further.improve(&mut start, limit.nodes, steps);
            let [once, further] = [once, further].map(|search| search.best.unwrap().cost);
            assert!(further < once, "{part} %: {further} after {once}");
        }
    }
}
