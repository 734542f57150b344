//! Plans with encoded values: the checker accepts them, and ONNX Runtime's kernels restore every bit of
//! exact forms, and rounded values as far as the bound allows.
#![cfg(feature = "ort")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use command::Folder;
use memc_onnx_proto::onnx::{ModelProto, NodeProto, TensorProto, ValueInfoProto, type_proto};
use models_made::{bytes, fixed, floats, int, integers, ints, node, raw, stated, with};
use serde_json::{Value, json};

const FLOAT: i64 = 1;
const UINT8: i64 = 2;
const INT8: i64 = 3;
const INT32: i64 = 6;
const INT64: i64 = 7;
const FLOAT16: i64 = 10;

fn typed(name: &str, element: i64, dims: &[i64]) -> ValueInfoProto {
    let mut info = fixed(name, dims);
    if let Some(type_proto::Value::TensorType(tensor)) = info.r#type.as_mut().and_then(|ty| ty.value.as_mut())
    {
        tensor.elem_type = Some(element as i32);
    }
    info
}

fn constant(name: &str, element: i64, dims: &[i64], bytes: &[u8]) -> TensorProto {
    TensorProto { data_type: Some(element as i32), ..raw(name, dims, bytes) }
}

fn cast(from: &str, to: &str, element: i64) -> NodeProto {
    stated(node("Cast", &[from], &[to]), vec![int("to", element)])
}

/// Returns the model without encoded values: a mask, positions of maxima, indices and activations, each
/// with an early and a late reader.
fn plain() -> Vec<NodeProto> {
    let window = vec![ints("kernel_shape", &[3, 3]), ints("strides", &[2, 2]), ints("pads", &[1, 1, 1, 1])];
    vec![
        node("Greater", &["x", "zero"], &["m"]),
        node("Where", &["m", "x", "c"], &["y"]),
        stated(node("MaxPool", &["y"], &["p", "i"]), window),
        stated(node("ArgMax", &["p"], &["a"]), vec![int("axis", 3)]),
        node("Exp", &["y"], &["r"]),
        node("Tanh", &["r"], &["e"]),
        node("Where", &["m", "e", "x"], &["z1"]),
        node("Add", &["i", "i"], &["z2"]),
        node("Add", &["a", "a"], &["z3"]),
        node("Sin", &["r"], &["z4"]),
    ]
}

