//! The command line, as declared to clap.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::ArgPredicate;
use clap::{Args, Parser, Subcommand, ValueEnum};
use memc::ops::Assumption;
use memc::ops::profile::{Language, Recipe};
use memc::passes::StateNames;
use memc::{LinkOption, Size};

/// A memory compiler for ONNX.
#[derive(Debug, Parser)]
#[command(name = "memc", version, about, long_about = None, arg_required_else_help = true)]
pub struct Cli {
    /// Say nothing on stderr but errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// What to do
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Plan a model: order, in-place writes, offsets; write it with its layout
    Optimize(Optimize),
    /// Say what a model needs, before or after
    Report(Report),
    /// Verify a plan from the files alone
    Check(Check),
    /// Play a plan inside one arena, on ONNX Runtime's kernels
    #[cfg(feature = "ort")]
    Run(Run),
    /// Check a plan, then run both models and the plan on the same inputs
    #[cfg(feature = "ort")]
    Verify(Verify),
    /// Measure every node's time and workspace on this machine
    #[cfg(feature = "ort")]
    Profile(ProfileArguments),
    /// Print a model as text (.mem)
    Print(Print),
    /// Run passes on the text form
    Opt(Opt),
    /// List the passes, or print the page of one
    Passes {
        /// A pass
        name: Option<String>,
    },
    /// List what is known of operators, or of one
    Ops {
        /// An operator, as `Conv` or `com.microsoft::FusedConv`
        name: Option<String>,
    },
    /// Explain a diagnostic code
    Explain {
        /// A code, as E0114; none lists them all
        code: Option<String>,
    },
    /// Print the JSON schema of a file that memc writes
    Schema {
        /// Which file
        #[arg(value_enum)]
        what: SchemaOf,
    },
    /// List the targets that come with memc, or print the file of one
    Targets {
        /// A target
        name: Option<String>,
    },
    /// Run a solver alone
    #[command(subcommand)]
    Solve(Solve),
}

/// Files with a schema.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SchemaOf {
    /// The layout file
    Layout,
}

/// Options of planning that several commands share.
#[derive(Args, Debug)]
pub struct Planning {
    /// Extent of a symbolic dimension of a graph input; one without a name is INPUT.AXIS, and `?` is all of those. One that only results have is
    /// assumed, as by --assume (repeatable)
    #[arg(long = "dim", value_name = "NAME=N", value_parser = pair::<u64>)]
    pub dims: Vec<(String, u64)>,
    /// Bind dimensions to the extents of real inputs, as numpy.savez writes them under the names of the inputs
    #[cfg(feature = "ort")]
    #[arg(long, value_name = "FEED.npz")]
    pub dim_from: Option<PathBuf>,
    /// Plan as if a value whose size only a run gives had N elements, or this shape. Other data run, but may need more (repeatable)
    #[arg(long, value_name = "VALUE=N|VALUE=2x12", value_parser = pair::<Assumption>)]
    pub assume: Vec<(String, Assumption)>,
    /// Plan a model whose inputs keep symbolic dimensions: what depends on them is left out
    #[arg(long)]
    pub allow_unbound: bool,
    /// Who runs the result: a runtime that obeys the layout, or a stock ONNX Runtime session
    #[arg(long, value_enum, default_value = "arena")]
    pub runtime: Runtime,
    /// What the plan is made for: a target that comes with memc (`memc targets`), or a file
    #[arg(long, value_name = "NAME|FILE.toml", default_value = "cpu")]
    pub target: String,
    /// Another space and the link to it, in both directions: host=16GB/s, or host=16GB/s,20us (repeatable; 10us without)
    #[arg(long = "link", value_name = "SPACE=RATE[,LATENCY]")]
    pub links: Vec<LinkOption>,
    /// What the arena holds beside transients: outputs, inputs too (arena), or neither (external)
    #[arg(long, value_enum, default_value = "outputs", default_value_ifs = [
        ("alias_state", ArgPredicate::from("true"), "external"),
        ("state", ArgPredicate::IsPresent, "external"),
    ])]
    pub io: IoArg,
    /// Let new values of parameters and moments take the storage of the old ones; the caller holds all outputs (--io external)
    #[arg(long)]
    pub alias_state: bool,
    /// A graph output that takes the storage of the graph input whose new value it is (repeatable): --alias-state for this pair, whether or
    /// not that option finds it
    #[arg(long, value_name = "NEW=OLD", value_parser = state)]
    pub state: Vec<StateNames>,
    /// The farther space that holds the weights for which the first has no room: they are fetched before they are read. The budget
    /// then counts what stays near, too
    #[arg(long, value_name = "SPACE")]
    pub weights: Option<String>,
    /// A fold never makes a constant larger than this
    #[arg(long, value_name = "SIZE", default_value = "64KiB")]
    pub max_fold_bytes: Size,
    /// Search effort: fast, default, max, or a number of search nodes
    #[arg(long, value_name = "fast|default|max|N", default_value = "default", value_parser = effort)]
    pub effort: u64,
    /// A pipeline of your own instead of the planner's, as `--log-plans` prints them
    #[arg(long, value_name = "TEXT")]
    pub passes: Option<String>,
}

