//! Codes of defects of memc: E09xx.

use super::{CodeInfo, Fault};

/// Defects of memc.
pub(super) const ERRORS: &[CodeInfo] = &[
    CodeInfo {
        code: "E0901",
        title: "a pass broke the module",
        fault: Fault::Memc,
        meaning: "A pass left a module that the verifier rejects for the stage that the pass declares. The violations are listed as \
            notes.",
        example: "after `in-place`: E0232",
        action: "Report it, with the reproducer that memc left beside the output.",
    },
    CodeInfo {
        code: "E0904",
        title: "internal error",
        fault: Fault::Memc,
        meaning: "A part of memc found its own data in a state that its rules exclude, or panicked. The notes have the version, the \
            place in the code and the command; the exit code is 70.",
        example: "a solver that returned fewer offsets than buffers",
        action: "Report it, with the notes and the reproducer that memc left beside the output.",
    },
    CodeInfo {
        code: "E0905",
        title: "a plan fails its own check",
        fault: Fault::Memc,
        meaning: "Before memc writes anything, it checks its plan as `memc check` does. This plan has violations, which are listed as \
            notes; nothing was written.",
        example: "two tensors that are live at one step share bytes",
        action: "Report it, with the notes, the command, and the model if it may be shown.",
    },
];
