//! Tests of joint memory: laws of serial and nested programs, brute force, and the checker against faults.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use memc_solve::joint::{
    Admission, Answer, Extent, Handoff, Part, Phase, Phased, Placed, Serial, SerialError, Wait, admissions,
    around, bound, check_nested, check_serial, free_bytes, serial,
};
use memc_solve::{Limit, place};
use proptest::prelude::*;

const ALIGNMENT: u64 = 4;

/// A program whose buffers have these starts, steps and sizes, placed by the solver of placement.
fn part(steps: u32, buffers: &[(u32, u32, u64)]) -> Part {
    let ranges = buffers
        .iter()
        .map(|(start, long, size)| (*start % steps, (start % steps + 1 + long).min(steps), *size));
    let ranges: Vec<(u32, u32, u64)> = ranges.collect();
    let of = |(start, end, size): &(u32, u32, u64)| place::Buffer {
        alignment: ALIGNMENT,
        ..place::Buffer::new(*start, *end, *size)
    };
    let problem = place::Problem { buffers: ranges.iter().map(of).collect(), capacity: None };
    let solution = place::solve(&problem, &Limit::nodes(50)).unwrap().solution.unwrap();
    let placed = ranges.iter().zip(&solution.offsets).map(|((start, end, size), offset)| Placed {
        offset: *offset,
        size: *size,
        alignment: ALIGNMENT,
        extents: vec![Extent { start: *start, end: *end, low: 0, high: *size }],
    });
    Part { steps, buffers: placed.collect(), alignment: ALIGNMENT, size: solution.height, is_rigid: false }
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let program = (2_u32..12, proptest::collection::vec((0_u32..12, 0_u32..6, 1_u64..40), 1..12));
    proptest::collection::vec(program.prop_map(|(steps, buffers)| part(steps, &buffers)), 2..5)
}

/// Programs, and values that the last buffer of one hands over to a later one.
fn sequences() -> impl Strategy<Value = Serial> {
    let pairs = proptest::collection::vec((0_usize..4, 0_usize..4, any::<bool>(), 0_u32..12), 0..4);
    (parts(), pairs).prop_map(|(mut parts, pairs)| {
        let mut handoffs: Vec<Handoff> = Vec::new();
        for (from, to, is_placed, until) in pairs {
            let (from, to) = (from.min(parts.len() - 2), to.min(parts.len() - 1));
            if from >= to {
                continue;
            }
            // The value is the whole of its buffer, which lives to the end of its program.
            let buffer = parts[from].buffers.len();
            let (steps, size) = (parts[from].steps, parts[from].size.next_multiple_of(ALIGNMENT));
            let whole = |start, end| vec![Extent { start, end, low: 0, high: 8 }];
            parts[from].buffers.push(Placed {
                offset: size,
                size: 8,
                alignment: ALIGNMENT,
                extents: whole(steps - 1, steps),
            });
            parts[from].size = size + 8;
            let until = until.min(parts[to].steps);
            let into = is_placed.then(|| {
                let size = parts[to].size.next_multiple_of(ALIGNMENT);
                parts[to].buffers.push(Placed {
                    offset: size,
                    size: 8,
                    alignment: ALIGNMENT,
                    extents: whole(0, until),
                });
                parts[to].size = size + 8;
                parts[to].buffers.len() - 1
            });
            handoffs.push(Handoff { from, buffer, at: 0, bytes: 8, to, into, until });
        }
        Serial { parts, handoffs }
    })
}

