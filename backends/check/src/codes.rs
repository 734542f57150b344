//! Codes E05xx: the kinds of violations, each with a stable code, a name, and the page that `memc explain` prints.

mod files;
mod meaning;
mod places;
mod tensors;

use memc_ir::codes::{CodeInfo, Fault};

/// Kind of a violation. Each has a stable code and a kebab-case name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// A hash does not fit its file.
    Hash,
    /// The layout states other versions than the output model.
    ModelHeader,
    /// A model cannot be read.
    Model,
    /// The output model calls a function that has to be inlined.
    FunctionCall,
    /// The layout file is not in canonical form.
    Form,
    /// An entry of the layout is malformed.
    Schema,
    /// Nodes of the output model have no name, or share one.
    NodeName,
    /// The schedule is no permutation of the nodes.
    Schedule,
    /// The schedule states another operator than the model.
    ScheduleOp,
    /// The schedule is not the order of the file.
    Order,
    /// A node runs before what it reads.
    Topology,
    /// An anchor is no dead end behind what it pins.
    Anchor,
    /// A value has no entry.
    MissingTensor,
    /// A tensor is listed twice.
    TensorTwice,
    /// An entry names nothing.
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
    /// A body has no workspace, or one that is too small.
    Body,
    /// The output model states a type that its operators contradict.
    ShapeConflict,
    /// A tensor is not live as long as it is needed.
    Live,
    /// A live range is malformed.
    LiveForm,
    /// A tensor is placed that must not be, or not placed that must.
    Placed,
    /// A tensor lies in a space that does not exist.
    Space,
    /// A node reads and writes in different spaces.
    SpaceMix,
    /// The arenas do not fit the target.
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
    /// An alias lies elsewhere than what it aliases.
    AliasPlace,
    /// A view is none.
    View,
    /// A window lies at another offset.
    ViewOffset,
    /// An operator may not overwrite this operand.
    InPlaceOperator,
    /// A result overwrites an operand of another size.
    InPlaceBytes,
    /// A result overwrites another operand of its node.
    InPlaceOperand,
    /// A result overwrites what must be kept.
    InPlaceCaller,
    /// A result overwrites what is read later.
    InPlaceReadLater,
    /// A transfer is not the pair of nodes that it names.
    TransferNodes,
    /// A transfer's tensors lie elsewhere.
    TransferSpace,
    /// A transfer has no link.
    TransferLink,
    /// A transfer states another size than its tensor.
    TransferBytes,
    /// A tensor is read while it is away.
    TransferReader,
    /// A tensor stays live while it is away.
    TransferLive,
    /// A transfer node is in no row.
    TransferMissing,
    /// A transfer operator computes something.
    TransferFunction,
    /// A recomputed tensor has another operator.
    RecomputeOp,
    /// A recomputed tensor has other operands.
    RecomputeOperand,
    /// A node runs again that may not.
    RecomputeRandom,
    /// A random or stateful operator runs more often than in the input model.
    RandomTwice,
    /// The models have different inputs or outputs.
    Interface,
    /// An output is not provably what the input model computes.
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
    /// A row of fetched constants is wrong.
    Fetch,
    /// An input of the output model has a symbol that the plan bound.
    Unbound,
    /// A row of stated sizes is wrong, or one is missing.
    Stated,
}

/// A kind with its name and its page.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The kind.
    pub kind: Kind,
    /// Name in kebab case.
    pub name: &'static str,
    /// Code, title, meaning, example, and what to do.
    pub info: CodeInfo,
}

/// What to do is the same for all: a layout is written by a program, not by hand.
const ACTION: &str = "Plan again from the input model, and check with the very files that were written. If memc wrote them and nobody \
    changed them since, this is a defect of memc: report it with both models and the layout.";

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

/// Groups in the order of their codes.
const GROUPS: [&[Entry]; 4] = [files::ENTRIES, tensors::ENTRIES, places::ENTRIES, meaning::ENTRIES];

/// All kinds, in the order of their codes.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    GROUPS.into_iter().flatten()
}

/// The page of one code; upper and lower case are the same.
pub fn explain(code: &str) -> Option<&'static CodeInfo> {
    all().map(|entry| &entry.info).find(|info| info.code.eq_ignore_ascii_case(code))
}

impl Kind {
    fn entry(self) -> Option<&'static Entry> {
        // Kinds are declared in the order of their codes; a test holds that.
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
    use super::*;

    #[test]
    fn every_kind_finds_its_own_page_and_codes_ascend() {
        for (position, entry) in all().enumerate() {
            assert_eq!(entry.kind as usize, position, "{}", entry.name);
            assert_eq!(entry.info.code, format!("E05{:02}", position + 1), "{}", entry.name);
            assert_eq!(explain(entry.kind.code()).map(|info| info.title), Some(entry.info.title));
            assert!(all().filter(|other| other.name == entry.name).count() == 1, "{} stands twice", entry.name);
        }
    }
}
