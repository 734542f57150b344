//! Odd models through the whole command: functions, and nodes without names. The checker must accept
//! each plan.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command::python;
use crate::models_made;

use memc::{Planned, Request, Runtime, plan};
use memc_layout::Layout;
use memc_onnx_import::ImportOptions;
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::tensor_proto::DataType;
use memc_onnx_proto::onnx::{ModelProto, NodeProto};
use models_made::{
    body, branch, bytes, call, fixed, flag, floats, function, ints, node, of_type, raw, stated, with,
};

/// Plans a model, and asserts that the checker accepts the plan.
fn planned(model: &ModelProto) -> Planned {
    planned_by(model, Request::new())
}

/// The same with options of its own.
fn planned_by(model: &ModelProto, request: Request) -> Planned {
    let file = ModelFile::from_bytes(bytes(model)).unwrap();
    let import = ImportOptions { allow_unbound: true, ..ImportOptions::default() };
    let optimized = plan(&file, &Request { import, verify: true, ..request }).unwrap();
    let out = ModelFile::from_bytes(optimized.model.to_vec()).unwrap();
    let report = memc_check::check(&file, &out, &optimized.layout, Default::default());
    assert!(report.holds(), "{:?}", report.violations);
    optimized
}

#[test]
fn operator_sets_of_inlined_nodes_are_stated() {
    let mut unheard = node("Unheard", &["a"], &["b"]);
    unheard.domain = Some("elsewhere".into());
    let mut model = with(vec![call("F", &["x"], &["y"])], |_| {});
    model.functions = vec![function("F", vec![unheard])];
    let optimized = planned(&model);
    let domains: Vec<&str> =
        optimized.layout.model.opset_imports.iter().map(|import| import.domain.as_str()).collect();
    assert_eq!(domains, ["", "elsewhere", "local"]);
}

#[test]
fn an_operand_that_is_a_result_keeps_the_stated_type() {
    // The function returns its operand unchanged. The model states no type for `x`, but a type for `y`.
    let mut model = with(vec![call("F", &["x"], &["y"])], |graph| {
        graph.input[0].r#type = None;
        graph.output = vec![fixed("y", &[4])];
    });
    model.functions = vec![function("F", vec![])];
    model.functions[0].output = vec!["a".into()];
    let optimized = planned(&model);
    assert!(optimized.layout.tensors.iter().any(|tensor| tensor.name == "y" && tensor.bytes == 16));
}

#[test]
fn workspace_of_nodes_without_names_counts() {
    let mut model = with(vec![node("Mish", &["x"], &["y"])], |_| {});
    model.graph.as_mut().unwrap().node[0].name = None;
    let optimized = planned_by(&model, Request::new().runtime(Runtime::Ort));
    let scratch = optimized.layout.tensors.iter().find(|tensor| tensor.name.starts_with("scratch:")).unwrap();
    assert!(optimized.layout.baseline.own_peak["device"] >= 16 + scratch.bytes);
}

/// An If whose condition is a constant, with a branch that computes `yes` and one that computes `no`.
fn branching(condition: bool, yes: &str, no: &str) -> ModelProto {
    let branches = [("then_branch", yes), ("else_branch", no)];
    let branches = branches.map(|(name, op)| body(name, branch(vec![node(op, &["x"], &["z"])], "z")));
    let mut flag = raw("flag", &[], &[u8::from(condition)]);
    flag.data_type = Some(DataType::Bool as i32);
    with(
        vec![stated(node("If", &["flag"], &["i"]), branches.to_vec()), node("Relu", &["i"], &["y"])],
        |graph| {
            graph.initializer = vec![flag];
        },
    )
}

#[test]
fn an_inlined_branch_is_proven_equal_and_the_other_one_is_not() {
    let given = branching(true, "Exp", "Neg");
    let optimized = planned_by(&given, Request::new().exact(true));
    let out = ModelFile::from_bytes(optimized.model.to_vec()).unwrap();
    assert!(out.graph().node.iter().all(|node| node.op_type() != "If"));
    let proven = |given: &ModelProto| {
        let given = ModelFile::from_bytes(bytes(given)).unwrap();
        let mut layout = optimized.layout.clone();
        layout.model.input_sha256 = memc::sha256(given.bytes());
        memc_check::check(&given, &out, &layout, Default::default()).is_proven()
    };
    assert!(proven(&given) && proven(&branching(false, "Neg", "Exp")));
    assert!(!proven(&branching(false, "Exp", "Neg")) && !proven(&branching(true, "Neg", "Exp")));
}

