//! Outputs that the output model has in addition: the input model is extended by the nodes that the layout
//! states for them, and then both models must have equal outputs.

use std::collections::BTreeSet;

use memc_layout::{AddedNode, AddedOutput, Attribute, Layout};
use memc_onnx_proto::onnx::attribute_proto::AttributeType;
use memc_onnx_proto::onnx::{AttributeProto, NodeProto, ValueInfoProto};
use memc_onnx_proto::{GraphEdit, ModelEdit, ModelFile, ModelSplice, NodePiece};

use crate::codes::Kind;
use crate::findings::{At, Findings};

/// Returns the input model with the nodes and outputs of `added_outputs`; `None` if the layout states none,
/// or if it cannot be extended by them.
pub(crate) fn extended(given: &ModelFile, layout: &Layout, findings: &mut Findings) -> Option<ModelFile> {
    let first = layout.added_outputs.first()?;
    if let Some((name, why)) = misnamed(given, &layout.added_outputs) {
        findings.add(Kind::AddedOutput, At::tensor(&name), format!("the added output `{name}` {why}"));
        return None;
    }
    let pieces = (0..given.graph().node.len()).map(NodePiece::original);
    let nodes =
        layout.added_outputs.iter().flat_map(|row| &row.nodes).map(|node| NodePiece::New(proto(node)));
    let graph = GraphEdit {
        nodes: Some(pieces.chain(nodes).collect()),
        new_outputs: layout.added_outputs.iter().map(entry).collect(),
        ..GraphEdit::default()
    };
    let made = ModelSplice::new(given, &ModelEdit { graph, ..ModelEdit::default() })
        .map_err(|error| error.to_string());
    let read =
        made.and_then(|splice| ModelFile::from_bytes(splice.to_vec()).map_err(|error| error.to_string()));
    match read {
        Ok(file) => Some(file),
        Err(why) => {
            let message =
                format!("the input model cannot be extended by the nodes of `added_outputs`: {why}");
            findings.add(Kind::AddedOutput, At::tensor(&first.name), message);
            None
        }
    }
}

/// Returns the first added output whose names do not fit the values of the input model, and the reason.
fn misnamed(given: &ModelFile, rows: &[AddedOutput]) -> Option<(String, String)> {
    let graph = given.graph();
    let inputs = graph.input.iter().map(|input| input.name());
    let constants = graph.initializer.iter().map(|constant| constant.name());
    let results = graph.node.iter().flat_map(|node| &node.output).map(String::as_str);
    let mut known: BTreeSet<&str> =
        inputs.chain(constants).chain(results).filter(|name| !name.is_empty()).collect();
    let mut outputs: BTreeSet<&str> = graph.output.iter().map(|output| output.name()).collect();
    for row in rows {
        let refuse = |why: String| Some((row.name.clone(), why));
        for node in &row.nodes {
            if let Some(name) =
                node.inputs.iter().find(|name| !name.is_empty() && !known.contains(name.as_str()))
            {
                return refuse(format!("reads `{name}`, which is no value before it"));
            }
            for name in node.outputs.iter().filter(|name| !name.is_empty()) {
                if !known.insert(name) {
                    return refuse(format!("computes `{name}`, which another node computes"));
                }
            }
        }
        if !known.contains(row.name.as_str()) {
            return refuse("is computed by no node".to_owned());
        }
        if !outputs.insert(&row.name) {
            return refuse("is an output already".to_owned());
        }
    }
    None
}

/// Returns the entry of an output, without a type: it follows from the nodes.
fn entry(row: &AddedOutput) -> ValueInfoProto {
    ValueInfoProto { name: Some(row.name.clone()), ..ValueInfoProto::default() }
}

fn proto(node: &AddedNode) -> NodeProto {
    NodeProto {
        op_type: Some(node.op.clone()),
        domain: Some(node.domain.clone()).filter(|domain| !domain.is_empty()),
        input: node.inputs.clone(),
        output: node.outputs.clone(),
        attribute: node.attributes.iter().map(|(name, value)| attribute(name, value)).collect(),
        ..NodeProto::default()
    }
}

fn attribute(name: &str, value: &Attribute) -> AttributeProto {
    let mut proto = AttributeProto { name: Some(name.to_owned()), ..AttributeProto::default() };
    let bytes = |text: &String| text.clone().into_bytes();
    let kind = match value {
        Attribute::Int(number) => {
            proto.i = Some(*number);
            AttributeType::Int
        }
        Attribute::Float(number) => {
            proto.f = Some(*number);
            AttributeType::Float
        }
        Attribute::String(text) => {
            proto.s = Some(bytes(text));
            AttributeType::String
        }
        Attribute::Ints(numbers) => {
            proto.ints.clone_from(numbers);
            AttributeType::Ints
        }
        Attribute::Floats(numbers) => {
            proto.floats.clone_from(numbers);
            AttributeType::Floats
        }
        Attribute::Strings(texts) => {
            proto.strings = texts.iter().map(bytes).collect();
            AttributeType::Strings
        }
    };
    proto.set_type(kind);
    proto
}
