//! Derives byte offsets of views from the meaning of operators.

use std::collections::BTreeSet;

use memc_ir::{DimExpr, EntityId as _, Value};
use memc_ops::{View, normalize_axis};

use crate::extents::Extents;
use crate::side::{Known, Side};

/// Returns the byte offsets at which `part` is, by the meaning of some node, a contiguous range of the
/// bytes of `whole`, for all extents of the free dimensions.
///
/// Either `part` is a result and `whole` its node's operand, or `part` is an operand and `whole` the
/// result that contains it. A set, because Concat may read a value twice.
pub(crate) fn offsets(side: &Side<'_>, part: Value, whole: Value) -> BTreeSet<DimExpr> {
    let mut found = BTreeSet::new();
    if let Some(row) = side.producer[part] {
        result_in_operand(side, row, part, whole, &mut found);
    }
    if let Some(row) = side.producer[whole] {
        operand_in_result(side, row, part, whole, &mut found);
    }
    found
}

fn view(side: &Side<'_>, row: usize) -> View {
    side.rows[row].info.map_or(View::None, |info| info.view)
}

fn result_in_operand(side: &Side<'_>, row: usize, part: Value, whole: Value, found: &mut BTreeSet<DimExpr>) {
    let data = side.module.node(side.rows[row].node);
    let first = data.inputs.first().copied().flatten();
    let (Some(small), Some(big)) = (&side.known[part], &side.known[whole]) else { return };
    if first != Some(whole) {
        return;
    }
    match view(side, row) {
        View::Reshape | View::SameType => {
            if data.outputs.first().copied().flatten() == Some(part) && same_elements(small, big) {
                found.insert(DimExpr::constant(0));
            }
        }
        View::Split => found.extend(pieces(side, &data.outputs, part, small, big, data.int("axis", 0))),
        View::Slice => found.extend(
            slice_starts(side, row, big).and_then(|starts| window(side.extents, big, small, &starts)),
        ),
        View::Concat | View::None => {}
    }
}

fn operand_in_result(side: &Side<'_>, row: usize, part: Value, whole: Value, found: &mut BTreeSet<DimExpr>) {
    let data = side.module.node(side.rows[row].node);
    let (Some(small), Some(big)) = (&side.known[part], &side.known[whole]) else { return };
    if data.outputs.first().copied().flatten() != Some(whole) {
        return;
    }
    match view(side, row) {
        View::Reshape | View::SameType => {
            if data.inputs.first().copied().flatten() == Some(part) && same_elements(small, big) {
                found.insert(DimExpr::constant(0));
            }
        }
        View::Concat => found.extend(pieces(side, &data.inputs, part, small, big, data.int("axis", 0))),
        View::Split | View::Slice | View::None => {}
    }
}

pub(crate) fn same_elements(a: &Known, b: &Known) -> bool {
    a.element == b.element && a.same_elements(b)
}

/// Whether `part` may begin at the first byte of `whole`: an operator defines both as equal bytes, or as a
/// part that begins there.
pub(crate) fn begins(side: &Side<'_>, part: Value, whole: Value) -> bool {
    offsets(side, part, whole).contains(&DimExpr::constant(0))
}

/// Returns the offsets of `part` among pieces that follow one another along an axis of `big`.
fn pieces(
    side: &Side<'_>,
    all: &[Option<Value>],
    part: Value,
    small: &Known,
    big: &Known,
    axis: i64,
) -> Vec<DimExpr> {
    let rank = big.dims.len();
    let Some(axis) = normalize_axis(axis, rank) else { return Vec::new() };
    let mut found = Vec::new();
    let mut at = DimExpr::constant(0);
    for piece in all.iter().copied().flatten() {
        let Some(known) = side.known[piece].as_ref().filter(|known| known.dims.len() == rank) else { break };
        if piece == part {
            let start = |at_axis: usize| if at_axis == axis { at.clone() } else { DimExpr::constant(0) };
            let starts: Vec<DimExpr> = (0..rank).map(start).collect();
            found.extend(window(side.extents, big, small, &starts));
        }
        let next = known.dim_exprs().and_then(|dims| at.add(dims.get(axis)?));
        let Some(next) = next else { break };
        at = next;
    }
    found
}

