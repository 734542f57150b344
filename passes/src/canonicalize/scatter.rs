//! Scattered boxes: updates at positions that follow one another along each axis fill a box of an array, so
//! the result is the updates, or parts of the array joined with them.
//!
//! Exporters write `x[..., a:b] = y` this way, with eight bytes of indices for each axis of each element.
//! Parts and joins can be divided, views and places be shared, and every bit is kept.

use memc_edit::{Attributes, int};
use memc_ir::{Attribute, Bytes, Dim, DimExpr, Node, Operator, TensorType, Value};
use memc_ops::{Item, Stretch, normalize_axis};

use super::Walk;
use crate::analysis::windows::slice_starts;

/// Largest number of nodes between a position and what counts it.
const DEPTH: usize = 12;

/// Turns a node that fills a box into a join, or removes it if the box is the whole array. Returns whether
/// it did.
pub(super) fn filled(walk: &mut Walk<'_, '_, '_>, node: Node) -> bool {
    let Some(found) = Filled::of(walk, node) else { return false };
    if found.inside.is_empty() {
        return walk.pass_on(node, found.updates);
    }
    if !found.saves(walk) {
        return false;
    }
    let turned = found.turned_back(walk);
    let own = turned.as_ref().map_or(&found, |(own, _)| own);
    let Some((values, axis)) = joined(walk, node, own, own.array, 0) else { return false };
    let version = walk.maker.version;
    let attributes: Attributes = int("axis", axis as i64);
    let Some((own, perm)) = &turned else {
        let operands = values.into_iter().map(Some).collect();
        walk.maker.redefine(node, Operator::onnx("Concat", version), operands, attributes);
        return true;
    };
    let ty = walk.module().ty(own.array).clone();
    let join = walk.maker.onnx("Concat", values, attributes);
    let hint = walk.maker.hint(own.array, "filled");
    let whole = walk.maker.compute(Some(node), join, &hint, ty);
    let perm = vec![("perm".to_owned(), Attribute::Ints(perm.clone()))];
    walk.maker.redefine(node, Operator::onnx("Transpose", version), vec![whole], perm);
    true
}

/// An array of which updates fill a box.
struct Filled {
    array: Value,
    indices: Value,
    updates: Value,
    /// The axes along which the box is not the whole array, with its positions.
    inside: Vec<(usize, Stretch)>,
}

impl Filled {
    fn of(walk: &Walk<'_, '_, '_>, node: Node) -> Option<Self> {
        let data = walk.module().node(node);
        let is_plain = data.string("reduction").is_none_or(|way| way == "none");
        let [array, indices, updates] = [0, 1, 2].map(|position| walk.maker.operand(node, position));
        let (array, indices, updates) = (array.filter(|_| is_plain)?, indices?, updates?);
        let [whole, own, filling] = [array, indices, updates].map(|value| shape(walk, value));
        let (whole, own, filling) = (whole?, own?, filling?);
        let starts: Vec<(usize, DimExpr)> = match walk.name(node) {
            "ScatterND" => box_starts(walk, indices, &own)?.into_iter().enumerate().collect(),
            "ScatterElements" if own.len() == whole.len() => {
                let axis = normalize_axis(data.int("axis", 0), whole.len())?;
                let beside = |at: usize| at == axis || own[at] == whole[at];
                let counted = counted(walk, indices, 0).filter(|_| (0..own.len()).all(beside))?;
                vec![(axis, counted.along(own.len() - 1 - axis, &own[axis])?)]
            }
            _ => return None,
        };
        let ranges = &walk.module().domain().ranges;
        let mut inside = Vec::new();
        let mut extents = whole.clone();
        for (axis, start) in starts {
            let count = filling.get(axis)?.expr()?;
            let end = start.add(&count)?.simplified(ranges);
            let extent = whole.get(axis)?.expr()?;
            let is_within = start.at_least(&DimExpr::constant(0), ranges) && extent.at_least(&end, ranges);
            is_within.then_some(())?;
            extents[axis] = Dim::from_expr(count);
            if start.as_constant() != Some(0) || end != extent.simplified(ranges) {
                inside.push((axis, Stretch { start: Dim::from_expr(start), end: Dim::from_expr(end) }));
            }
        }
        (extents == filling).then_some(Self { array, indices, updates, inside })
    }

