//! Training steps: gradients against differences, optimizers against formulas, steps that learn in stock
//! sessions, and refusals.
#![cfg(feature = "ort")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use command::Folder;
use memc_onnx_proto::onnx::{ModelProto, TensorProto, ValueInfoProto, type_proto};
use models_made::{bytes, external, fixed, floats, int, integers, node, numbers, stated, with};
use prost::Message as _;

/// Rules without a case in `cases.py`, with the reason.
const WITHOUT_CASE: &[(&str, &str)] = &[
    ("CastLike", "it is a Cast"),
    ("Dropout", "its mask is drawn; a test of this file covers it"),
    ("QuickGelu", "onnx's evaluator does not know it; its rule is that of Swish"),
    ("RMSNormalization", "sessions of the tests do not load operator set 23"),
    ("Swish", "sessions of the tests do not load operator set 24"),
];

fn perceptron() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/models/perceptron.onnx")
}

/// Runs a script of `tests/train` with the command and a folder; returns what it printed.
fn script(name: &str, folder: &Folder, more: &[&Path]) -> String {
    let python = std::env::var("MEMC_PYTHON").expect(
        "MEMC_PYTHON names no Python with onnx and onnxruntime: run the tests with `cargo xtask test`",
    );
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/train");
    let mut command = Command::new(python);
    command.arg(scripts.join(name)).arg(env!("CARGO_BIN_EXE_memc")).arg(folder.path("")).args(more);
    let output = command.env("PYTHONPYCACHEPREFIX", command::COMPILED).output().expect("python starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn gradients_are_those_of_differences() {
    let folder = Folder::new("gradients");
    let printed = script("gradients.py", &folder, &[]);
    let tried = printed.lines().find_map(|line| line.strip_prefix("operators: ")).unwrap();
    let tried: BTreeSet<&str> = tried.split(' ').collect();
    let excused: BTreeSet<&str> = WITHOUT_CASE.iter().map(|(name, _)| *name).collect();
    let rules = memc_gradient::rule_names().into_iter().map(|(_, name)| name);
    let missing: Vec<&str> = rules.filter(|name| !tried.contains(name) && !excused.contains(name)).collect();
    assert!(missing.is_empty(), "rules without a case: {missing:?}");
}

#[test]
fn optimizers_follow_their_formulas() {
    script("optimizers.py", &Folder::new("optimizers"), &[]);
}

#[test]
fn gradients_and_optimizers_are_those_of_another_library() {
    script("reference.py", &Folder::new("reference"), &[]);
}

#[test]
fn a_leapfrog_net_goes_back_within_a_small_budget() {
    script("leapfrog.py", &Folder::new("leapfrog"), &[]);
}

#[test]
fn gradients_of_convolutions_are_their_transposes() {
    script("convolutions.py", &Folder::new("convolutions"), &[Path::new("120")]);
}

#[test]
fn a_free_batch_gives_the_results_of_fixed_ones() {
    script("ranges.py", &Folder::new("ranges"), &[]);
}

#[test]
fn statistics_of_batches_are_trained_on_request() {
    let folder = Folder::new("train-norms");
    let nodes = vec![
        stated(node("Conv", &["x", "w"], &["c"]), vec![]),
        node("BatchNormalization", &["c", "scale", "shift", "mean", "variance"], &["n"]),
        node("Relu", &["n"], &["y"]),
    ];
    let model = with(nodes, |graph| {
        graph.input = vec![fixed("x", &[2, 3, 4, 4])];
        graph.output = vec![fixed("y", &[2, 3, 4, 4])];
        graph.initializer = vec![floats("w", &[3, 3, 1, 1])];
        graph.initializer.extend(["scale", "shift", "mean", "variance"].map(|name| floats(name, &[3])));
    });
    folder.write("in.onnx", bytes(&model));
    let outputs = |options: &str| {
        let ran = folder.memc(&format!("train in.onnx -o step.onnx --loss mse --labels t {options}")).done();
        let step = read(&folder, "step.onnx").graph.unwrap();
        (names(&step.output).into_iter().map(str::to_owned).collect::<Vec<_>>(), ran.err)
    };
    // Running statistics are never trainable; they change with statistics of batches.
    assert_eq!(outputs("").0, ["loss", "new.w", "new.scale", "new.shift"]);
    assert_eq!(
        outputs("--norms train").0,
        ["loss", "new.w", "new.scale", "new.shift", "new.mean", "new.variance"]
    );
    // A frozen normalization keeps its running statistics.
    assert_eq!(outputs("--norms train --freeze scale --freeze shift").0, ["loss", "new.w"]);
    // Without one there is nothing to train, and a remark says so.
    folder.write("in.onnx", bytes(&small(vec![node("MatMul", &["x", "w"], &["y"])])));
    assert!(outputs("--norms train").1.contains("warning[W0333]"));
}

#[test]
fn statistics_that_an_exporter_merged_with_parameters_are_taken_apart() {
    let folder = Folder::new("train-merged");
    // As exporters write a network that was never trained: scales and variances are one tensor of ones.
    let nodes = vec![
        node("Conv", &["x", "w"], &["c"]),
        node("Identity", &["zeros"], &["mean"]),
        node("BatchNormalization", &["c", "ones", "zeros", "mean", "ones"], &["n"]),
        node("Relu", &["n"], &["r"]),
        node("Conv", &["r", "v"], &["d"]),
        node("BatchNormalization", &["d", "ones", "zeros", "mean", "ones"], &["y"]),
    ];
    let model = with(nodes, |graph| {
        graph.input = vec![fixed("x", &[2, 3, 4, 4])];
        graph.output = vec![fixed("y", &[2, 3, 4, 4])];
        graph.initializer = vec![floats("w", &[3, 3, 1, 1]), floats("v", &[3, 3, 1, 1])];
        graph.initializer.extend([numbers("ones", &[1.0; 3]), numbers("zeros", &[0.0; 3])]);
    });
    folder.write("in.onnx", bytes(&model));
    let outputs = |options: &str| {
        let ran = folder.memc(&format!("train in.onnx -o step.onnx --loss mse --labels t {options}")).done();
        assert!(ran.err.contains("warning[W0334]") && ran.err.contains("`ones` and 1 more"), "{}", ran.err);
        let step = read(&folder, "step.onnx").graph.unwrap();
        names(&step.output).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let parameters = ["loss", "new.w", "new.v", "new.ones", "new.zeros"];
    assert_eq!(outputs(""), parameters);
    // Each normalization has statistics of its own.
    let all = outputs("--norms train");
    assert_eq!(all[..5], parameters);
    assert_eq!(all[5..], ["new.mean_1", "new.ones_1", "new.mean_2", "new.ones_2"]);
}

#[test]
fn masks_in_another_file_are_no_parameters() {
    let folder = Folder::new("train-mask");
    let model =
        with(vec![node("MatMul", &["x", "w"], &["h"]), node("Add", &["h", "mask"], &["y"])], |graph| {
            graph.input = vec![fixed("x", &[4, 3])];
            graph.output = vec![fixed("y", &[4, 4])];
            graph.initializer = vec![floats("w", &[3, 4]), external("mask", &[4, 4], "mask.bin")];
        });
    folder.write("in.onnx", bytes(&model));
    let outputs = |mask: [f32; 16]| {
        folder.write("mask.bin", mask.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>());
        folder.memc("train in.onnx -o step.onnx --loss mse --labels t").done();
        names(&read(&folder, "step.onnx").graph.unwrap().output).len()
    };
    let causal = std::array::from_fn(|at| if at % 4 > at / 4 { -1e9 } else { 0.0 });
    assert_eq!(outputs(causal), 2);
    assert_eq!(outputs(std::array::from_fn(|at| at as f32)), 3);
}

#[test]
fn adapters_learn_and_are_baked() {
    script("lora.py", &Folder::new("lora"), &[]);
}

#[test]
fn passes_find_the_forms_of_gradients() {
    script("forms.py", &Folder::new("gradient-forms"), &[&perceptron()]);
}

#[test]
fn a_perceptron_and_a_language_model_learn_in_stock_sessions() {
    script("learn.py", &Folder::new("learn"), &[&perceptron()]);
}

#[test]
fn a_convolutional_net_learns_digits() {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/memc/train.py");
    script("digits.py", &Folder::new("digits"), &[&module]);
}

#[test]
fn a_character_model_learns_the_book_and_is_baked() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    script(
        "trainer.py",
        &Folder::new("trainer"),
        &[&root.join("docs/src"), &root.join("python/memc/train.py")],
    );
}

#[test]
fn trained_values_that_do_not_fit_are_refused() {
    let folder = Folder::new("train-bake");
    std::fs::copy(perceptron(), folder.path("in.onnx")).unwrap();
    let array = |dims: &str, bytes: usize| {
        let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({dims},), }}");
        header.push_str(&" ".repeat(64 - (header.len() + 11) % 64));
        header.push('\n');
        let mut all = b"\x93NUMPY\x01\x00".to_vec();
        all.extend((header.len() as u16).to_le_bytes());
        all.extend(header.as_bytes());
        all.extend(vec![0u8; bytes]);
        all
    };
    for (name, dims, bytes, words) in [
        ("fc1.bias", "31", 124, "it is f32[31], and the model has f32[32]"),
        ("fc1.bia", "32", 128, "did you mean `fc1.bias`?"),
    ] {
        let file = format!("{name}.npy");
        folder.write(&file, array(dims, bytes));
        let ran = folder.memc(&format!("train in.onnx --bake {file} -o out.onnx")).refused(2, "E0336");
        assert!(ran.err.contains(words), "{}", ran.err);
        assert!(!folder.names().contains(&"out.onnx".to_owned()));
    }
    folder.write("fc2.bias.npy", array("10", 40));
    folder.memc("train in.onnx --bake fc2.bias.npy -o out.onnx").done();
    let baked = read(&folder, "out.onnx").graph.unwrap();
    let given = read(&folder, "in.onnx").graph.unwrap();
    assert_eq!(
        (baked.node.len(), &baked.input, &baked.output),
        (given.node.len(), &given.input, &given.output)
    );
    let bias = baked.initializer.iter().find(|tensor| tensor.name() == "fc2.bias").unwrap();
    assert_eq!(bias.raw_data(), [0; 40]);
}

