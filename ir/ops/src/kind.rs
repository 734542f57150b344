//! Fact of the operator table: the kind of kernel that runs a node. Kernels of one kind take time by one
//! law, which `memc calibrate` fits on a machine.

use std::sync::LazyLock;

use memc_ir::{Module, Node, Operator};
use rustc_hash::FxHashMap;

use crate::info::{OpInfo, Typed, View, Work};
use crate::table::all;

/// Least operations per element from which an operator counts as transcendental: table entries of `Exp`,
/// `Tanh` and `Pow` have 10 and more, `Sqrt` and `HardSwish` have 4.
const TRANSCENDENTAL: u32 = 10;

/// Kind of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum KernelKind {
    /// Product with one matrix on the right.
    Product,
    /// Products of a batch of matrices, each with a matrix of its own.
    BatchedProduct,
    /// Product of integers of 8 bits and less, also in convolutions.
    IntegerProduct,
    /// Convolution of images whose windows have one element: a product without rearranging.
    PointwiseConv,
    /// Other convolution.
    Conv,
    /// Convolution with a filter for each channel.
    DepthwiseConv,
    /// Convolution of images in blocks of channels.
    BlockConv,
    /// Convolution with a filter for each channel, of images in blocks of channels.
    BlockDepthwiseConv,
    /// Gradient of a convolution.
    ConvGradient,
    /// Attention as one node.
    Attention,
    /// Few operations on each element.
    Elementwise,
    /// Exponentials and similar functions of each element.
    Transcendental,
    /// Gaussian error linear units, whose kernels make a temporary.
    Gelu,
    /// Rounding of numbers to integers of few bits, and back.
    Quantize,
    /// Softmax and normalizations along an axis or over channels.
    Norm,
    /// Sum, maximum or similar along axes that include the last one.
    InnerReduction,
    /// Sum, maximum or similar along other axes.
    OuterReduction,
    /// Transpose that moves the last axis.
    InnerTranspose,
    /// Transpose that leaves the last axis in place.
    OuterTranspose,
    /// Copies of contiguous parts into one tensor, or out of it: Concat, Split, Slice.
    Parts,
    /// Lookups of rows or elements by position.
    Lookup,
    /// Moves between images whose channels lie apart, and images in blocks of channels.
    Reorder,
    /// Other move of elements.
    Copy,
    /// Pooling.
    Pool,
    /// Averages over windows by the kernel of operator set 19 and later, which has no vector unit.
    ScalarPool,
    /// Recurrent layer.
    Recurrent,
    /// A view: the kernel does nothing, or copies its operand.
    View,
    /// Every other kernel.
    Other,
}

