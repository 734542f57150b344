//! Requests for plans: one struct with a builder, for the command and for libraries.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use memc_cost::timings::{self, ProfileError, Timings};
use memc_cost::{ScratchError, ScratchRules, Target};
use memc_ir::{Bytes, Limit, Range, SecondaryMap, Value};
use memc_onnx_import::ImportOptions;
use memc_ops::{Assumption, Data, Profile};
use memc_passes::threads::Threads;
use memc_passes::{Encoding, Io, Options, Rewriting, StateNames, Transform, WeightCode};
use memc_solve::Stop;

use crate::error::Error;
use crate::extent::{self, Extent};
use crate::link::LinkOption;
use crate::outside::ExternalData;
use crate::plain::PlainForm;
use crate::request_error::RequestError;
use crate::size::Size;
use crate::slo::Slo;

/// Largest alignment of an arena, in bytes: huge pages of one gigabyte, as in target files.
const MAX_ALIGNMENT: u64 = 1 << 30;

/// Largest number of engines: list schedules of more gain nothing on the models that were measured.
const MAX_ENGINES: u32 = 16;

/// Elements of small tensors that inference knows, by value.
pub(crate) type Known = SecondaryMap<Value, Option<Arc<Data>>>;

/// The runtime that executes the planned model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Runtime {
    /// A runtime that obeys the layout: generated code, firmware, the caller's own
    #[default]
    Arena,
    /// A stock session of ONNX Runtime on the CPU, which places tensors itself
    Ort,
    /// A session of ONNX Runtime on a CUDA device, by `memc.ort.replay` in one block
    Cuda,
    /// `memc run`: obeys the layout, with ONNX Runtime's kernels
    Player,
}

impl Runtime {
    /// Facts about the runtime.
    pub fn profile(self) -> &'static Profile {
        match self {
            Self::Arena => &Profile::ARENA,
            Self::Ort => &Profile::ORT,
            Self::Cuda => &Profile::CUDA,
            Self::Player => &Profile::PLAYER,
        }
    }

    /// Name in options and in the layout file.
    pub fn name(self) -> &'static str {
        self.profile().name
    }
}

/// Upper limit of the arena of one space.
#[derive(Clone, PartialEq, Debug)]
pub struct Budget {
    /// Name of the space; `None` for the first space of the target.
    pub space: Option<String>,
    /// Largest size of the arena.
    pub size: Size,
}

impl From<Size> for Budget {
    fn from(size: Size) -> Self {
        Self { space: None, size }
    }
}

/// Node times that a runtime measured, with the hash of their file for the layout.
#[derive(Clone, PartialEq, Debug)]
pub struct Measurements {
    /// Times and workspace by node.
    pub(crate) timings: Timings,
    /// SHA-256 of the file.
    pub(crate) sha256: String,
}

impl Measurements {
    /// Reads the file that `memc profile` writes.
    ///
    /// # Errors
    /// The text is not a profile.
    pub fn from_json(text: &str) -> Result<Self, ProfileError> {
        Ok(Self { timings: timings::read(text)?, sha256: memc_onnx_export::sha256(text.as_bytes()) })
    }
}

/// A scratch file: the workspace of kernels, by operator.
#[derive(Clone, PartialEq, Debug)]
pub struct ScratchFile {
    /// Workspace by operator.
    pub(crate) rules: Arc<ScratchRules>,
    /// SHA-256 of the file.
    pub(crate) sha256: String,
}

impl ScratchFile {
    /// Reads a scratch file, `memc.scratch/1`.
    ///
    /// # Errors
    /// The text is no scratch file.
    pub fn from_json(text: &str) -> Result<Self, ScratchError> {
        let sha256 = memc_onnx_export::sha256(text.as_bytes());
        Ok(Self { rules: Arc::new(ScratchRules::from_json(text)?), sha256 })
    }
}

