//! The command line, as declared to clap.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use memc::{Budget, Extent, ExternalData, LinkOption, Runtime, Size, Slo};
use memc_ir::Limit;
use memc_ops::Assumption;
#[cfg(feature = "ort")]
use memc_ops::profile::SessionSettings;
use memc_ops::profile::{Language, Recipe};
use memc_passes::{Lossy, StateNames, WeightCode};

use super::solve_args::effort;

/// Headings of `--help`, by task, in the order in which they appear.
pub(super) mod heading {
    pub const USUAL: &str = "Most used";
    pub const INPUT: &str = "Input";
    pub const GOAL: &str = "Goal";
    pub const MACHINE: &str = "Machine";
    pub const CHANGES: &str = "Allowed changes";
    pub const LIMITS: &str = "Limits";
    pub const TRAINING: &str = "Training";
    pub const OUTPUT: &str = "Output";
    pub const DIAGNOSTICS: &str = "Diagnostics";
}

/// Extents and sizes that the model leaves open, for all commands that plan.
#[derive(Args, Clone, Debug)]
pub struct Inputs {
    /// Extent of a symbolic dimension (repeatable): 8; a range 1..512 or 32..960/32, for which the plan
    /// holds as a whole; 128,256,512 for offsets for each; or past+seq. An axis without a name is
    /// INPUT.AXIS, and `?` means all of those. A dimension that only results have is assumed, as by --assume
    #[arg(long = "dim", value_name = "NAME=N|A..B", value_parser = extent, help_heading = heading::USUAL)]
    pub dims: Vec<(String, Extent)>,
    /// Limit on an expression over dimensions with ranges (repeatable)
    #[arg(long, value_name = "height*width<=N", help_heading = heading::INPUT, hide_short_help = true)]
    pub dim_max: Vec<Limit>,
    /// Bind dimensions to the extents of real inputs: a file of numpy.savez with the inputs' names, or
    /// INPUT.npy
    #[cfg(feature = "ort")]
    #[arg(long, value_name = "FEED.npz", help_heading = heading::INPUT, hide_short_help = true)]
    pub dim_from: Option<PathBuf>,
    /// Size of a value that only a run tells, as a number of elements or a shape (repeatable). Other
    /// data run, but may need more memory
    #[arg(long, value_name = "VALUE=N|VALUE=2x12", value_parser = pair::<Assumption>, help_heading = heading::INPUT, hide_short_help = true)]
    pub assume: Vec<(String, Assumption)>,
    /// Plan although inputs keep symbolic dimensions: tensors that depend on them get no place
    #[arg(long, help_heading = heading::INPUT, hide_short_help = true)]
    pub allow_unbound: bool,
}

/// Options of planning that several commands share, with the inputs.
#[derive(Args, Debug)]
pub struct Planning {
    /// Inputs
    #[command(flatten)]
    pub inputs: Inputs,
    /// Everything else
    #[command(flatten)]
    pub machine: Machine,
}

