//! Rejected input: each case gets one clear error with a code, a line of help and its exit code;
//! nothing is written or panics.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use command::{Folder, Ran};
use memc_onnx_proto::onnx::{ModelProto, OperatorSetIdProto};
use models_made::*;

/// Runs `memc optimize` on bytes that it must reject.
fn refuse(name: &str, bytes: &[u8], options: &str, exit: i32, code: &str) -> Ran {
    let folder = Folder::new(name);
    folder.write("in.onnx", bytes);
    let ran = folder.memc(&format!("optimize in.onnx -o out.onnx {options}")).refused(exit, code);
    assert_eq!(folder.names(), ["in.onnx"], "{name} left something: {ran:#?}");
    ran
}

fn refuse_model(name: &str, model: &ModelProto, code: &str, says: &str) {
    let ran = refuse(name, &bytes(model), "", 1, code);
    assert!(ran.err.contains(says), "{says}: {ran:#?}");
}

#[test]
fn undamaged_test_models_are_planned_without_violations() {
    let folder = Folder::new("sound");
    for (name, model) in [("sound", sound()), ("hungry", hungry())] {
        folder.write("in.onnx", bytes(&model));
        folder.memc("optimize in.onnx -o out.onnx").done();
        let checked = folder.memc("check in.onnx out.onnx out.layout.json").checked();
        assert!(checked.err.contains("nothing wrong"), "{name}: {checked:#?}");
    }
}

#[test]
fn files_that_are_no_models() {
    refuse("empty", b"", "", 1, "E0101");
    refuse("text", b"# memc\n\nA memory compiler for ONNX.\n", "", 1, "E0102");
    refuse("archive", b"PK\x03\x04\x14\x00\x00\x00", "", 1, "E0102");
    refuse("no-graph", &bytes(&ModelProto { graph: None, ..sound() }), "", 1, "E0104");
}

#[test]
fn truncated_models() {
    let whole = std::fs::read(command::model("ort_mlp_tiny")).unwrap();
    for part in 1..16 {
        let cut = &whole[..whole.len() * part / 16];
        refuse(&format!("cut-{part}"), cut, "", 1, "E0103");
    }
}

#[test]
fn random_bytes_are_refused() {
    let mut state = 1u64;
    for round in 0..48 {
        let mut bytes = Vec::new();
        for _ in 0..64 + round * 16 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            bytes.push((state >> 33) as u8);
        }
        let folder = Folder::new(&format!("random-{round}"));
        folder.write("in.onnx", &bytes);
        let ran = folder.memc("optimize in.onnx -o out.onnx");
        assert!(ran.err.contains("error[E0102]") || ran.err.contains("error[E0103]"), "{ran:#?}");
        let code = if ran.err.contains("E0102") { "E0102" } else { "E0103" };
        ran.refused(1, code);
        assert_eq!(folder.names(), ["in.onnx"]);
    }
}

#[test]
fn damaged_models_never_panic() {
    // Change one byte of a valid model: memc rejects it or plans it.
    let whole = bytes(&hungry());
    let folder = Folder::new("damaged");
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x15;
        folder.write("in.onnx", &damaged);
        let ran = folder.memc("optimize in.onnx -o out.onnx");
        assert!(matches!(ran.code, Some(0..=2)) && !ran.err.contains("panicked"), "byte {at}: {ran:#?}");
    }
}

