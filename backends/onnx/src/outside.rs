//! Moves initializers into one file beside the model, each at an aligned place, so that runtimes map
//! weights instead of copying them.

use std::collections::BTreeSet;

use bytes::Bytes;
use memc_ir::{ConstId, Payload};
use memc_onnx_proto::onnx::TensorProto;
use memc_onnx_proto::onnx::tensor_proto::DataLocation;
use memc_onnx_proto::{GraphEdit, TensorSource};
use prost::Message as _;

use crate::encode::{Source, entry};
use crate::error::{ExportError, TensorDefect};

/// Smallest tensor that leaves the model, in bytes: the limit of the package `onnx`. A smaller one
/// would save less than its entry in the model takes.
const LEAST: u64 = 1024;

/// Alignment of tensors below the requested alignment, in bytes: a line of the cache.
const LINE: u64 = 64;

/// The file that takes the weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// Its path relative to the model's folder.
    pub location: String,
    /// Alignment of the position of each tensor of at least this size, in bytes; smaller tensors are
    /// aligned to 64 bytes.
    pub alignment: u64,
}

/// A tensor's place in the file of weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Position of its first byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// Source of the bytes.
    pub source: ChunkSource,
}

/// Source of the bytes of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkSource {
    /// In memory, or a slice of the mapped model.
    Bytes(Bytes),
    /// In another file.
    File {
        /// Path relative to the folder of the given model.
        location: String,
        /// Position of the first byte.
        offset: u64,
    },
}

/// A tensor that leaves the model.
struct Leaving {
    name: String,
    tensor: TensorProto,
    length: u64,
    source: ChunkSource,
}

/// Moves the initializers of the main graph that have known bytes and at least `LEAST` of them:
/// replaces their messages in `edit`. Returns their places, in the order of the file of weights: large
/// tensors first, each kind in the order of the model. Strings, sparse tensors and large typed arrays
/// stay inside.
pub(crate) fn move_out(
    source: Source<'_>,
    edit: &mut GraphEdit,
    outside: &Outside,
) -> Result<Vec<Chunk>, ExportError> {
    let mut leaving = Vec::new();
    let kept = source.file.graph().initializer.iter().enumerate();
    let kept: Vec<(usize, &TensorProto)> =
        kept.filter(|(index, _)| !edit.dropped_initializers.contains(index)).collect();
    let constants = Constants::of(source);
    let mut left = BTreeSet::new();
    for (index, tensor) in kept {
        let Some(found) = constants.named(tensor.name()).and_then(|constant| leaves(source, constant)) else {
            continue;
        };
        left.insert(index);
        leaving.push(Leaving {
            name: tensor.name().to_owned(),
            tensor: emptied(tensor.clone()),
            length: found.0,
            source: found.1,
        });
    }
    edit.dropped_initializers.extend(left);
    let mut stays = Vec::new();
    for (name, made) in std::mem::take(&mut edit.new_initializers) {
        let Some(found) = constants.named(&name).and_then(|constant| leaves(source, constant)) else {
            stays.push((name, made));
            continue;
        };
        let fail = || ExportError::Initializer { name: name.clone(), defect: TensorDefect::NotInFile };
        let tensor = match made {
            TensorSource::Owned(tensor) => *tensor,
            TensorSource::Span(span) => {
                TensorProto::decode(source.file.bytes().slice(span)).map_err(|_| fail())?
            }
        };
        leaving.push(Leaving { tensor: emptied(tensor), name, length: found.0, source: found.1 });
    }
    edit.new_initializers = stays;
    Ok(placed(leaving, edit, outside))
}

/// Assigns a place to each tensor, and adds its message to the edit.
fn placed(leaving: Vec<Leaving>, edit: &mut GraphEdit, outside: &Outside) -> Vec<Chunk> {
    let mut chunks = Vec::with_capacity(leaving.len());
    let mut end = 0;
    let (large, small): (Vec<Leaving>, Vec<Leaving>) =
        leaving.into_iter().partition(|row| row.length >= outside.alignment);
    for Leaving { name, mut tensor, length, source } in large.into_iter().chain(small) {
        let alignment =
            if length >= outside.alignment { outside.alignment } else { LINE.min(outside.alignment) };
        let offset = u64::next_multiple_of(end, alignment.max(1));
        end = offset + length;
        tensor.data_location = Some(DataLocation::External as i32);
        tensor.external_data = vec![
            entry("location", &outside.location),
            entry("offset", &offset.to_string()),
            entry("length", &length.to_string()),
        ];
        edit.new_initializers.push((name, TensorSource::Owned(Box::new(tensor))));
        chunks.push(Chunk { offset, length, source });
    }
    chunks
}

/// Returns length and source of a constant that leaves the model; `None` if it stays.
fn leaves(source: Source<'_>, constant: ConstId) -> Option<(u64, ChunkSource)> {
    let data = source.module.constant(constant);
    let size = data.ty.size()?.0;
    let found = match &data.payload {
        Payload::Raw(bytes) => (bytes.len() as u64, ChunkSource::Bytes(bytes.clone())),
        Payload::External { location, offset, .. } => {
            (size, ChunkSource::File { location: location.clone(), offset: *offset })
        }
        Payload::Elided => return None,
    };
    // Bytes of another length are kept as they are.
    (found.0 == size && size >= LEAST).then_some(found)
}

/// Removes the elements of a tensor; name, type, text and metadata stay.
fn emptied(tensor: TensorProto) -> TensorProto {
    TensorProto {
        raw_data: None,
        float_data: Vec::new(),
        int32_data: Vec::new(),
        int64_data: Vec::new(),
        double_data: Vec::new(),
        uint64_data: Vec::new(),
        ..tensor
    }
}

/// Constants of the main graph by name, defaults of graph inputs included.
struct Constants<'a>(std::collections::BTreeMap<&'a str, ConstId>);

impl<'a> Constants<'a> {
    fn of(source: Source<'a>) -> Self {
        let module = source.module;
        let main = module.graph(module.main());
        let defaults = main.inputs.iter().filter_map(|value| Some((*value, module.value(*value).default?)));
        let constants = main.constants.iter().filter_map(|value| Some((*value, module.constant_of(*value)?)));
        Self(defaults.chain(constants).map(|(value, constant)| (source.name(value), constant)).collect())
    }

    fn named(&self, name: &str) -> Option<ConstId> {
        self.0.get(name).copied()
    }
}
