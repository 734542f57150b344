//! Rows of a batch one after another, in the body of a Scan: plans, proofs, and damages.
#![cfg(feature = "ort")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use command::Folder;
use memc_ir::DimExpr;
use memc_onnx_proto::onnx::{ModelProto, NodeProto, TensorProto};
use serde_json::Value;

use models_made::{bytes, fixed, floats, int, integers, node, numbers, raw, stated, symbolic, text, with};

/// Passes of a plan in a Scan.
const PASSES: &str = "tie,fold,canonicalize,dce,scan,dce,view,schedule,in-place,place,settle";

/// Returns a model of `n` rows of 1,024 numbers: their cosines, then `rest`, which reads `h` and makes `y`.
fn model(rest: Vec<NodeProto>) -> ModelProto {
    let first =
        vec![node("Cos", &["x"], &["c"]), node("Mul", &["c", "by"], &["m"]), node("Tanh", &["m"], &["h"])];
    with(first.into_iter().chain(rest).collect(), |graph| {
        graph.input = vec![symbolic("x", &["n", "wide"])];
        graph.output = vec![symbolic("y", &["n", "made"])];
        graph.initializer = vec![
            floats("w", &[1024, 4]),
            numbers("by", &[2.0]),
            integers("first", &[0]),
            integers("rest", &[-1]),
            raw_integer("two", 2),
            raw_integer("one", 1),
            raw_integer("across", 1),
            raw_integer("along", 0),
            integers("column", &[1]),
        ];
    })
}

/// Returns an integer without axes.
fn raw_integer(name: &str, value: i64) -> TensorProto {
    TensorProto { data_type: Some(7), ..raw(name, &[], &value.to_le_bytes()) }
}

/// Returns a model of images of four channels that no node joins, with operators that join other axes.
fn images() -> ModelProto {
    let nodes = vec![
        stated(node("DepthToSpace", &["x"], &["deep"]), vec![int("blocksize", 2)]),
        stated(node("Resize", &["deep", "", "scales"], &["wide"]), vec![text("mode", "linear")]),
        node("ConvTranspose", &["wide", "kernel"], &["turned"]),
        node("InstanceNormalization", &["turned", "ones", "ones"], &["even"]),
        stated(node("LRN", &["even"], &["near"]), vec![int("size", 1)]),
        stated(node("SpaceToDepth", &["near"], &["flat"]), vec![int("blocksize", 2)]),
        node("GlobalMaxPool", &["flat"], &["most"]),
        node("GlobalAveragePool", &["flat"], &["mean"]),
        node("Add", &["most", "mean"], &["y"]),
    ];
    with(nodes, |graph| {
        graph.input = vec![symbolic("x", &["n", "c", "h", "w"])];
        graph.output = vec![symbolic("y", &["n", "made", "high", "wide"])];
        graph.initializer = vec![
            numbers("scales", &[1.0, 1.0, 2.0, 2.0]),
            floats("kernel", &[1, 2, 1, 1]),
            numbers("ones", &[1.0, 1.0]),
        ];
    })
}

/// Returns nodes after which each row has four numbers.
fn product() -> Vec<NodeProto> {
    vec![node("MatMul", &["h", "w"], &["p"]), node("Relu", &["p"], &["y"])]
}

/// Plans a model in a Scan, of a free batch.
fn planned(name: &str, rest: Vec<NodeProto>) -> Folder {
    planned_for("1..6", name, rest)
}

/// Plans a model in a Scan, of a batch of this extent or range.
fn planned_for(batch: &str, name: &str, rest: Vec<NodeProto>) -> Folder {
    let folder = Folder::new(name);
    folder.write("in.onnx", bytes(&model(rest)));
    folder
        .memc(&format!("optimize in.onnx -o out.onnx --dim n={batch} --dim wide=1024 --passes {PASSES}"))
        .done();
    folder
}

/// Returns whether `check` proves the outputs of a plan equal to those of another given model.
fn is_proven_for(folder: &Folder, given: &ModelProto) -> bool {
    folder.write("other.onnx", bytes(given));
    let ran = folder.memc("check other.onnx out.onnx out.layout.json");
    !ran.err.contains("not proven equal")
}

