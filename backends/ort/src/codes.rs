//! Codes E07xx: errors in running plans and models, each with the page that `memc explain` prints.

use memc_ir::codes::{CodeInfo, Fault};

use crate::error::Error;
use crate::library::HOW_TO_GET;

const NAMES_THE_RULE: &str = "`memc check` names the rule that the layout breaks; if memc wrote the layout, report it";

/// All codes of this crate, in ascending order.
pub const ALL: &[CodeInfo] = &[
    CodeInfo {
        code: "E0701",
        title: "no ONNX Runtime library",
        fault: Fault::System,
        meaning: "Plans are played on ONNX Runtime's kernels. Its library was sought at --ort-lib, in ORT_DYLIB_PATH and in the Python wheel, and \
            is in none of them, or cannot be loaded, or is older than 1.17.",
        example: "memc run out.onnx --layout out.layout.json, where Python has no package onnxruntime",
        action: "`pip install onnxruntime`, or name a library with --ort-lib.",
    },
    CodeInfo {
        code: "E0702",
        title: "the runtime refused",
        fault: Fault::Model,
        meaning: "ONNX Runtime would not load the model, or a kernel failed. The message is the runtime's own.",
        example: "step 12, node \"gather\" (Gather): indices element out of data bounds",
        action: "Run the input model in ONNX Runtime itself, on the same data: what fails there fails here. Give fitting data with --inputs.",
    },
    CodeInfo {
        code: "E0703",
        title: "the library has no such kernel",
        fault: Fault::System,
        meaning: "The model uses operators that this build of ONNX Runtime does not have. It can be planned and checked, but not run here.",
        example: "com.microsoft::ReluGrad, which only a training build has",
        action: "Name a build that has them with --ort-lib.",
    },
    CodeInfo {
        code: "E0704",
        title: "the layout does not fit",
        fault: Fault::File,
        meaning: "The layout was made for another model, contradicts itself, or asks for something that the player does not have.",
        example: "a layout beside a model that was planned again",
        action: "Plan again, and keep the two files together. `memc check` says all that is wrong.",
    },
    CodeInfo {
        code: "E0705",
        title: "weights are missing",
        fault: Fault::Model,
        meaning: "An initializer's external file is absent or too short, or its data contradicts its shape.",
        example: "out.onnx copied without model.weights",
        action: "Put the weight files beside the model, under the names that it states.",
    },
    CodeInfo {
        code: "E0706",
        title: "an input does not fit",
        fault: Fault::Request,
        meaning: "A graph input is not given, has another type or shape than the plan, or cannot be made up from a seed, or is no tensor of \
            numbers; or the model as it was given refuses the values.",
        example: "x is float[1, 3, 224, 224] in the plan, and float[1, 3, 192, 192] was given",
        action: "Give arrays of the planned types and shapes with --inputs, written with numpy.savez. Models that take strings, sequences, \
            maps or optionals are not run here: `memc check` verifies their plans from the files.",
    },
    CodeInfo {
        code: "E0707",
        title: "the machine is too small",
        fault: Fault::System,
        meaning: "Weights, arena and activations do not fit the memory that is free.",
        example: "a model with 30 GB of weights on a machine with 16 GB",
        action: "Run it on a larger machine. `memc check` verifies the plan without running it.",
    },
    CodeInfo {
        code: "E0708",
        title: "the plan overwrites a live value",
        fault: Fault::File,
        meaning: "While the plan was played, a value changed between its producer and its reader, or a kernel wrote beside its results.",
        example: "tensor `a` is overwritten while it is live: step 7 (\"add\") writes there, found when step 9 (\"mul\") needs it",
        action: "`memc check` on the same files names the rule that the layout breaks. If memc wrote the layout, report it.",
    },
    CodeInfo {
        code: "E0709",
        title: "results differ",
        fault: Fault::Memc,
        meaning: "The written model or the plan gives other outputs than the given model, beyond the tolerance. Both are run in sessions that \
            round every value to the type that the model states.",
        example: "the plan, round 0: `y`: 3 of 10 elements differ, by at most 1e-7",
        action: "If the model draws random numbers or its kernels do, that may be why. Otherwise report it.",
    },
    CodeInfo {
        code: "E0710",
        title: "a file of arrays is not readable",
        fault: Fault::File,
        meaning: "The file given with --inputs is no archive of NumPy arrays, is compressed, or holds types that kernels do not take.",
        example: "an archive of numpy.savez_compressed",
        action: "Write it with numpy.savez.",
    },
    CodeInfo {
        code: "E0711",
        title: "a transfer failed",
        fault: Fault::System,
        meaning: "A tensor could not be moved between two spaces: the file behind a space cannot be written or read, or the disk is full. The \
            file is removed; nothing else was written.",
        example: "tensor `relu_3` cannot be moved from `device` to `disk`: No space left on device",
        action: "Name a folder with more room with --swap-dir, or plan with less in that space.",
    },
    CodeInfo {
        code: "E0712",
        title: "the data gives another size than the file claims",
        fault: Fault::Model,
        meaning: "The size of a value follows from data (NonZero, Range, Resize and others), the file states one size for it, and the plan has \
            room for that one; rewriting takes it for a fact. The data of this run gives another. ONNX Runtime by itself runs such a model: it allocates what it needs.",
        example: "step 0, node \"nz\" (NonZero): the file claims [2, 2] for `y`, and this data gives [2, 12]",
        action: "Give data of the stated size with --inputs. Or take the stated shape out of the model's value_info and outputs, and plan again: \
            the value is then listed as one without a size, and lies outside the arena.",
    },
    CodeInfo {
        code: "E0713",
        title: "nothing was compared",
        fault: Fault::Request,
        meaning: "The model has no output whose elements the runtime gives out, so no result says that the written model is equal to the \
            given one.",
        example: "a model whose only output is a sparse tensor",
        action: "Make values that say something outputs of the model, as arrays, and verify again. `memc check` verifies the plan from the files.",
    },
    CodeInfo {
        code: "W0701",
        title: "sessions with default options differ",
        fault: Fault::Nobody,
        meaning: "In ONNX Runtime sessions with default options the written model gives other results than the given one, beyond the tolerance, \
            though both are equal where every value is rounded to the type that the model states. Such sessions compute float16 sums in float32 \
            and round only where something really reads a float16 value, and they fuse nodes: a part that begins or ends between two nodes, or \
            a node that was replaced, changes what is rounded and what is fused.",
        example: "`y`: 1024 of 2048 elements differ, by at most 1.4e-2, where a float16 sum is sliced before it is normalized",
        action: "Ask whether the model can bear it: roundings of float16 are about 1e-3 of a number. `memc optimize --exact` changes fewer \
            roundings; without --budget and --slowdown nothing is computed in parts. Models in float32 differ by fusions only.",
    },
];

