//! ONNX Runtime's blocked channel layout (domain `com.microsoft.nchwc`): channels are rounded up to a
//! machine-dependent block width.

use memc_ir::{Dim, ElementType};

use super::contrib_convolution::{convolution_flops, pool_flops};
use super::contrib_rules::{extent, extent_attribute, ranked, slide, unknown_dims};
use crate::context::{Infer, InferError};
use crate::info::{InferFn, OpInfo, SplitAxes, Work};

const NCHWC: &str = "com.microsoft.nchwc";

/// Returns the extents of operand 0, which must be a four-dimensional image.
fn image(ctx: &Infer<'_>) -> Result<Vec<Dim>, InferError> {
    ctx.required(0)?;
    ranked(ctx, 0, 4)
}

fn set_image(ctx: &mut Infer<'_>, dims: Vec<Dim>) {
    ctx.set_dims(0, ElementType::Float, dims);
}

fn convolution(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let data = image(ctx)?;
    ctx.required(1)?;
    let weight = ranked(ctx, 1, 4)?;
    let spatial = slide(ctx, &data[2..], &weight[2..])?;
    set_image(ctx, vec![data[0].clone(), weight[0].clone(), spatial[0].clone(), spatial[1].clone()]);
    Ok(())
}

fn pool(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let data = image(ctx)?;
    let spatial = slide(ctx, &data[2..], &unknown_dims(2))?;
    set_image(ctx, vec![data[0].clone(), data[1].clone(), spatial[0].clone(), spatial[1].clone()]);
    Ok(())
}

fn global_pool(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let data = image(ctx)?;
    set_image(ctx, vec![data[0].clone(), data[1].clone(), Dim::Known(1), Dim::Known(1)]);
    Ok(())
}

/// Possible block widths, in channels; the machine determines which applies.
const BLOCKS: [u64; 2] = [8, 16];

/// Rounds channels up to whole blocks; unknown unless all block widths give an equal number.
fn rounded(channels: &Dim) -> Dim {
    let [narrow, wide] = BLOCKS.map(|block| channels.known()?.checked_next_multiple_of(block));
    narrow.filter(|_| narrow == wide).map_or(Dim::Unknown, Dim::Known)
}

fn into_blocks(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let data = image(ctx)?;
    let [batch, a, b, c] = data.as_slice() else { return Ok(()) };
    let last = ctx.int("channels_last", 0) != 0;
    let (channels, height, width) = if last { (c, a, b) } else { (a, b, c) };
    set_image(ctx, vec![batch.clone(), rounded(channels), height.clone(), width.clone()]);
    Ok(())
}

fn out_of_blocks(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let data = image(ctx)?;
    let channels = extent_attribute(ctx, "channels");
    let dims = if ctx.int("channels_last", 0) == 0 {
        vec![data[0].clone(), channels, data[2].clone(), data[3].clone()]
    } else {
        vec![data[0].clone(), data[2].clone(), data[3].clone(), channels]
    };
    set_image(ctx, dims);
    Ok(())
}

fn upsample(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    let mut data = image(ctx)?;
    if let Some(scales) = ctx.ints("scales") {
        for (dim, scale) in data.iter_mut().zip(scales) {
            *dim = dim.mul(&extent(*scale));
        }
    }
    set_image(ctx, data);
    Ok(())
}

/// Rate of convolutions in blocks, in percent of the rate of the plain kernels. Measured on AVX-512 with
/// one thread: models in blocks took 0.49 (MobileNet v2), 0.47 (EfficientNet-B0), 0.79 and 0.77
/// (ResNet-50, 1 image and 32 images) of the time of plain models. At equal rates, the time model
/// predicted 0.74, 0.80, 0.98 and 0.98.
const RATE: u32 = 140;

const fn blocked(name: &'static str, infer: InferFn) -> OpInfo {
    OpInfo::of(NCHWC, name, infer).split(SplitAxes::Batch)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    blocked("AveragePool", pool).work(Work::Flops(pool_flops)),
    blocked("Conv", convolution).work(Work::Flops(convolution_flops)).rate(RATE),
    blocked("GlobalAveragePool", global_pool).work(Work::PerInputElement(1)),
    blocked("GlobalMaxPool", global_pool).work(Work::PerInputElement(1)),
    blocked("MaxPool", pool).work(Work::Flops(pool_flops)),
    blocked("ReorderInput", into_blocks).work(Work::None),
    blocked("ReorderOutput", out_of_blocks).work(Work::None),
    blocked("Upsample", upsample).work(Work::PerElement(4)),
];

#[cfg(test)]
mod tests {
    use super::NCHWC;
    use crate::families::testing::Case;

    fn case(name: &str) -> Case {
        Case::of(NCHWC, name, 1)
    }

    #[test]
    fn blocked_images_keep_four_axes() {
        let conv = case("Conv").input("f32[1,3,224,224]").input("f32[64,3,7,7]").ints("strides", &[2, 2]);
        assert_eq!(conv.ints("pads", &[3, 3, 3, 3]).show(), "f32[1,64,112,112]");
        let pool =
            case("MaxPool").input("f32[1,64,112,112]").ints("kernel_shape", &[3, 3]).ints("strides", &[2, 2]);
        assert_eq!(pool.ints("pads", &[1, 1, 1, 1]).show(), "f32[1,64,56,56]");
        assert_eq!(case("GlobalAveragePool").input("f32[1,64,7,7]").show(), "f32[1,64,1,1]");
        assert_eq!(
            case("Upsample").input("f32[1,16,7,7]").ints("scales", &[1, 1, 2, 2]).show(),
            "f32[1,16,14,14]"
        );
        assert_eq!(
            case("Upsample").input("f32[1,16,7,7]").ints("scales", &[1, 1, -2, i64::MAX]).show(),
            "f32[1,16,?,?]"
        );
    }

    #[test]
    fn reordered_channels_are_known_if_all_block_sizes_round_alike() {
        assert_eq!(case("ReorderInput").input("f32[1,64,7,7]").show(), "f32[1,64,7,7]");
        assert_eq!(
            case("ReorderInput").input("f32[1,7,7,32]").int("channels_last", 1).show(),
            "f32[1,32,7,7]"
        );
        assert_eq!(case("ReorderInput").input("f32[1,58,7,7]").show(), "f32[1,64,7,7]");
        assert_eq!(case("ReorderInput").input("f32[1,24,7,7]").show(), "f32[1,?,7,7]");
        assert_eq!(case("ReorderOutput").input("f32[1,64,7,7]").int("channels", 60).show(), "f32[1,60,7,7]");
        let last = case("ReorderOutput").input("f32[1,64,7,8]").int("channels", 60).int("channels_last", 1);
        assert_eq!(last.show(), "f32[1,7,8,60]");
    }
}
