//! Derives byte offsets of views from the meaning of operators.

use std::collections::BTreeSet;

use memc_ir::{EntityId as _, Value};
use memc_ops::{View, normalize_axis};

use crate::side::{Known, Side};

/// Returns the byte offsets at which `part` is, by the meaning of some node, a contiguous range of the
/// bytes of `whole`.
///
/// Either `part` is a result and `whole` its node's operand, or `part` is an operand and `whole` the
/// result that contains it. A set, because Concat may read a value twice.
pub(crate) fn offsets(side: &Side<'_>, part: Value, whole: Value) -> BTreeSet<u64> {
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

fn result_in_operand(side: &Side<'_>, row: usize, part: Value, whole: Value, found: &mut BTreeSet<u64>) {
    let data = side.module.node(side.rows[row].node);
    let first = data.inputs.first().copied().flatten();
    let (Some(small), Some(big)) = (&side.known[part], &side.known[whole]) else { return };
    if first != Some(whole) {
        return;
    }
    match view(side, row) {
        View::Reshape | View::SameType => {
            if data.outputs.first().copied().flatten() == Some(part) && same_elements(small, big) {
                found.insert(0);
            }
        }
        View::Split => found.extend(pieces(side, &data.outputs, part, small, big, data.int("axis", 0))),
        View::Slice => found.extend(slice_starts(side, row, big).and_then(|starts| window(big, small, &starts))),
        View::Concat | View::None => {}
    }
}

fn operand_in_result(side: &Side<'_>, row: usize, part: Value, whole: Value, found: &mut BTreeSet<u64>) {
    let data = side.module.node(side.rows[row].node);
    let (Some(small), Some(big)) = (&side.known[part], &side.known[whole]) else { return };
    if data.outputs.first().copied().flatten() != Some(whole) {
        return;
    }
    match view(side, row) {
        View::Reshape | View::SameType => {
            if data.inputs.first().copied().flatten() == Some(part) && same_elements(small, big) {
                found.insert(0);
            }
        }
        View::Concat => found.extend(pieces(side, &data.inputs, part, small, big, data.int("axis", 0))),
        View::Split | View::Slice | View::None => {}
    }
}

pub(crate) fn same_elements(a: &Known, b: &Known) -> bool {
    a.element == b.element && a.elements() == b.elements()
}

/// Returns the offsets of `part` among pieces that follow one another along an axis of `big`.
fn pieces(side: &Side<'_>, all: &[Option<Value>], part: Value, small: &Known, big: &Known, axis: i64) -> Vec<u64> {
    let Some(axis) = normalize_axis(axis, big.dims.len()) else { return Vec::new() };
    let mut found = Vec::new();
    let mut at = 0u64;
    for piece in all.iter().copied().flatten() {
        let Some(known) = side.known[piece].as_ref().filter(|known| known.dims.len() == big.dims.len()) else { break };
        if piece == part {
            let starts: Vec<u64> = (0..big.dims.len()).map(|at_axis| if at_axis == axis { at } else { 0 }).collect();
            found.extend(window(big, small, &starts));
        }
        let Some(next) = at.checked_add(known.dims[axis]) else { break };
        at = next;
    }
    found
}

/// Returns the byte offset of a box in a row-major tensor. `None` if the box's elements are not
/// contiguous or do not begin at a whole byte.
fn window(big: &Known, part: &Known, starts: &[u64]) -> Option<u64> {
    if big.element != part.element || big.dims.len() != part.dims.len() || starts.len() != big.dims.len() {
        return None;
    }
    let inside = starts
        .iter()
        .zip(&part.dims)
        .zip(&big.dims)
        .all(|((start, extent), whole)| start.checked_add(*extent).is_some_and(|end| end <= *whole));
    // After the last cut axis all rows are complete. Before it every extent of the part must be 1.
    let cut = big.dims.iter().zip(&part.dims).rposition(|(whole, extent)| whole != extent).unwrap_or(0);
    if !inside || part.dims[..cut].iter().any(|extent| *extent != 1) {
        return None;
    }
    let mut stride = 1u128;
    let mut index = 0u128;
    for (start, extent) in starts.iter().zip(&big.dims).rev() {
        index = index.checked_add(u128::from(*start).checked_mul(stride)?)?;
        stride = stride.checked_mul(u128::from(*extent))?;
    }
    let bits = index.checked_mul(u128::from(big.element.bits()?))?;
    (bits % 8 == 0).then(|| u64::try_from(bits / 8).ok()).flatten()
}

/// Returns the first element of a slice on each axis. `None` if it is unknown or the slice skips
/// elements.
fn slice_starts(side: &Side<'_>, row: usize, big: &Known) -> Option<Vec<u64>> {
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
    let rank = big.dims.len();
    let axes = axes.unwrap_or_else(|| (0..).take(starts.len()).collect());
    let mut first = vec![0u64; rank];
    for (start, axis) in starts.iter().zip(&axes) {
        let axis = normalize_axis(*axis, rank)?;
        let extent = i64::try_from(big.dims[axis]).ok()?;
        let start = if *start < 0 { start.saturating_add(extent) } else { *start };
        first[axis] = u64::try_from(start.clamp(0, extent)).ok()?;
    }
    (starts.len() == axes.len()).then_some(first)
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
