//! Waits between engines.

use serde::{Deserialize, Serialize};

/// A wait between two engines: a step starts only after a step of another engine has ended.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sync {
    /// Step that waits.
    pub step: u64,
    /// Earlier step that must have ended, on another engine.
    pub after: u64,
}
