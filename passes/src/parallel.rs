//! A plan for several engines: the engine and time of each step, and the waits between engines.

/// A step that starts only after a step of another engine has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Wait {
    /// Step that waits.
    pub step: u32,
    /// Earlier step that must have ended.
    pub after: u32,
}

/// A plan for several engines, in the order of the module's nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Engines {
    /// Engine of each step.
    pub engines: Vec<u32>,
    /// Waits between engines, sorted.
    pub waits: Vec<Wait>,
    /// Begin and end of each step, in nanoseconds.
    pub spans: Vec<(u64, u64)>,
}

impl Engines {
    /// Returns the end of the last step, in nanoseconds.
    pub fn end(&self) -> u64 {
        self.spans.iter().map(|span| span.1).max().unwrap_or(0)
    }
}
