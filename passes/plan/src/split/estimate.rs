//! Estimates of the bytes at each step with a split region. They decide which regions are worth a trial.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{Module, Node, SecondaryMap, Value};
use memc_ops::Piece;

use super::region::Region;
use crate::trial::Judged;
use memc_passes::Options;
use memc_passes::analysis::{Liveness, Memory};

/// Bytes at the steps of a judged module, and the values that account for them.
#[derive(Debug)]
pub(super) struct Levels<'j> {
    pub(super) module: &'j Module,
    /// Bytes at each step: of all live values, or of the values of its node alone.
    pub(super) profile: &'j [u64],
    is_alone: bool,
    /// By step: workspace of its node in bytes.
    scratch: BTreeMap<usize, u64>,
    liveness: Liveness,
    /// Whether a value takes bytes of the arena.
    placed: SecondaryMap<Value, bool>,
    /// By step: the live results that may be seeds, largest first.
    large: Vec<Vec<Value>>,
}

impl<'j> Levels<'j> {
    /// Collects the live values of at least `least` bytes. Linear in nodes, operands, and large values
    /// at the steps.
    pub(super) fn of(judged: &'j Judged, options: &Options, least: u64) -> Self {
        let module = &judged.module;
        let nodes = &module.graph(module.main()).nodes;
        let step_of: BTreeMap<_, usize> =
            nodes.iter().enumerate().map(|(step, node)| (*node, step)).collect();
        let mut scratch: BTreeMap<usize, u64> = BTreeMap::new();
        for own in memc_passes::analysis::scratch::scratch(module, options) {
            if let Some(step) = step_of.get(&own.node) {
                *scratch.entry(*step).or_default() += own.bytes.0;
            }
        }
        let mut placed: SecondaryMap<Value, bool> = SecondaryMap::default();
        let Memory { liveness, classes, .. } = Memory::of(module, options);
        for value in module.values().keys() {
            placed.set(value, classes[value].is_some_and(|class| class.is_placed(options.io)));
        }
        let mut levels = Self {
            module,
            profile: &judged.profile,
            is_alone: judged.is_alone,
            scratch,
            liveness,
            placed,
            large: Vec::new(),
        };
        levels.large = levels.large(least);
        levels
    }

    fn large(&self, least: u64) -> Vec<Vec<Value>> {
        let nodes = &self.module.graph(self.module.main()).nodes;
        let results = nodes.iter().flat_map(|node| self.module.node(*node).results());
        let mut large: Vec<Value> = results.filter(|value| self.bytes(*value) >= least).collect();
        large.sort_by_key(|value| (Reverse(self.bytes(*value)), *value));
        let mut at = vec![Vec::new(); nodes.len()];
        for value in large {
            let (start, end) = self.range(value).unwrap_or_default();
            for (step, there) in at[..end.min(nodes.len())].iter_mut().enumerate().skip(start) {
                if !self.is_alone || self.touches(step, value) {
                    there.push(value);
                }
            }
        }
        at
    }

    /// Returns whether a step's node reads or makes a value.
    fn touches(&self, step: usize, value: Value) -> bool {
        let data = self.module.node(self.node(step));
        data.operands().chain(data.results()).any(|other| self.owner(other) == value)
    }

    /// Returns the large values that own bytes of the arena at a step, largest first.
    pub(super) fn live(&self, step: usize) -> &[Value] {
        &self.large[step]
    }

    /// Returns, by step, the bytes of the values live on both sides of the border after the step.
    pub(super) fn crossing(&self) -> Vec<u64> {
        let mut changes = vec![(0, 0); self.profile.len() + 2];
        for value in self.module.values().keys() {
            if let Some((start, end)) = self.range(value).filter(|(start, end)| start + 1 < *end) {
                changes[start.min(self.profile.len())].0 += self.bytes(value);
                changes[(end - 1).min(self.profile.len())].1 += self.bytes(value);
            }
        }
        let mut now = 0;
        let after = |(begun, ended): &(u64, u64)| {
            now = now + begun - ended;
            now
        };
        changes.iter().take(self.profile.len()).map(after).collect()
    }

