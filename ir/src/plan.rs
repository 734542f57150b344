//! What planning decides: aliases, storage, scratch, and the memory spaces that hold them.
//!
//! Live ranges are never stored here: they follow from the schedule.

use crate::entity::{Node, PrimaryMap, SecondaryMap, Space, Value};
use crate::units::Bytes;

/// A memory space of the target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpaceData {
    /// Name, as `device` or `sram`.
    pub name: String,
    /// How much it holds; `None` for no limit.
    pub capacity: Option<Bytes>,
    /// Every owner's offset is a multiple of this; at least 1.
    pub alignment: u64,
}

/// How an alias shares bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AliasKind {
    /// The same elements, or a contiguous window of them: legal while both are live.
    View,
    /// The result overwrites an operand whose last reader is this very node.
    InPlace,
}

/// A value that owns no bytes of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alias {
    /// The value whose bytes are shared; it may be an alias itself.
    pub of: Value,
    /// How.
    pub kind: AliasKind,
    /// First byte within `of`.
    pub offset: Bytes,
}

/// Place of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Storage {
    /// Space.
    pub space: Space,
    /// Byte position in the space's arena.
    pub offset: Bytes,
}

/// Workspace that a node needs only during its step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scratch {
    /// The node.
    pub node: Node,
    /// Whether it is the arena of the node's bodies rather than a kernel's workspace.
    pub body: bool,
    /// Size.
    pub bytes: Bytes,
    /// Place, once planned.
    pub storage: Option<Storage>,
}

/// Size of the arena of one space, with what is proven about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArenaSize {
    /// Space.
    pub space: Space,
    /// Highest `offset + bytes`.
    pub size: Bytes,
    /// No placement of these live ranges is smaller than this.
    pub lower_bound: Bytes,
    /// No order of these nodes has a peak below this (nothing recomputed or moved), where a bound is known.
    pub order_lower_bound: Option<Bytes>,
}

/// What planning decided so far.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Spaces of the target, nearest first.
    pub spaces: PrimaryMap<Space, SpaceData>,
    /// Alias of a value, if it owns no bytes.
    pub alias: SecondaryMap<Value, Option<Alias>>,
    /// Place of a value, if the arena holds it.
    pub storage: SecondaryMap<Value, Option<Storage>>,
    /// Workspace, in order of nodes.
    pub scratch: Vec<Scratch>,
    /// Arena of each space that holds something.
    pub arenas: Vec<ArenaSize>,
}

impl Plan {
    /// The value that owns the bytes of `value`, and where in them `value` begins; follows chains of aliases.
    ///
    /// A cycle (which the verifier refuses) ends at a value of it.
    pub fn owner(&self, value: Value) -> (Value, Bytes) {
        let (mut owner, mut offset) = (value, Bytes(0));
        // Chains are short; the bound only guards against a cycle in a plan that was not verified.
        for _ in 0..1 << 20 {
            let Some(alias) = self.alias[owner] else { break };
            offset = offset.saturating_add(alias.offset);
            owner = alias.of;
        }
        (owner, offset)
    }
}
