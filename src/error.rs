//! What can go wrong in `optimize` and its relatives, with the exit code of each.

use std::path::PathBuf;

use memc_ir::{Bytes, Diagnostic, Severity};
use memc_onnx_export::ExportError;
use memc_onnx_import::ImportError;
use memc_onnx_proto::ReadError;
use memc_passes::PipelineError;

use crate::nearest::nearest;

/// Why a request could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The model is refused.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// A pipeline cannot run, or a pass failed.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// The result cannot be written as ONNX.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// A layout file cannot be read.
    #[error("{} is not a layout file", path.display())]
    Layout {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: memc_layout::ReadError,
    },
    /// A layout cannot be printed (a defect of memc).
    #[error("the layout cannot be written")]
    LayoutWrite(#[from] memc_layout::WriteError),
    /// The pipeline of the request does not end in a plan.
    #[error("the pipeline `{passes}` ends before `place`, so there is no layout to write")]
    Unplanned {
        /// The pipeline.
        passes: String,
    },
    /// No plan keeps the budget.
    #[error(
        "a limit of {} in {space} is too small for this pipeline: its plan needs {}{}",
        Bytes(*budget).exact(), Bytes(*arena).exact(), at_least(*bound)
    )]
    Budget {
        /// Space.
        space: String,
        /// What was asked.
        budget: u64,
        /// What the best plan needs.
        arena: u64,
        /// What every order of these nodes needs; 0 where that is not known.
        bound: u64,
        /// Where the peak is and who is alive there.
        notes: Vec<String>,
    },
    /// No plan keeps a limit of bytes and a limit of time together.
    #[error(
        "no plan was found that fits {limit} bytes and takes at most {} % more time: the fastest one that fits takes {} % more",
        percent(*slowdown),
        percent(*takes)
    )]
    Slow {
        /// Limit of the first space, in bytes.
        limit: u64,
        /// Time allowed beyond that of the model as it was given, in hundredths of a per cent.
        slowdown: u32,
        /// Time that the fastest plan within the bytes takes beyond it, in hundredths of a per cent.
        takes: u32,
        /// Bytes that this plan needs.
        needs: u64,
        /// Bytes that the smallest plan within the time needs.
        smallest: u64,
    },
    /// State shares storage, and the arena holds outputs.
    #[error("--alias-state and --state need outputs that the caller holds")]
    StateInArena,
    /// A batch split into parts with all bits kept.
    #[error("--exact excludes --micro-batches {parts}: sums over parts are added in another order, so last bits differ")]
    ExactBatch {
        /// The requested number of parts.
        parts: u64,
    },
    /// Blocks of channels for a runtime without kernels for them.
    #[error("--nchwc makes operators that only ONNX Runtime's kernels compute")]
    BlocksWithoutKernels,
    /// No link leads from the space of the weights to the first space.
    #[error("no link leads from a space named `{space}` to the first one")]
    NoLink {
        /// The space.
        space: String,
    },
    /// A link cannot be added to the target.
    #[error(transparent)]
    Link(#[from] crate::link::LinkError),
    /// The extension of an output names no format.
    #[error("{}: the extension says the format, and this one says none", path.display())]
    Extension {
        /// The output.
        path: PathBuf,
        /// Extensions that name a format.
        known: &'static [&'static str],
    },
    /// The budget names a space that the target does not have.
    #[error("the target has no space named `{space}`; it has {known}")]
    UnknownSpace {
        /// The name given.
        space: String,
        /// What there is.
        known: String,
    },
    /// A name that the model does not have.
    #[error("the graph has no {what} named `{name}`")]
    UnknownValue {
        /// `input` or `output`.
        what: &'static str,
        /// The name given.
        name: String,
        /// The name that was probably meant.
        nearest: Option<String>,
    },
    /// A pair of a new and an old value that cannot share storage.
    #[error("`--state {pair}`: {why}")]
    State {
        /// The pair, as it is written.
        pair: String,
        /// What is in the way.
        why: String,
    },
    /// Weights find no room where they lie.
    #[error("the weights need {}, and {place} has {}", Bytes(*weights).exact(), Bytes(*room).exact())]
    Weights {
        /// The space, or the spaces, with what else lies there.
        place: String,
        /// Bytes of all constants that lie there.
        weights: u64,
        /// Bytes that are free for them.
        room: u64,
    },
    /// A target file cannot be used.
    #[error("{} is no target description", path.display())]
    Target {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: memc_cost::TargetError,
    },
    /// A profile cannot be used.
    #[error("{} is no profile", path.display())]
    Profile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: memc_cost::timings::ProfileError,
    },
    /// The model has nothing to compute (the model's fault): runtimes load no graph without outputs.
    #[error("the graph `{graph}` has no outputs: nothing of it would be computed")]
    NoOutputs {
        /// Name of the graph.
        graph: String,
    },
    /// A file of weights is to be copied and does not exist.
    #[error("the model reads weights from `{name}`, and there is no {}", path.display())]
    WeightFile {
        /// The file as the model names it.
        name: String,
        /// Where it was sought.
        path: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("cannot {what} {}", path.display())]
    File {
        /// `read` or `write`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        Self::Import(error.into())
    }
}