/// Reads a model that a test wrote.
fn read(folder: &Folder, name: &str) -> ModelProto {
    ModelProto::decode(std::fs::read(folder.path(name)).unwrap().as_slice()).unwrap()
}

fn names(infos: &[ValueInfoProto]) -> Vec<&str> {
    infos.iter().map(|info| info.name()).collect()
}

#[test]
fn the_interface_is_that_of_the_documentation() {
    let folder = Folder::new("train");
    std::fs::copy(perceptron(), folder.path("in.onnx")).unwrap();
    let ran =
        folder.memc("train in.onnx -o step.onnx --loss cross-entropy --labels labels --optimizer adam --eval eval.onnx").done();
    assert!(ran.err.contains("trainable: 4 tensors, 9.4 KiB"), "{}", ran.err);
    assert!(ran.err.contains("fc1.weight  f32[64,32]  8,192 B"), "{}", ran.err);
    let step = read(&folder, "step.onnx").graph.unwrap();
    let inputs = names(&step.input);
    assert_eq!(inputs[0], "pixels");
    for name in ["labels", "lr", "step", "fc1.weight", "m.fc1.weight", "v.fc2.bias"] {
        assert!(inputs.contains(&name), "{name}: {inputs:?}");
    }
    assert_eq!(names(&step.output)[..3], ["loss", "new.fc1.weight", "new.m.fc1.weight"]);
    // Each parameter and moment has its value as a default; numbers of a call have none.
    let defaults: BTreeSet<&str> = step.initializer.iter().map(|tensor| tensor.name()).collect();
    assert!(defaults.contains("fc1.weight") && defaults.contains("v.fc2.bias") && !defaults.contains("lr"));
    let given = read(&folder, "in.onnx").graph.unwrap();
    let weight =
        |tensors: &[TensorProto]| tensors.iter().find(|tensor| tensor.name() == "fc1.weight").cloned();
    assert_eq!(weight(&step.initializer), weight(&given.initializer));
    // An evaluation keeps the outputs of the model and its weights as constants.
    let eval = read(&folder, "eval.onnx").graph.unwrap();
    assert_eq!(names(&eval.output), ["scores", "loss"]);
    assert_eq!(names(&eval.input), ["pixels", "labels"]);
    // All state is paired.
    folder.memc("optimize step.onnx -o planned.onnx --alias-state --effort fast").done();
    let layout: serde_json::Value = serde_json::from_str(&folder.read("planned.layout.json")).unwrap();
    assert_eq!(layout["state"].as_array().unwrap().len(), 12);
    folder.memc("check step.onnx planned.onnx planned.layout.json").checked();
}

