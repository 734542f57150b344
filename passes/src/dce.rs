//! `dce`: erases nodes whose results nobody needs, leaves single results out that nobody reads, and drops initializers without readers.

use memc_ir::{Module, Rewriter, Stage};
use memc_ops::{lookup, repeatable};

use crate::analysis::dependence::has_side_effect;
use crate::pass::{Changed, PassContext, PassError, PassInfo};

/// The pass.
pub const INFO: PassInfo = PassInfo {
    name: "dce",
    summary: "Erases nodes whose results nobody needs, and initializers that nobody reads.",
    page: include_str!("../doc/dce.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &[],
    run,
};

fn run(module: &mut Module, _ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let nodes = module.graph(module.main()).nodes.clone();
    let mut rewriter = Rewriter::new(module);
    // Backwards, a node is met after all its readers: one walk is enough.
    for node in nodes.into_iter().rev() {
        if has_side_effect(rewriter.module(), node) || rewriter.erase(node) {
            continue;
        }
        // A node that draws or remembers is told from others by all that it makes.
        if repeatable(rewriter.module(), node) {
            let optional = lookup(&rewriter.module().node(node).operator).map_or(&[][..], |info| info.optional);
            optional.iter().for_each(|position| _ = rewriter.leave_out(node, *position));
        }
    }
    rewriter.drop_unused_constants();
    Ok(Changed::edits(rewriter.finish()))
}
