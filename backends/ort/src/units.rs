//! Values of unit scale, even if they happen to be small: results of logistic functions and similar
//! operators, also after operators that only move them.

use std::collections::BTreeSet;

use memc_onnx_proto::onnx::{GraphProto, NodeProto};
use memc_ops::{OpInfo, View};

/// Returns the values of unit scale in graphs that share names.
pub(crate) fn units<'g>(graphs: impl IntoIterator<Item = &'g GraphProto>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for node in graphs.into_iter().flat_map(|graph| &graph.node) {
        let Some(info) = info(node) else { continue };
        // A result joined from several values has the scale of the largest.
        if info.unit_scale || moves(info) && node.input.iter().any(|name| found.contains(name)) {
            found.extend(node.output.iter().filter(|name| !name.is_empty()).cloned());
        }
    }
    found
}

fn info(node: &NodeProto) -> Option<&'static OpInfo> {
    let domain = if node.domain() == "ai.onnx" { "" } else { node.domain() };
    memc_ops::find(domain, node.op_type())
}

/// Whether an operator only moves elements or changes their type, without arithmetic.
fn moves(info: &OpInfo) -> bool {
    info.moves_elements() || info.view == View::SameType
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(op: &str, inputs: &[&str], output: &str) -> NodeProto {
        let input = inputs.iter().map(|&name| name.to_owned()).collect();
        NodeProto {
            op_type: Some(op.to_owned()),
            input,
            output: vec![output.to_owned(), String::new()],
            ..NodeProto::default()
        }
    }

    #[test]
    fn moved_values_keep_unit_scale_and_arithmetic_loses_it() {
        let given = GraphProto {
            node: vec![
                node("Conv", &["x", "w"], "c"),
                node("Sigmoid", &["c"], "s"),
                node("Transpose", &["s"], "t"),
                node("Reshape", &["t", "shape"], "r"),
                node("Slice", &["r", "starts", "ends"], "l"),
                node("Concat", &["c", "l"], "j"),
                node("Cast", &["j"], "k"),
                node("Gather", &["k", "indices"], "g"),
                node("Mul", &["s", "c"], "m"),
                node("Transpose", &["c"], "n"),
                NodeProto { domain: Some("own".to_owned()), ..node("Sigmoid", &["c"], "o") },
            ],
            ..GraphProto::default()
        };
        // Results of the second graph that only move values of the first have unit scale, too.
        let written = GraphProto { node: vec![node("Identity", &["s"], "p")], ..GraphProto::default() };
        assert_eq!(
            units([&given, &written]).into_iter().collect::<Vec<_>>(),
            ["g", "j", "k", "l", "p", "r", "s", "t"]
        );
        for op in ["Cos", "Erf", "HardSigmoid", "LogSoftmax", "Sin", "Softmax", "Softsign", "Tanh"] {
            let graph = GraphProto { node: vec![node(op, &["x"], "y")], ..GraphProto::default() };
            assert_eq!(units([&graph]).len(), 1, "{op}");
        }
    }
}
