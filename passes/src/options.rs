//! Options of planning, in one struct.

use memc_ir::{Bytes, SpaceData};
use memc_ops::Profile;

/// What the arena holds beside transients and scratch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Io {
    /// Graph outputs; inputs are the caller's.
    #[default]
    Outputs,
    /// Graph outputs and inputs.
    Arena,
    /// Neither: outputs are the caller's too.
    External,
}

impl Io {
    /// Name in options and in the layout file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Outputs => "outputs",
            Self::Arena => "arena",
            Self::External => "external",
        }
    }
}

/// Everything that passes are told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who runs the result.
    pub profile: &'static Profile,
    /// What the arena holds.
    pub io: Io,
    /// The space that holds the arena.
    pub space: SpaceData,
    /// A fold never makes a constant larger than this.
    pub max_fold_bytes: Bytes,
    /// Search nodes that each exact solver may visit.
    pub effort: u64,
}

impl Options {
    /// The defaults for one runtime.
    pub fn for_profile(profile: &'static Profile) -> Self {
        let space = SpaceData { name: "device".to_owned(), capacity: None, alignment: profile.alignment };
        let effort = memc_solve::Limit::default().nodes;
        Self { profile, io: Io::default(), space, max_fold_bytes: Bytes(64 << 10), effort }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::for_profile(&Profile::ARENA)
    }
}