/// Plans a model with `--exact`; returns whether the plan is proven, and the operators of the written model.
fn proven(model: &ModelProto) -> (bool, Vec<String>) {
    let given = ModelFile::from_bytes(bytes(model)).unwrap();
    let optimized = planned_by(model, Request::new().exact(true));
    let out = ModelFile::from_bytes(optimized.model.to_vec()).unwrap();
    let report = memc_check::check(&given, &out, &optimized.layout, Default::default());
    (report.is_proven(), out.graph().node.iter().map(|node| node.op_type().to_owned()).collect())
}

#[test]
fn a_condition_that_a_caller_may_replace_keeps_both_branches() {
    let mut model = branching(true, "Exp", "Neg");
    model.graph.as_mut().unwrap().input.push(flag());
    assert_eq!(proven(&model), (true, vec!["If".into(), "Relu".into()]));
}

/// A Loop that never runs; the model leaves out its first collected result and reads the second one.
fn idle_loop() -> ModelProto {
    let mut inner = branch(vec![node("Relu", &["v"], &["r"]), node("Identity", &["go"], &["on"])], "on");
    inner.input = vec![of_type(fixed("count", &[]), 7), of_type(fixed("go", &[]), 9), fixed("v", &[4])];
    inner.output = vec![of_type(fixed("on", &[]), 9), fixed("r", &[4]), fixed("r", &[4]), fixed("r", &[4])];
    let idle = stated(node("Loop", &["trips", "", "x"], &["l", "", "s"]), vec![body("body", inner)]);
    with(vec![idle, node("ReduceSum", &["s"], &["sum"]), node("Add", &["l", "sum"], &["y"])], |graph| {
        let mut trips = raw("trips", &[], &[0; 8]);
        trips.data_type = Some(DataType::Int64 as i32);
        graph.initializer = vec![trips];
    })
}

#[test]
fn a_loop_that_never_runs_may_leave_out_results() {
    let (is_proven, operators) = proven(&idle_loop());
    assert!(is_proven && !operators.contains(&"Loop".to_owned()), "{operators:?}");
    // The check sees through bodies that a pipeline leaves where they are.
    let file = ModelFile::from_bytes(bytes(&idle_loop())).unwrap();
    let kept = plan(&file, &Request::new().passes("schedule,in-place,place")).unwrap();
    let out = ModelFile::from_bytes(kept.model.to_vec()).unwrap();
    assert!(memc_check::check(&file, &out, &kept.layout, Default::default()).is_proven());
}

/// A convolution and an activation of its result.
fn convolution(activation: &str) -> ModelProto {
    let nodes = vec![
        stated(node("Conv", &["x", "w", "b"], &["c"]), vec![ints("pads", &[1, 1, 1, 1])]),
        node(activation, &["c"], &["y"]),
    ];
    with(nodes, |graph| {
        graph.input = vec![fixed("x", &[1, 4, 6, 6])];
        graph.output = vec![fixed("y", &[1, 8, 6, 6])];
        graph.initializer = vec![floats("w", &[8, 4, 3, 3]), floats("b", &[8])];
    })
}

