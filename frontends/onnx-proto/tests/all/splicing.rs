//! Tests of splicing: named fields change, and all other fields keep their bytes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use crate::models;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use memc_onnx_proto::onnx::{FunctionProto, ModelProto, TensorProto};
use memc_onnx_proto::{
    GraphEdit, ModelEdit, ModelFile, ModelSplice, NodeEdit, NodePiece, SpliceError, TensorSource,
    attribute_tensor,
};
use models::*;
use prost::Message as _;

fn open(model: &ModelProto) -> ModelFile {
    ModelFile::from_bytes(model.encode_to_vec()).unwrap()
}

fn on_graph(graph: GraphEdit) -> ModelEdit {
    ModelEdit { graph, ..ModelEdit::default() }
}

fn on_node(index: usize, edit: NodeEdit) -> ModelEdit {
    on_graph(GraphEdit { nodes: Some(vec![NodePiece::Original { index, edit }]), ..GraphEdit::default() })
}

/// Splices, checks that all three writing methods agree with the announced length, and decodes.
fn spliced(file: &ModelFile, edit: &ModelEdit) -> ModelProto {
    let splice = ModelSplice::new(file, edit).unwrap();
    let bytes = splice.to_vec();
    assert_eq!(bytes.len() as u64, splice.len());
    let mut streamed = Vec::new();
    splice.write_to(&mut streamed).unwrap();
    assert_eq!(streamed, bytes);
    ModelFile::from_bytes(bytes).unwrap().model().clone()
}

fn error(edit: &ModelEdit) -> SpliceError {
    ModelSplice::new(&open(&model()), edit).unwrap_err()
}

/// Builds the model with an unknown field in the model, the graph, the second node and the first
/// initializer.
fn with_unknown_fields() -> Vec<u8> {
    let mut model = model();
    let mut graph = model.graph.take().unwrap();
    let nodes = std::mem::take(&mut graph.node);
    let mut inner = Vec::new();
    for (idx, node) in nodes.iter().enumerate() {
        let mut bytes = node.encode_to_vec();
        if idx == 1 {
            bytes.extend(UNKNOWN);
        }
        inner.extend(field(GRAPH_NODE, &bytes));
    }
    inner.extend(UNKNOWN);
    let mut weight = graph.initializer.remove(0).encode_to_vec();
    weight.extend(UNKNOWN);
    inner.extend(field(GRAPH_INITIALIZER, &weight));
    inner.extend(graph.encode_to_vec());
    let mut bytes = model.encode_to_vec();
    bytes.extend(field(MODEL_GRAPH, &inner));
    bytes.extend(UNKNOWN);
    bytes
}

fn count(bytes: &[u8], needle: &[u8]) -> usize {
    bytes.windows(needle.len()).filter(|window| *window == needle).count()
}

#[test]
fn an_empty_edit_keeps_every_byte() {
    for bytes in [model().encode_to_vec(), with_unknown_fields()] {
        let file = ModelFile::from_bytes(bytes.clone()).unwrap();
        assert_eq!(ModelSplice::new(&file, &ModelEdit::default()).unwrap().to_vec(), bytes);
        let same_nodes = (0..file.graph().node.len()).map(NodePiece::original).collect();
        let edit = on_graph(GraphEdit { nodes: Some(same_nodes), ..GraphEdit::default() });
        assert_eq!(ModelSplice::new(&file, &edit).unwrap().to_vec(), bytes);
    }
}

#[test]
fn an_edit_that_restates_the_model_keeps_every_byte() {
    let file = open(&model());
    let nodes = file.graph().node.iter().enumerate().map(|(index, node)| NodePiece::Original {
        index,
        edit: NodeEdit {
            name: node.name.clone(),
            inputs: Some(node.input.clone()),
            outputs: Some(node.output.clone()),
            ..NodeEdit::default()
        },
    });
    let edit = ModelEdit {
        ir_version: Some(10),
        opsets: vec![("ai.onnx".into(), 21)],
        ..on_graph(GraphEdit { nodes: Some(nodes.collect()), ..GraphEdit::default() })
    };
    assert_eq!(ModelSplice::new(&file, &edit).unwrap().to_vec(), model().encode_to_vec());
}