#[test]
fn inconsistent_graphs_are_refused() {
    let cycle = model(vec![
        node("Add", &["b", "x"], &["a"]),
        node("Relu", &["a"], &["b"]),
        node("Relu", &["b"], &["y"]),
    ]);
    refuse_model("cycle", &cycle, "E0106", "cyclic");
    let twice = model(vec![node("Relu", &["x"], &["y"]), node("Tanh", &["x"], &["y"])]);
    refuse_model("twice", &twice, "E0107", "`y`");
    let input_twice = with(vec![node("Relu", &["x"], &["y"])], |graph| graph.input.push(fixed("x", &[4])));
    refuse_model("input-twice", &input_twice, "E0107", "`x`");
    let no_name = with(vec![node("Relu", &["x"], &["y"])], |graph| graph.input.push(fixed("", &[4])));
    refuse_model("unnamed-input", &no_name, "E0113", "input 1");
    let no_name = with(vec![node("Relu", &["x"], &["y"])], |graph| {
        graph.initializer = vec![external("", &[4], "w.bin")]
    });
    refuse_model("unnamed-initializer", &no_name, "E0113", "initializer 0");
    let default = with(vec![node("Relu", &["x"], &["y"])], |graph| {
        graph.initializer = vec![external("x", &[5], "w.bin")]
    });
    refuse_model("default", &default, "E0121", "f32[5]");
    // The body of a Loop begins with the iteration number, a scalar integer.
    let mut looped = branch(vec![], "i");
    looped.input = vec![fixed("i", &[4]), fixed("more", &[])];
    looped.input[0].r#type = None;
    looped.initializer = vec![external("i", &[4], "w.bin")];
    let mut node_with_body = node("Loop", &["", ""], &["y"]);
    node_with_body.attribute = vec![body("body", looped)];
    refuse_model("default-of-a-body", &model(vec![node_with_body]), "E0121", "`i`");
    refuse_model("unknown", &model(vec![node("Add", &["x", "nowhere"], &["y"])]), "E0108", "`nowhere`");
    let no_output = with(vec![node("Relu", &["x"], &["y"])], |graph| graph.output = vec![fixed("z", &[4])]);
    refuse_model("no-output", &no_output, "E0108", "`z`");
    let inner = branch(vec![node("Relu", &["nobody"], &["t"])], "t");
    let capture = with(vec![either(&inner, "y")], |graph| graph.input.push(fixed("flag", &[])));
    refuse_model("capture", &capture, "E0111", "`nobody`");
}

#[test]
fn extents_that_exporters_do_not_know_are_bound_one_by_one_or_at_once() {
    let stated = with(vec![node("Relu", &["x"], &["y"])], |graph| {
        graph.input = vec![fixed("x", &[-1, 3])];
        graph.input.push(symbolic("unread", &["?", "?"]));
    });
    let folder = Folder::new("unknown-extents");
    folder.write("in.onnx", bytes(&stated));
    for dims in ["--dim ?=5", "--dim x.0=5 --dim unread.0=5 --dim unread.1=5", "--dim ?=7 --dim x.0=5"] {
        folder.memc(&format!("optimize in.onnx -o out.onnx {dims}")).done();
        let layout: serde_json::Value = serde_json::from_str(&folder.read("out.layout.json")).unwrap();
        let sizes = layout["tensors"].as_array().unwrap().iter().filter(|tensor| tensor["name"] == "y");
        assert_eq!(
            sizes.map(|tensor| tensor["bytes"].as_u64().unwrap()).collect::<Vec<_>>(),
            [5 * 3 * 4],
            "{dims}"
        );
        folder.memc("check in.onnx out.onnx out.layout.json").checked();
    }
    folder.memc("optimize in.onnx -o out.onnx --dim x.0=5").refused(2, "E0114");
    folder.memc("optimize in.onnx -o out.onnx --dim ?=5 --dim x.1=3").refused(2, "E0117");
}

#[test]
fn impossible_dimensions() {
    for (name, dims) in [
        ("negative", &[-3i64, 4][..]),
        ("huge", &[1 << 62]),
        ("product", &[1 << 31, 1 << 31]),
        ("least", &[i64::MIN]),
    ] {
        let input = with(vec![node("Relu", &["x"], &["y"])], |graph| graph.input = vec![fixed("x", dims)]);
        if dims[0] < 0 {
            // In a stated type, a negative extent means that the exporter does not know it.
            refuse(&format!("input-{name}"), &bytes(&input), "", 2, "E0114");
        } else {
            refuse_model(&format!("input-{name}"), &input, "E0109", "`x`");
        }
        let initializer = with(vec![node("Add", &["x", "w"], &["y"])], |graph| {
            graph.initializer = vec![external("w", dims, "w.bin")]
        });
        refuse_model(&format!("initializer-{name}"), &initializer, "E0109", "`w`");
    }
    // Each tensor alone is valid, but 40 tensors of 2^57 bytes are too much.
    let mut nodes: Vec<_> = (0..40).map(|index| node("Exp", &["x"], &[&format!("v{index}")])).collect();
    let all: Vec<String> = (0..40).map(|index| format!("v{index}")).collect();
    nodes.push(node("Sum", &all.iter().map(String::as_str).collect::<Vec<_>>(), &["y"]));
    let many = with(nodes, |graph| {
        graph.input = vec![fixed("x", &[1 << 55])];
        graph.output = vec![fixed("y", &[1 << 55])];
    });
    refuse_model("sum", &many, "E0302", "add up");
}