/// The machine, the changes that planning may make, and its effort.
#[derive(Args, Clone, Debug)]
pub struct Machine {
    /// Runtime that executes the result: one that obeys the layout, or a stock ONNX Runtime session
    #[arg(long, value_enum, default_value = "arena", help_heading = heading::USUAL)]
    pub runtime: Runtime,
    /// Machine: a target that comes with memc (`memc targets`), a file, or `auto` for this machine
    #[arg(long, value_name = "NAME|auto|FILE.toml", default_value = "cpu", help_heading = heading::USUAL)]
    pub target: String,
    /// Search effort: fast, default, max, or a number of search nodes
    #[arg(long, value_name = "fast|default|max|N", default_value = "default", value_parser = effort, help_heading = heading::USUAL)]
    pub effort: u64,
    /// Threads that search; the plan does not depend on their number [default: one for each processor]
    #[arg(long, value_name = "N", help_heading = heading::MACHINE, hide_short_help = true)]
    pub threads: Option<NonZeroUsize>,
    /// Farther space and the link to it, in both directions: host=16GB/s, or host=16GB/s,20us
    /// (repeatable; latency is 10us by default)
    #[arg(long = "link", value_name = "SPACE=RATE[,LATENCY]", help_heading = heading::MACHINE, hide_short_help = true)]
    pub links: Vec<LinkOption>,
    /// Workspace of the runtime's own kernels: a file of expressions over extents, by operator
    #[arg(long, value_name = "FILE.json", help_heading = heading::MACHINE, hide_short_help = true)]
    pub scratch: Option<PathBuf>,
    /// Alignment of all offsets and of the arenas' addresses, a power of two [default: the target's]
    #[arg(long, value_name = "BYTES", help_heading = heading::MACHINE, hide_short_help = true)]
    pub align: Option<u64>,
    /// Farther space for the weights that the first space has no room for: they are fetched before they
    /// are read, and the budget counts the weights that stay
    #[arg(long, value_name = "SPACE", help_heading = heading::MACHINE, hide_short_help = true)]
    pub weights: Option<String>,
    /// Graph tensors that the arena holds: outputs, outputs and inputs (arena), or neither (external)
    /// [default: outputs]
    #[arg(long, value_enum, help_heading = heading::MACHINE, hide_short_help = true)]
    pub io: Option<IoArg>,
    /// Write new values of parameters and moments over the old values. The caller holds all outputs
    /// (--io external)
    #[arg(long, help_heading = heading::CHANGES, hide_short_help = true)]
    pub alias_state: bool,
    /// Write graph output NEW over graph input OLD (repeatable): --alias-state for one pair, found or
    /// not. A cache that grows is kept in one buffer. `*` stands for any text: present*=past*
    #[arg(long, value_name = "NEW=OLD", value_parser = state, help_heading = heading::CHANGES, hide_short_help = true)]
    pub state: Vec<StateNames>,
    /// Largest constant that folding may make
    #[arg(long, value_name = "SIZE", default_value = "64KiB", help_heading = heading::CHANGES, hide_short_help = true)]
    pub max_fold_bytes: Size,
    /// Passes to run instead of the planner, as `--log-plans` prints them
    #[arg(long, value_name = "TEXT", help_heading = heading::DIAGNOSTICS, hide_short_help = true)]
    pub passes: Option<String>,
}

/// Graph tensors that the arena holds.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum IoArg {
    /// Graph outputs
    Outputs,
    /// Graph outputs and inputs
    Arena,
    /// Neither
    External,
}