#[test]
fn unknown_fields_survive_at_every_level() {
    let file = ModelFile::from_bytes(with_unknown_fields()).unwrap();
    assert_eq!(count(file.bytes(), UNKNOWN), 4);
    let renamed =
        NodeEdit { name: Some("renamed".into()), inputs: Some(strings(&["w", "x"])), ..NodeEdit::default() };
    let nodes = vec![
        NodePiece::Original { index: 1, edit: renamed },
        NodePiece::original(0),
        NodePiece::New(node("fresh", "Relu", &["y"], &["r"])),
        NodePiece::original(3),
        NodePiece::original(2),
    ];
    let edit = ModelEdit {
        ir_version: Some(11),
        metadata: Some(pairs(&[("memc.version", "1")])),
        ..on_graph(GraphEdit { nodes: Some(nodes), ..GraphEdit::default() })
    };
    let bytes = ModelSplice::new(&file, &edit).unwrap().to_vec();
    assert_eq!(count(&bytes, UNKNOWN), 4);
    let graph = ModelProto::decode(bytes.as_slice()).unwrap().graph.unwrap();
    let names: Vec<&str> = graph.node.iter().map(|node| node.name()).collect();
    assert_eq!(names, ["renamed", "constant", "fresh", "sum", "branch"]);
    assert_eq!(graph.node[0].input, ["w", "x"]);
    assert_eq!(graph.node[0].op_type(), "Add");
    // The unknown field of the tensor is part of its span.
    let span = file.spans().graph().initializer(0).unwrap().payload.clone();
    let copy = vec![("copy".to_owned(), TensorSource::Span(span))];
    let edit = on_graph(GraphEdit { new_initializers: copy, ..GraphEdit::default() });
    assert_eq!(count(&ModelSplice::new(&file, &edit).unwrap().to_vec(), UNKNOWN), 5);
}

#[test]
fn model_level_edits() {
    let function =
        FunctionProto { name: Some("f".into()), domain: Some("memc".into()), ..FunctionProto::default() };
    let edit = ModelEdit {
        ir_version: Some(-1),
        metadata: Some(pairs(&[("memc.peak", "5"), ("license", "MIT")])),
        opsets: vec![("memc".into(), 1), ("memc".into(), 1)],
        functions: vec![function.clone()],
        ..ModelEdit::default()
    };
    let found = spliced(&open(&model()), &edit);
    let mut expected = model();
    expected.ir_version = Some(-1);
    expected.metadata_props = entries(&[("author", "someone"), ("memc.peak", "5"), ("license", "MIT")]);
    expected
        .opset_import
        .push(memc_onnx_proto::onnx::OperatorSetIdProto { domain: Some("memc".into()), version: Some(1) });
    expected.functions = vec![function];
    assert_eq!(found, expected);
}

#[test]
fn an_absent_ir_version_is_added() {
    let mut bare = model();
    bare.ir_version = None;
    let edit = ModelEdit { ir_version: Some(9), ..ModelEdit::default() };
    assert_eq!(spliced(&open(&bare), &edit).ir_version, Some(9));
}

#[test]
fn a_node_may_come_twice_and_be_left_out() {
    let again = NodeEdit {
        name: Some("add.again".into()),
        outputs: Some(strings(&["y.again"])),
        ..NodeEdit::default()
    };
    let nodes = vec![NodePiece::original(1), NodePiece::Original { index: 1, edit: again }];
    let found = spliced(&open(&model()), &on_graph(GraphEdit { nodes: Some(nodes), ..GraphEdit::default() }));
    let mut expected = model();
    let graph = expected.graph.as_mut().unwrap();
    let mut second = graph.node[1].clone();
    second.name = Some("add.again".into());
    second.output = strings(&["y.again"]);
    graph.node = vec![graph.node[1].clone(), second];
    assert_eq!(found, expected);
}