/// A request for a plan. The default plans for a runtime that obeys the layout, on the CPU target,
/// without a budget.
///
/// ```
/// use memc::{Request, Runtime, Size};
///
/// let request = Request::new().dim("batch", 8).runtime(Runtime::Ort);
/// let request = request.budget(Size::Percent(60.0)).exact(true);
/// assert_eq!(request.stated()["budget"], "60%");
/// ```
#[derive(Clone, Debug)]
pub struct Request {
    /// Extents of symbolic dimensions, and sizes that the model alone does not tell.
    pub import: ImportOptions,
    /// Ascending largest extents of dimensions, for each of which the layout has offsets.
    pub buckets: BTreeMap<String, Vec<u64>>,
    /// The runtime that executes the result.
    pub runtime: Runtime,
    /// The machine: spaces, links, rates.
    pub target: Target,
    /// Links to farther spaces, in addition to those of the target.
    pub links: Vec<LinkOption>,
    /// Measured times and workspace, which replace modelled ones.
    pub measured: Option<Measurements>,
    /// Workspace of the runtime's kernels; `None` for those that memc knows.
    pub scratch: Option<ScratchFile>,
    /// Alignment of all offsets and arenas in bytes, a power of two; `None` for that of the target.
    pub alignment: Option<u64>,
    /// Limits of arenas.
    pub budgets: Vec<Budget>,
    /// Longest modelled time of a run: the plan then has the fewest bytes within it.
    pub slo: Option<Slo>,
    /// Limit of the largest single value; `None` for none.
    pub max_value: Option<Bytes>,
    /// Number of further budgets to plan, between the smallest reachable arena and the need without a
    /// budget; 0 for none.
    pub pareto: u32,
    /// Changes that rewriting may make.
    pub rewrite: Rewriting,
    /// Codes that values may have between two uses, and codes of weights.
    pub encode: Encoding,
    /// Graph inputs and outputs that the arena holds; `None` for outputs, or neither if state is shared.
    pub io: Option<Io>,
    /// Whether new values of parameters and moments take the storage of the old values.
    pub alias_state: bool,
    /// Pairs of a graph output and the graph input whose storage it takes.
    pub state: Vec<StateNames>,
    /// The farther space that holds the weights for which the first space has no room.
    pub weights: Option<String>,
    /// Whether outputs with a row for each token keep only the row of the last one.
    pub last_token: bool,
    /// Number of equal engines that run the nodes at once.
    pub engines: u32,
    /// Largest constant that folding may make, in bytes.
    pub max_fold_bytes: Bytes,
    /// Whether dead-end nodes pin the order, for runtimes that choose their own.
    pub anchors: bool,
    /// Nodes that hold the plan in a session with default options.
    pub plain: PlainForm,
    /// The file beside the written model that takes the weights; `None` leaves them in their places.
    pub external_data: Option<ExternalData>,
    /// Search effort, in nodes of an exact search.
    pub effort: u64,
    /// Threads that search; `None` takes one for each processor. The plan does not depend on their number.
    pub threads: Option<usize>,
    /// Passes to run instead of the planner, as text.
    pub passes: Option<String>,
    /// Pipelines whose plans compete with those of the planner.
    pub pipelines: Vec<String>,
    /// Transforms of the caller.
    pub transforms: Vec<&'static Transform>,
    /// Ends searches early when requested.
    pub stop: Stop,
    /// Wall-clock time after which searches end; the plan then depends on the machine.
    pub time_limit: Option<Duration>,
    /// Whether to lay out the file order too, for comparison.
    pub compare: bool,
    /// Whether to verify the module after every pass.
    pub verify: bool,
    /// Whether to check the plan as `memc check` does before it is returned; on by default.
    pub check: bool,
}

impl Default for Request {
    fn default() -> Self {
        let options = Options::default();
        Self {
            import: ImportOptions::default(),
            buckets: BTreeMap::new(),
            runtime: Runtime::default(),
            target: Target::default(),
            links: Vec::new(),
            measured: None,
            scratch: None,
            alignment: None,
            budgets: Vec::new(),
            slo: None,
            max_value: None,
            pareto: 0,
            rewrite: options.rewrite,
            encode: options.encode,
            io: None,
            alias_state: false,
            state: Vec::new(),
            weights: None,
            last_token: false,
            engines: 1,
            max_fold_bytes: options.max_fold_bytes,
            anchors: false,
            plain: PlainForm::default(),
            external_data: None,
            effort: options.effort,
            threads: None,
            passes: None,
            pipelines: Vec::new(),
            transforms: Vec::new(),
            stop: Stop::default(),
            time_limit: None,
            compare: false,
            verify: false,
            check: true,
        }
    }
}

