//! The whole command with a farther space: a budget kept by transfers, a disk that is too small or
//! fills up during a run, and files of a killed run.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;
#[path = "../../backends/ort/tests/all/support/transfers.rs"]
mod transfers;

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use command::Folder;
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::ModelProto;
use models_made::{bytes, fixed, float, int, node, raw, with};

const SIDE: i64 = 256;

/// Returns a model in which the first and the last part read `a`, with a wide value in between.
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
        graph.node[2].attribute.push(int("axis", 0));
    })
}

/// Returns a folder with `out.onnx`, `out.layout.json` and an empty folder `swap`. The plan moves `a`
/// to the disk in between.
fn planned(test: &str) -> Folder {
    let folder = Folder::new(test);
    folder.write("in.onnx", bytes(&model()));
    let given = ModelFile::open(folder.path("in.onnx")).unwrap();
    let (out, layout) = transfers::plan_with_transfers(&given, "disk", 4096, 2, 1);
    fs::copy(out.path().unwrap(), folder.path("out.onnx")).unwrap();
    folder.write("out.layout.json", memc_layout::to_json(&layout).unwrap());
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

/// Starts a long run, and returns once its swap file has the full size. The first probe of a file is
/// only one sector long.
fn running(folder: &Folder) -> Child {
    let mut run = Command::new(env!("CARGO_BIN_EXE_memc"));
    run.current_dir(folder.path(".")).args(RUN.split(' ')).args(["--repeat", "1000000"]);
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    let whole = (SIDE * SIDE * 4) as u64;
    let is_there = || {
        fs::read_dir(folder.path("swap"))
            .unwrap()
            .any(|entry| entry.unwrap().metadata().is_ok_and(|data| data.len() >= whole))
    };
    while !is_there() {
        assert!(
            run.try_wait().unwrap().is_none() && started.elapsed() < Duration::from_secs(120),
            "the run makes a file"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    run
}

/// Limits the size of files that a process writes.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn limit_files(process: u32, bytes: u64) {
    const FILE_SIZE: std::ffi::c_int = 1;
    unsafe extern "C" {
        fn prlimit(
            process: i32,
            what: std::ffi::c_int,
            new: *const [u64; 2],
            old: *mut [u64; 2],
        ) -> std::ffi::c_int;
    }
    // SAFETY: both limits (soft and hard) are 64-bit numbers, and a null pointer skips the old limits
    // (prlimit(2)).
    let outcome = unsafe { prlimit(process as i32, FILE_SIZE, &[bytes, bytes], std::ptr::null_mut()) };
    assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_fills_up_in_mid_run_ends_the_run_in_one_error() {
    let folder = planned("swap-full");
    let run = running(&folder);
    limit_files(run.id(), 1 << 16);
    let ran = run.wait_with_output().unwrap();
    let told = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(1), "{told}");
    assert_eq!(told.matches("error[").count(), 1, "{told}");
    assert!(told.contains("error[E0711]: tensor `a` cannot be moved from `device` to `disk`"), "{told}");
    assert!(told.contains("\n  = help: "), "{told}");
    assert!(ran.stdout.is_empty());
    assert_eq!(left(&folder), 0, "the file is gone");
}

/// Returns [`model`] with a random `a`. Random values are never recomputed, so only a transfer can
/// restore it. Other operators can run during the store and during the load.
fn drawn() -> ModelProto {
    let mut model = model();
    let nodes = &mut model.graph.as_mut().unwrap().node;
    nodes[0].op_type = Some("RandomNormalLike".into());
    nodes[0].attribute.push(float("seed", 7.0));
    nodes[1].output[0] = "b0".into();
    nodes[4].input[0] = "e".into();
    nodes.insert(4, node("Sigmoid", &["d"], &["e"]));
    for (position, pair) in ["b0", "b1", "b2", "b"].windows(2).enumerate() {
        nodes.insert(2 + position, node("Exp", &[pair[0]], &[pair[1]]));
    }
    model
}

#[test]
fn a_budget_with_a_link_is_kept_by_transfers_that_are_played() {
    let folder = Folder::new("swap-budget");
    folder.write("in.onnx", bytes(&drawn()));
    let run = |arguments: &str| {
        folder.memc(&format!("optimize in.onnx -o out.onnx --runtime player --exact {arguments}")).done();
        let ran = folder.memc("run out.onnx --layout out.layout.json --swap-dir . --json").done();
        serde_json::from_str::<serde_json::Value>(&ran.out).unwrap()
    };
    let plain = run("");
    let near = plain["arenas"][0]["planned"].as_u64().unwrap();
    // One matrix less.
    let budget = near - (SIDE * SIDE * 4) as u64;
    assert_eq!(
        folder.memc(&format!("optimize in.onnx -o no.onnx --runtime player --exact --budget {budget}")).code,
        Some(3)
    );
    for space in ["host", "disk"] {
        let moved = run(&format!("--budget {budget} --link {space}=16GB/s"));
        assert!(moved["moved"].as_u64() >= Some(2), "{moved:#}");
        assert_eq!(moved["digest"], plain["digest"], "{space}");
        let arenas = moved["arenas"].as_array().unwrap();
        assert_eq!((arenas[0]["space"].as_str(), arenas[1]["space"].as_str()), (Some("device"), Some(space)));
        assert!(arenas[0]["planned"].as_u64() <= Some(budget), "{moved:#}");
        assert!(arenas.iter().all(|arena| arena["planned"] == arena["used"]), "{moved:#}");
        assert_eq!(moved["bytes_outside"], 0);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn inputs_and_outputs_are_held_once() {
    const BYTES: u64 = 32 << 20;
    let folder = Folder::new("swap-once");
    let extents = [8, 1 << 20];
    let model = with(vec![node("Neg", &["x"], &["y"])], |graph| {
        graph.input = vec![fixed("x", &extents)];
        graph.output = vec![fixed("y", &extents)];
    });
    folder.write("in.onnx", bytes(&model));
    for io in ["outputs", "external"] {
        folder.memc(&format!("optimize in.onnx -o out.onnx --io {io}")).done();
        // Feed the output of the first run to the second run, from the file.
        for inputs in ["", "--inputs result.npz"] {
            let ran = folder
                .memc(&format!("run out.onnx --layout out.layout.json --json --outputs result.npz {inputs}"))
                .done();
            let played: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
            let anonymous = played["anonymous_bytes"].as_u64().unwrap();
            // A second copy of the input or of the output would exceed the limit.
            assert!(anonymous < 2 * BYTES + (24 << 20), "{io} {inputs}: {anonymous} bytes");
            if inputs.is_empty() {
                let npz = fs::read(folder.path("result.npz")).unwrap();
                let name = npz.windows(5).rposition(|bytes| bytes == b"y.npy").unwrap();
                let renamed: Vec<u8> =
                    npz.iter().enumerate().map(|(at, byte)| if at == name { b'x' } else { *byte }).collect();
                folder.write("result.npz", renamed);
            }
        }
    }
}

#[test]
fn files_of_a_killed_run_are_removed_by_the_next() {
    let folder = planned("swap-killed");
    let mut run = running(&folder);
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(left(&folder), 1, "nobody was there to remove it");
    folder.memc(RUN).done();
    assert_eq!(left(&folder), 0);
}
