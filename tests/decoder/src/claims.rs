//! The fields that memc may change, and the comparison of all others.
//!
//! Each function takes an original message apart into all of its fields, so that none is forgotten, and
//! says of each field that is not compared exactly how it may change.

use std::collections::{BTreeMap, BTreeSet};

use onnx_protobuf::tensor_shape_proto::{Dimension, dimension};
use onnx_protobuf::type_proto::{self, Value as Kind};
use onnx_protobuf::{
    AttributeProto, GraphProto, ModelProto, NodeProto, StringStringEntryProto, TensorProto, TensorShapeProto, TypeProto,
    ValueInfoProto,
};

use crate::kept::{Kept, Losses};

/// Prefix of memc's own metadata keys.
const OWN: &str = "memc.";

/// First `ir_version` in which initializers are no graph inputs; memc may remove them from the inputs of
/// an older model.
const FREE_INITIALIZERS_IR_VERSION: i64 = 4;

/// Compares all fields of the given names exactly.
macro_rules! exactly {
    ($written:expr, $losses:expr, $($field:ident),*) => {
        $($losses.at(stringify!($field), |losses| $field.kept(&$written.$field, losses));)*
    };
}

/// Returns every field of `original` that `written` lost.
pub(crate) fn losses(original: &ModelProto, written: &ModelProto) -> Losses {
    let mut losses = Losses::default();
    let ModelProto {
        ir_version,
        opset_import,
        producer_name,
        producer_version,
        domain,
        model_version,
        doc_string,
        graph,
        metadata_props,
        training_info,
        functions,
        special_fields,
    } = original;
    let all = &mut losses;
    exactly!(written, all, producer_name, producer_version, domain, model_version, doc_string, training_info);
    special_fields.kept(&written.special_fields, all);
    // The version may rise.
    if written.ir_version < *ir_version {
        all.at("ir_version", |losses| ir_version.kept(&written.ir_version, losses));
    }
    // Operator sets and functions may be appended.
    all.at("opset_import", |losses| begins(opset_import, &written.opset_import, losses));
    all.at("functions", |losses| begins(functions, &written.functions, losses));
    metadata(metadata_props, &written.metadata_props, all);
    let place = Place { is_main: true, ir_version: *ir_version, all_initializers: !training_info.is_empty() };
    all.at("graph", |losses| match (graph.as_ref(), written.graph.as_ref()) {
        (Some(old), Some(new)) => compare_graphs(old, new, place, losses),
        (None, _) => {}
        (Some(_), None) => losses.add("lost"),
    });
    losses
}

/// The position of a graph, on which the claims about it depend.
#[derive(Clone, Copy)]
struct Place {
    /// Whether this is the model's graph rather than a body of a node.
    is_main: bool,
    /// `ir_version` of the original.
    ir_version: i64,
    /// Whether no initializer may go: the model's training information may name each of its graph's.
    all_initializers: bool,
}

/// Requires that a list begins with the elements of the original.
fn begins<T: Kept>(old: &[T], new: &[T], losses: &mut Losses) {
    for (index, old) in old.iter().enumerate() {
        losses.at(index.to_string(), |losses| match new.get(index) {
            Some(new) => old.kept(new, losses),
            None => losses.add("lost"),
        });
    }
}

/// Compares metadata: memc replaces its own entries and leaves all others in their order.
fn metadata(old: &[StringStringEntryProto], new: &[StringStringEntryProto], losses: &mut Losses) {
    let foreign = |entries: &[StringStringEntryProto]| -> Vec<StringStringEntryProto> {
        entries.iter().filter(|entry| !entry.key.starts_with(OWN)).cloned().collect()
    };
    losses.at("metadata_props", |losses| foreign(old).kept(&foreign(new), losses));
}

fn compare_graphs(old: &GraphProto, new: &GraphProto, place: Place, losses: &mut Losses) {
    let GraphProto {
        node,
        name,
        initializer,
        sparse_initializer,
        doc_string,
        input,
        output,
        value_info,
        quantization_annotation,
        metadata_props,
        special_fields,
    } = old;
    exactly!(new, losses, name, sparse_initializer, doc_string, quantization_annotation, metadata_props);
    special_fields.kept(&new.special_fields, losses);
    compare_initializers(initializer, new, place, losses);
    // Weights that an older model lists among its inputs may leave them; nothing else may leave or move.
    let weights: BTreeSet<&str> = initializer.iter().map(|tensor| tensor.name.as_str()).collect();
    let stays: BTreeSet<&str> = new.input.iter().map(|info| info.name.as_str()).collect();
    let is_freed = |info: &&ValueInfoProto| {
        let name = info.name.as_str();
        place.ir_version < FREE_INITIALIZERS_IR_VERSION && weights.contains(name) && !stays.contains(name)
    };
    let input: Vec<&ValueInfoProto> = input.iter().filter(|info| !is_freed(info)).collect();
    losses.at("input", |losses| compare_interface(&input, &new.input, place, losses));
    losses.at("output", |losses| compare_interface(&output.iter().collect::<Vec<_>>(), &new.output, place, losses));
    losses.at("value_info", |losses| compare_values(value_info, node, new, losses));
    losses.at("node", |losses| compare_nodes(node, new, place, losses));
}

