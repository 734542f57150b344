//! Interface of written models: bound dimensions, names in bodies, weights among the inputs, weight
//! files, and constants that are defined twice. Written models are run if an ONNX Runtime is available.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::command;
use crate::models_made;

use std::collections::BTreeMap;

use command::{Folder, Ran};
use memc_onnx_proto::onnx::attribute_proto::AttributeType;
use memc_onnx_proto::onnx::tensor_shape_proto::dimension::Value as Extent;
use memc_onnx_proto::onnx::type_proto::Value as Kind;
use memc_onnx_proto::onnx::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, SparseTensorProto, TensorProto,
    ValueInfoProto,
};
use models_made::*;
use prost::Message as _;

fn tensor(name: &str, value: TensorProto) -> AttributeProto {
    let kind = Some(AttributeType::Tensor.into());
    AttributeProto { name: Some(name.to_owned()), r#type: kind, t: Some(value), ..AttributeProto::default() }
}

fn constant(name: &str, value: TensorProto) -> NodeProto {
    stated(node("Constant", &[], &[name]), vec![tensor("value", value)])
}

/// Returns the model that `memc optimize` wrote.
fn written(folder: &Folder) -> ModelProto {
    ModelProto::decode(std::fs::read(folder.path("out.onnx")).unwrap().as_slice()).unwrap()
}

/// Returns the extents of an entry; 0 for a symbol.
fn extents(info: &ValueInfoProto) -> Vec<i64> {
    let Some(Kind::TensorType(tensor)) = info.r#type.as_ref().and_then(|ty| ty.value.as_ref()) else {
        return Vec::new();
    };
    let dims = tensor.shape.iter().flat_map(|shape| &shape.dim);
    dims.map(|dim| if let Some(Extent::DimValue(extent)) = dim.value { extent } else { 0 }).collect()
}

fn names(infos: &[ValueInfoProto]) -> Vec<&str> {
    infos.iter().map(|info| info.name()).collect()
}

/// Plans a model. Asserts that the checker accepts the plan and that both models give equal bits if a
/// runtime is available.
fn sound_plan(test: &str, model: &ModelProto, options: &str) -> (Folder, Ran) {
    let folder = Folder::new(test);
    folder.write("in.onnx", bytes(model));
    let ran = folder.memc(&format!("optimize in.onnx -o out.onnx {options}")).done();
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    folder.memc("verify in.onnx out.onnx").done();
    (folder, ran)
}

/// Plans a model that memc must reject. Asserts a single error of this code and no written files.
/// Returns stderr.
fn refused_plan(test: &str, model: &ModelProto, options: &str, exit: i32, code: &str) -> String {
    let folder = Folder::new(test);
    folder.write("in.onnx", bytes(model));
    let ran = folder.memc(&format!("optimize in.onnx -o out.onnx {options}")).refused(exit, code);
    assert_eq!(folder.names(), ["in.onnx"], "{ran:#?}");
    ran.err
}

/// Returns `y = Relu(Neg(x))` of a batch, with a type for the value in between.
fn batched() -> ModelProto {
    with(vec![node("Neg", &["x"], &["n"]), node("Relu", &["n"], &["y"])], |graph| {
        graph.input = vec![symbolic("x", &["batch", "width"])];
        graph.output = vec![symbolic("y", &["batch", "width"])];
        graph.value_info = vec![symbolic("n", &["batch", "width"])];
    })
}

