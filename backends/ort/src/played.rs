//! Results and costs of playing a plan once.

/// Use of one arena.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArenaUse {
    /// Name of the space.
    pub space: String,
    /// Size planned in the layout and allocated in full, in bytes.
    pub planned: u64,
    /// End of the highest byte that a kernel was given.
    pub used: u64,
}

/// A node that ran with memory allocated by the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// Name of the node.
    pub node: String,
    /// Operator of the node.
    pub op: String,
    /// Reason for running outside the arena.
    pub reason: &'static str,
    /// Size of the results that the runtime allocated, in bytes.
    pub bytes: u64,
}

/// Workspace of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeWork {
    /// Name of the node.
    pub node: String,
    /// Operator of the node.
    pub op: String,
    /// Bytes taken from the planned workspace.
    pub planned: u64,
    /// Most bytes at once beyond the planned workspace.
    pub beyond: u64,
}

/// Traffic of one link between two spaces in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkUse {
    /// Space that is read; empty for initializers that no space holds.
    pub from: String,
    /// Space that is written.
    pub to: String,
    /// Number of copies.
    pub transfers: u64,
    /// Total size of the copies, in bytes.
    pub bytes: u64,
    /// Whether transfers bypass the system's cache; always true if both spaces are memory.
    pub direct: bool,
    /// Time for which the link moved bytes, in nanoseconds; 0 without a clock.
    pub busy: u64,
    /// Time for which kernels waited for the link, in nanoseconds; 0 without a clock.
    pub waited: u64,
}

/// Use of one engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineUse {
    /// Number of steps that it ran.
    pub steps: usize,
    /// Time for which it ran kernels, in nanoseconds; 0 without a clock.
    pub busy: u64,
    /// Time for which it waited for other engines, in nanoseconds; 0 without a clock.
    pub waited: u64,
}

/// Costs of playing a plan once. The outputs stay in their places:
/// [`Player::outputs`](crate::Player::outputs).
#[derive(Debug, Default)]
pub struct Played {
    /// Time from the first step to the end of the last one, without filling the inputs, in nanoseconds;
    /// 0 without a clock.
    pub nanoseconds: u64,
    /// Use of each arena.
    pub arenas: Vec<ArenaUse>,
    /// Size of the caller's memory, in bytes: inputs and outputs that no arena holds, and states, each
    /// counted once.
    pub caller: u64,
    /// Number of nodes whose kernel ran.
    pub ran: usize,
    /// Number of nodes with nothing to do.
    pub skipped: usize,
    /// Number of nodes that ran once before the plan, because their results are constants.
    pub constant: usize,
    /// Number of nodes that moved bytes between spaces.
    pub moved: usize,
    /// Each link between spaces that moved bytes.
    pub links: Vec<LinkUse>,
    /// Each engine; empty if there is one.
    pub engines: Vec<EngineUse>,
    /// Nodes that ran with memory allocated by the runtime.
    pub outside: Vec<Outside>,
    /// Workspace of each node that requested some.
    pub workspace: Vec<NodeWork>,
    /// Number of requests to the allocator.
    pub requests: u64,
}

impl Played {
    /// Returns the total size of the results outside all arenas, in bytes.
    pub fn bytes_outside(&self) -> u64 {
        self.outside.iter().map(|node| node.bytes).sum()
    }

    /// Returns the largest workspace that a node took beyond the plan, in bytes.
    pub fn workspace_beyond(&self) -> u64 {
        self.workspace.iter().map(|node| node.beyond).max().unwrap_or(0)
    }
}
