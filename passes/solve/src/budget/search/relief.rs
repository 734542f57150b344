//! Recomputation at the best price: while the worst step is over the capacity, makes the absence that
//! lowers a soft maximum most for its cost.
//!
//! The soft maximum gives each step a weight that grows exponentially with its bytes. The weight is a
//! price that shows at which steps memory is short, and each change updates it (as in multiplicative
//! weights for covering programs). The worth of an absence is its reduction of the sum of weights, all
//! effects of the recomputation included: operands that are recomputed too, or that stay live longer.

use std::collections::BTreeSet;

use super::bridge::Bridge;
use super::chain;
use crate::basics::random::Random;
use crate::budget::sequence::edits::Edits;
use crate::budget::sequence::model::{MAX_CHAIN, NONE};
use crate::budget::sequence::state::State;

/// Maximum logarithm of a weight.
pub(in crate::budget) const STEEPEST: f64 = 600.0;

/// A copy that is live across the worst slot and can be made again before its next use.
struct Absence {
    maker: u32,
    next_use: u32,
    /// Worth of the absence if all operands of the maker were live, divided by `cost` plus 1.
    score: f64,
    /// Cost of the maker, and of the run that makes its code.
    cost: f64,
    /// The bridge, if the maker is optional.
    bridge: Option<Bridge>,
}

/// A change that frees bytes at the worst slot.
enum Change {
    /// Inserts operations into slots.
    Chain(Vec<(u32, u32)>),
    Bridge(Bridge),
}

/// The target of a chain of recomputations, and its worth so far.
struct Aim {
    worst: u32,
    /// Reduction of the sum of weights by the absence.
    worth: f64,
    /// Cost of the maker.
    cost: f64,
    /// Cost of the whole sequence above which the chain is useless.
    dearest: u64,
}

/// Randomness in the choice of absences, for searches.
pub(in crate::budget) struct Whim {
    pub random: Random,
    /// Random variation of scores, as a factor in either direction.
    pub noise: f64,
    /// Operations whose results must not be chosen as absences.
    pub banned: BTreeSet<u32>,
}

impl Whim {
    fn noise(&mut self) -> f64 {
        1.0 + self.noise * (2.0 * self.random.unit() - 1.0)
    }
}

/// Gives a state the soft maximum with the steepness that relief uses.
pub(in crate::budget) fn soften(state: &mut State, capacity: i64) {
    let steepest = STEEPEST / state.peak().max(1) as f64;
    let steepness = state.model.tuning.steepness as f64;
    state.soften(capacity, (steepness / capacity.max(1) as f64).min(steepest));
}

/// Inserts recomputations until the capacity holds, no insertion helps, or the cost of the sequence
/// reaches `dearest`. Returns whether the capacity holds at a cost below `dearest`.
///
/// O(absences x (values + tried chains) log slots).
pub(in crate::budget) fn reduce(state: &mut State, capacity: i64, dearest: u64) -> bool {
    let most = 8 * state.model.operations() + 64;
    let mut count = 0;
    // If no absence helps, perhaps only free slots were missing: spread the sequence and try again.
    while state.peak() > capacity && state.count() > count {
        count = state.count();
        *state = State::new(state.model, &state.sequence());
        soften(state, capacity);
        let mut edits = Edits::default();
        while state.peak() > capacity
            && state.count() <= most
            && state.cost() < dearest
            && lower_peak(state, &mut edits, u64::MAX, None)
        {
            edits.settle();
        }
    }
    state.harden();
    state.peak() <= capacity && state.cost() < dearest
}

