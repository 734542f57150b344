//! What a pass is: a declared object with a name, a page, and the stages it needs and gives.

use std::fmt::{self, Debug};
use std::sync::Arc;

use memc_ir::{Bytes, ConstData, Diagnostic, Module, Payload, SecondaryMap, Stage, Step, Value};
use memc_ops::Data;
use memc_rewrite::Replaced;

use crate::memo::Memo;
use crate::options::Options;
use crate::settings::Settings;

/// Whether a pass changed the module. `No` means that the printed text is identical.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Changed {
    /// Nothing changed.
    No,
    /// So many edits.
    Yes(u64),
}

impl Changed {
    /// From a number of edits.
    pub fn edits(count: u64) -> Self {
        if count == 0 { Self::No } else { Self::Yes(count) }
    }
}

/// Why a pass gave up. "Could not improve" is no error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PassError {
    /// A solver refused its problem: sizes add up to more than 62 bits (the model's fault).
    #[error("{pass}: the tensors of this model add up to more bytes than can be addressed")]
    TooLarge {
        /// The pass.
        pass: &'static str,
    },
    /// The rules that memc carries cannot be read (a defect of memc).
    #[error("{pass}: {error}")]
    Rules {
        /// The pass.
        pass: &'static str,
        /// What is wrong with them.
        error: memc_rewrite::rules::RuleError,
    },
    /// A solver returned nothing, or something that its checker refuses (a defect of memc).
    #[error("{pass}: the solver's answer is wrong: {why}")]
    WrongAnswer {
        /// The pass.
        pass: &'static str,
        /// What the checker says.
        why: String,
    },
    /// No plan within the budget was found.
    #[error("{0}")]
    Budget(Box<Shortage>),
}

/// A budget that no plan was found for, and what stands in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    /// Space that is too small.
    pub space: String,
    /// What was asked.
    pub budget: Bytes,
    /// No plan of these nodes needs less, whatever is recomputed or moved.
    pub bound: Bytes,
    /// The bound is of plans that compute each node whole, and nodes may be computed in parts, too.
    pub only_whole: bool,
    /// The smallest arena that was found: a budget of this size is kept, if the space holds as much.
    pub least: Bytes,
    /// What the space holds on the target, if that is limited.
    pub capacity: Option<Bytes>,
    /// Name and operator of the node where that arena is full, or that of a plan of whole nodes.
    pub node: (String, String),
    /// Its step.
    pub step: Step,
    /// What is alive there, largest first.
    pub alive: Vec<(String, Bytes)>,
    /// The same by what it is.
    pub parts: StepBytes,
    /// What keeps more from being dropped.
    pub reasons: Vec<String>,
    /// The searches were asked to end before they did.
    pub is_early: bool,
}

/// Bytes that a step needs, by what would free them. The parts overlap: a value that the step's own node reads may be an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StepBytes {
    /// All of them.
    pub total: Bytes,
    /// Graph outputs.
    pub outputs: Bytes,
    /// Those of them that may be new values of graph inputs.
    pub updates: Bytes,
    /// How many those are.
    pub update_count: usize,
    /// Graph inputs.
    pub inputs: Bytes,
    /// What is kept through the step for later ones and is neither an output nor read or written there.
    pub waiting: Bytes,
    /// Operands, results and workspace of the step's own node.
    pub own: Bytes,
}

impl Shortage {
    /// The same, where other nodes that give the same results are only known to need so much.
    #[must_use]
    pub fn with_bound(mut self: Box<Self>, bound: Bytes) -> Box<Self> {
        self.bound = self.bound.min(bound);
        self
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bound, least) = (self.bound.exact(), self.least.exact());
        // The limit is the user's, or what the space holds.
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
            write!(f, "{limit} may be too small: the smallest plan found needs {least}; no plan can need less than {bound}")
        }
    }
}

/// What a solver said about the main graph, for the summary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SolverReport {
    /// The pass.
    pub pass: &'static str,
    /// Value in bytes.
    pub value: u64,
    /// Proven bound in bytes.
    pub lower_bound: u64,
    /// Why it stopped.
    pub stop: &'static str,
    /// Search nodes.
    pub effort: u64,
}

/// Name of the pass that orders nodes: its bound is what placements are measured against.
pub const SCHEDULE: &str = "schedule";

/// Gives the bytes of constants that lie in other files; the room that reads files implements it.
pub trait ExternalData: Debug {
    /// Bytes `offset .. offset + length` of the file at this place; `None` where it cannot be read or is too short.
    fn bytes(&self, location: &str, offset: u64, length: u64) -> Option<bytes::Bytes>;
}

/// What passes share while a pipeline runs.
#[derive(Clone, Debug)]
pub struct PassContext<'o> {
    /// Options.
    pub options: &'o Options,
    /// Bytes of constants that lie in other files, where they can be read.
    pub external: Option<&'o dyn ExternalData>,
    /// Memory of earlier runs on this model.
    pub memo: Memo,
    /// Elements of small tensors that inference knows.
    pub data: SecondaryMap<Value, Option<Arc<Data>>>,
    /// Settings of this run; the pipeline sets them before each pass.
    pub settings: Settings,
    /// Remarks, reports and rewrites of the passes until now.
    pub said: Said,
}

/// Results of passes beside the module.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// Remarks and warnings.
    pub remarks: Vec<Diagnostic>,
    /// How searches ended.
    pub reports: Vec<SolverReport>,
    /// Fragments that were rewritten, in the order in which that was done.
    pub rewrites: Vec<Replaced>,
    /// What keeping a limit took.
    pub budgeted: Option<Budgeted>,
}

/// What keeping a budget took, by the model of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budgeted {
    /// Time of all nodes before anything was repeated, in nanoseconds.
    pub base_cost: u64,
    /// Time of the plan, from the first node to the end of the last event.
    pub makespan: u64,
    /// No plan within the budget takes less time, as far as known.
    pub lower_bound: u64,
    /// Capacity for which the plan was made: the budget, and what windows save.
    pub capacity: u64,
    /// How many plans were placed until one fitted.
    pub rounds: u32,
    /// Why the search for the plan stopped.
    pub stop: &'static str,
    /// Its search nodes.
    pub effort: u64,
}

impl<'o> PassContext<'o> {
    /// A context for a module with these elements of small tensors.
    pub fn new(options: &'o Options, data: SecondaryMap<Value, Option<Arc<Data>>>) -> Self {
        let (memo, settings, said) = (Memo::default(), Settings::default(), Said::default());
        Self { options, external: None, memo, data, settings, said }
    }

    /// Search nodes that exact solvers may visit in this run.
    pub fn effort(&self) -> u64 {
        self.settings.effort.unwrap_or(self.options.effort)
    }

    /// The bytes of a constant, where they can be read and are as many as its type says.
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

/// What is known of a pass without running it.
#[derive(Debug)]
pub struct PassInfo {
    /// Name in pipelines.
    pub name: &'static str,
    /// One line; the first sentence of the page.
    pub summary: &'static str,
    /// The page.
    pub page: &'static str,
    /// Stage that the module must have reached.
    pub needs: Stage,
    /// Stage that the module has reached afterwards (at least).
    pub gives: Stage,
    /// Names of the settings that it reads.
    pub reads: &'static [&'static str],
    /// Does it.
    pub run: fn(&mut Module, &mut PassContext<'_>) -> Result<Changed, PassError>,
}
