//! Plays plans bit for bit like the given model, inside the arena, with every value watched.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support;

use memc::{Request, Runtime};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, SparseTensorProto,
    TensorProto, attribute_proto::AttributeType,
};
use memc_ort::{Error, PlayOptions, Played, Player, VerifyOptions, inputs, verify};
use support::graph::{FLOAT, INT64, integer, model, node, value};
use support::{corpus, plan, runtime, written};

/// Plays a plan in two rounds and checks that every bit is equal and that exactly the planned bytes of
/// each arena are used.
fn holds(file: &ModelFile, configure: impl FnOnce(&mut Request)) -> Played {
    let (out, layout) = plan(file, configure);
    let runtime = runtime();
    let options = VerifyOptions { rounds: 2, poison_check: true, ..VerifyOptions::default() };
    let found = verify(&runtime, file, &out, &layout, None, options).expect("everything runs");
    assert!(found.differences.is_empty(), "{:?}, first at {:?}", found.differences, found.first);
    assert!(found.outputs > 0);
    let played = found.played.expect("a plan was played");
    for arena in &played.arenas {
        assert_eq!(arena.planned, arena.used, "arena of {}", arena.space);
    }
    played
}

fn holds_inside(test: &str, name: &str) {
    let played = holds(&corpus(test, name), |_| {});
    assert_eq!(played.bytes_outside(), 0);
    assert_eq!(played.outside, vec![]);
    assert!(played.ran > 0);
}

#[test]
fn a_training_graph_plays() {
    holds_inside("plays_mlp_grad", "mlp_grad_tiny");
}

#[test]
fn a_training_graph_with_skips_across_plays() {
    holds_inside("plays_unet_grad", "unet_grad_tiny");
}

#[test]
fn a_graph_that_draws_random_numbers_plays() {
    holds_inside("plays_dropout", "mlp_dropout_adam_tiny");
}

#[test]
fn a_network_of_joins_plays() {
    holds_inside("plays_swiftnet", "swiftnet_like");
}

#[test]
fn concat_of_operands_written_in_place_is_skipped() {
    let graph = GraphProto {
        name: Some("join".to_owned()),
        input: vec![value("x", FLOAT, Some(&[4, 8]))],
        output: vec![value("y", FLOAT, Some(&[8, 8]))],
        node: vec![
            node("Sin", &["x"], &["a"]),
            node("Cos", &["x"], &["b"]),
            NodeProto { attribute: vec![integer("axis", 0)], ..node("Concat", &["a", "b"], &["y"]) },
        ],
        ..GraphProto::default()
    };
    let played = holds(&written("plays_join", &model(graph)), |_| {});
    assert_eq!((played.ran, played.skipped), (2, 1), "the producers write their slices");
    assert_eq!(played.arenas[0].used, 8 * 8 * 4);
}

#[test]
fn scatter_results_overwrite_their_data_operand() {
    let constant = |name: &str, dims: &[i64], items: &[i64]| TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(INT64),
        dims: dims.to_vec(),
        int64_data: items.to_vec(),
        ..TensorProto::default()
    };
    let graph = GraphProto {
        name: Some("written".to_owned()),
        input: vec![
            value("x", FLOAT, Some(&[64, 4])),
            value("two", FLOAT, Some(&[2, 4])),
            value("few", FLOAT, Some(&[1, 2])),
        ],
        output: vec![value("y", FLOAT, Some(&[64, 4]))],
        initializer: vec![constant("rows", &[2, 1], &[9, 1]), constant("columns", &[1, 2], &[3, 0])],
        node: vec![
            node("Sin", &["x"], &["a"]),
            node("ScatterND", &["a", "rows", "two"], &["b"]),
            NodeProto {
                attribute: vec![integer("axis", 1)],
                ..node("ScatterElements", &["b", "columns", "few"], &["y"])
            },
        ],
        ..GraphProto::default()
    };
    let played = holds(&written("plays_written", &model(graph)), |_| {});
    assert_eq!(played.arenas[0].used, 64 * 4 * 4);
}

#[test]
fn bodies_with_constants_from_outside_play() {
    holds(&corpus("plays_loop", "control_flow_loop_if"), |_| {});
}

#[test]
fn a_quantized_network_plays() {
    holds_inside("plays_int8", "mobilenet_v2_int8_qdq");
}

#[test]
fn inputs_may_lie_in_the_arena() {
    let played =
        holds(&corpus("plays_io_arena", "light_squeezenet"), |request| request.io = Some(memc::Io::Arena));
    assert_eq!(played.bytes_outside(), 0);
}

#[test]
fn outputs_may_lie_with_the_caller() {
    holds(&corpus("plays_io_external", "mlp_grad_tiny"), |request| request.io = Some(memc::Io::External));
}

