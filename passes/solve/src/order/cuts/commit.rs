//! Checks whether a set of operations that ran has the fewest live bytes of all sets between it and an
//! earlier set. All its operations may run at once then.

use crate::basics::flow::Network;
use crate::order::model::State;

const NONE: u32 = u32::MAX;

/// Scratch arrays that are reused between checks, so that the cost of a check depends on its interval
/// alone.
pub(in crate::order) struct Interval {
    /// Number of each operation within the interval.
    node: Vec<u32>,
    /// Whether a buffer was already counted.
    seen: Vec<bool>,
    /// Buffers that no operation before the interval used.
    new: Vec<bool>,
}

impl Interval {
    pub fn new(operations: usize, buffers: usize) -> Self {
        Self { node: vec![NONE; operations], seen: vec![false; buffers], new: vec![false; buffers] }
    }

    /// Returns whether no subset of `ran` that is closed under predecessors leaves fewer bytes than all
    /// of `ran`. `ran` are the last operations that ran, and `allocated` are the buffers that they
    /// allocated. Solves a minimum cut. Counts down `arcs` and returns `false` when they run out.
    pub fn is_lowest(
        &mut self,
        state: &State<'_>,
        ran: impl Iterator<Item = u32> + Clone,
        allocated: &[u32],
        arcs: &mut u64,
    ) -> bool {
        let mut network = Network::new(ran.clone().count());
        ran.clone().zip(0..).for_each(|(operation, number)| self.node[operation as usize] = number);
        allocated.iter().for_each(|buffer| self.new[*buffer as usize] = true);
        let bytes = self.state_all(&mut network, state, ran.clone());
        ran.for_each(|operation| self.node[operation as usize] = NONE);
        allocated.iter().for_each(|buffer| self.new[*buffer as usize] = false);
        let mut flow = network.build();
        *arcs = arcs.saturating_sub(flow.arcs());
        bytes == 0 || flow.maximize(bytes - 1, arcs).is_some_and(|cut| cut >= bytes)
    }

    /// Builds the network of the sets between. Returns the live bytes after all of `ran`, of the buffers
    /// in the network.
    fn state_all(&mut self, network: &mut Network, state: &State<'_>, ran: impl Iterator<Item = u32>) -> u64 {
        let (mut bytes, mut seen) = (0, Vec::new());
        for operation in ran {
            let own = self.node[operation as usize];
            for before in state.model.predecessors.of(operation) {
                if self.node[*before as usize] != NONE {
                    network.follow(own, self.node[*before as usize]);
                }
            }
            for &buffer in state.model.uses.of(operation) {
                if !std::mem::replace(&mut self.seen[buffer as usize], true) {
                    seen.push(buffer);
                    bytes += self.count(network, state, buffer);
                }
            }
        }
        seen.iter().for_each(|buffer| self.seen[*buffer as usize] = false);
        bytes
    }

    /// Adds a buffer to the network: it counts if some user ran and some user did not. Returns its live
    /// bytes after all of `ran`.
    fn count(&self, network: &mut Network, state: &State<'_>, buffer: u32) -> u64 {
        let size = state.model.sizes[buffer as usize];
        let users = || {
            state
                .model
                .users
                .of(buffer)
                .iter()
                .map(|user| self.node[*user as usize])
                .filter(|node| *node != NONE)
        };
        let open = state.held[buffer as usize].left > 0 || state.model.kept[buffer as usize];
        match (!self.new[buffer as usize], open) {
            (true, true) => return 0,
            (true, false) => {
                let rest = network.node();
                network.source_arc(rest, size);
                users().for_each(|user| network.follow(rest, user));
            }
            (false, true) => {
                let first = network.node();
                network.sink_arc(first, size);
                users().for_each(|user| network.follow(user, first));
            }
            (false, false) => {
                let (first, rest) = (network.node(), network.node());
                network.arc(first, rest, size);
                users().for_each(|user| network.follow(user, first));
                users().for_each(|user| network.follow(rest, user));
            }
        }
        if open { size } else { 0 }
    }
}
