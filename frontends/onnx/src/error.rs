//! Errors of import: the reasons why memc cannot plan a model file.

use memc_ir::{Bytes, Diagnostic, Range, Severity, nearest};
use memc_onnx_proto::ReadError;

/// Reason why a model is rejected. The model is at fault unless the variant says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file is not an ONNX model, or cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The file states a version that memc does not know.
    #[error("{what} version {found} is not supported: memc knows {oldest} to {newest}")]
    Version {
        /// `IR` or an operator set.
        what: String,
        /// The version that the file states.
        found: i64,
        /// Oldest supported version.
        oldest: i64,
        /// Newest supported version.
        newest: i64,
    },
    /// The file states a version below zero for an operator set.
    #[error("version {found} of the operator set `{domain}` is below zero")]
    NegativeVersion {
        /// Domain of the operator set.
        domain: String,
        /// The version that the file states.
        found: i64,
    },
    /// The nodes of a graph depend on each other in a cycle.
    #[error("the graph `{graph}` is cyclic: node {node} depends on its own result")]
    Cycle {
        /// Name of the graph.
        graph: String,
        /// A node of the cycle, by name or first result.
        node: String,
    },
    /// A name is defined twice in one scope.
    #[error("the name `{name}` is defined twice in the graph `{graph}`")]
    DuplicateName {
        /// The name.
        name: String,
        /// Name of the graph.
        graph: String,
    },
    /// An input or initializer has no name, so that nothing can read it.
    #[error("{what} {position} of the graph `{graph}` has no name")]
    Unnamed {
        /// `input` or `initializer`.
        what: &'static str,
        /// Position among the graph's inputs or initializers, sparse ones last.
        position: usize,
        /// Name of the graph.
        graph: String,
    },
    /// A node or a graph reads an undefined value.
    #[error("{reader} reads `{name}`, which is not defined")]
    UnknownValue {
        /// The name that is read.
        name: String,
        /// The reading node or graph.
        reader: String,
    },
    /// A body reads a value that neither the body nor an enclosing graph defines.
    #[error("{reader} in the body `{graph}` captures `{name}`, which no graph around it defines")]
    UnknownCapture {
        /// The name that is read.
        name: String,
        /// The reading node or graph.
        reader: String,
        /// Name of the body.
        graph: String,
    },
    /// An extent is negative, or a tensor has 2^62 bytes or more.
    #[error("`{name}` has an impossible dimension: {shape}")]
    Dimension {
        /// The value or initializer.
        name: String,
        /// Its shape as written.
        shape: String,
    },
    /// External data is outside the model's folder.
    #[error("the external data of `{name}` is at \"{location}\", outside the model's folder")]
    ExternalPath {
        /// The initializer.
        name: String,
        /// The path as written.
        location: String,
    },
    /// The bytes of an initializer do not fit its type.
    #[error("initializer `{name}` needs {} but holds {}", Bytes(*expected).exact(), Bytes(*found).exact())]
    PayloadLength {
        /// The initializer.
        name: String,
        /// Number of bytes that the type needs.
        expected: u64,
        /// Number of bytes present.
        found: u64,
    },
    /// The initializer of an input does not fit the input's type.
    #[error("input `{name}` is {stated}, but the initializer with its name is {found}")]
    Default {
        /// The input.
        name: String,
        /// The type that the input states.
        stated: String,
        /// The initializer's type.
        found: String,
    },
    /// Bodies or functions exceed the maximum nesting depth.
    #[error("{what} nest deeper than {limit} levels")]
    TooDeep {
        /// `bodies` or `functions`.
        what: &'static str,
        /// The maximum depth.
        limit: usize,
    },
    /// A model-local function calls itself.
    #[error("the model-local function `{function}` calls itself")]
    RecursiveFunction {
        /// Domain and name.
        function: String,
    },
    /// Inlining would create too many nodes.
    #[error("inlining the model's functions makes more than {limit} nodes")]
    TooManyNodes {
        /// The maximum number of nodes.
        limit: usize,
    },
    /// A dimension of a graph input is symbolic and unbound (the request's fault).
    #[error("the graph inputs leave {} unbound", list(.names))]
    Unbound {
        /// The unbound symbols.
        names: Vec<String>,
        /// A range of each symbol to propose: usual ones at which the model fits, if they were found.
        ranges: Vec<String>,
    },
    /// `--dim` names a symbol that neither a graph input nor another value has (the request's fault).
    #[error("no tensor of the model has a dimension named `{name}`")]
    UnknownDimension {
        /// The requested name.
        name: String,
        /// The dimensions of the model.
        known: Vec<String>,
    },
    /// `--assume` names a value that is not in the main graph (the request's fault).
    #[error("`--assume`: the model has no value named `{name}`")]
    UnknownAssumed {
        /// The requested name.
        name: String,
        /// The most similar name; `None` if no name is similar.
        nearest: Option<String>,
    },
    /// An assumed size is impossible (the request's fault).
    #[error("`--assume {name}={assumed}` is not possible: {why}")]
    Assumption {
        /// The value.
        name: String,
        /// The assumed size.
        assumed: String,
        /// The reason.
        why: String,
    },
    /// The feed contains an array that is not a graph input (the request's fault).
    #[error("the file of inputs has `{name}`, which is not an input of the model")]
    FeedInput {
        /// Name of the array.
        name: String,
        /// The inputs of the model.
        known: Vec<String>,
    },
    /// An array of the feed does not fit its input (the request's fault).
    #[error("the file of inputs has `{name}` with extents {found}, but the model states {stated}")]
    FeedExtents {
        /// The input.
        name: String,
        /// The type that the model states.
        stated: String,
        /// Extents in the feed.
        found: String,
    },
    /// Two sources bind a dimension to different extents: arrays of the feed or options (the request's
    /// fault).
    #[error("dimension `{dimension}` is {} according to {}, but {} according to {}", .extents[0], .by[0], .extents[1], .by[1])]
    Conflict {
        /// The symbol, or an expression in several symbols.
        dimension: String,
        /// The two extents.
        extents: [u64; 2],
        /// The sources of the two extents.
        by: [String; 2],
    },
    /// A dimension is bound to an extent outside its range (the request's fault).
    #[error("dimension `{dimension}` is {extent}, which is not in its range {range}")]
    Range {
        /// The symbol.
        dimension: String,
        /// Its extent.
        extent: u64,
        /// Its range.
        range: Range,
    },
    /// A dimension equals an expression with a dimension that itself equals one (the request's fault).
    #[error("dimension `{name}` cannot equal {of}: a dimension in it equals another expression")]
    Equation {
        /// The symbol.
        name: String,
        /// The expression.
        of: String,
    },
    /// A dimension has a range and equals an expression (the request's fault).
    #[error("dimension `{name}` has a range of its own, but equals {of}")]
    EqualRange {
        /// The symbol.
        name: String,
        /// The expression.
        of: String,
    },
    /// A dimension equals a negative number (the request's fault).
    #[error("dimension `{name}` would be {extent}")]
    EqualNegative {
        /// The symbol.
        name: String,
        /// The number.
        extent: String,
    },
    /// A size is impossible at the largest extents of the ranges (the request's fault).
    #[error("`{name}` has no possible size at the largest extents of the ranges: {shape}")]
    TooLarge {
        /// The value.
        name: String,
        /// Its type at the largest extents.
        shape: String,
    },
    /// No extents keep all limits (the request's fault).
    #[error("no extents of the ranges keep {}", .limits.join(" and "))]
    NoExtents {
        /// The limits.
        limits: Vec<String>,
    },
    /// The model computes a negative extent for extents of the ranges (the request's fault).
    #[error("with {}, `{name}` has the shape {shape} and thus an extent of {extent}", .at.join(" and "))]
    Negative {
        /// The extents.
        at: Vec<String>,
        /// The value.
        name: String,
        /// Its type.
        shape: String,
        /// The extent.
        extent: i64,
        /// Options with which no extent is negative; none if none are known.
        proposal: Vec<String>,
    },
    /// An operator does not fit its operands with the bound dimensions, but fits without them (the
    /// request's fault).
    #[error("{}: {reason}", contradiction(.bindings))]
    Contradiction {
        /// The bindings with their sources; those of options in the form of the option.
        bindings: Vec<String>,
        /// The reason why the operator does not fit.
        reason: String,
        /// The node, as the text form prints it.
        line: String,
        /// Options with which the model fits; none if none are known.
        proposal: Vec<String>,
    },
}