#[test]
fn node_fields_that_were_absent_are_added_and_lists_emptied() {
    let edit = NodeEdit {
        inputs: Some(strings(&["a", "", "b"])),
        outputs: Some(Vec::new()),
        metadata: Some(pairs(&[("memc.step", "0")])),
        attributes: vec![int_attribute("axis", 1)],
        ..NodeEdit::default()
    };
    let found = spliced(&open(&model()), &on_node(0, edit)).graph.unwrap().node.remove(0);
    assert_eq!((found.input, found.output), (strings(&["a", "", "b"]), Vec::new()));
    assert_eq!(keys(&found.metadata_props), ["memc.step"]);
    let names: Vec<&str> = found.attribute.iter().map(|attribute| attribute.name()).collect();
    assert_eq!(names, ["value", "axis"]);
}

#[test]
fn node_metadata_of_memc_is_replaced_and_other_is_kept() {
    let edit = NodeEdit { metadata: Some(pairs(&[("memc.order", "1")])), ..NodeEdit::default() };
    let found = spliced(&open(&model()), &on_node(1, edit)).graph.unwrap();
    assert_eq!(keys(&found.node[0].metadata_props), ["namespace", "memc.order"]);
    let untouched = NodeEdit { name: Some("other".into()), ..NodeEdit::default() };
    let found = spliced(&open(&model()), &on_node(1, untouched)).graph.unwrap();
    assert_eq!(keys(&found.node[0].metadata_props), ["namespace", "memc.step"]);
}

#[test]
fn an_attribute_is_replaced_in_its_place() {
    let edit = NodeEdit { attributes: vec![int_attribute("then_branch", 4)], ..NodeEdit::default() };
    let found = spliced(&open(&model()), &on_node(2, edit)).graph.unwrap().node.remove(0);
    assert_eq!(found.attribute.len(), 2);
    assert_eq!(found.attribute[0], int_attribute("then_branch", 4));
    assert_eq!(found.attribute[1], graph_attribute("else_branch", body("else")));
}

#[test]
fn bodies_are_edited_in_place() {
    let inner = NodeEdit { name: Some("renamed".into()), ..NodeEdit::default() };
    let nodes = vec![
        NodePiece::New(node("pre", "Relu", &["x"], &["p"])),
        NodePiece::Original { index: 0, edit: inner },
    ];
    let edit = GraphEdit { nodes: Some(nodes), ..GraphEdit::default() };
    let edit = NodeEdit { bodies: BTreeMap::from([("else_branch".into(), edit)]), ..NodeEdit::default() };
    let found = spliced(&open(&model()), &on_node(2, edit)).graph.unwrap().node.remove(0);
    assert_eq!(found.attribute[0], graph_attribute("then_branch", body("then")));
    let mut expected = body("else");
    expected.node[0].name = Some("renamed".into());
    expected.node.insert(0, node("pre", "Relu", &["x"], &["p"]));
    assert_eq!(found.attribute[1], graph_attribute("else_branch", expected));
}

#[test]
fn initializers_are_dropped_and_added() {
    let file = open(&model());
    let constant = file.spans().graph().node(0).unwrap().payload.clone();
    let span = attribute_tensor(file.bytes(), constant, "value").unwrap().unwrap();
    let nameless = TensorProto { name: None, ..tensor("", &[8.0, 9.0]) };
    let edit = GraphEdit {
        dropped_initializers: BTreeSet::from([0]),
        new_initializers: vec![
            ("c".into(), TensorSource::Span(span)),
            ("n".into(), TensorSource::Owned(Box::new(nameless))),
        ],
        ..GraphEdit::default()
    };
    let found = spliced(&file, &on_graph(edit)).graph.unwrap();
    assert_eq!(found.initializer, [tensor("v", &[5.0]), tensor("c", &[3.0, 4.0]), tensor("n", &[8.0, 9.0])]);
    assert_eq!(found.node, model().graph.unwrap().node);
}

