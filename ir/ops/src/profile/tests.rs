//! Tests of the runtime profiles: one node at a time, in a graph of its own.
#![allow(clippy::unwrap_used)]

use memc_ir::{
    Attribute, ConstData, ConstOrigin, Module, ModuleBuilder, NewNode, Node, Origin, Payload, Value,
};

use super::*;
use crate::families::testing::{tensor, ty};

/// Creates an operand from text: prefix `const ` or `input ` makes it a constant or a graph input;
/// without a prefix, a node computes it.
fn operand(builder: &mut ModuleBuilder, index: usize, text: &str) -> Value {
    let main = builder.module().main();
    let name = format!("x{index}");
    if let Some(rest) = text.strip_prefix("const ") {
        let data = ConstData { ty: tensor(rest), payload: Payload::Elided, origin: ConstOrigin::New };
        let constant = builder.constant(data);
        return builder.initializer(main, &name, constant);
    }
    if let Some(rest) = text.strip_prefix("input ") {
        return builder.input(main, &name, ty(rest), None);
    }
    let node = builder.node(main, new("", "Source", Vec::new(), Vec::new()), &[Some((name, ty(text)))]);
    builder.module().node(node).outputs[0].unwrap()
}

fn new(
    domain: &str,
    name: &str,
    inputs: Vec<Option<Value>>,
    attributes: Vec<(String, Attribute)>,
) -> NewNode {
    let operator = Operator { domain: domain.into(), ..Operator::onnx(name, 20) };
    NewNode::new(operator, inputs, attributes, Origin::Text)
}

/// Builds a graph with one node of interest; an operand text that begins with `=` repeats operand 0.
fn graph(operator: &str, operands: &[&str], result: &str, is_output: bool) -> (Module, Node) {
    graph_with(operator, operands, result, is_output, Vec::new())
}

pub(super) fn graph_with(
    operator: &str,
    operands: &[&str],
    result: &str,
    is_output: bool,
    attributes: Vec<(String, Attribute)>,
) -> (Module, Node) {
    let (mut builder, node) =
        build(operator.rsplit_once("::").unwrap_or(("", operator)), operands, &[result], attributes);
    if is_output {
        let main = builder.module().main();
        let value = builder.module().node(node).outputs[0].unwrap();
        builder.output(main, value);
    }
    (builder.finish(), node)
}

/// Builds a graph with one node of interest and several results.
pub(super) fn graph_of(
    operator: (&str, &str),
    operands: &[String],
    results: &[String],
    attributes: Vec<(String, Attribute)>,
) -> (Module, Node) {
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    let results: Vec<&str> = results.iter().map(String::as_str).collect();
    let (builder, node) = build(operator, &operands, &results, attributes);
    (builder.finish(), node)
}

fn build(
    (domain, name): (&str, &str),
    operands: &[&str],
    results: &[&str],
    attributes: Vec<(String, Attribute)>,
) -> (ModuleBuilder, Node) {
    let mut builder = ModuleBuilder::new();
    let main = builder.module().main();
    let mut inputs: Vec<Option<Value>> = Vec::new();
    for (index, text) in operands.iter().enumerate() {
        let value = match *text {
            "" => None,
            "=" => inputs[0],
            text => Some(operand(&mut builder, index, text)),
        };
        inputs.push(value);
    }
    let results: Vec<_> =
        results.iter().enumerate().map(|(index, text)| Some((format!("y{index}"), ty(text)))).collect();
    let node = builder.node(main, new(domain, name, inputs, attributes), &results);
    (builder, node)
}

fn overwrites(profile: &Profile, (module, node): &(Module, Node)) -> Vec<usize> {
    profile.may_overwrite(&Typed::of(module, *node))
}

#[test]
fn profiles_have_names() {
    for profile in Profile::ALL {
        assert_eq!(Profile::named(profile.name).unwrap().name, profile.name);
    }
    assert!(Profile::named("rocm").is_none());
}