#[test]
fn rows_in_a_scan_are_proven_verified_and_played() {
    let folder = planned("scan-rows", product());
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    let ran = folder.memc("verify in.onnx out.onnx").done();
    assert!(ran.err.contains("n=6: equal") && ran.err.contains("n=1: equal"), "{ran:#?}");
    assert!(ran.err.contains("in 5 points: the written model, and the plan played"), "{ran:#?}");
    folder.memc("run out.onnx --layout out.layout.json --dim n=3").done();
    let layout = folder.read("out.layout.json");
    assert!(layout.contains("\"op\": \"Scan\""), "{layout}");
}

#[test]
fn rows_of_a_fixed_batch_are_proven_and_verified() {
    let folder = planned_for("6", "scan-fixed", product());
    let ran = folder.memc("check in.onnx out.onnx out.layout.json").checked();
    assert!(!ran.err.contains("not proven equal"), "{ran:#?}");
    folder.memc("verify in.onnx out.onnx").done();
    assert!(folder.read("out.layout.json").contains("\"op\": \"Scan\""));
    // A model whose file says the batch.
    let mut given = model(product());
    given.graph.as_mut().unwrap().input = vec![fixed("x", &[6, 1024])];
    folder.write("in.onnx", bytes(&given));
    folder.memc(&format!("optimize in.onnx -o out.onnx --force --passes {PASSES}")).done();
    assert!(folder.read("out.layout.json").contains("\"op\": \"Scan\""));
    assert!(is_proven_for(&folder, &given));
}

#[test]
fn a_body_overwrites_no_row_of_an_input_that_the_arena_holds() {
    let folder = Folder::new("scan-arena");
    folder.write("in.onnx", bytes(&model(product())));
    for batch in ["1..6", "6"] {
        let dims = format!("--dim n={batch} --dim wide=1024");
        folder
            .memc(&format!("optimize in.onnx -o out.onnx --force {dims} --io arena --passes {PASSES}"))
            .done();
        folder.memc("check in.onnx out.onnx out.layout.json").checked();
    }
}

#[test]
fn one_position_of_each_row_is_proven() {
    let given = |position: &str| {
        let nodes = vec![
            node("Tanh", &["x"], &["h"]),
            stated(node("Gather", &["h", position], &["p"]), vec![int("axis", 1)]),
            node("MatMul", &["p", "w"], &["y"]),
        ];
        with(nodes, |graph| {
            graph.input = vec![symbolic("x", &["n", "length", "wide"])];
            graph.output = vec![symbolic("y", &["n", "made"])];
            graph.initializer = vec![floats("w", &[8, 4]), raw_integer("zero", 0), raw_integer("one", 1)];
        })
    };
    let folder = Folder::new("scan-position");
    folder.write("in.onnx", bytes(&given("zero")));
    let dims = "--dim n=1..6 --dim length=5 --dim wide=8";
    folder.memc(&format!("optimize in.onnx -o out.onnx {dims} --passes {PASSES}")).done();
    assert!(folder.read("out.layout.json").contains("\"op\": \"Scan\""));
    assert!(is_proven_for(&folder, &given("zero")));
    assert!(!is_proven_for(&folder, &given("one")));
}

#[test]
fn images_are_apart_in_operators_that_join_their_channels() {
    let folder = Folder::new("scan-images");
    folder.write("in.onnx", bytes(&images()));
    let dims = "--dim n=1..6 --dim c=4 --dim h=8 --dim w=8";
    folder.memc(&format!("optimize in.onnx -o out.onnx {dims} --passes {PASSES}")).done();
    assert!(folder.read("out.layout.json").contains("\"op\": \"Scan\""));
    assert!(is_proven_for(&folder, &images()));
}

