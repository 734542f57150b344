//! Plans within a budget, for models whose best order needs more.

use std::collections::BTreeSet;

use memc_ir::{Bytes, Module, Plan, Stage};

use crate::budget::fit::leaves_room;
use crate::budget::near::{merge_near_copies, root_copies};
use crate::pass::{Changed, PassContext, PassError, Seeks, Shortage};
use crate::pipeline::{Observer, Pipeline, PipelineError, Silent};
use crate::portfolio::Planned;
use crate::split::is_split;
use crate::window::WindowChoice;

/// The default pipeline with a budget.
const MERGED: &str = "fold,canonicalize,dce,micro-batch,dce,cse,dce,view,window,schedule,budget,in-place,place";
/// The same without merging of equal nodes.
const WITHOUT_CSE: &str = "fold,canonicalize,dce,micro-batch,dce,view,window,schedule,budget,in-place,place";
/// The same from the file's own order: what is best without a budget need not be where much is computed again.
const GIVEN_ORDER: &str = "fold,canonicalize,dce,micro-batch,dce,view,window,budget,in-place,place";
/// The same with rewriting.
const REWRITTEN: &str = "fold,canonicalize,dce,micro-batch,dce,cse,dce,rewrite,fold,canonicalize,dce,cse,dce,view,window,schedule,budget,in-place,place";

/// What computes regions in parts, before it is planned within a budget.
const DIVIDED: &str = "fold,canonicalize,dce,cse,dce,rewrite,fold,canonicalize,dce,cse,dce,split,dce";
/// What plans that.
const PLANNED: &str = "view,window,schedule,budget,in-place,place";

/// Longer searches are not begun where the smallest plan is further above the budget than such a part of it.
const FAR: u64 = 8;

/// What comes before the merging of equal nodes in all of them.
const PREPARED: &str = "fold,canonicalize,dce";

/// Plans a typed module within the budget of the context's options, for when [`crate::plan`] needs more.
///
/// `free` is the plan that needs more: what is made here is rewritten if it was, and has windows where it has some. Nodes that compute the same are merged first: the plan may split them
/// again where that pays. Where no plan is found soon then, they are left as they are, unless the context only seeks what is found soon. Where the
/// context knows of an arena that is no larger than the bound of such plans, the smallest of them is not looked for.
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
    // Windows of a module with regions in parts are of values that there are not here.
    let windows = if is_split(&free.module) { WindowChoice::Only(BTreeSet::new()) } else { free.windows.clone() };
    let mut run = |text: &str, seeks: Seeks, smallest: Option<Bytes>| {
        let mut module = module.clone();
        let mut ctx = PassContext { windows: windows.clone(), seeks, smallest, ..context(&module) };
        Pipeline::parse(text, module.stage)?.run(&mut module, &mut ctx, verify, observer)?;
        Ok(Planned::of(module, ctx))
    };
    let is_rewritten = !free.rewrites.is_empty();
    let first = if is_rewritten { REWRITTEN } else { MERGED };
    let ends_soon = context(module).seeks == Seeks::Soon;
    let is_only = !ends_soon && !is_rewritten && !has_equal_nodes(module, context(module))?;
    let mut short = match run(first, if is_only { Seeks::Longest } else { Seeks::Soon }, None) {
        Err(PipelineError::Pass(PassError::Budget(short))) if !is_only && !ends_soon => short,
        other => return other,
    };
    let known = context(module).smallest;
    let is_beaten = |short: &Shortage| known.is_some_and(|known| known <= short.bound);
    if is_beaten(&short) {
        // What is proven of rewritten nodes need not hold of others.
        let other = if is_rewritten { or_short(run(WITHOUT_CSE, Seeks::Soon, None), &mut short)? } else { None };
        if let Some(found) = other {
            return Ok(found);
        }
        if is_beaten(&short) {
            return Err(PipelineError::Pass(PassError::Budget(short)));
        }
    }
    // What is proven of merged nodes holds without merging too: a plan may run a merged node again wherever another stood.
    if !is_rewritten && is_hopeless(&short) {
        return run(first, Seeks::Least, None);
    }
    // The smallest plan says whether longer searches are worth it. Rewritten or merged, plans get smallest.
    let mut least = short;
    let smallest = or_short(run(first, Seeks::Least, None), &mut least)?;
    let is_far = smallest.is_none() && least.least.0 > least.budget.0.saturating_add(least.budget.0 / FAR);
    for text in [WITHOUT_CSE, GIVEN_ORDER] {
        if is_far || text == GIVEN_ORDER && is_hopeless(&least) {
            break;
        }
        if let Some(found) = or_short(run(text, Seeks::Fully, None), &mut least)? {
            return Ok(faster(found, smallest));
        }
    }
    if let Some(smallest) = smallest {
        return Ok(smallest);
    }
    // That of the others need only be looked for below it.
    for text in [WITHOUT_CSE, GIVEN_ORDER] {
        if text == GIVEN_ORDER && (is_far || is_hopeless(&least)) {
            break;
        }
        let known = Some(least.least);
        if let Some(found) = or_short(run(text, Seeks::Least, known), &mut least)? {
            return Ok(found);
        }
    }
    Err(PipelineError::Pass(PassError::Budget(least)))
}