#[test]
fn operators_of_training_builds_are_named_in_one_line() {
    let file = corpus("plays_training_build", "ort_mlp_tiny");
    let (out, layout) = plan(&file, |_| {});
    let runtime = runtime();
    let error = Player::new(&runtime, &out, &layout, PlayOptions::default())
        .expect_err("stock builds lack these kernels");
    let Error::MissingKernels { kernels } = &error else { panic!("{error}") };
    assert!(kernels.contains(&"com.microsoft::ReluGrad".to_owned()), "{kernels:?}");
    assert_eq!(error.to_string().lines().count(), 1);
}

#[test]
fn equal_seeds_give_equal_outputs() {
    let file = corpus("plays_again", "mlp_grad_tiny");
    let (out, layout) = plan(&file, |_| {});
    let runtime = runtime();
    let mut player = Player::new(&runtime, &out, &layout, PlayOptions::default()).expect("ready");
    let digest = |player: &mut Player<'_>, seed| {
        player.play(&inputs::Seeded::new(&out, &layout, seed).unwrap()).unwrap();
        memc_ort::digest(&player.outputs().unwrap())
    };
    let first = digest(&mut player, 1);
    assert_ne!(first, digest(&mut player, 2), "another input gives another output");
    assert_eq!(first, digest(&mut player, 1), "nothing stays from run to run");
}

/// Returns a product with a constant operand that is long enough for packed and plain kernels to round
/// differently.
fn product(constant: impl FnOnce(&mut GraphProto, TensorProto)) -> ModelProto {
    const LENGTH: i64 = 2048;
    let mut graph = GraphProto {
        name: Some("product".to_owned()),
        input: vec![value("x", FLOAT, Some(&[7, LENGTH]))],
        output: vec![value("y", FLOAT, Some(&[7, 96]))],
        ..GraphProto::default()
    };
    let weights = TensorProto {
        name: Some("w".to_owned()),
        dims: vec![LENGTH, 96],
        data_type: Some(FLOAT),
        float_data: (0..LENGTH * 96).map(|position| (position % 1013) as f32 * 1e-3 - 0.4).collect(),
        ..TensorProto::default()
    };
    constant(&mut graph, weights);
    graph.node.push(node("MatMul", &["x", "w"], &["y"]));
    model(graph)
}

#[test]
fn defaults_of_inputs_are_no_constants() {
    let graph = product(|graph, weights| {
        graph.input.push(value("w", FLOAT, Some(&weights.dims)));
        graph.initializer.push(weights);
    });
    holds(&written("plays_default", &graph), |_| {});
}

#[test]
fn sparse_constants_play_as_dense_ones() {
    let file = |coordinates: bool| {
        let graph = product(|graph, weights| {
            let taken = (0..400).map(|place| place * 491);
            let indices: Vec<i64> = if coordinates {
                taken.flat_map(|place| [place / 96, place % 96]).collect()
            } else {
                taken.collect()
            };
            let dims = if coordinates { vec![400, 2] } else { vec![400] };
            let indices =
                TensorProto { dims, data_type: Some(INT64), int64_data: indices, ..TensorProto::default() };
            let dims = weights.dims.clone();
            let float_data = weights.float_data[..400].to_vec();
            let values = TensorProto { dims: vec![400], float_data, ..weights };
            graph.sparse_initializer.push(SparseTensorProto {
                values: Some(values),
                indices: Some(indices),
                dims,
            });
        });
        written(if coordinates { "plays_sparse_rows" } else { "plays_sparse" }, &graph)
    };
    holds(&file(false), |_| {});
    holds(&file(true), |_| {});
}

#[test]
fn constants_are_packed_as_in_a_whole_session() {
    let graph = product(|graph, weights| graph.initializer.push(weights));
    holds(&written("plays_constant", &graph), |_| {});
    let graph = product(|graph, weights| {
        let mut value =
            AttributeProto { name: Some("value".to_owned()), t: Some(weights), ..AttributeProto::default() };
        value.set_type(AttributeType::Tensor);
        graph.node.push(NodeProto { attribute: vec![value], ..node("Constant", &[], &["w"]) });
    });
    let file = written("plays_constant_node", &graph);
    holds(&file, |_| {});
    // Without rewriting, Constant nodes stay nodes.
    holds(&file, |options| options.passes = Some("view,in-place,place".to_owned()));
}

