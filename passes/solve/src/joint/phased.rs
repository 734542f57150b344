//! Phased programs: two programs that run at once, each again and again, at the shift that needs the fewest
//! bytes, with the waits that keep their bytes apart.

use super::problem::{Answer, Part, Placed};
use super::shape::{Extent, buffer};
use crate::place::{self, ProblemError};
use crate::{Limit, Outcome, StopReason};

/// Number of shifts of a period that are compared at first.
const SHIFTS: u64 = 512;

/// Number of shifts around the best one that are compared then.
const NEAR: u64 = 32;

/// Largest number of runs of the shorter program in a period.
const MAX_RUNS: u64 = 64;

/// Largest number of positions that repeated runs may give a period.
const MAX_POSITIONS: u64 = 1 << 20;

/// Two programs with the durations of their steps, in any unit; steps of an empty list are equally long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phased {
    /// The programs.
    pub parts: [Part; 2],
    /// Durations of the steps.
    pub times: [Vec<u64>; 2],
}

/// Begins and ends of all steps of both programs on the circle of one period.
///
/// A position is a step of a program within a period, counted over its runs. Each begin of a position, and
/// the end of the last one, has a rank of its own: no two events are at once, and each step takes at least
/// the time from one rank to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Runs of each program in a period.
    pub runs: [u32; 2],
    /// Length of the period: that of the runs of the longer program.
    pub period: u64,
    /// Time from the begin of the first program's period to that of the second one.
    pub shift: u64,
    /// Most bytes in use at once at the durations of the steps: no placement for this phase is smaller.
    pub load: u64,
    /// Number of ranks in a period.
    circle: u64,
    /// Rank of the begin of each position, and of the end of the last one, counted through periods.
    ranks: [Vec<u64>; 2],
}

/// A step of one program that begins only when a step of the other one has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wait {
    /// Program whose step must end.
    pub after: usize,
    /// Position of that step in its period.
    pub ends: u32,
    /// Position of the step of the other program that waits.
    pub begins: u32,
    /// Period of the step that waits, counted from that of the other one.
    pub periods_later: i64,
}

impl Phased {
    /// Chooses the shift of the second program with the lowest peak of both. The shorter program runs as
    /// often in a period as the longer one leaves time for, and then rests. O(shifts · positions log
    /// positions).
    #[must_use]
    pub fn phase(&self) -> Phase {
        let whole = [0, 1].map(|at: usize| {
            let times = (0..self.parts[at].steps).map(|step| self.time(at, step));
            times.fold(0_u64, u64::saturating_add).max(1)
        });
        let period = whole[0].max(whole[1]);
        let runs = [0, 1].map(|at: usize| {
            // A program without steps would run for ever.
            let most = MAX_POSITIONS
                .checked_div(u64::from(self.parts[at].steps))
                .map_or(1, |most| most.min(MAX_RUNS));
            u32::try_from((period / whole[at]).min(most)).unwrap_or(1).max(1)
        });
        let loads = [self.parts[0].loads(), self.parts[1].loads()];
        let phase = |shift: u64| {
            let mut phase = self.at(runs, period, shift, &loads);
            phase.load = phase.peak(&loads);
            phase
        };
        let grid = |number: u64, parts: u64| {
            u64::try_from(u128::from(period) * u128::from(number) / u128::from(parts)).unwrap_or(0)
        };
        let first = (0..SHIFTS).map(|number| phase(grid(number, SHIFTS)));
        // Of equal peaks the smallest shift.
        let best = first.min_by_key(|phase| (phase.load, phase.shift)).unwrap_or_else(|| phase(0));
        let width = period / SHIFTS;
        let near = (1..NEAR).flat_map(|number| {
            let step = u64::try_from(u128::from(width) * u128::from(number) / u128::from(NEAR)).unwrap_or(0);
            [best.shift.saturating_add(step) % period, best.shift.saturating_add(period - step) % period]
        });
        near.map(phase).chain([best.clone()]).min_by_key(|phase| (phase.load, phase.shift)).unwrap_or(best)
    }

    fn time(&self, program: usize, step: u32) -> u64 {
        let times = &self.times[program];
        times.get(step as usize).copied().unwrap_or(u64::from(times.is_empty()))
    }

