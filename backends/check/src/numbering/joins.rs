//! Numbers of joined results: nodes that compute parts of a result from parts of operands, and a Concat after
//! them, make what one node computes from the whole operands, as far as [`depends`](super::depends) states
//! which positions depend on which.

use std::collections::HashMap;
use std::ops::Range;

use super::cuts::{By, expressions, fixed, numbers};
use super::depends::{self, Cut};
use super::span::Span;
use super::{Moves, Numbering};
use crate::content::{Content, Raw};

/// A node that computes a value.
#[derive(Clone)]
pub(super) struct Maker<'s> {
    by: By<'s>,
    /// Extents of the operands, and of the result.
    operands: Vec<Option<Vec<u64>>>,
    dims: Vec<u64>,
}

/// Makers of joined values that no single node computes.
pub(super) type Joins<'s> = HashMap<u32, Maker<'s>>;

impl<'s> Numbering<'s> {
    /// Returns the number of the value that results of equal nodes make when they are joined along an axis;
    /// `None` if the nodes differ in more than the positions of operands that this axis needs.
    pub(super) fn joined_results(&mut self, results: &[u32], axis: usize) -> Option<u32> {
        let makers: Vec<Maker<'s>> =
            results.iter().map(|number| self.maker(*number)).collect::<Option<_>>()?;
        let first = makers.first().filter(|_| makers.len() > 1)?;
        let By { side, row, part, result } = &first.by;
        let (side, row) = (*side, *row);
        let is_like = |maker: &Maker<'_>| {
            let own = &maker.by.part;
            own.head == part.head && own.operands.len() == part.operands.len() && maker.by.result == *result
        };
        makers.iter().all(is_like).then_some(())?;
        let ranges = ranges(&makers, axis)?;
        let data = side.module.node(side.rows[row].node);
        if side.unrepeatable(row) || (self.cuts.moves == Moves::Exact && !depends::moves(data)) {
            return None;
        }
        let integers = data.inputs.get(1).copied().flatten().and_then(|value| side.integers(value));
        let opset = side.module.opsets.get("").copied().unwrap_or(0);
        let needs = |maker: &Maker<'_>, range: &Range<u64>| {
            let operands: Vec<_> =
                maker.operands.iter().map(|dims| dims.as_deref().map(expressions)).collect();
            let operands: Vec<_> = operands.iter().map(|dims| dims.as_deref()).collect();
            let dims = expressions(&maker.dims);
            let cut =
                Cut { node: data, opset, operands: &operands, result: &dims, integers: integers.clone() };
            let need = depends::need(&cut, axis, &Span::fixed(range.clone()))
                .filter(|need| need.window.is_none() && need.stated.is_none());
            need.map(|mut need| {
                need.axes.resize(data.inputs.len().max(need.axes.len()), None);
                need.axes
            })
        };
        // Join the operands that differ, or of which a part needs positions, as equal parts of a constant.
        let along_of = needs(first, ranges.first()?).unwrap_or_default();
        let mut whole = first.clone();
        *whole.dims.get_mut(axis)? = ranges.last()?.end;
        let mut cut: Vec<Option<usize>> = vec![None; data.inputs.len()];
        for position in 0..whole.by.part.operands.len() {
            let own: Vec<u32> = makers.iter().map(|maker| maker.by.part.operands[position]).collect();
            let along = match own.iter().all(|number| *number == own[0]) {
                true => along_of.get(position).copied().flatten(),
                false => Some(
                    self.axis_of_parts(&own, &ranges)
                        .or_else(|| along_of.get(position).copied().flatten())?,
                ),
            };
            let Some(along) = along else { continue };
            whole.by.part.operands[position] =
                self.joined(&own, along, side.extents).or_else(|| self.joined_bytes(&own, along))?;
            *whole.operands.get_mut(position)?.as_mut()?.get_mut(along)? = ranges.last()?.end;
            *cut.get_mut(position)? = Some(along);
        }
        ranges.iter().all(|range| needs(&whole, range).as_ref() == Some(&cut)).then_some(())?;
        let (head, operands) = (whole.by.part.head, whole.by.part.operands.clone());
        let number = self.result(side, (row, *result), head, operands);
        self.joins.entry(number).or_insert(whole);
        Some(number)
    }

    /// Returns the node that computes a value.
    fn maker(&self, number: u32) -> Option<Maker<'s>> {
        if let Some(joined) = self.joins.get(&number) {
            return Some(joined.clone());
        }
        let made = self.cuts.made.get(&number)?;
        let by = made.by.clone()?;
        let inputs = &by.side.module.node(by.side.rows[by.row].node).inputs;
        let operands = inputs.iter().map(|value| Some(fixed(by.side, (*value)?)?.dims.clone())).collect();
        Some(Maker { by, operands, dims: numbers(&made.dims)? })
    }

    /// Returns the number of constants joined along an axis before which all extents are 1.
    pub(super) fn joined_bytes(&mut self, numbers: &[u32], axis: usize) -> Option<u32> {
        let parts: Vec<&Raw> =
            numbers.iter().map(|number| self.cuts.made.get(number)?.raw.as_ref()).collect::<Option<_>>()?;
        let first = parts.first()?;
        let is_like = |part: &&Raw| {
            part.element == first.element && part.dims.get(axis + 1..) == first.dims.get(axis + 1..)
        };
        let is_flat =
            |part: &&Raw| part.dims.iter().take(axis).all(|extent| *extent == 1) && part.dims.len() > axis;
        let has_bytes = |part: &&Raw| part.element.bits().is_some_and(|bits| bits % 8 == 0);
        parts.iter().all(|part| is_like(part) && is_flat(part) && has_bytes(part)).then_some(())?;
        let mut dims = first.dims.clone();
        dims[axis] = parts.iter().try_fold(0u64, |sum, part| sum.checked_add(part.dims[axis]))?;
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.bytes.iter().copied()).collect();
        let joined = Raw { element: first.element, dims, bytes: bytes.into() };
        Some(self.constant(Content::Raw(joined)))
    }

    /// Returns the axis along which values are parts of one value, with these numbers of positions each.
    fn axis_of_parts(&self, numbers: &[u32], ranges: &[Range<u64>]) -> Option<usize> {
        let known =
            |number: &u32| self.cuts.parts.get(number)?.1.iter().map(Span::known).collect::<Option<Vec<_>>>();
        let places: Vec<_> = numbers.iter().map(known).collect::<Option<_>>()?;
        let (first, second) = (places.first()?, places.get(1)?);
        let axis = (0..first.len()).find(|axis| second.get(*axis) != Some(&first[*axis]))?;
        let count = |range: &Range<u64>| range.end.saturating_sub(range.start);
        let fits =
            places.iter().zip(ranges).all(|(place, range)| place.get(axis).map(count) == Some(count(range)));
        fits.then_some(axis)
    }
}

/// Returns the positions of an axis that each of several joined values has; `None` if their other extents
/// differ.
fn ranges(makers: &[Maker<'_>], axis: usize) -> Option<Vec<Range<u64>>> {
    let (first, mut start) = (makers.first()?, 0u64);
    let own = |maker: &Maker<'_>| {
        let is_like = (0..first.dims.len()).all(|at| at == axis || maker.dims.get(at) == first.dims.get(at));
        let fits = is_like && maker.dims.len() == first.dims.len();
        let end = start.checked_add(*maker.dims.get(axis).filter(|_| fits)?)?;
        Some(std::mem::replace(&mut start, end)..end)
    };
    makers.iter().map(own).collect()
}
