//! Small placement problems, and their optimum by brute force.

use memc_solve::place::{Buffer, Gap, Problem};
use proptest::prelude::*;

/// Returns the least height: places the buffers in every sequence, each at its lowest offset after the
/// fixed buffers. `None` if fixed buffers overlap.
pub fn brute_force(problem: &Problem) -> Option<u64> {
    let mut offsets = vec![None; problem.buffers.len()];
    for (index, buffer) in problem.buffers.iter().enumerate() {
        offsets[index] =
            buffer.fixed_offset.or((buffer.start == buffer.end || buffer.size == 0).then_some(0));
    }
    for a in 0..offsets.len() {
        for b in 0..a {
            if let (Some(x), Some(y)) = (offsets[a], offsets[b])
                && meets(&problem.buffers[a], x, &problem.buffers[b], y)
            {
                return None;
            }
        }
    }
    let mut best = u64::MAX;
    extend(problem, &mut offsets, &mut best);
    Some(best)
}

/// Returns the rectangles of a buffer: first and last step, low and high byte.
pub fn rectangles(buffer: &Buffer) -> Vec<(u32, u32, u64, u64)> {
    (buffer.start..buffer.end)
        .filter_map(|step| match buffer.gaps.iter().find(|gap| gap.start <= step && step < gap.end) {
            None => Some((step, step + 1, 0, buffer.size)),
            Some(gap) => gap.window.map(|(low, high)| (step, step + 1, low, high)),
        })
        .filter(|(_, _, low, high)| low < high)
        .collect()
}

pub fn meets(a: &Buffer, x: u64, b: &Buffer, y: u64) -> bool {
    rectangles(a)
        .iter()
        .any(|p| rectangles(b).iter().any(|q| p.0 == q.0 && x + p.2 < y + q.3 && y + q.2 < x + p.3))
}

pub fn extend(problem: &Problem, offsets: &mut Vec<Option<u64>>, best: &mut u64) {
    let Some(_) = offsets.iter().position(Option::is_none) else {
        let height = problem
            .buffers
            .iter()
            .zip(offsets.iter())
            .map(|(buffer, offset)| offset.unwrap() + buffer.size)
            .max();
        *best = (*best).min(height.unwrap_or(0));
        return;
    };
    for index in 0..offsets.len() {
        if offsets[index].is_none() {
            offsets[index] = Some(lowest(problem, offsets, index));
            extend(problem, offsets, best);
            offsets[index] = None;
        }
    }
}

pub fn lowest(problem: &Problem, offsets: &[Option<u64>], index: usize) -> u64 {
    let buffer = &problem.buffers[index];
    (0..)
        .step_by(buffer.alignment as usize)
        .find(|offset| {
            let clash = |other: usize| {
                offsets[other].is_some_and(|place| meets(buffer, *offset, &problem.buffers[other], place))
            };
            !(0..offsets.len()).any(clash)
        })
        .unwrap()
}

pub fn buffer() -> impl Strategy<Value = Buffer> {
    (0..8_u32, 0..6_u32, 0..12_u64, prop_oneof![4 => Just(1_u64), 1 => Just(2), 1 => Just(4), 1 => Just(3)])
        .prop_map(|(start, length, size, alignment)| Buffer {
            alignment,
            ..Buffer::new(start, start + length, size)
        })
}

pub fn problem(with_gaps: bool, with_fixed: bool) -> impl Strategy<Value = Problem> {
    let extras = (any::<bool>(), 0..3_u32, 1..3_u32, 0..3_u64, 0..20_u64, 0..4_u8);
    prop::collection::vec((buffer(), extras), 0..7).prop_map(move |list| {
        let shape = |(mut buffer, (windowed, from, length, low, place, fix)): (
            Buffer,
            (bool, u32, u32, u64, u64, u8),
        )| {
            let (start, end) = (buffer.start + from, buffer.start + from + length);
            if with_gaps && end <= buffer.end {
                let window = (windowed && low < buffer.size).then_some((low, buffer.size.min(low + 3)));
                buffer.gaps.push(Gap { start, end, window });
            }
            if with_fixed && fix == 0 {
                buffer.fixed_offset = Some(place * buffer.alignment);
            }
            buffer
        };
        Problem { buffers: list.into_iter().map(shape).collect(), capacity: None }
    })
}
