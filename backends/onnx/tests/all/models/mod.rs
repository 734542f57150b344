//! Small hand-built models that the tests share.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use memc_ir::{Module, Node, Value};
use memc_onnx_export::{ExportOptions, Exported, export};
use memc_onnx_import::{ImportOptions, import};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::attribute_proto::AttributeType;
use memc_onnx_proto::onnx::tensor_proto::DataLocation;
use memc_onnx_proto::onnx::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, SparseTensorProto,
    StringStringEntryProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto, tensor_shape_proto,
    type_proto,
};
use prost::Message as _;

/// Returns options without metadata and types.
pub fn plain() -> ExportOptions {
    ExportOptions { metadata: false, value_info: false, ..ExportOptions::default() }
}

pub fn open(model: &ModelProto) -> ModelFile {
    ModelFile::from_bytes(model.encode_to_vec()).unwrap()
}

pub fn read(file: &ModelFile) -> Module {
    import(file, &ImportOptions { allow_unbound: true, ..ImportOptions::default() }).unwrap().module
}

/// Exports and decodes.
pub fn written(file: &ModelFile, module: &Module, options: &ExportOptions) -> (Exported, ModelProto) {
    let exported = export(file, module, options).unwrap();
    let decoded = ModelProto::decode(exported.to_vec().as_slice()).unwrap();
    (exported, decoded)
}

pub fn value_named(module: &Module, name: &str) -> Value {
    module.values().iter().find(|(_, data)| data.name == name).unwrap().0
}

pub fn node_named(module: &Module, name: &str) -> Node {
    module.nodes().iter().find(|(_, data)| data.name == name).unwrap().0
}

