//! How nodes compute a batch that is split into equal parts, one part after another: pieces of operands
//! and results.

pub(crate) mod blocks;
pub(crate) mod reach;
pub(crate) mod rules;
pub(crate) mod stretch;

use memc_ir::{ElementType, Operator};

use crate::info::{Linear, SplitAxes, Typed};
use crate::{Data, lookup, repeatable};
pub use blocks::pieces_in_blocks;
pub use reach::{Reach, ReachRule, Taken, pieces_reaching};
pub use rules::holds_zeros;
pub use stretch::Stretch;

/// The value that replaces a whole value while one of the equal parts of a batch is computed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Piece {
    /// The whole value, identical for every part.
    Whole,
    /// The part's share of this axis: part `k` of `n` has the positions `k * extent / n` to
    /// `(k + 1) * extent / n`.
    Along(usize),
    /// The part's share of each of several equal blocks of this axis.
    Blocks {
        /// The axis.
        axis: usize,
        /// Number of blocks, at least 2.
        blocks: u64,
    },
    /// The part's share of this axis, as in [`Self::Along`], of numbers that are element indices into
    /// another value. The indices start at the first element of the part's share of that value. These
    /// shares cannot be joined, and they differ from a slice of the whole value.
    Within(usize),
    /// A value of full extents; the whole value is the sum over all parts.
    Sum,
    /// A value of full extents; the whole value is the mean over all parts.
    Mean,
    /// A value of full extents that each part computes from the result of the preceding parts; the
    /// result of the last part is the whole value.
    Accumulated,
}

impl Piece {
    /// Returns the axis of which a part has a share, or a share of each block; `None` for values of full
    /// extents.
    pub fn axis(self) -> Option<usize> {
        match self {
            Self::Along(axis) | Self::Within(axis) | Self::Blocks { axis, .. } => Some(axis),
            _ => None,
        }
    }

    /// Whether the values of the parts are addends of the whole value (sum, mean or running sum).
    pub fn is_added(self) -> bool {
        matches!(self, Self::Sum | Self::Mean | Self::Accumulated)
    }
}

/// The pieces that a node reads and computes for one part, and the changes to the part's node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pieces {
    /// The required piece of each operand; [`Piece::Whole`] for an omitted operand.
    pub operands: Vec<Piece>,
    /// The resulting piece of each result.
    pub results: Vec<Piece>,
    /// Position of the operand that states the extents of result 0. It must state the extents of the
    /// part's result.
    pub extents: Option<usize>,
    /// Position of the operand that must be divided by the number of parts.
    pub divided: Option<usize>,
    /// Integer attribute that counts units which the parts share (groups of channels). Each part's node
    /// gets its share of the count.
    pub count: Option<&'static str>,
    /// Positions of operands that are added once: only the first part reads them, the other parts omit
    /// them.
    pub in_first: Vec<usize>,
    /// Attributes that apply to the complete sum: only the node of the last part has them.
    pub in_last: &'static [&'static str],
    /// Position of the operand to which the node adds result 0. It contains zeros, or is omitted in all
    /// parts but the first, and may hold the sum of the preceding parts.
    pub accumulates: Option<usize>,
    /// Operator of the parts' nodes, if it replaces the node's operator; it takes equal operands and
    /// attributes.
    pub operator: Option<Operator>,
    /// An operator that could replace the node's operator, and the position of the operand to which it
    /// adds result 0.
    adder: Option<(Operator, usize)>,
    /// How positions of result 0 depend on positions of operand 0, if they are not identical.
    pub reach: Option<Reach>,
}

impl Pieces {
    /// Creates pieces from operands and results, with no changes to the part's node.
    fn of(operands: Vec<Piece>, results: Vec<Piece>) -> Self {
        Self {
            operands,
            results,
            extents: None,
            divided: None,
            count: None,
            in_first: Vec::new(),
            in_last: &[],
            accumulates: None,
            operator: None,
            adder: None,
            reach: None,
        }
    }

    /// Uses the alternative operator, whose kernel adds its product to the result of the preceding
    /// parts, if an alternative exists and `may` accepts it. Otherwise returns `self` unchanged.
    pub fn added_by_kernel(mut self, may: impl FnOnce(&Operator) -> bool) -> Self {
        if let Some((operator, operand)) = self.adder.take().filter(|(operator, _)| may(operator)) {
            self.results = vec![Piece::Accumulated];
            (self.operator, self.accumulates) = (Some(operator), Some(operand));
        }
        self
    }
}

