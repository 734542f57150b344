//! Layouts for ranges of dimensions: the formula, buckets, texts, and an evaluator in Python.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::command;
use crate::models_made;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use command::Folder;
use memc::{Extent, Model, Planned, Request, plan};
use memc_layout::{Layout, Placement, Rule};
use models_made::{body, branch, bytes, flag, node, stated, symbolic, with};

const BERT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/models/bert_base_dynamic.onnx");

fn request(dims: &[(&str, &str)]) -> Request {
    dims.iter()
        .fold(Request::new(), |request, (name, extent)| request.dim(*name, extent.parse::<Extent>().unwrap()))
}

fn planned(dims: &[(&str, &str)]) -> Planned {
    plan(&Model::open(BERT).unwrap(), &request(dims)).unwrap()
}

fn at(batch: u64, seq: u64) -> BTreeMap<String, u64> {
    BTreeMap::from([("batch".to_owned(), batch), ("seq".to_owned(), seq)])
}

/// Peak of the owners' bytes at some extents: no placement with this order needs less.
fn peak(layout: &Layout, placement: &Placement) -> u64 {
    let mut sized = layout.clone();
    for (tensor, bytes) in sized.tensors.iter_mut().zip(&placement.bytes) {
        tensor.bytes = *bytes;
    }
    memc_layout::LiveCurve::of(&sized).spaces[0].peak
}

#[test]
fn the_formula_needs_little_at_small_extents() {
    let planned = planned(&[("batch", "1..8"), ("seq", "1..512")]);
    let layout = &planned.layout;
    for (batch, seq) in [(1, 1), (1, 16), (1, 128), (8, 128), (3, 77), (8, 1), (1, 512), (8, 512)] {
        let found = Placement::at(layout, &at(batch, seq), Rule::Formula).unwrap();
        let least = peak(layout, &found);
        // Alignment costs at most 64 bytes for each of a few buffers.
        assert!(
            found.arenas[0] * 20 <= least * 21 + 20 * 256,
            "({batch},{seq}): {} for {least}",
            found.arenas[0]
        );
        assert!(found.arenas[0] <= layout.arenas[0].size);
    }
    assert!(planned.trace.ends_with(",settle"), "{}", planned.trace);
}

#[test]
fn the_trace_repeats_the_plan() {
    let dims = [("batch", "1..4"), ("seq", "1..64")];
    let first = planned(&dims);
    let again = plan(&Model::open(BERT).unwrap(), &request(&dims).passes(first.trace.clone())).unwrap();
    assert_eq!(first.layout.tensors, again.layout.tensors);
    assert_eq!(first.layout.formula, again.layout.formula);
}

#[test]
fn buckets_have_offsets_for_their_extents() {
    let planned = planned(&[("batch", "1,2"), ("seq", "16,64,128")]);
    let layout = &planned.layout;
    let dims: Vec<Vec<u64>> =
        layout.layouts.iter().map(|bucket| bucket.dims.values().copied().collect()).collect();
    assert_eq!(dims, [[1, 16], [1, 64], [1, 128], [2, 16], [2, 64], [2, 128]]);
    let last = layout.layouts.last().unwrap();
    assert_eq!(last.arenas, layout.arenas, "the main offsets are those of the largest bucket");
    let mut arenas = Vec::new();
    for (batch, seq) in [(1, 1), (1, 16), (1, 17), (1, 100), (2, 16), (2, 128)] {
        let found = Placement::at(layout, &at(batch, seq), Rule::Fixed).unwrap();
        assert_disjoint(layout, &found);
        arenas.push(found.arenas[0]);
    }
    assert_eq!(arenas[0], arenas[1]);
    assert!(arenas[1] < arenas[2] && arenas[2] < arenas[3] && arenas[4] < arenas[5], "{arenas:?}");
}

#[test]
fn bodies_keep_their_bytes_in_smaller_buckets() {
    let branches = [("then_branch", "Exp"), ("else_branch", "Neg")].map(|(name, op)| {
        let nodes = vec![
            node(op, &["r"], &["e"]),
            node("Add", &["e", "r"], &["q"]),
            node("Mul", &["q", "e"], &["z"]),
        ];
        body(name, branch(nodes, "z"))
    });
    let either = stated(node("If", &["flag"], &["i"]), branches.to_vec());
    let model = with(vec![node("Relu", &["x"], &["r"]), either, node("Add", &["i", "r"], &["y"])], |graph| {
        graph.input = vec![symbolic("x", &["n", "64"]), flag()];
        graph.output = vec![symbolic("y", &["n", "64"])];
    });
    let folder = Folder::new("buckets-bodies");
    folder.write("in.onnx", bytes(&model));
    folder.memc("optimize in.onnx -o out.onnx --dim n=2,8").done();
    folder.memc("check in.onnx out.onnx out.layout.json").done();
}

