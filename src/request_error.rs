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
    #[error("`--exact` excludes `--micro-batches {parts}`: sums over parts are added in another order, so last bits differ")]
    ExactBatch {
        /// The requested number of parts.
        parts: u64,
    },
    /// Weights in few bits with all bits kept.
    #[error("`--exact` excludes `--encode-weights {code}`: weights in few bits change all results")]
    ExactWeights {
        /// Name of the requested code.
        code: &'static str,
    },
    /// An error bound that no result can be compared with.
    #[error("`--lossy-bound {share}` is no share: it must be a finite number above 0")]
    LossyBound {
        /// The requested bound, as text.
        share: String,
    },
    /// Blocks of channels for a runtime without kernels for them.
    #[error("`--nchwc` makes operators that only ONNX Runtime has kernels for")]
    BlocksWithoutKernels,
    /// No link leads from the space of the weights to the first space.
    #[error("the target has no link from a space named `{space}` to its first space")]
    NoLink {
        /// The space.
        space: String,
    },
    /// A link cannot be added to the target.
    #[error(transparent)]
    Link(#[from] LinkError),
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
            Self::LossyBound { .. } => "use a share: `--lossy-bound 0.01`".to_owned(),
            Self::ExactBatch { .. } | Self::ExactWeights { .. } => "leave out one of both".to_owned(),
            Self::BlocksWithoutKernels => "add `--runtime ort` or `--runtime player`".to_owned(),
            Self::NoLink { space } => format!("add a link with its rate: `--link {space}=16GB/s`"),
            Self::Link(_) => "name another space".to_owned(),
            Self::Extension { known, .. } => format!("use .{}", known.join(", .")),
        }
    }
}
