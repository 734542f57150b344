//! Tells whether a node may run a second time with identical results.

use memc_ir::{GraphId, Module, Node, Payload, SecondaryMap, Value};

use crate::held::held_constant;
use crate::info::{Repeat, Typed};
use crate::table::lookup;

/// Domains whose operators are understood well enough to run again. In other domains, results may depend
/// on the machine or on other programs.
const KNOWN_DOMAINS: [&str; 3] = ["", "ai.onnx.ml", "com.microsoft"];

/// Whether running `node` again gives identical results: its operator is in the table, is neither random
/// nor stateful, is not in training mode if it draws a mask there, and all nodes in its bodies are
/// repeatable.
///
/// O(nodes in the bodies).
pub fn repeatable(module: &Module, node: Node) -> bool {
    let mut graphs: Vec<GraphId> = Vec::new();
    let mut alone = |node: Node| {
        graphs.extend(module.node(node).bodies().map(|(_, body)| body));
        repeatable_alone(module, node)
    };
    if !alone(node) {
        return false;
    }
    while let Some(body) = graphs.pop() {
        for inner in &module.graph(body).nodes {
            graphs.extend(module.node(*inner).bodies().map(|(_, body)| body));
            if !repeatable_alone(module, *inner) {
                return false;
            }
        }
    }
    true
}

/// Marks the nodes from which a path leads to a node that cannot be repeated. A comparison of two models
/// identifies an unrepeatable node by its operands and all their producers, so those producers must stay
/// as written.
///
/// `nodes` must be in an order in which producers come before their readers. O(nodes + operands).
pub fn feeds_unrepeatable(module: &Module, nodes: &[Node]) -> SecondaryMap<Node, bool> {
    let mut feeds: SecondaryMap<Node, bool> = SecondaryMap::default();
    for node in nodes.iter().rev() {
        if feeds[*node] || !repeatable(module, *node) {
            for value in module.reads(*node) {
                if let Some(producer) = module.producer(value) {
                    feeds.set(producer, true);
                }
            }
        }
    }
    feeds
}

/// Like [`repeatable`], but ignores bodies.
fn repeatable_alone(module: &Module, node: Node) -> bool {
    let Some(info) = Typed::of(module, node).info() else { return false };
    KNOWN_DOMAINS.contains(&info.domain)
        && match info.repeat {
            Repeat::Yes => true,
            Repeat::Random | Repeat::Updating | Repeat::Stateful => false,
            Repeat::UnlessTraining => !may_train(module, node),
        }
}

/// Whether a node may run in training mode. Dropout has a third operand for it, and BatchNormalization
/// an attribute or further results. Before operator set 7 both have attribute `is_test`.
pub fn may_train(module: &Module, node: Node) -> bool {
    let data = module.node(node);
    if data.operator.version < 7 {
        return data.int("is_test", 0) == 0;
    }
    match &*data.operator.name {
        "BatchNormalization" => {
            data.int("training_mode", 0) != 0 || data.outputs.iter().skip(1).any(Option::is_some)
        }
        _ => data.inputs.get(2).copied().flatten().is_some_and(|flag| !is_false(module, flag)),
    }
}

/// Whether a node that draws random numbers draws identical numbers in each run of the model, because
/// its attribute `seed` is set.
pub fn is_seeded(module: &Module, node: Node) -> bool {
    let data = module.node(node);
    let draws = lookup(&data.operator).is_some_and(|info| match info.repeat {
        Repeat::Random => true,
        Repeat::UnlessTraining => may_train(module, node),
        _ => false,
    });
    draws && data.attribute("seed").is_some()
}

