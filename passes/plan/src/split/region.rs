//! Regions: nodes around a large value that can be computed in parts along one axis, while all other
//! nodes stay whole.

use std::collections::{BTreeMap, BTreeSet};

use memc_edit::is_made_by;
use memc_ir::{Module, Node, Value};
use memc_ops::{Piece, lookup};

use super::seed::Seed;
use super::seen::Mark;
use memc_passes::parts::{Divided, Shares};

/// Name of the pass.
pub(super) const NAME: &str = "split";

/// Returns whether the pass wrote a node: parts are not split again.
pub(super) fn is_own(module: &Module, node: Node) -> bool {
    is_made_by(module, node, NAME)
}

/// Returns whether a node computes rows of its result from ranges of rows, as sliding windows do.
pub(super) fn has_windows(module: &Module, node: Node) -> bool {
    lookup(&module.node(node).operator).is_some_and(|info| info.reach.is_some())
}

/// Returns whether a node joins values.
pub(super) fn is_join(module: &Module, node: Node) -> bool {
    let operator = &module.node(node).operator;
    operator.domain.is_empty() && &*operator.name == "Concat"
}

/// Nodes to compute in parts.
#[derive(Clone, Debug)]
pub(super) struct Region {
    /// The seed from which it grew.
    pub(super) seed: Seed,
    pub(super) parts: u64,
    /// Step and result of a Concat that is removed, because the parts read its operands.
    pub(super) opened: Option<(usize, Value)>,
    /// Nodes by step.
    pub(super) nodes: BTreeMap<usize, Node>,
    pub(super) divided: Divided,
    /// Values that parts make, and whether other nodes need them whole.
    pub(super) made: BTreeMap<Value, bool>,
    /// Whole values that parts read, and whether their shares are sliced at run time.
    pub(super) read: BTreeMap<Value, bool>,
    /// Size in bytes of the smallest value through which the region grew: a smaller limit for small
    /// values changes nothing.
    pub(super) smallest: u64,
}

impl Region {
    /// Returns the first and last step of the region.
    pub(super) fn span(&self) -> (usize, usize) {
        let first = self.nodes.keys().next().copied().unwrap_or(0);
        let last = self.nodes.keys().next_back().copied().unwrap_or(first);
        (self.opened.map_or(first, |(step, _)| step.min(first)), last)
    }

    /// Returns the values whose shares are sliced at run time.
    pub(super) fn cut(&self) -> impl Iterator<Item = Value> {
        let is_opened = |value: Value| self.opened.is_some_and(|(_, opened)| opened == value);
        self.read
            .iter()
            .filter(move |(value, is_cut)| **is_cut && !is_opened(**value))
            .map(|(value, _)| *value)
    }

    /// Returns the sliced values, with the first and the last step that reads them.
    pub(super) fn cut_at(&self, module: &Module) -> BTreeMap<Value, (usize, usize)> {
        let mut found: BTreeMap<Value, (usize, usize)> = BTreeMap::new();
        let cut: BTreeSet<Value> = self.cut().collect();
        for (step, node) in &self.nodes {
            for value in module.node(*node).operands().filter(|value| cut.contains(value)) {
                let steps = found.entry(value).or_insert((*step, *step));
                *steps = (steps.0.min(*step), steps.1.max(*step));
            }
        }
        found
    }

    /// Returns the maximum bytes of a part's share of a value.
    pub(super) fn share(&self, value: Value, bytes: u64) -> u64 {
        match self.divided.spans.as_ref().and_then(|spans| spans.shares(value)) {
            Some((most, _)) => (bytes as f64 * most).ceil() as u64,
            None => self.divided.shares.most(bytes),
        }
    }

    /// Returns the work of all parts of a node, as a multiple of the whole node: above one if shares
    /// overlap.
    pub(super) fn times(&self, module: &Module, node: Node) -> f64 {
        let shares = |value| self.divided.spans.as_ref().and_then(|spans| spans.shares(value));
        module.node(node).results().find_map(shares).map_or(1.0, |(_, all)| all)
    }

    /// Returns the key of the region.
    pub(super) fn mark(&self) -> Mark {
        let shares = match &self.divided.shares {
            Shares::Even(parts) | Shares::Of { parts, .. } => vec![*parts],
            Shares::Between(borders) => borders.clone(),
        };
        let pieces = self.divided.values.iter().map(|(value, piece)| (*value, *piece)).collect();
        Mark { shares, nodes: self.nodes.values().copied().collect(), pieces }
    }

    /// Returns the values that parts make in shares, with the axis of the shares.
    pub(super) fn shares(&self) -> impl Iterator<Item = (Value, usize)> {
        self.made.keys().filter_map(|value| match self.divided.values.get(value) {
            Some(Piece::Along(axis)) => Some((*value, *axis)),
            _ => None,
        })
    }
}
