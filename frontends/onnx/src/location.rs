//! Checks of external data: no path anywhere in a model may leave the model's folder.

use memc_onnx_proto::onnx::tensor_proto::DataLocation;
use memc_onnx_proto::onnx::{
    AttributeProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto,
};

use crate::constant::external;
use crate::error::ImportError;

/// Rejects a model that refers to a file outside its folder. Decoding has bounded the nesting, so
/// recursion is bounded.
pub(crate) fn check(model: &ModelProto) -> Result<(), ImportError> {
    model.graph.iter().try_for_each(graph)?;
    for function in &model.functions {
        nodes(&function.node)?;
        function.attribute_proto.iter().try_for_each(attribute)?;
    }
    model
        .training_info
        .iter()
        .flat_map(|training| training.initialization.iter().chain(&training.algorithm))
        .try_for_each(graph)
}

fn graph(graph: &GraphProto) -> Result<(), ImportError> {
    graph.initializer.iter().try_for_each(tensor)?;
    graph.sparse_initializer.iter().try_for_each(sparse)?;
    nodes(&graph.node)
}

fn nodes(nodes: &[NodeProto]) -> Result<(), ImportError> {
    nodes.iter().flat_map(|node| &node.attribute).try_for_each(attribute)
}

fn attribute(attribute: &AttributeProto) -> Result<(), ImportError> {
    attribute.t.iter().chain(&attribute.tensors).try_for_each(tensor)?;
    attribute.sparse_tensor.iter().chain(&attribute.sparse_tensors).try_for_each(sparse)?;
    attribute.g.iter().chain(&attribute.graphs).try_for_each(graph)
}

fn sparse(sparse: &SparseTensorProto) -> Result<(), ImportError> {
    sparse.values.iter().chain(&sparse.indices).try_for_each(tensor)
}

fn tensor(tensor: &TensorProto) -> Result<(), ImportError> {
    if tensor.data_location() != DataLocation::External {
        return Ok(());
    }
    external(tensor, tensor.name.as_deref().unwrap_or("(unnamed tensor)")).map(drop)
}
