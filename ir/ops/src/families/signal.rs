//! Signal processing: Fourier transforms, window functions, mel filter banks.

use memc_ir::{Dim, ElementType};

use crate::context::{Infer, InferError};
use crate::families::dims::{agree, dim_at, element_attribute, floor_div, floor_quotient};
use crate::info::{OpInfo, Typed, Work};

/// Returns a scalar operand as an extent; rejects a known negative value.
fn extent_operand(ctx: &Infer<'_>, operand: usize) -> Result<Dim, InferError> {
    if let Some(value) = ctx.int_scalar(operand)
        && value < 0
    {
        return Err(InferError::BadOperand { operand, why: format!("{value} is negative") });
    }
    Ok(ctx.dim_scalar(operand))
}

fn one() -> Dim {
    Dim::Known(1)
}

/// Returns the length of a transform: operand 1 if present, else the extent `n` of the data, or
/// `2 (n - 1)` for the inverse of a one-sided transform.
fn transform_length(ctx: &Infer<'_>, axis: usize, inverse_half: bool) -> Result<Dim, InferError> {
    match ctx.has(1) {
        true => extent_operand(ctx, 1),
        false if inverse_half => Ok(dim_at(ctx, 0, axis).sub(&one()).mul(&Dim::Known(2))),
        false => Ok(dim_at(ctx, 0, axis)),
    }
}

/// Returns the axis of a transform, an attribute before version 20 and operand 2 from then on; `None` if
/// it is unknown.
fn transform_axis(ctx: &Infer<'_>, rank: usize) -> Result<Option<usize>, InferError> {
    let stated = match (ctx.version() < 20, ctx.has(2)) {
        (true, _) => Some(ctx.int("axis", 1)),
        (false, true) => ctx.int_scalar(2),
        (false, false) => Some(-2),
    };
    let axis = stated.map(|axis| ctx.axis("axis", axis, rank)).transpose()?;
    if axis.is_some_and(|axis| axis + 1 == rank) {
        return Err(InferError::BadAttribute {
            name: "axis",
            why: "the last axis holds real and imaginary parts".to_owned(),
        });
    }
    Ok(axis)
}

fn dft(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = ctx.element(0);
    let Some(mut dims) = ctx.shape(0) else {
        ctx.set_tensor(0, element, None);
        return Ok(());
    };
    if dims.len() < 2 {
        return Err(InferError::BadOperand { operand: 0, why: format!("rank {} is below 2", dims.len()) });
    }
    let (half, inverse) = (ctx.int("onesided", 0) != 0, ctx.int("inverse", 0) != 0);
    match transform_axis(ctx, dims.len())? {
        Some(axis) => {
            let length = transform_length(ctx, axis, half && inverse)?;
            dims[axis] = if half && !inverse { floor_div(&length, 2).add(&one()) } else { length };
        }
        // Without a stated length, a whole transform keeps all extents, for any axis.
        None if !half && !ctx.has(1) => {}
        None => dims.iter_mut().for_each(|extent| *extent = Dim::Unknown),
    }
    if let Some(parts) = dims.last_mut() {
        *parts = Dim::Known(if half && inverse { 1 } else { 2 });
    }
    ctx.set_dims(0, element, dims);
    Ok(())
}

/// Infers STFT. Operands: signal `[N, L, 1 or 2]`, step, window `[F]`, frame length. Result:
/// `[N, frames, bins, 2]`.
fn stft(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    if ctx.rank(0).is_some_and(|rank| !(2..=3).contains(&rank)) {
        return Err(InferError::BadOperand { operand: 0, why: "a signal has rank 3".to_owned() });
    }
    let length = dim_at(ctx, 0, 1);
    let frame = match (ctx.has(3), ctx.has(2)) {
        (true, _) => agree("frame length and window", &extent_operand(ctx, 3)?, &dim_at(ctx, 2, 0))?,
        (false, true) => dim_at(ctx, 2, 0),
        (false, false) => length.clone(),
    };
    let frames = match (ctx.int_scalar(1), length.known(), frame.known()) {
        (Some(step), ..) if step < 1 => {
            return Err(InferError::BadOperand { operand: 1, why: format!("a step of {step} never ends") });
        }
        (Some(step), _, Some(frame)) => {
            let frames = floor_quotient(&length, -i128::from(frame), step, 1);
            frames.ok_or_else(|| InferError::BadOperand {
                operand: 0,
                why: format!("shorter than a frame of {frame}"),
            })?
        }
        _ => Dim::Unknown,
    };
    let bins = if ctx.int("onesided", 1) != 0 { floor_div(&frame, 2).add(&one()) } else { frame };
    ctx.set_dims(0, ctx.element(0), vec![dim_at(ctx, 0, 0), frames, bins, Dim::Known(2)]);
    Ok(())
}