    /// The phase of a shift, without its load. Of events at one time, those that free bytes come first.
    fn at(&self, runs: [u32; 2], period: u64, shift: u64, loads: &[Vec<u64>; 2]) -> Phase {
        let mut events: Vec<Event> = Vec::new();
        for program in 0..2 {
            let (mut now, mut position, mut held) = (if program == 0 { 0 } else { shift }, 0_u32, 0);
            for run in 0..=runs[program] {
                let is_over = run == runs[program];
                for step in if is_over { 0..1 } else { 0..self.parts[program].steps } {
                    let load =
                        if is_over { 0 } else { loads[program].get(step as usize).copied().unwrap_or(0) };
                    let lap = now / period;
                    // What a period leaves behind ends before the next one begins.
                    let key = (now % period, program, lap == 0, position);
                    events.push(Event { key, lap, more: i128::from(load) - i128::from(held) });
                    now = now.saturating_add(self.time(program, step));
                    position += 1;
                    held = load;
                }
            }
        }
        // Few ascending runs, which a stable sort merges.
        events.sort_by_key(|event| event.key);
        let circle = events.len() as u64;
        let mut ranks = [0, 1]
            .map(|program: usize| vec![0; events.iter().filter(|event| event.key.1 == program).count()]);
        let mut place = 0;
        for at_one_time in events.chunk_by(|one, other| one.key.0 == other.key.0) {
            let (mut one, mut other) =
                at_one_time.split_at(at_one_time.partition_point(|event| event.key.1 == 0));
            while let Some(next) = first_of(&mut one, &mut other) {
                ranks[next.key.1][next.key.3 as usize] = next.lap * circle + place;
                place += 1;
            }
        }
        Phase { runs, period, shift, load: 0, circle, ranks }
    }

    /// Places both programs for a phase: anew, or with `keep` (and for rigid programs) each as a whole. Bytes
    /// of one program are used again by the other one where the phase lets them. If that saves nothing, the
    /// programs lie side by side, and need no waits.
    ///
    /// # Errors
    /// The buffers are no placement problem.
    pub fn place(&self, phase: &Phase, keep: bool, limit: &Limit) -> Result<Outcome<Answer>, ProblemError> {
        let aside = self.aside();
        let bound = self.parts[0].bound().max(self.parts[1].bound());
        let mut buffers = Vec::new();
        for (program, part) in self.parts.iter().enumerate() {
            if keep || part.is_rigid {
                buffers.push(buffer(
                    &phase.turned(program, part.steps, &part.extents()),
                    part.size,
                    part.alignment,
                ));
            } else {
                let own = |placed: &Placed| {
                    buffer(&phase.turned(program, part.steps, &placed.extents), placed.size, placed.alignment)
                };
                buffers.extend(part.buffers.iter().map(own));
            }
        }
        let outcome = place::solve(&place::Problem { buffers, capacity: None }, limit)?;
        let mut places = outcome.solution.map(|solution| solution.offsets).unwrap_or_default().into_iter();
        let offsets = [0, 1].map(|program: usize| {
            let part = &self.parts[program];
            if keep || part.is_rigid {
                let base = places.next().unwrap_or(0);
                part.buffers.iter().map(|placed| placed.offset.saturating_add(base)).collect()
            } else {
                places.by_ref().take(part.buffers.len()).collect::<Vec<u64>>()
            }
        });
        let found =
            Answer { is_kept: keep, bases: vec![0; 2], size: self.top(&offsets), offsets: offsets.into() };
        let is_moved = found.size < aside.size;
        let answer = if is_moved { found } else { aside };
        let stop = if answer.size <= bound { StopReason::BoundReached } else { outcome.stop };
        Ok(Outcome {
            value: Some(answer.size),
            solution: Some(answer),
            lower_bound: bound,
            stop,
            effort: outcome.effort,
        })
    }

    /// Both programs side by side, each at its own offsets.
    fn aside(&self) -> Answer {
        let alignment = self.parts[0].alignment.max(self.parts[1].alignment).max(1);
        let base = self.parts[0].size.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
        let moved = |part: &Part, base: u64| {
            part.buffers.iter().map(|placed| placed.offset.saturating_add(base)).collect()
        };
        let offsets: [Vec<u64>; 2] = [moved(&self.parts[0], 0), moved(&self.parts[1], base)];
        Answer { is_kept: true, bases: vec![0, base], size: self.top(&offsets), offsets: offsets.into() }
    }

    fn top(&self, offsets: &[Vec<u64>; 2]) -> u64 {
        let all = self.parts.iter().zip(offsets).flat_map(|(part, offsets)| part.buffers.iter().zip(offsets));
        let tops = all.map(|(placed, offset)| offset.saturating_add(placed.size));
        tops.max().unwrap_or(0)
    }

    /// Returns the waits that keep the bytes of both programs apart at these offsets, in any time: for each
    /// program and each end of a position the earliest position of the other one that must wait for it, as
    /// far as no later end says as much. Positions of one use follow the phase. O(pairs of extents that share
    /// a byte · runs of both).
    #[must_use]
    pub fn waits(&self, phase: &Phase, answer: &Answer) -> Vec<Wait> {
        let lengths = [0, 1]
            .map(|program: usize| i64::from(self.parts[program].steps) * i64::from(phase.runs[program]));
        let mut soonest = lengths.map(|length| vec![i64::MAX; usize::try_from(length).unwrap_or(0)]);
        let extents = [0, 1].map(|program: usize| {
            let offsets = answer.offsets.get(program).map_or(&[][..], Vec::as_slice);
            let placed = self.parts[program].buffers.iter().zip(offsets);
            let mut all: Vec<Extent> = placed.flat_map(|(placed, offset)| placed.at(*offset)).collect();
            all.retain(|extent| extent.start < extent.end && extent.low < extent.high);
            all.sort_unstable_by_key(|extent| (extent.low, extent.high, extent.start));
            all
        });
        for one in &extents[0] {
            let below = extents[1].partition_point(|other| other.low < one.high);
            for other in extents[1][..below].iter().filter(|other| other.high > one.low) {
                self.apart(phase, (one, other), &mut soonest);
            }
        }
        let mut waits = Vec::new();
        for after in 0..2 {
            let (length, all) = (lengths[1 - after].max(1), &soonest[after]);
            // The waits of the next period come behind those of this one.
            let next = all.iter().copied().min().unwrap_or(i64::MAX);
            let mut best = next.saturating_add(length);
            for (ends, begins) in all.iter().enumerate().rev().filter(|(_, begins)| **begins < i64::MAX) {
                if *begins < best {
                    best = *begins;
                    let (periods_later, begins) = (begins.div_euclid(length), begins.rem_euclid(length));
                    waits.push(Wait {
                        after,
                        ends: ends as u32,
                        begins: u32::try_from(begins).unwrap_or(0),
                        periods_later,
                    });
                }
            }
        }
        waits.sort_unstable();
        waits
    }