#[test]
fn a_fused_convolution_is_proven_to_be_its_nodes() {
    let (is_proven, operators) = proven(&convolution("Relu"));
    assert_eq!((is_proven, operators.as_slice()), (true, ["FusedConv".to_owned()].as_slice()));
    let given = ModelFile::from_bytes(bytes(&convolution("Relu"))).unwrap();
    let mut optimized = planned_by(&convolution("Relu"), Request::new().exact(true));
    let out = ModelFile::from_bytes(optimized.model.to_vec()).unwrap();
    let mut is_proven = |given: &ModelFile, damage: &dyn Fn(&mut NodeProto)| {
        let mut damaged = out.model().clone();
        damage(&mut damaged.graph.as_mut().unwrap().node[0]);
        let out = ModelFile::from_bytes(bytes(&damaged)).unwrap();
        optimized.layout.model.input_sha256 = memc::sha256(given.bytes());
        optimized.layout.model.output_sha256 = memc::sha256(out.bytes());
        memc_check::check(given, &out, &optimized.layout, Default::default()).is_proven()
    };
    assert!(is_proven(&given, &|_| ()));
    let other = ModelFile::from_bytes(bytes(&convolution("Abs"))).unwrap();
    assert!(!is_proven(&other, &|_| ()), "another activation is given");
    let set = |name: &'static str, value: &'static [u8]| {
        move |node: &mut NodeProto| {
            node.attribute
                .iter_mut()
                .filter(|attribute| attribute.name() == name)
                .for_each(|attribute| attribute.s = Some(value.to_vec()))
        }
    };
    assert!(!is_proven(&given, &set("activation", b"Tanh")));
    let pads = |node: &mut NodeProto| {
        node.attribute.iter_mut().filter(|of| of.name() == "pads").for_each(|of| of.ints = vec![1, 1, 0, 2])
    };
    assert!(!is_proven(&given, &pads), "other pads");
    assert!(!is_proven(&given, &|node| node.input.truncate(2)), "without a bias");
    assert!(!is_proven(&given, &|node| node.input.push("x".to_owned())), "with another addend");
}

/// Integers that are dequantized, moved, quantized by a second scale and dequantized.
fn requantized(moving: NodeProto, second: f32) -> ModelProto {
    let nodes = vec![
        node("QuantizeLinear", &["x", "scale", "zero"], &["q"]),
        node("DequantizeLinear", &["q", "scale", "zero"], &["d"]),
        moving,
        node("QuantizeLinear", &["m", "second", "zero"], &["again"]),
        node("DequantizeLinear", &["again", "second", "zero"], &["y"]),
    ];
    with(nodes, |graph| {
        graph.input = vec![fixed("x", &[4, 6])];
        graph.output = vec![fixed("y", &[6, 4])];
        let mut zero = raw("zero", &[], &[3]);
        zero.data_type = Some(DataType::Uint8 as i32);
        let mut turned = raw("turned", &[2], &[6i64.to_le_bytes(), 4i64.to_le_bytes()].concat());
        turned.data_type = Some(DataType::Int64 as i32);
        let scales = [raw("scale", &[], &0.1f32.to_le_bytes()), raw("second", &[], &second.to_le_bytes())];
        graph.initializer = scales.into_iter().chain([zero, turned]).collect();
    })
}

#[test]
fn integers_quantized_again_are_proven_to_be_themselves() {
    let quantizing =
        |operators: &[String]| operators.iter().filter(|operator| *operator == "QuantizeLinear").count();
    let turned = stated(node("Transpose", &["d"], &["m"]), vec![ints("perm", &[1, 0])]);
    for moving in [turned, node("Reshape", &["d", "turned"], &["m"])] {
        let (is_proven, operators) = proven(&requantized(moving.clone(), 0.1));
        assert!(is_proven && quantizing(&operators) == 1, "{operators:?}");
        let mut optimized = planned_by(&requantized(moving.clone(), 0.1), Request::new().exact(true));
        let out = ModelFile::from_bytes(optimized.model.to_vec()).unwrap();
        let other = ModelFile::from_bytes(bytes(&requantized(moving.clone(), 0.2))).unwrap();
        optimized.layout.model.input_sha256 = memc::sha256(other.bytes());
        assert!(!memc_check::check(&other, &out, &optimized.layout, Default::default()).is_proven());
        // By a scale so small that numbers lose digits, integers change.
        let (_, operators) = proven(&requantized(moving, 1e-40));
        assert_eq!(quantizing(&operators), 2, "{operators:?}");
    }
}

/// A convolution whose results are scaled.
fn scaled() -> ModelProto {
    let nodes = vec![
        node("Conv", &["x", "w", "b"], &["c"]),
        node("Mul", &["c", "by"], &["m"]),
        node("Abs", &["m"], &["y"]),
    ];
    with(nodes, |graph| {
        graph.input = vec![fixed("x", &[1, 4, 6, 6])];
        graph.output = vec![fixed("y", &[1, 8, 6, 6])];
        graph.initializer = vec![floats("w", &[8, 4, 1, 1]), floats("b", &[8]), floats("by", &[8, 1, 1])];
    })
}

