//! Cuts one node out of a model, as a model of its own whose inputs are the node's operands.

use std::collections::{BTreeMap, BTreeSet};

use memc_onnx_proto::onnx::tensor_proto::{DataLocation, DataType};
use memc_onnx_proto::onnx::{
    GraphProto, ModelProto, NodeProto, StringStringEntryProto, TensorProto, TypeProto, ValueInfoProto,
};
use memc_ops::profile::ort_kernel;
use prost::Message as _;

use crate::element::Element;
use crate::random;

/// Deepest nesting of bodies that is followed; the reader of models rejects deeper ones anyway.
const MAX_DEPTH: usize = 64;

/// A node as a model of its own.
#[derive(Debug)]
pub(crate) struct Cut {
    /// Bytes of the cut model. Equal nodes give equal bytes, so that they can share a session.
    pub(crate) bytes: Vec<u8>,
    /// Names, in the original model, of the values for the inputs.
    pub(crate) operands: Vec<String>,
    /// Names, in the original model, of the values from the outputs.
    pub(crate) results: Vec<String>,
    /// Initializers that the session gets separately from the model, because no file has them: name in
    /// the cut model, name in the original model.
    pub(crate) weights: Vec<(String, String)>,
    /// Total size of constant operands that the kernel may repack, in bytes.
    pub(crate) packed: u64,
}

/// First `ir_version` in which a caller may override an initializer that is also a graph input; it is
/// not constant then.
const OVERRIDABLE_IR_VERSION: i64 = 4;

/// Cuts nodes out of one model.
pub(crate) struct Cutter<'m> {
    model: &'m ModelProto,
    opset: i64,
    /// Initializers that are part of the cut model: strings, because no tensor over given bytes can hold
    /// them.
    strings: BTreeMap<&'m str, &'m TensorProto>,
    /// All other initializers, except defaults of graph inputs.
    weights: BTreeMap<&'m str, &'m TensorProto>,
    /// Names of the initializers in `weights` that a session may read from their files.
    filed: BTreeSet<&'m str>,
    /// Tensors of Constant nodes; a session turns them into initializers.
    constants: BTreeMap<&'m str, &'m TensorProto>,
    /// Types that the model states, by value name.
    described: BTreeMap<&'m str, &'m TypeProto>,
}