#[test]
fn a_step_is_planned_by_the_options_of_optimize() {
    let folder = Folder::new("train-planned");
    std::fs::copy(perceptron(), folder.path("in.onnx")).unwrap();
    let train = "train in.onnx -o out.onnx --loss cross-entropy --labels labels --optimizer adamw";
    folder.memc(&format!("{train} --budget 80% --effort 100")).done();
    assert_eq!(folder.names(), ["in.onnx", "out.layout.json", "out.onnx", "out.step.onnx"]);
    folder.memc("check out.step.onnx out.onnx out.layout.json").checked();
    let layout: serde_json::Value = serde_json::from_str(&folder.read("out.layout.json")).unwrap();
    assert_eq!(layout["state"].as_array().unwrap().len(), 12, "all state is overwritten");
    // The plan is that of two commands.
    folder.memc("train in.onnx -o step.onnx --loss cross-entropy --labels labels --optimizer adamw").done();
    folder.memc("optimize step.onnx -o two.onnx --alias-state --budget 80% --effort 100").done();
    assert!(
        std::fs::read(folder.path("two.onnx")).unwrap() == std::fs::read(folder.path("out.onnx")).unwrap()
    );
    // Without a plan nothing is written.
    let refused = Folder::new("train-too-small");
    std::fs::copy(perceptron(), refused.path("in.onnx")).unwrap();
    refused.memc(&format!("{train} --budget 100 --effort 100")).code.filter(|code| *code == 3).unwrap();
    assert_eq!(refused.names(), ["in.onnx"]);
    let nowhere = "train in.onnx --loss cross-entropy --labels labels --budget 80% --effort 100";
    refused.memc(nowhere).refused(2, "E0306");
}

