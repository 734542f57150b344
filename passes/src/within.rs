//! Plans within a budget, for models whose best order needs more.

use memc_ir::Module;

use crate::pass::{PassContext, PassError};
use crate::pipeline::{Observer, Pipeline, PipelineError};
use crate::portfolio::Planned;

/// The default pipeline with a budget.
const MERGED: &str = "fold,canonicalize,dce,cse,dce,view,window,schedule,budget,in-place,place";
/// The same without merging of equal nodes.
const WITHOUT_CSE: &str = "fold,canonicalize,dce,view,window,schedule,budget,in-place,place";
/// The same with rewriting.
const REWRITTEN: &str =
    "fold,canonicalize,dce,cse,dce,rewrite,fold,canonicalize,dce,cse,dce,view,window,schedule,budget,in-place,place";

/// Plans a typed module within the budget of the context's options, for when [`crate::plan`] needs more.
///
/// `free` is the plan that needs more: what is made here is rewritten if it was, and has windows where it has some. Nodes that compute the same are merged first: the plan may split them
/// again where that pays. Only where no plan is found then, they are left as they are.
///
/// # Errors
/// The first pipeline that fails; [`PassError::Budget`] where no plan is found, with what the better of the two needs.
pub fn plan_within<'o>(
    module: &Module,
    context: impl Fn(&Module) -> PassContext<'o>,
    free: &Planned,
    verify: bool,
    observer: &mut dyn Observer,
) -> Result<Planned, PipelineError> {
    let mut run = |text: &str| {
        let mut module = module.clone();
        let mut ctx = PassContext { windows: free.windows.clone(), ..context(&module) };
        Pipeline::parse(text, module.stage)?.run(&mut module, &mut ctx, verify, observer)?;
        Ok(Planned::of(module, ctx))
    };
    let short = match run(if free.rewrites.is_empty() { MERGED } else { REWRITTEN }) {
        Err(PipelineError::Pass(PassError::Budget(short))) => short,
        other => return other,
    };
    // What is proven of merged nodes holds without merging too: a plan may run a merged node again wherever another stood.
    if free.rewrites.is_empty() && short.bound > short.budget {
        return Err(PipelineError::Pass(PassError::Budget(short)));
    }
    match run(WITHOUT_CSE) {
        Err(PipelineError::Pass(PassError::Budget(other))) => {
            let better = if other.least < short.least { other } else { short };
            Err(PipelineError::Pass(PassError::Budget(better)))
        }
        other => other,
    }
}
