//! Plans that the search made with codes: training steps of several shapes and operator sets, planned
//! within budgets, checked, and run in ONNX Runtime.
#![cfg(feature = "ort")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use std::collections::BTreeSet;

use command::Folder;
use memc_onnx_proto::onnx::{ModelProto, NodeProto};
use models_made::{bytes, fixed, floats, int, integers, ints, node, raw, stated, with};
use serde_json::Value;

/// Extents of a step: images, channels, and extent of an image.
#[derive(Clone, Copy)]
struct Shape {
    images: i64,
    channels: i64,
    extent: i64,
}

/// Builds a step of `layers` layers on images. Each layer is a convolution with a bias and a mask; a pool
/// with positions follows. The loss is the mean of the squares of the pooled values; gradients flow
/// through pool and masks. With `positions`, the last gradient is scattered to the maxima of the first
/// layer.
fn step(layers: usize, shape: Shape, opset: i64, positions: bool) -> ModelProto {
    let Shape { images, channels, extent } = shape;
    let (whole, pooled) = ([images, channels, extent, extent], [images, channels, extent / 2, extent / 2]);
    let count: i64 = whole.iter().product();
    let mut nodes: Vec<NodeProto> = Vec::new();
    let conv =
        |from: &str, to: &str| stated(node("Conv", &[from, "w"], &[to]), vec![ints("pads", &[1, 1, 1, 1])]);
    let halves = vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])];
    for layer in 0..layers {
        let name = |kind: &str| format!("{kind}{layer}");
        let from = if layer == 0 { "x".to_owned() } else { format!("r{}", layer - 1) };
        nodes.push(conv(&from, &name("c")));
        nodes.push(node("Add", &[&name("c"), "bias"], &[&name("h")]));
        nodes.push(node("Relu", &[&name("h")], &[&name("r")]));
        nodes.push(node("LessOrEqual", &[&name("h"), "zero"], &[&name("m")]));
    }
    let last = format!("r{}", layers - 1);
    nodes.push(stated(node("MaxPool", &[&last], &["p", "i"]), halves.clone()));
    nodes.push(node("Mul", &["p", "p"], &["squares"]));
    nodes.push(stated(node("ReduceMean", &["squares"], &["loss"]), vec![int("keepdims", 0)]));
    nodes.push(node("Mul", &["p", "rate"], &["gp"]));
    nodes.push(node("Reshape", &["gp", "flat"], &["gf"]));
    nodes.push(node("Reshape", &["i", "flat"], &["if"]));
    nodes.push(stated(node("ScatterElements", &["zeros", "if", "gf"], &["gs"]), vec![int("axis", 0)]));
    nodes.push(node("Reshape", &["gs", "whole"], &[&format!("g{layers}")]));
    for layer in (0..layers).rev() {
        let name = |kind: &str| format!("{kind}{layer}");
        nodes.push(node("Where", &[&name("m"), "zero", &format!("g{}", layer + 1)], &[&name("k")]));
        // The gradient of the layer's result meets its activation.
        nodes.push(node("Mul", &[&name("k"), &name("r")], &[&name("q")]));
        nodes
            .push(stated(node("ReduceSum", &[&name("q"), "axes"], &[&name("dw")]), vec![int("keepdims", 1)]));
        nodes.push(conv(&name("k"), &name("g")));
    }
    // The gradient is pooled and scattered to the maxima of the first layer.
    if positions {
        nodes.push(stated(node("MaxPool", &["h0"], &["p0", "i0"]), halves.clone()));
        nodes.push(node("Mul", &["p", "p0"], &["products"]));
        nodes.push(stated(node("AveragePool", &["g0"], &["a"]), halves));
        nodes.push(node("Reshape", &["a", "flat"], &["af"]));
        nodes.push(node("Reshape", &["i0", "flat"], &["i0f"]));
        nodes.push(stated(node("ScatterElements", &["zeros", "i0f", "af"], &["late"]), vec![int("axis", 0)]));
    }
    let mut model = with(nodes, |graph| {
        graph.input = vec![fixed("x", &whole)];
        graph.output = vec![fixed("loss", &[])];
        graph.output.extend((0..layers).map(|layer| fixed(&format!("dw{layer}"), &[1, channels, 1, 1])));
        graph.output.push(fixed("g0", &whole));
        if positions {
            graph.output.extend([fixed("late", &[count]), fixed("products", &pooled)]);
        }
        graph.initializer = vec![
            raw("zero", &[], &[0; 4]),
            raw("rate", &[], &0.01f32.to_le_bytes()),
            floats("w", &[channels, channels, 3, 3]),
            integers("flat", &[pooled.iter().product()]),
            integers("whole", &whole),
            integers("axes", &[0, 2, 3]),
            floats("bias", &[1, channels, 1, 1]),
            raw("zeros", &[count], &vec![0; 4 * count as usize]),
        ];
    });
    model.opset_import[0].version = Some(opset);
    model
}

