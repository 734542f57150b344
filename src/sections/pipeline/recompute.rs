//! Recomputation: forward nodes that a backward section runs again, so that their device holds fewer values
//! between the forward and the backward run of a part.

use std::collections::BTreeSet;

use super::super::divide::Cones;
use super::super::graph::Graph;

/// Largest number of nodes that run again for one value.
const MAX_NODES: usize = 64;

/// The two halves of a device.
pub(super) struct Halves<'h> {
    /// The graph of one part.
    pub graph: &'h Graph<'h>,
    pub cones: &'h Cones,
    /// Forward nodes.
    pub forward: &'h BTreeSet<usize>,
    /// Backward nodes.
    pub backward: &'h BTreeSet<usize>,
}

impl Halves<'_> {
    /// Returns forward nodes that the backward section runs again to hold at least `wanted` bytes less for
    /// each part, in little time, and the bytes that it saves. O(nodes² · 64).
    pub fn recomputed(&self, wanted: u64) -> (BTreeSet<usize>, u64) {
        let mut again: BTreeSet<usize> = BTreeSet::new();
        let mut saved = 0;
        while saved < wanted {
            let held = self.held(&again);
            let makers: BTreeSet<usize> =
                held.iter().filter_map(|name| self.graph.maker.get(*name)).copied().collect();
            let candidates = makers.into_iter().filter_map(|unit| {
                let nodes = self.nodes(unit, &held, &again)?;
                let nanos: u64 = nodes.iter().map(|node| self.graph.units[*node].nanos).sum();
                let made = self.graph.units[unit].makes.iter().filter(|name| held.contains(name.as_str()));
                let bytes: u64 = made.map(|name| self.bytes(name)).sum();
                (bytes > 0).then_some((nodes, nanos, bytes))
            });
            // Least time for a byte.
            let better = |one: &(BTreeSet<usize>, u64, u64), other: &(BTreeSet<usize>, u64, u64)| {
                let (one, other) =
                    (u128::from(one.1) * u128::from(other.2), u128::from(other.1) * u128::from(one.2));
                one.cmp(&other)
            };
            let Some((nodes, _, bytes)) = candidates.min_by(better) else { break };
            again.extend(nodes);
            saved += bytes;
        }
        (again, saved)
    }

    fn bytes(&self, name: &str) -> u64 {
        self.graph.tensors.get(name).map_or(0, |tensor| tensor.bytes)
    }

    /// Values of forward nodes that the backward section reads from outside.
    fn held(&self, again: &BTreeSet<usize>) -> BTreeSet<&str> {
        let read = self.backward.iter().chain(again).flat_map(|unit| &self.graph.units[*unit].reads);
        let is_held = |name: &&String| {
            self.graph
                .maker
                .get(*name)
                .is_some_and(|maker| self.forward.contains(maker) && !again.contains(maker))
        };
        read.filter(is_held).map(String::as_str).collect()
    }

    /// The nodes to run for the results of one, from values that are held anyway; `None` if they are too
    /// many, need other values, or may not run again.
    fn nodes(&self, unit: usize, held: &BTreeSet<&str>, again: &BTreeSet<usize>) -> Option<BTreeSet<usize>> {
        let (mut found, mut open) = (BTreeSet::new(), vec![unit]);
        while let Some(unit) = open.pop() {
            if !found.insert(unit) {
                continue;
            }
            let item = &self.graph.units[unit];
            if !item.repeats || found.len() > MAX_NODES {
                return None;
            }
            for name in &item.reads {
                let Some(maker) = self.graph.maker.get(name) else { continue };
                if held.contains(name.as_str()) || again.contains(maker) || self.cones.contains_key(maker) {
                    continue;
                }
                if !self.forward.contains(maker) {
                    // It comes from another device: it may not be here any more.
                    let is_read = |unit: &usize| self.graph.units[*unit].reads.contains(name);
                    self.backward.iter().any(is_read).then_some(())?;
                    continue;
                }
                open.push(*maker);
            }
        }
        Some(found)
    }
}
