//! Profile `cuda`: a session of ONNX Runtime whose nodes run on a CUDA device.
//!
//! Each fact is from ONNX Runtime's sources; none was measured on a device:
//! * Which kernels exist, for which element types: `docs/OperatorKernels.md`, section of the CUDA provider.
//!   Other nodes run on the CPU, between copies.
//! * Which kernels may run in place: `MayInplace` of the registrations in `core/providers/cuda` and
//!   `contrib_ops/cuda`. Views and the times at which buffers are freed are the framework's, as on the CPU.
//! * The device's allocations are multiples of 256 bytes (`core/framework/bfc_arena.h`; cudaMalloc aligns as
//!   much).
//! * Workspace: `docs/annotated_partitioning/cuda_kernel_workspace_inventory.md`, where the size follows from
//!   shapes. Libraries of the device choose that of convolutions, recurrences, reductions and attention: it
//!   is unknown here, and a replayed session counts it exactly.
//!
//! Kernels for empty tensors were not tried on a device, so no part may be empty.

use memc_ir::ElementType;
use memc_ir::ElementType::{
    Bfloat16, Bool, Double, Float, Float16, Int8, Int32, Int64, Uint8, Uint32, Uint64,
};

use super::device::Device;
use super::{Kernels, Profile};
use crate::size::{Counted, Formula, Size};

/// The profile.
pub(crate) const PROFILE: Profile = Profile {
    name: "cuda",
    alignment: 256,
    rounding: 256,
    windows: false,
    shared_outputs: false,
    caller_buffers: false,
    holds_unread_results: true,
    widens_halves: false,
    takes_workspace: true,
    max_scratch_threads: 1,
    kernels: Kernels::Device(&DEVICE),
    same_type_views: false,
    takes_temporaries: false,
    expands_operators: true,
    multiplies_codes: false,
    keeps_buffers: false,
    sessions: None,
};

/// The kernels of the provider.
const DEVICE: Device = Device {
    registered: REGISTERED,
    not_made: NOT_MADE,
    asks: ASKS,
    in_place: IN_PLACE,
    workspace: WORKSPACE,
    chosen: CHOSEN,
};

const ANY: &[ElementType] = &[];
const BOOL: &[ElementType] = &[Bool];
const BYTES: &[ElementType] = &[Int8, Uint8];
const FLOAT: &[ElementType] = &[Float];
const FLOATS: &[ElementType] = &[Float, Float16, Bfloat16, Double];
const HALF: &[ElementType] = &[Float, Float16, Bfloat16];
const INT8: &[ElementType] = &[Int8];
/// Numbers that kernels compare and choose among.
const NUMBERS: &[ElementType] = &[Float, Float16, Bfloat16, Double, Int32, Int64, Uint32, Uint64];
const WIDE: &[ElementType] = &[Float, Float16, Double, Int64, Uint64];
const SIGNED: &[ElementType] = &[Float, Float16, Bfloat16, Double, Int32, Int64];

const REGISTERED: &[(&str, &[ElementType], &str)] = &[
    (
        "",
        ANY,
        "Abs Add Cast Compress Concat ConcatFromSequence ConstantOfShape DequantizeLinear Div Expand EyeLike \
         Flatten Gather GatherElements GatherND Identity If Loop Mul Neg NonMaxSuppression NonZero OneHot \
         RandomNormal RandomNormalLike RandomUniform RandomUniformLike Range Reshape ReverseSequence Scan \
         Scatter ScatterElements ScatterND SequenceAt SequenceConstruct SequenceEmpty SequenceErase \
         SequenceInsert SequenceLength Shape Shrink Sign Size Slice Split Squeeze Sub TensorScatter Transpose \
         Trilu Unsqueeze",
    ),
    ("", BOOL, "And Equal Not Or Pad Where Xor"),
    ("", BYTES, "Clip MaxPool Resize Upsample"),
    ("", INT8, "MatMulInteger"),
    ("", NUMBERS, "CumSum Equal Greater GreaterOrEqual Less LessOrEqual Max Min Mod"),
    ("", WIDE, "Clip"),
    (
        "",
        SIGNED,
        "Pow ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Resize Tile TopK Upsample",
    ),
    (
        "",
        FLOATS,
        "Affine ArgMax ArgMin Attention AveragePool BatchNormalization Ceil Conv ConvTranspose Cos Crop \
         DeformConv DepthToSpace Dropout Einsum Elu Erf Exp Floor GRU Gelu Gemm GlobalAveragePool \
         GlobalMaxPool GridSample HardSigmoid HardSwish ImageScaler InstanceNormalization IsInf IsNaN LRN \
         LSTM LayerNormalization LeakyRelu Log LogSoftmax MatMul MaxPool PRelu Pad ParametricSoftplus \
         QuantizeLinear RMSNormalization RNN Reciprocal ReduceLogSum ReduceLogSumExp ReduceSumSquare Relu \
         RoiAlign RotaryEmbedding Round ScaledTanh Selu Sigmoid SimplifiedLayerNormalization Sin Softmax \
         Softplus Softsign SpaceToDepth Sqrt Sum Tanh ThresholdedRelu",
    ),
    ("com.microsoft", FLOAT, "FusedConv GridSample"),
    (
        "com.microsoft",
        HALF,
        "Attention MatMulNBits MultiHeadAttention RotaryEmbedding SkipLayerNormalization \
         SkipSimplifiedLayerNormalization",
    ),
    ("com.microsoft", FLOATS, "BiasDropout BiasGelu FastGelu FusedMatMul Gelu QuickGelu Trilu"),
];

