//! Models with barriers, so that a session rounds every value to the type that the model states.
//!
//! If an operator has no kernel for half precision, ONNX Runtime runs it between two conversions. It
//! then removes pairs of conversions that it considers redundant, the model's own included, even with
//! all optimizations disabled. Values between operators of this kind stay in full precision, and a
//! number too large for the type between two Casts stays unchanged (`RemoveDuplicateCastTransformer`,
//! seen in 1.22 and 1.31). A plan has room for the stated types, so its reference must round to them.
//! The runtime does not follow conversions into bodies, so a barrier is an If whose branches both pass
//! the value on.

use std::collections::{BTreeMap, BTreeSet};

use memc_onnx_proto::onnx::attribute_proto::AttributeType;
use memc_onnx_proto::onnx::tensor_proto::DataType;
use memc_onnx_proto::onnx::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    TypeProto, ValueInfoProto,
};

use crate::cut::captured;
use crate::types::element;

/// Deepest nesting of bodies that is followed; the reader of models rejects deeper ones anyway.
const MAX_DEPTH: usize = 64;

/// Adds barriers at all values that a session might not round to the stated type. `halves` are the
/// half-precision values of the main graph.
pub(crate) fn hold_types(model: &mut ModelProto, halves: &BTreeMap<String, DataType>) {
    let may_hold_halves = may_hold_halves(model);
    let may_hold_coarse = may_hold(model, |number| number == DataType::Bfloat16 as i32);
    let takes_coarse = takes_coarse(&model.opset_import);
    if let Some(graph) = &mut model.graph {
        let mut held = between_casts(&graph.node);
        held.extend(halves.keys().cloned());
        held.retain(|name| takes_coarse || halves.get(name) != Some(&DataType::Bfloat16));
        let others = graph
            .initializer
            .iter()
            .map(|tensor| tensor.name())
            .chain(graph.input.iter().map(|input| input.name()));
        let others: BTreeSet<String> = others.map(str::to_owned).collect();
        add_barriers(&mut graph.node, held, others);
    }
    // The element types in a function depend on its callers, so all values of the function are held.
    let takes_all = |function: &&mut FunctionProto| {
        let sets = &function.opset_import;
        version(sets).is_some() && (!may_hold_coarse || self::takes_coarse(sets))
    };
    for function in model.functions.iter_mut().filter(|_| may_hold_halves).filter(takes_all) {
        let held = function
            .node
            .iter()
            .flat_map(|node| &node.output)
            .filter(|name| !name.is_empty())
            .cloned()
            .collect();
        let others = function.input.iter().cloned().collect();
        add_barriers(&mut function.node, held, others);
    }
}

/// Returns the version of ONNX's own operator set; `None` if it is not imported.
fn version(sets: &[OperatorSetIdProto]) -> Option<i64> {
    sets.iter().find(|set| matches!(set.domain(), "" | "ai.onnx")).map(OperatorSetIdProto::version)
}

/// Whether an If may return bfloat16.
fn takes_coarse(sets: &[OperatorSetIdProto]) -> bool {
    const FIRST: i64 = 16;
    version(sets).is_some_and(|version| version >= FIRST)
}

/// Returns the values that one Cast makes and another Cast reads.
fn between_casts(nodes: &[NodeProto]) -> BTreeSet<String> {
    let casts = || nodes.iter().filter(|node| node.op_type() == "Cast");
    let read: BTreeSet<&String> = casts().flat_map(|node| &node.input).collect();
    casts().flat_map(|node| &node.output).filter(|name| read.contains(name)).cloned().collect()
}

/// Returns the half-precision type with ONNX's number; `None` for other types.
pub(crate) fn half(number: i32) -> Option<DataType> {
    [DataType::Float16, DataType::Bfloat16].into_iter().find(|ty| *ty as i32 == number)
}

fn is_half(number: i32) -> bool {
    half(number).is_some()
}

/// Returns, for each value of the main graph that depends on half-precision numbers, the coarsest of
/// their types. `halves` are the nodes' half-precision results.
pub(crate) fn rounded(graph: &GraphProto, halves: &BTreeMap<String, DataType>) -> BTreeMap<String, DataType> {
    let mut found = halves.clone();
    for info in &graph.input {
        let ty = info.r#type.as_ref().and_then(element).and_then(half);
        found.extend(ty.map(|ty| (info.name().to_owned(), ty)));
    }
    for node in &graph.node {
        let captured = captured(node);
        let read = node.input.iter().chain(&captured).filter_map(|name| found.get(name).copied());
        let Some(operand) = read.max_by_key(|ty| *ty as i32) else { continue };
        for name in &node.output {
            let own = found.get(name).copied().unwrap_or(operand);
            // Bfloat16 is the coarser type, and has the larger number.
            found.insert(name.clone(), if own as i32 > operand as i32 { own } else { operand });
        }
    }
    found
}

