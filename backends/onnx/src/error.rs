//! Errors of the export: reasons why a module cannot be written.

use memc_onnx_proto::SpliceError;

/// Reason why a constant cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorDefect {
    /// Its elements are neither in the module nor in the file.
    #[error("its elements are neither in the module nor in the file")]
    Elided,
    /// The module refers to bytes that are not a tensor of this file.
    #[error("the file holds no tensor at the place that the module names")]
    NotInFile,
    /// Its shape is not fully known, or an extent does not fit 63 bits.
    #[error("its shape is not fully known")]
    Shape,
    /// It is a sparse initializer that would need a new name.
    #[error("a sparse initializer cannot be written under another name")]
    Sparse,
}

/// Reason why a module cannot be written. Except for [`ExportError::Splice`] caused by size, all are
/// defects of the code that made the module.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// The edit cannot be applied to the file's bytes, or the result exceeds protobuf's limit of 2 GiB.
    #[error("the model cannot be written")]
    Splice(#[from] SpliceError),
    /// A tensor in an attribute of a new node cannot be written.
    #[error("attribute `{attribute}` of the new node \"{node}\" cannot be written")]
    Attribute {
        /// Name of the node, or its operator if it has no name.
        node: String,
        /// Name of the attribute.
        attribute: String,
        /// Defect of the tensor.
        #[source]
        defect: TensorDefect,
    },
    /// An initializer cannot be written.
    #[error("the initializer `{name}` cannot be written")]
    Initializer {
        /// Name of the initializer.
        name: String,
        /// Defect of the initializer.
        #[source]
        defect: TensorDefect,
    },
    /// An attribute that the importer kept as a message does not decode.
    #[error("attribute `{attribute}` of the new node \"{node}\" is not an attribute message")]
    Opaque {
        /// Name of the node, or its operator if it has no name.
        node: String,
        /// Name of the attribute.
        attribute: String,
    },
    /// The module's graph inputs or outputs differ from those of the file in a way that the caller did
    /// not state (see [`crate::Interface`]): an edit changed the interface.
    #[error("graph {what} {position} is `{expected}` in the file but `{found}` in the module")]
    Interface {
        /// `input` or `output`.
        what: &'static str,
        /// Position in the list.
        position: usize,
        /// Name in the file; empty if the file has fewer.
        expected: String,
        /// Name in the module; empty if the module has fewer.
        found: String,
    },
    /// Two values of the main graph share a name, or a value has no name.
    #[error("the name `{name}` does not name exactly one value of the main graph")]
    ValueName {
        /// The shared name; empty for a value without a name.
        name: String,
    },
    /// Bodies nest deeper than the exporter supports.
    #[error("bodies nest deeper than {limit} levels")]
    TooDeep {
        /// Deepest supported nesting, in levels.
        limit: usize,
    },
}
