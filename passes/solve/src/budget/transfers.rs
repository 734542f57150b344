//! Transfers that hide behind compute: while the worst step is over the capacity, moves away a value
//! that is live there and unused for long.
//!
//! Each link has a calendar for each direction. A value can move if its store fits into the calendar
//! between its last use and the worst step, and its load fits between that step and the next use; the
//! transfer then costs no time. Stores take the first hole, loads the last one (as MAGIS does: stores as
//! early as possible, loads as late as they still hide).

use super::problem::{Origin, Problem};
use super::sequence::model::{Kind, Model};
use super::sequence::state::State;

/// Score of a value that may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Score {
    /// Time for which bytes are freed, divided by the link time of the transfer.
    Longest,
    /// The score `Longest`, times the cost to recompute the value.
    Dearest,
}

/// Busy intervals of an engine, sorted, without overlap.
#[derive(Clone, Debug, Default)]
struct Calendar(Vec<(u64, u64)>);

impl Calendar {
    /// Returns the begin of the first free interval of a length that begins at or after `from`.
    fn first(&self, from: u64, length: u64) -> u64 {
        let mut begin = from;
        for &(taken, free) in &self.0[self.0.partition_point(|(_, end)| *end <= from)..] {
            if begin.saturating_add(length) <= taken {
                break;
            }
            begin = begin.max(free);
        }
        begin
    }

    /// Returns the begin of the last free interval of a length that ends at or before `to`; `None` if
    /// there is none.
    fn last(&self, to: u64, length: u64) -> Option<u64> {
        let mut end = to;
        for &(taken, free) in self.0[..self.0.partition_point(|(begin, _)| *begin < to)].iter().rev() {
            if end >= free.saturating_add(length) {
                break;
            }
            end = end.min(taken);
        }
        end.checked_sub(length)
    }

    fn take(&mut self, begin: u64, length: u64) {
        let place = self.0.partition_point(|(other, _)| *other < begin);
        self.0.insert(place, (begin, begin.saturating_add(length)));
    }
}

/// A run in its slot, with its times if nothing waits.
#[derive(Clone, Copy)]
struct Timed {
    slot: u32,
    start: u64,
    end: u64,
}

/// A transfer that frees bytes at the worst step.
#[derive(Clone, Copy)]
struct Move {
    value: u32,
    link: usize,
    store: Option<(u64, u64)>,
    load: (u64, u64),
    /// The bytes are free during the runs `first..last`.
    first: usize,
    last: usize,
    score: f64,
}

struct Planner<'p, 's, 'm> {
    problem: &'p Problem,
    state: &'s mut State<'m>,
    score: Score,
    runs: Vec<Timed>,
    /// For each link, the calendars of stores and of loads.
    calendars: Vec<[Calendar; 2]>,
    /// Remaining capacity of each farther space, in bytes; `None` for no limit.
    left: Vec<Option<u64>>,
    stored: Vec<bool>,
}

/// More bytes than any sum; subtracting them excludes a slot from the search for the worst slot.
const ASIDE: i64 = 1 << 61;

/// Moves values away until the capacity holds or no hidden transfer helps. O(transfers x (values + runs)
/// log slots).
pub(super) fn hide(problem: &Problem, state: &mut State, capacity: i64, score: Score) {
    let runs = timed(state);
    let model = state.model;
    let far = |space: usize| {
        let lies = |value: &&super::problem::Value| value.origin == Origin::Far(space as u32);
        problem.values.iter().filter(lies).map(|value| value.size).sum::<u64>()
    };
    let left = problem
        .spaces
        .iter()
        .enumerate()
        .map(|(space, data)| data.capacity.map(|most| most.saturating_sub(far(space))));
    let mut planner = Planner {
        problem,
        score,
        runs,
        calendars: vec![[Calendar::default(), Calendar::default()]; problem.links.len()],
        left: left.collect(),
        stored: vec![false; model.values()],
        state,
    };
    // Slots that no transfer relieves are set aside, and restored at the end.
    let mut stuck = Vec::new();
    while planner.state.peak() > capacity {
        let worst = planner.state.tree.peak();
        if !planner.relieve(worst) {
            planner.state.tree.add(worst, worst, -ASIDE);
            stuck.push(worst);
        }
    }
    for slot in stuck {
        planner.state.tree.add(slot, slot, ASIDE);
    }
}