impl<'m> Cutter<'m> {
    /// Returns a cutter. `in_file` tells which initializers sessions may read from their files in the
    /// model's folder. `sparse` has the names and types of sparse initializers.
    pub(crate) fn new(
        model: &'m ModelProto,
        graph: &'m GraphProto,
        sparse: &'m [TensorProto],
        in_file: &dyn Fn(&str) -> bool,
    ) -> Self {
        let text = DataType::String as i32;
        let (strings, mut weights): (BTreeMap<_, _>, BTreeMap<_, _>) = graph
            .initializer
            .iter()
            .chain(sparse)
            .map(|tensor| (tensor.name(), tensor))
            .partition(|(_, tensor)| tensor.data_type() == text);
        // Kernels do not pack an operand that is not constant, and their results then round otherwise.
        if model.ir_version() >= OVERRIDABLE_IR_VERSION {
            for input in &graph.input {
                weights.remove(input.name());
            }
        }
        let filed = weights.keys().copied().filter(|name| in_file(name)).collect();
        let constants = graph
            .node
            .iter()
            .filter(|node| node.op_type() == "Constant" && matches!(node.domain(), "" | "ai.onnx"));
        let constants = constants.filter_map(|node| {
            let value = node.attribute.iter().find(|attribute| attribute.name() == "value")?;
            Some((node.output.first()?.as_str(), value.t.as_ref()?))
        });
        let described = graph.value_info.iter().chain(&graph.input).chain(&graph.output);
        let described = described.filter_map(|info| Some((info.name(), info.r#type.as_ref()?))).collect();
        Self {
            model,
            opset: random::opset(model),
            strings,
            weights,
            filed,
            constants: constants.collect(),
            described,
        }
    }

    /// Returns the type that the model states for a value; `None` if it states none.
    pub(crate) fn described(&self, name: &str) -> Option<&'m TypeProto> {
        self.described.get(name).copied()
    }

    /// Returns the names of the values that a node reads: its operands, then the captures of its bodies,
    /// in order and without strings.
    pub(crate) fn operands(&self, node: &NodeProto) -> Vec<String> {
        let mut names: Vec<String> = node.input.iter().filter(|name| !name.is_empty()).cloned().collect();
        names.extend(captured(node));
        names.retain(|name| !self.strings.contains_key(name.as_str()));
        names
    }

    /// Returns an operand that the cut model must have as an initializer, under its name in the cut
    /// model; `None` if the operand becomes an input.
    fn constant(&self, original: &str, name: &str, node: &NodeProto) -> Option<Constant> {
        let named = |tensor: &TensorProto| TensorProto { name: Some(name.to_owned()), ..tensor.clone() };
        if let Some(tensor) = self.strings.get(original) {
            return Some(Constant::Here(named(tensor)));
        }
        let has_bodies = has_bodies(node);
        // Kernels in bodies see constant operands as well, and packed operands may round otherwise than
        // plain ones.
        if !has_bodies && !packs(node) {
            return None;
        }
        if let Some(tensor) = self.constants.get(original) {
            return Some(Constant::Here(named(tensor)));
        }
        let tensor = *self.weights.get(original)?;
        if has_bodies && says_shapes(tensor) {
            return Some(Constant::Here(named(tensor)));
        }
        let is_given = !self.filed.contains(original);
        Some(Constant::Packed {
            tensor: if is_given { elsewhere(tensor, name, original) } else { named(tensor) },
            is_given,
        })
    }

    /// Cuts a node out of the model. `type_of` returns the types of operands and results if known.
    /// `alone` keeps the models of equal nodes distinct.
    pub(crate) fn cut(
        &self,
        node: &NodeProto,
        alone: bool,
        type_of: &dyn Fn(&str) -> Option<TypeProto>,
    ) -> Cut {
        let mut copy = node.clone();
        random::give_seed(&mut copy, self.opset);
        let has_bodies = has_bodies(node);
        let mut graph = GraphProto { name: Some("node".to_owned()), ..GraphProto::default() };
        let (mut operands, mut results, mut weights, mut packed) = (Vec::new(), Vec::new(), Vec::new(), 0u64);
        let mut known: BTreeSet<String> = BTreeSet::new();
        // Adds an operand once, as an initializer or as an input.
        let mut give = |original: &str, name: &str, graph: &mut GraphProto| {
            if !known.insert(name.to_owned()) {
                return;
            }
            match self.constant(original, name, node) {
                Some(Constant::Here(tensor)) => graph.initializer.push(tensor),
                Some(Constant::Packed { tensor, is_given }) => {
                    packed = packed.saturating_add(size(&tensor));
                    graph.initializer.push(tensor);
                    weights.extend(is_given.then(|| (name.to_owned(), original.to_owned())));
                }
                None => {
                    let (name, r#type) = (Some(name.to_owned()), type_of(original));
                    graph.input.push(ValueInfoProto { name, r#type, ..ValueInfoProto::default() });
                    operands.push(original.to_owned());
                }
            }
        };
        for (position, name) in copy.input.iter_mut().enumerate().filter(|(_, name)| !name.is_empty()) {
            // Bodies refer to captured values by name, so a node with bodies keeps its names.
            let fresh = if has_bodies { name.clone() } else { format!("operand_{position}") };
            give(name, &fresh, &mut graph);
            *name = fresh;
        }
        for name in captured(node) {
            give(&name, &name, &mut graph);
        }
        // Rename the results, and drop all parts of the node that would make equal nodes differ.
        for (position, name) in copy.output.iter_mut().enumerate().filter(|(_, name)| !name.is_empty()) {
            let fresh = if has_bodies { name.clone() } else { format!("result_{position}") };
            graph.output.push(ValueInfoProto {
                name: Some(fresh.clone()),
                r#type: type_of(name),
                ..ValueInfoProto::default()
            });
            results.push(std::mem::replace(name, fresh));
        }
        copy.name = alone.then(|| node.name().to_owned());
        copy.doc_string = None;
        copy.metadata_props.clear();
        let functions = &self.model.functions;
        let is_call = functions
            .iter()
            .any(|function| function.domain() == node.domain() && function.name() == node.op_type());
        graph.node.push(copy);
        let model = ModelProto {
            // Older versions require all initializers among the inputs.
            ir_version: Some(self.model.ir_version().max(OVERRIDABLE_IR_VERSION)),
            opset_import: self.model.opset_import.clone(),
            graph: Some(graph),
            functions: if is_call || has_bodies { functions.clone() } else { Vec::new() },
            ..ModelProto::default()
        };
        Cut { bytes: model.encode_to_vec(), operands, results, weights, packed }
    }
}

/// Returns the size of an initializer, in bytes; 0 if its type or shape is invalid.
fn size(tensor: &TensorProto) -> u64 {
    let shape = tensor.dims.iter().map(|extent| u64::try_from(*extent)).collect::<Result<Vec<_>, _>>();
    Element::from_onnx(tensor.data_type())
        .zip(shape.ok())
        .and_then(|(element, shape)| element.bytes(&shape))
        .unwrap_or(0)
}

/// An operand that a cut model has as an initializer.
enum Constant {
    /// An initializer with its elements.
    Here(TensorProto),
    /// An initializer that its kernel may pack. Its elements come from its file, or the session gets
    /// them separately (`is_given`).
    Packed { tensor: TensorProto, is_given: bool },
}

/// Returns an initializer without its elements; the session gets them separately. The location keeps the
/// models of different weights distinct.
fn elsewhere(tensor: &TensorProto, name: &str, original: &str) -> TensorProto {
    let entry = |key: &str, value: &str| StringStringEntryProto {
        key: Some(key.to_owned()),
        value: Some(value.to_owned()),
    };
    TensorProto {
        name: Some(name.to_owned()),
        dims: tensor.dims.clone(),
        data_type: tensor.data_type,
        external_data: vec![entry("location", original)],
        data_location: Some(DataLocation::External as i32),
        ..TensorProto::default()
    }
}

/// Whether the runtime may read the initializer to infer shapes inside a body; it does so only if the
/// model contains the bytes.
fn says_shapes(tensor: &TensorProto) -> bool {
    const MAX_ELEMENTS: i64 = 64;
    let is_here = tensor.data_location() != DataLocation::External;
    is_here
        && tensor.data_type() == DataType::Int64 as i32
        && tensor.dims.iter().product::<i64>() <= MAX_ELEMENTS
}

/// Iterates over the bodies of a node.
pub(crate) fn bodies(node: &NodeProto) -> impl Iterator<Item = &GraphProto> {
    node.attribute.iter().flat_map(|attribute| attribute.g.iter().chain(&attribute.graphs))
}

/// Whether the node's kernel repacks constant operands.
fn packs(node: &NodeProto) -> bool {
    let domain = if node.domain() == "ai.onnx" { "" } else { node.domain() };
    ort_kernel(domain, node.op_type()).is_some_and(|kernel| kernel.packs)
}

/// Whether the node has bodies: If, Loop, Scan and similar operators.
pub(crate) fn has_bodies(node: &NodeProto) -> bool {
    bodies(node).next().is_some()
}

/// Returns the names that the bodies of a node capture from outside, in order of first use.
pub(crate) fn captured(node: &NodeProto) -> Vec<String> {
    let mut found = Vec::new();
    for body in bodies(node) {
        free(body, &mut Vec::new(), &mut found);
    }
    found
}

fn free<'g>(graph: &'g GraphProto, scopes: &mut Vec<BTreeSet<&'g str>>, found: &mut Vec<String>) {
    if scopes.len() >= MAX_DEPTH {
        return;
    }
    let mut own: BTreeSet<&str> = graph.input.iter().map(|input| input.name()).collect();
    own.extend(graph.initializer.iter().map(|tensor| tensor.name()));
    own.extend(graph.node.iter().flat_map(|node| node.output.iter().map(String::as_str)));
    scopes.push(own);
    let outputs = graph.output.iter().map(|output| output.name());
    let reads = graph.node.iter().flat_map(|node| node.input.iter().map(String::as_str)).chain(outputs);
    for name in reads.filter(|name| !name.is_empty()) {
        if !scopes.iter().any(|scope| scope.contains(name)) && !found.iter().any(|known| known == name) {
            found.push(name.to_owned());
        }
    }
    for node in &graph.node {
        for body in bodies(node) {
            free(body, scopes, found);
        }
    }
    scopes.pop();
}
