//! Law of workspace: over symbols, every formula of both tables gives at all extents at least the bytes that
//! it gives over numbers.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{Attribute, Module, Node};

use super::ort_kernels::KERNELS;
use super::tests::graph_of;
use super::*;
use crate::table;

/// Result of a formula over symbols.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Over {
    /// The bytes at all extents.
    Exact,
    /// An upper bound of the bytes.
    Bound,
    /// Nothing: it holds for numbers only.
    Nothing,
}
use Over::{Bound, Exact, Nothing};

/// Operators that share a sample, operands and results with symbols, attributes, and the result over symbols.
type Sample = (&'static str, &'static str, &'static str, &'static str, Over);

const WINDOW: &str = "pads=1,1,1,1";
const CACHE: &str = "f32[N,2,T,8] f32[N,2,T,8]";

/// Samples of the operator table.
const WORKSPACE: &[Sample] = &[
    (
        "ms:BiasGelu ms:BiasGeluGrad_dX ms:BiasFastGeluGrad_dX",
        "f32[N,S,12] f32[12]",
        "f32[N,S,12]",
        "",
        Exact,
    ),
    ("ms:FastGelu", "f16[N,S,12]", "f16[N,S,12]", "", Exact),
    ("Conv", "f32[N,3,S,T] f32[64,3,3,3]", "f32[N,64,S,T]", WINDOW, Exact),
    ("Conv", "f32[N,8,S,T] f32[96,8,1,1]", "f32[N,96,S,T]", "", Exact),
    ("Conv", "f32[N,8,S,T] f32[96,8,1,1]", "f32[N,96,S,T]", "strides=2,2", Exact),
    ("Conv", "f32[N,2,S] f32[12,1,5]", "f32[N,12,S]", "group=2 pads=2,2", Exact),
    ("Conv", "f64[N,4,S,T] f64[8,4,3,3]", "f64[N,8,S,T]", WINDOW, Exact),
    ("Conv", "f32[N,4,S,T,3,3] f32[8,4,1,1,1,1]", "f32[N,8,S,T,3,3]", "", Exact),
    ("Conv", "f32[N,1,S,T] f32[40,1,3,7]", "f32[N,40,S,T]", "", Bound),
    ("Conv", "f32[N,1,S,7] f32[40,1,3,7]", "f32[N,40,S,1]", "", Exact),
    ("Conv", "f32[N,1,S,T] f32[1,1,3,3]", "f32[N,1,S,T]", WINDOW, Bound),
    ("ms:FusedConv", "f16[N,3,S,T] f16[64,3,3,3]", "f16[N,64,S,T]", "", Bound),
    (
        "ConvTranspose ms:ConvTransposeWithDynamicPads",
        "f32[N,8,S,T] f32[8,4,2,2]",
        "f32[N,4,S,T]",
        "strides=2,2",
        Exact,
    ),
    ("LRN", "f32[N,8,S,T]", "f32[N,8,S,T]", "size=5", Exact),
    ("LSTM", "f32[S,N,6] f32[1,32,6] f32[1,32,8]", "f32[S,1,N,8]", "", Exact),
    (
        "LSTM",
        "f32[S,N,6] f32[2,32,6] f32[2,32,8] f32[2,64]",
        "f32[S,2,N,8] f32[2,N,8] f32[2,N,8]",
        "direction=bidirectional",
        Exact,
    ),
    ("GRU", "f32[S,N,6] f32[1,24,6] f32[1,24,8] f32[1,48]", "f32[S,1,N,8]", "linear_before_reset=1", Exact),
    ("RNN", "f32[N,S,6] f32[1,8,6] f32[1,8,8]", "f32[N,S,1,8]", "layout=1", Exact),
    ("ms:QLinearAveragePool", "u8[N,4,S,T] f32[] u8[] f32[] u8[]", "u8[N,4,S,T]", "kernel_shape=2,2", Exact),
    ("ms:NhwcMaxPool", "u8[N,S,T,8]", "u8[N,S,T,8]", "kernel_shape=2,2 strides=2,2", Exact),
    (
        "ms:MultiHeadAttention ms:DecoderAttention ms:DecoderMaskedMultiHeadAttention ms:LinearAttention ms:LongformerAttention \
         ms:PackedMultiHeadAttention ms:QOrderedAttention ms:QOrderedLongformerAttention",
        "f32[N,S,32] f32[N,T,32] f32[N,T,32]",
        "f32[N,S,32]",
        "num_heads=4",
        Exact,
    ),
    (
        "ms:MultiHeadAttention",
        "f32[N,S,32] f32[N,T,32] f32[N,T,32] f32[96] - f32[N,4,S,T]",
        "f32[N,S,32]",
        "num_heads=4",
        Exact,
    ),
    ("ms:MultiHeadAttention", "f32[N,S,32] f32[N,4,T,8] f32[N,4,T,8]", "f32[N,S,32]", "num_heads=4", Exact),
    (
        "ms:Attention ms:DecoderMaskedSelfAttention ms:PackedAttention ms:QAttention",
        "f32[N,S,32] f32[32,96] f32[96] - f32[2,N,4,T,8]",
        "f32[N,S,32]",
        "num_heads=4",
        Exact,
    ),
    (
        "ms:GroupQueryAttention ms:DynamicSparseAttention ms:PagedAttention ms:SparseAttention ms:SparsePagedAttention",
        "f32[N,S,32] f32[N,S,16] f32[N,S,16] CACHE",
        "f32[N,S,32]",
        "num_heads=4 kv_num_heads=2",
        Exact,
    ),
    (
        "ms:GroupQueryAttention",
        "f32[N,S,32] f32[N,S,16] f32[N,S,16]",
        "f32[N,S,32] CACHE",
        "num_heads=4 kv_num_heads=2",
        Exact,
    ),
    (
        "ms:GroupQueryAttention",
        "f32[N,S,32] f32[N,S,16] f32[N,S,16] CACHE",
        "f32[N,S,32]",
        "num_heads=4 kv_num_heads=2 do_rotary=1 smooth_softmax=1",
        Exact,
    ),
    (
        "ms:ConvGrad",
        "f32[N,8,S,T] f32[N,3,S,T] f32[8,3,3,3]",
        "f32[N,3,S,T] f32[8,3,3,3] f32[8]",
        WINDOW,
        Exact,
    ),
    (
        "Attention ai.onnx.preview:FlexAttention",
        "f32[N,4,S,8] f32[N,4,T,8] f32[N,4,T,8]",
        "f32[N,4,S,8]",
        "is_causal=1",
        Exact,
    ),
    (
        "Attention",
        "f32[N,S,32] f32[N,T,32] f32[N,T,32]",
        "f32[N,S,32]",
        "q_num_heads=4 kv_num_heads=4",
        Bound,
    ),
    (
        "ms:QLinearConv",
        "u8[N,3,S,T] f32[] u8[] u8[16,3,3,3] f32[] u8[] f32[] u8[]",
        "u8[N,16,S,T]",
        WINDOW,
        Bound,
    ),
    (
        "ms:QLinearConv",
        "u8[N,6,S,T] f32[] u8[] u8[6,1,3,3] f32[] u8[] f32[] u8[]",
        "u8[N,6,S,T]",
        "group=6",
        Bound,
    ),
    (
        "ms:QLinearConv",
        "u8[N,8,S,T] f32[] u8[] const:i8[16,8,3,3] f32[] u8[] f32[] u8[]",
        "u8[N,16,S,T]",
        WINDOW,
        Bound,
    ),
    (
        "ms:QLinearConv",
        "u8[N,S,T,4] f32[] u8[] u8[8,4,1,1] f32[] u8[] f32[] u8[]",
        "u8[N,S,T,8]",
        "channels_last=1",
        Bound,
    ),
    ("ms:DynamicQuantizeMatMul", "f32[N,S,64] u8[64,T] f32[] u8[]", "f32[N,S,T]", "", Exact),
    ("ms:MatMulNBits", "f32[N,S,64] u8[1] f32[1]", "f32[N,S,8]", "K=64 N=8", Exact),
    ("ms:MatMulNBits", "f32[N,64] u8[1] f32[1]", "f32[N,8]", "K=64 N=8 accuracy_level=4", Exact),
    ("ms:QGemm", "u8[N,64] f32[] u8[] u8[64,T] f32[] u8[] - f32[] u8[]", "u8[N,T]", "", Exact),
    ("ms:QGemm", "u8[N,64] f32[] u8[] u8[64,T] f32[] u8[]", "f32[N,T]", "", Exact),
    ("ms:QLinearSoftmax", "u8[N,S,64] f32[] u8[] f32[] u8[]", "u8[N,S,64]", "axis=0", Exact),
    ("ms:QLinearSoftmax", "u8[N,S,64] f32[] u8[] f32[] u8[]", "u8[N,S,64]", "axis=2", Exact),
    ("ms:QLinearWhere", "bool[N,S] u8[N,S] f32[] u8[] u8[N,S] f32[] u8[] f32[] u8[]", "u8[N,S]", "", Exact),
    ("ms:MatMulIntegerToFloat", "u8[N,S,64] u8[64,T] f16[] f16[]", "f16[N,S,T]", "", Nothing),
    (
        "ms:DynamicQuantizeLSTM",
        "f32[S,N,32] i8[1,32,256] i8[1,64,256]",
        "f32[S,1,N,64]",
        "hidden_size=64",
        Nothing,
    ),
];

