//! Transpositions: joins two into one, removes pairs that cancel, and replaces moves of axes of extent 1
//! by a Reshape.

use memc_ir::{Node, Value};
use memc_ops::same_type;

use super::Walk;
use super::chain::{ints, to_reshape};

/// Joins a transposition with the transposition of its operand, then checks whether it moves any
/// element.
pub(super) fn joined(walk: &mut Walk<'_, '_, '_>, node: Node) -> bool {
    if walk.name(node) != "Transpose" {
        return false;
    }
    let mut changed = false;
    if let Some((source, axes)) = through(walk, node) {
        let stays = axes.iter().enumerate().all(|(position, axis)| position == *axis);
        if stays && keeps_type(walk, node, source) && walk.pass_on(node, source) {
            return true;
        }
        if walk.operand(node, 0).is_some_and(|middle| walk.has_one_reader(middle)) {
            let data = walk.module().node(node);
            let (operator, axes) = (data.operator.clone(), axes.into_iter().map(|axis| axis as i64).collect());
            walk.rewriter.redefine(node, operator, vec![Some(source)], vec![ints("perm", axes)]);
            changed = true;
        }
    }
    moves_nothing(walk, node) || changed
}

fn keeps_type(walk: &Walk<'_, '_, '_>, node: Node, source: Value) -> bool {
    let types = walk.only_result(node).map(|result| (walk.module().ty(source).tensor(), walk.module().ty(result).tensor()));
    matches!(types, Some((Some(from), Some(to))) if same_type(from, to))
}

/// Returns the operand of the inner of two transpositions, and the axes that both together select from
/// it.
fn through(walk: &Walk<'_, '_, '_>, node: Node) -> Option<(Value, Vec<usize>)> {
    let inner = walk.producer(walk.operand(node, 0)?, "Transpose")?;
    let (outer_axes, inner_axes) = (axes(walk, node)?, axes(walk, inner)?);
    let joined: Option<Vec<usize>> = outer_axes.iter().map(|axis| inner_axes.get(*axis).copied()).collect();
    Some((walk.operand(inner, 0)?, joined?))
}

/// Maximum rank; tensors of a higher rank are left alone.
const MAX_RANK: usize = 64;

/// Returns the operand's axes in the order of the result's axes; `None` unless each occurs once.
pub(super) fn axes(walk: &Walk<'_, '_, '_>, node: Node) -> Option<Vec<usize>> {
    let rank = walk.operand(node, 0).and_then(|operand| walk.module().ty(operand).tensor()?.rank())?;
    let axes: Vec<usize> = match walk.module().node(node).ints("perm") {
        Some(axes) => axes.iter().map(|axis| usize::try_from(*axis)).collect::<Result<_, _>>().ok()?,
        None => (0..rank).rev().collect(),
    };
    let each_once = rank <= MAX_RANK && axes.len() == rank && (0..rank).all(|axis| axes.contains(&axis));
    each_once.then_some(axes)
}

/// Turns a transposition that keeps the order of all axes with several elements into a Reshape, which
/// shares its operand's bytes.
fn moves_nothing(walk: &mut Walk<'_, '_, '_>, node: Node) -> bool {
    let (Some(operand), Some(result)) = (walk.operand(node, 0), walk.only_result(node)) else { return false };
    let dims = walk.module().ty(operand).tensor().and_then(|ty| ty.known_dims());
    let (Some(dims), Some(axes)) = (dims, axes(walk, node)) else { return false };
    let moved: Vec<usize> = axes.into_iter().filter(|axis| dims[*axis] != 1).collect();
    moved.is_sorted() && to_reshape(walk, node, operand, result)
}