/// Frees bytes at the worst slot of a softened state, at a total cost of at most `allowed`. Returns
/// `false` if no change does. With a whim the choice is partly random.
pub(in crate::budget) fn lower_peak(
    state: &mut State,
    edits: &mut Edits,
    allowed: u64,
    mut whim: Option<&mut Whim>,
) -> bool {
    let worst = state.tree.peak();
    let (level, weight) = (state.peak(), state.weight());
    let absences = chosen(absences(state, worst), state.model.tuning.tried, whim.as_deref_mut());
    let mut best: Option<(f64, Change)> = None;
    let mut is_too_dear = false;
    // Try the absences in falling score, and keep the best chain.
    for absence in &absences {
        if best.as_ref().is_some_and(|(score, _)| *score >= absence.score) {
            break;
        }
        let mark = edits.mark();
        let cost = state.cost();
        let own = absence.cost;
        let worth = absence.score * (own + 1.0);
        // A chain with a higher cost is worth less than the best chain so far.
        let useful = best
            .as_ref()
            .map_or(f64::INFINITY, |(score, _)| (1.0 + state.model.tuning.noise.factor()) * worth / score);
        let dearest = allowed.min(cost.saturating_add(useful as u64));
        let aim = Aim { worst, worth, cost: own, dearest };
        let mut keep_better = |state: &State, change: Change| {
            let worth = weight - state.weight();
            let noise = whim.as_mut().map_or(1.0, |whim| whim.noise());
            let score = noise * worth / ((state.cost() - cost) as f64 + 1.0);
            let is_better = best.as_ref().is_none_or(|(best, _)| score > *best);
            if is_better && worth > 1e-9 * weight && state.tree.at(worst) < level {
                best = Some((score, change));
            }
        };
        let is_chain =
            |bridge: &Bridge| bridge.has_no_code() && state.may_stand(bridge.way.decode, absence.next_use);
        if let Some(bridge) = absence.bridge.filter(|bridge| !is_chain(bridge)) {
            if bridge.put_in(state, edits, worst) && state.cost() <= dearest {
                keep_better(state, Change::Bridge(bridge));
            }
        } else {
            let found =
                run_again(state, edits, absence.maker, absence.next_use, (mark, &mut Vec::new()), &aim);
            let chain = edits.put_in_since(state, mark);
            if found && chain.len() < MAX_CHAIN && state.cost() <= dearest {
                // A value made from a later one has no place among first runs.
                let is_first_to_last =
                    !chain.iter().any(|(operation, _)| state.model.is_optional(*operation));
                for chain in is_first_to_last.then(|| sorted(state, &chain)).into_iter().chain([chain]) {
                    edits.replace(state, mark, &chain);
                    keep_better(state, Change::Chain(chain));
                }
            }
        }
        is_too_dear |= state.cost() > allowed;
        edits.undo(state, mark);
    }
    match best {
        Some((_, Change::Bridge(bridge))) => bridge.put_in(state, edits, worst),
        Some((_, Change::Chain(chain))) => {
            edits.replace(state, edits.mark(), &chain);
            true
        }
        None => !is_too_dear && make_late(state, edits, worst, whim),
    }
}

/// Returns the absences to try, best score first.
fn chosen(mut absences: Vec<Absence>, most: usize, whim: Option<&mut Whim>) -> Vec<Absence> {
    if let Some(whim) = whim {
        absences.retain(|absence| !whim.banned.contains(&absence.maker));
        absences.iter_mut().for_each(|absence| absence.score *= whim.noise());
    }
    absences.sort_by(|one, two| two.score.total_cmp(&one.score).then(one.maker.cmp(&two.maker)));
    absences.truncate(most.max(1));
    absences
}

