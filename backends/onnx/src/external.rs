//! Files that hold tensor elements of the written model: initializers, sparse initializers, attributes,
//! bodies, functions and training graphs.

use std::collections::BTreeSet;

use memc_ir::{ConstOrigin, Payload};
use memc_onnx_proto::onnx::tensor_proto::DataLocation;
use memc_onnx_proto::onnx::{AttributeProto, GraphProto, NodeProto, SparseTensorProto, TensorProto};
use memc_onnx_proto::{GraphEdit, ModelFile, NodePiece, TensorSource};

use crate::encode::{MAX_DEPTH, Source};

/// Returns the locations that the model refers to after `edit` is applied to the file's main graph.
pub(crate) fn files(source: Source<'_>, edit: &GraphEdit) -> BTreeSet<String> {
    let mut files = Files::default();
    files.edited(source.file.graph(), edit, 0);
    // Add tensors that are copied from the file under another name; the module knows their location.
    let module = source.module;
    let owned: BTreeSet<&str> = edit
        .new_initializers
        .iter()
        .filter_map(|(name, made)| match made {
            TensorSource::Owned(_) => Some(name.as_str()),
            TensorSource::Span(_) => None,
        })
        .collect();
    for value in &module.graph(module.main()).constants {
        let Some(constant) = module.constant_of(*value).map(|constant| module.constant(constant)) else {
            continue;
        };
        // The message of a new initializer was visited above.
        if owned.contains(source.name(*value)) {
            continue;
        }
        if let (
            Payload::External { location, .. },
            ConstOrigin::Initializer(_) | ConstOrigin::Message { .. },
        ) = (&constant.payload, constant.origin)
        {
            files.found.insert(location.clone());
        }
    }
    // Functions and training graphs are written unchanged.
    files.elsewhere(source.file);
    files.found
}

/// Returns the locations of the weights that a model refers to, relative to its folder.
pub fn weight_files(file: &ModelFile) -> BTreeSet<String> {
    let mut files = Files::default();
    files.graph(file.graph(), 0);
    files.elsewhere(file);
    files.found
}

#[derive(Default)]
struct Files {
    found: BTreeSet<String>,
}

/// Visits the messages of a model. Recursion stops at the exporter's depth limit.
impl Files {
    fn edited(&mut self, graph: &GraphProto, edit: &GraphEdit, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        let kept = graph
            .initializer
            .iter()
            .enumerate()
            .filter(|(index, _)| !edit.dropped_initializers.contains(index));
        kept.for_each(|(_, tensor)| self.tensor(tensor));
        graph.sparse_initializer.iter().for_each(|sparse| self.sparse(sparse));
        for (_, tensor) in &edit.new_initializers {
            if let TensorSource::Owned(tensor) = tensor {
                self.tensor(tensor);
            }
        }
        let Some(pieces) = &edit.nodes else { return self.nodes(&graph.node, depth) };
        for piece in pieces {
            let (index, edit) = match piece {
                NodePiece::New(node) => {
                    self.nodes(std::slice::from_ref(node), depth);
                    continue;
                }
                NodePiece::Original { index, edit } => (*index, edit),
            };
            edit.attributes.iter().for_each(|attribute| self.attribute(attribute, depth));
            let replaced: BTreeSet<&str> = edit.attributes.iter().map(|attribute| attribute.name()).collect();
            let old = graph.node.get(index).into_iter().flat_map(|node| &node.attribute);
            for attribute in old.filter(|old| !replaced.contains(old.name())) {
                match (edit.bodies.get(attribute.name()), &attribute.g) {
                    (Some(edit), Some(body)) => self.edited(body, edit, depth + 1),
                    _ => self.attribute(attribute, depth),
                }
            }
        }
    }

    /// Visits functions and training graphs.
    fn elsewhere(&mut self, file: &ModelFile) {
        let model = file.model();
        for function in &model.functions {
            self.nodes(&function.node, 0);
            function.attribute_proto.iter().for_each(|attribute| self.attribute(attribute, 0));
        }
        for training in &model.training_info {
            training.initialization.iter().chain(&training.algorithm).for_each(|graph| self.graph(graph, 0));
        }
    }

    fn graph(&mut self, graph: &GraphProto, depth: usize) {
        self.edited(graph, &GraphEdit::default(), depth);
    }

    fn nodes(&mut self, nodes: &[NodeProto], depth: usize) {
        nodes.iter().flat_map(|node| &node.attribute).for_each(|attribute| self.attribute(attribute, depth));
    }

    fn attribute(&mut self, attribute: &AttributeProto, depth: usize) {
        attribute.t.iter().chain(&attribute.tensors).for_each(|tensor| self.tensor(tensor));
        attribute
            .sparse_tensor
            .iter()
            .chain(&attribute.sparse_tensors)
            .for_each(|sparse| self.sparse(sparse));
        attribute.g.iter().chain(&attribute.graphs).for_each(|graph| self.graph(graph, depth + 1));
    }

    fn sparse(&mut self, sparse: &SparseTensorProto) {
        sparse.values.iter().chain(&sparse.indices).for_each(|tensor| self.tensor(tensor));
    }

    fn tensor(&mut self, tensor: &TensorProto) {
        if tensor.data_location() == DataLocation::External {
            let location = tensor.external_data.iter().find(|entry| entry.key() == "location");
            self.found.extend(location.map(|entry| entry.value().to_owned()));
        }
    }
}