/// Plans a step within a share of its arena and returns the layout.
fn planned(folder: &Folder, model: &ModelProto, options: &str, percent: u64) -> Value {
    let layout = |folder: &Folder| serde_json::from_str::<Value>(&folder.read("out.layout.json")).unwrap();
    folder.write("in.onnx", bytes(model));
    folder.memc("optimize in.onnx -o out.onnx --no-rewrite --micro-batches 1 --encode off").done();
    let arena = layout(folder)["arenas"][0]["size"].as_u64().unwrap();
    let budget = arena * percent / 100;
    folder.memc(&format!("optimize in.onnx -o out.onnx {options} --budget {budget}")).done();
    let layout = layout(folder);
    assert!(layout["arenas"][0]["size"].as_u64().unwrap() <= budget);
    layout
}

fn forms(layout: &Value) -> BTreeSet<String> {
    let rows = layout["encodings"].as_array().cloned().unwrap_or_default();
    rows.iter().map(|row| row["form"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn exact_codes_keep_every_bit() {
    let mut seen = BTreeSet::new();
    for (name, shape, opset) in [
        ("a", Shape { images: 4, channels: 16, extent: 32 }, 20),
        ("b", Shape { images: 6, channels: 10, extent: 24 }, 15),
        ("c", Shape { images: 1, channels: 32, extent: 64 }, 21),
    ] {
        let folder = Folder::new(&format!("codes-exact-{name}"));
        for percent in [97, 90] {
            let layout = planned(&folder, &step(4, shape, opset, true), "--exact", percent);
            seen.extend(forms(&layout));
            let checked = folder.memc("check in.onnx out.onnx out.layout.json").checked();
            assert!(
                checked.err.contains("nothing wrong") && !checked.err.contains("comparison"),
                "{checked:#?}"
            );
            let found = folder.memc("verify in.onnx out.onnx --seed 5 --rounds 1").done();
            assert!(found.err.contains("equal bit for bit"), "{found:#?}");
        }
    }
    assert!(seen.contains("bits") && seen.contains("pool-position"), "{seen:?}");
}

#[test]
fn masks_without_codes_keep_their_bytes() {
    // Operator set 13 has no kernels for bytes; a number of Booleans that 8 does not divide has no bits.
    for (name, shape, opset) in [
        ("old", Shape { images: 4, channels: 16, extent: 32 }, 13),
        ("odd", Shape { images: 1, channels: 3, extent: 30 }, 20),
    ] {
        let folder = Folder::new(&format!("codes-none-{name}"));
        let layout = planned(&folder, &step(4, shape, opset, true), "--exact", 97);
        assert!(!forms(&layout).contains("bits"), "{layout}");
        folder.memc("verify in.onnx out.onnx --rounds 1").done();
    }
}

#[test]
fn lossy_codes_keep_the_loss_and_bound_the_error() {
    let shape = Shape { images: 4, channels: 16, extent: 32 };
    for (form, most) in [("f16", 1e-3), ("bf16", 1e-2), ("int8", 1e-2)] {
        let folder = Folder::new(&format!("codes-{form}"));
        let options = format!("--lossy {form} --no-rewrite --micro-batches 1 --encode off");
        let layout = planned(&folder, &step(4, shape, 18, false), &options, 85);
        assert_eq!(forms(&layout), BTreeSet::from([form.to_owned()]));
        folder.memc("check in.onnx out.onnx out.layout.json").checked();
        let found = folder.memc("verify in.onnx out.onnx --json --rounds 1").done();
        let loss = serde_json::from_str::<Value>(&found.out).unwrap()["loss"].clone();
        let global = loss["global"].as_f64().unwrap();
        assert!(global > 0.0 && global < most, "{form}: {loss}");
        let rows = loss["outputs"].as_array().unwrap();
        let exact = rows.iter().find(|row| row["output"] == "loss");
        assert!(exact.is_none_or(|row| row["relative"] == 0.0), "{loss}");
    }
}

#[test]
fn lossy_codes_need_a_request_and_spare_named_values() {
    let shape = Shape { images: 2, channels: 8, extent: 16 };
    let folder = Folder::new("codes-wide");
    let options = "--lossy f16 --keep-wide r* --keep-wide h? --no-rewrite --micro-batches 1 --encode off";
    folder.write("in.onnx", bytes(&step(4, shape, 18, false)));
    folder.memc(&format!("optimize in.onnx -o out.onnx {options}")).done();
    let layout: Value = serde_json::from_str(&folder.read("out.layout.json")).unwrap();
    assert!(layout["encodings"].is_null(), "{layout}");
    let refused = folder.memc("optimize in.onnx -o no.onnx --lossy f16 --exact");
    assert!(refused.code == Some(2) && !folder.path("no.onnx").exists(), "{refused:#?}");
}