/// Whether a boolean value is provably always false. A value that is not a constant may be true.
fn is_false(module: &Module, flag: Value) -> bool {
    let constant = match module.producer(flag) {
        None => module.constant_of(flag),
        Some(node) => held_constant(module, node),
    };
    let payload = constant.map(|constant| &module.constant(constant).payload);
    matches!(payload, Some(Payload::Raw(bytes)) if bytes.iter().all(|byte| *byte == 0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use memc_ir::{
        Attribute, ConstData, ConstOrigin, ElementType, ModuleBuilder, NewNode, Operator, Origin, TensorType,
        ValueType,
    };

    fn new(
        domain: &str,
        name: &str,
        inputs: Vec<Option<Value>>,
        attributes: Vec<(String, Attribute)>,
    ) -> NewNode {
        let operator = Operator { domain: domain.into(), ..Operator::onnx(name, 20) };
        NewNode::new(operator, inputs, attributes, Origin::Text)
    }

    fn flag(builder: &mut ModuleBuilder, value: u8) -> Value {
        let payload = Payload::Raw(vec![value].into());
        let constant =
            ConstData { ty: TensorType::fixed(ElementType::Bool, &[]), payload, origin: ConstOrigin::New };
        let main = builder.module().main();
        let constant = builder.constant(constant);
        builder.initializer(main, &format!("flag{value}"), constant)
    }

    /// Builds a node with one operand and, for `Some`, a constant flag as third operand; tells whether
    /// it is repeatable.
    fn case(domain: &str, name: &str, training: Option<u8>) -> bool {
        let mut builder = ModuleBuilder::new();
        let main = builder.module().main();
        let x = builder.input(main, "x", ValueType::Unknown, None);
        let mut inputs = vec![Some(x)];
        if let Some(value) = training {
            inputs.extend([None, Some(flag(&mut builder, value))]);
        }
        let node = builder.node(
            main,
            new(domain, name, inputs, Vec::new()),
            &[Some(("y".into(), ValueType::Unknown))],
        );
        repeatable(builder.module(), node)
    }

    #[test]
    fn random_stateful_and_unknown_operators_never_repeat() {
        assert!(case("", "Relu", None));
        assert!(case("com.microsoft", "FusedMatMul", None));
        assert!(case("ai.onnx.ml", "Scaler", None));
        for name in [
            "BiasDropout",
            "BitmaskDropout",
            "BitmaskBiasDropout",
            "InPlaceAccumulator",
            "InPlaceAccumulatorV2",
            "AdamOptimizer",
            "AdamWOptimizer",
            "LambOptimizer",
            "SGDOptimizer",
            "SGDOptimizerV2",
            "PythonOp",
            "PythonOpGrad",
            "YieldOp",
            "RecordEvent",
            "WaitEvent",
            "Send",
            "Recv",
            "RandomNormal",
            "RandomUniform",
            "Sampling",
        ] {
            assert!(!case("com.microsoft", name, None), "{name}");
        }
        assert!(!case("com.microsoft.nchwc", "Conv", None), "depends on the machine");
        assert!(!case("some.vendor", "Anything", None), "not in the table");
    }

    #[test]
    fn dropout_is_repeatable_only_if_surely_not_training() {
        assert!(case("", "Dropout", None));
        assert!(case("", "Dropout", Some(0)));
        assert!(!case("", "Dropout", Some(1)));
    }

    #[test]
    fn a_training_flag_from_outside_may_be_true() {
        let mut builder = ModuleBuilder::new();
        let main = builder.module().main();
        let x = builder.input(main, "x", ValueType::Unknown, None);
        let dropout = new("", "Dropout", vec![Some(x), None, Some(x)], Vec::new());
        let node = builder.node(main, dropout, &[Some(("y".into(), ValueType::Unknown))]);
        assert!(may_train(builder.module(), node));
    }

    #[test]
    fn a_random_operator_in_a_body_forbids_repeating_the_node() {
        for (inner, expected) in [("Relu", true), ("RandomNormalLike", false)] {
            let mut builder = ModuleBuilder::new();
            let main = builder.module().main();
            let condition = builder.input(main, "c", ValueType::Unknown, None);
            let body = builder.graph("then");
            builder.node(
                body,
                new("", inner, vec![Some(condition)], Vec::new()),
                &[Some(("i".into(), ValueType::Unknown))],
            );
            let outer =
                new("", "If", vec![Some(condition)], vec![("then_branch".into(), Attribute::Graph(body))]);
            let node = builder.node(main, outer, &[Some(("y".into(), ValueType::Unknown))]);
            assert_eq!(repeatable(builder.module(), node), expected, "{inner}");
        }
    }
}
