//! Types of values as ONNX's messages say them, without shapes.

use memc_onnx_proto::onnx::TypeProto;
use memc_onnx_proto::onnx::type_proto::{Optional, Sequence, Tensor, Value};

/// Sequences and optionals within each other that are followed.
pub(crate) const MAX_DEPTH: usize = 8;

fn of(value: Value) -> TypeProto {
    TypeProto { denotation: None, value: Some(value) }
}

/// Tensors of any shape, by the number of their element type.
pub(crate) fn tensor(number: i32) -> TypeProto {
    of(Value::TensorType(Tensor { elem_type: Some(number), shape: None }))
}

/// Sequences of a type.
pub(crate) fn sequence(inner: TypeProto) -> TypeProto {
    of(Value::SequenceType(Box::new(Sequence { elem_type: Some(Box::new(inner)) })))
}

/// Optionals of a type.
pub(crate) fn optional(inner: TypeProto) -> TypeProto {
    of(Value::OptionalType(Box::new(Optional { elem_type: Some(Box::new(inner)) })))
}

/// The number of a tensor's element type; `None` for what is no tensor.
pub(crate) fn element(ty: &TypeProto) -> Option<i32> {
    match &ty.value {
        Some(Value::TensorType(tensor)) => tensor.elem_type,
        _ => None,
    }
}
