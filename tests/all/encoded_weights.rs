//! Weights in few bits and pruned weights: planned, checked, and run on ONNX Runtime's kernels together with
//! the input model.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use command::Folder;
use memc_onnx_proto::onnx::{ModelProto, OperatorSetIdProto, TensorProto};
use models_made::{bytes, external, fixed, float, int, node, numbers, raw, stated, with};

/// Returns numbers around zero that depend on a seed and look random.
fn noise(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    // Sums of four numbers look like a normal distribution.
    (0..count).map(|_| next() + next() + next() + next()).collect()
}

fn matrix(name: &str, dims: [i64; 2], values: &[f32]) -> TensorProto {
    raw(name, &dims, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
}

/// Returns three products of 160 to 200 numbers: a plain one, one with a bias and transposed weights, and one
/// with a factor. Each has weights of more than 64 KiB.
fn products(opset: i64, seed: u64) -> ModelProto {
    let scaled = |seed: u64, count: usize| {
        noise(seed, count).into_iter().map(|number| number * 0.1).collect::<Vec<f32>>()
    };
    let nodes = vec![
        node("MatMul", &["x", "u"], &["a"]),
        node("Tanh", &["a"], &["b"]),
        stated(node("Gemm", &["b", "v", "bias"], &["c"]), vec![int("transB", 1)]),
        node("Tanh", &["c"], &["d"]),
        stated(node("Gemm", &["d", "w"], &["y"]), vec![float("alpha", 0.5)]),
    ];
    let mut model = with(nodes, |graph| {
        graph.input = vec![fixed("x", &[3, 160])];
        graph.output = vec![fixed("y", &[3, 170])];
        graph.initializer = vec![
            matrix("u", [160, 200], &scaled(seed, 160 * 200)),
            matrix("v", [180, 200], &scaled(seed + 1, 180 * 200)),
            matrix("w", [180, 170], &scaled(seed + 2, 180 * 170)),
            numbers("bias", &noise(seed + 3, 180)),
        ];
    });
    model.opset_import = vec![OperatorSetIdProto { domain: None, version: Some(opset) }];
    model
}

/// Returns the number at a key of a layout, first occurrence.
fn number(layout: &str, key: &str) -> f64 {
    let (_, rest) = layout.split_once(&format!("\"{key}\": ")).unwrap_or_else(|| panic!("{key}"));
    rest.split([',', '\n', '}']).next().unwrap().trim().parse().unwrap()
}

/// Returns the bytes of all weights of a layout.
fn weights(layout: &str) -> f64 {
    let (_, rest) = layout.split_once("\n  \"weights\": ").unwrap();
    rest.split([',', '\n']).next().unwrap().parse().unwrap()
}

fn count(layout: &str, word: &str) -> usize {
    layout.matches(word).count()
}

#[test]
fn encoded_weights_are_checked_and_stay_within_their_bound() {
    for (opset, seed) in [(13, 1), (17, 2), (21, 3)] {
        let folder = Folder::new(&format!("encoded-weights-{opset}"));
        folder.write("in.onnx", bytes(&products(opset, seed)));
        for runtime in ["ort", "player", "arena"] {
            for (code, bound) in [("int8", 0.03), ("int4", 0.4)] {
                let ran = folder.memc(&format!(
                    "optimize in.onnx -o out.onnx --runtime {runtime} --encode-weights {code}"
                ));
                let ran = ran.done();
                let layout = folder.read("out.layout.json");
                let what = format!("{opset} {runtime} {code}: {ran:#?}");
                // 4-bit codes need operator set 21, or a kernel that multiplies by them.
                let direct = if runtime == "arena" { 0 } else { 2 };
                let expected = if code == "int4" && opset < 21 { direct } else { 3 };
                assert_eq!(count(&layout, "\"codes\": "), expected, "{what}");
                assert_eq!(count(&layout, "\"op\": \"MatMulNBits\""), direct, "{what}");
                assert_eq!(ran.err.contains("W0331"), expected > 0, "{what}");
                assert_eq!(ran.err.contains("W0332"), expected < 3, "{what}");
                folder.memc("check in.onnx out.onnx out.layout.json").checked();
                let found =
                    folder.memc(&format!("verify in.onnx out.onnx -n 2 --lossy-bound {bound}")).done();
                let word = if expected > 0 { "but for rounded values" } else { "within the tolerance" };
                assert!(
                    found.err.contains(word) || expected == 0 && found.err.contains("bit for bit"),
                    "{what}: {found:#?}"
                );
            }
        }
    }
}

#[test]
fn codes_never_refuse_a_budget_that_given_weights_keep() {
    let folder = Folder::new("encoded-weights-budget");
    folder.write("in.onnx", bytes(&products(21, 6)));
    // Decoded matrices, or parts of them, take more; given ones are the caller's.
    let plain = folder.memc("optimize in.onnx -o out.onnx --budget 6000").done();
    let asked = folder.memc("optimize in.onnx -o codes.onnx --budget 6000 --encode-weights int8").done();
    assert!(asked.err.contains("W0322") && !plain.err.contains("W0322"), "{asked:#?}");
    assert_eq!(count(&folder.read("codes.layout.json"), "\"codes\": "), 0);
    folder.memc("check in.onnx codes.onnx codes.layout.json").checked();
    let roomy = folder.memc("optimize in.onnx -o codes.onnx --budget 60000 --encode-weights int8").done();
    assert!(!roomy.err.contains("W0322"), "{roomy:#?}");
    assert!(count(&folder.read("codes.layout.json"), "\"codes\": ") >= 3, "{roomy:#?}");
    folder.memc("optimize in.onnx -o out.onnx --budget 100 --encode-weights int8").refused(3, "E0301");
}

#[test]
fn errors_beyond_the_bound_fail_the_verification() {
    let folder = Folder::new("encoded-weights-beyond");
    folder.write("in.onnx", bytes(&products(21, 4)));
    folder.memc("optimize in.onnx -o out.onnx --encode-weights int8").done();
    folder.memc("verify in.onnx out.onnx -n 1 --lossy-bound 0.0001").refused(1, "E0714");
}

#[test]
fn changed_rows_and_codes_fail_the_check() {
    let folder = Folder::new("encoded-weights-changed");
    folder.write("in.onnx", bytes(&products(21, 5)));
    folder.memc("optimize in.onnx -o out.onnx --encode-weights int8").done();
    let layout = folder.read("out.layout.json");
    let changes = [
        ("\"relative_error\": 0.", "\"relative_error\": 0.0"),
        ("\"largest_error\": 0.", "\"largest_error\": 0.0"),
        ("\"bits\": 8", "\"bits\": 4"),
        ("\"block\": null", "\"block\": 32"),
        ("\"encode_weights\": \"int8\"", "\"encode_weight\": \"int8\""),
        ("\"encode_weights\": \"int8\"", "\"encode_weights\": \"int4\""),
        ("\"exact\": \"false\"", "\"exact\": \"true\""),
        ("\"of\": \"u\"", "\"of\": \"w\""),
        ("\"codes\": \"u_codes\"", "\"codes\": \"v_codes\""),
    ];
    for (old, new) in changes {
        assert!(layout.contains(old), "{old}");
        folder.write("changed.json", layout.replacen(old, new, 1));
        let ran = folder.memc("check in.onnx out.onnx changed.json");
        assert!(
            ran.code == Some(1) && format!("{}{}", ran.out, ran.err).contains("E0573"),
            "{old}: {ran:#?}"
        );
    }
    // Without rows, nothing explains the codes.
    let begin = layout
        .find(",\n  \"encoded_weights\": [")
        .unwrap_or_else(|| layout.find("\n  \"encoded_weights\": [").unwrap());
    let end = begin + layout[begin..].find("\n  ]").unwrap() + 4;
    folder.write("changed.json", format!("{}{}", &layout[..begin], &layout[end..]));
    let ran = folder.memc("check in.onnx out.onnx changed.json");
    assert!(ran.code == Some(1) && format!("{}{}", ran.out, ran.err).contains("E0573"), "{ran:#?}");
}

#[test]
fn budgets_decode_weights_in_parts() {
    let folder = Folder::new("encoded-weights-parts");
    let nodes = vec![
        node("MatMul", &["x", "u"], &["a"]),
        node("Tanh", &["a"], &["b"]),
        node("MatMul", &["b", "v"], &["y"]),
    ];
    let model = with(nodes, |graph| {
        graph.input = vec![fixed("x", &[64, 128])];
        graph.output = vec![fixed("y", &[64, 128])];
        graph.initializer = vec![
            matrix("u", [128, 1024], &noise(6, 128 * 1024)),
            matrix("v", [1024, 128], &noise(7, 128 * 1024)),
        ];
    });
    folder.write("in.onnx", bytes(&model));
    folder.memc("optimize in.onnx -o out.onnx --encode-weights int8 --budget 70%").done();
    let layout = folder.read("out.layout.json");
    assert!(count(&layout, "\"codes\": ") > 2, "no product is split");
    // Each decoded matrix alone takes more than the arena.
    assert!(number(&layout, "size") < 512.0 * 1024.0, "{layout}");
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    folder.memc("verify in.onnx out.onnx -n 1 --lossy-bound 0.03").done();
}

#[test]
fn unreadable_weights_stay_and_exact_plans_refuse_codes() {
    let folder = Folder::new("encoded-weights-absent");
    let model = with(vec![node("MatMul", &["x", "w"], &["y"])], |graph| {
        graph.input = vec![fixed("x", &[2, 256])];
        graph.output = vec![fixed("y", &[2, 128])];
        graph.initializer = vec![external("w", &[256, 128], "absent.bin")];
    });
    folder.write("in.onnx", bytes(&model));
    let ran = folder.memc("optimize in.onnx -o out.onnx --encode-weights int8").done();
    assert!(ran.err.contains("W0332") && ran.err.contains("cannot be read"), "{ran:#?}");
    assert!(!folder.read("out.layout.json").contains("\"encoded_weights\""));
    let refused = folder.memc("optimize in.onnx -o refused.onnx --encode-weights int8 --exact");
    assert!(refused.code == Some(2) && !folder.path("refused.onnx").exists(), "{refused:#?}");
}

#[test]
fn pruned_channels_leave_the_weights() {
    for seed in [11, 12, 13] {
        let folder = Folder::new(&format!("pruned-{seed}"));
        let (mut w, mut b) = (noise(seed, 40 * 60), noise(seed + 20, 60));
        let mut v = noise(seed + 40, 60 * 30);
        // Every third column and its bias are zero, of either sign; every fourth row is.
        for column in (0..60).step_by(3) {
            (0..40).for_each(|row| w[row * 60 + column] = if row % 2 == 0 { 0.0 } else { -0.0 });
            b[column] = -0.0;
        }
        (0..60).step_by(4).for_each(|row| v[row * 30..(row + 1) * 30].fill(0.0));
        let nodes = vec![
            node("MatMul", &["x", "w"], &["a"]),
            node("Add", &["a", "b"], &["c"]),
            node("Relu", &["c"], &["d"]),
            node("MatMul", &["d", "v"], &["y"]),
        ];
        let model = with(nodes, |graph| {
            graph.input = vec![fixed("x", &[5, 40])];
            graph.output = vec![fixed("y", &[5, 30])];
            graph.initializer = vec![matrix("w", [40, 60], &w), numbers("b", &b), matrix("v", [60, 30], &v)];
        });
        folder.write("in.onnx", bytes(&model));
        folder.memc("optimize in.onnx -o out.onnx").done();
        // 30 of 60 channels are left: 20 are zero, 15 are not read, 5 are both.
        assert_eq!(weights(&folder.read("out.layout.json")), f64::from(4 * 30 * (40 + 1 + 30)));
        folder.memc("verify in.onnx out.onnx -n 3").done();
        folder.memc("optimize in.onnx -o exact.onnx --exact").done();
        assert_eq!(weights(&folder.read("exact.layout.json")), f64::from(4 * 60 * (40 + 1 + 30)));
    }
}
