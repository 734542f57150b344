//! Selection of boxes (NonMaxSuppression).

use memc_ir::{Dim, ElementType};

use crate::context::{Infer, InferError};
use crate::families::dims::{agree, dim_at, least_of, require_rank};
use crate::info::{OpInfo, Typed, Work};

/// Infers NonMaxSuppression. Operands: boxes `[N, B, 4]`, scores `[N, C, B]`, limits. Result: one triple
/// per surviving box.
fn non_max_suppression(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    require_rank(ctx, 0, 3)?;
    require_rank(ctx, 1, 3)?;
    let batches = agree("batches of boxes and scores", &dim_at(ctx, 0, 0), &dim_at(ctx, 1, 0))?;
    let boxes = agree("boxes and scores", &dim_at(ctx, 0, 1), &dim_at(ctx, 1, 2))?;
    agree("coordinates of a box", &Dim::Known(4), &dim_at(ctx, 0, 2))?;
    // The limit `max_output_boxes_per_class` is only an upper bound, unless it is 0, its default.
    let limit = if ctx.has(2) { ctx.int_scalar(2) } else { Some(0) };
    let limit_of_a_class = limit.and_then(|limit| u64::try_from(limit).ok()).map_or(Dim::Unknown, Dim::Known);
    let most = least_of(&[&limit_of_a_class, &boxes]).mul(&batches).mul(&dim_at(ctx, 1, 1));
    let survivors = if limit == Some(0) { Dim::Known(0) } else { most.open() };
    ctx.set_dims(0, ElementType::Int64, vec![survivors, Dim::Known(3)]);
    Ok(())
}

/// Counts the sorting of scores, and about 16 operations for each overlap with one of a few survivors.
fn flops(node: &Typed<'_>) -> Option<u64> {
    node.input(1)?.elements()?.checked_mul(128)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] =
    &[OpInfo::onnx("NonMaxSuppression", non_max_suppression).work(Work::Flops(flops))];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    #[test]
    fn the_number_of_survivors_is_unknown_unless_none_may_survive() {
        let nms = |boxes: &str| Case::new("NonMaxSuppression", 11).input(boxes).input("f32[1,80,B]");
        assert_eq!(nms("f32[1,B,4]").data("i64[1]", "20").show(), "i64[?<=1600,3]");
        assert_eq!(nms("f32[1,B,4]").input("i64[1]").show(), "i64[?<=80*B,3]");
        let known = |limit: &str| {
            Case::new("NonMaxSuppression", 11).input("f32[2,50,4]").input("f32[2,8,50]").data("i64[1]", limit)
        };
        assert_eq!(
            [known("20").show(), known("90").show(), known("?").show()],
            ["i64[?<=320,3]", "i64[?<=800,3]", "i64[?<=800,3]"]
        );
        assert_eq!(nms("f32[1,B,4]").show(), "i64[0,3]");
        assert!(nms("f32[2,B,4]").show().starts_with("error: batches"));
        assert!(nms("f32[1,B,5]").show().starts_with("error: coordinates"));
    }
}