    /// Returns the box before the transposition of both the array and the updates, and the transposition;
    /// `None` if they have none in common. Exporters turn an axis to the front, and back after the node.
    fn turned_back(&self, walk: &Walk<'_, '_, '_>) -> Option<(Self, Vec<i64>)> {
        let before = |value: Value| {
            let node = walk.producer(value, "Transpose")?;
            let perm = walk.module().node(node).ints("perm")?.to_vec();
            Some((walk.maker.operand(node, 0)?, perm))
        };
        let ((array, perm), (updates, other)) = (before(self.array)?, before(self.updates)?);
        let place = |(axis, stretch): &(usize, Stretch)| {
            Some((usize::try_from(*perm.get(*axis)?).ok()?, stretch.clone()))
        };
        let inside: Vec<_> = self.inside.iter().map(place).collect::<Option<_>>()?;
        (perm == other).then_some((Self { array, indices: self.indices, updates, inside }, perm))
    }

    /// Returns whether parts and a join take no more bytes at once than the node. They need the array twice;
    /// the node needs it once, with indices and updates; or twice, if others read the array as well, or if it
    /// is a copy with the axis turned to the front.
    fn saves(&self, walk: &Walk<'_, '_, '_>) -> bool {
        let size = |value| walk.module().largest_size(value).unwrap_or(Bytes(0));
        let indices =
            if walk.module().constant_of(self.indices).is_some() { Bytes(0) } else { size(self.indices) };
        let is_turned = walk.producer(self.array, "Transpose").is_some() && walk.has_one_reader(self.array);
        let is_read_by_others = !walk.has_one_reader(self.array);
        let beside = indices.0.saturating_add(size(self.updates).0);
        is_turned || is_read_by_others || beside >= size(self.array).0
    }
}

/// Makes the parts of an array and the filled box inside, from an axis on; returns what to join, and along
/// which axis.
fn joined(
    walk: &mut Walk<'_, '_, '_>,
    node: Node,
    found: &Filled,
    array: Value,
    at: usize,
) -> Option<(Vec<Value>, usize)> {
    let (axis, stretch) = found.inside.get(at)?;
    let extent = shape(walk, array)?.get(*axis)?.clone();
    let part = |walk: &mut Walk<'_, '_, '_>, positions: &Stretch| {
        let name = walk.maker.name_after(array, "rest");
        let made = walk.maker.slice(Some(node), array, *axis, positions, name);
        walk.maker.result(made)
    };
    let mut values = Vec::new();
    if stretch.start.known() != Some(0) {
        values.push(part(walk, &Stretch { start: Dim::Known(0), end: stretch.start.clone() })?);
    }
    values.push(match found.inside.get(at + 1) {
        None => found.updates,
        Some(_) => {
            let middle = part(walk, stretch)?;
            let ty = walk.module().ty(middle).clone();
            let (parts, axis) = joined(walk, node, found, middle, at + 1)?;
            let join = walk.maker.onnx("Concat", parts, int("axis", axis as i64));
            let hint = walk.maker.hint(array, "filled");
            walk.maker.compute(Some(node), join, &hint, ty)?
        }
    });
    if stretch.end != extent {
        values.push(part(walk, &Stretch { start: stretch.end.clone(), end: extent })?);
    }
    Some((values, *axis))
}

fn shape(walk: &Walk<'_, '_, '_>, value: Value) -> Option<Vec<Dim>> {
    walk.module().ty(value).tensor().and_then(|ty: &TensorType| ty.shape.clone())
}

/// Returns the first position of the box along each axis that the indices of a ScatterND state; `None` if
/// they do not follow one another.
fn box_starts(walk: &Walk<'_, '_, '_>, indices: Value, own: &[Dim]) -> Option<Vec<DimExpr>> {
    let (count, box_dims) = own.split_last()?;
    let count = usize::try_from(count.known()?).ok().filter(|count| *count == box_dims.len())?;
    if let Some(items) = items(walk, indices) {
        let extents: Vec<usize> =
            box_dims.iter().map(|dim| usize::try_from(dim.known()?).ok()).collect::<Option<_>>()?;
        let start = |axis: usize| {
            let column: Vec<DimExpr> = items.iter().skip(axis).step_by(count).cloned().collect();
            Counted::of(&column, &extents)?.along(count - 1 - axis, &box_dims[axis])
        };
        return (0..count).map(start).collect();
    }
    let columns: Vec<Value> = if count == 1 {
        vec![indices]
    } else {
        let join = walk.producer(indices, "Concat")?;
        let axis = normalize_axis(walk.module().node(join).int("axis", 0), own.len())?;
        (axis == count).then(|| walk.module().node(join).operands().collect())?
    };
    (columns.len() == count).then_some(())?;
    let start = |(axis, column): (usize, &Value)| {
        let own = shape(walk, *column)?;
        let is_column = own.len() == count + 1 && own[..count] == *box_dims;
        counted(walk, *column, 0).filter(|_| is_column)?.along(count - axis, &box_dims[axis])
    };
    columns.iter().enumerate().map(start).collect()
}

