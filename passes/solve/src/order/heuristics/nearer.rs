//! Ties: among orders with equal peak, finds one that is closer to the given order.
//!
//! Any stretch of an order may be sorted by the positions of the given order: the stretch keeps its set
//! of operations, and the given order keeps all predecessors. So stretches of falling length are sorted
//! if that keeps the peak.

use crate::order::model::{Model, State};

/// Returns an order with a peak of at most `bound` bytes in which stretches are sorted. `order` must
/// keep the bound. O((n + uses) log n).
pub(in crate::order) fn nearer(model: &Model, order: &[u32], given: &[u32], bound: u64) -> Vec<u32> {
    let mut position = vec![0_u32; order.len()];
    given.iter().enumerate().for_each(|(place, operation)| position[*operation as usize] = place as u32);
    let mut order = order.to_vec();
    let mut length = order.len();
    while length > 1 {
        for start in [0, length / 2] {
            sort_stretches(model, &mut order, &position, start, length, bound);
        }
        if length == 2 {
            break;
        }
        length = length.div_ceil(2);
    }
    order
}

/// Sorts each stretch that keeps the bound when sorted, one after the other.
fn sort_stretches(
    model: &Model,
    order: &mut [u32],
    position: &[u32],
    start: usize,
    length: usize,
    bound: u64,
) {
    let mut walk =
        Walk { state: State::new(model), bound: i64::try_from(bound).unwrap_or(i64::MAX), past: Vec::new() };
    for operation in &order[..start] {
        walk.state.run(*operation);
    }
    for stretch in order[start..].chunks_mut(length) {
        let mut sorted = stretch.to_vec();
        sorted.sort_unstable_by_key(|operation| position[*operation as usize]);
        if sorted != stretch && walk.run_all(&sorted) {
            stretch.copy_from_slice(&sorted);
        } else {
            for operation in &*stretch {
                walk.state.run(*operation);
            }
        }
    }
}

/// A state that runs along an order, and returns to the start of a stretch that exceeds the bound.
struct Walk<'a> {
    state: State<'a>,
    bound: i64,
    /// Operations that ran in this stretch, their changes of the live bytes, and the buffers that they
    /// allocated.
    past: Vec<(u32, i64, Vec<u32>)>,
}

impl Walk<'_> {
    /// Runs a stretch and returns `true` if it keeps the bound; otherwise undoes it.
    fn run_all(&mut self, stretch: &[u32]) -> bool {
        self.past.clear();
        for &operation in stretch {
            let (effect, model) = (self.state.effect(operation), self.state.model);
            if self.state.live + effect.hill > self.bound {
                self.take_back();
                return false;
            }
            let new = model
                .uses
                .of(operation)
                .iter()
                .copied()
                .filter(|buffer| !self.state.held[*buffer as usize].allocated);
            self.past.push((operation, effect.net, new.collect()));
            self.state.apply(operation, effect);
        }
        true
    }

    fn take_back(&mut self) {
        while let Some((operation, net, allocated)) = self.past.pop() {
            self.state.take_back(operation, net, allocated);
        }
    }
}
