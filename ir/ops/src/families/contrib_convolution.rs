//! Convolution, pooling and resampling of ONNX Runtime's own domain, with channels first or last.

use memc_ir::{Dim, ElementType};

use super::contrib_rules::{extent, like_first, microsoft, ranked, slide, unknown_dims};
use super::contrib_workspace;
use super::conv_workspace;
use super::convolution::window_elements;
use super::dims::{dim_at, product};
use crate::context::{Infer, InferError};
use crate::info::{InPlace, OpInfo, SplitAxes, Typed, Work};
use crate::pieces::{reach, rules};

/// The position of the channel axis of an image.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// `[N, C, spatial...]`.
    First,
    /// `[N, spatial..., C]`.
    Last,
}

impl Layout {
    /// Returns the spatial extents of an image.
    fn spatial(self, dims: &[Dim]) -> &[Dim] {
        let end = dims.len() - usize::from(self == Self::Last);
        dims.get(if self == Self::First { 2 } else { 1 }..end).unwrap_or_default()
    }
    /// Assembles the extents of an image from batch, channels and spatial extents.
    fn image(self, batch: &Dim, channels: Dim, spatial: Vec<Dim>) -> Vec<Dim> {
        let mut dims = vec![batch.clone()];
        match self {
            Self::First => {
                dims.push(channels);
                dims.extend(spatial);
            }
            Self::Last => {
                dims.extend(spatial);
                dims.push(channels);
            }
        }
        dims
    }
}

fn layout(ctx: &Infer<'_>) -> Layout {
    if ctx.int("channels_last", 0) == 0 { Layout::First } else { Layout::Last }
}

/// Returns the extents of operand `index`, which must be an image with at least one spatial axis.
fn image<'c>(ctx: &'c Infer<'_>, index: usize) -> Result<Option<&'c [Dim]>, InferError> {
    match ctx.dims(index) {
        Some(dims) if dims.len() < 3 => Err(InferError::BadOperand {
            operand: index,
            why: format!("rank {} is not the rank of an image", dims.len()),
        }),
        dims => Ok(dims),
    }
}

/// Infers a convolution of operand `data` with a weight `[M, C/group, kernel...]`.
fn set_convolution(
    ctx: &mut Infer<'_>,
    layout: Layout,
    element: ElementType,
    data: usize,
    weight: usize,
) -> Result<(), InferError> {
    ctx.required(data)?;
    ctx.required(weight)?;
    let Some(dims) = image(ctx, data)? else {
        ctx.set_tensor(0, element, None);
        return Ok(());
    };
    let kernel = ranked(ctx, weight, dims.len())?;
    let spatial = slide(ctx, layout.spatial(dims), &kernel[2..])?;
    let result = layout.image(&dims[0], kernel[0].clone(), spatial);
    ctx.set_dims(0, element, result);
    Ok(())
}

fn convolution(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    set_convolution(ctx, Layout::First, ctx.element(0), 0, 1)
}

fn convolution_channels_last(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    set_convolution(ctx, Layout::Last, ctx.element(0), 0, 1)
}

fn quantized_convolution(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    set_convolution(ctx, layout(ctx), ctx.element(7), 0, 3)
}

/// Infers a pooling of operand 0.
fn set_pool(ctx: &mut Infer<'_>, layout: Layout) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = ctx.element(0);
    let Some(dims) = image(ctx, 0)? else {
        ctx.set_tensor(0, element, None);
        return Ok(());
    };
    let spatial = slide(ctx, layout.spatial(dims), &unknown_dims(dims.len() - 2))?;
    let channels = if layout == Layout::First { &dims[1] } else { &dims[dims.len() - 1] };
    let result = layout.image(&dims[0], channels.clone(), spatial);
    ctx.set_dims(0, element, result);
    Ok(())
}

fn pool(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    set_pool(ctx, Layout::First)
}

fn pool_channels_last(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    set_pool(ctx, Layout::Last)
}

fn quantized_pool(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    set_pool(ctx, layout(ctx))
}

fn quantized_global_pool(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let layout = layout(ctx);
    let dims = image(ctx, 0)?.map(|dims| {
        let channels = if layout == Layout::First { &dims[1] } else { &dims[dims.len() - 1] };
        layout.image(&dims[0], channels.clone(), vec![Dim::Known(1); dims.len() - 2])
    });
    ctx.set_tensor(0, ctx.element(0), dims);
    Ok(())
}

/// Infers a transposed convolution with pads from operand 2:
/// `(input - 1) * stride + output_padding + (kernel - 1) * dilation + 1 - pads`.
fn transposed_dynamic(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    let element = ctx.element(0);
    let Some(dims) = image(ctx, 0)? else {
        ctx.set_tensor(0, element, None);
        return Ok(());
    };
    let rank = dims.len();
    let weight = ranked(ctx, 1, rank)?;
    let channels = weight[1].mul(&extent(ctx.int("group", 1)));
    let spatial =
        (0..rank - 2).map(|axis| grown(ctx, axis, rank - 2, &weight[axis + 2], &dims[axis + 2])).collect();
    let result = Layout::First.image(&dims[0], channels, spatial);
    ctx.set_dims(0, element, result);
    Ok(())
}

