//! Matrix products of ONNX Runtime's own domain: fused, block-quantized, sparse, and pairwise distances.

use memc_ir::{Dim, ElementType, ValueType};

use super::contrib_rules::{extent_attribute, like_first, microsoft, ranked, swapped};
use super::contrib_workspace;
use super::dims::dim_at;
use super::matrix::matmul_dims;
use crate::context::{Infer, InferError};
use crate::info::{OpInfo, SplitAxes, Typed, Work};
use crate::pieces::rules;

/// Infers the matrix product of two operands.
fn set_product(
    ctx: &mut Infer<'_>,
    element: ElementType,
    left: usize,
    right: usize,
) -> Result<(), InferError> {
    ctx.required(left)?;
    ctx.required(right)?;
    let dims = match (ctx.dims(left), ctx.dims(right)) {
        (Some(left), Some(right)) => Some(matmul_dims(left, right)?),
        _ => None,
    };
    ctx.set_tensor(0, element, dims);
    Ok(())
}

/// Moves the first batch axis before the rows, per attribute `transBatch`: `[A,...,M,K]` is stored as
/// `[M,A,...,K]`.
fn batch_first(mut dims: Vec<Dim>, stored_after_rows: bool) -> Vec<Dim> {
    let rank = dims.len();
    if stored_after_rows && rank >= 3 {
        dims[..rank - 1].rotate_left(1);
    }
    dims
}

fn fused(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    let operand = |index: usize, batch: &str, matrix: &str| {
        let dims = ctx.shape(index)?;
        Some(swapped(batch_first(dims, ctx.int(batch, 0) != 0), ctx.int(matrix, 0) != 0))
    };
    let dims = match (operand(0, "transBatchA", "transA"), operand(1, "transBatchB", "transB")) {
        (Some(left), Some(right)) => Some(matmul_dims(&left, &right)?),
        _ => None,
    };
    ctx.set_tensor(0, ctx.element(0), dims);
    Ok(())
}

/// Infers the product of two matrices, transposed per `transA` and `transB`.
fn set_general(
    ctx: &mut Infer<'_>,
    element: ElementType,
    left: usize,
    right: usize,
) -> Result<(), InferError> {
    ctx.required(left)?;
    ctx.required(right)?;
    let a = ranked(ctx, left, 2)?;
    let b = ranked(ctx, right, 2)?;
    let a = swapped(a, ctx.int("transA", 0) != 0);
    let b = swapped(b, ctx.int("transB", 0) != 0);
    ctx.set_dims(0, element, matmul_dims(&a, &b)?);
    Ok(())
}

fn general(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    set_general(ctx, ctx.element(0), 0, 1)
}

fn eight_bit_float(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let element = ctx.int_attribute("dtype").and_then(|number| i32::try_from(number).ok());
    set_general(ctx, element.map_or(ElementType::Float, ElementType::from_onnx), 0, 1)
}

fn quantized_general(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    // Without a zero point, the result stays in full precision.
    let element = if ctx.has(8) { ctx.element(8) } else { ElementType::Float };
    set_general(ctx, element, 0, 3)
}

fn product(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    set_product(ctx, ctx.element(0), 0, 1)
}

fn sixteen_bit(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let unsigned = ctx.element(0) == ElementType::Uint16 && ctx.element(1) == ElementType::Uint16;
    set_product(ctx, if unsigned { ElementType::Uint32 } else { ElementType::Int32 }, 0, 1)
}

fn to_float(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    set_product(ctx, ctx.element(2), 0, 1)
}

fn ordered(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(2)?;
    // The storage order of the weight determines which of its axes are columns; 0 is column-major.
    let weight = ctx.shape(2).map(|dims| swapped(dims, ctx.int("order_B", 1) == 0));
    let dims = match (ctx.dims(0), weight) {
        (Some(left), Some(right)) => matmul_dims(left, &right).ok(),
        _ => None,
    };
    ctx.set_tensor(0, ctx.element(0), dims);
    Ok(())
}

/// States that a result has the shape of operand 0, with the number of columns of a packed weight as
/// last extent.
fn set_columns(ctx: &mut Infer<'_>, result: usize, columns: Dim) -> Result<(), InferError> {
    ctx.required(0)?;
    let mut shape = ctx.shape(0);
    if let Some(last) = shape.as_mut().and_then(|dims| dims.last_mut()) {
        *last = columns;
    }
    ctx.set_tensor(result, ctx.element(0), shape);
    Ok(())
}