/// `memc optimize`.
#[derive(Args, Clone, Debug)]
pub struct Optimize {
    /// Model to plan; `-` for stdin
    pub input: PathBuf,
    /// Planned model to write, as -o
    #[arg(value_name = "OUT.onnx", conflicts_with = "output")]
    pub second: Option<PathBuf>,
    /// Planned model to write, `-` for stdout; without it the model is planned and nothing is written
    #[arg(short, long, value_name = "OUT.onnx", help_heading = heading::USUAL)]
    pub output: Option<PathBuf>,
    /// Upper limit of the arena: 512KiB, 2GB, 60% of the peak in file order, or SPACE=SIZE (repeatable)
    #[arg(long, value_name = "SIZE|SPACE=SIZE", value_parser = budget, help_heading = heading::USUAL)]
    pub budget: Vec<Budget>,
    /// Longest modelled time of a run: 20ms, 1.5s. The plan is the one of fewest bytes within it; with a
    /// --budget it keeps both, or memc prints what is possible
    #[arg(long, value_name = "TIME", conflicts_with = "slowdown", help_heading = heading::USUAL)]
    pub slo: Option<Slo>,
    /// Extra time allowed for less memory, in percent of the modelled time
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "0", allow_negative_numbers = true, help_heading = heading::USUAL)]
    pub slowdown: u32,
    /// Allow only rewrites that keep every bit of the results (implied if random operators have seeds)
    #[arg(long, help_heading = heading::USUAL)]
    pub exact: bool,
    /// Layout to write, by extension: .json, .h, .rs, .csv, .onnx2c.csv (repeatable)
    /// [default: OUT.layout.json]
    #[arg(long, value_name = "PATH", help_heading = heading::USUAL)]
    pub layout: Vec<PathBuf>,
    /// Report to write, by extension: .html, .txt, .json (repeatable)
    #[arg(long, value_name = "PATH", help_heading = heading::USUAL)]
    pub report: Vec<PathBuf>,
    /// Inputs
    #[command(flatten)]
    pub inputs: Inputs,
    /// Largest single value, where a runtime limits one binding or allocation: 128MiB. Values beyond it are
    /// computed in parts, or the plan is refused
    #[arg(long, value_name = "SIZE", value_parser = whole, help_heading = heading::GOAL, hide_short_help = true)]
    pub max_value: Option<u64>,
    /// Plan N further budgets, from the need without a budget down to the smallest reachable arena, and
    /// print a table
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=64), help_heading = heading::GOAL, hide_short_help = true)]
    pub pareto: u32,
    /// End searches after SECONDS with the best plan until then. The plan then depends on the machine
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true, help_heading = heading::GOAL, hide_short_help = true)]
    pub time_limit: Option<Duration>,
    /// Run branches of the model on N engines at once: threads, cores or queues that each run one node at a
    /// time. The layout states each node's engine, and which nodes wait for which
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = heading::MACHINE, hide_short_help = true)]
    pub engines: u32,
    /// Times and workspace that `memc profile` measured, instead of modelled ones
    #[arg(long, value_name = "P.json", help_heading = heading::MACHINE, hide_short_help = true)]
    pub profile: Option<PathBuf>,
    /// Keep operators as they are: no rewriting, no splitting. Folding and cleaning still run, and fold
    /// into weights unless --exact
    #[arg(long, help_heading = heading::CHANGES, hide_short_help = true)]
    pub no_rewrite: bool,
    /// Make no operators outside the ONNX standard
    #[arg(long, help_heading = heading::CHANGES, hide_short_help = true)]
    pub std_ops: bool,
    /// Use integer kernels if a quantized model dequantizes before it computes, as an optimizing ONNX
    /// Runtime session does. Saves memory and time. A result halfway between two integers may round the
    /// other way; x86-64 processors without VNNI saturate if signed weights lie outside -64 to 64
    #[arg(long, conflicts_with = "exact", help_heading = heading::CHANGES, hide_short_help = true)]
    pub integer_kernels: bool,
    /// Channels in a block of an image, the form that ONNX Runtime's fastest convolutions read: 16 with
    /// AVX-512, 8 on other x86-64; `native` picks this processor's block. The model is wrong on
    /// processors with another block
    #[arg(long, value_name = "native|8|16", value_parser = block, conflicts_with_all = ["exact", "std_ops"], help_heading = heading::CHANGES, hide_short_help = true)]
    pub nchwc: Option<Blocks>,
    /// Number of equal parts of the batch, computed in turn; 1 keeps the batch whole [default: the
    /// number that saves enough memory for its time]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=65536), help_heading = heading::CHANGES, hide_short_help = true)]
    pub micro_batches: Option<u64>,
    /// Leave only the last row of outputs that have a row for each token, as the logits of a decoder: nothing
    /// else is computed. The output's shape changes
    #[arg(long, help_heading = heading::CHANGES, hide_short_help = true)]
    pub last_token: bool,
    /// Codes for values between two uses: `exact` keeps Booleans as bits and indices as bytes, without
    /// changing a bit of any result; `off` forbids codes
    #[arg(long, value_enum, default_value_t = Codes::Exact, hide_possible_values = true, value_name = "off|exact", help_heading = heading::CHANGES, hide_short_help = true)]
    pub encode: Codes,
    /// Lossy codes for values of the forward pass that gradients read again: half precision, bfloat16, 8
    /// bits with a scale for each row, or no code where results give values back (repeatable). The loss keeps
    /// every bit; gradients do not
    #[arg(long, value_enum, hide_possible_values = true, value_name = "f16|bf16|int8|inverse", conflicts_with = "exact", help_heading = heading::CHANGES, hide_short_help = true)]
    pub lossy: Vec<LossyForm>,
    /// Names of values without lossy codes; `*` stands for any text (repeatable)
    #[arg(long, value_name = "PATTERN", requires = "lossy", help_heading = heading::CHANGES, hide_short_help = true)]
    pub keep_wide: Vec<String>,
    /// Write the weights of matrix products in 8 or 4 bits, with scales. Results change: the layout states
    /// the error of each matrix, and `memc verify` compares results within its --lossy-bound
    #[arg(long, value_name = "int8|int4", value_enum, conflicts_with = "exact", hide_possible_values = true, help_heading = heading::CHANGES, hide_short_help = true)]
    pub encode_weights: Option<WeightCodeArg>,
    /// Pin the order with dead-end nodes, for runtimes that choose an order of their own
    #[arg(long, help_heading = heading::OUTPUT, hide_short_help = true)]
    pub anchors: bool,
    /// Leave weight files where they are, if the written model goes into another folder. Without this
    /// option they go along: as links to the given files where the file system allows it, else as copies
    #[arg(long, help_heading = heading::OUTPUT, hide_short_help = true)]
    pub weights_in_place: bool,
    /// Allow outputs that replace the given model
    #[arg(long, help_heading = heading::OUTPUT, hide_short_help = true)]
    pub force: bool,
    /// Move the weights into one file beside the planned model, each tensor of at least SIZE at a
    /// multiple of SIZE (64KiB by default), so that runtimes map weights instead of copying them
    #[arg(long, value_name = "FILE[,align=SIZE]", help_heading = heading::OUTPUT, hide_short_help = true)]
    pub external_data: Option<ExternalData>,
    /// Write the files that the outputs follow from as a rule for make
    #[arg(long, value_name = "FILE.d", help_heading = heading::OUTPUT, hide_short_help = true)]
    pub depfile: Option<PathBuf>,
    /// With --runtime ort: print the set-up of a session, in python, cpp, csharp or rust: the least bytes
    /// that cost no time (fast), the least bytes (smallest), or default options (plain); fast and smallest
    /// by default. Each is counted in ONNX Runtime where that is installed
    #[arg(long, value_name = "LANGUAGE[=fast|smallest|plain]", value_parser = session, help_heading = heading::OUTPUT, hide_short_help = true)]
    pub session: Option<(Language, Option<Recipe>)>,
    /// Print the summary as JSON on stdout
    #[arg(long, help_heading = heading::OUTPUT, hide_short_help = true)]
    pub json: bool,
    /// Machine, changes and effort
    #[command(flatten)]
    pub machine: Machine,
    /// Print the candidates, a line each: strategy, bytes, modelled time, effort, verdict; then the
    /// passes that repeat the plan
    #[arg(long, help_heading = heading::DIAGNOSTICS, hide_short_help = true)]
    pub log_plans: bool,
    /// Print time and edits of each pass
    #[arg(long, help_heading = heading::DIAGNOSTICS, hide_short_help = true)]
    pub time_passes: bool,
    /// Print the IR after a pass, or after all, on stderr (repeatable)
    #[arg(long, value_name = "PASS|all", help_heading = heading::DIAGNOSTICS, hide_short_help = true)]
    pub print_ir_after: Vec<String>,
    /// Write the IR after each pass into a folder, in numbered files
    #[arg(long, value_name = "DIR", help_heading = heading::DIAGNOSTICS, hide_short_help = true)]
    pub dump_dir: Option<PathBuf>,
}

