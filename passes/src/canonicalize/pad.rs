//! Zero padding moves into the convolution that reads it, so the padded image is never made.
//!
//! A kernel may add in another order along the border, so this rule is never exact.

use memc_ir::{Attribute, Node, Value};
use memc_ops::Item;

use super::Walk;

/// Joins a convolution with the zero padding of its image, if the convolution is the padding's only
/// reader.
pub(super) fn joined(walk: &mut Walk<'_, '_, '_>, node: Node) -> bool {
    let Some((source, pads)) = sum(walk, node) else { return false };
    let data = walk.module().node(node);
    let (operator, mut operands, mut attributes) =
        (data.operator.clone(), data.inputs.clone(), data.attributes.clone());
    attributes.retain(|(name, _)| name != "pads");
    attributes.push(("pads".to_owned(), Attribute::Ints(pads)));
    if let Some(first) = operands.first_mut() {
        *first = Some(source);
    }
    walk.maker.redefine(node, operator, operands, attributes);
    true
}

/// Returns the padding's operand, and the sum of the pads of the padding and the convolution.
fn sum(walk: &Walk<'_, '_, '_>, node: Node) -> Option<(Value, Vec<i64>)> {
    let image = walk.maker.operand(node, 0).filter(|_| walk.name(node) == "Conv")?;
    let padding = walk.producer(image, "Pad").filter(|_| walk.has_one_reader(image))?;
    let source = walk.maker.operand(padding, 0)?;
    let rank = walk.module().ty(source).tensor()?.rank()?;
    let more = zeros(walk, padding)
        .filter(|pads| pads.len() == 2 * rank && rank > 2 && pads.iter().all(|pad| *pad >= 0))?;
    let (begins, ends) = more.split_at(rank);
    // A convolution does not pad the batch or the channels.
    if begins[..2].iter().chain(&ends[..2]).any(|pad| *pad != 0) {
        return None;
    }
    let conv = walk.module().node(node);
    if conv.string("auto_pad").is_some_and(|mode| mode != "NOTSET") {
        return None;
    }
    let own = conv.ints("pads").map_or_else(|| vec![0; 2 * (rank - 2)], <[i64]>::to_vec);
    let more: Vec<i64> = begins[2..].iter().chain(&ends[2..]).copied().collect();
    let both = own.len() == more.len();
    let pads: Option<Vec<i64>> = own.iter().zip(&more).map(|(a, b)| a.checked_add(*b)).collect();
    pads.filter(|_| both).map(|pads| (source, pads))
}

/// Returns the numbers of zeros that a Pad adds at each axis: an operand from operator set 11 on, an
/// attribute before.
fn zeros(walk: &Walk<'_, '_, '_>, node: Node) -> Option<Vec<i64>> {
    let data = walk.module().node(node);
    if data.string("mode").is_some_and(|mode| mode != "constant") {
        return None;
    }
    if data.operator.version < 11 {
        return data.ints("pads").filter(|_| data.float("value", 0.0) == 0.0).map(<[i64]>::to_vec);
    }
    let is_zero = |value: Value| {
        let known = walk.elements(value).map(|data| data.items.as_slice());
        matches!(known, Some([Item::Float(number)]) if *number == 0.0)
    };
    let by_axes = walk.maker.operand(node, 3).is_some();
    let value_is_zero = walk.maker.operand(node, 2).is_none_or(is_zero);
    walk.elements(walk.maker.operand(node, 1)?)?.known_ints().filter(|_| value_is_zero && !by_axes)
}
