//! The splice writer: makes a new model file from an old one and an edit, copying unedited fields
//! verbatim.
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use bytes::Bytes;

use crate::edit::{GraphEdit, ModelEdit};
use crate::error::{SIZE_LIMIT, SpliceError};
use crate::file::ModelFile;
use crate::model;
use crate::onnx::OperatorSetIdProto;
use crate::rewrite::{Anchor, Fate, Insertion, metadata_fate, metadata_insertion, rewrite};
use crate::rope::Rope;
use crate::spans::is_message;
use crate::splice_graph::rewrite_graph;

/// A new model, ready to be written. Its length is known; its weights are still in the old file.
#[derive(Debug, Clone)]
pub struct ModelSplice {
    input: Bytes,
    output: Rope,
}

impl ModelSplice {
    /// Applies `edit` to `file`; time and heap
    /// `O(fields of the edited messages + size of the new parts)`.
    ///
    /// The default edit gives exactly the bytes of `file`.
    ///
    /// # Errors
    ///
    /// See [`SpliceError`].
    pub fn new(file: &ModelFile, edit: &ModelEdit) -> Result<Self, SpliceError> {
        let bytes = file.bytes();
        let insertions = model_insertions(file, edit)?;
        let mut import = 0;
        let output = rewrite(bytes, 0..bytes.len(), insertions, |field| {
            Ok::<_, SpliceError>(match field.tag {
                model::IR_VERSION if edit.ir_version.is_some() => Fate::Drop,
                model::OPSET_IMPORT if is_message(field, model::OPSET_IMPORT) => {
                    import += 1;
                    let old = file.model().opset_import.get(import - 1);
                    if old.is_some_and(|old| is_raised(old, edit)) { Fate::Drop } else { Fate::Keep }
                }
                model::METADATA_PROPS => match &edit.metadata {
                    Some(metadata) => metadata_fate(bytes, field, metadata)?,
                    None => Fate::Keep,
                },
                model::GRAPH if is_message(field, model::GRAPH) && edit.graph != GraphEdit::default() => {
                    let mut graph = Rope::default();
                    let content = rewrite_graph(bytes, field.payload.clone(), &edit.graph)?;
                    graph.message_field(model::GRAPH, content);
                    Fate::Replace(graph)
                }
                _ => Fate::Keep,
            })
        })?;
        if output.len() > SIZE_LIMIT {
            return Err(SpliceError::TooLarge { bytes: output.len() });
        }
        Ok(Self { input: bytes.clone(), output })
    }

    /// Length of the new model in bytes; `O(1)`.
    pub fn len(&self) -> u64 {
        self.output.len()
    }

    /// Whether the new model has no bytes; always false, because it has a graph.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the new model. Large weights go directly from the old file to `out`; pass a buffered
    /// writer for the small parts.
    ///
    /// Do not write over the old file, which may still be mapped; [`Self::write_file`] handles that
    /// case.
    ///
    /// # Errors
    ///
    /// Returns the errors of `out`.
    pub fn write_to(&self, mut out: impl Write) -> io::Result<()> {
        self.output.write_to(&self.input, &mut out)
    }

    /// Returns the new model as a vector.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(usize::try_from(self.len()).unwrap_or_default());
        // Writing to a vector cannot fail, and every copied range is inside the input.
        let written = self.write_to(&mut out);
        debug_assert!(written.is_ok() && out.len() as u64 == self.len());
        out
    }

    /// Writes the new model to `path`, whole or not at all: to a partial file in the folder of `path`
    /// that is then renamed.
    ///
    /// Therefore `path` may be the opened file.
    ///
    /// # Errors
    ///
    /// Returns errors of the operating system; the partial file is removed.
    pub fn write_file(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_os_string();
        name.push(".partial");
        let partial = path.with_file_name(name);
        let written = self.write_new(&partial).and_then(|()| fs::rename(&partial, path));
        if written.is_err() {
            // Report the first error. Removal fails if the partial file was never created.
            let _ = fs::remove_file(&partial);
        }
        written
    }

    /// Creates the file at `path` and writes the new model.
    fn write_new(&self, path: &Path) -> io::Result<()> {
        let mut out = BufWriter::new(File::create(path)?);
        self.write_to(&mut out)?;
        out.flush()
    }
}

/// Collects the new fields of the model message.
fn model_insertions(file: &ModelFile, edit: &ModelEdit) -> Result<Vec<Insertion>, SpliceError> {
    let mut insertions = Vec::new();
    if let Some(version) = edit.ir_version {
        let mut content = Rope::default();
        content.int_field(model::IR_VERSION, version);
        insertions.push(Insertion { tag: model::IR_VERSION, anchor: Anchor::First, content });
    }
    let content = new_opsets(file, edit)?;
    insertions.push(Insertion { tag: model::OPSET_IMPORT, anchor: Anchor::Last, content });
    let mut content = Rope::default();
    for function in &edit.functions {
        content.encoded_field(model::FUNCTIONS, function);
    }
    insertions.push(Insertion { tag: model::FUNCTIONS, anchor: Anchor::Last, content });
    if let Some(metadata) = &edit.metadata {
        insertions.push(metadata_insertion(model::METADATA_PROPS, metadata));
    }
    Ok(insertions)
}

/// Normalizes the two spellings of ONNX's own domain to the empty string.
fn canonical(domain: &str) -> String {
    if domain == "ai.onnx" { String::new() } else { domain.into() }
}

/// Whether the edit imports an operator set of the file in a newer version.
fn is_raised(old: &OperatorSetIdProto, edit: &ModelEdit) -> bool {
    let mut wanted = edit.opsets.iter().filter(|_| edit.raises_opsets);
    wanted.any(|(domain, version)| canonical(domain) == canonical(old.domain()) && *version > old.version())
}

/// Returns the imports of operator sets that the model does not import yet.
fn new_opsets(file: &ModelFile, edit: &ModelEdit) -> Result<Rope, SpliceError> {
    let wanted = &edit.opsets;
    let imports = file.model().opset_import.iter().filter(|import| !is_raised(import, edit));
    let mut present: Vec<(String, i64)> =
        imports.map(|opset| (canonical(opset.domain()), opset.version())).collect();
    let mut content = Rope::default();
    for (domain, version) in wanted {
        let domain = canonical(domain);
        match present.iter().find(|(known, _)| *known == domain) {
            Some((_, known)) if known == version => {}
            Some((_, known)) => {
                return Err(SpliceError::OpsetConflict { domain, present: *known, wanted: *version });
            }
            None => {
                let opset = OperatorSetIdProto { domain: Some(domain.clone()), version: Some(*version) };
                content.encoded_field(model::OPSET_IMPORT, &opset);
                present.push((domain, *version));
            }
        }
    }
    Ok(content)
}
