//! Input that `memc verify`, `run` and `report` reject, and their statements about close results.
#![cfg(feature = "ort")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use command::Folder;
use memc_onnx_proto::onnx::{ModelProto, type_proto};
use models_made::{bytes, fixed, float, floats, int, ints, node, numbers, raw, sound, stated, with};

#[test]
fn without_a_layout_the_option_is_named() {
    let folder = Folder::new("verified-none");
    folder.write("in.onnx", bytes(&sound()));
    let ran = folder.memc("verify in.onnx in.onnx").refused(1, "E0116");
    assert!(ran.err.contains("in.layout.json") && ran.err.contains("the plan was not checked"), "{ran:#?}");
    assert!(ran.err.contains("help: name the layout that was written with the model: `--layout"), "{ran:#?}");
}

#[test]
fn a_report_is_of_the_model_that_the_layout_names() {
    let folder = Folder::new("verified-report");
    folder.write("in.onnx", bytes(&sound()));
    folder.write("other.onnx", bytes(&with(vec![node("Exp", &["x"], &["y"])], |_| {})));
    folder.memc("optimize in.onnx -o out.onnx").done();
    let given = folder.memc("report in.onnx --layout out.layout.json").done();
    let written = folder.memc("report out.onnx --layout out.layout.json").done();
    assert_eq!(given.out, written.out);
    folder.memc("report other.onnx --layout out.layout.json").refused(1, "E0125");
}

/// Returns convolutions whose last results are far below zero, followed by a logistic function.
fn near_zero() -> ModelProto {
    let shift: Vec<u8> = (-14.0f32).to_le_bytes().to_vec();
    let pads = || vec![ints("pads", &[1, 1, 1, 1])];
    let nodes = vec![
        stated(node("Conv", &["x", "v"], &["a"]), pads()),
        // Folded into the previous convolution's weights, which changes rounding.
        node("BatchNormalization", &["a", "n", "n", "n", "n"], &["m"]),
        node("Relu", &["m"], &["r"]),
        stated(node("Conv", &["r", "w", "b"], &["c"]), pads()),
        node("Sigmoid", &["c"], &["s"]),
        stated(node("Flatten", &["s"], &["y"]), vec![int("axis", 1)]),
    ];
    with(nodes, |graph| {
        graph.input = vec![fixed("x", &[1, 3, 16, 16])];
        graph.output = vec![fixed("y", &[1, 256])];
        graph.initializer =
            vec![floats("v", &[8, 3, 3, 3]), floats("w", &[1, 8, 3, 3]), raw("b", &[1], &shift)];
        graph.initializer.push(numbers("n", &[1.1, 0.7, 0.9, 0.8, 1.2, 1.3, 0.6, 1.4]));
    })
}

#[test]
fn logistic_functions_may_be_off_by_roundings_of_one() {
    let folder = Folder::new("verified-unit");
    folder.write("in.onnx", bytes(&near_zero()));
    folder.memc("optimize in.onnx -o out.onnx").done();
    assert!(folder.read("out.layout.json").contains("FusedConv"), "the function is fused");
    let ran = folder.memc("verify in.onnx out.onnx");
    assert!(!ran.err.contains("equal bit for bit"), "the case shows nothing: {ran:#?}");
    ran.done();
}

/// Returns a product that is rounded to 8-bit integers after an activation that rules replace.
fn rounded() -> ModelProto {
    let nodes = vec![
        node("Sigmoid", &["x"], &["s"]),
        node("Mul", &["x", "s"], &["m"]),
        stated(node("LeakyRelu", &["m"], &["l"]), vec![float("alpha", 0.1)]),
        node("DynamicQuantizeLinear", &["l"], &["q", "scale", "zero"]),
        node("DequantizeLinear", &["q", "scale", "zero"], &["y"]),
    ];
    with(nodes, |_| {})
}

#[test]
fn rewrites_before_roundings_to_integers_suggest_exact() {
    let folder = Folder::new("verified-rounds");
    folder.write("in.onnx", bytes(&rounded()));
    let ran = folder.memc("optimize in.onnx -o out.onnx").done();
    assert!(ran.err.contains("rewritten by"), "nothing to say: {ran:#?}");
    assert!(
        ran.err.contains("(DynamicQuantizeLinear)") && ran.err.contains("`--exact` keeps every bit"),
        "{ran:#?}"
    );
    let ran = folder.memc("optimize in.onnx -o out.onnx --exact").done();
    assert!(!ran.err.contains("keeps every bit"), "{ran:#?}");
    folder.write("in.onnx", bytes(&near_zero()));
    let ran = folder.memc("optimize in.onnx -o out.onnx").done();
    assert!(ran.err.contains("rewritten by") && !ran.err.contains("keeps every bit"), "{ran:#?}");
}

/// Returns sums in half precision that are normalized in full precision.
fn half_sums() -> ModelProto {
    let half = |name: &str| {
        let mut value = fixed(name, &[16, 32, 4]);
        let ty = value.r#type.as_mut().and_then(|ty| ty.value.as_mut());
        let Some(type_proto::Value::TensorType(tensor)) = ty else { panic!("a tensor") };
        tensor.elem_type = Some(10);
        value
    };
    let mean = || vec![ints("axes", &[-1])];
    let nodes = vec![
        node("Add", &["a", "b"], &["s"]),
        node("Add", &["s", "a"], &["h"]),
        stated(node("Cast", &["h"], &["f"]), vec![int("to", 1)]),
        stated(node("ReduceMean", &["f"], &["mu"]), mean()),
        node("Sub", &["f", "mu"], &["d"]),
        node("Mul", &["d", "d"], &["dd"]),
        stated(node("ReduceMean", &["dd"], &["va"]), mean()),
        node("Sqrt", &["va"], &["sd"]),
        node("Div", &["d", "sd"], &["y"]),
    ];
    let mut model = with(nodes, |graph| {
        graph.input = vec![half("a"), half("b")];
        graph.output = vec![fixed("y", &[16, 32, 4])];
    });
    model.opset_import[0].version = Some(13);
    model
}

#[test]
fn parts_end_at_roundings_of_sessions_with_default_options() {
    let folder = Folder::new("verified-halves");
    folder.write("in.onnx", bytes(&half_sums()));
    let verified = |runtime: &str| {
        folder.memc(&format!("optimize in.onnx -o out.onnx --runtime {runtime} --budget 60%")).done();
        assert!(folder.read("out.layout.json").contains("_part1"), "{runtime}: nothing is in parts");
        folder.memc("verify in.onnx out.onnx --rtol 0 --atol 0")
    };
    let ran = verified("ort");
    assert!(ran.err.contains("sessions with default options: both models give equal bits"), "{ran:#?}");
    ran.done();
    // The player rounds every value to its type, so its parts may end anywhere: a warning, not a
    // failure.
    let ran = verified("player");
    assert!(ran.err.contains("warning[W0701]") && ran.err.contains("float16 sums in float32"), "{ran:#?}");
    assert!(ran.err.contains("equal bit for bit"), "{ran:#?}");
    ran.done();
}
