//! Results other than arrays, and sizes that only the file states: nothing crashes, and everything is
//! compared or reported.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support;

use std::collections::BTreeMap;

use memc_layout::Layout;
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::attribute_proto::AttributeType;
use memc_onnx_proto::onnx::type_proto::{Map, Optional, Sequence, Tensor, Value};
use memc_onnx_proto::onnx::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TypeProto,
    ValueInfoProto,
};
use memc_ort::{
    Array, Content, Difference, Element, Error, PlayOptions, Player, SessionOptions, Stock, Subject,
    Tolerance, Verified, VerifyOptions, Whole, inputs, verify,
};
use support::graph::{FLOAT, INT64, integer, model, node, value};
use support::{plan, runtime, written};

const STRING: i32 = 8;
const BOOL: i32 = 9;
const HALF: i32 = 10;

fn tensor(number: i32, dims: &[i64]) -> TypeProto {
    value("", number, Some(dims)).r#type.expect("a type")
}

fn of(value: Value) -> TypeProto {
    TypeProto { denotation: None, value: Some(value) }
}

fn sequence(inner: TypeProto) -> TypeProto {
    of(Value::SequenceType(Box::new(Sequence { elem_type: Some(Box::new(inner)) })))
}

fn optional(inner: TypeProto) -> TypeProto {
    of(Value::OptionalType(Box::new(Optional { elem_type: Some(Box::new(inner)) })))
}