fn packed_weight(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let columns = if ctx.int("transB", 1) == 0 { "K" } else { "N" };
    set_columns(ctx, 0, extent_attribute(ctx, columns))
}

fn packed_mlp(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    set_columns(ctx, 0, extent_attribute(ctx, "N"))?;
    ctx.set_like(1, 0);
    Ok(())
}

fn packed_qkv(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    set_columns(ctx, 0, extent_attribute(ctx, "Nq"))?;
    set_columns(ctx, 1, extent_attribute(ctx, "Nkv"))?;
    set_columns(ctx, 2, extent_attribute(ctx, "Nkv"))?;
    ctx.set_like(3, 0);
    Ok(())
}

fn weight_rows(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(1)?;
    let columns = dim_at(ctx, 1, 0);
    set_columns(ctx, 0, columns)
}

fn shape_operand(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let columns = ctx.dim_data(2).and_then(|dims| dims.last().cloned()).unwrap_or(Dim::Unknown);
    set_columns(ctx, 0, columns)
}

fn sparse(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let sparse = match &ctx.required(0)?.ty {
        ValueType::SparseTensor(ty) | ValueType::Tensor(ty) => ty.shape.clone(),
        _ => None,
    };
    ctx.required(1)?;
    let left = sparse.map(|dims| swapped(dims, ctx.int("transA", 0) != 0));
    let right = ctx.shape(1).map(|dims| swapped(dims, ctx.int("transB", 0) != 0));
    let dims = match (left, right) {
        (Some(left), Some(right)) => Some(matmul_dims(&left, &right)?),
        _ => None,
    };
    ctx.set_tensor(0, ctx.element(1), dims);
    Ok(())
}

fn distances(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    let a = ranked(ctx, 0, 2)?;
    let b = ranked(ctx, 1, 2)?;
    ctx.set_dims(0, ctx.element(0), vec![a[0].clone(), b[0].clone()]);
    Ok(())
}

/// Counts two operations for each element of the result and each step along the inner axis of operand 0.
fn product_flops(typed: &Typed<'_>) -> Option<u64> {
    let dims = swapped(typed.input_dims(0)?, typed.data().int("transA", 0) != 0);
    typed.output_elements()?.checked_mul(dims.last()?.checked_mul(2)?)
}

/// Counts the products of every token with both weight matrices of its `k` experts.
fn experts_flops(typed: &Typed<'_>) -> Option<u64> {
    let (first, second) = (typed.input_dims(2)?, typed.input_dims(4).or_else(|| typed.input_dims(5))?);
    let an_expert =
        |dims: &[u64]| dims.get(1..)?.iter().try_fold(2u64, |product, extent| product.checked_mul(*extent));
    let per_token = an_expert(&first)?.checked_add(an_expert(&second)?)?;
    let tokens = typed.output_elements()?.checked_div(*typed.output_dims(0)?.last()?)?;
    let active = u64::try_from(typed.data().int("k", 1)).ok()?;
    tokens.checked_mul(per_token)?.checked_mul(active)
}

