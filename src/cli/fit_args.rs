//! Arguments of `memc fit`, as declared to clap.

use clap::Args;
use memc::{Extent, Growing};

use super::args::{Optimize, heading, pair, whole};

/// `memc fit`.
#[derive(Args, Debug)]
pub struct Fit {
    /// Memory for weights, state, inputs, outputs and the arena: 8GB, 512MiB
    #[arg(long, value_name = "SIZE", value_parser = whole, help_heading = heading::USUAL)]
    pub ram: u64,
    /// Dimension to make as large as possible: batch=512 for one extent up to 512, seq=1..512 for a plan that
    /// holds for all extents from 1 on [default: the only dimension that is open, up to 65536]
    #[arg(long, value_name = "NAME=MOST|NAME=A..MOST", value_parser = growing, help_heading = heading::USUAL)]
    pub largest: Option<Growing>,
    /// Rows of a decoder's caches, which stay in place. The new rows of a run are made as many as possible
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(1..), help_heading = heading::USUAL)]
    pub context: Option<u64>,
    /// Model and planning
    #[command(flatten)]
    pub planning: Optimize,
}

impl Fit {
    /// Moves the second positional argument to the option that it stands for.
    pub fn settled(mut self) -> Self {
        self.planning = self.planning.settled();
        self
    }
}

/// Parses `NAME=MOST` or `NAME=A..MOST`.
fn growing(text: &str) -> Result<Growing, String> {
    let (name, extent) = pair::<Extent>(text)?;
    match extent {
        Extent::Only(most) if most > 0 => Ok(Growing {
            name,
            extents: memc_ir::Range { min: 1, max: Some(most), step: 1 },
            is_range: false,
        }),
        Extent::Range(extents) => Ok(Growing { name, extents, is_range: true }),
        _ => Err(format!("`{text}` is neither NAME=MOST nor NAME=A..MOST")),
    }
}
