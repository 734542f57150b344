//! Shape rules shared by the families outside the ONNX domain: like an operand, transposed products,
//! sliding windows.

use memc_ir::{Dim, ElementType};

use super::dims::require_rank;
use super::window::{Fit, Window, entries};
use crate::context::{Infer, InferError};
use crate::info::{InferFn, OpInfo};

/// Domain of ONNX Runtime's own operators.
pub(crate) const MICROSOFT: &str = "com.microsoft";

/// Creates the entry of an operator of ONNX Runtime's own domain.
pub(crate) const fn microsoft(name: &'static str, infer: InferFn) -> OpInfo {
    OpInfo::of(MICROSOFT, name, infer)
}

/// Gives result 0 the type and shape of operand 0.
pub(crate) fn like_first(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.set_like(0, 0);
    Ok(())
}

/// Gives result 0 the type and shape of operand 1.
pub(crate) fn like_second(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(1)?;
    ctx.set_like(0, 1);
    Ok(())
}

/// Gives result `index` the shape of operand `input` and the element type `element`.
pub(crate) fn set_shaped_like(ctx: &mut Infer<'_>, index: usize, element: ElementType, input: usize) {
    let shape = ctx.shape(input);
    ctx.set_tensor(index, element, shape);
}

/// Returns the extents of an operand that must have rank `rank`; all unknown if its rank is unknown.
///
/// # Errors
/// Returns [`InferError::BadOperand`] if the operand has another rank.
pub(crate) fn ranked(ctx: &Infer<'_>, operand: usize, rank: usize) -> Result<Vec<Dim>, InferError> {
    require_rank(ctx, operand, rank)?;
    Ok(ctx.shape(operand).unwrap_or_else(|| unknown_dims(rank)))
}

/// Returns the last extent of an operand, or unknown.
pub(crate) fn last_dim(ctx: &Infer<'_>, operand: usize) -> Dim {
    ctx.dims(operand).and_then(<[Dim]>::last).cloned().unwrap_or(Dim::Unknown)
}

/// Returns an integer attribute as an extent; unknown if it is absent or negative.
pub(crate) fn extent_attribute(ctx: &Infer<'_>, name: &str) -> Dim {
    ctx.int_attribute(name).map_or(Dim::Unknown, extent)
}

/// Returns a number as an extent; unknown if it is negative.
pub(crate) fn extent(number: i64) -> Dim {
    u64::try_from(number).map_or(Dim::Unknown, Dim::Known)
}

/// Returns the only element of an integer operand as an extent.
pub(crate) fn scalar_extent(ctx: &Infer<'_>, operand: usize) -> Dim {
    ctx.dim_scalar(operand)
}

/// Returns `rank` unknown extents.
pub(crate) fn unknown_dims(rank: usize) -> Vec<Dim> {
    vec![Dim::Unknown; rank]
}

/// Swaps the last two axes if `transposed`; vectors stay unchanged.
pub(crate) fn swapped<T>(mut dims: Vec<T>, transposed: bool) -> Vec<T> {
    let rank = dims.len();
    if transposed && rank >= 2 {
        dims.swap(rank - 2, rank - 1);
    }
    dims
}

/// Returns the number of window positions along each spatial axis. Attribute `kernel_shape` overrides
/// `kernel`.
///
/// # Errors
/// Returns an error if attributes or extents are invalid for a window.
pub(crate) fn slide(ctx: &Infer<'_>, input: &[Dim], kernel: &[Dim]) -> Result<Vec<Dim>, InferError> {
    let window = Window::read(ctx, input.len())?;
    let kernel = match entries(ctx, "kernel_shape", input.len(), 1)? {
        Some(extents) => extents.into_iter().map(extent).collect(),
        None => kernel.to_vec(),
    };
    let fit = if ctx.int("ceil_mode", 0) != 0 { Fit::Up } else { Fit::TowardZero };
    let along = |(axis, (input, kernel))| window.positions(axis, input, kernel, fit);
    input.iter().zip(&kernel).enumerate().map(along).collect()
}