/// Operators whose kind does not follow from other facts, by kind; names of the ONNX domain alone, others as
/// `domain::name`.
const KNOWN: &[(KernelKind, &[&str])] = &[
    (
        KernelKind::Product,
        &[
            "Einsum",
            "Gemm",
            "MatMul",
            "com.microsoft::FusedGemm",
            "com.microsoft::FusedMatMul",
            "com.microsoft::FusedMatMulActivation",
            "com.microsoft::GemmFastGelu",
            "com.microsoft::MatMulBnb4",
            "com.microsoft::MatMulNBits",
            "com.microsoft::TransposeMatMul",
        ],
    ),
    (
        KernelKind::IntegerProduct,
        &[
            "ConvInteger",
            "MatMulInteger",
            "QLinearConv",
            "QLinearMatMul",
            "com.microsoft::DynamicQuantizeMatMul",
            "com.microsoft::MatMulInteger16",
            "com.microsoft::MatMulIntegerToFloat",
            "com.microsoft::QAttention",
            "com.microsoft::QGemm",
            "com.microsoft::QLinearConv",
        ],
    ),
    (
        KernelKind::Conv,
        &[
            "Conv",
            "ConvTranspose",
            "DeformConv",
            "com.microsoft::ConvTransposeWithDynamicPads",
            "com.microsoft::FusedConv",
            "com.microsoft::NhwcConv",
            "com.microsoft::NhwcFusedConv",
        ],
    ),
    (KernelKind::BlockConv, &["com.microsoft.nchwc::Conv"]),
    (KernelKind::ConvGradient, &["com.microsoft::ConvGrad", "com.microsoft::ConvTransposeGrad"]),
    (
        KernelKind::Attention,
        &[
            "Attention",
            "com.microsoft::Attention",
            "com.microsoft::DecoderMaskedMultiHeadAttention",
            "com.microsoft::GroupQueryAttention",
            "com.microsoft::MultiHeadAttention",
        ],
    ),
    (
        KernelKind::Norm,
        &[
            "GroupNormalization",
            "InstanceNormalization",
            "LayerNormalization",
            "LogSoftmax",
            "LpNormalization",
            "MeanVarianceNormalization",
            "RMSNormalization",
            "SimplifiedLayerNormalization",
            "Softmax",
            "com.microsoft::BiasSoftmax",
            "com.microsoft::EmbedLayerNormalization",
            "com.microsoft::GroupNorm",
            "com.microsoft::LayerNormalizationGrad",
            "com.microsoft::SimplifiedLayerNormalization",
            "com.microsoft::SkipGroupNorm",
            "com.microsoft::SkipLayerNormalization",
            "com.microsoft::SkipSimplifiedLayerNormalization",
            "com.microsoft::SoftmaxGrad",
            "com.microsoft::SoftmaxGrad_13",
        ],
    ),
    (
        KernelKind::Pool,
        &[
            "AveragePool",
            "GlobalAveragePool",
            "GlobalLpPool",
            "GlobalMaxPool",
            "LpPool",
            "MaxPool",
            "com.microsoft.nchwc::AveragePool",
            "com.microsoft.nchwc::GlobalAveragePool",
            "com.microsoft.nchwc::GlobalMaxPool",
            "com.microsoft.nchwc::MaxPool",
            "AveragePoolGrad",
            "MaxPoolGrad",
            "com.microsoft::NhwcMaxPool",
        ],
    ),
    (
        KernelKind::Recurrent,
        &["GRU", "LSTM", "RNN", "com.microsoft::AttnLSTM", "com.microsoft::DynamicQuantizeLSTM"],
    ),
    (KernelKind::InnerTranspose, &["Transpose"]),
    (
        KernelKind::Gelu,
        &["Gelu", "com.microsoft::BiasGelu", "com.microsoft::FastGelu", "com.microsoft::Gelu"],
    ),
    (KernelKind::Quantize, &["DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"]),
    (KernelKind::Reorder, &["com.microsoft.nchwc::ReorderInput", "com.microsoft.nchwc::ReorderOutput"]),
    (KernelKind::Parts, &["Concat", "Slice", "Split"]),
    (KernelKind::Lookup, &["Gather", "GatherElements", "GatherND"]),
    (KernelKind::Elementwise, &["BatchNormalization", "Clip", "Max", "Mean", "Min", "Sum", "Where"]),
    (KernelKind::View, &["Constant", "Shape", "Size"]),
];

/// Kinds of all operators of the table. Searches ask for the kind of a node again and again.
static INDEX: LazyLock<FxHashMap<(&str, &str), KernelKind>> =
    LazyLock::new(|| all().iter().map(|info| ((info.domain, info.name), of_entry(info))).collect());

/// The kind of an operator's kernels, before extents and attributes are known.
fn of_entry(info: &OpInfo) -> KernelKind {
    let stated = |entry: &str| match entry.split_once("::") {
        Some((domain, name)) => (domain, name) == (info.domain, info.name),
        None => ("", entry) == (info.domain, info.name),
    };
    if let Some((kind, _)) = KNOWN.iter().find(|(_, names)| names.iter().any(|entry| stated(entry))) {
        return *kind;
    }
    match info.work {
        Work::None if info.view == View::Reshape => KernelKind::View,
        Work::None => KernelKind::Copy,
        Work::PerElement(each) if each < TRANSCENDENTAL => KernelKind::Elementwise,
        Work::PerElement(_) => KernelKind::Transcendental,
        Work::PerInputElement(_) if info.domain.is_empty() => KernelKind::InnerReduction,
        Work::PerInputElement(_) | Work::Flops(_) | Work::Bodies => KernelKind::Other,
    }
}

impl KernelKind {
    /// Number of kinds.
    pub const COUNT: usize = 28;