/// Refuses a placement in which two owners share a byte.
fn assert_disjoint(layout: &Layout, placement: &Placement) {
    let mut sized = layout.clone();
    for (tensor, (bytes, offset)) in
        sized.tensors.iter_mut().zip(placement.bytes.iter().zip(&placement.offsets))
    {
        (tensor.bytes, tensor.offset) = (*bytes, *offset);
    }
    let curve = memc_layout::LiveCurve::of(&sized);
    for step in 0..layout.schedule.len() as u64 {
        let mut alive = curve.spaces[0].alive_at(step);
        alive.retain(|owner| owner.bytes > 0);
        alive.sort_by_key(|owner| owner.offset);
        let overlap = alive.windows(2).find(|pair| pair[0].offset + pair[0].bytes > pair[1].offset);
        assert_eq!(overlap, None, "step {step}");
        assert!(alive.last().is_none_or(|owner| owner.offset + owner.bytes <= placement.arenas[0]));
    }
}

#[test]
fn too_many_buckets_are_refused() {
    let many: Vec<String> = (1..=9).map(|number| number.to_string()).collect();
    let request = request(&[("batch", &many.join(",")), ("seq", &many[..8].join(","))]);
    let refused = plan(&Model::open(BERT).unwrap(), &request).unwrap_err().to_string();
    assert!(refused.contains("72 layouts; a layout file has at most 64"), "{refused}");
}

#[test]
fn an_evaluator_in_python_agrees() {
    let folder = Folder::new("range-layouts");
    let python = std::env::var("MEMC_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/offsets.py");
    let options = ["--dim batch=1..8 --dim seq=16,64,128", "--io arena --dim batch=2..6/2 --dim seq=1..40"];
    for (number, options) in options.into_iter().enumerate() {
        folder.memc(&format!("optimize {BERT} -o {number}.onnx {options}")).done();
        let layout = memc_layout::read(&folder.read(&format!("{number}.layout.json"))).unwrap();
        for (batch, seq, rule) in [(2, 7, Rule::Formula), (4, 31, Rule::Fixed), (6, 40, Rule::Formula)] {
            let mut command = Command::new(&python);
            command.arg("-B").arg(&script).arg(folder.path(&format!("{number}.layout.json")));
            command
                .args([format!("batch={batch}"), format!("seq={seq}")])
                .args((rule == Rule::Fixed).then_some("--fixed"));
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            let wanted = Placement::at(&layout, &at(batch, seq), rule).unwrap();
            for (index, tensor) in layout.tensors.iter().enumerate() {
                assert_eq!(found["bytes"][&tensor.name], wanted.bytes[index], "{}", tensor.name);
                let offset = found["offsets"].get(&tensor.name).and_then(serde_json::Value::as_u64);
                assert_eq!(offset, wanted.offsets[index], "{}", tensor.name);
            }
            assert_eq!(found["arenas"]["device"], wanted.arenas[0]);
        }
    }
}

#[test]
fn texts_show_the_ranges() {
    let folder = Folder::new("range-texts");
    let ran = folder.memc(&format!("optimize {BERT} -o p.onnx --dim batch=1..8 --dim seq=64,512"));
    let layout = memc_layout::read(&folder.read("p.layout.json")).unwrap();
    let line = memc_report::summary_line(&layout);
    assert!(line.contains(" for batch 1..8, seq 1..512 (bound at (8,512) "), "{line}");
    assert!(line.contains(" at (1,512), "), "{line}");
    assert!(ran.err.contains("ranges   batch 1..8, seq 1..512"), "{}", ran.err);
    assert!(ran.err.contains("buckets  ") && ran.err.lines().count() <= 60, "{}", ran.err);
    for format in ["text", "json", "markdown", "html", "github", "trace"] {
        let report = folder.memc(&format!("report {BERT} --layout p.layout.json --format {format}"));
        assert_eq!(report.code, Some(0), "{format}: {}", report.err);
        if format == "json" {
            let summary: serde_json::Value = serde_json::from_str(&report.out).unwrap();
            assert_eq!(summary["free"]["ranges"]["seq"]["max"], 512);
            assert_eq!(summary["free"]["buckets"].as_array().unwrap().len(), 2);
            assert_eq!(summary["free"]["at"][0]["dims"]["seq"], 512);
        }
    }
}

#[test]
fn bound_plans_have_no_new_keys() {
    let folder = Folder::new("range-bound");
    folder.memc(&format!("optimize {BERT} -o p.onnx --dim batch=1 --dim seq=16")).done();
    let text = folder.read("p.layout.json");
    for key in ["\"formula\"", "\"layouts\"", "\"ranges\"", "_expr\"", "settle"] {
        assert!(!text.contains(key), "{key}");
    }
}