#[test]
fn the_bytes_of_a_body_follow_the_extents() {
    let folder = Folder::new("scan-bytes");
    folder.write("in.onnx", bytes(&images()));
    let dims = "--dim n=1..6 --dim c=4 --dim h=2..64 --dim w=2..64";
    folder.memc(&format!("optimize in.onnx -o out.onnx {dims} --passes {PASSES}")).done();
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    let layout: Value = serde_json::from_str(&folder.read("out.layout.json")).unwrap();
    let is_body = |row: &Value| row["name"].as_str().unwrap().ends_with(":body");
    let at = layout["tensors"].as_array().unwrap().iter().position(is_body).unwrap();
    let (most, of) = (layout["tensors"][at]["bytes"].as_u64(), layout["tensors"][at]["bytes_expr"].as_str());
    let bound = |h: u64| {
        let point = [("h", h), ("w", h)].map(|(name, extent)| (name.to_owned(), extent)).into();
        DimExpr::parse(of.unwrap()).unwrap().bind(&point).unwrap().as_constant().unwrap() as u64
    };
    assert!(bound(4) * 64 < most.unwrap() && Some(bound(64)) == most, "{of:?}");
    // Fewer bytes are too few at some extents.
    for less in ["min(h*w,1)", "h*w"] {
        let mut layout = layout.clone();
        let tensor = &mut layout["tensors"][at];
        (tensor["bytes_expr"], tensor["shape_expr"]) = (less.into(), vec![less].into());
        folder.write("out.layout.json", layout.to_string());
        let ran = folder.memc("check in.onnx out.onnx out.layout.json");
        assert!(ran.code == Some(1) && ran.err.contains("E0521"), "{less}: {ran:#?}");
    }
}

#[test]
fn the_search_keeps_a_scan_if_it_is_the_best_plan() {
    let folder = Folder::new("scan-chosen");
    folder.write("in.onnx", bytes(&model(product())));
    let ran = folder.memc("optimize in.onnx -o out.onnx --dim n=1..64 --dim wide=1024 --log-plans").done();
    let line = ran
        .out
        .lines()
        .chain(ran.err.lines())
        .find(|line| line.starts_with("scan "))
        .unwrap_or_default()
        .to_owned();
    assert!(line.contains("rows one after another"), "{ran:#?}");
    let ran =
        folder.memc("optimize in.onnx -o out.onnx --dim n=1..64 --dim wide=1024 --exact --log-plans").done();
    assert!(!(ran.out + &ran.err).contains("rows one after another"), "equal bits forbid other rows");
}

#[test]
fn a_body_proves_nothing_for_models_that_differ() {
    for batch in ["1..6", "6"] {
        let folder = planned_for(batch, "scan-other", product());
        assert!(is_proven_for(&folder, &model(product())));
        let other = vec![node("MatMul", &["h", "w"], &["p"]), node("Abs", &["p"], &["y"])];
        assert!(!is_proven_for(&folder, &model(other)), "another operator, {batch}");
        let mut other = model(product());
        other.graph.as_mut().unwrap().initializer[0] = floats("longer", &[1024, 4]);
        other.graph.as_mut().unwrap().initializer[0].name = Some("w".into());
        assert!(!is_proven_for(&folder, &other), "other weights, {batch}");
    }
}

#[test]
fn a_body_proves_nothing_for_models_that_join_rows() {
    let sums = |axis: &str| vec![node("CumSum", &["h", axis], &["y"])];
    for batch in ["1..6", "6"] {
        let folder = planned_for(batch, "scan-joined", sums("across"));
        assert!(is_proven_for(&folder, &model(sums("across"))));
        assert!(!is_proven_for(&folder, &model(sums("along"))), "a sum over rows before, {batch}");
    }
}

#[test]
fn a_body_proves_nothing_for_models_that_count_rows() {
    // Row 0 alone is multiplied by 2 in both.
    let counted = vec![
        node("Shape", &["h"], &["shape"]),
        stated(node("Gather", &["shape", "along"], &["rows"]), vec![int("axis", 0)]),
        node("Add", &["rows", "two"], &["end"]),
        node("Range", &["two", "end", "one"], &["all"]),
        stated(node("Cast", &["all"], &["numbers"]), vec![int("to", 1)]),
        node("Unsqueeze", &["numbers", "column"], &["columns"]),
        node("Mul", &["h", "columns"], &["y"]),
    ];
    for batch in ["1..6", "6"] {
        let folder = planned_for(batch, "scan-counted", vec![node("Mul", &["h", "by"], &["y"])]);
        assert!(is_proven_for(&folder, &model(vec![node("Mul", &["h", "by"], &["y"])])));
        assert!(!is_proven_for(&folder, &model(counted.clone())), "row k is multiplied by k + 2, {batch}");
    }
}
