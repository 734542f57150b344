//! Linear quantization and dequantization.

use memc_ir::ElementType;

use crate::context::{Infer, InferError};
use crate::families::dims::element_attribute;
use crate::info::{OpInfo, SplitAxes, Work};
use crate::pieces::rules;

/// Rejects an axis out of range, if the scale depends on the axis.
fn check_axis(ctx: &Infer<'_>) -> Result<(), InferError> {
    // A single scale is a scalar or a vector of length 1; a vector of unknown length may have length 1.
    let per_tensor = match ctx.dims(1) {
        None | Some([]) => true,
        Some([count]) => count.known().is_none_or(|count| count == 1),
        Some(_) => false,
    };
    if let Some(rank) = ctx.rank(0).filter(|rank| *rank > 1)
        && !per_tensor
    {
        ctx.axis("axis", ctx.int("axis", 1), rank)?;
    }
    Ok(())
}

/// Infers QuantizeLinear. The element type is that of the attribute, else of the zero point, else
/// unsigned 8 bits.
fn quantize(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    check_axis(ctx)?;
    let element = match element_attribute(ctx, "output_dtype")? {
        Some(element) => element,
        None if ctx.has(2) => ctx.element(2),
        None => ElementType::Uint8,
    };
    ctx.set_tensor(0, element, ctx.shape(0));
    Ok(())
}

/// Infers DequantizeLinear. The element type is that of the attribute, else of the scale.
fn dequantize(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    check_axis(ctx)?;
    let element = element_attribute(ctx, "output_dtype")?.unwrap_or(ctx.element(1));
    ctx.set_tensor(0, element, ctx.shape(0));
    Ok(())
}

/// Infers DynamicQuantizeLinear. Results: data, its scale, its zero point.
fn dynamic_quantize(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.set_tensor(0, ElementType::Uint8, ctx.shape(0));
    ctx.set_dims(1, ElementType::Float, Vec::new());
    ctx.set_dims(2, ElementType::Uint8, Vec::new());
    Ok(())
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    OpInfo::onnx("DequantizeLinear", dequantize)
        .work(Work::PerElement(4))
        .split(SplitAxes::Rule(rules::quantized)),
    OpInfo::onnx("DynamicQuantizeLinear", dynamic_quantize).rounds().work(Work::PerElement(5)),
    OpInfo::onnx("QuantizeLinear", quantize)
        .rounds()
        .work(Work::PerElement(12))
        .split(SplitAxes::Rule(rules::quantized)),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    #[test]
    fn element_types() {
        let quantize =
            |zero: &str| Case::new("QuantizeLinear", 21).input("f32[N,4]").input("f32[4]").input(zero);
        assert_eq!(quantize("").show(), "u8[N,4]");
        assert_eq!(quantize("i4[4]").show(), "i4[N,4]");
        assert_eq!(quantize("").int("output_dtype", 17).show(), "f8e4m3fn[N,4]");
        assert!(quantize("").int("axis", 2).show().starts_with("error: attribute `axis`"));
        assert!(
            quantize("").int("output_dtype", 1 << 40).show().starts_with("error: attribute `output_dtype`")
        );
        let scalar = Case::new("QuantizeLinear", 13).input("f32[N,4]").input("f32[]").int("axis", 7);
        assert_eq!(scalar.show(), "u8[N,4]");
        assert_eq!(
            Case::new("DequantizeLinear", 21).input("i4[N,4]").input("f16[N,2]").int("block_size", 2).show(),
            "f16[N,4]"
        );
        let dynamic = Case::new("DynamicQuantizeLinear", 11).input("f32[N,4]").outputs(3);
        assert_eq!(dynamic.show_all(), "u8[N,4]; f32[]; u8[]");
    }
}