#[test]
fn half_precision_is_rounded_as_the_model_states() {
    const HALF: i32 = 10;
    let shape: &[i64] = &[64, 64];
    let graph = GraphProto {
        name: Some("half".to_owned()),
        input: vec![value("x", HALF, Some(shape))],
        output: vec![value("y", HALF, Some(shape))],
        // None of these operators has a kernel for half precision; a session would remove the
        // conversions between them.
        node: vec![
            node("Exp", &["x"], &["a"]),
            node("Mul", &["a", "x"], &["b"]),
            node("MatMul", &["b", "a"], &["c"]),
            node("Softmax", &["c"], &["d"]),
            node("Add", &["d", "b"], &["y"]),
        ],
        ..GraphProto::default()
    };
    let played = holds(&written("plays_half", &model(graph)), |options| {
        options.runtime = Runtime::Player;
    });
    assert_eq!(played.workspace_beyond(), 0, "conversions are planned");
}

#[test]
fn half_precision_is_rounded_in_functions_and_beside_omitted_results() {
    const HALF: i32 = 10;
    let opset_import = vec![OperatorSetIdProto { domain: None, version: Some(8) }];
    let own = OperatorSetIdProto { domain: Some("own".to_owned()), version: Some(1) };
    let function = FunctionProto {
        name: Some("Waves".to_owned()),
        domain: Some("own".to_owned()),
        input: vec!["in".to_owned()],
        output: vec!["out".to_owned()],
        node: vec![
            node("Exp", &["in"], &["a"]),
            node("Sqrt", &["a"], &["b"]),
            node("Mul", &["b", "a"], &["out"]),
        ],
        opset_import,
        ..FunctionProto::default()
    };
    let call = NodeProto { domain: Some("own".to_owned()), ..node("Waves", &["x"], &["y"]) };
    let last = NodeProto {
        name: Some("last".to_owned()),
        attribute: vec![integer("hidden_size", 2)],
        ..node("RNN", &["z", "w", "r"], &["", "last"])
    };
    let mut given = model(GraphProto {
        name: Some("half".to_owned()),
        input: vec![
            value("x", HALF, Some(&[64])),
            value("z", FLOAT, Some(&[3, 2, 4])),
            value("w", FLOAT, Some(&[1, 2, 4])),
            value("r", FLOAT, Some(&[1, 2, 2])),
        ],
        // An input that is also an output is not the result of a node.
        output: vec![
            value("y", HALF, Some(&[64])),
            value("last", FLOAT, Some(&[1, 2, 2])),
            value("x", HALF, Some(&[64])),
        ],
        node: vec![call, last],
        ..GraphProto::default()
    });
    given.opset_import[0].version = Some(8);
    given.opset_import.push(own);
    given.functions.push(function);
    holds(&written("plays_half_functions", &given), |request| request.runtime = Runtime::Player);
}

#[test]
fn bfloat16_plays_although_bodies_cannot_return_it() {
    const COARSE: i64 = 16;
    let to = |element: i64, from: &str, name: &str| NodeProto {
        attribute: vec![integer("to", element)],
        ..node("Cast", &[from], &[name])
    };
    let mut given = model(GraphProto {
        name: Some("coarse".to_owned()),
        input: vec![value("x", FLOAT, Some(&[8, 4]))],
        output: vec![value("y", FLOAT, Some(&[4, 8]))],
        node: vec![to(COARSE, "x", "a"), node("Transpose", &["a"], &["b"]), to(FLOAT.into(), "b", "y")],
        ..GraphProto::default()
    });
    given.opset_import[0].version = Some(15);
    holds(&written("plays_coarse", &given), |_| {});
}

#[test]
fn numbers_between_two_casts_are_rounded() {
    let to = |element: i32, from: &str, name: &str| NodeProto {
        attribute: vec![integer("to", element.into())],
        ..node("Cast", &[from], &[name])
    };
    let graph = GraphProto {
        name: Some("casts".to_owned()),
        input: vec![value("x", FLOAT, Some(&[512]))],
        output: vec![value("y", FLOAT, Some(&[512]))],
        // The plan has room for a half-precision number between the Casts, which a whole session would
        // not make.
        node: vec![to(10, "x", "a"), to(FLOAT, "a", "b"), node("Sin", &["b"], &["y"])],
        ..GraphProto::default()
    };
    holds(&written("plays_casts", &model(graph)), |_| {});
}

#[test]
fn results_of_unknown_size_lie_outside_and_are_listed() {
    let graph = GraphProto {
        name: Some("unknown".to_owned()),
        input: vec![value("x", FLOAT, Some(&[4, 8]))],
        output: vec![value("y", INT64, None), value("z", FLOAT, Some(&[4, 8]))],
        node: vec![
            node("Relu", &["x"], &["a"]),
            node("NonZero", &["a"], &["y"]),
            node("Sin", &["a"], &["z"]),
        ],
        ..GraphProto::default()
    };
    let played =
        holds(&written("plays_unknown", &model(graph)), |options| options.import.allow_unbound = true);
    assert_eq!(played.outside.len(), 1);
    assert_eq!((played.outside[0].op.as_str(), played.outside[0].bytes > 0), ("NonZero", true));
}