    /// Returns the node of a step.
    pub(super) fn node(&self, step: usize) -> Node {
        self.module.graph(self.module.main()).nodes[step]
    }

    /// Returns the largest extents of a value; empty if unknown.
    pub(super) fn dims(&self, value: Value) -> Vec<u64> {
        self.module.largest(value).and_then(|ty| ty.known_dims()).unwrap_or_default()
    }

    fn bytes(&self, value: Value) -> u64 {
        self.module.size(value).map_or(0, |size| size.0)
    }

    /// Returns the owner of a value's bytes.
    fn owner(&self, mut value: Value) -> Value {
        while let Some(alias) = self.module.plan.alias[value] {
            value = alias.of;
        }
        value
    }

    /// Returns the maximum bytes of a step while the parts of a region are computed, and the limit of
    /// that number with ever more parts.
    ///
    /// Shares take a part of the bytes of whole values. Values that other nodes need whole are live from
    /// the first part to the last; sums are live next to the addend of the part, and rows next to their
    /// shares if `joins` says that other nodes join them. Values that parts read stay live to the last
    /// part, and sliced shares are copies. The two numbers are equal if shares overlap. Linear in the
    /// region's values and steps.
    pub(super) fn with(&self, region: &Region, joins: bool) -> (u64, u64) {
        let (first, last) = region.span();
        let mut changes = Changes::of(first, last);
        let mut owners = BTreeSet::new();
        // Shares of the removed Concat; operands with other readers live to the end.
        if let Some((step, value)) = region.opened {
            self.shares(region, value, &mut owners, &mut changes);
            for (operand, end) in self.operands(step).filter(|(_, end)| *end > step + 1) {
                changes.longer.live(Some((end, usize::MAX)), self.bytes(operand));
            }
        }
        // Values that only the region needs, and values that others need whole.
        for value in region.made.iter().filter(|(_, is_needed)| !**is_needed).map(|(value, _)| *value) {
            self.shares(region, value, &mut owners, &mut changes);
        }
        let needed = || region.made.iter().filter(|(_, is_needed)| **is_needed).map(|(value, _)| *value);
        needed().for_each(|value| changes.there.live(self.range(value), self.bytes(value)));
        // Sliced shares are copies, live from the first node that reads them to the last one.
        for (value, steps) in region.cut_at(self.module) {
            changes.shared.live(Some((steps.0, steps.1 + 1)), region.share(value, self.bytes(value)));
        }
        // Values that parts read are live until the last part has read them: longer than before.
        for value in
            region.read.keys().filter(|value| region.opened.is_none_or(|(_, opened)| opened != **value))
        {
            if let Some((_, end)) = self.range(*value) {
                changes.longer.live(Some((end, usize::MAX)), self.bytes(*value));
            }
        }
        // Sum up the bytes of each step.
        let overlaps = region.divided.spans.is_some();
        let whole = self.whole(region, needed());
        let joined = needed().map(|value| self.bytes(value)).max().filter(|_| joins).unwrap_or(0);
        let read: BTreeSet<Value> = region.read.keys().map(|value| self.owner(*value)).collect();
        let read: u64 =
            read.into_iter().filter(|value| self.placed[*value]).map(|value| self.bytes(value)).sum();
        let (mut most, mut least) = (0, 0);
        for step in first..=last {
            let own = if region.nodes.contains_key(&step) {
                self.scratch.get(&step).copied().unwrap_or(0)
            } else {
                0
            };
            let Changes { before, there, shared, longer } = &mut changes;
            let all =
                self.profile[step].saturating_sub(before.at(step) + there.at(step) + own) + longer.at(step);
            let beside = if self.is_alone { read } else { all };
            let shared = shared.at(step);
            if region.opened.is_some_and(|(opened, _)| opened == step) {
                continue;
            }
            most = most.max(beside + shared + own.div_ceil(region.parts) + whole);
            least = least.max(beside + whole);
            if overlaps && step == last {
                // Rows of images are not contiguous: all shares are live when the first value is joined,
                // unless readers take the shares.
                most = most.max(beside + whole + joined);
            }
        }
        (most, if overlaps { most } else { least })
    }

