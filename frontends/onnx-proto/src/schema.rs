//! The nesting of ONNX messages: a table of message fields, and a check of a whole file with it.
//!
//! The generated decoder reports a broken file without an offset; this check finds the byte. It also
//! bounds the nesting before any recursive code runs.
use crate::wire::{DEPTH_LIMIT, WireError, WireType, fields};

/// ONNX messages that can contain further messages; all others are [`Kind::Flat`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Model,
    Training,
    Function,
    Graph,
    Annotation,
    Node,
    NodeDevice,
    Sharding,
    ShardedDim,
    Attribute,
    Tensor,
    SparseTensor,
    ValueInfo,
    Type,
    ArrayType,
    SequenceType,
    MapType,
    Shape,
    Flat,
}

/// Checks the keys, lengths and nesting of every field in a serialized `ModelProto`, without decoding.
///
/// Time `O(fields)`: strings and tensors are skipped, not read.
///
/// # Errors
///
/// The first broken field in file order, with its offset.
pub fn check_model(bytes: &[u8]) -> Result<(), WireError> {
    let mut open = vec![(Kind::Model, fields(bytes, 0..bytes.len()))];
    while let Some((kind, rest)) = open.last_mut() {
        let Some(field) = rest.next().transpose()? else {
            open.pop();
            continue;
        };
        let Some(inner) = message_at(*kind, field.tag) else {
            continue;
        };
        if field.wire_type != WireType::LengthDelimited {
            return Err(WireError::NotAMessage { offset: field.span.start, tag: field.tag });
        }
        if open.len() > DEPTH_LIMIT {
            return Err(WireError::TooDeep { offset: field.span.start });
        }
        open.push((inner, fields(bytes, field.payload)));
    }
    Ok(())
}

