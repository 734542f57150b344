//! Keys of a joint file as types: one struct for each object, with fields named like the keys.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Value of the key `schema` in this version of the file.
pub const VERSION: &str = "memc.joint/1";

/// Several planned models in one memory. All sizes and offsets are bytes; paths are relative to the folder
/// of the file.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joint {
    /// Name and version of the format, `memc.joint/1`.
    pub schema: String,
    /// Version of memc that wrote the file.
    pub memc_version: String,
    /// When the members run.
    pub mode: Mode,
    /// Planned models. Serial: in the order of their runs. Nested: the host, then its guests. Phased: two.
    pub members: Vec<Member>,
    /// The joint arena of each space.
    pub arenas: Vec<JointArena>,
    /// Values that one member makes and a later one reads, without a copy.
    pub handoffs: Vec<Handoff>,
    /// Boundaries of the host's steps at which a guest may run, in ascending order for each guest.
    pub admissions: Vec<Admission>,
    /// Waits between the steps of two members that run at once, sorted; none in other modes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sync: Vec<JointSync>,
    /// Constants that several tensors of the members hold with equal bytes.
    pub constants: Vec<SharedConstant>,
    /// Bytes of the constants of all members, each member counted by itself.
    pub weights_sum: u64,
    /// The same with each shared constant counted once.
    pub weights_joint: u64,
}

/// When the members of a joint file run.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// One after another, in the order of the members.
    Serial,
    /// Guests run from beginning to end between two steps of the host.
    Nested,
    /// Two members run at once, each again and again, and wait for each other only where `sync` says so.
    Phased,
}

impl Mode {
    /// Returns the word that the file uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Serial => "serial",
            Mode::Nested => "nested",
            Mode::Phased => "phased",
        }
    }
}

/// A planned model.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Name, unique in the file.
    pub name: String,
    /// Model that was planned.
    pub given: String,
    /// SHA-256 of that file, lower-case hexadecimal.
    pub given_sha256: String,
    /// Planned model.
    pub model: String,
    /// SHA-256 of that file.
    pub model_sha256: String,
    /// Layout of the planned model.
    pub layout: String,
    /// SHA-256 of that file.
    pub layout_sha256: String,
    /// Whether the member may run several times before the next one: values that are handed over to it
    /// then live through all of its steps.
    pub repeats: bool,
    /// Number of runs in each period of members that run at once; 0 in other modes. Periods follow each other
    /// without end, and all runs of a period have equal places.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub runs: u64,
    /// First byte of the member's arena in the joint arena, by space; a space without a key begins at 0.
    /// Empty for guests, whose places `admissions` states, and for members with offsets of their own.
    pub bases: BTreeMap<String, u64>,
    /// Offset in the joint arena of each tensor that owns bytes, by name. Empty if the member keeps the
    /// offsets of its layout.
    pub offsets: BTreeMap<String, u64>,
}

/// The arena of a space, for all members.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JointArena {
    /// Space of the arena.
    pub space: String,
    /// Highest end of a tensor of any member.
    pub size: u64,
    /// Alignment of the arena's address: the largest of the members.
    pub alignment: u64,
    /// Lower bound of the size: most bytes of the members and of handed-over values at one step.
    pub bound: u64,
    /// Sum of the members' arenas.
    pub sum_alone: u64,
    /// Largest arena of a member.
    pub max_alone: u64,
}

/// A tensor of a member.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Item {
    /// Name of the member.
    pub member: String,
    /// Name of the tensor in its planned model.
    pub tensor: String,
}

/// A value that a member makes and a later member reads, in one place.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handoff {
    /// Graph output of an earlier member.
    pub from: Item,
    /// Graph input of a later member, of equal type and extents.
    pub to: Item,
    /// Space of the value; null if the caller holds both, as it holds state and caches.
    pub space: Option<String>,
    /// First byte in the joint arena of the space; null if the caller holds both.
    pub offset: Option<u64>,
    /// Size of the value.
    pub bytes: u64,
}

/// A run of boundaries of the host at which a guest may run, at one place.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// Name of the guest.
    pub guest: String,
    /// First and last step of the host after which the guest may run.
    pub after: [u64; 2],
    /// First byte of the guest's arena in the joint arena, by space.
    pub bases: BTreeMap<String, u64>,
}

/// A wait: a step of one member begins only when a step of the other one has ended, in each period.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JointSync {
    /// Step that ends first.
    pub after: Moment,
    /// Step of the other member that waits for it.
    pub before: Moment,
    /// Period of `before`, counted from that of `after`; negative if the member of `before` is behind by
    /// periods. A step begins only when the waits of all steps before it are over, also those of periods
    /// before the first one. Such periods have ended, and those behind the last one when the member has run
    /// for the last time.
    pub periods_later: i64,
}

/// A step of a member in a period.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Moment {
    /// Name of the member.
    pub member: String,
    /// Run of the member within the period, below its number of runs.
    pub run: u64,
    /// Position of the step in the schedule of the member.
    pub step: u64,
}

/// Constants with equal type, extents and bytes, which one copy can stand for.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedConstant {
    /// SHA-256 of the bytes, little-endian and packed.
    pub sha256: String,
    /// Size of one copy.
    pub bytes: u64,
    /// Initializers that have these bytes; at least two.
    pub uses: Vec<Item>,
}

/// Whether a number is the one that is not written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