    /// All kinds with their names in files, in the order of the type.
    pub const ALL: [(&'static str, Self); Self::COUNT] = [
        ("product", Self::Product),
        ("batched-product", Self::BatchedProduct),
        ("integer-product", Self::IntegerProduct),
        ("pointwise-conv", Self::PointwiseConv),
        ("conv", Self::Conv),
        ("depthwise-conv", Self::DepthwiseConv),
        ("block-conv", Self::BlockConv),
        ("block-depthwise-conv", Self::BlockDepthwiseConv),
        ("conv-gradient", Self::ConvGradient),
        ("attention", Self::Attention),
        ("elementwise", Self::Elementwise),
        ("transcendental", Self::Transcendental),
        ("gelu", Self::Gelu),
        ("quantize", Self::Quantize),
        ("norm", Self::Norm),
        ("inner-reduction", Self::InnerReduction),
        ("outer-reduction", Self::OuterReduction),
        ("inner-transpose", Self::InnerTranspose),
        ("outer-transpose", Self::OuterTranspose),
        ("parts", Self::Parts),
        ("lookup", Self::Lookup),
        ("reorder", Self::Reorder),
        ("copy", Self::Copy),
        ("pool", Self::Pool),
        ("scalar-pool", Self::ScalarPool),
        ("recurrent", Self::Recurrent),
        ("view", Self::View),
        ("other", Self::Other),
    ];

    /// Returns the name in files.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }

    /// Returns the kind of a name; `None` for an unknown name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    /// Returns the kind of the kernel that runs a node, at the largest extents. O(1).
    pub fn of(module: &Module, node: Node) -> Self {
        let operator = &module.node(node).operator;
        let typed = Typed::largest(module, node);
        match Self::of_operator(&operator.domain, &operator.name) {
            Self::Product => product(&typed),
            Self::Conv => conv(&typed),
            Self::Pool if is_scalar(operator) => Self::ScalarPool,
            Self::BlockConv if is_depthwise(&typed, 1) => Self::BlockDepthwiseConv,
            Self::InnerTranspose => transpose(&typed),
            Self::InnerReduction => reduction(&typed),
            kind => kind,
        }
    }

    /// Returns the kind of an operator's kernels, before extents and attributes are known.
    fn of_operator(domain: &str, name: &str) -> Self {
        INDEX.get(&(domain, name)).copied().unwrap_or(Self::Other)
    }
}

/// The kind of a product: batched if its right operand has a batch of matrices.
fn product(typed: &Typed<'_>) -> KernelKind {
    match typed.input_dims(1) {
        Some(dims) if dims.len() > 2 && dims[..dims.len() - 2].iter().product::<u64>() > 1 => {
            KernelKind::BatchedProduct
        }
        _ => KernelKind::Product,
    }
}

/// The kind of a convolution of images whose channels lie apart.
fn conv(typed: &Typed<'_>) -> KernelKind {
    let is_plain = typed.data().operator.name.ends_with("Conv");
    match typed.input_dims(1) {
        _ if is_plain && is_depthwise(typed, 1) => KernelKind::DepthwiseConv,
        Some(filter) if is_plain && filter.len() > 2 && filter[2..].iter().all(|extent| *extent == 1) => {
            KernelKind::PointwiseConv
        }
        _ => KernelKind::Conv,
    }
}

/// Whether each channel has a filter of its own: the filter has one channel, and there are several groups.
fn is_depthwise(typed: &Typed<'_>, filter: usize) -> bool {
    let channels = typed.input_dims(filter).and_then(|dims| dims.get(1).copied());
    typed.data().int("group", 1) > 1 && channels == Some(1)
}

/// Whether a pooling has no vector unit: averages since operator set 19, measured with ONNX Runtime 1.32.
fn is_scalar(operator: &Operator) -> bool {
    operator.domain.is_empty() && &*operator.name == "AveragePool" && operator.version >= 19
}

/// The kind of a transpose. Without a permutation all axes are reversed.
fn transpose(typed: &Typed<'_>) -> KernelKind {
    let stays = typed
        .data()
        .ints("perm")
        .is_some_and(|perm| perm.last() == i64::try_from(perm.len() - 1).ok().as_ref());
    if stays { KernelKind::OuterTranspose } else { KernelKind::InnerTranspose }
}

/// The kind of a reduction, by the last extents of operand and result.
fn reduction(typed: &Typed<'_>) -> KernelKind {
    let (operand, result) =
        (typed.input_dims(0).unwrap_or_default(), typed.output_dims(0).unwrap_or_default());
    let keeps_last = operand.last().is_some_and(|last| *last > 1) && operand.last() == result.last();
    if keeps_last { KernelKind::OuterReduction } else { KernelKind::InnerReduction }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::table::all;

    fn kinds(graph: &str) -> Vec<&'static str> {
        let mut module =
            memc_ir::text::parse(&format!("mem 1\nir_version 10\nopset \"\" 13\n\n{graph}")).unwrap();
        crate::infer(&mut module);
        module.graph(module.main()).nodes.iter().map(|node| KernelKind::of(&module, *node).name()).collect()
    }