/// Frees bytes at the worst slot if no single absence does: moves a run whose results have no reader up
/// to that slot to a later slot, and inserts the recomputations that it needs there. Returns `false` if
/// no move helps.
fn make_late(state: &mut State, edits: &mut Edits, worst: u32, mut whim: Option<&mut Whim>) -> bool {
    let (level, weight, cost) = (state.peak(), state.weight(), state.cost());
    let mut best: Option<(f64, Absence, Vec<u32>)> = None;
    for absence in chosen(movable(state, worst), state.model.tuning.tried, whim.as_deref_mut()) {
        let own = absence.cost;
        let worth = absence.score * (own + 1.0);
        let Some(chain) = chain::best(state, absence.maker, absence.next_use, worth, own) else { continue };
        let mark = edits.mark();
        if chain.len() < MAX_CHAIN && put_late(state, edits, &absence, worst, &chain) {
            let worth = weight - state.weight();
            let noise = whim.as_mut().map_or(1.0, |whim| whim.noise());
            let score = noise * worth / (state.cost().saturating_sub(cost) as f64 + 1.0);
            let helps = worth > 1e-9 * weight && state.tree.at(worst) < level;
            if helps && best.as_ref().is_none_or(|(best, ..)| score > *best) {
                best = Some((score, absence, chain));
            }
        }
        edits.undo(state, mark);
    }
    best.is_some_and(|(_, absence, chain)| put_late(state, edits, &absence, worst, &chain))
}

/// Returns the runs whose results are live across a slot and not used up to it, each with the slot
/// before which it must run.
fn movable(state: &State, worst: u32) -> Vec<Absence> {
    let model = state.model;
    // Transfers fit only the order that they were planned for.
    if model.moves.iter().flatten().any(|(stored, _)| !state.slots_of(*stored).is_empty()) {
        return Vec::new();
    }
    let made = |value: &u32| {
        let (start, last) = state.copy_at(*value, worst)?;
        let maker = if last > worst { state.operation(start) } else { NONE };
        let next_use = if (maker as usize) < model.fixed && !model.is_optional(maker) {
            latest(state, start, worst)?
        } else {
            return None;
        };
        let worth = state.weight_of(start + 1, next_use - 1) * state.relief(model.sizes[*value as usize]);
        let cost = model.costs[maker as usize] as f64;
        Some(Absence { maker, next_use, score: worth / (cost + 1.0), cost, bridge: None })
    };
    (0..model.values() as u32)
        .filter(|value| state.spans(*value, worst))
        .filter_map(|value| made(&value))
        .collect()
}

/// Returns the slot before which a run must stand if its results have no reader up to the worst slot:
/// near a later slot that remakes an operand, if one exists, or else the last possible slot. `None` if
/// that slot is not after the worst one.
fn latest(state: &State, start: u32, worst: u32) -> Option<u32> {
    let (model, operation) = (state.model, state.operation(start));
    let used = model.writes.of(operation).iter().map(|value| state.next_used(*value, start)).min();
    let last = state.bounds(start).1.min(used.unwrap_or(NONE));
    let again =
        model.reads.of(operation).iter().map(|value| state.last_made(*value, last)).max().unwrap_or(0);
    let before = if again > worst {
        state.free_near(again + 1, again, last).map_or(last, |free| free + 1)
    } else {
        last
    };
    (before > worst + 1).then_some(before)
}

/// Moves a run to the slot of its need, and inserts its chain right before it. Returns `false`, with
/// part of the changes made, if free slots are missing.
fn put_late(state: &mut State, edits: &mut Edits, absence: &Absence, worst: u32, chain: &[u32]) -> bool {
    let Some(&from) = state.slots_of(absence.maker).iter().rfind(|slot| **slot < worst) else { return false };
    edits.take_out(state, from);
    let mut before = absence.next_use;
    for operation in [absence.maker].iter().chain(chain.iter().rev()) {
        let Some(slot) = state.free_before(before, worst) else { return false };
        edits.put_in(state, *operation, slot);
        before = slot;
    }
    true
}