/// Samples of the table of ONNX Runtime's kernels.
const TEMPORARIES: &[Sample] = &[
    ("Max Min Sum Mean", "f32[N,S,7] f32[N,S,7] f32[N,S,7]", "f32[N,S,7]", "", Exact),
    ("Max Min Sum Mean", "f16[N,S,7] f16[N,S,7] f16[N,S,7]", "f16[N,S,7]", "", Exact),
    ("HardSwish Swish Mish", "f16[N,S,7]", "f16[N,S,7]", "", Exact),
    ("HardSwish Swish Mish", "f32[N,S,7]", "f32[N,S,7]", "", Exact),
    ("Where", "bool[N,1,7] f32[N,S,7] f32[S,1]", "f32[N,S,7]", "", Exact),
    ("Where", "bool[N,S,7] f16[] f16[N,S,7]", "f16[N,S,7]", "", Exact),
    ("Hardmax Softmax LogSoftmax", "f32[N,S,7]", "f32[N,S,7]", "axis=1", Exact),
    ("Hardmax Softmax LogSoftmax", "f32[N,S,7]", "f32[N,S,7]", "axis=2", Exact),
    ("Softmax LogSoftmax", "f16[N,S]", "f16[N,S]", "axis=1", Exact),
    ("Hardmax", "f16[N,S,3]", "f16[N,S,3]", "axis=0", Exact),
    ("Softmax LogSoftmax", "f16[N,S,3]", "f16[N,S,3]", "axis=1", Exact),
    ("Softmax LogSoftmax", "f16[S,N]", "f16[S,N]", "axis=1", Bound),
    ("MeanVarianceNormalization", "f32[N,3,S,S]", "f32[N,3,S,S]", "", Exact),
    ("Einsum", "f32[N,S] f32[S,9]", "f32[N,9]", "", Exact),
    ("Attention", "f32[N,4,S,8] f32[N,4,S,8] f32[N,4,S,8]", "f32[N,4,S,8]", "is_causal=1", Exact),
    ("Attention", "f32[N,4,S,8] f32[N,4,S,8] f32[N,4,S,8] bool[N,1,S,S]", "f32[N,4,S,8]", "", Exact),
    ("Attention", "f16[N,4,S,8] f16[N,4,5,8] f16[N,4,5,8]", "f16[N,4,S,8]", "", Exact),
    ("Elu Selu LeakyRelu Softsign ThresholdedRelu", "f16[N,S,7]", "f16[N,S,7]", "", Exact),
    ("Gelu", "f16[N,S,7]", "f16[N,S,7]", "", Exact),
    ("Gelu", "f16[N,S,7]", "f16[N,S,7]", "approximate=tanh", Exact),
    ("PRelu", "i32[N,S] i32[S]", "i32[N,S]", "", Exact),
    ("GreaterOrEqual LessOrEqual", "f16[N,S,7] f16[N,S,7]", "bool[N,S,7]", "", Exact),
    ("ReduceL1 ReduceL2 ReduceLogSumExp ReduceSumSquare", "f16[N,S,7] i64[1]", "f16[N,7]", "", Exact),
    ("GroupNormalization", "f32[N,8,S,S] f32[8] f32[8]", "f32[N,8,S,S]", "num_groups=4", Exact),
    ("NegativeLogLikelihoodLoss", "f32[N,5] i64[N]", "f32[]", "", Exact),
    ("NegativeLogLikelihoodLoss", "f32[N,5] i64[N]", "f32[]", "ignore_index=1", Exact),
    ("ConvInteger", "u8[N,3,S,S] u8[4,3,3,3]", "i32[N,4,S,S]", "", Exact),
    (
        "QLinearConv",
        "u8[N,3,S,T] f32[] u8[] u8[16,3,3,3] f32[] u8[] f32[] u8[]",
        "u8[N,16,S,T]",
        WINDOW,
        Bound,
    ),
    ("QLinearMatMul", "u8[N,S,64] f32[] u8[] u8[64,T] f32[] u8[] f32[] u8[]", "u8[N,S,T]", "", Exact),
    ("MatMulInteger", "u8[N,S,64] u8[64,T]", "i32[N,S,T]", "", Exact),
    ("Resize Upsample", "f32[N,3,S,T] - f32[4]", "f32[N,3,S,T]", "mode=linear", Exact),
    ("Resize Upsample", "f32[N,3,S,T] - f32[4]", "f32[N,3,S,T]", "mode=cubic", Exact),
    ("Resize", "f32[N,3,S,T] - f32[4]", "f32[N,3,S,T]", "mode=linear antialias=1", Nothing),
    ("LRN Relu", "f16[N,8,S]", "f16[N,8,S]", "", Exact),
    ("HardSigmoid", "f16[N,S]", "f16[N,S]", "", Nothing),
    (
        "BatchNormalization",
        "f32[N,S,T] f32[S] f32[S] f32[S] f32[S]",
        "f32[N,S,T]",
        "training_mode=1",
        Nothing,
    ),
    (
        "LayerNormalization RMSNormalization SimplifiedLayerNormalization",
        "f16[N,S] f16[S]",
        "f16[N,S]",
        "",
        Nothing,
    ),
    ("CenterCropPad", "f32[N,S] i64[2]", "f32[N,T]", "", Nothing),
    ("DFT", "f32[N,S,2]", "f32[N,S,2]", "", Nothing),
    ("STFT", "f32[N,S,1] i64[] f32[T]", "f32[N,6,S,2]", "", Nothing),
    ("DeformConv", "f32[N,16,S,T] f32[16,16,3,3] f32[N,18,S,T]", "f32[N,16,S,T]", "", Nothing),
    ("SoftmaxCrossEntropyLoss", "f32[N,5] i64[N]", "f32[]", "", Nothing),
];

