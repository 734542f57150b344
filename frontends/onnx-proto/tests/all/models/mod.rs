//! Small hand-built models that several tests share.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use bytes::Bytes;
use memc_onnx_proto::onnx::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto,
    TensorProto, TensorShapeProto, TypeProto, ValueInfoProto, attribute_proto::AttributeType,
    tensor_shape_proto, type_proto,
};

/// Field 999, length-delimited, which no ONNX version has: key, length, contents.
pub const UNKNOWN: &[u8] = b"\xba\x3e\x07unknown";

/// Field numbers of the messages that the tests build by hand.
pub const MODEL_GRAPH: u8 = 7;
pub const GRAPH_NODE: u8 = 1;
pub const GRAPH_INITIALIZER: u8 = 5;

/// Encodes a length-delimited field with a number below 16.
pub fn field(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag << 3 | 2];
    prost::encode_length_delimiter(content.len(), &mut out).unwrap();
    out.extend_from_slice(content);
    out
}

pub fn strings(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

pub fn pairs(values: &[(&str, &str)]) -> Vec<(String, String)> {
    values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub fn entries(values: &[(&str, &str)]) -> Vec<StringStringEntryProto> {
    let entry = |(key, value): &(&str, &str)| StringStringEntryProto {
        key: Some((*key).into()),
        value: Some((*value).into()),
    };
    values.iter().map(entry).collect()
}

pub fn keys(entries: &[StringStringEntryProto]) -> Vec<&str> {
    entries.iter().map(StringStringEntryProto::key).collect()
}

pub fn node(name: &str, op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto {
        input: strings(inputs),
        output: strings(outputs),
        name: Some(name.into()),
        op_type: Some(op.into()),
        ..NodeProto::default()
    }
}

pub fn tensor(name: &str, values: &[f32]) -> TensorProto {
    TensorProto {
        dims: vec![values.len() as i64],
        data_type: Some(1),
        name: Some(name.into()),
        raw_data: Some(values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>().into()),
        ..TensorProto::default()
    }
}

/// Returns the type of a float tensor with one symbolic and one absent dimension.
pub fn value(name: &str) -> ValueInfoProto {
    let symbolic = tensor_shape_proto::dimension::Value::DimParam("n".into());
    let dim = vec![
        tensor_shape_proto::Dimension { value: Some(symbolic), denotation: None },
        tensor_shape_proto::Dimension::default(),
    ];
    let tensor = type_proto::Tensor { elem_type: Some(1), shape: Some(TensorShapeProto { dim }) };
    ValueInfoProto {
        name: Some(name.into()),
        r#type: Some(TypeProto { value: Some(type_proto::Value::TensorType(tensor)), denotation: None }),
        ..ValueInfoProto::default()
    }
}

/// Builds a graph whose only node adds `x` to itself, for the body of an `If`.
pub fn body(name: &str) -> GraphProto {
    GraphProto {
        node: vec![node("twice", "Add", &["x", "x"], &["inner"])],
        name: Some(name.into()),
        output: vec![value("inner")],
        ..GraphProto::default()
    }
}

pub fn graph_attribute(name: &str, graph: GraphProto) -> AttributeProto {
    AttributeProto {
        name: Some(name.into()),
        r#type: Some(AttributeType::Graph as i32),
        g: Some(graph),
        ..AttributeProto::default()
    }
}

pub fn int_attribute(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        name: Some(name.into()),
        r#type: Some(AttributeType::Int as i32),
        i: Some(value),
        ..AttributeProto::default()
    }
}

/// Builds a model with a constant, an addition, an `If`, two initializers, and metadata of memc and of
/// others.
pub fn model() -> ModelProto {
    let constant = AttributeProto {
        name: Some("value".into()),
        r#type: Some(AttributeType::Tensor as i32),
        t: Some(tensor("ignored", &[3.0, 4.0])),
        ..AttributeProto::default()
    };
    let mut nodes = vec![
        node("constant", "Constant", &[], &["c"]),
        node("add", "Add", &["x", "w"], &["y"]),
        node("branch", "If", &["condition"], &["z"]),
        node("sum", "Sum", &["y", "z", "c", "v"], &["out"]),
    ];
    nodes[0].attribute.push(constant);
    nodes[1].metadata_props = entries(&[("namespace", "top"), ("memc.step", "7")]);
    nodes[2].attribute =
        vec![graph_attribute("then_branch", body("then")), graph_attribute("else_branch", body("else"))];
    let mut y = value("y");
    y.metadata_props = entries(&[("memc.offset", "64"), ("axis", "0")]);
    let graph = GraphProto {
        node: nodes,
        name: Some("main".into()),
        initializer: vec![tensor("w", &[1.0, 2.0]), tensor("v", &[5.0])],
        input: vec![value("x"), value("condition")],
        output: vec![value("out")],
        value_info: vec![y, value("z")],
        doc_string: Some("a graph".into()),
        ..GraphProto::default()
    };
    ModelProto {
        ir_version: Some(10),
        opset_import: vec![OperatorSetIdProto { domain: Some(String::new()), version: Some(21) }],
        producer_name: Some("tests".into()),
        graph: Some(graph),
        metadata_props: entries(&[("author", "someone"), ("memc.version", "0"), ("license", "none")]),
        ..ModelProto::default()
    }
}

/// Returns `len` zero bytes in a buffer of their own, not taken from a decoded file.
pub fn shared(len: usize) -> Bytes {
    Bytes::from(vec![0; len])
}
