//! Checks kernels that may run on nothing: where an axis is shorter than the number of parts, parts of a plan
//! for ranges have no positions.

use std::collections::HashMap;

use memc_ir::{DimExpr, NodeData, Operator, Value};

use crate::codes::Kind;
use crate::ctx::Ctx;
use crate::findings::{At, Findings};

/// Operators by domain, names separated by spaces, whose kernels in ONNX Runtime 1.32 take operands without
/// elements: they make results without elements. The list is the check's own; `tests/empty` runs each kernel.
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

/// Operators whose kernels make a result with elements of operands without: sums over nothing, joins, and
/// readers of extents.
const TAKE_SOME_EMPTY: &[(&str, &str)] = &[
    ("", "Concat ConstantOfShape Gemm MatMul ReduceSum ReduceSumSquare ScatterElements ScatterND Shape Size"),
    ("com.microsoft", "FusedMatMul"),
];

/// Checks that each node that the plan made takes its operands at all extents. Nodes of the input model are
/// the caller's.
pub(crate) fn check(ctx: &Ctx<'_>, findings: &mut Findings) {
    if ctx.out.extents.is_empty() {
        return;
    }
    let mut known = HashMap::new();
    for (step, row) in ctx.order.iter().enumerate() {
        let data = ctx.out.module.node(ctx.out.rows[*row].node);
        let is_given =
            data.results().next().is_none_or(|result| ctx.given.named.contains_key(ctx.out.name(result)));
        let mut may_be_empty = |value: Value| may_be_empty(ctx, value, &mut known);
        let is_own = !is_given && !ctx.out.is_transfer(*row);
        let Some(operand) = data.operands().find(|operand| is_own && may_be_empty(*operand)) else {
            continue;
        };
        let makes_some = data.results().any(|result| !may_be_empty(result));
        let is_listed = has(if makes_some { TAKE_SOME_EMPTY } else { TAKE_EMPTY }, &data.operator);
        if !is_listed || !makes_some && forgets_axes(ctx, data) {
            let (name, operator, operand) =
                (ctx.node_at(step), ctx.out.operator(*row), ctx.out.name(operand));
            let message = format!(
                "step {step}: `{operand}` may have no elements, and the kernel of `{name}` ({operator}) is not known to take that"
            );
            findings.add(Kind::Empty, At::node(step, name), message);
        }
    }
}

/// Whether a node is a reduction that keeps axes which it counts from the end, or does not state: ONNX
/// Runtime 1.32 leaves their extents as they are if there is nothing to reduce.
fn forgets_axes(ctx: &Ctx<'_>, node: &NodeData) -> bool {
    let stated = || ctx.out.elements(node.inputs.get(1).copied().flatten()?)?.known_ints();
    let axes = || node.ints("axes").map(<[i64]>::to_vec).or_else(stated);
    let is_reduction = node.operator.name.starts_with("Reduce") && node.int("keepdims", 1) != 0;
    is_reduction && axes().is_none_or(|axes| axes.iter().any(|axis| *axis < 0))
}

/// Whether a value may have no elements at some extents, although every free dimension has positions there.
fn may_be_empty(ctx: &Ctx<'_>, value: Value, known: &mut HashMap<DimExpr, bool>) -> bool {
    let free = ctx.out.known[value].as_ref().and_then(|known| known.free.as_ref());
    free.is_some_and(|free| {
        free.dims.iter().any(|dim| *known.entry(dim.clone()).or_insert_with(|| is_short(ctx, dim)))
    })
}

fn is_short(ctx: &Ctx<'_>, dim: &DimExpr) -> bool {
    let (extents, one) = (ctx.out.extents, DimExpr::constant(1));
    let symbols = dim.symbols();
    let has_some = |name: &std::sync::Arc<str>| extents.in_order(&one, &DimExpr::symbol(name));
    !symbols.is_empty() && symbols.iter().all(has_some) && !extents.in_order(&one, dim)
}

fn has(table: &[(&str, &str)], operator: &Operator) -> bool {
    table.iter().any(|(domain, names)| {
        **domain == *operator.domain && names.split(' ').any(|name| *name == *operator.name)
    })
}
