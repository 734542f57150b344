//! Types of values as ONNX's messages state them, without shapes.

use memc_onnx_proto::onnx::TypeProto;
use memc_onnx_proto::onnx::type_proto::{Optional, Sequence, Tensor, Value};

/// Deepest nesting of sequences and optionals that is followed.
pub(crate) const MAX_DEPTH: usize = 8;

fn of(value: Value) -> TypeProto {
    TypeProto { denotation: None, value: Some(value) }
}

/// Returns the type of tensors of any shape, by the number of their element type.
pub(crate) fn tensor(number: i32) -> TypeProto {
    of(Value::TensorType(Tensor { elem_type: Some(number), shape: None }))
}

/// Returns the type of sequences of a type.
pub(crate) fn sequence(inner: TypeProto) -> TypeProto {
    of(Value::SequenceType(Box::new(Sequence { elem_type: Some(Box::new(inner)) })))
}

/// Returns the type of optionals of a type.
pub(crate) fn optional(inner: TypeProto) -> TypeProto {
    of(Value::OptionalType(Box::new(Optional { elem_type: Some(Box::new(inner)) })))
}

/// Returns the number of a tensor's element type; `None` for other types.
pub(crate) fn element(ty: &TypeProto) -> Option<i32> {
    match &ty.value {
        Some(Value::TensorType(tensor)) => tensor.elem_type,
        _ => None,
    }
}