#[test]
fn the_arena_profile_overwrites_operands_that_the_table_allows() {
    let whole = "f32[2,3]";
    for (operator, operands, result, expected) in [
        ("Relu", vec![whole], whole, vec![0]),
        ("Add", vec![whole, whole], whole, vec![0, 1]),
        ("Add", vec![whole, "f32[3]"], whole, vec![0]),
        ("Add", vec![whole, "="], whole, vec![0, 1]),
        ("Add", vec!["const f32[2,3]", whole], whole, vec![1]),
        ("Relu", vec!["input f32[2,3]"], whole, vec![0]),
        ("Relu", vec!["f32[N,3]"], "f32[N,3]", vec![0]),
        ("Relu", vec!["f32[?,3]"], "f32[?,3]", vec![]),
        ("Relu", vec!["string[2]"], "string[2]", vec![]),
        ("MatMul", vec!["f32[2,2]", "f32[2,2]"], "f32[2,2]", vec![]),
        ("Nobody", vec![whole], whole, vec![]),
        ("com.microsoft::GeluGrad", vec![whole, whole], whole, vec![0, 1]),
        ("com.microsoft::BiasGelu", vec![whole, "f32[3]"], whole, vec![0]),
        (
            "com.microsoft::FusedConv",
            vec!["f32[1,2,3,3]", "f32[2,2,1,1]", "f32[2]", "f32[1,2,3,3]"],
            "f32[1,2,3,3]",
            vec![3],
        ),
        (
            "com.microsoft::FusedConv",
            vec!["f32[1,2,3,3]", "f32[2,2,1,1]", "f32[2]", "="],
            "f32[1,2,3,3]",
            vec![],
        ),
        ("com.microsoft::FusedConv", vec!["f32[1,2,3,3]", "f32[2,2,1,1]"], "f32[1,2,3,3]", vec![]),
    ] {
        let case = graph(operator, &operands, result, false);
        assert_eq!(overwrites(&Profile::ARENA, &case), expected, "{operator} {operands:?}");
    }
    assert_eq!(overwrites(&Profile::ARENA, &graph("Relu", &[whole], whole, true)), [0]);
}

#[test]
fn the_ort_profile_overwrites_only_operands_seen_overwritten() {
    let whole = "f32[2,3]";
    for (operator, operands, result, expected) in [
        ("Relu", vec![whole], whole, vec![0]),
        ("Softmax", vec![whole], whole, vec![0]),
        ("Softmax", vec!["f64[2,3]"], "f64[2,3]", vec![]),
        ("Relu", vec!["f16[2,3]"], "f16[2,3]", vec![]),
        ("Clip", vec!["f16[2,3]"], "f16[2,3]", vec![0]),
        ("Cast", vec!["f32[2,3]"], "i32[2,3]", vec![0]),
        ("Cast", vec!["f32[2,3]"], "i64[2,3]", vec![]),
        ("Add", vec![whole, whole], whole, vec![]),
        ("Relu", vec!["input f32[2,3]"], whole, vec![]),
        ("com.microsoft::Gelu", vec![whole], whole, vec![]),
        (
            "com.microsoft::FusedConv",
            vec!["f32[1,2,3,3]", "f32[2,2,1,1]", "f32[2]", "f32[1,2,3,3]"],
            "f32[1,2,3,3]",
            vec![3],
        ),
    ] {
        let case = graph(operator, &operands, result, false);
        assert_eq!(overwrites(&Profile::ORT, &case), expected, "{operator} {operands:?}");
    }
    assert!(overwrites(&Profile::ORT, &graph("Relu", &[whole], whole, true)).is_empty(), "a graph output");
}

#[test]
fn every_kernel_in_place_is_allowed_by_its_table_entry() {
    for kernel in ort_kernels::KERNELS {
        let Some(overwrites) = kernel.in_place else { continue };
        let info = crate::table::find(kernel.domain, kernel.name).unwrap();
        let InPlace::Operands(positions) = info.in_place else { unreachable!("{}", kernel.name) };
        assert!(positions.contains(&overwrites.operand), "{}", kernel.name);
    }
}

#[test]
fn values_of_outer_graphs_and_training_are_never_overwritten() {
    let mut builder = ModuleBuilder::new();
    let x = operand(&mut builder, 0, "f32[2]");
    let body = builder.graph("body");
    let inner = builder.node(
        body,
        new("", "Relu", vec![Some(x)], Vec::new()),
        &[Some(("y".to_owned(), ty("f32[2]")))],
    );
    let case = (builder.finish(), inner);
    assert!(overwrites(&Profile::ARENA, &case).is_empty());

    let training = || vec![("training_mode".to_owned(), Attribute::Int(1))];
    let operands = ["f32[1,2,3]", "f32[2]", "f32[2]", "f32[2]", "f32[2]"];
    let inference = graph("BatchNormalization", &operands, "f32[1,2,3]", false);
    assert_eq!(overwrites(&Profile::ARENA, &inference), [0]);
    let training = graph_with("BatchNormalization", &operands, "f32[1,2,3]", false, training());
    assert!(overwrites(&Profile::ARENA, &training).is_empty());
}