/// Codes that no user requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Codes {
    /// None
    Off,
    /// Codes that keep every bit
    Exact,
}

/// Lossy codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum LossyForm {
    /// Half precision
    F16,
    /// Bfloat16
    Bf16,
    /// Eight bits and a scale for each row
    Int8,
    /// Computed back from results
    Inverse,
}

impl From<LossyForm> for Lossy {
    fn from(form: LossyForm) -> Self {
        match form {
            LossyForm::F16 => Self::F16,
            LossyForm::Bf16 => Self::BF16,
            LossyForm::Int8 => Self::Int8,
            LossyForm::Inverse => Self::Inverse,
        }
    }
}

/// Bits of encoded weights.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum WeightCodeArg {
    /// 8-bit integers
    Int8,
    /// 4-bit integers
    Int4,
}

impl From<WeightCodeArg> for WeightCode {
    fn from(code: WeightCodeArg) -> Self {
        match code {
            WeightCodeArg::Int8 => Self::Int8,
            WeightCodeArg::Int4 => Self::Int4,
        }
    }
}

impl Optimize {
    /// Moves the second positional argument to the option that it stands for.
    pub fn settled(mut self) -> Self {
        self.output = self.output.take().or(self.second.take());
        self
    }
}

/// `memc report`.
#[derive(Args, Debug)]
pub struct Report {
    /// Model to report on; `-` for stdin
    #[arg(required_unless_present = "joint")]
    pub input: Option<PathBuf>,
    /// Joint file that `memc share` wrote, to report on as text in place of a model
    #[arg(long, value_name = "JOINT.json", conflicts_with_all = ["input", "layout", "planned"])]
    pub joint: Option<PathBuf>,
    /// Layout of the model; without one the model is planned in its own order
    #[arg(long)]
    pub layout: Option<PathBuf>,
    /// Report on the plan that `memc optimize` makes with these options, instead of the own order
    #[arg(long, conflicts_with_all = ["layout", "passes"])]
    pub planned: bool,
    /// Report to write, by extension: .html, .txt, .md, .json, .trace.json, .sarif [default: text on
    /// stdout]
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// Form of the report [default: the extension of --output, else text]
    #[arg(long, value_enum, conflicts_with = "json")]
    pub format: Option<FormatArg>,
    /// Fail (exit code 3) if the arena of the first space is larger: 512KiB, or 60% of the peak in file
    /// order
    #[arg(long, value_name = "SIZE", help_heading = heading::LIMITS)]
    pub max_arena: Option<Size>,
    /// Fail if the weights take more bytes: 8MB, or a percentage of the weights of the given model
    #[arg(long, value_name = "SIZE", help_heading = heading::LIMITS)]
    pub max_weights: Option<Size>,
    /// Fail if an arena or the weights are larger than in an earlier layout
    #[arg(long, value_name = "LAYOUT.json", help_heading = heading::LIMITS)]
    pub baseline: Option<PathBuf>,
    /// Growth that is allowed beyond --baseline, in percent [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = growth, requires = "baseline", help_heading = heading::LIMITS)]
    pub allow: Option<u32>,
    /// Write the files that the report follows from as a rule for make, with --output as its target
    #[arg(long, value_name = "FILE.d", requires = "output", help_heading = heading::OUTPUT)]
    pub depfile: Option<PathBuf>,
    /// Machine, changes and effort
    #[command(flatten)]
    pub planning: Planning,
    /// Print JSON on stdout
    #[arg(long)]
    pub json: bool,
}

