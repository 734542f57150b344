//! Transpositions and reshapes that exact plans move: `check` follows them by a list of its own.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::command::python;
use crate::models_made::{bytes, fixed, floats, int, ints, node, raw, stated, symbolic, with};

use memc::{Extent, Planned, Request, plan};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::tensor_proto::DataType;
use memc_onnx_proto::onnx::{ModelProto, NodeProto};

/// Channels last between two transpositions; `last` brings them back.
fn channels_last(between: Vec<NodeProto>, last: &[i64]) -> ModelProto {
    let turn = |from: &str, to: &str, order: &[i64]| {
        stated(node("Transpose", &[from], &[to]), vec![ints("perm", order)])
    };
    let mut nodes = vec![turn("x", "t", &[0, 2, 3, 1])];
    nodes.extend(between);
    nodes.extend([turn("u", "v", last), node("Abs", &["v"], &["y"])]);
    with(nodes, |graph| {
        graph.input = vec![fixed("x", &[2, 4, 6, 6])];
        graph.output = vec![fixed("y", &[2, 4, 6, 6])];
        let mut halves = raw("halves", &[2], &[2i64.to_le_bytes(), 2i64.to_le_bytes()].concat());
        halves.data_type = Some(DataType::Int64 as i32);
        let long = |name: &str, numbers: &[i64]| {
            let mut made = raw(
                name,
                &[numbers.len() as i64],
                &numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>(),
            );
            made.data_type = Some(DataType::Int64 as i32);
            made
        };
        graph.initializer = vec![
            floats("scale", &[1, 1, 1, 4]),
            floats("places", &[1, 6, 6, 1]),
            halves,
            long("flat", &[-1, 4]),
            long("back", &[2, 6, 6, 4]),
        ];
    })
}

/// Nodes between the transpositions, of each kind that moves.
fn kinds() -> Vec<Vec<NodeProto>> {
    let by_place = vec![
        node("Mul", &["t", "scale"], &["m"]),
        node("Relu", &["m"], &["r"]),
        node("Add", &["r", "places"], &["a"]),
        node("Sigmoid", &["a"], &["u"]),
    ];
    let axis = |at: i64| vec![int("axis", at)];
    let parts = vec![
        stated(node("Split", &["t", "halves"], &["p", "q"]), axis(3)),
        node("Neg", &["p"], &["n"]),
        stated(node("Concat", &["n", "q"], &["u"]), axis(-1)),
    ];
    let rows = vec![
        node("Reshape", &["t", "flat"], &["f"]),
        node("Relu", &["f"], &["g"]),
        node("Reshape", &["g", "back"], &["u"]),
    ];
    vec![by_place, parts, rows]
}

fn exact(model: &ModelProto) -> Planned {
    plan(&ModelFile::from_bytes(bytes(model)).unwrap(), &Request::new().exact(true)).unwrap()
}

/// Whether a plan is proven to compute what a model does.
fn is_proven(planned: &Planned, given: &ModelProto) -> bool {
    let given = ModelFile::from_bytes(bytes(given)).unwrap();
    let out = ModelFile::from_bytes(planned.model.to_vec()).unwrap();
    let mut layout = planned.layout.clone();
    layout.model.input_sha256 = memc::sha256(given.bytes());
    memc_check::check(&given, &out, &layout, Default::default()).is_proven()
}

#[test]
fn transpositions_that_meet_are_proven_to_cancel() {
    for between in kinds() {
        let model = channels_last(between.clone(), &[0, 3, 1, 2]);
        let planned = exact(&model);
        let out = ModelFile::from_bytes(planned.model.to_vec()).unwrap();
        let operators: Vec<&str> = out.graph().node.iter().map(|node| node.op_type()).collect();
        assert!(!operators.contains(&"Transpose") && is_proven(&planned, &model), "{operators:?}");
        assert!(
            !is_proven(&planned, &channels_last(between.clone(), &[0, 3, 2, 1])),
            "height and width change places"
        );
        let mut other = between.clone();
        other.last_mut().unwrap().op_type = Some("Exp".to_owned());
        other.last_mut().unwrap().input.truncate(1);
        other.last_mut().unwrap().attribute.clear();
        assert!(!is_proven(&planned, &channels_last(other, &[0, 3, 1, 2])), "another operator");
    }
    let model = channels_last(kinds().remove(0), &[0, 3, 1, 2]);
    let planned = exact(&model);
    let mut other = model.clone();
    let scale =
        other.graph.as_mut().unwrap().initializer.iter_mut().find(|tensor| tensor.name() == "scale").unwrap();
    let mut changed = scale.raw_data.take().unwrap().to_vec();
    changed[0] ^= 1;
    scale.raw_data = Some(changed.into());
    assert!(!is_proven(&planned, &other), "another bit of a constant");
}