fn grown(ctx: &Infer<'_>, axis: usize, spatial: usize, kernel: &Dim, input: &Dim) -> Dim {
    let number = |name: &str, default: i64| {
        let listed = ctx.ints(name).map_or(Some(default), |values| values.get(axis).copied());
        listed.map_or(Dim::Unknown, extent)
    };
    let one = Dim::Known(1);
    let kernel = if ctx.ints("kernel_shape").is_some() { number("kernel_shape", 1) } else { kernel.clone() };
    let grown = input.sub(&one).mul(&number("strides", 1)).add(&number("output_padding", 0));
    let full = grown.add(&kernel.sub(&one).mul(&number("dilations", 1))).add(&one);
    let pad = |at: usize| match ctx.int_data(2) {
        None if !ctx.has(2) => Dim::Known(0),
        None => Dim::Unknown,
        Some(pads) => pads.get(at).map_or(Dim::Unknown, |pad| extent(*pad)),
    };
    full.sub(&pad(axis)).sub(&pad(axis + spatial))
}

/// Infers CropAndResize: `[regions, C, height, width]`; height and width are elements of operand 3.
fn crop_and_resize(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(3)?;
    let data = ranked(ctx, 0, 4)?;
    let regions = ranked(ctx, 1, 2)?[0].clone();
    let size = ctx.dim_data(3).filter(|dims| dims.len() == 2).unwrap_or_else(|| unknown_dims(2));
    ctx.set_dims(0, ctx.element(0), vec![regions, data[1].clone(), size[0].clone(), size[1].clone()]);
    Ok(())
}

/// Infers GridSample: `[N, C, H_out, W_out]`; the last two are extents of the grid.
fn grid_sample(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    let data = ranked(ctx, 0, 4)?;
    let grid = ranked(ctx, 1, 4)?;
    ctx.set_dims(0, ctx.element(0), vec![data[0].clone(), data[1].clone(), grid[1].clone(), grid[2].clone()]);
    Ok(())
}

/// Infers a causal convolution: the result is like operand 0, and the state has its last
/// `(kernel - 1) * dilation` positions.
fn causal(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    like_first(ctx)?;
    if ctx.has(3) {
        ctx.set_like(1, 3);
    } else if ctx.int("ndim", 1) == 1 && ctx.int("state_window", 0) == 0 && ctx.int("channels_last", 0) == 0 {
        let data = ranked(ctx, 0, 3)?;
        let state = carried(ctx)?;
        ctx.set_dims(1, ctx.element(0), vec![data[0].clone(), data[1].clone(), state]);
    } else {
        ctx.set_tensor(1, ctx.element(0), None);
    }
    Ok(())
}

/// Returns `(kernel - 1) * dilation` of a depthwise weight `[C, 1, kernel]`.
fn carried(ctx: &Infer<'_>) -> Result<Dim, InferError> {
    let kernel = &ranked(ctx, 1, 3)?[2];
    Ok(kernel.sub(&Dim::Known(1)).mul(&extent(ctx.int("dilation", 1))))
}

fn causal_packed(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    like_first(ctx)?;
    ctx.set_like(1, 4);
    let (batch, channels) = (dim_at(ctx, 4, 0), dim_at(ctx, 0, 1));
    let capacity = extent(ctx.int("state_update_capacity", 0));
    ctx.set_dims(2, ctx.element(0), vec![batch, capacity, channels]);
    Ok(())
}

/// Returns the operand position of the weight.
fn weight_of(typed: &Typed<'_>) -> usize {
    if &*typed.data().operator.name == "QLinearConv" { 3 } else { 1 }
}

/// Counts two operations for each element of the result and each weight of one output channel.
pub(crate) fn convolution_flops(typed: &Typed<'_>) -> Option<u64> {
    let weight = typed.input_dims(weight_of(typed))?;
    typed.output_elements()?.checked_mul(product(weight.get(1..)?)?)?.checked_mul(2)
}

/// Counts one operation for each element of the result and each element of the window.
pub(crate) fn pool_flops(typed: &Typed<'_>) -> Option<u64> {
    let kernel = typed.data().ints("kernel_shape")?;
    let taps =
        kernel.iter().try_fold(1u64, |product, extent| product.checked_mul(u64::try_from(*extent).ok()?))?;
    typed.output_elements()?.checked_mul(taps)
}

const fn conv(name: &'static str, infer: crate::info::InferFn) -> OpInfo {
    microsoft(name, infer).work(Work::Flops(convolution_flops)).split(SplitAxes::Batch)
}

