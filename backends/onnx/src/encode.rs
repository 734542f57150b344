//! Encodes nodes, bodies and constants of the module as ONNX messages, for parts that the file does not
//! hold unchanged.

use std::collections::BTreeSet;

use memc_ir::{Attribute, ConstId, ConstOrigin, GraphId, Module, Node, NodeData, Payload, Value};
use memc_onnx_proto::ModelFile;
use memc_onnx_proto::onnx::attribute_proto::AttributeType;
use memc_onnx_proto::onnx::tensor_proto::DataLocation;
use memc_onnx_proto::onnx::{
    AttributeProto, GraphProto, NodeProto, StringStringEntryProto, TensorProto, ValueInfoProto,
};
use prost::Message as _;

use crate::error::{ExportError, TensorDefect};
use crate::transfers::{is_written, written};
use crate::types::type_proto;

/// Deepest nesting of bodies, in levels; equal to the limit of the importer's.
pub(crate) const MAX_DEPTH: usize = 64;

/// The module and the file that it was imported from.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a ModelFile,
    pub(crate) module: &'a Module,
}

impl<'a> Source<'a> {
    /// Returns the name of a value.
    pub(crate) fn name(self, value: Value) -> &'a str {
        &self.module.value(value).name
    }
    /// Returns the names of operands or results; an omitted operand or result becomes an empty string.
    pub(crate) fn names(self, values: &[Option<Value>]) -> Vec<String> {
        values
            .iter()
            .map(|value| value.map(|value| self.name(value).to_owned()).unwrap_or_default())
            .collect()
    }
    /// Returns the name of a node for error messages: its own name, or its operator if it has none.
    pub(crate) fn label(self, node: Node) -> String {
        let data = self.module.node(node);
        if data.name.is_empty() { data.operator.to_string() } else { data.name.clone() }
    }

    /// Encodes a node under the given name; `depth` counts the bodies around the node.
    pub(crate) fn node(self, node: Node, name: &str, depth: usize) -> Result<NodeProto, ExportError> {
        let data = self.module.node(node);
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let mut attribute = Vec::with_capacity(data.attributes.len());
        let operator = written(&data.operator);
        for (key, value) in data.attributes.iter().filter(|(key, _)| is_written(&data.operator, key)) {
            attribute.push(self.attribute(node, key, value, depth)?);
        }
        Ok(NodeProto {
            input: without_absent_tail(self.names(&data.inputs)),
            output: without_absent_tail(self.names(&data.outputs)),
            name: text(name),
            op_type: Some(operator.name.to_string()),
            domain: text(&operator.domain),
            overload: text(&operator.overload),
            attribute,
            ..NodeProto::default()
        })
    }

    /// Encodes one attribute of a node.
    pub(crate) fn attribute(
        self,
        node: Node,
        key: &str,
        value: &Attribute,
        depth: usize,
    ) -> Result<AttributeProto, ExportError> {
        let mut proto = AttributeProto { name: Some(key.to_owned()), ..AttributeProto::default() };
        let tensor = |constant: &ConstId| {
            let attribute =
                |defect| ExportError::Attribute { node: self.label(node), attribute: key.to_owned(), defect };
            self.tensor(*constant).map_err(attribute)
        };
        let kind = match value {
            Attribute::Int(value) => {
                proto.i = Some(*value);
                AttributeType::Int
            }
            Attribute::Float(value) => {
                proto.f = Some(*value);
                AttributeType::Float
            }
            Attribute::String(value) => {
                proto.s = Some(value.to_vec());
                AttributeType::String
            }
            Attribute::Ints(values) => {
                proto.ints.clone_from(values);
                AttributeType::Ints
            }
            Attribute::Floats(values) => {
                proto.floats.clone_from(values);
                AttributeType::Floats
            }
            Attribute::Strings(values) => {
                proto.strings = values.iter().map(|value| value.to_vec()).collect();
                AttributeType::Strings
            }
            Attribute::Tensor(constant) => {
                proto.t = Some(tensor(constant)?);
                AttributeType::Tensor
            }
            Attribute::Tensors(constants) => {
                proto.tensors = constants.iter().map(tensor).collect::<Result<_, _>>()?;
                AttributeType::Tensors
            }
            Attribute::Graph(body) => {
                proto.g = Some(self.graph(*body, depth + 1)?);
                AttributeType::Graph
            }
            Attribute::Graphs(bodies) => {
                proto.graphs =
                    bodies.iter().map(|body| self.graph(*body, depth + 1)).collect::<Result<_, _>>()?;
                AttributeType::Graphs
            }
            Attribute::Type(ty) => {
                proto.tp = Some(type_proto(ty).unwrap_or_default());
                AttributeType::TypeProto
            }
            Attribute::Opaque { message, .. } => {
                let opaque = || ExportError::Opaque { node: self.label(node), attribute: key.to_owned() };
                let decoded = AttributeProto::decode(message.clone()).map_err(|_| opaque())?;
                return Ok(AttributeProto { name: proto.name, ref_attr_name: None, ..decoded });
            }
        };
        proto.r#type = Some(kind as i32);
        Ok(proto)
    }

    /// Encodes a body with the types of its values; [`MAX_DEPTH`] bounds the recursion.
    fn graph(self, graph: GraphId, depth: usize) -> Result<GraphProto, ExportError> {
        if depth > MAX_DEPTH {
            return Err(ExportError::TooDeep { limit: MAX_DEPTH });
        }
        let data = self.module.graph(graph);
        let infos = |values: &[Value]| values.iter().map(|value| self.value_info(*value)).collect();
        let mut proto = GraphProto {
            name: Some(data.name.clone()),
            input: infos(&data.inputs),
            output: infos(&data.outputs),
            ..GraphProto::default()
        };
        // Write defaults of inputs and constants as initializers.
        let defaults =
            data.inputs.iter().filter_map(|value| Some((*value, self.module.value(*value).default?)));
        let constants =
            data.constants.iter().filter_map(|value| Some((*value, self.module.constant_of(*value)?)));
        for (value, constant) in defaults.chain(constants) {
            proto.initializer.push(self.initializer(value, constant)?);
        }
        // Write the nodes, and the known types of results that are not outputs.
        let outputs: BTreeSet<Value> = data.outputs.iter().copied().collect();
        for node in &data.nodes {
            proto.node.push(self.node(*node, &self.module.node(*node).name, depth)?);
            let typed = self.module.node(*node).results().filter(|value| !outputs.contains(value));
            let typed = typed.map(|value| self.value_info(value)).filter(|info| info.r#type.is_some());
            proto.value_info.extend(typed);
        }
        Ok(proto)
    }

    /// Returns the name and type of a value.
    pub(crate) fn value_info(self, value: Value) -> ValueInfoProto {
        let r#type = type_proto(self.module.ty(value));
        ValueInfoProto { name: Some(self.name(value).to_owned()), r#type, ..ValueInfoProto::default() }
    }

    /// Encodes an initializer under the name of its value.
    pub(crate) fn initializer(self, value: Value, constant: ConstId) -> Result<TensorProto, ExportError> {
        let name = self.name(value).to_owned();
        let tensor = self.tensor(constant);
        let tensor = tensor.map_err(|defect| ExportError::Initializer { name: name.clone(), defect })?;
        Ok(TensorProto { name: Some(name), ..tensor })
    }

    /// Returns a constant as a message: the file's own message if the constant comes from the file,
    /// otherwise a message made from its payload. Weights are shared, not copied.
    fn tensor(self, constant: ConstId) -> Result<TensorProto, TensorDefect> {
        let data = self.module.constant(constant);
        match data.origin {
            ConstOrigin::Initializer(index) => {
                let found = self.file.graph().initializer.get(index as usize);
                return found.cloned().ok_or(TensorDefect::NotInFile);
            }
            ConstOrigin::Message { start, end } => {
                let bytes = self.file.bytes();
                let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
                let (start, end) = range
                    .filter(|(start, end)| start <= end && *end <= bytes.len())
                    .ok_or(TensorDefect::NotInFile)?;
                return TensorProto::decode(bytes.slice(start..end)).map_err(|_| TensorDefect::NotInFile);
            }
            ConstOrigin::SparseInitializer(_) => return Err(TensorDefect::Sparse),
            ConstOrigin::New => {}
        }
        let extents = data.ty.known_dims().ok_or(TensorDefect::Shape)?;
        let dims: Result<Vec<i64>, _> = extents.into_iter().map(i64::try_from).collect();
        let mut tensor = TensorProto {
            dims: dims.map_err(|_| TensorDefect::Shape)?,
            data_type: Some(data.ty.element.to_onnx()),
            ..TensorProto::default()
        };
        match &data.payload {
            Payload::Raw(raw) => tensor.raw_data = Some(raw.clone()),
            Payload::External { location, offset, length } => {
                tensor.data_location = Some(DataLocation::External as i32);
                tensor.external_data.push(entry("location", location));
                tensor.external_data.push(entry("offset", &offset.to_string()));
                tensor.external_data.extend(length.map(|length| entry("length", &length.to_string())));
            }
            Payload::Elided => return Err(TensorDefect::Elided),
        }
        Ok(tensor)
    }
}

/// Returns one entry of external data or of metadata.
pub(crate) fn entry(key: &str, value: &str) -> StringStringEntryProto {
    StringStringEntryProto { key: Some(key.to_owned()), value: Some(value.to_owned()) }
}

/// Removes empty names from the end of a list, which ONNX allows. The first name always stays, so that a
/// list that had entries does not become empty.
fn without_absent_tail(mut names: Vec<String>) -> Vec<String> {
    while names.len() > 1 && names.last().is_some_and(String::is_empty) {
        names.pop();
    }
    names
}

/// Whether a message and a node have equal operators; both spellings of ONNX's own domain count as
/// equal.
pub(crate) fn same_operator(proto: &NodeProto, data: &NodeData) -> bool {
    let domain = match proto.domain() {
        "ai.onnx" => "",
        domain => domain,
    };
    proto.op_type() == &*data.operator.name
        && domain == &*data.operator.domain
        && proto.overload() == &*data.operator.overload
}
