//! Models with barriers, so that a session rounds every value to the type that the model states.
//!
//! ONNX Runtime runs operators without a kernel for half precision between conversions, and then leaves out what it takes for pairs of
//! conversions, those of the model itself too, even with all optimizations disabled: values between such operators stay in full precision,
//! and a number too large for the type between two Casts stays what it was (`RemoveDuplicateCastTransformer`, seen in 1.22 and 1.31). A plan
//! has room for what is stated, so that is what its reference must round to. Conversions are not followed into bodies: a barrier is an If
//! both of whose branches give the value on.

use std::collections::BTreeSet;

use memc_onnx_proto::onnx::attribute_proto::AttributeType;
use memc_onnx_proto::onnx::tensor_proto::DataType;
use memc_onnx_proto::onnx::type_proto::Value;
use memc_onnx_proto::onnx::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto};

/// Bodies within bodies that are looked into; the reader of models refuses more anyway.
const MAX_DEPTH: usize = 64;

/// Adds barriers to a model where a session would not round to the stated types. `halves` are the results of the main graph's nodes that are of
/// half precision.
pub(crate) fn hold_types(model: &mut ModelProto, halves: &BTreeSet<String>) {
    let Some(graph) = &mut model.graph else { return };
    let mut held = between_casts(graph);
    held.extend(halves.iter().cloned());
    let read: BTreeSet<&str> = graph.node.iter().flat_map(|node| node.input.iter().map(String::as_str)).collect();
    held.retain(|name| read.contains(name.as_str()));
    if !held.is_empty() {
        add_barriers(graph, &held);
    }
}

/// Values that one Cast gives and another reads.
fn between_casts(graph: &GraphProto) -> BTreeSet<String> {
    let casts = || graph.node.iter().filter(|node| node.op_type() == "Cast");
    let read: BTreeSet<&String> = casts().flat_map(|node| &node.input).collect();
    casts().flat_map(|node| &node.output).filter(|name| read.contains(name)).cloned().collect()
}

/// Whether a number of ONNX's names a type of half precision.
pub(crate) fn is_half(number: i32) -> bool {
    number == DataType::Float16 as i32 || number == DataType::Bfloat16 as i32
}

/// Whether some value may be of half precision: a tensor is, or the number of such a type stands in an attribute.
pub(crate) fn may_hold_halves(model: &ModelProto) -> bool {
    let graph = model.graph.iter().any(|graph| graph_may(graph, 0));
    graph || model.functions.iter().flat_map(|function| &function.node).any(|node| node_may(node, 0))
}

fn graph_may(graph: &GraphProto, depth: usize) -> bool {
    let tensor = |ty: &TypeProto| matches!(&ty.value, Some(Value::TensorType(tensor)) if is_half(tensor.elem_type()));
    let mut described = graph.input.iter().chain(&graph.value_info).chain(&graph.output);
    described.any(|info| info.r#type.as_ref().is_some_and(tensor))
        || graph.initializer.iter().any(|tensor| is_half(tensor.data_type()))
        || graph.node.iter().any(|node| node_may(node, depth))
}

fn node_may(node: &NodeProto, depth: usize) -> bool {
    node.attribute.iter().any(|attribute| {
        i32::try_from(attribute.i()).is_ok_and(is_half)
            || attribute.t.iter().chain(&attribute.tensors).any(|tensor| is_half(tensor.data_type()))
            || (depth < MAX_DEPTH && attribute.g.iter().chain(&attribute.graphs).any(|body| graph_may(body, depth + 1)))
    })
}

/// Gives the readers of some values what comes out behind a barrier. Bodies go on reading the values themselves: no conversions are left
/// out across their border.
fn add_barriers(graph: &mut GraphProto, held: &BTreeSet<String>) {
    let taken: BTreeSet<&str> = graph
        .node
        .iter()
        .flat_map(|node| node.input.iter().chain(&node.output))
        .map(String::as_str)
        .chain(graph.initializer.iter().map(|tensor| tensor.name()))
        .chain(graph.input.iter().map(|input| input.name()))
        .collect();
    // No name of the model starts so.
    let prefix = (0..).map(|number| format!("stated{number}:")).find(|prefix| !taken.iter().any(|name| name.starts_with(prefix)));
    let Some(prefix) = prefix else { return };
    let always = format!("{prefix}always");
    let mut nodes = Vec::with_capacity(graph.node.len() + held.len());
    for mut node in std::mem::take(&mut graph.node) {
        for name in node.input.iter_mut().filter(|name| held.contains(*name)) {
            *name = format!("{prefix}{name}");
        }
        let barriers = node.output.iter().filter(|name| held.contains(*name));
        let barriers: Vec<NodeProto> = barriers.map(|name| barrier(name, &format!("{prefix}{name}"), &always)).collect();
        nodes.push(node);
        nodes.extend(barriers);
    }
    graph.node = nodes;
    graph.initializer.push(TensorProto {
        name: Some(always),
        data_type: Some(DataType::Bool as i32),
        raw_data: Some(vec![1].into()),
        ..TensorProto::default()
    });
}

/// `If (always) { value } else { value }`.
fn barrier(value: &str, result: &str, always: &str) -> NodeProto {
    let branch = |which: &str| {
        let inner = format!("{result}:{which}");
        let body = GraphProto {
            name: Some(inner.clone()),
            node: vec![NodeProto {
                op_type: Some("Identity".to_owned()),
                input: vec![value.to_owned()],
                output: vec![inner.clone()],
                ..NodeProto::default()
            }],
            output: vec![ValueInfoProto { name: Some(inner), ..ValueInfoProto::default() }],
            ..GraphProto::default()
        };
        let mut attribute = AttributeProto { name: Some(which.to_owned()), g: Some(body), ..AttributeProto::default() };
        attribute.set_type(AttributeType::Graph);
        attribute
    };
    NodeProto {
        op_type: Some("If".to_owned()),
        name: Some(result.to_owned()),
        input: vec![always.to_owned()],
        output: vec![result.to_owned()],
        attribute: vec![branch("then_branch"), branch("else_branch")],
        ..NodeProto::default()
    }
}