#[test]
fn views_share_unless_the_runtime_copies() {
    let view = |profile: &Profile, (module, node): (Module, Node)| profile.view_of(&Typed::of(&module, node));
    let reshape = |from: &str, is_output| graph("Reshape", &[from, "const i64[1]"], "f32[6]", is_output);
    for profile in Profile::ALL {
        for from in ["f32[2,3]", "const f32[2,3]", "input f32[2,3]"] {
            assert_eq!(view(profile, reshape(from, false)), Some(0), "{} {from}", profile.name);
        }
        assert_eq!(view(profile, graph("Relu", &["f32[6]"], "f32[6]", false)), None);
        assert_eq!(view(profile, graph("Cast", &["f32[6]"], "i32[6]", false)), None);
    }
    assert_eq!(view(&Profile::ARENA, reshape("f32[2,3]", true)), Some(0));
    assert_eq!(view(&Profile::ORT, reshape("f32[2,3]", true)), None);
    assert_eq!(view(&Profile::ARENA, graph("Cast", &["f32[6]"], "f32[6]", false)), Some(0));
    assert_eq!(view(&Profile::ORT, graph("Cast", &["f32[6]"], "f32[6]", false)), None);
}

#[test]
fn workspace_includes_temporaries_of_the_runtime() {
    let workspace =
        |profile: &Profile, (module, node): (Module, Node)| profile.workspace(&Typed::of(&module, node));
    let softmax = |axis| {
        graph_with(
            "Softmax",
            &["f32[4,8]"],
            "f32[4,8]",
            false,
            vec![("axis".to_owned(), Attribute::Int(axis))],
        )
    };
    assert_eq!(workspace(&Profile::ORT, softmax(0)), Some(Bytes(256)));
    assert_eq!(workspace(&Profile::ORT, softmax(-1)), Some(Bytes(0)));
    assert_eq!(workspace(&Profile::ORT, softmax(i64::MIN)), Some(Bytes(256)));
    assert_eq!(workspace(&Profile::ARENA, softmax(0)), Some(Bytes(0)));
    assert_eq!(workspace(&Profile::ORT, graph("HardSwish", &["f32[4]"], "f32[4]", false)), Some(Bytes(128)));
    assert_eq!(workspace(&Profile::ORT, graph("HardSwish", &["f32[N]"], "f32[N]", false)), None);
    assert_eq!(workspace(&Profile::ORT, graph("Tanh", &["f16[4]"], "f16[4]", false)), Some(Bytes(128)));
    assert_eq!(workspace(&Profile::ORT, graph("Nobody", &["f16[4]"], "f16[4]", false)), None);
    let huge = format!("f32[{}]", 1u64 << 59);
    assert_eq!(
        workspace(&Profile::ORT, graph("Where", &["bool[1]", &huge, &huge], &huge, false)),
        Some(Bytes(1 << 62))
    );
}

#[test]
fn quantized_products_keep_their_buffers() {
    let (module, _) = graph("com.microsoft::QGemm", &["u8[2,3]"], "u8[2,4]", false);
    assert!(Profile::ORT.kept(&module) >= Bytes(164_992));
    assert_eq!(Profile::ARENA.kept(&module), Bytes(0));
    assert_eq!(Profile::ORT.kept(&graph("Relu", &["f32[2]"], "f32[2]", false).0), Bytes(0));
}

#[test]
fn expanded_operators_are_known_by_name_and_domain() {
    assert!(Profile::ORT.expands(&Operator::onnx("HardSwish", 22)));
    assert!(!Profile::ORT.expands(&Operator::onnx("Relu", 22)));
    assert!(
        !Profile::ORT.expands(&Operator { domain: "some.vendor".into(), ..Operator::onnx("HardSwish", 1) })
    );
    assert!(!Profile::ARENA.expands(&Operator::onnx("HardSwish", 22)));
}