/// Sum of the arenas, each rounded up to the alignment.
fn sum(parts: &[Part]) -> u64 {
    parts.iter().map(|part| part.size.next_multiple_of(ALIGNMENT)).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn serial_programs_need_the_largest_arena(parts in parts()) {
        let most = parts.iter().map(|part| part.size).max().unwrap();
        let problem = Serial { parts, handoffs: Vec::new() };
        let outcome = serial(&problem, false, &Limit::nodes(50)).unwrap();
        let answer = outcome.solution.unwrap();
        prop_assert_eq!(answer.size, most);
        prop_assert!(answer.is_kept && answer.bases.iter().all(|base| *base == 0));
        prop_assert!(outcome.lower_bound <= most);
        check_serial(&problem, &answer).unwrap();
    }

    #[test]
    fn values_on_their_way_are_met_by_no_buffer_and_never_cost_more_than_the_sum(problem in sequences()) {
        for keep in [true, false] {
            let outcome = match serial(&problem, keep, &Limit::nodes(50)) {
                // A program cannot be in two places at once.
                Err(SerialError::Rigid { .. }) if keep => continue,
                outcome => outcome.unwrap(),
            };
            let answer = outcome.solution.unwrap();
            check_serial(&problem, &answer).unwrap();
            prop_assert!(bound(&problem).unwrap() <= answer.size);
            prop_assert!(answer.size <= sum(&problem.parts), "{} {}", answer.size, sum(&problem.parts));
            prop_assert!(!keep || answer.is_kept);
        }
    }

    #[test]
    fn moved_values_are_found(problem in sequences(), by in 1_u64..64) {
        let answer = serial(&problem, false, &Limit::nodes(50)).unwrap().solution.unwrap();
        for (number, handoff) in problem.handoffs.iter().enumerate() {
            // An input elsewhere than its value is found, wherever it goes.
            let Some(into) = handoff.into else { continue };
            let mut damaged = answer.clone();
            damaged.offsets[handoff.to][into] += by * ALIGNMENT;
            prop_assert!(check_serial(&problem, &damaged).is_err(), "{}", number);
        }
        let mut damaged = answer.clone();
        damaged.size += 1;
        prop_assert!(check_serial(&problem, &damaged).is_err());
    }

    #[test]
    fn admissions_are_those_of_a_pairwise_comparison(parts in parts(), bytes in 1_u64..60) {
        let host = &parts[0];
        let extents = host.extents();
        let runs = admissions(&extents, host.steps, host.size, bytes, ALIGNMENT);
        check_nested(&extents, host.steps, host.size, (bytes, ALIGNMENT), &runs).unwrap();
        let free = |boundary: u32, base: u64| {
            base + bytes <= host.size
                && extents.iter().all(|extent| {
                    let crosses = extent.start <= boundary && boundary + 1 < extent.end;
                    !crosses || extent.high <= base || base + bytes <= extent.low
                })
        };
        let bases = || (0..=host.size).step_by(ALIGNMENT as usize);
        for boundary in 0..host.steps - 1 {
            let listed = runs.iter().any(|run| run.first <= boundary && boundary <= run.last);
            prop_assert_eq!(listed, bases().any(|base| free(boundary, base)), "{}", boundary);
        }
        // A run ends only where no base holds for one more boundary.
        for pair in runs.windows(2).filter(|pair| pair[0].last + 1 == pair[1].first) {
            prop_assert!(!bases().any(|base| (pair[0].first..=pair[1].first).all(|boundary| free(boundary, base))));
        }
        let holes = free_bytes(&extents, host.steps, host.size);
        prop_assert_eq!(holes.len(), host.steps as usize - 1);
        prop_assert!(holes.iter().all(|(free, hole)| hole <= free && *free <= host.size));
    }

    #[test]
    fn a_host_around_a_guest_admits_it_no_less_often(parts in parts(), bytes in 1_u64..80) {
        let host = &parts[0];
        let own = admissions(&host.extents(), host.steps, host.size, bytes, ALIGNMENT);
        let own: u32 = own.iter().map(|run| run.last - run.first + 1).sum();
        let found = around(host, bytes, ALIGNMENT, &Limit::nodes(50)).unwrap();
        prop_assert!(found.boundaries() >= u64::from(own));
        let mut moved = host.clone();
        for (placed, offset) in moved.buffers.iter_mut().zip(found.offsets.iter().flatten()) {
            placed.offset = *offset;
        }
        check_nested(&moved.extents(), host.steps, host.size, (bytes, ALIGNMENT), &found.admissions).unwrap();
        let problem = Serial { parts: vec![host.clone()], handoffs: Vec::new() };
        let offsets: Vec<u64> = moved.buffers.iter().map(|placed| placed.offset).collect();
        let size = moved.buffers.iter().map(|placed| placed.offset + placed.size).max().unwrap();
        prop_assert!(size <= host.size);
        let is_kept = found.offsets.is_none();
        let answer = Answer { is_kept, bases: vec![0], offsets: vec![offsets], size };
        check_serial(&problem, &answer).unwrap();
    }

    #[test]
    fn a_guest_over_bytes_in_use_is_found(parts in parts(), bytes in 1_u64..60, boundary in 0_u32..12, base in 0_u64..40) {
        let host = &parts[0];
        let extents = host.extents();
        let (boundary, base) = (boundary.min(host.steps - 2), base * ALIGNMENT);
        let crosses = |extent: &Extent| extent.start <= boundary && boundary + 1 < extent.end;
        let meets = extents.iter().any(|extent| crosses(extent) && extent.low < base + bytes && base < extent.high);
        let run = Admission { first: boundary, last: boundary, base };
        let found = check_nested(&extents, host.steps, host.size, (bytes, ALIGNMENT), &[run]);
        prop_assert_eq!(found.is_err(), meets || base + bytes > host.size);
    }
}

