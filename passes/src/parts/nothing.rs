//! Parts without positions: where an axis is shorter than the number of parts, some parts compute nothing.

use memc_ir::{Module, Node};
use memc_ops::{Data, Piece, Pieces, Profile};

/// Returns whether a part of a node may have no positions: its kernel takes shares without elements, makes
/// such shares, and adds nothing to sums.
pub fn takes_nothing(module: &Module, profile: &Profile, node: Node, pieces: &Pieces) -> bool {
    let operator = pieces.operator.as_ref().unwrap_or(&module.node(node).operator);
    let is_share = |piece: &Piece| matches!(piece, Piece::Along(_) | Piece::Within(_));
    let is_sum = |piece: &Piece| matches!(piece, Piece::Sum | Piece::Accumulated);
    if pieces.reach.is_some()
        || pieces.divided.is_some()
        || pieces.count.is_some()
        || keeps_wrong_axes(module, node)
    {
        return false;
    }
    if !pieces.operands.iter().chain(&pieces.results).any(is_share) {
        // A linear node after a sum runs on whole addends.
        return true;
    }
    pieces.operands.iter().all(|piece| *piece == Piece::Whole || is_share(piece))
        && pieces.results.iter().all(|piece| is_share(piece) || is_sum(piece))
        && (!pieces.results.iter().any(is_share) || profile.takes_empty(operator))
        && (!pieces.results.iter().any(is_sum) || profile.adds_nothing(operator))
}

/// Returns whether a node is a reduction that gives a result without elements wrong extents, and whose axes
/// cannot be counted from the front: in ONNX Runtime 1.32 one that keeps its axes and counts them from the
/// end does not reduce them then.
fn keeps_wrong_axes(module: &Module, node: Node) -> bool {
    let data = module.node(node);
    let keeps_axes = data.operator.name.starts_with("Reduce") && data.int("keepdims", 1) != 0;
    keeps_axes
        && reduced(module, node).is_none_or(|axes| axes.iter().any(|axis| *axis < 0))
        && from_front(module, node).is_none()
}

/// Returns the axes of a reduction, all counted from the front, if the node states them and counts any from
/// the end; `None` otherwise.
pub(super) fn from_front(module: &Module, node: Node) -> Option<Vec<i64>> {
    let data = module.node(node);
    let axes = data.operator.name.starts_with("Reduce").then(|| reduced(module, node))??;
    let rank = i64::try_from(module.ty(data.inputs.first().copied().flatten()?).tensor()?.rank()?).ok()?;
    let counted: Vec<i64> = axes.iter().map(|axis| if *axis < 0 { *axis + rank } else { *axis }).collect();
    (axes != counted && counted.iter().all(|axis| (0..rank).contains(axis))).then_some(counted)
}

/// Returns the axes that a reduction states, by its attribute or by a constant.
fn reduced(module: &Module, node: Node) -> Option<Vec<i64>> {
    let data = module.node(node);
    let stated = || {
        let operand = data.inputs.get(1).copied().flatten()?;
        Data::from_constant(module.constant(module.constant_of(operand)?))?.known_ints()
    };
    data.ints("axes").map(<[i64]>::to_vec).or_else(stated)
}

/// Returns whether a node's shares are those of an extent of which each divided axis is a multiple, whether
/// or not the parts are equal: nothing is averaged, divided by the number of parts, counted, or cut into
/// blocks.
pub fn are_multiples(pieces: &Pieces) -> bool {
    let is_plain = |piece: &Piece| !matches!(piece, Piece::Mean | Piece::Blocks { .. });
    pieces.reach.is_none()
        && pieces.divided.is_none()
        && pieces.count.is_none()
        && pieces.operands.iter().chain(&pieces.results).all(is_plain)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn axes_of_reductions_are_counted_from_the_front() {
        let found = |line: &str| {
            let text = format!(
                "mem 1\nir_version 10\nopset \"\" 21\ngraph @g {{\ninput %x : f32[4,5,8]\nconst %last : i64[1] = [-1]\n\
                 const %two : i64[1] = [2]\n%y = {line}\nreturn %y\n}}\n"
            );
            let module = memc_ir::text::parse(&text).unwrap();
            let node = module.graph(module.main()).nodes[0];
            (from_front(&module, node), keeps_wrong_axes(&module, node))
        };
        assert_eq!(found("ReduceMean(%x, %last) : f32[4,5,1]"), (Some(vec![2]), false));
        assert_eq!(found("ReduceMean(%x) : f32[1,1,1]"), (None, true), "no axes are stated");
        assert_eq!(found("ReduceMean(%x, %two) : f32[4,5,1]"), (None, false));
        assert_eq!(found("ReduceMean(%x, %last) {keepdims = 0} : f32[4,5]"), (Some(vec![2]), false));
        assert_eq!(found("Exp(%x) : f32[4,5,8]"), (None, false));
    }
}
