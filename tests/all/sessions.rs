//! Recipes of `optimize --session python`: they run in their package, and allocate no more bytes than
//! promised.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use std::path::Path;
use std::process::Command;

use command::Folder;
use memc_onnx_proto::onnx::ModelProto;
use models_made::{bytes, fixed, hungry, node, with};

/// Session with default options.
const PLAIN: &str = "import onnxruntime as ort\noptions = ort.SessionOptions()\n";

/// Returns the maximum number of bytes allocated at once, in twelve runs in a session with the options
/// of `recipe`.
fn counted(folder: &Folder, model: &str, recipe: &str) -> u64 {
    measured(folder, model, recipe)["bytes"].as_u64().unwrap()
}

/// Returns all counts of these runs.
fn measured(folder: &Folder, model: &str, recipe: &str) -> serde_json::Value {
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
    command.arg(benches.join("sessions.py")).arg("--count").arg(folder.path(model)).args([recipe, "{}", "{}"]);
    let output = command.env("LD_PRELOAD", &library).output().expect("python starts");
    assert!(output.status.success(), "{recipe}\n{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns a chain of sines and the gradient of its last value. Each value in between is read by both,
/// or recomputed.
fn chain() -> ModelProto {
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
        graph.input = vec![fixed("x", &[65536])];
        graph.output = vec![fixed("y", &[65536])];
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
    let folder = with_model("recipes", &chain());
    let plan = "optimize in.onnx -o out.onnx --runtime ort --budget 60% --no-rewrite";
    let both = folder.memc(&format!("{plan} --session python")).done();
    assert!(both.err.contains("W0314"), "{both:#?}");
    let fast = folder.memc(&format!("{plan} --session python=fast")).done();
    let smallest = folder.memc(&format!("{plan} --session python=smallest")).done();
    let planned = planned_peak(&folder);
    // The whole text ends with the options of the smallest recipe, as it did when there was only one recipe.
    let (last, named) = (counted(&folder, "out.onnx", &both.out), counted(&folder, "out.onnx", &smallest.out));
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

#[test]
fn a_plan_without_recomputation_needs_no_remark() {
    let folder = with_model("recipes-once", &hungry());
    let fast = folder.memc("optimize in.onnx -o out.onnx --runtime ort --session python=fast").done();
    assert!(!fast.err.contains("W0314") && !fast.out.contains("disable_specified_optimizers"), "{fast:#?}");
    folder.memc("optimize in.onnx -o out.onnx --session python=fast").refused(2, "E0306");
    let unknown = folder.memc("optimize in.onnx -o out.onnx --runtime ort --session python=small");
    assert!(unknown.code == Some(2) && unknown.err.contains("fast, smallest"), "{unknown:#?}");
}