#[test]
fn external_data_stays_in_the_folder() {
    for (name, location) in [
        ("up", "../w.bin"),
        ("inside-up", "a/../../w.bin"),
        ("absolute", "/etc/passwd"),
        ("drive", "C:\\w.bin"),
        ("back", "..\\w.bin"),
    ] {
        let model = with(vec![node("Add", &["x", "w"], &["y"])], |graph| {
            graph.initializer = vec![external("w", &[4], location)]
        });
        refuse_model(&format!("external-{name}"), &model, "E0110", "`w`");
    }
    // A missing weight file is not an error: planning needs no weights.
    let folder = Folder::new("external-missing");
    let model = with(vec![node("Add", &["x", "w"], &["y"])], |graph| {
        graph.initializer = vec![external("w", &[4], "sub/w.bin")]
    });
    folder.write("in.onnx", bytes(&model));
    folder.memc("optimize in.onnx -o out.onnx").done();
}

#[test]
fn weights_that_a_model_in_another_folder_would_miss() {
    let folder = Folder::new("external-elsewhere");
    std::fs::create_dir_all(folder.path("given/sub")).unwrap();
    std::fs::create_dir_all(folder.path("out")).unwrap();
    let model = with(vec![node("Add", &["x", "w"], &["y"])], |graph| {
        graph.initializer = vec![external("w", &[4], "sub/w.bin")]
    });
    folder.write("given/in.onnx", bytes(&model));
    let optimize = |to: &str| folder.memc(&format!("optimize given/in.onnx -o {to}")).done().err;
    assert!(!optimize("out/out.onnx").contains("W0401"), "nobody has them");
    folder.write("given/sub/w.bin", [7; 16]);
    assert!(!optimize("given/out.onnx").contains("W0401"), "they are beside it");
    assert!(optimize("out/out.onnx --weights-in-place").contains("W0401"));
    assert!(!folder.path("out/sub").exists(), "nobody asked");
    // They go along, once and again, and an old file is replaced.
    for _ in 0..2 {
        assert!(!optimize("out/out.onnx").contains("W0401"));
        assert_eq!(std::fs::read(folder.path("out/sub/w.bin")).unwrap(), [7; 16]);
        assert_eq!(std::fs::read_dir(folder.path("out/sub")).unwrap().count(), 1, "no partial file is left");
    }
    std::fs::remove_file(folder.path("out/sub/w.bin")).unwrap();
    folder.write("out/sub/w.bin", [8; 16]);
    optimize("out/out.onnx");
    assert_eq!(std::fs::read(folder.path("out/sub/w.bin")).unwrap(), [7; 16]);
    assert_eq!(std::fs::read(folder.path("given/sub/w.bin")).unwrap(), [7; 16]);
    assert!(!optimize("out/out.onnx --weights-in-place").contains("W0401"), "they are there");
}

#[test]
fn a_version_below_zero_is_refused_in_every_domain() {
    let mut model = with(vec![node("Relu", &["x"], &["y"])], |_| ());
    model.opset_import.push(OperatorSetIdProto { domain: Some("elsewhere".into()), version: Some(-3) });
    refuse_model(
        "negative-version",
        &model,
        "E0105",
        "version -3 of the operator set `elsewhere` is below zero",
    );
}

#[test]
fn the_given_model_is_replaced_only_by_force() {
    let folder = Folder::new("force");
    let model = with(vec![node("Relu", &["x"], &["y"])], |_| ());
    folder.write("in.onnx", bytes(&model));
    for options in ["-o in.onnx", "-o ./in.onnx", "-o out.onnx --layout in.onnx.json --depfile in.onnx"] {
        let refused = folder.memc(&format!("optimize in.onnx {options}")).refused(2, "E0306");
        assert!(refused.err.contains("--force"), "{}", refused.err);
        assert_eq!(std::fs::read(folder.path("in.onnx")).unwrap(), bytes(&model));
    }
    folder.memc("optimize in.onnx -o in.onnx --force").done();
    assert_ne!(std::fs::read(folder.path("in.onnx")).unwrap(), bytes(&model));
}

