//! The operators that ONNX Runtime knows by name, with the first version of their operator set.
//!
//! A model may state a function under such a name. The ONNX specification leaves open what counts then;
//! ONNX Runtime runs its own operator, and reads the function only if it knows none of that name.

/// Operators by domain and by the first version of the operator set that has them, as ONNX Runtime
/// 1.31.1 lists them (`get_all_operator_schema`); names separated by spaces, in order.
pub const REGISTERED: &[(&str, i64, &str)] = &[
    (
        "",
        1,
        "Abs Add Affine And ArgMax ArgMin AveragePool BatchNormalization Cast Ceil Clip Concat Constant \
         Conv ConvTranspose Crop DepthToSpace DisentangledAttention_TRT Div Dropout DynamicSlice \
         EfficientNMS_TRT Elu Equal Exp Flatten Floor GRU GRUUnit Gather Gemm GivenTensorFill \
         GlobalAveragePool GlobalLpPool GlobalMaxPool Greater HardSigmoid Hardmax Identity If ImageScaler \
         InstanceNormalization LRN LSTM LayerNormalization LeakyRelu Less Log LogSoftmax Loop \
         LpNormalization LpPool MatMul Max MaxPool MaxRoiPool Mean MeanVarianceNormalization \
         MemcpyFromHost MemcpyToHost Min Mul MultilevelCropAndResize_TRT Neg Not Or PRelu Pad \
         ParametricSoftplus Pow PyramidROIAlign_TRT RNN RandomNormal RandomNormalLike RandomUniform \
         RandomUniformLike Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean \
         ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Scale ScaledTanh Selu Shape Sigmoid \
         SimplifiedLayerNormalization Size Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt \
         Squeeze Sub Sum Tanh ThresholdedRelu Tile TopK Transpose Unsqueeze Upsample Xor",
    ),
    ("", 7, "Acos Asin Atan Cos Multinomial Sin Tan"),
    ("", 8, "Expand Scan"),
    (
        "",
        9,
        "Acosh Asinh Atanh Compress ConstantOfShape Cosh Erf EyeLike IsNaN MaxUnpool NonZero OneHot \
         Scatter Shrink Sign Sinh TfIdfVectorizer Where",
    ),
    (
        "",
        10,
        "ConvInteger DequantizeLinear IsInf MatMulInteger Mod NonMaxSuppression QLinearConv QLinearMatMul \
         QuantizeLinear Resize ReverseSequence RoiAlign StringNormalizer",
    ),
    (
        "",
        11,
        "BitShift ConcatFromSequence CumSum Det DynamicQuantizeLinear GatherElements GatherND Range Round \
         ScatterElements ScatterND SequenceAt SequenceConstruct SequenceEmpty SequenceErase \
         SequenceInsert SequenceLength SplitToSequence Unique",
    ),
    ("", 12, "Celu Einsum GreaterOrEqual LessOrEqual NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss"),
    ("", 14, "HardSwish Trilu"),
    ("", 15, "Bernoulli CastLike Optional OptionalGetElement OptionalHasElement"),
    ("", 16, "GridSample"),
    ("", 17, "BlackmanWindow DFT HammingWindow HannWindow MelWeightMatrix STFT SequenceMap"),
    ("", 18, "BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CenterCropPad Col2Im GroupNormalization Mish"),
    ("", 19, "DeformConv"),
    ("", 20, "AffineGrid Gelu ImageDecoder RegexFullMatch StringConcat StringSplit"),
    ("", 23, "Attention RMSNormalization RotaryEmbedding"),
    ("", 24, "Swish TensorScatter"),
    ("", 26, "BitCast CumProd"),
    ("", 27, "CausalConvWithState LinearAttention"),
    (
        "ai.onnx.ml",
        1,
        "ArrayFeatureExtractor Binarizer CastMap CategoryMapper DictVectorizer FeatureVectorizer Imputer \
         LabelEncoder LinearClassifier LinearRegressor Normalizer OneHotEncoder SVMClassifier \
         SVMRegressor Scaler TreeEnsembleClassifier TreeEnsembleRegressor ZipMap",
    ),
    ("ai.onnx.ml", 5, "TreeEnsemble"),
    (
        "com.microsoft",
        1,
        "Attention AttnLSTM BeamSearch BiasAdd BiasDropout BiasGelu BiasSoftmax BiasSplitGelu \
         BifurcationDetector BitmaskBiasDropout BitmaskDropout BranchwiseRMSNorm CDist \
         CausalConvWithState ComplexMul ComplexMulConj ConvTransposeWithDynamicPads CropAndResize \
         DecoderAttention DecoderMaskedMultiHeadAttention DecoderMaskedSelfAttention DequantizeBFP \
         DequantizeLinear DequantizeWithOrder DynamicQuantizeLSTM DynamicQuantizeMatMul \
         DynamicSparseAttention DynamicTimeWarping EPContext EmbedLayerNormalization EngramGate \
         ExpandDims FastGelu FusedConv FusedGemm FusedMatMul FusedMatMulActivation GatedAdd GatedDeltaNet \
         GatedRMSNorm GatedRelativePositionBias GatherBlockQuantized GatherND Gelu GemmFastGelu \
         GemmFloat8 GemmaRotaryEmbedding GreedySearch GridSample GroupNorm GroupQueryAttention \
         HyperConnectionPostMix HyperConnectionPreMix Inverse Irfft IsAllFinite LinearAttention \
         LinearAttentionGate LongformerAttention MRotaryEmbedding MatMulBlockQuantizedFp4Weight \
         MatMulBlockQuantizedFp8Weight MatMulBnb4 MatMulFpQ4 MatMulInteger16 MatMulIntegerToFloat \
         MatMulNBits MatMulNBitsMlp MatMulNBitsQkv MaxpoolWithMask MoE MulInteger MultiHeadAttention \
         MurmurHash3 NGramHashMapping NGramRepeatBlock NhwcConv NhwcFusedConv NhwcMaxPool PackedAttention \
         PackedMultiHeadAttention PackedSparseAttentionIndexer Pad PagedAttention QAttention \
         QEmbedLayerNormalization QGemm QLinearAdd QLinearAveragePool QLinearConcat QLinearConv \
         QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearReduceMean QLinearSigmoid \
         QLinearSoftmax QLinearWhere QMoE QOrderedAttention QOrderedGelu QOrderedLayerNormalization \
         QOrderedLongformerAttention QOrderedMatMul QuantizeBFP QuantizeLinear QuantizeWithOrder \
         QuickGelu Range ReduceSumInteger RelativePositionBias RemovePadding RestorePadding Rfft \
         RotaryEmbedding SampleOp Sampling ScaledSiLU SkipGroupNorm SkipLayerNormalization \
         SkipSimplifiedLayerNormalization Snpe SparseAttention SparseAttentionIndexer \
         SparsePagedAttention SparseToDenseMatMul Tokenizer TorchEmbedding TransposeMatMul Trilu \
         UnfoldTensor Unique VarlenCausalConvWithState VarlenNGramHashMapping WhisperBeamSearch \
         WordConvEmbedding",
    ),
    (
        "com.microsoft.nchwc",
        1,
        "AveragePool Conv GlobalAveragePool GlobalMaxPool MaxPool ReorderInput ReorderOutput Upsample",
    ),
];

/// Whether ONNX Runtime has an operator of its own under this name in a version of the operator set.
pub fn registered(domain: &str, name: &str, version: i64) -> bool {
    let has = |names: &str| names.split(' ').any(|known| known == name);
    REGISTERED.iter().any(|(own, first, names)| *own == domain && *first <= version && has(names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_count_from_their_first_version_on() {
        assert!(registered("", "Relu", 1) && registered("", "Gelu", 20) && !registered("", "Gelu", 19));
        assert!(registered("com.microsoft", "SkipSimplifiedLayerNormalization", 1));
        assert!(!registered("pkg.torch", "Gelu", 1) && !registered("", "", 99), "an own domain, and no name");
    }

    #[test]
    fn groups_and_names_stand_in_order() {
        assert!(REGISTERED.is_sorted_by_key(|(domain, first, _)| (*domain, *first)));
        assert!(REGISTERED.iter().all(|(.., names)| names.split(' ').is_sorted()));
    }
}