pub fn strings(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

pub fn entries(values: &[(&str, &str)]) -> Vec<StringStringEntryProto> {
    let entry = |(key, value): &(&str, &str)| StringStringEntryProto {
        key: Some((*key).into()),
        value: Some((*value).into()),
    };
    values.iter().map(entry).collect()
}

pub fn pairs(entries: &[StringStringEntryProto]) -> Vec<(&str, &str)> {
    entries.iter().map(|entry| (entry.key(), entry.value())).collect()
}

pub fn node(name: &str, op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto {
        input: strings(inputs),
        output: strings(outputs),
        name: Some(name.into()).filter(|name: &String| !name.is_empty()),
        op_type: Some(op.into()),
        ..NodeProto::default()
    }
}

pub fn attribute(name: &str, kind: AttributeType, fill: impl FnOnce(&mut AttributeProto)) -> AttributeProto {
    let mut made =
        AttributeProto { name: Some(name.into()), r#type: Some(kind as i32), ..AttributeProto::default() };
    fill(&mut made);
    made
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

pub fn text_tensor(name: &str) -> TensorProto {
    let string_data = vec![b"one".to_vec(), b"two".to_vec()];
    TensorProto {
        dims: vec![2],
        data_type: Some(8),
        name: Some(name.into()),
        string_data,
        ..TensorProto::default()
    }
}

pub fn external(name: &str) -> TensorProto {
    TensorProto {
        dims: vec![2],
        data_type: Some(1),
        name: Some(name.into()),
        data_location: Some(DataLocation::External as i32),
        external_data: entries(&[
            ("location", "weights.bin"),
            ("offset", "64"),
            ("length", "8"),
            ("checksum", "none"),
        ]),
        ..TensorProto::default()
    }
}

pub fn sparse(name: &str) -> SparseTensorProto {
    let indices =
        TensorProto { dims: vec![1], data_type: Some(7), int64_data: vec![1], ..TensorProto::default() };
    SparseTensorProto { values: Some(tensor(name, &[5.0])), indices: Some(indices), dims: vec![2] }
}

/// Describes a float tensor with these extents.
pub fn info(name: &str, dims: &[i64]) -> ValueInfoProto {
    let dim = |extent: &i64| tensor_shape_proto::Dimension {
        value: Some(tensor_shape_proto::dimension::Value::DimValue(*extent)),
        denotation: None,
    };
    let shape = TensorShapeProto { dim: dims.iter().map(dim).collect() };
    let tensor = type_proto::Tensor { elem_type: Some(1), shape: Some(shape) };
    let value = Some(type_proto::Value::TensorType(tensor));
    ValueInfoProto {
        name: Some(name.into()),
        r#type: Some(TypeProto { value, denotation: None }),
        ..ValueInfoProto::default()
    }
}

/// Describes a float vector with a symbolic extent.
pub fn symbolic(name: &str, symbol: &str) -> ValueInfoProto {
    let value = Some(tensor_shape_proto::dimension::Value::DimParam(symbol.into()));
    let shape = TensorShapeProto { dim: vec![tensor_shape_proto::Dimension { value, denotation: None }] };
    let tensor = type_proto::Tensor { elem_type: Some(1), shape: Some(shape) };
    let value = Some(type_proto::Value::TensorType(tensor));
    ValueInfoProto {
        name: Some(name.into()),
        r#type: Some(TypeProto { value, denotation: None }),
        ..ValueInfoProto::default()
    }
}

pub fn opset(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto { domain: Some(domain.into()), version: Some(version) }
}

pub fn model_of(graph: GraphProto) -> ModelProto {
    ModelProto {
        ir_version: Some(8),
        producer_name: Some("a test".into()),
        graph: Some(graph),
        opset_import: vec![opset("", 17)],
        ..ModelProto::default()
    }
}

/// Returns a graph of float vectors of two elements with the input `x`.
pub fn graph(nodes: Vec<NodeProto>, outputs: &[&str]) -> GraphProto {
    GraphProto {
        node: nodes,
        name: Some("main".into()),
        input: vec![info("x", &[2])],
        output: outputs.iter().map(|name| info(name, &[2])).collect(),
        ..GraphProto::default()
    }
}

/// Returns a body that applies `op` to a captured value.
pub fn body(name: &str, op: &str, captured: &str) -> GraphProto {
    let result = format!("{name}_result");
    GraphProto {
        node: vec![node("inner", op, &[captured], &[&result])],
        name: Some(name.into()),
        initializer: vec![tensor(&format!("{name}_weight"), &[1.0])],
        output: vec![info(&result, &[2])],
        doc_string: Some("kept".into()),
        ..GraphProto::default()
    }
}

/// Returns an `If` whose branches read `captured`.
pub fn branch(name: &str, condition: &str, captured: &str, output: &str) -> NodeProto {
    let mut made = node(name, "If", &[condition], &[output]);
    for (key, op) in [("then_branch", "Neg"), ("else_branch", "Abs")] {
        let inner = body(&format!("{name}_{key}"), op, captured);
        made.attribute.push(attribute(key, AttributeType::Graph, |made| made.g = Some(inner)));
    }
    made
}

/// Returns a model with a bit of everything: bodies, a function that cannot be inlined, initializers and
/// attributes of all kinds, metadata.
pub fn everything() -> ModelProto {
    let mut kinds = node("kinds", "Kinds", &["y", "", "s"], &["k", "", "k2"]);
    kinds.domain = Some("test".into());
    kinds.metadata_props = entries(&[("namespace", "top"), ("memc.step", "9")]);
    kinds.attribute = vec![
        attribute("int", AttributeType::Int, |made| made.i = Some(-3)),
        attribute("float", AttributeType::Float, |made| made.f = Some(f32::NAN)),
        attribute("string", AttributeType::String, |made| made.s = Some(b"\xff text".to_vec())),
        attribute("ints", AttributeType::Ints, |made| made.ints = vec![1, -2]),
        attribute("floats", AttributeType::Floats, |made| made.floats = vec![0.5, -0.0]),
        attribute("strings", AttributeType::Strings, |made| made.strings = vec![b"a".to_vec(), Vec::new()]),
        attribute("tensor", AttributeType::Tensor, |made| made.t = Some(tensor("t", &[1.0, 2.0]))),
        attribute("text", AttributeType::Tensor, |made| made.t = Some(text_tensor("text"))),
        attribute("tensors", AttributeType::Tensors, |made| {
            made.tensors = vec![tensor("a", &[1.0]), tensor("b", &[])]
        }),
        attribute("graphs", AttributeType::Graphs, |made| {
            made.graphs = vec![body("g0", "Neg", "x"), body("g1", "Abs", "w")]
        }),
        attribute("type", AttributeType::TypeProto, |made| made.tp = info("", &[4]).r#type),
        attribute("sparse", AttributeType::SparseTensor, |made| made.sparse_tensor = Some(sparse("thin"))),
    ];
    let mut call = node("call", "Twice", &["y"], &["z"]);
    call.domain = Some("local".into());
    let nodes = vec![
        node("add", "Add", &["x", "w"], &["y"]),
        kinds,
        call,
        branch("if", "condition", "y", "b"),
        node("sum", "Sum", &["k", "z", "b", "e", "t", "v"], &["out"]),
    ];
    let mut main = graph(nodes, &["out", "y"]);
    main.input.push(ValueInfoProto { r#type: None, ..info("condition", &[]) });
    main.input.push(info("v", &[2]));
    main.initializer =
        vec![tensor("w", &[3.0, 4.0]), external("e"), tensor("v", &[0.0, 0.0]), text_tensor("s")];
    main.sparse_initializer = vec![sparse("t")];
    main.value_info = vec![info("z", &[2]), info("k2", &[7])];
    // The function uses another version of ONNX's operators, so it stays a call.
    let twice = FunctionProto {
        name: Some("Twice".into()),
        domain: Some("local".into()),
        input: strings(&["a"]),
        output: strings(&["b"]),
        node: vec![node("", "Add", &["a", "a"], &["b"])],
        opset_import: vec![opset("", 13)],
        ..FunctionProto::default()
    };
    let mut model = model_of(main);
    model.opset_import.extend([opset("test", 1), opset("local", 1)]);
    model.functions = vec![twice];
    model.metadata_props = entries(&[("author", "somebody"), ("memc.version", "0.0.0")]);
    model
}
