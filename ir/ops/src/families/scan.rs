//! Scan: a loop over slices of its operands. Version 8 has a leading batch axis, later versions choose
//! the scanned axes.

use memc_ir::{Dim, TensorType, ValueType};

use crate::context::{Infer, InferError};
use crate::fact::Fact;
use crate::families::dims::{agree, dim_at};
use crate::families::iteration::{carried, check_arity, collected, required_body};

/// The differences between the versions.
struct Layout {
    /// Position of the first state operand: version 8 has the sequence lengths before it.
    first: usize,
    /// Number of leading batch axes of every operand and result.
    batch_axes: usize,
}

impl Layout {
    fn of(version: i64) -> Self {
        if version < 9 { Self { first: 1, batch_axes: 1 } } else { Self { first: 0, batch_axes: 0 } }
    }
}

/// Returns an operand as the body gets it: without the batch axis and, if it is scanned, without the
/// scan axis.
fn slice(ctx: &Infer<'_>, operand: usize, removed: &[usize]) -> Fact {
    let Some(fact) = ctx.fact(operand) else { return Fact::default() };
    let Some(tensor) = fact.ty.tensor() else { return Fact::of(fact.ty.clone()) };
    if removed.is_empty() {
        return fact.clone();
    }
    let shape = tensor.shape.as_ref().map(|dims| {
        dims.iter()
            .enumerate()
            .filter(|(axis, _)| !removed.contains(axis))
            .map(|(_, extent)| extent.clone())
            .collect()
    });
    Fact::tensor(TensorType { element: tensor.element, shape })
}

/// Returns the scan axis of the `index`-th scanned operand or result, for a rank.
fn scan_axis(ctx: &Infer<'_>, name: &'static str, index: usize, rank: usize) -> Result<usize, InferError> {
    let stated = ctx.ints(name).and_then(|axes| axes.get(index)).copied().unwrap_or(0);
    ctx.axis(name, stated, rank)
}

/// Adds the leading batch axis back to a result.
fn with_batch(fact: Fact, batch: Option<&Dim>) -> Fact {
    match batch {
        Some(batch) => collected(&fact.ty, Some(0), batch).unwrap_or_default(),
        None => fact,
    }
}

/// Infers Scan. Operands: states, then scanned operands. Results: states, then collected results.
pub(crate) fn scan(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let body = required_body(ctx, "body")?;
    let layout = Layout::of(ctx.version());
    let name = "num_scan_inputs";
    let scanned = ctx.int_attribute(name).ok_or(InferError::MissingAttribute { name })?;
    let total = ctx.input_count().saturating_sub(layout.first);
    let states = usize::try_from(scanned).ok().and_then(|scanned| total.checked_sub(scanned));
    let states = states
        .ok_or_else(|| InferError::BadAttribute { name, why: format!("{scanned} of {total} operands") })?;
    check_arity(ctx, body, total, states)?;

    // Slice the operands for the body; collect the number of steps and the batch extent.
    let batch: Vec<usize> = (0..layout.batch_axes).collect();
    let initial: Vec<Fact> = (0..states).map(|state| slice(ctx, layout.first + state, &batch)).collect();
    let (mut tail, mut steps, mut batches) = (Vec::new(), Dim::Unknown, Dim::Unknown);
    for index in 0..total - states {
        let operand = layout.first + states + index;
        let mut removed = batch.clone();
        if let Some(rank) = ctx.rank(operand) {
            let inner = rank.saturating_sub(layout.batch_axes);
            let axis = layout.batch_axes + scan_axis(ctx, "scan_input_axes", index, inner)?;
            steps = agree("lengths of scanned operands", &steps, &dim_at(ctx, operand, axis))?;
            removed.push(axis);
        }
        tail.push(slice(ctx, operand, &removed));
    }
    if layout.batch_axes > 0 {
        for operand in layout.first..ctx.input_count() {
            batches = agree("batches", &batches, &dim_at(ctx, operand, 0))?;
        }
    }

    // Infer the body, then state its results with scan and batch axes.
    let (state, results) = carried(ctx, body, &[], initial, &tail, 0)?;
    let batch = (layout.batch_axes > 0).then_some(&batches);
    for (result, fact) in state.into_iter().enumerate() {
        ctx.set(result, with_batch(fact, batch));
    }
    for result in states..ctx.output_count() {
        let element = results.get(result).map_or(&ValueType::Unknown, |fact| &fact.ty);
        let axis = match element.tensor().and_then(TensorType::rank) {
            Some(rank) => Some(scan_axis(ctx, "scan_output_axes", result - states, rank + 1)?),
            None => None,
        };
        ctx.set(result, with_batch(collected(element, axis, &steps).unwrap_or_default(), batch));
    }
    Ok(())
}
