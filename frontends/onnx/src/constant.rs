//! Conversion of tensor messages to constants: large payloads are references to bytes, never copies.

use bytes::Bytes;
use memc_ir::{ConstData, ConstOrigin, ElementType, Payload, TensorType};
use memc_onnx_proto::onnx::tensor_proto::DataLocation;
use memc_onnx_proto::onnx::{SparseTensorProto, TensorProto};

use crate::error::ImportError;
use crate::types::fixed_dims;

/// Maximum number of elements of a typed array (`float_data` …) that is packed again. No pass reads the
/// elements of larger arrays, and the exporter writes them back from the bytes of the file.
const MAX_TYPED: usize = 1 << 16;

/// Converts a tensor message to a constant.
pub(crate) fn constant(tensor: &TensorProto, origin: ConstOrigin) -> Result<ConstData, ImportError> {
    let name = tensor.name.as_deref().unwrap_or("(unnamed tensor)");
    let element = ElementType::from_onnx(tensor.data_type.unwrap_or(0));
    let ty = TensorType { element, shape: fixed_dims(&tensor.dims, name)? };
    if element.bits().is_some() && ty.size().is_none() {
        return Err(ImportError::Dimension { name: name.to_owned(), shape: format!("{:?}", tensor.dims) });
    }
    let payload = if tensor.data_location == Some(DataLocation::External as i32) {
        external(tensor, name)?
    } else if let Some(raw) = &tensor.raw_data {
        check_length(name, &ty, raw.len())?;
        Payload::Raw(raw.clone())
    } else {
        typed(tensor, element)
            .filter(|raw| ty.size().is_some_and(|size| size.0 == raw.len() as u64))
            .map_or(Payload::Elided, Payload::Raw)
    };
    Ok(ConstData { ty, payload, origin })
}

fn check_length(name: &str, ty: &TensorType, found: usize) -> Result<(), ImportError> {
    match ty.size() {
        Some(expected) if expected.0 != found as u64 => Err(ImportError::PayloadLength {
            name: name.to_owned(),
            expected: expected.0,
            found: found as u64,
        }),
        _ => Ok(()),
    }
}

/// Converts a sparse tensor message to a constant with the dense type and without bytes.
pub(crate) fn sparse(tensor: &SparseTensorProto, origin: ConstOrigin) -> Result<ConstData, ImportError> {
    let values = tensor.values.as_ref();
    let name = values.and_then(|values| values.name.as_deref()).unwrap_or("(unnamed sparse tensor)");
    let element = ElementType::from_onnx(values.and_then(|values| values.data_type).unwrap_or(0));
    let ty = TensorType { element, shape: fixed_dims(&tensor.dims, name)? };
    if element.bits().is_some() && ty.size().is_none() {
        return Err(ImportError::Dimension { name: name.to_owned(), shape: format!("{:?}", tensor.dims) });
    }
    Ok(ConstData { ty, payload: Payload::Elided, origin })
}

/// Returns the location of external data; an error if it is outside the model's folder. The file is
/// never opened.
pub(crate) fn external(tensor: &TensorProto, name: &str) -> Result<Payload, ImportError> {
    let entry = |key: &str| {
        tensor
            .external_data
            .iter()
            .find(|entry| entry.key.as_deref() == Some(key))
            .and_then(|entry| entry.value.as_deref())
    };
    let location = entry("location").unwrap_or_default().to_owned();
    let absolute = location.starts_with(['/', '\\']) || location.as_bytes().get(1) == Some(&b':');
    if absolute || location.is_empty() || location.split(['/', '\\']).any(|part| part == "..") {
        return Err(ImportError::ExternalPath { name: name.to_owned(), location });
    }
    let offset = entry("offset").and_then(|text| text.parse().ok()).unwrap_or(0);
    let length = entry("length").and_then(|text| text.parse().ok());
    Ok(Payload::External { location, offset, length })
}

/// Packs a small typed array as raw bytes; `None` if it is too large or has elements without a fixed
/// size.
fn typed(tensor: &TensorProto, element: ElementType) -> Option<Bytes> {
    use ElementType::*;
    let count = tensor.int32_data.len().max(tensor.int64_data.len()).max(tensor.float_data.len());
    if count.max(tensor.double_data.len()).max(tensor.uint64_data.len()) > MAX_TYPED {
        return None;
    }
    let small = |width: usize| -> Vec<u8> {
        tensor.int32_data.iter().flat_map(|value| value.to_le_bytes().into_iter().take(width)).collect()
    };
    let raw: Vec<u8> = match element {
        Float | Complex64 => tensor.float_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        Double | Complex128 => tensor.double_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        Int64 => tensor.int64_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        Uint64 => tensor.uint64_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        Uint32 => tensor.uint64_data.iter().flat_map(|value| (*value as u32).to_le_bytes()).collect(),
        Int32 => small(4),
        Int16 | Uint16 | Float16 | Bfloat16 => small(2),
        String | Undefined | Other(_) => return None,
        // Each entry gives one byte. Entries of packed types already hold a whole byte.
        _ => small(1),
    };
    Some(raw.into())
}
