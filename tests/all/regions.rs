//! Regions split into parts: planned, checked, and run on ONNX Runtime's kernels together with the
//! input model.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use std::collections::BTreeMap;

use command::Folder;
use memc_onnx_proto::onnx::{AttributeProto, ModelProto, NodeProto, TensorProto};
use models_made::{bytes, fixed, floats, int, integers, ints, node, numbers, stated, text, with};

fn model(nodes: Vec<NodeProto>, input: &[i64], output: &[i64], weights: Vec<TensorProto>) -> ModelProto {
    with(nodes, |graph| {
        graph.input = vec![fixed("x", input)];
        graph.output = vec![fixed("y", output)];
        graph.initializer = weights;
    })
}

fn convolution(inputs: &[&str], output: &str, group: i64, pad: i64) -> NodeProto {
    stated(node("Conv", inputs, &[output]), vec![int("group", group), ints("pads", &[pad; 4])])
}

/// Returns convolutions, also in groups and with sums over channels, and images that are normalized,
/// pooled and added.
fn images() -> ModelProto {
    let window = || vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])];
    let nodes = vec![
        convolution(&["x", "w0", "b0"], "c0", 1, 1),
        node("BatchNormalization", &["c0", "scale", "shift", "mean", "variance"], &["n0"]),
        node("Sigmoid", &["n0"], &["s0"]),
        node("Mul", &["n0", "s0"], &["a0"]),
        convolution(&["a0", "w1"], "c1", 96, 1),
        stated(node("LRN", &["c1"], &["n1"]), vec![int("size", 3)]),
        stated(node("AveragePool", &["n1"], &["p1"]), window()),
        convolution(&["p1", "w2", "b2"], "y", 1, 0),
    ];
    let vector = |name: &str| TensorProto {
        raw_data: Some(floats(name, &[96]).raw_data().iter().map(|byte| byte & 0x7f).collect()),
        ..floats(name, &[96])
    };
    let weights = vec![
        floats("w0", &[96, 4, 3, 3]),
        floats("b0", &[96]),
        floats("scale", &[96]),
        floats("shift", &[96]),
        floats("mean", &[96]),
        vector("variance"),
        floats("w1", &[96, 1, 3, 3]),
        floats("w2", &[8, 96, 1, 1]),
        floats("b2", &[8]),
    ];
    model(nodes, &[1, 4, 96, 96], &[1, 8, 48, 48], weights)
}

fn windowed(operator: &str, inputs: &[&str], output: &str, attributes: Vec<AttributeProto>) -> NodeProto {
    stated(node(operator, inputs, &[output]), attributes)
}

/// Adds a node whose neighboring channels depend on each other, so that only rows can be split.
fn normalized(input: &str, output: &str) -> NodeProto {
    stated(node("LRN", &[input], &[output]), vec![int("size", 3)])
}

/// Returns sliding windows of all kinds on images of odd extents: strides, gaps, pads on one side or by
/// rule, and rows that are added to later rows.
fn windows() -> ModelProto {
    let nodes = vec![
        windowed(
            "Conv",
            &["x", "w0", "b0"],
            "c0",
            vec![ints("strides", &[2, 2]), ints("pads", &[1, 2, 0, 1])],
        ),
        normalized("c0", "r0"),
        windowed("Conv", &["r0", "w1"], "c1", vec![int("group", 24), text("auto_pad", "SAME_LOWER")]),
        windowed(
            "AveragePool",
            &["c1"],
            "a1",
            vec![ints("kernel_shape", &[3, 3]), ints("pads", &[1, 1, 1, 1])],
        ),
        windowed("Conv", &["a1", "w2"], "c2", vec![ints("dilations", &[3, 2]), ints("pads", &[3, 2, 3, 2])]),
        node("Add", &["c2", "r0"], &["s2"]),
        windowed(
            "MaxPool",
            &["s2"],
            "m2",
            vec![
                ints("kernel_shape", &[3, 3]),
                ints("pads", &[0, 1, 0, 1]),
                ints("strides", &[2, 1]),
                int("ceil_mode", 1),
            ],
        ),
        normalized("m2", "q2"),
        windowed("Conv", &["q2", "w3"], "y", vec![ints("strides", &[3, 3])]),
    ];
    let weights = vec![
        floats("w0", &[24, 3, 3, 4]),
        floats("b0", &[24]),
        floats("w1", &[24, 1, 2, 5]),
        floats("w2", &[24, 24, 3, 3]),
        floats("w3", &[2, 24, 3, 3]),
    ];
    model(nodes, &[1, 3, 149, 67], &[1, 2, 12, 11], weights)
}

