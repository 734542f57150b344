//! What keeps a module from being written.

use memc_onnx_proto::SpliceError;

/// Why a constant cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorDefect {
    /// Its elements are neither at hand nor in the file.
    #[error("its elements are not at hand")]
    Elided,
    /// The bytes that the module refers to are no tensor of this file.
    #[error("the file holds no tensor at the place that the module names")]
    NotInFile,
    /// Its shape is not fully known, or an extent passes 63 bits.
    #[error("its shape is not fully known")]
    Shape,
    /// It is a sparse initializer that would need a new name.
    #[error("a sparse initializer cannot be written under another name")]
    Sparse,
}

/// Why a module cannot be written. All but [`ExportError::Splice`] for size are defects of whoever made the module.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// The edit cannot be carried out on the file's bytes, or the result passes protobuf's limit of 2 GiB.
    #[error("the model cannot be written")]
    Splice(#[from] SpliceError),
    /// A tensor in an attribute of a new node cannot be written.
    #[error("attribute `{attribute}` of the new node \"{node}\" cannot be written")]
    Attribute {
        /// Name of the node, or its operator where it has none.
        node: String,
        /// Name of the attribute.
        attribute: String,
        /// What is wrong with the tensor.
        #[source]
        defect: TensorDefect,
    },
    /// An initializer cannot be written.
    #[error("the initializer `{name}` cannot be written")]
    Initializer {
        /// Its name.
        name: String,
        /// What is wrong with it.
        #[source]
        defect: TensorDefect,
    },
    /// An attribute that was kept as a message does not decode.
    #[error("attribute `{attribute}` of the new node \"{node}\" is no attribute message")]
    Opaque {
        /// Name of the node, or its operator where it has none.
        node: String,
        /// Name of the attribute.
        attribute: String,
    },
    /// The module's graph inputs or outputs are not those of the file: an edit changed the interface.
    #[error("graph {what} {position} is `{expected}` in the file but `{found}` in the module")]
    Interface {
        /// `input` or `output`.
        what: &'static str,
        /// Position in the list.
        position: usize,
        /// Name in the file; empty where the file has fewer.
        expected: String,
        /// Name in the module; empty where the module has fewer.
        found: String,
    },
    /// Two values of the main graph have one name, or one has none.
    #[error("the name `{name}` does not name exactly one value of the main graph")]
    ValueName {
        /// The name; empty for a value without one.
        name: String,
    },
    /// Bodies nest deeper than the exporter follows.
    #[error("bodies nest deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
}