/// Returns the page of a code; `None` if this crate has no such code.
pub fn explain(code: &str) -> Option<&'static CodeInfo> {
    ALL.iter().find(|info| info.code.eq_ignore_ascii_case(code))
}

impl Error {
    /// Returns the stable code that `memc explain` knows.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoLibrary { .. } | Self::Library { .. } => "E0701",
            Self::Runtime { .. } | Self::Kernel { .. } => "E0702",
            Self::MissingKernels { .. } => "E0703",
            Self::Claimed { .. } => "E0712",
            Self::OtherModel { .. } | Self::Schedule { .. } | Self::Tensor { .. } => "E0704",
            Self::Alignment { .. } | Self::Unsupported { .. } => "E0704",
            Self::Weights { .. } | Self::Initializer { .. } => "E0705",
            Self::Input { .. } | Self::Given { .. } | Self::NoArray { .. } => "E0706",
            Self::NoMemory { .. } | Self::TooLarge { .. } => "E0707",
            Self::Clobbered { .. } | Self::Guard { .. } | Self::ArenaGuard { .. } => "E0708",
            Self::WorkspaceKept { .. } | Self::NoValue { .. } => "E0708",
            Self::ArrayFile { .. } => "E0710",
            Self::Transfer { .. } | Self::NoThread { .. } => "E0711",
            Self::File { what: "read", .. } => "E0116",
            Self::File { .. } => "E0401",
        }
    }

    /// Returns advice on the next step.
    pub fn help(&self) -> &'static str {
        match self {
            Self::NoLibrary { .. } | Self::Library { .. } => HOW_TO_GET,
            Self::Runtime { .. } | Self::Kernel { .. } => {
                "run the input model in ONNX Runtime itself: what fails there fails here; give fitting data with --inputs"
            }
            Self::MissingKernels { .. } => {
                "name a build that has them with --ort-lib; `memc check` verifies the plan without running it"
            }
            Self::Claimed { .. } => {
                "give data of that size with --inputs; or take the stated shape of this value out of the model and plan again: its size then \
                 counts as unknown, and it lies outside the arena"
            }
            Self::OtherModel { .. } => "give the layout that was written with this model, or plan again",
            Self::Schedule { .. } | Self::Tensor { .. } | Self::Alignment { .. } | Self::Unsupported { .. } => {
                "`memc check` says all that is wrong; plan again"
            }
            Self::Weights { .. } => "put the weight files beside the model, under the names that it states",
            Self::Initializer { .. } => "the model is damaged: export it again",
            Self::Input { .. } | Self::Given { .. } => {
                "give arrays of the planned types and shapes with --inputs, written with numpy.savez"
            }
            Self::NoArray { .. } => "`memc check` verifies the plan without running it",
            Self::NoMemory { .. } | Self::TooLarge { .. } => {
                "run it on a larger machine; `memc check` verifies the plan without running it"
            }
            Self::Clobbered { .. } | Self::Guard { .. } | Self::ArenaGuard { .. } => NAMES_THE_RULE,
            Self::WorkspaceKept { .. } | Self::NoValue { .. } => NAMES_THE_RULE,
            Self::ArrayFile { .. } => {
                "write it with numpy.savez, of arrays of numbers under the names of the graph inputs: numpy.savez(path, x=x.astype('float32'))"
            }
            Self::Transfer { .. } | Self::NoThread { .. } => {
                "name a folder with more room with --swap-dir, or plan with less in that space"
            }
            Self::File { what: "read", .. } => "check the path and its permissions",
            Self::File { .. } => "check the folder and its permissions; --swap-dir names another for spaces on a disk",
        }
    }
}
