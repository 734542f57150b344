//! A batch in parts: the extent that parts share, and the pieces of nodes.

use memc_ir::{Dim, DimExpr, Module, Node, Ranges, Value};
use memc_ops::{Piece, Pieces, Profile, Share, Typed, pieces_in_blocks};

use crate::parts::{Probes, Shares, are_multiples, takes_nothing};

/// Extent of a batch.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Batch {
    /// A number, which the number of parts divides.
    Known(u64),
    /// A symbol: parts are as even as possible, and empty where there are more parts than positions.
    Free(DimExpr),
}

impl Batch {
    /// Returns the batch of a graph input of these extents: the first one. `None` if it cannot be divided
    /// into this number of parts, or never has as many positions.
    pub(super) fn of(dims: &[Dim], parts: u64, ranges: &Ranges) -> Option<Self> {
        let has_enough =
            |extent: &DimExpr| extent.upper_bound(ranges).is_none_or(|most| most >= i128::from(parts));
        match dims.first()? {
            Dim::Known(extent) => {
                (*extent > 0 && extent.is_multiple_of(parts)).then_some(Self::Known(*extent))
            }
            Dim::Symbolic(extent) => {
                extent.as_symbol().filter(|_| has_enough(extent)).map(|_| Self::Free(extent.clone()))
            }
            Dim::AtMost(_) | Dim::Within(_) | Dim::Unknown => None,
        }
    }

    /// Returns whether an extent is a multiple of the batch.
    pub(super) fn divides(&self, extent: &Dim) -> bool {
        match (self, extent) {
            (Self::Known(batch), Dim::Known(extent)) => *extent > 0 && extent.is_multiple_of(*batch),
            (Self::Free(batch), Dim::Symbolic(extent)) => extent.div_exact(batch).is_some(),
            _ => false,
        }
    }
}

/// A batch of a module in parts.
pub(super) struct Division<'m> {
    pub(super) module: &'m Module,
    profile: &'m Profile,
    /// The module at points of its domain, for a free batch.
    probes: &'m Probes,
    pub(super) batch: &'m Batch,
    parts: u64,
}

impl<'m> Division<'m> {
    /// Divides a batch of a module; `probes` are copies of the module.
    pub(super) fn of(
        module: &'m Module,
        profile: &'m Profile,
        probes: &'m Probes,
        batch: &'m Batch,
        parts: u64,
    ) -> Self {
        Self { module, profile, probes, batch, parts }
    }

    /// Returns the shares of the batch.
    pub(super) fn shares(&self) -> Shares {
        match self.batch {
            Batch::Known(_) => Shares::Even(self.parts),
            Batch::Free(extent) => Shares::Of { extent: extent.clone(), parts: self.parts },
        }
    }

    /// Returns the pieces that a node reads and makes, given the pieces of its operands; `None` if it cannot
    /// be computed in parts. Of a free batch, each position by itself must be a possible part.
    pub(super) fn pieces(&self, node: Node, operands: &[Piece]) -> Option<Pieces> {
        let ask = |node: Typed<'_>, parts: u64| pieces_in_blocks(Share { node, operands, parts });
        let Batch::Free(extent) = self.batch else { return ask(Typed::of(self.module, node), self.parts) };
        let found = self.probes.agreed_of(self.module, node, extent, ask).filter(are_multiples)?;
        let least = extent.lower_bound(&self.module.domain().ranges)?;
        let is_long = least >= i128::from(self.parts);
        let fits = is_long || takes_nothing(self.module, self.profile, node, &found);
        (fits && self.has_multiples(node, &found)).then_some(found)
    }

    /// Returns whether all divided axes of a node are multiples of the batch.
    fn has_multiples(&self, node: Node, pieces: &Pieces) -> bool {
        let data = self.module.node(node);
        let is_multiple = |(value, piece): (&Option<Value>, &Piece)| match value.zip(piece.axis()) {
            None => true,
            Some((value, axis)) => {
                dims(self.module, value).get(axis).is_some_and(|extent| self.batch.divides(extent))
            }
        };
        data.inputs
            .iter()
            .zip(&pieces.operands)
            .chain(data.outputs.iter().zip(&pieces.results))
            .all(is_multiple)
    }

    /// Returns the largest size of a value in bytes; an unknown one counts as `u64::MAX`.
    pub(super) fn bytes(&self, value: Value) -> u64 {
        bytes(self.module, value)
    }
}

/// Returns the extents of a value; none if unknown.
pub(super) fn dims(module: &Module, value: Value) -> &[Dim] {
    module.ty(value).tensor().and_then(|tensor| tensor.shape.as_deref()).unwrap_or_default()
}

/// Returns the largest size of a value in bytes; an unknown one counts as `u64::MAX`.
pub(super) fn bytes(module: &Module, value: Value) -> u64 {
    module.largest(value).and_then(|ty| ty.size()).map_or(u64::MAX, |size| size.0)
}
