//! Opening of model files: maps a file, checks its bytes, and decodes it without copying weights.
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use bytes::Bytes;
use prost::Message as _;

use crate::error::{FileKind, ReadError};
use crate::onnx::{GraphProto, ModelProto};
use crate::schema::check_model;
use crate::spans::ModelSpans;

impl FileKind {
    /// Guesses the format from the first bytes; `None` if they could be ONNX. Only called after reading
    /// has failed.
    fn guess(bytes: &[u8]) -> Option<Self> {
        let head = bytes.get(..512).unwrap_or(bytes);
        if head.starts_with(b"PK\x03\x04") || head.starts_with(&[0x1f, 0x8b]) {
            return Some(Self::Archive);
        }
        if head.get(4..8) == Some(b"ORTM") {
            return Some(Self::OrtFlatbuffer);
        }
        if head.starts_with(b"version https://git-lfs.") {
            return Some(Self::GitLfsPointer);
        }
        // The cut at 512 bytes may split a character, which gives an error without a length.
        let is_utf8 = std::str::from_utf8(head).map_or_else(|error| error.error_len().is_none(), |_| true);
        let is_control = |byte: &u8| byte.is_ascii_control() && !byte.is_ascii_whitespace();
        (is_utf8 && !head.iter().any(is_control)).then_some(Self::Text)
    }
}

/// A model file: its bytes, the decoded messages, and the byte span of each field.
///
/// The weights of the decoded messages are slices of the bytes; cloning a `raw_data` copies only a
/// pointer.
#[derive(Debug, Clone)]
pub struct ModelFile {
    path: Option<PathBuf>,
    bytes: Bytes,
    model: ModelProto,
    spans: ModelSpans,
}

impl ModelFile {
    /// Maps the file at `path` and decodes it. Weights in `raw_data` are paged in when they are first
    /// read.
    ///
    /// The file must not change while it is open. Replacing it with [`crate::ModelSplice::write_file`]
    /// is safe.
    ///
    /// # Errors
    ///
    /// See [`ReadError`]. Memory use is bounded by a multiple of the file size, even if the file
    /// declares larger lengths.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        let path = path.as_ref();
        let bytes = map(path).map_err(|source| ReadError::Io { path: path.into(), source })?;
        let mut file = Self::from_bytes(bytes)?;
        file.path = Some(path.into());
        Ok(file)
    }

    /// Decodes a model that is already in memory.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Result<Self, ReadError> {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Err(ReadError::Empty);
        }
        match Self::decode(&bytes) {
            Ok((model, spans)) => Ok(Self { path: None, bytes, model, spans }),
            Err(error) => Err(FileKind::guess(&bytes).map_or(error, ReadError::NotOnnx)),
        }
    }

    /// Returns the model as if it had been opened from a path: external data is relative to its folder.
    #[must_use]
    pub fn beside(mut self, path: Option<&Path>) -> Self {
        self.path = path.map(Path::to_owned);
        self
    }

    /// Checks and decodes. The check rejects deep nesting and broken fields, with offsets, so the decoder
    /// meets neither.
    fn decode(bytes: &Bytes) -> Result<(ModelProto, ModelSpans), ReadError> {
        check_model(bytes)?;
        let spans = ModelSpans::new(bytes)?;
        let model = ModelProto::decode(bytes.clone())?;
        Ok((model, spans))
    }

    /// Path of the opened file; `None` for a model from memory. External data is relative to its
    /// folder.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The bytes of the file; cheap to clone.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The decoded model.
    pub fn model(&self) -> &ModelProto {
        &self.model
    }

    /// The decoded main graph; a model without one cannot be opened.
    pub fn graph(&self) -> &GraphProto {
        static NO_GRAPH: LazyLock<GraphProto> = LazyLock::new(GraphProto::default);
        self.model.graph.as_ref().unwrap_or(&NO_GRAPH)
    }

    /// The spans in [`Self::bytes`] of each field of the model and of its main graph.
    pub fn spans(&self) -> &ModelSpans {
        &self.spans
    }
}

/// Returns the contents of a file: mapped for a regular file, read for any other kind (such as a pipe).
fn map(path: &Path) -> io::Result<Bytes> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return std::fs::read(path).map(Bytes::from);
    }
    if metadata.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the map is read-only and lives as long as the `Bytes` that owns it. This program never
    // writes to an input file: output goes to a new file that is then renamed over the old one, which
    // leaves the mapped file unchanged. If another program truncates the file meanwhile, this process
    // ends with a signal. This is the price of not copying weights.
    #[allow(unsafe_code)]
    let map = unsafe { memmap2::Mmap::map(&file)? };
    Ok(Bytes::from_owner(map))
}
