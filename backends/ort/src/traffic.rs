//! Decides when copies between spaces start and which steps wait for them, once, from the bytes that
//! steps and copies touch.
//!
//! A store starts as soon as its operand is written and its far bytes are free. It need not end before
//! its near bytes are reused; the step that overwrites them waits for it. A load starts at its own step,
//! and the first step that touches its bytes waits for it. So a copy runs concurrently with all steps
//! that do not touch its bytes, and accesses to every byte keep the order of the schedule.

use memc_layout::LiveRange;

use crate::links::{Copy, Region};

/// A copy that a node of the schedule requests.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Step of the node.
    pub(crate) step: usize,
    /// First step before which the copy may start: its operand is written, and its far bytes are free.
    pub(crate) earliest: usize,
    pub(crate) link: usize,
    pub(crate) from: Region,
    pub(crate) to: Region,
}

/// Bytes that a step's kernel touches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touched {
    pub(crate) reads: Vec<Region>,
    pub(crate) writes: Vec<Region>,
}

/// Copies by number, and the actions on them before each step.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) copies: Vec<Copy>,
    /// For each step, the copies that start before it.
    pub(crate) issue: Vec<Vec<usize>>,
    /// For each step, the copies that it waits for.
    pub(crate) wait: Vec<Vec<usize>>,
}

impl Traffic {
    /// Plans the copies of a schedule. O(steps · copies under way).
    pub(crate) fn new(requests: &[Request], touched: &[Touched]) -> Self {
        let copy = |request: &Request| Copy {
            link: request.link,
            from: request.from,
            to: request.to,
            after: Vec::new(),
        };
        let mut traffic = Self {
            copies: requests.iter().map(copy).collect(),
            issue: vec![Vec::new(); touched.len()],
            wait: vec![Vec::new(); touched.len()],
        };
        for (number, request) in requests.iter().enumerate() {
            if let Some(issued) = traffic.issue.get_mut(request.earliest.min(request.step)) {
                issued.push(number);
            }
        }
        // Issued copies that no step has waited for yet, in order.
        let mut pending: Vec<usize> = Vec::new();
        for (step, touched) in touched.iter().enumerate() {
            // Start the copies of this step, after pending copies of other links that touch their bytes.
            for number in traffic.issue[step].clone() {
                let own = &traffic.copies[number];
                let needs = pending.iter().copied().filter(|other| {
                    let other = &traffic.copies[*other];
                    // Copies of one link run in order anyway.
                    other.link != own.link
                        && (own.from.meets(&other.to) || own.to.meets(&other.to) || own.to.meets(&other.from))
                });
                traffic.copies[number].after = needs.collect();
                pending.push(number);
            }
            // Wait for the pending copies whose bytes this step touches.
            let meets = |number: &usize| {
                let copy = &traffic.copies[*number];
                let is_read = touched.reads.iter().any(|region| region.meets(&copy.to));
                is_read
                    || touched.writes.iter().any(|region| region.meets(&copy.to) || region.meets(&copy.from))
            };
            let waited: Vec<usize> = pending.iter().copied().filter(meets).collect();
            for number in &waited {
                let link = traffic.copies[*number].link;
                // Earlier copies of the link are then over too.
                let before = pending.iter().position(|other| other == number).unwrap_or(0);
                let mut position = 0;
                pending.retain(|other| {
                    let stays = position > before || traffic.copies[*other].link != link;
                    position += 1;
                    stays
                });
            }
            traffic.wait[step] = waited;
        }
        traffic
    }
}

/// Returns the first step before which no other value is live in the bytes that a copy of step `step`
/// writes.
pub(crate) fn free_from(
    region: &Region,
    step: usize,
    others: impl Iterator<Item = (Region, LiveRange)>,
) -> usize {
    let ends = others
        .filter(|(other, live)| other.meets(region) && live.start <= step as u64)
        .map(|(_, live)| live.end);
    usize::try_from(ends.max().unwrap_or(0)).unwrap_or(usize::MAX).min(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(start: usize) -> Region {
        Region::Memory { start, bytes: 10 }
    }

    fn far(offset: u64) -> Region {
        Region::File { file: 0, offset, bytes: 10 }
    }

    fn steps(touched: &[(&[usize], &[usize])]) -> Vec<Touched> {
        let regions = |starts: &[usize]| starts.iter().map(|start| near(*start)).collect();
        touched
            .iter()
            .map(|(reads, writes)| Touched { reads: regions(reads), writes: regions(writes) })
            .collect()
    }

    /// A value at 0 is stored at step 1, step 3 reuses its bytes, and from step 5 on it is back at 20,
    /// for step 7.
    #[test]
    fn copies_start_early_and_are_waited_for_late() {
        let requests = [
            Request { step: 2, earliest: 1, link: 0, from: near(0), to: far(0) },
            Request { step: 5, earliest: 5, link: 1, from: far(0), to: near(20) },
        ];
        let touched = steps(&[
            (&[], &[0]),
            (&[0], &[40]),
            (&[], &[]),
            (&[40], &[0]),
            (&[0], &[40]),
            (&[], &[]),
            (&[40], &[0]),
            (&[20], &[40]),
        ]);
        let traffic = Traffic::new(&requests, &touched);
        assert_eq!(traffic.issue[1], [0]);
        assert_eq!(traffic.issue[5], [1]);
        assert_eq!(traffic.wait, [vec![], vec![], vec![], vec![0], vec![], vec![], vec![], vec![1]]);
        assert_eq!(traffic.copies[1].after, Vec::<usize>::new(), "the store is over by then");
    }

    #[test]
    fn a_load_waits_for_an_unfinished_store_of_its_bytes() {
        let requests = [
            Request { step: 1, earliest: 1, link: 0, from: near(0), to: far(0) },
            Request { step: 2, earliest: 2, link: 1, from: far(0), to: near(20) },
            // Overwrites the far bytes that the load reads.
            Request { step: 3, earliest: 3, link: 0, from: near(40), to: far(5) },
        ];
        let traffic = Traffic::new(
            &requests,
            &steps(&[(&[], &[0, 40]), (&[], &[]), (&[], &[]), (&[], &[]), (&[20], &[60])]),
        );
        assert_eq!(traffic.copies[1].after, [0]);
        assert_eq!(traffic.copies[2].after, [1]);
        assert_eq!(traffic.wait[4], [1]);
    }

    #[test]
    fn far_bytes_are_free_once_their_last_user_is_gone() {
        let others = [(far(0), LiveRange { start: 1, end: 4 }), (far(15), LiveRange { start: 0, end: 9 })];
        assert_eq!(free_from(&far(0), 7, others.into_iter()), 4);
        assert_eq!(free_from(&far(30), 7, others.into_iter()), 0);
        assert_eq!(
            free_from(&far(9), 7, others.into_iter()),
            7,
            "a wrong plan starts no earlier than it says"
        );
    }
}
