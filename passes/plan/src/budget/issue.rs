//! Where in the order of nodes a load stands: before the run beside which it begins.
//!
//! The solver lets a load begin once the run listed before it has begun; a runtime issues nodes one after another, and the next one when a kernel
//! is done. So the node that loads stands before that run. A load that waits for its link stands at the run that is under way
//! when the link is free: its bytes are not taken earlier.

use memc_solve::budget::{Event, Problem};

/// The events with every load before the last run that has begun when it begins, and behind everything that touches an earlier copy of its
/// value. O(n log n).
pub(super) fn issue(problem: &Problem, events: &[Event]) -> Vec<Event> {
    let starts = starts(problem, events);
    let runs: Vec<usize> = (0..events.len()).filter(|index| matches!(events[*index], Event::Run(_))).collect();
    // For each position, the loads that go before it.
    let mut before: Vec<Vec<Event>> = vec![Vec::new(); events.len() + 1];
    // One past the last event so far that touches a value.
    let mut touched = vec![0usize; problem.values.len()];
    let next = next_readers(problem, events);
    for (index, event) in events.iter().enumerate() {
        match *event {
            Event::Load { value, .. } => {
                let begun = runs.partition_point(|run| starts[*run] <= starts[index]);
                let beside = begun.checked_sub(1).map_or(index, |last| runs[last]);
                let earliest = touched[value as usize];
                before[beside.min(next[index]).max(earliest)].push(*event);
                touched[value as usize] = index + 1;
            }
            Event::Store { value, .. } => touched[value as usize] = index + 1,
            Event::Run(run) => {
                let run = &problem.runs[run as usize];
                run.reads.iter().chain(&run.writes).for_each(|value| touched[*value as usize] = index + 1);
            }
        }
    }
    let mut ordered = Vec::with_capacity(events.len());
    for (loads, event) in before.iter().zip(events.iter().map(Some).chain([None])) {
        ordered.extend(loads);
        ordered.extend(event.filter(|event| !matches!(event, Event::Load { .. })));
    }
    ordered
}

/// When each event begins: runs on one engine, each direction of each link an engine of its own.
fn starts(problem: &Problem, events: &[Event]) -> Vec<u64> {
    let (mut free, mut begun) = (0u64, 0u64);
    let mut links = vec![[0u64; 2]; problem.links.len()];
    let (mut near, mut far) = (vec![0u64; problem.values.len()], vec![0u64; problem.values.len()]);
    let mut starts = Vec::with_capacity(events.len());
    for event in events {
        starts.push(match *event {
            Event::Run(index) => {
                let run = &problem.runs[index as usize];
                let ready = run.reads.iter().map(|value| near[*value as usize]).fold(free, u64::max);
                free = ready.saturating_add(run.cost);
                run.writes.iter().for_each(|value| near[*value as usize] = free);
                begun = ready;
                ready
            }
            Event::Store { value, link } => {
                let (way, engine) = (&problem.links[link as usize], &mut links[link as usize][0]);
                let start = (*engine).max(begun).max(near[value as usize]);
                let time = way.store_latency.saturating_add(problem.values[value as usize].size.div_ceil(way.store_rate));
                *engine = start.saturating_add(time);
                far[value as usize] = *engine;
                start
            }
            Event::Load { value, link } => {
                let (way, engine) = (&problem.links[link as usize], &mut links[link as usize][1]);
                let start = (*engine).max(begun).max(far[value as usize]);
                let time = way.load_latency.saturating_add(problem.values[value as usize].size.div_ceil(way.load_rate));
                *engine = start.saturating_add(time);
                near[value as usize] = *engine;
                start
            }
        });
    }
    starts
}

/// For each event that loads, the next run that reads the value.
fn next_readers(problem: &Problem, events: &[Event]) -> Vec<usize> {
    let mut reader = vec![events.len(); problem.values.len()];
    let mut next = vec![events.len(); events.len()];
    for (index, event) in events.iter().enumerate().rev() {
        match *event {
            Event::Run(run) => problem.runs[run as usize].reads.iter().for_each(|value| reader[*value as usize] = index),
            Event::Load { value, .. } => next[index] = reader[value as usize],
            Event::Store { .. } => {}
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use memc_solve::budget::{Link, Origin, Run, Space, Value};

    use super::*;

    /// A chain of runs of 10, each of which reads a weight that takes so long to load.
    fn chain(runs: u32, time: u64) -> Problem {
        let weight = Value { size: time, origin: Origin::Far(0), ..Value::default() };
        let run = |index: u32| Run {
            reads: std::iter::once(2 * index).chain(index.checked_sub(1).map(|before| 2 * before + 1)).collect(),
            writes: vec![2 * index + 1],
            cost: 10,
            ..Run::default()
        };
        Problem {
            runs: (0..runs).map(run).collect(),
            values: (0..runs).flat_map(|_| [weight.clone(), Value { size: 1, ..Value::default() }]).collect(),
            spaces: vec![Space::default()],
            links: vec![Link { store_rate: 1, load_rate: 1, ..Link::default() }],
        }
    }

    fn load(run: u32) -> Event {
        Event::Load { value: 2 * run, link: 0 }
    }

    #[test]
    fn a_load_stands_before_the_run_that_it_begins_with() {
        let listed = [load(0), Event::Run(0), load(1), Event::Run(1), load(2), Event::Run(2)];
        let issued = [load(0), load(1), Event::Run(0), load(2), Event::Run(1), Event::Run(2)];
        assert_eq!(issue(&chain(3, 5), &listed), issued);
    }

    #[test]
    fn a_load_that_waits_for_its_link_takes_no_bytes_before() {
        // All are listed at once: the third waits until the second is there, while run 0 is under way.
        let listed = [load(0), load(1), load(2), Event::Run(0), Event::Run(1), Event::Run(2)];
        let issued = [load(0), load(1), load(2), Event::Run(0), Event::Run(1), Event::Run(2)];
        assert_eq!(issue(&chain(3, 5), &listed), issued);
        // Each takes three runs: the second stands at its own reader, for which nothing is there to wait beside.
        let issued = issue(&chain(3, 12), &[load(0), load(1), load(2), Event::Run(0), Event::Run(1), Event::Run(2)]);
        assert_eq!(issued, [load(0), load(1), Event::Run(0), load(2), Event::Run(1), Event::Run(2)]);
    }

    #[test]
    fn a_load_stays_behind_who_reads_the_copy_before_it() {
        let problem = chain(2, 5);
        let listed = [load(0), Event::Run(0), load(0), load(1), Event::Run(1)];
        assert_eq!(issue(&problem, &listed), [load(0), load(1), Event::Run(0), load(0), Event::Run(1)]);
    }
}
