//! Plans for a CUDA device: what its runtime can run, and what it says.
#![allow(clippy::unwrap_used)]

use crate::command;
use crate::models_made;

use command::Folder;
use memc_onnx_proto::onnx::ModelProto;
use models_made::{bytes, fixed, floats, int, ints, node, stated, with};
use prost::Message;
use serde_json::Value;

/// Convolutions whose results go through activations, nodes that the device runs in part, and a sum.
fn model(batch: i64) -> Vec<u8> {
    let nodes = vec![
        stated(node("Conv", &["x", "k"], &["c"]), vec![ints("pads", &[1, 1, 1, 1])]),
        node("Relu", &["c"], &["r"]),
        node("Exp", &["r"], &["e"]),
        node("Celu", &["e"], &["d"]),
        node("LeakyRelu", &["d"], &["l"]),
        stated(node("Softmax", &["l"], &["s"]), vec![int("axis", -1)]),
        stated(node("Conv", &["s", "k"], &["t"]), vec![ints("pads", &[1, 1, 1, 1])]),
        node("Tanh", &["t"], &["u"]),
        node("Add", &["u", "x"], &["y"]),
    ];
    let shape = [batch, 4, 8, 8];
    bytes(&with(nodes, |graph| {
        graph.input = vec![fixed("x", &shape)];
        graph.output = vec![fixed("y", &shape)];
        graph.initializer = vec![floats("k", &[4, 4, 3, 3])];
    }))
}

fn layout(folder: &Folder) -> Value {
    serde_json::from_str(&folder.read("out.layout.json")).unwrap()
}

#[test]
fn a_plan_for_a_device_has_its_units_and_its_kernels() {
    let folder = Folder::new("device-plan");
    folder.write("in.onnx", model(2));
    let ran = folder.memc("optimize in.onnx -o out.onnx --runtime cuda").done();
    assert!(ran.err.contains("W0365") && ran.err.contains(": 1 Celu"), "{}", ran.err);
    assert!(ran.err.contains("W0366") && ran.err.contains(": 1 Conv, 1 FusedConv"), "{}", ran.err);
    folder.memc("check in.onnx out.onnx out.layout.json").done();
    let layout = layout(&folder);
    // The device's kernel of FusedConv takes Relu alone.
    let written = ModelProto::decode(std::fs::read(folder.path("out.onnx")).unwrap().as_slice()).unwrap();
    let nodes = written.graph.unwrap().node;
    let fused: Vec<_> = nodes.iter().filter(|node| node.op_type() == "FusedConv").collect();
    assert!(fused.len() == 1 && nodes.iter().any(|node| node.op_type() == "Tanh"), "{layout:#}");
    assert!(fused[0].attribute.iter().any(|given| given.name() == "activation" && given.s() == b"Relu"));
    let tensors = layout["tensors"].as_array().unwrap();
    let offsets: Vec<u64> = tensors.iter().filter_map(|row| row["offset"].as_u64()).collect();
    assert!(offsets.len() > 2 && offsets.iter().all(|offset| offset % 256 == 0), "{offsets:?}");
    let overwrites = |name: &str| {
        let row = tensors.iter().find(|row| row["name"] == name).unwrap();
        row.get("alias").is_some_and(|alias| alias["kind"] == "in_place")
    };
    assert!(overwrites("u") && overwrites("l") && !overwrites("e") && !overwrites("y"), "{layout:#}");
    // Stated workspace is placed, and no longer open.
    folder.write(
        "kernels.json",
        r#"{"schema": "memc.scratch/1", "operators": {"Conv": "4096"}, "default": "0"}"#,
    );
    let ran = folder.memc("optimize in.onnx -o out.onnx --runtime cuda --scratch kernels.json").done();
    assert!(!ran.err.contains("W0366"), "{}", ran.err);
    assert!(layout_has(&folder, "scratch:"), "no workspace is placed");
    folder.memc("check in.onnx out.onnx out.layout.json").done();
}

fn layout_has(folder: &Folder, name: &str) -> bool {
    let tensors = layout(folder)["tensors"].as_array().unwrap().clone();
    tensors.iter().any(|row| row["name"].as_str().unwrap().starts_with(name) && row["bytes"] == 4096)
}

#[test]
fn a_device_moves_nothing_to_the_host_of_its_target() {
    let folder = Folder::new("device-moves");
    folder.write("in.onnx", model(2));
    for options in ["--link host=16GB/s", "--weights host", "--nchwc 8", "--session python", "--engines 2"] {
        folder.memc(&format!("optimize in.onnx -o out.onnx --runtime cuda {options}")).refused(2, "E0306");
    }
    // A budget is kept on the device, or refused; nothing goes to the target's host.
    folder.memc("optimize in.onnx -o out.onnx --runtime cuda --target h100-sxm --budget 100%").done();
    let layout = layout(&folder);
    assert_eq!(layout["target"]["spaces"].as_array().unwrap().len(), 1, "{layout:#}");
    assert!(layout["transfers"].as_array().unwrap().is_empty(), "{layout:#}");
}
