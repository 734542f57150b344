//! Normalization over batches, channels, groups and axes; Dropout.

use memc_ir::{Dim, ElementType};

use crate::algebra::Algebra;
use crate::context::{Infer, InferError};
use crate::families::activation::same_as_first;
use crate::families::dims::{agree, dim_at};
use crate::info::{InPlace, OpInfo, Repeat, SplitAxes, Typed, Work};
use crate::pieces::rules;
use crate::size::{Counted, Size};

/// Infers BatchNormalization. Results after the first are statistics: mean and variance, before version
/// 14 also those saved for the gradient.
fn batch_normalization(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let channels = match ctx.rank(0) {
        Some(0) => {
            return Err(InferError::BadOperand { operand: 0, why: "a scalar has no channels".to_owned() });
        }
        Some(1) => Dim::Known(1),
        _ => dim_at(ctx, 0, 1),
    };
    // Before version 9 there may be statistics for every position, not only for every channel.
    let per_channel = ctx.version() >= 9 || ctx.int("spatial", 1) != 0;
    let mut statistics = vec![channels];
    if per_channel {
        for operand in 1..5 {
            if ctx.rank(operand) == Some(1) {
                statistics[0] = agree("channels and statistics", &statistics[0], &dim_at(ctx, operand, 0))?;
            }
        }
    }
    ctx.set_like(0, 0);
    for result in 1..ctx.output_count() {
        // Mean is operand 3 and variance is operand 4, for both running and saved statistics.
        let operand = if result % 2 == 1 { 3 } else { 4 };
        let shape = if per_channel { Some(statistics.clone()) } else { ctx.shape(operand) };
        ctx.set_tensor(result, ctx.element(operand), shape);
    }
    Ok(())
}

fn axis_below_rank(ctx: &Infer<'_>, default: i64) -> Result<Option<usize>, InferError> {
    ctx.rank(0).map(|rank| ctx.axis("axis", ctx.int("axis", default), rank)).transpose()
}

/// Infers LayerNormalization. Results: normalized data, then mean and inverse deviation, with the
/// normalized axes reduced to 1.
fn layer_normalization(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let axis = axis_below_rank(ctx, -1)?;
    let reduced = ctx.shape(0).zip(axis).map(|(dims, axis)| {
        dims.into_iter()
            .enumerate()
            .map(|(at, extent)| if at < axis { extent } else { Dim::Known(1) })
            .collect::<Vec<_>>()
    });
    let stash =
        i32::try_from(ctx.int("stash_type", 1)).map_or(ElementType::Undefined, ElementType::from_onnx);
    ctx.set_like(0, 0);
    ctx.set_tensor(1, stash, reduced.clone());
    ctx.set_tensor(2, stash, reduced);
    Ok(())
}

/// Infers RMSNormalization: the result has the element type of the scale.
fn rms_normalization(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    axis_below_rank(ctx, -1)?;
    let element = if ctx.tensor(1).is_some() { ctx.element(1) } else { ctx.element(0) };
    ctx.set_tensor(0, element, ctx.shape(0));
    Ok(())
}

fn lp_normalization(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    axis_below_rank(ctx, -1)?;
    same_as_first(ctx)
}

fn per_channel(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    if ctx.rank(0).is_some_and(|rank| rank < 2) {
        return Err(InferError::BadOperand { operand: 0, why: "rank below 2: no channels".to_owned() });
    }
    ctx.set_like(0, 0);
    Ok(())
}

/// Infers Dropout. Result 1, the mask, is boolean from version 10 on; before, it has the type of the
/// data.
fn dropout(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = if ctx.version() >= 10 { ElementType::Bool } else { ctx.element(0) };
    ctx.set_like(0, 0);
    ctx.set_tensor(1, element, ctx.shape(0));
    Ok(())
}

/// Returns the workspace of LRN: ONNX Runtime's kernel keeps the scales of all images, and the squares
/// of one image with channels padded on both sides (its `core/providers/cpu/nn/lrn.cc`).
fn lrn_workspace(node: &Counted<'_>) -> Option<Size> {
    let data = node.input(0);
    let size = u64::try_from(node.data().int("size", 1)).ok()?.checked_sub(1)?;
    let image = (node.extent(data, 1) + size) * node.product_from(data, 2);
    Some((node.elements(data) + image) * Size::width_in_full(data))
}

