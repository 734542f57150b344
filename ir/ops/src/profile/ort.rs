//! Profile `ort`: a stock ONNX Runtime CPU session without optimizations and buffer reuse, with nodes in
//! file order.
//!
//! Each fact was measured with ONNX Runtime 1.31.1 as the peak of requested bytes around small generated
//! graphs (one thread, arena and memory pattern off). In addition to the list below, the measurements
//! show:
//! * A buffer is overwritten only at its last use. This holds through views of the buffer, and with
//!   earlier readers. A buffer is never overwritten if it holds a graph input, an initializer, a view of
//!   either, or a graph output. A graph output never overwrites an operand.
//! * Shapes must be equal for ONNX Runtime's own inference. Equal symbols count as equal, and so do
//!   stated value types. A model without value types whose shapes are computed by nodes loses in-place
//!   writes; this profile then promises too small a peak.
//! * Reshape, Flatten, Squeeze, Unsqueeze and Identity share bytes, unless the result is a graph output,
//!   which is a copy. A view of a graph input or of an initializer takes no memory. A Cast to an equal
//!   type copies while its operand is live.
//! * An unread result (a mask, a last state) keeps its buffer until the run ends; an unread view keeps
//!   no memory.
//! * Half precision: most operators have no kernel and run between conversions to full precision, which
//!   count as workspace. A chain of these operators keeps values in full precision between them, which
//!   this profile does not count. A Cast to float32 after an operator of this kind also reads the
//!   unrounded value: from the sequence operator, conversion to float16, conversion to float32, the
//!   runtime removes both conversions, even with all optimizations disabled.
//! * Convolutions of several images or groups use 64 KiB of columns in versions up to 1.22 and from 1.27
//!   on, as counted here. Versions 1.23 to 1.26 allocate the columns of a whole image, and peaks for
//!   them need `memc profile`.

use memc_ir::ElementType;

use super::ort_temporaries::temporaries;
use super::own::ONNX_RUNTIME;
use super::{InPlaceKernel, Kernels, Profile};
use crate::families::contrib_workspace;

/// The profile.
pub(crate) const PROFILE: Profile = Profile {
    name: "ort",
    alignment: 64,
    rounding: 64,
    windows: false,
    shared_outputs: false,
    caller_buffers: false,
    holds_unread_results: true,
    widens_halves: true,
    takes_workspace: true,
    max_scratch_threads: 1,
    kernels: Kernels::Listed(IN_PLACE),
    same_type_views: false,
    temporaries,
    expanded: EXPANDED,
    own: ONNX_RUNTIME,
    kept: KEPT,
    sessions: Some(super::ort_session::text),
};

const fn kernel(name: &'static str, elements: &'static [ElementType]) -> InPlaceKernel {
    InPlaceKernel { domain: "", name, operand: 0, elements }
}

const FLOAT: &[ElementType] = &[ElementType::Float];
const FLOATS: &[ElementType] = &[ElementType::Float, ElementType::Double];
/// Element types with a kernel of Relu.
const RELU: &[ElementType] = &[ElementType::Float, ElementType::Double, ElementType::Int8, ElementType::Int32];

/// Kernels that ran in place in measurements. Measured not to run in place: Add Sub Mul Div Pow Max Min
/// Sum Mean PRelu Exp Log Sqrt Neg Abs Erf Sin Floor Round Sign Reciprocal Not Hardmax Gelu Dropout, all
/// normalizations, ScatterND, Where, and the Gelu operators of ONNX Runtime's own domain.
const IN_PLACE: &[InPlaceKernel] = &[
    // Between any two types of equal width.
    kernel("Cast", &[]),
    kernel("Celu", FLOAT),
    kernel("Clip", &[]),
    kernel("Elu", FLOAT),
    kernel("HardSigmoid", FLOAT),
    kernel("LeakyRelu", FLOAT),
    kernel("LogSoftmax", FLOAT),
    kernel("Relu", RELU),
    kernel("Scatter", &[]),
    kernel("ScatterElements", &[]),
    kernel("Selu", FLOAT),
    kernel("Shrink", &[]),
    kernel("Sigmoid", FLOATS),
    kernel("Softmax", FLOAT),
    kernel("Softplus", FLOAT),
    kernel("Softsign", FLOAT),
    kernel("Tanh", FLOATS),
    kernel("TensorScatter", &[]),
    kernel("ThresholdedRelu", FLOAT),
    InPlaceKernel { domain: MICROSOFT, name: "FusedConv", operand: 3, elements: FLOAT },
];

const MICROSOFT: &str = "com.microsoft";

/// Operators without a kernel, as seen in the model that a session without optimizations saves. In the
/// priority order, their replacement nodes come after all nodes of the file, and so do the conversions
/// around half-precision operators.
const EXPANDED: &[&str] = &[
    "CastLike",
    "CenterCropPad",
    "GroupNormalization",
    "HardSwish",
    "Mish",
    "NegativeLogLikelihoodLoss",
    "SequenceMap",
    "SoftmaxCrossEntropyLoss",
    "Swish",
];

/// Operators whose quantized products keep the buffers of their thread.
const KEPT: &[(&str, &str, u64)] = &[
    ("", "ConvInteger", contrib_workspace::QUANTIZED_BUFFERS),
    ("", "MatMulInteger", contrib_workspace::QUANTIZED_BUFFERS),
    ("", "QLinearConv", contrib_workspace::QUANTIZED_BUFFERS),
    ("", "QLinearMatMul", contrib_workspace::QUANTIZED_BUFFERS),
    (MICROSOFT, "DynamicQuantizeLSTM", contrib_workspace::QUANTIZED_BUFFERS),
    (MICROSOFT, "DynamicQuantizeMatMul", contrib_workspace::QUANTIZED_BUFFERS),
    (MICROSOFT, "MatMulIntegerToFloat", contrib_workspace::QUANTIZED_BUFFERS),
    (MICROSOFT, "QAttention", contrib_workspace::QUANTIZED_BUFFERS),
    (MICROSOFT, "QGemm", contrib_workspace::QUANTIZED_BUFFERS),
    (MICROSOFT, "QLinearConv", contrib_workspace::QUANTIZED_BUFFERS),
];
