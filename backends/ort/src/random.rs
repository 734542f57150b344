//! Nodes that draw random numbers: they get a fixed seed, so that a node cut out of its model draws what it draws inside.

use memc_onnx_proto::onnx::attribute_proto::AttributeType;
use memc_onnx_proto::onnx::{AttributeProto, ModelProto, NodeProto};

/// Operators of ONNX that draw, with the type of their attribute `seed`.
const DRAWING: [(&str, AttributeType); 7] = [
    ("RandomUniform", AttributeType::Float),
    ("RandomUniformLike", AttributeType::Float),
    ("RandomNormal", AttributeType::Float),
    ("RandomNormalLike", AttributeType::Float),
    ("Bernoulli", AttributeType::Float),
    ("Multinomial", AttributeType::Float),
    ("Dropout", AttributeType::Int),
];

/// First operator set in which Dropout has a seed; before, it draws nothing at inference.
const DROPOUT_WITH_SEED: i64 = 12;

/// Whether a node may draw; such a node keeps a state from run to run.
pub(crate) fn draws(node: &NodeProto) -> bool {
    matches!(node.domain(), "" | "ai.onnx") && DRAWING.iter().any(|(name, _)| *name == node.op_type())
}

/// Gives a drawing node without a seed one that follows from the name of its first result.
///
/// A runtime otherwise takes a seed from the node's position, which differs between a whole model and its parts.
pub(crate) fn give_seed(node: &mut NodeProto, opset: i64) {
    let Some((name, kind)) = DRAWING.iter().find(|(name, _)| *name == node.op_type()) else { return };
    let has_seed = node.attribute.iter().any(|attribute| attribute.name() == "seed");
    if !draws(node) || has_seed || (*name == "Dropout" && opset < DROPOUT_WITH_SEED) {
        return;
    }
    let hash = node.output.first().map_or(0, |result| fnv(result.as_bytes()));
    // Every whole number of 24 bits is exact in single precision.
    let seed = (hash % (1 << 24)) as u32;
    let mut attribute = AttributeProto { name: Some("seed".to_owned()), ..AttributeProto::default() };
    attribute.set_type(*kind);
    match kind {
        AttributeType::Int => attribute.i = Some(i64::from(seed)),
        _ => attribute.f = Some(seed as f32),
    }
    node.attribute.push(attribute);
}

/// The operator set of ONNX's own domain.
pub(crate) fn opset(model: &ModelProto) -> i64 {
    model.opset_import.iter().find(|import| matches!(import.domain(), "" | "ai.onnx")).map_or(1, |import| import.version())
}

/// The model with a seed in every node of the main graph that draws without one; `None` when there is no such node.
pub(crate) fn seeded(model: &ModelProto) -> Option<ModelProto> {
    let opset = opset(model);
    let nodes = model.graph.as_ref().map(|graph| graph.node.as_slice()).unwrap_or_default();
    let changed = nodes.iter().any(|node| {
        draws(node) && {
            let mut copy = node.clone();
            give_seed(&mut copy, opset);
            copy.attribute.len() != node.attribute.len()
        }
    });
    if !changed {
        return None;
    }
    let mut model = model.clone();
    if let Some(graph) = &mut model.graph {
        graph.node.iter_mut().for_each(|node| give_seed(node, opset));
    }
    Some(model)
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo).
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