/// Returns the runs in their slots, executed one after the other.
fn timed(state: &State) -> Vec<Timed> {
    let mut now = 0_u64;
    let mut runs = Vec::with_capacity(state.count());
    for slot in 0..state.end() {
        let operation = state.operation(slot);
        if (operation as usize) < state.model.runs {
            let start = now;
            now = now.saturating_add(state.model.costs[operation as usize]);
            runs.push(Timed { slot, start, end: now });
        }
    }
    runs
}

impl Planner<'_, '_, '_> {
    /// Frees bytes at a slot; `false` if no hidden transfer does.
    fn relieve(&mut self, worst: u32) -> bool {
        let place = self.runs.partition_point(|run| run.slot < worst);
        if self.runs.get(place).is_none_or(|run| run.slot != worst) {
            return false;
        }
        let values = 0..self.state.model.values() as u32;
        let moves = values.filter_map(|value| self.option(value, worst, place));
        let best = moves.max_by(|one, two| one.score.total_cmp(&two.score).then(two.value.cmp(&one.value)));
        best.is_some_and(|best| self.apply(best))
    }

    /// Returns the transfer of a value that frees bytes at a slot; `None` if the value is not live
    /// across the slot or no transfer hides.
    fn option(&self, value: u32, worst: u32, place: usize) -> Option<Move> {
        let (stored_operation, load_operation) = self.state.model.moves[value as usize]?;
        let (start, last) = self.state.copy_at(value, worst)?;
        let used = self.state.used(value);
        let next = used.partition_point(|slot| *slot <= worst);
        if last <= worst || (next > 0 && used[next - 1] == worst) {
            return None;
        }
        let Kind::Load { link, .. } = self.state.model.kinds[load_operation as usize] else { return None };
        let way = &self.problem.links[link as usize];
        let size = self.problem.values[value as usize].size;
        let (previous, next_use) =
            (next.checked_sub(1).map_or(start, |index| used[index].max(start)), used[next]);
        let after = self.runs.partition_point(|run| run.slot <= previous);
        // An operand can leave while its last reader executes; a result only when its maker ends.
        let ready = after
            .checked_sub(1)
            .map_or(0, |run| if previous == start { self.runs[run].end } else { self.runs[run].start });
        // Find the store, unless the value was stored before.
        let store = (!self.stored[value as usize]).then(|| {
            let length = way.store_latency.saturating_add(size.div_ceil(way.store_rate));
            (self.calendars[link as usize][0].first(ready, length), length)
        });
        if store.is_some() && self.left[way.space as usize].is_some_and(|left| left < size) {
            return None;
        }
        let gone = match store {
            Some((begin, length)) => begin.saturating_add(length),
            None => {
                let arrived =
                    self.state.slots_of(stored_operation).first().copied().filter(|slot| *slot < worst)?;
                let run = self.runs.partition_point(|run| run.slot <= arrived).max(after);
                run.checked_sub(1).map_or(0, |run| self.runs[run].end)
            }
        };
        // Find the load that ends before the next use.
        let length = way.load_latency.saturating_add(size.div_ceil(way.load_rate));
        let needed = self.runs.partition_point(|run| run.slot < next_use);
        let until = self.runs.get(needed).or(self.runs.last())?.start;
        let begin = self.calendars[link as usize][1].last(until, length).filter(|begin| *begin >= gone)?;
        let first = self.runs.partition_point(|run| run.start < gone).max(after);
        let issued = self
            .runs
            .partition_point(|run| run.start <= begin)
            .saturating_sub(1)
            .min(needed.saturating_sub(1));
        if first > place || issued <= place {
            return None;
        }
        let freed = self.runs[issued - 1].end.saturating_sub(self.runs[first].start) as f64;
        let link_time = (length + store.map_or(0, |(_, length)| length)) as f64;
        let again = match self.score {
            Score::Longest => 1.0,
            Score::Dearest => self.again(value),
        };
        let score = (1.0 + freed) * again / (1.0 + link_time);
        Some(Move { value, link: link as usize, store, load: (begin, length), first, last: issued, score })
    }

    /// Returns the least cost to recompute a value; a value that cannot be recomputed costs more than
    /// any other.
    fn again(&self, value: u32) -> f64 {
        let model: &Model = self.state.model;
        match model.makers.of(value).first() {
            Some(&maker) if model.repeatable[maker as usize] => model.costs[maker as usize] as f64 + 1.0,
            _ => 1e18,
        }
    }

    fn apply(&mut self, chosen: Move) -> bool {
        let Some((stored, load)) = self.state.model.moves[chosen.value as usize] else { return false };
        let before = |planner: &Self, run: usize| {
            let low = run.checked_sub(1).map_or(0, |other| planner.runs[other].slot);
            planner.state.free_before(planner.runs[run].slot, low)
        };
        let Some(load_slot) = before(self, chosen.last) else { return false };
        let store_slot = chosen.store.and_then(|_| before(self, chosen.first));
        if chosen.store.is_some() && store_slot.is_none() {
            return false;
        }
        if let (Some(slot), Some((begin, length))) = (store_slot, chosen.store) {
            self.state.insert(stored, slot);
            self.calendars[chosen.link][0].take(begin, length);
            self.stored[chosen.value as usize] = true;
            let space = self.problem.links[chosen.link].space as usize;
            if let Some(left) = &mut self.left[space] {
                *left = left.saturating_sub(self.problem.values[chosen.value as usize].size);
            }
        }
        self.state.insert(load, load_slot);
        self.calendars[chosen.link][1].take(chosen.load.0, chosen.load.1);
        true
    }
}

