//! Cutting: the interface of each section, and its model as a splice of the given file.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{DimExpr, ElementType};
use memc_layout::devices::Phase;
use memc_onnx_proto::onnx::tensor_shape_proto::{Dimension, dimension::Value as DimValue};
use memc_onnx_proto::onnx::type_proto::{self, Value as Kind};
use memc_onnx_proto::onnx::{TensorProto, TensorShapeProto, TypeProto, ValueInfoProto};
use memc_onnx_proto::{GraphEdit, ModelEdit, ModelFile, ModelSplice, NodePiece, TensorSource};

use super::graph::{Graph, Tensor};
use crate::error::Error;
use crate::split_error::SplitError;

/// The nodes of a section.
#[derive(Clone, Debug)]
pub(super) struct Portion {
    /// Name of the section.
    pub name: String,
    /// Rank of its device; the first one if there are several.
    pub rank: usize,
    /// Ranks of all other devices that run it.
    pub more: Vec<usize>,
    /// Phase of a training step.
    pub phase: Option<Phase>,
    /// Nodes of the file.
    pub units: BTreeSet<usize>,
    /// Nodes whose results other sections read from here.
    pub owned: BTreeSet<usize>,
}

impl Portion {
    /// Ranks of all devices that run it.
    pub fn ranks(&self) -> impl Iterator<Item = usize> + '_ {
        std::iter::once(self.rank).chain(self.more.iter().copied())
    }

    /// Whether a device runs it.
    pub fn runs_on(&self, rank: usize) -> bool {
        self.ranks().any(|own| own == rank)
    }
}

/// A section with its interface.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    /// The nodes.
    pub portion: Portion,
    /// Graph inputs and values of other sections that it reads, in the order of the file.
    pub inputs: Vec<String>,
    /// Graph outputs and values that other sections read, in the order of the file.
    pub outputs: Vec<String>,
    /// Known integers that it reads as constants.
    pub known: BTreeSet<String>,
}

/// Derives the interfaces of sections. `graph_of` returns the graph from which a section is cut: graphs have
/// equal nodes and names, and may differ in extents.
pub(super) fn cuts<'g>(portions: Vec<Portion>, graph_of: &dyn Fn(&Portion) -> &'g Graph<'g>) -> Vec<Cut> {
    let mut all: Vec<Cut> = Vec::new();
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    for portion in portions {
        let graph = graph_of(&portion);
        let units = || portion.units.iter().map(|unit| &graph.units[*unit]);
        let made: BTreeSet<&String> = units().flat_map(|unit| &unit.makes).collect();
        let read: BTreeSet<&String> = units().flat_map(|unit| &unit.reads).collect();
        let known =
            units().flat_map(|unit| &unit.known).filter(|name| !made.contains(name)).cloned().collect();
        let fed = graph.inputs.iter().filter(|name| read.contains(name)).cloned();
        let from_others = graph.order.iter().flat_map(|unit| &graph.units[*unit].makes);
        let from_others = from_others.filter(|name| read.contains(name) && !made.contains(name)).cloned();
        let inputs: Vec<String> = fed.chain(from_others).collect();
        wanted.extend(inputs.iter().chain(&graph.outputs).cloned());
        all.push(Cut { inputs, outputs: Vec::new(), known, portion });
    }
    for cut in &mut all {
        let graph = graph_of(&cut.portion);
        let made = graph
            .order
            .iter()
            .filter(|unit| cut.portion.owned.contains(unit))
            .flat_map(|unit| &graph.units[*unit].makes);
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
    let order = graph.order.iter().filter(|unit| cut.portion.units.contains(unit));
    edit.nodes = Some(order.map(|unit| NodePiece::original(*unit)).collect());
    let weights: BTreeSet<&String> =
        cut.portion.units.iter().flat_map(|unit| &graph.units[*unit].weights).collect();
    let initializers = proto.initializer.iter().enumerate();
    let unread = initializers.filter(|(_, tensor)| !weights.contains(&tensor.name().to_owned()));
    edit.dropped_initializers = unread.map(|(index, _)| index).collect();
    let stated: BTreeSet<&str> = proto.input.iter().map(|info| info.name()).collect();
    let kept =
        |name: &str| cut.inputs.iter().any(|input| input == name) || weights.contains(&name.to_owned());
    // Names of dimensions may be those of expressions: free extents are written anew.
    let is_free = |name: &str| graph.tensors.get(name).is_some_and(|tensor| !tensor.free.is_empty());
    let anew = |name: &str| !kept(name) || is_free(name);
    edit.dropped_inputs = stated.iter().filter(|name| anew(name)).map(|name| (*name).to_owned()).collect();
    let info = |name: &String| described(name, graph.tensors.get(name));
    let new = cut.inputs.iter().filter(|name| !stated.contains(name.as_str()) || is_free(name));
    edit.new_inputs = new.map(info).collect::<Result<_, _>>()?;
    // All outputs are written anew, so that their order is that of the section.
    edit.dropped_outputs = proto.output.iter().map(|info| info.name().to_owned()).collect();
    edit.new_outputs = cut.outputs.iter().map(|name| output(graph, name)).collect::<Result<_, _>>()?;
    let made: BTreeSet<&String> =
        cut.portion.units.iter().flat_map(|unit| &graph.units[*unit].makes).collect();
    for value in &proto.value_info {
        let name = value.name().to_owned();
        if !made.contains(&name) || cut.outputs.contains(&name) || cut.inputs.contains(&name) {
            edit.dropped_values.insert(name);
        } else if is_free(&name) {
            edit.new_values.push(info(&name)?);
            edit.dropped_values.insert(name);
        }
    }
    let described = proto.value_info.iter().chain(&proto.input).map(|info| info.name());
    let bound = described.filter_map(|name| graph.tensors.get(name).map(|tensor| (name, tensor)));
    edit.value_dims = bound
        .filter(|(name, _)| (made.iter().any(|made| made == name) || kept(name)) && !is_free(name))
        .map(|(name, tensor)| (name.to_owned(), extents(tensor)))
        .collect();
    for name in &cut.known {
        let tensor = constant(name, graph.tensors.get(name), graph.known.get(name))?;
        edit.new_initializers.push((name.clone(), TensorSource::Owned(Box::new(tensor))));
    }
    let edit =
        ModelEdit { graph: edit, ir_version: raised(file, !cut.known.is_empty()), ..ModelEdit::default() };
    let splice =
        ModelSplice::new(file, &edit).map_err(|error| SplitError::Section { cause: error.to_string() })?;
    Ok(ModelFile::from_bytes(splice.to_vec())?.beside(file.path()))
}

