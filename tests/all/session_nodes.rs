//! Nodes that sessions run, as a session writes them into a file: by the printed settings they are the nodes
//! of the written model, in number and kind. So the order was planned for nodes that exist.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use crate::command::{Folder, python};
use crate::models_made::{bytes, fixed, float, floats, int, integers, ints, node, stated, with};

use memc_onnx_proto::onnx::{ModelProto, NodeProto};

/// Prints how many nodes of each operator a model has, and how many its session runs.
const DUMP: &str = r#"
import collections, json, os, sys
import onnx, onnxruntime

def counts(path):
    model = onnx.load(path, load_external_data=False)
    return collections.Counter(node.op_type for node in model.graph.node)

path, recipe = sys.argv[1:]
scope = {}
exec(recipe, scope)
options, dump = scope["options"], path + ".session"
options.log_severity_level = 4
options.optimized_model_filepath = dump
onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
print(json.dumps([counts(path), counts(dump)]))
"#;

type Counts = BTreeMap<String, u64>;

/// Plans a model for a session and proves the plan. Returns the nodes that are written, those that the
/// session runs, and the planned peak.
fn nodes(name: &str, model: &ModelProto, options: &str) -> (Counts, Counts, u64) {
    let folder = Folder::new(name);
    folder.write("in.onnx", bytes(model));
    let ran = folder.memc(&format!("optimize in.onnx -o out.onnx --runtime ort {options}")).done();
    let checked = folder.memc("check in.onnx out.onnx out.layout.json");
    // Blocks of channels are compared by numbers alone.
    if !options.contains("nchwc") {
        checked.done();
    }
    folder.memc("verify in.onnx out.onnx").done();
    let path = folder.path("out.onnx");
    let [written, run]: [Counts; 2] =
        serde_json::from_str(&python(DUMP, &[path.to_str().unwrap(), &ran.out])).unwrap();
    let layout: serde_json::Value = serde_json::from_str(&folder.read("out.layout.json")).unwrap();
    (written, run, layout["peak"]["device"]["bytes"].as_u64().unwrap())
}

/// Returns convolutions along some axes, each with an activation behind it.
fn convolutions(axes: usize, activations: &[NodeProto]) -> ModelProto {
    let image = [&[1, 16][..], &vec![1024 >> (5 * (axes - 1)); axes]].concat();
    let (mut nodes, mut weights) = (Vec::new(), Vec::new());
    for (at, activation) in activations.iter().enumerate() {
        let (from, made, to) = (format!("a{at}"), format!("c{at}"), format!("a{}", at + 1));
        let weight = format!("w{at}");
        let operand = if at == 0 { "x" } else { &from };
        nodes.push(stated(
            node("Conv", &[operand, &weight], &[&made]),
            vec![ints("pads", &vec![1; 2 * axes])],
        ));
        nodes.push(NodeProto {
            attribute: activation.attribute.clone(),
            ..node(activation.op_type(), &[&made], &[&to])
        });
        weights.push(floats(&weight, &[&[16, 16][..], &vec![3; axes]].concat()));
    }
    let last = format!("a{}", activations.len());
    nodes.push(stated(node("ReduceMean", &[&last, "axes"], &["y"]), vec![int("keepdims", 0)]));
    weights.push(integers("axes", &[2, 3][..axes]));
    with(nodes, |graph| {
        graph.input = vec![fixed("x", &image)];
        graph.output = vec![fixed("y", &[1, 16])];
        graph.initializer = weights;
    })
}

fn activations() -> Vec<NodeProto> {
    let bare = |name: &str| node(name, &[], &[]);
    let gate = stated(bare("HardSigmoid"), vec![float("alpha", 0.25), float("beta", 0.375)]);
    vec![gate, stated(bare("LeakyRelu"), vec![float("alpha", 0.125)]), bare("Relu")]
}