/// Compares initializers: one that nothing names any more may go, others stay as they are. The first of
/// a name counts; memc accepts only equal repetitions.
fn compare_initializers(old: &[TensorProto], new: &GraphProto, place: Place, losses: &mut Losses) {
    let written: BTreeMap<&str, &TensorProto> =
        new.initializer.iter().rev().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    let first: BTreeMap<&str, &TensorProto> = old.iter().rev().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    let mut named = free_names(new);
    // Without its value, an input would be the caller's to give.
    named.extend(new.input.iter().map(|info| info.name.as_str()));
    for (name, tensor) in first {
        losses.at(format!("initializer.{name}"), |losses| match written.get(name) {
            Some(new) => tensor.kept(new, losses),
            None if named.contains(name) || place.all_initializers => losses.add("lost"),
            None => {}
        });
    }
}

/// Returns the names that a graph reads and does not define by itself, other than as an initializer.
fn free_names(graph: &GraphProto) -> BTreeSet<&str> {
    let mut names: BTreeSet<&str> = graph.output.iter().map(|info| info.name.as_str()).collect();
    for node in &graph.node {
        names.extend(node.input.iter().map(String::as_str));
        for body in node.attribute.iter().flat_map(|attribute| attribute.g.as_ref().into_iter().chain(&attribute.graphs)) {
            let own: BTreeSet<&str> = body.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
            names.extend(free_names(body).difference(&own));
        }
    }
    for annotation in &graph.quantization_annotation {
        names.extend(annotation.quant_parameter_tensor_names.iter().map(|entry| entry.value.as_str()));
    }
    let results = graph.node.iter().flat_map(|node| &node.output).map(String::as_str);
    let sparse = graph.sparse_initializer.iter().filter_map(|sparse| sparse.values.as_ref()).map(|values| values.name.as_str());
    for defined in results.chain(sparse).chain(graph.input.iter().map(|info| info.name.as_str())) {
        names.remove(defined);
    }
    names
}

/// Compares the inputs or outputs of a graph, which stay in their order.
fn compare_interface(old: &[&ValueInfoProto], new: &[ValueInfoProto], place: Place, losses: &mut Losses) {
    if old.len() != new.len() {
        losses.add(format_args!("{} entries became {}", old.len(), new.len()));
    }
    for (old, new) in old.iter().zip(new) {
        let ValueInfoProto { name, type_, doc_string, metadata_props, special_fields } = old;
        losses.at(name.clone(), |losses| {
            exactly!(new, losses, name, doc_string);
            special_fields.kept(&new.special_fields, losses);
            metadata(metadata_props, &new.metadata_props, losses);
            losses.at("type", |losses| match (type_.as_ref(), new.type_.as_ref()) {
                (Some(old), Some(new)) if place.is_main => compare_bound(old, new, losses),
                _ => type_.kept(&new.type_, losses),
            });
        });
    }
}

/// Compares types of inputs and outputs of the model: open extents of a tensor may become known.
fn compare_bound(old: &TypeProto, new: &TypeProto, losses: &mut Losses) {
    let TypeProto { denotation, value, special_fields } = old;
    exactly!(new, losses, denotation);
    special_fields.kept(&new.special_fields, losses);
    let (Some(Kind::TensorType(old)), Some(Kind::TensorType(new))) = (value, &new.value) else {
        return value.kept(&new.value, losses);
    };
    losses.at("value", |losses| {
        let type_proto::Tensor { elem_type, shape, special_fields } = old;
        exactly!(new, losses, elem_type);
        special_fields.kept(&new.special_fields, losses);
        losses.at("shape", |losses| match (shape.as_ref(), new.shape.as_ref()) {
            (None, _) => {}
            (Some(_), None) => losses.add("lost"),
            (Some(old), Some(new)) => compare_extents(old, new, losses),
        });
    });
}

/// Compares extents: an open one may become known, no other may change.
fn compare_extents(old: &TensorShapeProto, new: &TensorShapeProto, losses: &mut Losses) {
    let TensorShapeProto { dim, special_fields } = old;
    special_fields.kept(&new.special_fields, losses);
    if dim.len() != new.dim.len() {
        losses.add(format_args!("rank {} became {}", dim.len(), new.dim.len()));
    }
    for (index, (old, new)) in dim.iter().zip(&new.dim).enumerate() {
        let Dimension { denotation, value, special_fields } = old;
        losses.at(format!("dim.{index}"), |losses| {
            exactly!(new, losses, denotation);
            special_fields.kept(&new.special_fields, losses);
            // A negative extent is one that an exporter did not know.
            let is_open = !matches!(value, Some(dimension::Value::DimValue(extent)) if *extent >= 0);
            if !(is_open && matches!(new.value, Some(dimension::Value::DimValue(_)))) {
                exactly!(new, losses, value);
            }
        });
    }
}

