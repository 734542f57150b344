//! What playing a plan once gave and took.

/// What one arena was used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArenaUse {
    /// The space.
    pub space: String,
    /// Bytes that the layout plans, all of which were allocated.
    pub planned: u64,
    /// End of the highest byte that a kernel was given.
    pub used: u64,
}

/// A node that ran with memory of the runtime's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// Name of the node.
    pub node: String,
    /// Its operator.
    pub op: String,
    /// Why.
    pub reason: &'static str,
    /// Bytes of results that the runtime allocated.
    pub bytes: u64,
}

/// Workspace of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeWork {
    /// Name of the node.
    pub node: String,
    /// Its operator.
    pub op: String,
    /// Bytes from the planned workspace.
    pub planned: u64,
    /// Most bytes beyond it at once.
    pub beyond: u64,
}

/// What one link between two spaces moved in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkUse {
    /// Space that is read; empty for initializers that no space holds.
    pub from: String,
    /// Space that is written.
    pub to: String,
    /// Copies.
    pub transfers: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Whether transfers go past the system's cache; always so where both spaces are memory.
    pub direct: bool,
    /// Nanoseconds in which the link moved bytes; 0 without a clock.
    pub busy: u64,
    /// Nanoseconds in which kernels waited for the link; 0 without a clock.
    pub waited: u64,
}

/// What playing a plan once took. The outputs stay where they are: [`Player::outputs`](crate::Player::outputs).
#[derive(Debug, Default)]
pub struct Played {
    /// Nanoseconds from the first step to the end of the last, inputs being in their places; 0 without a clock.
    pub nanoseconds: u64,
    /// Each arena.
    pub arenas: Vec<ArenaUse>,
    /// Bytes of the caller's: inputs and outputs that no arena holds, state, each once.
    pub caller: u64,
    /// Nodes whose kernel ran.
    pub ran: usize,
    /// Nodes with nothing to do.
    pub skipped: usize,
    /// Nodes that ran once before the plan, as their results are constants.
    pub constant: usize,
    /// Nodes that moved bytes between spaces.
    pub moved: usize,
    /// Each link between spaces that moved something.
    pub links: Vec<LinkUse>,
    /// Nodes that ran with memory of the runtime's own.
    pub outside: Vec<Outside>,
    /// Workspace of each node that asked for some.
    pub workspace: Vec<NodeWork>,
    /// Requests to the allocator.
    pub requests: u64,
}

impl Played {
    /// Bytes of results that lay outside all arenas.
    pub fn bytes_outside(&self) -> u64 {
        self.outside.iter().map(|node| node.bytes).sum()
    }

    /// The largest workspace that a node took beyond what was planned, in bytes.
    pub fn workspace_beyond(&self) -> u64 {
        self.workspace.iter().map(|node| node.beyond).max().unwrap_or(0)
    }
}
