//! Micro-batches: planned, checked, and run on ONNX Runtime's kernels together with the input model.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use std::collections::BTreeMap;
use std::fs;

use command::Folder;
use memc_onnx_proto::onnx::{ModelProto, NodeProto};
use models_made::{bytes, fixed, float, floats, int, integers, ints, node, raw, stated, symbolic, with};
use prost::Message as _;
use serde_json::Value;

/// Returns attention over a batch of eight, products as in its gradient, and reductions over the batch.
/// The model needs every rule that follows and joins parts.
fn network() -> ModelProto {
    let heads = || vec![ints("perm", &[0, 2, 1, 3])];
    let nodes = vec![
        node("LayerNormalization", &["x", "scale", "shift"], &["n"]),
        stated(node("Transpose", &["wq"], &["wqt"]), vec![ints("perm", &[1, 0])]),
        node("MatMul", &["n", "wqt"], &["q"]),
        node("Reshape", &["q", "split"], &["q4"]),
        stated(node("Transpose", &["q4"], &["qh"]), heads()),
        stated(node("Transpose", &["q4"], &["kh"]), vec![ints("perm", &[0, 2, 3, 1])]),
        node("MatMul", &["qh", "kh"], &["s"]),
        node("Add", &["s", "mask"], &["sm"]),
        stated(node("Softmax", &["sm"], &["p"]), vec![int("axis", -1)]),
        node("MatMul", &["p", "qh"], &["o"]),
        stated(node("Transpose", &["o"], &["ot"]), heads()),
        node("Reshape", &["ot", "join"], &["rows"]),
        stated(node("Gemm", &["rows", "w1", "b1"], &["h"]), vec![int("transB", 1)]),
        node("Relu", &["h"], &["r"]),
        stated(node("Gemm", &["r", "rows"], &["grad"]), vec![int("transA", 1)]),
        stated(node("Transpose", &["r"], &["rt"]), vec![ints("perm", &[1, 0])]),
        node("MatMul", &["rt", "rows"], &["grad2"]),
        stated(node("ReduceMean", &["r"], &["mean"]), vec![ints("axes", &[0]), int("keepdims", 0)]),
        stated(node("ReduceMax", &["r"], &["most"]), vec![ints("axes", &[1]), int("keepdims", 1)]),
        stated(node("Concat", &["r", "most"], &["y"]), vec![int("axis", 1)]),
        stated(node("ReduceSum", &["y"], &["total"]), vec![int("keepdims", 0)]),
        node("Div", &["r", "total"], &["z"]),
    ];
    // Inputs, outputs and weights.
    let mut model = with(nodes, |graph| {
        graph.input = vec![fixed("x", &[8, 6, 16])];
        graph.output = vec![
            fixed("grad", &[24, 16]),
            fixed("grad2", &[24, 16]),
            fixed("mean", &[24]),
            fixed("y", &[48, 25]),
            fixed("z", &[48, 24]),
        ];
        graph.initializer = vec![
            floats("scale", &[16]),
            floats("shift", &[16]),
            floats("wq", &[16, 16]),
            floats("mask", &[1, 1, 6, 6]),
            floats("w1", &[24, 16]),
            floats("b1", &[24]),
            integers("split", &[8, 6, 4, 4]),
            integers("join", &[48, 16]),
        ];
    });
    // Until operator set 17, reductions have their axes as attributes.
    model.opset_import[0].version = Some(17);
    model
}

