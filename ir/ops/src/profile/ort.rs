//! Profile `ort`: a stock ONNX Runtime session on the CPU, optimizations and buffer reuse off, nodes in the file's order.
//!
//! Each fact was measured with ONNX Runtime 1.31.1 as the peak of requested bytes around small generated graphs (one thread, arena and
//! memory pattern off). Measured beside the list below:
//! * A buffer is overwritten only at its last use, also through a view of it and also where other readers ran before; never where it
//!   holds a graph input, an initializer, a view of either, or a graph output. A graph output is never written over an operand.
//! * Shapes must be equal for ONNX Runtime's own inference: equal symbols do, and stated value types count. A model without
//!   value types whose shapes are computed by nodes loses in-place writes and this profile then promises too little.
//! * Reshape, Flatten, Squeeze, Unsqueeze and Identity share bytes, unless the result is a graph output (then it is a copy). A view of a
//!   graph input or of an initializer takes nothing. Cast to the same type copies while its operand lives.
//! * A result that nobody reads (a mask, a last state) keeps its buffer until the run ends; an unread view keeps nothing.
//! * Half precision: most operators have no kernel and run between conversions to full precision, counted in [`temporaries`].

use memc_ir::{Bytes, ElementType};

use super::{InPlaceKernel, Kernels, Profile};
use crate::context::normalize_axis;
use crate::families::contrib_workspace;
use crate::info::{Typed, View};
use crate::table::lookup;

/// The profile.
pub(crate) const PROFILE: Profile = Profile {
    name: "ort",
    alignment: 64,
    rounding: 64,
    windows: false,
    shared_outputs: false,
    caller_buffers: false,
    holds_unread_results: true,
    max_scratch_threads: 1,
    kernels: Kernels::Listed(IN_PLACE),
    same_type_views: false,
    temporaries,
    kept: KEPT,
};

const fn kernel(name: &'static str, elements: &'static [ElementType]) -> InPlaceKernel {
    InPlaceKernel { domain: "", name, operand: 0, elements }
}

const FLOAT: &[ElementType] = &[ElementType::Float];
const FLOATS: &[ElementType] = &[ElementType::Float, ElementType::Double];
/// Element types with a kernel of Relu.
const RELU: &[ElementType] = &[ElementType::Float, ElementType::Double, ElementType::Int8, ElementType::Int32];

/// Kernels that were seen to run in place. Seen not to: Add Sub Mul Div Pow Max Min Sum Mean PRelu Exp Log Sqrt Neg Abs Erf Sin
/// Floor Round Sign Reciprocal Not Hardmax Gelu Dropout, all normalizations, Where, and the Gelu operators of its own domain.
const IN_PLACE: &[InPlaceKernel] = &[
    // Between any two types of one width.
    kernel("Cast", &[]),
    kernel("Celu", FLOAT),
    kernel("Clip", &[]),
    kernel("Elu", FLOAT),
    kernel("HardSigmoid", FLOAT),
    kernel("LeakyRelu", FLOAT),
    kernel("LogSoftmax", FLOAT),
    kernel("Relu", RELU),
    kernel("Selu", FLOAT),
    kernel("Shrink", &[]),
    kernel("Sigmoid", FLOATS),
    kernel("Softmax", FLOAT),
    kernel("Softplus", FLOAT),
    kernel("Softsign", FLOAT),
    kernel("Tanh", FLOATS),
    kernel("ThresholdedRelu", FLOAT),
    InPlaceKernel { domain: MICROSOFT, name: "FusedConv", operand: 3, elements: FLOAT },
];

const MICROSOFT: &str = "com.microsoft";

