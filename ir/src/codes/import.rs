//! Codes of reading models: E01xx errors, W01xx warnings and remarks.

use super::{CodeInfo, Fault};

/// Errors of import.
pub(super) const ERRORS: &[CodeInfo] = &[
    CodeInfo {
        code: "E0101",
        title: "the file is empty",
        fault: Fault::Model,
        meaning: "The model file has no bytes at all, so there is nothing to read.",
        example: "memc optimize empty.onnx -o out.onnx",
        action: "Look whether the export or the download of the model was cut short.",
    },
    CodeInfo {
        code: "E0102",
        title: "the file is not an ONNX model",
        fault: Fault::Model,
        meaning: "The first bytes do not begin an encoded ModelProto. Text files, archives and models of other formats end \
            here.",
        example: "memc optimize README.md -o out.onnx",
        action: "Give an ONNX model in its binary form (.onnx), or a text form of memc (.mem).",
    },
    CodeInfo {
        code: "E0103",
        title: "the model's encoding is truncated or invalid",
        fault: Fault::Model,
        meaning: "A field of the encoded model says that it is longer than the bytes that are left, or has a tag that cannot \
            be. The message names the byte.",
        example: "head -c 1000 model.onnx > cut.onnx\nmemc report cut.onnx",
        action: "Fetch or export the model again. Files over 2 GiB must keep their weights in external files.",
    },
    CodeInfo {
        code: "E0104",
        title: "the model has no graph",
        fault: Fault::Model,
        meaning: "The file decodes, but its ModelProto has no graph, so nothing can be run.",
        example: "onnx.ModelProto(ir_version=10)",
        action: "Export the model again, and look whether only a header or a library of functions was saved.",
    },
    CodeInfo {
        code: "E0105",
        title: "an IR or operator set version that memc does not know",
        fault: Fault::Model,
        meaning: "The model states a version of ONNX's IR or of an operator set that is older or newer than what memc has \
            rules for.",
        example: "opset_import: [{domain: \"\", version: 99}]",
        action: "Convert the model with ONNX's version converter, or use a newer memc.",
    },
    CodeInfo {
        code: "E0106",
        title: "a graph is cyclic",
        fault: Fault::Model,
        meaning: "Some node waits, directly or over others, for its own result. No order of the nodes can run.",
        example: "a = Add(b, x)\nb = Relu(a)",
        action: "Find the node in the message and repair what produced the model; loops are written with the Loop operator.",
    },
    CodeInfo {
        code: "E0107",
        title: "a name is defined twice",
        fault: Fault::Model,
        meaning: "Two inputs, initializers or results of one graph have the same name, so that a reader of the name has no \
            single meaning.",
        example: "y = Relu(x)\ny = Tanh(x)",
        action: "Rename one of them in what produced the model.",
    },
    CodeInfo {
        code: "E0108",
        title: "a value is read that nothing defines",
        fault: Fault::Model,
        meaning: "A node or a result of the main graph names a value that is no input, no initializer and no result of a node.",
        example: "y = Add(x, missing)",
        action: "Look whether the model was cut out of a larger one without making this value an input.",
    },
    CodeInfo {
        code: "E0109",
        title: "a dimension is negative or absurd",
        fault: Fault::Model,
        meaning: "A dimension of an initializer is below zero, or a tensor would pass 2^62 bytes. In the stated type of an input \
            or a result a negative dimension means that it is not known, as it does for runtimes.",
        example: "weight float[-3, 4], or float[4611686018427387904, 4]",
        action: "Repair the stated shape.",
    },
    CodeInfo {
        code: "E0110",
        title: "external data lies outside the model's folder",
        fault: Fault::Model,
        meaning: "The location of an initializer's external data is absolute or climbs with `..`. memc never follows such a \
            path.",
        example: "location: \"../../secret.bin\"",
        action: "Move the data beside the model and state its path relative to it.",
    },
    CodeInfo {
        code: "E0111",
        title: "a body captures a value that does not exist",
        fault: Fault::Model,
        meaning: "A node in the body of If, Loop or Scan reads a name that neither the body nor a graph around it defines \
            before the node.",
        example: "If(cond) { then_branch: y = Relu(missing) }",
        action: "Define the value before the node that holds the body, or pass it as an input of the body.",
    },
    CodeInfo {
        code: "E0112",
        title: "bodies or functions nest too deep",
        fault: Fault::Model,
        meaning: "Bodies inside bodies, functions that call functions, or types inside types go deeper than memc follows. The \
            message names the limit.",
        example: "If in a Loop in an If … more than 64 levels",
        action: "Flatten the model. Models written by tools do not nest this deep.",
    },
    CodeInfo {
        code: "E0113",
        title: "an input or initializer has no name",
        fault: Fault::Model,
        meaning: "An input or an initializer of a graph has an empty name. ONNX tells values apart by their names, and an empty \
            one means that an operand is left out.",
        example: "onnx.ValueInfoProto() among the inputs of a graph",
        action: "Name it in what produced the model, or remove it.",
    },
    CodeInfo {
        code: "E0114",
        title: "a dimension is not bound",
        fault: Fault::Request,
        meaning: "A graph input has a symbolic dimension, and what was asked for needs sizes in bytes.",
        example: "input_ids: int64[batch, sequence], without --dim",
        action: "Bind it: `--dim batch=1 --dim sequence=128`; the message lists all unbound names. Or give real inputs, as numpy.savez \
            writes them: `--dim-from feed.npz`. Or plan only what has a size: `--allow-unbound`. A plan for bound dimensions is one for \
            these extents alone, and the inputs of the written model say so.",
    },
    CodeInfo {
        code: "E0115",
        title: "a model-local function is missing or calls itself",
        fault: Fault::Model,
        meaning: "A node calls a function that the model was expected to define, or functions call each other in a circle and \
            inlining would not end.",
        example: "function f(x) { y = f(x) }",
        action: "Add the function to the model or break the circle.",
    },
    CodeInfo {
        code: "E0116",
        title: "the file cannot be read",
        fault: Fault::System,
        meaning: "The operating system refused to open or read the file.",
        example: "memc report nowhere.onnx",
        action: "Check the path and the permissions; the message repeats what the system said.",
    },
    CodeInfo {
        code: "E0117",
        title: "nothing has a dimension of this name",
        fault: Fault::Request,
        meaning: "`--dim` names a symbol that neither a graph input has nor a value that the file states a shape of, so it \
            would bind nothing.",
        example: "memc report model.onnx --dim bathc=4",
        action: "Compare with the names in the message; they are the symbols that the model has.",
    },
    CodeInfo {
        code: "E0118",
        title: "the model is too large",
        fault: Fault::Model,
        meaning: "The model passes a limit that keeps memc safe against hostile files: nodes after inlining, values, or bytes \
            of one message.",
        example: "a function of 1000 calls to a function of 1000 calls to …",
        action: "Keep weights in external files, and do not nest functions that multiply.",
    },
    CodeInfo {
        code: "E0119",
        title: "the bytes of an initializer do not fit its type",
        fault: Fault::Model,
        meaning: "An initializer holds more or fewer bytes than its element type and dimensions take.",
        example: "float[4] with 12 bytes of raw_data",
        action: "Repair what wrote the initializer. Sub-byte types are packed and rounded up to whole bytes.",
    },
    CodeInfo {
        code: "E0120",
        title: "a layout file cannot be read",
        fault: Fault::File,
        meaning: "The file is no JSON, lacks a key that the schema demands, or has a major version that this memc does \
            not know.",
        example: "\"schema\": \"memc.layout/9\"",
        action: "Compare with `memc schema layout`, and look whether it is the layout and not the model.",
    },
    CodeInfo {
        code: "E0121",
        title: "the default of an input is of another type",
        fault: Fault::Model,
        meaning: "An initializer that has the name of an input is what the input is when the caller gives nothing. Its elements or \
            its extents are not those that the input states.",
        example: "x: float[4] among the inputs, x: int64[4] among the initializers",
        action: "Repair one of the two in what produced the model.",
    },
    CodeInfo {
        code: "E0122",
        title: "real inputs do not fit the model",
        fault: Fault::Request,
        meaning: "`--dim-from` reads the extents of real inputs. One of them is no input of the model, has other extents than the model \
            states, or binds a dimension that another input or `--dim` binds to another extent.",
        example: "ids: [2,16] and mask: [2,12], where the model states [batch,sequence] for both",
        action: "Give the inputs of one call, under the names that the model has for them.",
    },
    CodeInfo {
        code: "E0123",
        title: "bound dimensions contradict the model",
        fault: Fault::Request,
        meaning: "With the extents that dimensions were bound to, an operator does not fit its operands; without them it does. No runtime \
            would run the model with inputs of these extents.",
        example: "memc optimize model.onnx -o out.onnx --dim a=2 --dim b=3, where the model adds x: float[a] and y: float[b]",
        action: "Bind the dimensions that the message names to extents that fit, or take them from real inputs: `--dim-from feed.npz`.",
    },
    CodeInfo {
        code: "E0124",
        title: "the model has no outputs",
        fault: Fault::Model,
        meaning: "Whatever no graph output depends on is never needed, so nothing of this model is, and runtimes load no empty graph.",
        example: "graph { y = Relu(x) } without outputs",
        action: "Make the values that are wanted graph outputs. `memc print` shows what the model has.",
    },
    CodeInfo {
        code: "E0125",
        title: "the layout is of another model",
        fault: Fault::Request,
        meaning: "A layout names two models by their SHA-256: the one that was given and the one that was written. The file beside it is neither, so \
            what the layout says is not true of it.",
        example: "memc report other.onnx --layout out.layout.json",
        action: "Name the model that was planned, or the one that was written with this layout, or plan again. After any change to a model its \
            layout is out of date.",
    },
    CodeInfo {
        code: "E0126",
        title: "there is no value of this name to assume a size of",
        fault: Fault::Request,
        meaning: "`--assume` gives values of the main graph a size to plan with, and none has this name.",
        example: "memc optimize model.onnx --assume boxs=100 -o out.onnx",
        action: "Compare with the name in the message; the layout of a plan lists values without size under `unplanned`.",
    },
    CodeInfo {
        code: "E0127",
        title: "a value cannot have the size that is assumed",
        fault: Fault::Request,
        meaning: "The size that `--assume` gives contradicts what the model says of the value, or does not say all its extents.",
        example: "--assume boxes=7, where boxes is float[?,4]",
        action: "Give a number of elements that fits, or all extents: `--assume boxes=25x4`.",
    },
];