fn window_function(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = element_attribute(ctx, "output_datatype")?.unwrap_or(ElementType::Float);
    let size = extent_operand(ctx, 0)?;
    ctx.set_dims(0, element, vec![size]);
    Ok(())
}

/// Infers MelWeightMatrix. Operands: number of bins, length of the transform, sample rate, edges.
fn mel_weights(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    let element = element_attribute(ctx, "output_datatype")?.unwrap_or(ElementType::Float);
    let spectrum = floor_div(&extent_operand(ctx, 1)?, 2).add(&one());
    let bins = extent_operand(ctx, 0)?;
    ctx.set_dims(0, element, vec![spectrum, bins]);
    Ok(())
}

/// Counts five operations for each element and level of a fast transform. The length is the longest
/// signal axis of the result.
fn transform_flops(node: &Typed<'_>) -> Option<u64> {
    let dims = node.output_dims(0)?;
    let longest = *dims.get(1..dims.len().checked_sub(1)?)?.iter().max().unwrap_or(&1);
    let levels = u64::from(longest.max(2).ilog2()) + 1;
    node.output_elements()?.checked_mul(levels)?.checked_mul(5)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    OpInfo::onnx("BlackmanWindow", window_function).work(Work::PerElement(40)),
    OpInfo::onnx("DFT", dft).work(Work::Flops(transform_flops)),
    OpInfo::onnx("HammingWindow", window_function).work(Work::PerElement(20)),
    OpInfo::onnx("HannWindow", window_function).work(Work::PerElement(20)),
    OpInfo::onnx("MelWeightMatrix", mel_weights).work(Work::PerElement(4)),
    OpInfo::onnx("STFT", stft).work(Work::Flops(transform_flops)),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    #[test]
    fn transforms() {
        let dft = |version, data: &str| Case::new("DFT", version).input(data);
        assert_eq!(dft(17, "f32[N,10,1]").show(), "f32[N,10,2]");
        assert_eq!(dft(17, "f32[N,10,1]").int("onesided", 1).show(), "f32[N,6,2]");
        assert_eq!(dft(20, "f32[N,10,2]").int("onesided", 1).int("inverse", 1).show(), "f32[N,18,1]");
        assert_eq!(dft(20, "f32[7,10,2]").data("i64[]", "16").data("i64[]", "0").show(), "f32[16,10,2]");
        assert_eq!(dft(20, "f32[7,10,2]").input("").input("i64[]").show(), "f32[7,10,2]");
        assert_eq!(dft(20, "f32[7,10,2]").input("i64[]").input("i64[]").show(), "f32[?,?,2]");
        assert!(
            dft(20, "f32[7,10,2]").input("").data("i64[]", "2").show().starts_with("error: attribute `axis`")
        );
    }

    #[test]
    fn short_time_transforms() {
        let stft = |signal: &str| Case::new("STFT", 17).input(signal).data("i64[]", "8");
        assert_eq!(stft("f32[1,128,1]").input("f32[16]").show(), "f32[1,15,9,2]");
        assert_eq!(
            stft("f32[1,8*N,1]").input("").data("i64[]", "16").int("onesided", 0).show(),
            "f32[1,N-1,16,2]"
        );
        assert!(stft("f32[1,4,1]").input("f32[16]").show().starts_with("error: operand 0"));
    }

    #[test]
    fn windows_and_filter_banks() {
        assert_eq!(
            Case::new("HannWindow", 17).data("i64[]", "10").int("output_datatype", 11).show(),
            "f64[10]"
        );
        assert_eq!(Case::new("HammingWindow", 17).input("i64[]").show(), "f32[?]");
        assert!(Case::new("BlackmanWindow", 17).data("i64[]", "-1").show().starts_with("error: operand 0"));
        assert_eq!(
            Case::new("MelWeightMatrix", 17).data("i64[]", "8").data("i64[]", "16").show(),
            "f32[9,8]"
        );
    }
}
