//! Codes of several models in one memory: E0640 to E0648.

use super::{Entry, Kind, entry};

/// Codes of joint files.
pub(super) const ENTRIES: &[Entry] = &[
    entry(
        Kind::JointFile,
        "E0640",
        "joint-file",
        "the files of a joint file are not those that it names",
        "A joint file names given models, planned models and layouts by their SHA-256, and members and spaces by unique names; handoffs belong to serial files, admissions to nested ones. A file differs, or a name is missing or used twice.",
        "a member that was planned again",
    ),
    entry(
        Kind::JointPlace,
        "E0641",
        "joint-place",
        "a tensor has no place in the joint arena, or a wrong one",
        "Each tensor of an arena lies at its own offset plus the base of its member, or at a stated offset: aligned, and below the size of the joint arena, which is the highest end.",
        "a base that is no multiple of the alignment",
    ),
    entry(
        Kind::JointLayout,
        "E0642",
        "joint-layout",
        "a member fails the check of its own plan",
        "Each member is checked with its given model, its planned model and its layout as `memc check` checks any plan, with the offsets of the joint file in place of its own. The message quotes the first violation.",
        "two offsets of one member that are exchanged",
    ),
    entry(
        Kind::Handoff,
        "E0643",
        "handoff",
        "a value cannot be handed over",
        "The maker runs earlier and gives the value as a graph output; the reader takes it as a graph input of equal type and extents, at the stated place, and writes no result over it while another run reads it. State outlives a run, so the caller holds it at both ends.",
        "an offset that is not that of the output",
    ),
    entry(
        Kind::HandoffMet,
        "E0644",
        "handoff-met",
        "a tensor meets a value that is handed over",
        "From the end of its maker to the last reader, and through all steps of a reader that may repeat, the bytes of a value are those of no other tensor.",
        "a base that moves a reader's buffer over its input",
    ),
    entry(
        Kind::Admission,
        "E0645",
        "admission",
        "a guest would write bytes of its host",
        "At each listed boundary the guest's arena is aligned, inside the joint arena, and apart from every tensor of the host that lives at the step before and at the step behind, transfers under way included. Boundaries ascend, and each guest has one.",
        "a base that is lowered by one alignment",
    ),
    entry(
        Kind::JointConstant,
        "E0646",
        "joint-constant",
        "constants that are listed as shared differ, or are written",
        "All uses of a shared constant are initializers of one type with the stated bytes, and no member updates one of them as state.",
        "a weight of an adapter that is listed with that of its base model",
    ),
    entry(
        Kind::JointNumber,
        "E0647",
        "joint-number",
        "a sum or a bound of a joint file is wrong",
        "The sums of arenas and weights, the largest arena, the lower bound of each joint arena, and the weights with shared ones counted once follow from the files.",
        "`weights_joint` without a copy that remains",
    ),
    entry(
        Kind::JointOrder,
        "E0648",
        "joint-order",
        "members that run at once may use the same bytes at once",
        "Both members run in periods without end. Tensors of two members that share a byte are ordered by waits in all periods, whatever time a step takes; no wait leads back to itself, and each one leads from the end of a use to the begin of a use of the same bytes. Plans that move values while steps run have no such order.",
        "a wait that is lost",
    ),
];