#[test]
fn activations_are_fused_before_the_session_does() {
    // Sessions have no blocks of channels for one axis.
    for (axes, options) in [(1, "--session python=smallest"), (2, "--nchwc native --session python=fast")] {
        let model = convolutions(axes, &activations());
        let (written, run, _) = nodes("activations", &model, options);
        assert_eq!(written, run, "{options}");
        let left = ["HardSigmoid", "LeakyRelu", "Relu"].map(|name| written.get(name).copied().unwrap_or(0));
        assert_eq!(left, [0; 3], "{options}: {written:?}");
    }
}

#[test]
fn a_function_is_taken_apart_before_the_session_does() {
    let chain = [node("Sin", &["x"], &["a"]), node("HardSwish", &["a"], &["b"]), node("Cos", &["b"], &["y"])];
    let model = with(chain.to_vec(), |graph| {
        graph.input = vec![fixed("x", &[4, 4096])];
        graph.output = vec![fixed("y", &[4, 4096])];
    });
    for recipe in ["smallest", "fast", "plain"] {
        let (written, run, _) = nodes("function", &model, &format!("--exact --session python={recipe}"));
        assert_eq!(written, run, "{recipe}");
        assert!(!written.contains_key("HardSwish"), "{recipe}: {written:?}");
    }
}

#[test]
fn gates_of_weights_are_put_in_order_before_the_session_does() {
    let slice = |from: &str, to: &str, made: &str| node("Slice", &["w", from, to, "zero"], &[made]);
    let order = stated(node("Concat", &["second", "first"], &["r"]), vec![int("axis", 0)]);
    let product = stated(node("Gemm", &["a", "r"], &["y"]), vec![int("transB", 1)]);
    let nodes_of = vec![
        node("Sin", &["x"], &["a"]),
        slice("zero", "half", "first"),
        slice("half", "whole", "second"),
        order,
        product,
    ];
    let model = with(nodes_of, |graph| {
        graph.input = vec![fixed("x", &[4, 64])];
        graph.output = vec![fixed("y", &[4, 512])];
        let bounds = [("zero", 0), ("half", 256), ("whole", 512)];
        graph.initializer = bounds.map(|(name, bound)| integers(name, &[bound])).to_vec();
        graph.initializer.push(floats("w", &[512, 64]));
    });
    for recipe in ["smallest", "fast", "plain"] {
        let (written, run, peak) = nodes("gates", &model, &format!("--session python={recipe}"));
        assert_eq!(written, run, "{recipe}");
        assert!(peak < 64 * 512 * 4, "{recipe}: {peak} B hold weights");
    }
}

#[test]
fn slices_of_a_large_value_are_not_joined() {
    // Slices of a pooled image, each summed up before the next one is taken.
    let mut nodes_of = vec![stated(
        node("MaxPool", &["x"], &["v"]),
        vec![ints("kernel_shape", &[3, 3]), ints("pads", &[1, 1, 1, 1])],
    )];
    let (mut sum, mut bounds) = ("x0".to_owned(), Vec::new());
    nodes_of.push(node("Slice", &["x", "b0", "b1", "axis"], &["x0"]));
    for at in 0..4i64 {
        let (from, to) = (format!("b{at}"), format!("b{}", at + 1));
        let [cut, wave, next] = ["cut", "wave", "sum"].map(|name| format!("{name}{at}"));
        nodes_of.push(node("Slice", &["v", &from, &to, "axis"], &[&cut]));
        nodes_of.push(node("Sin", &[&cut], &[&wave]));
        nodes_of.push(node("Mul", &[&sum, &wave], &[&next]));
        (sum, bounds) = (next, [bounds, vec![integers(&from, &[at])]].concat());
    }
    nodes_of.push(node("Cos", &[&sum], &["y"]));
    bounds.extend([integers("b4", &[4]), integers("axis", &[1])]);
    let model = with(nodes_of, |graph| {
        graph.input = vec![fixed("x", &[1, 4, 64, 64])];
        graph.output = vec![fixed("y", &[1, 1, 64, 64])];
        graph.initializer = bounds;
    });
    let (written, run, _) = nodes("slices", &model, "--no-rewrite --session python=fast");
    assert!(
        written.get("Slice").copied().unwrap_or(0) > 1 && !run.contains_key("Split"),
        "{written:?}, {run:?}"
    );
    assert_eq!(written, run);
}
