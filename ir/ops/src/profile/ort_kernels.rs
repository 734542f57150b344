//! The table of ONNX Runtime's CPU kernels: one row per operator whose kernel does more, or less, than
//! its table entry says.
//!
//! Measured with ONNX Runtime 1.31.1, unless a field says otherwise. A fact that no row states does not
//! hold, or is unknown. Every profile that runs these kernels reads this table.

use std::sync::LazyLock;

use memc_ir::ElementType;
use rustc_hash::FxHashMap;

use super::ort_temporaries as of;
use crate::families::contrib_workspace::{self, QUANTIZED_BUFFERS};
use crate::size::{Formula, GRANULARITY, Size};

/// Facts about the kernel of one operator.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// Domain of the operator; empty for the ONNX domain.
    pub domain: &'static str,
    /// Name of the operator.
    pub name: &'static str,
    /// Operand that the kernel overwrites with result 0.
    ///
    /// Measured not to run in place: Add Sub Mul Div Pow Max Min Sum Mean PRelu Exp Log Sqrt Neg Abs Erf
    /// Sin Floor Round Sign Reciprocal Not Hardmax Gelu Dropout, all normalizations, ScatterND, Where,
    /// and the Gelu operators of ONNX Runtime's own domain.
    pub in_place: Option<Overwrites>,
    /// Whether the kernel also writes over operand 0 if a session knows that both have equal extents, and
    /// then computes wrong results. Found by running all operators between copies, with and without
    /// stated extents.
    pub wrong_in_place: bool,
    /// Memory that the kernel holds in addition to the workspace formula of the table entry.
    pub(crate) temporaries: Option<Formula>,
    /// Whether there is a half-precision kernel, which needs no conversions.
    pub half_precision: bool,
    /// Whether the runtime has no kernel and replaces the node by several nodes, as seen in the model
    /// that a session without optimizations saves. In the priority order, these come after all nodes of
    /// the file, and so do the conversions around half-precision operators.
    pub expanded: bool,
    /// Size of the buffers that the kernel keeps from its first run on, in bytes per thread.
    pub keeps: u64,
    /// Whether the kernel repacks constant operands into a layout of its own, for speed.
    pub packs: bool,
    /// Whether the kernel writes a first result and then reads its operand again: an error function,
    /// hyperbolic tangent or logistic function over the whole tensor, then a product with the operand.
    /// On some processors another kernel does it in one pass.
    pub reads_again: bool,
    /// Whether the kernel sums elements in vectors of 16 bytes at aligned addresses, and single elements
    /// before the first aligned address. Another address gives other partial sums, and other last bits.
    /// Found by running 90 operators on operands at 8 to 16 addresses (x86-64).
    pub sums_by_address: bool,
    /// Whether the runtime applies the kernel to images in blocks of channels, too. Channels that fill
    /// up the last block hold zeros.
    pub blocks: bool,
    /// First version of the operator set from which the kernel moves or selects 8-bit integers in the
    /// way in which it moves floating-point numbers.
    pub moves_integers: Option<i64>,
    /// Element types of operand 0 that both the kernel supports and the operator's declaration allows,
    /// for operators outside the ONNX standard that rewriting may create.
    pub extension: Option<&'static [ElementType]>,
}

/// An operand that a kernel overwrites.
#[derive(Clone, Copy, Debug)]
pub struct Overwrites {
    /// Position of the operand.
    pub operand: usize,
    /// Element types of the operand; empty for all types.
    pub elements: &'static [ElementType],
}

impl Kernel {
    const fn of(domain: &'static str, name: &'static str) -> Self {
        Self {
            domain,
            name,
            in_place: None,
            wrong_in_place: false,
            temporaries: None,
            half_precision: false,
            expanded: false,
            keeps: 0,
            packs: false,
            reads_again: false,
            sums_by_address: false,
            blocks: false,
            moves_integers: None,
            extension: None,
        }
    }
    const fn in_place(mut self, operand: usize, elements: &'static [ElementType]) -> Self {
        self.in_place = Some(Overwrites { operand, elements });
        self
    }
    const fn wrong_in_place(mut self) -> Self {
        self.wrong_in_place = true;
        self
    }
    const fn temporaries(mut self, formula: Formula) -> Self {
        self.temporaries = Some(formula);
        self
    }
    const fn half_precision(mut self) -> Self {
        self.half_precision = true;
        self
    }
    const fn expanded(mut self) -> Self {
        self.expanded = true;
        self
    }
    const fn keeps(mut self, bytes: u64) -> Self {
        self.keeps = bytes;
        self
    }
    const fn packs(mut self) -> Self {
        self.packs = true;
        self
    }
    const fn reads_again(mut self) -> Self {
        self.reads_again = true;
        self
    }
    const fn sums_by_address(mut self) -> Self {
        self.sums_by_address = true;
        self
    }
    const fn blocks(mut self) -> Self {
        self.blocks = true;
        self
    }
    const fn moves_integers(mut self, version: i64) -> Self {
        self.moves_integers = Some(version);
        self
    }
    const fn extension(mut self, elements: &'static [ElementType]) -> Self {
        self.extension = Some(elements);
        self
    }
}