/// Returns operators that enlarge images.
fn growing() -> ModelProto {
    let grown = |input: &str, output: &str, mode: &str| {
        let attributes = vec![text("mode", mode), text("coordinate_transformation_mode", "half_pixel")];
        windowed("Resize", &[input, "", "scales"], output, attributes)
    };
    let nodes = vec![
        windowed(
            "ConvTranspose",
            &["x", "w0"],
            "t0",
            vec![ints("strides", &[2, 2]), ints("pads", &[1, 0, 0, 1]), ints("dilations", &[2, 1])],
        ),
        normalized("t0", "q0"),
        grown("q0", "n1", "nearest"),
        normalized("n1", "q1"),
        grown("q1", "l2", "linear"),
        normalized("l2", "q2"),
        windowed("Conv", &["q2", "w3"], "y", vec![ints("strides", &[4, 4])]),
    ];
    let weights = vec![
        floats("w0", &[3, 6, 2, 3]),
        numbers("scales", &[1.0, 1.0, 2.0, 1.0]),
        floats("w3", &[2, 6, 3, 3]),
    ];
    model(nodes, &[1, 3, 37, 34], &[1, 2, 74, 17], weights)
}

/// Returns attention whose heads are in rows, and a wide value between two products.
fn attention() -> ModelProto {
    let heads =
        |name: &str, perm: &[i64]| stated(node("Transpose", &["rows"], &[name]), vec![ints("perm", perm)]);
    let nodes = vec![
        node("MatMul", &["x", "wq"], &["q"]),
        node("Reshape", &["q", "split"], &["rows"]),
        heads("left", &[0, 2, 1, 3]),
        heads("right", &[0, 2, 3, 1]),
        node("MatMul", &["left", "right"], &["s"]),
        stated(node("Softmax", &["s"], &["p"]), vec![int("axis", -1)]),
        node("MatMul", &["p", "left"], &["o"]),
        stated(node("Transpose", &["o"], &["t"]), vec![ints("perm", &[0, 2, 1, 3])]),
        node("Reshape", &["t", "join"], &["j"]),
        node("MatMul", &["j", "w1"], &["h"]),
        node("Relu", &["h"], &["r"]),
        node("MatMul", &["r", "w2"], &["y"]),
    ];
    let weights = vec![
        floats("wq", &[32, 64]),
        integers("split", &[1, 256, 4, 16]),
        integers("join", &[1, 256, 64]),
        floats("w1", &[64, 1024]),
        floats("w2", &[1024, 32]),
    ];
    model(nodes, &[1, 256, 32], &[1, 256, 32], weights)
}

