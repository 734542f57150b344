//! Gradient operators of ONNX Runtime's training: each result has the type and shape of the operand it
//! is the gradient of, or a shape that an operand states.

use memc_ir::{Dim, ElementType};

use super::contrib_rules::{like_first, like_second, microsoft, set_shaped_like, unknown_dims};
use super::contrib_workspace;
use super::dims::{agree, dim_at, product};
use crate::algebra::Algebra;
use crate::context::{Infer, InferError};
use crate::fact::Data;
use crate::info::{InPlace, InferFn, OpInfo, SplitAxes, Typed, Work};
use crate::pieces::rules;
use crate::size::{Counted, Size};

/// States that result `i` is the gradient of operand `of[i]`.
fn gradients_of(ctx: &mut Infer<'_>, of: &[usize]) -> Result<(), InferError> {
    for (result, operand) in of.iter().enumerate() {
        ctx.required(*operand)?;
        ctx.set_like(result, *operand);
    }
    Ok(())
}

fn of_data_and_weight(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    gradients_of(ctx, &[1, 2])
}

fn of_data_and_scale(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    gradients_of(ctx, &[1, 2, 2])
}

/// Infers the gradients of data, weight and bias of a convolution; the bias has one element per filter.
fn convolution(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    of_data_and_weight(ctx)?;
    ctx.set_dims(2, ctx.element(2), vec![dim_at(ctx, 2, 0)]);
    Ok(())
}

/// Infers the gradients of data, weight and bias of a transposed convolution with a weight
/// `[C, M/group, kernel...]`.
fn transposed_convolution(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    of_data_and_weight(ctx)?;
    ctx.set_dims(2, ctx.element(2), vec![dim_at(ctx, 0, 1)]);
    Ok(())
}

fn of_scale_from_result(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    gradients_of(ctx, &[1, 2, 3])
}

fn bias_gelu(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    gradients_of(ctx, &[1, 2])
}

/// Infers the gradient of an element-wise operator. The gradient and the operand (or result) agree; each
/// extent is the more precise of both.
fn like_both(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = ctx.element(0);
    let shape = match (ctx.dims(0), ctx.dims(1)) {
        (Some(left), Some(right)) if left.len() == right.len() => {
            let pairs = left.iter().zip(right);
            Some(pairs.map(|(a, b)| agree("gradient and operand", a, b)).collect::<Result<_, _>>()?)
        }
        (Some(left), Some(right)) => {
            let (left, right) = (left.len().to_string(), right.len().to_string());
            return Err(InferError::Mismatch { what: "ranks of gradient and operand", left, right });
        }
        (left, right) => left.or(right).map(<[Dim]>::to_vec),
    };
    ctx.set_tensor(0, element, shape);
    Ok(())
}

/// Infers a gradient with the shape stated in operand `shape` and the element type of operand `update`.
fn scattered(ctx: &mut Infer<'_>, shape: usize, update: usize) -> Result<(), InferError> {
    ctx.required(shape)?;
    ctx.required(update)?;
    let dims = ctx.dim_data(shape);
    ctx.set_tensor(0, ctx.element(update), dims);
    Ok(())
}

fn gather(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    scattered(ctx, 0, 2)
}

fn shape_second(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    scattered(ctx, 1, 0)
}

/// Infers the gradient of pooling: batch and channels follow the result's gradient. The window does not
/// determine the spatial extents; the file states them.
fn pool(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let shape = ctx.shape(0).map(|mut dims| {
        if let Some(spatial) = dims.get_mut(2..) {
            spatial.fill(Dim::Unknown);
        }
        dims
    });
    ctx.set_tensor(0, ctx.element(0), shape);
    Ok(())
}

fn resize(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    like_second(ctx)
}

/// Infers the gradient of Pad, whose padding is removed; no operand alone determines the shape.
fn pad(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let dims = ctx.rank(0).map(unknown_dims);
    ctx.set_tensor(0, ctx.element(0), dims);
    Ok(())
}

/// Infers the axes, last to first, over which a gradient is summed to fit each of two broadcast
/// operands.
fn broadcast_axes(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    ctx.required(1)?;
    let axes = match (known_dims(ctx, 0), known_dims(ctx, 1)) {
        (Some(left), Some(right)) => Some((summed(&left, &right), summed(&right, &left))),
        _ => None,
    };
    match axes {
        Some((left, right)) => {
            ctx.set_data(0, Data::ints(&left));
            ctx.set_data(1, Data::ints(&right));
        }
        None => {
            ctx.set_dims(0, ElementType::Int64, vec![Dim::Unknown]);
            ctx.set_dims(1, ElementType::Int64, vec![Dim::Unknown]);
        }
    }
    Ok(())
}

/// Returns the extents in a shape operand, which may be symbolic; `None` if any is unknown or only
/// bounded.
fn known_dims(ctx: &Infer<'_>, operand: usize) -> Option<Vec<Dim>> {
    ctx.dim_data(operand).filter(|dims| !dims.iter().any(Dim::is_open))
}

