//! Arguments of `memc calibrate`, as declared to clap.

use std::path::PathBuf;

use clap::Args;

use super::args::{Inputs, Library, heading};

/// `memc calibrate`.
#[derive(Args, Debug)]
pub struct Calibrate {
    /// Target file to write, for `--target` of the commands that plan
    #[arg(short, long, value_name = "MINE.toml", help_heading = heading::USUAL)]
    pub output: Option<PathBuf>,
    /// Models to compare with: modelled against measured time, of models that were not probed
    #[arg(long, value_name = "MODEL.onnx", num_args = 1.., help_heading = heading::USUAL)]
    pub check: Vec<PathBuf>,
    /// Target file to compare, in place of one to write
    #[arg(long, value_name = "MINE.toml", requires = "check", conflicts_with = "output", help_heading = heading::USUAL)]
    pub target: Option<PathBuf>,
    /// Models whose kernels are measured too, in addition to those that memc makes
    #[arg(long, value_name = "MODEL.onnx", num_args = 1.., requires = "output", help_heading = heading::INPUT)]
    pub models: Vec<PathBuf>,
    /// Extents of dimensions of all models
    #[command(flatten)]
    pub inputs: Inputs,
    /// Target that states what is not measured: memory, links, alignment. `auto` is this machine
    #[arg(long, value_name = "NAME|auto|FILE.toml", default_value = "auto", help_heading = heading::MACHINE)]
    pub base: String,
    /// Number of measured runs of each kernel, of which the one with the least processor time counts
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = heading::MACHINE)]
    pub repeat: u32,
    /// Library
    #[command(flatten)]
    pub library: Library,
    /// Print the comparison as JSON on stdout
    #[arg(long, requires = "check", help_heading = heading::OUTPUT)]
    pub json: bool,
}
