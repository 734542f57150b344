//! Output that people and programs read, in full: the files of one run, and the diagnostics that the
//! command gives for small inputs. A change of a word or of a key shows in a snapshot.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use std::fmt::Write as _;
use std::fs;

use command::{Folder, model as shipped};
use insta::assert_snapshot;
use memc_onnx_proto::onnx::ModelProto;
use models_made::*;

/// Runs `memc optimize` on a model that ships with the tests and compares the files of these names with
/// their snapshots.
fn hold(name: &str, files: &[&str]) {
    let folder = Folder::new(&format!("forms-{name}"));
    fs::copy(shipped(name), folder.path("in.onnx")).unwrap();
    let layouts = "--layout layout.json --layout layout.h --layout layout.rs --layout layout.csv";
    folder
        .memc(&format!("optimize in.onnx -o out.onnx {layouts} --report report.json --report report.txt"))
        .done();
    for file in files {
        assert_snapshot!(format!("{name}-{file}"), folder.read(file));
    }
}

#[test]
fn files_of_a_small_model() {
    hold(
        "control_flow_loop_if",
        &["layout.json", "layout.h", "layout.rs", "layout.csv", "report.json", "report.txt"],
    );
}

#[test]
fn files_of_a_training_step() {
    // The report in text is the snapshot `summary` of the command.
    hold("ort_mlp_tiny", &["layout.json", "layout.h", "layout.rs", "layout.csv", "report.json"]);
}

/// Models that are wrong, or strange, in one way each, by the names of their files.
fn odd_models() -> Vec<(&'static str, ModelProto)> {
    let relu = || vec![node("Relu", &["x"], &["y"])];
    let weighted =
        |weight| with(vec![node("Add", &["x", "w"], &["y"])], |graph| graph.initializer = vec![weight]);
    let mut recursive = model(vec![call("f", &["x"], &["y"])]);
    recursive.functions =
        vec![function("f", vec![call("g", &["a"], &["b"])]), function("g", vec![call("f", &["a"], &["b"])])];
    let inner = branch(vec![node("Relu", &["nobody"], &["t"])], "t");
    let pair = with(vec![node("Add", &["x", "w1"], &["a"]), node("Add", &["a", "w2"], &["y"])], |graph| {
        graph.initializer = vec![floats("w1", &[512]), floats("w2", &[512])];
        graph.input = vec![fixed("x", &[512])];
        graph.output = vec![fixed("y", &[512])];
    });
    let seeded = stated(node("RandomNormalLike", &["x"], &["y"]), vec![float("seed", 1.0)]);
    let mut twice = weighted(floats("w", &[4]));
    twice.graph.as_mut().unwrap().initializer.push(floats("w", &[4]));
    let mut unequal = weighted(floats("w", &[4]));
    unequal.graph.as_mut().unwrap().initializer.push(raw("w", &[4], &[0; 16]));
    vec![
        ("no-graph", ModelProto { graph: None, ..sound() }),
        ("opset-99", with_version(99, 10)),
        ("ir-99", with_version(21, 99)),
        (
            "cycle",
            model(vec![
                node("Add", &["b", "x"], &["a"]),
                node("Relu", &["a"], &["b"]),
                node("Relu", &["b"], &["y"]),
            ]),
        ),
        ("twice", model(vec![node("Relu", &["x"], &["y"]), node("Tanh", &["x"], &["y"])])),
        ("undefined", model(vec![node("Add", &["x", "nowhere"], &["y"])])),
        ("huge", with(relu(), |graph| graph.input = vec![fixed("x", &[1 << 62])])),
        ("outside", weighted(external("w", &[4], "../w.bin"))),
        ("capture", with(vec![either(&inner, "y")], |graph| graph.input.push(fixed("flag", &[])))),
        ("unnamed", with(relu(), |graph| graph.input.push(fixed("", &[4])))),
        ("symbolic", with(relu(), |graph| graph.input = vec![symbolic("x", &["batch", "seq"])])),
        ("recursive", recursive),
        ("payload", weighted(raw("w", &[4], &[0; 15]))),
        ("default", with(relu(), |graph| graph.initializer = vec![external("x", &[5], "w.bin")])),
        ("no-outputs", with(relu(), |graph| graph.output.clear())),
        ("stated", with(relu(), |graph| graph.output = vec![fixed("y", &[5])])),
        ("repeated", twice),
        ("unequal", unequal),
        ("equal-weights", pair),
        ("seeded", model(vec![seeded])),
    ]
}

