//! Numbers of nodes that compute element by element from joined operands: a node computes from each part
//! what it computes from all of them, so a join counts after such nodes, and a sign after products. Joins of
//! joins count as one.
//!
//! With it, halves of a value that are turned around, one with the other sign (the positions of most
//! decoders), have one number wherever the sign is.

use memc_ir::{DimExpr, ElementType};

use super::cuts::{Place, counts, typed, whole};
use super::span::Span;
use super::{Key, Numbering};
use crate::extents::Extents;
use crate::side::{Known, Side};

/// A join along an axis.
#[derive(Clone, Debug)]
pub(super) struct Joined {
    pub(super) axis: usize,
    pub(super) parts: Vec<u32>,
}

/// A value with other extents.
#[derive(Clone, Debug)]
pub(super) struct Reshaped {
    /// The number of the value before the first reshape, and its type.
    pub(super) base: u32,
    pub(super) first: Known,
    pub(super) to: Known,
}

/// An operand of a node.
struct Operand {
    number: u32,
    element: ElementType,
    dims: Vec<DimExpr>,
}

impl<'s> Numbering<'s> {
    /// Returns the number of values joined along an axis.
    pub(super) fn join(&mut self, operands: &[u32], axis: usize, extents: &Extents) -> u32 {
        let whole = self.joined(operands, axis, extents).or_else(|| self.joined_bytes(operands, axis));
        if let Some(whole) = whole {
            return whole;
        }
        let parts: Vec<u32> = operands
            .iter()
            .flat_map(|number| match self.joined.get(number).filter(|joined| joined.axis == axis) {
                Some(joined) => joined.parts.clone(),
                None => vec![*number],
            })
            .collect();
        let number = self.intern(Key::Joined { axis, parts: parts.clone() });
        self.joined.insert(number, Joined { axis, parts });
        number
    }

    /// Returns the number of positions of joined values that another node than a join makes.
    pub(super) fn moved_joined(&mut self, number: u32, place: &Place, extents: &Extents) -> Option<u32> {
        let Joined { axis, parts } = self.joined.get(&number)?.clone();
        let part = |number: u32| Some((number, self.dims_of(number, extents)?));
        let parts: Vec<_> = parts.into_iter().map(part).collect::<Option<_>>()?;
        self.moved_parts(axis, &parts, place, extents)
    }

    /// Returns the number of positions of values, given with their extents, that are joined along an axis.
    pub(super) fn moved_parts(
        &mut self,
        axis: usize,
        parts: &[(u32, Vec<DimExpr>)],
        place: &Place,
        extents: &Extents,
    ) -> Option<u32> {
        let (mut start, mut operands) = (DimExpr::constant(0), Vec::new());
        for (number, dims) in parts {
            let held = Span::from(start.clone(), dims.get(axis)?, extents)?;
            if let Some(common) = place[axis].common(&held, extents)? {
                let mut own = place.clone();
                own[axis] = common.counted_from(&start, extents)?;
                operands.push(self.select(*number, dims, own, extents)?);
            }
            start = held.end;
        }
        match operands[..] {
            [one] => Some(one),
            _ => Some(self.join(&operands, axis, extents)),
        }
    }

    /// Returns the number of a node that computes each element from the elements at its place, by a kernel
    /// that rounds it alike wherever it is.
    pub(super) fn by_place(&mut self, side: &'s Side<'s>, row: usize, head: u32, operands: &[u32]) -> u32 {
        let number = self.normal(side, row, head, operands).unwrap_or_else(|| {
            self.intern(Key::Result { head, operands: operands.to_vec(), result: 0, instance: None })
        });
        let shapes = operands.iter().map(|operand| self.dims_of(*operand, side.extents));
        if let Some(dims) = shapes.collect::<Option<Vec<_>>>().and_then(|shapes| broadcast(&shapes)) {
            self.shapes.entry(number).or_insert(dims);
        }
        number
    }

    /// Returns the number of such a node if a join or a sign counts after it; `None` for other nodes.
    pub(super) fn normal(
        &mut self,
        side: &'s Side<'s>,
        row: usize,
        head: u32,
        operands: &[u32],
    ) -> Option<u32> {
        let spread = self.spread(side, row, head, operands);
        spread.or_else(|| self.signed(&side.module.node(side.rows[row].node).operator.name, head, operands))
    }

