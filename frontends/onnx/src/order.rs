//! Stable topological order of a graph's nodes: the file order, as far as it is topological.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use memc_onnx_proto::onnx::{GraphProto, NodeProto};

use crate::error::ImportError;

/// Returns the positions of the nodes in a topological order.
///
/// Always takes the ready node that comes first in the file, so an ordered file keeps its order.
pub(crate) fn topological(graph: &GraphProto) -> Result<Vec<usize>, ImportError> {
    // Find the producer of each name and count the producers that each node waits for.
    let mut producer: HashMap<&str, usize> = HashMap::new();
    for (index, node) in graph.node.iter().enumerate() {
        for output in node.output.iter().filter(|name| !name.is_empty()) {
            producer.entry(output).or_insert(index);
        }
    }
    let mut waits = vec![0usize; graph.node.len()];
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); graph.node.len()];
    for (index, node) in graph.node.iter().enumerate() {
        let sources: BTreeSet<usize> =
            reads(node).into_iter().filter_map(|name| producer.get(name).copied()).collect();
        waits[index] = sources.len();
        for source in sources {
            readers[source].push(index);
        }
    }
    // Take the first ready node of the file until none is left.
    let mut ready: BinaryHeap<Reverse<usize>> =
        (0..graph.node.len()).filter(|index| waits[*index] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(graph.node.len());
    while let Some(Reverse(index)) = ready.pop() {
        order.push(index);
        for reader in &readers[index] {
            waits[*reader] -= 1;
            if waits[*reader] == 0 {
                ready.push(Reverse(*reader));
            }
        }
    }
    if order.len() == graph.node.len() {
        return Ok(order);
    }
    let stuck = (0..graph.node.len()).find(|index| waits[*index] > 0).unwrap_or(0);
    Err(ImportError::Cycle {
        graph: graph.name.clone().unwrap_or_default(),
        node: describe(&graph.node[stuck]),
    })
}

/// Returns the names that a node reads: its operands and the captures of its bodies. A name that a body
/// defines anywhere belongs to the body, even if an enclosing graph uses it too.
fn reads(node: &NodeProto) -> Vec<&str> {
    let mut names: Vec<&str> = operands(node).collect();
    let mut captured: BTreeSet<&str> = BTreeSet::new();
    capture(node, &mut captured);
    names.extend(captured);
    names
}

fn operands(node: &NodeProto) -> impl Iterator<Item = &str> {
    node.input.iter().map(String::as_str).filter(|name| !name.is_empty())
}

/// Adds the names that the bodies of a node read but do not define. Decoding has bounded the nesting of
/// bodies.
fn capture<'a>(node: &'a NodeProto, captured: &mut BTreeSet<&'a str>) {
    for body in node.attribute.iter().flat_map(|attribute| attribute.g.iter().chain(&attribute.graphs)) {
        let mut read: BTreeSet<&str> = body.output.iter().filter_map(|info| info.name.as_deref()).collect();
        for node in &body.node {
            read.extend(operands(node));
            capture(node, &mut read);
        }
        for name in defined(body) {
            read.remove(name);
        }
        captured.append(&mut read);
    }
}

/// Iterates over the names of a graph's inputs, initializers and node results.
pub(crate) fn defined(graph: &GraphProto) -> impl Iterator<Item = &str> {
    let inputs = graph.input.iter().filter_map(|info| info.name.as_deref());
    let dense = graph.initializer.iter().filter_map(|tensor| tensor.name.as_deref());
    let sparse = graph.sparse_initializer.iter().filter_map(|sparse| sparse.values.as_ref()?.name.as_deref());
    let results = graph.node.iter().flat_map(|node| &node.output).map(String::as_str);
    inputs.chain(dense).chain(sparse).chain(results)
}

/// Whether a node has bodies.
pub(crate) fn has_bodies(node: &NodeProto) -> bool {
    node.attribute.iter().any(|attribute| attribute.g.is_some() || !attribute.graphs.is_empty())
}

/// Describes a node for a message: its name, or its operator and first result.
pub(crate) fn describe(node: &NodeProto) -> String {
    match node.name.as_deref() {
        Some(name) if !name.is_empty() => format!("\"{name}\""),
        _ => format!(
            "{} -> {}",
            node.op_type.as_deref().unwrap_or("?"),
            node.output.first().map_or("(nothing)", String::as_str)
        ),
    }
}
