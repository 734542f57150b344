//! Codes of reading models: E01xx errors, W01xx warnings and remarks.

use super::{CodeInfo, Fault};

/// Errors of import.
pub(super) const ERRORS: &[CodeInfo] = &[
    CodeInfo {
        code: "E0101",
        title: "the file is empty",
        fault: Fault::Model,
        meaning: "The model file has no bytes.",
        example: "memc optimize empty.onnx -o out.onnx",
        action: "Check if the export or the download of the model was interrupted.",
    },
    CodeInfo {
        code: "E0102",
        title: "the file is not an ONNX model",
        fault: Fault::Model,
        meaning: "The first bytes are not the start of an encoded ModelProto. Text files, archives and models of other formats \
            give this error.",
        example: "memc optimize README.md -o out.onnx",
        action: "Give an ONNX model in its binary form (.onnx), or a text form of memc (.mem).",
    },
    CodeInfo {
        code: "E0103",
        title: "the model's encoding is truncated or invalid",
        fault: Fault::Model,
        meaning: "A field of the encoded model states more bytes than the file has left, or has an invalid tag. The message \
            names the byte.",
        example: "head -c 1000 model.onnx > cut.onnx\nmemc report cut.onnx",
        action: "Fetch or export the model again. Files over 2 GiB must keep their weights in external files.",
    },
    CodeInfo {
        code: "E0104",
        title: "the model has no graph",
        fault: Fault::Model,
        meaning: "The file decodes, but its ModelProto has no graph to run.",
        example: "onnx.ModelProto(ir_version=10)",
        action: "Export the model again, and check if only a header or a library of functions was saved.",
    },
    CodeInfo {
        code: "E0105",
        title: "an IR or operator set version that memc does not know",
        fault: Fault::Model,
        meaning: "The model states a version of ONNX's IR or of an operator set that is older or newer than the versions that \
            memc knows.",
        example: "opset_import: [{domain: \"\", version: 99}]",
        action: "Convert the model with ONNX's version converter, or use a newer memc.",
    },
    CodeInfo {
        code: "E0106",
        title: "a graph is cyclic",
        fault: Fault::Model,
        meaning: "A node depends on its own result, directly or through other nodes. No order of the nodes can run.",
        example: "a = Add(b, x)\nb = Relu(a)",
        action: "Find the node in the message and repair the exporter; ONNX expresses loops with the Loop operator.",
    },
    CodeInfo {
        code: "E0107",
        title: "a name is defined twice",
        fault: Fault::Model,
        meaning: "Two inputs, initializers or results of one graph share a name, so a node that reads the name is ambiguous.",
        example: "y = Relu(x)\ny = Tanh(x)",
        action: "Rename one of them in the exporter.",
    },
    CodeInfo {
        code: "E0108",
        title: "a node reads an undefined value",
        fault: Fault::Model,
        meaning: "A node or a result of the main graph names a value that is not an input, an initializer or a result of a node.",
        example: "y = Add(x, missing)",
        action: "Check if the model was cut out of a larger one; the value must then become a graph input.",
    },
    CodeInfo {
        code: "E0109",
        title: "a dimension is negative or too large",
        fault: Fault::Model,
        meaning: "A dimension of an initializer is below zero, or a tensor would exceed 2^62 bytes. In the stated type of an input \
            or a result, a negative dimension means unknown, as it does for runtimes.",
        example: "weight float[-3, 4], or float[4611686018427387904, 4]",
        action: "Repair the stated shape.",
    },
    CodeInfo {
        code: "E0110",
        title: "external data lies outside the model's folder",
        fault: Fault::Model,
        meaning: "The location of an initializer's external data is an absolute path or contains `..`. memc does not follow these \
            paths.",
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
        meaning: "Bodies inside bodies, functions that call functions, or types inside types nest deeper than memc supports. The \
            message names the limit.",
        example: "If in a Loop in an If … more than 64 levels",
        action: "Flatten the model. Models written by tools do not nest this deep.",
    },
    CodeInfo {
        code: "E0113",
        title: "an input or initializer has no name",
        fault: Fault::Model,
        meaning: "An input or an initializer of a graph has an empty name. ONNX identifies values by name, and an empty name means \
            an omitted operand.",
        example: "onnx.ValueInfoProto() among the inputs of a graph",
        action: "Give it a name in the exporter, or remove it.",
    },
    CodeInfo {
        code: "E0114",
        title: "a dimension is not bound",
        fault: Fault::Request,
        meaning: "A graph input has a symbolic dimension, and planning needs sizes in bytes.",
        example: "input_ids: int64[batch, sequence], without --dim",
        action: "Bind it: `--dim batch=1 --dim sequence=128`; the message lists all unbound names. Or give real inputs, as numpy.savez \
            writes them: `--dim-from feed.npz`. Or plan only tensors with a known size: `--allow-unbound`. A plan holds only for the \
            extents that were bound, and the inputs of the written model state these extents.",
    },
    CodeInfo {
        code: "E0115",
        title: "a model-local function is missing or calls itself",
        fault: Fault::Model,
        meaning: "A node calls a function that the model does not define, or functions call each other in a cycle, so that \
            inlining would not end.",
        example: "function f(x) { y = f(x) }",
        action: "Add the function to the model or break the cycle.",
    },
    CodeInfo {
        code: "E0116",
        title: "the file cannot be read",
        fault: Fault::System,
        meaning: "The operating system refused to open or read the file.",
        example: "memc report nowhere.onnx",
        action: "Check the path and the permissions; the message includes the system's error.",
    },
    CodeInfo {
        code: "E0117",
        title: "no tensor has a dimension of this name",
        fault: Fault::Request,
        meaning: "`--dim` names a symbol that occurs in no graph input and in no shape that the file states.",
        example: "memc report model.onnx --dim bathc=4",
        action: "Use one of the names in the message: they are the symbols of the model.",
    },
    CodeInfo {
        code: "E0118",
        title: "the model is too large",
        fault: Fault::Model,
        meaning: "The model exceeds a limit that protects memc against hostile files: nodes after inlining, values, or bytes \
            of one message.",
        example: "a function of 1000 calls to a function of 1000 calls to …",
        action: "Keep weights in external files, and avoid nested functions whose number of nodes multiplies.",
    },
    CodeInfo {
        code: "E0119",
        title: "the bytes of an initializer do not fit its type",
        fault: Fault::Model,
        meaning: "An initializer holds more or fewer bytes than its element type and dimensions take.",
        example: "float[4] with 12 bytes of raw_data",
        action: "Repair the exporter. Types below 8 bits are packed and rounded up to whole bytes.",
    },
    CodeInfo {
        code: "E0120",
        title: "a layout file cannot be read",
        fault: Fault::File,
        meaning: "The file is not JSON, lacks a required key, or has a major version that this memc does not know.",
        example: "\"schema\": \"memc.layout/9\"",
        action: "Compare the file with `memc schema layout`, and check that it is the layout and not the model.",
    },
    CodeInfo {
        code: "E0121",
        title: "the default of an input has another type",
        fault: Fault::Model,
        meaning: "An initializer with the name of an input is the default of that input. Its element type or its extents differ \
            from those that the input states.",
        example: "x: float[4] among the inputs, x: int64[4] among the initializers",
        action: "Repair one of the two in the exporter.",
    },
    CodeInfo {
        code: "E0122",
        title: "real inputs do not fit the model",
        fault: Fault::Request,
        meaning: "`--dim-from` reads the extents of real inputs. One of the arrays is not an input of the model, has other extents than the \
            model states, or binds a dimension that another input or `--dim` binds to another extent.",
        example: "ids: [2,16] and mask: [2,12] for a model that states [batch,sequence] for both",
        action: "Give the inputs of one call, named as in the model.",
    },
    CodeInfo {
        code: "E0123",
        title: "bound dimensions contradict the model",
        fault: Fault::Request,
        meaning: "With the bound extents, an operator does not fit its operands; without them it does. No runtime \
            would run the model with inputs of these extents.",
        example: "memc optimize model.onnx -o out.onnx --dim a=2 --dim b=3, where the model adds x: float[a] and y: float[b]",
        action: "Bind the dimensions that the message names to extents that fit, or tie one to another, as with `--dim b=a`, or take them from real inputs: `--dim-from feed.npz`.",
    },
    CodeInfo {
        code: "E0124",
        title: "the model has no outputs",
        fault: Fault::Model,
        meaning: "Nodes that no graph output depends on are never needed. Without outputs no node is needed, and runtimes load no empty graph.",
        example: "graph { y = Relu(x) } without outputs",
        action: "Make the values that you need graph outputs. `memc print` shows the values of the model.",
    },
    CodeInfo {
        code: "E0125",
        title: "the layout is of another model",
        fault: Fault::Request,
        meaning: "A layout names two models by their SHA-256: the model that was planned and the model that was written. This file is neither, so \
            the layout does not hold for it.",
        example: "memc report other.onnx --layout out.layout.json",
        action: "Name the model that was planned or the model that was written with this layout, or plan again. After any change to a model its \
            layout is out of date.",
    },
    CodeInfo {
        code: "E0126",
        title: "no value has the name given to --assume",
        fault: Fault::Request,
        meaning: "`--assume` gives values of the main graph a size to plan with, but no value has this name.",
        example: "memc optimize model.onnx --assume boxs=100 -o out.onnx",
        action: "Use the name that the message suggests; the layout of a plan lists values without size under `unplanned`.",
    },
    CodeInfo {
        code: "E0127",
        title: "a value cannot have the assumed size",
        fault: Fault::Request,
        meaning: "The size given to `--assume` contradicts the type of the value, or does not determine all its extents.",
        example: "--assume boxes=7 for boxes: float[?,4]",
        action: "Give a number of elements that fits, or all extents: `--assume boxes=25x4`.",
    },
    CodeInfo {
        code: "E0128",
        title: "a bound dimension is outside its range",
        fault: Fault::Request,
        meaning: "The extent of a dimension is not one of the extents in the range that is given for it.",
        example: "`seq` bound to 5 with the range 32..960/32",
        action: "Bind the dimension to an extent of its range, or leave one of both out.",
    },
    CodeInfo {
        code: "E0129",
        title: "ranges of dimensions do not fit the model or each other",
        fault: Fault::Request,
        meaning: "For extents of the given ranges the model computes a negative extent or an impossible size; or \
                  no extents keep all limits; or an equation is for a dimension with a range, or names a \
                  dimension of another equation.",
        example: "`--dim seq=0..512` for a model that takes `seq-2` rows",
        action: "Change the ranges, limits or equations as the message says.",
    },
];