/// Returns all copies that are live across a slot and can be made again before their next use.
fn absences(state: &State, worst: u32) -> Vec<Absence> {
    let model = state.model;
    let mut found = Vec::new();
    for value in (0..model.values() as u32).filter(|value| state.spans(*value, worst)) {
        let maker = model.maker_again(value);
        if maker.is_none() && model.ways[value as usize].is_empty() {
            continue;
        }
        let Some((start, last)) = state.copy_at(value, worst) else { continue };
        // A result may take over an operand that ends here, so the operand stays a candidate.
        let is_used = state.next_used(value, worst.saturating_sub(1)) == worst;
        if last <= worst || (is_used && !model.is_taken[value as usize]) {
            continue;
        }
        let used = state.used(value);
        let next = used.partition_point(|slot| *slot <= worst);
        let next_use = used[next];
        let previous = next.checked_sub(1).map_or(start, |index| used[index].max(start));
        let weight = state.weight_of((previous + 1).min(worst), next_use - 1);
        let whole = state.relief(model.sizes[value as usize]);
        found.extend(maker.map(|maker| {
            let cost = model.costs[maker as usize] as f64;
            Absence { maker, next_use, score: weight * whole / (cost + 1.0), cost, bridge: None }
        }));
        found.extend(Bridge::over(state, value, start, worst).map(|bridge| {
            let (cost, saved) = (bridge.cost(state) as f64, whole - state.relief(bridge.way.code));
            Absence {
                maker: bridge.way.decode,
                next_use,
                score: weight * saved / (cost + 1.0),
                cost,
                bridge: Some(bridge),
            }
        }));
    }
    found
}

/// Inserts an operation right before a slot, together with those of its operands whose recomputation
/// costs less than keeping them live. Returns `false`, without changes, if the operation cannot run
/// there. Stops early, with an incomplete chain, once the cost exceeds the aim. `first` is the mark before
/// the chain; `open` lists the values that the chain makes from here on, which no operand may be made from.
fn run_again(
    state: &mut State,
    edits: &mut Edits,
    operation: u32,
    before: u32,
    (first, open): (usize, &mut Vec<u32>),
    aim: &Aim,
) -> bool {
    let model = state.model;
    if edits.mark() - first >= MAX_CHAIN || !model.repeatable[operation as usize] {
        return false;
    }
    let Some(slot) = state.free_before(before, aim.worst) else { return false };
    if model.is_optional(operation) && !state.may_stand(operation, slot) {
        return false;
    }
    let depth = open.len();
    open.extend(model.writes.of(operation));
    edits.put_in(state, operation, slot);
    for &value in model.reads.of(operation) {
        let Some((start, _)) = state.copy_at(value, slot) else { continue };
        let used = state.used(value);
        let place = used.partition_point(|other| *other < slot);
        let previous = place.checked_sub(1).map_or(start, |index| used[index].max(start));
        let next = used.get(place + 1).copied().unwrap_or(NONE);
        let lives_on = next != NONE && state.next_made(value, slot) > next;
        if lives_on || previous + 1 >= slot {
            continue;
        }
        let Some(maker) = maker_at(state, value, slot, open, aim) else { continue };
        let burden = state.weight_of(previous + 1, slot) * state.relief(model.sizes[value as usize]);
        let cost = model.costs[maker as usize] as f64;
        if burden * (aim.cost + cost + 1.0) > aim.worth * (cost + 1.0) {
            // An operand that cannot be recomputed stays live.
            run_again(state, edits, maker, slot, (first, &mut *open), aim);
            if state.cost() > aim.dearest {
                break;
            }
        }
    }
    open.truncate(depth);
    true
}

/// Returns the operation that makes an operand again before a slot: its maker, or, if other values give it
/// back there at a lower price, the operation that does so. The price is that of the operation and of its
/// operands, which live on until the slot.
fn maker_at(state: &State, value: u32, slot: u32, open: &[u32], aim: &Aim) -> Option<u32> {
    let model = state.model;
    let maker = model.makers.of(value).first().copied();
    let ways = model.ways[value as usize].iter().filter(|way| way.encode == NONE).map(|way| way.decode);
    let ways: Vec<u32> = ways.filter(|decode| state.may_stand(*decode, slot)).collect();
    if ways.is_empty() && open.len() < 2 {
        return maker;
    }
    let is_free = |operation: &u32| {
        let reads = model.reads.of(*operation);
        !reads.iter().any(|other| *other == value || open.contains(other))
    };
    let price = |operation: u32| {
        let burden: f64 =
            model.reads.of(operation).iter().map(|other| chain::burden(state, *other, slot)).sum();
        model.costs[operation as usize] as f64 + burden * (aim.cost + 1.0) / aim.worth
    };
    let may_repeat = |operation: &u32| model.repeatable[*operation as usize];
    let all = maker.into_iter().filter(may_repeat).chain(ways).filter(is_free);
    all.map(|operation| (price(operation), operation))
        .min_by(|one, two| one.0.total_cmp(&two.0))
        .map(|(_, operation)| operation)
}

