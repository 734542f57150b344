//! Codes E05xx, E064x for joint files, E065x for engines and collectives: kinds of violations, each with a
//! stable code, a name, and a page that `memc explain` prints.

mod collectives;
mod engines;
mod files;
mod joints;
mod meaning;
mod places;
mod sections;
mod tensors;

use memc_ir::codes::{CodeInfo, Fault};

/// A kind of violation. Each kind has a stable code and a name in kebab case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// A hash does not match its file.
    Hash,
    /// The layout states versions that differ from the output model's.
    ModelHeader,
    /// A model cannot be read.
    Model,
    /// The output model calls a function that has to be inlined.
    FunctionCall,
    /// The layout file is not in canonical form.
    Form,
    /// An entry of the layout is malformed.
    Schema,
    /// A node of the output model has no name, or two nodes have one name.
    NodeName,
    /// The schedule is not a permutation of the nodes.
    Schedule,
    /// The schedule names an operator that differs from the model's.
    ScheduleOp,
    /// The schedule differs from the file order of the output model.
    Order,
    /// A node runs before a producer of its operands.
    Topology,
    /// An anchor is not a dead-end node right after the node that it pins.
    Anchor,
    /// A value has no entry.
    MissingTensor,
    /// A tensor is listed twice.
    TensorTwice,
    /// An entry's name matches no value and no workspace.
    ExtraTensor,
    /// An entry of `unplanned` does not belong there.
    Unplanned,
    /// Element type or shape is wrong.
    Type,
    /// The size is wrong.
    Bytes,
    /// The class is wrong.
    Class,
    /// A workspace entry is malformed.
    Scratch,
    /// A node with bodies has no workspace for them, or too little.
    Body,
    /// The output model states a type that contradicts its operators.
    ShapeConflict,
    /// A stated live range does not cover the steps at which the tensor is needed.
    Live,
    /// A live range is malformed.
    LiveForm,
    /// A tensor is placed but must not be, or is not placed but must be.
    Placed,
    /// A tensor is in an unknown memory space.
    Space,
    /// A node reads and writes in different spaces.
    SpaceMix,
    /// The arenas do not match the target.
    Arena,
    /// The arena size is not exact.
    ArenaSize,
    /// An offset is not aligned.
    Alignment,
    /// A tensor ends beyond the arena.
    Bounds,
    /// An arena is larger than its space.
    Capacity,
    /// An arena is larger than the budget.
    Budget,
    /// Two tensors use the same bytes at the same time.
    Overlap,
    /// An alias names no value.
    AliasTarget,
    /// Aliases run in a circle.
    AliasCycle,
    /// An alias has a place that does not match its owner's.
    AliasPlace,
    /// A stated view is not a view by the meaning of any operator.
    View,
    /// A sub-view is at another offset.
    ViewOffset,
    /// The operator may not overwrite this operand.
    InPlaceOperator,
    /// A result overwrites an operand of another size.
    InPlaceBytes,
    /// A result overwrites bytes of another operand of its node.
    InPlaceOperand,
    /// A result overwrites bytes that must be kept: the caller's, a constant's, or a graph output's.
    InPlaceCaller,
    /// A result overwrites bytes that a later node reads.
    InPlaceReadLater,
    /// A transfer's steps are not a matching pair of SwapOut and SwapIn.
    TransferNodes,
    /// A transfer's tensors are in other spaces than the transfer states.
    TransferSpace,
    /// The target has no link for a transfer.
    TransferLink,
    /// A transfer states a size that differs from its tensor's.
    TransferBytes,
    /// A tensor is read between its store and its load.
    TransferReader,
    /// A tensor is stated live between its store and its load.
    TransferLive,
    /// A transfer node belongs to no row of `transfers`.
    TransferMissing,
    /// The model-local function of a transfer operator computes something.
    TransferFunction,
    /// A recomputed tensor comes from a different operator.
    RecomputeOp,
    /// A recomputed tensor comes from different operands.
    RecomputeOperand,
    /// A node is recomputed that may not run again.
    RecomputeRandom,
    /// A random or stateful operator runs more often than in the input model.
    RandomTwice,
    /// The models have different inputs or outputs.
    Interface,
    /// An output is not provably equal to the input model's.
    Rewritten,
    /// The peak is wrong.
    Peak,
    /// The arena is smaller than the peak.
    PeakOverArena,
    /// A bound contradicts the plan.
    LowerBound,
    /// The bytes of the constants are wrong.
    Weights,
    /// A count is wrong.
    Cost,
    /// The baseline is wrong.
    Baseline,
    /// State and its new value cannot share storage.
    State,
    /// A row of `fetches` is wrong.
    Fetch,
    /// An input of the output model leaves a symbol open that the plan bound.
    Unbound,
    /// A row of `stated` is wrong or missing.
    Stated,
    /// A row of `encodings` names no code between its wide value and its decoded value.
    Encoding,
    /// A decoded value is not provably equal to the encoded one.
    EncodingUnproven,
    /// A value is rounded, and the options do not allow it.
    EncodingLossy,
    /// An early reader reads a rounded value.
    EncodingEarly,
    /// A row of `encoded_weights` is wrong or missing.
    EncodedWeight,
    /// A range, limit or equation of dimensions is impossible.
    Extents,
    /// A row of caches names the wrong values or extents.
    Cache,
    /// New rows of a cache are not written after the valid rows.
    CachePlace,
    /// The output of a cache has storage of its own.
    CacheTwice,
    /// A node computes in a space that it cannot access.
    FarCompute,
    /// A rate of access is wrong.
    Access,
    /// An expression over free dimensions is wrong or missing.
    Expression,
    /// An extent or a size can exceed its upper bound.
    UpperBound,
    /// Offsets that follow the extents are wrong.
    Formula,
    /// A row of `rewrites` names no values of one type in the two models.
    Rewrite,
    /// A kernel has less workspace than it takes.
    Kernel,
    /// The input model cannot be extended by the nodes of an added output.
    AddedOutput,
    /// A kernel may run on nothing, and is not known to take that.
    Empty,
    /// The input model has no last row of an output.
    LastRow,
    /// A part of a batch is not computed or joined as its nodes say.
    SectionPart,
    /// The files of a division are not those of its manifest.
    SectionFile,
    /// The sections together are not the given model.
    SectionUnion,
    /// An operand of a section has no source or several, or its ends disagree.
    SectionEdge,
    /// A receive has no send, or the ends of a link see other orders.
    Message,
    /// Devices wait for each other.
    Deadlock,
    /// An event comes before another one that it needs.
    EventOrder,
    /// A device holds other bytes than stated, or more than its budget.
    DeviceMemory,
    /// A section is not what its planned model computes, or its layout is wrong.
    SectionLayout,
    /// Copies of a weight are not listed as they are.
    SectionCopy,
    /// A node that may not run again is in several sections.
    SectionRandom,
    /// A planned model states another rank.
    SectionAnnotation,
    /// The files of a joint file are not those that it names.
    JointFile,
    /// A tensor has no place in a joint arena, or a wrong one.
    JointPlace,
    /// A member fails the check of its own plan.
    JointLayout,
    /// A value cannot be handed over.
    Handoff,
    /// A tensor meets a value that is handed over.
    HandoffMet,
    /// A guest would write bytes of its host.
    Admission,
    /// Shared constants differ, or are written.
    JointConstant,
    /// A sum or a bound of a joint file is wrong.
    JointNumber,
    /// Members that run at once may use the same bytes at once.
    JointOrder,
    /// The engines of a plan, or its waits, are wrong.
    Engine,
    /// A step may start before its operand is made.
    EngineOrder,
    /// Two engines may use the same bytes at once.
    Race,
    /// Devices do not join a value as the manifest says, or not all of them do.
    Collective,
}

