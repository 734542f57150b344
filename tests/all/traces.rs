//! The trace of a plan repeats it: `--passes` with the trace writes an equal file.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use std::path::{Path, PathBuf};

use command::Folder;
use models_made::decoder::{Decoder, Mask};
use models_made::{bytes, floats, node, with};

/// Plans `in.onnx` of a folder, repeats the plan by its trace alone, and compares the files.
fn repeats(folder: &Folder, input: &Path, options: &str) -> String {
    let name = input.display();
    let plan = |output: &str, more: &str| {
        folder.memc(&format!("optimize {name} -o {output} --effort fast {options} {more}")).done()
    };
    plan("out.onnx", "");
    let layout: serde_json::Value = serde_json::from_str(&folder.read("out.layout.json")).unwrap();
    let trace = layout["trace"]["passes"].as_str().unwrap().to_owned();
    plan("again.onnx", &format!("--passes {trace}"));
    let [first, again] = ["out.onnx", "again.onnx"].map(|file| std::fs::read(folder.path(file)).unwrap());
    assert!(first == again, "{name} {options}: {trace}");
    trace
}

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.extension().is_some_and(|extension| extension == "onnx"));
    all.sort();
    all
}

#[test]
fn traces_of_all_test_models_repeat_their_plans() {
    let folder = Folder::new("traces");
    for input in files("tests/models").into_iter().chain(files("examples/models")) {
        let is_open = input.ends_with("bert_base_dynamic.onnx");
        repeats(&folder, &input, if is_open { "--dim batch=2 --dim seq=16" } else { "" });
    }
}

#[test]
fn traces_name_the_passes_before_and_after_the_search() {
    let folder = Folder::new("traces-passes");
    // Two equal weights.
    let tied =
        with(vec![node("MatMul", &["x", "w"], &["a"]), node("MatMul", &["a", "v"], &["y"])], |graph| {
            graph.initializer.extend([floats("w", &[64, 64]), floats("v", &[64, 64])]);
            graph.input[0] = models_made::fixed("x", &[8, 64]);
            graph.output[0] = models_made::fixed("y", &[8, 64]);
        });
    let input = folder.write("in.onnx", bytes(&tied));
    assert!(repeats(&folder, &input, "").starts_with("tie,"));
    assert!(
        std::fs::metadata(folder.path("out.onnx")).unwrap().len() < 2 * 64 * 64 * 4,
        "equal weights are kept once"
    );
    // Ranges.
    let input = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models/bert_base_dynamic.onnx");
    assert!(repeats(&folder, &input, "--dim batch=1..4 --dim seq=1..64").ends_with(",settle"));
    // Caches, with and without ranges.
    for (free_rows, options) in
        [(false, "--dim past=7"), (true, "--dim past=0..7 --dim seq=1..2 --dim total=past+seq")]
    {
        let decoder = Decoder {
            seed: 1,
            opset: 17,
            layers: 2,
            batch: 2,
            heads: 2,
            groups: 2,
            width: 4,
            rows: 1,
            mask: Mask::None,
            heads_first: true,
            past: None,
            short_table: false,
            free_rows,
            free_batch: false,
        };
        let input = folder.write("in.onnx", bytes(&decoder.model()));
        let trace = repeats(&folder, &input, &format!("--state present_*=past_* {options}"));
        assert!(trace.starts_with("cache,tie,"), "{trace}");
    }
}