/// Integers that count from a number along one axis, and are equal along all others.
struct Counted {
    start: DimExpr,
    /// The axis, counted from the last one; `None` if all are equal.
    axis: Option<usize>,
}

impl Counted {
    /// Returns how the elements of a tensor count; `None` if they do not.
    fn of(items: &[DimExpr], extents: &[usize]) -> Option<Self> {
        let start = items.first()?.clone();
        if items.iter().all(|item| *item == start) {
            return Some(Self { start, axis: None });
        }
        let counts = |axis: &usize| {
            let stride: usize = extents.iter().rev().take(*axis).product();
            let extent = extents[extents.len() - 1 - axis];
            let at = |index: usize| i64::try_from(index / stride % extent).ok().map(DimExpr::constant);
            (0..items.len())
                .all(|index| at(index).and_then(|at| start.add(&at)).as_ref() == Some(&items[index]))
        };
        let axis = (0..extents.len()).find(counts)?;
        Some(Self { start, axis: Some(axis) })
    }

    /// Returns the first number if the numbers count along an axis, counted from the last one.
    fn along(self, axis: usize, extent: &Dim) -> Option<DimExpr> {
        let is_along = self.axis == Some(axis) || self.axis.is_none() && extent.known() == Some(1);
        is_along.then_some(self.start)
    }
}

/// Returns the elements of a small tensor of integers as expressions.
fn items(walk: &Walk<'_, '_, '_>, value: Value) -> Option<Vec<DimExpr>> {
    walk.elements(value)?.items.iter().map(Item::expr).collect()
}

/// Returns how integers count, by the nodes that make them.
fn counted(walk: &Walk<'_, '_, '_>, value: Value, depth: usize) -> Option<Counted> {
    let dims = shape(walk, value)?;
    let extents = || dims.iter().map(|dim| usize::try_from(dim.known()?).ok()).collect::<Option<Vec<_>>>();
    if let Some(found) =
        items(walk, value).zip(extents()).and_then(|(items, dims)| Counted::of(&items, &dims))
    {
        return Some(found);
    }
    let node = walk.module().producer(value).filter(|_| depth < DEPTH)?;
    let operand = walk.maker.operand(node, 0)?;
    let from = shape(walk, operand)?;
    let of_operand = || counted(walk, operand, depth + 1);
    match walk.name(node) {
        "Identity" | "Cast" => of_operand(),
        // An axis keeps its distance from the last one.
        "Expand" => of_operand().filter(|found| {
            found.axis.is_none_or(|axis| {
                let of = |dims: &[Dim]| dims.len().checked_sub(axis + 1).and_then(|at| dims.get(at).cloned());
                of(&from) == of(&dims)
            })
        }),
        "Unsqueeze" | "Reshape" => {
            let found = of_operand()?;
            let Some(axis) = found.axis else { return Some(found) };
            let long = |dims: &[Dim]| {
                let mut long = (0..dims.len()).filter(|at| dims[*at].known() != Some(1));
                long.next().filter(|_| long.next().is_none())
            };
            if let Some((was, is)) = long(&from).zip(long(&dims)) {
                (from[was] == dims[is] && from.len() - 1 - was == axis).then_some(())?;
                return Some(Counted { axis: Some(dims.len() - 1 - is), ..found });
            }
            // A new last axis of one position.
            let is_last =
                dims.split_last().is_some_and(|(last, rest)| last.known() == Some(1) && rest == from);
            is_last.then_some(Counted { axis: Some(axis + 1), ..found })
        }
        "Range" => {
            let number = |position: usize| items(walk, walk.maker.operand(node, position)?)?.first().cloned();
            let is_each = number(2)?.as_constant() == Some(1);
            Some(Counted { start: number(0).filter(|_| is_each)?, axis: Some(0) })
        }
        "Slice" => {
            let found = of_operand()?;
            let starts = slice_starts(walk.module(), node, &from, &walk.ctx.data)?;
            let Some(axis) = found.axis else { return Some(found) };
            let first = starts.get(from.len().checked_sub(axis + 1)?)?.expr()?;
            Some(Counted { start: found.start.add(&first)?, ..found })
        }
        _ => None,
    }
}
