//! Losses are found and reported with their paths; changes that memc may make are none.

use onnx_protobuf::attribute_proto::AttributeType;
use onnx_protobuf::tensor_shape_proto::{Dimension, dimension};
use onnx_protobuf::type_proto::{Tensor, Value as Kind};
use onnx_protobuf::{
    AttributeProto, FunctionProto, GraphProto, Message as _, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto,
    TensorProto, TensorShapeProto, TypeProto, ValueInfoProto,
};

use crate::claims::losses;

/// A number that no version of ONNX uses for a field.
const UNKNOWN: u32 = 2015;

fn dim(value: dimension::Value) -> Dimension {
    Dimension { value: Some(value), denotation: "BATCH".into(), ..Dimension::default() }
}

fn info(name: &str, dims: Vec<Dimension>) -> ValueInfoProto {
    let shape = Some(TensorShapeProto { dim: dims, ..TensorShapeProto::default() }).into();
    let value = Some(Kind::TensorType(Tensor { elem_type: 1, shape, ..Tensor::default() }));
    let type_ = Some(TypeProto { value, ..TypeProto::default() }).into();
    ValueInfoProto { name: name.into(), type_, doc_string: format!("about {name}"), ..ValueInfoProto::default() }
}

fn entry(key: &str, value: &str) -> StringStringEntryProto {
    StringStringEntryProto { key: key.into(), value: value.into(), ..StringStringEntryProto::default() }
}

fn node(op_type: &str, name: &str, input: &[&str], output: &str) -> NodeProto {
    NodeProto {
        op_type: op_type.into(),
        name: name.into(),
        input: input.iter().map(|name| (*name).into()).collect(),
        output: vec![output.into()],
        ..NodeProto::default()
    }
}

fn body(output: &str, result: &NodeProto) -> AttributeProto {
    let graph = GraphProto { node: vec![result.clone()], output: vec![info(output, vec![])], ..GraphProto::default() };
    AttributeProto { name: "body".into(), type_: AttributeType::GRAPH.into(), g: Some(graph).into(), ..AttributeProto::default() }
}

/// A model with a weight, an attribute, a body, metadata of others and of memc, and unknown fields.
fn original() -> ModelProto {
    let mut product = node("Gemm", "product", &["x", "w"], "p");
    product.attribute = vec![
        AttributeProto { name: "alpha".into(), f: f32::NAN, ..AttributeProto::default() },
        AttributeProto { name: "transB".into(), i: 1, ..AttributeProto::default() },
    ];
    product.metadata_props = vec![entry("owner", "someone"), entry("memc.step", "7")];
    product.special_fields.mut_unknown_fields().add_length_delimited(UNKNOWN, b"vendor".to_vec());
    let mut looped = node("Loop", "", &["", "", "p"], "y");
    let mut inner = node("Cast", "", &["p"], "t");
    inner.attribute = vec![AttributeProto { name: "to".into(), i: 1, ..AttributeProto::default() }];
    looped.attribute = vec![body("t", &inner)];
    let weight = TensorProto { name: "w".into(), dims: vec![2], data_type: 1, raw_data: vec![7; 8], ..TensorProto::default() };
    let unread = TensorProto { name: "unread".into(), ..weight.clone() };
    let graph = GraphProto {
        name: "graph".into(),
        node: vec![product, looped],
        initializer: vec![weight, unread],
        input: vec![info("x", vec![dim(dimension::Value::DimParam("N".into()))]), info("w", vec![])],
        output: vec![info("y", vec![dim(dimension::Value::DimValue(-1))])],
        value_info: vec![info("p", vec![])],
        ..GraphProto::default()
    };
    let mut model = ModelProto {
        ir_version: 3,
        producer_name: "someone".into(),
        graph: Some(graph).into(),
        functions: vec![FunctionProto { name: "f".into(), doc_string: "about f".into(), ..FunctionProto::default() }],
        opset_import: vec![OperatorSetIdProto { version: 21, ..OperatorSetIdProto::default() }],
        ..ModelProto::default()
    };
    model.special_fields.mut_unknown_fields().add_varint(UNKNOWN, 5);
    model
}

/// The losses after a change of the written model. Both models go through their encoding.
fn after(change: impl FnOnce(&mut ModelProto)) -> Vec<String> {
    let mut written = original();
    change(&mut written);
    let coded = |model: &ModelProto| ModelProto::parse_from_bytes(&model.write_to_bytes().unwrap()).unwrap();
    losses(&coded(&original()), &coded(&written)).into_found()
}

