//! What a node computes from pieces of its operands, for batches that are computed in equal parts, one after another.

pub(crate) mod blocks;
pub(crate) mod reach;
pub(crate) mod rules;

use memc_ir::{ElementType, Operator};

use crate::info::{Linear, SplitAxes, Typed};
use crate::{Data, lookup, repeatable};
pub use blocks::pieces_in_blocks;
pub use reach::{Reach, ReachRule, Taken, pieces_reaching};
pub use rules::holds_zeros;

/// What stands for a value while one of the equal parts of a batch is computed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Piece {
    /// The whole value, the same for every part.
    Whole,
    /// The part's own share of this axis: of `n` parts the `k`-th holds positions `k * extent / n` to `(k + 1) * extent / n`.
    Along(usize),
    /// The part's own share of each of so many equal blocks of this axis.
    Blocks {
        /// The axis.
        axis: usize,
        /// Two or more.
        blocks: u64,
    },
    /// The part's own share of this axis, as of [`Self::Along`], of numbers that count elements of another value: they begin at the first one of the part's
    /// own share of that. Such shares cannot be joined, and are not what would be cut out of the whole.
    Within(usize),
    /// A value of full extents; the whole value is the sum of those of all parts.
    Sum,
    /// A value of full extents; the whole value is the mean of those of all parts.
    Mean,
    /// A value of full extents that each part makes of what earlier parts gave; that of the last part is the whole value.
    Accumulated,
}

impl Piece {
    /// The axis of which a part has its own share, or shares of its blocks.
    pub fn axis(self) -> Option<usize> {
        match self {
            Self::Along(axis) | Self::Within(axis) | Self::Blocks { axis, .. } => Some(axis),
            _ => None,
        }
    }

    /// Whether the parts' values are added.
    pub fn is_added(self) -> bool {
        matches!(self, Self::Sum | Self::Mean | Self::Accumulated)
    }
}

/// How a node takes part in the computation of a part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pieces {
    /// What each operand has to be; one that is left out is [`Piece::Whole`].
    pub operands: Vec<Piece>,
    /// What each result then is.
    pub results: Vec<Piece>,
    /// Operand that states the extents of result 0, and must state those of the part's.
    pub extents: Option<usize>,
    /// Operand that must be divided by the number of parts.
    pub divided: Option<usize>,
    /// Integer attribute that counts what the parts share (groups of channels): each part has its share of them.
    pub count: Option<&'static str>,
    /// Operands that count once: only the first part reads them, and the others leave them out.
    pub in_first: Vec<usize>,
    /// Attributes that say what is done with a whole sum: only the last part has them.
    pub in_last: &'static [&'static str],
    /// Operand to which result 0 is added, and that holds zeros, or is left out in all parts but the first: it may hold the sum of what earlier parts
    /// gave.
    pub accumulates: Option<usize>,
    /// Operator that parts' nodes have in the place of the given one; it takes the same operands and attributes.
    pub operator: Option<Operator>,
    /// Operator that could be taken for it, and its operand to which result 0 would be added.
    adder: Option<(Operator, usize)>,
    /// How positions of result 0 depend on those of operand 0, where these are not the same ones.
    pub reach: Option<Reach>,
}

impl Pieces {
    /// These operands make these results, and nothing else need be said.
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

    /// The same where the kernel of another operator adds what it makes to what earlier parts gave, if there is one that may be taken.
    pub fn added_by_kernel(mut self, may: impl FnOnce(&Operator) -> bool) -> Self {
        if let Some((operator, operand)) = self.adder.take().filter(|(operator, _)| may(operator)) {
            self.results = vec![Piece::Accumulated];
            (self.operator, self.accumulates) = (Some(operator), Some(operand));
        }
        self
    }
}

/// A node, and what is there of its operands.
#[derive(Clone, Copy, Debug)]
pub struct Share<'a> {
    /// The node with its types.
    pub node: Typed<'a>,
    /// What is there of each operand.
    pub operands: &'a [Piece],
    /// Number of parts, at least two.
    pub parts: u64,
}

/// How a node takes part, of whose operands these pieces are there; `None` where it needs whole ones, or where nothing is in parts.
///
/// A whole operand may be asked for in parts (they can be cut out of it), never the other way round. Nodes with bodies, nodes that may
/// not run twice, and nodes with an operand of unknown extents take no part. Linear in the number of extents.
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

