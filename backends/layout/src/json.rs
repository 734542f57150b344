//! Reads and writes the JSON text of a layout.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::types::{Layout, VERSION};

/// Reason that a text is not a layout of this version.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The text is not JSON, or a key is missing or of the wrong kind.
    #[error("line {line}, column {column} of the file: {source}")]
    Json {
        /// Line, from 1; 0 if the text ends too early.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// Error of the JSON parser.
        source: serde_json::Error,
    },
    /// The key `schema` names another format.
    #[error("the file states the schema `{found}`, not `{expected}`")]
    OtherFormat {
        /// Value of the key.
        found: String,
        /// Schema of the expected file.
        expected: &'static str,
    },
    /// The file has a major version that this reader does not know.
    #[error(
        "the file has version `{found}`, but this memc reads `{expected}`: use the memc that wrote it, or plan again"
    )]
    OtherVersion {
        /// Value of the key `schema`.
        found: String,
        /// Version that this memc reads.
        expected: &'static str,
    },
}

/// Reason that a layout cannot be written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// A number of the cost or target is negative, infinite or not a number.
    #[error("the layout holds a value that JSON cannot represent: {source}")]
    Value {
        /// Error of the JSON writer.
        source: serde_json::Error,
    },
}

/// The only key that decides whether the rest can be read.
#[derive(Deserialize)]
struct Head {
    schema: String,
}

/// Returns the value of the key `schema`; `None` if the text is not a JSON object with that key.
pub(crate) fn stated_schema(text: &str) -> Option<String> {
    serde_json::from_str(text).ok().map(|Head { schema }| schema)
}

/// Reads the JSON text of a layout. Unknown keys are ignored.
///
/// Nothing beyond the form is checked: names, offsets and steps may still contradict each other.
///
/// # Errors
/// [`ReadError`], with the line and column where the form departs from the contract.
pub fn read(text: &str) -> Result<Layout, ReadError> {
    read_as(text, VERSION)
}

/// Reads a file whose key `schema` must name a version, such as `memc.layout/1`.
pub(crate) fn read_as<T: DeserializeOwned>(text: &str, expected: &'static str) -> Result<T, ReadError> {
    let located =
        |source: serde_json::Error| ReadError::Json { line: source.line(), column: source.column(), source };
    // The version comes first: a file of another version may differ in every other key.
    let Head { schema } = serde_json::from_str(text).map_err(located)?;
    let (format, version) = schema.split_once('/').unwrap_or((&schema, ""));
    let (known_format, known_version) = expected.split_once('/').unwrap_or((expected, ""));
    if format != known_format {
        return Err(ReadError::OtherFormat { found: schema, expected });
    }
    if version.split('.').next() != Some(known_version) {
        return Err(ReadError::OtherVersion { found: schema, expected });
    }
    serde_json::from_str(text).map_err(located)
}

/// Returns the JSON text of a layout: keys sorted at every level, one trailing newline. Equal layouts
/// give equal bytes.
///
/// # Errors
/// [`WriteError::Value`] if a cost or bandwidth is negative or not finite.
pub fn to_json(layout: &Layout) -> Result<String, WriteError> {
    sorted(layout)
}

/// Returns the JSON text of a file: keys sorted at every level, one trailing newline.
pub(crate) fn sorted<T: Serialize>(file: &T) -> Result<String, WriteError> {
    let write = || {
        let mut value = serde_json::to_value(file)?;
        // Maps keep insertion order if any crate of the build enables this feature of serde_json.
        value.sort_all_objects();
        serde_json::to_string_pretty(&value)
    };
    let mut text = write().map_err(|source| WriteError::Value { source })?;
    text.push('\n');
    Ok(text)
}
