//! Opens a model file: maps it, checks its bytes, decodes it without copying weights.
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
    /// Guesses from the first bytes; `None` when they may well be ONNX. Only asked once reading has failed.
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
        // The cut at 512 bytes may fall inside a character, which is an error without a length.
        let is_utf8 = std::str::from_utf8(head).map_or_else(|error| error.error_len().is_none(), |_| true);
        let is_control = |byte: &u8| byte.is_ascii_control() && !byte.is_ascii_whitespace();
        (is_utf8 && !head.iter().any(is_control)).then_some(Self::Text)
    }
}

/// A model file: its bytes, what they decode to, and where each field lies.
///
/// The weights of the decoded messages are slices of the bytes; cloning a `raw_data` copies a pointer.
#[derive(Debug, Clone)]
pub struct ModelFile {
    path: Option<PathBuf>,
    bytes: Bytes,
    model: ModelProto,
    spans: ModelSpans,
}

impl ModelFile {
    /// Maps the file at `path` and decodes it. Weights in `raw_data` are paged in only when somebody reads them.
    ///
    /// The file must not be changed while it is open; [`crate::ModelSplice::write_file`] over the same path is fine.
    ///
    /// # Errors
    ///
    /// See [`ReadError`]; memory use is bounded by a multiple of the file's size whatever the file declares.
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

    /// Checks, then decodes: the check gives offsets and bounds the nesting, the decoder then cannot meet either.
    fn decode(bytes: &Bytes) -> Result<(ModelProto, ModelSpans), ReadError> {
        check_model(bytes)?;
        let spans = ModelSpans::new(bytes)?;
        let model = ModelProto::decode(bytes.clone())?;
        Ok((model, spans))
    }

    /// Where the file was opened, `None` for a model from memory. External data lies relative to its folder.
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

    /// The decoded main graph; opening refuses a model without one.
    pub fn graph(&self) -> &GraphProto {
        static NO_GRAPH: LazyLock<GraphProto> = LazyLock::new(GraphProto::default);
        self.model.graph.as_ref().unwrap_or(&NO_GRAPH)
    }

    /// Where each field of the model and of its main graph lies in [`Self::bytes`].
    pub fn spans(&self) -> &ModelSpans {
        &self.spans
    }
}

/// The contents of a file: mapped where it is a plain file with contents, read where it is something else (a pipe).
fn map(path: &Path) -> io::Result<Bytes> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return std::fs::read(path).map(Bytes::from);
    }
    if metadata.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the map is read-only and lives as long as the `Bytes` that owns it. Nothing in this program writes to an
    // input file: output goes to a new file that takes the old one's name, which leaves the mapped one alone. Another
    // program that shortens the file meanwhile ends this one with a signal; that is the price of not copying weights.
    #[allow(unsafe_code)]
    let map = unsafe { memmap2::Mmap::map(&file)? };
    Ok(Bytes::from_owner(map))
}