impl Error {
    /// Exit code of the command: 1 bad model or file, 2 usage, 3 budget infeasible, 70 a defect of memc.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Import(
                ImportError::Unbound { .. }
                | ImportError::UnknownDimension { .. }
                | ImportError::FeedInput { .. }
                | ImportError::FeedExtents { .. }
                | ImportError::Conflict { .. }
                | ImportError::Contradiction { .. }
                | ImportError::UnknownAssumed { .. }
                | ImportError::Assumption { .. },
            ) => 2,
            Self::Pipeline(
                PipelineError::UnknownPass { .. }
                | PipelineError::Stage { .. }
                | PipelineError::Setting(_)
                | PipelineError::Unread { .. },
            ) => 2,
            Self::Pipeline(PipelineError::Pass(memc_passes::PassError::TooLarge { .. })) => 1,
            Self::Pipeline(PipelineError::Pass(memc_passes::PassError::Budget(_))) => 3,
            Self::UnknownSpace { .. }
            | Self::Unplanned { .. }
            | Self::UnknownValue { .. }
            | Self::State { .. }
            | Self::StateInArena
            | Self::ExactBatch { .. }
            | Self::BlocksWithoutKernels
            | Self::NoLink { .. }
            | Self::Link(_)
            | Self::Extension { .. } => 2,
            Self::Budget { .. } | Self::Slow { .. } | Self::Weights { .. } => 3,
            Self::Pipeline(_) | Self::LayoutWrite(_) => 70,
            Self::Import(_)
            | Self::Export(_)
            | Self::Layout { .. }
            | Self::Target { .. }
            | Self::Profile { .. }
            | Self::NoOutputs { .. }
            | Self::WeightFile { .. }
            | Self::File { .. } => 1,
        }
    }

    /// Smallest arena that was found, in bytes, if a budget is refused; `--budget` with this size is kept.
    pub fn smallest(&self) -> Option<u64> {
        match self {
            Self::Budget { arena, .. } => Some(*arena),
            Self::Slow { smallest, .. } => Some(*smallest),
            Self::Pipeline(PipelineError::Pass(memc_passes::PassError::Budget(short))) => Some(short.least.0),
            _ => None,
        }
    }

    /// Stable code, as `memc explain` knows it.
    fn code(&self) -> &'static str {
        match self {
            Self::Import(error) => error.code(),
            Self::Pipeline(
                PipelineError::UnknownPass { .. }
                | PipelineError::Stage { .. }
                | PipelineError::Setting(_)
                | PipelineError::Unread { .. },
            ) => "E0303",
            Self::Pipeline(PipelineError::Pass(memc_passes::PassError::TooLarge { .. })) => "E0302",
            Self::Pipeline(PipelineError::Pass(memc_passes::PassError::Budget(_))) => "E0301",
            Self::Pipeline(PipelineError::Pass(
                memc_passes::PassError::WrongAnswer { .. } | memc_passes::PassError::Rules { .. },
            ))
            | Self::LayoutWrite(_) => "E0904",
            Self::Pipeline(PipelineError::Broken { .. }) => "E0901",
            Self::Pipeline(PipelineError::Defect { error, .. }) => match **error {
                PipelineError::Broken { .. } => "E0901",
                _ => "E0904",
            },
            Self::Export(_) => "E0402",
            Self::Layout { .. } => "E0120",
            Self::Unplanned { .. } => "E0304",
            Self::Budget { .. } => "E0301",
            Self::Slow { .. } => "E0310",
            Self::UnknownSpace { .. } => "E0305",
            Self::UnknownValue { .. }
            | Self::State { .. }
            | Self::StateInArena
            | Self::ExactBatch { .. }
            | Self::BlocksWithoutKernels
            | Self::NoLink { .. }
            | Self::Link(_)
            | Self::Extension { .. } => "E0306",
            Self::Weights { .. } => "E0312",
            Self::Target { .. } => "E0308",
            Self::Profile { .. } => "E0309",
            Self::NoOutputs { .. } => "E0124",
            Self::WeightFile { .. } | Self::File { what: "read", .. } => "E0116",
            Self::File { .. } => "E0401",
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            Self::Budget { arena, .. } => {
                Some(format!("`--budget {arena}` is kept; a smaller one needs recomputation or transfers"))
            }
            Self::Slow { takes, smallest, .. } => {
                // Rounded up, so that a plan keeps the slowdown that the message names.
                let takes = f64::from(takes.div_ceil(10)) / 10.0;
                Some(format!("`--slowdown {takes}%` keeps these bytes, and `--budget {smallest}` this time"))
            }
            Self::Pipeline(PipelineError::Pass(memc_passes::PassError::Budget(short))) => Some(relief(short)),
            Self::StateInArena => Some("leave out --io, or write --io external".to_owned()),
            Self::ExactBatch { .. } => Some("leave out one of both".to_owned()),
            Self::BlocksWithoutKernels => Some("add --runtime ort, or --runtime player".to_owned()),
            Self::NoLink { space } => Some(format!("add one: --link {space}=16GB/s")),
            Self::Link(_) => Some("name another space".to_owned()),
            Self::Extension { known, .. } => Some(format!("use .{}", known.join(", ."))),
            Self::UnknownValue { nearest: Some(nearest), .. } => Some(format!("did you mean `{nearest}`?")),
            Self::UnknownValue { .. } => Some("`memc print MODEL` shows the inputs, and the outputs after `return`".to_owned()),
            Self::State { .. } => {
                Some("name a graph output and the graph input of the same type whose new value it is".to_owned())
            }
            Self::Weights { .. } => Some(
                "quantize the weights, or say with `constants = true` under `[[spaces]]` in the target file where else they lie"
                    .to_owned(),
            ),
            Self::Pipeline(PipelineError::UnknownPass { name, .. }) => Some(match nearest(name, pass_names()) {
                Some(nearest) => format!("did you mean `{nearest}`? `memc passes` lists them all"),
                None => "`memc passes` lists them all".to_owned(),
            }),
            Self::Pipeline(PipelineError::Setting(_) | PipelineError::Unread { .. }) => {
                Some("settings stand in brackets behind a pass that reads them: `split[limit=4096]`".to_owned())
            }
            Self::Pipeline(PipelineError::Stage { .. }) => {
                Some("the page of a pass says what it needs and gives: `memc passes NAME`".to_owned())
            }
            Self::Pipeline(PipelineError::Pass(memc_passes::PassError::TooLarge { .. })) => {
                Some("bind smaller dimensions with --dim".to_owned())
            }
            Self::Pipeline(_) | Self::LayoutWrite(_) => {
                Some("this is a defect of memc: please report it with the reproducer".to_owned())
            }
            Self::Unplanned { .. } => Some("end the pipeline with `place`, or use `memc opt` to see the IR".to_owned()),
            Self::NoOutputs { .. } => {
                Some("make the values that are wanted graph outputs; a model of functions alone needs no plan".to_owned())
            }
            Self::WeightFile { .. } => {
                Some("nothing was written; put the file there, or leave out --copy-weights to plan without weights".to_owned())
            }
            Self::File { what: "write", .. } => Some("nothing was written; check the folder and its permissions".to_owned()),
            Self::File { .. } => Some("check the path and its permissions; the file must be UTF-8 text".to_owned()),
            Self::UnknownSpace { known, .. } => {
                Some(format!("write --budget SIZE for the first space, or --budget SPACE=SIZE with one of {known}"))
            }
            Self::Layout { .. } => {
                Some("give the .layout.json that `memc optimize` wrote; `memc schema layout` says its form".to_owned())
            }
            Self::Profile { .. } => Some("give the file that `memc profile` wrote for this model".to_owned()),
            Self::Target { .. } => Some("`memc targets cpu` prints a file to start from".to_owned()),
            Self::Export(_) => Some("start from an .onnx file that keeps its weights in external files".to_owned()),
            Self::Import(_) => None,
        }
    }

    /// As a diagnostic.
    pub fn diagnostic(&self) -> Diagnostic {
        if let Self::Import(error) = self {
            return error.diagnostic();
        }
        let mut diagnostic = Diagnostic::new(self.code(), Severity::Error, self.to_string());
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            diagnostic = diagnostic.with_note(error.to_string());
            source = error.source();
        }
        match self {
            Self::Budget { notes, .. } => diagnostic.notes.extend(notes.iter().cloned()),
            Self::Pipeline(PipelineError::Pass(memc_passes::PassError::Budget(short))) => diagnostic.notes.extend(notes(short)),
            _ => {}
        }
        match self.help() {
            Some(help) => diagnostic.with_help(help),
            None => diagnostic,
        }
    }
}