/// Returns a max pooling of images that writes the largest elements back to their positions, and a max
/// pooling whose positions are used on another tensor.
fn pooled() -> ModelProto {
    let windows = || vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])];
    let nodes = vec![
        node("Relu", &["x"], &["r"]),
        stated(node("MaxPool", &["r"], &["p0", "at0"]), windows()),
        node("Mul", &["p0", "p0"], &["d0"]),
        node("Reshape", &["d0", "all"], &["d0f"]),
        node("Reshape", &["at0", "all"], &["at0f"]),
        node("ConstantOfShape", &["extent"], &["zeros"]),
        stated(node("ScatterElements", &["zeros", "at0f", "d0f"], &["flat0"]), vec![int("axis", 0)]),
        node("Reshape", &["flat0", "images"], &["dx"]),
        node("Reshape", &["r", "all"], &["rf"]),
        stated(node("GatherElements", &["rf", "at0f"], &["read"]), vec![int("axis", 0)]),
        node("Tanh", &["x"], &["t"]),
        stated(node("MaxPool", &["t"], &["p1", "at1"]), windows()),
        node("Reshape", &["at1", "all"], &["at1f"]),
        stated(node("Concat", &["r", "t"], &["both"]), vec![int("axis", 1)]),
        node("Reshape", &["both", "all"], &["bothf"]),
        stated(node("GatherElements", &["bothf", "at1f"], &["other"]), vec![int("axis", 0)]),
    ];
    with(nodes, |graph| {
        graph.input = vec![fixed("x", &[8, 3, 16, 16])];
        graph.output = vec![
            fixed("dx", &[8, 3, 16, 16]),
            fixed("read", &[1536]),
            fixed("p1", &[8, 3, 8, 8]),
            fixed("other", &[1536]),
        ];
        graph.initializer =
            vec![integers("all", &[-1]), integers("extent", &[6144]), integers("images", &[8, 3, 16, 16])];
    })
}

/// Writes the files of a model's external weights, with irregular numbers.
fn fill_weights(folder: &Folder, model: &ModelProto) {
    let mut files: BTreeMap<&str, u64> = BTreeMap::new();
    for tensor in &model.graph.as_ref().unwrap().initializer {
        let entry = |key: &str| {
            tensor.external_data.iter().find(|entry| entry.key() == key).map(|entry| entry.value())
        };
        if let Some(location) = entry("location") {
            let number = |key: &str| entry(key).map_or(0, |text| text.parse::<u64>().unwrap());
            let end = files.entry(location).or_default();
            *end = (*end).max(number("offset") + number("length"));
        }
    }
    for (location, length) in files {
        let number = |index: u64| ((index.wrapping_mul(2_654_435_761) >> 7) % 2001) as f32 / 20_000.0 - 0.05;
        folder.write(
            location,
            (0..length / 4).flat_map(|index| number(index).to_le_bytes()).collect::<Vec<u8>>(),
        );
    }
}

/// Plans in `parts` micro-batches, checks and runs. Asserts that nodes are split.
fn runs(folder: &Folder, parts: u64, more: &str) {
    folder.memc(&format!("optimize in.onnx -o out.onnx --micro-batches {parts} {more}")).done();
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    assert!(
        folder.read("out.layout.json").contains(&format!("_part{}\"", parts - 1)),
        "nothing is in {parts} parts"
    );
    folder.memc("verify in.onnx out.onnx -n 2").done();
}

#[test]
fn parts_give_the_numbers_of_the_whole_batch() {
    let folder = Folder::new("parts");
    folder.write("in.onnx", bytes(&network()));
    for (parts, more) in [(2, "--runtime player"), (8, "--runtime player --no-rewrite"), (4, "--runtime ort")]
    {
        runs(&folder, parts, more);
    }
}

#[test]
fn positions_of_the_largest_count_in_each_part() {
    let folder = Folder::new("parts-pooled");
    folder.write("in.onnx", bytes(&pooled()));
    for more in ["--runtime player", "--runtime ort --no-rewrite"] {
        runs(&folder, 4, more);
        let layout = folder.read("out.layout.json");
        assert!(
            layout.contains("flat0_part3\"") && layout.contains("read_part3\""),
            "elements are written and read in parts"
        );
        assert!(!layout.contains("p1_part3\""), "positions elsewhere are those of the whole batch");
    }
}

