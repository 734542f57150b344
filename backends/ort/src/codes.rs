//! Codes E07xx: errors in running plans and models, each with the page that `memc explain` prints.

use memc_ir::codes::{CodeInfo, Fault};

use crate::error::Error;
use crate::library::HOW_TO_GET;

const NAMES_THE_RULE: &str =
    "`memc check` names the rule that the layout breaks; if memc wrote the layout, report it";

/// All codes of this crate, in ascending order.
pub const ALL: &[CodeInfo] = &[
    CodeInfo {
        code: "E0701",
        title: "no ONNX Runtime library",
        fault: Fault::System,
        meaning: "Plans are played on ONNX Runtime's kernels. memc looked for its library at `--ort-lib`, in ORT_DYLIB_PATH, beside itself and in the Python \
            wheel; it was not found, cannot be loaded, or is older than 1.17.",
        example: "memc run out.onnx --layout out.layout.json, without the Python package onnxruntime",
        action: "Run `pip install onnxruntime`, or name a library with `--ort-lib`.",
    },
    CodeInfo {
        code: "E0702",
        title: "the runtime refused",
        fault: Fault::Model,
        meaning: "ONNX Runtime refused to load the model, or a kernel failed. The message is the runtime's own.",
        example: "step 12, node \"gather\" (Gather): indices element out of data bounds",
        action: "Run the input model in ONNX Runtime itself, on equal data: an error there causes this error. Give fitting data with `--inputs`.",
    },
    CodeInfo {
        code: "E0703",
        title: "the library lacks kernels",
        fault: Fault::System,
        meaning: "The model uses operators that this build of ONNX Runtime does not have. It can be planned and checked, but not run here.",
        example: "com.microsoft::ReluGrad, which only a training build has",
        action: "Name a build that has these operators with `--ort-lib`.",
    },
    CodeInfo {
        code: "E0704",
        title: "the layout does not fit the model",
        fault: Fault::File,
        meaning: "The layout was made for another model, contradicts itself, or needs a feature that the player does not have.",
        example: "a layout beside a model that was planned again",
        action: "Plan again, and keep the two files together. `memc check` lists all violations.",
    },
    CodeInfo {
        code: "E0705",
        title: "weights are missing",
        fault: Fault::Model,
        meaning: "An initializer's external file is absent or too short, or its data contradicts its shape.",
        example: "out.onnx copied without model.weights",
        action: "Put the weight files beside the model, with the names that it states.",
    },
    CodeInfo {
        code: "E0706",
        title: "an input does not fit the plan",
        fault: Fault::Request,
        meaning: "A graph input is not given, has another type or shape than in the plan, has a type without random numbers, or is not a tensor \
            of numbers; or the input model rejects the values.",
        example: "x is float[1, 3, 224, 224] in the plan, but float[1, 3, 192, 192] was given",
        action: "Give arrays of the planned types and shapes with `--inputs`, written with numpy.savez. Models that take strings, sequences, \
            maps or optionals are not run here: `memc check` verifies their plans from the files.",
    },
    CodeInfo {
        code: "E0707",
        title: "the machine has too little memory",
        fault: Fault::System,
        meaning: "Weights, arena and activations exceed the free memory.",
        example: "a model with 30 GB of weights on a machine with 16 GB",
        action: "Run it on a larger machine. `memc check` verifies the plan without running it.",
    },
    CodeInfo {
        code: "E0708",
        title: "the plan overwrites a live value",
        fault: Fault::File,
        meaning: "During the run, a value changed between its producer and its reader, or a kernel wrote outside its results.",
        example: "tensor `a` is overwritten while it is live: step 7 (\"add\") writes there; step 9 (\"mul\") needs it",
        action: "`memc check` on these files names the rule that the layout breaks. If memc wrote the layout, report it.",
    },
    CodeInfo {
        code: "E0709",
        title: "results differ",
        fault: Fault::Memc,
        meaning: "The written model or the plan gives other outputs than the input model, beyond the tolerance. Both run in sessions that \
            round every value to the type that the model states. Differences of at most four times those of the input model from itself, \
            with other fusions, rows run one at a time or weights one rounding off, are printed and allowed: its result is known no better.",
        example: "the plan, round 0: `y`: 3 of 10 elements differ, by at most 1e-7",
        action: "Random numbers in the model or its kernels may be the cause. Otherwise report it.",
    },
    CodeInfo {
        code: "E0710",
        title: "a file of arrays cannot be read",
        fault: Fault::File,
        meaning: "The file given with `--inputs` is neither an archive of NumPy arrays nor one array, or it holds types that kernels do not \
            accept.",
        example: "an archive of numpy.savez with an array of objects",
        action: "Write it with numpy.savez, numpy.savez_compressed, or, for one input, numpy.save.",
    },
    CodeInfo {
        code: "E0711",
        title: "a transfer failed",
        fault: Fault::System,
        meaning: "A tensor could not be moved between two spaces: the file behind a space cannot be written or read, or the disk is full. The \
            file is removed; nothing else was written.",
        example: "tensor `relu_3` cannot be moved from `device` to `disk`: No space left on device",
        action: "Name a folder with more free space with `--swap-dir`, or plan with a smaller budget for that space.",
    },
    CodeInfo {
        code: "E0712",
        title: "the data gives another size than the file states",
        fault: Fault::Model,
        meaning: "The size of a value depends on data (NonZero, Range, Resize and others), and the file states one size for it. The plan and its \
            rewrites rely on that size, but the data of this run gives another. ONNX Runtime by itself runs the model: it allocates at run time.",
        example: "step 0, node \"nz\" (NonZero): the file states [2, 2] for `y`, but this data gives [2, 12]",
        action: "Give data of the stated size with `--inputs`. Or remove the stated shape from the model's value_info and outputs, and plan again: \
            the value is then listed as one of unknown size, and lies outside the arena.",
    },
    CodeInfo {
        code: "E0713",
        title: "nothing was compared",
        fault: Fault::Request,
        meaning: "The model has no output whose elements the runtime returns, so no result shows that the written model equals the input model.",
        example: "a model whose only output is a sparse tensor",
        action: "Make the values to compare graph outputs, as arrays, and verify again. `memc check` verifies the plan from the files.",
    },
    CodeInfo {
        code: "E0714",
        title: "rounded values change the results too much",
        fault: Fault::Request,
        meaning: "The plan keeps values in fewer bits between two uses (`--lossy`), or weights in few bits (`--encode-weights`). \
            Over all outputs together, the norm of the difference from the input model's outputs, as a share of their norm, exceeds the bound. The lines before it name the outputs with the largest errors.",
        example: "relative error 2.4e-2 over all outputs, at most 1e-2 is allowed",
        action: "Allow more with `--lossy-bound`, or plan without rounded values, or with more bits for each. Compare on real inputs: \
            `--inputs IN.npz`. Gradients that are zero in theory have large relative errors of their own, which matter little: judge by all outputs together.",
    },
    CodeInfo {
        code: "E0715",
        title: "extents outside the ranges of the plan",
        fault: Fault::Request,
        meaning: "The plan holds for the extents in `model.ranges` of the layout that keep `model.limits`. The inputs, `--dim` or `--at` give others, \
            or leave an extent open. Nothing was run.",
        example: "seq is 600 in the inputs, and the plan is for seq=1..512",
        action: "Give inputs of planned extents, or plan again for wider ranges: `--dim seq=1..1024`.",
    },
    CodeInfo {
        code: "E0716",
        title: "the program of a manifest cannot be played",
        fault: Fault::File,
        meaning: "`memc run MANIFEST.json` plays the events of each device in order. A device waits for a message that no other device sends, \
            or an event names a value that is not held at that point.",
        example: "a manifest in which a `send` was removed",
        action: "Check the manifest with `memc check IN.onnx MANIFEST.json`, or divide the model again with `memc split`.",
    },
    CodeInfo {
        code: "E0717",
        title: "a joint file cannot be played",
        fault: Fault::File,
        meaning: "`memc run --joint` plays the members of a joint file in its arenas. The file does not state the place of a member, no \
            admission covers the boundary at which a guest is to run, or members that run at once wait for each other.",
        example: "a joint file in which an offset was removed",
        action: "Check the file with `memc check --joint JOINT.json`, or write it again with `memc share`.",
    },
    CodeInfo {
        code: "W0701",
        title: "sessions with default options differ",
        fault: Fault::Nobody,
        meaning: "In ONNX Runtime sessions with default options the written model gives other results than the input model, beyond the tolerance, \
            but both agree if every value is rounded to the type that the model states. Default sessions fuse nodes, compute float16 sums in \
            float32, and round only when a node reads a float16 value: splitting or replacing nodes changes which values are rounded and fused.",
        example: "`y`: 1024 of 2048 elements differ, by at most 1.4e-2, if a float16 sum is sliced before it is normalized",
        action: "Decide if the model tolerates the difference: roundings of float16 are about 1e-3 of a number. `memc optimize --exact` changes \
            fewer roundings; without `--budget` and `--slowdown` no region is split into parts. Models in float32 differ only by fusions.",
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
            Self::Alignment { .. } | Self::Engines { .. } | Self::Unsupported { .. } => "E0704",
            Self::Weights { .. } | Self::Initializer { .. } => "E0705",
            Self::Input { .. } | Self::Given { .. } | Self::NoArray { .. } => "E0706",
            Self::Extent { .. } => "E0715",
            Self::At { error, .. } => error.code(),
            Self::NoMemory { .. } | Self::TooLarge { .. } => "E0707",
            Self::Clobbered { .. } | Self::Guard { .. } | Self::ArenaGuard { .. } => "E0708",
            Self::WorkspaceKept { .. } | Self::NoValue { .. } => "E0708",
            Self::NotHeld { .. } | Self::Unequal { .. } | Self::Waits { .. } => "E0716",
            Self::NoPlace { .. } | Self::NotAdmitted { .. } | Self::Stuck { .. } => "E0717",
            Self::ArrayFile { .. } => "E0710",
            Self::Transfer { .. } | Self::NoThread { .. } => "E0711",
            Self::File { what: "read", .. } => "E0116",
            Self::File { .. } => "E0401",
        }
    }

    /// Returns the error without the extents at which it occurred.
    pub(crate) fn inner(&self) -> &Self {
        match self {
            Self::At { error, .. } => error.inner(),
            error => error,
        }
    }

    /// Returns advice on the next step.
    pub fn help(&self) -> &'static str {
        match self {
            Self::NoLibrary { .. } | Self::Library { .. } => HOW_TO_GET,
            Self::Runtime { .. } | Self::Kernel { .. } => {
                "run the input model in ONNX Runtime itself: an error there causes this error; give fitting data with `--inputs`"
            }
            Self::MissingKernels { .. } => {
                "name a build that has them with `--ort-lib`; `memc check` verifies the plan without running it"
            }
            Self::Claimed { .. } => {
                "give data of the stated size with `--inputs`; or remove the stated shape of this value from the model and plan again: its size \
                 is then unknown, and it lies outside the arena"
            }
            Self::OtherModel { .. } => "give the layout that was written with this model, or plan again",
            Self::Schedule { .. }
            | Self::Tensor { .. }
            | Self::Alignment { .. }
            | Self::Engines { .. }
            | Self::Unsupported { .. } => "plan again; `memc check` lists all violations",
            Self::Weights { .. } => "put the weight files beside the model, with the names that it states",
            Self::Initializer { .. } => "the model is damaged: export it again",
            Self::Input { .. } | Self::Given { .. } => {
                "give arrays of the planned types and shapes with `--inputs`, written with numpy.savez"
            }
            Self::Extent { .. } => {
                "give extents of the plan's ranges, or plan again for wider ranges with `--dim`"
            }
            Self::At { error, .. } => error.help(),
            Self::NoArray { .. } => "`memc check` verifies the plan without running it",
            Self::NoMemory { .. } | Self::TooLarge { .. } => {
                "run it on a larger machine; `memc check` verifies the plan without running it"
            }
            Self::Clobbered { .. } | Self::Guard { .. } | Self::ArenaGuard { .. } => NAMES_THE_RULE,
            Self::WorkspaceKept { .. } | Self::NoValue { .. } => NAMES_THE_RULE,
            Self::NotHeld { .. } | Self::Unequal { .. } | Self::Waits { .. } => {
                "`memc check IN.onnx MANIFEST.json` names the rule that the manifest breaks"
            }
            Self::NoPlace { .. } | Self::NotAdmitted { .. } | Self::Stuck { .. } => {
                "`memc check --joint JOINT.json` names the rule that the joint file breaks"
            }
            Self::ArrayFile { .. } => {
                "write arrays of numbers with the names of the graph inputs: numpy.savez(path, x=x.astype('float32'))"
            }
            Self::Transfer { .. } | Self::NoThread { .. } => {
                "name a folder with more free space with `--swap-dir`, or plan with a smaller budget for that space"
            }
            Self::File { what: "read", .. } => "check the path and its permissions",
            Self::File { .. } => {
                "check the folder and its permissions; `--swap-dir` names another folder for spaces on a disk"
            }
        }
    }
}