#[test]
fn large_states_share_one_file_of_zeros() {
    let folder = Folder::new("train-zeros");
    let model =
        with(vec![node("MatMul", &["x", "w"], &["h"]), node("MatMul", &["h", "v"], &["y"])], |graph| {
            graph.input = vec![fixed("x", &[2, 640])];
            graph.output = vec![fixed("y", &[2, 512])];
            graph.initializer = vec![floats("w", &[640, 640]), floats("v", &[640, 512])];
        });
    folder.write("in.onnx", bytes(&model));
    folder.memc("train in.onnx -o step.onnx --loss mse --labels t --optimizer adam").done();
    assert_eq!(folder.names(), ["in.onnx", "step.onnx", "step.zeros"]);
    let size = |name: &str| std::fs::metadata(folder.path(name)).unwrap().len();
    assert_eq!(size("step.zeros"), 640 * 640 * 4, "the largest state");
    assert!(size("step.onnx") < size("in.onnx") + 20_000, "the step holds no zeros");
    assert!(std::fs::read(folder.path("step.zeros")).unwrap().iter().all(|byte| *byte == 0));
    // The plan refers to the file as well, and sessions read it.
    folder.memc("optimize step.onnx -o planned.onnx --alias-state --effort fast --runtime ort").done();
    folder.memc("verify step.onnx planned.onnx -n 1").done();
    // A request that is refused leaves neither.
    let refused =
        folder.memc("train in.onnx -o out.onnx --loss mse --labels t --optimizer adam --budget 1KiB");
    assert_eq!(refused.code, Some(3), "{}", refused.err);
    assert!(folder.names().iter().all(|name| !name.starts_with("out.")), "{:?}", folder.names());
}

#[test]
fn equal_requests_give_equal_bytes() {
    let folder = Folder::new("train-again");
    std::fs::copy(perceptron(), folder.path("in.onnx")).unwrap();
    for name in ["a.onnx", "b.onnx"] {
        folder
            .memc(&format!("train in.onnx -o {name} --loss cross-entropy --labels labels --optimizer adamw"))
            .done();
    }
    assert!(std::fs::read(folder.path("a.onnx")).unwrap() == std::fs::read(folder.path("b.onnx")).unwrap());
}

#[test]
fn no_node_of_a_frozen_branch_is_emitted() {
    let folder = Folder::new("train-frozen");
    std::fs::copy(perceptron(), folder.path("in.onnx")).unwrap();
    let count = |options: &str, op: &str| {
        folder
            .memc(&format!("train in.onnx -o step.onnx --loss cross-entropy --labels labels {options}"))
            .done();
        read(&folder, "step.onnx").graph.unwrap().node.iter().filter(|node| node.op_type() == op).count()
    };
    // Two products forward, and backward one for each weight and one for the hidden values.
    assert_eq!((count("", "Gemm"), count("", "Greater")), (5, 1));
    // The last layer alone needs one product, and nothing of the layer before.
    assert_eq!((count("--freeze fc1.*", "Gemm"), count("--freeze fc1.*", "Greater")), (3, 0));
    assert_eq!((count("--trainable fc2.bias", "Gemm"), count("--trainable fc2.bias", "ReduceSum")), (2, 3));
    // The first layer needs the way back through the second.
    assert_eq!(count("--trainable fc1.weight", "Gemm"), 4);
}

