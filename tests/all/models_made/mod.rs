//! Models built by hand, message by message, so that each can be wrong in one way.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod decoder;
pub mod step;

use memc_onnx_proto::onnx::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    StringStringEntryProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto,
    attribute_proto::AttributeType, tensor_shape_proto, type_proto,
};
use prost::Message as _;

/// Type 1 of ONNX: 32-bit floating point.
const FLOAT: i32 = 1;
/// `data_location` of a tensor whose bytes are in another file.
const EXTERNAL: i32 = 1;

pub fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

pub fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto {
        input: strings(inputs),
        output: strings(outputs),
        name: Some(format!("/{}", outputs.join("+"))),
        op_type: Some(op.into()),
        ..NodeProto::default()
    }
}

/// A call of a model-local function.
pub fn call(function: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto { domain: Some("local".into()), ..node(function, inputs, outputs) }
}

/// An attribute of integers.
pub fn ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(AttributeType::Ints.into()),
        ints: values.to_vec(),
        ..AttributeProto::default()
    }
}

/// An integer as an attribute.
pub fn int(name: &str, value: i64) -> AttributeProto {
    let integer = Some(AttributeType::Int.into());
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: integer,
        i: Some(value),
        ..AttributeProto::default()
    }
}

/// A number as an attribute.
pub fn float(name: &str, value: f32) -> AttributeProto {
    let float = Some(AttributeType::Float.into());
    AttributeProto { name: Some(name.to_owned()), r#type: float, f: Some(value), ..AttributeProto::default() }
}

/// A word as an attribute.
pub fn text(name: &str, value: &str) -> AttributeProto {
    let text = Some(AttributeType::String.into());
    let bytes = value.as_bytes().to_vec();
    AttributeProto { name: Some(name.to_owned()), r#type: text, s: Some(bytes), ..AttributeProto::default() }
}

/// A node with attributes.
pub fn stated(mut node: NodeProto, attributes: Vec<AttributeProto>) -> NodeProto {
    node.attribute.extend(attributes);
    node
}

/// Small numbers of no pattern.
pub fn floats(name: &str, dims: &[i64]) -> TensorProto {
    let count: i64 = dims.iter().product();
    let numbers = (0..count)
        .flat_map(|i| (((i * 29 + name.len() as i64 * 7) % 67) as f32 / 134.0 - 0.25).to_le_bytes());
    raw(name, dims, &numbers.collect::<Vec<u8>>())
}

/// A vector of numbers.
pub fn numbers(name: &str, values: &[f32]) -> TensorProto {
    raw(
        name,
        &[values.len() as i64],
        &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>(),
    )
}

/// A vector of integers.
pub fn integers(name: &str, values: &[i64]) -> TensorProto {
    let raw_data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    TensorProto { data_type: Some(7), ..raw(name, &[values.len() as i64], &raw_data) }
}

fn value(name: &str, dims: Vec<tensor_shape_proto::dimension::Value>) -> ValueInfoProto {
    let dim = dims
        .into_iter()
        .map(|value| tensor_shape_proto::Dimension { value: Some(value), denotation: None })
        .collect();
    let tensor = type_proto::Tensor { elem_type: Some(FLOAT), shape: Some(TensorShapeProto { dim }) };
    ValueInfoProto {
        name: Some(name.into()),
        r#type: Some(TypeProto { value: Some(type_proto::Value::TensorType(tensor)), denotation: None }),
        ..ValueInfoProto::default()
    }
}

/// A value of known extents.
pub fn fixed(name: &str, dims: &[i64]) -> ValueInfoProto {
    value(name, dims.iter().map(|dim| tensor_shape_proto::dimension::Value::DimValue(*dim)).collect())
}

/// Returns a value with another element type: 7 for integers, 9 for Booleans.
pub fn of_type(mut info: ValueInfoProto, element: i32) -> ValueInfoProto {
    if let Some(type_proto::Value::TensorType(tensor)) = info.r#type.as_mut().and_then(|ty| ty.value.as_mut())
    {
        tensor.elem_type = Some(element);
    }
    info
}

/// Returns a Boolean scalar.
pub fn flag() -> ValueInfoProto {
    of_type(fixed("flag", &[]), 9)
}

/// A value of symbolic extents.
pub fn symbolic(name: &str, dims: &[&str]) -> ValueInfoProto {
    value(
        name,
        dims.iter().map(|dim| tensor_shape_proto::dimension::Value::DimParam((*dim).to_owned())).collect(),
    )
}

/// An initializer whose bytes are in another file.
pub fn external(name: &str, dims: &[i64], location: &str) -> TensorProto {
    let entry = StringStringEntryProto { key: Some("location".into()), value: Some(location.into()) };
    TensorProto {
        dims: dims.to_vec(),
        data_type: Some(FLOAT),
        name: Some(name.into()),
        external_data: vec![entry],
        data_location: Some(EXTERNAL),
        ..TensorProto::default()
    }
}

/// An initializer with its bytes.
pub fn raw(name: &str, dims: &[i64], bytes: &[u8]) -> TensorProto {
    TensorProto {
        dims: dims.to_vec(),
        data_type: Some(FLOAT),
        name: Some(name.into()),
        raw_data: Some(bytes.to_vec().into()),
        ..TensorProto::default()
    }
}

pub fn body(name: &str, graph: GraphProto) -> AttributeProto {
    AttributeProto {
        name: Some(name.into()),
        r#type: Some(AttributeType::Graph as i32),
        g: Some(graph),
        ..AttributeProto::default()
    }
}

/// A graph without inputs, as the body of an If.
pub fn branch(nodes: Vec<NodeProto>, output: &str) -> GraphProto {
    GraphProto {
        node: nodes,
        name: Some("branch".into()),
        output: vec![fixed(output, &[4])],
        ..GraphProto::default()
    }
}

/// An If over `%flag` with twice the same body.
pub fn either(graph: &GraphProto, output: &str) -> NodeProto {
    NodeProto {
        attribute: vec![body("then_branch", graph.clone()), body("else_branch", graph.clone())],
        ..node("If", &["flag"], &[output])
    }
}

/// A function of one operand `a` and one result `b`.
pub fn function(name: &str, nodes: Vec<NodeProto>) -> FunctionProto {
    FunctionProto {
        name: Some(name.into()),
        domain: Some("local".into()),
        input: strings(&["a"]),
        output: strings(&["b"]),
        node: nodes,
        opset_import: opsets(21),
        ..FunctionProto::default()
    }
}

fn opsets(version: i64) -> Vec<OperatorSetIdProto> {
    vec![
        OperatorSetIdProto { domain: Some(String::new()), version: Some(version) },
        OperatorSetIdProto { domain: Some("local".into()), version: Some(1) },
    ]
}

/// `x` of four floats to `y`, by these nodes.
pub fn model(nodes: Vec<NodeProto>) -> ModelProto {
    let graph = GraphProto {
        node: nodes,
        name: Some("main".into()),
        input: vec![fixed("x", &[4])],
        output: vec![fixed("y", &[4])],
        ..GraphProto::default()
    };
    ModelProto { ir_version: Some(10), opset_import: opsets(21), graph: Some(graph), ..ModelProto::default() }
}

/// The same with another graph.
pub fn with(nodes: Vec<NodeProto>, edit: impl FnOnce(&mut GraphProto)) -> ModelProto {
    let mut model = model(nodes);
    edit(model.graph.as_mut().unwrap());
    model
}

/// A sound model: `y = Relu(x)`.
pub fn sound() -> ModelProto {
    model(vec![node("Relu", &["x"], &["y"])])
}

/// A sound model that needs memory: a wide value between two narrow ones.
pub fn hungry() -> ModelProto {
    with(vec![node("Exp", &["x"], &["wide"]), node("Concat", &["wide", "x"], &["y"])], |graph| {
        graph.input = vec![fixed("x", &[1024])];
        graph.output = vec![fixed("y", &[2048])];
        let axis = AttributeProto {
            name: Some("axis".into()),
            r#type: Some(AttributeType::Int as i32),
            i: Some(0),
            ..AttributeProto::default()
        };
        graph.node[1].attribute.push(axis);
    })
}

pub fn with_version(opset: i64, ir: i64) -> ModelProto {
    ModelProto { ir_version: Some(ir), opset_import: opsets(opset), ..sound() }
}

pub fn bytes(model: &ModelProto) -> Vec<u8> {
    model.encode_to_vec()
}
