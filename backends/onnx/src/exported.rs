//! A model that is ready to be written, with the facts about it that the layout file needs.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use crate::outside::Chunk;
use memc_ir::{Node, SecondaryMap};
use memc_onnx_proto::ModelSplice;
use sha2::{Digest as _, Sha256};

/// A new model. Its weights are still in the old file, which must stay open and unchanged until the
/// model is written.
#[derive(Debug, Clone)]
pub struct Exported {
    pub(crate) splice: ModelSplice,
    /// Name of each node of the main graph as written; empty for other nodes.
    pub node_names: SecondaryMap<Node, String>,
    /// `ir_version` as written.
    pub ir_version: i64,
    /// Files that hold weights of the new model, as paths relative to its folder.
    pub weight_files: BTreeSet<String>,
    /// Tensors of the new file of weights, by their places; empty without one.
    pub chunks: Vec<Chunk>,
    /// Operator sets (domain, version) as written; the default domain is an empty string.
    pub opset_imports: Vec<(String, i64)>,
}

impl Exported {
    /// Returns the length of the new model, in bytes.
    pub fn len(&self) -> u64 {
        self.splice.len()
    }
    /// Whether the new model has no bytes; always false, because a model has a graph.
    pub fn is_empty(&self) -> bool {
        self.splice.is_empty()
    }
    /// Writes the new model. Use a buffered writer, and do not write to the path that the old model was
    /// opened from.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write_to(&self, out: impl Write) -> io::Result<()> {
        self.splice.write_to(out)
    }
    /// Writes the new model to a path, whole or not at all; the path may be that of the old model.
    ///
    /// # Errors
    /// Returns the errors of the file system.
    pub fn write_file(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.splice.write_file(path)
    }
    /// Returns the bytes of the new model.
    pub fn to_vec(&self) -> Vec<u8> {
        self.splice.to_vec()
    }
    /// Returns the SHA-256 of the new model in lower-case hexadecimal. Streams the bytes without keeping
    /// them.
    pub fn sha256(&self) -> String {
        let mut hash = Hash(Sha256::new());
        // Hashing cannot fail. A range outside of the old file could, but those were checked when the
        // model was made.
        let written = self.splice.write_to(&mut hash);
        debug_assert!(written.is_ok());
        hexadecimal(&hash.0.finalize())
    }
}

/// Returns the SHA-256 of bytes in lower-case hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A writer that only hashes its bytes.
struct Hash(Sha256);

impl Write for Hash {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