/// Compares descriptions of values: that of a result may go with the result, and one whose type memc
/// knows better is a new entry with the old text and metadata.
fn compare_values(old: &[ValueInfoProto], nodes: &[NodeProto], new: &GraphProto, losses: &mut Losses) {
    let written: BTreeMap<&str, &ValueInfoProto> = new.value_info.iter().map(|info| (info.name.as_str(), info)).collect();
    let results = |nodes: &[NodeProto]| nodes.iter().flat_map(|node| &node.output).cloned().collect::<BTreeSet<String>>();
    let (before, after) = (results(nodes), results(&new.node));
    let last: BTreeMap<&str, &ValueInfoProto> = old.iter().map(|info| (info.name.as_str(), info)).collect();
    for (name, info) in last {
        let ValueInfoProto { name: _, type_, doc_string, metadata_props, special_fields } = info;
        losses.at(name, |losses| match written.get(name) {
            Some(new) => {
                exactly!(new, losses, doc_string);
                metadata(metadata_props, &new.metadata_props, losses);
                if !Losses::is_changed(type_, &new.type_) {
                    losses.at("type", |losses| type_.kept(&new.type_, losses));
                    special_fields.kept(&new.special_fields, losses);
                }
            }
            None if before.contains(name) && !after.contains(name) => {}
            None => losses.add("lost"),
        });
    }
}

/// Compares nodes that survive: a node of the new graph under the name of the old one or with its first
/// result, and with its operator.
fn compare_nodes(old: &[NodeProto], new: &GraphProto, place: Place, losses: &mut Losses) {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for node in old {
        *names.entry(&node.name).or_default() += 1;
    }
    let named: BTreeMap<&str, &NodeProto> = new.node.iter().rev().map(|node| (node.name.as_str(), node)).collect();
    let makers: BTreeMap<&str, &NodeProto> =
        new.node.iter().flat_map(|node| node.output.iter().map(move |result| (result.as_str(), node))).collect();
    for (index, node) in old.iter().enumerate() {
        let has_name = !node.name.is_empty() && names.get(node.name.as_str()) == Some(&1);
        let by_name = named.get(node.name.as_str()).filter(|_| has_name);
        let by_result = node.output.iter().find(|name| !name.is_empty()).and_then(|name| makers.get(name.as_str()));
        let is_same = |new: &&&NodeProto| new.op_type == node.op_type && new.domain == node.domain;
        let Some(survivor) = by_name.filter(is_same).or(by_result.filter(is_same)) else { continue };
        let label = if node.name.is_empty() { index.to_string() } else { node.name.clone() };
        losses.nodes += 1;
        losses.at(label, |losses| {
            if has_name {
                losses.at("name", |losses| node.name.kept(&survivor.name, losses));
            }
            compare_node(node, survivor, place, losses);
        });
    }
}

/// Compares a node that survived. Its operands and results may be others, memc decides about them.
fn compare_node(old: &NodeProto, new: &NodeProto, place: Place, losses: &mut Losses) {
    let NodeProto {
        input: _,
        output: _,
        name: _,
        op_type: _,
        domain: _,
        overload,
        attribute,
        doc_string,
        metadata_props,
        special_fields,
    } = old;
    exactly!(new, losses, overload, doc_string);
    special_fields.kept(&new.special_fields, losses);
    metadata(metadata_props, &new.metadata_props, losses);
    for old in attribute {
        let found = new.attribute.iter().find(|attribute| attribute.name == old.name);
        losses.at(format!("attribute.{}", old.name), |losses| match found {
            Some(new) => compare_attribute(old, new, place, losses),
            None => losses.add("lost"),
        });
    }
}

/// Compares an attribute: exactly, but for the graph in it.
fn compare_attribute(old: &AttributeProto, new: &AttributeProto, place: Place, losses: &mut Losses) {
    let AttributeProto {
        name,
        ref_attr_name,
        doc_string,
        type_,
        f,
        i,
        s,
        t,
        g,
        sparse_tensor,
        tp,
        floats,
        ints,
        strings,
        tensors,
        graphs,
        sparse_tensors,
        type_protos,
        special_fields,
    } = old;
    exactly!(new, losses, name, ref_attr_name, doc_string, type_, f, i, s, t, sparse_tensor, tp);
    exactly!(new, losses, floats, ints, strings, tensors, graphs, sparse_tensors, type_protos);
    special_fields.kept(&new.special_fields, losses);
    match (g.as_ref(), new.g.as_ref()) {
        (Some(old), Some(new)) => {
            losses.at("g", |losses| compare_graphs(old, new, Place { is_main: false, all_initializers: false, ..place }, losses));
        }
        (Some(_), None) => losses.at("g", |losses| losses.add("lost")),
        (None, _) => {}
    }
}