/// Sets the version of ONNX's operator set.
fn set_version(model: &mut ModelProto, version: i64) {
    let own = model.opset_import.iter_mut().find(|set| set.domain().is_empty()).unwrap();
    own.version = Some(version);
}

/// A model of nodes with the input `x` of 2 x 3 numbers and the output `y`.
fn small(nodes: Vec<memc_onnx_proto::onnx::NodeProto>) -> ModelProto {
    let mut model = with(nodes, |graph| {
        graph.input = vec![fixed("x", &[2, 3])];
        graph.output = vec![fixed("y", &[2, 3])];
        graph.initializer = vec![floats("w", &[3, 3])];
    });
    set_version(&mut model, 17);
    model
}

#[test]
fn bad_requests_are_refused_and_nothing_is_written() {
    let folder = Folder::new("train-refused");
    let good = small(vec![node("MatMul", &["x", "w"], &["y"])]);
    let refuse = |name: &str, model: &ModelProto, options: &str, exit: i32, code: &str, words: &str| {
        let _ = std::fs::remove_file(folder.path("step.onnx"));
        folder.write("in.onnx", bytes(model));
        let ran = folder.memc(&format!("train in.onnx -o step.onnx {options}")).refused(exit, code);
        assert!(ran.err.contains(words), "{name}: {}", ran.err);
        assert!(!folder.names().contains(&"step.onnx".to_owned()), "{name}");
    };
    let mse = "--loss mse --labels t";
    refuse("pattern", &good, &format!("{mse} --trainable v"), 2, "E0330", "`v` names no tensor");
    refuse("all frozen", &good, &format!("{mse} --freeze *"), 2, "E0330", "all are frozen");
    let mut bare = small(vec![node("Neg", &["x"], &["y"])]);
    bare.graph.as_mut().unwrap().initializer.clear();
    refuse("no weights", &bare, mse, 2, "E0330", "no parameter is trainable");
    refuse("no label", &good, "--loss mse", 2, "E0334", "--labels");
    refuse("no output", &good, "--loss mse:of=z --labels t", 2, "E0334", "it has y");
    refuse("no scalar", &good, "--loss output:y", 2, "E0334", "more than one element");
    refuse("label inside", &good, "--loss mse --labels y", 2, "E0334", "inside of the model");
    refuse(
        "label of another shape",
        &good,
        "--loss mse --labels w --trainable w",
        2,
        "E0334",
        "the labels must be f32[2,3]",
    );
    let two = small(vec![node("MatMul", &["x", "w"], &["h"]), node("Neg", &["x"], &["y"])]);
    refuse("independent", &two, mse, 2, "E0331", "does not depend");
    let rounded = small(vec![node("MatMul", &["x", "w"], &["h"]), node("Round", &["h"], &["y"])]);
    refuse("rounded", &rounded, mse, 2, "E0331", "gradients stop at Round");
    let casts = vec![
        node("MatMul", &["x", "w"], &["h"]),
        stated(node("Cast", &["h"], &["i"]), vec![int("to", 7)]),
        stated(node("Cast", &["i"], &["y"]), vec![int("to", 1)]),
    ];
    refuse("integers", &small(casts), mse, 2, "E0331", "gradients stop at Cast");
    let foreign = vec![
        node("MatMul", &["x", "w"], &["a"]),
        memc_onnx_proto::onnx::NodeProto { domain: Some("own".into()), ..node("Odd", &["a"], &["b"]) },
        node("Add", &["a", "b"], &["c"]),
        memc_onnx_proto::onnx::NodeProto { domain: Some("own".into()), ..node("Strange", &["c"], &["d"]) },
        node("Relu", &["d"], &["y"]),
    ];
    let mut unknown = small(foreign);
    unknown.graph.as_mut().unwrap().value_info = vec![fixed("b", &[2, 3]), fixed("d", &[2, 3])];
    unknown
        .opset_import
        .push(memc_onnx_proto::onnx::OperatorSetIdProto { domain: Some("own".into()), version: Some(1) });
    refuse("missing rules", &unknown, mse, 1, "E0332", "own::Strange");
    refuse(
        "all at once",
        &unknown,
        mse,
        1,
        "E0332",
        "= note: own::Odd \"/b\"; on the path Relu \"/y\", own::Strange \"/d\", Add \"/c\"",
    );
    let mut old = good.clone();
    set_version(&mut old, 8);
    refuse("old set", &old, mse, 1, "E0333", "operator set 8");
    let taken = with(vec![node("MatMul", &["x", "w"], &["h"]), node("Mul", &["h", "lr"], &["y"])], |graph| {
        graph.input = vec![fixed("x", &[2, 3]), fixed("lr", &[])];
        graph.output = vec![fixed("y", &[2, 3])];
        graph.initializer = vec![floats("w", &[3, 3])];
    });
    refuse("taken", &taken, mse, 1, "E0335", "already has an input `lr`");
    let open = {
        let mut model = small(vec![node("MatMul", &["x", "w"], &["y"])]);
        let graph = model.graph.as_mut().unwrap();
        graph.node.insert(0, node("NonZero", &["x"], &["n"]));
        graph.node.push(node("Gather", &["w", "n"], &["z"]));
        graph.output = vec![ValueInfoProto { name: Some("z".into()), ..Default::default() }];
        model
    };
    refuse("unknown extents", &open, mse, 2, "E0334", "are not known");
    for wrong in [
        "--loss nonsense",
        "--loss mse --optimizer adagrad",
        "--loss mse --clip 1",
        "--loss mse --weight-decay x",
    ] {
        folder.write("in.onnx", bytes(&good));
        let ran = folder.memc(&format!("train in.onnx -o step.onnx --labels t {wrong}"));
        assert_eq!(ran.code, Some(2), "{}", ran.err);
        assert!(!folder.names().contains(&"step.onnx".to_owned()));
    }
    folder.memc("train in.onnx -o - --loss mse --labels t").refused(2, "E0306");
    folder.memc("train in.onnx").refused(2, "E0306");
    folder
        .memc("train in.onnx -o step.onnx --loss mse --labels t --emit gradients --accumulate 2")
        .refused(2, "E0306");
    assert!(!folder.names().contains(&"step.onnx".to_owned()));
    folder.memc("train in.onnx second.onnx --loss mse --labels t").done();
    assert!(folder.names().contains(&"second.onnx".to_owned()));
    let lost = folder.memc("train in.onnx -o in.onnx --loss mse --labels t").refused(2, "E0306");
    assert!(lost.err.contains("would be lost"), "{}", lost.err);
}