/// Moves each load to the slot at which it just hides, or as far toward that slot as the capacity
/// allows. O(loads x runs log slots).
pub(super) fn hoist(problem: &Problem, state: &mut State, capacity: i64) {
    let runs = timed(state);
    let model = state.model;
    let is_load = |operation: u32| matches!(model.kinds[operation as usize], Kind::Load { .. });
    let loads = (model.runs as u32..model.operations() as u32).filter(|operation| is_load(*operation));
    let mut placed: Vec<(u32, u32, u32)> = Vec::new();
    for operation in loads {
        let Kind::Load { value, .. } = model.kinds[operation as usize] else { continue };
        placed.extend(
            state.slots_of(operation).iter().map(|slot| (state.next_used(value, *slot), *slot, operation)),
        );
    }
    // Place the load that is needed last first: it takes the last interval.
    placed.sort_unstable();
    let mut calendars = vec![Calendar::default(); problem.links.len()];
    for (needed, slot, operation) in placed.into_iter().rev() {
        let Kind::Load { value, link } = model.kinds[operation as usize] else { continue };
        let way = &problem.links[link as usize];
        let length =
            way.load_latency.saturating_add(problem.values[value as usize].size.div_ceil(way.load_rate));
        let until = runs
            .get(runs.partition_point(|run| run.slot < needed))
            .or(runs.last())
            .map_or(0, |run| run.start);
        let begin = calendars[link as usize].last(until, length).unwrap_or(0);
        calendars[link as usize].take(begin, length);
        let used = state.used(value);
        let free_from = used[..used.partition_point(|other| *other < slot)].last().copied().unwrap_or(0);
        let issued = runs.partition_point(|run| run.start <= begin).saturating_sub(1);
        let fits = |run: &&Timed| {
            state.tree.top_of(run.slot, slot - 1).saturating_add(model.sizes[value as usize]) <= capacity
        };
        let earlier = runs[issued.min(runs.len())..]
            .iter()
            .take_while(|run| run.slot < slot)
            .filter(|run| run.slot > free_from);
        let Some(target) =
            earlier.into_iter().find(fits).and_then(|run| state.free_before(run.slot, free_from))
        else {
            continue;
        };
        state.remove(slot);
        state.insert(operation, target);
    }
}
