//! Unedited parts come back byte for byte, and the exporter adds only names.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::models;

use std::collections::BTreeSet;

use memc_onnx_export::{file_order, sha256};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::{NodeProto, OperatorSetIdProto};
use models::*;
use proptest::prelude::*;
use prost::Message as _;

#[test]
fn an_unedited_model_keeps_every_byte() {
    let mut bytes = everything().encode_to_vec();
    // A field that no version of ONNX has.
    bytes.extend_from_slice(b"\xba\x3e\x07unknown");
    let file = ModelFile::from_bytes(bytes.clone()).unwrap();
    let module = read(&file);
    let (exported, _) = written(&file, &module, &plain());
    assert!(exported.to_vec() == bytes);
    assert_eq!(exported.len(), bytes.len() as u64);
    assert_eq!(exported.sha256(), sha256(&bytes));
    let mut streamed = Vec::new();
    exported.write_to(&mut streamed).unwrap();
    assert!(streamed == bytes);
    let names: Vec<&str> =
        file_order(&module).iter().map(|node| exported.node_names[*node].as_str()).collect();
    assert_eq!(names, ["add", "kinds", "call", "if", "sum"]);
}

#[test]
fn hashes_are_those_of_the_standard() {
    assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

#[test]
fn every_node_gets_a_name_of_its_own() {
    let nodes = vec![
        node("", "Neg", &["x"], &["a"]),
        node("n", "Neg", &["a"], &["b"]),
        node("n", "Abs", &["b"], &["c"]),
        node("n.2", "Abs", &["c"], &["d"]),
        node("Neg_0", "Abs", &["d"], &["e"]),
        node("", "Neg", &["e"], &["f"]),
    ];
    let file = open(&model_of(graph(nodes, &["f"])));
    let module = read(&file);
    let (exported, decoded) = written(&file, &module, &plain());
    let names: Vec<String> = decoded.graph.unwrap().node.into_iter().map(|node| node.name.unwrap()).collect();
    assert_eq!(names, ["Neg_1", "n", "n.3", "n.2", "Neg_0", "Neg_2"]);
    let reported: Vec<&String> =
        module.graph(module.main()).nodes.iter().map(|node| &exported.node_names[*node]).collect();
    assert_eq!(reported, names.iter().collect::<Vec<_>>());
}

#[test]
fn a_call_that_was_inlined_brings_its_operator_sets() {
    let mut model = everything();
    let function = &mut model.functions[0];
    function.opset_import = vec![opset("", 17), opset("extra", 3)];
    let mut inner = node("", "Double", &["a"], &["b"]);
    inner.domain = Some("extra".into());
    inner.attribute = model.graph.as_ref().unwrap().node[1].attribute[..7].to_vec();
    function.node = vec![inner.clone()];
    let file = open(&model);
    let (exported, decoded) = written(&file, &read(&file), &plain());
    let node: NodeProto = decoded.graph.unwrap().node.into_iter().nth(2).unwrap();
    assert_eq!((node.op_type(), node.domain()), ("Double", "extra"));
    assert_eq!((node.input, node.output), (strings(&["y"]), strings(&["z"])));
    assert_eq!(node.attribute.len(), 7);
    assert_eq!(node.attribute[0], inner.attribute[0]);
    assert_eq!(node.attribute[2..6], inner.attribute[2..6]);
    let imports: Vec<(&str, i64)> =
        decoded.opset_import.iter().map(|set: &OperatorSetIdProto| (set.domain(), set.version())).collect();
    assert_eq!(imports, [("", 17), ("test", 1), ("local", 1), ("extra", 3)]);
    assert_eq!(
        exported
            .opset_imports
            .iter()
            .map(|(domain, version)| (domain.as_str(), *version))
            .collect::<Vec<_>>(),
        imports
    );
}

/// A generated node: the earlier values that it reads, whether it has a name, and whether it has a body.
type Drawn = (Vec<prop::sample::Index>, bool, bool);

fn model_from(drawn: &[Drawn]) -> memc_onnx_proto::onnx::ModelProto {
    let mut values = vec!["x".to_owned()];
    let mut nodes = Vec::new();
    for (number, (reads, named, has_body)) in drawn.iter().enumerate() {
        let inputs: Vec<&str> =
            reads.iter().map(|index| values[index.index(values.len())].as_str()).collect();
        let output = format!("v{number}");
        let name = if *named { format!("node {}", number / 2) } else { String::new() };
        nodes.push(match has_body {
            true => branch(&format!("if {number}"), "condition", inputs[0], &output),
            false => node(&name, "Sum", &inputs, &[&output]),
        });
        values.push(output);
    }
    let last = values.last().unwrap().clone();
    let mut main = graph(nodes, &[&last]);
    main.input.push(info("condition", &[]));
    model_of(main)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn import_then_export_keeps_all_nodes(
        drawn in prop::collection::vec((prop::collection::vec(any::<prop::sample::Index>(), 1..4), any::<bool>(), any::<bool>()), 1..20),
    ) {
        let model = model_from(&drawn);
        let file = open(&model);
        let (_, mut decoded) = written(&file, &read(&file), &plain());
        let old = model.graph.as_ref().unwrap();
        let new = decoded.graph.as_mut().unwrap();
        let names: BTreeSet<String> = new.node.iter().map(|node| node.name().to_owned()).collect();
        prop_assert!(names.len() == new.node.len() && !names.contains(""));
        for (new, old) in new.node.iter_mut().zip(&old.node) {
            new.name.clone_from(&old.name);
        }
        prop_assert_eq!(decoded, model);
    }
}