#[test]
fn micro_batches_keep_the_gradients_of_a_training_step() {
    let folder = Folder::new("parts-mlp");
    let model = fs::read(command::model("mlp_grad_tiny")).unwrap();
    folder.write("in.onnx", &model);
    fill_weights(&folder, &ModelProto::decode(&*model).unwrap());
    runs(&folder, 2, "--runtime player");
    runs(&folder, 4, "--runtime ort --no-rewrite");
}

#[test]
fn a_budget_is_kept_by_parts_if_recomputation_is_slower() {
    let folder = Folder::new("parts-budget");
    folder.write("in.onnx", bytes(&wide()));
    folder.memc("optimize in.onnx -o out.onnx --no-rewrite").done();
    let free: u64 = arena(&folder.read("out.layout.json"));
    let budget = free * 45 / 100;
    folder.memc(&format!("optimize in.onnx -o out.onnx --budget {budget}")).done();
    let layout = folder.read("out.layout.json");
    assert!(layout.contains("_part1\""), "the batch is in parts");
    assert!(arena(&layout) <= budget);
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    // Micro-batches change bits, so `--exact` keeps the budget by other means or rejects it.
    folder.memc(&format!("optimize in.onnx -o exact.onnx --budget {budget} --exact"));
    let exact = "exact.layout.json".to_owned();
    assert!(
        !folder.names().contains(&exact) || !folder.read(&exact).contains("_part1\""),
        "--exact computes whole batches"
    );
}

#[test]
fn dropout_is_drawn_for_the_whole_batch_and_its_masks_are_read_in_parts() {
    let folder = Folder::new("parts-dropout");
    folder.write("in.onnx", bytes(&dropped(false)));
    folder.memc("optimize in.onnx -o out.onnx --no-rewrite").done();
    let budget = arena(&folder.read("out.layout.json")) * 45 / 100;
    folder.memc(&format!("optimize in.onnx -o out.onnx --runtime player --budget {budget}")).done();
    let layout = folder.read("out.layout.json");
    assert!(arena(&layout) <= budget);
    assert!(
        layout.contains("_part1\"") && !layout.contains("r0_part1\""),
        "all but what is drawn is in parts"
    );
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    // `verify` gives both models equal seeds.
    folder.memc("verify in.onnx out.onnx -n 1").done();
}

#[test]
fn parts_keep_every_bit_of_a_model_with_fixed_seeds() {
    let folder = Folder::new("parts-seeds");
    folder.write("in.onnx", bytes(&dropped(true)));
    folder.memc("optimize in.onnx -o out.onnx --no-rewrite").done();
    let budget = arena(&folder.read("out.layout.json")) * 75 / 100;
    folder.memc(&format!("optimize in.onnx -o out.onnx --runtime player --budget {budget}")).done();
    assert!(!folder.read("out.layout.json").contains("g5_part0\""), "no gradient is a sum over parts");
    let ran = folder.memc("verify in.onnx out.onnx -n 1");
    assert!(ran.err.contains("equal bit for bit"), "{ran:#?}");
}

#[test]
fn a_budget_slightly_too_small_for_parts_is_kept_by_recomputing_parts() {
    let folder = Folder::new("parts-again");
    folder.write("in.onnx", bytes(&wide()));
    // Slightly below the need of 64 parts, the maximum that the planner tries.
    folder.memc("optimize in.onnx -o parts.onnx --runtime player --micro-batches 64").done();
    let budget = arena(&folder.read("parts.layout.json")) / 100 * 96;
    folder
        .memc(&format!("optimize in.onnx -o out.onnx --runtime player --effort 100 --budget {budget}"))
        .done();
    let layout = folder.read("out.layout.json");
    assert!(arena(&layout) <= budget);
    assert!(layout.contains("_part63\"") && layout.contains("recompute_of"), "parts compute again");
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    folder.memc("verify in.onnx out.onnx -n 1").done();
}

