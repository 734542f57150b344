//! Pairs of nodes that the optimizations of an ONNX Runtime session may fuse into one kernel. If two
//! sessions run the nodes, results may differ in last bits.

use memc_ir::{Module, Node, Operator};

/// Operators that fused activations apply to the result of a product or convolution.
const ACTIVATIONS: &[&str] =
    &["Relu", "LeakyRelu", "Sigmoid", "Tanh", "Clip", "HardSigmoid", "HardSwish", "Softplus", "Elu", "ThresholdedRelu", "Gelu"];

/// Operators that normalize and take part in fusions with the node before them.
const NORMALIZATIONS: &[&str] = &[
    "LayerNormalization",
    "SimplifiedLayerNormalization",
    "RMSNormalization",
    "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization",
];

/// Pairs of one operator and the reader of its result. `*` stands for any operator.
///
/// Taken from the names and patterns of the runtime's graph transformers: MatMulAddFusion,
/// MatMulScaleFusion, MatMulTransposeFusion, GemmActivationFusion, ConvAddActivationFusion,
/// ConvMulFusion, ConvBNFusion, PadFusion, GeluFusion, BiasGeluFusion, FastGeluFusion, QuickGeluFusion,
/// LayerNormFusion, SkipLayerNormFusion, AttentionFusion, EmbedLayerNormFusion, BiasSoftmaxFusion,
/// GatherToSliceFusion, ReshapeFusion, and those of quantized nodes.
const PAIRS: &[(&str, &str)] = &[
    // Scaled products, attention.
    ("MatMul", "Mul"),
    ("MatMul", "Div"),
    ("Mul", "MatMul"),
    ("Div", "MatMul"),
    ("Transpose", "MatMul"),
    ("MatMul", "Transpose"),
    ("Transpose", "Gemm"),
    ("Reshape", "Transpose"),
    ("Transpose", "Reshape"),
    ("Softmax", "MatMul"),
    ("Add", "Softmax"),
    ("Where", "Softmax"),
    ("Mul", "Softmax"),
    ("Div", "Softmax"),
    ("Div", "Add"),
    ("Split", "Reshape"),
    // Activations from their parts.
    ("Div", "Erf"),
    ("Mul", "Erf"),
    ("Erf", "Add"),
    ("Pow", "Mul"),
    ("Mul", "Tanh"),
    ("Tanh", "Add"),
    ("Mul", "Mul"),
    ("Mul", "Sigmoid"),
    ("Sigmoid", "Mul"),
    // Normalization from its parts.
    ("ReduceMean", "Sub"),
    ("Sub", "Pow"),
    ("Sub", "Mul"),
    ("Sub", "Div"),
    ("Pow", "ReduceMean"),
    ("Mul", "ReduceMean"),
    ("ReduceMean", "Add"),
    ("Add", "Sqrt"),
    ("Sqrt", "Div"),
    ("Sqrt", "Reciprocal"),
    ("Reciprocal", "Mul"),
    ("Div", "Mul"),
    // Images.
    ("Pad", "Conv"),
    ("Conv", "BatchNormalization"),
    ("Conv", "Mul"),
    ("Conv", "Add"),
    ("BatchNormalization", "Conv"),
    ("Add", "Relu"),
    // Quantized nodes and casts move across their neighbors.
    ("DequantizeLinear", "*"),
    ("*", "QuantizeLinear"),
    ("DynamicQuantizeLinear", "*"),
    ("Cast", "*"),
    ("*", "Cast"),
];

/// Whether the optimizations of a session may fuse two nodes of the main graph, the second of which reads
/// a result of the first. True in doubt: pairs are judged by their operators alone.
pub fn may_fuse(module: &Module, maker: Node, reader: Node) -> bool {
    let (first, second) = (&module.node(maker).operator, &module.node(reader).operator);
    let is = |operator: &Operator, names: &[&str]| names.contains(&operator.name.as_ref());
    let is_product = is(first, &["MatMul", "Gemm", "Conv", "ConvTranspose", "MatMulInteger", "ConvInteger"]);
    if is_product && is(second, ACTIVATIONS) {
        return true;
    }
    // A bias or a scale, and what reads the biased or scaled value.
    let has_constant = |node: Node, name: &str| {
        is(&module.node(node).operator, &[name]) && module.node(node).operands().any(|operand| is_constant(module, operand))
    };
    let adds_constant = |node: Node| has_constant(node, "Add");
    if has_constant(maker, "Mul") && adds_constant(reader) {
        return true;
    }
    if is_product && is(second, &["Add"]) || adds_constant(maker) && is(second, &["Add", "Gelu", "FastGelu", "Div", "Mul"]) {
        return true;
    }
    // Two additions of embeddings before a normalization.
    let is_sum_of_lookups = |node: Node| {
        let from_lookup =
            |operand| module.producer(operand).is_some_and(|node| is(&module.node(node).operator, &["Gather", "Add"]));
        is(&module.node(node).operator, &["Add"]) && module.node(node).operands().all(from_lookup)
    };
    if is(first, &["Gather"]) && is(second, &["Add"])
        || is_sum_of_lookups(maker) && is_sum_of_lookups(reader) && feeds_lookup(module, maker)
    {
        return true;
    }
    if is(first, &["Add"]) && is(second, NORMALIZATIONS)
        || is(first, &["Add"]) && is(second, &["ReduceMean", "Pow", "Erf", "Mul"])
    {
        return true;
    }
    let fits = |pattern: &str, operator: &Operator| pattern == "*" || pattern == operator.name.as_ref();
    PAIRS.iter().any(|(one, other)| fits(one, first) && fits(other, second))
}

/// Whether an addition reads a row of a table.
fn feeds_lookup(module: &Module, node: Node) -> bool {
    let is_lookup = |operand| module.producer(operand).is_some_and(|maker| module.node(maker).operator.name.as_ref() == "Gather");
    module.node(node).operands().any(is_lookup)
}

/// Whether a value is a weight, or a node's own constant.
fn is_constant(module: &Module, value: memc_ir::Value) -> bool {
    match module.producer(value) {
        Some(node) => module.node(node).operator.name.as_ref() == "Constant",
        None => module.constant_of(value).is_some(),
    }
}