/// Returns domain and name of an operator of a sample.
fn named(text: &str) -> (&str, &str) {
    let (domain, name) = text.split_once(':').unwrap_or(("", text));
    (if domain == "ms" { "com.microsoft" } else { domain }, name)
}

fn attribute(text: &str) -> (String, Attribute) {
    let (name, value) = text.split_once('=').unwrap();
    let integers: Result<Vec<i64>, _> = value.split(',').map(str::parse).collect();
    let value = match integers {
        Ok(one) if one.len() == 1 => Attribute::Int(one[0]),
        Ok(several) => Attribute::Ints(several),
        Err(_) => Attribute::String(value.as_bytes().to_vec().into()),
    };
    (name.to_owned(), value)
}

/// Makes the node of a sample with these extents in place of symbols.
fn node(operator: (&str, &str), sample: &Sample, extents: &BTreeMap<String, u64>) -> (Module, Node) {
    let types = |text: &str| -> Vec<String> {
        let bind = |text: &str| {
            let (start, dims) = text.split_once('[').unwrap_or((text, ""));
            let dims = extents
                .iter()
                .fold(dims.to_owned(), |dims, (name, extent)| dims.replace(name, &extent.to_string()));
            if start == "-" { String::new() } else { format!("{}[{dims}", start.replace(':', " ")) }
        };
        text.replace("CACHE", CACHE).split_whitespace().map(bind).collect()
    };
    let attributes = sample.3.split_whitespace().map(attribute).collect();
    graph_of(operator, &types(sample.1), &types(sample.2), attributes)
}

