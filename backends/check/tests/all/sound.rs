//! Valid plans pass, and computations that differ only in form are recognized as equal.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::fixture;

use std::time::{Duration, Instant};

use fixture::*;
use memc_check::{Kind, Options, Report};
use memc_layout::{AliasKind, Class, Io, LowerBound, Unplanned};
use memc_onnx_proto::onnx::{AttributeProto, NodeProto, OperatorSetIdProto, TensorProto};

const EXACT: Options =
    Options { equivalence: true, exact: true, one_folder: true, hashes: true, is_new: false };

/// Formats all violations, so that a failure shows them.
fn shown(report: &Report) -> Vec<String> {
    report
        .violations
        .iter()
        .map(|violation| format!("{}: {}", violation.kind.name(), violation.diagnostic.message))
        .collect()
}

/// Formats the violations, except for numbers that the hand-made plan does not update.
fn without_numbers(report: &Report) -> Vec<String> {
    let numbers = [Kind::Peak, Kind::ArenaSize, Kind::LowerBound, Kind::Weights, Kind::Baseline];
    let kept = report.violations.iter().filter(|violation| !numbers.contains(&violation.kind));
    kept.map(|violation| format!("{}: {}", violation.kind.name(), violation.diagnostic.message)).collect()
}

#[test]
fn a_right_plan_passes_with_every_io() {
    for io in [Io::Outputs, Io::Arena, Io::External] {
        let mut case = Case::default();
        case.io = io;
        let peak = case.layout().peak["device"].bytes;
        // Recomputation and transfers may go below the lower bound of any order.
        case.layout().lower_bound.get_mut("device").unwrap().order = Some(peak + 1);
        let report = case.report_with(EXACT);
        let found: Vec<String> =
            shown(&report).into_iter().filter(|text| !text.starts_with("baseline")).collect();
        assert_eq!(found, [""; 0], "{io:?}");
        let summary = report.summary;
        assert_eq!((summary.views, summary.in_place, summary.transfers, summary.anchors), (6, 3, 1, 1));
        assert_eq!((summary.recomputed_nodes, summary.extra_nodes, summary.unverified_shapes), (1, 0, 0));
        assert_eq!(summary.spaces["device"].peak, peak);
    }
}

#[test]
fn the_baseline_is_the_input_model_in_file_order_with_views() {
    let report = Case::default().report_with(EXACT);
    assert_eq!(shown(&report), [""; 0]);
    assert_eq!(report.remarks, [""; 0]);
    // At `join`: f 128, d 256, k0 and k1 256 each, and k 512. At `right`: without k, but with h.
    assert_eq!(report.summary.baseline.derived, 1408);
    let mut case = Case::default();
    case.layout().baseline.file_order_peak.insert("device".into(), 1200);
    let report = case.report();
    assert_eq!(shown(&report), [""; 0]);
    assert!(report.remarks[0].contains("every possible view"), "{:?}", report.remarks);
}

#[test]
fn gaps_between_values_of_bodies_may_count() {
    let most = |alignment: u64| {
        let mut case = Case::default();
        case.layout().arenas[0].alignment = alignment;
        case.report().summary.baseline.most
    };
    // Each of the two bodies of `choose` computes a value.
    assert!(most(1 << 20) >= 2 << 20, "{}", most(1 << 20));
    assert_eq!(most(0), most(1), "an alignment of nothing is none");
}

#[test]
fn a_wider_live_range_is_a_remark() {
    let mut case = Case::default();
    case.tensor("p").live[0].end += 1;
    let report = case.report();
    assert_eq!(without_numbers(&report), [""; 0]);
    assert_eq!(report.remarks, ["1 live ranges are wider than the derived ones"]);
}

#[test]
fn values_held_by_the_caller_need_no_live_range() {
    let mut case = Case::default();
    case.tensor("w").live.clear();
    case.tensor("flag").live = vec![memc_layout::LiveRange { start: 6, end: 7 }];
    assert_eq!(shown(&case.report()), [""; 0]);
}

#[test]
fn another_graph_is_a_remark_or_a_violation() {
    let mut case = Case::default();
    case.node("mix").input.reverse();
    let report = case.report();
    assert_eq!(shown(&report), [""; 0]);
    let first = "the first value that is not proven equal: `e` (Mul)";
    assert_eq!(report.remarks, ["rewritten, and not proven equal: needs numeric comparison: `f`", first]);
    assert_eq!(report.summary.rewritten_outputs, ["f"]);
    let exact = case.report_with(EXACT);
    assert!(exact.violations.iter().any(|violation| violation.kind == Kind::Rewritten));
    assert!(case.report_with(Options { equivalence: false, ..Options::default() }).remarks.is_empty());
}

#[test]
fn another_body_is_another_graph() {
    let mut case = Case::default();
    let branch = case.node("choose").attribute[0].g.as_mut().unwrap();
    branch.node[0].op_type = Some("Exp".into());
    assert_eq!(case.report().summary.rewritten_outputs, ["f"]);
}