#[test]
fn a_plan_states_its_bound_dimensions_in_model_and_layout() {
    let (folder, ran) = sound_plan(
        "door-bound",
        &batched(),
        "--dim batch=4 --dim width=3 --passes view,schedule,in-place,place",
    );
    assert!(ran.err.contains("for batch = 4, width = 3 only"), "{ran:#?}");
    let model = written(&folder);
    let graph = model.graph.as_ref().unwrap();
    for info in graph.input.iter().chain(&graph.output).chain(&graph.value_info) {
        assert_eq!(extents(info), [4, 3], "{info:?}");
    }
    assert_eq!(names(&graph.value_info), ["n"]);
    let layout: serde_json::Value = serde_json::from_str(&folder.read("out.layout.json")).unwrap();
    assert_eq!(layout["model"]["dims"], serde_json::json!({"batch": 4, "width": 3}));
    assert_eq!(layout["model"]["bound"], true);

    // A model that accepts any batch does not match this plan, even if the layout has its hash.
    let mut open = model.clone();
    open.graph.as_mut().unwrap().input = vec![symbolic("x", &["batch", "width"])];
    folder.write("out.onnx", bytes(&open));
    let hash = layout["model"]["output_sha256"].as_str().unwrap();
    let other = folder.read("out.layout.json").replace(hash, &memc::sha256(&bytes(&open)));
    folder.write("out.layout.json", other);
    let ran = folder.memc("check in.onnx out.onnx out.layout.json");
    assert!(ran.code == Some(1) && ran.err.contains("E0567") && ran.err.contains("`batch` = 4"), "{ran:#?}");

    // Outputs and results must state the extents too.
    for is_output in [true, false] {
        let mut open = model.clone();
        let graph = open.graph.as_mut().unwrap();
        let entry = if is_output { &mut graph.output[0] } else { &mut graph.value_info[0] };
        let name = entry.name().to_owned();
        *entry = symbolic(&name, &["batch", "width"]);
        folder.write("out.onnx", bytes(&open));
        let layout = folder.read("out.layout.json");
        let known: serde_json::Value = serde_json::from_str(&layout).unwrap();
        let hash = known["model"]["output_sha256"].as_str().unwrap();
        folder.write("out.layout.json", layout.replace(hash, &memc::sha256(&bytes(&open))));
        let ran = folder.memc("check in.onnx out.onnx out.layout.json");
        let message = format!("`{name}` of the output model states `batch`");
        assert!(ran.code == Some(1) && ran.err.contains("E0567") && ran.err.contains(&message), "{ran:#?}");
    }
}

#[test]
fn expressions_of_exporters_are_bound_and_open_sizes_are_not_praised() {
    let strided = || {
        let pool =
            stated(node("MaxPool", &["x"], &["p"]), vec![ints("kernel_shape", &[1]), ints("strides", &[2])]);
        with(vec![pool, node("Relu", &["p"], &["y"])], |graph| {
            graph.input = vec![symbolic("x", &["batch", "3", "height"])];
            graph.output = vec![symbolic("y", &["batch", "3", "floor(height/2 - 1/2) + 1"])];
            graph.value_info = vec![symbolic("p", &["batch", "3", "(height + 1)//2"])];
        })
    };
    let (folder, _) = sound_plan("door-expressions", &strided(), "--dim batch=2 --dim height=7");
    let graph = written(&folder).graph.unwrap();
    for info in graph.output.iter().chain(&graph.value_info) {
        assert_eq!(extents(info), [2, 3, 4], "{info:?}");
    }
    let folder = Folder::new("door-praise");
    folder.write("in.onnx", bytes(&strided()));
    let ran = folder.memc("optimize in.onnx -o out.onnx --allow-unbound").done();
    assert!(ran.err.contains("? time") && !ran.err.contains('%') && !ran.err.contains("optimal"), "{ran:#?}");
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
}

#[test]
fn dimensions_that_must_be_equal_are_told() {
    let tied = with(vec![node("MatMul", &["x", "w"], &["y"])], |graph| {
        graph.input = vec![symbolic("x", &["batch", "width"]), symbolic("w", &["columns", "height"])];
        graph.output = vec![symbolic("y", &["batch", "height"])];
    });
    let folder = Folder::new("door-ties");
    folder.write("in.onnx", bytes(&tied));
    let ran = folder.memc("optimize in.onnx -o out.onnx --allow-unbound").done();
    assert!(ran.err.contains("W0108") && ran.err.contains("`columns` and `width` must be equal"), "{ran:#?}");
    assert_eq!(ran.err.matches("W0108").count(), 1, "{ran:#?}");
}

