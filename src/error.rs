//! Errors of planning and of the command, each with its code, its exit code and its help.

use std::path::PathBuf;

use memc_cost::ScratchError;
use memc_ir::{Bytes, Diagnostic, Severity};
use memc_onnx_export::ExportError;
use memc_onnx_import::ImportError;
use memc_onnx_proto::ReadError;
use memc_passes::PipelineError;

use crate::fit_error::FitError;
use crate::request_error::RequestError;
use crate::share_error::ShareError;
use crate::slo_error::SloError;
use crate::split_error::SplitError;
use memc_ir::nearest;

/// Why a request could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The model is refused.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// A pipeline cannot run, or a pass failed.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// A trained value does not fit the model.
    #[error("`{name}` cannot be written into the model: {why}")]
    Bake {
        /// Name of the value.
        name: String,
        /// Reason.
        why: String,
    },
    /// The model has no training step.
    #[error(transparent)]
    Gradient(#[from] memc_gradient::GradientError),
    /// The result cannot be written as ONNX.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// A layout file cannot be read.
    #[error("{} is not a layout file", path.display())]
    Layout {
        /// The file.
        path: PathBuf,
        /// The error in its contents.
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
        /// Requested limit, in bytes.
        budget: u64,
        /// Bytes that the plan needs.
        arena: u64,
        /// Bytes that every order of these nodes needs; 0 if unknown.
        bound: u64,
        /// Step of the peak and the tensors alive at it, as lines of text.
        notes: Vec<String>,
    },
    /// A value is larger than the limit for single values.
    #[error(
        "{} `{value}` has {}, and a value may have {}",
        if *is_proven { "the model's own" } else { "no plan was found that keeps the limit: in the best one" },
        Bytes(*bytes).exact(),
        Bytes(*limit).exact()
    )]
    Largest {
        /// Name of the value.
        value: String,
        /// Its bytes.
        bytes: u64,
        /// The limit, in bytes.
        limit: u64,
        /// Whether the value is an input, an output or a weight of the model: then no plan keeps the limit.
        is_proven: bool,
        /// Name and operator of the node that makes the value, if one does.
        maker: Option<String>,
    },
    /// The size of a value is unknown, so no limit for single values holds.
    #[error("the size of `{value}` is unknown, so the largest value cannot be limited")]
    LargestUnknown {
        /// Name of the value.
        value: String,
    },
    /// No plan keeps a limit of bytes and a limit of time together.
    #[error(
        "no plan was found that {} at most {} % extra time: the fastest {} takes {} % extra",
        limit.map_or_else(|| "takes".to_owned(), |limit| format!("needs at most {} and", Bytes(limit).exact())),
        percent(*slowdown),
        if limit.is_some() { "plan of that size" } else { "plan" },
        percent(*takes)
    )]
    Slow {
        /// Limit of the first space, in bytes, if there is one.
        limit: Option<u64>,
        /// Time allowed beyond that of the model as it was given, in hundredths of a percent.
        slowdown: u32,
        /// Time that the fastest plan within the bytes takes beyond it, in hundredths of a percent.
        takes: u32,
        /// Bytes that this plan needs.
        needs: u64,
        /// Bytes that the smallest plan within the time needs, if one was found.
        smallest: Option<u64>,
    },
    /// No plan keeps a time.
    #[error(transparent)]
    Slo(#[from] SloError),
    /// The options of the request exclude each other.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The budget names a space that the target does not have.
    #[error("the target has no space named `{space}`; it has {known}")]
    UnknownSpace {
        /// The name given.
        space: String,
        /// Spaces of the target, as text.
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
        /// The reason.
        why: String,
    },
    /// The weights exceed the capacity of the spaces that hold them.
    #[error("the weights need {}, and {place} has room for {}", Bytes(*weights).exact(), Bytes(*room).exact())]
    Weights {
        /// The space or spaces that hold the weights, as text; says if the arena takes part of them.
        place: String,
        /// Bytes of all constants that lie there.
        weights: u64,
        /// Bytes that are free for them.
        room: u64,
    },
    /// The model cannot be divided over devices as requested.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// A manifest of sections cannot be read.
    #[error("{} is not a manifest of sections", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// The error in its contents.
        source: memc_layout::ReadError,
    },
    /// A model does not fit into a memory.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// Planned models cannot share a memory as requested.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// A joint file cannot be read.
    #[error("{} is not a joint file", path.display())]
    Joint {
        /// The file.
        path: PathBuf,
        /// The error in its contents.
        source: memc_layout::ReadError,
    },
    /// A target file cannot be used.
    #[error("{} is not a target description", path.display())]
    Target {
        /// The file.
        path: PathBuf,
        /// The error in its contents.
        source: memc_cost::TargetError,
    },
    /// A profile cannot be used.
    #[error("{} is not a profile", path.display())]
    Profile {
        /// The file.
        path: PathBuf,
        /// The error in its contents.
        source: memc_cost::timings::ProfileError,
    },
    /// A scratch file cannot be used.
    #[error("{} is not a scratch file", path.display())]
    Scratch {
        /// The file.
        path: PathBuf,
        /// The error in its contents.
        source: ScratchError,
    },
    /// The model has nothing to compute (the model's fault): runtimes load no graph without outputs.
    #[error("the graph `{graph}` has no outputs: there is nothing to compute")]
    NoOutputs {
        /// Name of the graph.
        graph: String,
    },
    /// The plan fails its own check (a defect of memc).
    #[error("the plan fails its own check; violations: {violations}")]
    Refuted {
        /// Number of violations.
        violations: usize,
        /// The first violations, as lines of text.
        notes: Vec<String>,
    },
    /// A part of memc panicked (a defect of memc).
    #[error("memc failed: {message}")]
    Panic {
        /// The words of the panic.
        message: String,
        /// File and line, if [`crate::watch_panics`] was called.
        place: Option<String>,
    },
    /// A file of weights is to be copied and does not exist.
    #[error("the model reads weights from `{name}`, but {} does not exist", path.display())]
    WeightFile {
        /// The file as the model names it.
        name: String,
        /// Path of the missing file.
        path: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("cannot {what} {}", path.display())]
    File {
        /// `read` or `write`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
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
                | ImportError::Assumption { .. }
                | ImportError::Range { .. }
                | ImportError::Equation { .. }
                | ImportError::EqualRange { .. }
                | ImportError::EqualNegative { .. }
                | ImportError::TooLarge { .. }
                | ImportError::NoExtents { .. }
                | ImportError::Negative { .. },
            ) => 2,
            Self::Pipeline(
                PipelineError::UnknownPass { .. }
                | PipelineError::Stage { .. }
                | PipelineError::Setting(_)
                | PipelineError::Unread { .. },
            ) => 2,
            Self::Pipeline(PipelineError::Pass(memc_passes::PassError::TooLarge { .. })) => 1,
            Self::Pipeline(PipelineError::Pass(memc_passes::PassError::Budget(_))) => 3,
            Self::Pipeline(PipelineError::Pass(
                memc_passes::PassError::Cache(_) | memc_passes::PassError::LastToken(_),
            )) => 2,
            Self::Gradient(error) => crate::gradient_error::exit_code(error),
            Self::UnknownSpace { .. }
            | Self::Unplanned { .. }
            | Self::UnknownValue { .. }
            | Self::State { .. }
            | Self::Bake { .. }
            | Self::Request(_) => 2,
            Self::Budget { .. } | Self::Slow { .. } | Self::Slo(_) | Self::Weights { .. } => 3,
            Self::Largest { .. } => 3,
            Self::LargestUnknown { .. } => 2,
            Self::Split(error) if error.is_shortage() => 3,
            Self::Fit(error) => error.exit_code(),
            Self::Share(error) if error.is_shortage() => 3,
            Self::Share(error) if error.is_of_files() => 1,
            Self::Split(_) | Self::Share(_) => 2,
            Self::Pipeline(_) | Self::LayoutWrite(_) | Self::Refuted { .. } | Self::Panic { .. } => 70,
            Self::Import(_)
            | Self::Export(_)
            | Self::Layout { .. }
            | Self::Manifest { .. }
            | Self::Joint { .. }
            | Self::Target { .. }
            | Self::Profile { .. }
            | Self::Scratch { .. }
            | Self::NoOutputs { .. }
            | Self::WeightFile { .. }
            | Self::File { .. } => 1,
        }
    }

    /// Smallest arena that was found, in bytes, if a budget is refused; `--budget` with this size is kept.
    pub fn smallest(&self) -> Option<u64> {
        match self {
            Self::Budget { arena, .. } => Some(*arena),
            Self::Slow { smallest, .. } => *smallest,
            Self::Slo(error) => error.smallest,
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
            Self::Pipeline(PipelineError::Pass(memc_passes::PassError::Cache(error))) => error.code(),
            Self::Pipeline(PipelineError::Pass(memc_passes::PassError::LastToken(error))) => error.code(),
            Self::Pipeline(PipelineError::Pass(
                memc_passes::PassError::WrongAnswer { .. } | memc_passes::PassError::Rules { .. },
            ))
            | Self::LayoutWrite(_)
            | Self::Panic { .. } => "E0904",
            Self::Refuted { .. } => "E0905",
            Self::Pipeline(PipelineError::Broken { .. }) => "E0901",
            Self::Pipeline(PipelineError::Defect { error, .. }) => match **error {
                PipelineError::Broken { .. } => "E0901",
                _ => "E0904",
            },
            Self::Gradient(error) => crate::gradient_error::code(error),
            Self::Export(_) => "E0402",
            Self::Layout { .. } | Self::Manifest { .. } | Self::Joint { .. } => "E0120",
            Self::Fit(error) => error.code(),
            Self::Share(error) if error.is_shortage() => "E0341",
            Self::Share(_) => "E0340",
            Self::Split(error) if error.is_shortage() => "E0311",
            Self::Split(_) => "E0313",
            Self::Unplanned { .. } => "E0304",
            Self::Budget { .. } => "E0301",
            Self::Slow { .. } => "E0310",
            Self::Slo(_) => "E0314",
            Self::Largest { .. } | Self::LargestUnknown { .. } => "E0364",
            Self::UnknownSpace { .. } => "E0305",
            Self::Scratch { source: ScratchError::Form { .. } | ScratchError::Version { .. }, .. } => "E0320",
            Self::Scratch { .. } => "E0321",
            Self::Request(RequestError::ScratchOfSession { .. }) => "E0322",
            Self::UnknownValue { .. } | Self::State { .. } | Self::Request(_) => "E0306",
            Self::Bake { .. } => "E0336",
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
                Some(format!("this pipeline keeps `--budget {arena}`; a smaller budget needs recomputation or transfers"))
            }
            Self::Largest { is_proven: true, bytes, .. } => Some(format!(
                "no plan changes inputs, outputs and weights: use `--max-value {bytes}`, or a smaller batch (`--dim`)"
            )),
            Self::Largest { maker, bytes, .. } => {
                let maker = maker.as_ref().map(|node| format!("the node {node} makes it; ")).unwrap_or_default();
                Some(format!("{maker}`--max-value {bytes}` is enough, or bind smaller dimensions with `--dim`"))
            }
            Self::LargestUnknown { .. } => Some("state its size: `--assume VALUE=N`, or bind dimensions with `--dim`".to_owned()),
            Self::Slow { limit, takes, smallest, .. } => {
                // Rounded up, so that a plan keeps the slowdown in the message.
                let takes = f64::from(takes.div_ceil(10)) / 10.0;
                let more = if limit.is_some() { " with this budget" } else { "" };
                let budget = smallest.map(|bytes| format!(", or `--budget {bytes}` with this slowdown"));
                Some(format!("use `--slowdown {takes}%`{more}{}", budget.unwrap_or_default()))
            }
            Self::Slo(error) => Some(error.help()),
            Self::Pipeline(PipelineError::Pass(memc_passes::PassError::Budget(short))) => Some(relief(short)),
            Self::Pipeline(PipelineError::Pass(memc_passes::PassError::Cache(error))) => Some(error.help().to_owned()),
            Self::Pipeline(PipelineError::Pass(memc_passes::PassError::LastToken(error))) => Some(error.help().to_owned()),
            Self::Request(error) => Some(error.help()),
            Self::Bake { .. } => Some("bake the state of a step into the forward model that the step was made of".to_owned()),
            Self::Gradient(error) => Some(crate::gradient_error::help(error).to_owned()),
            Self::UnknownValue { nearest: Some(nearest), .. } => Some(format!("did you mean `{nearest}`?")),
            Self::UnknownValue { .. } => Some("`memc print MODEL` shows the inputs, and the outputs after `return`".to_owned()),
            Self::State { .. } => Some("name a graph output and the graph input of equal type whose new value it is".to_owned()),
            Self::Weights { .. } => Some(
                "quantize the weights, or add a space for them to the target file: `constants = true` under `[[spaces]]`"
                    .to_owned(),
            ),
            Self::Pipeline(PipelineError::UnknownPass { name, .. }) => Some(match nearest(name, pass_names()) {
                Some(nearest) => format!("did you mean `{nearest}`? `memc passes` lists all passes"),
                None => "`memc passes` lists all passes".to_owned(),
            }),
            Self::Pipeline(PipelineError::Setting(_) | PipelineError::Unread { .. }) => {
                Some("write settings in brackets after a pass that reads them: `split[limit=4096]`".to_owned())
            }
            Self::Pipeline(PipelineError::Stage { .. }) => {
                Some("`memc passes NAME` says which stage a pass needs and which it gives".to_owned())
            }
            Self::Pipeline(PipelineError::Pass(memc_passes::PassError::TooLarge { .. })) => {
                Some("bind smaller dimensions with `--dim`".to_owned())
            }
            Self::Pipeline(_) | Self::LayoutWrite(_) => {
                Some("this is a defect of memc: please report it with the reproducer".to_owned())
            }
            Self::Refuted { .. } => {
                let text = "this is a defect of memc, and no plan was written: please report these lines, with the model if it may be shown";
                Some(text.to_owned())
            }
            Self::Panic { .. } => {
                Some("this is a defect of memc: please report these lines, with the model if it may be shown".to_owned())
            }
            Self::Unplanned { .. } => Some("end the pipeline with `place`, or use `memc opt` to see the IR".to_owned()),
            Self::NoOutputs { .. } => {
                Some("make the values that you need graph outputs; a model that holds only functions needs no plan".to_owned())
            }
            Self::WeightFile { .. } => {
                Some("nothing was written; put the file there, or leave out `--external-data` to plan without weights".to_owned())
            }
            Self::File { what: "write", .. } => Some("nothing was written; check the folder and its permissions".to_owned()),
            Self::File { .. } => Some("check the path and its permissions; the file must be UTF-8 text".to_owned()),
            Self::UnknownSpace { known, .. } => {
                Some(format!("use `--budget SIZE` for the first space, or `--budget SPACE=SIZE` with one of {known}"))
            }
            Self::Layout { .. } => {
                Some("give the .layout.json that `memc optimize` wrote; `memc schema layout` prints its schema".to_owned())
            }
            Self::Manifest { .. } => {
                Some("give the manifest.json that `memc split` wrote; `memc schema devices` prints its schema".to_owned())
            }
            Self::Split(error) => Some(error.help()),
            Self::Fit(error) => Some(error.help()),
            Self::Share(error) => Some(error.help()),
            Self::Joint { .. } => {
                Some("give the file that `memc share -o` wrote; `memc schema joint` prints its schema".to_owned())
            }
            Self::Scratch { .. } => Some("write rows like `\"Conv\": \"in1_1 * in1_2 * in1_3 * in0_width\"`".to_owned()),
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
            Self::Budget { notes, .. } | Self::Refuted { notes, .. } => {
                diagnostic.notes.extend(notes.iter().cloned())
            }
            Self::Slo(error) => diagnostic.notes.extend(error.notes()),
            Self::Gradient(error) => diagnostic.notes.extend(crate::gradient_error::notes(error)),
            Self::Panic { place, .. } => {
                let place = place.as_ref().map(|place| format!(", at {place}")).unwrap_or_default();
                diagnostic.notes.push(format!("memc {}{place}", env!("CARGO_PKG_VERSION")));
            }
            Self::Pipeline(PipelineError::Pass(memc_passes::PassError::Budget(short))) => {
                diagnostic.notes.extend(notes(short))
            }
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

/// Note for plans of searches that ended early by request.
pub(crate) const EARLY: &str = "the time limit ended the searches: more time may give a smaller plan";

/// Converts hundredths of a percent to percent.
fn percent(hundredths: u32) -> f64 {
    f64::from(hundredths) / 100.0
}

fn at_least(bound: u64) -> String {
    if bound == 0 {
        String::new()
    } else {
        format!(", and every order of its nodes needs at least {}", Bytes(bound).exact())
    }
}

/// Names the smallest budget with a plan, and the option that frees most bytes at the peak of the
/// smallest plan.
fn relief(short: &memc_passes::Shortage) -> String {
    let room = short.least;
    let kept = match short.capacity.filter(|capacity| *capacity < room) {
        Some(_) => format!("the smallest plan needs {}: use a target with more memory", room.exact()),
        None => format!("`--budget {}` is enough", room.0),
    };
    let parts = &short.parts;
    let of_all = |bytes: Bytes| format!("{bytes} of the {} at that step", parts.total);
    // A kind of tensor is named if it fills at least half of the step.
    let fills = |bytes: Bytes| bytes.0 > 0 && bytes.0 >= parts.total.0 / 2;
    let option = if fills(parts.updates) {
        format!(
            "`--alias-state` writes new values of state over the old ones: {} outputs that are or may be new values of inputs hold {}; \
             `--state NEW=OLD` names pairs that it does not find",
            parts.update_count,
            of_all(parts.updates)
        )
    } else if fills(parts.outputs) {
        format!("`--io external` leaves graph outputs to the caller: {}", of_all(parts.outputs))
    } else if fills(parts.inputs) {
        format!("`--io outputs` leaves graph inputs to the caller: {}", of_all(parts.inputs))
    } else if fills(parts.waiting) && !short.has_link {
        format!("`--link host=16GB/s` moves values out that wait for later steps: {}", of_all(parts.waiting))
    } else {
        let options = smaller_nodes(short);
        if options.is_empty() {
            return kept;
        }
        format!("the node of the step itself needs {}: {}", of_all(parts.own), options.join(", or "))
    };
    format!("{kept}; to need less, {option}")
}

/// Lists the options that make nodes smaller and are not in use.
fn smaller_nodes(short: &memc_passes::Shortage) -> Vec<&'static str> {
    let allowed = &short.allowed;
    let options = [
        (short.has_dims, "bind a smaller batch with `--dim`"),
        (allowed.exact, "leave out `--exact`"),
        (!allowed.enabled, "leave out `--no-rewrite`"),
        (
            allowed.micro_batches.is_none() && allowed.enabled && !allowed.exact,
            "split the batch with `--micro-batches N`",
        ),
    ];
    options.into_iter().filter(|(applies, _)| *applies).map(|(_, option)| option).collect()
}

/// Lists the step of the peak of the smallest plan, the tensors alive at it, and those that
/// recomputation cannot free.
fn notes(short: &memc_passes::Shortage) -> Vec<String> {
    let (name, operator) = &short.node;
    let plan = if short.only_whole { "without splitting operators, a plan" } else { "the smallest plan" };
    let mut notes = vec![format!("{plan} has its peak at step {}: \"{name}\" ({operator})", short.step)];
    notes.extend(short.alive.iter().map(|(name, bytes)| format!("alive there: `{name}`, {bytes}")));
    notes.extend(short.reasons.iter().map(|reason| format!("recomputation cannot free: {reason}")));
    notes.extend(short.is_early.then(|| EARLY.to_owned()));
    notes
}
