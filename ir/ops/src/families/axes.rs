//! Axes that a node names, by attribute in older operator sets and by operand in newer ones.

use memc_ir::Dim;

use crate::context::{Infer, InferError, normalize_axis};

/// What is known of the axes that a node names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Axes {
    /// None are named: the operator's default holds.
    Absent,
    /// These, as written.
    Known(Vec<i64>),
    /// They are only known when the model runs; how many may be known.
    Unknown(Option<usize>),
}

/// How many elements a vector operand has, where known and sane as a rank.
pub(crate) fn vector_length(ctx: &Infer<'_>, operand: usize) -> Option<usize> {
    match ctx.dims(operand)? {
        [] => Some(1),
        [Dim::Known(count)] if *count <= 1024 => Some(*count as usize),
        _ => None,
    }
}

/// Integers that stand in an attribute or, in newer operator sets, in an operand.
pub(crate) fn axes(ctx: &Infer<'_>, attribute: &str, operand: usize) -> Axes {
    if let Some(axes) = ctx.ints(attribute) {
        return Axes::Known(axes.to_vec());
    }
    if !ctx.has(operand) {
        return Axes::Absent;
    }
    match ctx.int_data(operand) {
        Some(axes) => Axes::Known(axes),
        None => Axes::Unknown(vector_length(ctx, operand)),
    }
}

/// Turns axes as written into positions below `rank`, in the order written.
///
/// # Errors
/// One is out of range, or two are the same.
pub(crate) fn positions_of(axes: &[i64], rank: usize) -> Result<Vec<usize>, InferError> {
    let positions = set_of(axes, rank)?;
    if positions.len() < axes.len() {
        return Err(InferError::BadAttribute { name: "axes", why: format!("{axes:?} name an axis twice") });
    }
    Ok(positions)
}

/// Turns axes as written into positions below `rank`, each once; for operators whose kernels take a repeated axis.
///
/// # Errors
/// One is out of range.
pub(crate) fn set_of(axes: &[i64], rank: usize) -> Result<Vec<usize>, InferError> {
    let mut seen = vec![false; rank];
    let mut result = Vec::with_capacity(axes.len().min(rank));
    for axis in axes {
        let position = normalize_axis(*axis, rank)
            .ok_or_else(|| InferError::BadAttribute { name: "axes", why: format!("{axis} is out of range for rank {rank}") })?;
        if !std::mem::replace(&mut seen[position], true) {
            result.push(position);
        }
    }
    Ok(result)
}
