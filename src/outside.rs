//! Weights in one aligned file beside the written model: the option, and the writer.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use memc_onnx_export::{Chunk, ChunkSource, Outside};

use crate::error::Error;
use crate::outputs::Outputs;
use crate::planned::Planned;
use crate::request_error::RequestError;
use crate::size::Size;

/// Default alignment, in bytes: the granularity at which Windows maps files, and a multiple of the
/// pages of all common systems.
const ALIGNMENT: u64 = 64 << 10;

/// Largest alignment, in bytes: that of the largest common pages.
const MAX_ALIGNMENT: u64 = 1 << 30;

/// The file of weights that a request asks for: `FILE`, or `FILE,align=SIZE`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExternalData {
    /// Name of the file, relative to the folder of the written model.
    pub location: String,
    /// Alignment of large tensors, in bytes; a power of two.
    pub alignment: u64,
}

/// Rejects a text that names no file of weights.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExternalDataError {
    /// The alignment is not a power of two, or is too large.
    #[error("`{text}` is not an alignment; write a power of two up to 1GiB: align=64KiB")]
    Alignment {
        /// The text given.
        text: String,
    },
    /// The file is outside the model's folder: runtimes refuse to read it there.
    #[error("`{text}` is not a file in the folder of the model; write a name such as weights.bin")]
    Location {
        /// The text given.
        text: String,
    },
}

impl FromStr for ExternalData {
    type Err = ExternalDataError;

    fn from_str(text: &str) -> Result<Self, ExternalDataError> {
        let (location, alignment) = match text.rsplit_once(",align=") {
            Some((location, alignment)) => (location, alignment),
            None => (text, ""),
        };
        let is_inside = Path::new(location).components().all(|part| matches!(part, Component::Normal(_)));
        if location.is_empty() || location.ends_with('/') || !is_inside {
            return Err(ExternalDataError::Location { text: location.to_owned() });
        }
        let wrong = || ExternalDataError::Alignment { text: alignment.to_owned() };
        let alignment = match alignment {
            "" if location.len() == text.len() => ALIGNMENT,
            stated => match stated.parse() {
                Ok(Size::Bytes(bytes)) if bytes.is_power_of_two() && bytes <= MAX_ALIGNMENT => bytes,
                _ => return Err(wrong()),
            },
        };
        Ok(Self { location: location.to_owned(), alignment })
    }
}

impl fmt::Display for ExternalData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},align={}", self.location, self.alignment)
    }
}

impl ExternalData {
    /// The options of the exporter.
    pub(crate) fn options(&self) -> Outside {
        Outside { location: self.location.clone(), alignment: self.alignment }
    }

    /// The file of one of several models in a folder: the name of the model comes before that of the file.
    #[must_use]
    pub fn of_model(&self, name: &str) -> Self {
        let path = Path::new(&self.location);
        let file = path.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
        let location = path.with_file_name(format!("{name}.{file}")).to_string_lossy().into_owned();
        Self { location, alignment: self.alignment }
    }

    /// Adds the file of weights of a plan, which goes beside `output`. The weights that other files
    /// hold lie beside `input`. Bytes are copied from file to file in small parts.
    ///
    /// # Errors The file is the written model or a file that the given model reads, a file of weights
    /// is missing, or the system refuses to read or write.
    pub fn add_to(
        &self,
        outputs: &mut Outputs,
        planned: &Planned,
        input: &Path,
        output: &Path,
    ) -> Result<(), Error> {
        let path = beside(output, &self.location);
        for source in planned.model.chunks.iter().filter_map(|chunk| location(chunk)).chain([""]) {
            // An empty name stands for the given model.
            let read = if source.is_empty() { input.to_owned() } else { beside(input, source) };
            if path == output || is_one_file(&path, &read) {
                return Err(RequestError::WeightsOverwritten { path }.into());
            }
        }
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|source| Error::File {
                what: "write",
                path: path.clone(),
                source,
            })?;
        }
        let mut sources = Sources { folder: input.to_owned(), open: None };
        let mut missing = None;
        let written = outputs.add(&path, |out| {
            copy(&planned.model.chunks, &mut sources, out).or_else(|failed| match failed {
                Failed::Source { name, path, error } => {
                    missing = Some(match error.kind() {
                        io::ErrorKind::NotFound => Error::WeightFile { name, path },
                        _ => Error::File { what: "read", path, source: error },
                    });
                    Ok(())
                }
                Failed::Output(error) => Err(error),
            })
        });
        missing.map_or(written, Err)
    }
}

