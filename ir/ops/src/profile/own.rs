//! Operators outside the ONNX standard that a runtime has, with the element types of their kernels.

use memc_ir::ElementType;

/// An operator outside the ONNX standard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnKernel {
    /// Domain of the operator.
    pub(crate) domain: &'static str,
    /// Name of the operator.
    pub(crate) name: &'static str,
    /// Element types of the first operand that both a kernel supports and the operator's declaration
    /// allows.
    pub(crate) elements: &'static [ElementType],
}

const FLOAT: &[ElementType] = &[ElementType::Float];
const HALF: &[ElementType] = &[ElementType::Float, ElementType::Float16];
const BYTES: &[ElementType] = &[ElementType::Int8, ElementType::Uint8];
const HALF_TO_DOUBLE: &[ElementType] = &[ElementType::Float, ElementType::Double, ElementType::Float16];

const fn microsoft(name: &'static str, elements: &'static [ElementType]) -> OwnKernel {
    OwnKernel { domain: "com.microsoft", name, elements }
}

/// CPU operators of ONNX Runtime that rewriting may create. ONNX Runtime puts
/// SimplifiedLayerNormalization into the ONNX domain, although the standard lacks it. The two variants
/// that first add a skip input have kernels for doubles, but their declarations do not allow doubles.
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
