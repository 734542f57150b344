//! `dce`: erases nodes with unused results, omits unused optional results, and drops unread
//! initializers.

use memc_ir::{Module, Rewriter, Stage};
use memc_ops::{lookup, repeatable};

use crate::analysis::dependence::has_side_effect;
use crate::pass::{Changed, PassContext, PassError, PassInfo};

/// Description of the pass.
pub const INFO: PassInfo = PassInfo {
    name: "dce",
    summary: "Erases nodes with unused results, and initializers without readers.",
    page: include_str!("../doc/dce.md"),
    needs: Stage::Typed,
    gives: Stage::Typed,
    reads: &[],
    run,
};

fn run(module: &mut Module, _ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let nodes = module.graph(module.main()).nodes.clone();
    let mut rewriter = Rewriter::new(module);
    // In reverse order, a node comes after all its readers, so one walk finds every dead chain.
    for node in nodes.into_iter().rev() {
        if has_side_effect(rewriter.module(), node) || rewriter.erase(node) {
            continue;
        }
        // A node that is not repeatable (random or stateful) is identified by its full list of results,
        // so it keeps all of them.
        if repeatable(rewriter.module(), node) {
            let optional =
                lookup(&rewriter.module().node(node).operator).map_or(&[][..], |info| info.optional);
            optional.iter().for_each(|position| _ = rewriter.leave_out(node, *position));
        }
    }
    rewriter.drop_unused_constants();
    Ok(Changed::edits(rewriter.finish()))
}