/// The `ir_version` that new constants need: from version 4 on they need not be graph inputs.
pub(super) fn raised(file: &ModelFile, has_constants: bool) -> Option<i64> {
    const FREE_INITIALIZERS_IR_VERSION: i64 = 4;
    let needs = has_constants && file.model().ir_version() < FREE_INITIALIZERS_IR_VERSION;
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
pub(super) fn described(name: &str, tensor: Option<&Tensor>) -> Result<ValueInfoProto, SplitError> {
    let tensor = tensor.ok_or_else(|| SplitError::Unsized { name: name.to_owned() })?;
    let free = |of: &DimExpr| match of.as_constant() {
        Some(extent) => DimValue::DimValue(extent),
        None => DimValue::DimParam(of.to_string()),
    };
    let known = |extent: Option<i64>| extent.map(DimValue::DimValue);
    let dims: Vec<Option<DimValue>> = match tensor.free.is_empty() {
        true => extents(tensor).into_iter().map(known).collect(),
        false => tensor.free.iter().map(|of| Some(free(of))).collect(),
    };
    let shape = TensorShapeProto {
        dim: dims.into_iter().map(|value| Dimension { value, denotation: None }).collect(),
    };
    let kind = type_proto::Tensor { elem_type: Some(tensor.element.to_onnx()), shape: Some(shape) };
    let ty = TypeProto { denotation: None, value: Some(Kind::TensorType(kind)) };
    Ok(ValueInfoProto { name: Some(name.to_owned()), r#type: Some(ty), ..ValueInfoProto::default() })
}

/// A constant of known integers.
fn constant(
    name: &str,
    tensor: Option<&Tensor>,
    items: Option<&Vec<i64>>,
) -> Result<TensorProto, SplitError> {
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

/// Position of the section that makes each value that crosses or leaves.
pub(super) fn makers(cuts: &[Cut]) -> BTreeMap<&str, usize> {
    let all = cuts.iter().enumerate();
    all.flat_map(|(position, cut)| cut.outputs.iter().map(move |name| (name.as_str(), position))).collect()
}

/// Positions of the sections that read each value from outside, ascending.
pub(super) fn readers(cuts: &[Cut]) -> BTreeMap<&str, Vec<usize>> {
    let mut found: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (position, cut) in cuts.iter().enumerate() {
        cut.inputs.iter().for_each(|name| found.entry(name).or_default().push(position));
    }
    found
}