#[test]
fn initializers_that_do_not_fit() {
    let model = with(vec![node("Add", &["x", "w"], &["y"])], |graph| {
        graph.initializer = vec![raw("w", &[4], &[0; 15])]
    });
    refuse_model("payload", &model, "E0119", "`w`");
}

#[test]
fn recursive_and_exponential_functions_are_refused() {
    let mut recursive = model(vec![call("f", &["x"], &["y"])]);
    recursive.functions =
        vec![function("f", vec![call("g", &["a"], &["b"])]), function("g", vec![call("f", &["a"], &["b"])])];
    refuse_model("recursive", &recursive, "E0115", "local::");
    // Twenty-four functions that each call the next function twice: 2^24 nodes.
    let mut exponential = model(vec![call("f0", &["x"], &["y"])]);
    exponential.functions = (0..24)
        .map(|level| {
            let next = format!("f{}", level + 1);
            function(&format!("f{level}"), vec![call(&next, &["a"], &["m"]), call(&next, &["m"], &["b"])])
        })
        .chain([function("f24", vec![node("Relu", &["a"], &["b"])])])
        .collect();
    refuse_model("exponential", &exponential, "E0118", "nodes");
}

#[test]
fn deeply_nested_bodies_are_refused() {
    let mut graph = branch(vec![node("Relu", &["x"], &["t"])], "t");
    for _ in 0..80 {
        let mut inner = node("If", &["flag"], &["t"]);
        inner.attribute = vec![
            body("then_branch", graph),
            body("else_branch", branch(vec![node("Relu", &["x"], &["t"])], "t")),
        ];
        graph = branch(vec![inner], "t");
    }
    let mut outer = node("If", &["flag"], &["y"]);
    outer.attribute = vec![
        body("then_branch", graph.clone()),
        body("else_branch", branch(vec![node("Relu", &["x"], &["t"])], "t")),
    ];
    let model = with(vec![outer], |graph| graph.input.push(fixed("flag", &[])));
    let ran = Folder::new("deep");
    ran.write("in.onnx", bytes(&model));
    let refused = ran.memc("optimize in.onnx -o out.onnx");
    let code = if refused.err.contains("E0112") { "E0112" } else { "E0103" };
    refused.refused(1, code);
    assert_eq!(ran.names(), ["in.onnx"]);
}

#[test]
fn unknown_versions_are_refused() {
    for (name, opset, ir) in [
        ("opset-99", 99, 10),
        ("opset-0", 0, 10),
        ("opset-least", i64::MIN, 10),
        ("ir-2", 21, 2),
        ("ir-99", 21, 99),
        ("ir-least", 21, i64::MIN),
    ] {
        refuse_model(name, &with_version(opset, ir), "E0105", "not supported");
    }
}

#[test]
fn files_that_the_system_refuses() {
    let folder = Folder::new("paths");
    folder.write("in.onnx", bytes(&sound()));
    std::fs::create_dir(folder.path("folder")).unwrap();
    folder.memc("optimize nowhere.onnx -o out.onnx").refused(1, "E0116");
    folder.memc("optimize folder -o out.onnx").refused(1, "E0116");
    folder.memc("optimize in.onnx -o missing/out.onnx").refused(1, "E0401");
    // Nothing is read or planned for a file that has no place.
    folder.memc("optimize none.onnx -o missing/out.onnx").refused(1, "E0401");
    folder.memc("optimize in.onnx -o folder").refused(1, "E0401");
    // If memc cannot write one of several outputs, it writes none.
    folder.memc("optimize in.onnx -o out.onnx --layout missing/out.json").refused(1, "E0401");
    folder.memc("optimize in.onnx -o out.onnx --report missing/out.html").refused(1, "E0401");
    folder.memc("report in.onnx -o missing/out.html").refused(1, "E0401");
    folder.memc("print in.onnx -o missing/out.mem").refused(1, "E0401");
    folder.memc("opt nowhere.mem").refused(1, "E0116");
    assert_eq!(folder.names(), ["folder", "in.onnx"]);
    assert_eq!(std::fs::read_dir(folder.path("folder")).unwrap().count(), 0);
}

