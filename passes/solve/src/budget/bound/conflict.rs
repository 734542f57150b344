//! Why there is no plan: a run that fits in none.

/// A run that no plan of a scope can fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The run.
    pub run: u32,
    /// Bytes of the near space while it runs for the first time, at least.
    pub needed: u64,
}