/// Who runs the result.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Runtime {
    /// A runtime that obeys the layout
    Arena,
    /// A stock ONNX Runtime session
    Ort,
    /// `memc run`: a runtime that obeys the layout, on ONNX Runtime's kernels
    Player,
}

/// What the arena holds.
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
#[derive(Args, Debug)]
pub struct Optimize {
    /// The model
    pub input: PathBuf,
    /// Where the planned model goes
    #[arg(short, long)]
    pub output: PathBuf,
    /// Where layouts go, by extension: .json, .h, .rs, .csv (repeatable; the default is OUTPUT.layout.json)
    #[arg(long, value_name = "PATH")]
    pub layout: Vec<PathBuf>,
    /// Copy the weight files that the written model reads beside it, where it goes into another folder
    #[arg(long)]
    pub copy_weights: bool,
    /// Limit of the arena: 512KiB, 2GB, 60% of the file-order peak, or SPACE=SIZE (repeatable)
    #[arg(long, value_name = "SIZE|SPACE=SIZE", value_parser = budget)]
    pub budget: Vec<(String, Size)>,
    /// Plan N budgets too, from what the plan without one needs down to the smallest reachable, and show what each takes
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=64))]
    pub pareto: u32,
    /// Planning
    #[command(flatten)]
    pub planning: Planning,
    /// Times and workspace of the nodes, as `memc profile` measured them, instead of modelled ones
    #[arg(long, value_name = "P.json")]
    pub profile: Option<PathBuf>,
    /// Admit only rewrites that change no bit of the result; so it is without being said where random operators have seeds
    #[arg(long)]
    pub exact: bool,
    /// Make no operators beside those of the ONNX standard
    #[arg(long)]
    pub std_ops: bool,
    /// Compute with integers where a quantized model makes numbers of them first, as a session of ONNX Runtime with its optimizations does: less
    /// memory and time, but a result between two integers may become the other one, and on x86-64 processors without VNNI kernels saturate where signed
    /// weights lie beyond -64 to 64
    #[arg(long, conflicts_with = "exact")]
    pub integer_kernels: bool,
    /// Lay images out in blocks of so many channels, as ONNX Runtime's fastest convolutions take them: 16 on processors with AVX-512,
    /// 8 on other x86-64; `native` picks the blocks of this processor. The model is for such processors alone, and wrong on others
    #[arg(long, value_name = "native|8|16", value_parser = block, conflicts_with_all = ["exact", "std_ops"])]
    pub nchwc: Option<Blocks>,
    /// Number of equal parts of the batch, computed one after another; by default as many as are worth their time; 1 keeps it whole
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=65536))]
    pub micro_batches: Option<u64>,
    /// Without a budget: how much longer the model may take for less memory, in per cent of its modelled time
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "0")]
    pub slowdown: u32,
    /// Rewrite nothing for memory and compute nothing in parts; what is constant or changes nothing still goes, into weights too unless `--exact`
    #[arg(long)]
    pub no_rewrite: bool,
    /// Pin the order for runtimes that choose their own
    #[arg(long)]
    pub anchors: bool,
    /// End searches after so long and take the best plan until then; which one that is depends on the machine
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub time_limit: Option<Duration>,
    /// Write a report, by extension: .html, .txt, .json (repeatable)
    #[arg(long, value_name = "PATH")]
    pub report: Vec<PathBuf>,
    /// With `--runtime ort`, print how to set up a session for the plan, in python, cpp, csharp or rust: `fast` (the session's optimizations
    /// on), `smallest` (as planned), or both
    #[arg(long, value_name = "LANGUAGE[=fast|smallest]", value_parser = session)]
    pub session: Option<(Language, Option<Recipe>)>,
    /// Print the IR after a pass, or after all, to stderr (repeatable)
    #[arg(long, value_name = "PASS|all")]
    pub print_ir_after: Vec<String>,
    /// Write the IR after each pass into a folder, numbered
    #[arg(long, value_name = "DIR")]
    pub dump_dir: Option<PathBuf>,
    /// Print what was tried, a line a candidate: strategy, bytes, modelled time, effort, verdict; then the pipeline that repeats the plan
    #[arg(long)]
    pub log_plans: bool,
    /// Print the time and edits of each pass
    #[arg(long)]
    pub time_passes: bool,
    /// Print the summary as JSON on stdout
    #[arg(long)]
    pub json: bool,
}