#[test]
fn dimensions_that_are_not_bound() {
    let model = with(vec![node("Relu", &["x"], &["y"])], |graph| {
        graph.input = vec![symbolic("x", &["batch", "seq"])];
        graph.output = vec![symbolic("y", &["batch", "seq"])];
    });
    let ran = refuse("unbound", &bytes(&model), "", 2, "E0114");
    assert!(ran.err.contains("--dim batch=N --dim seq=N"), "{ran:#?}");
    assert!(ran.err.contains("--dim batch=1..8 --dim seq=1..512"), "{ran:#?}");
    let image = with(vec![node("Relu", &["x"], &["y"])], |graph| {
        graph.input = vec![symbolic("x", &["n", "3", "h", "w"])];
        graph.output = vec![symbolic("y", &["n", "3", "h", "w"])];
    });
    let ran = refuse("unbound-image", &bytes(&image), "", 2, "E0114");
    assert!(ran.err.contains("--dim h=32..640/32 --dim n=1..8 --dim w=32..640/32"), "{ran:#?}");
    let ran = refuse("half-bound", &bytes(&model), "--dim batch=2", 2, "E0114");
    assert!(ran.err.contains("--dim seq=N") && !ran.err.contains("batch=N"), "{ran:#?}");
    let ran = refuse("unknown-dim", &bytes(&model), "--dim bacth=2 --dim seq=3", 2, "E0117");
    assert!(ran.err.contains("`bacth`") && ran.err.contains("batch, seq"), "{ran:#?}");
    refuse("dim-too-large", &bytes(&model), "--dim batch=4611686018427387904 --dim seq=3", 1, "E0109");
    let folder = Folder::new("bound");
    folder.write("in.onnx", bytes(&model));
    folder.memc("optimize in.onnx -o out.onnx --dim batch=2 --dim seq=3").done();
    folder.memc("optimize in.onnx -o free.onnx --allow-unbound").done();
}

#[test]
fn pipelines_that_do_not_plan() {
    let model = bytes(&sound());
    let ran = refuse("no-such-pass", &model, "--passes fold,shcedule,place", 2, "E0303");
    assert!(ran.err.contains("`shcedule`") && ran.err.contains("memc passes"), "{ran:#?}");
    let ran = refuse("no-place", &model, "--passes fold,schedule", 2, "E0304");
    assert!(ran.err.contains("fold,schedule"), "{ran:#?}");
}

#[test]
fn unreachable_budgets_are_refused() {
    let model = bytes(&hungry());
    // %wide has 4096 bytes and %y 8192, both at the last step: 12288 in any order, because %wide cannot
    // be a sub-view of %y.
    let ran = refuse("budget", &model, "--runtime ort --budget 12287", 3, "E0301");
    for part in [
        "a budget of 12,287 B in device is too small",
        "every plan needs at least 12,288 B",
        "the smallest plan found needs 12,288 B",
        "step 1",
        "(Concat)",
        "`y`",
        "`wide`",
        "--budget 12288",
    ] {
        assert!(ran.err.contains(part), "{part}: {ran:#?}");
    }
    let folder = Folder::new("budget-kept");
    folder.write("in.onnx", &model);
    folder.memc("optimize in.onnx -o out.onnx --runtime ort --budget 12288").done();
    folder.memc("optimize in.onnx -o out.onnx --runtime ort --budget device=12KiB").done();
    folder.memc("optimize in.onnx -o out.onnx --runtime ort --budget 100%").done();
    folder.memc("optimize in.onnx -o out.onnx --runtime ort --budget 99%").refused(3, "E0301");
    let ran = refuse("budget-space", &model, "--budget gpu=1GiB", 2, "E0305");
    assert!(ran.err.contains("`gpu`") && ran.err.contains("device"), "{ran:#?}");
}

