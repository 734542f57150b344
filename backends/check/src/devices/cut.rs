//! Cuts a section out of the given model by the nodes and values that the manifest lists.

use std::collections::BTreeSet;

use memc_ir::{DimExpr, ElementType};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::tensor_shape_proto::{Dimension, dimension::Value as Extent};
use memc_onnx_proto::onnx::type_proto::{Tensor, Value as Kind};
use memc_onnx_proto::onnx::{
    GraphProto, ModelProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto,
};
use prost::Message as _;

use super::Ctx;
use super::given::{Given, Sized};

/// Returns the model of a section. Its inputs and outputs have the order of the planned model.
pub(super) fn section(ctx: &Ctx<'_>, position: usize) -> Result<ModelFile, String> {
    let whole = ctx.given(position);
    let (given, nodes) = (whole.file.graph(), &ctx.nodes[position]);
    let read: BTreeSet<&String> = nodes.iter().flat_map(|node| &whole.nodes[*node].reads).collect();
    let made: BTreeSet<&String> = nodes.iter().flat_map(|node| &whole.nodes[*node].makes).collect();
    let planned = ctx.sections[position].model.graph();
    let is_read = |name: &str| read.iter().any(|read| *read == name);
    let mut graph = GraphProto {
        name: given.name.clone(),
        node: ordered(whole, nodes).into_iter().filter_map(|node| given.node.get(node).cloned()).collect(),
        sparse_initializer: given.sparse_initializer.clone(),
        initializer: given.initializer.iter().filter(|tensor| is_read(tensor.name())).cloned().collect(),
        ..GraphProto::default()
    };
    // Weights that are also inputs: constants below version 4, defaults from it on.
    let listed = |name: &str| {
        given.input.iter().find(|info| info.name() == name && whole.weights.contains(name) && is_read(name))
    };
    for info in &planned.input {
        if ctx.inputs[position].contains(info.name()) {
            graph.input.push(typed(whole, info.name())?);
        } else {
            graph.input.extend(listed(info.name()).cloned());
        }
    }
    let stated: BTreeSet<&str> = graph.input.iter().map(|info| info.name()).collect();
    if let Some(name) = ctx.inputs[position].iter().find(|name| !stated.contains(*name)) {
        return Err(format!("the planned model has no input `{name}`"));
    }
    for info in planned.output.iter().filter(|info| ctx.outputs[position].contains(info.name())) {
        graph.output.push(typed(whole, info.name())?);
    }
    let ends: BTreeSet<&str> = graph.input.iter().chain(&graph.output).map(|info| info.name()).collect();
    for info in &given.value_info {
        let is_inside = made.iter().any(|made| *made == info.name()) && !ends.contains(info.name());
        if is_inside {
            graph.value_info.push(typed(whole, info.name()).unwrap_or_else(|_| info.clone()));
        }
    }
    for name in &ctx.manifest.sections[position].known {
        let (sized, items) = (whole.sized.get(name), whole.integers.get(name));
        let (sized, items) = sized.zip(items).ok_or_else(|| format!("`{name}` is not known"))?;
        graph.initializer.push(constant(name, sized, items));
    }
    let model = ModelProto { graph: Some(graph), ..without_graph(whole.file.model()) };
    let bytes = model.encode_to_vec();
    Ok(ModelFile::from_bytes(bytes).map_err(|error| error.to_string())?.beside(whole.file.path()))
}

/// Nodes with makers before readers, else as in the file.
pub(super) fn ordered(whole: &Given<'_>, nodes: &BTreeSet<usize>) -> Vec<usize> {
    let mut done: BTreeSet<usize> = BTreeSet::new();
    let mut order = Vec::new();
    for &start in nodes {
        let mut open = vec![(start, false)];
        while let Some((node, is_ready)) = open.pop() {
            if done.contains(&node) {
                continue;
            }
            if is_ready {
                done.insert(node);
                order.push(node);
                continue;
            }
            open.push((node, true));
            let makers = whole.nodes[node].reads.iter().filter_map(|name| whole.maker.get(name));
            open.extend(
                makers
                    .filter(|maker| nodes.contains(maker) && !done.contains(maker))
                    .map(|maker| (*maker, false)),
            );
        }
    }
    order
}

/// The fields of a model beside its graph.
pub(super) fn without_graph(model: &ModelProto) -> ModelProto {
    ModelProto {
        ir_version: model.ir_version.map(|version| version.max(4)),
        opset_import: model.opset_import.clone(),
        functions: model.functions.clone(),
        metadata_props: model.metadata_props.clone(),
        ..ModelProto::default()
    }
}

/// The entry of a value with its extents; an output of unknown size is stated as in the given model.
fn typed(whole: &Given<'_>, name: &str) -> Result<ValueInfoProto, String> {
    let Some(sized) = whole.sized.get(name) else {
        let stated = whole.file.graph().output.iter().find(|info| info.name() == name);
        return stated.cloned().ok_or_else(|| format!("`{name}` has no known size"));
    };
    Ok(described(name, sized))
}

/// The entry of a value of known size.
pub(super) fn described(name: &str, sized: &Sized) -> ValueInfoProto {
    let number = |extent: &u64| i64::try_from(*extent).ok().map(Extent::DimValue);
    let free = |of: &DimExpr| {
        Some(of.as_constant().map_or_else(|| Extent::DimParam(of.to_string()), Extent::DimValue))
    };
    let dims: Vec<Option<Extent>> = match sized.free.is_empty() {
        true => sized.dims.iter().map(number).collect(),
        false => sized.free.iter().map(free).collect(),
    };
    let shape = TensorShapeProto {
        dim: dims.into_iter().map(|value| Dimension { value, denotation: None }).collect(),
    };
    let kind = Kind::TensorType(Tensor { elem_type: Some(sized.element.to_onnx()), shape: Some(shape) });
    let ty = TypeProto { denotation: None, value: Some(kind) };
    ValueInfoProto { name: Some(name.to_owned()), r#type: Some(ty), ..ValueInfoProto::default() }
}

/// A constant of integers.
pub(super) fn constant(name: &str, sized: &Sized, items: &[i64]) -> TensorProto {
    let mut bytes: Vec<u8> = Vec::new();
    for item in items {
        match sized.element {
            ElementType::Int64 => bytes.extend(item.to_le_bytes()),
            ElementType::Int32 => bytes.extend((*item as i32).to_le_bytes()),
            _ => bytes.push(u8::from(*item != 0)),
        }
    }
    TensorProto {
        name: Some(name.to_owned()),
        dims: sized.dims.iter().filter_map(|extent| i64::try_from(*extent).ok()).collect(),
        data_type: Some(sized.element.to_onnx()),
        raw_data: Some(bytes.into()),
        ..TensorProto::default()
    }
}
