//! Codes of checking a layout against its models: E05xx and W05xx.

use super::{CodeInfo, Fault};

/// Errors of the checker.
pub(super) const ERRORS: &[CodeInfo] = &[
    CodeInfo {
        code: "E0501",
        title: "the layout file cannot be read",
        fault: Fault::File,
        meaning: "The layout is no JSON, lacks a key that the schema demands, or has a major version that this memc does not \
            know.",
        example: "\"schema\": \"memc.layout/9\"",
        action: "Compare with `memc schema layout`.",
    },
    CodeInfo {
        code: "E0502",
        title: "the layout belongs to other models",
        fault: Fault::File,
        meaning: "A hash in the layout is not that of the model that was given.",
        example: "memc check in.onnx other.onnx out.layout.json",
        action: "Give the three files of one run.",
    },
    CodeInfo {
        code: "E0503",
        title: "the schedule is not an order of the model",
        fault: Fault::File,
        meaning: "The schedule leaves out or repeats a node, names one that is not there, or runs a node before what it reads.",
        example: "two entries with step 3",
        action: "Do not run the plan. If memc wrote it, this is a defect: report it with both models. If another tool did, \
            repair that tool.",
    },
    CodeInfo {
        code: "E0504",
        title: "a tensor's entry is wrong",
        fault: Fault::File,
        meaning: "An entry is missing or too much, or its element type, shape, size or class is not that of the value.",
        example: "\"bytes\": 128 for float[64]",
        action: "Do not run the plan. If memc wrote it, this is a defect: report it with both models. If another tool did, \
            repair that tool.",
    },
    CodeInfo {
        code: "E0505",
        title: "a live range is too short",
        fault: Fault::File,
        meaning: "The layout lets a tensor end before its last reader, or begin after its producer.",
        example: "\"live\": [[3,5]], read at step 5",
        action: "Do not run the plan. If memc wrote it, this is a defect: report it with both models. If another tool did, \
            repair that tool.",
    },
    CodeInfo {
        code: "E0506",
        title: "a tensor does not lie where it may",
        fault: Fault::File,
        meaning: "An offset is not aligned, the end is outside the arena, or an alias is not at its owner's place.",
        example: "offset 24 in a space of alignment 64",
        action: "Do not run the plan. If memc wrote it, this is a defect: report it with both models. If another tool did, \
            repair that tool.",
    },
    CodeInfo {
        code: "E0507",
        title: "two tensors that are live together overlap",
        fault: Fault::File,
        meaning: "Two tensors of one space share bytes at a step at which both are live, and no alias allows it.",
        example: "two owners at offset 0, both live at step 7",
        action: "Do not run the plan. If memc wrote it, this is a defect: report it with both models. If another tool did, \
            repair that tool.",
    },
    CodeInfo {
        code: "E0508",
        title: "an in-place write is not allowed",
        fault: Fault::File,
        meaning: "The overwritten operand is still read later, has another size, is the caller's, or the operator may not \
            overwrite it.",
        example: "Softmax over an operand that a later node reads",
        action: "Do not run the plan. If memc wrote it, this is a defect: report it with both models. If another tool did, \
            repair that tool.",
    },
    CodeInfo {
        code: "E0509",
        title: "an alias is not what it claims",
        fault: Fault::File,
        meaning: "A view is stated for operators or windows of which the result is no view.",
        example: "a view stated for Transpose of a matrix",
        action: "Do not run the plan. If memc wrote it, this is a defect: report it with both models. If another tool did, \
            repair that tool.",
    },
    CodeInfo {
        code: "E0510",
        title: "a transfer is not sound",
        fault: Fault::File,
        meaning: "A transfer frees a copy that is still read, its steps are not those of its nodes, or no link joins the \
            spaces.",
        example: "a load before its store",
        action: "Do not run the plan. If memc wrote it, this is a defect: report it with both models. If another tool did, \
            repair that tool.",
    },
    CodeInfo {
        code: "E0511",
        title: "a recomputed node is not the same computation",
        fault: Fault::File,
        meaning: "Operator, attributes or operand values differ from the original's, or the operator gives another result each \
            time.",
        example: "recompute_of a RandomNormal",
        action: "Do not run the plan. If memc wrote it, this is a defect: report it with both models. If another tool did, \
            repair that tool.",
    },
    CodeInfo {
        code: "E0512",
        title: "the optimized model is another computation",
        fault: Fault::File,
        meaning: "With recomputed copies, transfers and anchors folded back, the graph is not that of the input model.",
        example: "a node of the input that has no counterpart",
        action: "Do not run the plan. If memc wrote it, this is a defect: report it with both models. If another tool did, \
            repair that tool.",
    },
    CodeInfo {
        code: "E0513",
        title: "a claimed number is wrong",
        fault: Fault::File,
        meaning: "The peak, the size of an arena, a bound or another total in the layout is not what follows from its entries.",
        example: "\"peak\": 100, while 120 bytes are live at step 4",
        action: "Do not run the plan. If memc wrote it, this is a defect: report it with both models. If another tool did, \
            repair that tool.",
    },
    CodeInfo {
        code: "E0514",
        title: "the plan breaks its budget",
        fault: Fault::File,
        meaning: "An arena is larger than the budget that the layout itself states.",
        example: "arena 2MiB with a budget of 1MiB",
        action: "Do not run the plan. If memc wrote it, this is a defect: report it with both models. If another tool did, \
            repair that tool.",
    },
    CodeInfo {
        code: "E0515",
        title: "the two models give different results",
        fault: Fault::File,
        meaning: "Both models ran on the same inputs, and an output differs by more than what is allowed.",
        example: "max abs difference 0.3 in `logits`",
        action: "Run with `--exact` to rule out rewriting; report it if it stays.",
    },
];

/// Remarks of the checker.
pub(super) const WARNINGS: &[CodeInfo] = &[CodeInfo {
    code: "W0501",
    title: "a live range is longer than needed",
    fault: Fault::Nobody,
    meaning: "The layout keeps a tensor longer than its readers need. That wastes bytes but is sound.",
    example: "\"live\": [[3,9]], last read at step 5",
    action: "Nothing; plan again if the bytes matter.",
}];
