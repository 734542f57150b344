//! Codes of planning: E03xx.

use super::{CodeInfo, Fault};

/// Errors of planning.
pub(super) const ERRORS: &[CodeInfo] = &[
    CodeInfo {
        code: "E0301",
        title: "no plan fits the budget",
        fault: Fault::Request,
        meaning: "The smallest plan that was found needs more than the budget, even with recomputation. The message states the arena of \
            that plan, a lower bound for every plan of these nodes, the step of the peak, the tensors alive at it, and those that \
            recomputation cannot free; the help names the option that frees most bytes.",
        example: "memc optimize model.onnx -o out.onnx --budget 1KiB",
        action: "Use the budget in the help line. To need less: `--alias-state` if outputs are new values of inputs, `--io external` if \
            other outputs fill the arena, `--link` if values wait for later steps, a smaller batch if one step needs most of the arena.",
    },
    CodeInfo {
        code: "E0302",
        title: "the tensors are too large to plan",
        fault: Fault::Model,
        meaning: "The sizes of this model's tensors add up to more bytes than can be addressed, or the number of tensors exceeds \
            the limit of a solver.",
        example: "a model of tensors of 2^61 bytes each",
        action: "Bind smaller dimensions.",
    },
    CodeInfo {
        code: "E0303",
        title: "the pipeline cannot be used",
        fault: Fault::Request,
        meaning: "The text after `--passes` names a pass that does not exist, or a pass whose stage no pass before it reaches.",
        example: "--passes fold,cse,shcedule",
        action: "Compare with `memc passes`; the page of each pass states the stage that it needs and the stage that it gives.",
    },
    CodeInfo {
        code: "E0304",
        title: "the pipeline does not end in a plan",
        fault: Fault::Request,
        meaning: "A layout was requested, but no pass of the pipeline places tensors.",
        example: "memc optimize model.onnx -o out.onnx --passes fold,cse",
        action: "End the pipeline with `place`, or print the module with `memc opt`.",
    },
    CodeInfo {
        code: "E0305",
        title: "unknown memory space",
        fault: Fault::Request,
        meaning: "A budget or a transfer names a space that the target does not have.",
        example: "--budget gpu=1GiB on a target with the spaces `device` and `host`",
        action: "Use a space of the target; the message lists them.",
    },
    CodeInfo {
        code: "E0306",
        title: "an argument cannot be used",
        fault: Fault::Request,
        meaning: "An argument has the right form but an unknown name, or cannot be combined with the other arguments.",
        example: "memc ops Nonsense",
        action: "Use one of the values or options that the help line of the message names.",
    },
    CodeInfo {
        code: "E0307",
        title: "a problem file cannot be solved",
        fault: Fault::File,
        meaning: "A problem file of `memc solve` is malformed, or its numbers exceed the range of the solver. `solve place` reads \
            CSV with the columns id, lower, upper, size; `solve order` and `solve recompute` read JSON with nodes {id, size, cost}, edges \
            [from, to] and links {from, to, bytes_per_unit, latency}; `solve partition` reads JSON with maxSizePerFPGA, maxFPGAs, maxCPUs, \
            nodes {id, fpgaLatency, cpuLatency, size, colorClass, isBackwardNode} and edges {sourceId, destId, cost}.",
        example: "a line of CSV whose upper end is below its lower end",
        action: "Repair the file at the place in the message.",
    },
    CodeInfo {
        code: "E0308",
        title: "a target file cannot be used",
        fault: Fault::File,
        meaning: "A file given with `--target` is not TOML, lacks a key, has a key that is unknown or out of range, or links spaces that it does \
            not define. The message names the line.",
        example: "float = -1 under [machine.flops_per_second]",
        action: "Repair the line; `memc targets cpu` prints a file to start from, and `memc targets` lists the targets that come with memc.",
    },
    CodeInfo {
        code: "E0309",
        title: "a profile cannot be used",
        fault: Fault::File,
        meaning: "A file given with `--profile` is not JSON, lacks a key, or has a version that this memc does not read. The message names the \
            line and column.",
        example: "memc optimize model.onnx -o out.onnx --profile out.layout.json",
        action: "Measure the model with `memc profile model.onnx -o profile.json` and give that file.",
    },
    CodeInfo {
        code: "E0310",
        title: "no plan keeps both the budget and the slowdown",
        fault: Fault::Request,
        meaning: "With `--slowdown` and a budget, or a target whose space has a capacity, a plan must keep both limits. The smallest plan within \
            the time needs more bytes, and the fastest plan within the bytes takes more time.",
        example: "memc optimize model.onnx -o out.onnx --budget 30% --slowdown 1%",
        action: "Use the slowdown or the budget in the help line, or leave one of the two options out.",
    },
    CodeInfo {
        code: "E0311",
        title: "no division over devices keeps their budgets",
        fault: Fault::Request,
        meaning: "`memc split` gives each device a section of the model. Nodes that a runtime fuses, and nodes with values of unknown size \
            between them, stay together. One such piece needs more bytes than every device has, or all of them together do.",
        example: "memc split model.onnx -o parts --devices 2 --device-budget 1MB",
        action: "Raise `--device-budget`, use more devices, or bind smaller dimensions with `--dim`.",
    },
    CodeInfo {
        code: "E0312",
        title: "the weights exceed their spaces",
        fault: Fault::Request,
        meaning: "The constants of the planned model need more bytes than the spaces for constants hold: spaces with `constants = true`, spaces \
            that no link leads to, or the space that `--weights` names.",
        example: "a model with 20 MB of weights for --target esp32-s3, whose flash holds 16 MiB",
        action: "Quantize the weights, or mark another space of the target file with `constants = true`.",
    },
    CodeInfo {
        code: "E0313",
        title: "the model cannot be divided as requested",
        fault: Fault::Request,
        meaning: "The options of `memc split` contradict each other or the model: more devices than pieces, a budget list of another length, a \
            link to a device that does not exist or none between devices that exchange values, an option without meaning for sections (ranges \
            of dimensions with `--schedule`, state in several runs of the model), a graph output that is \
            a weight, a pipeline of a model without loss and gradients, or a batch that is not so many equal parts or that a node needs whole.",
        example: "memc split model.onnx -o parts --devices 3 --link d0-d1=10GB/s",
        action: "Follow the help line of the message.",
    },
    CodeInfo {
        code: "E0314",
        title: "no plan keeps the time",
        fault: Fault::Request,
        meaning: "With `--slo`, a plan may take at most so long by the times of the target, and with `--budget` it must also keep that. The \
            fastest plan that was found takes longer. The notes list plans along the front of memory and time. Nothing was written.",
        example: "memc optimize model.onnx -o out.onnx --slo 1us --budget 30%",
        action: "Allow the time or the budget in the help line. If modelled times are wrong on your machine, measure its kernels with `memc \
            calibrate -o mine.toml`, and give `--target mine.toml`.",
    },
    CodeInfo {
        code: "E0317",
        title: "a size exceeds a limit of the report",
        fault: Fault::Request,
        meaning: "`memc report` compares the arena of each space and the weights with `--max-arena`, `--max-weights`, and the layout of an \
            earlier plan (`--baseline`, with the growth of `--allow`). At least one size is larger; the notes name the others. A size of \
            unknown values without an upper bound exceeds every limit. No file was written.",
        example: "memc report model.onnx --max-arena 512KiB",
        action: "Plan the model with `memc optimize --budget`, make the model smaller, or raise the limit.",
    },
    CodeInfo {
        code: "E0320",
        title: "a scratch file cannot be read",
        fault: Fault::File,
        meaning: "A file given with `--scratch` is not JSON, lacks the key `schema` with the value `memc.scratch/1`, or has an unknown key. The \
            message names the line and column.",
        example: "{\"schema\": \"memc.scratch/1\", \"operator\": {}}",
        action: "Write the keys `schema`, `default` and `operators`; the page Scratch files describes them.",
    },
    CodeInfo {
        code: "E0321",
        title: "the scratch of an operator is no expression over extents",
        fault: Fault::File,
        meaning: "A row of a scratch file gives the bytes of a kernel's workspace as a sum of products of numbers and extents. Names are `in0_2` \
            (operand 0, axis 2), `out0_last1` (last axis of result 0), `in1_elements`, `in1_bytes` and `in1_width`; functions are `min`, `max`, \
            `floor` and `ceil`; `//` rounds down, and a quotient by `/` must be exact.",
        example: "\"Conv\": \"channels * 4\"",
        action: "Repair the row that the message names.",
    },
    CodeInfo {
        code: "E0322",
        title: "a scratch file with a runtime whose kernels are known",
        fault: Fault::Request,
        meaning: "`--scratch` states the workspace of kernels that memc does not know, of generated C or firmware. With `--runtime ort` and \
            `--runtime player` the kernels are those of ONNX Runtime.",
        example: "memc optimize model.onnx -o out.onnx --runtime ort --scratch kernels.json",
        action: "Leave out one of both options; `memc profile` measures the workspace of ONNX Runtime's kernels.",
    },
    CodeInfo {
        code: "E0324",
        title: "a cache is not its old value with rows appended",
        fault: Fault::Request,
        meaning: "`--state` names an output that is longer than its input along one axis. The output must be Concat of the input and new rows \
            along this axis, in this order. No file was written.",
        example: "memc optimize model.onnx -o out.onnx --state 'present*=past*' for caches with new rows at the beginning",
        action: "Name the pair of a cache that grows at its end, or leave out `--state` for this pair.",
    },
    CodeInfo {
        code: "E0325",
        title: "a node needs the exact number of rows of a cache",
        fault: Fault::Request,
        meaning: "A cache in a buffer of full capacity has rows that are not valid. The named node would let them reach a result, or its place \
            in the model does not tell that it does not. No file was written.",
        example: "a mean over all rows of a cache",
        action: "Leave out `--state` for caches. `memc passes cache` lists the operators that pass on rows.",
    },
    CodeInfo {
        code: "E0326",
        title: "caches cannot be kept together",
        fault: Fault::Request,
        meaning: "All caches of a model share one number of valid rows: they must have equal numbers of rows and of new rows. The number of rows \
            must be at least 1, and the operator set must be 11 or later. With ranges, the new rows must be an expression of dimensions that are \
            axes of graph inputs. No file was written.",
        example: "memc optimize model.onnx -o out.onnx --state 'present*=past*' --dim past=0",
        action: "Bind the dimension of the rows to the largest number of rows before a run, and name caches of one kind.",
    },
];