#[test]
fn an_indivisible_batch_stays_whole_with_a_remark() {
    let folder = Folder::new("parts-uneven");
    folder.write("in.onnx", bytes(&wide()));
    let ran = folder.memc("optimize in.onnx -o out.onnx --micro-batches 7").done();
    assert!(ran.err.contains("W0303") && !folder.read("out.layout.json").contains("_part1"), "{ran:#?}");
    let ran = folder.memc("optimize in.onnx -o out.onnx --micro-batches 8").done();
    assert!(!ran.err.contains("W0303"), "{ran:#?}");
}

fn arena(layout: &str) -> u64 {
    let layout = memc_layout::read(layout).unwrap();
    layout.arenas[0].size
}

/// Returns a deep chain of wide layers with the gradients of its weights. Half of its time is in
/// products that are expensive to recompute.
fn wide() -> ModelProto {
    chain(|k| vec![node("Tanh", &[&format!("h{k}")], &[&format!("a{}", k + 1)])])
}

/// Returns layers with dropout.
fn dropped(seeded: bool) -> ModelProto {
    chain(|k| {
        let name = |kind: &str| format!("{kind}{k}");
        let mut shape = vec![ints("shape", &[4096, 64])];
        shape.extend(seeded.then(|| float("seed", k as f32)));
        vec![
            node("Tanh", &[&name("h")], &[&name("t")]),
            stated(node("RandomUniform", &[], &[&name("r")]), shape),
            node("Less", &[&name("r"), "keep"], &[&name("m")]),
            stated(node("Cast", &[&name("m")], &[&name("c")]), vec![int("to", 1)]),
            node("Mul", &[&name("t"), &name("c")], &[&format!("a{}", k + 1)]),
        ]
    })
}

/// Returns layers of products. `layer` makes the nodes from the product of layer k to its result.
fn chain(layer: impl Fn(usize) -> Vec<NodeProto>) -> ModelProto {
    const LAYERS: usize = 6;
    let mut nodes = Vec::new();
    let name = |k: usize| if k == 0 { "x".to_owned() } else { format!("a{k}") };
    for k in 0..LAYERS {
        nodes.push(node("MatMul", &[&name(k), "w"], &[&format!("h{k}")]));
        nodes.extend(layer(k));
    }
    for k in (0..LAYERS).rev() {
        let from = if k + 1 == LAYERS { name(LAYERS) } else { format!("d{}", k + 1) };
        nodes.push(node("Mul", &[&from, &name(k + 1)], &[&format!("e{k}")]));
        nodes.push(stated(
            node("Gemm", &[&name(k), &format!("e{k}")], &[&format!("g{k}")]),
            vec![int("transA", 1)],
        ));
        nodes.push(node("MatMul", &[&format!("e{k}"), "w"], &[&format!("d{k}")]));
    }
    with(nodes, |graph| {
        graph.input = vec![fixed("x", &[4096, 64])];
        graph.output = (0..LAYERS).map(|k| fixed(&format!("g{k}"), &[64, 64])).collect();
        graph.initializer = vec![floats("w", &[64, 64]), raw("keep", &[], &0.9_f32.to_le_bytes())];
    })
}

/// Returns a layer with its gradients by images of `n`, and pooled images that write back to their positions.
fn free() -> ModelProto {
    let windows = || vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])];
    let nodes = vec![
        node("Shape", &["x"], &["extents"]),
        node("Gather", &["extents", "first"], &["images"]),
        node("Mul", &["images", "elements"], &["all"]),
        node("Relu", &["x"], &["r"]),
        stated(node("MaxPool", &["r"], &["p", "at"]), windows()),
        node("Reshape", &["p", "flat"], &["f"]),
        node("MatMul", &["f", "w"], &["h"]),
        node("Tanh", &["h"], &["t"]),
        stated(node("Gemm", &["f", "t"], &["dw"]), vec![int("transA", 1)]),
        node("ReduceSum", &["t", "first"], &["db"]),
        stated(node("Gemm", &["t", "w"], &["df"]), vec![int("transB", 1)]),
        node("Reshape", &["df", "line"], &["dp"]),
        node("Reshape", &["at", "line"], &["places"]),
        node("ConstantOfShape", &["all"], &["zeros"]),
        stated(node("ScatterElements", &["zeros", "places", "dp"], &["dr"]), vec![int("axis", 0)]),
        node("Reshape", &["dr", "image"], &["dx"]),
    ];
    with(nodes, |graph| {
        graph.input = vec![symbolic("x", &["n", "channels", "rows", "columns"])];
        graph.output = vec![symbolic("dw", &["wide", "out"]), symbolic("db", &["one", "out"])];
        graph.output.push(symbolic("dx", &["n", "channels", "rows", "columns"]));
        graph.initializer =
            vec![floats("w", &[64, 24]), integers("flat", &[-1, 64]), integers("line", &[-1])];
        graph.initializer.extend([
            integers("image", &[-1, 4, 8, 8]),
            integers("first", &[0]),
            integers("elements", &[256]),
        ]);
    })
}

