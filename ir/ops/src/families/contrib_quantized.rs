//! Quantized element-wise operators, reductions and conversions of ONNX Runtime's own domain.

use memc_ir::{Dim, ElementType, Shape};

use super::contrib_rules::{like_first, microsoft, set_shaped_like};
use super::contrib_workspace;
use crate::algebra::Algebra;
use crate::context::{Infer, InferError, broadcast};
use crate::info::{InferFn, OpInfo, Reads, SplitAxes, Work};
use crate::pieces::rules;

/// Returns the broadcast shape of several operands.
fn broadcast_operands(ctx: &Infer<'_>, operands: &[usize]) -> Result<Shape, InferError> {
    let mut shape = Some(Vec::new());
    for operand in operands {
        ctx.required(*operand)?;
        shape = match (shape, ctx.dims(*operand)) {
            (Some(left), Some(right)) => Some(broadcast(&left, right)?),
            _ => None,
        };
    }
    Ok(shape)
}

/// Returns the element type of the first of these operands whose type is known.
fn first_element(ctx: &Infer<'_>, operands: &[usize]) -> ElementType {
    let known = operands.iter().map(|operand| ctx.element(*operand));
    known.into_iter().find(|element| *element != ElementType::Undefined).unwrap_or(ElementType::Undefined)
}

fn two_operands(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let shape = broadcast_operands(ctx, &[0, 3])?;
    ctx.set_tensor(0, ctx.element(0), shape);
    Ok(())
}

fn choice(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let shape = broadcast_operands(ctx, &[0, 1, 4])?;
    ctx.set_tensor(0, ctx.element(1), shape);
    Ok(())
}

fn integer_product(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let shape = broadcast_operands(ctx, &[0, 2])?;
    ctx.set_tensor(0, ElementType::Int32, shape);
    Ok(())
}

fn quantize(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = if ctx.has(2) { ctx.element(2) } else { ElementType::Uint8 };
    set_shaped_like(ctx, 0, element, 0);
    Ok(())
}

fn dequantize(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = ctx.element(1);
    set_shaped_like(ctx, 0, element, 0);
    Ok(())
}

fn quantize_ordered(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    set_shaped_like(ctx, 0, ElementType::Int8, 0);
    Ok(())
}

fn dequantize_ordered(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let stated = ctx.int_attribute("to").and_then(|number| i32::try_from(number).ok());
    set_shaped_like(ctx, 0, stated.map_or(ElementType::Undefined, ElementType::from_onnx), 0);
    Ok(())
}

/// Infers quantization to blocks of numbers with a common exponent: a vector of bytes whose length
/// depends on the block format, a shape, and strides.
fn quantize_blocks(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let rank = ctx.rank(0).map_or(Dim::Unknown, |rank| Dim::Known(rank as u64));
    ctx.set_dims(0, ElementType::Uint8, vec![Dim::Unknown]);
    ctx.set_dims(1, ElementType::Int64, vec![rank.clone()]);
    ctx.set_dims(2, ElementType::Int64, vec![rank]);
    Ok(())
}

fn dequantize_blocks(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let shape = ctx.dim_data(1);
    let stated = i32::try_from(ctx.int("dtype", 1)).unwrap_or(0);
    ctx.set_tensor(0, ElementType::from_onnx(stated), shape);
    Ok(())
}

/// Infers QLinearConcat: triples of tensor, scale and zero point from operand 2 on, joined along
/// attribute `axis`.
fn concat(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let axis = ctx.int_attribute("axis").ok_or(InferError::MissingAttribute { name: "axis" })?;
    let element = first_element(ctx, &[1, 2]);
    ctx.required(2)?;
    let parts: Option<Vec<&[Dim]>> =
        (2..ctx.input_count()).step_by(3).map(|operand| ctx.dims(operand)).collect();
    let Some(parts) = parts else {
        ctx.set_tensor(0, element, None);
        return Ok(());
    };
    let mut joined = parts[0].to_vec();
    let axis = ctx.axis("axis", axis, joined.len())?;
    for part in &parts[1..] {
        if part.len() != joined.len() {
            return Err(InferError::Mismatch {
                what: "ranks",
                left: joined.len().to_string(),
                right: part.len().to_string(),
            });
        }
        for (at, (own, other)) in joined.iter_mut().zip(*part).enumerate() {
            if at == axis {
                *own = own.add(other);
            } else if own.known().is_none() {
                *own = other.clone();
            }
        }
    }
    ctx.set_dims(0, element, joined);
    Ok(())
}

