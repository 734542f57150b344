//! Cutting: the interface of each section, and its model as a splice of the given file.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::ElementType;
use memc_onnx_proto::onnx::tensor_shape_proto::{Dimension, dimension::Value as DimValue};
use memc_onnx_proto::onnx::type_proto::{self, Value as Kind};
use memc_onnx_proto::onnx::{TensorProto, TensorShapeProto, TypeProto, ValueInfoProto};
use memc_onnx_proto::{GraphEdit, ModelEdit, ModelFile, ModelSplice, NodePiece, TensorSource};

use super::graph::{Graph, Tensor};
use crate::error::Error;
use crate::split_error::SplitError;

/// The interface of a section.
#[derive(Clone, Debug, Default)]
pub(super) struct Cut {
    /// Device.
    pub rank: usize,
    /// Nodes of the file.
    pub units: BTreeSet<usize>,
    /// Graph inputs and values of other sections that it reads, in the order of the file.
    pub inputs: Vec<String>,
    /// Graph outputs and values that other sections read, in the order of the file.
    pub outputs: Vec<String>,
    /// Known integers that it reads as constants.
    pub known: BTreeSet<String>,
}

/// Derives the interfaces of all sections that have nodes. `owned` are the nodes whose results other
/// sections read from here.
pub(super) fn cuts(graph: &Graph<'_>, whole: &[BTreeSet<usize>], owned: &[Vec<usize>]) -> Vec<Cut> {
    let makes =
        |units: &BTreeSet<usize>| -> BTreeSet<&String> { units.iter().flat_map(|unit| &graph.units[*unit].makes).collect() };
    let mut all: Vec<Cut> = Vec::new();
    for (rank, units) in whole.iter().enumerate().filter(|(_, units)| !units.is_empty()) {
        let made = makes(units);
        let read: BTreeSet<&String> = units.iter().flat_map(|unit| &graph.units[*unit].reads).collect();
        let known = units.iter().flat_map(|unit| &graph.units[*unit].known);
        let known = known.filter(|name| !made.contains(name)).cloned().collect();
        let fed = graph.inputs.iter().filter(|name| read.contains(name)).cloned();
        let from_others = graph.order.iter().flat_map(|unit| &graph.units[*unit].makes);
        let from_others = from_others.filter(|name| read.contains(name) && !made.contains(name)).cloned();
        all.push(Cut { rank, units: units.clone(), inputs: fed.chain(from_others).collect(), outputs: Vec::new(), known });
    }
    let wanted: BTreeSet<String> = all.iter().flat_map(|cut| cut.inputs.clone()).chain(graph.outputs.clone()).collect();
    for cut in &mut all {
        let own: BTreeSet<usize> = owned[cut.rank].iter().copied().collect();
        let made = graph.order.iter().filter(|unit| own.contains(unit)).flat_map(|unit| &graph.units[*unit].makes);
        let crossing: Vec<String> = made.filter(|name| wanted.contains(*name)).cloned().collect();
        // Graph outputs keep the order of the file; other values follow.
        let given = graph.outputs.iter().filter(|name| crossing.contains(name)).cloned();
        let rest = crossing.iter().filter(|name| !graph.outputs.contains(name)).cloned();
        cut.outputs = given.chain(rest).collect();
    }
    all
}