fn typed(name: &str, ty: TypeProto) -> ValueInfoProto {
    ValueInfoProto { name: Some(name.to_owned()), r#type: Some(ty), ..ValueInfoProto::default() }
}

fn with(node: NodeProto, attribute: AttributeProto) -> NodeProto {
    NodeProto { attribute: vec![attribute], ..node }
}

/// Returns a node that makes an empty optional.
fn nothing(name: &str, ty: TypeProto) -> NodeProto {
    let mut attribute =
        AttributeProto { name: Some("type".to_owned()), tp: Some(ty), ..AttributeProto::default() };
    attribute.set_type(AttributeType::TypeProto);
    with(node("Optional", &[], &[name]), attribute)
}

fn constant(name: &str, tensor: TensorProto) -> NodeProto {
    let mut attribute =
        AttributeProto { name: Some("value".to_owned()), t: Some(tensor), ..AttributeProto::default() };
    attribute.set_type(AttributeType::Tensor);
    with(node("Constant", &[], &[name]), attribute)
}

fn strings(texts: &[&'static [u8]]) -> TensorProto {
    let string_data = texts.iter().map(|text| (*text).into()).collect();
    TensorProto {
        data_type: Some(STRING),
        dims: vec![texts.len() as i64],
        string_data,
        ..TensorProto::default()
    }
}

fn float(name: &str, number: f32) -> TensorProto {
    let raw_data = Some(number.to_le_bytes().to_vec().into());
    TensorProto { name: Some(name.to_owned()), data_type: Some(FLOAT), raw_data, ..TensorProto::default() }
}

/// Returns a model with outputs of every kind: none, sequences, maps, strings, arrays without elements,
/// an input, a constant.
fn all_kinds() -> ModelProto {
    let labels = |values: &[i64]| {
        let name = Some("classlabels_int64s".to_owned());
        let mut attribute = AttributeProto { name, ints: values.to_vec(), ..AttributeProto::default() };
        attribute.set_type(AttributeType::Ints);
        attribute
    };
    let zip = NodeProto { domain: Some("ai.onnx.ml".to_owned()), ..node("ZipMap", &["product"], &["map"]) };
    let empty = TensorProto { data_type: Some(FLOAT), dims: vec![0, 3], ..TensorProto::default() };
    let map = Map { key_type: Some(INT64), value_type: Some(Box::new(tensor(FLOAT, &[]))) };
    let graph = GraphProto {
        name: Some("kinds".to_owned()),
        node: vec![
            node("Mul", &["x", "factor"], &["product"]),
            nothing("none", tensor(FLOAT, &[2, 3])),
            nothing("none_of_many", sequence(tensor(FLOAT, &[2, 3]))),
            node("OptionalHasElement", &["none"], &["has"]),
            node("SequenceConstruct", &["x", "product"], &["many"]),
            node("Optional", &["many"], &["some"]),
            node("SequenceEmpty", &[], &["few"]),
            with(zip, labels(&[7, 3, 9])),
            constant("text", strings(&[b"", b"\xff\xfe\0", b"abc", b""])),
            constant("no_text", strings(&[])),
            with(node("Cast", &["product"], &["digits"]), integer("to", STRING.into())),
            node("SequenceConstruct", &["digits", "text"], &["texts"]),
            constant("empty", empty),
            node("Identity", &["factor"], &["copy"]),
        ],
        input: vec![value("x", FLOAT, Some(&[2, 3]))],
        output: vec![
            typed("none", optional(tensor(FLOAT, &[2, 3]))),
            typed("none_of_many", optional(sequence(tensor(FLOAT, &[2, 3])))),
            value("has", BOOL, Some(&[])),
            typed("some", optional(sequence(tensor(FLOAT, &[2, 3])))),
            typed("few", sequence(value("", FLOAT, None).r#type.unwrap())),
            typed("map", sequence(of(Value::MapType(Box::new(map))))),
            value("text", STRING, Some(&[4])),
            value("no_text", STRING, Some(&[0])),
            value("digits", STRING, Some(&[2, 3])),
            typed("texts", sequence(of(Value::TensorType(Tensor { elem_type: Some(STRING), shape: None })))),
            value("empty", FLOAT, Some(&[0, 3])),
            value("copy", FLOAT, Some(&[])),
            value("x", FLOAT, Some(&[2, 3])),
        ],
        initializer: vec![float("factor", 0.5)],
        ..GraphProto::default()
    };
    let ml = OperatorSetIdProto { domain: Some("ai.onnx.ml".to_owned()), version: Some(3) };
    let opset_import = vec![OperatorSetIdProto { domain: None, version: Some(18) }, ml];
    ModelProto { opset_import, ..model(graph) }
}

fn verified(given: &ModelFile, out: &ModelFile, layout: &Layout) -> Result<Verified, Error> {
    let options = VerifyOptions { tolerance: Tolerance::of_roundings(), ..VerifyOptions::default() };
    verify(&runtime(), given, out, layout, None, options)
}

#[test]
fn results_of_every_kind_are_read_and_compared() {
    let given = written("kinds_all", &all_kinds());
    let (out, layout) = plan(&given, |_| {});
    let found = verified(&given, &out, &layout).unwrap();
    assert!(found.holds() && found.differences.is_empty(), "{:?}", found.differences);
    assert_eq!((found.outputs, found.left_out.len()), (13, 0));
    assert!(found.stock.holds() && found.stock.refused.is_none(), "{:?}", found.stock);
    let runtime = runtime();
    let mut player = Player::new(&runtime, &out, &layout, PlayOptions::default()).unwrap();
    player.play(&inputs::make(&out, &layout, 0).unwrap()).unwrap();
    let outputs = player.outputs().unwrap();
    let shown: Vec<String> = outputs.iter().map(|(name, content)| format!("{name}: {content}")).collect();
    let expected = [
        "copy: float[]",
        "digits: string[2, 3]",
        "empty: float[0, 3]",
        "few: a sequence of 0",
        "has: bool[]",
        "map: a sequence of 2: a map of int64[3] to float[3], a map of int64[3] to float[3]",
        "no_text: string[0]",
        "none: none",
        "none_of_many: none",
        "some: a sequence of 2: float[2, 3], float[2, 3]",
        "text: string[4]",
        "texts: a sequence of 2: string[2, 3], string[4]",
        "x: float[2, 3]",
    ];
    assert_eq!(shown, expected);
    let Content::Strings { elements, .. } = &outputs["text"] else { panic!("strings") };
    assert_eq!(elements, &[b"".to_vec(), b"\xff\xfe\0".to_vec(), b"abc".to_vec(), b"".to_vec()]);
    assert_eq!(outputs["has"].tensor().unwrap().bytes, [0], "an empty optional reaches its reader as one");
    let named: Vec<String> = outputs["map"].arrays("map").into_iter().map(|(name, _)| name).collect();
    assert_eq!(named, ["map[0].keys", "map[0].values", "map[1].keys", "map[1].values"]);
}

#[test]
fn differences_are_found_in_results_of_every_kind() {
    let given = written("kinds_differ", &all_kinds());
    let mut other = all_kinds();
    let graph = other.graph.as_mut().unwrap();
    graph.initializer = vec![float("factor", 0.75)];
    graph.node.iter_mut().find(|node| node.output[0] == "none").unwrap().input = vec!["x".to_owned()];
    let text = graph.node.iter_mut().find(|node| node.output[0] == "text").unwrap();
    *text = constant("text", strings(&[b"", b"\xff\xfe\0", b"abd", b""]));
    let (out, layout) = plan(&written("kinds_differ_out", &other), |_| {});
    let found = verified(&given, &out, &layout).unwrap();
    assert!(!found.holds());
    let differ: Vec<&str> =
        found.differences.iter().map(|(.., difference)| difference.output.as_str()).collect();
    for name in ["copy", "digits", "has", "map[0].values", "none", "some[1]", "text", "texts[0]", "texts[1]"]
    {
        assert!(differ.contains(&name), "{name} in {differ:?}");
    }
    assert!(
        !differ.iter().any(|name| matches!(*name, "some[0]" | "map[0].keys" | "few" | "x")),
        "{differ:?}"
    );
}

#[test]
fn a_verification_without_comparisons_does_not_hold() {
    let found = |outputs| Verified {
        outputs,
        left_out: Vec::new(),
        softmaxes: 0,
        differences: Vec::new(),
        carried: Vec::new(),
        unstable: Vec::new(),
        loss: None,
        stock: Stock::default(),
        first: None,
        window: None,
        steps: 0,
        played: None,
        points: Vec::new(),
        refused: Vec::new(),
        skipped: 0,
        special: None,
    };
    assert!(found(1).holds() && !found(0).holds());
}

#[test]
fn inputs_that_are_no_arrays_are_refused_by_name() {
    for (kind, ty) in [
        ("an optional", optional(tensor(FLOAT, &[2]))),
        ("a sequence", sequence(tensor(FLOAT, &[2]))),
        ("a tensor of strings", tensor(STRING, &[2])),
    ] {
        let graph = GraphProto {
            name: Some("input".to_owned()),
            node: vec![node("Identity", &["x"], &["y"])],
            input: vec![typed("x", ty.clone())],
            output: vec![typed("y", ty)],
            ..GraphProto::default()
        };
        let given = written("kinds_input", &model(graph));
        let (out, layout) = plan(&given, |_| {});
        let error = verified(&given, &out, &layout).expect_err("nobody makes such values");
        assert!(
            matches!(&error, Error::NoArray { input, kind: found } if input == "x" && *found == kind),
            "{error}"
        );
    }
}

#[test]
fn a_size_that_only_the_file_states_is_held_against_the_data() {
    let graph = GraphProto {
        name: Some("claim".to_owned()),
        node: vec![
            node("NonZero", &["x"], &["i"]),
            with(node("Cast", &["i"], &["y"]), integer("to", FLOAT.into())),
        ],
        input: vec![value("x", FLOAT, Some(&[3, 4]))],
        output: vec![value("y", FLOAT, Some(&[2, 2]))],
        value_info: vec![value("i", INT64, Some(&[2, 2]))],
        ..GraphProto::default()
    };
    let given = written("kinds_claim", &model(graph));
    let (out, layout) = plan(&given, |_| {});
    let runtime = runtime();
    let mut player = Player::new(&runtime, &out, &layout, PlayOptions::default()).unwrap();
    let play = |player: &mut Player<'_>, numbers: [f32; 12]| {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let x = Array::new(Element::from_name("float").unwrap(), vec![3, 4], &bytes).unwrap().unwrap();
        player.play(&BTreeMap::from([("x".to_owned(), x)])).map(|_| ())
    };
    let error = play(&mut player, [1.0; 12]).expect_err("another size");
    assert!(matches!(&error, Error::Claimed { tensor, claimed, found, .. }
        if tensor == "i" && **claimed == [2, 2] && **found == [2, 12]));
    assert!(
        error.to_string().ends_with("the file states [2, 2] for `i`, but this data gives [2, 12]"),
        "{error}"
    );
    assert_eq!(error.code(), "E0712");
    let two = |at: [usize; 2]| std::array::from_fn(|index| if at.contains(&index) { 1.0 } else { 0.0 });
    play(&mut player, two([3, 7])).expect("the size that is claimed");
}

#[test]
fn arrays_that_fit_nothing_are_refused_before_the_models_run() {
    let graph = GraphProto {
        name: Some("fit".to_owned()),
        node: vec![node("Relu", &["x"], &["y"])],
        input: vec![value("x", FLOAT, Some(&[4]))],
        output: vec![value("y", FLOAT, Some(&[4]))],
        ..GraphProto::default()
    };
    let given = written("kinds_fit", &model(graph));
    let (out, layout) = plan(&given, |_| {});
    let refused = |name: &str, element: &str, shape: &[u64]| {
        let element = Element::from_name(element).unwrap();
        let bytes = vec![0; element.bytes(shape).unwrap() as usize];
        let set = BTreeMap::from([(
            name.to_owned(),
            Array::new(element, shape.to_vec(), &bytes).unwrap().unwrap(),
        )]);
        verify(&runtime(), &given, &out, &layout, Some(&set), VerifyOptions::default())
            .expect_err("it does not fit")
            .to_string()
    };
    assert_eq!(refused("z", "float", &[4]), "graph input `z` is not an input of the model, which has `x`");
    assert_eq!(
        refused("x", "double", &[4]),
        "graph input `x` is float[4] in the plan, but double[4] was given"
    );
    assert_eq!(
        refused("x", "float", &[2, 2]),
        "graph input `x` is float[4] in the plan, but float[2, 2] was given"
    );
}

/// Returns a half-precision sum followed by full-precision operators; with a copy in between if
/// `is_cut`.
fn wide_sum(is_cut: bool) -> ModelProto {
    let shape: &[i64] = &[16, 8];
    let mut nodes = vec![node("Add", &["a", "b"], &["s"])];
    if is_cut {
        nodes.push(with(node("Concat", &["s"], &["c"]), integer("axis", 0)));
    }
    nodes.push(with(node("Cast", &[if is_cut { "c" } else { "s" }], &["f"]), integer("to", FLOAT.into())));
    nodes.push(node("Sin", &["f"], &["y"]));
    model(GraphProto {
        name: Some("wide".to_owned()),
        node: nodes,
        input: vec![value("a", HALF, Some(shape)), value("b", HALF, Some(shape))],
        output: vec![value("y", FLOAT, Some(shape))],
        ..GraphProto::default()
    })
}

#[test]
fn sessions_with_default_options_are_compared_too() {
    let given = written("kinds_stock", &wide_sum(false));
    // Without rewriting, because memc would remove the copy.
    let (out, layout) = plan(&written("kinds_stock_cut", &wide_sum(true)), |options| {
        options.passes = Some("schedule,place".to_owned());
    });
    assert!(out.graph().node.iter().any(|node| node.op_type() == "Concat"));
    let found = verified(&given, &out, &layout).unwrap();
    assert!(found.differences.is_empty(), "{:?}", found.differences);
    assert!(!found.stock.differences.is_empty() && found.stock.refused.is_none(), "{:?}", found.stock);
    let (out, layout) = plan(&given, |_| {});
    assert!(verified(&given, &out, &layout).unwrap().stock.differences.is_empty());
}

#[test]
fn an_empty_optional_of_a_whole_session_is_none() {
    let given = written("kinds_whole", &all_kinds());
    let runtime = runtime();
    let whole = Whole::new(&runtime, &given, SessionOptions::PLAIN).unwrap();
    let x = Array::new(Element::from_name("float").unwrap(), vec![2, 3], &[0; 24]).unwrap().unwrap();
    let outputs = whole.contents(&BTreeMap::from([("x".to_owned(), x)])).unwrap().0;
    assert!(matches!(outputs["none"], Content::None));
}

/// Returns a model of `Exp(factor * scale * round((x * 0 + number) / scale))`: the rounded number is
/// equal for all elements.
fn rounded(number: f32, factor: f32) -> ModelProto {
    let nodes = vec![
        node("Mul", &["x", "none"], &["z"]),
        node("Add", &["z", "number"], &["n"]),
        node("QuantizeLinear", &["n", "scale"], &["q"]),
        node("DequantizeLinear", &["q", "scale"], &["d"]),
        node("Mul", &["d", "factor"], &["f"]),
        node("Exp", &["f"], &["y"]),
    ];
    model(GraphProto {
        name: Some("rounded".to_owned()),
        node: nodes,
        input: vec![value("x", FLOAT, Some(&[4]))],
        output: vec![value("y", FLOAT, Some(&[4]))],
        initializer: vec![
            float("none", 0.0),
            float("number", number),
            float("factor", factor),
            float("scale", 0.5),
        ],
        ..GraphProto::default()
    })
}

#[test]
fn values_behind_integers_one_step_apart_are_rerun_from_equal_integers() {
    // 1.5 steps, which round to 2; a slightly smaller number rounds to 1.
    let given = written("kinds_steps", &rounded(0.75, 20.0));
    let against = |name: &str, number: f32, factor: f32| {
        let (out, layout) = plan(&written(name, &rounded(number, factor)), |options| {
            options.passes = Some("schedule,place".to_owned());
        });
        let usual = VerifyOptions { tolerance: Tolerance::of_roundings(), ..VerifyOptions::default() };
        verify(&runtime(), &given, &out, &layout, None, usual).unwrap()
    };
    let found = against("kinds_steps_1", 0.749_999, 20.0);
    assert!(found.holds(), "{:?}", found.differences);
    let texts = |rows: &[(u64, Subject, Difference)]| {
        rows.iter().map(|(.., row)| row.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        texts(&found.differences),
        ["`q`: 4 of 4 elements differ, by at most 1e0 (5e-1 of the largest of them), within tolerance"]
    );
    assert!(
        found.carried.len() == 1 && found.carried[0].2.output == "y" && !found.carried[0].2.is_within(),
        "{found:?}"
    );
    // First an integer two steps away, then another result computed from an integer one step away.
    for (name, number, factor) in [("kinds_steps_2", 0.2, 20.0), ("kinds_steps_3", 0.749_999, 20.5)] {
        let found = against(name, number, factor);
        assert!(!found.holds() && found.carried.is_empty(), "{found:?}");
    }
}

#[test]
fn a_false_claim_of_the_model_is_named_when_a_dependent_node_fails() {
    let model = model(GraphProto {
        name: Some("turned".to_owned()),
        node: vec![node("NonZero", &["x"], &["i"]), node("Transpose", &["i"], &["t"])],
        input: vec![value("x", FLOAT, Some(&[3, 4]))],
        output: vec![value("t", INT64, None)],
        value_info: vec![value("i", INT64, Some(&[2, 1]))],
        ..GraphProto::default()
    });
    let given = written("kinds_turned", &model);
    let (out, layout) = plan(&given, |_| {});
    // A Reshape transposes a matrix with one column.
    assert!(out.graph().node.iter().any(|node| node.op_type() == "Reshape"), "nothing rests on the claim");
    let error = verified(&given, &out, &layout).expect_err("another size");
    assert!(
        matches!(&error, Error::Claimed { tensor, claimed, found, .. }
        if tensor == "i" && **claimed == [2, 1] && **found == [2, 12]),
        "{error}"
    );
}