/// A node and the available pieces of its operands.
#[derive(Clone, Copy, Debug)]
pub struct Share<'a> {
    /// The node with its types.
    pub node: Typed<'a>,
    /// The available piece of each operand.
    pub operands: &'a [Piece],
    /// Number of parts, at least 2.
    pub parts: u64,
}

/// Returns how a node takes part in the computation of a part, given the available pieces of its
/// operands. `None` if the node needs whole operands, or if no operand is split.
///
/// The answer may require a share of a whole operand, because a share can be cut out of the whole; it
/// never requires the whole of a split operand. Nodes with bodies, nodes that may not run twice, and
/// nodes with an operand of unknown extents take no part. O(extents).
pub fn pieces(share: Share<'_>) -> Option<Pieces> {
    let data = share.node.data();
    let info = lookup(&data.operator)?;
    let may = data.bodies().next().is_none() && repeatable(share.node.module, share.node.node);
    if !may || !share.is_known() || share.operands.iter().all(|piece| *piece == Piece::Whole) {
        return None;
    }
    let found = if share.operands.iter().any(|piece| piece.is_added()) {
        added(share, info.linear)?
    } else {
        match info.split {
            SplitAxes::None => return None,
            SplitAxes::All => rules::element_wise(&share)?,
            SplitAxes::AllButAxis => rules::all_but_axis(&share)?,
            SplitAxes::AllButLast => rules::all_but_last(&share)?,
            SplitAxes::Batch => rules::batch(&share)?,
            SplitAxes::Rule(rule) => rule(&share)?,
        }
    };
    is_possible(share, &found).then_some(found)
}

/// Like [`pieces`], for parts that may be unequal: every split axis must have this `extent`, so that all
/// values share one division of it. Returns `None` if another axis would be split, or if a value would
/// be averaged.
pub fn pieces_between(node: Typed<'_>, operands: &[Piece], extent: u64) -> Option<Pieces> {
    let found = pieces(Share { node, operands, parts: 1 })?;
    let fits = |dims: Option<Vec<u64>>, piece: Piece| match piece {
        Piece::Along(axis) => dims.is_some_and(|dims| dims.get(axis) == Some(&extent)),
        Piece::Blocks { .. } => false,
        _ => !matches!(piece, Piece::Mean | Piece::Within(_)),
    };
    let operands =
        found.operands.iter().enumerate().all(|(index, piece)| fits(node.input_dims(index), *piece));
    let is_absent = |index: usize| node.data().outputs[index].is_none();
    let results = found
        .results
        .iter()
        .enumerate()
        .all(|(index, piece)| is_absent(index) || fits(node.output_dims(index), *piece));
    let counts = found.count.is_none_or(|count| u64::try_from(node.data().int(count, 1)) == Ok(extent));
    (operands && results && counts && found.divided.is_none()).then_some(found)
}

/// Returns how a node computes a share of result 0 along `axis`. Tries the axes of each operand in
/// order, and returns the first [`Pieces`] by `found` ([`pieces`], [`pieces_reaching`]) that give this
/// share; they include the requirements on the other operands. `None` if no operand axis gives the
/// share. O(axes of all operands) calls of `found`.
pub fn pieces_giving(
    node: Typed<'_>,
    axis: usize,
    found: impl Fn(&[Piece]) -> Option<Pieces>,
) -> Option<Pieces> {
    let mut operands = vec![Piece::Whole; node.data().inputs.len()];
    for index in 0..operands.len() {
        for own in 0..node.input_dims(index).map_or(0, |dims| dims.len()) {
            operands[index] = Piece::Along(own);
            if let Some(found) =
                found(&operands).filter(|found| found.results.first() == Some(&Piece::Along(axis)))
            {
                return Some(found);
            }
        }
        operands[index] = Piece::Whole;
    }
    None
}

/// Handles operands that are addends: a linear node applied to each addend gives addends of its results.
fn added(share: Share<'_>, linear: Linear) -> Option<Pieces> {
    let first = *share.operands.first().filter(|piece| **piece != Piece::Accumulated)?;
    let same = match linear {
        Linear::No => false,
        Linear::First => first.is_added() && share.operands[1..].iter().all(|piece| *piece == Piece::Whole),
        Linear::All => share.operands.iter().all(|piece| *piece == first),
    };
    let results = vec![first; share.node.data().outputs.len()];
    same.then(|| Pieces::of(share.operands.to_vec(), results))
}