#[test]
fn layers_and_bodies_that_are_not_unrolled_are_refused_by_name() {
    let folder = Folder::new("train-recurrent");
    let layer = |attributes: Vec<_>, steps: Option<i64>| {
        let mut attributes = attributes;
        attributes.push(int("hidden_size", 3));
        let nodes =
            vec![stated(node("LSTM", &["x", "w", "r"], &["s"]), attributes), node("Relu", &["s"], &["y"])];
        let mut model = with(nodes, |graph| {
            graph.input = vec![fixed("x", &[steps.unwrap_or(4), 2, 3])];
            if steps.is_none() {
                graph.input = vec![models_made::symbolic("x", &["steps", "batch", "columns"])];
            }
            graph.output = vec![ValueInfoProto { name: Some("y".into()), ..Default::default() }];
            graph.initializer = vec![floats("w", &[1, 12, 3]), floats("r", &[1, 12, 3])];
        });
        set_version(&mut model, 17);
        folder.write("in.onnx", bytes(&model));
        folder.memc("train in.onnx -o step.onnx --loss mse --labels t")
    };
    layer(vec![], Some(4)).done();
    std::fs::remove_file(folder.path("step.onnx")).unwrap();
    for (attributes, steps, words) in [
        (vec![models_made::float("clip", 1.0)], Some(4), "`clip` and `input_forget` are not covered"),
        (vec![], Some(4096), "it has 4096 steps"),
        (vec![], None, "the number of its steps is not known"),
    ] {
        let ran = layer(attributes, steps).refused(1, "E0332");
        assert!(
            ran.err.contains("LSTM") && ran.err.contains("Relu") && ran.err.contains(words),
            "{}",
            ran.err
        );
        assert!(!folder.names().contains(&"step.onnx".to_owned()));
    }
    // A Loop on the way is refused with its path.
    let branch = models_made::branch(vec![node("Neg", &["h"], &["n"])], "n");
    let nodes = vec![
        node("MatMul", &["x", "w"], &["h"]),
        models_made::either(&branch, "e"),
        node("Add", &["e", "h"], &["y"]),
    ];
    let mut model = small(nodes);
    model.graph.as_mut().unwrap().input.push(models_made::flag());
    folder.write("in.onnx", bytes(&model));
    let ran = folder.memc("train in.onnx -o step.onnx --loss mse --labels t").refused(1, "E0332");
    assert!(ran.err.contains("If") && ran.err.contains("on the path Add"), "{}", ran.err);
}