/// Forms of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum FormatArg {
    /// One screen of text
    Text,
    /// A table for comments
    Markdown,
    /// Numbers for scripts
    Json,
    /// Workflow commands of GitHub
    Github,
    /// SARIF 2.1.0, for code scanners
    Sarif,
    /// A page without network access
    Html,
    /// A trace for Perfetto
    Trace,
}

/// `memc check`.
#[derive(Args, Debug)]
pub struct Check {
    /// Model that was planned
    #[arg(required_unless_present = "joint")]
    pub input: Option<PathBuf>,
    /// Model that memc wrote, or the manifest of `memc split`
    #[arg(value_name = "OUTPUT|MANIFEST.json", required_unless_present = "joint")]
    pub output: Option<PathBuf>,
    /// Layout that memc wrote; none with a manifest
    pub layout: Option<PathBuf>,
    /// Joint file that `memc share` wrote, in place of models and a layout
    #[arg(long, value_name = "JOINT.json", conflicts_with_all = ["input", "output", "layout"])]
    pub joint: Option<PathBuf>,
    /// Print JSON on stdout
    #[arg(long)]
    pub json: bool,
}

/// `memc diff`.
#[derive(Args, Debug)]
pub struct Diff {
    /// Layout of the first plan
    pub before: PathBuf,
    /// Layout of the second plan
    pub after: PathBuf,
    /// Print JSON on stdout
    #[arg(long)]
    pub json: bool,
}