/// A request with the options of the passes that follow from it.
#[derive(Debug)]
pub(crate) struct Resolved<'r> {
    pub(crate) request: &'r Request,
    pub(crate) plan: Options,
}

/// The builder: each method changes one thing and returns the request.
impl Request {
    /// The default request.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the extents of a symbolic dimension: one, a range, a list of largest extents, or an expression
    /// over other dimensions.
    ///
    /// ```
    /// use memc::{ExtentError, Request};
    ///
    /// let request = Request::new().dim("batch", 8).dim("seq", "1..512".parse::<memc::Extent>()?);
    /// assert_eq!(request.stated()["dims"], "batch=8,seq=1..512");
    /// # Ok::<(), ExtentError>(())
    /// ```
    #[must_use]
    pub fn dim(mut self, name: impl Into<String>, extent: impl Into<Extent>) -> Self {
        let name = name.into();
        match extent.into() {
            Extent::Only(extent) => drop(self.import.dims.insert(name, extent)),
            Extent::Range(range) => drop(self.import.ranges.insert(name, range)),
            Extent::Equal(of) => drop(self.import.equal.insert(name, of)),
            Extent::Buckets(all) => {
                self.import.ranges.insert(name.clone(), Range { min: 1, max: all.last().copied(), step: 1 });
                self.buckets.insert(name, all);
            }
        }
        self
    }

    /// Limits an expression over symbolic dimensions.
    #[must_use]
    pub fn limit(mut self, limit: Limit) -> Self {
        self.import.limits.push(limit);
        self
    }

    /// Assumes a size for a value whose size only a run tells.
    #[must_use]
    pub fn assume(mut self, value: impl Into<String>, size: Assumption) -> Self {
        self.import.assume.insert(value.into(), size);
        self
    }

    /// Sets the runtime that executes the result.
    #[must_use]
    pub fn runtime(mut self, runtime: Runtime) -> Self {
        self.runtime = runtime;
        self
    }

    /// Sets the machine.
    #[must_use]
    pub fn target(mut self, target: Target) -> Self {
        self.target = target;
        self
    }

    /// Adds a farther space and the link to it.
    #[must_use]
    pub fn link(mut self, link: LinkOption) -> Self {
        self.links.push(link);
        self
    }

    /// Limits the arena of the first space, or of a named one.
    #[must_use]
    pub fn budget(mut self, budget: impl Into<Budget>) -> Self {
        self.budgets.push(budget.into());
        self
    }

    /// Allows only changes that keep every bit of the results.
    #[must_use]
    pub fn exact(mut self, exact: bool) -> Self {
        self.rewrite.exact = exact;
        self
    }

    /// Sets the changes that rewriting may make.
    #[must_use]
    pub fn rewrite(mut self, rewrite: Rewriting) -> Self {
        self.rewrite = rewrite;
        self
    }

    /// Sets the codes that values may have between two uses, and codes of weights.
    #[must_use]
    pub fn encode(mut self, encode: Encoding) -> Self {
        self.encode = encode;
        self
    }

    /// Writes the weights of matrix products in few bits.
    #[must_use]
    pub fn encode_weights(mut self, code: WeightCode) -> Self {
        self.encode.weights = Some(code);
        self
    }

    /// Sets which graph inputs and outputs the arena holds.
    #[must_use]
    pub fn io(mut self, io: Io) -> Self {
        self.io = Some(io);
        self
    }

    /// Lets new values of parameters and moments take the storage of the old values.
    #[must_use]
    pub fn alias_state(mut self, alias: bool) -> Self {
        self.alias_state = alias;
        self
    }

    /// Allows extra time for less memory, in percent of the modelled time.
    #[must_use]
    pub fn slowdown(mut self, percent: f64) -> Self {
        self.rewrite.slowdown = (percent * 100.0).round() as u32;
        self
    }

    /// Asks for the fewest bytes among plans whose run takes at most this modelled time.
    #[must_use]
    pub fn slo(mut self, longest: Slo) -> Self {
        self.slo = Some(longest);
        self
    }

    /// Splits the batch into this number of parts, computed in turn; 1 keeps it whole.
    #[must_use]
    pub fn micro_batches(mut self, parts: u64) -> Self {
        self.rewrite.micro_batches = Some(parts);
        self
    }