/// Compares expression and numbers of a node at pseudo-random extents.
fn check(operator: (&str, &str), sample: &Sample, profile: &Profile) {
    let (module, symbolic) = node(operator, sample, &BTreeMap::new());
    let over = profile.workspace_over(&Typed::of(&module, symbolic));
    assert_eq!(over.is_none(), sample.4 == Nothing, "{sample:?}");
    let mut state = 7u64;
    for turn in 0..200 {
        let extents = ["N", "S", "T"].map(|name| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let most = [3, 9, 40, 200][turn % 4];
            (name.to_owned(), (state >> 33) % most + u64::from(turn > 20 || name != "N"))
        });
        let extents = BTreeMap::from(extents);
        let (module, node) = node(operator, sample, &extents);
        let number = i64::try_from(profile.workspace(&Typed::of(&module, node)).unwrap().0).unwrap();
        let Some(over) = &over else { continue };
        let value = over.bind(&extents).unwrap().as_constant().unwrap();
        assert!(value >= number, "{operator:?} {sample:?} at {extents:?}: {value} is below {number}");
        assert!(
            sample.4 == Bound || value == number,
            "{operator:?} {sample:?} at {extents:?}: {value} for {number}"
        );
    }
}

/// Checks all samples, and that each of these rows has one.
fn check_all(
    samples: &[Sample],
    profile: &Profile,
    rows: impl Iterator<Item = (&'static str, &'static str)>,
) {
    let mut sampled = BTreeSet::new();
    for sample in samples {
        for operator in sample.0.split_whitespace().map(named) {
            check(operator, sample, profile);
            sampled.insert(operator);
        }
    }
    assert_eq!(rows.filter(|row| !sampled.contains(row)).collect::<Vec<_>>(), []);
}

