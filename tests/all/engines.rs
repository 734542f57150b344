//! Plans for several engines by `--engines`: written, proven, played, reported; refused where they cannot be.
#![cfg(feature = "ort")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command::Folder;
use crate::models_made::{bytes, fixed, floats, node, with};

/// Returns two branches of three nodes over one input.
fn branches() -> Vec<u8> {
    let nodes = vec![
        node("MatMul", &["x", "x"], &["a1"]),
        node("Tanh", &["a1"], &["a2"]),
        node("MatMul", &["a2", "x"], &["a3"]),
        node("Exp", &["x"], &["b1"]),
        node("MatMul", &["b1", "x"], &["b2"]),
        node("Tanh", &["b2"], &["b3"]),
        node("Mul", &["a3", "b3"], &["y"]),
    ];
    bytes(&with(nodes, |graph| {
        graph.input = vec![fixed("x", &[64, 64])];
        graph.output = vec![fixed("y", &[64, 64])];
    }))
}

fn layout(folder: &Folder) -> serde_json::Value {
    serde_json::from_str(&folder.read("out.layout.json")).unwrap()
}

#[test]
fn branches_run_at_once_by_a_plan_that_is_proven_and_played() {
    let folder = Folder::new("engines");
    folder.write("in.onnx", branches());
    folder.memc("optimize in.onnx -o out.onnx --exact").done();
    let alone = layout(&folder);
    let digest = folder.memc("run out.onnx --layout out.layout.json").done().out;
    folder.memc("optimize in.onnx -o out.onnx --exact --engines 2").done();
    let plan = layout(&folder);
    assert_eq!(plan["options"]["engines"], "2");
    let engine = |row: &serde_json::Value| row["engine"].as_u64().unwrap();
    let used: std::collections::BTreeSet<u64> =
        plan["schedule"].as_array().unwrap().iter().map(engine).collect();
    assert_eq!(used, [0, 1].into());
    let of = |plan: &serde_json::Value, at: &str| plan.pointer(at).unwrap().as_f64().unwrap();
    let (time, size) = ("/cost/modelled_ns_after", "/arenas/0/size");
    assert!(
        of(&plan, time) <= 0.75 * of(&alone, time) && of(&plan, size) <= 1.1 * of(&alone, size),
        "{plan:#}"
    );
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    let ran = folder
        .memc("run out.onnx --layout out.layout.json --poison-check --random-sleeps --repeat 20")
        .done();
    assert_eq!(ran.out, digest);
    assert!(ran.err.contains("engine 1: "), "{ran:#?}");
    folder.memc("verify in.onnx out.onnx -n 1").done();
    let report = folder.memc("report out.onnx --layout out.layout.json").done().out;
    assert!(report.contains("engines  2 run ") && report.contains(" wait"), "{report}");
    folder.memc("report out.onnx --layout out.layout.json -o t.trace.json").done();
    assert!(folder.read("t.trace.json").contains("operators of engine 1"));
    // Without its waits, no check accepts the plan, and no memory takes it as a member.
    folder.write("lost.layout.json", {
        let mut lost = plan;
        lost.as_object_mut().unwrap().remove("sync");
        lost.to_string()
    });
    let lost = folder.memc("check in.onnx out.onnx lost.layout.json");
    assert!(lost.code == Some(1) && lost.err.contains("E0651"), "{lost:#?}");
    folder.memc("share a=out.layout.json b=out.layout.json").refused(2, "E0340");
}

#[test]
fn one_engine_gives_the_plan_without_the_option() {
    let folder = Folder::new("engines-one");
    folder.write("in.onnx", branches());
    folder.memc("optimize in.onnx -o out.onnx").done();
    let plan = ["out.onnx", "out.layout.json"].map(|name| std::fs::read(folder.path(name)).unwrap());
    folder.memc("optimize in.onnx -o out.onnx --engines 1").done();
    assert_eq!(["out.onnx", "out.layout.json"].map(|name| std::fs::read(folder.path(name)).unwrap()), plan);
}

#[test]
fn a_chain_keeps_its_plan_with_a_warning() {
    let folder = Folder::new("engines-chain");
    let nodes = vec![node("Exp", &["x"], &["a"]), node("Tanh", &["a"], &["y"])];
    folder.write(
        "in.onnx",
        bytes(&with(nodes, |graph| {
            graph.input = vec![fixed("x", &[64])];
            graph.output = vec![fixed("y", &[64])];
        })),
    );
    let ran = folder.memc("optimize in.onnx -o out.onnx --engines 16").done();
    assert!(ran.err.contains("W0309") && !folder.read("out.layout.json").contains("\"engine\""), "{ran:#?}");
}

#[test]
fn options_for_one_engine_are_refused_by_name() {
    let folder = Folder::new("engines-refused");
    folder.write("in.onnx", branches());
    for (words, named) in [
        ("--engines 0", "1 to 16 engines"),
        ("--engines 99", "1 to 16 engines"),
        ("--engines 2 --runtime ort", "`--runtime ort`"),
        ("--engines 2 --link host=1GB/s", "`--link`"),
        ("--engines 2 --anchors", "`--anchors`"),
        ("--engines 2 --slo 1s", "`--slo`"),
        ("--engines 2 --pareto 3", "`--pareto`"),
        ("--engines 2 --dim N=1..4", "`--dim NAME=A..B`"),
    ] {
        let ran = folder.memc(&format!("-q optimize in.onnx -o out.onnx {words}")).refused(2, "E0306");
        assert!(ran.err.contains(named), "{ran:#?}");
    }
    assert_eq!(folder.names(), ["in.onnx"]);
}

#[test]
fn engines_that_raise_the_peak_say_so() {
    // One engine ends the narrow branch before the second wide product; two engines run both at once.
    let nodes = vec![
        node("MatMul", &["x", "w"], &["wide"]),
        node("MatMul", &["wide", "p"], &["narrow"]),
        node("Tanh", &["narrow"], &["bent"]),
        node("MatMul", &["bent", "q"], &["b"]),
        node("MatMul", &["wide", "v"], &["wider"]),
        node("MatMul", &["wider", "u"], &["a"]),
        node("Sub", &["a", "b"], &["y"]),
    ];
    let model = with(nodes, |graph| {
        graph.input = vec![fixed("x", &[64, 64])];
        graph.output = vec![fixed("y", &[64, 4])];
        let weights =
            [("w", [64, 512]), ("p", [512, 32]), ("q", [32, 4]), ("v", [512, 512]), ("u", [512, 4])];
        graph.initializer = weights.map(|(name, dims)| floats(name, &dims)).to_vec();
    });
    let folder = Folder::new("engines-peak");
    folder.write("in.onnx", bytes(&model));
    let says_so = |options: &str| {
        let ran = folder.memc(&format!("optimize in.onnx -o out.onnx --exact --force {options}")).done();
        ran.err.contains("warning[W0306]: `--engines 2` raises the peak")
    };
    assert!(says_so("--engines 2") && !says_so("--engines 2 --budget 257KiB") && !says_so(""));
}