/// Location of the runtime.
#[cfg(feature = "ort")]
#[derive(Args, Debug)]
pub struct Library {
    /// ONNX Runtime library [default: ORT_DYLIB_PATH, else the library of the Python wheel]
    #[arg(long, value_name = "PATH")]
    pub ort_lib: Option<PathBuf>,
}

/// How plans are played.
#[cfg(feature = "ort")]
#[derive(Args, Debug)]
pub struct Playing {
    /// Check every value in the arena at each step, and overwrite dead values with a pattern
    #[arg(long)]
    pub poison_check: bool,
    /// Folder for the files of spaces named disk [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    pub swap_dir: Option<PathBuf>,
    /// Library
    #[command(flatten)]
    pub library: Library,
}

/// `memc run`.
#[cfg(feature = "ort")]
#[derive(Args, Debug)]
pub struct Run {
    /// Model that memc wrote, or the manifest of `memc split`
    #[arg(value_name = "MODEL|MANIFEST.json", required_unless_present = "joint")]
    pub model: Option<PathBuf>,
    /// Layout that memc wrote; none with a manifest
    #[arg(long)]
    pub layout: Option<PathBuf>,
    /// Joint file that `memc share` wrote, in place of a model
    #[arg(long, value_name = "JOINT.json", conflicts_with_all = ["model", "layout"])]
    pub joint: Option<PathBuf>,
    /// With a nested joint file: number of boundaries at which each guest runs, spread over all that admit it
    #[arg(long, value_name = "N", requires = "joint", default_value_t = 3)]
    pub guest_runs: u32,
    /// With a joint file of members that run at once: number of periods; the seed chooses who runs next
    #[arg(long, value_name = "N", requires = "joint", default_value_t = 3)]
    pub periods: u32,
    /// Graph inputs, as numpy.savez writes them, or INPUT.npy [default: random numbers from the seed]
    #[arg(long, value_name = "IN.npz")]
    pub inputs: Option<PathBuf>,
    /// Graph outputs to write
    #[arg(long, value_name = "OUT.npz")]
    pub outputs: Option<PathBuf>,
    /// Seed of random inputs
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Extent of a free dimension of the plan [default: as in the inputs, or the largest] (repeatable)
    #[arg(long = "dim", value_name = "NAME=N", value_parser = pair::<u64>)]
    pub dims: Vec<(String, u64)>,
    /// Number of runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub repeat: u32,
    /// With a plan for several engines: sleep at random before kernels, and compare the results of all runs
    #[arg(long)]
    pub random_sleeps: bool,
    /// How plans are played
    #[command(flatten)]
    pub playing: Playing,
    /// Print JSON on stdout
    #[arg(long)]
    pub json: bool,
}

/// `memc verify`.
#[cfg(feature = "ort")]
#[derive(Args, Debug)]
pub struct Verify {
    /// Model that was planned
    pub input: PathBuf,
    /// Model that memc wrote
    pub output: PathBuf,
    /// Layout that memc wrote [default: OUTPUT.layout.json]
    #[arg(long)]
    pub layout: Option<PathBuf>,
    /// Number of sets of random inputs
    #[arg(short = 'n', long, value_name = "N", default_value_t = 3)]
    pub rounds: u64,
    /// Graph inputs, as numpy.savez writes them, or INPUT.npy, instead of random sets
    #[arg(long, value_name = "IN.npz")]
    pub inputs: Option<PathBuf>,
    /// Seed of the first random set
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Extents of free dimensions to run at, in place of chosen points: seq=7 or seq=7,batch=2 (repeatable)
    #[arg(long, value_name = "NAME=N,...", value_parser = point, conflicts_with = "inputs")]
    pub at: Vec<memc_ort::Point>,
    /// Largest number of points at which a plan for ranges is run [default: corners, their neighbors and 8
    /// points inside; fewer if they take long]
    #[arg(long, value_name = "N", conflicts_with_all = ["inputs", "at"])]
    pub points: Option<usize>,
    /// Allowed difference, as a share of the expected number [default: 0 for plans made with --exact,
    /// else 0.001]
    #[arg(long)]
    pub rtol: Option<f64>,
    /// Allowed absolute difference [default: 0 for plans made with --exact, else 0.0001 of the largest
    /// number that differs; more for 16-bit types and after roundings to small integers; at least
    /// 0.000001 after Sigmoid, Softmax and similar operators]
    #[arg(long)]
    pub atol: Option<f64>,
    /// Allowed relative error over all outputs of a plan that rounds values or weights, in the Euclidean
    /// norm
    #[arg(long, value_name = "SHARE", value_parser = bound, default_value_t = memc_ort::LOSSY_BOUND)]
    pub lossy_bound: f64,
    /// How plans are played
    #[command(flatten)]
    pub playing: Playing,
    /// Print JSON on stdout
    #[arg(long)]
    pub json: bool,
}