/// Returns the byte offset of a box in a row-major tensor. `None` if the box's elements are not provably
/// contiguous for all extents, or do not begin at a whole byte.
fn window(extents: &Extents, big: &Known, part: &Known, starts: &[DimExpr]) -> Option<DimExpr> {
    if big.element != part.element || big.dims.len() != part.dims.len() || starts.len() != big.dims.len() {
        return None;
    }
    let (whole, own) = (big.dim_exprs()?, part.dim_exprs()?);
    let zero = DimExpr::constant(0);
    let inside = starts.iter().zip(&own).zip(&whole).all(|((start, extent), whole)| {
        let ends = |end: DimExpr| extents.in_order(&end, whole);
        extents.in_order(&zero, start) && start.add(extent).is_some_and(ends)
    });
    // After the last cut axis all rows are complete. Before it every extent of the part must be 1.
    let cut = whole.iter().zip(&own).rposition(|(whole, extent)| whole != extent).unwrap_or(0);
    if !inside || own[..cut].iter().any(|extent| extent.as_constant() != Some(1)) {
        return None;
    }
    let (mut stride, mut index) = (DimExpr::constant(1), DimExpr::constant(0));
    for (start, extent) in starts.iter().zip(&whole).rev() {
        index = index.add(&start.mul(&stride)?)?;
        stride = stride.mul(extent)?;
    }
    index.mul(&DimExpr::constant(big.element.bits()?.into()))?.div_exact(&DimExpr::constant(8))
}

/// Returns the first element of a slice on each axis. `None` if it is unknown or the slice skips
/// elements.
fn slice_starts(side: &Side<'_>, row: usize, big: &Known) -> Option<Vec<DimExpr>> {
    let data = side.module.node(side.rows[row].node);
    let operand = |at: usize| match data.inputs.get(at).copied().flatten() {
        Some(value) => side.integers(value).map(Some),
        None => Some(None),
    };
    // Operator sets before 10 state the numbers as attributes.
    let (starts, axes, steps) = match data.ints("starts") {
        Some(starts) => (starts.to_vec(), data.ints("axes").map(<[i64]>::to_vec), None),
        None => (operand(1)??, operand(3)?, operand(4)?),
    };
    if steps.is_some_and(|steps| steps.iter().any(|step| *step != 1)) {
        return None;
    }
    let (whole, rank) = (big.dim_exprs()?, big.dims.len());
    let axes = axes.unwrap_or_else(|| (0..).take(starts.len()).collect());
    let mut first = vec![DimExpr::constant(0); rank];
    for (start, axis) in starts.iter().zip(&axes) {
        let axis = normalize_axis(*axis, rank)?;
        first[axis] = first_taken(*start, &whole[axis], side.extents)?;
    }
    (starts.len() == axes.len()).then_some(first)
}

/// Returns the first element that a slice from `start` on takes of an axis. A start that is not between 0
/// and a free extent, for all extents, returns `None`.
fn first_taken(start: i64, whole: &DimExpr, extents: &Extents) -> Option<DimExpr> {
    if let Some(whole) = whole.as_constant() {
        let start = if start < 0 { start.saturating_add(whole) } else { start };
        return Some(DimExpr::constant(start.clamp(0, whole.max(0))));
    }
    let from = DimExpr::constant(start);
    let from = if start < 0 { from.add(whole)? } else { from };
    (extents.in_order(&DimExpr::constant(0), &from) && extents.in_order(&from, whole)).then_some(from)
}

/// Returns pairs (part, whole) that the node of a row may connect as views, in either direction.
pub(crate) fn candidates(side: &Side<'_>, row: usize) -> Vec<(Value, Value)> {
    let data = side.module.node(side.rows[row].node);
    let first = |list: &[Option<Value>]| list.first().copied().flatten();
    match view(side, row) {
        View::None => Vec::new(),
        View::Concat => match first(&data.outputs) {
            Some(whole) => {
                let mut parts: Vec<Value> = data.operands().collect();
                parts.sort_by_key(|value| value.index());
                parts.dedup();
                parts.into_iter().map(|part| (part, whole)).collect()
            }
            None => Vec::new(),
        },
        View::Reshape | View::SameType | View::Split | View::Slice => match first(&data.inputs) {
            Some(whole) => data.results().map(|part| (part, whole)).collect(),
            None => Vec::new(),
        },
    }
}
