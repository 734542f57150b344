//! Operators that a runtime has beside the standard's, and the element types that their kernels take.

use memc_ir::ElementType;

/// An operator that is not in the standard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnKernel {
    /// Domain of the operator.
    pub(crate) domain: &'static str,
    /// Name of the operator.
    pub(crate) name: &'static str,
    /// Element types of the first operand for which there is a kernel that the operator's own declaration admits.
    pub(crate) elements: &'static [ElementType],
}

const FLOAT: &[ElementType] = &[ElementType::Float];
const HALF: &[ElementType] = &[ElementType::Float, ElementType::Float16];
const BYTES: &[ElementType] = &[ElementType::Int8, ElementType::Uint8];
const HALF_TO_DOUBLE: &[ElementType] = &[ElementType::Float, ElementType::Double, ElementType::Float16];

const fn microsoft(name: &'static str, elements: &'static [ElementType]) -> OwnKernel {
    OwnKernel { domain: "com.microsoft", name, elements }
}

/// Operators of ONNX Runtime on the CPU that rewriting may make. SimplifiedLayerNormalization stands in ONNX's own domain there, without
/// being in the standard. Both that add a sum to it have kernels for doubles, but are declared without.
pub(crate) const ONNX_RUNTIME: &[OwnKernel] = &[
    microsoft("Attention", FLOAT),
    microsoft("BiasGelu", FLOAT),
    microsoft("FastGelu", FLOAT),
    microsoft("FusedConv", FLOAT),
    microsoft("FusedGemm", FLOAT),
    microsoft("FusedMatMul", FLOAT),
    microsoft("Gelu", FLOAT),
    microsoft("MatMulIntegerToFloat", BYTES),
    microsoft("MultiHeadAttention", FLOAT),
    microsoft("QGemm", BYTES),
    microsoft("QLinearAdd", BYTES),
    microsoft("QLinearAveragePool", BYTES),
    // Its first operand is the scale of the result.
    microsoft("QLinearConcat", FLOAT),
    microsoft("QLinearGlobalAveragePool", BYTES),
    microsoft("QLinearLeakyRelu", BYTES),
    microsoft("QLinearMul", BYTES),
    microsoft("QLinearSigmoid", BYTES),
    microsoft("QuickGelu", FLOAT),
    microsoft("RotaryEmbedding", FLOAT),
    microsoft("SkipLayerNormalization", HALF),
    microsoft("SkipSimplifiedLayerNormalization", HALF),
    OwnKernel { domain: "", name: "SimplifiedLayerNormalization", elements: HALF_TO_DOUBLE },
];