    /// Orders the uses of bytes of both programs, in all runs, as the phase has them.
    fn apart(&self, phase: &Phase, (one, other): (&Extent, &Extent), soonest: &mut [Vec<i64>; 2]) {
        let circle = phase.circle.max(1) as i64;
        let uses = |program: usize, extent: &Extent| {
            let steps = self.parts[program].steps;
            let (start, end) = (extent.start, extent.end.min(steps));
            (0..phase.runs[program])
                .map(move |run| (run * steps + start, run * steps + end))
                .collect::<Vec<_>>()
        };
        let theirs = uses(1, other);
        for (start, end) in uses(0, one) {
            for (from, to) in &theirs {
                let rank = |program: usize, position: u32| phase.ranks[program][position as usize] as i64;
                let mut wait = |after: usize, (ends, ended): (u32, i64), (begins, begun): (u32, i64)| {
                    let length = i64::from(self.parts[1 - after].steps) * i64::from(phase.runs[1 - after]);
                    // The first period in which the use begins at this rank or later.
                    let period = -(begun - ended).div_euclid(circle);
                    let place = &mut soonest[after][ends as usize - 1];
                    *place = (*place).min(i64::from(begins) + period * length);
                };
                wait(0, (end, rank(0, end)), (*from, rank(1, *from)));
                wait(1, (*to, rank(1, *to)), (start, rank(0, start)));
            }
        }
    }
}

/// A begin or an end of a step on the circle.
struct Event {
    /// Time in the period, program, whether it is in the period of its position, and the position.
    key: (u64, usize, bool, u32),
    /// Periods since that of the position.
    lap: u64,
    /// Bytes that the program uses more from now on; negative if it frees some.
    more: i128,
}

/// Takes the first event of one of two lists: of the one that frees more, or uses less.
fn first_of<'e>(one: &mut &'e [Event], other: &mut &'e [Event]) -> Option<&'e Event> {
    let is_other = match (one.first(), other.first()) {
        (Some(a), Some(b)) => b.more < a.more,
        (one, _) => one.is_none(),
    };
    let list = if is_other { other } else { one };
    let (first, rest) = list.split_first()?;
    *list = rest;
    Some(first)
}

impl Phase {
    /// Most bytes in use at once.
    fn peak(&self, loads: &[Vec<u64>; 2]) -> u64 {
        let mut events: Vec<(u64, usize, u64)> = Vec::new();
        for (program, (ranks, loads)) in self.ranks.iter().zip(loads).enumerate() {
            for (position, rank) in ranks.iter().enumerate() {
                let is_over = position + 1 == ranks.len() || loads.is_empty();
                let load = if is_over { 0 } else { loads[position % loads.len()] };
                events.push((rank % self.circle.max(1), program, load));
            }
        }
        events.sort();
        // Once around to know what is in use where the circle begins.
        let (mut now, mut most) = ([0_u64; 2], 0);
        for (number, (_, program, load)) in events.iter().chain(&events).enumerate() {
            now[*program] = *load;
            if number >= events.len() {
                most = most.max(now[0].saturating_add(now[1]));
            }
        }
        most
    }

    /// Extents of a program on the circle: steps become ranks, in each run.
    fn turned(&self, program: usize, steps: u32, extents: &[Extent]) -> Vec<Extent> {
        let mut found = Vec::new();
        let circle = self.circle.max(1);
        for run in 0..self.runs[program] {
            for extent in extents.iter().filter(|extent| extent.start < extent.end) {
                let rank = |step: u32| self.ranks[program][(run * steps + step.min(steps)) as usize];
                let (start, end) = (rank(extent.start), rank(extent.end));
                let (first, lap) = (start % circle, start - start % circle);
                let last = end - lap;
                let mut push = |start: u64, end: u64| {
                    if start < end {
                        found.push(Extent { start: start as u32, end: end as u32, ..*extent });
                    }
                };
                push(first, last.min(circle));
                push(0, last.saturating_sub(circle));
            }
        }
        found
    }
}
