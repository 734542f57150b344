//! Limits of single values by `--max-value`: kept in parts, or refused with the value that exceeds them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command::Folder;
use crate::models_made::{bytes, fixed, int, integers, node, stated, with};

/// Returns a chain over a batch of 64 rows whose values are four times as wide as its input.
fn wide() -> Vec<u8> {
    let nodes = vec![
        stated(node("Concat", &["x", "x", "x", "x"], &["a"]), vec![int("axis", 1)]),
        node("Sin", &["a"], &["b"]),
        node("Cos", &["b"], &["c"]),
        node("ReduceSum", &["c", "axes"], &["y"]),
    ];
    bytes(&with(nodes, |graph| {
        graph.input = vec![fixed("x", &[64, 1024])];
        graph.output = vec![fixed("y", &[64, 1])];
        graph.initializer = vec![integers("axes", &[1])];
    }))
}

fn layout(folder: &Folder) -> serde_json::Value {
    serde_json::from_str(&folder.read("out.layout.json")).unwrap()
}

#[test]
fn values_are_computed_in_parts_within_the_limit() {
    let folder = Folder::new("largest");
    folder.write("in.onnx", wide());
    folder.memc("optimize in.onnx -o out.onnx --max-value 512KiB --runtime ort").done();
    let plan = layout(&folder);
    assert_eq!(plan["options"]["max_value"], "524288");
    let values = plan["tensors"].as_array().unwrap().iter().filter(|tensor| tensor["class"] != "scratch");
    let largest = values.map(|tensor| tensor["bytes"].as_u64().unwrap()).max().unwrap();
    assert!(largest <= 512 << 10, "{largest}");
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    // The checker holds the limit from the layout.
    let text = folder.read("out.layout.json").replace("\"max_value\": \"524288\"", "\"max_value\": \"1024\"");
    folder.write("out.layout.json", text);
    let ran = folder.memc("check in.onnx out.onnx out.layout.json");
    assert!(
        ran.code == Some(1) && ran.err.contains("E0533") && ran.err.contains("largest value"),
        "{ran:#?}"
    );
}

#[test]
fn a_limit_below_the_interface_is_refused_with_proof() {
    let folder = Folder::new("largest-proof");
    folder.write("in.onnx", wide());
    let ran = folder.memc("-q optimize in.onnx -o out.onnx --max-value 100KiB").refused(3, "E0364");
    assert!(
        ran.err.contains("the model's own `x` has 262,144 B") && ran.err.contains("--max-value 262144"),
        "{ran:#?}"
    );
    let ran = folder
        .memc("-q optimize in.onnx -o out.onnx --max-value 300KiB --exact --no-rewrite")
        .refused(3, "E0364");
    assert!(ran.err.contains("no plan was found") && ran.err.contains("makes it"), "{ran:#?}");
    assert_eq!(folder.names(), ["in.onnx"]);
    let share = folder.memc("optimize in.onnx -o out.onnx --max-value 60%");
    assert!(share.code == Some(2) && share.err.contains("128MiB"), "{share:#?}");
}