#[test]
fn wrong_arguments_are_refused() {
    let folder = Folder::new("usage");
    folder.write("in.onnx", bytes(&sound()));
    // Arguments that the grammar of the command line rejects.
    for arguments in [
        "",
        "frobnicate",
        "optimize",
        "optimize in.onnx -o out.onnx --budget 12apples",
        "optimize in.onnx -o out.onnx --dim N",
        "optimize in.onnx -o out.onnx --dim N=-1",
        "optimize in.onnx -o out.onnx --runtime rocm",
        "optimize in.onnx -o out.onnx --io none",
        "optimize in.onnx -o out.onnx --effort much",
        "optimize in.onnx -o out.onnx --max-fold-bytes x",
        "optimize in.onnx -o out.onnx --link host",
        "optimize in.onnx -o out.onnx --link host=16GB",
        "report",
        "check in.onnx",
        "schema",
        "solve",
        "solve recompute a.json --budget much -o b.json",
        "solve recompute a.json --budget -1% -o b.json",
    ] {
        let ran = folder.memc(arguments);
        assert!(ran.code == Some(2) && !ran.err.contains("panicked") && ran.out.is_empty(), "{ran:#?}");
    }
    // Arguments that only memc can check.
    for arguments in [
        "optimize in.onnx -o out.onnx --layout out.yaml",
        "optimize in.onnx -o out.onnx --report out.pdf",
        "report in.onnx -o out.pdf",
        "optimize in.onnx -o out.onnx --target nonsense",
        "optimize in.onnx -o out.onnx --link device=16GB/s",
        "targets nonsense",
        "passes nonsense",
        "ops Nonsense",
        "explain E9999",
    ] {
        folder.memc(arguments).refused(2, "E0306");
    }
    assert_eq!(folder.names(), ["in.onnx"]);
}