#[test]
fn value_descriptions_are_dropped_added_and_annotated() {
    let edit = GraphEdit {
        dropped_values: BTreeSet::from(["z".into(), "x".into(), "nobody".into()]),
        new_values: vec![value("new")],
        value_metadata: BTreeMap::from([
            ("y".into(), pairs(&[("memc.bytes", "8")])),
            ("out".into(), pairs(&[("memc.bytes", "16")])),
            ("condition".into(), Vec::new()),
        ]),
        metadata: Some(pairs(&[("memc.graph", "main")])),
        ..GraphEdit::default()
    };
    let found = spliced(&open(&model()), &on_graph(edit)).graph.unwrap();
    let mut expected = model().graph.unwrap();
    expected.value_info[0].metadata_props = entries(&[("axis", "0"), ("memc.bytes", "8")]);
    // The order of the entries depends on the position of the last old entry: compare without order.
    found.value_info[0]
        .metadata_props
        .iter()
        .for_each(|entry| assert!(expected.value_info[0].metadata_props.contains(entry)));
    expected.value_info = vec![found.value_info[0].clone(), value("new")];
    expected.output[0].metadata_props = entries(&[("memc.bytes", "16")]);
    expected.metadata_props = entries(&[("memc.graph", "main")]);
    assert_eq!(found, expected);
}

#[test]
fn scattered_nodes_move_to_the_place_of_the_first() {
    let mut graph = field(2, b"g");
    graph.extend(field(GRAPH_NODE, &node("a", "Relu", &["x"], &["y"]).encode_to_vec()));
    graph.extend(field(GRAPH_INITIALIZER, &tensor("w", &[1.0]).encode_to_vec()));
    graph.extend(field(GRAPH_NODE, &node("b", "Relu", &["y"], &["z"]).encode_to_vec()));
    let file = ModelFile::from_bytes(field(MODEL_GRAPH, &graph)).unwrap();
    assert_eq!(ModelSplice::new(&file, &ModelEdit::default()).unwrap().to_vec(), file.bytes().to_vec());
    let nodes = Some(vec![NodePiece::original(1), NodePiece::original(0)]);
    let bytes =
        ModelSplice::new(&file, &on_graph(GraphEdit { nodes, ..GraphEdit::default() })).unwrap().to_vec();
    let mut expected = field(2, b"g");
    expected.extend(field(GRAPH_NODE, &node("b", "Relu", &["y"], &["z"]).encode_to_vec()));
    expected.extend(field(GRAPH_NODE, &node("a", "Relu", &["x"], &["y"]).encode_to_vec()));
    expected.extend(field(GRAPH_INITIALIZER, &tensor("w", &[1.0]).encode_to_vec()));
    assert_eq!(bytes, field(MODEL_GRAPH, &expected));
}

#[test]
fn impossible_edits_are_refused() {
    let nodes = Some(vec![NodePiece::original(4)]);
    let found = error(&on_graph(GraphEdit { nodes, ..GraphEdit::default() }));
    assert_eq!(found, SpliceError::NodeIndex { index: 4, count: 4 });
    let dropped_initializers = BTreeSet::from([0, 2]);
    let found = error(&on_graph(GraphEdit { dropped_initializers, ..GraphEdit::default() }));
    assert_eq!(found, SpliceError::InitializerIndex { index: 2, count: 2 });
    let value_metadata = BTreeMap::from([("c".into(), Vec::new())]);
    let found = error(&on_graph(GraphEdit { value_metadata, ..GraphEdit::default() }));
    assert_eq!(found, SpliceError::UnknownValue { name: "c".into() });
    for (index, attribute) in [(0, "value"), (1, "body")] {
        let bodies = BTreeMap::from([(attribute.to_owned(), GraphEdit::default())]);
        let found = error(&on_node(index, NodeEdit { bodies, ..NodeEdit::default() }));
        assert_eq!(found, SpliceError::NoBody { index, attribute: attribute.into() });
    }
    let opsets = vec![("ai.onnx".into(), 22)];
    let found = error(&ModelEdit { opsets, ..ModelEdit::default() });
    assert_eq!(found, SpliceError::OpsetConflict { domain: String::new(), present: 21, wanted: 22 });
    let new_initializers = vec![("w2".into(), TensorSource::Span(5..1 << 40))];
    let found = error(&on_graph(GraphEdit { new_initializers, ..GraphEdit::default() }));
    assert!(matches!(found, SpliceError::Wire(_)), "{found:?}");
}

