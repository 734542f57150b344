//! Regions found at the largest extents of a module's symbols, then proven for all extents of its domain.

use memc_ir::{Dim, Module, Node, Value};
use memc_ops::{Piece, Pieces, Typed};

use super::growth::{Kind, found, is_known};
use super::probes::Probes;
use super::region::Region;
use memc_passes::Options;
use memc_passes::parts::{Divided, Shares, Spans, Unrounded};

/// Returns a copy of a module at the largest extents of its domain; `None` if its extents are known.
pub(super) fn at_largest(module: &Module) -> Option<Module> {
    let has_symbols = || module.values().keys().any(|value| has_symbol(module, value));
    let point = module.domain().probes().into_iter().next().filter(|_| !module.domain().is_empty() && has_symbols())?;
    Some(module.at(&point))
}

fn has_symbol(module: &Module, value: Value) -> bool {
    let dims = module.ty(value).tensor().and_then(|tensor| tensor.shape.as_deref()).unwrap_or_default();
    dims.iter().any(|dim| matches!(dim, Dim::Symbolic(_)))
}

/// Proofs that regions of a module at its largest extents hold for all extents.
pub(super) struct Prover<'m> {
    module: &'m Module,
    options: &'m Options,
    probes: Probes,
    unrounded: Unrounded,
}

impl<'m> Prover<'m> {
    /// Collects the facts of the module with symbols. Linear in values and nodes.
    pub(super) fn of(module: &'m Module, options: &'m Options) -> Self {
        Self { module, options, probes: Probes::of(module), unrounded: Unrounded::of(module, options.profile) }
    }

    /// Returns the region with positions that hold for all extents, in fewer parts if the image is too small
    /// at some extents; `None` if it is not provable.
    pub(super) fn proven(&self, region: &Region) -> Option<Region> {
        let nodes: Vec<Node> = region.nodes.values().copied().collect();
        let is_fixed = nodes.iter().all(|node| region.divided.nodes.get(node).is_some_and(|pieces| self.is_fixed(*node, pieces)));
        let (kind, is_moving) = match (&region.divided.spans, &region.divided.shares) {
            (None, Shares::Even(parts)) if is_fixed => (Kind::Equal(*parts), false),
            (None, Shares::Between(borders)) if is_fixed => (Kind::Of(*borders.last()?), false),
            (_, Shares::Even(_)) => (Kind::Overlapping, true),
            (_, Shares::Between(_)) => return None,
        };
        let mut divided = Divided::among(region.divided.shares.clone());
        for node in &nodes {
            let pieces = self.agreed(*node, region.divided.nodes.get(node)?, kind)?;
            divided.nodes.insert(*node, pieces);
        }
        divided.values.clone_from(&region.divided.values);
        if !self.unrounded.torn(&divided.nodes).is_empty() {
            return None;
        }
        if is_moving {
            let all: Vec<(Node, &Pieces)> = nodes.iter().filter_map(|node| Some((*node, divided.nodes.get(node)?))).collect();
            let needed = |value: Value| region.made.get(&value) == Some(&true);
            let spans = |parts: u64| Spans::of(self.module, &all, &Shares::Even(parts), needed).map(|spans| (parts, spans));
            let (parts, spans) = (2..=region.parts).rev().find_map(spans)?;
            (divided.shares, divided.spans) = (Shares::Even(parts), Some(spans));
        }
        Some(Region { parts: divided.shares.count(), divided, ..region.clone() })
    }

    /// Returns the pieces of a node if they are equal for all extents, and divide its values along the axes
    /// of `known`, its pieces at the largest extents.
    fn agreed(&self, node: Node, known: &Pieces, kind: Kind) -> Option<Pieces> {
        let adders = [None, Some(self.options)];
        adders.into_iter().find_map(|adders| {
            let rule = |typed: Typed<'_>| found(typed, &known.operands, kind, adders);
            let pieces = self.probes.agreed(self.module, node, rule)?;
            (pieces.results == known.results && pieces.operands == known.operands).then_some(pieces)
        })
    }

    /// Returns whether the divided axes of a node have known extents.
    fn is_fixed(&self, node: Node, pieces: &Pieces) -> bool {
        let data = self.module.node(node);
        let is_fixed = |(value, piece): (&Option<Value>, &Piece)| {
            value.zip(piece.axis()).is_none_or(|(value, axis)| is_known(self.module, value, axis))
        };
        data.inputs.iter().zip(&pieces.operands).chain(data.outputs.iter().zip(&pieces.results)).all(is_fixed)
    }
}