/// Rows by domain and name.
static INDEX: LazyLock<FxHashMap<(&str, &str), &Kernel>> =
    LazyLock::new(|| KERNELS.iter().map(|kernel| ((kernel.domain, kernel.name), kernel)).collect());

/// Returns the row of an operator; `None` if its kernel agrees with the table entry. O(1).
pub fn ort_kernel(domain: &str, name: &str) -> Option<&'static Kernel> {
    INDEX.get(&(domain, name)).copied()
}

const fn onnx(name: &'static str) -> Kernel {
    Kernel::of("", name)
}

const fn microsoft(name: &'static str) -> Kernel {
    Kernel::of("com.microsoft", name)
}

/// All element types; Cast works in place between any two types of equal width.
const ANY: &[ElementType] = &[];
const FLOAT: &[ElementType] = &[ElementType::Float];
const FLOATS: &[ElementType] = &[ElementType::Float, ElementType::Double];
const HALF: &[ElementType] = &[ElementType::Float, ElementType::Float16];
const HALF_TO_DOUBLE: &[ElementType] = &[ElementType::Float, ElementType::Double, ElementType::Float16];
const BYTES: &[ElementType] = &[ElementType::Int8, ElementType::Uint8];
/// Element types with a kernel of Relu. In half precision it runs as the larger of its operand and zero.
const RELU: &[ElementType] =
    &[ElementType::Float, ElementType::Double, ElementType::Int8, ElementType::Int32];