/// How a node takes part, of whose operands these pieces are there, where the parts' shares of axes of this `extent` are the same for all of
/// these and need not be equal. No other axes are in parts, and nothing is averaged.
pub fn pieces_between(node: Typed<'_>, operands: &[Piece], extent: u64) -> Option<Pieces> {
    let found = pieces(Share { node, operands, parts: 1 })?;
    let fits = |dims: Option<Vec<u64>>, piece: Piece| match piece {
        Piece::Along(axis) => dims.is_some_and(|dims| dims.get(axis) == Some(&extent)),
        Piece::Blocks { .. } => false,
        _ => !matches!(piece, Piece::Mean | Piece::Within(_)),
    };
    let operands = found.operands.iter().enumerate().all(|(index, piece)| fits(node.input_dims(index), *piece));
    let is_absent = |index: usize| node.data().outputs[index].is_none();
    let results =
        found.results.iter().enumerate().all(|(index, piece)| is_absent(index) || fits(node.output_dims(index), *piece));
    let counts = found.count.is_none_or(|count| u64::try_from(node.data().int(count, 1)) == Ok(extent));
    (operands && results && counts && found.divided.is_none()).then_some(found)
}

/// How a node gives a share of result 0 along an axis: the first of its operands, and the first axis of that, of which shares
/// make it, with what that takes of the others, as `found` says ([`pieces`], [`pieces_reaching`]). `None` where there is none. Linear in the
/// axes of all operands.
pub fn pieces_giving(node: Typed<'_>, axis: usize, found: impl Fn(&[Piece]) -> Option<Pieces>) -> Option<Pieces> {
    let mut operands = vec![Piece::Whole; node.data().inputs.len()];
    for index in 0..operands.len() {
        for own in 0..node.input_dims(index).map_or(0, |dims| dims.len()) {
            operands[index] = Piece::Along(own);
            if let Some(found) = found(&operands).filter(|found| found.results.first() == Some(&Piece::Along(axis))) {
                return Some(found);
            }
        }
        operands[index] = Piece::Whole;
    }
    None
}

/// Sums and means of what a linear node makes of each part.
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

/// Whether pieces of operands are there or can be cut out, and all extents can be divided.
fn is_possible(share: Share<'_>, found: &Pieces) -> bool {
    let fits = |(given, asked): (&Piece, &Piece)| given == asked || (*given == Piece::Whole && matches!(asked, Piece::Along(_)));
    let divides = |dims: Option<Vec<u64>>, piece: Piece| match piece.axis() {
        Some(axis) => {
            dims.is_some_and(|dims| dims.get(axis).is_some_and(|extent| extent.is_multiple_of(share.parts) && *extent > 0))
        }
        None => true,
    };
    let floats =
        |index: usize| share.node.output(index).is_some_and(|ty| matches!(ty.element, ElementType::Float | ElementType::Double));
    share.operands.len() == found.operands.len()
        && share.operands.iter().zip(&found.operands).all(fits)
        && found.operands.iter().enumerate().all(|(index, piece)| divides(share.node.input_dims(index), *piece))
        && found.results.iter().enumerate().all(|(index, piece)| {
            share.node.data().outputs[index].is_none()
                || divides(share.node.output_dims(index), *piece) && (*piece != Piece::Mean || floats(index))
        })
}

impl Share<'_> {
    /// Number of operands, those that are left out included.
    fn count(&self) -> usize {
        self.operands.len()
    }

    /// Whether all extents of all operands are known: one that is not may be 1, and repeated, or have positions of its own for each part.
    fn is_known(&self) -> bool {
        let absent = |index: usize| self.node.data().inputs[index].is_none();
        (0..self.node.data().inputs.len()).all(|index| absent(index) || self.input(index).is_some())
    }

    /// Extents of an operand.
    fn input(&self, index: usize) -> Option<Vec<u64>> {
        self.node.input_dims(index)
    }

    /// Extents of result 0.
    fn output(&self) -> Option<Vec<u64>> {
        self.node.output_dims(0)
    }

    /// The axis along which an operand is in parts.
    fn along(&self, index: usize) -> Option<usize> {
        match self.operands.get(index)? {
            Piece::Along(axis) => Some(*axis),
            _ => None,
        }
    }

    /// An axis by attribute, counted from the front.
    fn axis(&self, default: i64, rank: usize) -> Option<usize> {
        crate::normalize_axis(self.node.data().int("axis", default), rank)
    }

    /// A constant operand's integers.
    fn ints(&self, index: usize) -> Option<Vec<i64>> {
        let value = (*self.node.data().inputs.get(index)?)?;
        let constant = self.node.module.constant_of(value)?;
        Data::from_constant(self.node.module.constant(constant))?.known_ints()
    }

    /// One operand along an axis, all others whole.
    fn only(&self, index: usize, axis: usize) -> Vec<Piece> {
        (0..self.count()).map(|other| if other == index { Piece::Along(axis) } else { Piece::Whole }).collect()
    }

    /// Pieces with these results, one for each that the node has.
    fn made(&self, operands: Vec<Piece>, result: Piece) -> Pieces {
        Pieces::of(operands, vec![result; self.node.data().outputs.len()])
    }
}

#[cfg(test)]
mod tests;