/// Counts a running sum over the squares of neighboring channels (one addition, one subtraction), and a
/// power.
fn lrn_flops(node: &Typed<'_>) -> Option<u64> {
    node.output_elements()?.checked_mul(28)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    OpInfo::onnx("BatchNormalization", batch_normalization)
        .in_place(InPlace::UnlessTraining)
        .work(Work::PerElement(4))
        .split(SplitAxes::Rule(rules::batch_normalized)),
    OpInfo::onnx("Dropout", dropout)
        .algebra(Algebra::KEEPS_ZERO)
        .in_place(InPlace::UnlessTraining)
        .work(Work::PerElement(2))
        .split(SplitAxes::All)
        .repeat(Repeat::UnlessTraining)
        .optional(&[1]),
    OpInfo::onnx("GroupNormalization", per_channel).work(Work::PerElement(8)).split(SplitAxes::Batch),
    OpInfo::onnx("InstanceNormalization", per_channel)
        .work(Work::PerElement(8))
        .split(SplitAxes::Rule(rules::instance_normalized)),
    OpInfo::onnx("LRN", per_channel)
        .work(Work::Flops(lrn_flops))
        .workspace(lrn_workspace)
        .split(SplitAxes::Rule(rules::across_channels)),
    OpInfo::onnx("LayerNormalization", layer_normalization)
        .work(Work::PerElement(24))
        .optional(&[1, 2])
        .split(SplitAxes::Rule(rules::layer_normalized)),
    OpInfo::onnx("LpNormalization", lp_normalization).work(Work::PerElement(4)).split(SplitAxes::AllButAxis),
    OpInfo::onnx("MeanVarianceNormalization", same_as_first).work(Work::PerElement(8)),
    OpInfo::onnx("RMSNormalization", rms_normalization).work(Work::PerElement(6)),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::families::testing::Case;
    use crate::info::{InPlace, Repeat};
    use crate::table::find;
    use memc_ir::Bytes;

    fn batch_norm(version: i64, statistics: &str) -> Case {
        let case = Case::new("BatchNormalization", version)
            .input("f32[N,3,H,W]")
            .input(statistics)
            .input(statistics);
        case.input(&statistics.replace("f32", "f64")).input(&statistics.replace("f32", "f64"))
    }

    #[test]
    fn statistics_follow_the_version() {
        assert_eq!(batch_norm(9, "f32[3]").show_all(), "f32[N,3,H,W]");
        assert_eq!(
            batch_norm(9, "f32[?]").outputs(5).show_all(),
            "f32[N,3,H,W]; f64[3]; f64[3]; f64[3]; f64[3]"
        );
        assert_eq!(
            batch_norm(15, "f32[3]").int("training_mode", 1).outputs(3).show_all(),
            "f32[N,3,H,W]; f64[3]; f64[3]"
        );
        assert_eq!(
            batch_norm(7, "f32[3,4,4]").int("spatial", 0).outputs(2).show_all(),
            "f32[N,3,H,W]; f64[3,4,4]"
        );
        assert!(batch_norm(15, "f32[4]").show().starts_with("error: channels"));
    }

    #[test]
    fn layer_norm_reduces_from_the_axis_on() {
        let layer = |axis| {
            Case::new("LayerNormalization", 17)
                .input("f16[N,3,4]")
                .input("f16[4]")
                .int("axis", axis)
                .outputs(3)
        };
        assert_eq!(layer(-1).show_all(), "f16[N,3,4]; f32[N,3,1]; f32[N,3,1]");
        assert_eq!(layer(1).int("stash_type", 11).show_all(), "f16[N,3,4]; f64[N,1,1]; f64[N,1,1]");
        assert!(layer(3).show().starts_with("error: attribute `axis`"));
        assert_eq!(Case::new("RMSNormalization", 23).input("f32[2,3]").input("f16[3]").show(), "f16[2,3]");
    }

    #[test]
    fn dropout_masks_are_boolean_since_version_10() {
        let dropout = |version| Case::new("Dropout", version).input("f32[2,N]").outputs(2).show_all();
        assert_eq!(dropout(7), "f32[2,N]; f32[2,N]");
        assert_eq!(dropout(13), "f32[2,N]; bool[2,N]");
        let info = find("", "Dropout").unwrap();
        assert_eq!((info.in_place, info.repeat), (InPlace::UnlessTraining, Repeat::UnlessTraining));
        let info = find("", "BatchNormalization").unwrap();
        assert_eq!((info.in_place, info.repeat), (InPlace::UnlessTraining, Repeat::Yes));
    }

    #[test]
    fn local_response_normalization_needs_twice_its_operand() {
        // The first LRN of zfnet512, measured as buffers of 4 562 304 and 4 752 400 bytes.
        let lrn = Case::new("LRN", 13).input("f32[1,96,109,109]").int("size", 5);
        assert_eq!(lrn.costs().1, Some(Bytes(4_562_304 + 4_752_400)));
        assert!(Case::new("LRN", 13).input("f32[4]").int("size", 5).show().starts_with("error"));
    }
}