    /// Returns the operands of a step's node that take bytes of the arena, each with the end of its live
    /// range.
    fn operands(&self, step: usize) -> impl Iterator<Item = (Value, usize)> {
        self.module
            .node(self.node(step))
            .operands()
            .filter_map(|operand| Some((operand, self.range(operand)?.1)))
    }

    /// Replaces a value by its shares, once for all values that share its bytes.
    fn shares(&self, region: &Region, value: Value, owners: &mut BTreeSet<Value>, changes: &mut Changes) {
        let owner = self.owner(value);
        if owners.insert(owner) {
            let bytes = self.bytes(owner);
            changes.before.live(self.range(owner), bytes);
            changes.shared.live(self.range(owner), region.share(value, bytes));
        }
    }

    /// Returns the maximum bytes of whole values during the parts: values that the region makes, sums
    /// next to the addend of the part if no kernel adds in place, and operands of a removed Concat,
    /// which die one after another.
    fn whole(&self, region: &Region, needed: impl Iterator<Item = Value>) -> u64 {
        let (mut first, mut later) = (0, 0);
        for value in needed {
            let bytes = self.bytes(value);
            let times = match region.divided.values.get(&value) {
                Some(Piece::Sum | Piece::Mean) => 2,
                _ => 1,
            };
            first += bytes;
            later += bytes * times;
        }
        let Some((step, _)) = region.opened else { return later };
        let left: Vec<u64> = self
            .operands(step)
            .filter(|(_, end)| *end <= step + 1)
            .map(|(operand, _)| self.bytes(operand))
            .collect();
        let all: u64 = left.iter().sum();
        (all + first).max(all - left.first().copied().unwrap_or(0) + later)
    }

    /// Returns the half-open range of steps at which the arena contains a value; `None` if the value has
    /// no place there.
    fn range(&self, value: Value) -> Option<(usize, usize)> {
        let range = self.liveness.range(value).filter(|_| self.placed[value])?;
        Some((range.start.0 as usize, range.end.0 as usize))
    }
}

/// Changes by a region, at each step of its span.
struct Changes {
    /// Previous bytes of values that become shares.
    before: LiveBytes,
    /// Bytes of these shares.
    shared: LiveBytes,
    /// Bytes of values that stay whole.
    there: LiveBytes,
    /// Bytes of values whose live range grows.
    longer: LiveBytes,
}

impl Changes {
    fn of(first: usize, last: usize) -> Self {
        let none = || LiveBytes::new(first, last);
        Self { before: none(), shared: none(), there: none(), longer: none() }
    }
}

/// Live bytes at the steps of a span, read in order.
struct LiveBytes {
    first: usize,
    last: usize,
    /// Bytes that begin and end at each step.
    steps: Vec<(u64, u64)>,
    /// Bytes at the step that was read last.
    now: u64,
}

impl LiveBytes {
    fn new(first: usize, last: usize) -> Self {
        Self { first, last, steps: vec![(0, 0); last - first + 2], now: 0 }
    }

    /// Adds bytes that are live in a half-open range of steps.
    fn live(&mut self, range: Option<(usize, usize)>, bytes: u64) {
        let Some((start, end)) = range else { return };
        let at = |step: usize| step.clamp(self.first, self.last + 1) - self.first;
        self.steps[at(start)].0 += bytes;
        self.steps[at(end)].1 += bytes;
    }

    /// Returns the bytes at a step; callers must visit the steps in order, from the first.
    fn at(&mut self, step: usize) -> u64 {
        let (begun, ended) = self.steps[step - self.first];
        self.now = self.now + begun - ended;
        self.now
    }
}