/// Returns a model of these nodes. The images have 2 x 3 planes of 16 x 16 elements.
fn model(nodes: Vec<NodeProto>) -> ModelProto {
    let places: Vec<i32> = (0..64).map(|at| (at / 8 * 2 - 1) * 16 + at % 8 * 2 - 1).collect();
    let images: Vec<i32> = (0..6).map(|image| image * 256).collect();
    let wide = |numbers: &[i32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let low = |numbers: &[i32]| numbers.iter().map(|number| (number & 255) as u8).collect::<Vec<u8>>();
    with(nodes, |graph| {
        graph.input = vec![fixed("x", &[2, 3, 16, 16])];
        graph.output = vec![
            fixed("z1", &[2, 3, 16, 16]),
            typed("z2", INT64, &[2, 3, 8, 8]),
            typed("z3", INT64, &[2, 3, 8, 1]),
        ];
        graph.output.push(fixed("z4", &[2, 3, 16, 16]));
        graph.initializer = vec![
            raw("zero", &[], &[0; 4]),
            floats("c", &[2, 3, 16, 16]),
            constant("weights", UINT8, &[1, 8], &[1, 2, 4, 8, 16, 32, 64, 128]),
            constant("factors", UINT8, &[8, 1], &[128, 64, 32, 16, 8, 4, 2, 1]),
            constant("half", UINT8, &[], &[127]),
            integers("eight", &[8, 192]),
            integers("shape", &[2, 3, 16, 16]),
            constant("images", INT32, &[2, 3, 1, 1], &wide(&images)),
            constant("places", INT32, &[1, 1, 8, 8], &wide(&places)),
            constant("low_images", UINT8, &[2, 3, 1, 1], &low(&images)),
            constant("low_places", UINT8, &[1, 1, 8, 8], &low(&places)),
        ];
        let read: Vec<String> = graph.node.iter().flat_map(|node| node.input.clone()).collect();
        graph.initializer.retain(|tensor| tensor.name.as_ref().is_some_and(|name| read.contains(name)));
    })
}

/// Returns the model with a mask as bits, positions as bytes and indices as bytes between early and late
/// readers, and `r` as `rounded` values.
fn encoded(rounded: &[NodeProto], r: &str) -> Vec<NodeProto> {
    let mut nodes = plain();
    for late in &mut nodes[6..] {
        for (wide, decoded) in [("m", "m2"), ("i", "i2"), ("a", "a2"), ("r", r)] {
            late.input.iter_mut().filter(|name| *name == wide).for_each(|name| *name = decoded.to_owned());
        }
    }
    let pairs = [
        node("Reshape", &["m", "eight"], &["mr"]),
        cast("mr", "mb", UINT8),
        node("MatMulInteger", &["weights", "mb"], &["ms"]),
        cast("ms", "me", UINT8),
        cast("i", "il", UINT8),
        node("Sub", &["il", "low_images"], &["in"]),
        node("Sub", &["in", "low_places"], &["ie"]),
        cast("a", "ae", INT8),
        node("Mul", &["me", "factors"], &["md"]),
        node("Greater", &["md", "half"], &["mg"]),
        node("Reshape", &["mg", "shape"], &["m2"]),
        cast("ie", "iw", INT32),
        node("Add", &["iw", "images"], &["ix"]),
        node("Add", &["ix", "places"], &["iy"]),
        cast("iy", "i2", INT64),
        cast("ae", "a2", INT64),
    ];
    nodes.splice(6..6, pairs.into_iter().chain(rounded.iter().cloned()));
    nodes
}

fn row(of: &str, code: &[&str], decoded: &str, form: &str) -> Value {
    json!({"of": of, "code": code, "decoded": decoded, "form": form, "exact": !["f16", "int8"].contains(&form)})
}

/// Plans the model with encoded values as it is, and states that it comes from the model without.
fn written(test: &str, nodes: Vec<NodeProto>, rows: &[Value], opset: i64) -> Folder {
    let folder = Folder::new(test);
    for (name, nodes) in [("in.onnx", plain()), ("coded.onnx", nodes)] {
        let mut model = model(nodes);
        model.opset_import[0].version = Some(opset);
        folder.write(name, bytes(&model));
    }
    folder.memc("optimize in.onnx -o plain.onnx --no-rewrite").done();
    folder.memc("optimize coded.onnx -o out.onnx --no-rewrite").done();
    let parse = |name: &str| -> Value { serde_json::from_str(&folder.read(name)).unwrap() };
    let (plain, mut layout) = (parse("plain.layout.json"), parse("out.layout.json"));
    layout["model"]["input_sha256"] = plain["model"]["input_sha256"].clone();
    layout["baseline"] = plain["baseline"].clone();
    layout["cost"]["nodes_before"] = plain["cost"]["nodes_before"].clone();
    layout["encodings"] = rows.iter().cloned().collect();
    let lossy = rows.iter().filter(|row| row["exact"] == false).filter_map(|row| row["form"].as_str());
    let lossy: Vec<&str> = lossy.collect();
    if !lossy.is_empty() {
        layout["options"]["lossy"] = lossy.join(",").into();
    }
    folder.write("out.layout.json", format!("{layout:#}\n"));
    folder
}

fn exact_rows() -> Vec<Value> {
    vec![
        row("m", &["me"], "m2", "bits"),
        row("i", &["ie"], "i2", "pool-position"),
        row("a", &["ae"], "a2", "narrow"),
    ]
}

#[test]
fn exact_forms_restore_every_bit() {
    for opset in [15, 17, 20, 21] {
        let folder = written(&format!("encoded-exact-{opset}"), encoded(&[], "r"), &exact_rows(), opset);
        let checked = folder.memc("check in.onnx out.onnx out.layout.json").checked();
        assert!(checked.err.contains("nothing wrong") && !checked.err.contains("comparison"), "{checked:#?}");
        let found = folder.memc("verify in.onnx out.onnx --seed 3").done();
        assert!(found.err.contains("4 outputs equal bit for bit in 3 rounds"), "{found:#?}");
        let report = folder.memc("report out.onnx --layout out.layout.json").done();
        assert!(report.out.contains("encoded values") && report.out.contains("pool-position"), "{report:#?}");
    }
}

#[test]
fn rounded_values_are_measured_against_a_bound() {
    let halves = [cast("r", "re", FLOAT16), cast("re", "r2", FLOAT)];
    let rows = [exact_rows(), vec![row("r", &["re"], "r2", "f16")]].concat();
    let folder = written("encoded-f16", encoded(&halves, "r2"), &rows, 17);
    let checked = folder.memc("check in.onnx out.onnx out.layout.json").checked();
    assert!(
        checked.err.contains("computed from rounded values: needs numeric comparison: `z4`"),
        "{checked:#?}"
    );
    let found = folder.memc("verify in.onnx out.onnx --json").done();
    assert!(found.err.contains("4 outputs equal but for rounded values in 3 rounds"), "{found:#?}");
    let loss = serde_json::from_str::<Value>(&found.out).unwrap()["loss"].clone();
    let global = loss["global"].as_f64().unwrap();
    assert!((1e-5..1e-2).contains(&global) && loss["outputs"][0]["output"] == "z4", "{loss}");
    // Only `z4` reads rounded values; all integers are equal.
    assert_eq!(
        loss["outputs"].as_array().unwrap().iter().map(|row| row["relative"] == 0.0).collect::<Vec<_>>(),
        [false, true]
    );
    let refused =
        folder.memc(&format!("verify in.onnx out.onnx --lossy-bound {}", global / 2.0)).refused(1, "E0714");
    assert!(
        refused.err.contains("`z4`: relative error") && !refused.err.contains("`z1`: relative"),
        "{refused:#?}"
    );
    // Without permission the plan is refused before it runs.
    let text = folder.read("out.layout.json").replace("\"lossy\": \"f16\"", "\"lossy\": \"int8\"");
    folder.write("out.layout.json", text);
    let refused = folder.memc("check in.onnx out.onnx out.layout.json");
    assert!(refused.code == Some(1) && refused.err.contains("error[E0571]"), "{refused:#?}");
}
