//! Builders of small graphs.

use memc_onnx_proto::onnx::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto, TypeProto,
    ValueInfoProto, attribute_proto::AttributeType, tensor_shape_proto, type_proto,
};

fn dim(extent: i64) -> tensor_shape_proto::Dimension {
    let value = Some(tensor_shape_proto::dimension::Value::DimValue(extent));
    tensor_shape_proto::Dimension { denotation: None, value }
}

pub fn value(name: &str, elem_type: i32, dims: Option<&[i64]>) -> ValueInfoProto {
    let shape = dims.map(|dims| TensorShapeProto { dim: dims.iter().map(|extent| dim(*extent)).collect() });
    let tensor = type_proto::Tensor { elem_type: Some(elem_type), shape };
    let ty = TypeProto { denotation: None, value: Some(type_proto::Value::TensorType(tensor)) };
    ValueInfoProto { name: Some(name.to_owned()), r#type: Some(ty), ..ValueInfoProto::default() }
}

pub fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    NodeProto {
        op_type: Some(op.to_owned()),
        name: Some(outputs[0].to_owned()),
        input: owned(inputs),
        output: owned(outputs),
        ..NodeProto::default()
    }
}

pub fn model(graph: GraphProto) -> ModelProto {
    let opset_import = vec![OperatorSetIdProto { domain: None, version: Some(17) }];
    ModelProto { ir_version: Some(8), opset_import, graph: Some(graph), ..ModelProto::default() }
}

pub fn integer(name: &str, number: i64) -> AttributeProto {
    let mut attribute =
        AttributeProto { name: Some(name.to_owned()), i: Some(number), ..AttributeProto::default() };
    attribute.set_type(AttributeType::Int);
    attribute
}

pub const FLOAT: i32 = 1;
pub const INT64: i32 = 7;
