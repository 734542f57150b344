//! Loss functions.

use memc_ir::Shape;

use crate::context::{Infer, InferError};
use crate::families::dims::{agree, dim_at};
use crate::info::{OpInfo, SplitAxes, Work};
use crate::pieces::rules;

/// Returns the shape of the loss: that of the labels, or a scalar if the loss is reduced.
fn loss_shape(ctx: &Infer<'_>) -> Result<Shape, InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    if let (Some(scores), Some(labels)) = (ctx.rank(0), ctx.rank(1)) {
        if scores < 2 || labels + 1 != scores {
            let why = format!("rank {labels} for scores of rank {scores}");
            return Err(InferError::BadOperand { operand: 1, why });
        }
        for axis in 0..labels {
            // Scores have the classes as axis 1; labels lack this axis.
            let of_scores = dim_at(ctx, 0, if axis == 0 { 0 } else { axis + 1 });
            agree("scores and labels", &of_scores, &dim_at(ctx, 1, axis))?;
        }
    }
    agree("classes and weights", &dim_at(ctx, 0, 1), &dim_at(ctx, 2, 0))?;
    if ctx.string("reduction").unwrap_or("mean") != "none" {
        return Ok(Some(Vec::new()));
    }
    let from_scores = || {
        let mut dims = ctx.shape(0)?;
        (dims.len() >= 2).then(|| dims.remove(1))?;
        Some(dims)
    };
    Ok(ctx.shape(1).or_else(from_scores))
}

fn negative_log_likelihood(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let shape = loss_shape(ctx)?;
    ctx.set_tensor(0, ctx.element(0), shape);
    Ok(())
}

/// Infers SoftmaxCrossEntropyLoss. Result 1, the logarithms of the probabilities, has the shape of the
/// scores.
fn softmax_cross_entropy(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    negative_log_likelihood(ctx)?;
    ctx.set_like(1, 0);
    Ok(())
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    OpInfo::onnx("NegativeLogLikelihoodLoss", negative_log_likelihood).work(Work::PerInputElement(2)),
    OpInfo::onnx("SoftmaxCrossEntropyLoss", softmax_cross_entropy)
        .work(Work::PerInputElement(26))
        .split(SplitAxes::Rule(rules::cross_entropy)),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    #[test]
    fn reduction_decides_the_shape() {
        let loss = |scores: &str, labels: &str| {
            Case::new("NegativeLogLikelihoodLoss", 13).input(scores).input(labels)
        };
        assert_eq!(loss("f32[N,5,7]", "i64[N,7]").show(), "f32[]");
        assert_eq!(loss("f32[N,5,7]", "i64[*]").string("reduction", "none").show(), "f32[N,7]");
        assert!(loss("f32[N,5,7]", "i64[N,5]").show().starts_with("error: scores"));
        assert!(loss("f32[N,5,7]", "i64[N]").show().starts_with("error: operand 1"));
        let entropy = Case::new("SoftmaxCrossEntropyLoss", 13)
            .input("f32[N,5]")
            .input("i64[N]")
            .input("f32[5]")
            .outputs(2);
        assert_eq!(entropy.string("reduction", "sum").show_all(), "f32[]; f32[N,5]");
    }
}