/// Names of all passes.
fn pass_names() -> impl Iterator<Item = &'static str> {
    memc_plan::registry::REGISTRY.iter().map(|pass| pass.name)
}

/// Said where searches were asked to end before they did.
pub(crate) const EARLY: &str = "the time limit ended the searches: with more time there may be a smaller plan";

/// Hundredths of a per cent, as per cent.
fn percent(hundredths: u32) -> f64 {
    f64::from(hundredths) / 100.0
}

fn at_least(bound: u64) -> String {
    if bound == 0 { String::new() } else { format!(", and no order of its nodes needs less than {}", Bytes(bound).exact()) }
}

/// The least budget that is kept, and the option that frees most of what fills the smallest plan.
fn relief(short: &memc_passes::Shortage) -> String {
    let room = short.least;
    let kept = match short.capacity.filter(|capacity| *capacity < room) {
        Some(capacity) => format!("{} holds {} and no more", short.space, capacity.exact()),
        None => format!("`--budget {}` is kept", room.0),
    };
    let parts = &short.parts;
    let of_all = |bytes: Bytes| format!("{bytes} of the {} at that step", parts.total);
    // What fills at least so much of the step is worth a word: half.
    let fills = |bytes: Bytes| bytes.0 > 0 && bytes.0 >= parts.total.0 / 2;
    let option = if fills(parts.updates) {
        format!(
            "`--alias-state` lets new values take the storage of old ones: {} outputs that are or may be new values of inputs hold {}; \
             `--state NEW=OLD` names pairs that it does not find",
            parts.update_count,
            of_all(parts.updates)
        )
    } else if fills(parts.outputs) {
        format!("`--io external` leaves graph outputs to the caller: {}", of_all(parts.outputs))
    } else if fills(parts.inputs) {
        format!("`--io outputs` leaves graph inputs to the caller: {}", of_all(parts.inputs))
    } else if fills(parts.waiting) {
        format!("`--link host=16GB/s` moves values away that wait there for later steps: {}", of_all(parts.waiting))
    } else {
        format!(
            "the step itself needs {}: a smaller batch (`--dim`), `--micro-batches N`, or no `--exact` and `--no-rewrite`, so that it is split",
            of_all(parts.own)
        )
    };
    format!("{kept}; below, {option}")
}

/// Where the smallest plan is full, or one of whole nodes, who is alive there, and what cannot be dropped.
fn notes(short: &memc_passes::Shortage) -> Vec<String> {
    let (name, operator) = &short.node;
    let plan = if short.only_whole { "a plan of whole nodes" } else { "the smallest plan" };
    let mut notes = vec![format!("{plan} is full at step {}: \"{name}\" ({operator})", short.step)];
    notes.extend(short.alive.iter().map(|(name, bytes)| format!("alive there: `{name}`, {bytes}")));
    notes.extend(short.reasons.iter().map(|reason| format!("stays whatever is recomputed: {reason}")));
    notes.extend(short.is_early.then(|| EARLY.to_owned()));
    notes
}