const fn matrix(name: &'static str, infer: crate::info::InferFn) -> OpInfo {
    microsoft(name, infer).work(Work::Flops(product_flops)).split(SplitAxes::AllButLast)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    microsoft("CDist", distances).work(Work::Flops(product_flops)).split(SplitAxes::Batch),
    matrix("DynamicQuantizeMatMul", product)
        .rounds()
        .workspace(contrib_workspace::quantized_operand)
        .split(SplitAxes::None),
    matrix("FusedGemm", general).runs("MatMul").split(SplitAxes::None),
    matrix("FusedMatMul", fused).runs("MatMul").split(SplitAxes::Rule(rules::product)),
    matrix("FusedMatMulActivation", fused).split(SplitAxes::None),
    matrix("GemmFastGelu", product),
    matrix("GemmFloat8", eight_bit_float).split(SplitAxes::None),
    matrix("MatMulBlockQuantizedFp4Weight", weight_rows),
    matrix("MatMulBlockQuantizedFp8Weight", weight_rows),
    matrix("MatMulBnb4", packed_weight).split(SplitAxes::Rule(rules::packed_product)),
    matrix("MatMulFpQ4", shape_operand),
    matrix("MatMulInteger16", sixteen_bit),
    matrix("MatMulIntegerToFloat", to_float)
        .runs("MatMulInteger")
        .workspace(contrib_workspace::quantized_product),
    matrix("MatMulNBits", packed_weight)
        .rounds()
        .workspace(contrib_workspace::packed_product)
        .split(SplitAxes::Rule(rules::packed_product)),
    matrix("MatMulNBitsMlp", packed_mlp),
    matrix("MatMulNBitsQkv", packed_qkv),
    microsoft("MoE", like_first).work(Work::Flops(experts_flops)),
    matrix("QGemm", quantized_general)
        .rounds()
        .workspace(contrib_workspace::requantized_product)
        .split(SplitAxes::None),
    microsoft("QMoE", like_first).work(Work::Flops(experts_flops)),
    matrix("QOrderedMatMul", ordered).rounds().split(SplitAxes::None),
    matrix("SparseToDenseMatMul", sparse).split(SplitAxes::None),
    matrix("TransposeMatMul", fused).runs("MatMul").split(SplitAxes::Rule(rules::product)),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    fn case(name: &str) -> Case {
        Case::of("com.microsoft", name, 1)
    }

    #[test]
    fn fused_products_undo_their_transpositions() {
        let fused = |left: &str, right: &str| case("FusedMatMul").input(left).input(right);
        assert_eq!(fused("f32[8,128,30522]", "f32[768,30522]").int("transB", 1).show(), "f32[8,128,768]");
        assert_eq!(fused("f32[2,K,M]", "f32[2,K,N]").int("transA", 1).show(), "f32[2,M,N]");
        assert_eq!(fused("f32[16,2,8]", "f32[2,8,4]").int("transBatchA", 1).show(), "f32[2,16,4]");
        assert_eq!(
            fused("f32[16,2,8]", "f32[2,3,4,5]").int("transBatchB", 1).show(),
            "error: inner extents of the product: 8 and 2 do not agree"
        );
        assert_eq!(fused("f32[*]", "f32[2,3]").show(), "f32[*]");
    }

    #[test]
    fn general_products_are_matrices() {
        let gemm = case("FusedGemm").input("f32[K,M]").input("f32[N,K]").int("transA", 1).int("transB", 1);
        assert_eq!(gemm.show(), "f32[M,N]");
        assert!(
            case("FusedGemm")
                .input("f32[1,2,3]")
                .input("f32[3,4]")
                .show()
                .starts_with("error: operand 0: rank 3")
        );
        let float8 = case("GemmFloat8").input("f8e4m3fn[2,3]").input("f8e4m3fn[3,4]").int("dtype", 10).show();
        assert_eq!(float8, "f16[2,4]");
    }

    #[test]
    fn quantized_products_choose_the_element_of_the_result() {
        let scale = "f32[]";
        let qgemm = |zero: &str| {
            let operands = ["u8[2,3]", scale, "u8[]", "i8[3,4]", scale, "i8[]", "", scale, zero];
            operands.iter().fold(case("QGemm"), |case, operand| case.input(operand)).show()
        };
        assert_eq!(qgemm(""), "f32[2,4]");
        assert_eq!(qgemm("u8[]"), "u8[2,4]");
        let to_float =
            case("MatMulIntegerToFloat").input("u8[2,3]").input("u8[3,4]").input("f16[]").input("f16[]");
        assert_eq!(to_float.show(), "f16[2,4]");
        assert_eq!(case("MatMulInteger16").input("i16[2,3]").input("i16[3,4]").show(), "i32[2,4]");
    }

    #[test]
    fn packed_weights_state_their_columns() {
        let bits = case("MatMulNBits").input("f32[B,S,512]").input("u8[256,16,16]").input("f32[4096]");
        assert_eq!(bits.int("K", 512).int("N", 256).show(), "f32[B,S,256]");
        assert_eq!(case("MatMulNBits").input("f32[4]").input("u8[1,1,1]").int("N", -3).show(), "f32[?]");
        assert_eq!(
            case("MatMulFpQ4").input("f32[8,64]").input("u8[9]").ints_data(&[64, 32]).show(),
            "f32[8,32]"
        );
        let qkv =
            case("MatMulNBitsQkv").input("f16[1,8,64]").int("Nq", 64).int("Nkv", 16).outputs(4).show_all();
        assert_eq!(qkv, "f16[1,8,64]; f16[1,8,16]; f16[1,8,16]; f16[1,8,64]");
    }

    #[test]
    fn distances_are_pairwise() {
        assert_eq!(case("CDist").input("f64[M,8]").input("f64[K,8]").show(), "f64[M,K]");
    }
}
