//! Why a model cannot be read, or an edit not be carried out.
use std::io;
use std::path::PathBuf;

use crate::wire::WireError;

/// Why a file is not a readable ONNX model.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system would not open or map the file.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file has no bytes.
    #[error("the file is empty: not an ONNX model")]
    Empty,
    /// The bytes are of another format.
    #[error("not an ONNX model: {0}")]
    NotOnnx(FileKind),
    /// The bytes break off or are not protobuf.
    #[error("not an ONNX model, or a damaged one")]
    Broken(#[from] WireError),
    /// The bytes are protobuf but do not decode as an ONNX model.
    #[error("the file does not decode as an ONNX model")]
    Decode(#[from] prost::DecodeError),
    /// The model has no graph.
    #[error("the file has no graph: not an ONNX model, or an incomplete one")]
    NoGraph,
    /// The model has its graph in two parts; protobuf allows it, no exporter writes it.
    #[error(
        "the model has two graph fields, at bytes {first} and {second}; load and save it once with another tool to merge them"
    )]
    GraphRepeated {
        /// Offset of the first graph field.
        first: usize,
        /// Offset of the second graph field.
        second: usize,
    },
}

/// What a file that is no ONNX model looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FileKind {
    /// Readable text.
    #[error("it is a text file")]
    Text,
    /// The placeholder that Git LFS leaves where a file was not downloaded.
    #[error("it is a Git LFS pointer; fetch the file itself with `git lfs pull`")]
    GitLfsPointer,
    /// A zip or gzip archive.
    #[error("it is a compressed archive; unpack it first")]
    Archive,
    /// ONNX Runtime's own flatbuffer format.
    #[error("it is in ONNX Runtime's ORT format; use the ONNX file it was made from")]
    OrtFlatbuffer,
}

/// The largest serialized message that protobuf implementations accept, in bytes.
pub const SIZE_LIMIT: u64 = i32::MAX as u64;

/// Why an edit cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpliceError {
    /// A part of the old model that only the edit made us look at is broken, or a span of the edit is.
    #[error("the model's bytes are broken")]
    Wire(#[from] WireError),
    /// The edit names a node that the graph does not have.
    #[error("the edit uses node {index}, the graph has {count}")]
    NodeIndex {
        /// The index asked for.
        index: usize,
        /// How many nodes there are.
        count: usize,
    },
    /// The edit drops an initializer that the graph does not have.
    #[error("the edit drops initializer {index}, the graph has {count}")]
    InitializerIndex {
        /// The index asked for.
        index: usize,
        /// How many dense initializers there are.
        count: usize,
    },
    /// The edit has metadata for a value without an entry among `value_info`, `input` and `output`.
    #[error("the edit has metadata for value `{name}`, which the graph does not describe; add a value_info for it")]
    UnknownValue {
        /// The value's name.
        name: String,
    },
    /// The edit changes the body in an attribute that the node does not have, or that holds no graph.
    #[error("node {index} has no graph in attribute `{attribute}`")]
    NoBody {
        /// The node's index in the old graph.
        index: usize,
        /// The attribute's name.
        attribute: String,
    },
    /// An attribute holds its tensor or graph in two parts; protobuf would merge them, bytes cannot.
    #[error("byte {offset}: attribute `{attribute}` holds its value in two parts")]
    AttributeRepeated {
        /// The attribute's name.
        attribute: String,
        /// Where the second part begins.
        offset: usize,
    },
    /// The edit imports an operator set that is imported in another version.
    #[error("operator set `{domain}` is imported in version {present} and cannot be imported in version {wanted} too")]
    OpsetConflict {
        /// The domain, `""` for ONNX's own.
        domain: String,
        /// The version imported.
        present: i64,
        /// The version that the edit asks for.
        wanted: i64,
    },
    /// The result passes protobuf's limit.
    #[error("the model would have {bytes} bytes, protobuf allows {SIZE_LIMIT}; move weights to external data")]
    TooLarge {
        /// What the result would measure.
        bytes: u64,
    },
}
