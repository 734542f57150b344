//! The memory plan of a module: memory spaces, aliases, storage, workspaces and arena sizes.
//!
//! Live ranges are never stored: they follow from the schedule.

use crate::entity::{Node, PrimaryMap, SecondaryMap, Space, Value};
use crate::units::Bytes;

/// A memory space of the target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpaceData {
    /// Name, such as `device` or `sram`.
    pub name: String,
    /// Capacity in bytes; `None` if unlimited.
    pub capacity: Option<Bytes>,
    /// Alignment in bytes: every offset in the space is a multiple of it. At least 1.
    pub alignment: u64,
}

/// How an alias shares the bytes of its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AliasKind {
    /// A view: all elements of the other value or a contiguous part of them. Both may be live at once.
    View,
    /// In place: the result overwrites an operand, and the producing node is the last reader of that
    /// operand.
    InPlace,
}

/// A value that shares the bytes of another value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alias {
    /// The value that lends its bytes. It may be an alias itself.
    pub of: Value,
    /// View or in place.
    pub kind: AliasKind,
    /// Position of the first byte within `of`.
    pub offset: Bytes,
}

/// Position of a value in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Storage {
    /// Memory space.
    pub space: Space,
    /// Offset in the arena of the space, in bytes.
    pub offset: Bytes,
}

/// Workspace of a node: memory that the node needs only during its step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scratch {
    /// The node.
    pub node: Node,
    /// Whether this is the arena of the node's bodies; otherwise it is a kernel workspace.
    pub body: bool,
    /// Size in bytes.
    pub bytes: Bytes,
    /// Position in memory; `None` if the workspace is not placed.
    pub storage: Option<Storage>,
}

/// Size of the arena of one space, with proven lower bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArenaSize {
    /// Memory space.
    pub space: Space,
    /// Size of the arena in bytes: the highest `offset + size` of its buffers.
    pub size: Bytes,
    /// Lower bound for any placement of these live ranges, in bytes.
    pub lower_bound: Bytes,
    /// Lower bound on the peak of any order of these nodes, without recomputing or moving values, in
    /// bytes; `None` if no bound is known.
    pub order_lower_bound: Option<Bytes>,
}

/// The memory plan, as far as the planning passes have filled it.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Memory spaces of the target, nearest first.
    pub spaces: PrimaryMap<Space, SpaceData>,
    /// Alias of each value; `None` if the value owns its bytes.
    pub alias: SecondaryMap<Value, Option<Alias>>,
    /// Position of each value; `None` if no arena holds it.
    pub storage: SecondaryMap<Value, Option<Storage>>,
    /// Workspaces, in order of nodes.
    pub scratch: Vec<Scratch>,
    /// Arena of each space that holds at least one buffer.
    pub arenas: Vec<ArenaSize>,
}

impl Plan {
    /// Follows the aliases of `value` and returns the owner of its bytes with the offset of `value` in
    /// that owner.
    ///
    /// A cycle of aliases (which the verifier rejects) ends at some value of the cycle.
    pub fn owner(&self, value: Value) -> (Value, Bytes) {
        let (mut owner, mut offset) = (value, Bytes(0));
        // Alias chains are short. The bound only protects against cycles in unverified plans.
        for _ in 0..1 << 20 {
            let Some(alias) = self.alias[owner] else { break };
            offset = offset.saturating_add(alias.offset);
            owner = alias.of;
        }
        (owner, offset)
    }
}
