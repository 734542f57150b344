//! Codes of writing models and other outputs: E04xx.

use super::{CodeInfo, Fault};

/// Errors of export.
pub(super) const ERRORS: &[CodeInfo] = &[
    CodeInfo {
        code: "E0401",
        title: "the output cannot be written",
        fault: Fault::System,
        meaning: "The operating system refused to create or write an output. Outputs are written whole or not at all, so \
            no partial file is left.",
        example: "memc optimize model.onnx -o /read-only/out.onnx",
        action: "Check the path, the permissions and the free space; the message includes the system's error.",
    },
    CodeInfo {
        code: "E0402",
        title: "the result cannot be written as a model",
        fault: Fault::Model,
        meaning: "The edits cannot be carried out on the bytes of the model, or the result would pass 2 GiB, the limit of the \
            format.",
        example: "a model of 1.99 GiB with many added nodes",
        action: "Keep the weights in external files. A module that was read from its text form has no weights to write: start \
            from the .onnx file.",
    },
];

/// Warnings of export.
pub(super) const WARNINGS: &[CodeInfo] = &[CodeInfo {
    code: "W0401",
    title: "weights are not beside the written model",
    fault: Fault::Request,
    meaning: "The model keeps weights in external files beside it; the written model goes into another folder and reads files of these names \
        there.",
    example: "memc optimize model.onnx -o elsewhere/out.onnx, of a model with model.onnx.data beside it",
    action: "Leave out `--weights-in-place`, or write the model into the folder of the given one. ONNX Runtime follows no symbolic links out of the folder.",
}];