/// Returns the shape of a reduction over attribute `axes`; over all axes if the attribute is absent.
fn reduced(ctx: &Infer<'_>) -> Result<Shape, InferError> {
    ctx.required(0)?;
    let Some(dims) = ctx.shape(0) else { return Ok(None) };
    let keep = ctx.int("keepdims", 1) != 0;
    let mut gone = vec![ctx.ints("axes").is_none(); dims.len()];
    for axis in ctx.ints("axes").unwrap_or_default() {
        gone[ctx.axis("axes", *axis, dims.len())?] = true;
    }
    let kept = dims.into_iter().zip(gone).filter_map(|(dim, gone)| match (gone, keep) {
        (false, _) => Some(dim),
        (true, true) => Some(Dim::Known(1)),
        (true, false) => None,
    });
    Ok(Some(kept.collect()))
}

fn mean(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let shape = reduced(ctx)?;
    ctx.set_tensor(0, ctx.element(0), shape);
    Ok(())
}

fn integer_sum(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let shape = reduced(ctx)?;
    let wide = if ctx.element(0) == ElementType::Uint8 { ElementType::Uint32 } else { ElementType::Int32 };
    ctx.set_tensor(0, wide, shape);
    Ok(())
}

/// Infers a lookup of rows in a block-quantized table, with floating-point results.
fn gather_blocks(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    let element = ctx.element(2);
    let (Some(data), Some(indices)) = (ctx.shape(0), ctx.shape(1)) else {
        ctx.set_tensor(0, element, None);
        return Ok(());
    };
    let axis = ctx.axis("gather_axis", ctx.int("gather_axis", 0), data.len())?;
    let quantized = ctx.axis("quantize_axis", ctx.int("quantize_axis", 1), data.len())?;
    let mut data = data;
    // Each byte contains several numbers, so the axis of the blocks is longer by that factor.
    let bits = u64::try_from(ctx.int("bits", 4)).unwrap_or(0);
    if ctx.element(0) == ElementType::Uint8 {
        let per_byte = Dim::Known(8).div(&Dim::Known(bits));
        data[quantized] = data[quantized].mul(&per_byte);
    }
    data.splice(axis..=axis, indices);
    ctx.set_dims(0, element, data);
    Ok(())
}