#[test]
fn workspace_over_symbols_bounds_the_numbers() {
    let rows =
        table::all().iter().filter(|info| info.workspace.is_some()).map(|info| (info.domain, info.name));
    check_all(WORKSPACE, &Profile::ARENA, rows);
}

#[test]
fn temporaries_over_symbols_bound_the_numbers() {
    let profile = Profile { takes_workspace: false, ..Profile::ORT };
    let rows = KERNELS
        .iter()
        .filter(|kernel| kernel.temporaries.is_some())
        .map(|kernel| (kernel.domain, kernel.name));
    check_all(TEMPORARIES, &profile, rows);
}

#[test]
fn runtimes_round_and_add_both() {
    for sample in WORKSPACE {
        sample.0.split_whitespace().map(named).filter(|_| sample.4 != Nothing).for_each(|operator| {
            check(operator, &(sample.0, sample.1, sample.2, sample.3, Bound), &Profile::ORT);
        });
    }
}

#[test]
fn expressions_are_canonical() {
    let attention = WORKSPACE.iter().find(|sample| sample.0.starts_with("Attention")).unwrap();
    let (module, node) = node(("", "Attention"), attention, &BTreeMap::new());
    let over = |profile: &Profile| profile.workspace_over(&Typed::of(&module, node)).unwrap().to_string();
    assert_eq!(over(&Profile::ARENA), "16*N*S*T");
    assert_eq!(over(&Profile::ORT), "64*floor((S*T+15)/16)+64*floor((N*S*T+3)/4)+256");
}
