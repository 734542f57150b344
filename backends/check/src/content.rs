//! Identity of constants: type and bytes, or the location of the bytes.

use std::hash::{Hash, Hasher};

use bytes::Bytes;
use memc_ir::{ConstData, ConstId, ConstOrigin, ElementType, EntityId as _, Payload};
use memc_onnx_proto::onnx::TensorProto;
use prost::Message as _;

use crate::side::Side;

/// Bytes that the hash of a constant samples at each of three places: the beginning, the middle and the
/// end.
const SAMPLE: usize = 64;

/// Content of a constant. Constants with equal contents are equal values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Content {
    /// Bytes, little-endian and packed.
    Raw(Raw),
    /// Data outside the model file: the location stands for the bytes, unless the check was given them.
    External {
        element: ElementType,
        dims: Option<Vec<u64>>,
        location: String,
        offset: u64,
        length: Option<u64>,
    },
    /// Encoded message without its name, for constants without raw bytes (strings, large typed arrays).
    Message(Vec<u8>),
    /// Unknown content, equal only to itself.
    Private { model: usize, constant: usize },
}

/// Type and bytes. Equality compares all bytes. The hash samples a few: weights are large, and few have
/// equal samples.
#[derive(Clone, Debug, Eq)]
pub(crate) struct Raw {
    pub(crate) element: ElementType,
    pub(crate) dims: Vec<u64>,
    pub(crate) bytes: Bytes,
}

impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        let is_one_slice =
            self.bytes.as_ptr() == other.bytes.as_ptr() && self.bytes.len() == other.bytes.len();
        self.element == other.element
            && self.dims == other.dims
            && (is_one_slice || self.bytes == other.bytes)
    }
}

impl Hash for Raw {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.element.hash(state);
        self.dims.hash(state);
        let count = self.bytes.len();
        for start in [0, (count / 2).saturating_sub(SAMPLE / 2), count.saturating_sub(SAMPLE)] {
            let end = count.min(start + SAMPLE);
            self.bytes[start..end].hash(state);
        }
    }
}

/// Returns the content of a constant. `model` distinguishes the two models.
pub(crate) fn content(side: &Side<'_>, model: usize, id: ConstId) -> Content {
    let data = side.module.constant(id);
    let dims = data.ty.known_dims();
    match (&data.payload, dims) {
        (Payload::Raw(bytes), Some(dims)) => {
            Content::Raw(Raw { element: data.ty.element, dims, bytes: bytes.clone() })
        }
        (Payload::External { .. }, Some(dims)) if side.outside.contains_key(&id.index()) => {
            let bytes = side.outside.get(&id.index()).cloned().unwrap_or_default();
            Content::Raw(Raw { element: data.ty.element, dims, bytes })
        }
        (Payload::External { location, offset, length }, dims) => Content::External {
            element: data.ty.element,
            dims,
            location: location.clone(),
            offset: *offset,
            length: *length,
        },
        _ => message(side, data).map_or(Content::Private { model, constant: id.index() }, Content::Message),
    }
}

fn message(side: &Side<'_>, data: &ConstData) -> Option<Vec<u8>> {
    let nameless =
        |tensor: TensorProto| TensorProto { name: None, doc_string: None, ..tensor }.encode_to_vec();
    match data.origin {
        ConstOrigin::Initializer(index) => {
            side.file.graph().initializer.get(index as usize).cloned().map(nameless)
        }
        ConstOrigin::SparseInitializer(index) => {
            let mut sparse = side.file.graph().sparse_initializer.get(index as usize)?.clone();
            sparse.values =
                sparse.values.map(|values| TensorProto { name: None, doc_string: None, ..values });
            Some(sparse.encode_to_vec())
        }
        ConstOrigin::Message { start, end } => {
            let range = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
            let bytes = side.file.bytes();
            (range.start <= range.end && range.end <= bytes.len()).then_some(())?;
            TensorProto::decode(bytes.slice(range)).ok().map(nameless)
        }
        ConstOrigin::New => None,
    }
}
