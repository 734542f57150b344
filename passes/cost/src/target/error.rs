//! Errors of target files.

use thiserror::Error;

/// Rejects a text that is not a target description. Lines count from 1.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum TargetError {
    /// The text is not TOML, or a key is missing, unknown or of the wrong type.
    #[error("line {line}: {message}")]
    Form {
        /// Line of the error.
        line: usize,
        /// Message of the parser.
        message: String,
    },
    /// A rate, a time or a fraction is out of its range.
    #[error("line {line}: `{key}` is {value}, but must be {range}")]
    Number {
        /// Line of the number.
        line: usize,
        /// Name of the key.
        key: &'static str,
        /// Value in the file.
        value: f64,
        /// Accepted range.
        range: &'static str,
    },
    /// A table is named after no kind of kernel.
    #[error("line {line}: there is no kind of kernel named `{name}`: the kinds are {known}")]
    UnknownKind {
        /// Line of the name.
        line: usize,
        /// The unknown name.
        name: String,
        /// Names of all kinds.
        known: String,
    },
    /// A name that options and generated code cannot use.
    #[error(
        "line {line}: `{name}` is not a valid name: use at most 64 letters, digits, `-` and `_`, and begin with a letter"
    )]
    Name {
        /// Line of the name.
        line: usize,
        /// Name in the file.
        name: String,
    },
    /// The first space states a rate of its own.
    #[error("line {line}: the first space takes its rate from `[machine]`: remove `access_bytes_per_second`")]
    FirstAccess {
        /// Line of the rate.
        line: usize,
    },
    /// The file has no memory space.
    #[error("the target has no `[[spaces]]`: it needs at least one, in which operators compute")]
    NoSpace,
    /// The file has more spaces than any machine.
    #[error("the target has {count} spaces, but memc plans for at most {most}")]
    TooManySpaces {
        /// Number of spaces in the file.
        count: usize,
        /// Maximum number of spaces.
        most: usize,
    },
    /// Two spaces have one name.
    #[error("line {line}: there is a second space named `{name}`")]
    SpaceTwice {
        /// Line of the second space.
        line: usize,
        /// The common name.
        name: String,
    },
    /// A link names a space that does not exist.
    #[error("line {line}: a link names the space `{name}`, but the target has {known}")]
    UnknownSpace {
        /// Line of the link.
        line: usize,
        /// The unknown name.
        name: String,
        /// Names of the existing spaces.
        known: String,
    },
    /// A link leads from a space to itself.
    #[error("line {line}: a link leads from `{name}` to itself")]
    SelfLink {
        /// Line of the link.
        line: usize,
        /// Name of the space.
        name: String,
    },
    /// Two links have one direction.
    #[error("line {line}: there is a second link from `{from}` to `{to}`")]
    LinkTwice {
        /// Line of the second link.
        line: usize,
        /// Name of the space that is read.
        from: String,
        /// Name of the space that is written.
        to: String,
    },
    /// An alignment is not a power of two, or is too large.
    #[error("line {line}: the alignment {value} is not a power of two up to {most}")]
    Alignment {
        /// Line of the alignment.
        line: usize,
        /// Value in the file.
        value: u64,
        /// Maximum alignment.
        most: u64,
    },
}