const fn pooling(name: &'static str, infer: crate::info::InferFn) -> OpInfo {
    microsoft(name, infer).work(Work::Flops(pool_flops)).split(SplitAxes::Batch)
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    conv("CausalConvWithState", causal).split(SplitAxes::None),
    conv("ConvTransposeWithDynamicPads", transposed_dynamic).workspace(conv_workspace::transposed),
    microsoft("CropAndResize", crop_and_resize).work(Work::PerElement(8)),
    conv("FusedConv", convolution)
        .runs("Conv")
        .in_place(InPlace::Operands(&[3]))
        .gathers(|node| window_elements(node, 1))
        .workspace(conv_workspace::conv)
        .split(SplitAxes::Rule(rules::convolution))
        .reaches(reach::slides),
    microsoft("GridSample", grid_sample).work(Work::PerElement(10)).split(SplitAxes::Batch),
    pooling("MaxpoolWithMask", pool).split(SplitAxes::None),
    conv("NhwcConv", convolution_channels_last),
    conv("NhwcFusedConv", convolution_channels_last),
    pooling("NhwcMaxPool", pool_channels_last).workspace(contrib_workspace::window_pointers),
    pooling("QLinearAveragePool", quantized_pool).rounds().workspace(contrib_workspace::float_copy),
    conv("QLinearConv", quantized_convolution).rounds().workspace(contrib_workspace::quantized_convolution),
    microsoft("QLinearGlobalAveragePool", quantized_global_pool)
        .rounds()
        .work(Work::PerInputElement(1))
        .split(SplitAxes::Batch),
    conv("VarlenCausalConvWithState", causal_packed).split(SplitAxes::None),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    fn case(name: &str) -> Case {
        Case::of("com.microsoft", name, 1)
    }

    #[test]
    fn convolutions_slide_over_either_layout() {
        let conv = case("FusedConv").input("f32[N,3,224,224]").input("f32[64,3,7,7]").input("f32[64]");
        assert_eq!(conv.ints("strides", &[2, 2]).ints("pads", &[3, 3, 3, 3]).show(), "f32[N,64,112,112]");
        let last = case("NhwcConv").input("f16[1,8,9,4]").input("f16[16,4,3,3]");
        assert_eq!(last.show(), "f16[1,6,7,16]");
        let operands = ["u8[1,3,8,8]", "f32[]", "u8[]", "i8[4,3,3,3]", "f32[4]", "i8[4]", "f32[]", "i8[]"];
        let quantized = || operands.iter().fold(case("QLinearConv"), |case, operand| case.input(operand));
        assert_eq!(quantized().string("auto_pad", "SAME_UPPER").show(), "i8[1,4,8,8]");
        assert!(quantized().ints("strides", &[0, 1]).show().starts_with("error: attribute `strides`"));
        assert!(
            case("FusedConv")
                .input("f32[3,4]")
                .input("f32[1,1]")
                .show()
                .starts_with("error: operand 0: rank 2")
        );
    }

    #[test]
    fn pools_keep_batch_and_channels() {
        let pool =
            case("NhwcMaxPool").input("u8[2,8,8,16]").ints("kernel_shape", &[2, 2]).ints("strides", &[2, 2]);
        assert_eq!(pool.show(), "u8[2,4,4,16]");
        let global = case("QLinearGlobalAveragePool").input("u8[2,7,7,16]");
        assert_eq!(global.int("channels_last", 1).show(), "u8[2,1,1,16]");
        assert_eq!(case("QLinearAveragePool").input("u8[2,16,7,7]").show(), "u8[2,16,?,?]");
    }

    #[test]
    fn transposed_convolution_takes_pads_from_an_operand() {
        let conv = || case("ConvTransposeWithDynamicPads").input("f32[1,8,5,5]").input("f32[8,4,3,3]");
        let strided = || conv().ints("strides", &[2, 2]);
        assert_eq!(strided().ints_data(&[1, 1, 1, 1]).show(), "f32[1,4,9,9]");
        assert_eq!(strided().show(), "f32[1,4,11,11]");
        assert_eq!(strided().input("i64[4]").show(), "f32[1,4,?<=11,?<=11]");
        assert_eq!(conv().int("group", -1).ints("strides", &[i64::MAX]).show(), "f32[1,?,?,?]");
    }

    #[test]
    fn resampling_takes_its_extents_from_the_stating_operand() {
        let crop = case("CropAndResize")
            .input("f32[1,3,64,64]")
            .input("f32[R,4]")
            .input("i32[R]")
            .data("i32[2]", "7,9");
        assert_eq!(crop.show(), "f32[R,3,7,9]");
        assert_eq!(case("GridSample").input("f32[2,3,8,8]").input("f32[2,4,5,2]").show(), "f32[2,3,4,5]");
        let causal =
            case("CausalConvWithState").input("f32[B,16,S]").input("f32[16,1,4]").outputs(2).show_all();
        assert_eq!(causal, "f32[B,16,S]; f32[B,16,3]");
    }
}
