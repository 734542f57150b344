//! Exact comparison of two messages, field by field, unknown fields included.

use std::collections::BTreeMap;
use std::fmt;

use onnx_protobuf::tensor_proto::Segment;
use onnx_protobuf::tensor_shape_proto::{Dimension, dimension};
use onnx_protobuf::type_proto::{self, Map, Optional, Sequence, SparseTensor, Tensor};
use onnx_protobuf::{
    AttributeProto, FunctionProto, GraphProto, NodeProto, OperatorSetIdProto, SparseTensorProto, StringStringEntryProto,
    TensorAnnotation, TensorProto, TensorShapeProto, TrainingInfoProto, TypeProto, ValueInfoProto,
};
use protobuf::{Enum, EnumOrUnknown, MessageField, SpecialFields, UnknownValueRef};

/// Losses found so far, and the path to the field that is being compared.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    path: Vec<String>,
    found: Vec<String>,
    /// Number of losses that concern fields which the decoder knows.
    known: usize,
    /// Number of nodes that were found in the written model.
    pub(crate) nodes: usize,
}

impl Losses {
    /// Compares within the field or element `name`.
    pub(crate) fn at(&mut self, name: impl Into<String>, compare: impl FnOnce(&mut Self)) {
        self.path.push(name.into());
        compare(self);
        self.path.pop();
    }
    /// Records a loss at the current path.
    pub(crate) fn add(&mut self, loss: impl fmt::Display) {
        self.known += 1;
        self.push(loss);
    }
    /// Whether two messages differ in other fields than unknown ones.
    pub(crate) fn is_changed<T: Kept>(old: &T, new: &T) -> bool {
        let mut losses = Self::default();
        old.kept(new, &mut losses);
        losses.known > 0
    }
    fn push(&mut self, loss: impl fmt::Display) {
        let path = if self.path.is_empty() { "model".to_owned() } else { self.path.join(".") };
        self.found.push(format!("{path}: {loss}"));
    }
    /// Returns all losses, each with its path.
    pub(crate) fn into_found(self) -> Vec<String> {
        self.found
    }
}

/// A field or message that a written model must hold exactly as the original does.
pub(crate) trait Kept {
    /// Records every difference of `written` from `self`.
    fn kept(&self, written: &Self, losses: &mut Losses);
}

/// Compares scalars by a key of theirs.
macro_rules! scalars {
    ($($scalar:ty: $key:expr;)*) => {
        $(impl Kept for $scalar {
            fn kept(&self, written: &Self, losses: &mut Losses) {
                let key: fn(&Self) -> _ = $key;
                if key(self) != key(written) {
                    losses.add(format_args!("{self:?} became {written:?}"));
                }
            }
        })*
    };
}

// Floats by their bits: a NaN equals itself, and 0 differs from -0.
scalars! {
    i32: |value| *value;
    i64: |value| *value;
    u64: |value| *value;
    f32: |value| value.to_bits();
    f64: |value| value.to_bits();
    String: |value| value.clone();
}

impl Kept for Vec<u8> {
    fn kept(&self, written: &Self, losses: &mut Losses) {
        if self != written {
            losses.add(format_args!("{} bytes became {} others", self.len(), written.len()));
        }
    }
}

impl<T: Kept> Kept for Vec<T> {
    fn kept(&self, written: &Self, losses: &mut Losses) {
        if self.len() != written.len() {
            losses.add(format_args!("{} elements became {}", self.len(), written.len()));
        }
        for (index, (old, new)) in self.iter().zip(written).enumerate() {
            losses.at(index.to_string(), |losses| old.kept(new, losses));
        }
    }
}

impl<E: Enum> Kept for EnumOrUnknown<E> {
    fn kept(&self, written: &Self, losses: &mut Losses) {
        self.value().kept(&written.value(), losses);
    }
}