    #[test]
    fn names_are_unique_and_in_the_order_of_the_type() {
        for (position, (name, kind)) in KernelKind::ALL.into_iter().enumerate() {
            assert_eq!((kind as usize, kind.name(), KernelKind::named(name)), (position, name, Some(kind)));
        }
        assert_eq!(KernelKind::named("kernel"), None);
    }

    #[test]
    fn stated_operators_are_in_the_table_and_stand_once() {
        let mut seen = std::collections::BTreeSet::new();
        for name in KNOWN.iter().flat_map(|(_, names)| *names) {
            let (domain, operator) = name.split_once("::").unwrap_or(("", name));
            assert!(all().iter().any(|info| (info.domain, info.name) == (domain, operator)), "{name}");
            assert!(seen.insert(name), "{name} stands twice");
        }
    }

    #[test]
    fn kinds_of_operators_follow_from_the_table() {
        for (name, kind) in [
            ("Add", KernelKind::Elementwise),
            ("Relu", KernelKind::Elementwise),
            ("Exp", KernelKind::Transcendental),
            ("Gather", KernelKind::Lookup),
            ("Concat", KernelKind::Parts),
            ("Expand", KernelKind::Copy),
            ("Reshape", KernelKind::View),
            ("ReduceMean", KernelKind::InnerReduction),
            ("Loop", KernelKind::Other),
            ("Unheard", KernelKind::Other),
        ] {
            assert_eq!(KernelKind::of_operator("", name), kind, "{name}");
        }
        assert_eq!(KernelKind::of_operator("com.microsoft", "Conv"), KernelKind::Other);
    }

    #[test]
    fn extents_and_attributes_decide_between_kinds_of_one_operator() {
        let graph = "graph @g {\n  input %x : f32[1,4,8,8]\n  input %p : f32[4,4,1,1]\n  input %d : f32[4,1,3,3]\n  \
                     input %w : f32[4,4,3,3]\n  input %m : f32[8,8]\n  \
                     %a = Conv(%x, %p) : f32[1,4,8,8]\n  \
                     %b = Conv(%x, %d) {group = 4, pads = ints [1, 1, 1, 1]} : f32[1,4,8,8]\n  \
                     %c = Conv(%x, %w) {pads = ints [1, 1, 1, 1]} : f32[1,4,8,8]\n  \
                     %e = MatMul(%x, %m) : f32[1,4,8,8]\n  %f = MatMul(%x, %a) : f32[1,4,8,8]\n  \
                     %h = Transpose(%x) {perm = ints [0, 2, 1, 3]} : f32[1,8,4,8]\n  \
                     %i = Transpose(%x) {perm = ints [0, 1, 3, 2]} : f32[1,4,8,8]\n  %j = Transpose(%x) : f32[8,8,4,1]\n  \
                     %k = ReduceMax(%x) {axes = ints [3]} : f32[1,4,8,1]\n  %l = ReduceMax(%x) {axes = ints [1]} : f32[1,1,8,8]\n  \
                     return %a, %b, %c, %e, %f, %h, %i, %j, %k, %l\n}\n";
        assert_eq!(
            kinds(graph),
            [
                "pointwise-conv",
                "depthwise-conv",
                "conv",
                "product",
                "batched-product",
                "outer-transpose",
                "inner-transpose",
                "inner-transpose",
                "inner-reduction",
                "outer-reduction",
            ]
        );
    }
}