/// The table, sorted by domain and name.
///
/// ONNX Runtime puts SimplifiedLayerNormalization into the ONNX domain, although the standard lacks it.
/// The two normalizations that first add a skip input have kernels for doubles, but their declarations
/// do not allow doubles. Operand 0 of QLinearConcat is the scale of the result.
pub(super) static KERNELS: &[Kernel] = &[
    onnx("Add").blocks(),
    onnx("Attention").temporaries(of::attention).half_precision().packs(),
    onnx("BatchNormalization").temporaries(of::batch_normalization),
    onnx("BitCast").half_precision(),
    onnx("Cast").in_place(0, ANY).half_precision(),
    onnx("CastLike").expanded(),
    onnx("Celu").in_place(0, FLOAT),
    onnx("CenterCropPad").temporaries(of::crop_and_pad).expanded(),
    onnx("Clip").in_place(0, ANY).half_precision().blocks(),
    onnx("Compress").half_precision(),
    onnx("Concat").half_precision(),
    onnx("ConstantOfShape").half_precision(),
    onnx("ConvInteger").temporaries(contrib_workspace::integer_convolution).keeps(QUANTIZED_BUFFERS),
    onnx("ConvTranspose").packs(),
    onnx("DFT").temporaries(of::fourier),
    onnx("DeformConv").temporaries(of::deformable),
    onnx("DepthToSpace").moves_integers(1),
    onnx("DequantizeLinear").half_precision(),
    onnx("Einsum").temporaries(of::einsum).sums_by_address(),
    onnx("Elu").in_place(0, FLOAT).temporaries(|node| of::steps_in_half(node, 11)),
    onnx("Expand").half_precision().moves_integers(1),
    onnx("Flatten").moves_integers(1),
    onnx("GRU").packs(),
    onnx("Gather").half_precision().moves_integers(1),
    onnx("GatherElements").half_precision(),
    onnx("GatherND").half_precision(),
    onnx("Gelu").temporaries(of::gelu).reads_again().blocks(),
    onnx("Gemm").packs(),
    onnx("GreaterOrEqual").temporaries(of::two_comparisons),
    onnx("GroupNormalization").temporaries(of::group_normalization).expanded(),
    onnx("HardSigmoid")
        .in_place(0, FLOAT)
        .temporaries(|node| of::steps_in_half(node.only_numbers()?, 0))
        .blocks(),
    onnx("HardSwish").temporaries(|node| Some(of::results(node, 1) + GRANULARITY)).expanded().blocks(),
    onnx("Hardmax").temporaries(of::moved_axis),
    onnx("InstanceNormalization").sums_by_address(),
    onnx("IsInf").half_precision(),
    onnx("IsNaN").half_precision(),
    onnx("LRN").temporaries(|_| Some(Size::from(GRANULARITY))),
    onnx("LSTM").packs(),
    onnx("LayerNormalization").temporaries(of::full_statistics).half_precision(),
    onnx("LeakyRelu").in_place(0, FLOAT).temporaries(|node| of::steps_in_half(node, 11)).blocks(),
    onnx("LessOrEqual").temporaries(of::two_comparisons),
    onnx("LogSoftmax").in_place(0, FLOAT).temporaries(of::softmax),
    onnx("MatMul").packs(),
    onnx("MatMulInteger").temporaries(contrib_workspace::quantized_product).keeps(QUANTIZED_BUFFERS).packs(),
    onnx("Max").temporaries(of::several).half_precision(),
    onnx("MaxPool").moves_integers(12),
    onnx("Mean").temporaries(of::several),
    onnx("MeanVarianceNormalization").temporaries(of::mean_variance),
    onnx("Min").temporaries(of::several).half_precision(),
    onnx("Mish").temporaries(|node| Some(of::results(node, 1))).expanded(),
    onnx("Mod").half_precision(),
    onnx("Mul").blocks(),
    onnx("NegativeLogLikelihoodLoss").temporaries(of::likelihood).expanded(),
    onnx("PRelu").temporaries(of::sloped),
    onnx("QLinearConv")
        .temporaries(contrib_workspace::quantized_convolution)
        .keeps(QUANTIZED_BUFFERS)
        .packs(),
    onnx("QLinearMatMul")
        .temporaries(contrib_workspace::requantized_product)
        .keeps(QUANTIZED_BUFFERS)
        .packs(),
    onnx("QuantizeLinear").half_precision(),
    onnx("RMSNormalization").temporaries(of::full_statistics).half_precision(),
    onnx("ReduceL1").temporaries(|node| of::powers_in_half(node, 1)),
    onnx("ReduceL2").temporaries(|node| of::powers_in_half(node, 1)),
    onnx("ReduceLogSumExp").temporaries(|node| of::powers_in_half(node, 3)),
    onnx("ReduceMean").sums_by_address(),
    onnx("ReduceSum").sums_by_address(),
    onnx("ReduceSumSquare").temporaries(|node| of::powers_in_half(node, 1)),
    onnx("Relu")
        .in_place(0, RELU)
        .temporaries(|node| Some(Size::from(if of::is_half(node) { GRANULARITY } else { 0 })))
        .half_precision()
        .blocks(),
    onnx("Reshape").moves_integers(1),
    onnx("Resize").temporaries(of::resize),
    onnx("ReverseSequence").half_precision(),
    onnx("Round").half_precision(),
    onnx("STFT").temporaries(of::framed_fourier),
    onnx("Scatter").in_place(0, ANY).half_precision(),
    onnx("ScatterElements").in_place(0, ANY).half_precision(),
    onnx("ScatterND").half_precision(),
    onnx("Selu").in_place(0, FLOAT).temporaries(|node| of::steps_in_half(node, 11)),
    onnx("SequenceMap").expanded(),
    onnx("Shape").half_precision(),
    onnx("Shrink").in_place(0, ANY).half_precision(),
    onnx("Sigmoid").in_place(0, FLOATS).blocks(),
    onnx("Sign").half_precision(),
    onnx("SimplifiedLayerNormalization")
        .temporaries(of::full_statistics)
        .half_precision()
        .extension(HALF_TO_DOUBLE),
    onnx("Slice").moves_integers(1),
    onnx("Softmax").in_place(0, FLOAT).temporaries(of::softmax),
    onnx("SoftmaxCrossEntropyLoss").temporaries(of::cross_entropy).expanded(),
    onnx("Softplus").in_place(0, FLOAT),
    onnx("Softsign").in_place(0, FLOAT).temporaries(|node| of::steps_in_half(node, 2)),
    onnx("SpaceToDepth").moves_integers(1),
    onnx("Squeeze").moves_integers(1),
    onnx("Sub").blocks(),
    onnx("Sum").temporaries(of::several).blocks(),
    onnx("Swish").temporaries(|node| Some(of::results(node, 1) + GRANULARITY)).expanded(),
    onnx("Tanh").in_place(0, FLOATS).blocks(),
    onnx("TensorScatter").in_place(0, ANY).half_precision(),
    onnx("ThresholdedRelu").in_place(0, FLOAT).temporaries(|node| of::steps_in_half(node, 7)),
    onnx("Tile").moves_integers(1),
    onnx("Transpose").half_precision().moves_integers(1),
    onnx("Unsqueeze").moves_integers(1),
    onnx("Upsample").temporaries(of::resize),
    onnx("Where").temporaries(of::choices),
    Kernel::of("ai.onnx.ml", "Normalizer").wrong_in_place(),
    microsoft("Attention").half_precision().packs().extension(FLOAT),
    microsoft("BiasGelu").extension(FLOAT),
    microsoft("DequantizeLinear").half_precision(),
    microsoft("DynamicQuantizeLSTM").keeps(QUANTIZED_BUFFERS).packs(),
    microsoft("DynamicQuantizeMatMul").keeps(QUANTIZED_BUFFERS).packs(),
    microsoft("FastGelu").reads_again().extension(FLOAT),
    microsoft("FusedConv").in_place(3, FLOAT).extension(FLOAT),
    microsoft("FusedGemm").packs().extension(FLOAT),
    microsoft("FusedMatMul").packs().extension(FLOAT),
    microsoft("GatherND").half_precision(),
    microsoft("Gelu").reads_again().blocks().extension(FLOAT),
    microsoft("MatMulBnb4").packs(),
    microsoft("MatMulIntegerToFloat").keeps(QUANTIZED_BUFFERS).packs().extension(BYTES),
    microsoft("MatMulNBits").packs().extension(FLOAT),
    microsoft("MultiHeadAttention").extension(FLOAT),
    microsoft("QAttention").keeps(QUANTIZED_BUFFERS).packs(),
    microsoft("QGemm").keeps(QUANTIZED_BUFFERS).packs().extension(BYTES),
    microsoft("QLinearAdd").extension(BYTES),
    microsoft("QLinearAveragePool").extension(BYTES),
    microsoft("QLinearConcat").extension(FLOAT),
    microsoft("QLinearConv").keeps(QUANTIZED_BUFFERS).packs(),
    microsoft("QLinearGlobalAveragePool").extension(BYTES),
    microsoft("QLinearLeakyRelu").extension(BYTES),
    microsoft("QLinearMul").extension(BYTES),
    microsoft("QLinearSigmoid").extension(BYTES),
    microsoft("QuantizeLinear").half_precision(),
    microsoft("QuickGelu").reads_again().blocks().extension(FLOAT),
    microsoft("RotaryEmbedding").extension(FLOAT),
    microsoft("SimplifiedLayerNormalization").half_precision(),
    microsoft("SkipLayerNormalization").extension(HALF),
    microsoft("SkipSimplifiedLayerNormalization").extension(HALF),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::find;

    #[test]
    fn rows_are_sorted_and_name_operators_of_the_operator_table() {
        for pair in KERNELS.windows(2) {
            let [left, right] = [0, 1].map(|at| (pair[at].domain, pair[at].name));
            assert!(left < right, "{right:?} is not in its place");
        }
        for kernel in KERNELS {
            assert!(
                find(kernel.domain, kernel.name).is_some(),
                "{}::{} is not in the table",
                kernel.domain,
                kernel.name
            );
        }
    }

    /// Blocks are filled up with zeros, which must stay finite.
    #[test]
    fn operators_in_blocks_are_finite_at_zero() {
        for kernel in KERNELS.iter().filter(|kernel| kernel.blocks) {
            let algebra = find(kernel.domain, kernel.name).and_then(|info| info.algebra);
            assert!(
                algebra.is_some_and(|algebra| algebra.at_zero != crate::AtZero::Unknown),
                "{}",
                kernel.name
            );
        }
    }
}