/// Warnings and remarks of import.
pub(super) const WARNINGS: &[CodeInfo] = &[
    CodeInfo {
        code: "W0101",
        title: "a stated type disagrees with what the operators imply",
        fault: Fault::Model,
        meaning: "The file states a type for a value, and inference derives another one. memc goes by inference.",
        example: "value_info y: float[2,4], but Relu(float[2,3]) gives float[2,3]",
        action: "Remove the stale value_info, for instance by running ONNX's shape inference anew.",
    },
    CodeInfo {
        code: "W0103",
        title: "a value has no known size",
        fault: Fault::Nobody,
        meaning: "Nobody can tell the size of this value before the model runs, so no arena can hold it. It is listed as \
            unplanned.",
        example: "NonZero(x), or a result of an unknown operator without a stated shape",
        action: "Bind all symbolic dimensions with `--dim`, or plan with a size that you expect: `--assume VALUE=N`.",
    },
    CodeInfo {
        code: "W0105",
        title: "inference could not type a node",
        fault: Fault::Model,
        meaning: "The rules for this operator refused its operands or attributes, so its results have the types that the file \
            states, or none.",
        example: "Conv with an attribute `strides` of three numbers on a two-dimensional input",
        action: "Look at the printed line; if the model runs elsewhere, report the rule.",
    },
    CodeInfo {
        code: "W0106",
        title: "a constant is defined twice",
        fault: Fault::Model,
        meaning: "Two initializers or Constant nodes of one graph have one name and equal elements. ONNX allows a name once; the first \
            definition is kept, and the written model has no other.",
        example: "two nodes Constant(value = 1) -> one",
        action: "Nothing needs to be done. Exporters that share constants between nodes write such models.",
    },
    CodeInfo {
        code: "W0107",
        title: "an option binds nothing",
        fault: Fault::Request,
        meaning: "`--dim ?=N` binds the dimensions of graph inputs that have no name, and there are none.",
        example: "--dim ?=1 for a model whose inputs are float[batch,3]",
        action: "Bind named dimensions by their names, or leave the option out.",
    },
];