fn graph(model: &mut ModelProto) -> &mut GraphProto {
    model.graph.as_mut().unwrap()
}

#[test]
fn an_identical_copy_has_no_losses() {
    assert_eq!(after(|_| {}), [""; 0]);
}

#[test]
fn a_lost_unknown_field_attribute_and_initializer_are_reported() {
    let found = after(|model| {
        graph(model).node[0].special_fields.clear();
        graph(model).node[0].attribute.remove(1);
        graph(model).initializer.remove(0);
    });
    let expected =
        ["graph.initializer.w: lost", "graph.node.product: unknown field 2015 lost", "graph.node.product.attribute.transB: lost"];
    assert_eq!(found, expected);
}

#[test]
fn every_loss_has_its_path() {
    type Change = fn(&mut ModelProto);
    let cases: [(Change, &str); 17] = [
        (|model| model.special_fields.clear(), "model: unknown field 2015 lost"),
        (|model| model.ir_version = 2, "ir_version: 3 became 2"),
        (|model| model.producer_name.clear(), "producer_name: \"someone\" became \"\""),
        (|model| model.opset_import[0].version = 20, "opset_import.0.version: 21 became 20"),
        (|model| model.functions.clear(), "functions.0: lost"),
        (|model| model.functions[0].doc_string.clear(), "functions.0.doc_string: \"about f\" became \"\""),
        (|model| model.graph = None.into(), "graph: lost"),
        (|model| graph(model).name.clear(), "graph.name: \"graph\" became \"\""),
        (|model| graph(model).initializer[0].raw_data[3] = 0, "graph.initializer.w.raw_data: 8 bytes became 8 others"),
        (|model| drop(graph(model).input.remove(0)), "graph.input: 2 entries became 1"),
        (|model| graph(model).output[0].doc_string.clear(), "graph.output.y.doc_string: \"about y\" became \"\""),
        (|model| graph(model).value_info.clear(), "graph.value_info.p: lost"),
        (|model| graph(model).node[0].attribute[0].f = 0.5, "graph.node.product.attribute.alpha.f: NaN became 0.5"),
        (|model| graph(model).node[0].name = "other".into(), "graph.node.product.name: \"product\" became \"other\""),
        (|model| drop(graph(model).node[0].metadata_props.remove(0)), "graph.node.product.metadata_props: 1 elements became 0"),
        (
            |model| graph(model).node[1].attribute[0].g.as_mut().unwrap().node[0].attribute[0].i = 7,
            "graph.node.1.attribute.body.g.node.0.attribute.to.i: 1 became 7",
        ),
        (
            |model| {
                let Some(Kind::TensorType(tensor)) = &mut graph(model).input[0].type_.as_mut().unwrap().value else { return };
                tensor.shape.as_mut().unwrap().dim[0].denotation.clear();
            },
            "graph.input.x.type.value.shape.dim.0.denotation: \"BATCH\" became \"\"",
        ),
    ];
    for (change, expected) in cases {
        let found = after(change);
        assert_eq!(found.first().map(String::as_str), Some(expected), "{found:#?}");
    }
}

#[test]
fn changes_that_memc_may_make_are_no_losses() {
    let found = after(|model| {
        model.ir_version = 10;
        model.opset_import.push(OperatorSetIdProto { domain: "memc".into(), version: 1, ..OperatorSetIdProto::default() });
        model.functions.push(FunctionProto { name: "g".into(), ..FunctionProto::default() });
        model.metadata_props.push(entry("memc.version", "1"));
        let graph = graph(model);
        // A weight leaves the inputs, another the model, and dimensions are bound.
        graph.input.pop();
        graph.initializer.pop();
        for info in graph.input.iter_mut().chain(&mut graph.output) {
            let Some(Kind::TensorType(tensor)) = &mut info.type_.as_mut().unwrap().value else { return };
            tensor.shape.as_mut().unwrap().dim[0].value = Some(dimension::Value::DimValue(4));
            info.metadata_props.push(entry("memc.offset", "0"));
        }
        // The first node writes another value, whose type is known; the second is gone with its result.
        graph.node[0].output = vec!["y".into()];
        graph.node[0].metadata_props[1].value = "0".into();
        graph.node.pop();
        graph.value_info.clear();
    });
    assert_eq!(found, [""; 0]);
}
