//! Codes of counted sessions and of limits that runtimes and memories set: E0361 to E0368, W0361 to W0366.

use super::{CodeInfo, Fault};

/// Errors of sessions and limits.
pub(super) const ERRORS: &[CodeInfo] = &[
    CodeInfo {
        code: "E0361",
        title: "no session keeps the budget",
        fault: Fault::Request,
        meaning: "The plan keeps the budget, but each session that the recipe may choose was counted and takes more: its optimizations hold or \
            merge what the plan computes again, it chooses another order, or it keeps buffers for later values.",
        example: "memc optimize model.onnx -o out.onnx --runtime ort --budget 60% --session plain",
        action: "Use the recipe `smallest`; in a language that cannot set the order of nodes, pin it with `--anchors`; or give a larger budget.",
    },
    CodeInfo {
        code: "E0364",
        title: "a value is larger than the limit",
        fault: Fault::Request,
        meaning: "`--max-value` limits the largest single value. An input, an output or a weight of the model exceeds the limit, which proves that \
            there is no plan; or no plan in parts of the batch, in regions, or within a smaller budget has only values within the limit; or the \
            size of a value is unknown.",
        example: "memc optimize model.onnx -o out.onnx --max-value 1MiB for a model with a weight of 4 MiB",
        action: "Give the limit that the message names, bind a smaller batch with `--dim`, or state sizes with `--assume`.",
    },
    CodeInfo {
        code: "E0365",
        title: "the model does not fit into the memory",
        fault: Fault::Request,
        meaning: "`memc fit` counts weights, caches and other state, inputs and outputs of the caller, and the arena. With the smallest extent of the \
            dimension that is made large, and with the smallest arena that was found, they are more than `--ram`.",
        example: "memc fit decoder.onnx --ram 1GB for a decoder with 2 GB of weights",
        action: "Give the memory that the message names, or make the part that it names smaller.",
    },
    CodeInfo {
        code: "E0366",
        title: "the model has no caches for a context",
        fault: Fault::Request,
        meaning: "`memc fit --context N` keeps caches of N rows in place. Its caches are graph inputs with the rows so far and graph outputs with the \
            new rows appended; no pairs of names fit, or the rows so far and the new rows are no open dimensions. Where an attention kernel \
            writes new rows into its caches, these are full in all runs, and no node but sums over the mask may depend on the number of rows.",
        example: "memc fit encoder.onnx --ram 1GB --context 2048",
        action: "Name the pairs with `--state 'NEW*=OLD*'`, or leave out `--context` and state extents with `--dim`.",
    },
    CodeInfo {
        code: "E0367",
        title: "no output has a row for each token",
        fault: Fault::Request,
        meaning: "`--last-token` leaves the last row of outputs with a row for each token: an input of integers has their extents but the last one. \
            No output that a node computes has such extents, or the operator set is older than 10.",
        example: "memc optimize classifier.onnx -o out.onnx --last-token",
        action: "Leave out `--last-token`.",
    },
    CodeInfo {
        code: "E0368",
        title: "the context is longer than the model's positions",
        fault: Fault::Request,
        meaning: "`memc fit --context N` keeps caches of N rows. The model looks positions up in a table that has fewer rows: later tokens would have \
            no position.",
        example: "memc fit decoder.onnx --ram 1GB --context 4096 for a decoder with 2,048 positions",
        action: "Give the context that the message names, or export the model with more positions.",
    },
];

/// Remarks on sessions.
pub(super) const WARNINGS: &[CodeInfo] = &[
    CodeInfo {
        code: "W0361",
        title: "a session takes less of the model in its own order",
        fault: Fault::Nobody,
        meaning: "By the named recipe, a session was counted for the plan and for the given model in its own order, and takes less of the latter: \
            its own fusions save more there. The written model has the nodes and the order of the given one. Where both recipes are printed, the \
            plan is written and the remark states both numbers.",
        example: "memc optimize model.onnx -o out.onnx --runtime ort --session python=fast",
        action: "No action is needed. `--session python=smallest` chooses among all settings.",
    },
    CodeInfo {
        code: "W0362",
        title: "a recipe keeps the budget with fewer optimizations",
        fault: Fault::Nobody,
        meaning: "With the settings that cost no time, a session takes more than the budget, so the recipe prints the settings of `smallest`.",
        example: "memc optimize step.onnx -o out.onnx --runtime ort --budget 50% --session python=fast",
        action: "No action is needed. A larger budget leaves more of the session's optimizations on.",
    },
    CodeInfo {
        code: "W0363",
        title: "sessions were not counted",
        fault: Fault::System,
        meaning: "No library of ONNX Runtime was found, or the plan needs memc's own operators, so the settings follow from the plan alone. A plan \
            with a budget then runs as written. For a session with default options the given nodes are written in their own \
            order, since it may take more of a plan that nobody counted.",
        example: "memc optimize model.onnx -o out.onnx --runtime ort --session python on a machine without onnxruntime",
        action: "Install `onnxruntime`, or name a library in ORT_DYLIB_PATH, and run the command again.",
    },
    CodeInfo {
        code: "W0364",
        title: "an output has its last row only",
        fault: Fault::Nobody,
        meaning: "By `--last-token`, an output has one row where the given model has a row for each token: that of the last token of the run. The \
            layout states it in `last_rows`, and `memc check` proves the row against the given model.",
        example: "memc optimize decoder.onnx -o out.onnx --last-token",
        action: "Read the row at position 0. A caller that needs all rows leaves out `--last-token`.",
    },
    CodeInfo {
        code: "W0365",
        title: "nodes run on the CPU, between copies",
        fault: Fault::Nobody,
        meaning: "With `--runtime cuda`, ONNX Runtime has no kernel on the device for some operators or element types. It runs these nodes on the CPU \
            and copies their operands and results, which takes time. The plan counts their values as if they were on the device.",
        example: "memc optimize model.onnx -o out.onnx --runtime cuda for a model with a DFT",
        action: "No action is needed. Where such nodes are many, replace their operators before the export.",
    },
    CodeInfo {
        code: "W0366",
        title: "the device chooses the workspace of kernels",
        fault: Fault::Nobody,
        meaning: "With `--runtime cuda`, the workspace of convolutions, reductions, recurrences and attention is chosen by libraries of the device, so \
            no plan can count it.",
        example: "memc optimize model.onnx -o out.onnx --runtime cuda for a model with convolutions",
        action: "Run the plan with `memc.ort.replay` in Python, which records the workspace and places it beside the values, or state it in \
            a file: `--scratch FILE.json`.",
    },
];
