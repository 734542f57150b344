//! What a module needs at each step, and how much less that would be with a region in parts: estimates that say what is worth a trial.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{LiveRange, Module, SecondaryMap, Value};
use memc_ops::Piece;

use super::region::Region;
use crate::analysis::{Liveness, classes};
use crate::judge::Judged;
use crate::options::Options;

/// Bytes at the steps of a judged module, and whose they are.
#[derive(Debug)]
pub(super) struct Levels<'j> {
    pub(super) module: &'j Module,
    /// Bytes at each step.
    pub(super) profile: &'j [u64],
    /// Workspace of each step's node.
    scratch: BTreeMap<usize, u64>,
    liveness: Liveness,
    /// Whether the arena holds a value.
    placed: SecondaryMap<Value, bool>,
}

impl<'j> Levels<'j> {
    /// Linear in nodes and operands.
    pub(super) fn of(judged: &'j Judged, options: &Options) -> Self {
        let module = &judged.module;
        let nodes = &module.graph(module.main()).nodes;
        let step_of: BTreeMap<_, usize> = nodes.iter().enumerate().map(|(step, node)| (*node, step)).collect();
        let mut scratch: BTreeMap<usize, u64> = BTreeMap::new();
        for own in crate::analysis::scratch::scratch(module, options) {
            if let Some(step) = step_of.get(&own.node) {
                *scratch.entry(*step).or_default() += own.bytes.0;
            }
        }
        let mut placed: SecondaryMap<Value, bool> = SecondaryMap::default();
        let classes = classes(module);
        for value in module.values().keys() {
            placed.set(value, classes[value].is_some_and(|class| class.is_placed(options.io)));
        }
        let liveness = Liveness::of(module, module.main(), options.profile);
        Self { module, profile: &judged.profile, scratch, liveness, placed }
    }

    /// Values that own bytes of the arena at a step, largest first, with their sizes.
    pub(super) fn live(&self, step: usize) -> Vec<(Value, u64)> {
        let nodes = &self.module.graph(self.module.main()).nodes;
        let results = nodes.iter().take(step + 1).flat_map(|node| self.module.node(*node).results());
        let mut live: Vec<(Value, u64)> =
            results.filter(|value| self.is_live(*value, step)).map(|value| (value, self.bytes(value))).collect();
        live.sort_by_key(|(value, bytes)| (std::cmp::Reverse(*bytes), *value));
        live
    }

    /// Extents of a value; none where they are not known.
    pub(super) fn dims(&self, value: Value) -> Vec<u64> {
        self.module.ty(value).tensor().and_then(|ty| ty.known_dims()).unwrap_or_default()
    }

    fn bytes(&self, value: Value) -> u64 {
        self.module.ty(value).tensor().and_then(|ty| ty.size()).map_or(0, |size| size.0)
    }

    fn is_live(&self, value: Value, step: usize) -> bool {
        let within = |range: LiveRange| range.start.0 as usize <= step && step < range.end.0 as usize;
        self.placed[value] && self.liveness.range(value).is_some_and(within)
    }

    /// The value whose bytes a value shares.
    fn owner(&self, mut value: Value) -> Value {
        while let Some(alias) = self.module.plan.alias[value] {
            value = alias.of;
        }
        value
    }

    /// The most that would be needed while the parts of a region are computed.
    ///
    /// Shares take a part of what the whole values took; what somebody needs whole is there from the first part to the last, and sums beside the
    /// addend of the part; what parts read stays until the last one, and shares of it are copies. The second number is what would be left of that with more and more parts. Linear
    /// in the region's values and steps.
    pub(super) fn with(&self, region: &Region) -> (u64, u64) {
        let (first, last) = region.span();
        let share = |bytes: u64| bytes.div_ceil(region.parts);
        // Bytes that begin and end at each step of the span: of what is there in shares, and of what is there whole.
        let mut shared = vec![(0u64, 0u64); last - first + 2];
        let mut there = shared.clone();
        let live = |changes: &mut Vec<(u64, u64)>, value: Value, bytes: u64| {
            let Some(range) = self.liveness.range(value).filter(|_| self.placed[value]) else { return };
            let at = |step: usize| step.clamp(first, last + 1) - first;
            changes[at(range.start.0 as usize)].0 += bytes;
            changes[at(range.end.0 as usize)].1 += bytes;
        };
        let mut owners = BTreeSet::new();
        let cut = region.read.iter().filter(|(_, is_cut)| **is_cut);
        let copies: u64 = cut.map(|(value, _)| share(self.bytes(*value))).sum();
        let mut whole = 0;
        for (value, is_needed) in &region.made {
            let bytes = self.bytes(*value);
            if *is_needed {
                let is_added = region.divided.values[*value].is_some_and(Piece::is_added);
                whole += if is_added { bytes * 2 } else { bytes };
                live(&mut there, *value, bytes);
            } else if owners.insert(self.owner(*value)) {
                live(&mut shared, self.owner(*value), bytes);
            }
        }
        // What parts read is there until the last one has read it: longer than it was.
        let mut longer = vec![0u64; last - first + 2];
        for value in region.read.keys().filter(|value| self.placed[**value]) {
            if let Some(range) = self.liveness.range(*value) {
                longer[(range.end.0 as usize).clamp(first, last + 1) - first] += self.bytes(*value);
            }
        }
        let (mut most, mut least, mut in_shares, mut is_there, mut is_longer) = (0, 0, 0, 0, 0);
        for (index, (shared, there)) in shared.into_iter().zip(there).enumerate().take(last - first + 1) {
            in_shares = in_shares + shared.0 - shared.1;
            is_there = is_there + there.0 - there.1;
            is_longer += longer[index];
            let step = first + index;
            let own = if region.nodes.contains_key(&step) { self.scratch.get(&step).copied().unwrap_or(0) } else { 0 };
            let beside = self.profile[step].saturating_sub(in_shares + is_there + own) + is_longer;
            most = most.max(beside + share(in_shares + own) + copies + whole);
            least = least.max(beside + whole);
        }
        (most, least)
    }
}