/// Returns a Constant node with this tensor.
fn constant(name: &str, tensor: TensorProto) -> NodeProto {
    let value =
        AttributeProto { name: Some("value".into()), r#type: Some(4), t: Some(tensor), ..Default::default() };
    with(node(&format!("make_{name}"), "Constant", &[], &[name]), value)
}

#[test]
fn constants_identities_and_idle_reshapes_do_not_change_the_meaning() {
    let mut case = Case::default();
    // Edits of the output model: an initializer becomes a Constant node, a reshape to the operand's
    // shape and an Identity are inserted, and a reshape becomes two.
    case.graph().initializer.retain(|tensor| tensor.name() != "flat");
    case.insert(
        "fold",
        [constant("flat", ints("", &[2, 32])), node("idle", "Reshape", &["c", "square"], &["c2"])],
    );
    case.insert("fold", [node("turn", "Reshape", &["c2", "long"], &["c3"])]);
    case.graph().initializer.extend([ints("square", &[4, 16]), ints("long", &[64])]);
    case.node("fold").input[0] = "c3".into();
    case.insert("last", [node("same", "Identity", &["t"], &["t2"])]);
    case.node("last").input[0] = "t2".into();
    // Omitted operands at the end have no meaning.
    case.node("part").input.push(String::new());
    case.shapes.extend([
        ("square", (INT64, vec![2])),
        ("long", (INT64, vec![1])),
        ("c3", (FLOAT, vec![64])),
        ("t2", (FLOAT, vec![2, 16])),
    ]);
    case.constants.push("flat");
    let aliases = [("c2", "c", 0), ("c3", "c2", 0), ("r", "c3", 0), ("t2", "t", 0)];
    case.aliases.extend(aliases.map(|(part, whole, at)| (part, (whole, AliasKind::View, at))));
    assert_eq!(shown(&case.report_with(EXACT)), [""; 0]);
}

#[test]
fn a_transpose_that_moves_extents_of_one_keeps_the_order_of_elements() {
    let reshape =
        |from: &str, shape: &str, to: &str| node(&format!("make_{to}"), "Reshape", &[from, shape], &[to]);
    let turned = |axes: &[i64]| {
        let perm = AttributeProto {
            name: Some("perm".into()),
            r#type: Some(7),
            ints: axes.to_vec(),
            ..Default::default()
        };
        with(node("turn", "Transpose", &["a"], &["b"]), perm)
    };
    let shapes = |graph: &mut memc_onnx_proto::onnx::GraphProto| {
        graph.initializer = vec![ints("deep", &[4, 1, 1, 16]), ints("flat", &[2, 32])];
        graph.output = vec![info("z", FLOAT, &[2, 32])];
    };
    for (axes, dims, is_equal) in [([1, 0, 2, 3], [1, 4, 1, 16], true), ([2, 3, 0, 1], [1, 16, 4, 1], false)]
    {
        let mut case = Case::same(vec![reshape("x", "flat", "z")], shapes);
        let nodes = vec![reshape("x", "deep", "a"), turned(&axes), reshape("b", "flat", "z")];
        case.given = Case::same(nodes, shapes).given;
        case.shapes.extend([
            ("flat", (INT64, vec![2])),
            ("deep", (INT64, vec![4])),
            ("a", (FLOAT, vec![4, 1, 1, 16])),
            ("b", (FLOAT, dims.to_vec())),
            ("z", (FLOAT, vec![2, 32])),
            ("flag", (BOOL, vec![])),
        ]);
        assert_eq!(case.report().is_proven(), is_equal, "{axes:?}");
    }
}

/// Returns a model that turns the halves of `x` around, one with the other sign, and multiplies them with
/// `s`: the sign is that of this half of `x` or `s`, and the halves are in this order.
fn turned_halves(signed: &str, halves: [&str; 2], factors: [&str; 2]) -> Vec<NodeProto> {
    let last = |name: &str, operands: [&str; 2]| {
        let axis =
            AttributeProto { name: Some("axis".into()), r#type: Some(2), i: Some(-1), ..Default::default() };
        with(node(&format!("make_{name}"), "Concat", &operands, &[name]), axis)
    };
    let split = |from: &str, to: [&str; 2]| {
        let axis =
            AttributeProto { name: Some("axis".into()), r#type: Some(2), i: Some(1), ..Default::default() };
        with(node(&format!("split_{from}"), "Split", &[from, "eight"], &to), axis)
    };
    vec![
        node("wave", "Tanh", &["x"], &["s"]),
        split("x", ["a", "b"]),
        split("s", ["s1", "s2"]),
        node("sign", "Neg", &[signed], &["n"]),
        last("u", halves),
        last("t", factors),
        node("product", "Mul", &["u", "t"], &["p"]),
        node("sum", "Add", &["x", "p"], &["z"]),
    ]
}

#[test]
fn the_sign_of_a_half_is_that_of_its_product() {
    let edit = |graph: &mut memc_onnx_proto::onnx::GraphProto| {
        graph.initializer = vec![ints("eight", &[8, 8])];
        graph.output = vec![info("z", FLOAT, &[4, 16])];
    };
    let given = || turned_halves("b", ["n", "a"], ["s1", "s2"]);
    for (written, is_equal) in [
        (turned_halves("s1", ["b", "a"], ["n", "s2"]), true),
        (turned_halves("s2", ["b", "a"], ["s1", "n"]), false),
        (turned_halves("s1", ["a", "b"], ["n", "s2"]), false),
        (turned_halves("s1", ["b", "a"], ["s1", "s2"]), false),
        (turned_halves("s1", ["b", "b"], ["n", "s2"]), false),
        (turned_halves("b", ["n", "a"], ["s2", "s1"]), false),
        (turned_halves("s1", ["b", "a"], ["n", "n"]), false),
    ] {
        let mut case = Case::same(written, edit);
        case.given = Case::same(given(), edit).given;
        case.shapes.extend(["a", "b", "s1", "s2", "n"].map(|name| (name, (FLOAT, vec![4, 8]))));
        case.shapes.extend(["s", "u", "t", "p", "z"].map(|name| (name, (FLOAT, vec![4, 16]))));
        case.shapes.extend([("eight", (INT64, vec![2])), ("flag", (BOOL, vec![]))]);
        let report = case.report();
        assert_eq!(report.is_proven(), is_equal, "{:?}", shown(&report));
    }
}

#[test]
fn a_join_of_joins_is_one_join() {
    let join = |name: &str, operands: &[&str], axis: i64| {
        let axis = AttributeProto {
            name: Some("axis".into()),
            r#type: Some(2),
            i: Some(axis),
            ..Default::default()
        };
        with(node(&format!("make_{name}"), "Concat", operands, &[name]), axis)
    };
    let edit = |graph: &mut memc_onnx_proto::onnx::GraphProto| {
        graph.initializer.clear();
        graph.output = vec![info("z", FLOAT, &[12, 16])];
    };
    let parts = || vec![node("first", "Tanh", &["x"], &["a"]), node("second", "Exp", &["x"], &["b"])];
    let given = || {
        let mut nodes = parts();
        nodes.extend([
            join("u", &["a", "x"], 0),
            join("v", &["u", "b"], -2),
            node("relu", "Relu", &["v"], &["z"]),
        ]);
        nodes
    };
    for (order, is_equal) in [(["a", "x", "b"], true), (["a", "b", "x"], false)] {
        let mut nodes = parts();
        nodes.extend([join("v", &order, 0), node("relu", "Relu", &["v"], &["z"])]);
        let mut case = Case::same(nodes, edit);
        case.given = Case::same(given(), edit).given;
        case.shapes.extend(["a", "b"].map(|name| (name, (FLOAT, vec![4, 16]))));
        case.shapes.extend(["v", "z"].map(|name| (name, (FLOAT, vec![12, 16]))));
        case.shapes.extend([("u", (FLOAT, vec![8, 16])), ("flag", (BOOL, vec![]))]);
        assert_eq!(case.report().is_proven(), is_equal, "{order:?}");
    }
}

#[test]
fn updates_of_a_box_are_joined_with_the_rest() {
    let axis = |at: i64| int("axis", at);
    let slice = |name: &str, bounds: [&str; 2]| {
        node(&format!("take_{name}"), "Slice", &["x", bounds[0], bounds[1], "one"], &[name])
    };
    let updates = || [slice("part", ["none", "three"]), node("tanh", "Tanh", &["part"], &["u"])];
    // The columns from 5 on are the box; others, a row twice, and every other column are not.
    let cases = [
        ([0, 1, 2, 3], [5, 6, 7], "none", true),
        ([0, 1, 2, 3], [4, 5, 6], "none", false),
        ([0, 1, 2, 3], [5, 6, 8], "none", false),
        ([0, 1, 2, 2], [5, 6, 7], "none", false),
        ([0, 0, 0, 0], [5, 6, 7], "none", false),
        ([0, 1, 2, 3], [5, 7, 9], "none", false),
        ([0, 1, 2, 3], [-11, -10, -9], "none", false),
        ([0, 1, 2, 3], [5, 6, 7], "add", false),
    ];
    for (rows, columns, reduction, is_equal) in cases {
        let integers = |name: &str, dims: &[u64], values: &[i64]| {
            raw(name, 7, dims, values.iter().flat_map(|value| value.to_le_bytes()).collect())
        };
        let edit = |graph: &mut memc_onnx_proto::onnx::GraphProto| {
            graph.initializer = vec![
                integers("rows", &[4, 1, 1], &rows),
                integers("columns", &[3, 1], &columns),
                integers("wide", &[3], &[4, 3, 1]),
                ints("none", &[0]),
                ints("one", &[1]),
                ints("three", &[3]),
                ints("five", &[5]),
                ints("eight", &[8]),
                ints("all", &[16]),
            ];
            graph.output = vec![info("z", FLOAT, &[4, 16])];
        };
        let way = AttributeProto {
            name: Some("reduction".into()),
            r#type: Some(3),
            s: Some(reduction.as_bytes().to_vec()),
            ..Default::default()
        };
        let mut given = updates().to_vec();
        given.extend([
            node("rows_wide", "Expand", &["rows", "wide"], &["r"]),
            node("columns_wide", "Expand", &["columns", "wide"], &["c"]),
            with(node("indices", "Concat", &["r", "c"], &["i"]), axis(-1)),
            with(node("fill", "ScatterND", &["x", "i", "u"], &["y"]), way),
            node("relu", "Relu", &["y"], &["z"]),
        ]);
        let mut nodes = updates().to_vec();
        nodes.extend([
            slice("left", ["none", "five"]),
            slice("right", ["eight", "all"]),
            with(node("join", "Concat", &["left", "u", "right"], &["y"]), axis(1)),
            node("relu", "Relu", &["y"], &["z"]),
        ]);
        let mut case = Case::same(nodes, edit);
        case.given = Case::same(given, edit).given;
        case.shapes.extend(["part", "u"].map(|name| (name, (FLOAT, vec![4, 3]))));
        case.shapes.extend([("left", (FLOAT, vec![4, 5])), ("right", (FLOAT, vec![4, 8]))]);
        case.shapes.extend(["y", "z"].map(|name| (name, (FLOAT, vec![4, 16]))));
        case.shapes.extend(["r", "c"].map(|name| (name, (7, vec![4, 3, 1]))));
        case.shapes.extend([("i", (7, vec![4, 3, 2])), ("flag", (BOOL, vec![]))]);
        assert_eq!(case.report().is_proven(), is_equal, "{rows:?} {columns:?} {reduction}");
    }
}

#[test]
fn functions_that_follow_themselves_settle_or_undo_themselves() {
    let edit = |graph: &mut memc_onnx_proto::onnx::GraphProto| {
        graph.initializer.clear();
        graph.output = vec![info("z", FLOAT, &[4, 16])];
    };
    let chain = |names: &[&str]| -> Vec<NodeProto> {
        let value = |at: usize| format!("v{at}");
        let mut nodes: Vec<NodeProto> = (names.iter().enumerate())
            .map(|(at, name)| {
                let from = if at == 0 { "x".to_owned() } else { value(at - 1) };
                node(&format!("node_{at}"), name, &[&from], &[&value(at)])
            })
            .collect();
        nodes.push(with(
            node("last", "Cast", &[&value(names.len() - 1)], &["z"]),
            int("to", i64::from(FLOAT)),
        ));
        nodes
    };
    for (given, made, is_equal) in [
        (&["Exp", "Relu", "Relu"][..], &["Exp", "Relu"][..], true),
        (&["Exp", "Abs", "Abs", "Abs"], &["Exp", "Abs"], true),
        (&["Exp", "Neg", "Neg"], &["Exp"], true),
        (&["Exp", "Neg", "Neg", "Neg"], &["Exp", "Neg"], true),
        (&["IsNaN", "Not", "Not", "Not"], &["IsNaN", "Not"], true),
        (&["IsNaN", "Not", "Not"], &["IsNaN", "Not"], false),
        (&["Exp", "Relu", "Relu"], &["Exp"], false),
        (&["Exp", "Neg", "Neg"], &["Exp", "Neg"], false),
        (&["Exp", "Floor", "Abs"], &["Exp", "Floor"], false),
        (&["Exp", "Sigmoid", "Sigmoid"], &["Exp", "Sigmoid"], false),
    ] {
        let mut case = Case::same(chain(made), edit);
        case.given = Case::same(chain(given), edit).given;
        let kind = if given[0] == "IsNaN" { BOOL } else { FLOAT };
        case.shapes.extend(["v0", "v1", "v2", "v3"].map(|name| (name, (kind, vec![4, 16]))));
        case.shapes.extend([("z", (FLOAT, vec![4, 16])), ("flag", (BOOL, vec![]))]);
        assert_eq!(case.report().is_proven(), is_equal, "{given:?} {made:?}");
    }
}

#[test]
fn slices_are_looked_up_by_columns_and_by_places() {
    let columns = [("x", "l", "none", "half"), ("x", "r", "half", "all")];
    let shifted = [("x", "l", "none", "half"), ("x", "r", "one", "nine")];
    let lookups = |data: [&str; 2], places: [&str; 2]| {
        [0, 1].map(|at| {
            let result = ["yl", "yr"][at];
            node(&format!("look_{result}"), "GatherND", &[data[at], places[at]], &[result])
        })
    };
    let places = [("i", "l", "none", "two"), ("i", "r", "two", "four")];
    let turned = [("i", "l", "two", "four"), ("i", "r", "none", "two")];
    // Data are cut by columns, or places by rows; never so that a part sees others than the whole does.
    for (cuts, axis, data, chosen, is_equal) in [
        (columns, "one", ["l", "r"], ["i", "i"], true),
        (shifted, "one", ["l", "r"], ["i", "i"], false),
        (columns, "one", ["l", "l"], ["i", "i"], false),
        (places, "none", ["x", "x"], ["l", "r"], true),
        (turned, "none", ["x", "x"], ["l", "r"], false),
    ] {
        let edit = |graph: &mut memc_onnx_proto::onnx::GraphProto| {
            let bytes = [3_i64, 0, 2, 0].iter().flat_map(|row| row.to_le_bytes()).collect();
            graph.initializer = vec![
                raw("at", 7, &[4, 1], bytes),
                ints("none", &[0]),
                ints("one", &[1]),
                ints("two", &[2]),
                ints("four", &[4]),
                ints("half", &[8]),
                ints("nine", &[9]),
                ints("all", &[16]),
            ];
            graph.output = vec![info("z", FLOAT, &[4, 16])];
        };
        let first = || node("first", "Identity", &["at"], &["i"]);
        let given = vec![
            first(),
            node("look", "GatherND", &["x", "i"], &["y"]),
            node("relu", "Relu", &["y"], &["z"]),
        ];
        let along = i64::from(axis == "one");
        let mut nodes = vec![first()];
        nodes.extend(cuts.map(|(from, part, start, end)| {
            node(&format!("cut_{part}"), "Slice", &[from, start, end, axis], &[part])
        }));
        nodes.extend(lookups(data, chosen));
        nodes.extend([
            with(node("join", "Concat", &["yl", "yr"], &["y"]), int("axis", along)),
            node("relu", "Relu", &["y"], &["z"]),
        ]);
        let mut case = Case::same(nodes, edit);
        case.given = Case::same(given, edit).given;
        let (part, kind) = if along == 1 { (vec![4, 8], FLOAT) } else { (vec![2, 1], 7) };
        case.shapes.extend(["l", "r"].map(|name| (name, (kind, part.clone()))));
        let looked = if along == 1 { vec![4, 8] } else { vec![2, 16] };
        case.shapes.extend(["yl", "yr"].map(|name| (name, (FLOAT, looked.clone()))));
        case.shapes.extend(["y", "z"].map(|name| (name, (FLOAT, vec![4, 16]))));
        case.shapes.extend([("i", (7, vec![4, 1])), ("flag", (BOOL, vec![]))]);
        assert_eq!(case.report().is_proven(), is_equal, "{cuts:?} {data:?} {chosen:?}");
    }
}

#[test]
fn expansions_to_the_extents_of_operands_count_for_nothing() {
    let edit = |graph: &mut memc_onnx_proto::onnx::GraphProto| {
        graph.initializer = vec![ints("zero", &[0]), ints("one", &[1]), ints("wide", &[4, 16])];
        graph.output = vec![info("z", FLOAT, &[9, 16])];
    };
    let nodes = |sum: [&str; 2], order: [&str; 3]| {
        let axis =
            AttributeProto { name: Some("axis".into()), r#type: Some(2), i: Some(0), ..Default::default() };
        vec![
            node("row", "Slice", &["x", "zero", "one", "zero"], &["r"]),
            node("wide", "Expand", &["r", "wide"], &["e"]),
            node("sum", "Add", &sum, &["s"]),
            node("rows", "Add", &["e", "r"], &["m"]),
            node("row_alone", "Add", &["r", "r"], &["o"]),
            with(node("all", "Concat", &order, &["z"]), axis),
        ]
    };
    for (sum, order, is_equal) in [
        (["x", "r"], ["s", "m", "o"], true),
        (["x", "e"], ["s", "m", "o"], true),
        (["x", "r"], ["s", "o", "m"], false),
        (["e", "r"], ["s", "m", "o"], false),
    ] {
        let mut case = Case::same(nodes(sum, order), edit);
        case.given = Case::same(nodes(["x", "e"], ["s", "m", "o"]), edit).given;
        case.shapes.extend(["r", "o"].map(|name| (name, (FLOAT, vec![1, 16]))));
        case.shapes.extend(["e", "s", "m"].map(|name| (name, (FLOAT, vec![4, 16]))));
        case.shapes.extend(["zero", "one"].map(|name| (name, (INT64, vec![1]))));
        case.shapes.extend([
            ("wide", (INT64, vec![2])),
            ("z", (FLOAT, vec![9, 16])),
            ("flag", (BOOL, vec![])),
        ]);
        assert_eq!(case.report().is_proven(), is_equal, "{sum:?} {order:?}");
    }
}

#[test]
fn reshapes_of_a_value_of_unknown_extents_are_equal_if_they_state_all_others() {
    let edit = |graph: &mut memc_onnx_proto::onnx::GraphProto| {
        let targets = [("wide", [2, -1]), ("long", [-1, 2]), ("copy", [0, -1])];
        graph.initializer = targets.map(|(name, extents)| ints(name, &extents)).to_vec();
        graph.initializer.push(ints("zero", &[0]));
        graph.output = vec![info("z", FLOAT, &[2, 32])];
    };
    let mystery = || {
        let mut node = node("find", "Mystery", &["x"], &["c"]);
        node.domain = Some("custom".into());
        node
    };
    let reshape = |from: &str, target: &str| node("last", "Reshape", &[from, target], &["z"]);
    let given = |target: &str| {
        vec![mystery(), node("lift", "Unsqueeze", &["c", "zero"], &["u"]), reshape("u", target)]
    };
    for (target, planned, is_equal) in
        [("wide", "wide", true), ("long", "long", true), ("wide", "long", false), ("copy", "copy", false)]
    {
        let nodes = vec![mystery(), reshape("c", planned)];
        let mut case = Case::same(nodes, edit);
        case.given = Case::same(given(target), edit).given;
        case.shapes.extend(["wide", "long", "copy"].map(|name| (name, (INT64, vec![2]))));
        case.shapes.extend([
            ("zero", (INT64, vec![1])),
            ("c", (FLOAT, vec![64])),
            ("z", (FLOAT, vec![2, 32])),
            ("flag", (BOOL, vec![])),
        ]);
        for model in [&mut case.given, &mut case.out] {
            model.opset_import.push(OperatorSetIdProto { domain: Some("custom".into()), version: Some(1) });
        }
        case.layout().tensors.retain(|tensor| tensor.name != "c");
        case.layout().unplanned.push(Unplanned {
            name: "c".into(),
            reason: "its size depends on data".into(),
            ..Unplanned::default()
        });
        assert_eq!(case.report().is_proven(), is_equal, "{target} {planned}");
    }
}

#[test]
fn a_folded_shape_equals_its_computation_unless_a_caller_may_change_it() {
    let nodes = |folded: bool| {
        let reshape = node("fold", "Reshape", &["x", if folded { "flat" } else { "sum" }], &["z"]);
        if folded { vec![reshape] } else { vec![node("add", "Add", &["half", "half"], &["sum"]), reshape] }
    };
    for overridable in [false, true] {
        let edit = |graph: &mut memc_onnx_proto::onnx::GraphProto| {
            graph.initializer = vec![ints("half", &[1, 16]), ints("flat", &[2, 32])];
            graph.output = vec![info("z", FLOAT, &[2, 32])];
            if overridable {
                graph.input.push(info("half", INT64, &[2]));
            }
        };
        let mut case = Case::same(nodes(true), edit);
        case.given = Case::same(nodes(false), edit).given;
        case.shapes.extend([
            ("half", (INT64, vec![2])),
            ("flat", (INT64, vec![2])),
            ("z", (FLOAT, vec![2, 32])),
            ("flag", (BOOL, vec![])),
        ]);
        let report = case.report_with(EXACT);
        // The plan fixes the result's extents in either case. Only equality of the elements matters.
        assert_eq!(without_numbers(&report), [""; 0], "{overridable}");
        // A gathered value depends on the elements, so an overridable initializer changes the meaning.
        let gather = |shape: &str| vec![node("pick", "Gather", &["x", shape], &["z"])];
        let edit = |graph: &mut memc_onnx_proto::onnx::GraphProto| {
            edit(graph);
            graph.output = vec![info("z", FLOAT, &[2, 16])];
            graph.initializer = vec![ints("half", &[0, 1]), ints("flat", &[0, 2])];
        };
        let mut case = Case::same(gather("flat"), edit);
        let mut computed = gather("sum");
        computed.insert(0, node("add", "Add", &["half", "half"], &["sum"]));
        case.given = Case::same(computed, edit).given;
        case.shapes.extend([
            ("half", (INT64, vec![2])),
            ("flat", (INT64, vec![2])),
            ("z", (FLOAT, vec![2, 16])),
            ("flag", (BOOL, vec![])),
        ]);
        let rewritten =
            case.report_with(EXACT).violations.iter().any(|violation| violation.kind == Kind::Rewritten);
        assert_eq!(rewritten, overridable);
    }
}

#[test]
fn values_of_unknown_size_are_unplanned_or_taken_from_the_layout() {
    let mut case = Case::default();
    for model in [&mut case.given, &mut case.out] {
        model.opset_import.push(OperatorSetIdProto { domain: Some("custom".into()), version: Some(1) });
        let graph = model.graph.as_mut().unwrap();
        let last = graph.node.iter_mut().find(|node| node.name() == "last").unwrap();
        (last.op_type, last.domain) = (Some("Mystery".into()), Some("custom".into()));
        graph.output[1].r#type = None;
    }
    case.insert("left", [node("find", "NonZero", &["h"], &["where"])]);
    case.layout().tensors.retain(|tensor| tensor.name != "where");
    case.layout().unplanned.push(Unplanned {
        name: "where".into(),
        reason: "its size depends on data".into(),
        ..Unplanned::default()
    });
    let report = case.report_with(EXACT);
    assert_eq!(without_numbers(&report), [""; 0]);
    assert_eq!(report.summary.unverified_shapes, 1);
    assert!(report.remarks[0].starts_with("1 shapes are taken from the layout"), "{:?}", report.remarks);
}

#[test]
fn a_flaw_of_the_input_model_is_a_remark() {
    let mut case = Case::default();
    case.both(|graph| graph.value_info.push(info("d", FLOAT, &[1, 16])));
    let report = case.report();
    assert_eq!(shown(&report), [""; 0]);
    assert!(report.remarks.iter().any(|text| text.starts_with("in both models:")), "{:?}", report.remarks);
}

#[test]
fn absent_external_data_is_compared_by_its_place() {
    let mut case = Case::default();
    case.both(|graph| {
        let weight = &mut graph.initializer[0];
        (weight.raw_data, weight.data_location) = (None, Some(1));
        let entry = |key: &str, value: &str| memc_onnx_proto::onnx::StringStringEntryProto {
            key: Some(key.into()),
            value: Some(value.into()),
        };
        weight.external_data = vec![entry("location", "absent.bin"), entry("offset", "64")];
    });
    let report = case.report_with(EXACT);
    assert_eq!(shown(&report), [""; 0]);
    assert_eq!(report.summary.external_constants, 1);
    case.out.graph.as_mut().unwrap().initializer[0].external_data[1].value = Some("128".into());
    assert_eq!(case.report().summary.rewritten_outputs, ["f", "z"]);
}

#[test]
fn an_order_proved_optimal_passes_without_recomputes_and_transfers() {
    let chain = vec![node("one", "Relu", &["x"], &["a"]), node("two", "MatMul", &["a", "w"], &["z"])];
    let mut case = Case::same(chain, |graph| graph.output = vec![info("z", FLOAT, &[4, 16])]);
    case.shapes.extend([("w", (FLOAT, vec![16, 16])), ("flag", (BOOL, vec![]))]);
    case.shapes.extend([("flat", (INT64, vec![2])), ("from", (INT64, vec![1])), ("to", (INT64, vec![1]))]);
    case.layout().baseline.file_order_peak.insert("device".into(), 512);
    let proof = LowerBound { placement: 512, order: Some(512), order_proved: true, placement_proved: true };
    case.layout().lower_bound.insert("device".into(), proof);
    assert_eq!(shown(&case.report_with(EXACT)), [""; 0]);
    for order in [256, 511, 513] {
        case.layout().lower_bound.get_mut("device").unwrap().order = Some(order);
        assert_eq!(case.report().violations[0].kind, Kind::LowerBound, "{order}");
    }
    // A peak below the bytes of one node is as wrong as the live ranges behind it, and so is its proof.
    case.tensor("a").live[0].end = 1;
    case.layout().peak.get_mut("device").unwrap().bytes = 256;
    case.layout().lower_bound.get_mut("device").unwrap().order = Some(256);
    let said = "the step of one node needs at least 512 B";
    assert!(case.report().violations.iter().any(|violation| violation.diagnostic.message.contains(said)));
}

#[test]
fn a_bound_of_orders_that_no_single_step_shows_is_a_remark() {
    // The small result of one branch waits while the other branch runs. Either branch may run first.
    let nodes = vec![
        node("up", "MatMul", &["x", "w"], &["a"]),
        node("down", "ReduceMax", &["a"], &["b"]),
        node("up2", "MatMul", &["x", "w"], &["c"]),
        node("down2", "ReduceMax", &["c"], &["d"]),
        node("join", "Sub", &["b", "d"], &["z"]),
    ];
    let mut case = Case::same(nodes, |graph| graph.output = vec![info("z", FLOAT, &[1, 1])]);
    case.shapes.extend([("w", (FLOAT, vec![16, 16])), ("flag", (BOOL, vec![]))]);
    case.shapes.extend([("flat", (INT64, vec![2])), ("from", (INT64, vec![1])), ("to", (INT64, vec![1]))]);
    case.shapes.extend(["b", "d", "z"].map(|name| (name, (FLOAT, vec![1, 1]))));
    let peak = 4 + 256 + 4;
    case.layout().baseline.file_order_peak.insert("device".into(), peak);
    let claim = |order| LowerBound {
        placement: peak,
        order: Some(order),
        order_proved: order == peak,
        placement_proved: false,
    };
    for (order, remark) in [
        (264, Some("264 B is not verified; the check derives a bound of 260 B")),
        (260, None),
        (256, Some("256 B is weak; the check derives a bound of 260 B")),
    ] {
        case.layout().lower_bound.insert("device".into(), claim(order));
        let report = case.report_with(EXACT);
        assert_eq!(shown(&report), [""; 0]);
        assert_eq!(report.summary.spaces["device"].order_bound, 260);
        let found = report.remarks.iter().find(|text| text.contains("the order's bound"));
        assert_eq!(found.is_some(), remark.is_some(), "{found:?}");
        assert!(found.zip(remark).is_none_or(|(found, remark)| found.contains(remark)), "{found:?}");
    }
}

#[test]
fn the_order_bound_counts_bytes_overwritten_in_place_once() {
    let bound =
        |nodes: Vec<NodeProto>, shapes: &[(&'static str, Vec<u64>)], views: &[(&'static str, u64)]| {
            let mut case = Case::same(nodes, |graph| graph.output = vec![info("z", FLOAT, &[-1, -1])]);
            case.shapes.extend([("w", (FLOAT, vec![16, 16])), ("flag", (BOOL, vec![]))]);
            case.shapes.extend([
                ("flat", (INT64, vec![2])),
                ("from", (INT64, vec![1])),
                ("to", (INT64, vec![1])),
            ]);
            case.shapes.extend(shapes.iter().map(|(name, shape)| (*name, (FLOAT, shape.clone()))));
            case.aliases.extend(views.iter().map(|(name, at)| (*name, ("a", AliasKind::View, *at))));
            case.report().summary.spaces["device"].order_bound
        };
    let up = || node("up", "MatMul", &["x", "w"], &["a"]);
    // The result of `bend` may overwrite the 256 bytes of `a`. At `down`, 4 more bytes are live.
    let nodes = vec![up(), node("bend", "Relu", &["a"], &["b"]), node("down", "ReduceMax", &["b"], &["z"])];
    assert_eq!(bound(nodes, &[("z", vec![1, 1])], &[]), 260);
    // The halves of `a` are overwritten while the whole stays live. Only its 256 bytes are surely live.
    let nodes = vec![
        up(),
        with(node("cut", "Split", &["a"], &["s0", "s1"]), int("axis", 0)),
        node("bend", "Relu", &["s0"], &["r"]),
        node("join", "Sub", &["s1", "r"], &["z"]),
    ];
    let half = || vec![2, 16];
    assert_eq!(
        bound(
            nodes,
            &[("s0", half()), ("s1", half()), ("r", half()), ("z", half())],
            &[("s0", 0), ("s1", 128)]
        ),
        256
    );
}

/// Returns a chain of `count` nodes with long skips, and a plan that reuses each freed slot for the
/// next tensor.
fn chain(count: usize) -> Case {
    let name = |index: usize| format!("v{index}");
    let skip = |index: usize| name((index - 1).saturating_sub((index * 7) % 97));
    let mut nodes = vec![node("n0", "Relu", &["x"], &["v0"])];
    nodes.extend(
        (1..count).map(|index| {
            node(&format!("n{index}"), "Max", &[&name(index - 1), &skip(index)], &[&name(index)])
        }),
    );
    let last = name(count - 1);
    let mut case = Case::same(nodes, |graph| {
        graph.output = vec![info(&last, FLOAT, &[4, 16])];
        graph.input = vec![info("x", FLOAT, &[-1, 16])];
        graph.initializer.clear();
    });
    case.shapes.insert("flag", (BOOL, vec![]));
    let layout = case.layout();
    let mut ends: Vec<Option<u64>> = Vec::new();
    for tensor in layout.tensors.iter_mut().filter(|tensor| tensor.class != Class::Input) {
        let range = tensor.live[0];
        let free = ends.iter().position(|end| end.is_none_or(|end| end <= range.start));
        let slot = free.unwrap_or_else(|| {
            ends.push(None);
            ends.len() - 1
        });
        ends[slot] = Some(range.end);
        tensor.offset = Some(slot as u64 * 256);
    }
    layout.arenas[0].size = ends.len() as u64 * 256;
    case
}

#[test]
fn many_tensors_are_swept_quickly_and_one_overlap_is_found() {
    let mut case = chain(6_000);
    let started = Instant::now();
    let report = case.report_with(EXACT);
    assert_eq!(without_numbers(&report), [""; 0]);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    let offset = case.tensor("v2999").offset;
    case.tensor("v3000").offset = offset;
    assert!(case.report().violations.iter().any(|violation| violation.kind == Kind::Overlap));
}

#[test]
fn a_model_without_nodes_needs_no_offsets() {
    let mut case = Case::same(vec![], |graph| {
        graph.input = vec![info("x", FLOAT, &[4]), info("y", FLOAT, &[4])];
        graph.output = vec![info("y", FLOAT, &[4])];
        graph.initializer.clear();
    });
    case.io = Io::Arena;
    case.shapes.extend([("x", (FLOAT, vec![4])), ("y", (FLOAT, vec![4]))]);
    case.layout().model.dims.clear();
    case.layout().model.bound = false;
    for arena in &mut case.layout().arenas {
        arena.size = 0;
    }
    for tensor in &mut case.layout().tensors {
        (tensor.space, tensor.offset, tensor.live) = (None, None, Vec::new());
    }
    assert_eq!(without_numbers(&case.report_with(EXACT)), [""; 0]);
}
