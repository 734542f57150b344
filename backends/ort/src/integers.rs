//! Values that are computed of what was rounded to integers of few bits: a last bit that differs before may be a whole step of such integers behind.

use std::collections::BTreeSet;

use memc_onnx_proto::onnx::{GraphProto, NodeProto};

use crate::cut::{bodies, captured};

/// Bodies within bodies that are looked into; the reader of models refuses more anyway.
const MAX_DEPTH: usize = 64;

/// Such values of graphs that share names.
pub(crate) fn reached<'g>(graphs: impl IntoIterator<Item = &'g GraphProto>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for node in graphs.into_iter().flat_map(|graph| &graph.node) {
        let captured = captured(node);
        let mut read = node.input.iter().chain(&captured);
        if rounds(node, 0) || read.any(|name| found.contains(name)) {
            found.extend(node.output.iter().filter(|name| !name.is_empty()).cloned());
        }
    }
    found
}

/// Whether a node rounds to such integers, or a node of one of its bodies.
fn rounds(node: &NodeProto, depth: usize) -> bool {
    let domain = if node.domain() == "ai.onnx" { "" } else { node.domain() };
    let mut inner = bodies(node).flat_map(|body| &body.node);
    memc_ops::find(domain, node.op_type()).is_some_and(|info| info.rounds)
        || (depth < MAX_DEPTH && inner.any(|node| rounds(node, depth + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use memc_onnx_proto::onnx::AttributeProto;

    fn node(op: &str, inputs: &[&str], output: &str) -> NodeProto {
        let input = inputs.iter().map(|&name| name.to_owned()).collect();
        NodeProto { op_type: Some(op.to_owned()), input, output: vec![output.to_owned(), String::new()], ..NodeProto::default() }
    }

    fn graph(node: Vec<NodeProto>) -> GraphProto {
        GraphProto { node, ..GraphProto::default() }
    }

    #[test]
    fn what_is_rounded_and_what_is_computed_of_it_is_reached() {
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
        // What the second graph makes of a value of the first is reached, too.
        let written = graph(vec![node("Relu", &["c"], "i"), node("Relu", &["a"], "j")]);
        assert_eq!(reached([&given, &written]).into_iter().collect::<Vec<_>>(), ["b", "c", "d", "f", "i"]);
    }
}
