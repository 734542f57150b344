//! The reason why no plan exists: a run that fits in none.

/// A run that fits in no plan of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Index of the run.
    pub run: u32,
    /// Lower bound of the bytes in the near space during its first execution.
    pub needed: u64,
}