/// Returns the axes of the broadcast result, last to first, along which `own` was repeated to fit
/// `other`.
///
/// Like broadcasting itself, assumes that a symbolic extent equals the extent it is combined with.
fn summed(own: &[Dim], other: &[Dim]) -> Vec<i64> {
    let rank = own.len().max(other.len());
    let at = |dims: &[Dim], axis: usize| {
        (axis + dims.len()).checked_sub(rank).and_then(|axis| dims.get(axis).cloned())
    };
    let one = Some(Dim::Known(1));
    let repeated = |axis: &usize| {
        let (own, other) = (at(own, *axis), at(other, *axis));
        // If both extents are 1, no sum is needed, unless the axis is missing altogether.
        own.is_none() || (own == one && other.is_some() && other != one)
    };
    (0..rank).rev().filter(repeated).filter_map(|axis| i64::try_from(axis).ok()).collect()
}

/// Counts two operations for each element of the result's gradient and each weight, once for the data
/// gradient and once for the weight gradient.
fn convolution_flops(typed: &Typed<'_>) -> Option<u64> {
    let taps = product(typed.input_dims(2)?.get(1..)?)?;
    typed.input(0)?.elements()?.checked_mul(taps)?.checked_mul(4)
}

/// Returns the bytes of the columns of one image, as in the general path of the forward kernel.
fn convolution_workspace(node: &Counted<'_>) -> Option<Size> {
    let columns = node.product_from(node.input(2), 1) * node.product_from(node.input(0), 2);
    Some(columns * Size::width(node.input(0)))
}

fn loss(ctx: &mut Infer<'_>) -> Result<(), InferError> {
    ctx.required(0)?;
    let element = ctx.element(0);
    if ctx.string("reduction") == Some("none") {
        set_shaped_like(ctx, 0, element, 1);
    } else {
        ctx.set_dims(0, element, Vec::new());
    }
    ctx.set_like(1, 0);
    Ok(())
}

const fn elementwise(name: &'static str, infer: InferFn, work: u32) -> OpInfo {
    microsoft(name, infer).algebra(Algebra::NONE).work(Work::PerElement(work)).split(SplitAxes::All)
}

const fn overwriting(name: &'static str, work: u32) -> OpInfo {
    elementwise(name, like_both, work).in_place(InPlace::Operands(&[0, 1]))
}

const fn of_dropout(name: &'static str) -> OpInfo {
    elementwise(name, like_first, 3).in_place(InPlace::Operands(&[0]))
}

/// Creates the entry of a Softmax gradient. Its kernel copies the gradient to the result before it reads
/// the other operand, so the result may overwrite the gradient.
const fn of_softmax(name: &'static str, work: u32) -> OpInfo {
    let info = microsoft(name, like_first).in_place(InPlace::Operands(&[0]));
    info.work(Work::PerElement(work)).split(SplitAxes::Rule(rules::softmax))
}

