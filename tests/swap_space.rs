//! The whole command over a plan with a space on the disk: a disk that is too small, and what a killed run leaves behind.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod command;
mod models_made;
#[path = "../backends/ort/tests/support/transfers.rs"]
mod transfers;

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use command::Folder;
use memc::proto::ModelFile;
use memc::proto::onnx::{AttributeProto, ModelProto, attribute_proto::AttributeType};
use models_made::{bytes, fixed, node, raw, with};

const SIDE: i64 = 256;

/// `a` is read at both ends; in the middle is something wide.
fn model() -> ModelProto {
    let nodes = vec![
        node("Exp", &["x"], &["a"]),
        node("Sin", &["a"], &["b"]),
        node("Concat", &["b", "b", "b"], &["c"]),
        node("MatMul", &["w", "c"], &["d"]),
        node("Add", &["d", "a"], &["y"]),
    ];
    with(nodes, |graph| {
        graph.input = vec![fixed("x", &[SIDE, SIDE])];
        graph.output = vec![fixed("y", &[SIDE, SIDE])];
        graph.initializer = vec![raw("w", &[SIDE, 3 * SIDE], &vec![0; (3 * SIDE * SIDE * 4) as usize])];
        let mut axis = AttributeProto { name: Some("axis".into()), i: Some(0), ..AttributeProto::default() };
        axis.set_type(AttributeType::Int);
        graph.node[2].attribute.push(axis);
    })
}

/// A folder with `out.onnx` and `out.layout.json`, in which `a` spends its pause on the disk, and an empty folder `swap`.
fn planned(test: &str) -> Folder {
    let folder = Folder::new(test);
    folder.write("in.onnx", bytes(&model()));
    let given = ModelFile::open(folder.path("in.onnx")).unwrap();
    let (out, layout) = transfers::plan_with_transfers(&given, "disk", 4096, 2, 1);
    fs::copy(out.path().unwrap(), folder.path("out.onnx")).unwrap();
    folder.write("out.layout.json", memc::layout_file::to_json(&layout).unwrap());
    fs::create_dir(folder.path("swap")).unwrap();
    folder
}

fn left(folder: &Folder) -> usize {
    fs::read_dir(folder.path("swap")).unwrap().count()
}

const RUN: &str = "run out.onnx --layout out.layout.json --swap-dir swap";

#[test]
fn a_file_that_may_not_grow_ends_the_run_in_one_error() {
    let folder = planned("swap-small");
    folder.memc(RUN).done();
    assert_eq!(left(&folder), 0);
    // 64 blocks are 32 or 64 KiB, less than the 256 KiB of `a`.
    let limited = format!("ulimit -f 64; exec {} {RUN}", env!("CARGO_BIN_EXE_memc"));
    let ran = Command::new("sh").current_dir(folder.path(".")).args(["-c", &limited]).output().unwrap();
    let told = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(1), "{told}");
    assert_eq!(told.matches("error[").count(), 1, "{told}");
    assert!(told.contains("swap/memc-swap-"), "{told}");
    assert!(ran.stdout.is_empty());
    assert_eq!(left(&folder), 0, "the file is gone");
}

#[test]
fn what_a_killed_run_leaves_is_removed_by_the_next() {
    let folder = planned("swap-killed");
    let mut run = Command::new(env!("CARGO_BIN_EXE_memc"));
    run.current_dir(folder.path(".")).args(RUN.split(' ')).args(["--repeat", "1000000"]);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while left(&folder) == 0 {
        assert!(run.try_wait().unwrap().is_none() && started.elapsed() < Duration::from_secs(120), "the run makes a file");
        std::thread::sleep(Duration::from_millis(5));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(left(&folder), 1, "nobody was there to remove it");
    folder.memc(RUN).done();
    assert_eq!(left(&folder), 0);
}