/// Whether any value may be of half precision.
pub(crate) fn may_hold_halves(model: &ModelProto) -> bool {
    may_hold(model, is_half)
}

/// Whether any value may be of a type for which `is_it` is true: a tensor has the type, or an integer
/// attribute is the type's number.
fn may_hold(model: &ModelProto, is_it: impl Fn(i32) -> bool) -> bool {
    let graph = model.graph.iter().any(|graph| graph_may(graph, &is_it, 0));
    graph || model.functions.iter().flat_map(|function| &function.node).any(|node| node_may(node, &is_it, 0))
}

fn graph_may(graph: &GraphProto, is_it: &dyn Fn(i32) -> bool, depth: usize) -> bool {
    let tensor = |ty: &TypeProto| element(ty).is_some_and(is_it);
    let mut described = graph.input.iter().chain(&graph.value_info).chain(&graph.output);
    described.any(|info| info.r#type.as_ref().is_some_and(tensor))
        || graph.initializer.iter().any(|tensor| is_it(tensor.data_type()))
        || graph.node.iter().any(|node| node_may(node, is_it, depth))
}

fn node_may(node: &NodeProto, is_it: &dyn Fn(i32) -> bool, depth: usize) -> bool {
    node.attribute.iter().any(|attribute| {
        i32::try_from(attribute.i()).is_ok_and(is_it)
            || attribute.t.iter().chain(&attribute.tensors).any(|tensor| is_it(tensor.data_type()))
            || (depth < MAX_DEPTH
                && attribute.g.iter().chain(&attribute.graphs).any(|body| graph_may(body, is_it, depth + 1)))
    })
}

/// Makes the readers of the values in `held` read the result of a barrier instead. Bodies still read the
/// values themselves, because no conversions are removed across their border. `others` are the names of
/// values that no node makes.
fn add_barriers(nodes: &mut Vec<NodeProto>, mut held: BTreeSet<String>, others: BTreeSet<String>) {
    let read: BTreeSet<&str> = nodes.iter().flat_map(|node| node.input.iter().map(String::as_str)).collect();
    let made: BTreeSet<&str> = nodes.iter().flat_map(|node| node.output.iter().map(String::as_str)).collect();
    held.retain(|name| read.contains(name.as_str()) && made.contains(name.as_str()));
    if held.is_empty() {
        return;
    }
    let all = nodes.iter().flat_map(|node| node.input.iter().chain(&node.output)).chain(&others);
    let taken: BTreeSet<&str> = all.map(String::as_str).collect();
    // Choose a prefix with which no name of the model starts.
    let prefix = (0..)
        .map(|number| format!("stated{number}:"))
        .find(|prefix| !taken.iter().any(|name| name.starts_with(prefix)));
    let Some(prefix) = prefix else { return };
    let always = format!("{prefix}always");
    let mut held_apart = Vec::from(truth(&always, &format!("{prefix}one")));
    // Redirect the readers, and insert a barrier after each producer.
    for mut node in std::mem::take(nodes) {
        for name in node.input.iter_mut().filter(|name| held.contains(*name)) {
            *name = format!("{prefix}{name}");
        }
        let barriers = node.output.iter().filter(|name| held.contains(*name));
        let barriers: Vec<NodeProto> =
            barriers.map(|name| barrier(name, &format!("{prefix}{name}"), &always)).collect();
        held_apart.push(node);
        held_apart.extend(barriers);
    }
    *nodes = held_apart;
}

/// Returns two nodes; the second returns true, computed from the value `of`. Before version 9 there are
/// no Boolean constants.
fn truth(result: &str, of: &str) -> [NodeProto; 2] {
    let one = TensorProto {
        data_type: Some(DataType::Float as i32),
        float_data: vec![1.0],
        ..TensorProto::default()
    };
    let mut value =
        AttributeProto { name: Some("value".to_owned()), t: Some(one), ..AttributeProto::default() };
    value.set_type(AttributeType::Tensor);
    let to = Some(i64::from(DataType::Bool as i32));
    let mut to = AttributeProto { name: Some("to".to_owned()), i: to, ..AttributeProto::default() };
    to.set_type(AttributeType::Int);
    let node = |op: &str, input: &[&str], output: &str, attribute: AttributeProto| NodeProto {
        op_type: Some(op.to_owned()),
        input: input.iter().map(|name| (*name).to_owned()).collect(),
        output: vec![output.to_owned()],
        attribute: vec![attribute],
        ..NodeProto::default()
    };
    [node("Constant", &[], of, value), node("Cast", &[of], result, to)]
}

/// Returns the node `If (always) { value } else { value }`.
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
        let mut attribute =
            AttributeProto { name: Some(which.to_owned()), g: Some(body), ..AttributeProto::default() };
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
