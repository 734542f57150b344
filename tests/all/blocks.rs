//! Images in blocks of channels: planned, checked, and run on ONNX Runtime's kernels together with the
//! input model.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use command::Folder;
use memc_onnx_proto::onnx::{ModelProto, TensorProto};
use models_made::{bytes, fixed, int, ints, node, raw, stated, with};

/// Returns the number of channels of a block on this machine.
fn block() -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    return Some(if std::arch::is_x86_feature_detected!("avx512f") { 16 } else { 8 });
    #[cfg(not(target_arch = "x86_64"))]
    None
}

fn weights(name: &str, dims: &[i64]) -> TensorProto {
    let count: i64 = dims.iter().product();
    let numbers = (0..count)
        .flat_map(|i| (((i * 29 + name.len() as i64 * 7) % 67) as f32 / 134.0 - 0.25).to_le_bytes());
    raw(name, dims, &numbers.collect::<Vec<u8>>())
}

/// Returns a network with every operator that has a blocked form, with channels that fill blocks and
/// channels that do not: a plain image, depthwise and grouped convolutions, a convolution with an added
/// operand, an activation, pools, a join, and a scale for each channel.
fn network() -> ModelProto {
    let same = || ints("pads", &[1, 1, 1, 1]);
    let nodes = vec![
        stated(node("Conv", &["x", "w0", "b0"], &["a0"]), vec![same(), ints("strides", &[2, 2])]),
        node("Relu", &["a0"], &["a1"]),
        stated(node("Conv", &["a1", "w1"], &["a2"]), vec![same(), int("group", 20)]),
        node("Conv", &["a2", "w2", "b2"], &["a3"]),
        stated(
            node("MaxPool", &["a3"], &["a4"]),
            vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])],
        ),
        stated(node("Conv", &["a4", "w3"], &["a5"]), vec![same(), int("group", 2)]),
        node("Add", &["a5", "a4"], &["a6"]),
        node("Sigmoid", &["a6"], &["a7"]),
        stated(node("Concat", &["a7", "a4"], &["a8"]), vec![int("axis", 1)]),
        node("Conv", &["a8", "w4"], &["a9"]),
        node("GlobalAveragePool", &["a9"], &["p0"]),
        node("Sigmoid", &["p0"], &["p1"]),
        node("Mul", &["a9", "p1"], &["y"]),
    ];
    with(nodes, |graph| {
        graph.input = vec![fixed("x", &[2, 3, 16, 16])];
        graph.output = vec![fixed("y", &[2, 32, 4, 4])];
        graph.initializer = vec![
            weights("w0", &[20, 3, 3, 3]),
            weights("b0", &[20]),
            weights("w1", &[20, 1, 3, 3]),
            weights("w2", &[32, 20, 1, 1]),
            weights("b2", &[32]),
            weights("w3", &[32, 16, 3, 3]),
            weights("w4", &[32, 64, 1, 1]),
        ];
    })
}

#[test]
fn every_blocked_form_matches_the_input_model() {
    let Some(block) = block() else { return };
    let folder = Folder::new("blocks");
    folder.write("in.onnx", bytes(&network()));
    for runtime in ["ort", "player"] {
        folder.memc(&format!("optimize in.onnx -o out.onnx --runtime {runtime} --nchwc {block}")).done();
        folder.memc("check in.onnx out.onnx out.layout.json").checked();
        let layout = folder.read("out.layout.json");
        assert_eq!(layout.matches("\"Conv\"").count(), 5, "all convolutions are laid out: {layout}");
        folder.memc("verify in.onnx out.onnx -n 3").done();
    }
}

#[test]
fn verification_finds_blocks_of_the_wrong_size() {
    let Some(block) = block() else { return };
    let folder = Folder::new("other-blocks");
    folder.write("in.onnx", bytes(&network()));
    folder.memc(&format!("optimize in.onnx -o out.onnx --runtime ort --nchwc {}", 24 - block)).done();
    let ran = folder.memc("verify in.onnx out.onnx -n 1");
    assert!(ran.code.is_some_and(|code| code != 0), "{ran:#?}");
}

#[test]
fn blocks_are_refused_for_runtimes_without_blocked_kernels() {
    let folder = Folder::new("no-blocks");
    folder.write("in.onnx", bytes(&network()));
    let refused = |arguments: &str| {
        let ran = folder.memc(&format!("optimize in.onnx -o out.onnx {arguments}"));
        assert_eq!(ran.code, Some(2), "{ran:#?}");
        assert!(!folder.path("out.onnx").exists());
    };
    refused("--nchwc 16");
    refused("--runtime ort --nchwc 12");
    refused("--runtime ort --nchwc 8 --exact");
    refused("--runtime ort --nchwc 8 --std-ops");
}
