//! Arguments of `memc tune`, as declared to clap.

use clap::Args;

use super::args::{Library, Optimize, heading};

/// `memc tune`.
#[derive(Args, Debug)]
pub struct Tune {
    /// Largest number of measured runs of all candidates together
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..), help_heading = heading::LIMITS)]
    pub trials: u32,
    /// Model and planning
    #[command(flatten)]
    pub planning: Optimize,
    /// Library
    #[command(flatten)]
    pub library: Library,
}

impl Tune {
    /// Moves the second positional argument to the option that it stands for.
    pub fn settled(mut self) -> Self {
        self.planning = self.planning.settled();
        self
    }
}
