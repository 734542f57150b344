//! Matrix products and determinants.

use memc_ir::{Dim, ElementType, Shape};

use crate::algebra::Algebra;
use crate::context::{Infer, InferError, broadcast};
use crate::families::dims::{agree, dim_at, require_rank};
use crate::info::{InPlace, OpInfo, SplitAxes, Typed, Work};
use crate::pieces::rules;

/// Returns the shape of a product per NumPy's `matmul`: vectors are promoted, leading axes broadcast.
pub(crate) fn matmul_dims(left: &[Dim], right: &[Dim]) -> Result<Vec<Dim>, InferError> {
    let scalar = |operand| InferError::BadOperand {
        operand,
        why: "a scalar has no axis to multiply along".to_owned(),
    };
    let (inner_left, outer_left) = left.split_last().ok_or_else(|| scalar(0))?;
    let row = outer_left.split_last();
    let (batch_right, inner_right, column) = match right {
        [] => return Err(scalar(1)),
        [inner] => (&[][..], inner, None),
        [batch @ .., inner, column] => (batch, inner, Some(column)),
    };
    agree("inner extents of the product", inner_left, inner_right)?;
    let mut dims = broadcast(row.map_or(&[][..], |(_, batch)| batch), batch_right)?;
    dims.extend(row.map(|(row, _)| row.clone()));
    dims.extend(column.cloned());
    Ok(dims)
}

fn product(ctx: &mut Infer<'_>, right: usize, element: ElementType) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(right)?;
    let shape: Shape = match (ctx.dims(0), ctx.dims(right)) {
        (Some(left), Some(right)) => Some(matmul_dims(left, right)?),
        _ => None,
    };
    ctx.set_tensor(0, element, shape);
    Ok(())
}

fn matmul(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    product(ctx, 1, ctx.element(0))
}

fn matmul_integer(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    product(ctx, 1, ElementType::Int32)
}

/// Infers QLinearMatMul. Operands: a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale,
/// y_zero_point.
fn qlinear_matmul(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    product(ctx, 3, ctx.element(7))
}

fn gemm(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    require_rank(ctx, 0, 2)?;
    require_rank(ctx, 1, 2)?;
    let (trans_a, trans_b) = (usize::from(ctx.int("transA", 0) != 0), usize::from(ctx.int("transB", 0) != 0));
    let (rows, inner_a) = (dim_at(ctx, 0, trans_a), dim_at(ctx, 0, 1 - trans_a));
    let (inner_b, columns) = (dim_at(ctx, 1, trans_b), dim_at(ctx, 1, 1 - trans_b));
    agree("inner extents of the product", &inner_a, &inner_b)?;
    let dims = vec![rows, columns];
    if let Some(addend) = ctx.dims(2) {
        let sum = broadcast(&dims, addend)?;
        // C broadcasts to the product; the product never broadcasts to C.
        if sum.len() > 2
            || dims
                .iter()
                .zip(&sum)
                .any(|(product, sum)| *product == Dim::Known(1) && sum.known().is_some_and(|n| n != 1))
        {
            return Err(InferError::BadOperand {
                operand: 2,
                why: "does not broadcast to the product".to_owned(),
            });
        }
    }
    ctx.set_dims(0, ctx.element(0), dims);
    Ok(())
}

fn det(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let shape = match ctx.dims(0) {
        Some([batch @ .., rows, columns]) => {
            agree("rows and columns", rows, columns)?;
            Some(batch.to_vec())
        }
        Some(_) => return Err(InferError::BadOperand { operand: 0, why: "a matrix has rank 2".to_owned() }),
        None => None,
    };
    ctx.set_tensor(0, ctx.element(0), shape);
    Ok(())
}

/// Counts a multiplication and an addition for each result element and inner position.
fn matmul_flops(node: &Typed<'_>) -> Option<u64> {
    node.output_elements()?.checked_mul(*node.input_dims(0)?.last()?)?.checked_mul(2)
}