/// Whether it is proven that there is no plan.
fn is_hopeless(short: &Shortage) -> bool {
    short.bound > short.budget
}

/// The plan, if there is one; else what it is short of counts, where that is less than was known.
fn or_short(found: Result<Planned, PipelineError>, least: &mut Box<Shortage>) -> Result<Option<Planned>, PipelineError> {
    match found {
        Err(PipelineError::Pass(PassError::Budget(short))) => {
            let (bound, own) = (least.bound, short.bound);
            *least = if least.least <= short.least { least.clone().with_bound(own) } else { short.with_bound(bound) };
            Ok(None)
        }
        found => found.map(Some),
    }
}

/// The plan that takes less time.
fn faster(found: Planned, other: Option<Planned>) -> Planned {
    let time = |planned: &Planned| planned.budgeted.map_or(u64::MAX, |budgeted| budgeted.makespan);
    match other {
        Some(other) if time(&other) < time(&found) => other,
        _ => found,
    }
}

/// Plans a typed module within the budget of the context's options, with regions in parts so that no node needs more than so many bytes by itself, and what
/// does not fit then computed again or moved. `None` where no regions help nodes, or what stays to the end passes the budget by itself.
///
/// # Errors
/// The first pass that fails; [`PassError::Budget`] where no plan is found.
pub fn plan_in_regions<'o>(
    module: &Module,
    context: impl Fn(&Module) -> PassContext<'o>,
    alone: Bytes,
    verify: bool,
) -> Result<Option<Planned>, PipelineError> {
    let mut module = module.clone();
    let none = WindowChoice::Only(BTreeSet::new());
    let mut ctx = PassContext { windows: none, alone: Some(alone), ..context(&module) };
    if ctx.options.budget.is_some_and(|limit| !leaves_room(&module, &ctx, limit)) {
        return Ok(None);
    }
    Pipeline::parse(DIVIDED, module.stage)?.run(&mut module, &mut ctx, verify, &mut Silent)?;
    if !is_split(&module) {
        return Ok(None);
    }
    Pipeline::parse(PLANNED, module.stage)?.run(&mut module, &mut ctx, verify, &mut Silent)?;
    Ok(Some(Planned::of(module, ctx)))
}

/// Plans the module of a plan that computes again anew within the budget of the context's options: with regions in parts where it needs more than that, or
/// did so if nothing was computed again shortly after its last use. `None` where no regions help.
///
/// # Errors
/// The first pass that fails; [`PassError::Budget`] where no plan is found.
pub fn plan_in_regions_again<'o>(
    planned: &Module,
    context: impl Fn(&Module) -> PassContext<'o>,
    verify: bool,
) -> Result<Option<Planned>, PipelineError> {
    let mut module = planned.clone();
    (module.plan, module.stage) = (Plan::default(), Stage::Typed);
    merge_near_copies(&mut module);
    let none = WindowChoice::Only(BTreeSet::new());
    let data = memc_ops::infer(&mut module).data;
    let mut ctx = PassContext { windows: none, data, ..context(&module) };
    Pipeline::parse("dce,split,dce", module.stage)?.run(&mut module, &mut ctx, verify, &mut Silent)?;
    if !is_split(&module) {
        return Ok(None);
    }
    root_copies(&mut module);
    Pipeline::parse(PLANNED, module.stage)?.run(&mut module, &mut ctx, verify, &mut Silent)?;
    Ok(Some(Planned::of(module, ctx)))
}

/// Whether there is something to merge.
fn has_equal_nodes(module: &Module, mut ctx: PassContext<'_>) -> Result<bool, PipelineError> {
    let mut module = module.clone();
    Pipeline::parse(PREPARED, module.stage)?.run(&mut module, &mut ctx, false, &mut Silent)?;
    Ok(Pipeline::parse("cse", module.stage)?.run(&mut module, &mut ctx, false, &mut Silent)? != Changed::No)
}