/// Returns the end of a help line that proposes options.
fn as_with(proposal: &[String]) -> String {
    if proposal.is_empty() { String::new() } else { format!(", as with {}", proposal.join(" and ")) }
}

fn contradiction(bindings: &[String]) -> String {
    let (listed, verb) =
        (bindings.join(" and "), if bindings.len() == 1 { "contradicts" } else { "contradict" });
    format!("{listed} {verb} the model")
}

fn list(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let word = if names.len() == 1 { "the dimension" } else { "the dimensions" };
    format!("{word} {}", quoted.join(", "))
}

impl ImportError {
    /// Stable code, as documented by `memc explain`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Read(ReadError::Io { .. }) => "E0116",
            Self::Read(ReadError::Empty) => "E0101",
            Self::Read(ReadError::NotOnnx(_)) => "E0102",
            Self::Read(ReadError::NoGraph | ReadError::GraphRepeated { .. }) => "E0104",
            Self::Read(ReadError::Broken(_) | ReadError::Decode(_)) => "E0103",
            Self::Version { .. } | Self::NegativeVersion { .. } => "E0105",
            Self::Cycle { .. } => "E0106",
            Self::DuplicateName { .. } => "E0107",
            Self::UnknownValue { .. } => "E0108",
            Self::Dimension { .. } => "E0109",
            Self::ExternalPath { .. } => "E0110",
            Self::UnknownCapture { .. } => "E0111",
            Self::TooDeep { .. } => "E0112",
            Self::Unnamed { .. } => "E0113",
            Self::PayloadLength { .. } => "E0119",
            Self::Default { .. } => "E0121",
            Self::Unbound { .. } => "E0114",
            Self::RecursiveFunction { .. } => "E0115",
            Self::UnknownDimension { .. } => "E0117",
            Self::UnknownAssumed { .. } => "E0126",
            Self::Assumption { .. } => "E0127",
            Self::TooManyNodes { .. } => "E0118",
            Self::FeedInput { .. } | Self::FeedExtents { .. } | Self::Conflict { .. } => "E0122",
            Self::Contradiction { .. } => "E0123",
            Self::Range { .. } => "E0128",
            Self::Equation { .. }
            | Self::EqualRange { .. }
            | Self::EqualNegative { .. }
            | Self::TooLarge { .. }
            | Self::NoExtents { .. }
            | Self::Negative { .. } => "E0129",
        }
    }

    /// Advice on the next action.
    fn help(&self) -> Option<String> {
        Some(match self {
            Self::Read(ReadError::Io { .. }) => "check the path and its permissions".to_owned(),
            Self::Read(ReadError::Empty | ReadError::NotOnnx(_) | ReadError::NoGraph) => {
                "give the path of an .onnx file".to_owned()
            }
            Self::Read(_) => "the file is damaged or incomplete: copy or export it again".to_owned(),
            Self::Version { .. } => "export with another version, or use a newer memc".to_owned(),
            Self::Unbound { names, ranges } => {
                let options = |extents: &[String]| {
                    let each = names.iter().zip(extents).map(|(name, extents)| format!("--dim {name}={extents}"));
                    each.collect::<Vec<_>>().join(" ")
                };
                let (fixed, ranged) = (options(&vec!["N".to_owned(); names.len()]), options(ranges));
                format!("bind them: `{fixed}`, or give ranges, as in `{ranged}`; or bind them from real inputs: `--dim-from feed.npz`")
            }
            Self::Equation { .. } => "write it over dimensions with ranges or extents of their own".to_owned(),
            Self::EqualRange { .. } => "leave out the range or the expression".to_owned(),
            Self::EqualNegative { .. } => "give larger extents to the dimensions of the expression".to_owned(),
            Self::TooLarge { .. } => "end the ranges at smaller extents".to_owned(),
            Self::NoExtents { .. } => "raise the limits, or begin the ranges at smaller extents".to_owned(),
            Self::Negative { proposal, .. } => format!("begin the range at a larger extent{}", as_with(proposal)),
            Self::UnknownDimension { known, .. } if known.is_empty() => {
                "all dimensions of this model are fixed; leave out `--dim`".to_owned()
            }
            Self::FeedInput { known, .. } => {
                format!("name the arrays as the inputs of the model: {}", known.join(", "))
            }
            Self::FeedExtents { .. } => "give arrays of the shapes that the model states".to_owned(),
            Self::Conflict { .. } => "give the inputs of one call, and leave out `--dim` options that contradict them".to_owned(),
            Self::Contradiction { proposal, .. } => {
                format!("give extents that fit the operands of this node{}", as_with(proposal))
            }
            Self::Range { .. } => "bind the dimension to an extent of its range".to_owned(),
            Self::UnknownDimension { name, known } => {
                let meant = nearest(name, known.iter().map(String::as_str));
                let meant = meant.map(|nearest| format!("did you mean `{nearest}`? ")).unwrap_or_default();
                format!("{meant}the model has: {}", known.join(", "))
            }
            Self::Cycle { .. } => {
                "no order of these nodes can run; use the operator Loop or Scan for values of an earlier iteration".to_owned()
            }
            Self::UnknownAssumed { nearest: Some(nearest), .. } => {
                format!("did you mean `{nearest}`? The layout lists values of unknown size under `unplanned`")
            }
            Self::UnknownAssumed { .. } => "the layout lists values of unknown size under `unplanned`".to_owned(),
            Self::Assumption { .. } => {
                "give its number of elements, or all its extents, for example 2x50; sizes that follow from the model need no `--assume`"
                    .to_owned()
            }
            Self::ExternalPath { .. } => "external data must lie beside the model or in a folder below it".to_owned(),
            _ => "repair the exporter; `onnx.checker` lists all errors of this kind".to_owned(),
        })
    }

    /// Converts the error to a diagnostic.
    pub fn diagnostic(&self) -> Diagnostic {
        let mut diagnostic = Diagnostic::new(self.code(), Severity::Error, self.to_string());
        if let Self::Contradiction { line, .. } = self {
            diagnostic.line = Some(line.clone());
        }
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            diagnostic = diagnostic.with_note(error.to_string());
            source = error.source();
        }
        match self.help() {
            Some(help) => diagnostic.with_help(help),
            None => diagnostic,
        }
    }
}