#[test]
fn a_result_of_two_gibibytes_is_refused_before_it_is_built() {
    let weights = TensorProto { raw_data: Some(shared(1 << 30)), ..TensorProto::default() };
    let copy = |name: &str| (name.to_owned(), TensorSource::Owned(Box::new(weights.clone())));
    let one = on_graph(GraphEdit { new_initializers: vec![copy("a")], ..GraphEdit::default() });
    assert!(ModelSplice::new(&open(&model()), &one).unwrap().len() > 1 << 30);
    let two = on_graph(GraphEdit { new_initializers: vec![copy("a"), copy("b")], ..GraphEdit::default() });
    assert!(matches!(error(&two), SpliceError::TooLarge { bytes } if bytes > 2 << 30));
}

#[test]
fn a_file_can_be_written_over_itself() {
    let path = std::env::temp_dir().join(format!("memc-onnx-proto-write-{}.onnx", std::process::id()));
    std::fs::write(&path, model().encode_to_vec()).unwrap();
    let file = ModelFile::open(&path).unwrap();
    let edit = ModelEdit { ir_version: Some(12), ..ModelEdit::default() };
    ModelSplice::new(&file, &edit).unwrap().write_file(&path).unwrap();
    assert_eq!(file.model().ir_version, Some(10));
    assert_eq!(Bytes::from(model().encode_to_vec()), file.bytes(), "the mapped file was changed");
    assert_eq!(ModelFile::open(&path).unwrap().model().ir_version, Some(12));
    std::fs::remove_file(&path).unwrap();
    assert!(ModelSplice::new(&file, &edit).unwrap().write_file("/").is_err());
}

/// Builds the message of a graph whose only input is `x: float[N,3,?]`, with unknown fields in its type,
/// tensor, shape and first dimension.
fn symbolic_input(unknown: &[u8], first: &[u8]) -> Vec<u8> {
    let with = |mut bytes: Vec<u8>| {
        bytes.extend(unknown);
        bytes
    };
    let dims = [field(1, &with(first.to_vec())), field(1, &[8, 3]), field(1, &[])].concat();
    let tensor = with([vec![8, 1], field(2, &with(dims))].concat());
    let info = [field(1, b"x"), field(2, &with(field(1, &tensor)))].concat();
    let mut graph = field(11, &info);
    graph.extend(field(12, &value("y").encode_to_vec()));
    field(MODEL_GRAPH, &graph)
}

#[test]
fn bound_extents_keep_all_other_bytes_of_a_type() {
    let bind = |bytes: Vec<u8>, extents: &[Option<i64>]| {
        let dims = BTreeMap::from([("x".to_owned(), extents.to_vec())]);
        let file = ModelFile::from_bytes(bytes).unwrap();
        ModelSplice::new(&file, &on_graph(GraphEdit { value_dims: dims, ..GraphEdit::default() }))
            .unwrap()
            .to_vec()
    };
    let (symbol, number) = (field(2, b"N"), vec![8, 5]);
    for unknown in [&[][..], UNKNOWN] {
        let given = symbolic_input(unknown, &symbol);
        assert_eq!(bind(given.clone(), &[Some(5)]), symbolic_input(unknown, &number));
        assert_eq!(
            bind(given.clone(), &[None, None, None, Some(4)]),
            given,
            "axes that the type does not have"
        );
        let both = [symbol.clone(), number.clone()].concat();
        assert_eq!(bind(symbolic_input(unknown, &both), &[Some(5)]), symbolic_input(unknown, &number));
    }
    let all =
        ModelFile::from_bytes(bind(symbolic_input(UNKNOWN, &symbol), &[Some(5), None, Some(7)])).unwrap();
    let open = ModelFile::from_bytes(field(
        MODEL_GRAPH,
        &field(11, &[field(1, b"x"), field(2, &field(1, &[8, 1]))].concat()),
    ))
    .unwrap();
    let shaped = ModelFile::from_bytes(bind(open.bytes().to_vec(), &[Some(5), None, Some(7)])).unwrap();
    let text = |file: &ModelFile| format!("{:?}", file.graph().input[0].r#type);
    for (file, extents) in [
        (&all, ["DimValue(5)", "DimValue(3)", "DimValue(7)"]),
        (&shaped, ["DimValue(5)", "None", "DimValue(7)"]),
    ] {
        let text = text(file);
        assert!(extents.iter().all(|extent| text.contains(extent)), "{text}");
    }
}
