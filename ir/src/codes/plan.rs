//! Codes of planning: E03xx.

use super::{CodeInfo, Fault};

/// Errors of planning.
pub(super) const ERRORS: &[CodeInfo] = &[
    CodeInfo {
        code: "E0301",
        title: "no plan fits the budget",
        fault: Fault::Request,
        meaning: "The budget is below what the smallest plan needs, though values are computed again where that helps. The message \
            has that plan's arena, the bound that no plan of these nodes can pass, the step where it is full, who is alive there, and what \
            stays whatever is recomputed; the help names the option that frees most of it.",
        example: "memc optimize model.onnx -o out.onnx --budget 1KiB",
        action: "Give the budget that the message names as kept. For less: --alias-state where outputs are new values of inputs, \
            --io external where other outputs fill the arena, --link where values wait for later steps, a smaller batch where one step \
            needs all of it.",
    },
    CodeInfo {
        code: "E0302",
        title: "the tensors are too large to plan",
        fault: Fault::Model,
        meaning: "The sizes of this model's tensors add up to more bytes than can be addressed, or there are more of them than \
            a solver can number.",
        example: "a model of tensors of 2^61 bytes each",
        action: "Bind smaller dimensions.",
    },
    CodeInfo {
        code: "E0303",
        title: "the pipeline cannot be used",
        fault: Fault::Request,
        meaning: "The text after `--passes` names a pass that does not exist, or a pass whose stage no pass before it reaches.",
        example: "--passes fold,cse,shcedule",
        action: "Compare with `memc passes`; the page of each pass says what it needs and gives.",
    },
    CodeInfo {
        code: "E0304",
        title: "the pipeline does not end in a plan",
        fault: Fault::Request,
        meaning: "A layout was asked for, but no pass of the pipeline places tensors.",
        example: "memc optimize model.onnx -o out.onnx --passes fold,cse",
        action: "End the pipeline with `place`, or look at the module with `memc opt`.",
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
        title: "an argument cannot be used",
        fault: Fault::Request,
        meaning: "An argument has the right form but names something that does not exist, or cannot be combined with the \
            others.",
        example: "memc ops Nonsense",
        action: "The help line of the message says what is possible.",
    },
    CodeInfo {
        code: "E0307",
        title: "a problem file cannot be solved",
        fault: Fault::File,
        meaning: "A problem for a solver alone is not well formed, or its numbers pass what the solver can count. `solve place` reads \
            CSV with the columns id, lower, upper, size; `solve order` and `solve recompute` read JSON with nodes {id, size, cost}, edges \
            [from, to] and links {from, to, bytes_per_unit, latency}.",
        example: "a line of CSV whose upper end is below its lower end",
        action: "Repair the file at the place that the message names.",
    },
    CodeInfo {
        code: "E0308",
        title: "a target file cannot be used",
        fault: Fault::File,
        meaning: "A file given with --target is no TOML, has a key that is missing, unknown or out of its range, or has links between spaces \
            that it does not have. The message has the line.",
        example: "float = -1 under [machine.flops_per_second]",
        action: "Repair the line; `memc targets cpu` prints a file to start from, and `memc targets` lists those that need none.",
    },
    CodeInfo {
        code: "E0309",
        title: "a profile cannot be used",
        fault: Fault::File,
        meaning: "A file given with --profile is no JSON, lacks a key, or is of another version than this memc reads. The message has the \
            line and column.",
        example: "memc optimize model.onnx -o out.onnx --profile out.layout.json",
        action: "Measure the model with `memc profile model.onnx -o profile.json` and give that file.",
    },
    CodeInfo {
        code: "E0310",
        title: "no plan keeps both the bytes and the time",
        fault: Fault::Request,
        meaning: "--slowdown was given together with a budget or a target whose space has a capacity, and both hold: the arena keeps the bytes, \
            and the modelled time stays within the slowdown. The smallest plan within the time needs more bytes, and the fastest plan within the \
            bytes takes more time.",
        example: "memc optimize model.onnx -o out.onnx --budget 30% --slowdown 1%",
        action: "Allow the time or the bytes that the message names, or leave one of the two out.",
    },
    CodeInfo {
        code: "E0312",
        title: "the weights find no room",
        fault: Fault::Request,
        meaning: "The constants of the planned model need more bytes than the spaces hold in which the target says that they lie: spaces with \
            `constants = true`, spaces that no link leads to, or the space that --weights names.",
        example: "a model with 20 MB of weights for --target esp32-s3, whose flash holds 16 MiB",
        action: "Quantize the weights, or say in the target file where else constants lie.",
    },
];

