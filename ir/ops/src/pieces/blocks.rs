//! Splits batches that are not the outermost extent, by a share of each of several equal blocks of an
//! axis. Blocks arise when a reshape merges a sequence axis and the batch axis after it into one axis.

use super::{Piece, Pieces, Share, pieces};
use crate::info::View;
use crate::lookup;

/// Returns how a node takes part, like [`pieces`], if operands may also be split by the blocks of an
/// axis; reshapes may create pieces of blocks. Values are never cut into blocks: the pieces of blocks
/// that the answer requires are already available. O(extents).
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

/// Handles a grouped convolution that is split along the channels that it sums over: each part has a
/// share of every group's channels, and the matching share of the filters. The gradient of the filters
/// of a grouped convolution sums over the batch in this form. The bias is added once.
fn grouped(share: Share<'_>) -> Option<Pieces> {
    let data = share.node.data();
    let groups = u64::try_from(data.int("group", 1)).ok()?;
    let channels = [Piece::Blocks { axis: 1, blocks: groups }, Piece::Along(1)];
    let is_conv = data.operator.domain.is_empty() && &*data.operator.name == "Conv";
    let is_it = is_conv
        && share.operands.starts_with(&channels)
        && share.operands[2..].iter().all(|piece| *piece == Piece::Whole);
    let (input, filters) = (share.input(0)?, share.input(1)?);
    let divides = input.get(1)? / groups.max(1) == *filters.get(1)? && filters[1].is_multiple_of(share.parts);
    let addend = data.inputs.get(2).copied().flatten().map(|_| 2).into_iter().collect();
    (is_it && divides).then(|| Pieces { in_first: addend, ..share.made(share.operands.to_vec(), Piece::Sum) })
}

/// Handles a reshape: maps the piece of operand 0 to a piece of the result with identical bytes.
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
    let before =
        from.get(..axis)?.iter().try_fold(blocks, |product: u64, extent| product.checked_mul(*extent))?;
    let result = block_of(&to, before, share.parts)?;
    let stated = data.inputs.get(1).copied().flatten().is_some() && &*data.operator.name == "Reshape";
    Some(Pieces { extents: stated.then_some(1), ..share.made(share.operands.to_vec(), result) })
}

/// Expresses a share that repeats `before` times in terms of the extents `dims`: along an axis if
/// possible, otherwise in the smallest number of blocks of an axis.
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

/// Handles nodes that keep every position of the axis in place: they treat a share of each block like a
/// share of the axis.
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
