//! Codes of defects of memc: E09xx.

use super::{CodeInfo, Fault};

/// Defects.
pub(super) const ERRORS: &[CodeInfo] = &[
    CodeInfo {
        code: "E0901",
        title: "a pass broke the module",
        fault: Fault::Memc,
        meaning: "A pass that says that it gives a stage left a module that the verifier refuses. The violations are listed as \
            notes.",
        example: "after `in-place`: E0232",
        action: "Report it, with the reproducer that memc left beside the output.",
    },
    CodeInfo {
        code: "E0902",
        title: "the checker refused memc's own plan",
        fault: Fault::Memc,
        meaning: "The independent checker found a defect in a plan before it was written. Nothing was written.",
        example: "E0507 for the layout that was about to be written",
        action: "Report it, with the reproducer that memc left beside the output.",
    },
    CodeInfo {
        code: "E0903",
        title: "the written model does not read back",
        fault: Fault::Memc,
        meaning: "memc read back what it was about to write, and it is not what it meant. Nothing was written.",
        example: "a splice that shifted a field",
        action: "Report it, with the reproducer that memc left beside the output.",
    },
    CodeInfo {
        code: "E0904",
        title: "something impossible happened",
        fault: Fault::Memc,
        meaning: "A step of memc found its own data in a state that its rules exclude.",
        example: "a solver that returned fewer offsets than it was given buffers",
        action: "Report it, with the reproducer that memc left beside the output.",
    },
];