/// Warnings of planning.
pub(super) const WARNINGS: &[CodeInfo] = &[
    CodeInfo {
        code: "W0301",
        title: "a node's place in the order cannot be pinned",
        fault: Fault::Nobody,
        meaning: "With --anchors, dead-end nodes pin the order for runtimes that choose their own. An anchor reads the shape of a dense \
            tensor of known rank, and this node has no such result.",
        example: "a node that only gives sequences",
        action: "Set the runtime's order to the file's, where it lets you; otherwise the plan may need more there.",
    },
    CodeInfo {
        code: "W0302",
        title: "a profile lacks nodes of the model",
        fault: Fault::Request,
        meaning: "Nodes are looked up in a profile by the name of their first result, or by their own, and must have the operator and the \
            extents that were measured. What is not found is expected to take its modelled time, in proportion to the nodes that were.",
        example: "a profile that was taken with --dim batch=1, given for --dim batch=8",
        action: "Measure this very model with `memc profile`, under the same --dim.",
    },
    CodeInfo {
        code: "W0303",
        title: "the batch is not computed in parts",
        fault: Fault::Request,
        meaning: "--micro-batches was given, but no graph input has a first extent that so many parts divide, nothing that depends on one can be \
            computed in parts, or the sums over parts alone pass the budget. The plan computes the whole batch.",
        example: "memc optimize model.onnx -o out.onnx --micro-batches 7 where the batch is 8",
        action: "Give a number that divides the batch; without the option, a budget finds one by itself.",
    },
    CodeInfo {
        code: "W0304",
        title: "a random operator has a fixed seed",
        fault: Fault::Nobody,
        meaning: "Who fixes what a random operator draws wants the same numbers from every run, whatever the budget. Such a model is planned as \
            with --exact: nothing that changes a bit of the result, such as sums over parts of a batch.",
        example: "a training step whose RandomUniformLike has the attribute `seed`",
        action: "Nothing, where bits matter. Otherwise leave out the attribute, or ask for what changes last bits with --micro-batches.",
    },
    CodeInfo {
        code: "W0305",
        title: "a session keeps buffers beside the peak",
        fault: Fault::Nobody,
        meaning: "Products of integers in ONNX Runtime allocate buffers when a thread first computes one, and never give them back. Their own steps             count them; the peak may stand at another step, where they are still held.",
        example: "a model with QLinearConv, planned with --runtime ort",
        action: "Where not even the first run may need more than a limit, take the bytes that the remark names off the budget.",
    },
    CodeInfo {
        code: "W0306",
        title: "an option raises the peak",
        fault: Fault::Request,
        meaning: "The plan needs more memory than the model in the order of its file, because an option asks by name for what takes it: blocks of \
            channels (--nchwc) and parts of the batch (--micro-batches) are copied in and out, anchors have results of their own.",
        example: "memc optimize model.onnx -o out.onnx --nchwc 16 where images are smaller than the blocks that they are laid out in",
        action: "Leave the option out, unless it is wanted for another reason than memory.",
    },
    CodeInfo {
        code: "W0307",
        title: "kernels that were asked for are not used",
        fault: Fault::Nobody,
        meaning: "The plan with the kernels of --nchwc or --integer-kernels was compared with the plan without them, and the plan without \
            them is better under the same goal: it needs less memory, or less time within the limit.",
        example: "--integer-kernels for a quantized product of one row, for which ONNX Runtime's kernel keeps a buffer of 64 KiB",
        action: "Nothing. A session with its optimizations on may use such kernels all the same, and needs their workspace.",
    },
    CodeInfo {
        code: "W0308",
        title: "equal weights are kept once",
        fault: Fault::Nobody,
        meaning: "The model has several initializers of one type and shape with equal elements. Their readers all read the first one in the written \
            model, which no longer has the others.",
        example: "an embedding of [vocabulary,width] and an output projection with the same elements",
        action: "Nothing. `memc passes tie` says which weights stay apart.",
    },
    CodeInfo {
        code: "W0314",
        title: "a session with default options undoes the plan",
        fault: Fault::Nobody,
        meaning: "The plan computes values again, which takes a second node like the first. A session of ONNX Runtime with default options \
            merges equal nodes, so such a value stays in memory all the same, and the session needs more than planned.",
        example: "memc optimize model.onnx -o out.onnx --runtime ort --budget 60%",
        action: "Set the session up by a recipe of --session: `smallest` runs the nodes as planned, `fast` turns off the merging of equal nodes \
            and leaves the other optimizations on.",
    },
];
