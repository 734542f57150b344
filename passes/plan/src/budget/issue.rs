//! Positions of loads in the order of nodes: each load stands before the run during which it begins.
//!
//! The solver lets a load begin once the previous run in the list has begun. A runtime issues nodes one
//! after another, and issues the next node when a kernel is done. So the node of the load stands before
//! that run. A load that waits for its link stands before the run in progress when the link becomes
//! free: the load takes no bytes earlier.

use memc_solve::budget::{Event, Problem, Run};

/// Moves every load before the last run that has begun when the load begins, but after every event that
/// touches an earlier copy of its value. Takes O(n log n).
pub(super) fn issue(problem: &Problem, events: &[Event]) -> Vec<Event> {
    let starts = starts(problem, events);
    let runs: Vec<usize> =
        (0..events.len()).filter(|index| matches!(events[*index], Event::Run(_))).collect();
    // By position: the loads to insert before it.
    let mut before: Vec<Vec<Event>> = vec![Vec::new(); events.len() + 1];
    // By value: one past the last event so far that touches it.
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
                let Some(run) = problem.run(run) else { continue };
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

/// Computes the start time of each event: runs share one engine, and each direction of each link is an
/// engine of its own.
fn starts(problem: &Problem, events: &[Event]) -> Vec<u64> {
    let (mut free, mut begun) = (0u64, 0u64);
    let mut links = vec![[0u64; 2]; problem.links.len()];
    let (mut near, mut far) = (vec![0u64; problem.values.len()], vec![0u64; problem.values.len()]);
    let mut starts = Vec::with_capacity(events.len());
    let none = Run::default();
    for event in events {
        starts.push(match *event {
            Event::Run(index) => {
                let run = problem.run(index).unwrap_or(&none);
                let ready = run.reads.iter().map(|value| near[*value as usize]).fold(free, u64::max);
                free = ready.saturating_add(run.cost);
                run.writes.iter().for_each(|value| near[*value as usize] = free);
                begun = ready;
                ready
            }
            Event::Store { value, link } => {
                let (way, engine) = (&problem.links[link as usize], &mut links[link as usize][0]);
                let start = (*engine).max(begun).max(near[value as usize]);
                let time = way
                    .store_latency
                    .saturating_add(problem.values[value as usize].size.div_ceil(way.store_rate));
                *engine = start.saturating_add(time);
                far[value as usize] = *engine;
                start
            }
            Event::Load { value, link } => {
                let (way, engine) = (&problem.links[link as usize], &mut links[link as usize][1]);
                let start = (*engine).max(begun).max(far[value as usize]);
                let time = way
                    .load_latency
                    .saturating_add(problem.values[value as usize].size.div_ceil(way.load_rate));
                *engine = start.saturating_add(time);
                near[value as usize] = *engine;
                start
            }
        });
    }
    starts
}

/// Returns, by event that loads, the position of the next run that reads the value.
fn next_readers(problem: &Problem, events: &[Event]) -> Vec<usize> {
    let mut reader = vec![events.len(); problem.values.len()];
    let mut next = vec![events.len(); events.len()];
    for (index, event) in events.iter().enumerate().rev() {
        match *event {
            Event::Run(run) => {
                let reads = problem.run(run).into_iter().flat_map(|run| &run.reads);
                reads.for_each(|value| reader[*value as usize] = index);
            }
            Event::Load { value, .. } => next[index] = reader[value as usize],
            Event::Store { .. } => {}
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use memc_solve::budget::{Link, Origin, Space, Value};

    use super::*;

    /// A chain of runs of 10 time units; each run reads a weight that loads for `time` units.
    fn chain(runs: u32, time: u64) -> Problem {
        let weight = Value { size: time, origin: Origin::Far(0), ..Value::default() };
        let run = |index: u32| Run {
            reads: std::iter::once(2 * index)
                .chain(index.checked_sub(1).map(|before| 2 * before + 1))
                .collect(),
            writes: vec![2 * index + 1],
            cost: 10,
            ..Run::default()
        };
        Problem {
            runs: (0..runs).map(run).collect(),
            values: (0..runs).flat_map(|_| [weight.clone(), Value { size: 1, ..Value::default() }]).collect(),
            spaces: vec![Space::default()],
            links: vec![Link { store_rate: 1, load_rate: 1, ..Link::default() }],
            ..Problem::default()
        }
    }

    fn load(run: u32) -> Event {
        Event::Load { value: 2 * run, link: 0 }
    }

    #[test]
    fn a_load_is_listed_before_the_run_that_starts_with_it() {
        let listed = [load(0), Event::Run(0), load(1), Event::Run(1), load(2), Event::Run(2)];
        let issued = [load(0), load(1), Event::Run(0), load(2), Event::Run(1), Event::Run(2)];
        assert_eq!(issue(&chain(3, 5), &listed), issued);
    }

    #[test]
    fn a_load_that_waits_for_its_link_takes_no_bytes_before() {
        // All are listed at once: the third waits until the second has arrived, while run 0 is in
        // progress.
        let listed = [load(0), load(1), load(2), Event::Run(0), Event::Run(1), Event::Run(2)];
        let issued = [load(0), load(1), load(2), Event::Run(0), Event::Run(1), Event::Run(2)];
        assert_eq!(issue(&chain(3, 5), &listed), issued);
        // Each load takes longer than a run: the third begins with run 1, when the link becomes free.
        let issued =
            issue(&chain(3, 12), &[load(0), load(1), load(2), Event::Run(0), Event::Run(1), Event::Run(2)]);
        assert_eq!(issued, [load(0), load(1), Event::Run(0), load(2), Event::Run(1), Event::Run(2)]);
    }

    #[test]
    fn a_load_stays_behind_readers_of_the_previous_copy() {
        let problem = chain(2, 5);
        let listed = [load(0), Event::Run(0), load(0), load(1), Event::Run(1)];
        assert_eq!(issue(&problem, &listed), [load(0), load(1), Event::Run(0), load(0), Event::Run(1)]);
    }
}
