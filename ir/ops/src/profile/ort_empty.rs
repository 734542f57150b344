//! Operators whose kernels in ONNX Runtime take operands without elements.
//!
//! A part of a division has no positions where an axis is shorter than the number of parts. Its nodes then
//! run on nothing. Each name was tested with an axis of extent 0 that parts may divide (`tests/empty`), in
//! ONNX Runtime 1.32. An operator that is not listed refuses such an operand, or was not tested:
//! GroupNormalization and SoftmaxCrossEntropyLoss refuse an empty batch, FusedMatMul refuses one that it
//! transposes, and LSTM ends the process.

/// Operators by domain, names separated by spaces, in order. With no element along an axis of their result,
/// their result has no elements either.
pub const TAKE_EMPTY: &[(&str, &str)] = &[
    (
        "",
        "Abs Acos Acosh Add And Asin Asinh Atan Atanh AveragePool BatchNormalization Cast Ceil Celu Clip \
         Concat Conv ConvInteger ConvTranspose Cos Cosh DepthToSpace DequantizeLinear Div Dropout Elu \
         Equal Erf Exp Expand Flatten Floor Gather GatherElements Gelu Gemm GlobalAveragePool \
         GlobalMaxPool Greater GreaterOrEqual HardSigmoid HardSwish Hardmax Identity InstanceNormalization \
         IsInf IsNaN LRN LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax MatMul MatMulInteger \
         Max MaxPool MaxUnpool Mean Min Mish Mod Mul Neg Not Or PRelu Pad Pow QLinearConv QLinearMatMul \
         QuantizeLinear RMSNormalization Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp \
         ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize Round \
         ScatterElements Selu Shrink Sigmoid Sign SimplifiedLayerNormalization Sin Sinh Slice Softmax \
         Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Tan Tanh ThresholdedRelu Transpose \
         Unsqueeze Where Xor",
    ),
    (
        "com.microsoft",
        "Attention BiasGelu DynamicQuantizeMatMul FastGelu FusedConv Gelu MatMulIntegerToFloat \
         MultiHeadAttention QGemm QLinearAdd QLinearAveragePool QLinearConcat QLinearGlobalAveragePool \
         QLinearLeakyRelu QLinearMul QLinearSigmoid QuickGelu RotaryEmbedding SkipLayerNormalization \
         SkipSimplifiedLayerNormalization",
    ),
    (
        "com.microsoft.nchwc",
        "AveragePool Conv GlobalAveragePool GlobalMaxPool MaxPool ReorderInput ReorderOutput Upsample",
    ),
];

/// Operators by domain, names separated by spaces, in order. A sum over an axis without elements is zero, or
/// what the node adds it to. Convolutions over no channels are missing: for some windows their kernel writes
/// nothing, for others it does not end.
pub const ADD_NOTHING: &[(&str, &str)] = &[
    ("", "Gemm MatMul ReduceSum ReduceSumSquare ScatterElements ScatterND"),
    ("com.microsoft", "FusedMatMul"),
];

/// Returns whether a table names an operator.
pub(crate) fn has(table: &[(&str, &str)], domain: &str, name: &str) -> bool {
    table.iter().any(|(own, names)| *own == domain && names.split(' ').any(|known| known == name))
}

#[cfg(test)]
mod tests {
    use memc_ir::Operator;

    use super::*;
    use crate::table::lookup;

    #[test]
    fn names_stand_in_order_and_are_known() {
        for table in [TAKE_EMPTY, ADD_NOTHING] {
            assert!(table.is_sorted_by_key(|(domain, _)| *domain));
            for (domain, names) in table {
                assert!(names.split(' ').is_sorted_by(|a, b| a < b), "{domain}");
                let operator = |name: &str| Operator { domain: (*domain).into(), ..Operator::onnx(name, 21) };
                let unknown: Vec<&str> =
                    names.split(' ').filter(|name| lookup(&operator(name)).is_none()).collect();
                assert!(unknown.is_empty(), "{unknown:?}");
                assert!(names.split(' ').all(|name| has(table, domain, name)));
            }
            assert!(!has(table, "", "LSTM") && !has(table, "", "FusedConv"));
        }
    }
}
