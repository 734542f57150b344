//! Pairs of nodes that the optimizations of an ONNX Runtime session may fuse into one kernel. If two
//! sessions run the nodes, results may differ in last bits.

use memc_ir::{Module, Node, Operator};

/// Operators that fused activations apply to the result of a product or convolution.
const ACTIVATIONS: &[&str] = &[
    "Relu",
    "LeakyRelu",
    "Sigmoid",
    "Tanh",
    "Clip",
    "HardSigmoid",
    "HardSwish",
    "Softplus",
    "Elu",
    "ThresholdedRelu",
    "Gelu",
];

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
    let has_constant = |node: Node, names: &[&str]| {
        is(&module.node(node).operator, names)
            && module.node(node).operands().any(|operand| is_constant(module, operand))
    };
    let is_convolution = is(first, &["Conv", "ConvTranspose", "ConvInteger"]);
    let is_product = is_convolution || is(first, &["MatMul", "Gemm", "MatMulInteger"]);
    if is_product && is(second, ACTIVATIONS) || is_convolution && is(second, &["Add"]) {
        return true;
    }
    // Scales of products; scales and biases one after another; a bias, and what reads the biased value.
    let (scales, adds) = (["Mul", "Div"], ["Add"]);
    let is_scaled = is_product && has_constant(reader, &scales)
        || has_constant(maker, &scales) && is(second, &["MatMul"]);
    let is_biased = is_product && has_constant(reader, &adds)
        || has_constant(maker, &adds) && is(second, &["Add", "Gelu", "FastGelu", "Div", "Mul"]);
    let follows = has_constant(maker, &["Mul"]) && has_constant(reader, &adds)
        || is(first, &["Mul"])
            && is(second, &["Mul"])
            && (has_constant(maker, &["Mul"]) || has_constant(reader, &["Mul"]));
    if is_scaled || is_biased || follows {
        return true;
    }
    // Two additions of embeddings before a normalization.
    let is_sum_of_lookups = |node: Node| {
        let from_lookup = |operand| {
            module.producer(operand).is_some_and(|node| is(&module.node(node).operator, &["Gather", "Add"]))
        };
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
    let is_lookup = |operand| {
        module.producer(operand).is_some_and(|maker| module.node(maker).operator.name.as_ref() == "Gather")
    };
    module.node(node).operands().any(is_lookup)
}

/// Whether a value is a weight, or a node's own constant.
fn is_constant(module: &Module, value: memc_ir::Value) -> bool {
    match module.producer(value) {
        Some(node) => module.node(node).operator.name.as_ref() == "Constant",
        None => module.constant_of(value).is_some(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use memc_ir::{
        ConstData, ConstOrigin, ElementType, ModuleBuilder, NewNode, Operator, Origin, Payload, TensorType,
        Value, ValueType,
    };

    use super::*;

    /// Builds two nodes, the second of which reads the first one's result; each reads a weight too if its
    /// flag is set, else a graph input.
    fn pair(first: (&str, bool), second: (&str, bool)) -> bool {
        let ty = ValueType::Tensor(TensorType::fixed(ElementType::Float, &[2, 2]));
        let mut builder = ModuleBuilder::new();
        let main = builder.module().main();
        let (x, y) = (builder.input(main, "x", ty.clone(), None), builder.input(main, "y", ty.clone(), None));
        let payload = Payload::Raw(vec![0; 16].into());
        let data = ConstData {
            ty: TensorType::fixed(ElementType::Float, &[2, 2]),
            payload,
            origin: ConstOrigin::New,
        };
        let constant = builder.constant(data);
        let weight = builder.initializer(main, "w", constant);
        let mut add = |(name, has_weight): (&str, bool), operand: Value, output: &str| {
            let inputs = vec![Some(operand), Some(if has_weight { weight } else { y })];
            let new = NewNode::new(Operator::onnx(name, 17), inputs, Vec::new(), Origin::Text)
                .named(output.to_owned());
            let node = builder.node(main, new, &[Some((output.to_owned(), ty.clone()))]);
            (node, builder.module().node(node).outputs[0].unwrap())
        };
        let (maker, made) = add(first, x, "a");
        let (reader, _) = add(second, made, "b");
        may_fuse(builder.module(), maker, reader)
    }

    #[test]
    fn fusions_are_known_and_borders_of_layers_are_free() {
        for (first, second) in [
            (("MatMul", true), ("Add", true)),
            (("MatMul", false), ("Mul", true)),
            (("Div", true), ("MatMul", false)),
            (("Conv", true), ("Relu", false)),
            (("Conv", true), ("Add", false)),
            (("Add", false), ("LayerNormalization", true)),
            (("Add", true), ("Gelu", false)),
            (("Add", false), ("Pow", true)),
            (("Mul", false), ("Mul", true)),
            (("Softmax", false), ("MatMul", false)),
            (("Gather", true), ("Add", false)),
            (("Cast", false), ("MatMul", true)),
            (("Relu", false), ("QuantizeLinear", true)),
        ] {
            assert!(pair(first, second), "{first:?} {second:?}");
        }
        for (first, second) in [
            (("LayerNormalization", true), ("MatMul", true)),
            (("Gelu", false), ("MatMul", true)),
            (("Relu", false), ("Conv", true)),
            (("Add", false), ("MatMul", true)),
            (("Add", false), ("Add", false)),
            (("MatMul", true), ("Add", false)),
            (("Mul", false), ("MatMul", true)),
            (("MatMul", true), ("Mul", false)),
            (("Mul", false), ("Mul", false)),
            (("Concat", false), ("Conv", true)),
        ] {
            assert!(!pair(first, second), "{first:?} {second:?}");
        }
    }
}
