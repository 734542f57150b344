//! Tests of the valley search against the canonical search.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use super::super::restart::Orders;
use super::super::search::Search;
use super::*;
use crate::place::normal::Normal;
use crate::place::problem::{Buffer, Problem};

/// Both searches run to their end on random problems at heights around the bound. They must agree, and
/// no items may overlap.
#[test]
fn agrees_with_the_canonical_search() {
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let (mut found, mut impossible) = (0, 0);
    for trial in 0..600 {
        // Every step is filled up to 20 bytes, so that there is no slack and chance decides.
        let steps = 10 + random(6) as usize;
        let mut left = vec![20_u64; steps];
        let mut buffers = Vec::new();
        for start in 0..steps {
            while left[start] > 0 {
                let end = (start + 1 + random(5) as usize).min(steps);
                let room = left[start..end].iter().copied().min().unwrap_or(0);
                let (end, room) = if room > 0 { (end, room) } else { (start + 1, left[start]) };
                let size = room.min(2 + random(7));
                left[start..end].iter_mut().for_each(|bytes| *bytes -= size);
                buffers.push(Buffer::new(start as u32, end as u32, size));
            }
        }
        let problem = Problem { buffers, capacity: None };
        let normal = Normal::new(&problem);
        let instance = Instance::new(&normal).unwrap();
        let order = Orders::new().order(&instance, trial % 6);
        let capacity = normal.load.iter().max().unwrap() + random(2);
        let mut canonical = Search::new(&instance, capacity, &order);
        let verdict = canonical.run(u64::MAX / 2, &mut NoGoods::default());
        for choice in [Choice::Items, Choice::Options, Choice::Slack] {
            let mut search = ValleySearch::new(&instance, capacity, &order, choice).unwrap();
            assert_eq!(
                search.run(u64::MAX / 2, &mut NoGoods::default()),
                verdict,
                "trial {trial}: {problem:?} at {capacity}"
            );
            if verdict == Verdict::Found {
                found += 1;
                assert!(
                    is_placement(&instance, &search.offsets, capacity),
                    "trial {trial}: {problem:?} at {capacity}"
                );
            } else {
                impossible += 1;
            }
        }
    }
    assert!(found > 100 && impossible > 30, "{found} {impossible}");
}

fn is_placement(instance: &Instance, offsets: &[u32], capacity: u64) -> bool {
    let top = |index: usize| offsets[index] + instance.extent[index];
    let apart = |a: usize, b: u32| top(a) <= offsets[b as usize] || top(b as usize) <= offsets[a];
    let fits =
        |index: usize| u64::from(offsets[index]) * instance.granule + instance.bytes[index] <= capacity;
    (0..offsets.len()).all(|index| {
        fits(index) && instance.overlaps.of(index as u32).iter().all(|other| apart(index, *other))
    })
}