#[test]
fn caches_of_a_decoder_are_not_trained() {
    let folder = Folder::new("train-caches");
    let nodes = vec![
        node("MatMul", &["x", "w"], &["fresh"]),
        stated(node("Concat", &["past", "fresh"], &["present"]), vec![int("axis", 0)]),
        node("MatMul", &["present", "v"], &["y"]),
    ];
    let mut model = with(nodes, |graph| {
        graph.input = vec![fixed("x", &[2, 3]), fixed("past", &[4, 3])];
        graph.output = vec![fixed("y", &[6, 2]), fixed("present", &[6, 3])];
        graph.initializer = vec![floats("w", &[3, 3]), floats("v", &[3, 2])];
    });
    set_version(&mut model, 17);
    folder.write("in.onnx", bytes(&model));
    // The caches are inputs without a gradient, and no outputs.
    folder.memc("train in.onnx -o step.onnx --loss mse --labels t --emit gradients").done();
    let step = read(&folder, "step.onnx").graph.unwrap();
    assert_eq!(names(&step.output), ["loss", "grad.w", "grad.v"]);
    assert!(names(&step.input).contains(&"past"));
    std::fs::remove_file(folder.path("step.onnx")).unwrap();
    let ran = folder
        .memc("train in.onnx -o out.onnx --loss mse --labels t --state present*=past*")
        .refused(2, "E0306");
    assert!(ran.err.contains("`--state present*=past*`") && ran.err.contains("no caches"), "{}", ran.err);
    assert_eq!(folder.names(), ["in.onnx"]);
    // Pairs of the step itself are planned.
    folder.memc("train in.onnx -o out.onnx --loss mse --labels t --state new.*=*").done();
}

#[test]
fn a_value_with_a_name_of_the_step_makes_room() {
    let folder = Folder::new("train-names");
    let model =
        with(vec![node("MatMul", &["x", "w"], &["loss"]), node("Relu", &["loss"], &["new.w"])], |graph| {
            graph.input = vec![fixed("x", &[2, 3])];
            graph.output = vec![fixed("new.w", &[2, 3])];
            graph.initializer = vec![floats("w", &[3, 3])];
        });
    folder.write("in.onnx", bytes(&model));
    folder.memc("train in.onnx -o step.onnx --loss mse --labels t").done();
    let step = read(&folder, "step.onnx").graph.unwrap();
    assert_eq!(names(&step.output), ["loss", "new.w"]);
    let update = step.node.iter().find(|node| node.output.contains(&"new.w".to_owned())).unwrap();
    assert_eq!(update.op_type(), "Sub");
}

#[test]
fn a_dropout_is_drawn_once_and_its_mask_serves_the_gradient() {
    let folder = Folder::new("train-dropout");
    let make = |ratio: f32| {
        let nodes =
            vec![node("MatMul", &["x", "w"], &["h"]), node("Dropout", &["h", "ratio", "train"], &["y"])];
        let mut model = small(nodes);
        let graph = model.graph.as_mut().unwrap();
        graph.initializer.push(models_made::raw("ratio", &[], &ratio.to_le_bytes()));
        graph.initializer.push(TensorProto {
            data_type: Some(9),
            name: Some("train".into()),
            raw_data: Some(vec![1].into()),
            ..TensorProto::default()
        });
        model
    };
    folder.write("in.onnx", bytes(&make(0.25)));
    folder.memc("train in.onnx -o step.onnx --loss mse --labels t --emit gradients").done();
    let step = read(&folder, "step.onnx").graph.unwrap();
    let drawn: Vec<_> = step.node.iter().filter(|node| node.op_type() == "Dropout").collect();
    assert_eq!(drawn.len(), 1);
    let mask = &drawn[0].output[1];
    assert!(step.node.iter().any(|node| node.op_type() == "Where" && node.input[0] == *mask));
    // A ratio of zero drops nothing, and costs nothing.
    folder.write("in.onnx", bytes(&make(0.0)));
    folder.memc("train in.onnx -o step.onnx --loss mse --labels t --emit gradients").done();
    let step = read(&folder, "step.onnx").graph.unwrap();
    assert!(step.node.iter().all(|node| node.op_type() != "Dropout" && node.op_type() != "Where"));
}

