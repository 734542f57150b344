//! Values computed from values that were rounded to integers of few bits: a difference in the last bit
//! before the rounding can become a whole integer step after it.

use std::collections::{BTreeMap, BTreeSet};

use memc_onnx_proto::onnx::tensor_proto::DataType;
use memc_onnx_proto::onnx::{GraphProto, NodeProto, TensorProto};
use memc_ops::{OpInfo, Rounding};

use crate::cut::{bodies, captured};

/// Deepest nesting of bodies that is followed; the reader of models rejects deeper ones anyway.
const MAX_DEPTH: usize = 64;

/// Returns the values that depend on a rounding operator, in graphs that share names. Values of `pins`
/// are left out, and so are values that depend on rounding only through them.
pub(crate) fn reached<'g>(
    graphs: impl IntoIterator<Item = &'g GraphProto>,
    pins: &BTreeSet<&str>,
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for node in graphs.into_iter().flat_map(|graph| &graph.node) {
        let captured = captured(node);
        let mut read = node.input.iter().chain(&captured);
        if rounds(node, 0) || read.any(|name| found.contains(name)) {
            found.extend(
                node.output.iter().filter(|name| !name.is_empty() && !pins.contains(name.as_str())).cloned(),
            );
        }
    }
    found
}

/// Returns the distance between neighbouring numbers for each result of a DequantizeLinear with one
/// constant scale, and for each result of operators that only move such elements. If several distances
/// meet, the largest counts.
pub(crate) fn steps(graph: &GraphProto) -> BTreeMap<String, f64> {
    let scales: BTreeMap<&str, f64> = graph
        .initializer
        .iter()
        .filter_map(|tensor| Some((tensor.name(), f64::from(only_float(tensor)?))))
        .collect();
    let mut found: BTreeMap<String, f64> = BTreeMap::new();
    for node in &graph.node {
        let domain = if node.domain() == "ai.onnx" { "" } else { node.domain() };
        let step = match (domain, node.op_type()) {
            ("", "DequantizeLinear") => {
                node.input.get(1).and_then(|scale| scales.get(scale.as_str())).copied()
            }
            (domain, op) => {
                let moves = memc_ops::find(domain, op).is_some_and(OpInfo::moves_elements);
                let read = node.input.iter().filter_map(|name| found.get(name).copied());
                read.reduce(f64::max).filter(|_| moves)
            }
        };
        if let Some(step) = step {
            found.extend(
                node.output.iter().filter(|name| !name.is_empty()).map(|name| (name.clone(), step.abs())),
            );
        }
    }
    found
}

/// Returns the number in a tensor of one 32-bit floating-point number; `None` for other tensors.
fn only_float(tensor: &TensorProto) -> Option<f32> {
    (tensor.data_type == Some(DataType::Float as i32)).then_some(())?;
    match (&tensor.raw_data, tensor.float_data.as_slice()) {
        (Some(raw), []) => Some(f32::from_le_bytes(raw.as_ref().try_into().ok()?)),
        (_, [number]) => Some(*number),
        _ => None,
    }
}

/// Returns the results of rounding operators of the written graph that the given graph has under equal
/// names, for operators all of whose results it has.
pub(crate) fn shared<'g>(given: &GraphProto, written: &'g GraphProto) -> BTreeSet<&'g str> {
    let made: BTreeSet<&str> =
        given.node.iter().flat_map(|node| node.output.iter().map(String::as_str)).collect();
    let rounding = written.node.iter().filter(|node| rounds(node, MAX_DEPTH));
    let results = rounding.map(|node| node.output.iter().map(String::as_str).filter(|name| !name.is_empty()));
    results.filter(|names| names.clone().all(|name| made.contains(name))).flatten().collect()
}

/// Whether a node, or a node of one of its bodies, rounds to integers of few bits.
fn rounds(node: &NodeProto, depth: usize) -> bool {
    let domain = if node.domain() == "ai.onnx" { "" } else { node.domain() };
    let mut inner = bodies(node).flat_map(|body| &body.node);
    memc_ops::find(domain, node.op_type()).is_some_and(|info| info.rounding == Rounding::FewBits)
        || (depth < MAX_DEPTH && inner.any(|node| rounds(node, depth + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use memc_onnx_proto::onnx::AttributeProto;

    fn node(op: &str, inputs: &[&str], output: &str) -> NodeProto {
        let input = inputs.iter().map(|&name| name.to_owned()).collect();
        NodeProto {
            op_type: Some(op.to_owned()),
            input,
            output: vec![output.to_owned(), String::new()],
            ..NodeProto::default()
        }
    }

    fn graph(node: Vec<NodeProto>) -> GraphProto {
        GraphProto { node, ..GraphProto::default() }
    }

    #[test]
    fn rounded_values_and_values_computed_from_them_are_reached() {
        let choice = |name: &str, body: GraphProto| {
            let attribute = AttributeProto { g: Some(body), ..AttributeProto::default() };
            NodeProto { attribute: vec![attribute], ..node("If", &["choice"], name) }
        };
        let given = graph(vec![
            node("Relu", &["x"], "a"),
            node("DynamicQuantizeLinear", &["a"], "b"),
            node("Cast", &["b"], "c"),
            choice("d", graph(vec![node("Relu", &["c"], "inner")])),
            choice("e", graph(vec![node("Relu", &["a"], "inner")])),
            choice("f", graph(vec![node("QuantizeLinear", &["a", "scale"], "inner")])),
            node("Add", &["a", "e"], "g"),
            NodeProto { domain: Some("own".to_owned()), ..node("QuantizeLinear", &["a"], "h") },
        ]);
        // Results of the second graph that depend on values of the first count, too.
        let written = graph(vec![node("Relu", &["c"], "i"), node("Relu", &["a"], "j")]);
        let reached = |pins: &[&str]| {
            reached([&given, &written], &pins.iter().copied().collect()).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(reached(&[]), ["b", "c", "d", "f", "i"]);
        assert_eq!(reached(&["b"]), ["f"]);
    }

    #[test]
    fn operators_that_move_dequantized_values_keep_their_scale() {
        let scale = |name: &str, number: f32| TensorProto {
            name: Some(name.to_owned()),
            data_type: Some(DataType::Float as i32),
            raw_data: Some(number.to_le_bytes().to_vec().into()),
            ..TensorProto::default()
        };
        let nodes = vec![
            node("DequantizeLinear", &["a", "half"], "b"),
            node("DequantizeLinear", &["a", "two"], "c"),
            node("Concat", &["c", "b"], "d"),
            node("Transpose", &["d"], "e"),
            node("Exp", &["e"], "f"),
            node("DequantizeLinear", &["a", "unknown"], "g"),
        ];
        let given = GraphProto { initializer: vec![scale("half", 0.5), scale("two", 2.0)], ..graph(nodes) };
        let expected =
            [("b", 0.5), ("c", 2.0), ("d", 2.0), ("e", 2.0)].map(|(name, step)| (name.to_owned(), step));
        assert_eq!(steps(&given), BTreeMap::from(expected));
    }

    #[test]
    fn results_of_rounding_operators_are_shared_by_name() {
        let given = graph(vec![
            node("QuantizeLinear", &["a"], "b"),
            node("QuantizeLinear", &["b"], "c"),
            node("Relu", &["c"], "d"),
        ]);
        let written = graph(vec![
            node("QuantizeLinear", &["a"], "b"),
            node("QLinearMul", &["b"], "e"),
            node("Relu", &["e"], "d"),
        ]);
        assert_eq!(shared(&given, &written).into_iter().collect::<Vec<_>>(), ["b"]);
    }
}