/// A kind with its name and its page.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The kind.
    pub kind: Kind,
    /// Name in kebab case.
    pub name: &'static str,
    /// Code, title, meaning, example, and recommended action.
    pub info: CodeInfo,
}

/// Recommended action, equal for all kinds: a program writes layouts, not a person.
const ACTION: &str = "Plan again from the input model, and check exactly the files that were written. If memc wrote them and they were not \
    changed since, this is a defect of memc: report it with both models and the layout.";

const fn entry(
    kind: Kind,
    code: &'static str,
    name: &'static str,
    title: &'static str,
    meaning: &'static str,
    example: &'static str,
) -> Entry {
    Entry { kind, name, info: CodeInfo { code, title, fault: Fault::File, meaning, example, action: ACTION } }
}

/// All entries, grouped by file, in the order of their codes.
const GROUPS: [&[Entry]; 8] = [
    files::ENTRIES,
    tensors::ENTRIES,
    places::ENTRIES,
    meaning::ENTRIES,
    sections::ENTRIES,
    joints::ENTRIES,
    engines::ENTRIES,
    collectives::ENTRIES,
];

/// Returns all kinds in the order of their codes.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    GROUPS.into_iter().flatten()
}

/// Returns the page of a code, or `None` for an unknown code. Ignores case.
pub fn explain(code: &str) -> Option<&'static CodeInfo> {
    all().map(|entry| &entry.info).find(|info| info.code.eq_ignore_ascii_case(code))
}

impl Kind {
    fn entry(self) -> Option<&'static Entry> {
        // Kinds are declared in the order of their codes; a test checks this.
        all().nth(self as usize)
    }
    /// Stable code, as `E0501`.
    pub fn code(self) -> &'static str {
        self.entry().map_or("E0500", |entry| entry.info.code)
    }
    /// Name in kebab case, as `inplace-read-later`.
    pub fn name(self) -> &'static str {
        self.entry().map_or("unknown", |entry| entry.name)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_kind_finds_its_own_page_and_codes_ascend() {
        // A removed kind leaves its code unused.
        let mut last = "E0500";
        // E0601 and further ones are codes of the text form.
        let is_free = |code: &str| code < "E0600" || ("E0640".."E0660").contains(&code);
        for (position, entry) in all().enumerate() {
            assert_eq!(entry.kind as usize, position, "{}", entry.name);
            assert!(
                entry.info.code.len() == 5 && last < entry.info.code && is_free(entry.info.code),
                "{}",
                entry.name
            );
            last = entry.info.code;
            assert_eq!(explain(entry.kind.code()).map(|info| info.title), Some(entry.info.title));
            assert!(
                all().filter(|other| other.name == entry.name).count() == 1,
                "{} stands twice",
                entry.name
            );
        }
    }
}