#[test]
fn old_operator_sets_are_raised() {
    let folder = Folder::new("train-old");
    let nodes = vec![
        node("MatMul", &["x", "w"], &["h"]),
        stated(node("Unsqueeze", &["h"], &["u"]), vec![models_made::ints("axes", &[2])]),
        stated(node("Squeeze", &["u"], &["s"]), vec![models_made::ints("axes", &[2])]),
        node("Softmax", &["s"], &["y"]),
    ];
    let mut model = small(nodes);
    set_version(&mut model, 9);
    folder.write("in.onnx", bytes(&model));
    folder.memc("train in.onnx -o step.onnx --loss mse --labels t").done();
    let step = read(&folder, "step.onnx");
    assert!(step.opset_import.iter().any(|set| set.domain().is_empty() && set.version() == 17));
    // Softmax over several axes at once has no form in set 17.
    let mut several = model.clone();
    several.graph.as_mut().unwrap().node[3].input[0] = "u".to_owned();
    several.graph.as_mut().unwrap().output = vec![fixed("y", &[2, 3, 1])];
    let axis = stated(node("Softmax", &["u"], &["y"]), vec![int("axis", 0)]);
    several.graph.as_mut().unwrap().node[3] = axis;
    folder.write("in.onnx", bytes(&several));
    folder.memc("train in.onnx -o step2.onnx --loss mse --labels t").refused(1, "E0333");
}

/// Describes a matrix of 3 columns with a free number of rows.
fn with_free_rows(name: &str) -> ValueInfoProto {
    let mut info = models_made::symbolic(name, &["batch", "columns"]);
    let fixed = fixed(name, &[1, 3]);
    let shape = |info: &ValueInfoProto| match info.r#type.as_ref().unwrap().value.as_ref().unwrap() {
        type_proto::Value::TensorType(tensor) => tensor.shape.clone().unwrap(),
        _ => unreachable!("a tensor"),
    };
    let columns = shape(&fixed).dim[1].clone();
    if let Some(type_proto::Value::TensorType(tensor)) = info.r#type.as_mut().unwrap().value.as_mut() {
        tensor.shape.as_mut().unwrap().dim[1] = columns;
    }
    info
}

#[test]
fn free_dimensions_stay_free() {
    let folder = Folder::new("train-free");
    let mut model = small(vec![node("MatMul", &["x", "w"], &["h"]), node("Relu", &["h"], &["y"])]);
    let graph = model.graph.as_mut().unwrap();
    graph.input = vec![with_free_rows("x")];
    graph.output = vec![with_free_rows("y")];
    folder.write("in.onnx", bytes(&model));
    folder.memc("train in.onnx -o step.onnx --loss mse --labels t --dim batch=1..8").done();
    folder.memc("optimize step.onnx -o planned.onnx --dim batch=1..8 --alias-state --effort fast").done();
    folder.memc("verify step.onnx planned.onnx -n 1").done();
}

#[test]
fn rows_of_half_precision_are_added_up_in_full() {
    let folder = Folder::new("train-half-rows");
    let nodes = vec![
        stated(node("Cast", &["w"], &["h"]), vec![int("to", 10)]),
        node("Gather", &["h", "rows"], &["g"]),
        stated(node("Cast", &["g"], &["f"]), vec![int("to", 1)]),
        node("MatMul", &["x", "f"], &["y"]),
    ];
    let mut model = small(nodes);
    model.graph.as_mut().unwrap().initializer.push(integers("rows", &[2, 0, 2]));
    folder.write("in.onnx", bytes(&model));
    folder.memc("train in.onnx -o step.onnx --loss mse --labels t").done();
    // The runtime has no kernel that adds rows of half precision.
    folder.memc("optimize step.onnx -o out.onnx").done();
    folder.memc("verify step.onnx out.onnx").done();
}

#[test]
fn tensors_without_elements_pass_no_gradient_on() {
    let folder = Folder::new("train-no-rows");
    let nodes = vec![
        node("MatMul", &["x", "w"], &["a"]),
        node("MatMul", &["k", "v"], &["b"]),
        stated(node("Concat", &["a", "b"], &["y"]), vec![int("axis", 0)]),
    ];
    let model = with(nodes, |graph| {
        graph.input = vec![fixed("x", &[0, 2, 3])];
        graph.output = vec![fixed("y", &[1, 2, 3])];
        graph.initializer = vec![floats("w", &[3, 3]), floats("v", &[3, 3]), floats("k", &[1, 2, 3])];
    });
    folder.write("in.onnx", bytes(&model));
    folder.memc("train in.onnx -o step.onnx --loss mse --labels t --freeze k --emit gradients").done();
    let step = read(&folder, "step.onnx");
    assert_eq!(names(&step.graph.unwrap().output), ["loss", "grad.v"]);
    // A parameter that was asked for by name has none.
    folder.memc("train in.onnx -o none.onnx --loss mse --labels t --trainable w").refused(2, "E0331");
}
