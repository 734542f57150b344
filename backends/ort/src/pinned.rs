//! Models whose rounded integers are given instead of computed, so that two models continue from equal
//! integers.

use std::collections::{BTreeMap, BTreeSet};

use memc_onnx_proto::onnx::{GraphProto, ModelProto, ValueInfoProto};

use crate::arrays::Array;
use crate::compare::{DifferenceKind, Tolerance, difference};
use crate::types;

/// Turns results of the main graph's nodes into graph inputs. Each node computes its result under a new
/// name, which becomes an additional output. Returns the old names by new name.
pub(crate) fn pin(model: &mut ModelProto, pins: &BTreeMap<String, Array>) -> BTreeMap<String, String> {
    let Some(graph) = &mut model.graph else { return BTreeMap::new() };
    let prefix = prefix(graph, pins);
    let mut renamed = BTreeMap::new();
    for name in
        graph.node.iter_mut().flat_map(|node| &mut node.output).filter(|name| pins.contains_key(*name))
    {
        let own = format!("{prefix}{name}");
        graph.output.push(ValueInfoProto { name: Some(own.clone()), ..ValueInfoProto::default() });
        renamed.insert(own.clone(), std::mem::replace(name, own));
    }
    graph.value_info.retain(|info| !pins.contains_key(info.name()));
    graph.input.extend(pins.iter().map(|(name, array)| ValueInfoProto {
        name: Some(name.clone()),
        r#type: Some(types::tensor(array.element.onnx())),
        ..ValueInfoProto::default()
    }));
    renamed
}

/// Returns a prefix with which the name of every pinned value is still free in the graph.
fn prefix(graph: &GraphProto, pins: &BTreeMap<String, Array>) -> String {
    let results =
        graph.node.iter().flat_map(|node| node.input.iter().chain(&node.output)).map(String::as_str);
    let others = graph
        .initializer
        .iter()
        .map(|tensor| tensor.name())
        .chain(graph.input.iter().map(|input| input.name()));
    let taken: BTreeSet<&str> = results.chain(others).collect();
    let is_free =
        |prefix: &String| !pins.keys().any(|name| taken.contains(format!("{prefix}{name}").as_str()));
    (0..=taken.len()).map(|number| format!("computed{number}:")).find(is_free).unwrap_or_default()
}

/// Compares the result of a rounding operator with the expected result: integers may be one step apart.
pub(crate) fn step_apart(expected: &Array, found: &Array, usual: Tolerance) -> Option<DifferenceKind> {
    difference(&expected.view(), &found.view(), usual.of_steps(expected.element.data_type()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use super::*;
    use crate::element::Element;
    use memc_onnx_proto::onnx::NodeProto;

    #[test]
    fn readers_of_a_pinned_result_get_the_pinned_array() {
        let node = |op: &str, input: &str, output: &str| NodeProto {
            op_type: Some(op.to_owned()),
            input: vec![input.to_owned()],
            output: vec![output.to_owned()],
            ..NodeProto::default()
        };
        let nodes = vec![
            node("Relu", "x", "computed0:q"),
            node("QuantizeLinear", "computed0:q", "q"),
            node("Relu", "q", "y"),
        ];
        let info = ValueInfoProto { name: Some("q".to_owned()), ..ValueInfoProto::default() };
        let graph = GraphProto { node: nodes, value_info: vec![info], ..GraphProto::default() };
        let mut model = ModelProto { graph: Some(graph), ..ModelProto::default() };
        let array = |bytes: &[u8]| {
            let element = Element::from_name("uint8").expect("a type of arrays");
            Array::new(element, vec![bytes.len() as u64], bytes).expect("memory").expect("as many as said")
        };
        let pins = BTreeMap::from([("q".to_owned(), array(&[7]))]);
        assert_eq!(pin(&mut model, &pins), BTreeMap::from([("computed1:q".to_owned(), "q".to_owned())]));
        let graph = model.graph.expect("the graph");
        assert_eq!(graph.node[1].output, ["computed1:q"]);
        assert_eq!(graph.node[2].input, ["q"]);
        assert_eq!((graph.input[0].name(), graph.output[0].name()), ("q", "computed1:q"));
        assert!(graph.value_info.is_empty());
    }

    #[test]
    fn integers_may_be_one_step_apart() {
        let element = Element::from_name("int16").expect("a type of arrays");
        let array = |number: i16| {
            Array::new(element, vec![1], &number.to_le_bytes()).expect("memory").expect("one element")
        };
        let is_within = |found| match step_apart(&array(-3), &array(found), Tolerance::of_roundings()) {
            None => true,
            Some(DifferenceKind::Elements { within, .. }) => within,
            Some(kind) => unreachable!("{kind:?}"),
        };
        assert!(is_within(-3) && is_within(-2) && is_within(-4) && !is_within(-1));
    }
}