/// `memc profile`.
#[cfg(feature = "ort")]
#[derive(Args, Debug)]
pub struct ProfileArguments {
    /// Model to measure
    pub input: PathBuf,
    /// Profile to write
    #[arg(short, long, value_name = "P.json", required_unless_present = "session")]
    pub output: Option<PathBuf>,
    /// Count the bytes of a stock session instead: by a recipe (fast, smallest, plain), or with settings such
    /// as all,file-order,no-reuse,no-arena,no-pattern. JSON on stdout
    #[arg(long, value_name = "fast|smallest|plain|SETTINGS", value_parser = counted, conflicts_with = "output")]
    pub session: Option<Counted>,
    /// Planning; without `--passes` the model runs in its own order
    #[command(flatten)]
    pub planning: Planning,
    /// Graph inputs, as numpy.savez writes them, or INPUT.npy [default: random numbers from the seed]
    #[arg(long, value_name = "IN.npz")]
    pub inputs: Option<PathBuf>,
    /// Seed of random inputs
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Number of measured runs, after one run to warm up
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub repeat: u32,
    /// Library
    #[command(flatten)]
    pub library: Library,
}

/// `memc print`.
#[derive(Args, Debug)]
pub struct Print {
    /// Model to print
    pub input: PathBuf,
    /// Text to write [default: stdout]
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// Extent of a symbolic dimension, or its range: 8, 1..512 (repeatable)
    #[arg(long = "dim", value_name = "NAME=N|A..B", value_parser = extent)]
    pub dims: Vec<(String, Extent)>,
}

/// `memc opt`.
#[derive(Args, Debug)]
pub struct Opt {
    /// Model in text form (.mem)
    pub input: PathBuf,
    /// Planning; `--passes` says which passes run (none: the text is parsed, verified and printed)
    #[command(flatten)]
    pub planning: Planning,
    /// Text to write [default: stdout]
    #[arg(short, long)]
    pub output: Option<PathBuf>,
}

/// Parses `NAME=VALUE`.
pub(super) fn pair<T: std::str::FromStr>(text: &str) -> Result<(String, T), String> {
    let wrong = || format!("`{text}` is not NAME=N");
    let (name, value) = text.rsplit_once('=').ok_or_else(wrong)?;
    Ok((name.to_owned(), value.trim().parse().map_err(|_| wrong())?))
}

/// Parses `NAME=EXTENTS`.
fn extent(text: &str) -> Result<(String, Extent), String> {
    let (name, extents) = text.rsplit_once('=').ok_or_else(|| format!("`{text}` is not NAME=N"))?;
    Ok((name.to_owned(), extents.parse().map_err(|error: memc::ExtentError| error.to_string())?))
}

/// Parses `NAME=N,NAME=N`.
#[cfg(feature = "ort")]
fn point(text: &str) -> Result<memc_ort::Point, String> {
    text.split(',').map(pair::<u64>).collect::<Result<_, _>>().map(memc_ort::Point)
}