    /// Writes a graph output over the graph input whose new value it is.
    #[must_use]
    pub fn state(mut self, new: impl Into<String>, old: impl Into<String>) -> Self {
        self.state.push(StateNames { new: new.into(), old: old.into() });
        self
    }

    /// Keeps weights without room in the first space in a farther one.
    #[must_use]
    pub fn weights(mut self, space: impl Into<String>) -> Self {
        self.weights = Some(space.into());
        self
    }

    /// Leaves only the last row of outputs with a row for each token.
    #[must_use]
    pub fn last_token(mut self, last: bool) -> Self {
        self.last_token = last;
        self
    }

    /// Runs branches of the model on this number of equal engines at once.
    #[must_use]
    pub fn engines(mut self, count: u32) -> Self {
        self.engines = count;
        self
    }

    /// Plans further budgets, between the smallest reachable arena and the need without a budget.
    #[must_use]
    pub fn pareto(mut self, budgets: u32) -> Self {
        self.pareto = budgets;
        self
    }

    /// Pins the order with dead-end nodes, for runtimes that choose an order of their own.
    #[must_use]
    pub fn anchors(mut self, anchors: bool) -> Self {
        self.anchors = anchors;
        self
    }

    /// Moves the weights into one aligned file beside the written model.
    #[must_use]
    pub fn external_data(mut self, file: ExternalData) -> Self {
        self.external_data = Some(file);
        self
    }

    /// Uses measured times and workspace instead of modelled ones.
    #[must_use]
    pub fn measured(mut self, measured: Measurements) -> Self {
        self.measured = Some(measured);
        self
    }

    /// Counts the workspace that a scratch file states.
    #[must_use]
    pub fn scratch(mut self, file: ScratchFile) -> Self {
        self.scratch = Some(file);
        self
    }

    /// Limits the largest single value: a runtime may refuse larger bindings, however small the arena is.
    #[must_use]
    pub fn max_value(mut self, bytes: u64) -> Self {
        self.max_value = Some(Bytes(bytes));
        self
    }

    /// Sets the alignment of all offsets and arenas, in bytes.
    #[must_use]
    pub fn alignment(mut self, bytes: u64) -> Self {
        self.alignment = Some(bytes);
        self
    }

    /// Sets the search effort, in nodes of an exact search.
    #[must_use]
    pub fn effort(mut self, nodes: u64) -> Self {
        self.effort = nodes;
        self
    }

    /// Sets the number of threads that search. The plan does not depend on it.
    #[must_use]
    pub fn threads(mut self, count: usize) -> Self {
        self.threads = Some(count);
        self
    }

    /// Runs these passes instead of the planner.
    #[must_use]
    pub fn passes(mut self, passes: impl Into<String>) -> Self {
        self.passes = Some(passes.into());
        self
    }

    /// Adds a pipeline whose plan competes with those of the planner.
    #[must_use]
    pub fn pipeline(mut self, passes: impl Into<String>) -> Self {
        self.pipelines.push(passes.into());
        self
    }

    /// Adds a transform of the caller beside those of the planner. Pipelines name its pass.
    #[must_use]
    pub fn transform(mut self, transform: &'static Transform) -> Self {
        self.transforms.push(transform);
        self
    }

    /// Ends searches when a clone of `stop` is requested to.
    #[must_use]
    pub fn stop(mut self, stop: Stop) -> Self {
        self.stop = stop;
        self
    }

    /// Ends searches after a wall-clock time. The plan then depends on the machine.
    #[must_use]
    pub fn time_limit(mut self, time: Duration) -> Self {
        self.time_limit = Some(time);
        self
    }
}

impl Request {
    /// Whether any new value takes the storage of an old value.
    fn shares_state(&self) -> bool {
        self.alias_state || !self.state.is_empty()
    }

    /// Graph inputs and outputs that the arena holds.
    fn chosen_io(&self) -> Io {
        self.io.unwrap_or(if self.shares_state() { Io::External } else { Io::Outputs })
    }