/// Compares each kernel on transposed operands with its transposed result, bit by bit.
const KERNELS: &str = r#"
import sys
import numpy, onnxruntime
from onnx import helper

special = [0.0, -0.0, numpy.nan, numpy.inf, -numpy.inf, 1e-45, -1e-45, 1e-38, 3e38, -3e38, 1.0, -1.0, 0.5, 2.5, -2.5]
generator = numpy.random.default_rng(0)
for names in sys.argv[1:]:
    name, other = (names.split("=") * 2)[:2]
    count = 2 if name in ("Add", "Div", "Mul", "Pow", "Sub") else 1
    for shape in ((3, 5), (7, 1, 9), (2, 17, 33), (4, 5, 6, 7)):
        size = int(numpy.prod(shape))
        feeds = {}
        for operand in "ab"[:count]:
            numbers = generator.standard_normal(size).astype(numpy.float32) * 4
            numbers[generator.permutation(size)[: min(size, 15)]] = special[: min(size, 15)]
            feeds[operand] = numbers.reshape(shape)
        order = [int(axis) for axis in generator.permutation(len(shape))]
        attributes = {"to": 10} if name == "Cast" else {}
        kind = 10 if name == "Cast" else 1
        turn = lambda operand, result: helper.make_node("Transpose", [operand], [result], perm=order)
        before = [turn(operand, operand + "t") for operand in feeds]
        before.append(helper.make_node(name, [operand + "t" for operand in feeds], ["y"], **attributes))
        after = [helper.make_node(other, list(feeds), ["r"], **attributes), turn("r", "y")]
        found = []
        for nodes in (before, after):
            inputs = [helper.make_tensor_value_info(operand, 1, shape) for operand in feeds]
            turned = [shape[axis] for axis in order]
            graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", kind, turned)])
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
            found.append(onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)[0])
        one, two = found
        bits = numpy.int16 if name == "Cast" else numpy.int32
        same = (one.view(bits) == two.view(bits)) | (numpy.isnan(one) & numpy.isnan(two))
        if not same.all():
            print(name, shape, order, one[~same][:3], two[~same][:3])
"#;

#[test]
fn operands_in_another_order_are_not_proven() {
    let sum = |order: &[i64]| {
        let turn = stated(node("Transpose", &["x"], &["s"]), vec![ints("perm", order)]);
        channels_last(vec![turn, node("Add", &["t", "s"], &["u"])], &[0, 3, 1, 2])
    };
    let planned = exact(&sum(&[0, 2, 3, 1]));
    assert!(is_proven(&planned, &sum(&[0, 2, 3, 1])) && !is_proven(&planned, &sum(&[0, 3, 2, 1])));
}

#[test]
fn kernels_round_elements_alike_at_all_places() {
    assert_eq!(python(KERNELS, memc_check::PLACELESS), "");
    assert!(python(KERNELS, &["Relu=Abs"]).starts_with("Relu "), "the comparison finds differences");
}

#[test]
fn casts_that_bring_truth_values_back_are_proven_to_be_nothing() {
    let to = |kind: i64| vec![int("to", kind)];
    let mask = |kind: i64| {
        let nodes = vec![
            node("Less", &["x", "limit"], &["m"]),
            stated(node("Cast", &["m"], &["i"]), to(kind)),
            stated(node("Cast", &["i"], &["c"]), to(9)),
            node("Unsqueeze", &["c", "first"], &["b"]),
            node("Where", &["b", "x", "limit"], &["y"]),
        ];
        with(nodes, |graph| {
            graph.input = vec![symbolic("x", &["n", "4"])];
            graph.output = vec![symbolic("y", &["1", "n", "4"])];
            let mut first = raw("first", &[1], &[0; 8]);
            first.data_type = Some(DataType::Int64 as i32);
            graph.initializer = vec![floats("limit", &[4]), first];
        })
    };
    let model = mask(7);
    let request = Request::new().exact(true).dim("n", "1..8".parse::<Extent>().unwrap());
    let planned = plan(&ModelFile::from_bytes(bytes(&model)).unwrap(), &request).unwrap();
    let out = ModelFile::from_bytes(planned.model.to_vec()).unwrap();
    let operators: Vec<&str> = out.graph().node.iter().map(|node| node.op_type()).collect();
    assert!(!operators.contains(&"Cast") && is_proven(&planned, &model), "{operators:?}");
    let mut other = model.clone();
    let less = other.graph.as_mut().unwrap().node.iter_mut().find(|node| node.op_type() == "Less").unwrap();
    less.input.swap(0, 1);
    assert!(!is_proven(&planned, &other), "the mask is another one");
}