#[test]
fn an_encoder_result_stays_below_its_decoder() {
    // The value lies at the end of its arena, and the decoder takes the bytes below it.
    let make =
        |buffers: Vec<Placed>, size| Part { steps: 4, buffers, alignment: ALIGNMENT, size, is_rigid: false };
    let buffer = |offset, size, start, end| {
        let extents = vec![Extent { start, end, low: 0, high: size }];
        Placed { offset, size, alignment: ALIGNMENT, extents }
    };
    let encoder = make(vec![buffer(0, 80, 0, 3), buffer(80, 20, 2, 4)], 100);
    let decoder = make(vec![buffer(0, 60, 0, 4)], 60);
    let handoff = Handoff { from: 0, buffer: 1, at: 0, bytes: 20, to: 1, into: None, until: 4 };
    let problem = Serial { parts: vec![encoder, decoder], handoffs: vec![handoff] };
    let answer = serial(&problem, true, &Limit::default()).unwrap().solution.unwrap();
    assert_eq!((answer.size, answer.bases), (100, vec![0, 0]));
    // A larger decoder begins behind the value, or moves it when offsets may change.
    let mut wider = problem.clone();
    wider.parts[1] = make(vec![buffer(0, 84, 0, 4)], 84);
    let kept = serial(&wider, true, &Limit::default()).unwrap().solution.unwrap();
    assert_eq!((kept.size, kept.bases), (184, vec![0, 100]));
    let moved = serial(&wider, false, &Limit::default()).unwrap();
    assert_eq!((moved.value, moved.lower_bound), (Some(104), 104));
    check_serial(&wider, &moved.solution.unwrap()).unwrap();
}

#[test]
fn impossible_handoffs_are_refused() {
    let program = part(4, &[(0, 3, 8)]);
    let handoff = Handoff { from: 0, buffer: 0, at: 0, bytes: 8, to: 1, into: Some(0), until: 2 };
    let problem = |handoffs| Serial { parts: vec![program.clone(), program.clone()], handoffs };
    let refused = |handoff| serial(&problem(vec![handoff]), false, &Limit::default()).unwrap_err();
    assert!(serial(&problem(vec![handoff]), false, &Limit::default()).is_ok());
    for damaged in [
        Handoff { from: 1, to: 0, ..handoff },
        Handoff { to: 2, ..handoff },
        Handoff { buffer: 1, ..handoff },
        Handoff { bytes: 9, ..handoff },
        Handoff { at: u64::MAX, ..handoff },
        Handoff { until: 5, ..handoff },
    ] {
        assert!(matches!(refused(damaged), SerialError::Handoff { .. }), "{damaged:?}");
    }
    let odd = Handoff { at: 2, bytes: 6, into: None, ..handoff };
    assert!(serial(&problem(vec![odd]), false, &Limit::default()).is_ok());
    let mut inner = problem(vec![Handoff { into: Some(0), ..odd }]);
    inner.parts[1].buffers[0].size = 6;
    assert!(matches!(serial(&inner, false, &Limit::default()), Err(SerialError::Alignment { .. })));
    let twice = problem(vec![handoff, handoff]);
    assert!(matches!(serial(&twice, false, &Limit::default()), Err(SerialError::Twice { .. })));
}