    /// Options of the passes.
    ///
    /// # Errors
    /// Two options exclude each other, or a link cannot be added to the target.
    pub fn options(&self) -> Result<Options, Error> {
        if self.shares_state() && self.chosen_io() != Io::External {
            return Err(RequestError::StateInArena.into());
        }
        if self.rewrite.nchwc.is_some() && matches!(self.runtime, Runtime::Arena | Runtime::Cuda) {
            return Err(RequestError::BlocksWithoutKernels.into());
        }
        if self.rewrite.exact
            && let Some(parts) = self.rewrite.micro_batches.filter(|parts| *parts > 1)
        {
            return Err(RequestError::ExactBatch { parts }.into());
        }
        if self.rewrite.exact
            && let Some(option) = self.encode.rounds()
        {
            return Err(RequestError::ExactLossy { option }.into());
        }
        if self.slo.is_some() && self.rewrite.slowdown > 0 {
            return Err(RequestError::TwoTimes.into());
        }
        self.validate_engines()?;
        extent::validate(&self.buckets)?;
        if self.scratch.is_some() && matches!(self.runtime, Runtime::Ort | Runtime::Player) {
            return Err(RequestError::ScratchOfSession { runtime: self.runtime.name() }.into());
        }
        if let Some(bytes) = self.alignment.filter(|bytes| !bytes.is_power_of_two() || *bytes > MAX_ALIGNMENT)
        {
            return Err(RequestError::Alignment { bytes }.into());
        }
        let mut target = self.target.clone();
        if self.runtime == Runtime::Cuda {
            self.validate_device()?;
            target.spaces.truncate(1);
            target.links.clear();
        }
        for link in &self.links {
            link.add_to(&mut target).map_err(RequestError::from)?;
        }
        if let Some(space) = &self.weights
            && target.space(space).and_then(|far| target.link(far, 0)).is_none()
        {
            return Err(RequestError::NoLink { space: space.clone() }.into());
        }
        for space in &mut target.spaces {
            space.alignment = self.alignment.or(space.alignment);
        }
        let processors = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let mut options = Options::on(self.runtime.profile(), target);
        options.cost.scratch = self.scratch.as_ref().map(|file| file.rules.clone());
        Ok(Options {
            io: self.chosen_io(),
            max_fold_bytes: self.max_fold_bytes,
            effort: self.effort,
            rewrite: self.rewrite,
            encode: self.encode.clone(),
            alias_state: self.alias_state,
            state: self.state.clone(),
            weights: self.weights.clone(),
            last_token: self.last_token,
            engines: self.engines,
            stop: self.stop.clone(),
            threads: Threads::new(self.threads.unwrap_or_else(processors)),
            pipelines: self.pipelines.clone(),
            ..options
        })
    }