#[test]
fn unbound_dimensions_stay_symbolic() {
    let model = batched();
    let folder = Folder::new("door-free");
    folder.write("in.onnx", bytes(&model));
    let ran = folder.memc("optimize in.onnx -o out.onnx --allow-unbound").done();
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    assert!(!ran.err.contains(" only\n"), "{ran:#?}");
    let (given, out) = (model.graph.unwrap(), written(&folder).graph.unwrap());
    assert_eq!(
        (&out.input[0].r#type, &out.output[0].r#type),
        (&given.input[0].r#type, &given.output[0].r#type)
    );
    assert!(!folder.read("out.layout.json").contains("\"bound\""));
    // If only `width` is bound, the model states only `width`.
    folder.memc("optimize in.onnx -o out.onnx --allow-unbound --dim width=3").done();
    assert_eq!(extents(&written(&folder).graph.unwrap().input[0]), [0, 3]);
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
}

#[test]
fn unnamed_dimensions_are_bound_by_input_and_axis() {
    let unnamed = with(vec![node("Relu", &["x"], &["y"])], |graph| {
        graph.input = vec![fixed("x", &[-1, 3])];
        graph.output = vec![fixed("y", &[-1, 3])];
    });
    let (folder, ran) = sound_plan("door-unnamed", &unnamed, "--dim ?=5");
    assert!(ran.err.contains("for x.0 = 5 only"), "{ran:#?}");
    assert_eq!(extents(&written(&folder).graph.unwrap().input[0]), [5, 3]);
    // If no dimension is unnamed, the option causes only a remark.
    let (_, ran) = sound_plan("door-named", &batched(), "--dim batch=4 --dim width=3 --dim ?=5");
    assert!(ran.err.contains("remark[W0107]"), "{ran:#?}");
}

#[test]
fn dimensions_that_contradict_are_told_by_their_options() {
    let sum = with(vec![node("Relu", &["w"], &["v"]), node("Add", &["x", "v"], &["y"])], |graph| {
        graph.input = vec![symbolic("x", &["a"]), symbolic("w", &["b"]), symbolic("z", &["c"])];
        graph.output = vec![symbolic("y", &["m"])];
    });
    let err = refused_plan("door-sum", &sum, "--dim a=2 --dim b=3 --dim c=9", 2, "E0123");
    assert!(
        err.contains("`--dim a=2` and `--dim b=3` contradict") && !err.contains("c=9") && err.contains("/y"),
        "{err}"
    );
    // Pairs of rows. The contradiction appears only after other nodes.
    let pairs = with(
        vec![
            node("Exp", &["x"], &["e"]),
            node("Neg", &["e"], &["n"]),
            node("Reshape", &["n", "pairs"], &["y"]),
        ],
        |graph| {
            graph.input = vec![symbolic("x", &["rows"])];
            graph.output = vec![symbolic("y", &["p", "q"])];
            graph.initializer = vec![integers("pairs", &[-1, 2])];
        },
    );
    let err = refused_plan("door-pairs", &pairs, "--dim rows=5", 2, "E0123");
    assert!(err.contains("`--dim rows=5` contradicts the model"), "{err}");
    sound_plan("door-pairs-fit", &pairs, "--dim rows=6");
    // A node that is invalid for all extents is an error of the file, not of the options.
    let wrong = with(vec![node("Add", &["x", "w"], &["s"]), node("Relu", &["b"], &["y"])], |graph| {
        graph.input = vec![fixed("x", &[2]), fixed("w", &[3]), symbolic("b", &["batch"])];
        graph.output = vec![symbolic("y", &["batch"])];
    });
    let folder = Folder::new("door-wrong");
    folder.write("in.onnx", bytes(&wrong));
    assert!(folder.memc("optimize in.onnx -o out.onnx --dim batch=4").done().err.contains("warning[W0105]"));
}

#[test]
fn nodes_that_do_not_fit_their_operands_are_opaque() {
    // A Resize of rank 5 with four scales, and a product of matrices that do not fit: the file states
    // results of another rank for both.
    let resize = with(
        vec![
            node("Relu", &["x"], &["a"]),
            node("Resize", &["a", "", "s"], &["r"]),
            node("Relu", &["r"], &["b"]),
            node("Exp", &["b"], &["y"]),
        ],
        |graph| {
            graph.input = vec![fixed("x", &[8, 16, 17, 33, 2])];
            graph.output = vec![fixed("y", &[8, 16, 34, 66])];
            graph.value_info = vec![fixed("r", &[8, 16, 34, 66])];
            graph.initializer = vec![numbers("s", &[1.0, 1.0, 2.0, 2.0])];
        },
    );
    let product = with(
        vec![
            node("Relu", &["x"], &["a"]),
            node("MatMul", &["a", "w"], &["m"]),
            node("Relu", &["m"], &["b"]),
            node("Exp", &["b"], &["y"]),
        ],
        |graph| {
            graph.input = vec![fixed("x", &[4, 8, 16, 32])];
            graph.output = vec![fixed("y", &[64])];
            graph.value_info = vec![fixed("m", &[64])];
            graph.initializer = vec![floats("w", &[16, 64])];
        },
    );
    for (name, model) in [("resize", resize), ("product", product)] {
        let folder = Folder::new(&format!("door-misfit-{name}"));
        folder.write("in.onnx", bytes(&model));
        for options in ["", "--micro-batches 2", "--budget 60%"] {
            let ran = folder.memc(&format!("optimize in.onnx -o out.onnx {options}"));
            assert!([Some(0), Some(3)].contains(&ran.code), "{name} {options}: {ran:#?}");
        }
        assert!(folder.memc("optimize in.onnx -o out.onnx").done().err.contains("warning[W0105]"));
        folder.memc("check in.onnx out.onnx out.layout.json").done();
    }
}

/// Writes arrays of zeros with these shapes.
#[cfg(feature = "ort")]
fn feed(folder: &Folder, arrays: &[(&str, &[u64])]) {
    let element = memc_ort::Element::from_onnx(1).unwrap();
    let zeros: Vec<Vec<u8>> =
        arrays.iter().map(|(_, dims)| vec![0; dims.iter().product::<u64>() as usize * 4]).collect();
    let view = |((name, dims), bytes): (&(&str, &[u64]), &'static [u8])| {
        (
            (*name).to_owned(),
            memc_ort::Content::View(memc_ort::TensorView { element, shape: dims.to_vec(), bytes }),
        )
    };
    // Leak a few bytes in this test, because views borrow their data.
    let views: BTreeMap<_, _> = arrays
        .iter()
        .zip(zeros)
        .map(|(array, bytes)| view((array, Box::leak(bytes.into_boxed_slice()))))
        .collect();
    let mut file = Vec::new();
    memc_ort::npz::write(&views, &mut file).unwrap();
    folder.write("feed.npz", file);
}

#[cfg(feature = "ort")]
#[test]
fn real_inputs_bind_dimensions() {
    let model =
        with(vec![node("Add", &["ids", "mask"], &["s"]), node("Mul", &["s", "scale"], &["y"])], |graph| {
            let stated = |name| symbolic(name, &["batch", "seq"]);
            graph.input = vec![stated("ids"), stated("mask"), fixed("scale", &[1])];
            graph.output = vec![stated("y")];
        });
    let folder = Folder::new("door-feed");
    folder.write("in.onnx", bytes(&model));
    let optimize = |arrays: &[(&str, &[u64])], options: &str| {
        feed(&folder, arrays);
        folder.memc(&format!("optimize in.onnx -o out.onnx --dim-from feed.npz {options}"))
    };
    optimize(&[("ids", &[2, 16]), ("scale", &[1])], "").done();
    let inputs = written(&folder).graph.unwrap().input;
    assert_eq!(inputs.iter().map(extents).collect::<Vec<_>>(), [vec![2, 16], vec![2, 16], vec![1]]);
    let layout: serde_json::Value = serde_json::from_str(&folder.read("out.layout.json")).unwrap();
    assert_eq!(layout["model"]["dims"], serde_json::json!({"batch": 2, "seq": 16}));
    folder.memc("check in.onnx out.onnx out.layout.json").checked();
    optimize(&[("scale", &[1])], "--dim batch=2 --dim seq=4").done();
    for name in ["out.onnx", "out.layout.json"] {
        std::fs::remove_file(folder.path(name)).unwrap();
    }

    let conflict = optimize(&[("ids", &[2, 16]), ("mask", &[2, 12])], "").refused(2, "E0122");
    for part in ["`seq`", "16 according to input `ids`, axis 1", "12 according to input `mask`, axis 1"] {
        assert!(conflict.err.contains(part), "{conflict:#?}");
    }
    let conflict = optimize(&[("ids", &[2, 16])], "--dim batch=3").refused(2, "E0122");
    assert!(conflict.err.contains("`--dim batch`") && conflict.err.contains("`ids`"), "{conflict:#?}");
    let stated = optimize(&[("scale", &[2])], "").refused(2, "E0122");
    assert!(stated.err.contains("`scale` with extents [2]") && stated.err.contains("f32[1]"), "{stated:#?}");
    optimize(&[("ids", &[2, 16, 1])], "").refused(2, "E0122");
    let stranger = optimize(&[("idz", &[2, 16])], "").refused(2, "E0122");
    assert!(stranger.err.contains("`idz`") && stranger.err.contains("ids, mask, scale"), "{stranger:#?}");
    let open = optimize(&[("scale", &[1])], "").refused(2, "E0114");
    for way in ["--dim batch=N", "--dim-from feed.npz", "--dim batch=1..8"] {
        assert!(open.err.contains(way), "{open:#?}");
    }
    assert_eq!(folder.names(), ["feed.npz", "in.onnx"], "nothing was written");
}

/// Returns a branch that defines one name, regardless of names in enclosing graphs.
fn naming(op: &str, reads: &str, result: &str) -> GraphProto {
    branch(vec![node(op, &[reads], &[result])], result)
}

/// Returns an If over `%flag`.
fn choose(then_branch: GraphProto, else_branch: GraphProto, result: &str) -> NodeProto {
    stated(
        node("If", &["flag"], &[result]),
        vec![body("then_branch", then_branch), body("else_branch", else_branch)],
    )
}

/// Returns the body of a Loop that carries a vector: `result = Add(carried, one)`.
fn adding(carried: &str, result: &str) -> GraphProto {
    GraphProto {
        name: Some("body".into()),
        node: vec![node("Identity", &["go"], &["on"]), node("Add", &[carried, "one"], &[result])],
        input: vec![of_type(fixed("turn", &[]), 7), of_type(fixed("go", &[]), 9), fixed(carried, &[4])],
        output: vec![of_type(fixed("on", &[]), 9), fixed(result, &[4])],
        initializer: vec![numbers("one", &[1.0; 4])],
        ..GraphProto::default()
    }
}

#[test]
fn body_results_may_have_the_names_of_the_node_results() {
    let nested = branch(vec![choose(naming("Relu", "x", "y"), naming("Abs", "x", "y"), "y")], "y");
    let looped =
        |carried| stated(node("Loop", &["turns", "", "x"], &["y"]), vec![body("body", adding(carried, "y"))]);
    let scanned = GraphProto {
        name: Some("body".into()),
        node: vec![node("Add", &["before", "row"], &["last"]), node("Relu", &["last"], &["y"])],
        input: vec![fixed("before", &[]), fixed("row", &[])],
        output: vec![fixed("last", &[]), fixed("y", &[])],
        ..GraphProto::default()
    };
    let scan = node("Scan", &["start", "x"], &["last", "y"]);
    let scan = stated(scan, vec![body("body", scanned), int("num_scan_inputs", 1)]);
    let cases = [
        ("if", choose(naming("Relu", "x", "y"), naming("Neg", "x", "y"), "y"), vec![flag()]),
        ("nested", choose(nested, naming("Neg", "x", "y"), "y"), vec![flag()]),
        ("loop", looped("carried"), vec![of_type(fixed("turns", &[]), 7)]),
        ("loop-input", looped("carried"), vec![of_type(fixed("turns", &[]), 7)]),
        ("scan", scan, vec![fixed("start", &[])]),
    ];
    for (name, node, inputs) in cases {
        let model = with(vec![node.clone()], |graph| graph.input.extend(inputs));
        let (folder, _) = sound_plan(&format!("door-own-{name}"), &model, "--exact");
        let out = &written(&folder).graph.unwrap().node;
        assert_eq!(
            (out.len(), &out[0].attribute),
            (1, &node.attribute),
            "{name}: the bodies are those of the file"
        );
    }
}

#[test]
fn names_in_bodies_that_hide_outer_names_never_change_reads() {
    // %i equals %t, and the body that reads %i defines its own %t.
    let hiding = |inside: GraphProto| {
        let nodes = vec![
            node("Relu", &["x"], &["t"]),
            node("Identity", &["t"], &["i"]),
            choose(inside, naming("Neg", "i", "e"), "r"),
            node("Add", &["r", "t"], &["y"]),
        ];
        with(nodes, |graph| graph.input.push(flag()))
    };
    let initializer = GraphProto {
        initializer: vec![numbers("t", &[5.0; 4])],
        ..branch(vec![node("Add", &["t", "i"], &["s"])], "s")
    };
    sound_plan("door-hidden-initializer", &hiding(initializer), "--exact");
    // A nested Loop whose carried vector has the hidden name.
    let mut inner = stated(node("Loop", &["turns", "", "i"], &["s"]), vec![body("body", adding("t", "u"))]);
    inner.input[2] = "i".into();
    let mut looped = hiding(branch(vec![inner, node("Add", &["s", "i"], &["v"])], "v"));
    looped.graph.as_mut().unwrap().initializer =
        vec![TensorProto { dims: vec![], ..integers("turns", &[2]) }];
    sound_plan("door-hidden-input", &looped, "--exact");
    // A result that hides a value computed only after the node.
    let later = vec![
        choose(
            branch(vec![node("Abs", &["x"], &["z"]), node("Exp", &["z"], &["s"])], "s"),
            naming("Neg", "x", "e"),
            "r",
        ),
        node("Relu", &["r"], &["z"]),
        node("Neg", &["x"], &["n"]),
        node("Add", &["n", "z"], &["y"]),
    ];
    sound_plan("door-hidden-later", &with(later, |graph| graph.input.push(flag())), "--exact");
    // Cycles are still detected, also through a body, and a body must not depend on its own node.
    let waits =
        vec![choose(naming("Relu", "z", "s"), naming("Neg", "x", "e"), "y"), node("Relu", &["y"], &["z"])];
    let err = refused_plan("door-cycle", &with(waits, |graph| graph.input.push(flag())), "", 1, "E0106");
    assert!(!err.contains("onnx.checker"), "{err}");
    let own = choose(naming("Relu", "y", "y"), naming("Neg", "x", "e"), "y");
    refused_plan("door-own-cycle", &with(vec![own], |graph| graph.input.push(flag())), "", 1, "E0106");
}

/// Returns `y = (x + w) * Relu(b)` as a file that lists its weights among the inputs.
fn of_version_3(version: i64) -> ModelProto {
    let nodes = vec![
        node("Add", &["x", "w"], &["s"]),
        node("Relu", &["b"], &["c"]),
        node("Mul", &["s", "c"], &["y"]),
    ];
    let mut model = with(nodes, |graph| {
        graph.input.extend([fixed("w", &[4]), fixed("b", &[4]), fixed("unread", &[2])]);
        let weights =
            [("w", [1.0, 2.0, 3.0, 4.0].as_slice()), ("b", &[0.5, -1.0, 0.25, 8.0]), ("unread", &[1.0, 1.0])];
        graph.initializer = weights.into_iter().map(|(name, values)| numbers(name, values)).collect();
    });
    (model.ir_version, model.opset_import[0].version) = (Some(version), Some(8));
    model
}

#[test]
fn weights_leave_the_inputs_if_the_ir_version_rises_past_3() {
    let (folder, _) = sound_plan("door-ir-3", &of_version_3(3), "--exact");
    let model = written(&folder);
    let graph = model.graph.as_ref().unwrap();
    assert!(model.ir_version() > 3);
    assert_eq!(names(&graph.input), ["x"]);
    let weights: Vec<&str> = graph.initializer.iter().map(|tensor| tensor.name()).collect();
    assert_eq!(weights, ["w", "c"], "a folded one is a weight like others, and what nobody reads goes");
    // From IR version 4 on, these are defaults that a caller may replace.
    let (folder, _) = sound_plan("door-ir-4", &of_version_3(4), "--exact");
    assert_eq!(names(&written(&folder).graph.unwrap().input), ["x", "w", "b", "unread"]);
    // The rule applies to bodies as well.
    let mut inside = naming("Relu", "v", "r");
    inside.node.insert(0, node("Add", &["x", "w"], &["v"]));
    inside.input = vec![fixed("w", &[4])];
    inside.initializer = vec![numbers("w", &[1.0, -2.0, 3.0, 4.0])];
    let mut model =
        with(vec![choose(inside, naming("Neg", "x", "e"), "y")], |graph| graph.input.push(flag()));
    (model.ir_version, model.opset_import[0].version) = (Some(3), Some(8));
    let (folder, _) = sound_plan("door-ir-3-body", &model, "--exact");
    let out = written(&folder).graph.unwrap();
    let body = out.node[0].attribute[0].g.as_ref().unwrap();
    assert!(body.input.is_empty() && body.initializer.len() == 1 && body.node.len() == 2, "{body:?}");
}

#[test]
fn weight_files_are_found_for_every_kind_of_tensor() {
    let place = |name: &str, file: &str| external(name, &[4], file);
    let sparse = SparseTensorProto {
        values: Some(TensorProto { dims: vec![2], ..place("thin", "sparse.bin") }),
        indices: Some(integers("", &[0, 3])),
        dims: vec![4],
    };
    let sparse = AttributeProto {
        name: Some("sparse_value".into()),
        r#type: Some(AttributeType::SparseTensor.into()),
        sparse_tensor: Some(sparse),
        ..AttributeProto::default()
    };
    let inside = GraphProto {
        node: vec![constant("k", place("", "constant.bin")), node("Add", &["k", "m"], &["t"])],
        initializer: vec![place("m", "body.bin")],
        ..branch(vec![], "t")
    };
    let mut model = with(
        vec![
            constant("a", place("", "main.bin")),
            stated(node("Constant", &[], &["thin"]), vec![sparse]),
            either(&inside, "i"),
            call("f", &["x"], &["c"]),
            node("Sum", &["a", "thin", "i", "c"], &["y"]),
            constant("dead", place("", "unread.bin")),
        ],
        |graph| graph.input.push(flag()),
    );
    model.functions =
        vec![function("f", vec![constant("k", place("", "function.bin")), node("Add", &["a", "k"], &["b"])])];
    let folder = Folder::new("door-weights");
    for name in ["given", "out"] {
        std::fs::create_dir_all(folder.path(name)).unwrap();
    }
    folder.write("given/in.onnx", bytes(&model));
    let files = ["body.bin", "constant.bin", "function.bin", "main.bin", "sparse.bin"];
    let optimize = |options: &str| {
        folder.memc(&format!("optimize given/in.onnx -o out/out.onnx --no-rewrite {options}"))
    };
    // Weights that nobody has cannot go along.
    assert!(!optimize("").done().err.contains("W0401"));
    for (count, file) in files.iter().enumerate() {
        folder.write(&format!("given/{file}"), [count as u8; 16]);
    }
    // With `--weights-in-place`, memc names the weight files that the written model lacks.
    let missed = optimize("--weights-in-place").done().err;
    assert!(missed.contains("warning[W0401]") && missed.contains("and 4 more"), "{missed}");
    assert!(!optimize("").done().err.contains("W0401"));
    for (count, file) in files.iter().enumerate() {
        assert_eq!(std::fs::read(folder.path(&format!("out/{file}"))).unwrap(), [count as u8; 16], "{file}");
    }
    assert!(!folder.path("out/unread.bin").exists(), "nobody reads it");

    // Locations outside the model's folder are rejected.
    for escape in ["../w.bin", "/etc/passwd"] {
        let mut model = model.clone();
        model.functions[0].node[0] = constant("k", place("", escape));
        refused_plan("door-escape-function", &model, "", 1, "E0110");
        model.functions.clear();
        let thin = &mut model.graph.as_mut().unwrap().node[1].attribute[0];
        thin.sparse_tensor.as_mut().unwrap().values = Some(place("thin", escape));
        refused_plan("door-escape-sparse", &model, "", 1, "E0110");
    }
}

#[test]
fn a_model_without_outputs_is_refused() {
    let nothing = with(vec![node("Relu", &["x"], &["y"])], |graph| graph.output.clear());
    let err = refused_plan("door-nothing", &nothing, "", 1, "E0124");
    assert!(err.contains("no outputs"), "{err}");
}

#[test]
fn the_last_version_of_an_operator_set_counts() {
    let of = |versions: &[i64]| {
        let own = |version: &i64| OperatorSetIdProto { domain: Some(String::new()), version: Some(*version) };
        ModelProto { opset_import: versions.iter().map(own).collect(), ..sound() }
    };
    for versions in [&[0, 7][..], &[7, 14]] {
        let (folder, _) = sound_plan("door-versions", &of(versions), "");
        let layout: serde_json::Value = serde_json::from_str(&folder.read("out.layout.json")).unwrap();
        assert!(
            layout["model"]["opset_imports"]
                .as_array()
                .unwrap()
                .iter()
                .any(|set| set["version"] == *versions.last().unwrap())
        );
    }
    for versions in [&[7, 0][..], &[7, 99], &[0]] {
        refused_plan("door-versions-wrong", &of(versions), "", 1, "E0105");
    }
}

#[test]
fn equal_constants_of_one_name_are_one() {
    let k = || numbers("", &[1.0, 2.0, 3.0, 4.0]);
    let typed = TensorProto { raw_data: None, float_data: vec![1.0, 2.0, 3.0, 4.0], ..k() };
    let adds = || vec![node("Add", &["x", "k"], &["s"]), node("Mul", &["s", "k"], &["y"])];
    let nodes = |before: Vec<NodeProto>, between: Vec<NodeProto>| {
        let mut nodes = before;
        let [first, second] = <[NodeProto; 2]>::try_from(adds()).unwrap();
        nodes.push(first);
        nodes.extend(between);
        nodes.push(second);
        nodes
    };
    let named = |tensor: TensorProto| TensorProto { name: Some("k".into()), ..tensor };
    let twice = model(nodes(vec![constant("k", k())], vec![constant("k", typed.clone())]));
    let beside =
        with(nodes(vec![], vec![constant("k", k())]), |graph| graph.initializer = vec![named(typed.clone())]);
    let initializers = with(adds(), |graph| graph.initializer = vec![named(k()), named(typed.clone())]);
    let inside = GraphProto {
        initializer: vec![named(k()), named(typed.clone())],
        ..branch(nodes(vec![], vec![constant("k", k())]), "y")
    };
    let inside = with(vec![either(&inside, "y")], |graph| graph.input.push(flag()));
    let mut called = model(vec![call("f", &["x"], &["y"])]);
    let double = vec![constant("k", k()), constant("k", typed), node("Add", &["a", "k"], &["b"])];
    called.functions = vec![function("f", double)];
    // In each case one definition is kept, with a warning.
    for (name, model) in [
        ("nodes", &twice),
        ("beside", &beside),
        ("initializers", &initializers),
        ("body", &inside),
        ("function", &called),
    ] {
        for options in ["--exact", "--passes schedule,place"] {
            let folder = Folder::new(&format!("door-twice-{name}"));
            folder.write("in.onnx", bytes(model));
            let ran = folder.memc(&format!("optimize in.onnx -o out.onnx {options}")).done();
            assert!(ran.err.contains("warning[W0106]: `k` is defined twice"), "{ran:#?}");
            folder.memc("check in.onnx out.onnx out.layout.json").checked();
            let out = written(&folder).graph.unwrap();
            let all = |graph: &GraphProto| {
                let results = graph.node.iter().flat_map(|node| node.output.clone());
                results
                    .chain(graph.initializer.iter().map(|tensor| tensor.name().to_owned()))
                    .filter(|name| name == "k")
                    .count()
            };
            let bodies =
                out.node.iter().flat_map(|node| &node.attribute).filter_map(|attribute| attribute.g.as_ref());
            assert!(bodies.chain([&out]).all(|graph| all(graph) <= 1), "{name}: {out:?}");
            // The written model is complete: optimizing it again gives equal results.
            folder.memc("optimize out.onnx -o again.onnx").done();
            folder.memc("verify out.onnx again.onnx").done();
        }
    }
    // Different constants of one name are rejected.
    let other =
        model(nodes(vec![constant("k", k())], vec![constant("k", numbers("", &[1.0, 2.0, 3.0, 5.0]))]));
    refused_plan("door-twice-other", &other, "", 1, "E0107");
    let other = with(adds(), |graph| graph.initializer = vec![named(k()), named(numbers("", &[0.0; 4]))]);
    refused_plan("door-twice-weights", &other, "", 1, "E0107");
    // A default that a caller may replace is not a constant.
    let default = with(nodes(vec![], vec![constant("k", k())]), |graph| {
        graph.input.push(fixed("k", &[4]));
        graph.initializer = vec![named(k())];
    });
    refused_plan("door-twice-default", &default, "", 1, "E0107");
}

#[test]
fn equal_weights_are_kept_once() {
    let weights = |second: &str| {
        with(vec![node("Add", &["x", "first"], &["s"]), node("Mul", &["s", second], &["y"])], |graph| {
            graph.input = vec![fixed("x", &[512])];
            graph.output = vec![fixed("y", &[512])];
            let floats = floats("first", &[512]);
            graph.initializer = vec![floats.clone(), TensorProto { name: Some("second".into()), ..floats }];
        })
    };
    let (folder, ran) = sound_plan("door-equal", &weights("second"), "--exact");
    assert!(ran.err.contains("remark[W0308]: `second` equals `first`: this saves 2.0 KiB"), "{ran:#?}");
    let out = written(&folder).graph.unwrap();
    assert_eq!((out.initializer.len(), out.initializer[0].name()), (1, "first"));
    let mut output = weights("second");
    output.graph.as_mut().unwrap().output.push(fixed("second", &[512]));
    let (folder, _) = sound_plan("door-equal-output", &output, "--exact");
    assert_eq!(written(&folder).graph.unwrap().initializer[0].name(), "second", "an output keeps its name");
}