impl<T: Kept> Kept for MessageField<T> {
    fn kept(&self, written: &Self, losses: &mut Losses) {
        match (self.as_ref(), written.as_ref()) {
            (Some(old), Some(new)) => old.kept(new, losses),
            (Some(_), None) => losses.add("lost"),
            (None, Some(_)) => losses.add("added"),
            (None, None) => {}
        }
    }
}

impl Kept for SpecialFields {
    fn kept(&self, written: &Self, losses: &mut Losses) {
        let (old, new) = (unknown(self), unknown(written));
        for (number, values) in &old {
            if new.get(number) != Some(values) {
                losses.push(format_args!("unknown field {number} lost"));
            }
        }
    }
}

/// Returns the values of unknown fields by field number.
fn unknown(fields: &SpecialFields) -> BTreeMap<u32, Vec<UnknownValueRef<'_>>> {
    let mut found: BTreeMap<u32, Vec<UnknownValueRef<'_>>> = BTreeMap::new();
    for (number, value) in fields.unknown_fields().iter() {
        found.entry(number).or_default().push(value);
    }
    found
}

/// Compares messages by all of their fields: a field that is not listed does not compile.
macro_rules! messages {
    ($($message:ident { $($field:ident),* $(,)? })*) => {
        $(impl Kept for $message {
            fn kept(&self, written: &Self, losses: &mut Losses) {
                let Self { $($field,)* special_fields } = self;
                $(losses.at(stringify!($field).trim_end_matches('_'), |losses| $field.kept(&written.$field, losses));)*
                special_fields.kept(&written.special_fields, losses);
            }
        })*
    };
}

messages! {
    AttributeProto {
        name, ref_attr_name, doc_string, type_, f, i, s, t, g, sparse_tensor, tp, floats, ints, strings, tensors, graphs,
        sparse_tensors, type_protos,
    }
    FunctionProto {
        name, input, output, attribute, attribute_proto, node, doc_string, opset_import, domain, overload, value_info,
        metadata_props,
    }
    GraphProto {
        node, name, initializer, sparse_initializer, doc_string, input, output, value_info, quantization_annotation,
        metadata_props,
    }
    NodeProto { input, output, name, op_type, domain, overload, attribute, doc_string, metadata_props }
    OperatorSetIdProto { domain, version }
    Segment { begin, end }
    SparseTensorProto { values, indices, dims }
    StringStringEntryProto { key, value }
    TensorAnnotation { tensor_name, quant_parameter_tensor_names }
    TensorProto {
        dims, data_type, segment, float_data, int32_data, string_data, int64_data, name, doc_string, raw_data, external_data,
        data_location, double_data, uint64_data, metadata_props,
    }
    TrainingInfoProto { initialization, algorithm, initialization_binding, update_binding }
    ValueInfoProto { name, type_, doc_string, metadata_props }
    TypeProto { denotation, value }
    Tensor { elem_type, shape }
    SparseTensor { elem_type, shape }
    Sequence { elem_type }
    Optional { elem_type }
    Map { key_type, value_type }
    TensorShapeProto { dim }
    Dimension { denotation, value }
}

impl Kept for Option<type_proto::Value> {
    fn kept(&self, written: &Self, losses: &mut Losses) {
        use type_proto::Value::{MapType, OptionalType, SequenceType, SparseTensorType, TensorType};
        match (self, written) {
            (Some(TensorType(old)), Some(TensorType(new))) => old.kept(new, losses),
            (Some(SparseTensorType(old)), Some(SparseTensorType(new))) => old.kept(new, losses),
            (Some(SequenceType(old)), Some(SequenceType(new))) => old.kept(new, losses),
            (Some(OptionalType(old)), Some(OptionalType(new))) => old.kept(new, losses),
            (Some(MapType(old)), Some(MapType(new))) => old.kept(new, losses),
            (None, None) => {}
            _ => losses.add("another kind of type"),
        }
    }
}

impl Kept for Option<dimension::Value> {
    fn kept(&self, written: &Self, losses: &mut Losses) {
        if self != written {
            losses.add(format_args!("{self:?} became {written:?}"));
        }
    }
}