#[test]
fn diagnostics_of_small_inputs() {
    let folder = Folder::new("diagnostics");
    for (name, model) in odd_models() {
        folder.write(&format!("{name}.onnx"), bytes(&model));
    }
    let whole = bytes(&hungry());
    folder.write("hungry.onnx", &whole);
    folder.write("sound.onnx", bytes(&sound()));
    folder.write("empty.onnx", "");
    folder.write("text.onnx", "# memc\n");
    folder.write("cut.onnx", &whole[..whole.len() / 2]);
    folder.memc("optimize sound.onnx -o planned.onnx").done();
    folder.memc("optimize hungry.onnx -o wide.onnx").done();
    folder.write("later.json", folder.read("planned.layout.json").replace("memc.layout/1", "memc.layout/9"));
    folder.write("list.toml", "name = [1, 2");
    folder.write("list.json", "[]");
    folder.write("other.json", r#"{"schema": "memc.profile/1", "nodes": []}"#);
    folder.write("bad.csv", "id,lower,upper,size\na,5,2,1\n");
    let graph =
        |lines: &str| format!("opset \"\" 21\ngraph @g {{\n  input %x : f32[4]\n{lines}  return %y\n}}\n");
    let relu = "  %y = Relu(%x) : f32[4]\n";
    folder.write("unread.mem", "graph");
    folder.write("defined-twice.mem", graph(&format!("{relu}{relu}")));
    folder.write("undefined.mem", graph("  %y = Relu(%z) : f32[4]\n"));
    folder.write("number.mem", graph("  const %c : i8[1] = [300]\n  %y = Relu(%x) : f32[4]\n"));
    folder.write(
        "alias.mem",
        graph("  %y = Relu(%x) : f32[4]\n  const %to : i64[1] = [8]\n  %v = Reshape(%y, %to) : f32[8] view(%y)\n"),
    );
    fs::create_dir(folder.path("elsewhere")).unwrap();
    let weighted = with(vec![node("Add", &["x", "w"], &["y"])], |graph| {
        graph.initializer = vec![external("w", &[4], "w.bin")]
    });
    folder.write("beside.onnx", bytes(&weighted));
    folder.write("w.bin", [0; 16]);
    let mut lines: Vec<String> =
        ["empty", "text", "cut", "missing"].map(|name| format!("optimize {name}.onnx -o out.onnx")).into();
    lines.extend(odd_models().iter().map(|(name, _)| format!("optimize {name}.onnx -o out.onnx")));
    lines.extend(
        ["unread", "defined-twice", "undefined", "number"]
            .map(|name| format!("opt {name}.mem --passes fold")),
    );
    lines.extend(
        [
            "optimize symbolic.onnx -o out.onnx --dim bacth=2 --dim seq=3",
            "optimize sound.onnx -o out.onnx --dim batch=2",
            "optimize sound.onnx -o out.onnx --dim ?=4",
            "optimize sound.onnx -o out.onnx --assume z=4",
            "optimize sound.onnx -o out.onnx --assume y=5",
            "optimize sound.onnx -o missing/out.onnx",
            "optimize sound.onnx -o out.onnx --passes fold,shcedule,place",
            "optimize sound.onnx -o out.onnx --passes fold,schedule",
            "optimize sound.onnx -o out.onnx --budget gpu=1GiB",
            "optimize sound.onnx -o out.onnx --layout out.yaml",
            "optimize sound.onnx -o out.onnx --target list.toml",
            "optimize sound.onnx -o out.onnx --profile list.json",
            "optimize sound.onnx -o out.onnx --profile other.json",
            "optimize sound.onnx -o out.onnx --micro-batches 3",
            "optimize sound.onnx -o out.onnx --integer-kernels",
            "optimize sound.onnx -o out.onnx --budget 12apples",
            "optimize hungry.onnx -o out.onnx --runtime ort --budget 12287",
            "optimize beside.onnx -o elsewhere/out.onnx --weights-in-place",
            "opt alias.mem --passes in-place,place",
            "check sound.onnx planned.onnx later.json",
            "check sound.onnx wide.onnx planned.layout.json",
            "report hungry.onnx --layout planned.layout.json",
            "solve place bad.csv -o out.csv",
            "explain E9999",
            "ops Rleu",
            "frobnicate",
        ]
        .map(str::to_owned),
    );
    let mut said = String::new();
    for line in lines {
        let ran = folder.memc(&line);
        assert!(!ran.err.contains("panicked"), "{ran:#?}");
        // Of a run that ends well, only its warnings and remarks are diagnostics.
        let is_told = |line: &&str| ran.code != Some(0) || line.contains("[W0") || line.starts_with("  = ");
        let told: Vec<&str> = ran.err.lines().filter(is_told).collect();
        writeln!(said, "$ memc {line}\n{}\nexit {}\n", told.join("\n"), ran.code.unwrap()).unwrap();
    }
    assert_snapshot!("diagnostics", said);
}
