//! What a runtime measured of a model's nodes: the file that `memc profile` writes.

use serde::Deserialize;
use thiserror::Error;

/// What the key `schema` of this version of the file says.
pub const VERSION: &str = "memc.profile/1";

/// No node runs longer: about a month.
const LONGEST: u64 = 3_000_000_000_000_000;

/// A profile: one entry a node of the main graph.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Timings {
    /// Name and version of the format, `memc.profile/1`.
    pub schema: String,
    /// The nodes, in the order in which they ran.
    pub nodes: Vec<NodeTiming>,
}

/// What one node took.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct NodeTiming {
    /// Name of the node; those that have none in the model are named as memc writes them.
    pub node: String,
    /// Operator.
    pub op: String,
    /// Domain of the operator.
    #[serde(default)]
    pub domain: String,
    /// Median time in nanoseconds; 0 for a node that has nothing to do.
    pub ns: u64,
    /// Workspace of its kernel, in bytes.
    #[serde(default)]
    pub workspace: u64,
    /// Its results; empty in files that do not state them.
    #[serde(default)]
    pub results: Vec<TimedResult>,
}

/// A result of a node, as it was when the node was measured.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TimedResult {
    /// Name of the value.
    pub name: String,
    /// Extents; none where nobody can derive them.
    #[serde(default)]
    pub shape: Option<Vec<u64>>,
}

/// Why a text is no profile.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// The text is no JSON, or a key is missing or of the wrong type.
    #[error("line {}, column {}: {source}", source.line(), source.column())]
    Form {
        /// What the parser says.
        source: serde_json::Error,
    },
    /// Another format, or another version of it.
    #[error("its `schema` is `{found}`, and this version of memc reads `{VERSION}`")]
    Version {
        /// What the key `schema` says.
        found: String,
    },
    /// A time that nothing takes.
    #[error("node `{node}` takes {ns} ns, longer than anything does")]
    Time {
        /// The node.
        node: String,
        /// What the file says.
        ns: u64,
    },
}

/// Reads a profile. Keys that this version does not know are left out.
///
/// # Errors
/// The text is no profile of this version.
pub fn read(text: &str) -> Result<Timings, ProfileError> {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
    }
    // The version first: a later one may have other keys.
    let form = |source| ProfileError::Form { source };
    let head: Head = serde_json::from_str(text).map_err(form)?;
    if head.schema != VERSION {
        return Err(ProfileError::Version { found: head.schema.chars().take(64).collect() });
    }
    let profile: Timings = serde_json::from_str(text).map_err(form)?;
    match profile.nodes.iter().find(|node| node.ns > LONGEST) {
        Some(node) => Err(ProfileError::Time { node: node.node.chars().take(64).collect(), ns: node.ns }),
        None => Ok(profile),
    }
}
