//! Numbers of arrays of which a node fills a box: what is left of the array, joined with the updates.
//!
//! Indices are followed back to the integers that they come from, as a start and a step for each axis.

use memc_ir::{DimExpr, NodeData, Value};
use memc_ops::normalize_axis;

use super::cuts::{counts, dims, elements, spans, whole};
use super::span::Span;
use super::{Numbering, Part};
use crate::rows::is_onnx;
use crate::side::Side;

/// Maximum number of nodes through which indices are followed.
const DEPTH: usize = 16;

impl<'s> Numbering<'s> {
    /// Returns the number of the result of a node that fills a box of its first operand with updates; `None`
    /// for other nodes.
    pub(super) fn filled(&mut self, side: &'s Side<'s>, row: usize, part: &Part) -> Option<u32> {
        let data = side.module.node(side.rows[row].node);
        let place = filled_place(side, data)?;
        let [array, _, updates] = *part.operands.first_chunk::<3>()?;
        let all = dims(side, data.inputs.first().copied().flatten()?)?;
        self.fill(side, (array, &all), &place, updates)
    }

    /// Returns the number of an array with updates at a place.
    fn fill(
        &mut self,
        side: &'s Side<'s>,
        (array, all): (u32, &[DimExpr]),
        place: &[Span],
        updates: u32,
    ) -> Option<u32> {
        let extents = side.extents;
        let Some(axis) = (0..all.len()).find(|axis| place[*axis] != Span::whole(&all[*axis])) else {
            return Some(updates);
        };
        let slab = |numbering: &mut Self, span: Span| {
            let mut own = whole(all);
            own[axis] = span;
            Some((numbering.select(array, all, own.clone(), extents)?, counts(&own, extents)?))
        };
        let span = &place[axis];
        let mut parts = Vec::new();
        if span.start.as_constant() != Some(0) {
            parts.push(slab(self, Span { start: DimExpr::constant(0), end: span.start.clone() })?.0);
        }
        let (middle, own) = slab(self, span.clone())?;
        let mut inner = place.to_vec();
        inner[axis] = Span::whole(&own[axis]);
        parts.push(self.fill(side, (middle, &own), &inner, updates)?);
        if span.end != all[axis] {
            parts.push(slab(self, Span { start: span.end.clone(), end: all[axis].clone() })?.0);
        }
        self.concatenated(&parts, axis, extents)
    }
}

/// Returns the positions that a node fills; `None` if they are no box, or if others take part in the result.
fn filled_place(side: &Side<'_>, data: &NodeData) -> Option<Vec<Span>> {
    let value = |position: usize| data.inputs.get(position).copied().flatten();
    let (array, indices, updates) = (value(0)?, value(1)?, value(2)?);
    let (all, own, filling) = (dims(side, array)?, dims(side, indices)?, dims(side, updates)?);
    data.string("reduction").is_none_or(|way| way == "none").then_some(())?;
    let mut place = whole(&all);
    let starts = if is_onnx(data, "ScatterND") {
        let (count, counted) = own.split_last()?;
        let count = usize::try_from(count.as_constant()?).ok().filter(|count| *count == counted.len())?;
        (count <= all.len()).then_some(())?;
        let columns = columns(side, indices, &own)?;
        let start = |(axis, column): (usize, &Line)| Some((axis, column.start_along(axis, counted)?));
        columns.iter().enumerate().map(start).collect::<Option<Vec<_>>>()?
    } else if is_onnx(data, "ScatterElements") && own.len() == all.len() {
        let axis = normalize_axis(data.int("axis", 0), all.len())?;
        vec![(axis, line(side, indices, 0)?.start_along(axis, &own)?)]
    } else {
        return None;
    };
    for (axis, start) in starts {
        let span = Span::from(start, filling.get(axis)?, side.extents)?;
        span.is_of(&all[axis], side.extents).then_some(())?;
        place[axis] = span;
    }
    (counts(&place, side.extents)? == filling).then_some(place)
}

/// Integers that grow by a step along each axis.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    start: DimExpr,
    /// 0 for axes of one position.
    steps: Vec<i64>,
}

impl Line {
    /// Returns the line of these integers, in the order of their places; `None` if they lie on none.
    fn through(items: &[DimExpr], own: &[DimExpr]) -> Option<Self> {
        let own: Vec<usize> =
            own.iter().map(|extent| usize::try_from(extent.as_constant()?).ok()).collect::<Option<_>>()?;
        let start = items.first()?.clone();
        let stride = |axis: usize| own[axis + 1..].iter().product::<usize>();
        let step = |axis: usize| match own[axis] {
            1 => Some(0),
            _ => items.get(stride(axis))?.sub(&start)?.as_constant(),
        };
        let steps: Vec<i64> = (0..own.len()).map(step).collect::<Option<_>>()?;
        let lies = |(index, item): (usize, &DimExpr)| {
            let far = (0..own.len()).try_fold(0i64, |far, axis| {
                let at = i64::try_from(index / stride(axis) % own[axis]).ok()?;
                far.checked_add(at.checked_mul(steps[axis])?)
            });
            far.and_then(|far| start.add(&DimExpr::constant(far))).as_ref() == Some(item)
        };
        items.iter().enumerate().all(lies).then_some(Self { start, steps })
    }