/// The kernels of attention take what the device's own libraries take.
const NOT_MADE: &[(&str, &str)] = &[("com.microsoft", "Attention MultiHeadAttention RotaryEmbedding")];

const ASKS: &[(&str, &str, &str, &str)] = &[("com.microsoft", "FusedConv", "activation", "Relu")];

const IN_PLACE: &[(&str, &str)] = &[
    (
        "",
        "Elu HardSigmoid LeakyRelu Relu ScatterND Selu Shrink Sigmoid Softplus Softsign Tanh TensorScatter \
         ThresholdedRelu",
    ),
    ("com.microsoft", "Gelu QuickGelu"),
];

const WORKSPACE: &[(&str, &str, Formula)] = &[
    ("", "BatchNormalization", |node| Some(when_half(node, full_channels(node) * 4))),
    ("", "Dropout", dropped),
    ("", "GatherND", gathered),
    ("", "InstanceNormalization", normalized),
    ("", "MatMulInteger", multiplied),
];

const CHOSEN: &[(&str, &str)] = &[
    (
        "",
        "ArgMax ArgMin Attention Compress Conv ConvTranspose DeformConv GRU LSTM NonMaxSuppression NonZero RNN \
         ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum \
         ReduceSumSquare Resize TopK Upsample",
    ),
    ("com.microsoft", "Attention FusedConv MatMulNBits MultiHeadAttention"),
];

/// Bytes of one number for each channel, in full precision.
fn full_channels(node: &Counted<'_>) -> Size {
    node.extent(node.input(0), 1) * 4
}

fn is_half(node: &Counted<'_>) -> bool {
    node.input(0).is_some_and(|ty| matches!(ty.element, Float16 | Bfloat16))
}

fn when_half(node: &Counted<'_>, bytes: Size) -> Size {
    if is_half(node) { bytes } else { Size::from(0) }
}

/// A mask that nobody reads, where elements are dropped.
fn dropped(node: &Counted<'_>) -> Option<Size> {
    let is_read = node.data().outputs.get(1).copied().flatten().is_some();
    Some(if is_read || !node.has(2) { Size::from(0) } else { node.elements(node.output(0)) })
}

/// An offset for each slice, and the sizes of the axes that indices choose along.
fn gathered(node: &Counted<'_>) -> Option<Size> {
    let dims = node.dims(node.input(1))?;
    let (axes, slices) = dims.split_last()?;
    Some(axes * 8 + Size::product(slices) * 8)
}

/// Mean, variance, and two unused statistics for each channel of each image; scale and bias in full precision
/// for half precision.
fn normalized(node: &Counted<'_>) -> Option<Size> {
    let images = node.extent(node.input(0), 0) * node.extent(node.input(0), 1);
    Some(images * Size::width(node.input(0)) * 4 + when_half(node, full_channels(node) * 2))
}