fn gemm_flops(node: &Typed<'_>) -> Option<u64> {
    let inner = *node.input_dims(0)?.get(usize::from(node.data().int("transA", 0) == 0))?;
    node.output_elements()?.checked_mul(inner)?.checked_mul(2)
}

/// Counts the elimination: two thirds of the cube of the side for each matrix.
fn det_flops(node: &Typed<'_>) -> Option<u64> {
    let elements = node.input(0)?.elements()?;
    Some(elements.checked_mul(*node.input_dims(0)?.last()?)?.checked_mul(2)? / 3)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    OpInfo::onnx("Det", det).algebra(Algebra::NONE).work(Work::Flops(det_flops)).split(SplitAxes::All),
    // The kernel accumulates onto C if the result has C's buffer.
    OpInfo::onnx("Gemm", gemm)
        .runs("MatMul")
        .in_place(InPlace::Operands(&[2]))
        .work(Work::Flops(gemm_flops))
        .split(SplitAxes::Rule(rules::general_product)),
    OpInfo::onnx("MatMul", matmul).work(Work::Flops(matmul_flops)).split(SplitAxes::Rule(rules::product)),
    OpInfo::onnx("MatMulInteger", matmul_integer).work(Work::Flops(matmul_flops)),
    OpInfo::onnx("QLinearMatMul", qlinear_matmul).rounds().work(Work::Flops(matmul_flops)),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    #[test]
    fn products_promote_vectors_and_broadcast_batches() {
        let cases = [
            ("f32[2,3]", "f32[3,4]", "f32[2,4]"),
            ("f32[3]", "f32[3]", "f32[]"),
            ("f32[3]", "f32[5,3,4]", "f32[5,4]"),
            ("f32[5,2,3]", "f32[3]", "f32[5,2]"),
            ("f32[B,1,S,64]", "f32[12,64,S]", "f32[B,12,S,S]"),
            ("f32[*]", "f32[3,4]", "f32[*]"),
            ("f32[M,?]", "f32[K,N]", "f32[M,N]"),
        ];
        for (left, right, result) in cases {
            assert_eq!(Case::new("MatMul", 13).input(left).input(right).show(), result, "{left} {right}");
        }
        assert!(
            Case::new("MatMul", 13).input("f32[2,3]").input("f32[4,2]").show().starts_with("error: inner")
        );
        assert!(
            Case::new("MatMul", 13).input("f32[]").input("f32[4,2]").show().starts_with("error: operand 0")
        );
        assert_eq!(Case::new("MatMulInteger", 10).input("u8[2,3]").input("i8[3,4]").show(), "i32[2,4]");
    }

    #[test]
    fn gemm_transposes_and_takes_an_addend() {
        let gemm = |a, b, c| Case::new("Gemm", 13).input(a).input(b).input(c);
        assert_eq!(gemm("f32[N,3]", "f32[3,4]", "f32[4]").show(), "f32[N,4]");
        assert_eq!(gemm("f32[3,N]", "f32[4,3]", "").int("transA", 1).int("transB", 1).show(), "f32[N,4]");
        assert!(gemm("f32[2,3]", "f32[3,4]", "f32[3]").show().starts_with("error: broadcast"));
        assert!(gemm("f32[1,3]", "f32[3,4]", "f32[5,4]").show().starts_with("error: operand 2"));
        assert_eq!(gemm("f32[2,3]", "f32[3,4]", "").costs().0, Some(48));
        assert_eq!(gemm("f32[3,2]", "f32[3,4]", "").int("transA", 1).costs().0, Some(48));
        assert_eq!(Case::new("MatMul", 13).input("f32[5,2,3]").input("f32[3,4]").costs().0, Some(240));
    }

    #[test]
    fn determinants_drop_the_matrix() {
        assert_eq!(Case::new("Det", 22).input("f32[N,3,3]").show(), "f32[N]");
        assert!(Case::new("Det", 22).input("f32[3,4]").show().starts_with("error: rows"));
    }
}
