//! Recomputation where it pays most: while the worst step is over the capacity, the absence that lowers a soft maximum most for its cost.
//!
//! The soft maximum gives each step a weight that grows exponentially with its bytes: a price that says where memory is short, kept up to date with
//! each change (as in multiplicative weights for covering programs). What an absence is worth is what it takes off the sum of weights, with all that its
//! recomputation needs: operands that are made again too, or that live longer.

use std::collections::BTreeSet;

use super::edits::Edits;
use super::model::NONE;
use super::random::Random;
use super::state::State;

/// Operations in a chain of recomputations, at most.
const CHAIN: usize = 64;

/// Absences of the worst step that are tried at a time, at most.
const TRIED: usize = 32;

/// By how much a weight grows over a capacity's bytes: its logarithm.
const STEEPNESS: f64 = 40.0;

/// The largest logarithm of a weight.
const STEEPEST: f64 = 600.0;

/// A copy that lives over the worst slot and could be made again before its next use.
struct Absence {
    maker: u32,
    next_use: u32,
    /// What its absence would be worth if all that it needs were there, for its own cost.
    score: f64,
}

/// Where a chain is put, and what it is worth so far.
struct Aim {
    worst: u32,
    /// What the absence takes off the sum of weights, and what it costs.
    worth: f64,
    cost: f64,
}

/// By how much scores differ by chance where they do, either way.
const NOISE: f64 = 0.3;

/// Chance in the choice of absences, for searches.
pub(super) struct Whim {
    pub random: Random,
    /// Operations whose results are not made absent for themselves.
    pub banned: BTreeSet<u32>,
}

impl Whim {
    fn noise(&mut self) -> f64 {
        1.0 + NOISE * (2.0 * self.random.unit() - 1.0)
    }
}

/// Keeps the soft maximum of a state at the steepness that relief works with.
pub(super) fn soften(state: &mut State, capacity: i64) {
    let steepest = STEEPEST / state.peak().max(1) as f64;
    state.soften(capacity, (STEEPNESS / capacity.max(1) as f64).min(steepest));
}

/// Puts recomputations in until the capacity holds or nothing helps; says whether it holds.
///
/// O(absences x (values + tried chains) log slots).
pub(super) fn reduce(state: &mut State, capacity: i64) -> bool {
    let most = 8 * state.model.operations() + 64;
    let mut count = 0;
    // Where nothing helps, perhaps only free slots were missing.
    while state.peak() > capacity && state.count() > count {
        count = state.count();
        *state = State::new(state.model, &state.sequence());
        soften(state, capacity);
        let mut edits = Edits::default();
        while state.peak() > capacity && state.count() <= most && lower_peak(state, &mut edits, None) {
            edits.settle();
        }
    }
    state.harden();
    state.peak() <= capacity
}

/// Frees bytes at the worst slot of a softened state; `false` if nothing does. Not always in the best way, where there is a whim.
pub(super) fn lower_peak(state: &mut State, edits: &mut Edits, mut whim: Option<&mut Whim>) -> bool {
    let worst = state.tree.peak();
    let (level, weight) = (state.peak(), state.weight());
    let mut absences = absences(state, worst);
    if let Some(whim) = &mut whim {
        absences.retain(|absence| !whim.banned.contains(&absence.maker));
        absences.iter_mut().for_each(|absence| absence.score *= whim.noise());
    }
    absences.sort_by(|one, two| two.score.total_cmp(&one.score).then(one.maker.cmp(&two.maker)));
    let mut best: Option<(f64, Vec<(u32, u32)>)> = None;
    for absence in absences.iter().take(TRIED) {
        if best.as_ref().is_some_and(|(score, _)| *score >= absence.score) {
            break;
        }
        let mark = edits.mark();
        let cost = state.cost();
        let aim = Aim {
            worst,
            worth: absence.score * (state.model.costs[absence.maker as usize] as f64 + 1.0),
            cost: state.model.costs[absence.maker as usize] as f64,
        };
        let found = run_again(state, edits, absence.maker, absence.next_use, mark, &aim);
        let chain = edits.put_in_since(state, mark);
        if found && chain.len() < CHAIN {
            for chain in [sorted(state, &chain), chain] {
                edits.undo(state, mark);
                chain.iter().for_each(|(operation, slot)| edits.put_in(state, *operation, *slot));
                let worth = weight - state.weight();
                let noise = whim.as_mut().map_or(1.0, |whim| whim.noise());
                let score = noise * worth / ((state.cost() - cost) as f64 + 1.0);
                let helps = worth > 1e-9 * weight && state.tree.top_of(worst, worst) < level;
                if helps && best.as_ref().is_none_or(|(best, _)| score > *best) {
                    best = Some((score, chain));
                }
            }
        }
        edits.undo(state, mark);
    }
    let Some((_, chain)) = best else { return false };
    for (operation, slot) in chain {
        edits.put_in(state, operation, slot);
    }
    true
}

