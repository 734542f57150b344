//! Reads axis lists, which are an attribute in older operator sets and an operand in newer ones.

use memc_ir::Dim;

use crate::context::{Infer, InferError, normalize_axis};

/// The axes that a node states.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Axes {
    /// No axes are stated: the operator's default applies.
    Absent,
    /// The axes as written, possibly negative.
    Known(Vec<i64>),
    /// The axes are known only at run time; their number may be known.
    Unknown(Option<usize>),
}

/// Returns the number of elements of a vector operand; `None` if it is unknown or over 1,024, too large
/// for a rank.
pub(crate) fn vector_length(ctx: &Infer<'_>, operand: usize) -> Option<usize> {
    match ctx.dims(operand)? {
        [] => Some(1),
        [Dim::Known(count)] if *count <= 1024 => Some(*count as usize),
        _ => None,
    }
}

/// Returns the axes from an attribute or, in newer operator sets, from an operand.
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

/// Converts axes as written to positions below `rank`, in the order written.
///
/// # Errors
/// Returns an error if an axis is out of range or occurs twice.
pub(crate) fn positions_of(axes: &[i64], rank: usize) -> Result<Vec<usize>, InferError> {
    let positions = set_of(axes, rank)?;
    if positions.len() < axes.len() {
        return Err(InferError::BadAttribute { name: "axes", why: format!("{axes:?} name an axis twice") });
    }
    Ok(positions)
}

/// Converts axes as written to distinct positions below `rank`, for operators whose kernels accept a
/// repeated axis.
///
/// # Errors
/// Returns an error if an axis is out of range.
pub(crate) fn set_of(axes: &[i64], rank: usize) -> Result<Vec<usize>, InferError> {
    let mut seen = vec![false; rank];
    let mut result = Vec::with_capacity(axes.len().min(rank));
    for axis in axes {
        let position = normalize_axis(*axis, rank).ok_or_else(|| InferError::BadAttribute {
            name: "axes",
            why: format!("{axis} is out of range for rank {rank}"),
        })?;
        if !std::mem::replace(&mut seen[position], true) {
            result.push(position);
        }
    }
    Ok(result)
}
