//! Types that the model file states.

use memc_ir::{Dim, ElementType, Shape, TensorType, ValueType};
use memc_onnx_proto::onnx::tensor_shape_proto::dimension::Value as DimValue;
use memc_onnx_proto::onnx::{TensorShapeProto, TypeProto, ValueInfoProto, type_proto};

use crate::error::ImportError;

/// Maximum nesting of types (`seq(optional(…))`); deeper types are unknown.
const MAX_DEPTH: u32 = 16;

/// Returns the type that an entry states.
pub(crate) fn value_info(info: &ValueInfoProto) -> ValueType {
    info.r#type.as_ref().map_or(ValueType::Unknown, |ty| value_type(ty, 0))
}

/// Converts a type message.
pub(crate) fn value_type(ty: &TypeProto, depth: u32) -> ValueType {
    if depth > MAX_DEPTH {
        return ValueType::Unknown;
    }
    let inner = |inner: &Option<Box<TypeProto>>| {
        Box::new(inner.as_ref().map_or(ValueType::Unknown, |inner| value_type(inner, depth + 1)))
    };
    match &ty.value {
        None | Some(type_proto::Value::OpaqueType(_)) => ValueType::Unknown,
        Some(type_proto::Value::TensorType(tensor)) => {
            ValueType::Tensor(tensor_type(tensor.elem_type, tensor.shape.as_ref()))
        }
        Some(type_proto::Value::SparseTensorType(tensor)) => {
            ValueType::SparseTensor(tensor_type(tensor.elem_type, tensor.shape.as_ref()))
        }
        Some(type_proto::Value::SequenceType(sequence)) => ValueType::Sequence(inner(&sequence.elem_type)),
        Some(type_proto::Value::OptionalType(optional)) => ValueType::Optional(inner(&optional.elem_type)),
        Some(type_proto::Value::MapType(map)) => {
            ValueType::Map(ElementType::from_onnx(map.key_type.unwrap_or(0)), inner(&map.value_type))
        }
    }
}

fn tensor_type(element: Option<i32>, shape: Option<&TensorShapeProto>) -> TensorType {
    let element = ElementType::from_onnx(element.unwrap_or(0));
    TensorType { element, shape: shape.map(dims) }
}

/// Converts the extents of a shape. Exporters write a negative extent or `?` for an unknown one;
/// runtimes read both so.
fn dims(shape: &TensorShapeProto) -> Vec<Dim> {
    shape
        .dim
        .iter()
        .map(|dim| match &dim.value {
            Some(DimValue::DimValue(extent)) => u64::try_from(*extent).map_or(Dim::Unknown, Dim::Known),
            Some(DimValue::DimParam(symbol)) if !matches!(symbol.trim(), "" | "?") => Dim::from_name(symbol),
            _ => Dim::Unknown,
        })
        .collect()
}

/// Converts the extents of an initializer; an error if one is negative.
pub(crate) fn fixed_dims(dims: &[i64], name: &str) -> Result<Shape, ImportError> {
    let fixed: Option<Vec<Dim>> = dims.iter().map(|dim| u64::try_from(*dim).ok().map(Dim::Known)).collect();
    fixed
        .map(Some)
        .ok_or_else(|| ImportError::Dimension { name: name.to_owned(), shape: format!("{dims:?}") })
}