/// Sums of rows and of columns.
fn multiplied(node: &Counted<'_>) -> Option<Size> {
    let (left, right) = (node.dims(node.input(0))?, node.dims(node.input(1))?);
    let (rows, columns) = (Size::product(left.split_last()?.1), right.last()?);
    Some(rows * 4 + &(columns * 4))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use memc_ir::{Attribute, Bytes, Operator};

    use super::super::tests::graph_with;
    use super::*;
    use crate::info::Typed;
    use crate::profile::registered;

    fn operator(domain: &str, name: &str) -> Operator {
        Operator { domain: domain.into(), ..Operator::onnx(name, 20) }
    }

    /// Overwritten operands, workspace, and whether the CPU runs a node.
    fn facts(operator: &str, operands: &[&str], result: &str) -> (Vec<usize>, Option<u64>, bool) {
        let (module, node) = graph_with(operator, operands, result, false, Vec::new());
        let typed = Typed::of(&module, node);
        (
            PROFILE.may_overwrite(&typed),
            PROFILE.workspace(&typed).map(|Bytes(bytes)| bytes),
            PROFILE.runs_beside(&typed),
        )
    }

    #[test]
    fn rows_are_sorted_and_name_operators_that_the_runtime_has() {
        let all = REGISTERED.iter().map(|(domain, _, list)| (*domain, *list));
        for (domain, list) in all.chain(IN_PLACE.iter().copied()).chain(NOT_MADE.iter().copied()) {
            let names: Vec<&str> = list.split(' ').collect();
            assert!(names.is_sorted() && names.iter().all(|name| !name.is_empty()), "{list}");
            for name in names {
                assert!(registered(domain, name, 27), "{name}");
                assert!(DEVICE.may_have(&operator(domain, name)), "{name} has no kernel");
            }
        }
        for (domain, name) in
            CHOSEN.iter().flat_map(|(domain, list)| list.split(' ').map(|name| (*domain, name)))
        {
            assert!(DEVICE.may_have(&operator(domain, name)), "{name} has no kernel");
        }
        assert!(WORKSPACE.iter().all(|(domain, name, _)| DEVICE.may_have(&operator(domain, name))));
    }

    #[test]
    fn kernels_that_say_so_run_in_place() {
        for (name, positions) in [("Relu", vec![0]), ("Tanh", vec![0]), ("Exp", vec![]), ("Cast", vec![])] {
            assert_eq!(facts(name, &["f16[4]"], "f16[4]"), (positions, Some(0), false), "{name}");
        }
        assert_eq!(facts("Add", &["f32[4]", "f32[4]"], "f32[4]"), (vec![], Some(0), false));
        assert_eq!(facts("com.microsoft::Gelu", &["f32[4]"], "f32[4]").0, [0]);
        assert_eq!(facts("Relu", &["input f32[4]"], "f32[4]").0, [0; 0]);
        let scattered = facts("ScatterND", &["f32[4,8]", "i64[2,1]", "f32[2,8]"], "f32[4,8]");
        assert_eq!(scattered, (vec![0], Some(0), false));
    }

    #[test]
    fn workspace_follows_from_shapes_or_is_unknown() {
        assert_eq!(facts("MatMulInteger", &["i8[3,70]", "i8[70,90]"], "i32[3,90]").1, Some(512));
        assert_eq!(facts("GatherND", &["f32[4,8]", "i64[100,2]"], "f32[100]").1, Some(1024));
        let batch = |element: &str| {
            let four = format!("{element}[100]");
            let image = format!("{element}[2,100,4,4]");
            facts("BatchNormalization", &[&image, &four, &four, &four, &four], &image).1
        };
        assert_eq!([batch("f32"), batch("f16")], [Some(0), Some(1792)]);
        assert_eq!(facts("Conv", &["f32[1,2,8,8]", "f32[4,2,3,3]"], "f32[1,4,6,6]").1, None);
        assert_eq!(
            facts("InstanceNormalization", &["f32[2,3,4]", "f32[3]", "f32[3]"], "f32[2,3,4]").1,
            Some(256)
        );
    }

    #[test]
    fn nodes_without_a_kernel_run_on_the_cpu() {
        let beside = |name: &str, operands: &[&str]| facts(name, operands, "f32[4]").2;
        assert!(beside("DFT", &["f32[4]"]) && beside("Celu", &["f32[4]"]));
        assert!(
            beside("MatMul", &["i32[4,4]", "i32[4,4]"]) && beside("com.microsoft::QLinearAdd", &["u8[4]"])
        );
        assert!(!beside("Where", &["bool[4]", "f32[4]", "f32[4]"]) && !beside("Shape", &["f32[4]"]));
    }

    #[test]
    fn rules_make_operators_of_the_device() {
        let made = |domain: &str, name: &str| PROFILE.has_kernel(&operator(domain, name), &[], Float16);
        assert!(
            made("com.microsoft", "QuickGelu") && made("com.microsoft", "FusedMatMul") && made("", "Celu")
        );
        for name in ["FusedConv", "FusedGemm", "MultiHeadAttention", "QLinearAdd"] {
            assert!(!made("com.microsoft", name), "{name}");
        }
        assert!(PROFILE.expands(&operator("", "Mish")) && !PROFILE.expands(&operator("", "HardSwish")));
        assert!(
            !PROFILE.takes_empty(&operator("", "Relu")) && !PROFILE.adds_nothing(&operator("", "MatMul"))
        );
    }

    #[test]
    fn a_fused_convolution_has_a_kernel_with_relu_alone() {
        let fused = operator("com.microsoft", "FusedConv");
        let with = |activation: &'static str, element| {
            let value = Attribute::String(activation.into());
            PROFILE.has_kernel(&fused, &[("activation".to_owned(), value)], element)
        };
        assert!(with("Relu", Float) && !with("Relu", Float16) && !with("Tanh", Float));
        assert!(!PROFILE.has_kernel(&fused, &[], Float) && PROFILE.may_have(&fused));
    }
}