/// `memc report`.
#[derive(Args, Debug)]
pub struct Report {
    /// The model
    pub input: PathBuf,
    /// A layout of it; without one the model is planned in its own order
    #[arg(long)]
    pub layout: Option<PathBuf>,
    /// Where the report goes, by extension: .html, .txt, .json, .trace.json; stdout without
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// Planning
    #[command(flatten)]
    pub planning: Planning,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `memc check`.
#[derive(Args, Debug)]
pub struct Check {
    /// The model as it was given
    pub input: PathBuf,
    /// The model that memc wrote
    pub output: PathBuf,
    /// The layout that memc wrote
    pub layout: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Where the runtime is.
#[cfg(feature = "ort")]
#[derive(Args, Debug)]
pub struct Library {
    /// The ONNX Runtime library; without, ORT_DYLIB_PATH, then the one of the Python wheel
    #[arg(long, value_name = "PATH")]
    pub ort_lib: Option<PathBuf>,
}

/// How plans are played.
#[cfg(feature = "ort")]
#[derive(Args, Debug)]
pub struct Playing {
    /// Watch every value in the arena, and fill with poison what the plan says is dead
    #[arg(long)]
    pub poison_check: bool,
    /// Folder of the files behind spaces named disk; the system's folder for temporary files without
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
    /// The model that memc wrote
    pub model: PathBuf,
    /// The layout that memc wrote
    #[arg(long)]
    pub layout: PathBuf,
    /// Graph inputs, as numpy.savez writes them; made up from the seed without
    #[arg(long, value_name = "IN.npz")]
    pub inputs: Option<PathBuf>,
    /// Where the graph outputs go
    #[arg(long, value_name = "OUT.npz")]
    pub outputs: Option<PathBuf>,
    /// Seed of inputs that are made up
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Play so many times
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub repeat: u32,
    /// How plans are played
    #[command(flatten)]
    pub playing: Playing,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `memc verify`.
#[cfg(feature = "ort")]
#[derive(Args, Debug)]
pub struct Verify {
    /// The model as it was given
    pub input: PathBuf,
    /// The model that memc wrote
    pub output: PathBuf,
    /// The layout that memc wrote; OUTPUT.layout.json without
    #[arg(long)]
    pub layout: Option<PathBuf>,
    /// Sets of inputs
    #[arg(short = 'n', long, value_name = "N", default_value_t = 3)]
    pub rounds: u64,
    /// Graph inputs, as numpy.savez writes them, instead of sets that are made up
    #[arg(long, value_name = "IN.npz")]
    pub inputs: Option<PathBuf>,
    /// Seed of the first set
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Allowed difference, as a part of the expected number; without, 0 for plans made with --exact, else 0.001
    #[arg(long)]
    pub rtol: Option<f64>,
    /// Allowed difference, whatever the number; without, 0 for plans made with --exact, else 0.0001 of the largest number that differs (more
    /// for types of 16 bits, and behind roundings to integers of few bits; 0.000001 at least behind Sigmoid, Softmax and their kin)
    #[arg(long)]
    pub atol: Option<f64>,
    /// How plans are played
    #[command(flatten)]
    pub playing: Playing,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `memc profile`.
#[cfg(feature = "ort")]
#[derive(Args, Debug)]
pub struct ProfileArguments {
    /// The model
    pub input: PathBuf,
    /// Where the profile goes
    #[arg(short, long, value_name = "P.json")]
    pub output: PathBuf,
    /// Planning; without `--passes` the model runs in its own order
    #[command(flatten)]
    pub planning: Planning,
    /// Graph inputs, as numpy.savez writes them; made up from the seed without
    #[arg(long, value_name = "IN.npz")]
    pub inputs: Option<PathBuf>,
    /// Seed of inputs that are made up
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Runs that are measured, after one to warm up
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub repeat: u32,
    /// Library
    #[command(flatten)]
    pub library: Library,
}

/// `memc print`.
#[derive(Args, Debug)]
pub struct Print {
    /// The model
    pub input: PathBuf,
    /// Where the text goes; stdout without
    #[arg(short, long)]
    pub output: Option<PathBuf>,
    /// Extent of a symbolic dimension (repeatable)
    #[arg(long = "dim", value_name = "NAME=N", value_parser = pair::<u64>)]
    pub dims: Vec<(String, u64)>,
}

/// `memc opt`.
#[derive(Args, Debug)]
pub struct Opt {
    /// A module as text
    pub input: PathBuf,
    /// Planning; `--passes` says which passes run (none: the text is parsed, verified and printed)
    #[command(flatten)]
    pub planning: Planning,
    /// Where the text goes; stdout without
    #[arg(short, long)]
    pub output: Option<PathBuf>,
}

/// `memc solve`.
#[derive(Debug, Subcommand)]
pub enum Solve {
    /// Place buffers of a CSV file in one arena
    Place {
        /// The problem
        problem: PathBuf,
        /// Where the answer goes
        #[arg(short, long)]
        output: PathBuf,
        /// Ask whether this many bytes are enough, instead of minimizing
        #[arg(long, value_name = "BYTES")]
        capacity: Option<u64>,
        /// Search effort
        #[arg(long, default_value = "default", value_parser = effort)]
        effort: u64,
    },
    /// Order the operations of a .dag.json file
    Order {
        /// The problem
        problem: PathBuf,
        /// Where the answer goes
        #[arg(short, long)]
        output: PathBuf,
        /// Search effort [default: default, twenty times as much for up to 1024 operations]
        #[arg(long, value_parser = effort)]
        effort: Option<u64>,
    },
    /// Run a .dag.json file within a budget: run again, move away
    Recompute {
        /// The problem
        problem: PathBuf,
        /// Where the answer goes
        #[arg(short, long)]
        output: PathBuf,
        /// Most bytes, or percent of the given order's peak, rounded down
        #[arg(long, value_name = "BYTES|P%")]
        budget: memc::solve::budget::json::Budget,
        /// Search effort
        #[arg(long, default_value = "default", value_parser = effort)]
        effort: u64,
    },
}

/// `NAME=VALUE`.
fn pair<T: std::str::FromStr>(text: &str) -> Result<(String, T), String> {
    let wrong = || format!("`{text}` is not NAME=N");
    let (name, value) = text.rsplit_once('=').ok_or_else(wrong)?;
    Ok((name.to_owned(), value.trim().parse().map_err(|_| wrong())?))
}

/// `NEW=OLD`; of several signs the last, as names of old values hold none more often.
fn state(text: &str) -> Result<StateNames, String> {
    let parts = text.rsplit_once('=').filter(|(new, old)| !new.is_empty() && !old.is_empty());
    let (new, old) = parts.ok_or_else(|| format!("`{text}` is not NEW=OLD"))?;
    Ok(StateNames { new: new.to_owned(), old: old.to_owned() })
}

/// `SIZE` or `SPACE=SIZE`.
fn budget(text: &str) -> Result<(String, Size), memc::SizeError> {
    let (space, size) = text.split_once('=').unwrap_or(("", text));
    Ok((space.to_owned(), size.parse()?))
}

/// Channels of a block that kernels of ONNX Runtime have; none where those of this processor have none.
#[derive(Clone, Copy, Debug)]
pub struct Blocks(pub Option<u32>);

fn block(text: &str) -> Result<Blocks, String> {
    match text {
        "8" => Ok(Blocks(Some(8))),
        "16" => Ok(Blocks(Some(16))),
        "native" => Ok(Blocks(memc_passes::nchwc::native_block())),
        other => Err(format!("`{other}` is none of native, 8 and 16")),
    }
}

/// Hundredths of a per cent.
fn percent(text: &str) -> Result<u32, String> {
    let parsed = text.strip_suffix('%').unwrap_or(text).parse().ok().filter(|percent: &f64| (0.0..=1000.0).contains(percent));
    let hundredths = parsed.map(|percent| (percent * 100.0).round() as u32);
    hundredths.ok_or_else(|| format!("`{text}` is no part of the time; write per cent up to 1000: 1 or 0.5%"))
}

/// A language with an interface to ONNX Runtime.
fn session(text: &str) -> Result<(Language, Option<Recipe>), String> {
    let (language, recipe) = text.split_once('=').map_or((text, None), |(language, recipe)| (language, Some(recipe)));
    let languages = Language::ALL.map(|(name, _)| name).join(", ");
    let known = Language::named(language).ok_or_else(|| format!("`{language}` is not one of {languages}"))?;
    let recipes = Recipe::ALL.map(|(name, _)| name).join(", ");
    let recipe = recipe.map(|name| Recipe::named(name).ok_or_else(|| format!("`{name}` is not one of {recipes}")));
    Ok((known, recipe.transpose()?))
}

/// A time; no more than a machine can wait.
fn seconds(text: &str) -> Result<Duration, String> {
    let parsed = text.parse().ok().and_then(|seconds: f64| Duration::try_from_secs_f64(seconds).ok());
    parsed.ok_or_else(|| format!("`{text}` is no time; write seconds: 10 or 0.5"))
}

/// Search nodes of an effort.
fn effort(text: &str) -> Result<u64, String> {
    let default = memc::solve::Limit::default().nodes;
    match text {
        "fast" => Ok(default / 20),
        "default" => Ok(default),
        "max" => Ok(default.saturating_mul(100)),
        number => number.parse().map_err(|_| format!("`{text}` is not fast, default, max or a number")),
    }
}