/// Runs both programs for some periods in an order that `choose` picks among the steps that may begin, and
/// returns the first byte that two buffers use at once. Steps are atomic: a use that ends with a step is over
/// when the next one begins.
fn interleave(
    problem: &Phased,
    phase: &Phase,
    answer: &Answer,
    waits: &[Wait],
    mut choose: impl FnMut() -> usize,
) -> Option<u64> {
    let lengths = [0, 1].map(|at: usize| i64::from(problem.parts[at].steps * phase.runs[at]));
    let extents = [0, 1].map(|at: usize| {
        let placed = problem.parts[at].buffers.iter().zip(&answer.offsets[at]);
        placed.flat_map(|(placed, offset)| placed.at(*offset)).collect::<Vec<Extent>>()
    });
    let mut now = [0_i64; 2];
    let periods = 5;
    while now != lengths.map(|length| length * periods) {
        let may_begin = |at: usize| {
            let position = now[at];
            // The waits of earlier steps hold too, also those of periods that are never run.
            let is_open = |wait: &Wait| {
                let period = (position - i64::from(wait.begins)).div_euclid(lengths[at]) - wait.periods_later;
                let until =
                    (period * lengths[1 - at] + i64::from(wait.ends) + 1).min(lengths[1 - at] * periods);
                wait.after == at || period < 0 || until <= now[1 - at]
            };
            position < lengths[at] * periods && waits.iter().all(is_open)
        };
        let open: Vec<usize> = (0..2).filter(|at| may_begin(*at)).collect();
        assert!(!open.is_empty(), "no step may begin at {now:?}");
        let at = open[choose() % open.len()];
        // What the step of one program and the other program's last step, which may still run, leave in use.
        let live = |at: usize, position: i64| {
            let step = u32::try_from(position.rem_euclid(i64::from(problem.parts[at].steps))).unwrap();
            extents[at].iter().filter(move |extent| extent.start <= step && step < extent.end)
        };
        for own in live(at, now[at]) {
            // The other program is between two steps: what crosses is in use.
            let between = now[1 - at];
            let steps = i64::from(problem.parts[1 - at].steps);
            if between % steps == 0 {
                continue;
            }
            let step = u32::try_from(between % steps).unwrap();
            let meets = |other: &&Extent| {
                other.start < step && step < other.end && own.low < other.high && other.low < own.high
            };
            if let Some(other) = extents[1 - at].iter().find(meets) {
                return Some(own.low.max(other.low));
            }
        }
        now[at] += 1;
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn programs_at_once_use_no_byte_twice(
        parts in parts(),
        times in proptest::collection::vec(0_u64..5, 24),
        choices in proptest::collection::vec(0_usize..2, 1..40),
        keep in any::<bool>(),
    ) {
        let time = |at: usize| times.iter().skip(at * 12).take(parts[at].steps as usize).copied().collect();
        let problem = Phased { parts: [parts[0].clone(), parts[1].clone()], times: [time(0), time(1)] };
        let phase = problem.phase();
        prop_assert!(phase.shift < phase.period && phase.runs.contains(&1));
        let outcome = problem.place(&phase, keep, &Limit::nodes(50)).unwrap();
        let answer = outcome.solution.unwrap();
        prop_assert!(outcome.lower_bound <= answer.size && answer.size <= sum(&problem.parts));
        let waits = problem.waits(&phase, &answer);
        prop_assert!(phase.load <= answer.size);
        // One program as far as it may go, then the other; and any other order.
        let mut number = 0;
        for pattern in [vec![0], vec![1], vec![0, 1], choices] {
            let choose = || { number += 1; pattern[number % pattern.len()] };
            prop_assert_eq!(interleave(&problem, &phase, &answer, &waits, choose), None);
        }
        // No wait stands behind another one.
        for (at, wait) in waits.iter().enumerate() {
            let length = i64::from(problem.parts[1 - wait.after].steps * phase.runs[1 - wait.after]);
            let begins = |wait: &Wait| wait.periods_later * length + i64::from(wait.begins);
            let says_more = |other: &Wait| wait.after == other.after && wait.ends <= other.ends && begins(other) <= begins(wait);
            prop_assert!(!waits.iter().enumerate().any(|(number, other)| number != at && says_more(other)));
        }
    }
}

#[test]
fn two_programs_in_opposite_phase_share_bytes() {
    // A large buffer for half of the time, then a small one; both runs take turns.
    let program = || part(4, &[(0, 1, 40), (2, 1, 4)]);
    let problem = Phased { parts: [program(), program()], times: [vec![5; 4], vec![5; 4]] };
    let phase = problem.phase();
    assert_eq!((phase.load, phase.runs), (44, [1, 1]));
    let answer = problem.place(&phase, false, &Limit::nodes(100)).unwrap().solution.unwrap();
    assert_eq!(answer.size, 44);
    let waits = problem.waits(&phase, &answer);
    assert!(!waits.is_empty() && waits.len() <= 4, "{waits:?}");
    // A short program runs twice while the long one runs once.
    let problem = Phased { parts: [program(), program()], times: [vec![5; 4], vec![11; 4]] };
    assert_eq!(problem.phase().runs, [2, 1]);
    // Programs that never leave bytes lie side by side, without waits.
    let flat = || part(3, &[(0, 3, 40)]);
    let problem = Phased { parts: [flat(), flat()], times: [vec![1; 3], vec![1; 3]] };
    let phase = problem.phase();
    let answer = problem.place(&phase, false, &Limit::nodes(100)).unwrap().solution.unwrap();
    assert_eq!((answer.size, problem.waits(&phase, &answer)), (80, vec![]));
}

/// Buffers of a training step: results that live until their gradient, and values of a few steps.
fn training(random: &mut impl FnMut(u32) -> u32, layers: u32) -> Vec<(u32, u32, u64)> {
    let mut buffers = Vec::new();
    for layer in 0..layers {
        // A few are large: a placement that nothing repairs leaves most space beside these.
        let size = |random: &mut dyn FnMut(u32) -> u32| {
            let large = random(6) == 0;
            u64::from(if large { 200 + random(100) } else { 1 + random(40) }) * ALIGNMENT
        };
        buffers.push((layer, 2 * (layers - layer) - 1, size(random)));
        buffers.push((layer, random(4), size(random)));
        buffers.push((2 * layers - 1 - layer, random(3), size(random)));
    }
    buffers
}

#[test]
fn programs_over_the_end_of_their_period_lie_close_to_their_load() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: u32| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % u64::from(below)) as u32
    };
    let (mut worst, mut seams) = (1.0_f64, 0);
    for _ in 0..12 {
        let layers = 30 + random(60);
        let buffers = training(&mut random, layers);
        let program = part(2 * layers, &buffers);
        let times: Vec<u64> = (0..2 * layers).map(|_| 1 + u64::from(random(9))).collect();
        let problem = Phased { parts: [program.clone(), program], times: [times.clone(), times] };
        let phase = problem.phase();
        seams += usize::from(phase.shift > 0);
        let answer = problem.place(&phase, false, &Limit::nodes(4_000)).unwrap().solution.unwrap();
        assert!(answer.size >= phase.load);
        worst = worst.max(answer.size as f64 / phase.load as f64);
    }
    assert!(seams == 12 && worst <= 1.015, "{worst} at worst, {seams} with a shift");
}