/// Operators whose quantized products keep their thread's buffers.
const KEPT: &[(&str, &str, u64)] = &[
    ("", "ConvInteger", contrib_workspace::QUANTIZED_BUFFERS),
    ("", "MatMulInteger", contrib_workspace::QUANTIZED_BUFFERS),
    ("", "QLinearConv", contrib_workspace::QUANTIZED_BUFFERS),
    ("", "QLinearMatMul", contrib_workspace::QUANTIZED_BUFFERS),
    (MICROSOFT, "DynamicQuantizeMatMul", contrib_workspace::QUANTIZED_BUFFERS),
    (MICROSOFT, "MatMulIntegerToFloat", contrib_workspace::QUANTIZED_BUFFERS),
    (MICROSOFT, "QAttention", contrib_workspace::QUANTIZED_BUFFERS),
    (MICROSOFT, "QGemm", contrib_workspace::QUANTIZED_BUFFERS),
    (MICROSOFT, "QLinearConv", contrib_workspace::QUANTIZED_BUFFERS),
];

/// Operators that ONNX Runtime expands into several nodes, and how many buffers of the result's size these hold beside the result.
const EXPANDED: &[(&str, u64)] = &[("HardSwish", 1), ("Mish", 1), ("Swish", 1)];

/// Operators that copy between layouts when their axis is not the last.
const LAST_AXIS: &[&str] = &["Hardmax", "LogSoftmax", "Softmax"];

/// Operators with half-precision kernels, which need no conversions.
const HALF_PRECISION: &[&str] = &["Cast", "Clip", "Shrink"];

/// Buffers that kernels hold beside what the table's formula says.
fn temporaries(typed: &Typed<'_>) -> Option<Bytes> {
    let total = conversions(typed)?;
    let data = typed.data();
    if !data.operator.domain.is_empty() {
        return Some(total);
    }
    if let Some((_, formula)) = QUANTIZED.iter().find(|(name, _)| *name == &*data.operator.name) {
        return total.checked_add(formula(typed)?);
    }
    match copies(typed) {
        0 => Some(total),
        copies => total.checked_add(Bytes(rounded(typed.output(0)?.size()?)?.checked_mul(copies)?)),
    }
}

/// Size that an allocation takes.
fn rounded(size: Bytes) -> Option<u64> {
    size.0.checked_next_multiple_of(PROFILE.rounding)
}

/// A workspace formula.
type Formula = fn(&Typed<'_>) -> Option<Bytes>;

/// Quantized operators of ONNX's own domain, which run on the kernels of ONNX Runtime's own ones.
const QUANTIZED: &[(&str, Formula)] = &[
    ("ConvInteger", contrib_workspace::integer_convolution),
    ("MatMulInteger", contrib_workspace::quantized_product),
    ("QLinearConv", contrib_workspace::quantized_convolution),
    ("QLinearMatMul", contrib_workspace::requantized_product),
];

/// Buffers of the result's size beside the result.
fn copies(typed: &Typed<'_>) -> u64 {
    let data = typed.data();
    let name = &*data.operator.name;
    if let Some((_, copies)) = EXPANDED.iter().find(|(expanded, _)| *expanded == name) {
        return *copies;
    }
    if name == "Where" {
        // Both choices are selected apart before they are merged.
        return 2;
    }
    // Before operator set 13 axes are flattened, not moved.
    let moves = data.operator.version >= 13 && LAST_AXIS.contains(&name);
    let rank = typed.output(0).and_then(|ty| ty.rank());
    let last = rank.is_some_and(|rank| normalize_axis(data.int("axis", -1), rank).is_some_and(|axis| axis + 1 == rank));
    if moves && !last { 2 } else { 0 }
}

/// Copies in full precision of all operands and results in half precision.
fn conversions(typed: &Typed<'_>) -> Option<Bytes> {
    let data = typed.data();
    let moves_only = lookup(&data.operator).is_some_and(|info| info.view != View::None);
    if moves_only || HALF_PRECISION.contains(&&*data.operator.name) {
        return Some(Bytes(0));
    }
    let operands = (0..data.inputs.len()).filter_map(|index| typed.input(index));
    let results = (0..data.outputs.len()).filter_map(|index| typed.output(index));
    operands
        .chain(results)
        .filter(|ty| ty.element == ElementType::Float16)
        .try_fold(Bytes(0), |sum, ty| sum.checked_add(Bytes(rounded(Bytes(ty.size()?.0.checked_mul(2)?))?)))
}
