//! Batches that are not the outermost extent: a share of each of several equal blocks of an axis, as a sequence that stands before its batch leaves
//! them behind where both become one axis.

use super::{Piece, Pieces, Share, pieces};
use crate::info::View;
use crate::lookup;

/// How a node takes part, as [`pieces`] says, where operands may also be in parts of the blocks of an axis, and what only changes extents may make such
/// parts. Nothing is cut into blocks: an operand of which such parts are asked is there in these. Linear in the number of extents.
pub fn pieces_in_blocks(share: Share<'_>) -> Option<Pieces> {
    let in_blocks = |piece: &Piece| matches!(piece, Piece::Blocks { .. });
    if !share.operands.iter().any(in_blocks) {
        return pieces(share).or_else(|| reshaped(share));
    }
    if lookup(&share.node.data().operator)?.view == View::Reshape {
        return reshaped(share);
    }
    grouped(share).or_else(|| alike(share))
}

/// A convolution in groups along the channels that it sums up: a share of each group's channels with the filters' share of them. The gradient of such a
/// convolution's filters sums over the batch this way. An addend counts once.
fn grouped(share: Share<'_>) -> Option<Pieces> {
    let data = share.node.data();
    let groups = u64::try_from(data.int("group", 1)).ok()?;
    let channels = [Piece::Blocks { axis: 1, blocks: groups }, Piece::Along(1)];
    let is_conv = data.operator.domain.is_empty() && &*data.operator.name == "Conv";
    let is_it =
        is_conv && share.operands.starts_with(&channels) && share.operands[2..].iter().all(|piece| *piece == Piece::Whole);
    let (input, filters) = (share.input(0)?, share.input(1)?);
    let divides = input.get(1)? / groups.max(1) == *filters.get(1)? && filters[1].is_multiple_of(share.parts);
    let addend = data.inputs.get(2).copied().flatten().map(|_| 2).into_iter().collect();
    (is_it && divides).then(|| Pieces { in_first: addend, ..share.made(share.operands.to_vec(), Piece::Sum) })
}

/// The same bytes with other extents.
fn reshaped(share: Share<'_>) -> Option<Pieces> {
    let data = share.node.data();
    let others = share.operands.get(1..)?.iter().all(|piece| *piece == Piece::Whole);
    (others && lookup(&data.operator)?.view == View::Reshape).then_some(())?;
    let (axis, blocks) = match *share.operands.first()? {
        Piece::Along(axis) => (axis, 1),
        Piece::Blocks { axis, blocks } => (axis, blocks),
        _ => return None,
    };
    let (from, to) = (share.input(0)?, share.output()?);
    let before = from.get(..axis)?.iter().try_fold(blocks, |product: u64, extent| product.checked_mul(*extent))?;
    let result = block_of(&to, before, share.parts)?;
    let stated = data.inputs.get(1).copied().flatten().is_some() && &*data.operator.name == "Reshape";
    Some(Pieces { extents: stated.then_some(1), ..share.made(share.operands.to_vec(), result) })
}

/// What a share is that is repeated `before` times, in terms of these extents: along an axis, or else in as few blocks of one as can be.
fn block_of(dims: &[u64], before: u64, parts: u64) -> Option<Piece> {
    let mut product: u64 = 1;
    let mut found = None;
    for (axis, extent) in dims.iter().enumerate() {
        if product == 0 || !before.is_multiple_of(product) {
            break;
        }
        let blocks = before / product;
        if *extent > 0 && blocks.checked_mul(parts).is_some_and(|shares| extent.is_multiple_of(shares)) {
            found = Some(if blocks == 1 { Piece::Along(axis) } else { Piece::Blocks { axis, blocks } });
            if blocks == 1 {
                break;
            }
        }
        product = product.checked_mul(*extent)?;
    }
    found
}

/// What keeps every position of the axis where it is makes of parts of blocks what it makes of shares.
fn alike(share: Share<'_>) -> Option<Pieces> {
    let mut common = None;
    let mut along = Vec::with_capacity(share.operands.len());
    for (index, piece) in share.operands.iter().enumerate() {
        along.push(match *piece {
            Piece::Whole => Piece::Whole,
            Piece::Blocks { axis, blocks } => {
                let own = (*share.input(index)?.get(axis)?, blocks);
                (*common.get_or_insert(own) == own).then_some(Piece::Along(axis))?
            }
            _ => return None,
        });
    }
    let (extent, blocks) = common?;
    let mut found = pieces(Share { operands: &along, ..share })?;
    (found.operands == along && found.count.is_none() && found.reach.is_none()).then_some(())?;
    for (index, piece) in found.results.iter_mut().enumerate() {
        if let Piece::Along(axis) = *piece {
            let is_absent = share.node.data().outputs.get(index).is_none_or(Option::is_none);
            let is_kept = share.node.output_dims(index).is_some_and(|dims| dims.get(axis) == Some(&extent));
            (is_absent || is_kept).then_some(())?;
            *piece = Piece::Blocks { axis, blocks };
        }
    }
    found.operands.copy_from_slice(share.operands);
    Some(found)
}
