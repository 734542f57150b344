//! Fact of the operator table: what the gradient of an operator reads.
//!
//! The rules themselves are in `passes/gradient`, and a test there holds them against this fact.

use memc_ir::Operator;

/// What the gradient of an operator reads besides the gradients of its results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gradient {
    /// No gradient is known: a path through the operator is refused.
    None,
    /// The gradient is zero: results are constant around almost all operands, or are not real numbers.
    Zero,
    /// Operands, and perhaps results.
    FromOperands,
    /// Results alone, or nothing: operands need not be kept for it.
    FromResults,
}

/// Operators of the standard by what their gradients read; all others have none.
const KNOWN: &[(Gradient, &[&str])] = &[
    (
        Gradient::Zero,
        &[
            "And",
            "ArgMax",
            "ArgMin",
            "Bernoulli",
            "BitShift",
            "BitwiseAnd",
            "BitwiseNot",
            "BitwiseOr",
            "BitwiseXor",
            "Ceil",
            "Constant",
            "ConstantOfShape",
            "Equal",
            "EyeLike",
            "Floor",
            "Greater",
            "GreaterOrEqual",
            "Hardmax",
            "IsInf",
            "IsNaN",
            "Less",
            "LessOrEqual",
            "Multinomial",
            "NonMaxSuppression",
            "NonZero",
            "Not",
            "OneHot",
            "Or",
            "RandomNormal",
            "RandomNormalLike",
            "RandomUniform",
            "RandomUniformLike",
            "Range",
            "Round",
            "Shape",
            "Sign",
            "Size",
            "Xor",
        ],
    ),
    (
        Gradient::FromOperands,
        &[
            "Abs",
            "Acos",
            "Acosh",
            "Asin",
            "Asinh",
            "Atan",
            "Atanh",
            "BatchNormalization",
            "Clip",
            "Conv",
            "ConvTranspose",
            "Cos",
            "Cosh",
            "Div",
            "Einsum",
            "Erf",
            "GRU",
            "Gelu",
            "Gemm",
            "GlobalMaxPool",
            "GroupNormalization",
            "HardSwish",
            "InstanceNormalization",
            "LRN",
            "LSTM",
            "LayerNormalization",
            "LeakyRelu",
            "Log",
            "LpNormalization",
            "MatMul",
            "Max",
            "MeanVarianceNormalization",
            "Min",
            "Mish",
            "Mul",
            "PRelu",
            "Pow",
            "RMSNormalization",
            "RNN",
            "ReduceL1",
            "ReduceL2",
            "ReduceLogSumExp",
            "ReduceMax",
            "ReduceMin",
            "ReduceProd",
            "ReduceSumSquare",
            "Sin",
            "Sinh",
            "SoftmaxCrossEntropyLoss",
            "Softplus",
            "Softsign",
            "Swish",
            "ThresholdedRelu",
            "Where",
        ],
    ),
    (
        Gradient::FromResults,
        &[
            "Add",
            "AveragePool",
            "Cast",
            "CastLike",
            "Celu",
            "Concat",
            "CumSum",
            "DFT",
            "DepthToSpace",
            "Dropout",
            "Elu",
            "Exp",
            "Expand",
            "Flatten",
            "Gather",
            "GatherElements",
            "GatherND",
            "GlobalAveragePool",
            "HardSigmoid",
            "Identity",
            "LogSoftmax",
            "MaxPool",
            "Mean",
            "Neg",
            "NegativeLogLikelihoodLoss",
            "Pad",
            "Reciprocal",
            "ReduceLogSum",
            "ReduceMean",
            "ReduceSum",
            "Relu",
            "Reshape",
            "Resize",
            "ScatterElements",
            "ScatterND",
            "Selu",
            "Sigmoid",
            "Slice",
            "Softmax",
            "SpaceToDepth",
            "Split",
            "Sqrt",
            "Squeeze",
            "Sub",
            "Sum",
            "Tan",
            "Tanh",
            "Tile",
            "TopK",
            "Transpose",
            "Trilu",
            "Unsqueeze",
        ],
    ),
];

/// Operators of ONNX Runtime whose gradients read operands.
const MICROSOFT: &[&str] = &["Gelu", "QuickGelu"];

/// Returns what the gradient of an operator reads.
#[must_use]
pub fn gradient(operator: &Operator) -> Gradient {
    gradient_named(&operator.domain, &operator.name)
}

/// Returns what the gradient of the operator with this domain and name reads.
#[must_use]
pub fn gradient_named(domain: &str, name: &str) -> Gradient {
    match domain {
        "" => KNOWN
            .iter()
            .find(|(_, names)| names.contains(&name))
            .map_or(Gradient::None, |(gradient, _)| *gradient),
        "com.microsoft" if MICROSOFT.contains(&name) => Gradient::FromOperands,
        _ => Gradient::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::find;

    #[test]
    fn every_operator_is_in_the_table_and_stands_once() {
        let names: Vec<&str> = KNOWN.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(find("", name).is_some(), "{name} is not in the table");
            assert!(!names[..at].contains(name), "{name} stands twice");
        }
        for (_, names) in KNOWN {
            assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "names are not sorted");
        }
        assert!(MICROSOFT.iter().all(|name| find("com.microsoft", name).is_some()));
    }
}
