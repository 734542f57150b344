//! Transpositions: joins two into one, removes pairs that cancel, and replaces moves of axes of extent 1
//! by a Reshape.

use memc_ir::{Dim, Node, Operator, Value};
use memc_ops::same_type;

use super::chain::{ints, to_reshape};
use super::{Walk, extents};

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
        if walk.maker.operand(node, 0).is_some_and(|middle| walk.has_one_reader(middle)) {
            let data = walk.module().node(node);
            let (operator, axes) =
                (data.operator.clone(), axes.into_iter().map(|axis| axis as i64).collect());
            walk.maker.redefine(node, operator, vec![Some(source)], vec![ints("perm", axes)]);
            changed = true;
        }
    }
    moves_nothing(walk, node) || changed
}

/// Turns a Reshape of a transposed Reshape into one transposition, if the first Reshape joins neighboring
/// axes, and the second takes each of them apart again. This is done only if a target is computed: the
/// nodes that compute it then have no reader.
///
/// Exporters turn keys into columns this way: `[B,H,S,D]` as `[B*H,S,D]`, transposed, as `[B,H,D,S]`.
pub(super) fn apart(walk: &mut Walk<'_, '_, '_>, node: Node) {
    let Some(found) = taken_apart(walk, node) else { return };
    let version = walk.module().node(node).operator.version;
    let targets: Vec<Value> = found.targets.into_iter().flatten().collect();
    let perm = vec![ints("perm", found.axes)];
    walk.maker.redefine(node, Operator::onnx("Transpose", version), vec![Some(found.source)], perm);
    for value in [found.turned].into_iter().chain(targets) {
        extents::erase_unread(walk, value);
    }
}

/// A transposition of joined axes.
struct Joined {
    source: Value,
    /// Permutation of the axes of the source.
    axes: Vec<i64>,
    /// Result of the transposition of joined axes.
    turned: Value,
    /// Targets of both Reshapes.
    targets: [Option<Value>; 2],
}

fn taken_apart(walk: &Walk<'_, '_, '_>, node: Node) -> Option<Joined> {
    let turned = walk
        .maker
        .operand(node, 0)
        .filter(|turned| walk.name(node) == "Reshape" && walk.has_one_reader(*turned))?;
    let turn = walk.producer(turned, "Transpose")?;
    let joined = walk.maker.operand(turn, 0).filter(|joined| walk.has_one_reader(*joined))?;
    let join = walk.producer(joined, "Reshape")?;
    let (source, result) = (walk.maker.operand(join, 0)?, walk.maker.only_result(node)?);
    let targets = [walk.maker.operand(node, 1), walk.maker.operand(join, 1)];
    if targets.iter().flatten().all(|target| walk.module().constant_of(*target).is_some()) {
        return None;
    }
    let dims = |value: Value| walk.module().ty(value).tensor()?.shape.as_deref();
    let groups = groups(dims(source)?, dims(joined)?)?;
    let axes: Vec<usize> = axes(walk, turn)?
        .into_iter()
        .map(|group| groups.get(group).cloned())
        .collect::<Option<Vec<_>>>()?
        .concat();
    let (from, to) = (dims(source)?, dims(result)?);
    let is_result =
        axes.len() == to.len() && axes.iter().zip(to).all(|(axis, extent)| from[*axis].same(extent));
    is_result.then(|| Joined {
        source,
        axes: axes.into_iter().map(|axis| axis as i64).collect(),
        turned,
        targets,
    })
}

/// Returns the axes of a tensor that each axis of its reshaped form joins; `None` if one joins no whole
/// axes.
fn groups(from: &[Dim], to: &[Dim]) -> Option<Vec<Vec<usize>>> {
    let (mut found, mut at) = (Vec::new(), 0);
    for extent in to {
        let (mut group, mut product) = (vec![at], from.get(at)?.clone());
        at += 1;
        while !product.same(extent) {
            product = product.mul(from.get(at)?);
            group.push(at);
            at += 1;
        }
        found.push(group);
    }
    (at == from.len()).then_some(found)
}

fn keeps_type(walk: &Walk<'_, '_, '_>, node: Node, source: Value) -> bool {
    let types = walk
        .maker
        .only_result(node)
        .map(|result| (walk.module().ty(source).tensor(), walk.module().ty(result).tensor()));
    matches!(types, Some((Some(from), Some(to))) if same_type(from, to))
}

/// Returns the operand of the inner of two transpositions, and the axes that both together select from
/// it.
fn through(walk: &Walk<'_, '_, '_>, node: Node) -> Option<(Value, Vec<usize>)> {
    let inner = walk.producer(walk.maker.operand(node, 0)?, "Transpose")?;
    let (outer_axes, inner_axes) = (axes(walk, node)?, axes(walk, inner)?);
    let joined: Option<Vec<usize>> = outer_axes.iter().map(|axis| inner_axes.get(*axis).copied()).collect();
    Some((walk.maker.operand(inner, 0)?, joined?))
}

/// Maximum rank; tensors of a higher rank are left alone.
const MAX_RANK: usize = 64;

/// Returns the operand's axes in the order of the result's axes; `None` unless each occurs once.
pub(super) fn axes(walk: &Walk<'_, '_, '_>, node: Node) -> Option<Vec<usize>> {
    let rank = walk.maker.operand(node, 0).and_then(|operand| walk.module().ty(operand).tensor()?.rank())?;
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
    let (Some(operand), Some(result)) = (walk.maker.operand(node, 0), walk.maker.only_result(node)) else {
        return false;
    };
    let dims = walk.module().ty(operand).tensor().and_then(|ty| ty.shape.as_deref());
    let (Some(dims), Some(axes)) = (dims, axes(walk, node)) else { return false };
    // An extent with symbols or without bounds may be more than 1.
    let moved: Vec<usize> = axes.into_iter().filter(|axis| dims[*axis].known() != Some(1)).collect();
    moved.is_sorted() && to_reshape(walk, node, operand, result)
}
