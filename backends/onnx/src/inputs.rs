//! Graph inputs that are weights: below IR version 4 every initializer is listed among them and cannot be replaced; from 4 on it could be.

use std::collections::BTreeSet;

use memc_onnx_proto::onnx::GraphProto;
use memc_onnx_proto::{GraphEdit, ModelFile, NodePiece};

use crate::encode::MAX_DEPTH;
use crate::pieces::{are_unchanged, originals};

/// First `ir_version` in which an initializer need not be a graph input, and is a default that callers may replace where it is one.
pub(crate) const FREE_INITIALIZERS_IR_VERSION: i64 = 4;

/// Names of the inputs that a graph of the file has for its callers.
pub(crate) fn stated<'f>(file: &'f ModelFile, graph: &'f GraphProto) -> Vec<&'f str> {
    let weights = weights(file, graph);
    graph.input.iter().map(|info| info.name()).filter(|name| !weights.contains(name)).collect()
}

/// Names of the inputs of a graph of the file that are constants.
pub(crate) fn weights<'f>(file: &'f ModelFile, graph: &'f GraphProto) -> BTreeSet<&'f str> {
    if file.model().ir_version() >= FREE_INITIALIZERS_IR_VERSION {
        return BTreeSet::new();
    }
    let sparse = graph.sparse_initializer.iter().filter_map(|sparse| sparse.values.as_ref()).map(|values| values.name());
    let held: BTreeSet<&str> = graph.initializer.iter().map(|tensor| tensor.name()).chain(sparse).collect();
    graph.input.iter().map(|info| info.name()).filter(|name| held.contains(name)).collect()
}

/// Takes the weights out of the inputs of the main graph and of all bodies: for a file whose version rises past 3. Runtimes neither
/// fold nor pack what a caller may replace.
pub(crate) fn free_weights(file: &ModelFile, edit: &mut GraphEdit) {
    if file.model().ir_version() < FREE_INITIALIZERS_IR_VERSION {
        free(file, file.graph(), edit, 0);
    }
}

fn free(file: &ModelFile, graph: &GraphProto, edit: &mut GraphEdit, depth: usize) {
    // Deeper bodies were refused when the edit was made.
    if depth > MAX_DEPTH {
        return;
    }
    let weights = weights(file, graph);
    edit.dropped_inputs.extend(weights.into_iter().map(str::to_owned));
    let mut nodes = edit.nodes.take().unwrap_or_else(|| originals(graph));
    let mut is_changed = false;
    for piece in &mut nodes {
        let NodePiece::Original { index, edit } = piece else { continue };
        for attribute in graph.node.get(*index).iter().flat_map(|node| &node.attribute) {
            // A body that is encoded anew has no weights among its inputs.
            let Some(body) = attribute.g.as_ref().filter(|_| edit.attributes.iter().all(|new| new.name() != attribute.name()))
            else {
                continue;
            };
            let mut change = edit.bodies.remove(attribute.name()).unwrap_or_default();
            free(file, body, &mut change, depth + 1);
            if change != GraphEdit::default() {
                is_changed = true;
                edit.bodies.insert(attribute.name().to_owned(), change);
            }
        }
    }
    edit.nodes = Some(nodes).filter(|nodes| is_changed || !are_unchanged(nodes, graph.node.len()));
}
