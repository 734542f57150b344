//! Nodes that draw random numbers: each gets a fixed seed, so that a node cut out of its model draws the
//! numbers that it draws in the whole model.

use memc_onnx_proto::onnx::attribute_proto::AttributeType;
use memc_onnx_proto::onnx::{AttributeProto, ModelProto, NodeProto};

/// Operators of ONNX that draw random numbers, with the type of their attribute `seed`.
const DRAWING: [(&str, AttributeType); 7] = [
    ("RandomUniform", AttributeType::Float),
    ("RandomUniformLike", AttributeType::Float),
    ("RandomNormal", AttributeType::Float),
    ("RandomNormalLike", AttributeType::Float),
    ("Bernoulli", AttributeType::Float),
    ("Multinomial", AttributeType::Float),
    ("Dropout", AttributeType::Int),
];

/// First operator set in which Dropout has a seed; in earlier sets it draws nothing at inference.
const DROPOUT_WITH_SEED: i64 = 12;

/// Whether a node may draw random numbers; its kernel then keeps a state from run to run.
pub(crate) fn draws(node: &NodeProto) -> bool {
    matches!(node.domain(), "" | "ai.onnx") && DRAWING.iter().any(|(name, _)| *name == node.op_type())
}

/// Adds a seed to a drawing node that has none. The seed follows from the name of the node's first
/// result.
///
/// Without a seed, a runtime takes one from the node's position, which differs between a whole model and
/// its parts.
pub(crate) fn give_seed(node: &mut NodeProto, opset: i64) {
    let Some((name, kind)) = DRAWING.iter().find(|(name, _)| *name == node.op_type()) else { return };
    let has_seed = node.attribute.iter().any(|attribute| attribute.name() == "seed");
    if !draws(node) || has_seed || (*name == "Dropout" && opset < DROPOUT_WITH_SEED) {
        return;
    }
    let hash = node.output.first().map_or(0, |result| fnv(result.as_bytes()));
    // Every integer of 24 bits is exact in single precision.
    let seed = (hash % (1 << 24)) as u32;
    let mut attribute = AttributeProto { name: Some("seed".to_owned()), ..AttributeProto::default() };
    attribute.set_type(*kind);
    match kind {
        AttributeType::Int => attribute.i = Some(i64::from(seed)),
        _ => attribute.f = Some(seed as f32),
    }
    node.attribute.push(attribute);
}

/// Returns the version of ONNX's own operator set; 1 if the model does not import it.
pub(crate) fn opset(model: &ModelProto) -> i64 {
    model
        .opset_import
        .iter()
        .find(|import| matches!(import.domain(), "" | "ai.onnx"))
        .map_or(1, |import| import.version())
}

/// Returns the model with a seed in every drawing node of the main graph; `None` if no node lacks one.
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

/// Returns the FNV-1a hash, 64 bits (Fowler, Noll, Vo).
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