/// Why weights cannot be copied.
enum Failed {
    /// A file of weights cannot be read.
    Source { name: String, path: PathBuf, error: io::Error },
    /// The new file cannot be written.
    Output(io::Error),
}

/// The file of weights that is open at the moment: models name few, one after another.
struct Sources {
    /// A file of the folder that locations are relative to.
    folder: PathBuf,
    open: Option<(String, File)>,
}

impl Sources {
    /// Returns the named file, opened.
    fn file(&mut self, name: &str) -> Result<&mut File, Failed> {
        if self.open.as_ref().is_none_or(|(open, _)| open != name) {
            let path = beside(&self.folder, name);
            let file =
                File::open(&path).map_err(|error| Failed::Source { name: name.to_owned(), path, error })?;
            self.open = Some((name.to_owned(), file));
        }
        match &mut self.open {
            Some((_, file)) => Ok(file),
            None => Err(Failed::Output(io::ErrorKind::NotFound.into())),
        }
    }
}

/// Writes all chunks, with zeros between them.
fn copy(chunks: &[Chunk], sources: &mut Sources, out: &mut dyn Write) -> Result<(), Failed> {
    let mut end = 0;
    for chunk in chunks {
        io::copy(&mut io::repeat(0).take(chunk.offset.saturating_sub(end)), out).map_err(Failed::Output)?;
        match &chunk.source {
            ChunkSource::Bytes(bytes) => out.write_all(bytes).map_err(Failed::Output)?,
            ChunkSource::File { location, offset } => {
                copy_part(sources, location, *offset, chunk.length, out)?
            }
        }
        end = chunk.offset.saturating_add(chunk.length);
    }
    Ok(())
}

/// Copies a part of a file of weights.
fn copy_part(
    sources: &mut Sources,
    name: &str,
    offset: u64,
    length: u64,
    out: &mut dyn Write,
) -> Result<(), Failed> {
    let path = beside(&sources.folder, name);
    let failed = |error| Failed::Source { name: name.to_owned(), path: path.clone(), error };
    let file = sources.file(name)?;
    file.seek(SeekFrom::Start(offset)).map_err(failed)?;
    let mut part = file.take(length);
    // An error of either file ends the copy; the message names the file that was read.
    let copied = io::copy(&mut part, out).map_err(failed)?;
    if copied < length {
        return Err(failed(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "it is shorter than the model states",
        )));
    }
    Ok(())
}

/// The file of weights that a chunk is copied from.
fn location(chunk: &Chunk) -> Option<&str> {
    match &chunk.source {
        ChunkSource::File { location, .. } => Some(location),
        ChunkSource::Bytes(_) => None,
    }
}

/// A file in the folder of another one.
fn beside(file: &Path, name: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(name)
}

/// Whether two paths lead to one file.
fn is_one_file(one: &Path, other: &Path) -> bool {
    one == other || one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_weights_are_read_and_printed() {
        let parsed =
            |text: &str| text.parse::<ExternalData>().ok().map(|data| (data.location, data.alignment));
        assert_eq!(parsed("w.bin"), Some(("w.bin".to_owned(), 65536)));
        assert_eq!(parsed("d/w,1.bin,align=4KiB"), Some(("d/w,1.bin".to_owned(), 4096)));
        assert_eq!(
            "w.bin,align=4096".parse().map(|data: ExternalData| data.to_string()),
            Ok("w.bin,align=4096".to_owned())
        );
        for wrong in [
            "",
            "../w.bin",
            "/w.bin",
            "d/",
            "w.bin,align=",
            "w.bin,align=3",
            "w.bin,align=0",
            "w.bin,align=2GiB",
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
