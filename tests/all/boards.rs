//! Limits, state and boards: hints of options for small budgets, pairs of state by name, space for
//! weights, and headers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use std::process::Command;

use command::Folder;
use memc_onnx_proto::onnx::ModelProto;
use models_made::{bytes, fixed, floats, int, ints, node, raw, stated, with};
use serde_json::Value;

/// Returns a training step: parameters, moments and gradients are inputs, new moments and parameters
/// are outputs.
fn momentum(count: usize) -> ModelProto {
    let scalar = |name: &str, value: f32| raw(name, &[], &value.to_le_bytes());
    let (mut nodes, mut inputs, mut outputs) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..count {
        let name = |word: &str| format!("{word}{index}");
        let [p, m, g, kept, part, new_m, step, new_p] =
            ["p", "m", "g", "kept", "part", "new_m", "step", "new_p"].map(name);
        inputs.extend([&p, &m, &g].map(|name| fixed(name, &[32, 32])));
        outputs.extend([&new_m, &new_p].map(|name| fixed(name, &[32, 32])));
        nodes.extend([
            node("Mul", &[&m, "decay"], &[&kept]),
            node("Mul", &[&g, "share"], &[&part]),
            node("Add", &[&kept, &part], &[&new_m]),
            node("Mul", &[&new_m, "rate"], &[&step]),
            node("Sub", &[&p, &step], &[&new_p]),
        ]);
    }
    let constants = vec![scalar("decay", 0.9), scalar("share", 0.1), scalar("rate", 0.01)];
    with(nodes, |graph| {
        graph.input = inputs;
        graph.output = outputs;
        graph.initializer = constants;
    })
}