#[test]
fn bodies_capture_values_of_the_arena() {
    let branch = |op: &str| vec![node(op, &["a"], &["b"])];
    let played = holds(&written("plays_if", &either(branch("Sin"), branch("Cos"))), |_| {});
    assert_eq!(played.outside, vec![], "the body's values lie in what was planned for it");
    assert_eq!(played.bytes_outside(), 0, "the result itself has its place");
}

#[test]
fn bodies_know_the_shapes_that_initializers_outside_state() {
    let branch = |op: &str| {
        // The runtime infers shapes with the axes if the rank of the operand is known, and then refuses
        // a model whose axes are not in the model.
        let (extents, there) =
            (node("Shape", &["a"], &["extents"]), node("Unsqueeze", &["extents", "axes"], &["tall"]));
        let back = node("Squeeze", &["tall", "axes"], &["same"]);
        vec![extents, there, back, node(op, &["a"], &["done"]), node("Reshape", &["done", "same"], &["b"])]
    };
    holds(&written("plays_if_shapes", &either(branch("Sin"), branch("Cos"))), |_| {});
}

#[test]
fn bodies_of_models_of_version_3_capture_initializers() {
    let branch = |op: &str| vec![node("Unsqueeze", &["a", "axes"], &["tall"]), node(op, &["tall"], &["b"])];
    let mut given = either(branch("Sin"), branch("Cos"));
    given.ir_version = Some(3);
    if let Some(graph) = &mut given.graph {
        graph.input.push(value("axes", INT64, Some(&[1])));
        for branch in graph
            .node
            .iter_mut()
            .flat_map(|node| &mut node.attribute)
            .filter_map(|attribute| attribute.g.as_mut())
        {
            branch
                .output
                .iter_mut()
                .for_each(|output| output.r#type = value("b", FLOAT, Some(&[4, 1, 8])).r#type);
        }
        graph.output = vec![value("y", FLOAT, None)];
    }
    holds(&written("plays_if_version_3", &given), |_| {});
}

/// Returns a model of `a = Exp(x)` and `y = b + a`, in which a flag selects one of two bodies that make
/// `b` from `a`.
fn either(yes: Vec<NodeProto>, no: Vec<NodeProto>) -> ModelProto {
    let mut branches = node("If", &["flag"], &["b"]);
    for (name, mut nodes) in [("then_branch", yes), ("else_branch", no)] {
        let result = format!("{name}_b");
        for output in nodes.iter_mut().flat_map(|node| &mut node.output).filter(|output| *output == "b") {
            output.clone_from(&result);
        }
        let body = GraphProto {
            name: Some(name.to_owned()),
            node: nodes,
            output: vec![value(&result, FLOAT, Some(&[4, 8]))],
            ..GraphProto::default()
        };
        let mut attribute =
            AttributeProto { name: Some(name.to_owned()), g: Some(body), ..AttributeProto::default() };
        attribute.set_type(AttributeType::Graph);
        branches.attribute.push(attribute);
    }
    let axes = TensorProto {
        name: Some("axes".to_owned()),
        dims: vec![1],
        data_type: Some(INT64),
        raw_data: Some(1i64.to_le_bytes().to_vec().into()),
        ..TensorProto::default()
    };
    model(GraphProto {
        name: Some("if".to_owned()),
        input: vec![value("x", FLOAT, Some(&[4, 8])), value("flag", 9, Some(&[1]))],
        output: vec![value("y", FLOAT, Some(&[4, 8]))],
        node: vec![node("Exp", &["x"], &["a"]), branches, node("Add", &["b", "a"], &["y"])],
        initializer: vec![axes],
        ..GraphProto::default()
    })
}

#[test]
fn values_without_stated_types_play() {
    let axis = |op: &str, inputs: &[&str], outputs: &[&str]| NodeProto {
        attribute: vec![integer("axis", 1)],
        ..node(op, inputs, outputs)
    };
    let at = |name: &str, number: i64| TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(INT64),
        int64_data: vec![number],
        ..TensorProto::default()
    };
    let graph = GraphProto {
        name: Some("untyped".to_owned()),
        input: vec![value("x", FLOAT, Some(&[8]))],
        output: vec![value("y", FLOAT, None), value("z", FLOAT, None)],
        initializer: vec![at("first", 0)],
        // The number of places depends on the data, and the model states no types of intermediate
        // values.
        node: vec![
            node("Relu", &["x"], &["positive"]),
            node("NonZero", &["positive"], &["places"]),
            axis("SplitToSequence", &["places"], &["list"]),
            node("SequenceAt", &["list", "first"], &["place"]),
            node("Gather", &["x", "places"], &["y"]),
            node("Gather", &["x", "place"], &["z"]),
        ],
        ..GraphProto::default()
    };
    holds(&written("plays_untyped", &model(graph)), |_| {});
}