/// Warnings of planning.
pub(super) const WARNINGS: &[CodeInfo] = &[
    CodeInfo {
        code: "W0301",
        title: "a node's place in the order cannot be pinned",
        fault: Fault::Nobody,
        meaning: "With --anchors, dead-end nodes pin the order for runtimes that choose their own. An anchor reads the shape of a dense \
            tensor of known rank, and this node has no such result; or the result of its anchor would raise the arena above the limit, or \
            above the file's order.",
        example: "a node whose results are all sequences",
        action: "Set the runtime to execute nodes in file order, if it has that option; otherwise it may need more than planned.",
    },
    CodeInfo {
        code: "W0302",
        title: "a profile lacks nodes of the model",
        fault: Fault::Request,
        meaning: "Nodes are looked up in a profile by the name of their first result, or by their own name, and must have the measured operator \
            and extents. Nodes that are not found get their modelled time, scaled by the ratio of measured to modelled time of the others.",
        example: "a profile measured with --dim batch=1, used with --dim batch=8",
        action: "Measure this model with `memc profile`, with equal `--dim` options.",
    },
    CodeInfo {
        code: "W0303",
        title: "the option --micro-batches had no effect",
        fault: Fault::Request,
        meaning: "No graph input has a first extent divisible by the number of parts, no node that depends on one can be split into parts, \
            or the sums over parts alone exceed the budget. The plan computes the whole batch.",
        example: "memc optimize model.onnx -o out.onnx --micro-batches 7 for a batch of 8",
        action: "Give a number that divides the batch; without the option, the search for a budget chooses one.",
    },
    CodeInfo {
        code: "W0304",
        title: "a random operator has a fixed seed",
        fault: Fault::Nobody,
        meaning: "A fixed seed asks for equal numbers from every run, under every budget. So the model is planned as with `--exact`: without \
            changes to any bit of the results, such as sums over parts of a batch.",
        example: "a training step whose RandomUniformLike has the attribute `seed`",
        action: "No action is needed if every bit matters. Otherwise remove the attribute, or use `--micro-batches`, which may change last bits.",
    },
    CodeInfo {
        code: "W0305",
        title: "a session keeps buffers in addition to the peak",
        fault: Fault::Nobody,
        meaning: "Products of integers in ONNX Runtime allocate buffers when a thread first computes one, and never release them. The plan counts \
            them at their own steps; the peak may be at another step, at which they are still held.",
        example: "a model with QLinearConv, planned with --runtime ort",
        action: "If the process has a hard limit, reduce the budget by the bytes in the remark for each thread.",
    },
    CodeInfo {
        code: "W0306",
        title: "an option raises the peak",
        fault: Fault::Request,
        meaning: "The plan needs more memory than the model in file order, because of an option that adds bytes: blocks of channels (`--nchwc`) \
            and parts of the batch (`--micro-batches`) are copied in and out, and engines (`--engines`) make more values at once.",
        example: "memc optimize model.onnx -o out.onnx --nchwc 16 for images with fewer channels than a block",
        action: "Leave the option out, unless you need it for another reason than memory.",
    },
    CodeInfo {
        code: "W0307",
        title: "requested kernels are not used",
        fault: Fault::Nobody,
        meaning: "The plan with the kernels of `--nchwc` or `--integer-kernels` was compared with the plan without them, and the plan without \
            them is better under the goal: it needs less memory, or less time within the limit.",
        example: "--integer-kernels for a quantized product of one row, for which ONNX Runtime's kernel keeps a buffer of 64 KiB",
        action: "No action is needed. A session with its optimizations on may still use these kernels, and then needs their workspace.",
    },
    CodeInfo {
        code: "W0308",
        title: "equal weights are kept once",
        fault: Fault::Nobody,
        meaning: "The model has several initializers of one type and shape with equal elements. The written model has only the first one, and all \
            nodes read it.",
        example: "an embedding of [vocabulary,width] and an output projection with equal elements",
        action: "No action is needed. `memc passes tie` says which weights stay separate.",
    },
    CodeInfo {
        code: "W0309",
        title: "the plan runs on one engine",
        fault: Fault::Nobody,
        meaning: "`--engines` runs branches of a model at once. Nodes in a chain have no branches; other models would need more than 1.10 times \
            the arena of one engine, or have ranges of dimensions, values without a size, a farther space or nodes with side effects. The plan \
            for one engine is kept.",
        example: "memc optimize chain.onnx -o out.onnx --engines 2",
        action: "No action is needed. The message states the reason; `memc passes engines` describes the limits.",
    },
    CodeInfo {
        code: "W0314",
        title: "a session with default options undoes the plan",
        fault: Fault::Nobody,
        meaning: "The plan recomputes values: the model has a second node that equals the first. A session of ONNX Runtime with default options \
            merges equal nodes, so the value stays in memory, and the session needs more than planned.",
        example: "memc optimize model.onnx -o out.onnx --runtime ort --budget 60%",
        action: "Set up the session with a recipe of `--session`: `smallest` runs the nodes as planned, `fast` turns off the merging of equal \
            nodes and leaves the other optimizations on.",
    },
    CodeInfo {
        code: "W0322",
        title: "a requested change does not fit the limits",
        fault: Fault::Request,
        meaning: "No plan with `--encode-weights` was found within the limits, but one without it, which is the result: a matrix that is \
            decoded takes memory in the arena, where the given weight may take none.",
        example: "--encode-weights int8 --budget 1MB with matrices of 1 MiB, on a runtime that has no products with codes",
        action: "Raise the budget or the allowed slowdown if small weights matter more than the limits.",
    },
    CodeInfo {
        code: "W0326",
        title: "caches are kept once",
        fault: Fault::Nobody,
        meaning: "Each cache of `--state` that grows is a buffer of full capacity in the written model, and new rows are written in place. A new \
            input states the number of valid rows before the run. If the model states one number of rows, results are proven for this number.",
        example: "memc optimize model.onnx -o out.onnx --state 'present*=past*' --dim past=1023",
        action: "Begin with buffers of zeros, pass each buffer as input and output, and add the new rows to `cache_length` after each run.",
    },
    CodeInfo {
        code: "W0331",
        title: "weights are written in few bits",
        fault: Fault::Nobody,
        meaning: "`--encode-weights` replaced matrices of weights by integers of 8 or 4 bits with scales. The message states the bytes before and \
            after, and the largest relative error of one matrix: the root of the sum of squared errors, as a share of that of the squared weights.",
        example: "memc optimize model.onnx -o out.onnx --encode-weights int8",
        action: "Compare results on real inputs: `memc verify model.onnx out.onnx --inputs IN.npz`.",
    },
    CodeInfo {
        code: "W0332",
        title: "some weights are not written in few bits",
        fault: Fault::Nobody,
        meaning: "`--encode-weights` left a matrix as it is: its bytes cannot be read, it has infinite elements, its reader needs a newer operator \
            set, or the allowance for new weights is spent.",
        example: "a model of operator set 12 with --encode-weights int8 and --runtime arena",
        action: "Put weight files beside the model; convert old models to operator set 21 for 4 bits, or to 13 for 8.",
    },
];
