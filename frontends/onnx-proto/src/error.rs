//! Errors of reading a model and of applying an edit.
use std::io;
use std::path::PathBuf;

use crate::wire::WireError;

/// Reason why a file cannot be read as an ONNX model.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system refused to open or map the file.
    #[error("cannot read {}", path.display())]
    Io {
        /// The requested file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file has no bytes.
    #[error("the file is empty: not an ONNX model")]
    Empty,
    /// The file is in another format.
    #[error("not an ONNX model: {0}")]
    NotOnnx(FileKind),
    /// The bytes are truncated or not protobuf.
    #[error("the file is not an ONNX model, or it is damaged")]
    Broken(#[from] WireError),
    /// The bytes are protobuf but do not decode as an ONNX model.
    #[error("the file does not decode as an ONNX model")]
    Decode(#[from] prost::DecodeError),
    /// The model has no graph.
    #[error("the file has no graph: not an ONNX model, or an incomplete one")]
    NoGraph,
    /// The model has two graph fields; protobuf allows this, but no exporter writes it.
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

/// Apparent format of a file that is not an ONNX model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FileKind {
    /// Readable text.
    #[error("it is a text file")]
    Text,
    /// The placeholder of Git LFS for a file that was not downloaded.
    #[error("it is a Git LFS pointer; fetch the file itself with `git lfs pull`")]
    GitLfsPointer,
    /// A zip or gzip archive.
    #[error("it is a compressed archive; unpack it first")]
    Archive,
    /// ONNX Runtime's own flatbuffer format.
    #[error("it is in ONNX Runtime's ORT format; use the ONNX file it was made from")]
    OrtFlatbuffer,
}

/// Maximum size of a serialized message that protobuf implementations accept, in bytes.
pub const SIZE_LIMIT: u64 = i32::MAX as u64;

/// Reason why an edit cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpliceError {
    /// The old model is broken in a part that only the edit reads, or a span of the edit is invalid.
    #[error("the model's bytes are broken")]
    Wire(#[from] WireError),
    /// The edit uses a node that the graph does not have.
    #[error("the edit uses node {index}, but the graph has {count} nodes")]
    NodeIndex {
        /// The requested index.
        index: usize,
        /// Number of nodes in the graph.
        count: usize,
    },
    /// The edit drops an initializer that the graph does not have.
    #[error("the edit drops initializer {index}, but the graph has {count} initializers")]
    InitializerIndex {
        /// The requested index.
        index: usize,
        /// Number of dense initializers in the graph.
        count: usize,
    },
    /// The edit sets metadata of a value without an entry in `value_info`, `input` or `output`.
    #[error(
        "the edit has metadata for value `{name}`, which the graph does not describe; add a value_info for it"
    )]
    UnknownValue {
        /// The value's name.
        name: String,
    },
    /// The edit changes a body in an attribute that the node does not have or that contains no graph.
    #[error("node {index} has no graph in attribute `{attribute}`")]
    NoBody {
        /// Index of the node in the old graph.
        index: usize,
        /// Name of the attribute.
        attribute: String,
    },
    /// An attribute has two tensor or graph fields; protobuf would merge them, a copy of bytes cannot.
    #[error("byte {offset}: attribute `{attribute}` holds its value in two parts")]
    AttributeRepeated {
        /// Name of the attribute.
        attribute: String,
        /// Offset of the second field, in bytes.
        offset: usize,
    },
    /// The edit imports an operator set that the model imports in another version.
    #[error(
        "operator set `{domain}` is imported in version {present} and cannot be imported in version {wanted} too"
    )]
    OpsetConflict {
        /// The domain, `""` for ONNX's own.
        domain: String,
        /// The imported version.
        present: i64,
        /// The requested version.
        wanted: i64,
    },
    /// The result exceeds protobuf's size limit.
    #[error(
        "the model would have {bytes} bytes, but protobuf allows {SIZE_LIMIT}; move weights to external data"
    )]
    TooLarge {
        /// Size of the result in bytes.
        bytes: u64,
    },
}
