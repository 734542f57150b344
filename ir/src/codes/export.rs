//! Codes of writing models and other outputs: E04xx.

use super::{CodeInfo, Fault};

/// Errors of export.
pub(super) const ERRORS: &[CodeInfo] = &[
    CodeInfo {
        code: "E0401",
        title: "the output cannot be written",
        fault: Fault::System,
        meaning: "The operating system refused to create or write an output. Outputs are written whole or not at all, so \
            nothing was left behind.",
        example: "memc optimize model.onnx -o /read-only/out.onnx",
        action: "Check the path, the permissions and the space left; the message repeats what the system said.",
    },
    CodeInfo {
        code: "E0402",
        title: "the output would overwrite the input",
        fault: Fault::Request,
        meaning: "Input and output are the same file. memc maps the input while it writes, so it never does this.",
        example: "memc optimize model.onnx -o model.onnx",
        action: "Write to another path and rename afterwards.",
    },
    CodeInfo {
        code: "E0403",
        title: "the output would pass the limit of its format",
        fault: Fault::Model,
        meaning: "An encoded model may have at most 2 GiB, and this one would be larger.",
        example: "a model of 1.99 GiB with many added nodes",
        action: "Keep the weights in external files.",
    },
    CodeInfo {
        code: "E0404",
        title: "the module cannot be written as a model",
        fault: Fault::Request,
        meaning: "The text form elides large constants, so a module that was read from one has nothing to write for them.",
        example: "memc opt big.mem --passes fold -o out.onnx",
        action: "Start from the ONNX model instead of its text form.",
    },
];
