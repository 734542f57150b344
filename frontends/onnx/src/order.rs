//! Topological order of a graph's nodes, stable: the file's order wherever it is one.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use memc_onnx_proto::onnx::{GraphProto, NodeProto};

use crate::error::ImportError;

/// Positions of `graph`'s nodes in an order in which everything is defined before it is read.
///
/// Always takes the ready node that comes first in the file, so a file that is in order stays as it is.
pub(crate) fn topological(graph: &GraphProto) -> Result<Vec<usize>, ImportError> {
    let mut producer: HashMap<&str, usize> = HashMap::new();
    for (index, node) in graph.node.iter().enumerate() {
        for output in node.output.iter().filter(|name| !name.is_empty()) {
            producer.entry(output).or_insert(index);
        }
    }
    let mut waits = vec![0usize; graph.node.len()];
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); graph.node.len()];
    for (index, node) in graph.node.iter().enumerate() {
        let sources: BTreeSet<usize> = reads(node).into_iter().filter_map(|name| producer.get(name).copied()).collect();
        waits[index] = sources.len();
        for source in sources {
            readers[source].push(index);
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> = (0..graph.node.len()).filter(|index| waits[*index] == 0).map(Reverse).collect();
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
    Err(ImportError::Cycle { graph: graph.name.clone().unwrap_or_default(), node: describe(&graph.node[stuck]) })
}

/// Everything that a node and its bodies may read, names that bodies define themselves included (those only cost a lookup).
fn reads(node: &NodeProto) -> Vec<&str> {
    let mut names = Vec::new();
    let mut nodes = vec![node];
    // The nesting of bodies was bounded when the file was decoded.
    while let Some(node) = nodes.pop() {
        names.extend(node.input.iter().map(String::as_str).filter(|name| !name.is_empty()));
        for attribute in &node.attribute {
            for body in attribute.g.iter().chain(&attribute.graphs) {
                nodes.extend(&body.node);
                names.extend(body.output.iter().filter_map(|info| info.name.as_deref()));
            }
        }
    }
    names
}

/// How messages name a node: its name, or what it is and gives.
pub(crate) fn describe(node: &NodeProto) -> String {
    match node.name.as_deref() {
        Some(name) if !name.is_empty() => format!("\"{name}\""),
        _ => format!("{} -> {}", node.op_type.as_deref().unwrap_or("?"), node.output.first().map_or("(nothing)", String::as_str)),
    }
}