    /// Checks that no option moves values out of the space of a device.
    fn validate_device(&self) -> Result<(), RequestError> {
        let moving = [("--link", !self.links.is_empty()), ("--weights", self.weights.is_some())];
        match moving.into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(RequestError::MovesOfDevice { option }),
            None => Ok(()),
        }
    }

    /// Checks the number of engines, and that no other option excludes several.
    fn validate_engines(&self) -> Result<(), RequestError> {
        let engines = self.engines;
        if !(1..=MAX_ENGINES).contains(&engines) {
            return Err(RequestError::EngineCount { engines, most: MAX_ENGINES });
        }
        let excluded = [
            (
                "--runtime ort",
                self.runtime == Runtime::Ort,
                "a session of ONNX Runtime runs one node after another",
            ),
            ("--runtime cuda", self.runtime == Runtime::Cuda, "a session on a device has one stream"),
            (
                "--dim NAME=A..B",
                !self.import.ranges.is_empty(),
                "offsets follow the extents of a run, and waits do not",
            ),
            ("--link", !self.links.is_empty(), "transfers are planned for one engine"),
            ("--weights", self.weights.is_some(), "fetches are planned for one engine"),
            ("--anchors", self.anchors, "anchors pin the order of one engine"),
            ("--slo", self.slo.is_some(), "that time is the one of a single engine"),
            ("--pareto", self.pareto > 0, "its table is for one engine"),
        ];
        match excluded.into_iter().find(|(_, is_given, _)| *is_given) {
            Some((option, _, why)) if engines > 1 => Err(RequestError::Engines { engines, option, why }),
            _ => Ok(()),
        }
    }

    /// Extents of dimensions as the user gave them, by name.
    fn stated_dims(&self) -> Vec<String> {
        let only = self.import.dims.iter().map(|(name, extent)| (name, extent.to_string()));
        let ranges = self.import.ranges.iter().map(|(name, range)| match self.buckets.get(name) {
            Some(all) => (name, Extent::Buckets(all.clone()).to_string()),
            None => (name, range.to_string()),
        });
        let equal = self.import.equal.iter().map(|(name, of)| (name, of.to_string()));
        let all: BTreeMap<&String, String> = only.chain(ranges).chain(equal).collect();
        all.into_iter().map(|(name, extents)| format!("{name}={extents}")).collect()
    }

    /// Options that shape the plan, by name, as the layout file states them. Paths are left out.
    pub fn stated(&self) -> BTreeMap<String, String> {
        let mut stated = BTreeMap::new();
        let mut state = |name: &str, text: String| stated.insert(name.to_owned(), text);
        state("anchors", self.anchors.to_string());
        state("effort", self.effort.to_string());
        state("exact", self.rewrite.exact.to_string());
        state("rewrite", self.rewrite.enabled.to_string());
        state("std_ops", self.rewrite.standard.to_string());
        state("io", self.chosen_io().name().to_owned());
        state("max_fold_bytes", self.max_fold_bytes.0.to_string());
        state("runtime", self.runtime.name().to_owned());
        let mut list = |name: &str, parts: Vec<String>, separator: &str| {
            if !parts.is_empty() {
                state(name, parts.join(separator));
            }
        };
        list("link", self.links.iter().map(ToString::to_string).collect(), " ");
        list("state", self.state.iter().map(|pair| format!("{}={}", pair.new, pair.old)).collect(), " ");
        list("budget", self.budgets.iter().map(ToString::to_string).collect(), ",");
        list("dims", self.stated_dims(), ",");
        list("dim_max", self.import.limits.iter().map(ToString::to_string).collect(), ",");
        list("lossy", self.encode.lossy.iter().map(|form| form.name().to_owned()).collect(), ",");
        list("keep_wide", self.encode.keep_wide.clone(), " ");
        list("pipelines", self.pipelines.clone(), " ");
        list(
            "transforms",
            self.transforms.iter().map(|transform| transform.pass.name.to_owned()).collect(),
            " ",
        );
        list("assume", self.import.assume.iter().map(|(name, size)| format!("{name}={size}")).collect(), ",");
        let mut given = |name: &str, text: Option<String>| list(name, text.into_iter().collect(), "");
        given("plain", (!self.plain.is_none()).then(|| self.plain.to_string()));
        given("time_limit", self.time_limit.map(|time| time.as_secs_f64().to_string()));
        given("slo", self.slo.map(|slo| slo.to_string()));
        given("max_value", self.max_value.map(|bytes| bytes.0.to_string()));
        given("alias_state", self.alias_state.then(|| true.to_string()));
        given("weights", self.weights.clone());
        given("engines", (self.engines > 1).then(|| self.engines.to_string()));
        given("last_token", self.last_token.then(|| true.to_string()));
        given("micro_batches", self.rewrite.micro_batches.map(|parts| parts.to_string()));
        given(
            "slowdown",
            (self.rewrite.slowdown > 0).then(|| format!("{}%", f64::from(self.rewrite.slowdown) / 100.0)),
        );
        given("encode", (!self.encode.exact).then(|| "off".to_owned()));
        given("encode_weights", self.encode.weights.map(|code| code.name().to_owned()));
        given("integer_kernels", self.rewrite.integer_kernels.then(|| true.to_string()));
        given("nchwc", self.rewrite.nchwc.map(|block| block.to_string()));
        given("passes", self.passes.clone());
        given("pareto", (self.pareto > 0).then(|| self.pareto.to_string()));
        given("scratch", self.scratch.as_ref().map(|file| file.sha256.clone()));
        given("align", self.alignment.map(|bytes| bytes.to_string()));
        given("profile", self.measured.as_ref().map(|measured| measured.sha256.clone()));
        stated
    }
}

impl std::fmt::Display for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.space {
            Some(space) => write!(f, "{space}={}", self.size),
            None => write!(f, "{}", self.size),
        }
    }
}

impl std::str::FromStr for Budget {
    type Err = crate::size::SizeError;

    /// Reads `SIZE` or `SPACE=SIZE`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (space, size) =
            text.split_once('=').map_or((None, text), |(space, size)| (Some(space.to_owned()), size));
        Ok(Self { space, size: size.parse()? })
    }
}
