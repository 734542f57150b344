//! Timings of a model's nodes on a runtime: the file that `memc profile` writes.

use serde::Deserialize;
use thiserror::Error;

/// Value of the key `schema` in this version of the file.
pub const VERSION: &str = "memc.profile/2";

/// The version before, which states times on the clock as `ns`, and is still read.
const FORMER: &str = "memc.profile/1";

/// Maximum accepted time of a node, in nanoseconds: about a month.
const LONGEST: u64 = 3_000_000_000_000_000;

/// Contents of the file: one entry per node of the main graph.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Timings {
    /// Name and version of the format: `memc.profile/2`, or `/1` of earlier versions of memc.
    pub schema: String,
    /// The nodes, in the order in which they ran.
    pub nodes: Vec<NodeTiming>,
}

/// Measurements of one node.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct NodeTiming {
    /// Name of the node; a node without a name in the model has the name that memc writes for it.
    pub node: String,
    /// Name of the operator.
    pub op: String,
    /// Domain of the operator.
    #[serde(default)]
    pub domain: String,
    /// Least processor time in nanoseconds, in files of earlier versions the median on the clock; 0 for a
    /// node without work.
    #[serde(alias = "cpu_ns")]
    pub ns: u64,
    /// Workspace of the node's kernel, in bytes.
    #[serde(default)]
    pub workspace: u64,
    /// Results of the node; empty in files that do not state them.
    #[serde(default)]
    pub results: Vec<TimedResult>,
}

/// A result of a node at the time of measurement.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TimedResult {
    /// Name of the value.
    pub name: String,
    /// Extents; `None` if they cannot be derived.
    #[serde(default)]
    pub shape: Option<Vec<u64>>,
}

/// Rejects a text that is not a profile.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// The text is not JSON, or a key is missing or of the wrong type.
    #[error("line {}, column {}: {source}", source.line(), source.column())]
    Form {
        /// Error of the parser.
        source: serde_json::Error,
    },
    /// The file has another format, or another version of this format.
    #[error("its `schema` is `{found}`, but this version of memc reads `{VERSION}`")]
    Version {
        /// Value of the key `schema`.
        found: String,
    },
    /// The file states an impossible time.
    #[error("node `{node}` takes {ns} ns, which is out of range")]
    Time {
        /// Name of the node.
        node: String,
        /// Time in the file, in nanoseconds.
        ns: u64,
    },
}

/// Reads a profile. Unknown keys are ignored.
///
/// # Errors
/// The text is not a profile of this version.
pub fn read(text: &str) -> Result<Timings, ProfileError> {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
    }
    // Check the version first: a later version may have other keys.
    let form = |source| ProfileError::Form { source };
    let head: Head = serde_json::from_str(text).map_err(form)?;
    if ![VERSION, FORMER].contains(&head.schema.as_str()) {
        return Err(ProfileError::Version { found: head.schema.chars().take(64).collect() });
    }
    let profile: Timings = serde_json::from_str(text).map_err(form)?;
    match profile.nodes.iter().find(|node| node.ns > LONGEST) {
        Some(node) => Err(ProfileError::Time { node: node.node.chars().take(64).collect(), ns: node.ns }),
        None => Ok(profile),
    }
}