/// Sorts a chain by the first runs of its operations: makers then run before their readers, and values
/// seldom stay live longer than in that order.
fn sorted(state: &State, chain: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut operations: Vec<u32> = chain.iter().map(|(operation, _)| *operation).collect();
    let mut slots: Vec<u32> = chain.iter().map(|(_, slot)| *slot).collect();
    operations.sort_by_key(|operation| state.slots_of(*operation).first().copied());
    slots.sort_unstable();
    operations.into_iter().zip(slots).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::budget::problem::{Problem, Run, Value};
    use crate::budget::sequence::model::Model;
    use crate::tuning::BudgetTuning;

    /// A wide value is made from a small one, and a kept result from the wide value. Two further results
    /// leave room for either the wide value or the kept result, but not for both.
    fn results_that_meet() -> Problem {
        let value = |(size, kept): (u64, bool)| Value { size, kept, ..Value::default() };
        let run = |reads: &[u32], writes: &[u32], cost: u64| Run {
            reads: reads.to_vec(),
            writes: writes.to_vec(),
            cost,
            repeatable: true,
            ..Run::default()
        };
        let values = [(1, false), (1000, false), (800, true), (1200, false), (100, true)].map(value).to_vec();
        let runs = vec![
            run(&[], &[0], 90),
            run(&[0], &[1], 5),
            run(&[1], &[2], 50),
            run(&[], &[3], 50),
            run(&[3], &[4], 50),
        ];
        Problem { runs, values, ..Problem::default() }
    }

    #[test]
    fn a_result_runs_late_if_no_absence_helps() {
        let problem = results_that_meet();
        let model = Model::new(&problem, &BudgetTuning::DEFAULT);
        let mut state = State::new(&model, &model.given());
        assert_eq!(state.peak(), 2100);
        assert!(reduce(&mut state, 1901, u64::MAX));
        // The wide value is recomputed for the result. Its small operand stays live, because recomputing
        // it takes longer.
        assert_eq!((state.sequence(), state.cost()), (vec![0, 1, 3, 4, 1, 2], 250));
        // A sequence whose cost reaches `dearest` is given up.
        assert!(!reduce(&mut State::new(&model, &model.given()), 1901, 250));
        assert!(reduce(&mut State::new(&model, &model.given()), 1901, 251));
        // The last results and their operands need 1,900 bytes by themselves.
        let mut state = State::new(&model, &model.given());
        assert!(!reduce(&mut state, 1899, u64::MAX));
    }

    #[test]
    fn runs_of_transferred_values_are_not_made_late() {
        let mut problem = results_that_meet();
        problem.spaces.push(crate::budget::problem::Space::default());
        problem.links.push(crate::budget::problem::Link {
            store_rate: 1,
            load_rate: 1,
            ..Default::default()
        });
        problem.values[1].movable = true;
        let model = Model::new(&problem, &BudgetTuning::DEFAULT);
        let mut sequence = model.given();
        assert!(reduce(&mut State::new(&model, &sequence), 1901, u64::MAX));
        let (stored, load) = model.moves[1].unwrap();
        [stored, load].into_iter().for_each(|operation| sequence.insert(2, operation));
        sequence.swap(2, 3);
        assert!(!reduce(&mut State::new(&model, &sequence), 1901, u64::MAX));
    }
}