/// Writes the model of a section: the nodes, weights and functions of the given file, with an interface of
/// its own. Weights in other files stay there.
///
/// # Errors
/// The section has a value without a size, or exceeds the size of a model file.
pub(super) fn section(file: &ModelFile, graph: &Graph<'_>, cut: &Cut) -> Result<ModelFile, Error> {
    let proto = file.graph();
    let mut edit = GraphEdit::default();
    let order = graph.order.iter().filter(|unit| cut.units.contains(unit));
    edit.nodes = Some(order.map(|unit| NodePiece::original(*unit)).collect());
    let weights: BTreeSet<&String> = cut.units.iter().flat_map(|unit| &graph.units[*unit].weights).collect();
    let initializers = proto.initializer.iter().enumerate();
    let unread = initializers.filter(|(_, tensor)| !weights.contains(&tensor.name().to_owned()));
    edit.dropped_initializers = unread.map(|(index, _)| index).collect();
    let stated: BTreeSet<&str> = proto.input.iter().map(|info| info.name()).collect();
    let kept = |name: &str| cut.inputs.iter().any(|input| input == name) || weights.contains(&name.to_owned());
    edit.dropped_inputs = stated.iter().filter(|name| !kept(name)).map(|name| (*name).to_owned()).collect();
    let info = |name: &String| described(name, graph.tensors.get(name));
    edit.new_inputs = cut.inputs.iter().filter(|name| !stated.contains(name.as_str())).map(info).collect::<Result<_, _>>()?;
    // All outputs are written anew, so that their order is that of the section.
    edit.dropped_outputs = proto.output.iter().map(|info| info.name().to_owned()).collect();
    edit.new_outputs = cut.outputs.iter().map(|name| output(graph, name)).collect::<Result<_, _>>()?;
    let made: BTreeSet<&String> = cut.units.iter().flat_map(|unit| &graph.units[*unit].makes).collect();
    for value in &proto.value_info {
        let name = value.name().to_owned();
        if !made.contains(&name) || cut.outputs.contains(&name) || cut.inputs.contains(&name) {
            edit.dropped_values.insert(name);
        }
    }
    let described = proto.value_info.iter().chain(&proto.input).map(|info| info.name());
    let bound = described.filter_map(|name| graph.tensors.get(name).map(|tensor| (name, tensor)));
    edit.value_dims = bound
        .filter(|(name, _)| made.iter().any(|made| made == name) || kept(name))
        .map(|(name, tensor)| (name.to_owned(), extents(tensor)))
        .collect();
    for name in &cut.known {
        let tensor = constant(name, graph.tensors.get(name), graph.known.get(name))?;
        edit.new_initializers.push((name.clone(), TensorSource::Owned(Box::new(tensor))));
    }
    let edit = ModelEdit { graph: edit, ir_version: raised(file, cut), ..ModelEdit::default() };
    let splice = ModelSplice::new(file, &edit).map_err(|error| SplitError::Section { cause: error.to_string() })?;
    Ok(ModelFile::from_bytes(splice.to_vec())?.beside(file.path()))
}

/// The `ir_version` that new constants need: from version 4 on they need not be graph inputs.
fn raised(file: &ModelFile, cut: &Cut) -> Option<i64> {
    const FREE_INITIALIZERS_IR_VERSION: i64 = 4;
    let needs = !cut.known.is_empty() && file.model().ir_version() < FREE_INITIALIZERS_IR_VERSION;
    needs.then_some(FREE_INITIALIZERS_IR_VERSION)
}

fn extents(tensor: &Tensor) -> Vec<Option<i64>> {
    tensor.shape.iter().map(|extent| i64::try_from(*extent).ok()).collect()
}

/// The entry of an output: as the file states it if its size is unknown.
fn output(graph: &Graph<'_>, name: &String) -> Result<ValueInfoProto, SplitError> {
    let stated = graph.file.graph().output.iter().find(|info| info.name() == name);
    match (graph.tensors.get(name), stated) {
        (None, Some(stated)) => Ok(stated.clone()),
        (tensor, _) => described(name, tensor),
    }
}

/// The entry of a value of known size.
fn described(name: &str, tensor: Option<&Tensor>) -> Result<ValueInfoProto, SplitError> {
    let tensor = tensor.ok_or_else(|| SplitError::Unsized { name: name.to_owned() })?;
    let dim = |extent: Option<i64>| Dimension { value: extent.map(DimValue::DimValue), denotation: None };
    let shape = TensorShapeProto { dim: extents(tensor).into_iter().map(dim).collect() };
    let kind = type_proto::Tensor { elem_type: Some(tensor.element.to_onnx()), shape: Some(shape) };
    let ty = TypeProto { denotation: None, value: Some(Kind::TensorType(kind)) };
    Ok(ValueInfoProto { name: Some(name.to_owned()), r#type: Some(ty), ..ValueInfoProto::default() })
}

/// A constant of known integers.
fn constant(name: &str, tensor: Option<&Tensor>, items: Option<&Vec<i64>>) -> Result<TensorProto, SplitError> {
    let unknown = || SplitError::Unsized { name: name.to_owned() };
    let (tensor, items) = (tensor.ok_or_else(unknown)?, items.ok_or_else(unknown)?);
    let bytes: Vec<u8> = match tensor.element {
        ElementType::Int64 => items.iter().flat_map(|item| item.to_le_bytes()).collect(),
        ElementType::Int32 => items.iter().flat_map(|item| (*item as i32).to_le_bytes()).collect(),
        _ => items.iter().map(|item| u8::from(*item != 0)).collect(),
    };
    Ok(TensorProto {
        name: Some(name.to_owned()),
        data_type: Some(tensor.element.to_onnx()),
        dims: extents(tensor).into_iter().flatten().collect(),
        raw_data: Some(bytes.into()),
        ..TensorProto::default()
    })
}

/// Rank of the section that makes each value that crosses or leaves.
pub(super) fn makers(cuts: &[Cut]) -> BTreeMap<&str, usize> {
    cuts.iter().flat_map(|cut| cut.outputs.iter().map(move |name| (name.as_str(), cut.rank))).collect()
}
