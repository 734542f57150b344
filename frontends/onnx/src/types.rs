//! Types as the file states them.

use memc_ir::{Dim, ElementType, Shape, TensorType, ValueType};
use memc_onnx_proto::onnx::tensor_shape_proto::dimension::Value as DimValue;
use memc_onnx_proto::onnx::{TensorShapeProto, TypeProto, ValueInfoProto, type_proto};

use crate::error::ImportError;

/// Types nest at most this deep (`seq(optional(…))`); deeper is unknown.
const MAX_DEPTH: u32 = 16;

/// Type and name that an entry states.
pub(crate) fn value_info(info: &ValueInfoProto) -> Result<ValueType, ImportError> {
    let name = info.name.as_deref().unwrap_or_default();
    info.r#type.as_ref().map_or(Ok(ValueType::Unknown), |ty| value_type(ty, name, 0))
}

/// The type in an attribute.
pub(crate) fn value_type(ty: &TypeProto, name: &str, depth: u32) -> Result<ValueType, ImportError> {
    if depth > MAX_DEPTH {
        return Ok(ValueType::Unknown);
    }
    let inner = |inner: &Option<Box<TypeProto>>| match inner {
        Some(inner) => value_type(inner, name, depth + 1).map(Box::new),
        None => Ok(Box::new(ValueType::Unknown)),
    };
    Ok(match &ty.value {
        None | Some(type_proto::Value::OpaqueType(_)) => ValueType::Unknown,
        Some(type_proto::Value::TensorType(tensor)) => {
            ValueType::Tensor(tensor_type(tensor.elem_type, tensor.shape.as_ref(), name)?)
        }
        Some(type_proto::Value::SparseTensorType(tensor)) => {
            ValueType::SparseTensor(tensor_type(tensor.elem_type, tensor.shape.as_ref(), name)?)
        }
        Some(type_proto::Value::SequenceType(sequence)) => ValueType::Sequence(inner(&sequence.elem_type)?),
        Some(type_proto::Value::OptionalType(optional)) => ValueType::Optional(inner(&optional.elem_type)?),
        Some(type_proto::Value::MapType(map)) => {
            ValueType::Map(ElementType::from_onnx(map.key_type.unwrap_or(0)), inner(&map.value_type)?)
        }
    })
}

fn tensor_type(element: Option<i32>, shape: Option<&TensorShapeProto>, name: &str) -> Result<TensorType, ImportError> {
    let element = ElementType::from_onnx(element.unwrap_or(0));
    let shape = shape.map(|shape| dims(shape, name)).transpose()?;
    Ok(TensorType { element, shape })
}

fn dims(shape: &TensorShapeProto, name: &str) -> Result<Vec<Dim>, ImportError> {
    shape
        .dim
        .iter()
        .map(|dim| match &dim.value {
            Some(DimValue::DimValue(extent)) => u64::try_from(*extent)
                .map(Dim::Known)
                .map_err(|_| ImportError::Dimension { name: name.to_owned(), shape: print_shape(shape) }),
            Some(DimValue::DimParam(symbol)) if !symbol.trim().is_empty() => Ok(Dim::from_name(symbol)),
            _ => Ok(Dim::Unknown),
        })
        .collect()
}

fn print_shape(shape: &TensorShapeProto) -> String {
    let dims: Vec<String> = shape
        .dim
        .iter()
        .map(|dim| match &dim.value {
            Some(DimValue::DimValue(extent)) => extent.to_string(),
            Some(DimValue::DimParam(symbol)) => symbol.clone(),
            None => "?".to_owned(),
        })
        .collect();
    format!("[{}]", dims.join(","))
}

/// Extents of an initializer.
pub(crate) fn fixed_dims(dims: &[i64], name: &str) -> Result<Shape, ImportError> {
    let fixed: Option<Vec<Dim>> = dims.iter().map(|dim| u64::try_from(*dim).ok().map(Dim::Known)).collect();
    fixed.map(Some).ok_or_else(|| ImportError::Dimension { name: name.to_owned(), shape: format!("{dims:?}") })
}
