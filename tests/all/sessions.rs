//! Recipes of `optimize --session python`: they run in their package, and allocate the bytes that were
//! counted for them, within budgets.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use std::path::Path;
use std::process::Command;

use command::Folder;
use memc_onnx_proto::onnx::ModelProto;
use models_made::{bytes, fixed, hungry, node, with};
use prost::Message as _;

/// Session with default options.
pub const PLAIN: &str = "import onnxruntime as ort\noptions = ort.SessionOptions()\n";

/// Returns the maximum number of bytes allocated at once, in twelve runs in a session with the options
/// of `recipe`.
fn counted(folder: &Folder, model: &str, recipe: &str) -> u64 {
    measured(folder, model, recipe)["bytes"].as_u64().unwrap()
}

/// Returns all counts of these runs.
pub fn measured(folder: &Folder, model: &str, recipe: &str) -> serde_json::Value {
    let library = folder.path("count.so");
    let benches = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches");
    if !library.exists() {
        let source = benches.join("count_allocations.c");
        let flags = ["-O2", "-shared", "-fPIC", "-ldl", "-lpthread", "-o"];
        let built = Command::new("cc").arg(source).args(flags).arg(&library).status().expect("a C compiler");
        assert!(built.success());
    }
    let python = std::env::var("MEMC_PYTHON")
        .expect("MEMC_PYTHON names no Python with onnxruntime: run the tests with `cargo xtask test`");
    let mut command = Command::new(python);
    command
        .arg(benches.join("sessions.py"))
        .arg("--count")
        .arg(folder.path(model))
        .args([recipe, "{}", "{}"]);
    let output = command.env("LD_PRELOAD", &library).output().expect("python starts");
    assert!(output.status.success(), "{recipe}\n{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns a chain of sines and the gradient of its last value. Each value in between is read by both,
/// or recomputed.
pub fn chain(extent: i64) -> ModelProto {
    const LENGTH: usize = 12;
    let name = |i: usize| if i == 0 { "x".to_owned() } else { format!("h{i}") };
    let mut nodes: Vec<_> = (0..LENGTH).map(|i| node("Sin", &[&name(i)], &[&name(i + 1)])).collect();
    let mut gradient = name(LENGTH);
    for i in (0..LENGTH).rev() {
        let (slope, next) = (format!("c{i}"), if i == 0 { "y".to_owned() } else { format!("g{i}") });
        nodes.push(node("Cos", &[&name(i)], &[&slope]));
        nodes.push(node("Mul", &[&gradient, &slope], &[&next]));
        gradient = next;
    }
    with(nodes, |graph| {
        graph.input = vec![fixed("x", &[extent])];
        graph.output = vec![fixed("y", &[extent])];
    })
}

fn with_model(name: &str, model: &ModelProto) -> Folder {
    let folder = Folder::new(name);
    folder.write("in.onnx", bytes(model));
    folder
}

fn planned_peak(folder: &Folder) -> u64 {
    let layout: serde_json::Value = serde_json::from_str(&folder.read("out.layout.json")).unwrap();
    layout["peak"]["device"]["bytes"].as_u64().unwrap()
}

/// Whether counted bytes are within the plan, with a margin for the runtime's rounding of small
/// tensors.
fn holds(counted: u64, planned: u64) -> bool {
    counted as f64 <= planned as f64 * 1.01
}

#[test]
fn the_smallest_recipe_takes_planned_bytes_and_the_fast_keeps_copies() {
    let folder = with_model("recipes", &chain(65536));
    let plan = "optimize in.onnx -o out.onnx --runtime ort --budget 60% --no-rewrite";
    let both = folder.memc(&format!("{plan} --session python")).done();
    assert!(both.err.contains("W0314"), "{both:#?}");
    let fast = folder.memc(&format!("{plan} --session python=fast")).done();
    let smallest = folder.memc(&format!("{plan} --session python=smallest")).done();
    let planned = planned_peak(&folder);
    // The whole text ends with the options of the smallest recipe, as it did when there was only one recipe.
    let (last, named) =
        (counted(&folder, "out.onnx", &both.out), counted(&folder, "out.onnx", &smallest.out));
    assert_eq!(last, named);
    assert!(holds(named, planned), "{named} bytes by the smallest recipe, planned {planned}");
    // Without the recipe's setting, the session's optimizations would merge the copies.
    let kept = counted(&folder, "out.onnx", &fast.out);
    let merged = counted(&folder, "out.onnx", &fast.out.replace("CommonSubexpressionElimination", "None"));
    assert!(kept < merged, "{kept} bytes with the merging off, {merged} with it");
    let plain = counted(&folder, "out.onnx", PLAIN);
    assert!(kept < plain, "{kept} bytes by the fast recipe, {plain} in a plain session");
    // The recipe frees a block first, so that later runs reuse its pages. Without the block, later runs
    // request pages from the system again, unless the process has already freed a block of this size.
    let found = measured(&folder, "out.onnx", &fast.out)["faults"].as_u64().unwrap();
    assert!(found < kept / 4096, "{found} pages found anew in twelve runs of {kept} bytes");
}

/// Returns the bytes that `memc profile --session` counts for a model.
fn profiled(folder: &Folder, model: &str, session: &str) -> u64 {
    let ran = folder.memc(&format!("profile {model} --session {session}")).done();
    let found: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    found["bytes"].as_u64().unwrap()
}

/// Returns the settings and the bytes that `optimize` states for a recipe.
fn stated(err: &str, recipe: &str) -> (String, u64) {
    let line = err
        .lines()
        .find_map(|line| line.strip_prefix(&format!("session {recipe}: ")))
        .expect("a line of the recipe");
    let (bytes, rest) = line.split_once(" B, counted (").expect("counted bytes");
    (rest.split(')').next().unwrap_or_default().to_owned(), bytes.replace(',', "").parse().unwrap())
}

#[test]
fn a_command_of_another_name_counts_as_well() {
    let folder = with_model("named", &chain(4096));
    let own = folder.path("memc-of-yesterday");
    std::fs::copy(env!("CARGO_BIN_EXE_memc"), &own).unwrap();
    let words = "optimize in.onnx -o out.onnx --runtime ort --session plain";
    let output = Command::new(&own)
        .current_dir(own.parent().unwrap())
        .args(words.split(' '))
        .env("MEMC_PYTHON", "nowhere")
        .output()
        .unwrap();
    stated(&String::from_utf8(output.stderr).unwrap(), "plain");
}

#[test]
fn counted_bytes_are_those_of_the_package() {
    let folder = with_model("counted", &chain(65536));
    for recipe in ["fast", "smallest", "plain"] {
        let ran = folder
            .memc(&format!("optimize in.onnx -o {recipe}.onnx --runtime ort --no-rewrite --session {recipe}"))
            .done();
        let (settings, bytes) = stated(&ran.err, recipe);
        let found = counted(&folder, &format!("{recipe}.onnx"), &ran.out);
        assert!(
            holds(bytes, found) && holds(found, bytes),
            "{recipe}: {bytes} stated, {found} counted\n{}",
            ran.err
        );
        assert_eq!(profiled(&folder, &format!("{recipe}.onnx"), &settings), bytes);
        assert!(profiled(&folder, &format!("{recipe}.onnx"), recipe) <= bytes);
    }
    let given = profiled(&folder, "in.onnx", "plain");
    assert!(profiled(&folder, "plain.onnx", "plain") <= given);
    let settings = [
        "all,no-arena,no-pattern",
        "all,no-reuse,no-arena,no-pattern",
        "all,file-order,no-reuse,no-arena,no-pattern",
    ];
    let alone = settings.map(|settings| profiled(&folder, "in.onnx", settings)).into_iter().min().unwrap();
    let (fast, smallest) =
        (profiled(&folder, "fast.onnx", "fast"), profiled(&folder, "smallest.onnx", "smallest"));
    assert!(smallest <= fast && holds(fast, alone), "{smallest} <= {fast} <= {alone}");
    let hidden = folder.names().into_iter().filter(|name| name.starts_with('.')).collect::<Vec<_>>();
    assert!(hidden.is_empty(), "{hidden:?}");
    let wrong = folder.memc("profile in.onnx --session most");
    assert!(wrong.code == Some(2) && wrong.err.contains("without=NAME;NAME"), "{wrong:#?}");
}

#[test]
fn a_budget_that_no_session_keeps_is_refused() {
    let folder = with_model("plain-budget", &chain(65536));
    let plan = "optimize in.onnx -o out.onnx --runtime ort --budget 60% --effort 100 --no-rewrite";
    // A plain session merges the copies, and its arena grows in powers of two.
    folder.memc(&format!("-q {plan} --session plain")).refused(3, "E0361");
    assert_eq!(folder.names(), ["in.onnx"]);
    let fast = folder.memc(&format!("{plan} --session fast")).done();
    let layout: serde_json::Value = serde_json::from_str(&folder.read("out.layout.json")).unwrap();
    let (budget, found) =
        (layout["budget"]["device"].as_u64().unwrap(), counted(&folder, "out.onnx", &fast.out));
    assert!(holds(found, budget), "{found} bytes, the budget is {budget}");
}

#[test]
fn without_a_runtime_settings_follow_from_the_plan() {
    let folder = with_model("no-runtime", &chain(65536));
    for (options, word) in [("", "ORT_ENABLE_ALL"), ("--budget 60%", "ORT_DISABLE_ALL")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memc"));
        let words =
            format!("optimize in.onnx -o out.onnx --runtime ort --no-rewrite --session fast {options}");
        command
            .current_dir(folder.path(""))
            .args(words.split_whitespace())
            .env("ORT_DYLIB_PATH", folder.path("none.so"));
        let output = command.output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && out.contains(word) && err.contains("W0363"), "{out}\n{err}");
    }
}

/// A session with default options may take more of a plan than of the given model.
#[test]
fn without_a_runtime_a_plain_session_keeps_the_given_nodes() {
    // The plan of the first one has other nodes; the second one is counted.
    let squeezenet = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models/light_squeezenet.onnx");
    for (model, is_counted) in [(std::fs::read(squeezenet).unwrap(), false), (bytes(&hungry()), true)] {
        let folder = Folder::new("no-runtime-plain");
        folder.write("in.onnx", model);
        let mut command = Command::new(env!("CARGO_BIN_EXE_memc"));
        let words = "optimize in.onnx -o out.onnx --runtime ort --session plain";
        command
            .current_dir(folder.path(""))
            .args(words.split_whitespace())
            .env("ORT_DYLIB_PATH", folder.path("none.so"));
        let output = command.output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success()
                && err.contains("W0363")
                && err.contains("nodes and the order of the given one"),
            "{err}"
        );
        let order = |name: &str| {
            let model = ModelProto::decode(&*std::fs::read(folder.path(name)).unwrap()).unwrap();
            model.graph.unwrap().node.into_iter().map(|node| (node.op_type, node.output)).collect::<Vec<_>>()
        };
        assert_eq!(order("out.onnx"), order("in.onnx"));
        if is_counted {
            let (given, written) = (counted(&folder, "in.onnx", PLAIN), counted(&folder, "out.onnx", PLAIN));
            assert!(written <= given, "{written} bytes, {given} of the given model");
        }
    }
}

#[test]
fn a_plan_without_recomputation_needs_no_remark() {
    let folder = with_model("recipes-once", &hungry());
    let fast = folder.memc("optimize in.onnx -o out.onnx --runtime ort --session python=fast").done();
    assert!(!fast.err.contains("W0314") && !fast.out.contains("disable_specified_optimizers"), "{fast:#?}");
    folder.memc("optimize in.onnx -o out.onnx --session python=fast").refused(2, "E0306");
    let unknown = folder.memc("optimize in.onnx -o out.onnx --runtime ort --session python=small");
    assert!(unknown.code == Some(2) && unknown.err.contains("fast, smallest"), "{unknown:#?}");
}
