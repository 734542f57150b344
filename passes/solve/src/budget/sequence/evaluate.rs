//! Replays a sequence of events: returns the peaks of all spaces, the cost and the makespan. The search
//! is tested against this definition.

use super::model::{Model, NONE};
use crate::budget::problem::{Event, Origin, Plan, Problem};

/// Result of a replay, farther spaces included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::budget) struct Evaluated {
    pub plan: Plan,
    /// Whether the farther spaces keep their capacities.
    pub far_fits: bool,
}

/// Replays the events of a valid problem. Returns `None` if an event cannot happen, a run is missing, or
/// a run that may execute only once executes again.
///
/// Times follow the rules of [`Event`], with and without transfers. At one moment, ending events free
/// their bytes before starting events take theirs; an event without duration keeps its place in the
/// sequence. O(events log events + uses).
pub(in crate::budget) fn evaluate(problem: &Problem, model: &Model, events: &[Event]) -> Option<Evaluated> {
    let mut replay = Replay::new(problem, model);
    for (index, event) in events.iter().enumerate() {
        replay.step(index as u64, *event)?;
    }
    replay.ran[..problem.runs.len()].iter().all(|ran| *ran).then(|| replay.finish(events))
}

/// A time with its tie breakers: ends of events with a duration come first, then the order of the
/// sequence decides.
type Moment = (u64, u8, u64);

struct Copy {
    space: usize,
    value: u32,
    taken: Moment,
    last: Moment,
    /// Last event of the sequence that reads the copy. A store that is listed after a run may end before
    /// that run, and still forbids the run to overwrite the copy.
    reader: u64,
    ready: u64,
    /// Whether the copy stays to the end of the plan.
    stays: bool,
}

/// A run whose results may take over operands; the takeovers are decided once all readers are known.
struct Handover {
    run: u32,
    place: u64,
    end: Moment,
    /// Copies of the operands, and copies of the results.
    operands: Vec<u32>,
    results: Vec<u32>,
}

struct Replay<'a> {
    problem: &'a Problem,
    model: &'a Model,
    copies: Vec<Copy>,
    scratch: Vec<(Moment, Moment, u64)>,
    handovers: Vec<Handover>,
    /// Current copy of each value in each space; `NONE` if the space holds none.
    here: Vec<Vec<u32>>,
    free: Vec<u64>,
    issued: u64,
    ran: Vec<bool>,
    cost: u64,
    makespan: u64,
}

impl<'a> Replay<'a> {
    fn new(problem: &'a Problem, model: &'a Model) -> Self {
        let values = problem.values.len();
        let mut replay = Self {
            problem,
            model,
            copies: Vec::new(),
            scratch: Vec::new(),
            handovers: Vec::new(),
            here: vec![vec![NONE; values]; 1 + problem.spaces.len()],
            free: vec![0; 1 + 2 * problem.links.len()],
            issued: 0,
            ran: vec![false; problem.all_runs().count()],
            cost: 0,
            makespan: 0,
        };
        for (index, value) in problem.values.iter().enumerate() {
            let index = index as u32;
            match value.origin {
                Origin::Made => {}
                Origin::Near => drop(replay.appear(0, index, (0, 0, 0), 0, value.kept)),
                Origin::Far(space) => drop(replay.appear(1 + space as usize, index, (0, 0, 0), 0, true)),
            }
        }
        replay
    }

    fn appear(&mut self, space: usize, value: u32, taken: Moment, ready: u64, stays: bool) -> u32 {
        let index = self.copies.len() as u32;
        self.here[space][value as usize] = index;
        self.copies.push(Copy { space, value, taken, last: taken, reader: u64::MAX, ready, stays });
        index
    }

    /// Returns start and end of an event with these operands, and keeps the operands at least to the
    /// end.
    fn occupy(
        &mut self,
        place: u64,
        engine: usize,
        earliest: u64,
        length: u64,
        operands: &[u32],
    ) -> (Moment, Moment) {
        let ready = operands.iter().map(|copy| self.copies[*copy as usize].ready);
        let begin = ready.fold(self.free[engine].max(earliest), u64::max);
        let end = begin.saturating_add(length);
        let last = (end, u8::from(length == 0), 2 * place + 2);
        for &copy in operands {
            let copy = &mut self.copies[copy as usize];
            copy.last = copy.last.max(last);
            copy.reader = place;
        }
        self.free[engine] = end;
        self.makespan = self.makespan.max(end);
        ((begin, 1, 2 * place + 1), last)
    }

    fn step(&mut self, place: u64, event: Event) -> Option<()> {
        match event {
            Event::Run(run) => self.run(place, run),
            Event::Store { value, link } => self.transfer(place, value, link, true),
            Event::Load { value, link } => self.transfer(place, value, link, false),
        }
    }

    fn run(&mut self, place: u64, index: u32) -> Option<()> {
        let run = self.problem.run(index)?;
        let again = self.ran[index as usize];
        let waits = run.predecessors.iter().any(|other| !self.ran[*other as usize]);
        if (again && !self.model.repeatable[index as usize]) || waits {
            return None;
        }
        self.ran[index as usize] = true;
        let operands: Vec<u32> = run.reads.iter().map(|value| self.here[0][*value as usize]).collect();
        if operands.contains(&NONE) {
            return None;
        }
        let (begin, end) = self.occupy(place, 0, 0, run.cost, &operands);
        self.issued = begin.0;
        self.cost = self.cost.saturating_add(run.cost);
        if run.scratch > 0 {
            self.scratch.push((begin, end, run.scratch));
        }
        let mut results = Vec::with_capacity(run.writes.len());
        for &value in &run.writes {
            let copy = self.appear(0, value, begin, end.0, self.problem.values[value as usize].kept);
            self.copies[copy as usize].last = end;
            results.push(copy);
        }
        if run.writes.iter().any(|value| !self.problem.values[*value as usize].takes_over.is_empty()) {
            self.handovers.push(Handover { run: index, place, end, operands, results });
        }
        Some(())
    }

