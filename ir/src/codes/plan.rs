//! Codes of planning: E03xx, and W03xx for what is only worth knowing.

use super::{CodeInfo, Fault};

/// Errors of planning.
pub(super) const ERRORS: &[CodeInfo] = &[
    CodeInfo {
        code: "E0301",
        title: "no plan fits the budget",
        fault: Fault::Request,
        meaning: "The budget is below what the model needs in any order that memc may choose, or memc has proven that the \
            search found the least. The message has the bound, the step, and what is alive there.",
        example: "memc optimize model.onnx -o out.onnx --budget 1KiB",
        action: "Give the budget that the message names as feasible, allow recomputation and transfers in the pipeline, or \
            bind smaller dimensions.",
    },
    CodeInfo {
        code: "E0302",
        title: "the search found no plan inside the budget",
        fault: Fault::Request,
        meaning: "The effort was spent before a plan inside the budget or a proof against it was found. The message has the \
            best plan's size and the bound.",
        example: "--budget 300MiB --effort fast, where 310MiB was the best",
        action: "Raise `--effort`, or the budget to the best size found.",
    },
    CodeInfo {
        code: "E0303",
        title: "the pipeline cannot be read",
        fault: Fault::Request,
        meaning: "The text after `--passes` names a pass or an option that does not exist, or is not well formed.",
        example: "--passes fold,cse,shcedule",
        action: "Compare with `memc passes`.",
    },
    CodeInfo {
        code: "E0304",
        title: "a pass needs what no pass before it gives",
        fault: Fault::Request,
        meaning: "A pass in the pipeline needs a module at a stage that the passes before it do not reach.",
        example: "--passes place, without schedule",
        action: "Put the pass that the message names before it.",
    },
    CodeInfo {
        code: "E0305",
        title: "there is no such memory space",
        fault: Fault::Request,
        meaning: "A budget or a transfer names a space that the target does not have.",
        example: "--budget gpu=1GiB on a target with the spaces `device` and `host`",
        action: "Use a space of the target; the message lists them.",
    },
    CodeInfo {
        code: "E0306",
        title: "the target or profile cannot be used",
        fault: Fault::File,
        meaning: "The description of a target, or a profile of costs, is not well formed or contradicts itself.",
        example: "alignment = 0",
        action: "Repair the file at the place that the message names.",
    },
    CodeInfo {
        code: "E0307",
        title: "a size or percentage cannot be read",
        fault: Fault::Request,
        meaning: "A size on the command line is no number with a unit, or is no percentage that makes sense.",
        example: "--budget 12XB",
        action: "Write `512KiB`, `2GB`, `1048576` or `60%`.",
    },
];

/// Warnings and remarks of planning.
pub(super) const WARNINGS: &[CodeInfo] = &[
    CodeInfo {
        code: "W0301",
        title: "a limit of time made the result not reproducible",
        fault: Fault::Nobody,
        meaning: "The wall clock ended the search, not the effort. Another run may find another plan.",
        example: "--time-limit 10s",
        action: "Use `--effort` where results must be the same on every machine.",
    },
    CodeInfo {
        code: "W0302",
        title: "a pass could not improve the plan",
        fault: Fault::Nobody,
        meaning: "A pass looked and found nothing to do, or what it found was worse than what came in. The reason stands in \
            the message.",
        example: "recompute: every candidate costs more than it frees",
        action: "Nothing; it is worth knowing why.",
    },
    CodeInfo {
        code: "W0303",
        title: "the cost of an operator is an assumption",
        fault: Fault::Nobody,
        meaning: "Nothing is known of this operator's cost, so a stated pessimistic bound stands for it.",
        example: "com.acme::Special(x)",
        action: "Measure it with `memc profile` and pass the result with `--profile`.",
    },
];