    /// Returns the number of a node as the join of what it computes from parts of its operands; `None` if no
    /// operand is joined.
    fn spread(&mut self, side: &'s Side<'s>, row: usize, head: u32, operands: &[u32]) -> Option<u32> {
        let extents = side.extents;
        let inputs = &side.module.node(side.rows[row].node).inputs;
        let operand = |(number, value): (&u32, &Option<memc_ir::Value>)| {
            let element = side.known[(*value)?].as_ref()?.element;
            Some(Operand { number: *number, element, dims: self.dims_of(*number, extents)? })
        };
        let operands: Vec<Operand> = operands.iter().zip(inputs).map(operand).collect::<Option<_>>()?;
        let rank = operands.iter().map(|operand| operand.dims.len()).max()?;
        let (at, sizes, whole) = operands.iter().find_map(|operand| {
            let (axis, sizes) = self.split_of(operand.number, &operand.dims, extents)?;
            // One position meets many.
            let whole = operand.dims.get(axis).filter(|whole| whole.as_constant() != Some(1))?;
            Some((axis + rank - operand.dims.len(), sizes, whole.clone()))
        })?;
        let mut columns: Vec<Vec<u32>> = Vec::new();
        for Operand { number, element, dims } in &operands {
            let own = at.checked_sub(rank - dims.len());
            columns.push(match own.filter(|axis| dims[*axis].as_constant() != Some(1)) {
                None => vec![*number; sizes.len()],
                Some(axis) if dims[axis] == whole => {
                    self.parts_of(*number, (*element, dims), axis, &sizes, extents)?
                }
                Some(_) => return None,
            });
        }
        let mut results = Vec::new();
        for position in 0..sizes.len() {
            let parts: Vec<u32> = columns.iter().map(|column| column[position]).collect();
            results.push(self.by_place(side, row, head, &parts));
        }
        Some(self.join(&results, at, extents))
    }

    /// Returns the number of a sign, or of a product: the sign of its operands is that of the product. `None`
    /// for other operators.
    fn signed(&mut self, name: &str, head: u32, operands: &[u32]) -> Option<u32> {
        match (name, operands) {
            ("Neg", [operand]) => Some(self.opposite(*operand, head)),
            ("Mul", _) => {
                let (mut bases, mut sign) = (Vec::new(), None);
                for number in operands {
                    let (base, negative) = self.without_sign(*number);
                    bases.push(base);
                    sign = if sign.is_some() && negative.is_some() { None } else { sign.or(negative) };
                }
                let number = self.intern(Key::Result { head, operands: bases, result: 0, instance: None });
                Some(sign.map_or(number, |sign| self.opposite(number, sign)))
            }
            _ => None,
        }
    }

    /// Returns the number of a value with the other sign, by the operator `head`.
    fn opposite(&mut self, number: u32, head: u32) -> u32 {
        if let Some((base, _)) = self.opposites.get(&number) {
            return *base;
        }
        let opposite = self.intern(Key::Result { head, operands: vec![number], result: 0, instance: None });
        self.opposites.insert(opposite, (number, head));
        opposite
    }

    /// Returns a value without its sign, and the operator that makes the sign.
    fn without_sign(&mut self, number: u32) -> (u32, Option<u32>) {
        if let Some((base, head)) = self.opposites.get(&number) {
            return (*base, Some(*head));
        }
        let Some(Reshaped { base, first, to }) = self.reshapes.get(&number).cloned() else {
            return (number, None);
        };
        match self.opposites.get(&base).copied() {
            Some((positive, head)) => (self.reshape(positive, &first, &to), Some(head)),
            None => (number, None),
        }
    }

    /// Returns the axis along which a value is joined, and the number of positions of each part.
    fn split_of(&self, number: u32, dims: &[DimExpr], extents: &Extents) -> Option<(usize, Vec<DimExpr>)> {
        if let Some(Joined { axis, parts }) = self.joined.get(&number) {
            let size = |part: &u32| self.dims_of(*part, extents)?.get(*axis).cloned();
            return Some((*axis, parts.iter().map(size).collect::<Option<_>>()?));
        }
        let Reshaped { base, first, .. } = self.reshapes.get(&number)?;
        let first = first.dim_exprs()?;
        let (axis, sizes) = self.split_of(*base, &first, extents)?;
        Some((long_axis(&first, dims, axis)?, sizes))
    }

    /// Returns the parts of a value with these numbers of positions along an axis.
    fn parts_of(
        &mut self,
        number: u32,
        (element, dims): (ElementType, &[DimExpr]),
        axis: usize,
        sizes: &[DimExpr],
        extents: &Extents,
    ) -> Option<Vec<u32>> {
        if let Some(joined) = self.joined.get(&number)
            && self.split_of(number, dims, extents).is_some_and(|split| split == (axis, sizes.to_vec()))
        {
            return Some(joined.parts.clone());
        }
        if let Some(Reshaped { base, first, .. }) = self.reshapes.get(&number).cloned()
            && let Some(before) = first.dim_exprs()
            && let Some(own) = long_axis(dims, &before, axis)
        {
            let parts = self.parts_of(base, (element, &before), own, sizes, extents)?;
            let with = |dims: &[DimExpr], axis: usize, size: &DimExpr| {
                let mut dims = dims.to_vec();
                dims[axis] = size.clone();
                typed(element, &dims, extents)
            };
            let all = parts.into_iter().zip(sizes);
            return all
                .map(|(part, size)| {
                    Some(self.reshape(part, &with(&before, own, size)?, &with(dims, axis, size)?))
                })
                .collect();
        }
        let mut start = DimExpr::constant(0);
        let mut parts = Vec::new();
        for size in sizes {
            let span = Span::from(start, size, extents)?;
            start = span.end.clone();
            let mut place = whole(dims);
            place[axis] = span;
            parts.push(self.select(number, dims, place, extents)?);
        }
        Some(parts)
    }

