//! Shared bytes by operator: sub-views at exact offsets, and operands that may be overwritten.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::fixture;

use fixture::*;
use memc_check::Kind;
use memc_layout::AliasKind;
use memc_onnx_proto::onnx::{AttributeProto, NodeProto, TensorProto};

fn list(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto { name: Some(name.into()), r#type: Some(7), ints: values.to_vec(), ..Default::default() }
}

fn flag(name: &str, value: u8) -> TensorProto {
    TensorProto {
        name: Some(name.into()),
        data_type: Some(BOOL),
        dims: vec![],
        raw_data: Some(vec![value].into()),
        ..Default::default()
    }
}

/// Returns a case around one node. Other nodes compute `x` and `q` before it and read `y` after it.
/// Constants are initializers.
fn around(
    item: &NodeProto,
    shapes: &[(&'static str, &[u64])],
    constants: &[TensorProto],
    opset: i64,
) -> Case {
    let dims = |name: &str| -> Vec<i64> {
        let found = shapes.iter().find(|(other, _)| *other == name).map_or(&[4, 16][..], |(_, dims)| dims);
        found.iter().map(|extent| *extent as i64).collect()
    };
    let constant = |name: &str| constants.iter().any(|tensor| tensor.name() == name);
    let operands: Vec<&'static str> = ["x", "q", "p"]
        .into_iter()
        .filter(|name| item.input.iter().any(|input| input == name) && !constant(name))
        .collect();
    let given: Vec<&'static str> = ["b", "e", "s"]
        .into_iter()
        .filter(|name| item.input.iter().any(|input| input == name) && !constant(name))
        .collect();
    let mut nodes: Vec<NodeProto> = operands
        .iter()
        .map(|name| node(&format!("make_{name}"), "Abs", &[&format!("{name}0")], &[name]))
        .collect();
    nodes.push(item.clone());
    let results: Vec<&String> = item.output.iter().filter(|name| !name.is_empty()).collect();
    nodes.extend(
        results.iter().map(|name| node(&format!("use_{name}"), "Abs", &[name], &[&format!("{name}_out")])),
    );
    // Equal input and output models, with shapes for all values.
    let mut case = Case::same(nodes, |graph| {
        graph.initializer = constants.to_vec();
        graph.input = operands.iter().map(|name| info(&format!("{name}0"), FLOAT, &dims(name))).collect();
        graph.input.extend(given.iter().map(|name| info(name, INT64, &[1])));
        graph.output = results.iter().map(|name| info(&format!("{name}_out"), FLOAT, &dims(name))).collect();
    });
    for model in [&mut case.given, &mut case.out] {
        model.opset_import[0].version = Some(opset);
    }
    for (name, extents) in shapes {
        case.shapes.insert(name, (FLOAT, extents.to_vec()));
        let (before, after): (&'static str, &'static str) = match *name {
            "x" => ("x0", "x_out"),
            "q" => ("q0", "q_out"),
            "y" => ("y0", "y_out"),
            other => panic!("no such name: {other}"),
        };
        case.shapes.insert(before, (FLOAT, extents.to_vec()));
        case.shapes.insert(after, (FLOAT, extents.to_vec()));
    }
    for name in ["b", "e", "s", "axes"] {
        case.shapes.insert(name, (INT64, vec![1]));
    }
    for tensor in constants {
        let name: &'static str = ["b", "e", "s", "axes", "flat", "false", "true"]
            .into_iter()
            .find(|name| *name == tensor.name())
            .unwrap_or_else(|| panic!("no such constant: {}", tensor.name()));
        let element = if tensor.data_type == Some(BOOL) { BOOL } else { INT64 };
        case.shapes.insert(name, (element, tensor.dims.iter().map(|extent| *extent as u64).collect()));
    }
    case.layout().model.dims.clear();
    case.layout().model.bound = false;
    case
}

/// Returns the kinds of violations about views, if `part` is stated to be a view of `whole` at an
/// offset.
fn as_view(case: &mut Case, part: &'static str, whole: &'static str, offset: u64) -> Vec<Kind> {
    let (space, base) = {
        let owner = case.tensor(whole);
        (owner.space.clone(), owner.offset.unwrap())
    };
    let tensor = case.tensor(part);
    tensor.alias = Some(memc_layout::Alias {
        of: whole.into(),
        kind: AliasKind::View,
        alias_offset: offset,
        alias_offset_expr: None,
    });
    (tensor.space, tensor.offset) = (space, Some(base + offset));
    let report = case.report();
    let ours = [
        Kind::View,
        Kind::ViewOffset,
        Kind::Type,
        Kind::Model,
        Kind::Class,
        Kind::MissingTensor,
        Kind::Overlap,
    ];
    report.violations.iter().map(|violation| violation.kind).filter(|kind| ours.contains(kind)).collect()
}

type Row =
    (&'static str, NodeProto, Vec<(&'static str, &'static [u64])>, Vec<TensorProto>, &'static [u64], i64);

fn rows() -> Vec<Row> {
    let slice = |inputs: &[&str]| node("it", "Slice", inputs, &["y"]);
    let x: (&'static str, &'static [u64]) = ("x", &[4, 16]);
    vec![
        (
            "rows",
            slice(&["x", "b", "e"]),
            vec![x, ("y", &[2, 16])],
            vec![ints("b", &[1]), ints("e", &[3])],
            &[64],
            17,
        ),
        (
            "last rows",
            slice(&["x", "b", "e"]),
            vec![x, ("y", &[2, 16])],
            vec![ints("b", &[-2]), ints("e", &[9])],
            &[128],
            17,
        ),
        (
            "clamped",
            slice(&["x", "b", "e"]),
            vec![x, ("y", &[2, 16])],
            vec![ints("b", &[-9]), ints("e", &[2])],
            &[0],
            17,
        ),
        (
            "every other row",
            slice(&["x", "b", "e", "axes", "s"]),
            vec![x, ("y", &[2, 16])],
            vec![ints("b", &[0]), ints("e", &[4]), ints("axes", &[0]), ints("s", &[2])],
            &[],
            17,
        ),
        (
            "columns",
            slice(&["x", "b", "e", "axes"]),
            vec![x, ("y", &[4, 8])],
            vec![ints("b", &[4]), ints("e", &[12]), ints("axes", &[1])],
            &[],
            17,
        ),
        (
            "columns of a row",
            slice(&["x", "b", "e", "axes"]),
            vec![("x", &[1, 16]), ("y", &[1, 8])],
            vec![ints("b", &[4]), ints("e", &[12]), ints("axes", &[-1])],
            &[16],
            17,
        ),
        (
            "by attribute",
            with(with(slice(&["x"]), list("starts", &[1])), list("ends", &[3])),
            vec![x, ("y", &[2, 16])],
            vec![],
            &[64],
            9,
        ),
        (
            "split",
            with(node("it", "Split", &["x"], &["q", "y"]), int("axis", 0)),
            vec![x, ("q", &[2, 16]), ("y", &[2, 16])],
            vec![],
            &[128],
            17,
        ),
        (
            "split from behind",
            with(node("it", "Split", &["x"], &["q", "y"]), int("axis", -2)),
            vec![x, ("q", &[2, 16]), ("y", &[2, 16])],
            vec![],
            &[128],
            17,
        ),
        (
            "split columns",
            with(node("it", "Split", &["x"], &["q", "y"]), int("axis", 1)),
            vec![x, ("q", &[4, 8]), ("y", &[4, 8])],
            vec![],
            &[],
            17,
        ),
        (
            "reshape",
            node("it", "Reshape", &["x", "flat"], &["y"]),
            vec![x, ("y", &[64])],
            vec![ints("flat", &[64])],
            &[0],
            17,
        ),
        (
            "squeeze",
            node("it", "Squeeze", &["x"], &["y"]),
            vec![("x", &[1, 16]), ("y", &[16])],
            vec![],
            &[0],
            17,
        ),
        ("identity", node("it", "Identity", &["x"], &["y"]), vec![x], vec![], &[0], 17),
        ("cast to itself", with(node("it", "Cast", &["x"], &["y"]), int("to", 1)), vec![x], vec![], &[0], 17),
        (
            "transpose",
            with(node("it", "Transpose", &["x"], &["y"]), list("perm", &[1, 0])),
            vec![x, ("y", &[16, 4])],
            vec![],
            &[],
            17,
        ),
        ("element by element", node("it", "Relu", &["x"], &["y"]), vec![x], vec![], &[], 17),
    ]
}

#[test]
fn sub_views_lie_at_the_offsets_of_their_operator() {
    for (what, item, shapes, constants, expected, opset) in rows() {
        for offset in [0, 16, 64, 128] {
            let found = as_view(&mut around(&item, &shapes, &constants, opset), "y", "x", offset);
            match (expected.is_empty(), expected.contains(&offset)) {
                (true, _) => assert!(found.contains(&Kind::View), "{what} at {offset}: {found:?}"),
                (false, true) => assert!(found.is_empty(), "{what} at {offset}: {found:?}"),
                (false, false) => assert!(found.contains(&Kind::ViewOffset), "{what} at {offset}: {found:?}"),
            }
        }
    }
}

#[test]
fn operands_may_be_views_of_a_concat_or_reshape_result() {
    let concat = |axis: i64| with(node("it", "Concat", &["q", "x"], &["y"]), int("axis", axis));
    let shapes: Vec<(&'static str, &'static [u64])> = vec![("x", &[2, 16]), ("q", &[2, 16]), ("y", &[4, 16])];
    assert_eq!(as_view(&mut around(&concat(0), &shapes, &[], 17), "x", "y", 128), []);
    assert_eq!(as_view(&mut around(&concat(0), &shapes, &[], 17), "x", "y", 0), [Kind::ViewOffset]);
    let shapes: Vec<(&'static str, &'static [u64])> = vec![("x", &[4, 8]), ("q", &[4, 8]), ("y", &[4, 16])];
    assert_eq!(as_view(&mut around(&concat(1), &shapes, &[], 17), "x", "y", 0), [Kind::View]);
    let reshape = node("it", "Reshape", &["x", "flat"], &["y"]);
    let shapes: Vec<(&'static str, &'static [u64])> = vec![("x", &[4, 16]), ("y", &[64])];
    assert_eq!(as_view(&mut around(&reshape, &shapes, &[ints("flat", &[64])], 17), "x", "y", 0), []);
    // A sub-view of the whole is no place for the whole.
    let split = with(node("it", "Split", &["x"], &["q", "y"]), int("axis", 0));
    let shapes: Vec<(&'static str, &'static [u64])> = vec![("x", &[4, 16]), ("q", &[2, 16]), ("y", &[2, 16])];
    assert_eq!(as_view(&mut around(&split, &shapes, &[], 17), "x", "y", 0), [Kind::View]);
}

#[test]
fn a_slice_with_starts_from_the_caller_is_no_sub_view() {
    let item = node("it", "Slice", &["x", "b", "e"], &["y"]);
    let shapes: Vec<(&'static str, &'static [u64])> = vec![("x", &[4, 16]), ("y", &[2, 16])];
    let mut case = around(&item, &shapes, &[ints("b", &[1]), ints("e", &[3])], 17);
    for model in [&mut case.given, &mut case.out] {
        let graph = model.graph.as_mut().unwrap();
        graph.input.extend([info("b", INT64, &[1]), info("e", INT64, &[1])]);
    }
    case.layout().model.output_sha256.clear();
    assert!(as_view(&mut case, "y", "x", 64).contains(&Kind::View));
}

/// Whether the first result of a node may overwrite its operand.
fn overwrites(item: &NodeProto, operand: &'static str, constants: &[TensorProto]) -> bool {
    overwrites_in(17, item, operand, constants)
}

fn overwrites_in(opset: i64, item: &NodeProto, operand: &'static str, constants: &[TensorProto]) -> bool {
    let mut case = around(item, &[("x", &[16, 16]), ("q", &[16, 16]), ("y", &[16, 16])], constants, opset);
    let (space, offset) = {
        let owner = case.tensor(operand);
        (owner.space.clone(), owner.offset)
    };
    let tensor = case.tensor("y");
    tensor.alias = Some(memc_layout::Alias {
        of: operand.into(),
        kind: AliasKind::InPlace,
        alias_offset: 0,
        alias_offset_expr: None,
    });
    (tensor.space, tensor.offset) = (space, offset);
    let report = case.report();
    assert!(
        report.violations.iter().all(|violation| violation.kind != Kind::Model),
        "{:?}",
        report.violations
    );
    !report.violations.iter().any(|violation| violation.kind == Kind::InPlaceOperator)
}

#[test]
fn only_element_by_element_operators_overwrite() {
    assert!(overwrites(&node("it", "Relu", &["x"], &["y"]), "x", &[]));
    assert!(overwrites(&node("it", "Add", &["q", "x"], &["y"]), "x", &[]));
    assert!(overwrites(&node("it", "Sub", &["q", "x"], &["y"]), "q", &[]));
    assert!(overwrites(&node("it", "Add", &["x", "x"], &["y"]), "x", &[]));
    assert!(!overwrites(&node("it", "MatMul", &["q", "x"], &["y"]), "x", &[]));
    assert!(!overwrites(&with(node("it", "Transpose", &["x"], &["y"]), list("perm", &[1, 0])), "x", &[]));
    assert!(overwrites(&node("it", "Dropout", &["x"], &["y"]), "x", &[]));
    assert!(overwrites(&node("it", "Dropout", &["x", "", "false"], &["y"]), "x", &[flag("false", 0)]));
    assert!(!overwrites(&node("it", "Dropout", &["x", "", "true"], &["y"]), "x", &[flag("true", 1)]));
    // In operator set 9, Dropout never trains, and its mask is a float.
    assert!(overwrites_in(9, &node("it", "Dropout", &["x"], &["y", "q"]), "x", &[]));
    let normalize = |results: &[&str]| node("it", "BatchNormalization", &["x", "q", "q", "q", "q"], results);
    assert!(overwrites_in(9, &normalize(&["y"]), "x", &[]));
    assert!(!overwrites_in(9, &normalize(&["y", "mean", "var"]), "x", &[]));
}