/// The operators of this family.
pub const OPERATORS: &[OpInfo] = &[
    // ONNX Runtime puts the gradients of average and max pooling into the ONNX domain, although the
    // standard lacks them.
    OpInfo::onnx("AveragePoolGrad", pool).work(Work::PerElement(4)).split(SplitAxes::Batch),
    OpInfo::onnx("MaxPoolGrad", pool).work(Work::PerElement(2)).split(SplitAxes::Rule(rules::unpooled)),
    microsoft("BatchNormalizationGrad", of_data_and_scale).work(Work::PerElement(12)),
    overwriting("BiasFastGeluGrad_dX", 20).workspace(contrib_workspace::biased_copy),
    microsoft("BiasGeluGrad", bias_gelu).work(Work::PerElement(20)),
    overwriting("BiasGeluGrad_dX", 20).workspace(contrib_workspace::biased_copy),
    of_dropout("BitmaskDropoutGrad"),
    microsoft("BroadcastGradientArgs", broadcast_axes).work(Work::None),
    microsoft("ConvGrad", convolution)
        .work(Work::Flops(convolution_flops))
        .workspace(convolution_workspace)
        .split(SplitAxes::Rule(rules::convolution_gradient)),
    microsoft("ConvTransposeGrad", transposed_convolution).work(Work::Flops(convolution_flops)),
    microsoft("DivGrad", of_data_and_weight).work(Work::PerElement(6)),
    of_dropout("DropoutGrad"),
    overwriting("EluGrad", 10),
    overwriting("FastGeluGrad", 20),
    microsoft("GatherElementsGrad", shape_second).work(Work::PerElement(1)),
    microsoft("GatherGrad", gather)
        .work(Work::PerElement(1))
        .split(SplitAxes::Rule(rules::gathered_gradient)),
    microsoft("GatherNDGrad", gather).work(Work::PerElement(1)),
    overwriting("GeluGrad", 20),
    overwriting("HardSigmoidGrad", 3),
    microsoft("InvertibleLayerNormalizationGrad", of_scale_from_result).work(Work::PerElement(12)),
    microsoft("LayerNormalizationGrad", of_data_and_scale)
        .work(Work::PerElement(12))
        .split(SplitAxes::Rule(rules::layer_gradient)),
    overwriting("LeakyReluGrad", 2),
    of_softmax("LogSoftmaxGrad", 12),
    of_softmax("LogSoftmaxGrad_13", 12),
    microsoft("PadGrad", pad).work(Work::None),
    overwriting("QuickGeluGrad", 16),
    overwriting("ReluGrad", 1),
    microsoft("ResizeGrad", resize).work(Work::PerElement(8)),
    overwriting("SigmoidGrad", 3),
    microsoft("SimplifiedLayerNormalizationGrad", of_data_and_weight).work(Work::PerElement(10)),
    microsoft("SliceGrad", shape_second).work(Work::None),
    microsoft("SoftmaxCrossEntropy", loss).work(Work::PerInputElement(14)),
    microsoft("SoftmaxCrossEntropyGrad", like_second).work(Work::PerElement(12)),
    microsoft("SoftmaxCrossEntropyLossGrad", like_second)
        .work(Work::PerElement(12))
        .split(SplitAxes::Rule(rules::cross_entropy_gradient)),
    microsoft("SoftmaxCrossEntropyLossInternal", loss).work(Work::PerInputElement(14)),
    microsoft("SoftmaxCrossEntropyLossInternalGrad", like_second).work(Work::PerElement(12)),
    of_softmax("SoftmaxGrad", 6),
    of_softmax("SoftmaxGrad_13", 6),
    overwriting("TanhGrad", 3),
    of_dropout("TrainableDropoutGrad"),
];

#[cfg(test)]
mod tests {
    use crate::families::testing::Case;

    fn all(name: &str, operands: &[&str]) -> Case {
        operands.iter().fold(Case::of("com.microsoft", name, 1), |case, operand| case.input(operand))
    }

    #[test]
    fn gradients_have_the_types_of_their_operands() {
        let conv = all("ConvGrad", &["f32[32,512,7,7]", "f32[32,256,14,14]", "f32[512,256,3,3]"])
            .outputs(3)
            .show_all();
        assert_eq!(conv, "f32[32,256,14,14]; f32[512,256,3,3]; f32[512]");
        let norm = all(
            "LayerNormalizationGrad",
            &["f32[8,16,64]", "f32[8,16,64]", "f32[64]", "f32[8,16,1]", "f32[8,16,1]"],
        );
        assert_eq!(norm.outputs(3).show_all(), "f32[8,16,64]; f32[64]; f32[64]");
        let loss = all("SoftmaxCrossEntropyLossGrad", &["f32[]", "f32[1024,100]", "i64[1024]"]).show();
        assert_eq!(loss, "f32[1024,100]");
        assert_eq!(all("ReluGrad", &["f32[?,3]", "f32[2,?]"]).show(), "f32[2,3]");
        assert_eq!(
            all("ReluGrad", &["f32[2]", "f32[3]"]).show(),
            "error: gradient and operand: 2 and 3 do not agree"
        );
        assert_eq!(all("ConvGrad", &["f32[1]"]).show(), "error: operand 1 is missing");
    }

    #[test]
    fn scattered_gradients_read_their_shape() {
        let gather = Case::of("com.microsoft", "GatherGrad", 1).ints_data(&[30522, 768]).input("i64[8,128]");
        assert_eq!(gather.input("f32[8,128,768]").show(), "f32[30522,768]");
        let slice = Case::of("com.microsoft", "SliceGrad", 1).input("f16[2,3]").data("i64[2]", "N,-7");
        assert_eq!(slice.show(), "f16[N,?]");
        let pool = Case::new("MaxPoolGrad", 15).input("f32[4,64,16,16]").input("i64[4,64,16,16]").show();
        assert_eq!(pool, "f32[4,64,?,?]");
    }

    #[test]
    fn broadcast_axes_run_last_to_first() {
        let axes = |left: &str, right: &str| {
            let count = |text: &str| format!("i64[{}]", text.split(',').count());
            let case = Case::of("com.microsoft", "BroadcastGradientArgs", 1);
            case.data(&count(left), left).data(&count(right), right).outputs(2).show_all()
        };
        assert_eq!(axes("2,16,256", "256"), "i64[0] = {}; i64[2] = {1,0}");
        assert_eq!(axes("1,3", "N,1"), "i64[1] = {0}; i64[1] = {1}");
        assert_eq!(axes("1,1", "1"), "i64[0] = {}; i64[1] = {0}");
        assert_eq!(axes("?,3", "3"), "i64[?]; i64[?]");
    }
}