/// Returns the kind of message in field `tag` of a `kind`; `None` for a scalar or unknown field.
fn message_at(kind: Kind, tag: u32) -> Option<Kind> {
    Some(match (kind, tag) {
        (Kind::Model, 7) | (Kind::Training, 1 | 2) | (Kind::Attribute, 6 | 11) => Kind::Graph,
        (Kind::Model, 20) => Kind::Training,
        (Kind::Model, 25) => Kind::Function,
        (Kind::Graph, 1) | (Kind::Function, 7) => Kind::Node,
        (Kind::Graph, 5) | (Kind::Attribute, 5 | 10) | (Kind::SparseTensor, 1 | 2) => Kind::Tensor,
        (Kind::Graph, 11..=13) | (Kind::Function, 12) => Kind::ValueInfo,
        (Kind::Graph, 14) => Kind::Annotation,
        (Kind::Graph, 15) | (Kind::Attribute, 22 | 23) => Kind::SparseTensor,
        (Kind::Node, 5) | (Kind::Function, 11) => Kind::Attribute,
        (Kind::Node, 10) => Kind::NodeDevice,
        (Kind::NodeDevice, 2) => Kind::Sharding,
        (Kind::Sharding, 4) => Kind::ShardedDim,
        (Kind::ValueInfo, 2) | (Kind::Attribute, 14 | 15) => Kind::Type,
        (Kind::SequenceType, 1) | (Kind::MapType, 2) => Kind::Type,
        (Kind::Type, 1 | 8) => Kind::ArrayType,
        (Kind::Type, 4 | 9) => Kind::SequenceType,
        (Kind::Type, 5) => Kind::MapType,
        (Kind::ArrayType, 2) => Kind::Shape,
        (Kind::Model, 8 | 14 | 26) | (Kind::Training, 3 | 4) | (Kind::Function, 9 | 14) => Kind::Flat,
        (Kind::Graph, 16) | (Kind::Annotation, 2) | (Kind::Node, 9) => Kind::Flat,
        (Kind::Sharding, 3) | (Kind::ShardedDim, 2) | (Kind::Tensor, 3 | 13 | 16) => Kind::Flat,
        (Kind::ValueInfo, 4) | (Kind::Type, 7) | (Kind::Shape, 1) => Kind::Flat,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use std::collections::BTreeMap;

    const PROTO: &str = include_str!("../proto/onnx.proto");

    /// Returns the kind of a message of the proto file.
    fn kind_of(message: &str) -> Kind {
        match message {
            "ModelProto" => Kind::Model,
            "TrainingInfoProto" => Kind::Training,
            "FunctionProto" => Kind::Function,
            "GraphProto" => Kind::Graph,
            "TensorAnnotation" => Kind::Annotation,
            "NodeProto" => Kind::Node,
            "NodeDeviceConfigurationProto" => Kind::NodeDevice,
            "ShardingSpecProto" => Kind::Sharding,
            "ShardedDimProto" => Kind::ShardedDim,
            "AttributeProto" => Kind::Attribute,
            "TensorProto" => Kind::Tensor,
            "SparseTensorProto" => Kind::SparseTensor,
            "ValueInfoProto" => Kind::ValueInfo,
            "TypeProto" => Kind::Type,
            "Tensor" | "SparseTensor" => Kind::ArrayType,
            "Sequence" | "Optional" => Kind::SequenceType,
            "Map" => Kind::MapType,
            "TensorShapeProto" => Kind::Shape,
            "IntIntListEntryProto"
            | "SimpleShardedDimProto"
            | "DeviceConfigurationProto"
            | "StringStringEntryProto"
            | "Segment"
            | "Dimension"
            | "OperatorSetIdProto"
            | "Opaque" => Kind::Flat,
            other => panic!("message {other} is new: give it a kind"),
        }
    }

    /// Parses every field of the proto file as message, field, type and number; sufficient for this one
    /// file.
    fn proto_fields() -> Vec<(String, String, String, u32)> {
        let mut found = Vec::new();
        let mut open: Vec<String> = Vec::new();
        for line in PROTO.lines() {
            let line = line.split("//").next().unwrap_or_default().trim();
            let words: Vec<&str> = line.split([' ', ';', '{']).filter(|word| !word.is_empty()).collect();
            if line.ends_with('{') {
                open.push(format!("{}:{}", words[0], words[1]));
            } else if line.starts_with('}') {
                open.pop();
            } else {
                let message = open.iter().rev().find_map(|name| name.strip_prefix("message:"));
                let words: Vec<&str> =
                    words.into_iter().filter(|word| !["optional", "repeated"].contains(word)).collect();
                let in_enum = open.last().is_some_and(|name| name.starts_with("enum:"));
                if let (Some(message), [ty, name, "=", tag, ..], false) = (message, words.as_slice(), in_enum)
                {
                    found.push((message.into(), (*name).into(), (*ty).into(), tag.parse().unwrap()));
                }
            }
        }
        found
    }

    #[test]
    fn the_table_agrees_with_the_proto_file() {
        let scalars = ["int32", "int64", "uint64", "float", "double", "string", "bytes"];
        let enums = ["AttributeType", "DataLocation"];
        let fields = proto_fields();
        assert!(fields.len() > 120, "the reader found only {} fields", fields.len());
        for (message, name, ty, tag) in fields {
            let leaf = scalars.contains(&ty.as_str()) || enums.contains(&ty.as_str());
            let expected = (!leaf).then(|| kind_of(&ty));
            assert_eq!(message_at(kind_of(&message), tag), expected, "{message}.{name}");
        }
    }

    #[test]
    fn field_numbers_agree_with_the_proto_file() {
        let numbers: BTreeMap<String, u32> = proto_fields()
            .into_iter()
            .map(|(message, name, _, tag)| (format!("{message}.{name}"), tag))
            .collect();
        for (name, tag) in [
            ("ModelProto.ir_version", crate::model::IR_VERSION),
            ("ModelProto.graph", crate::model::GRAPH),
            ("ModelProto.opset_import", crate::model::OPSET_IMPORT),
            ("ModelProto.metadata_props", crate::model::METADATA_PROPS),
            ("ModelProto.functions", crate::model::FUNCTIONS),
            ("GraphProto.node", crate::graph::NODE),
            ("GraphProto.name", crate::graph::NAME),
            ("GraphProto.initializer", crate::graph::INITIALIZER),
            ("GraphProto.input", crate::graph::INPUT),
            ("GraphProto.output", crate::graph::OUTPUT),
            ("GraphProto.value_info", crate::graph::VALUE_INFO),
            ("GraphProto.sparse_initializer", crate::graph::SPARSE_INITIALIZER),
            ("GraphProto.metadata_props", crate::graph::METADATA_PROPS),
            ("NodeProto.input", crate::node::INPUT),
            ("NodeProto.output", crate::node::OUTPUT),
            ("NodeProto.name", crate::node::NAME),
            ("NodeProto.attribute", crate::node::ATTRIBUTE),
            ("NodeProto.metadata_props", crate::node::METADATA_PROPS),
            ("AttributeProto.name", crate::attribute::NAME),
            ("AttributeProto.t", crate::attribute::T),
            ("AttributeProto.g", crate::attribute::G),
            ("TensorProto.name", crate::tensor::NAME),
            ("TensorProto.raw_data", crate::tensor::RAW_DATA),
            ("ValueInfoProto.name", crate::value_info::NAME),
            ("ValueInfoProto.metadata_props", crate::value_info::METADATA_PROPS),
            ("StringStringEntryProto.key", crate::tag::entry::KEY),
        ] {
            assert_eq!(numbers.get(name), Some(&tag), "{name}");
        }
    }
}