#[test]
fn malformed_targets_and_timings_are_refused() {
    let folder = Folder::new("targets");
    folder.write("in.onnx", bytes(&sound()));
    folder.write("list.toml", "name = [1, 2");
    let ran = folder.memc("optimize in.onnx -o out.onnx --target list.toml").refused(1, "E0308");
    assert!(ran.err.contains("list.toml") && ran.err.contains("line 1: "), "{ran:#?}");
    folder.memc("optimize in.onnx -o out.onnx --target missing.toml").refused(1, "E0116");
    folder.write("list.json", "[]");
    folder.write("later.json", r#"{"schema": "memc.profile/9"}"#);
    for (name, says) in [("list.json", "line 1, column"), ("later.json", "memc.profile/9")] {
        let ran = folder.memc(&format!("optimize in.onnx -o out.onnx --profile {name}")).refused(1, "E0309");
        assert!(ran.err.contains(says), "{ran:#?}");
    }
    assert!(!folder.path("out.onnx").exists());
}

#[test]
fn malformed_layouts_are_refused() {
    let folder = Folder::new("layouts");
    folder.write("in.onnx", bytes(&sound()));
    folder.memc("optimize in.onnx -o out.onnx").done();
    let sound = folder.read("out.layout.json");
    let texts = [
        String::new(),
        "{".to_owned(),
        "[]".to_owned(),
        "{}".to_owned(),
        "\u{0}\u{1}".to_owned(),
        sound.replace("memc.layout/1", "memc.layout/9"),
        sound.replace("\"schedule\"", "\"shcedule\""),
        "[".repeat(100_000),
    ];
    for text in texts {
        folder.write("bad.json", text);
        folder.memc("check in.onnx out.onnx bad.json").refused(1, "E0120");
        folder.memc("report in.onnx --layout bad.json").refused(1, "E0120");
    }
    folder.memc("check in.onnx out.onnx nowhere.json").refused(1, "E0116");
    folder.memc("check in.onnx nowhere.onnx out.layout.json").refused(1, "E0116");
}

#[test]
fn malformed_module_texts_are_refused() {
    let folder = Folder::new("mem");
    for (text, code) in [
        ("graph", "E06"),
        ("graph @g {\n  %y = Relu(%x) : f32[4]\n  return %y\n}\n", "E0"),
        ("\u{7f}ELF", "E06"),
    ] {
        folder.write("bad.mem", text);
        let ran = folder.memc("opt bad.mem --passes fold");
        assert!(
            ran.code == Some(1)
                && ran.err.contains(&format!("error[{code}"))
                && !ran.err.contains("panicked"),
            "{ran:#?}"
        );
    }
    folder.write(
        "good.mem",
        "opset \"\" 21\ngraph @g {\n  input %x : f32[4]\n  %y = Relu(%x) : f32[4]\n  return %y\n}\n",
    );
    folder.memc("opt good.mem --passes nonsense").refused(2, "E0303");
}

#[test]
fn malformed_solver_problems_are_refused() {
    let folder = Folder::new("problems");
    for text in [
        "",
        "id,lower,upper,size\na,5,2,1\n",
        "id,lower,upper\na,0,1\n",
        "id,lower,upper,size\na,0,1,99999999999999999999999\n",
    ] {
        folder.write("bad.csv", text);
        folder.memc("solve place bad.csv -o out.csv").refused(1, "E0307");
    }
    for text in [
        "",
        "[]",
        "{\"nodes\": [], \"edges\": [[0, 1]]}",
        "{\"nodes\": [{\"id\": 0, \"size\": 1}], \"edges\": [[0, 0]]}",
    ] {
        folder.write("bad.json", text);
        folder.memc("solve order bad.json -o out.json").refused(1, "E0307");
        folder.memc("solve recompute bad.json --budget 50% -o out.json").refused(1, "E0307");
    }
    let way = r#"{"from": "device", "to": "host", "bytes_per_unit": 1}"#;
    for links in
        [way.replace("host", "disk"), format!("{way}, {way}"), format!("{way}, {}", way.replace("1", "0"))]
    {
        folder.write(
            "bad.json",
            format!(r#"{{"nodes": [{{"id": 0, "size": 1}}], "edges": [], "links": [{links}]}}"#),
        );
        folder.memc("solve recompute bad.json --budget 1 -o out.json").refused(1, "E0307");
    }
    folder.write("bad.json", format!(r#"{{"nodes": [{{"id": 0, "size": {}}}], "edges": []}}"#, u64::MAX));
    folder.memc("solve recompute bad.json --budget 1 -o out.json").refused(1, "E0307");
    assert_eq!(folder.names(), ["bad.csv", "bad.json"]);
}

#[test]
fn texts_that_contradict_themselves_about_memory() {
    let folder = Folder::new("texts");
    let text = |of: &str| {
        format!(
            "opset \"\" 21\nstage typed\ngraph @g {{\ninput %x : f32[8,7]\n%a = Relu(%x) : {of}\nconst %to : i64[1] = [64]\n%v = Reshape(%a, %to) : f32[64] view(%a)\nreturn %v\n}}\n"
        )
    };
    // The text puts 256 bytes into 224. It states this itself, or leaves an extent to inference.
    for (name, of) in [("stated.mem", "f32[8,7]"), ("derived.mem", "f32[8,?]")] {
        folder.write(name, text(of));
        let ran = folder.memc(&format!("opt {name} --passes in-place,place"));
        assert!(ran.code == Some(1) && ran.err.contains("error[E0231]"), "{ran:#?}");
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_is_written_into_and_stays_a_pipe() {
    use std::os::unix::fs::FileTypeExt as _;
    let folder = Folder::new("pipe");
    folder.write("in.onnx", bytes(&sound()));
    let pipe = folder.path("out.mem");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let path = pipe.clone();
    let reader = std::thread::spawn(move || std::fs::read_to_string(path).unwrap());
    folder.memc("print in.onnx -o out.mem").done();
    assert!(std::fs::metadata(&pipe).unwrap().file_type().is_fifo(), "no file took its place");
    assert!(reader.join().unwrap().contains("Relu"));
}

/// A signal ends memc without partial files, unless the caller has it ignored.
#[cfg(unix)]
#[test]
fn a_signal_leaves_no_partial_files() {
    let folder = Folder::new("signals");
    let ended = |name: &str, before: &str, signal: &str| {
        std::fs::copy(command::model(name), folder.path("in.onnx")).unwrap();
        let memc = env!("CARGO_BIN_EXE_memc");
        let script = format!(
            "{before}\n{memc} -q optimize in.onnx -o out.onnx & p=$!; sleep 0.1; kill -{signal} $p; wait $p"
        );
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script]).current_dir(folder.path("")).stderr(std::process::Stdio::null());
        shell.status().unwrap().code()
    };
    assert_eq!(ended("unet_grad_tiny", "", "TERM"), Some(128 + 15));
    assert_eq!(folder.names(), ["in.onnx"]);
    assert_eq!(ended("light_squeezenet", "trap '' HUP", "HUP"), Some(0));
    assert_eq!(folder.names(), ["in.onnx", "out.layout.json", "out.onnx"]);
}