/// Sessions reject element types that the operator's declaration does not allow, even if a kernel
/// exists.
#[test]
fn own_operators_take_the_elements_that_they_are_declared_for() {
    let takes = |domain: &str, name: &str, element: &str| {
        let operator = Operator { domain: domain.into(), ..Operator::onnx(name, 1) };
        Profile::ARENA.has_kernel(&operator, &[], tensor(&format!("{element}[2]")).element)
    };
    for name in ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"] {
        assert!(takes("com.microsoft", name, "f32") && takes("com.microsoft", name, "f16"));
        assert!(!takes("com.microsoft", name, "f64"), "{name}");
    }
    assert!(takes("", "SimplifiedLayerNormalization", "f64"));
    assert!(!takes("com.microsoft", "Gelu", "f16"));
}

#[test]
fn buffers_round_up() {
    assert_eq!(Profile::ORT.buffer(Bytes(1)), Some(Bytes(64)));
    assert_eq!(Profile::ORT.buffer(Bytes(0)), Some(Bytes(0)));
    assert_eq!(Profile::ORT.buffer(Bytes(u64::MAX)), None);
    assert_eq!(Profile::ARENA.buffer(Bytes(7)), Some(Bytes(7)));
}

/// Outside the ONNX domain only these operators may overwrite, so an independent checker can list them.
#[test]
fn few_operators_of_other_domains_overwrite() {
    let found: Vec<String> = crate::table::all()
        .iter()
        .filter(|info| !info.domain.is_empty() && info.in_place != InPlace::Never)
        .map(|info| format!("{} {:?}", info.name, info.in_place))
        .collect();
    let softmax = ["LogSoftmaxGrad", "LogSoftmaxGrad_13", "SoftmaxGrad", "SoftmaxGrad_13"];
    let dropout = ["BitmaskDropoutGrad", "DropoutGrad", "TrainableDropoutGrad"];
    let first = [["BiasGelu", "FastGelu", "Gelu", "QuickGelu"].as_slice(), &softmax, &dropout].concat();
    let first: Vec<String> = first.into_iter().map(|name| format!("{name} Operands([0])")).collect();
    let gelu = ["BiasFastGeluGrad_dX", "BiasGeluGrad_dX", "FastGeluGrad", "GeluGrad", "QuickGeluGrad"];
    let others = ["EluGrad", "HardSigmoidGrad", "LeakyReluGrad", "ReluGrad", "SigmoidGrad", "TanhGrad"];
    let both: Vec<String> = [gelu.as_slice(), &others]
        .concat()
        .into_iter()
        .map(|name| format!("{name} Operands([0, 1])"))
        .collect();
    let mut expected = [first, both, vec!["FusedConv Operands([3])".to_owned()]].concat();
    expected.sort();
    let mut found = found;
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn results_of_half_precision_reach_conversions_unrounded() {
    let reads = |profile: &Profile, maker: &str, from: &str, to: &str| {
        let mut builder = ModuleBuilder::new();
        let main = builder.module().main();
        let x = builder.input(main, "x", ty(from), None);
        let made = builder.node(
            main,
            new("", maker, vec![Some(x)], Vec::new()),
            &[Some(("h".to_owned(), ty(from)))],
        );
        let h = builder.module().node(made).outputs[0];
        let cast =
            builder.node(main, new("", "Cast", vec![h], Vec::new()), &[Some(("y".to_owned(), ty(to)))]);
        let (module, h) = (builder.finish(), h.unwrap());
        profile.reads_unrounded(&Typed::of(&module, cast)).inspect(|value| assert_eq!(*value, h)).is_some()
    };
    assert!(reads(&Profile::ORT, "Sqrt", "f16[4]", "f32[4]"));
    assert!(reads(&Profile::ORT, "Sqrt", "bf16[4]", "f64[4]"));
    assert!(reads(&Profile::ORT, "Cast", "f16[4]", "f32[4]"));
    // Operators that move elements read rounded values, and conversions to half precision round.
    assert!(!reads(&Profile::ORT, "Transpose", "f16[4]", "f32[4]"));
    assert!(!reads(&Profile::ORT, "Sqrt", "f16[4]", "bf16[4]"));
    assert!(!reads(&Profile::ORT, "Sqrt", "f32[4]", "f64[4]"));
    assert!(!reads(&Profile::PLAYER, "Sqrt", "f16[4]", "f32[4]"));
}
