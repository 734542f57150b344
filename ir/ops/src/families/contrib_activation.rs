//! Element-wise operators of ONNX Runtime's own domain: activations with and without bias, dropout,
//! triangles.

use memc_ir::{Dim, ElementType};

use super::contrib_rules::{like_first, microsoft, set_shaped_like};
use super::contrib_workspace;
use crate::algebra::Algebra;
use crate::context::{Infer, InferError};
use crate::info::{InPlace, OpInfo, Repeat, SplitAxes, Typed, Work};

/// Infers operators that combine the two halves of the last axis.
fn halved(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let mut shape = ctx.shape(0);
    if let Some(last) = shape.as_mut().and_then(|dims| dims.last_mut()) {
        *last = last.div(&Dim::Known(2));
    }
    ctx.set_tensor(0, ctx.element(0), shape);
    Ok(())
}

/// Infers Dropout: result 0 is like operand 0, result 1 is its boolean mask.
pub(crate) fn dropout(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    like_first(ctx)?;
    set_shaped_like(ctx, 1, ElementType::Bool, 0);
    Ok(())
}

/// Infers Dropout with a bit mask: result 0 is like operand 0, result 1 is its mask with 32 elements per
/// word.
fn bitmask_dropout(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    like_first(ctx)?;
    let words = ctx
        .tensor(0)
        .and_then(memc_ir::TensorType::elements)
        .map_or(Dim::Unknown, |count| Dim::Known(count.div_ceil(32)));
    ctx.set_dims(1, ElementType::Uint32, vec![words]);
    Ok(())
}

/// Infers a predicate: one boolean per element.
fn truth(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    set_shaped_like(ctx, 0, ElementType::Bool, 0);
    Ok(())
}

const fn elementwise(name: &'static str, work: u32, algebra: Algebra) -> OpInfo {
    microsoft(name, like_first).algebra(algebra).work(Work::PerElement(work)).split(SplitAxes::All)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    elementwise("BiasAdd", 2, Algebra::KEEPS_ZERO),
    microsoft("BiasDropout", dropout).work(Work::PerElement(6)).repeat(Repeat::Random),
    // The bias is added in a separate pass: the time measured equals that of an Add and a Gelu.
    elementwise("BiasGelu", 37, Algebra::KEEPS_ZERO)
        .in_place(InPlace::Operands(&[0]))
        .workspace(contrib_workspace::biased_copy),
    microsoft("BiasSoftmax", like_first).unit_scale().work(Work::PerElement(14)).split(SplitAxes::AllButLast),
    microsoft("BiasSplitGelu", halved).work(Work::PerElement(15)).split(SplitAxes::AllButLast),
    microsoft("BitmaskBiasDropout", bitmask_dropout).work(Work::PerElement(6)).repeat(Repeat::Random),
    microsoft("BitmaskDropout", bitmask_dropout).work(Work::PerElement(4)).repeat(Repeat::Random),
    elementwise("FastGelu", 12, Algebra::KEEPS_ZERO)
        .in_place(InPlace::Operands(&[0]))
        .workspace(contrib_workspace::biased_copy),
    elementwise("GatedAdd", 2, Algebra::KEEPS_ZERO),
    elementwise("Gelu", 26, Algebra::KEEPS_ZERO).in_place(InPlace::Operands(&[0])),
    microsoft("Inverse", like_first).work(Work::Flops(inverse_flops)),
    microsoft("IsFinite", truth).algebra(Algebra::FINITE_AT_ZERO).split(SplitAxes::All),
    elementwise("QuickGelu", 21, Algebra::KEEPS_ZERO).in_place(InPlace::Operands(&[0])),
    elementwise("SampleOp", 1, Algebra::NONE),
    elementwise("ScaledSiLU", 12, Algebra::KEEPS_ZERO),
    elementwise("Trilu", 1, Algebra::KEEPS_ZERO),
];

/// Counts two thirds of `n^3` for the factors and `2 n^3` for the solutions, for each `n x n` matrix of
/// the batch.
fn inverse_flops(typed: &Typed<'_>) -> Option<u64> {
    let dims = typed.output_dims(0)?;
    typed.output_elements()?.checked_mul(dims.last()?.checked_mul(3)?)
}

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    fn case(name: &str) -> Case {
        Case::of("com.microsoft", name, 1)
    }

    #[test]
    fn shapes_follow_the_first_operand() {
        assert_eq!(case("BiasGelu").input("f32[B,128,768]").input("f32[768]").show(), "f32[B,128,768]");
        assert_eq!(case("BiasSplitGelu").input("f16[2,64,2560]").input("f16[2560]").show(), "f16[2,64,1280]");
        assert_eq!(case("BiasSplitGelu").input("f16[]").show(), "f16[]");
        assert_eq!(case("IsFinite").input("f32[2,3]").show(), "bool[2,3]");
        assert_eq!(case("QuickGelu").show(), "error: operand 0 is missing");
    }

    #[test]
    fn masks_of_dropout_are_booleans_or_packed_words() {
        let biased = case("BiasDropout").input("f32[2,33]").input("f32[33]").outputs(2).show_all();
        assert_eq!(biased, "f32[2,33]; bool[2,33]");
        assert_eq!(case("BitmaskDropout").input("f32[2,33]").outputs(2).show_all(), "f32[2,33]; u32[3]");
        assert_eq!(case("BitmaskDropout").input("f32[N]").outputs(2).show_all(), "f32[N]; u32[?]");
        let huge = format!("f32[{},{}]", u64::MAX, u64::MAX);
        assert_eq!(
            case("BitmaskDropout").input(&huge).wanted(&[false, true]).show_all(),
            format!("{huge}; u32[?]")
        );
    }
}