/// All copies that live over a slot and are neither made nor used there.
fn absences(state: &State, worst: u32) -> Vec<Absence> {
    let model = state.model;
    let mut found = Vec::new();
    for value in 0..model.values() as u32 {
        let Some(&maker) = model.makers.of(value).first().filter(|maker| model.repeatable[**maker as usize]) else {
            continue;
        };
        let Some((start, last)) = state.copy_at(value, worst) else { continue };
        // An operand that ends here may be taken over by a result.
        let is_used = state.next_used(value, worst.saturating_sub(1)) == worst;
        if last <= worst || (is_used && !model.is_taken[value as usize]) {
            continue;
        }
        let used = state.used(value);
        let next = used.partition_point(|slot| *slot <= worst);
        let next_use = used[next];
        let previous = next.checked_sub(1).map_or(start, |index| used[index].max(start));
        let worth = state.weight_of((previous + 1).min(worst), next_use - 1) * state.relief(model.sizes[value as usize]);
        found.push(Absence { maker, next_use, score: worth / (model.costs[maker as usize] as f64 + 1.0) });
    }
    found
}

/// Makes an operation run again right before a slot, with those of its operands that it pays not to let live until there; `false`, and nothing
/// changed, if that cannot be.
fn run_again(state: &mut State, edits: &mut Edits, operation: u32, before: u32, first: usize, aim: &Aim) -> bool {
    let model = state.model;
    if edits.mark() - first >= CHAIN || !model.repeatable[operation as usize] {
        return false;
    }
    let Some(slot) = state.free_before(before, aim.worst) else { return false };
    edits.put_in(state, operation, slot);
    for &value in model.reads.of(operation) {
        let Some((start, _)) = state.copy_at(value, slot) else { continue };
        let used = state.used(value);
        let place = used.partition_point(|other| *other < slot);
        let previous = place.checked_sub(1).map_or(start, |index| used[index].max(start));
        let next = used.get(place + 1).copied().unwrap_or(NONE);
        let lives_on = next != NONE && state.next_made(value, slot) > next;
        let Some(&maker) = model.makers.of(value).first().filter(|_| !lives_on && previous + 1 < slot) else { continue };
        let burden = state.weight_of(previous + 1, slot) * state.relief(model.sizes[value as usize]);
        let cost = model.costs[maker as usize] as f64;
        if burden * (aim.cost + cost + 1.0) > aim.worth * (cost + 1.0) {
            // If it cannot run again, it lives on.
            run_again(state, edits, maker, slot, first, aim);
        }
    }
    true
}

/// A chain in the order of first runs: what an operand needs runs before what needs it, and seldom lies around for longer than in that order.
fn sorted(state: &State, chain: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut operations: Vec<u32> = chain.iter().map(|(operation, _)| *operation).collect();
    let mut slots: Vec<u32> = chain.iter().map(|(_, slot)| *slot).collect();
    operations.sort_by_key(|operation| state.slots_of(*operation).first().copied());
    slots.sort_unstable();
    operations.into_iter().zip(slots).collect()
}