    /// Returns operands of a node that computes element by element, without expansions that the others make.
    pub(super) fn unexpanded(&self, operands: &[u32], extents: &Extents) -> Vec<u32> {
        let shape = |operands: &[u32]| {
            let shapes = operands.iter().map(|number| self.dims_of(*number, extents));
            shapes.collect::<Option<Vec<_>>>().and_then(|shapes| broadcast(&shapes))
        };
        let mut kept = operands.to_vec();
        for position in 0..kept.len() {
            let mut narrow = kept.clone();
            while let Some(of) = self.expanded.get(&narrow[position]) {
                narrow[position] = *of;
            }
            if narrow != kept && shape(&narrow).is_some_and(|dims| shape(&kept) == Some(dims)) {
                kept = narrow;
            }
        }
        kept
    }

    /// Returns the extents of a value.
    pub(super) fn dims_of(&self, number: u32, extents: &Extents) -> Option<Vec<DimExpr>> {
        if let Some(made) = self.cuts.made.get(&number) {
            return Some(made.dims.clone());
        }
        if let Some(dims) = self.shapes.get(&number) {
            return Some(dims.clone());
        }
        if let Some((_, place)) = self.cuts.parts.get(&number) {
            return counts(place, extents);
        }
        if let Some(reshaped) = self.reshapes.get(&number) {
            return reshaped.to.dim_exprs();
        }
        if let Some((base, order)) = self.turned.get(&number) {
            let dims = self.dims_of(*base, extents)?;
            return order.iter().map(|axis| dims.get(*axis).cloned()).collect();
        }
        let Joined { axis, parts } = self.joined.get(&number)?;
        let mut all = parts.iter().map(|part| self.dims_of(*part, extents));
        let mut dims = all.next()??;
        for part in all {
            dims[*axis] = extents.simplified(&dims.get(*axis)?.add(part?.get(*axis)?)?);
        }
        Some(dims)
    }

    /// Returns the number of a value with its axes in another order, if only axes of one position move;
    /// axes are counted from the last one.
    pub(super) fn turned_by_ones(
        &mut self,
        number: u32,
        element: ElementType,
        order: &[usize],
        extents: &Extents,
    ) -> Option<u32> {
        let dims = self.dims_of(number, extents)?;
        let missing = order.len().checked_sub(dims.len())?;
        let padded: Vec<DimExpr> =
            std::iter::repeat_n(DimExpr::constant(1), missing).chain(dims.iter().cloned()).collect();
        let is_long = |axis: &&usize| padded[**axis].as_constant() != Some(1);
        order.iter().filter(is_long).is_sorted().then_some(())?;
        let to: Vec<DimExpr> = order.iter().map(|axis| padded[*axis].clone()).collect();
        Some(self.reshape(number, &typed(element, &dims, extents)?, &typed(element, &to, extents)?))
    }
}

/// Returns the axis of `to` that an axis of `from` is, if both differ in axes of one position alone.
fn long_axis(from: &[DimExpr], to: &[DimExpr], axis: usize) -> Option<usize> {
    fn long(dims: &[DimExpr]) -> impl Iterator<Item = (usize, &DimExpr)> {
        dims.iter().enumerate().filter(|(_, extent)| extent.as_constant() != Some(1))
    }
    long(from).map(|(_, extent)| extent).eq(long(to).map(|(_, extent)| extent)).then_some(())?;
    let position = long(from).position(|(own, _)| own == axis)?;
    long(to).nth(position).map(|(own, _)| own)
}

/// Returns the extents of what a node computes from operands with these; `None` if two of them differ.
fn broadcast(shapes: &[Vec<DimExpr>]) -> Option<Vec<DimExpr>> {
    let rank = shapes.iter().map(Vec::len).max()?;
    let mut dims = vec![DimExpr::constant(1); rank];
    for shape in shapes {
        for (own, extent) in dims[rank - shape.len()..].iter_mut().zip(shape) {
            if own.as_constant() == Some(1) {
                *own = extent.clone();
            } else if extent.as_constant() != Some(1) && own != extent {
                return None;
            }
        }
    }
    Some(dims)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(extents: &[i64]) -> Vec<DimExpr> {
        extents.iter().map(|extent| DimExpr::constant(*extent)).collect()
    }

    #[test]
    fn axes_are_followed_past_axes_of_one_position() {
        assert_eq!(long_axis(&dims(&[1, 3, 1, 8]), &dims(&[3, 8]), 3), Some(1));
        assert_eq!(long_axis(&dims(&[3, 8]), &dims(&[1, 3, 1, 8]), 0), Some(1));
        assert_eq!(long_axis(&dims(&[3, 8]), &dims(&[8, 3]), 0), None);
        assert_eq!(long_axis(&dims(&[3, 1]), &dims(&[3]), 1), None);
    }

    #[test]
    fn extents_meet_from_the_last_axis_on() {
        let shapes = [dims(&[2, 1, 4]), dims(&[3, 1])];
        assert_eq!(broadcast(&shapes), Some(dims(&[2, 3, 4])));
        assert_eq!(broadcast(&[dims(&[2]), dims(&[3])]), None);
    }
}