#[test]
fn scales_that_move_into_weights_are_named() {
    let optimized = planned(&scaled());
    let rules: Vec<_> = optimized.layout.rewrites.iter().flat_map(|row| row.rules.keys()).collect();
    let out = ModelFile::from_bytes(optimized.model.to_vec()).unwrap();
    let mut layout = optimized.layout.clone();
    let given = ModelFile::from_bytes(bytes(&scaled())).unwrap();
    let is_proven = |layout: &Layout| memc_check::check(&given, &out, layout, Default::default()).is_proven();
    assert!(out.graph().node.len() == 2 && rules == ["scale"] && is_proven(&layout), "{rules:?}");
    layout.rewrites.clear();
    assert!(!is_proven(&layout), "nothing names the convolution");
}

/// Compares each fused kernel with its nodes on special numbers, bit by bit.
const FUSED: &str = r#"
import sys
import numpy, onnx, onnxruntime
from onnx import helper, numpy_helper

special = [0.0, -0.0, numpy.nan, numpy.inf, -numpy.inf, 1e-45, -1e-45, 1e-38, 3e38, -3e38, 1.0, -1.0, 0.5, 2.5, -2.5, 7.0]
x = numpy.array(special * 36, numpy.float32).reshape(1, 16, 6, 6)
generator = numpy.random.default_rng(0)
for names in sys.argv[1:]:
    activation, kernels = (names.split("=") * 2)[:2]
    for kernel, group in ((1, 1), (3, 1), (3, 16)):
        weights = generator.standard_normal((16, 16 // group, kernel, kernel)).astype(numpy.float32)
        if kernel == 1:
            weights = numpy.eye(16, dtype=numpy.float32).reshape(16, 16, 1, 1)
        stated = dict(kernel_shape=[kernel, kernel], group=group, pads=[kernel // 2] * 4)
        apart = [helper.make_node("Conv", ["x", "w"], ["c"], **stated), helper.make_node(activation, ["c"], ["y"])]
        fused = [helper.make_node("FusedConv", ["x", "w"], ["y"], domain="com.microsoft", activation=kernels, **stated)]
        found = []
        for nodes in (apart, fused):
            info = lambda name: helper.make_tensor_value_info(name, 1, [1, 16, 6, 6])
            graph = helper.make_graph(nodes, "g", [info("x")], [info("y")], [numpy_helper.from_array(weights, "w")])
            sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            model = helper.make_model(graph, opset_imports=sets, ir_version=8).SerializeToString()
            session = onnxruntime.InferenceSession(model, options)
            found.append([session.run(None, {"x": x * scale})[0] for scale in (1, 0.25, -3)])
        for one, other in zip(*found):
            same = (one.view(numpy.int32) == other.view(numpy.int32)) | (numpy.isnan(one) & numpy.isnan(other))
            if not same.all():
                print(activation, kernel, group, one[~same][:3], other[~same][:3])
"#;

/// Compares functions with the nodes of which they consist on special numbers, bit by bit.
const FUNCTIONS: &str = r#"
import numpy, onnxruntime
from onnx import helper

special = [0.0, -0.0, numpy.nan, numpy.inf, -numpy.inf, 1e-45, -1e-45, 1e-38, 3e38, -3e38, 1.0, -1.0, 0.5, 2.5, -2.5, 7.0]
x = numpy.concatenate([special, numpy.linspace(-4, 4, 1001)]).astype(numpy.float32)
for alpha in (1 / 6, 0.2):
    gate = helper.make_node("HardSigmoid", ["x"], ["g"], alpha=alpha, beta=0.5)
    found = []
    for nodes in ([helper.make_node("HardSwish", ["x"], ["y"])], [gate, helper.make_node("Mul", ["x", "g"], ["y"])]):
        info = lambda name: helper.make_tensor_value_info(name, 1, x.shape)
        graph = helper.make_graph(nodes, "g", [info("x")], [info("y")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        found.append(onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0].view(numpy.int32))
    if (found[0] != found[1]).any():
        print(alpha)
"#;

#[test]
fn functions_equal_their_nodes() {
    assert_eq!(python(FUNCTIONS, &[]).trim(), "0.2", "only other numbers differ");
}

#[test]
fn fused_kernels_equal_their_nodes() {
    assert_eq!(python(FUSED, memc_check::ACTIVATIONS), "");
    assert!(python(FUSED, &["Relu=Sigmoid"]).starts_with("Relu "), "the comparison finds differences");
}
