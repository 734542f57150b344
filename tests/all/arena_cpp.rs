//! The C++ program of `examples/cpp`: its session takes exactly the bytes of the plan, and it notices a
//! wrong offset.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use command::Folder;
use memc_onnx_proto::onnx::{ModelProto, NodeProto, TensorProto};
use models_made::step::{Returns, step};
use models_made::{bytes, fixed, floats, int, integers, ints, node, stated, with};
use serde_json::Value;

/// Number of random chains.
const CHAINS: u64 = 8;

/// Compiles the program on first use. Returns its path.
fn program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let headers = PathBuf::from(
            std::env::var("MEMC_CPP")
                .expect("MEMC_CPP names no folder of C++ headers: run the tests with `cargo xtask test`"),
        );
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/cpp/arena.cpp");
        let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("arena-{}", std::process::id()));
        let mut compiler = Command::new("c++");
        compiler
            .args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-isystem"])
            .arg(headers.join("include"))
            .arg(source);
        compiler
            .arg(headers.join("lib/libonnxruntime.so"))
            .arg(format!("-Wl,-rpath,{}", headers.join("lib").display()));
        let output = compiler.arg("-o").arg(&built).output().expect("a C++ compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        built
    })
}

/// Runs a plan of a folder in the arena. Returns the exit code and the printed text.
fn played(folder: &Folder, layout: &str) -> (Option<i32>, String) {
    let output =
        Command::new(program()).arg(folder.path("out.onnx")).arg(folder.path(layout)).output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

/// Plans a model for a stock session.
fn planned(name: &str, model: &ModelProto, options: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("in.onnx", bytes(model));
    folder.memc(&format!("optimize in.onnx -o out.onnx --runtime ort --anchors {options}")).done();
    folder
}

fn layout(folder: &Folder) -> Value {
    serde_json::from_str(&folder.read("out.layout.json")).unwrap()
}

/// Holds that a session runs a plan in exactly its arena, with equal results.
fn holds(folder: &Folder) {
    let (code, told) = played(folder, "out.layout.json");
    let arena = layout(folder)["arenas"][0]["size"].as_u64().unwrap();
    assert!(
        code == Some(0) && told.starts_with(&format!("peak {arena} == arena {arena}\n")),
        "{code:?} {told}"
    );
}

/// Returns a network of two convolutions with views, results in place, branches and a Softmax.
fn network() -> ModelProto {
    let nodes = vec![
        stated(node("Conv", &["x", "k0"], &["c0"]), vec![ints("pads", &[1, 1, 1, 1])]),
        node("Relu", &["c0"], &["r0"]),
        node("Conv", &["r0", "k1"], &["c1"]),
        node("Sigmoid", &["c1"], &["s1"]),
        stated(node("Concat", &["r0", "s1"], &["j"]), vec![int("axis", 1)]),
        stated(
            node("MaxPool", &["j"], &["p"]),
            vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])],
        ),
        node("Reshape", &["p", "flat"], &["f"]),
        node("Greater", &["f", "zero"], &["m"]),
        node("Where", &["m", "f", "zero"], &["w"]),
        node("MatMul", &["w", "k2"], &["g"]),
        node("Softmax", &["g"], &["y"]),
    ];
    with(nodes, |graph| {
        graph.input = vec![fixed("x", &[1, 3, 16, 16])];
        graph.output = vec![fixed("y", &[1, 10])];
        let zero = TensorProto { dims: vec![], ..floats("zero", &[1]) };
        let kernels = [floats("k0", &[8, 3, 3, 3]), floats("k1", &[8, 8, 1, 1]), floats("k2", &[1024, 10])];
        graph.initializer = kernels.into_iter().chain([zero, integers("flat", &[1, 1024])]).collect();
    })
}

