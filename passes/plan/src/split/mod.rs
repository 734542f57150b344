//! `split`: computes regions around the peak in parts of one axis, one part after another.

mod alone;
mod candidates;
mod corner;
mod estimate;
mod finer;
mod growth;
mod probes;
mod region;
mod rounds;
mod search;
mod seed;
pub(crate) mod seen;
mod waists;

use memc_ir::{Module, Stage};

use memc_passes::parts::{Weights, read_apart, write};
use memc_passes::{Changed, PassContext, PassError, PassInfo};
use region::{NAME, Region, is_own};

/// Entry of the pass in the registry.
pub const INFO: PassInfo = PassInfo {
    name: NAME,
    summary: "Splits regions around the peak into parts along one axis, computed one after another.",
    page: include_str!("../../doc/split.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &["limit", "slowdown", "time", "alone"],
    run,
};

/// Returns whether the pass wrote nodes of a module.
pub fn is_split(module: &Module) -> bool {
    module.graph(module.main()).nodes.iter().any(|node| is_own(module, *node))
}

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    // A kernel may sum fewer numbers in another order.
    if ctx.options.rewrite.exact {
        return Ok(Changed::No);
    }
    let chosen = rounds::regions(module, ctx);
    let edits = divide(module, &chosen, &mut Weights::new(ctx));
    if edits > 0 {
        ctx.data = memc_ops::infer(module).data;
    }
    Ok(Changed::edits(edits))
}

/// Writes regions in parts; returns the number of edits.
fn divide<'r>(module: &mut Module, regions: impl IntoIterator<Item = &'r Region>, weights: &mut Weights<'_, '_>) -> u64 {
    let written = write(module, regions.into_iter().map(|region| &region.divided), weights, INFO.name);
    written + read_apart(module, INFO.name)
}
