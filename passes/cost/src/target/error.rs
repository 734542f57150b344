//! What can be wrong with a target file.

use thiserror::Error;

/// Why a text is no target description. Lines count from 1.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum TargetError {
    /// The text is no TOML, or a key is missing, unknown or of the wrong type.
    #[error("line {line}: {message}")]
    Form {
        /// The line.
        line: usize,
        /// What the parser says.
        message: String,
    },
    /// A rate, a time or a part that is out of its range.
    #[error("line {line}: `{key}` is {value}, and must be {range}")]
    Number {
        /// The line.
        line: usize,
        /// The key.
        key: &'static str,
        /// What it says.
        value: f64,
        /// What it may say.
        range: &'static str,
    },
    /// A name that options and generated code cannot write.
    #[error("line {line}: `{name}` is no name: write letters, digits, `-` and `_`, at most 64, beginning with a letter")]
    Name {
        /// The line.
        line: usize,
        /// What it says.
        name: String,
    },
    /// There is no memory.
    #[error("the target has no `[[spaces]]`: at least one is needed, where everything is computed")]
    NoSpace,
    /// More spaces than any machine has.
    #[error("the target has {count} spaces, and memc plans for at most {most}")]
    TooManySpaces {
        /// How many there are.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// Two spaces have one name.
    #[error("line {line}: there is a second space named `{name}`")]
    SpaceTwice {
        /// The line of the second one.
        line: usize,
        /// The name.
        name: String,
    },
    /// A link between spaces that do not exist.
    #[error("line {line}: a link names the space `{name}`, and the target has {known}")]
    UnknownSpace {
        /// The line.
        line: usize,
        /// The name.
        name: String,
        /// The spaces that there are.
        known: String,
    },
    /// A link from a space to itself.
    #[error("line {line}: a link leads from `{name}` to itself")]
    SelfLink {
        /// The line.
        line: usize,
        /// The space.
        name: String,
    },
    /// Two links in one direction.
    #[error("line {line}: there is a second link from `{from}` to `{to}`")]
    LinkTwice {
        /// The line of the second one.
        line: usize,
        /// The space that is read.
        from: String,
        /// The space that is written.
        to: String,
    },
    /// A space whose offsets nobody can align.
    #[error("line {line}: the alignment {value} is no power of two up to {most}")]
    Alignment {
        /// The line.
        line: usize,
        /// What it says.
        value: u64,
        /// The largest one.
        most: u64,
    },
}