/// Returns a chain of operators that a seed selects: each reads the last value, or the last two.
fn chain(seed: u64) -> ModelProto {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = |count: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % count
    };
    let rows = [1, 3, 16, 64][draw(4) as usize];
    let name = |i: u64| if i == 0 { "x".to_owned() } else { format!("v{i}") };
    let length = 6 + draw(12);
    let nodes: Vec<NodeProto> = (0..length)
        .map(|i| {
            let (last, before) = (name(i), name(i.saturating_sub(1 + draw(3))));
            let made = if i + 1 == length { "y".to_owned() } else { name(i + 1) };
            match draw(7) {
                0 => node("Relu", &[&last], &[&made]),
                1 => node("Add", &[&last, &before], &[&made]),
                2 => node("MatMul", &[&last, "k"], &[&made]),
                3 => stated(node("Softmax", &[&last], &[&made]), vec![int("axis", 1)]),
                4 => node("Reshape", &[&last, "shape"], &[&made]),
                5 => node("Where", &["mask", &last, &before], &[&made]),
                _ => node("Exp", &[&last], &[&made]),
            }
        })
        .collect();
    with(nodes, |graph| {
        graph.input = vec![fixed("x", &[rows, 32])];
        graph.output = vec![fixed("y", &[rows, 32])];
        let mask = TensorProto {
            data_type: Some(9),
            raw_data: Some([1, 0].repeat(16).into()),
            ..floats("mask", &[32])
        };
        graph.initializer = vec![floats("k", &[32, 32]), integers("shape", &[rows, 32]), mask];
    })
}

#[test]
fn the_cpp_program_runs_a_network_in_its_arena() {
    holds(&planned("cpp-network", &network(), ""));
    holds(&planned("cpp-inputs", &network(), "--io arena"));
    holds(&planned("cpp-outputs", &network(), "--io external"));
}

#[test]
fn the_cpp_program_runs_views_and_results_in_place() {
    let folder = planned("cpp-step", &step(true, Returns::Gradients), "--exact --no-rewrite");
    let tensors = layout(&folder)["tensors"].as_array().unwrap().clone();
    let kinds = |kind: &str| tensors.iter().filter(|tensor| tensor["alias"]["kind"] == *kind).count();
    let network = layout(&planned("cpp-views", &network(), ""));
    let views = network["tensors"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|tensor| tensor["alias"]["kind"] == "view")
        .count();
    assert!(kinds("in_place") > 0 && views > 0, "{} in place, {views} views", kinds("in_place"));
    let (_, told) = played(&folder, "out.layout.json");
    // Seeded operators go on with their sequence from run to run, so only places are compared.
    assert!(
        told.contains(" 0 not in their places; 0 bytes outside the arena;") && told.contains("=="),
        "{told}"
    );
}

#[test]
fn the_cpp_program_runs_random_chains_in_their_arenas() {
    for seed in 0..CHAINS {
        holds(&planned(&format!("cpp-chain-{seed}"), &chain(seed), ""));
    }
}

#[test]
fn the_cpp_program_notices_a_wrong_offset() {
    let folder = planned("cpp-offset", &network(), "");
    let layout = layout(&folder);
    let tensors = layout["tensors"].as_array().unwrap();
    let place = |index: usize| (tensors[index]["offset"].as_u64(), tensors[index]["bytes"].as_u64().unwrap());
    let live = |index: usize| {
        tensors[index]["live"][0]
            .as_array()
            .unwrap()
            .iter()
            .map(|at| at.as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    let ours = |index: &usize| {
        tensors[*index]["class"] == "transient"
            && place(*index).1 > 0
            && tensors[*index].get("alias").is_none()
    };
    let values: Vec<usize> = (0..tensors.len()).filter(ours).collect();
    let arena = layout["arenas"][0]["size"].as_u64().unwrap();
    let mut count = 0;
    for &moved in &values {
        // Onto a value that its own node reads: the node overwrites its operand.
        for &other in &values {
            let read = live(other)[0] < live(moved)[0] && live(moved)[0] + 1 < live(other)[1];
            let at = place(other).0.unwrap();
            if !read || at + place(moved).1 > arena {
                continue;
            }
            let mut wrong = layout.clone();
            wrong["tensors"][moved]["offset"] = at.into();
            folder.write("wrong.json", wrong.to_string());
            let (code, told) = played(&folder, "wrong.json");
            assert!(code == Some(1), "{} onto {}: {told}", tensors[moved]["name"], tensors[other]["name"]);
            count += 1;
        }
    }
    assert!(count > 0);
    // A place outside the arena, an arena that is not needed, and a plan for another runtime.
    let mut outside = layout.clone();
    outside["tensors"][values[0]]["offset"] = arena.into();
    let mut larger = layout.clone();
    larger["arenas"][0]["size"] = (arena + 64).into();
    let mut another = layout.clone();
    another["options"]["runtime"] = "arena".into();
    for (wrong, expected) in [(outside, 2), (larger, 1), (another, 2)] {
        folder.write("wrong.json", wrong.to_string());
        let (code, told) = played(&folder, "wrong.json");
        assert_eq!(code, Some(expected), "{told}");
    }
}