/// Whether all required pieces are available or can be cut out, and all split extents are divisible by
/// the number of parts. No operator cuts elements of less than a byte: only positions of a constant that are
/// one run of whole bytes are at hand.
fn is_possible(share: Share<'_>, found: &Pieces) -> bool {
    let fits = |(given, asked): (&Piece, &Piece)| {
        given == asked || (*given == Piece::Whole && matches!(asked, Piece::Along(_)))
    };
    let divides = |dims: Option<Vec<u64>>, piece: Piece| match piece.axis() {
        Some(axis) => dims.is_some_and(|dims| {
            dims.get(axis).is_some_and(|extent| extent.is_multiple_of(share.parts) && *extent > 0)
        }),
        None => true,
    };
    let floats = |index: usize| {
        share
            .node
            .output(index)
            .is_some_and(|ty| matches!(ty.element, ElementType::Float | ElementType::Double))
    };
    let is_cut_in_bytes = |(index, piece): (usize, &Piece)| {
        let Some((axis, ty)) = piece.axis().zip(share.node.input(index)) else { return true };
        if ty.element.bits().is_none_or(|bits| bits.is_multiple_of(8)) {
            return true;
        }
        let value = share.node.data().inputs.get(index).copied().flatten();
        let is_constant = value.is_some_and(|value| share.node.module.constant_of(value).is_some());
        let is_one_run =
            ty.known_dims().is_some_and(|dims| dims.iter().take(axis).all(|extent| *extent == 1));
        is_constant && is_one_run && ty.position_bytes(axis).is_some()
    };
    share.operands.len() == found.operands.len()
        && share.operands.iter().zip(&found.operands).all(fits)
        && found.operands.iter().enumerate().all(is_cut_in_bytes)
        && found
            .operands
            .iter()
            .enumerate()
            .all(|(index, piece)| divides(share.node.input_dims(index), *piece))
        && found.results.iter().enumerate().all(|(index, piece)| {
            share.node.data().outputs[index].is_none()
                || divides(share.node.output_dims(index), *piece) && (*piece != Piece::Mean || floats(index))
        })
}

impl Share<'_> {
    /// Returns the number of operands, including omitted operands.
    fn count(&self) -> usize {
        self.operands.len()
    }

    /// Whether all extents of all operands are known. An unknown extent may be 1 and broadcast, or may
    /// be as long as the split axis.
    fn is_known(&self) -> bool {
        let absent = |index: usize| self.node.data().inputs[index].is_none();
        (0..self.node.data().inputs.len()).all(|index| absent(index) || self.input(index).is_some())
    }

    /// Returns the extents of an operand, or `None` unless all are known.
    fn input(&self, index: usize) -> Option<Vec<u64>> {
        self.node.input_dims(index)
    }

    /// Returns the extents of result 0, or `None` unless all are known.
    fn output(&self) -> Option<Vec<u64>> {
        self.node.output_dims(0)
    }

    /// Returns the axis along which an operand is split, or `None`.
    fn along(&self, index: usize) -> Option<usize> {
        match self.operands.get(index)? {
            Piece::Along(axis) => Some(*axis),
            _ => None,
        }
    }

    /// Returns attribute `axis` as a position from the front, for a tensor of this rank.
    fn axis(&self, default: i64, rank: usize) -> Option<usize> {
        crate::normalize_axis(self.node.data().int("axis", default), rank)
    }

    /// Returns the integers of a constant operand, or `None` if the operand is not a constant.
    fn ints(&self, index: usize) -> Option<Vec<i64>> {
        let value = (*self.node.data().inputs.get(index)?)?;
        let constant = self.node.module.constant_of(value)?;
        Data::from_constant(self.node.module.constant(constant))?.known_ints()
    }

    /// Builds operand pieces: operand `index` split along `axis`, all other operands whole.
    fn only(&self, index: usize, axis: usize) -> Vec<Piece> {
        (0..self.count())
            .map(|other| if other == index { Piece::Along(axis) } else { Piece::Whole })
            .collect()
    }

    /// Creates pieces in which every result of the node is `result`.
    fn made(&self, operands: Vec<Piece>, result: Piece) -> Pieces {
        Pieces::of(operands, vec![result; self.node.data().outputs.len()])
    }
}

#[cfg(test)]
mod tests;