/// Parses `NEW=OLD`, split at the last `=`: names of old values rarely contain one.
pub fn state(text: &str) -> Result<StateNames, String> {
    let parts = text.rsplit_once('=').filter(|(new, old)| !new.is_empty() && !old.is_empty());
    let (new, old) = parts.ok_or_else(|| format!("`{text}` is not NEW=OLD"))?;
    Ok(StateNames { new: new.to_owned(), old: old.to_owned() })
}

/// Parses `SIZE` or `SPACE=SIZE`.
fn budget(text: &str) -> Result<Budget, memc::SizeError> {
    text.parse()
}

/// Parses a number of bytes.
pub(super) fn whole(text: &str) -> Result<u64, String> {
    match text.parse::<Size>().map_err(|error| error.to_string())? {
        Size::Bytes(bytes) => Ok(bytes),
        Size::Percent(_) => Err(format!("`{text}` is a share: write bytes, as in 128MiB")),
    }
}

/// Channels in a block of ONNX Runtime's kernels; `None` if this processor has no block kernels.
#[derive(Clone, Copy, Debug)]
pub struct Blocks(pub Option<u32>);

fn block(text: &str) -> Result<Blocks, String> {
    match text {
        "8" => Ok(Blocks(Some(8))),
        "16" => Ok(Blocks(Some(16))),
        "native" => Ok(Blocks(memc_passes::nchwc::native_block())),
        other => Err(format!("`{other}` is not a block; write native, 8 or 16")),
    }
}

/// Parses a growth, with or without its sign, to hundredths of a percent.
fn growth(text: &str) -> Result<u32, String> {
    percent(text.strip_prefix('+').unwrap_or(text))
}

/// Parses a percentage to hundredths of a percent.
fn percent(text: &str) -> Result<u32, String> {
    let parsed = text
        .strip_suffix('%')
        .unwrap_or(text)
        .parse()
        .ok()
        .filter(|percent: &f64| (0.0..=1000.0).contains(percent));
    let hundredths = parsed.map(|percent| (percent * 100.0).round() as u32);
    hundredths.ok_or_else(|| format!("`{text}` is not a percentage; write percent up to 1000: 1 or 0.5%"))
}

/// Parses a bound of a relative error.
fn bound(text: &str) -> Result<f64, String> {
    let parsed = text.parse().ok().filter(|share: &f64| *share >= 0.0 && share.is_finite());
    parsed.ok_or_else(|| format!("`{text}` is no share: write a number that is not negative: 0.01"))
}

/// Parses a language with an interface to ONNX Runtime, and a recipe; or a recipe alone, for Python.
fn session(text: &str) -> Result<(Language, Option<Recipe>), String> {
    if let Some(recipe) = Recipe::named(text) {
        return Ok((Language::Python, Some(recipe)));
    }
    let (language, recipe) =
        text.split_once('=').map_or((text, None), |(language, recipe)| (language, Some(recipe)));
    let languages = Language::ALL.map(|(name, _)| name).join(", ");
    let known = Language::named(language).ok_or_else(|| format!("`{language}` is not one of {languages}"))?;
    let recipes = Recipe::ALL.map(|(name, _)| name).join(", ");
    let recipe =
        recipe.map(|name| Recipe::named(name).ok_or_else(|| format!("`{name}` is not one of {recipes}")));
    Ok((known, recipe.transpose()?))
}

/// The sessions to count: candidates of a recipe, or one with these settings.
#[cfg(feature = "ort")]
#[derive(Clone, Debug)]
pub enum Counted {
    /// Candidates of a recipe.
    Recipe(Recipe),
    /// One session.
    Settings(SessionSettings),
}

/// Parses a recipe or settings.
#[cfg(feature = "ort")]
fn counted(text: &str) -> Result<Counted, String> {
    Recipe::named(text)
        .map_or_else(|| text.parse().map(Counted::Settings), |recipe| Ok(Counted::Recipe(recipe)))
}

/// Parses a number of seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let parsed = text.parse().ok().and_then(|seconds: f64| Duration::try_from_secs_f64(seconds).ok());
    parsed.ok_or_else(|| format!("`{text}` is not a time; write seconds: 10 or 0.5"))
}