/// Returns `count` equal layers of attention, each added to its input.
fn layers(count: usize) -> ModelProto {
    let mut nodes = Vec::new();
    let heads =
        |of: &str, to: &str, perm: &[i64]| stated(node("Transpose", &[of], &[to]), vec![ints("perm", perm)]);
    let mut weights = vec![integers("split", &[1, 197, 12, 16]), integers("join", &[1, 197, 192])];
    for layer in 0..count {
        let own = |name: &str| format!("{name}{layer}");
        let input = if layer == 0 { "x".to_owned() } else { format!("y{}", layer - 1) };
        let output = if layer + 1 == count { "y".to_owned() } else { own("y") };
        for (name, perm) in [("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])] {
            let (weight, product, rows) =
                (own(&format!("w{name}")), own(&format!("{name}p")), own(&format!("{name}r")));
            weights.push(floats(&weight, &[192, 192]));
            nodes.push(node("MatMul", &[&input, &weight], &[&product]));
            nodes.push(node("Reshape", &[&product, "split"], &[&rows]));
            nodes.push(heads(&rows, &own(name), &perm));
        }
        weights.push(floats(&own("wo"), &[192, 192]));
        nodes.push(node("MatMul", &[&own("q"), &own("k")], &[&own("s")]));
        nodes.push(stated(node("Softmax", &[&own("s")], &[&own("p")]), vec![int("axis", -1)]));
        nodes.push(node("MatMul", &[&own("p"), &own("v")], &[&own("o")]));
        nodes.push(heads(&own("o"), &own("t"), &[0, 2, 1, 3]));
        nodes.push(node("Reshape", &[&own("t"), "join"], &[&own("j")]));
        nodes.push(node("MatMul", &[&own("j"), &own("wo")], &[&own("z")]));
        nodes.push(node("Add", &[&input, &own("z")], &[&output]));
    }
    model(nodes, &[1, 197, 192], &[1, 197, 192], weights)
}

/// Returns bottlenecks with wide inner values, as in networks for small devices: two with a residual
/// connection, and two that halve the image.
fn bottlenecks() -> ModelProto {
    let halving = vec![int("group", 72), ints("pads", &[1; 4]), ints("strides", &[2, 2])];
    let mut nodes =
        vec![windowed("Conv", &["x", "stem"], "t0", vec![ints("pads", &[1; 4]), ints("strides", &[2, 2])])];
    let mut weights = vec![floats("stem", &[12, 3, 3, 3])];
    for block in 0..4 {
        let name = |name: &str| format!("{name}{block}");
        let (from, to) = (format!("t{block}"), format!("t{}", block + 1));
        let is_halving = block % 2 == 1;
        let inside = if is_halving { halving.clone() } else { vec![int("group", 72), ints("pads", &[1; 4])] };
        nodes.push(windowed("Conv", &[&from, &name("wide")], &name("a"), Vec::new()));
        nodes.push(node("Relu", &[&name("a")], &[&name("b")]));
        nodes.push(windowed("Conv", &[&name("b"), &name("deep")], &name("c"), inside));
        nodes.push(node("Relu", &[&name("c")], &[&name("d")]));
        let last = if is_halving { to.clone() } else { name("e") };
        nodes.push(windowed("Conv", &[&name("d"), &name("narrow")], &last, Vec::new()));
        if !is_halving {
            nodes.push(node("Add", &[&last, &from], &[&to]));
        }
        weights.push(floats(&name("wide"), &[72, 12, 1, 1]));
        weights.push(floats(&name("deep"), &[72, 1, 3, 3]));
        weights.push(floats(&name("narrow"), &[12, 72, 1, 1]));
    }
    nodes.push(node("GlobalAveragePool", &["t4"], &["y"]));
    model(nodes, &[1, 3, 128, 128], &[1, 12, 1, 1], weights)
}

/// Returns features of several widths that are joined and normalized by channel. First a channel-wise
/// operator reads them, then an operator that reads all channels; some features have a second reader.
/// Rows cannot be split, because statistics of a channel cover the whole image.
fn joined() -> ModelProto {
    let widths = [16, 24, 8, 32];
    let (mut nodes, mut weights) = (Vec::new(), Vec::new());
    for (index, width) in widths.iter().enumerate() {
        nodes.push(convolution(&["x", &format!("w{index}")], &format!("f{index}"), 1, 0));
        weights.push(floats(&format!("w{index}"), &[*width, 4, 1, 1]));
    }
    nodes.extend([
        stated(node("Concat", &["f0", "f1", "f2", "f3"], &["features"]), vec![int("axis", 1)]),
        node("InstanceNormalization", &["features", "scale", "shift"], &["n"]),
        node("Relu", &["n"], &["r"]),
        convolution(&["r", "deep"], "d", 80, 1),
        convolution(&["d", "narrow", "bias"], "p", 1, 0),
        node("Relu", &["p"], &["q"]),
        stated(node("Concat", &["q", "f1", "f3"], &["more"]), vec![int("axis", 1)]),
        convolution(&["more", "last", "lastbias"], "l", 1, 0),
        node("GlobalAveragePool", &["l"], &["y"]),
    ]);
    weights.extend([
        floats("scale", &[80]),
        floats("shift", &[80]),
        floats("deep", &[80, 1, 3, 3]),
        floats("narrow", &[8, 80, 1, 1]),
        floats("bias", &[8]),
        floats("last", &[12, 64, 1, 1]),
        floats("lastbias", &[12]),
    ]);
    model(nodes, &[1, 4, 64, 64], &[1, 12, 1, 1], weights)
}

/// Returns images of three sizes with connections between the sizes, joined at the largest size.
fn resolutions() -> ModelProto {
    let (mut nodes, mut weights) =
        (Vec::new(), vec![numbers("twice", &[1.0, 1.0, 2.0, 2.0]), numbers("four", &[1.0, 1.0, 4.0, 4.0])]);
    // Columns: result, operand, filters and their input channels, window width, stride.
    let convolutions = [
        ("a", "x", [8, 3], 3, 1),
        ("b", "ar", [16, 8], 3, 2),
        ("c", "ar", [8, 8], 3, 1),
        ("d", "br", [16, 16], 3, 1),
        ("e", "ds", [8, 16], 1, 1),
        ("f", "cs", [16, 8], 3, 2),
        ("g", "fs", [32, 16], 3, 2),
        ("h", "eu", [8, 8], 3, 1),
        ("i", "fs", [16, 16], 3, 1),
        ("j", "it", [8, 16], 1, 1),
        ("k", "gr", [16, 32], 1, 1),
        ("l", "hs", [16, 8], 3, 2),
        ("m", "l", [32, 16], 3, 2),
        ("n", "it", [32, 16], 3, 2),
        ("y", "joined", [3, 56], 1, 1),
    ];
    let relu =
        |nodes: &mut Vec<NodeProto>, of: &str, result: &str| nodes.push(node("Relu", &[of], &[result]));
    let add =
        |nodes: &mut Vec<NodeProto>, of: [&str; 2], result: &str| nodes.push(node("Add", &of, &[result]));
    let grow = |nodes: &mut Vec<NodeProto>, of: &str, scales: &str, result: &str| {
        let attributes = [
            ("mode", "nearest"),
            ("coordinate_transformation_mode", "asymmetric"),
            ("nearest_mode", "floor"),
        ];
        nodes.push(windowed(
            "Resize",
            &[of, "", scales],
            result,
            attributes.map(|(name, value)| text(name, value)).to_vec(),
        ));
    };
    // A convolution for each row, followed by the operators that lead to other operands.
    for (result, operand, [filters, read], window, stride) in convolutions {
        if result == "y" {
            nodes.push(stated(node("Concat", &["hj", "kv", "nv"], &["joined"]), vec![int("axis", 1)]));
        }
        let weight = format!("w{result}");
        weights.push(floats(&weight, &[filters, read, window, window]));
        let attributes = vec![ints("pads", &[window / 2; 4]), ints("strides", &[stride; 2])];
        nodes.push(windowed("Conv", &[operand, &weight], result, attributes));
        match result {
            "a" | "b" | "g" => relu(&mut nodes, result, &format!("{result}r")),
            "c" | "d" | "f" | "h" => {
                let other = if result == "f" { "ds" } else { operand };
                add(&mut nodes, [result, other], &format!("{result}t"));
                relu(&mut nodes, &format!("{result}t"), &format!("{result}s"));
            }
            "e" => grow(&mut nodes, "e", "twice", "eu"),
            "i" => add(&mut nodes, ["i", "fs"], "it"),
            "j" => {
                grow(&mut nodes, "j", "twice", "ju");
                add(&mut nodes, ["hs", "ju"], "hj");
            }
            "k" => {
                grow(&mut nodes, "k", "twice", "ku");
                grow(&mut nodes, "ku", "twice", "kv");
            }
            "n" => {
                add(&mut nodes, ["m", "n"], "nm");
                add(&mut nodes, ["nm", "gr"], "ng");
                grow(&mut nodes, "ng", "four", "nv");
            }
            _ => {}
        }
    }
    model(nodes, &[1, 3, 32, 32], &[1, 3, 32, 32], weights)
}

/// Returns a training step that keeps the result of each layer. Its transposed convolutions gather nine
/// times these bytes.
fn step() -> ModelProto {
    const LAYERS: usize = 10;
    let image = |k: usize| if k == 0 { "x".to_owned() } else { format!("a{k}") };
    let mut nodes = Vec::new();
    for k in 0..LAYERS {
        nodes.push(convolution(&[&image(k), "w"], &format!("c{k}"), 1, 1));
        nodes.push(node("Tanh", &[&format!("c{k}")], &[&image(k + 1)]));
    }
    for k in (0..LAYERS).rev() {
        let from = if k + 1 == LAYERS { image(LAYERS) } else { format!("d{}", k + 1) };
        nodes.push(node("Mul", &[&from, &image(k + 1)], &[&format!("e{k}")]));
        nodes.push(stated(
            node("ReduceMax", &[&format!("e{k}")], &[&format!("g{k}")]),
            vec![int("keepdims", 0)],
        ));
        let pads = vec![ints("pads", &[1; 4])];
        nodes.push(windowed("ConvTranspose", &[&format!("e{k}"), "w"], &format!("d{k}"), pads));
    }
    with(nodes, |graph| {
        graph.input = vec![fixed("x", &[1, 8, 48, 48])];
        graph.output =
            (0..LAYERS).map(|k| fixed(&format!("g{k}"), &[])).chain([fixed("d0", &[1, 8, 48, 48])]).collect();
        graph.initializer = vec![floats("w", &[8, 8, 3, 3])];
    })
}

fn planned(folder: &Folder, options: &str) -> memc_layout::Layout {
    folder.memc(&format!("optimize in.onnx -o out.onnx {options}")).done();
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    memc_layout::read(&folder.read("out.layout.json")).unwrap()
}

/// Plans with whole operators, then with parts within a percentage of the first arena. Runs the second
/// plan.
fn runs(name: &str, model: &ModelProto, runtime: &str, hundredths: u64) -> Folder {
    let folder = Folder::new(name);
    folder.write("in.onnx", bytes(model));
    let whole = planned(&folder, &format!("--runtime {runtime} --exact")).arenas[0].size;
    let budget = whole * hundredths / 100;
    let layout = planned(&folder, &format!("--runtime {runtime} --budget {budget}"));
    assert!(layout.arenas[0].size <= budget, "{} of {whole}", layout.arenas[0].size);
    assert!(
        layout.tensors.iter().any(|tensor| tensor.name.contains("_part1")),
        "{name}: nothing is in parts"
    );
    assert_eq!(layout.cost.recomputed_nodes, 0, "nothing is computed twice");
    folder.memc("verify in.onnx out.onnx -n 2").done();
    folder
}

#[test]
fn parts_of_images_give_the_numbers_of_the_whole() {
    runs("regions-images-arena", &images(), "arena", 50);
    runs("regions-images-ort", &images(), "ort", 50);
    runs("regions-images-player", &images(), "player", 60);
}

#[test]
fn parts_of_heads_and_rows_give_the_numbers_of_the_whole() {
    runs("regions-attention-arena", &attention(), "arena", 50);
    runs("regions-attention-ort", &attention(), "ort", 50);
    runs("regions-attention-player", &attention(), "player", 50);
}

#[test]
fn less_memory_costs_no_time_without_a_stated_slowdown() {
    let folder = Folder::new("regions-slowdown");
    folder.write("in.onnx", bytes(&attention()));
    let plain = planned(&folder, "--no-rewrite");
    let free = planned(&folder, "");
    assert!(free.cost.modelled_ns_after <= plain.cost.modelled_ns_after);
    let slower = planned(&folder, "--slowdown 50%");
    assert!(slower.cost.modelled_ns_after <= plain.cost.modelled_ns_after * 1.5);
    assert!(
        slower.arenas[0].size < free.arenas[0].size,
        "{} is not below {}",
        slower.arenas[0].size,
        free.arenas[0].size
    );
}

#[test]
fn more_time_never_needs_more_memory() {
    for (name, model) in
        [("resolutions", resolutions()), ("bottlenecks", bottlenecks()), ("joined", joined())]
    {
        let folder = Folder::new(&format!("regions-more-time-{name}"));
        folder.write("in.onnx", bytes(&model));
        let free = planned(&folder, "").arenas[0].size;
        let slower = planned(&folder, "--slowdown 5%").arenas[0].size;
        assert!(slower <= free, "{name}: {slower} with more time, {free} without");
    }
}

#[test]
fn many_equal_layers_need_no_more_bytes_than_few() {
    let arena = |count: usize| {
        let folder = Folder::new(&format!("regions-layers-{count}"));
        folder.write("in.onnx", bytes(&layers(count)));
        planned(&folder, "--slowdown 5%").arenas[0].size
    };
    let (few, many) = (arena(8), arena(24));
    assert!(many <= few, "{many} for 24 layers, {few} for 8");
}

/// Returns rows times weights. The weights are moved `count` times, and each level doubles the number
/// of paths to the first weights.
fn moved_weights(count: usize) -> ModelProto {
    let mut nodes = Vec::new();
    for level in 0..count {
        let [from, picked, to] = [format!("w{level}"), format!("p{level}"), format!("w{}", level + 1)];
        nodes.push(node("Gather", &[&from, "first"], &[&picked]));
        nodes.push(node("ScatterND", &[&from, "last", &picked], &[&to]));
    }
    nodes.push(node("MatMul", &["x", &format!("w{count}")], &["h"]));
    nodes.push(node("Softmax", &["h"], &["s"]));
    nodes.push(node("MatMul", &["s", "v"], &["y"]));
    let weights = vec![
        floats("w0", &[64, 512]),
        floats("v", &[512, 64]),
        integers("first", &[3, 1, 2]),
        TensorProto { dims: vec![3, 1], ..integers("last", &[63, 60, 5]) },
    ];
    model(nodes, &[1024, 64], &[1024, 64], weights)
}

#[test]
fn weights_on_many_paths_are_moved_once_per_part() {
    let folder = runs("regions-moved-weights", &moved_weights(40), "arena", 60);
    let written = memc_onnx_proto::ModelFile::open(folder.path("out.onnx")).unwrap();
    assert!(written.graph().node.len() < 1000, "{} nodes", written.graph().node.len());
}

#[test]
fn a_budget_that_is_kept_anyway_costs_no_time() {
    let folder = Folder::new("regions-kept-anyway");
    folder.write("in.onnx", bytes(&resolutions()));
    let free = planned(&folder, "");
    let within = planned(&folder, &format!("--budget {}", free.arenas[0].size));
    assert!(within.cost.modelled_ns_after <= free.cost.modelled_ns_after);
}

#[test]
fn a_budget_costs_no_more_time_than_less_memory_does() {
    for (name, model) in [("attention", attention()), ("bottlenecks", bottlenecks()), ("joined", joined())] {
        let folder = Folder::new(&format!("regions-bought-{name}"));
        folder.write("in.onnx", bytes(&model));
        let bought = planned(&folder, "--effort fast --slowdown 1%");
        let limit = bought.arenas[0].size;
        // A space's capacity is a limit, as a budget is.
        let target = include_str!("../../targets/cpu.toml")
            .replace("[[spaces]]", &format!("[[spaces]]\ncapacity = {limit}"));
        folder.write("small.toml", target);
        for way in [format!("--budget {limit}"), "--target small.toml".to_owned()] {
            let within = planned(&folder, &format!("--effort fast {way}"));
            let (own, its) = (within.cost.modelled_ns_after, bought.cost.modelled_ns_after);
            assert!(
                own <= its && within.arenas[0].size <= limit,
                "{name} {way}: {own} ns within a limit, {its} without"
            );
        }
    }
}

#[test]
fn nodes_too_large_by_themselves_are_in_parts_and_others_recomputed() {
    let folder = Folder::new("regions-again");
    folder.write("in.onnx", bytes(&step()));
    // A transposed convolution needs 810,948 bytes by itself, and the kept images take nearly that number.
    let layout = planned(&folder, "--runtime ort --budget 500000");
    assert!(layout.arenas[0].size <= 500_000);
    let text = folder.read("out.layout.json");
    assert!(
        text.contains("_part1\"") && text.contains("recompute_of"),
        "regions are in parts, and something is computed again"
    );
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    folder.memc("verify in.onnx out.onnx -n 1").done();
}

/// Returns the number that follows a text in the command's output.
fn number(said: &str, text: &str) -> u64 {
    let after = said.split(text).nth(1).unwrap_or_else(|| panic!("{text}: {said}"));
    let digits = after.chars().take_while(|c| c.is_ascii_digit() || *c == ',').filter(char::is_ascii_digit);
    digits.collect::<String>().parse().unwrap()
}

#[test]
fn a_refusal_names_the_smallest_budget_that_parts_reach() {
    for (name, model, most) in [("whole", images(), u64::MAX), ("again", step(), 450_000)] {
        let folder = Folder::new(&format!("regions-refused-{name}"));
        folder.write("in.onnx", bytes(&model));
        let ran = folder.memc("optimize in.onnx -o out.onnx --effort 1000 --budget 1000");
        assert!(ran.err.contains("without splitting operators every plan needs at least"), "{ran:#?}");
        let (bound, smallest) = (
            number(&ran.err, "needs at least "),
            number(&ran.err, "the smallest plan found, which splits some, needs "),
        );
        assert!(smallest < bound.min(most), "{name}: {smallest} is not below {bound}");
        assert!(planned(&folder, &format!("--effort 1000 --budget {smallest}")).arenas[0].size <= smallest);
        let exact = folder.memc("optimize in.onnx -o out.onnx --effort 1000 --budget 1000 --exact");
        assert!(!exact.err.contains("without splitting") && exact.code == Some(3), "{exact:#?}");
    }
}

/// Plans and runs. Returns the number of nodes by operator.
fn operators(name: &str, model: &ModelProto, runtime: &str, hundredths: u64) -> BTreeMap<String, usize> {
    let folder = runs(&format!("{name}-{runtime}"), model, runtime, hundredths);
    let file = memc_onnx_proto::ModelFile::open(folder.path("out.onnx")).unwrap();
    let mut count = BTreeMap::new();
    for node in &file.graph().node {
        *count.entry(node.op_type().to_owned()).or_default() += 1;
    }
    count
}

#[test]
fn rows_of_images_overlap_as_far_as_windows_go() {
    for runtime in ["arena", "ort", "player"] {
        let count = operators("regions-windows", &windows(), runtime, 45);
        let in_parts = ["LRN", "Conv", "AveragePool", "MaxPool"].map(|operator| count[operator]);
        assert!(in_parts.iter().all(|count| *count >= 2), "{runtime}: {count:?}");
        let count = operators("regions-growing", &growing(), runtime, 40);
        let in_parts = ["LRN", "ConvTranspose", "Resize", "Conv"].map(|operator| count[operator]);
        assert!(in_parts.iter().all(|count| *count >= 2), "{runtime}: {count:?}");
    }
}

#[test]
fn parts_of_rows_end_at_waists_and_are_read_apart_for_a_budget() {
    runs("regions-bottlenecks", &bottlenecks(), "player", 14);
}

#[test]
fn joined_values_are_taken_apart() {
    for runtime in ["arena", "ort", "player"] {
        let folder = runs(&format!("regions-joined-{runtime}"), &joined(), runtime, 70);
        let layout = memc_layout::read(&folder.read("out.layout.json")).unwrap();
        assert!(
            layout.tensors.iter().all(|tensor| tensor.name != "features"),
            "{runtime}: features are joined"
        );
    }
}