    fn transfer(&mut self, place: u64, value: u32, link: u32, stores: bool) -> Option<()> {
        let way = self.problem.links.get(link as usize)?;
        let data = self.problem.values.get(value as usize)?;
        let (far, engine) = (1 + way.space as usize, 1 + 2 * link as usize + usize::from(!stores));
        // A far value has its first copy in the farther space; a kept value cannot be stored.
        if !(data.movable || (!stores && matches!(data.origin, Origin::Far(_)))) || (stores && data.kept) {
            return None;
        }
        let (rate, latency) =
            if stores { (way.store_rate, way.store_latency) } else { (way.load_rate, way.load_latency) };
        let (from, to) = if stores { (0, far) } else { (far, 0) };
        let source = Some(self.here[from][value as usize]).filter(|copy| *copy != NONE)?;
        let length = latency.saturating_add(data.size.div_ceil(rate));
        let (begin, end) = self.occupy(place, engine, self.issued, length, &[source]);
        let copy = self.appear(to, value, begin, end.0, !stores && data.kept);
        self.copies[copy as usize].last = end;
        if stores {
            self.here[0][value as usize] = NONE;
        }
        Some(())
    }

    /// Decides which results take over an operand; those results take their bytes only when the run
    /// ends.
    fn hand_over(&mut self) {
        for handover in std::mem::take(&mut self.handovers) {
            let ends = |value: u32| {
                let ending = |copy: &&u32| self.copies[**copy as usize].value == value;
                let copy = handover.operands.iter().find(ending).map(|copy| &self.copies[*copy as usize]);
                copy.is_some_and(|copy| !copy.stays && copy.reader == handover.place)
            };
            for taker in self.model.takers(handover.run, ends) {
                for &result in &handover.results {
                    if self.copies[result as usize].value == taker {
                        self.copies[result as usize].taken = handover.end;
                    }
                }
            }
        }
    }

    fn finish(mut self, events: &[Event]) -> Evaluated {
        self.hand_over();
        // Order of changes at one moment: frees, then allocations, then frees of bytes that were
        // allocated at this moment.
        let mut changes: Vec<(Moment, u8, usize, i64)> = Vec::with_capacity(2 * self.copies.len());
        for copy in &self.copies {
            let size = self.model.sizes[copy.value as usize];
            changes.push((copy.taken, 1, copy.space, size));
            if !copy.stays {
                changes.push((copy.last, if copy.taken == copy.last { 2 } else { 0 }, copy.space, -size));
            }
        }
        for &(begin, end, bytes) in &self.scratch {
            changes.push((begin, 1, 0, bytes as i64));
            changes.push((end, 0, 0, -(bytes as i64)));
        }
        changes.sort_unstable();
        let mut held = vec![(0_i64, 0_i64); self.here.len()];
        for (_, _, space, bytes) in changes {
            let (now, most) = &mut held[space];
            *now += bytes;
            *most = (*now).max(*most);
        }
        let fits = |(space, (_, most)): (&crate::budget::problem::Space, &(i64, i64))| {
            space.capacity.is_none_or(|capacity| *most as u64 <= capacity)
        };
        let far_fits = self.problem.spaces.iter().zip(&held[1..]).all(fits);
        let plan = Plan {
            events: events.to_vec(),
            peak: held[0].1 as u64,
            cost: self.cost,
            makespan: self.makespan,
        };
        Evaluated { plan, far_fits }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::budget::check::measure;
    use crate::budget::problem::{Link, Run, Space, Value};
    use crate::tuning::BudgetTuning;

    #[test]
    fn a_value_that_a_later_store_reads_is_not_overwritten() {
        let run = |reads: &[u32], writes: &[u32], cost| Run {
            reads: reads.to_vec(),
            writes: writes.to_vec(),
            cost,
            ..Run::default()
        };
        let value = |takes_over: &[u32]| Value {
            size: 5,
            movable: true,
            takes_over: takes_over.to_vec(),
            ..Value::default()
        };
        let problem = Problem {
            runs: vec![run(&[], &[0], 1), run(&[0], &[1], 100), run(&[0, 1], &[], 1)],
            values: vec![value(&[]), value(&[0])],
            spaces: vec![Space::default()],
            links: vec![Link { store_rate: 5, load_rate: 5, ..Link::default() }],
            ..Problem::default()
        };
        // The store begins with run 1 and ends long before it.
        let (store, load) = (Event::Store { value: 0, link: 0 }, Event::Load { value: 0, link: 0 });
        let events = [Event::Run(0), Event::Run(1), store, load, Event::Run(2)];
        let found = evaluate(&problem, &Model::new(&problem, &BudgetTuning::DEFAULT), &events).unwrap();
        assert_eq!(found.plan, measure(&problem, &events).unwrap());
        assert!(found.plan.peak >= 10);
    }
}
