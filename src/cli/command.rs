//! The command line as a whole, as declared to clap: its commands.

use clap::{Parser, Subcommand, ValueEnum};

use super::args::{Check, Diff, Opt, Optimize, Print, Report};
#[cfg(feature = "ort")]
use super::args::{ProfileArguments, Run, Verify};
#[cfg(feature = "ort")]
use super::calibrate_args::Calibrate;
use super::fit_args::Fit;
use super::share_args::Share;
use super::solve_args::Solve;
use super::split_args::Split;
use super::train_args::Train;
#[cfg(feature = "ort")]
use super::tune_args::Tune;

/// A memory compiler for ONNX.
#[derive(Debug, Parser)]
#[command(name = "memc", version, about, long_about = None, arg_required_else_help = true)]
pub struct Cli {
    /// Say nothing on stderr but errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Command to run
    #[command(subcommand)]
    pub command: Command,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Plan a model: order, in-place writes, offsets; write it with its layout
    Optimize(Box<Optimize>),
    /// Make a training step of a forward model: loss, gradients and new parameters
    Train(Box<Train>),
    /// Divide a model over devices: a planned model and a layout for each, and a manifest
    Split(Box<Split>),
    /// Find the largest batch, length or context with which a model fits into a memory, and plan it
    Fit(Box<Fit>),
    /// Plan a model with several options, measure the plans on this machine, and write the best one
    #[cfg(feature = "ort")]
    Tune(Box<Tune>),
    /// Put several planned models in one memory: a table, or one after another, or one inside another
    Share(Box<Share>),
    /// Report the memory of a model, in its own order or under a layout
    Report(Report),
    /// Verify a plan from the files alone
    Check(Check),
    /// Compare two layouts: sizes, time, rows, the largest tensors that changed
    Diff(Diff),
    /// Play a plan inside one arena, on ONNX Runtime's kernels
    #[cfg(feature = "ort")]
    Run(Run),
    /// Check a plan, then run both models and the plan on equal inputs and compare the results
    #[cfg(feature = "ort")]
    Verify(Verify),
    /// Measure every node's time and workspace on this machine
    #[cfg(feature = "ort")]
    Profile(ProfileArguments),
    /// Measure kernels of all kinds on this machine, and write a target whose times follow from them
    #[cfg(feature = "ort")]
    Calibrate(Calibrate),
    /// Print a model as text (.mem)
    Print(Print),
    /// Run passes on a model in text form
    Opt(Opt),
    /// List the passes, or print the page of one
    Passes {
        /// Name of a pass
        name: Option<String>,
    },
    /// List the operator table, or the entry of one operator
    Ops {
        /// Name of an operator: `Conv` or `com.microsoft::FusedConv`
        name: Option<String>,
    },
    /// Explain a diagnostic code
    Explain {
        /// A code: E0114; without one, all codes are listed
        code: Option<String>,
    },
    /// Print the JSON schema of a file that memc writes
    Schema {
        /// Kind of file
        #[arg(value_enum)]
        what: SchemaOf,
    },
    /// List the targets that come with memc, or print the file of one, or of this machine
    Targets {
        /// Name of a target, or `auto` for this machine
        name: Option<String>,
    },
    /// Print the completions of a shell
    Completions {
        /// Shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Run a solver by itself
    #[command(subcommand)]
    Solve(Solve),
}

/// Files with a schema.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SchemaOf {
    /// The layout file
    Layout,
    /// The manifest of a model that is divided over devices
    Devices,
    /// The joint file of several models in one memory
    Joint,
    /// The candidates of `memc tune`
    #[cfg(feature = "ort")]
    Tune,
}