/// Warnings and remarks of import.
pub(super) const WARNINGS: &[CodeInfo] = &[
    CodeInfo {
        code: "W0101",
        title: "a stated type disagrees with the operators",
        fault: Fault::Model,
        meaning: "The file states a type for a value, and inference derives another one. memc uses the derived type.",
        example: "value_info y: float[2,4], but Relu(float[2,3]) gives float[2,3]",
        action: "Remove the outdated value_info, for instance by running ONNX's shape inference again.",
    },
    CodeInfo {
        code: "W0103",
        title: "a value has no known size",
        fault: Fault::Nobody,
        meaning: "The size of this value is unknown before the model runs, so no arena can hold it. The layout lists it under \
            `unplanned`.",
        example: "NonZero(x), or a result of an unknown operator without a stated shape",
        action: "Bind all symbolic dimensions with `--dim`, or plan with a size that you expect: `--assume VALUE=N`.",
    },
    CodeInfo {
        code: "W0105",
        title: "type inference failed for a node",
        fault: Fault::Model,
        meaning: "The rules for this operator reject its operands or attributes, so its results have the types that the file \
            states, or no type. The node is opaque then: it shares no bytes, and no pass changes it.",
        example: "Conv with an attribute `strides` of three numbers on a two-dimensional input",
        action: "Check the printed line; if the model runs in ONNX Runtime, report the rule.",
    },
    CodeInfo {
        code: "W0106",
        title: "a constant is defined twice",
        fault: Fault::Model,
        meaning: "Two initializers or Constant nodes of one graph have one name and equal elements. ONNX allows each name once; the written \
            model has only the first definition.",
        example: "two nodes Constant(value = 1) -> one",
        action: "No action is needed. Some exporters that share constants between nodes write models of this kind.",
    },
    CodeInfo {
        code: "W0107",
        title: "an option has no effect",
        fault: Fault::Request,
        meaning: "`--dim ?=N` binds the dimensions of graph inputs that have no name, and this model has none.",
        example: "--dim ?=1 for a model whose inputs are float[batch,3]",
        action: "Bind named dimensions by their names, or leave the option out.",
    },
    CodeInfo {
        code: "W0108",
        title: "two dimensions must be equal",
        fault: Fault::Request,
        meaning: "The inputs name two dimensions differently, but an operator does not accept different extents for them. The plan \
            does not use this fact.",
        example: "Add of `x: float[batch,8]` and `y: float[batch_size,8]` with neither extent 1",
        action: "Bind both dimensions to one extent, or give them one name in the exporter.",
    },
    CodeInfo {
        code: "W0109",
        title: "a dimension has no extent",
        fault: Fault::Nobody,
        meaning: "`--dim NAME=0` makes every tensor along this dimension empty. The plan is right for empty inputs, such as a cache before \
            the first run, and holds for no others.",
        example: "memc optimize model.onnx -o out.onnx --dim batch=0",
        action: "State the extent of real inputs (`--dim batch=8`), or a range that includes 0: `--dim past=0..1023`.",
    },
];
