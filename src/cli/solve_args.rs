//! The command line of `memc solve`, and the effort of searches.

use std::path::PathBuf;

use clap::Subcommand;

/// `memc solve`.
#[derive(Debug, Subcommand)]
pub enum Solve {
    /// Place buffers of a CSV file in one arena
    Place {
        /// Problem to read
        problem: PathBuf,
        /// Answer to write
        #[arg(short, long)]
        output: PathBuf,
        /// Decide if this number of bytes is enough, instead of minimizing
        #[arg(long, value_name = "BYTES")]
        capacity: Option<u64>,
        /// Search effort
        #[arg(long, default_value = "default", value_parser = effort)]
        effort: u64,
    },
    /// Order the operations of a .dag.json file
    Order {
        /// Problem to read
        problem: PathBuf,
        /// Answer to write
        #[arg(short, long)]
        output: PathBuf,
        /// Search effort [default: default; 20 times that for up to 1024 operations]
        #[arg(long, value_parser = effort)]
        effort: Option<u64>,
    },
    /// Divide the nodes of a .json file over devices
    Partition {
        /// Problem to read
        problem: PathBuf,
        /// Answer to write
        #[arg(short, long)]
        output: PathBuf,
        /// Divide only runs of a few orders
        #[arg(long)]
        linear: bool,
        /// Search effort
        #[arg(long, default_value = "default", value_parser = effort)]
        effort: u64,
    },
    /// Run the operations of a .dag.json file within a budget, with recomputation and transfers
    Recompute {
        /// Problem to read
        problem: PathBuf,
        /// Answer to write
        #[arg(short, long)]
        output: PathBuf,
        /// Upper limit in bytes, or in percent of the peak of the given order, rounded down
        #[arg(long, value_name = "BYTES|P%")]
        budget: memc_solve::budget::json::Budget,
        /// Search effort
        #[arg(long, default_value = "default", value_parser = effort)]
        effort: u64,
    },
}

/// Parses an effort to a number of search nodes.
pub fn effort(text: &str) -> Result<u64, String> {
    let default = memc_solve::Limit::default().nodes;
    match text {
        "fast" => Ok(default / 20),
        "default" => Ok(default),
        "max" => Ok(default.saturating_mul(100)),
        number => number.parse().map_err(|_| format!("`{text}` is not fast, default, max or a number")),
    }
}
