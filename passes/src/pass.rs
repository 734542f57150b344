//! Declaration of a pass: name, page, required and resulting stage, and the context that passes share.

use std::fmt::{self, Debug};
use std::sync::Arc;

use memc_ir::{Bytes, ConstData, Diagnostic, Module, Payload, SecondaryMap, Stage, Step, Value};
use memc_ops::Data;

use crate::claims::Claims;
use crate::memo::Memo;
use crate::options::{Options, Rewriting};
use crate::parallel::Engines;
use crate::settings::Settings;

/// Whether a pass changed the module. `No` means that the printed text is identical.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Changed {
    /// Nothing changed.
    No,
    /// Number of edits, at least one.
    Yes(u64),
}

impl Changed {
    /// Makes `No` from a count of zero and `Yes` from any other count.
    pub fn edits(count: u64) -> Self {
        if count == 0 { Self::No } else { Self::Yes(count) }
    }
}

/// Why a pass gave up. Failing to improve a plan is no error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PassError {
    /// A solver refused its problem: the sizes add up to more than 62 bits (the model's fault).
    #[error("{pass}: the tensors of this model add up to more bytes than an arena can have")]
    TooLarge {
        /// Name of the pass.
        pass: &'static str,
    },
    /// The rules that memc carries cannot be read (a defect of memc).
    #[error("{pass}: {error}")]
    Rules {
        /// Name of the pass.
        pass: &'static str,
        /// The defect of the rules.
        error: memc_rewrite::rules::RuleError,
    },
    /// A solver returned nothing, or an answer that its checker refuses (a defect of memc).
    #[error("{pass}: the solver's answer is wrong: {why}")]
    WrongAnswer {
        /// Name of the pass.
        pass: &'static str,
        /// The checker's message.
        why: String,
    },
    /// No plan within the budget was found.
    #[error("{0}")]
    Budget(Box<Shortage>),
    /// A cache that grows cannot be kept in one buffer (the request's fault).
    #[error(transparent)]
    Cache(#[from] crate::buffer::CacheError),
    /// No output has a row for each token (the request's fault).
    #[error(transparent)]
    LastToken(#[from] crate::claims::NoRows),
}

/// A budget for which no plan was found, with the obstacles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    /// Name of the space that is too small.
    pub space: String,
    /// Requested limit, in bytes.
    pub budget: Bytes,
    /// Proven lower bound for these nodes, in bytes: every plan needs at least this, with any
    /// recomputation and transfers. Zero if none is proven.
    pub bound: Bytes,
    /// Whether the bound covers only plans without split operators, although operators may also be
    /// split.
    pub only_whole: bool,
    /// Smallest arena found, in bytes. A limit of this size is kept, if the space holds as much.
    pub least: Bytes,
    /// Capacity of the space on the target, in bytes; `None` if it is unlimited.
    pub capacity: Option<Bytes>,
    /// Name and operator of the node at which the smallest arena is full. With `only_whole`, the node
    /// belongs to a plan without split operators.
    pub node: (String, String),
    /// Step of that node.
    pub step: Step,
    /// Values live at that step with their sizes, largest first.
    pub alive: Vec<(String, Bytes)>,
    /// Bytes live at that step, by kind.
    pub parts: StepBytes,
    /// Reasons that keep more values from being dropped.
    pub reasons: Vec<String>,
    /// Whether a stop request ended the searches early.
    pub is_early: bool,
    /// Changes that the request allows.
    pub allowed: Rewriting,
    /// Whether a link leads to a farther space.
    pub has_link: bool,
    /// Whether the request bound dimensions.
    pub has_dims: bool,
}

/// Bytes that a step needs, by the measure that would free them.
///
/// The kinds overlap: a value that the step's own node reads may be an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StepBytes {
    /// All bytes of the step.
    pub total: Bytes,
    /// Bytes of graph outputs.
    pub outputs: Bytes,
    /// Bytes of the graph outputs that may be new values of graph inputs.
    pub updates: Bytes,
    /// Number of these updates.
    pub update_count: usize,
    /// Bytes of graph inputs.
    pub inputs: Bytes,
    /// Bytes of values kept through the step for later steps: neither outputs, nor read or written here.
    pub waiting: Bytes,
    /// Bytes of the operands, results and workspace of the step's own node.
    pub own: Bytes,
}

impl Shortage {
    /// Lowers the bound to `bound`, which is proven for other nodes with equal results.
    #[must_use]
    pub fn with_bound(mut self: Box<Self>, bound: Bytes) -> Box<Self> {
        self.bound = self.bound.min(bound);
        self
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bound, least) = (self.bound.exact(), self.least.exact());
        // Name the space's capacity if it is the tighter limit, else the user's budget.
        let limit = match self.capacity.filter(|capacity| *capacity <= self.budget) {
            Some(capacity) => format!("the capacity of {}, {},", self.space, capacity.exact()),
            None => format!("a budget of {} in {}", self.budget.exact(), self.space),
        };
        if self.budget < self.bound {
            let whole = if self.only_whole { "without splitting operators " } else { "" };
            let parts = if self.least < self.bound { ", which splits some," } else { "" };
            write!(
                f,
                "{limit} is too small: {whole}every plan needs at least {bound}; the smallest plan found{parts} needs {least}"
            )
        } else {
            write!(f, "{limit} may be too small: the smallest plan found needs {least}")?;
            if self.bound > Bytes(0) { write!(f, "; no plan can need less than {bound}") } else { Ok(()) }
        }
    }
}

