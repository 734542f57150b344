//! Graph inputs that are weights: below IR version 4 every initializer is listed among the inputs and is
//! constant; from version 4 on, a caller could replace it.

use std::collections::BTreeSet;

use memc_onnx_proto::onnx::GraphProto;
use memc_onnx_proto::{GraphEdit, ModelFile, NodePiece};

use crate::encode::MAX_DEPTH;
use crate::pieces::{are_unchanged, originals};

/// First `ir_version` in which an initializer need not be a graph input. An initializer that is one is a
/// default that callers may replace.
pub(crate) const FREE_INITIALIZERS_IR_VERSION: i64 = 4;

/// Returns the names of the inputs of a graph that its callers supply.
pub(crate) fn stated<'f>(file: &'f ModelFile, graph: &'f GraphProto) -> Vec<&'f str> {
    let weights = weights(file, graph);
    graph.input.iter().map(|info| info.name()).filter(|name| !weights.contains(name)).collect()
}

/// Returns the names of the graph inputs that are constants.
pub(crate) fn weights<'f>(file: &'f ModelFile, graph: &'f GraphProto) -> BTreeSet<&'f str> {
    if file.model().ir_version() >= FREE_INITIALIZERS_IR_VERSION {
        return BTreeSet::new();
    }
    let sparse = graph
        .sparse_initializer
        .iter()
        .filter_map(|sparse| sparse.values.as_ref())
        .map(|values| values.name());
    let held: BTreeSet<&str> = graph.initializer.iter().map(|tensor| tensor.name()).chain(sparse).collect();
    graph.input.iter().map(|info| info.name()).filter(|name| held.contains(name)).collect()
}

/// Removes the weights from the inputs of the main graph and of all bodies if the version of the file
/// rises past 3. Runtimes neither fold nor pack values that a caller may replace.
pub(crate) fn free_weights(file: &ModelFile, edit: &mut GraphEdit) {
    if file.model().ir_version() < FREE_INITIALIZERS_IR_VERSION {
        free(file, file.graph(), edit, 0);
    }
}

fn free(file: &ModelFile, graph: &GraphProto, edit: &mut GraphEdit, depth: usize) {
    // Making the edit already rejected deeper bodies.
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
            // Skip bodies that are encoded from the module: weights are not among their inputs.
            let Some(body) = attribute
                .g
                .as_ref()
                .filter(|_| edit.attributes.iter().all(|new| new.name() != attribute.name()))
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
