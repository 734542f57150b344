//! Arguments of `memc split`, as declared to clap.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use memc::{DevicePath, ExternalData, Runtime, Size};
use memc_passes::StateNames;

use super::args::{Inputs, heading, state};
use super::solve_args::effort;

/// `memc split`.
#[derive(Args, Debug)]
pub struct Split {
    /// Model to divide
    pub input: PathBuf,
    /// Folder for d0.onnx, d0.layout.json and so on, and manifest.json
    #[arg(short, long, value_name = "DIR", help_heading = heading::USUAL)]
    pub output: PathBuf,
    /// Number of devices [default: that of the cluster which --target names]
    #[arg(long, value_name = "N", help_heading = heading::USUAL)]
    pub devices: Option<usize>,
    /// Limit of all bytes of a device: weights, arena, values on their way; one for all devices, or one
    /// for each with commas between them [default: none, and the largest section is as small as possible]
    #[arg(long, value_name = "SIZE[,SIZE]", value_delimiter = ',', help_heading = heading::USUAL)]
    pub device_budget: Vec<Size>,
    /// Link between two devices, in both directions (repeatable) [default: 10GB/s,20us between all]
    #[arg(long = "link", value_name = "d0-d1=RATE[,LATENCY]", help_heading = heading::MACHINE)]
    pub links: Vec<DevicePath>,
    /// Number of runs of the model in the program, each with inputs of its own; with --schedule, number of
    /// equal parts of the batch
    #[arg(long, value_name = "M", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=4096), help_heading = heading::MACHINE)]
    pub micro_batches: u64,
    /// Divide a training step into forward and backward sections, and run these in an order: one forward and
    /// one backward in turn, or all forward runs first. With `data`, each device computes a part of the batch
    /// instead
    #[arg(long, value_enum, hide_possible_values = true, value_name = "1f1b|gpipe|data", help_heading = heading::USUAL)]
    pub schedule: Option<ScheduleArg>,
    /// With `--schedule data`: update each parameter on one device, which alone holds the state of its
    /// optimizer
    #[arg(long, help_heading = heading::CHANGES)]
    pub shard_state: bool,
    /// With `--schedule data`: add gradients in the order of the devices, or as the engine likes, where last
    /// bits may differ
    #[arg(long, value_enum, default_value = "index", hide_possible_values = true, value_name = "index|engine", help_heading = heading::CHANGES)]
    pub sums: SumsArg,
    /// Runtime that executes the sections
    #[arg(long, value_enum, default_value = "player", help_heading = heading::MACHINE)]
    pub runtime: Runtime,
    /// Machine of each device: a target that comes with memc, a file, or `auto` for this machine. The file of
    /// a cluster states the devices, their budgets, links and machine
    #[arg(long, value_name = "NAME|auto|FILE.toml", default_value = "cpu", help_heading = heading::MACHINE)]
    pub target: String,
    /// Search effort: fast, default, max, or a number of search nodes
    #[arg(long, value_name = "fast|default|max|N", default_value = "default", value_parser = effort, help_heading = heading::MACHINE)]
    pub effort: u64,
    /// Rewrites of sections: none, so that the check proves equal results; those that keep every bit; or any,
    /// as `memc optimize` does without --exact
    #[arg(long, value_enum, default_value_t = Rewrites::None, hide_possible_values = true, value_name = "none|exact|any", help_heading = heading::CHANGES)]
    pub rewrite: Rewrites,
    /// Write new values of parameters and moments over the old values, on the device that makes them
    #[arg(long, help_heading = heading::CHANGES)]
    pub alias_state: bool,
    /// Write graph output NEW over graph input OLD (repeatable): --alias-state for one pair, found or not.
    /// What reads either of them stays on one device. `*` stands for any text: present*=past*
    #[arg(long, value_name = "NEW=OLD", value_parser = state, help_heading = heading::CHANGES)]
    pub state: Vec<StateNames>,
    /// Move the weights of each section into one file of its own, d0.FILE and so on, each tensor of at least
    /// SIZE at a multiple of SIZE (64KiB by default)
    #[arg(long, value_name = "FILE[,align=SIZE]", help_heading = heading::OUTPUT)]
    pub external_data: Option<ExternalData>,
    /// Inputs
    #[command(flatten)]
    pub inputs: Inputs,
}

/// Order of runs of a pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ScheduleArg {
    /// One forward run, one backward run
    #[value(name = "1f1b")]
    OneForwardOneBackward,
    /// All forward runs, then all backward runs
    Gpipe,
    /// Each device computes a part of the batch
    Data,
}

/// Order in which parts of several devices are added.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum SumsArg {
    /// By rank
    Index,
    /// Any
    Engine,
}

/// Rewrites that sections may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Rewrites {
    /// None
    None,
    /// Those that keep every bit
    Exact,
    /// Any
    Any,
}