const fn elementwise(name: &'static str, infer: InferFn, work: u32) -> OpInfo {
    microsoft(name, infer).algebra(Algebra::NONE).work(Work::PerElement(work)).split(SplitAxes::All)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    microsoft("DequantizeBFP", dequantize_blocks).work(Work::PerElement(2)),
    microsoft("DequantizeLinear", dequantize)
        .work(Work::PerElement(2))
        .split(SplitAxes::Rule(rules::quantized)),
    microsoft("DequantizeWithOrder", dequantize_ordered).work(Work::PerElement(2)),
    microsoft("GatherBlockQuantized", gather_blocks).work(Work::PerElement(2)).reads(Reads::Picked(&[0, 2])),
    elementwise("MulInteger", integer_product, 3),
    elementwise("QLinearAdd", two_operands, 6).rounds(),
    microsoft("QLinearConcat", concat).rounds().work(Work::PerElement(2)),
    elementwise("QLinearLeakyRelu", like_first, 4).rounds(),
    elementwise("QLinearMul", two_operands, 6).rounds(),
    microsoft("QLinearReduceMean", mean).rounds().work(Work::PerInputElement(2)),
    elementwise("QLinearSigmoid", like_first, 4).rounds(),
    microsoft("QLinearSoftmax", like_first)
        .rounds()
        .work(Work::PerElement(16))
        .workspace(contrib_workspace::moved_axis)
        .split(SplitAxes::AllButAxis),
    elementwise("QLinearWhere", choice, 4).rounds().workspace(contrib_workspace::two_copies),
    elementwise("QOrderedGelu", like_first, 14).rounds(),
    microsoft("QuantizeBFP", quantize_blocks).rounds().work(Work::PerInputElement(3)),
    microsoft("QuantizeLinear", quantize)
        .rounds()
        .work(Work::PerElement(3))
        .split(SplitAxes::Rule(rules::quantized)),
    microsoft("QuantizeWithOrder", quantize_ordered).rounds().work(Work::PerElement(3)),
    microsoft("ReduceSumInteger", integer_sum).work(Work::PerInputElement(1)),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    fn case(name: &str) -> Case {
        Case::of("com.microsoft", name, 1)
    }

    fn all(name: &str, operands: &[&str]) -> Case {
        operands.iter().fold(case(name), |case, operand| case.input(operand))
    }

    #[test]
    fn quantized_operands_broadcast() {
        let add =
            all("QLinearAdd", &["u8[B,1,8]", "f32[]", "u8[]", "u8[4,8]", "f32[]", "u8[]", "f32[]", "u8[]"]);
        assert_eq!(add.show(), "u8[B,4,8]");
        let choice = all(
            "QLinearWhere",
            &["bool[3,1]", "i8[4]", "f32[]", "i8[]", "i8[]", "f32[]", "i8[]", "f32[]", "i8[]"],
        );
        assert_eq!(choice.show(), "i8[3,4]");
        assert_eq!(
            all("MulInteger", &["u8[2]", "", "u8[3]"]).show(),
            "error: broadcast: 2 and 3 do not agree"
        );
    }

    #[test]
    fn conversions_choose_their_element() {
        assert_eq!(all("QuantizeLinear", &["f32[2,3]", "f32[]", "i16[]"]).show(), "i16[2,3]");
        assert_eq!(all("QuantizeLinear", &["f32[2,3]", "f32[]"]).show(), "u8[2,3]");
        assert_eq!(all("DequantizeLinear", &["i8[N]", "f16[]", "i8[]"]).show(), "f16[N]");
        assert_eq!(all("QuantizeBFP", &["f32[2,3,4]"]).outputs(3).show_all(), "u8[?]; i64[3]; i64[3]");
    }

    #[test]
    fn concat_reads_every_third_operand() {
        let operands = ["f32[]", "u8[]", "u8[2,3]", "f32[]", "u8[]", "u8[N,3]", "f32[]", "u8[]"];
        assert_eq!(all("QLinearConcat", &operands).int("axis", 0).show(), "u8[N+2,3]");
        assert_eq!(all("QLinearConcat", &operands).show(), "error: attribute `axis` is missing");
        assert_eq!(all("QLinearConcat", &operands[..2]).int("axis", 0).show(), "error: operand 2 is missing");
    }

    #[test]
    fn reductions_drop_or_keep_axes() {
        let sum = || all("ReduceSumInteger", &["u8[2,3,4]"]);
        assert_eq!(sum().ints("axes", &[-1]).show(), "u32[2,3,1]");
        assert_eq!(sum().ints("axes", &[0, 2]).int("keepdims", 0).show(), "u32[3]");
        assert_eq!(sum().int("keepdims", 0).show(), "u32[]");
        assert!(sum().ints("axes", &[i64::MIN]).show().starts_with("error: attribute `axes`"));
    }

    #[test]
    fn gathered_blocks_unpack() {
        let gather = all("GatherBlockQuantized", &["u8[100,32]", "i64[B,S]", "f32[100,2]"]).int("bits", 4);
        assert_eq!(gather.show(), "f32[B,S,64]");
        assert_eq!(all("GatherBlockQuantized", &["u4[100,32]", "i64[]", "f16[100,2]"]).show(), "f16[32]");
        assert_eq!(
            all("GatherBlockQuantized", &["u8[100,32]", "i64[]", "f16[100,2]"]).int("bits", 0).show(),
            "f16[?]"
        );
    }
}