    /// Returns the first integer if they count by one along an axis, and along no other.
    fn start_along(&self, axis: usize, own: &[DimExpr]) -> Option<DimExpr> {
        let expected = |at: usize| i64::from(at == axis && own[at].as_constant() != Some(1));
        (0..own.len()).all(|at| self.steps.get(at) == Some(&expected(at))).then(|| self.start.clone())
    }
}

/// Returns the lines of the indices for each axis, which lie beside one another.
fn columns(side: &Side<'_>, indices: Value, own: &[DimExpr]) -> Option<Vec<Line>> {
    let (count, counted) = own.split_last()?;
    let count = usize::try_from(count.as_constant()?).ok().filter(|count| *count > 0)?;
    if let Some(all) = elements(side, indices) {
        let column = |axis: usize| all.iter().skip(axis).step_by(count).cloned().collect::<Vec<DimExpr>>();
        return (0..count).map(|axis| Line::through(&column(axis), counted)).collect();
    }
    if count == 1 {
        return Some(vec![line(side, indices, 0)?]);
    }
    let join = side.module.node(side.rows[side.producer[indices]?].node);
    let axis = normalize_axis(join.int("axis", 0), own.len()).filter(|_| is_onnx(join, "Concat"))?;
    let column = |value: Value| {
        let held = dims(side, value)?;
        (held.len() == own.len() && held.last()?.as_constant() == Some(1)).then_some(())?;
        line(side, value, 0)
    };
    let found: Vec<Line> = join.operands().map(column).collect::<Option<_>>()?;
    (axis == counted.len() && found.len() == count).then_some(found)
}

/// Returns the line on which the elements of a value lie.
fn line(side: &Side<'_>, value: Value, depth: usize) -> Option<Line> {
    let own = dims(side, value)?;
    if let Some(found) = elements(side, value).and_then(|items| Line::through(&items, &own)) {
        return Some(found);
    }
    let row = side.producer[value].filter(|_| depth < DEPTH)?;
    let data = side.module.node(side.rows[row].node);
    let operand = data.inputs.first().copied().flatten().filter(|_| data.operator.domain.is_empty())?;
    let from = dims(side, operand)?;
    let before = || line(side, operand, depth + 1);
    match &*data.operator.name {
        "Identity" => before(),
        "Cast" => before().filter(|_| {
            let wide =
                |value: Value| side.known[value].as_ref().is_some_and(|known| known.element.is_integral());
            wide(operand) && wide(value)
        }),
        "Expand" => {
            let more = own.len().checked_sub(from.len())?;
            let held = before()?;
            let step = |(at, extent): (usize, &DimExpr)| match at.checked_sub(more) {
                Some(axis) if from[axis] == *extent => Some(held.steps[axis]),
                Some(axis) => (from[axis].as_constant() == Some(1)).then_some(0),
                None => Some(0),
            };
            let steps = own.iter().enumerate().map(step).collect::<Option<_>>()?;
            Some(Line { start: held.start, steps })
        }
        "Reshape" | "Unsqueeze" | "Squeeze" => {
            let long = |dims: &[DimExpr]| -> Vec<usize> {
                (0..dims.len()).filter(|at| dims[*at].as_constant() != Some(1)).collect()
            };
            let (was, is) = (long(&from), long(&own));
            let is_like =
                was.len() == is.len() && was.iter().zip(&is).all(|(was, is)| from[*was] == own[*is]);
            let held = before().filter(|_| is_like)?;
            let mut steps = vec![0; own.len()];
            was.iter().zip(&is).for_each(|(was, is)| steps[*is] = held.steps[*was]);
            Some(Line { start: held.start, steps })
        }
        "Range" => {
            let number = |position: usize| {
                elements(side, data.inputs.get(position).copied().flatten()?)?.first().cloned()
            };
            Some(Line { start: number(0)?, steps: vec![number(2)?.as_constant()?] })
        }
        "Slice" => {
            let held = before()?;
            let place = spans(side, row)?;
            let add = |start: DimExpr, (span, step): (&Span, &i64)| {
                start.add(&span.start.mul(&DimExpr::constant(*step))?)
            };
            let start = place.iter().zip(&held.steps).try_fold(held.start.clone(), add)?;
            Some(Line { start: side.extents.simplified(&start), steps: held.steps })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn numbers(all: &[i64]) -> Vec<DimExpr> {
        all.iter().map(|number| DimExpr::constant(*number)).collect()
    }

    #[test]
    fn integers_lie_on_a_line_or_not() {
        let own = numbers(&[2, 1, 3]);
        let found = Line::through(&numbers(&[4, 5, 6, 4, 5, 6]), &own).unwrap();
        assert_eq!(found.steps, [0, 0, 1]);
        assert_eq!(found.start_along(2, &own).unwrap().as_constant(), Some(4));
        assert!(found.start_along(0, &own).is_none());
        assert!(Line::through(&numbers(&[4, 5, 6, 4, 5, 7]), &own).is_none());
        assert_eq!(Line::through(&numbers(&[0, 1, 2, 3, 4, 5]), &own).unwrap().steps, [3, 0, 1]);
        assert!(Line::through(&numbers(&[0, 1, 2, 3, 4, 5]), &own).unwrap().start_along(2, &own).is_none());
    }
}