#[test]
fn a_free_batch_is_computed_in_parts_of_computed_rows() {
    let folder = Folder::new("micro-batches-free");
    folder.write("in.onnx", bytes(&free()));
    let dims = "--dim channels=4 --dim rows=8 --dim columns=8";
    folder.memc(&format!("optimize in.onnx -o whole.onnx {dims} --dim n=1..9")).done();
    folder.memc(&format!("optimize in.onnx -o out.onnx {dims} --dim n=1..9 --micro-batches 3")).done();
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    let parts = folder.read("out.layout.json").matches("_part2").count();
    assert!(parts > 10, "{parts} entries of the third part");
    let ran = folder.memc("verify in.onnx out.onnx --points 9").done();
    assert!(ran.err.contains("n=1: ") && ran.err.contains("n=9: ") && ran.err.contains("n=2: "), "{ran:#?}");
    // A budget that only parts keep.
    folder.memc(&format!("optimize in.onnx -o out.onnx {dims} --dim n=1..9 --budget 25KiB")).done();
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    assert!(folder.memc("verify in.onnx out.onnx --points 9").done().err.contains("n=1: "));
}

#[test]
fn an_odd_batch_is_computed_in_parts_without_a_request() {
    let folder = Folder::new("odd-batch");
    let padded = || vec![ints("pads", &[1, 1, 1, 1])];
    let nodes = vec![
        stated(node("Conv", &["x", "w1"], &["a"]), padded()),
        node("Relu", &["a"], &["b"]),
        stated(node("Conv", &["b", "w2"], &["c"]), padded()),
        node("Sigmoid", &["c"], &["d"]),
        stated(node("Conv", &["d", "w3"], &["e"]), padded()),
        node("GlobalAveragePool", &["e"], &["y"]),
    ];
    let plan = |batch: i64| {
        let model = with(nodes.clone(), |graph| {
            graph.input = vec![fixed("x", &[batch, 3, 32, 32])];
            graph.output = vec![fixed("y", &[batch, 4, 1, 1])];
            graph.initializer = vec![
                floats("w1", &[16, 3, 3, 3]),
                floats("w2", &[16, 16, 3, 3]),
                floats("w3", &[4, 16, 3, 3]),
            ];
        });
        folder.write("in.onnx", bytes(&model));
        let ran = folder.memc("optimize in.onnx -o out.onnx --runtime player --log-plans").done();
        folder.memc("check in.onnx out.onnx out.layout.json").done();
        folder.memc("verify in.onnx out.onnx").done();
        let layout: Value = serde_json::from_str(&folder.read("out.layout.json")).unwrap();
        (ran.err + &ran.out, layout["peak"]["device"]["bytes"].as_u64().unwrap())
    };
    let (_, one) = plan(1);
    for batch in [3, 5, 9] {
        let (log, bytes) = plan(batch);
        let parts = if batch == 9 { 3 } else { batch };
        assert!(log.contains(&format!("{parts} parts of the nodes as given")), "{batch}: {log}");
        assert!(bytes < 2 * one, "{batch}: {bytes} B, {one} B for one image");
    }
}
