//! Options of a request that exclude each other, or that name something that does not exist.

use std::path::PathBuf;

use crate::link::LinkError;

/// Rejects a request before its model is read.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// State shares storage, and the arena holds outputs.
    #[error("`--alias-state` and `--state` need outputs that the caller holds, which `--io` excludes")]
    StateInArena,
    /// A batch split into parts with all bits kept.
    #[error(
        "`--exact` excludes `--micro-batches {parts}`: sums over parts are added in another order, so last bits differ"
    )]
    ExactBatch {
        /// The requested number of parts.
        parts: u64,
    },
    /// Rounded values or weights with all bits kept.
    #[error("`--exact` excludes `{option}`: results would depend on rounded values")]
    ExactLossy {
        /// The option that rounds.
        option: String,
    },
    /// No engine, or too many.
    #[error("`--engines {engines}`: a plan has 1 to {most} engines")]
    EngineCount {
        /// The requested number.
        engines: u32,
        /// Largest number.
        most: u32,
    },
    /// An option that excludes several engines.
    #[error("`--engines {engines}` excludes `{option}`: {why}")]
    Engines {
        /// The requested number.
        engines: u32,
        /// The option.
        option: &'static str,
        /// The reason.
        why: &'static str,
    },
    /// Two limits of time.
    #[error("`--slo` and `--slowdown` both limit the time of a run")]
    TwoTimes,
    /// Blocks of channels for a runtime without kernels for them.
    #[error("`--nchwc` makes operators that only ONNX Runtime has kernels for")]
    BlocksWithoutKernels,
    /// Values in other spaces for a session on a device.
    #[error("`{option}` moves values between spaces, and a session on a CUDA device moves none")]
    MovesOfDevice {
        /// The option.
        option: &'static str,
    },
    /// Scratch of kernels for a runtime whose kernels memc knows.
    #[error(
        "`--scratch` states the workspace of a runtime's own kernels, and `--runtime {runtime}` runs those of ONNX Runtime"
    )]
    ScratchOfSession {
        /// The runtime.
        runtime: &'static str,
    },
    /// An alignment that is no power of two, or too large.
    #[error("{bytes} bytes are no alignment: it is a power of two of at most 1073741824")]
    Alignment {
        /// The alignment.
        bytes: u64,
    },
    /// No link leads from the space of the weights to the first space.
    #[error("the target has no link from a space named `{space}` to its first space")]
    NoLink {
        /// The space.
        space: String,
    },
    /// A link cannot be added to the target.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The file of weights would replace a file that is read or written otherwise.
    #[error("`--external-data` would replace {}, which is the written model or a file of the given one", path.display())]
    WeightsOverwritten {
        /// The file.
        path: PathBuf,
    },
    /// The product of the lists of extents is too large.
    #[error("the lists of extents make {count} layouts; a layout file has at most {most}")]
    Buckets {
        /// Number of combinations.
        count: usize,
        /// Largest number.
        most: usize,
    },
    /// A list of extents for all dimensions without a name.
    #[error("`--dim ?=` takes no list of extents")]
    UnnamedBuckets,
    /// The extension of an output names no format.
    #[error("{}: the extension must name a format", path.display())]
    Extension {
        /// The output.
        path: PathBuf,
        /// Extensions that name a format.
        known: &'static [&'static str],
    },
}

impl RequestError {
    /// Advice on the next action.
    pub(crate) fn help(&self) -> String {
        match self {
            Self::StateInArena => "leave out `--io`, or use `--io external`".to_owned(),
            Self::ExactBatch { .. } | Self::ExactLossy { .. } | Self::TwoTimes => {
                "leave out one of both".to_owned()
            }
            Self::EngineCount { .. } => {
                "use `--engines 2`, or leave the option out for one engine".to_owned()
            }
            Self::Engines { option, .. } => format!("leave out `--engines`, or `{option}`"),
            Self::BlocksWithoutKernels => "add `--runtime ort` or `--runtime player`".to_owned(),
            Self::MovesOfDevice { option } => format!("leave out `{option}`, or `--runtime cuda`"),
            Self::ScratchOfSession { .. } => {
                "leave out `--runtime`; measured workspace of ONNX Runtime comes from `--profile`".to_owned()
            }
            Self::Alignment { .. } => "use `--align 16`, 32 or 64".to_owned(),
            Self::NoLink { space } => format!("add a link with its rate: `--link {space}=16GB/s`"),
            Self::WeightsOverwritten { .. } => "use another name for the file of weights".to_owned(),
            Self::Link(_) => "name another space".to_owned(),
            Self::Buckets { .. } => "shorten the lists, or give some dimensions a range".to_owned(),
            Self::UnnamedBuckets => {
                "name each dimension, as in `--dim INPUT.AXIS=128,256`, or give a range".to_owned()
            }
            Self::Extension { known, .. } => format!("use .{}", known.join(", .")),
        }
    }
}
