//! Codes of transfers, of the models' meaning, and of claimed numbers: E0545 to E0586.

use super::{Entry, Kind, entry};

/// Codes of transfers, of the models' meaning, and of claimed numbers.
pub(super) const ENTRIES: &[Entry] = &[
    entry(
        Kind::TransferNodes,
        "E0545",
        "transfer-nodes",
        "a transfer does not name a pair of transfer nodes",
        "`store_step` and `load_step` are a SwapOut that reads `tensor` and the SwapIn that turns its result into `result`.",
        "`load_step` is the step of a MatMul",
    ),
    entry(
        Kind::TransferSpace,
        "E0546",
        "transfer-space",
        "a transfer's tensors lie in other spaces",
        "The tensor and the tensor loaded back lie in `from`, the copy between them in `to`.",
        "the copy on the host has space `device`",
    ),
    entry(
        Kind::TransferLink,
        "E0547",
        "transfer-link",
        "a transfer has no link",
        "The target must name links both ways between the two spaces.",
        "links from `device` to `host` only",
    ),
    entry(
        Kind::TransferBytes,
        "E0548",
        "transfer-bytes",
        "a transfer and its tensor have different sizes",
        "`bytes` of a transfer is the size of the tensor that moves.",
        "a tensor of 256 bytes, a transfer of 255",
    ),
    entry(
        Kind::TransferReader,
        "E0549",
        "transfer-reader",
        "a tensor is read while it is in the far space",
        "Nothing may read the near copy, or a view of it, between store and load.",
        "a view of the tensor read two steps after the store",
    ),
    entry(
        Kind::TransferLive,
        "E0550",
        "transfer-live",
        "a tensor stays live while it is in the far space",
        "A transfer frees the near copy, and its views, strictly between store and load.",
        "a near copy stated live to the load",
    ),
    entry(
        Kind::TransferMissing,
        "E0551",
        "transfer-missing",
        "a transfer node is in no row",
        "Every SwapOut and SwapIn belongs to a row of `transfers`.",
        "a SwapOut with no row",
    ),
    entry(
        Kind::TransferFunction,
        "E0552",
        "transfer-function",
        "a transfer operator computes something",
        "The functions that stand for SwapOut and SwapIn must pass their operand through unchanged.",
        "a SwapOut whose function is a Cast",
    ),
    entry(
        Kind::RecomputeOp,
        "E0553",
        "recompute-op",
        "a recomputed tensor has another operator",
        "`recompute_of` names the equal result of another node with equal operator and attributes.",
        "a copy of an Elu with another `alpha`",
    ),
    entry(
        Kind::RecomputeOperand,
        "E0554",
        "recompute-operand",
        "a recomputed tensor has other operands",
        "The node must read the values that the original reads, through copies, views and transfers.",
        "a copy of `Relu(x)` that reads `y`",
    ),
    entry(
        Kind::RecomputeRandom,
        "E0555",
        "recompute-random",
        "a node that may run only once runs again",
        "Random, stateful and unknown operators may give another result when they run again.",
        "a second RandomUniformLike",
    ),
    entry(
        Kind::RandomTwice,
        "E0556",
        "random-twice",
        "a random or stateful operator runs more often than in the input model",
        "Nodes with random or stateful operators may not be duplicated.",
        "two Dropouts in training mode, the input model has one",
    ),
    entry(
        Kind::Interface,
        "E0557",
        "interface",
        "the models have different inputs or outputs",
        "Names, order and types of graph inputs and outputs, and the defaults of inputs, must stay.",
        "an output renamed",
    ),
    entry(
        Kind::Rewritten,
        "E0558",
        "rewritten",
        "an output is not provably equal to the input model's",
        "With copies, transfers and anchors folded back, the output has another value number. This is a violation only if exact results were requested; compare the models numerically.",
        "`--exact`, and an Add with swapped operands",
    ),
    entry(
        Kind::Peak,
        "E0559",
        "peak",
        "the peak is wrong",
        "`peak` is the largest number of bytes of distinct owners live at one step, and a step with that number.",
        "`peak` is 4 bytes too low",
    ),
    entry(
        Kind::PeakOverArena,
        "E0560",
        "peak-over-arena",
        "the arena is smaller than the peak",
        "No arena can be smaller than the bytes that are live at one step.",
        "a peak of 4096 in an arena of 4032",
    ),
    entry(
        Kind::LowerBound,
        "E0561",
        "lower-bound",
        "a bound contradicts the plan",
        "A lower bound exceeds the size that the plan reaches, or a plan is stated to be optimal but its bound differs.",
        "`placement_proved` with a bound of 4032 and an arena of 4096",
    ),
    entry(
        Kind::Weights,
        "E0562",
        "weights",
        "the bytes of the constants are wrong",
        "`weights` is the sum over all tensors of class `constant` that own their bytes.",
        "a dropped initializer still counted",
    ),
    entry(
        Kind::Cost,
        "E0563",
        "cost",
        "a count is wrong",
        "Node counts, recomputed nodes and transferred bytes follow from the models and the plan.",
        "`nodes_after` counts anchors twice",
    ),
    entry(
        Kind::Baseline,
        "E0564",
        "baseline",
        "the baseline is wrong",
        "`baseline.file_order_peak` is the peak of the input model in file order, with views aliased and nothing in place.",
        "a baseline inflated to make the plan look better",
    ),
    entry(
        Kind::State,
        "E0565",
        "state",
        "state and its new value cannot share storage",
        "A row of `state` names a graph input of class `state` and a graph output of equal type, both held by the caller; no node reads the \
         old value after the new one is written, and the node that writes the new value reads the old one only element by element.",
        "a weight that the backward pass reads after its update",
    ),
    entry(
        Kind::Fetch,
        "E0566",
        "fetch",
        "a row of fetched constants is wrong",
        "A row of `fetches` names an Identity that copies a constant over a link to a place in the near space, a Slice that copies the stated \
         part, or a Gather that copies the stated number of rows; only these nodes read fetched constants, and the arena with all constants that are not fetched keeps the budget and capacity of that space.",
        "a weight in flash that a Conv reads directly",
    ),
    entry(
        Kind::Unbound,
        "E0567",
        "unbound-input",
        "an input or result stays symbolic, although the plan bound it",
        "The plan holds only for the extents in `model.dims`. The inputs of the output model must state these extents, so that a runtime rejects \
         others: with others the model may give wrong results without an error. Outputs and `value_info` must state them too.",
        "`model.dims` binds `batch` to 4, and an input of the output model is float[batch,3]",
    ),
    entry(
        Kind::Stated,
        "E0568",
        "stated",
        "a row of stated sizes is wrong, or one is missing",
        "`stated` lists each tensor whose size only the file or the user states, once. For a value that both models have, the input model decides \
            whether its size follows from operators and inputs.",
        "NonZero with a stated shape, and no row in `stated`",
    ),
    entry(
        Kind::Encoding,
        "E0569",
        "encoding",
        "a row of encoded values is wrong",
        "A row of `encodings` names the wide tensor, the tensors of its code, and the decoded tensor. The code follows from the wide tensor and \
         constants alone, the decoded tensor from the code and constants alone, by nodes that may run again, and it has the type of the wide one. \
         A row of form `inverse` has no code, and states an error if it is not exact.",
        "a code that no node reads",
    ),
    entry(
        Kind::EncodingUnproven,
        "E0570",
        "encoding-unproven",
        "a decoded value is not provably equal to the encoded one",
        "A row with `exact` is proven by types, ranges and constants: casts to a type that holds the whole range, bits of a boolean tensor, or \
         low bytes of positions of a MaxPool relative to their windows. A row of form `inverse` is proven by the node whose result gives the \
         value back: exactly by negations, transpositions, and sums and differences of integers; rounded by those of numbers, and by products with \
         powers of two, with the error that the check measures.",
        "bits packed with the weight 3 in place of 4",
    ),
    entry(
        Kind::EncodingLossy,
        "E0571",
        "encoding-lossy",
        "a value is rounded without permission",
        "Rows without `exact` round values to `f16`, `bf16` or `int8`, or compute them back by an `inverse`. The option `lossy` of the layout must name the form, and `exact` must not \
         be set.",
        "a row with the form `int8`, and `lossy` names `f16` alone",
    ),
    entry(
        Kind::EncodingEarly,
        "E0572",
        "encoding-early",
        "an early reader reads a rounded value",
        "The wide value is encoded after its early readers. In the order of the input model, no reader of the decoded value precedes the last \
         reader of the wide value before the encoding. Recomputed copies and views do not count.",
        "the node that computes the loss reads an activation that was rounded for the backward pass",
    ),
    entry(
        Kind::EncodedWeight,
        "E0573",
        "encoded-weight",
        "a row of encoded weights is wrong, or one is missing",
        "Each row of `encoded_weights` names constants of the output model with codes and scales, and the matrix of the input model that they \
         stand for, with its exact errors. Only plans with the option `encode_weights` have rows, and codes without a row come from the input model.",
        "a relative error of 0.001 stated for codes that err by 0.008",
    ),
    entry(
        Kind::Extents,
        "E0574",
        "extents",
        "a range, limit or equation of dimensions is not possible",
        "`model.ranges` states smallest and largest extents that are a whole number of steps apart, for dimensions that `model.dims` does not \
         bind. `model.limits` and `model.equal` have expressions over dimensions.",
        "a range from 9 to 3",
    ),
    entry(
        Kind::Cache,
        "E0575",
        "cache",
        "a row of caches is wrong",
        "Each row of `caches` names a graph input and a graph output. In the input model, the output is Concat of the input and new rows along the \
         axis, and has the capacity. In the output model, both have the type of the input model's output. `rows_expr` is at most `rows`.",
        "a capacity of 1024 for a cache that has 1023 rows after a run",
    ),
    entry(
        Kind::CachePlace,
        "E0576",
        "cache-place",
        "new rows are not written after the valid rows",
        "The output model computes the output of a cache with ScatterND or TensorScatter, which replaces rows of the buffer. The first of them is \
         the number of valid rows: a graph input that the input model does not have, a 64-bit integer without axes.",
        "indices that write the new row at row 0",
    ),
    entry(
        Kind::CacheTwice,
        "E0577",
        "cache-twice",
        "a cache is kept twice",
        "The buffer is written in place: a row of `state` gives the output the storage of the input.",
        "a row of `caches` without its row of `state`",
    ),
    entry(
        Kind::FarCompute,
        "E0578",
        "far-compute",
        "a node computes in a space that it cannot access",
        "Nodes other than transfers compute in the first space of the target, and in those that state a rate of `access`. Workspace lies in the \
         first space.",
        "an Add whose operands and results all lie in `host`",
    ),
    entry(
        Kind::Access,
        "E0579",
        "access",
        "a rate of access is wrong",
        "`access` of a space is a number of bytes per second above 0. The first space has none: its rate is that of the machine.",
        "an `access` of 0",
    ),
    entry(
        Kind::Expression,
        "E0580",
        "expression",
        "an expression over free dimensions is wrong or missing",
        "A tensor whose shape depends on free dimensions states it in `shape_expr`, and its size in `bytes_expr`, in the canonical text of the \
         expressions that follow from the output model. A workspace has equal expressions in both, or \
         neither. Other tensors have neither.",
        "`bytes_expr` is 4*seq for float[seq,2]",
    ),
    entry(
        Kind::UpperBound,
        "E0581",
        "upper-bound",
        "an extent or a size can exceed its upper bound",
        "For all extents in `model.ranges` that keep `model.limits`, each extent is at most that in `shape`, and the size at most `bytes`. The \
         check proves this by intervals.",
        "`bytes` of 4,096 for float[seq,2] with seq from 1 to 513",
    ),
    entry(
        Kind::Formula,
        "E0582",
        "formula",
        "offsets that follow the extents are wrong",
        "Rows of `formula` name owners of bytes, each on tensors of earlier rows, and a chain of rows connects tensors that are live at one step; at \
         the largest extents all fit the arena. Offsets of `layouts` are aligned, inside the arena, and apart, for all extents up to `dims`.",
        "two tensors at step 7 without a chain of rows between them",
    ),
    entry(
        Kind::Rewrite,
        "E0583",
        "rewrite",
        "a rewritten fragment is not described",
        "Rows of `rewrites` are numbered from 1, name at least one rule, and name pairs of values: one of the input model, one of the output \
         model, with one type.",
        "`written` is no value of the output model",
    ),
    entry(
        Kind::Kernel,
        "E0584",
        "kernel-workspace",
        "a kernel has less workspace than it takes",
        "The rows `scratch:<node>:<k>` of a node have at least the bytes that the runtime's kernel takes for extents and attributes of the node. \
         The check has formulas of its own for convolutions, recurrent layers and other common kernels, and lower bounds for bodies.",
        "1 byte for a Conv whose columns take 65,536 bytes",
    ),
    entry(
        Kind::AddedOutput,
        "E0585",
        "added-output",
        "the nodes of an added output do not fit the input model",
        "A transform may add outputs. `added_outputs` states the nodes that compute each of them from values of the input model; the input model, \
         extended by these nodes, must be a model, and have the outputs of the output model.",
        "a node of `added_outputs` that reads a value of nobody",
    ),
    entry(
        Kind::Empty,
        "E0586",
        "empty-part",
        "a kernel may run on nothing, and is not known to take that",
        "In a plan for ranges, parts have no positions where an axis is shorter than the number of parts. Every node that the plan made must \
         have a kernel that takes operands without elements. The check has a list of its own.",
        "GroupNormalization of a part of a batch that begins at one image",
    ),
    entry(
        Kind::LastRow,
        "E0587",
        "last-row",
        "the input model has no last row of an output",
        "A row of `last_rows` states that the output model has only the last position of an output along an axis. The output is one of the input \
         model, a node computes it, it has the axis, and `whole` is a new name; then the outputs of both models must be equal from the cut on.",
        "a row of `last_rows` that names an output of nobody",
    ),
];