/// Returns a convolution of images with a weight of 4,608 bytes.
fn convolution() -> ModelProto {
    let conv = stated(
        node("Conv", &["x", "w"], &["c"]),
        vec![ints("kernel_shape", &[3, 3]), ints("pads", &[1, 1, 1, 1])],
    );
    with(vec![conv, node("Relu", &["c"], &["y"])], |graph| {
        graph.input = vec![fixed("x", &[1, 8, 16, 16])];
        graph.output = vec![fixed("y", &[1, 16, 16, 16])];
        graph.initializer = vec![floats("w", &[16, 8, 3, 3])];
    })
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn folder(name: &str, model: &ModelProto) -> Folder {
    let folder = Folder::new(name);
    folder.write("in.onnx", bytes(model));
    folder
}

/// Returns a target with the given spaces.
fn board(spaces: &str) -> String {
    let machine = "[machine]\nbytes_per_second = 320e6\noverhead_ns = 5000\n[machine.flops_per_second]\nfloat = 0.1e9\n";
    format!("name = \"board\"\n{machine}{spaces}")
}

#[test]
fn the_help_names_the_option_that_frees_most() {
    let state = folder("help-state", &momentum(6));
    let ran = state.memc("optimize in.onnx -o out.onnx --budget 50%").refused(3, "E0301");
    assert!(ran.err.contains("`--alias-state`") && ran.err.contains("`--state NEW=OLD`"), "{ran:#?}");
    // Outputs that depend on no input of their type.
    let outputs: Vec<String> = (0..6).map(|index| format!("y{index}")).collect();
    let wide = with(outputs.iter().map(|name| node("MatMul", &["x", "w"], &[name])).collect(), |graph| {
        graph.input = vec![fixed("x", &[32, 8])];
        graph.initializer = vec![floats("w", &[8, 32])];
        graph.output = outputs.iter().map(|name| fixed(name, &[32, 32])).collect();
    });
    let ran = folder("help-outputs", &wide)
        .memc("optimize in.onnx -o out.onnx --budget 50% --exact")
        .refused(3, "E0301");
    assert!(ran.err.contains("`--io external` leaves graph outputs to the caller"), "{ran:#?}");
    // A single step that needs all the memory.
    let soft = stated(node("Softmax", &["a"], &["b"]), vec![int("axis", 0)]);
    let sum = stated(node("ReduceSum", &["c"], &["y"]), vec![int("keepdims", 0)]);
    let one =
        with(vec![node("Relu", &["x"], &["a"]), soft, node("MatMul", &["a", "b"], &["c"]), sum], |graph| {
            graph.input = vec![fixed("x", &[64, 64])];
            graph.output = vec![fixed("y", &[])];
        });
    let ran = folder("help-step", &one)
        .memc("optimize in.onnx -o out.onnx --budget 1KiB --no-rewrite")
        .refused(3, "E0301");
    assert!(
        ran.err.contains("the node of the step itself needs") && ran.err.contains("leave out `--no-rewrite`"),
        "{ran:#?}"
    );
    // Options that are not in use are not to be left out.
    assert!(!ran.err.contains("leave out `--exact`") && !ran.err.contains("`--dim`"), "{ran:#?}");
}

#[test]
fn outputs_without_a_state_pair_are_listed_and_can_be_paired_by_name() {
    let folder = folder("pairs", &momentum(3));
    let ran = folder.memc("optimize in.onnx -o out.onnx --alias-state").done();
    let layout = json(&folder.read("out.layout.json"));
    assert_eq!(layout["state"].as_array().unwrap().len(), 3);
    let open = layout["unpaired"].as_array().unwrap();
    assert_eq!(open.len(), 3);
    assert_eq!(
        (&open[0]["result"], &open[0]["candidates"]),
        (&Value::from("new_m0"), &serde_json::json!(["m0", "g0"]))
    );
    assert!(
        ran.err.contains("no pair  3 outputs, equally near to several inputs: new_m0, new_m1, new_m2"),
        "{ran:#?}"
    );
    assert!(ran.err.contains("name a pair to share it: `--state new_m0=m0`"), "{ran:#?}");
    let named = "--state new_m0=m0 --state new_m1=m1 --state new_m2=m2";
    let summary =
        json(&folder.memc(&format!("optimize in.onnx -o out.onnx --alias-state {named} --json")).done().out);
    assert_eq!(
        (summary["state"].as_array().unwrap().len(), summary["unpaired"].as_array().unwrap().len()),
        (6, 0)
    );
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    folder.memc("verify in.onnx out.onnx").done();
    // `--state` alone pairs only the named tensors, and leaves outputs to the caller.
    folder.memc("optimize in.onnx -o out.onnx --state new_m1=m1").done();
    let layout = json(&folder.read("out.layout.json"));
    assert_eq!((layout["state"].as_array().unwrap().len(), layout["io"].as_str()), (1, Some("external")));
}

#[test]
fn pairs_that_cannot_share_storage_are_refused() {
    let mut model = momentum(2);
    let graph = model.graph.as_mut().unwrap();
    graph.input.push(fixed("small", &[4]));
    let folder = folder("no-pairs", &model);
    let refused = |pair: &str| {
        folder.memc(&format!("optimize in.onnx -o out.onnx --state {pair}")).refused(2, "E0306").err
    };
    let unknown = refused("newm0=m0");
    assert!(
        unknown.contains("no output named `newm0`") && unknown.contains("did you mean `new_m0`?"),
        "{unknown}"
    );
    let unknown = refused("new_m0=m7");
    assert!(unknown.contains("no input named `m7`") && unknown.contains("did you mean `m"), "{unknown}");
    let other = refused("new_m0=small");
    assert!(other.contains("`--state new_m0=small`: ") && other.contains("32"), "{other}");
    assert!(refused("new_m0=m0 --state new_m1=m0").contains("another pair"));
    assert_eq!(folder.memc("optimize in.onnx -o out.onnx --state new_m0").code, Some(2));
    folder.memc("optimize in.onnx -o out.onnx --state new_m0=m0 --io arena").refused(2, "E0306");
}

#[test]
fn weights_must_fit_the_space_that_holds_them() {
    let folder = folder("weights", &convolution());
    let plan = |spaces: &str| {
        folder.write("board.toml", board(spaces));
        folder.memc("optimize in.onnx -o out.onnx --target board.toml")
    };
    let sram = "[[spaces]]\nname = \"sram\"\ncapacity = \"128KiB\"\n";
    // No link leads to this space, so it can hold only constants.
    let ran = plan(&format!("{sram}[[spaces]]\nname = \"flash\"\ncapacity = 4607\n")).refused(3, "E0312");
    assert!(ran.err.contains("the weights need 4,608 B, and `flash` has room for 4,607 B"), "{ran:#?}");
    plan(&format!("{sram}[[spaces]]\nname = \"flash\"\ncapacity = 4608\n")).done();
    // Two spaces together hold the weights.
    let two = "[[spaces]]\nname = \"flash\"\ncapacity = 4000\n[[spaces]]\nname = \"rom\"\ncapacity = \"1 KiB\"\nconstants = true\n";
    plan(&format!("{sram}{two}")).done();
    // If the target allows it, a space holds the weights next to the arena.
    plan(sram).done();
    let beside =
        |capacity: u64| format!("[[spaces]]\nname = \"sram\"\ncapacity = {capacity}\nconstants = true\n");
    let arena = json(&folder.read("out.layout.json"))["arenas"][0]["size"].as_u64().unwrap();
    plan(&beside(arena + 4608)).done();
    let ran = plan(&beside(arena + 4607)).refused(3, "E0312");
    assert!(ran.err.contains("beside the arena"), "{ran:#?}");
    // An invalid size is rejected with its line number.
    let ran = plan("[[spaces]]\nname = \"sram\"\ncapacity = \"12 apples\"\n").refused(1, "E0308");
    assert!(ran.err.contains("line 9: `12 apples` is not a size"), "{ran:#?}");
}

#[test]
fn boards_plan_no_workspace_of_another_runtime() {
    let folder = folder("workspace", &convolution());
    let scratch = |target: &str| {
        folder
            .memc(&format!("optimize in.onnx -o out.onnx --layout out.json --layout out.h {target}"))
            .done();
        folder.memc("check in.onnx out.onnx out.json").checked();
        let layout = json(&folder.read("out.json"));
        layout["tensors"].as_array().unwrap().iter().filter(|tensor| tensor["class"] == "scratch").count()
    };
    assert_eq!(scratch(""), 1);
    assert!(folder.read("out.h").contains("It holds workspace of 1 steps"));
    assert_eq!(scratch("--target esp32-s3"), 0);
    assert!(folder.read("out.h").contains("It holds no workspace of kernels."));
    // Kernels of ONNX Runtime need their workspace on any target.
    assert_eq!(scratch("--target esp32-s3 --runtime player"), 1);
}

#[test]
fn a_header_has_ends_and_steps_that_compile() {
    let folder = folder("header", &convolution());
    folder
        .memc("optimize in.onnx -o out.onnx --io arena --layout out.h --layout out.rs --target esp32-s3")
        .done();
    let header = folder.read("out.h");
    for line in [
        "#define MEMC_INPUT_COUNT 1",
        "#define MEMC_INPUT_0_NAME \"x\"",
        "#define MEMC_INPUT_0_SIZE 8192UL",
        "#define MEMC_INPUT_0_TYPE 1 /* float */",
        "#define MEMC_INPUT_0_SHAPE { 1UL, 8UL, 16UL, 16UL }",
        "#define MEMC_OUTPUT_0_NAME \"y\"",
        "#define MEMC_OUTPUT_0_RANK 4",
    ] {
        assert!(header.contains(&format!("{line}\n")), "{line}:\n{header}");
    }
    assert!(header.contains("#define MEMC_INPUT_0_OFFSET "), "{header}");
    // The convolution reads two tensors and writes one.
    let rows = header.split_once("memc_steps[MEMC_STEP_COUNT] = {\n").unwrap().1;
    let first = rows.lines().next().unwrap();
    assert!(first.contains("Conv\", 0UL, ") && first.contains("U, 1U, 0U }"), "{first}");
    for compiler in ["gcc", "cc"] {
        let here = Command::new(compiler).arg("--version").output().is_ok_and(|ran| ran.status.success());
        if here {
            folder.write("main.c", "#define MEMC_TABLES\n#include \"out.h\"\nint main(void) { return (int)(memc_steps[0].first + memc_tensors[0].size + memc_step_tensors[0]); }\n");
            let options = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"];
            let ran = Command::new(compiler).args(options).arg(folder.path("main.c")).output().unwrap();
            assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
            break;
        }
    }
}

#[test]
fn targets_state_the_alignment_of_their_offsets() {
    let folder = Folder::new("alignments");
    let said = folder.memc("targets").done().out;
    assert!(said.contains("sram     512.0 KiB, offsets are multiples of 16\n"), "{said}");
    assert!(said.contains("flash    16.0 MiB, offsets are multiples of 16, holds constants\n"), "{said}");
    assert!(
        said.contains("device   no limit, offsets are multiples of 64, the runtime's default\n"),
        "{said}"
    );
}

#[test]
fn this_machine_is_a_target_and_its_file_makes_equal_plans() {
    let folder = Folder::new("this-machine");
    folder.write("in.onnx", bytes(&convolution()));
    let file = folder.memc("targets auto").done().out;
    folder.write("here.toml", &file);
    let layout = |target: &str, name: &str| {
        folder.memc(&format!("optimize in.onnx -o {name}.onnx --target {target}")).done();
        folder.read(&format!("{name}.layout.json"))
    };
    let (now, later, cpu) = (layout("auto", "now"), layout("here.toml", "later"), layout("cpu", "cpu"));
    assert_eq!(now, later);
    let spaces = |text: &str| serde_json::from_str::<Value>(text).unwrap()["target"]["spaces"].clone();
    assert_eq!(spaces(&cpu)[0]["capacity"], Value::Null);
    // Linux states the installed memory.
    if std::path::Path::new("/proc/meminfo").exists() {
        assert!(spaces(&now)[0]["capacity"].as_u64().unwrap() > 1 << 20, "{file}");
    }
}

/// Returns three products of which each reads the results of two nodes: 48 KiB at one step.
fn products() -> ModelProto {
    let nodes = vec![
        node("Relu", &["x"], &["a"]),
        node("Neg", &["x"], &["b"]),
        node("MatMul", &["a", "b"], &["c"]),
        node("MatMul", &["c", "b"], &["d"]),
        node("MatMul", &["d", "d"], &["y"]),
    ];
    with(nodes, |graph| {
        graph.input = vec![fixed("x", &[64, 64])];
        graph.output = vec![fixed("y", &[64, 64])];
    })
}

#[test]
fn tensors_live_in_a_slow_space_if_the_first_one_is_full() {
    let folder = folder("slow-space", &products());
    let plan = |near: u64, bank: &str| {
        let near = format!("[[spaces]]\nname = \"sram\"\ncapacity = {near}\n");
        folder.write(
            "board.toml",
            board(&format!("{near}[[spaces]]\nname = \"bank\"\nconstants = false\n{bank}")),
        );
        folder.memc("optimize in.onnx -o out.onnx --exact --target board.toml")
    };
    let access = "access_bytes_per_second = 1e8\n";
    plan(40_960, "").refused(3, "E0301");
    plan(40_960, access).done();
    let text = folder.read("out.layout.json");
    let layout = json(&text);
    let spaces = layout["target"]["spaces"].as_array().unwrap();
    assert_eq!((&spaces[0]["access"], &spaces[1]["access"]), (&Value::Null, &Value::from(100_000_000)));
    let rows = layout["tensors"].as_array().unwrap();
    let count =
        |space: &str| rows.iter().filter(|row| row["space"] == space && row["alias"].is_null()).count();
    assert!(count("bank") >= 1 && count("sram") >= 2, "{text}");
    let size = |index: usize| layout["arenas"][index]["size"].as_u64().unwrap();
    assert!(size(0) <= 40_960 && size(0) + size(1) >= 49_152);
    // The accesses take time, and the summary says so.
    let nanos = |key: &str| layout["cost"][key].as_f64().unwrap();
    assert!(nanos("modelled_ns_after") > nanos("modelled_ns_before"));
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    folder.memc("verify in.onnx out.onnx").done();
    // A checker that does not know the rate refuses the plan.
    folder.write("deaf.json", text.replace("\"access\": 100000000,", ""));
    let ran = folder.memc("check in.onnx out.onnx deaf.json");
    assert!(ran.code == Some(1) && format!("{}{}", ran.out, ran.err).contains("E0527"), "{ran:#?}");
    // Nothing near: all tensors live in the bank. A bank that is too small is no help, and with room no
    // tensor leaves.
    plan(0, access).done();
    assert_eq!(json(&folder.read("out.layout.json"))["arenas"][0]["size"], 0);
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    folder.memc("verify in.onnx out.onnx").done();
    plan(40_960, &format!("{access}capacity = 8192\n")).refused(3, "E0301");
    plan(65_536, access).done();
    assert_eq!(json(&folder.read("out.layout.json"))["arenas"].as_array().unwrap().len(), 1);
    // The first space has the machine's rate.
    folder.write("board.toml", board(&format!("[[spaces]]\nname = \"sram\"\n{access}")));
    folder.memc("optimize in.onnx -o out.onnx --target board.toml").refused(1, "E0308");
}

#[test]
fn scratch_of_foreign_kernels_has_a_place() {
    let folder = folder("scratch", &products());
    let plan = |rows: &str, more: &str| {
        folder.write("kernels.json", format!("{{\"schema\": \"memc.scratch/1\", {rows}}}"));
        folder
            .memc(&format!("optimize in.onnx -o out.onnx --exact --no-rewrite --scratch kernels.json {more}"))
    };
    plan("\"operators\": {\"MatMul\": \"in0_0 * in0_width + 5\", \"Relu\": \"0\"}", "").done();
    let layout = json(&folder.read("out.layout.json"));
    let rows = layout["tensors"].as_array().unwrap();
    let scratch: Vec<u64> = rows
        .iter()
        .filter(|row| row["class"] == "scratch")
        .map(|row| row["bytes"].as_u64().unwrap())
        .collect();
    assert_eq!(scratch, [261, 261, 261]);
    assert_eq!(layout["options"]["scratch"].as_str().map(str::len), Some(64));
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    // The budget counts it.
    plan("\"default\": \"in0_bytes\"", "").done();
    let with = json(&folder.read("out.layout.json"))["arenas"][0]["size"].as_u64().unwrap();
    plan("\"default\": \"0\"", "").done();
    let without = json(&folder.read("out.layout.json"))["arenas"][0]["size"].as_u64().unwrap();
    assert_eq!((without, with), (49_152, 65_536));
    plan("\"default\": \"in0_bytes\"", &format!("--budget {without}")).refused(3, "E0301");
    // A convolution without a row keeps the workspace of the table.
    plan("\"operator\": {}", "").refused(1, "E0320");
    plan("\"operators\": {\"MatMul\": \"channels\"}", "").refused(1, "E0321");
    plan("\"operators\": {\"MatMul\": \"in0_0 +\"}", "").refused(1, "E0321");
    plan("\"default\": \"0\"", "--runtime ort").refused(2, "E0322");
}

#[test]
fn offsets_have_the_requested_alignment() {
    let folder = folder("align", &momentum(3));
    for bytes in [1, 16, 32, 4096] {
        folder
            .memc(&format!("optimize in.onnx -o out.onnx --align {bytes} --layout out.layout.json --layout plan.onnx2c.csv"))
            .done();
        let layout = json(&folder.read("out.layout.json"));
        assert_eq!(layout["arenas"][0]["alignment"], bytes);
        let rows = layout["tensors"].as_array().unwrap();
        let placed: Vec<&Value> = rows.iter().filter(|row| row["offset"].is_u64()).collect();
        assert!(placed.iter().all(|row| row["offset"].as_u64().unwrap() % bytes == 0));
        folder.memc("check in.onnx out.onnx out.layout.json").checked();
        let table = folder.read("plan.onnx2c.csv");
        assert_eq!((table.lines().next(), table.lines().count()), (Some("name,offset"), placed.len() + 1));
    }
    folder.memc("optimize in.onnx -o out.onnx --align 24").refused(2, "E0306");
}