/// A solver's answer for the main graph, for the summary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SolverReport {
    /// Name of the pass.
    pub pass: &'static str,
    /// Value of the answer, in bytes.
    pub value: u64,
    /// Proven lower bound, in bytes.
    pub lower_bound: u64,
    /// Why the solver stopped.
    pub stop: &'static str,
    /// Effort spent, in search nodes.
    pub effort: u64,
}

/// Name of the pass that orders nodes. Placements are compared with its bound.
pub const SCHEDULE: &str = "schedule";

/// Source of the bytes of constants stored in other files. The crate that reads files implements it.
pub trait ExternalData: Debug + Send + Sync {
    /// Returns the bytes `offset .. offset + length` of the file at `location`; `None` if the file
    /// cannot be read or is too short.
    fn bytes(&self, location: &str, offset: u64, length: u64) -> Option<bytes::Bytes>;
}

/// State that passes share while a pipeline runs.
#[derive(Clone, Debug)]
pub struct PassContext<'o> {
    /// Options of the whole plan.
    pub options: &'o Options,
    /// Source of constants stored in other files; `None` if they cannot be read.
    pub external: Option<&'o dyn ExternalData>,
    /// Memory of earlier runs on this model.
    pub memo: Memo,
    /// Elements of small tensors that inference knows.
    pub data: SecondaryMap<Value, Option<Arc<Data>>>,
    /// Settings of this run; the pipeline sets them before each pass.
    pub settings: Settings,
    /// Remarks, reports and rewrites of the passes so far.
    pub said: Said,
}

/// Results of passes in addition to the module.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// Remarks and warnings.
    pub remarks: Vec<Diagnostic>,
    /// Reports of the solvers.
    pub reports: Vec<SolverReport>,
    /// What the passes promise about their changes.
    pub claims: Claims,
    /// Cost of keeping a limit; `None` without one.
    pub budgeted: Option<Budgeted>,
    /// Engines of the steps; `None` for one engine.
    pub engines: Option<Engines>,
}

/// Cost of keeping a budget, by the model of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budgeted {
    /// Time of all nodes before any recomputation, in nanoseconds.
    pub base_cost: u64,
    /// Time of the plan from the first node to the end of the last event, in nanoseconds.
    pub makespan: u64,
    /// Lower bound of the time of every plan within the budget, as far as known, in nanoseconds.
    pub lower_bound: u64,
    /// Capacity for which the plan was made, in bytes: the budget plus the savings of sub-views.
    pub capacity: u64,
    /// Number of plans placed until one fitted.
    pub rounds: u32,
    /// Why the search for the plan stopped.
    pub stop: &'static str,
    /// Effort of that search, in search nodes.
    pub effort: u64,
}

impl<'o> PassContext<'o> {
    /// Makes a context for a module with these elements of small tensors.
    pub fn new(options: &'o Options, data: SecondaryMap<Value, Option<Arc<Data>>>) -> Self {
        let (memo, settings, said) = (Memo::default(), Settings::default(), Said::default());
        Self { options, external: None, memo, data, settings, said }
    }

    /// Returns the number of search nodes that exact solvers may visit in this run.
    pub fn effort(&self) -> u64 {
        self.settings.effort.unwrap_or(self.options.effort)
    }

    /// Returns the bytes of a constant; `None` if they cannot be read or their number differs from the
    /// type's size.
    pub fn bytes_of(&self, constant: &ConstData) -> Option<bytes::Bytes> {
        let size = constant.ty.size()?.0;
        let bytes = match &constant.payload {
            Payload::Raw(bytes) => bytes.clone(),
            Payload::External { location, offset, length } if length.is_none_or(|length| length == size) => {
                self.external?.bytes(location, *offset, size)?
            }
            _ => return None,
        };
        (bytes.len() as u64 == size).then_some(bytes)
    }
}

/// Static description of a pass.
#[derive(Debug)]
pub struct PassInfo {
    /// Name in pipelines.
    pub name: &'static str,
    /// One-line summary; the first sentence of the page.
    pub summary: &'static str,
    /// Text of the page.
    pub page: &'static str,
    /// Stage that the module must have reached.
    pub needs: Stage,
    /// Stage that the module has at least reached afterwards.
    pub gives: Stage,
    /// Names of the settings that the pass reads.
    pub reads: &'static [&'static str],
    /// Function that runs the pass.
    pub run: fn(&mut Module, &mut PassContext<'_>) -> Result<Changed, PassError>,
}
