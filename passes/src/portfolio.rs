//! The default plan: several pipelines on one module, the best result kept, never worse than the file's own order.

use std::collections::{BTreeMap, BTreeSet};

use memc_ir::{Bytes, Module, Node, Value};
use memc_ops::Profile;

use crate::analysis::scratch::scratch;
use crate::analysis::{Liveness, buffers, classes, peak};
use crate::options::Options;
use crate::pass::{Budgeted, PassContext, SolverReport};
use crate::pipeline::{FILE_ORDER, Observer, Pipeline, PipelineError, Silent};
use crate::window::{WindowChoice, candidates};
use crate::window_search::search;

/// The best plan, and what it is measured against.
#[derive(Debug)]
pub struct Planned {
    /// The module at stage `Planned`.
    pub module: Module,
    /// Solvers' reports for the plan that was kept.
    pub reports: Vec<SolverReport>,
    /// Remarks of the pipeline that was kept.
    pub remarks: Vec<memc_ir::Diagnostic>,
    /// The file's own order under the same rules, where it was planned too and something better was found.
    pub base: Option<Module>,
    /// How often each rewriting rule was used in the plan that was kept.
    pub rules: BTreeMap<String, u64>,
    /// What keeping the budget took, where something is repeated or moved for it.
    pub budgeted: Option<Budgeted>,
}

/// What only ever helps, and is done once: the ways below begin with its result. Together with [`MERGED`] it is
/// [`crate::pipeline::DEFAULT`].
const PREPARED: &str = "fold,canonicalize,dce";
/// What follows, with merging of equal nodes.
const MERGED: &str = "cse,dce,view,window,schedule,in-place,place";
/// What follows, without: a merged value lives longer, which can raise the peak.
const WITHOUT_CSE: &str = "view,window,schedule,in-place,place";
/// The pass that the search for windows begins with; what stands before it depends on no choice.
const WINDOW: &str = "window";

/// Rewriting, behind [`PREPARED`], with what cleans up behind it.
const REWRITTEN: &str = "cse,dce,rewrite,fold,canonicalize,dce,cse,dce";

/// Plans a typed module as it is and rewritten, and keeps the better one: the one with the smaller arena, then the one that takes less time.
///
/// `context` makes a fresh context for a module. Both ways are planned in several ways, and the one with the smallest arena is kept (then
/// peak, then fewest nodes).
///
/// # Errors
/// The first pipeline that fails.
pub fn plan<'o>(
    module: &Module,
    context: impl Fn(&Module) -> PassContext<'o>,
    verify: bool,
    observer: &mut dyn Observer,
) -> Result<Planned, PipelineError> {
    let given = Start { module: module.clone(), ctx: context(module) };
    let mut prepared = given.clone();
    Pipeline::parse(PREPARED, module.stage)?.run(&mut prepared.module, &mut prepared.ctx, verify, observer)?;
    let options = given.ctx.options;
    if !options.rewrite.enabled {
        return plan_prepared(&given, &prepared, verify, observer);
    }
    let mut other = prepared.clone();
    Pipeline::parse(REWRITTEN, other.module.stage)?.run(&mut other.module, &mut other.ctx, verify, &mut Silent)?;
    if other.ctx.rules.is_empty() {
        return plan_prepared(&given, &prepared, verify, observer);
    }
    let rewritten = plan_prepared(&given, &other, verify, observer)?;
    let plain = plan_prepared(&given, &prepared, verify, &mut Silent)?;
    let cost = |planned: &Planned| {
        let arena = rank(&planned.module, options).arena;
        (arena.max(options.space.capacity.unwrap_or_default()), options.cost.total_nanos(&planned.module).0.round() as u64)
    };
    let faster = cost(&rewritten).1 <= cost(&plain).1;
    if faster && cost(&rewritten) < cost(&plain) {
        return Ok(rewritten);
    }
    plan_prepared(&given, &prepared, verify, observer)
}

/// Plans a module in several ways and keeps the one with the smallest arena (then peak, then fewest nodes), or the order of the file, if
/// nothing is better.
///
/// The ways are compared by heuristics alone; only the better one is searched with the full effort. Where the runtime has windows, sets of
/// them are tried the same way, and the best set is kept if the full effort ends better with it than without.
fn plan_prepared<'o>(
    given: &Start<'o>,
    prepared: &Start<'o>,
    verify: bool,
    observer: &mut dyn Observer,
) -> Result<Planned, PipelineError> {
    let run = |from: &Start<'o>, text: &str, effort: Option<u64>, windows: WindowChoice, observer: &mut dyn Observer| {
        let Start { mut module, mut ctx } = from.clone();
        ctx.effort = effort.unwrap_or(ctx.effort);
        ctx.windows = windows;
        Pipeline::parse(text, module.stage)?.run(&mut module, &mut ctx, verify, observer)?;
        let rank = rank(&module, ctx.options);
        Ok::<_, PipelineError>((
            Planned { module, reports: ctx.reports, remarks: ctx.remarks, base: None, rules: ctx.rules, budgeted: None },
            rank,
        ))
    };
    let none = || WindowChoice::Only(BTreeSet::new());
    let (mut base, mut limit) = run(given, FILE_ORDER, Some(0), none(), &mut Silent)?;
    let merged = run(prepared, MERGED, Some(0), none(), &mut Silent)?.1;
    let plain = run(prepared, WITHOUT_CSE, Some(0), none(), &mut Silent)?.1;
    let text = if plain < merged { WITHOUT_CSE } else { MERGED };
    let windows = choose_windows(prepared, text)?;
    let has_windows = !matches!(&windows, WindowChoice::Only(chosen) if chosen.is_empty());
    let (mut best, mut rank) = run(prepared, text, None, windows, observer)?;
    if has_windows {
        // What helps the heuristics need not help the search.
        let without = run(prepared, text, None, none(), &mut Silent)?;
        if (without.1.arena, without.1.peak) <= (rank.arena, rank.peak) {
            (best, rank) = run(prepared, text, None, none(), observer)?;
        }
    }
    if limit.peak < rank.arena && limit.peak < limit.arena {
        // The file's order might be placed better than what was found: only then is it worth the full effort.
        (base, limit) = run(given, FILE_ORDER, None, none(), &mut Silent)?;
    }
    if rank.peak > limit.peak || rank.arena > limit.arena {
        return Ok(base);
    }
    Ok(Planned { base: Some(base.module), ..best })
}

/// What a pipeline begins with.
#[derive(Clone, Debug)]
struct Start<'o> {
    module: Module,
    ctx: PassContext<'o>,
}

/// The set of windows with which a pipeline does best by heuristics alone.
fn choose_windows(from: &Start<'_>, text: &str) -> Result<WindowChoice, PipelineError> {
    let Start { module: mut prepared, mut ctx } = from.clone();
    ctx.effort = 0;
    let Some((first, _)) = text.split_once(WINDOW).filter(|_| ctx.options.profile.windows) else {
        return Ok(WindowChoice::Only(BTreeSet::new()));
    };
    Pipeline::parse(first, prepared.stage)?.run(&mut prepared, &mut ctx, false, &mut Silent)?;
    let candidates = candidates(&prepared, &ctx);
    let rest = Pipeline::parse(&text[first.len()..], prepared.stage)?;
    let options = ctx.options;
    let set = search(&prepared, &candidates, options, |windows| {
        let mut trial = prepared.clone();
        ctx.windows = windows;
        ctx.reports.clear();
        rest.run(&mut trial, &mut ctx, false, &mut Silent)?;
        Ok(trial)
    })?;
    Ok(WindowChoice::Only(set))
}

/// What plans are compared by, most important first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    arena: Bytes,
    peak: Bytes,
    nodes: usize,
}

fn rank(module: &Module, options: &Options) -> Rank {
    let arena = module.plan.arenas.iter().map(|arena| arena.size).max().unwrap_or_default();
    Rank { arena, peak: current_peak(module, options), nodes: module.graph(module.main()).nodes.len() }
}

fn current_peak(module: &Module, options: &Options) -> Bytes {
    let liveness = Liveness::of(module, module.main(), options.profile);
    let buffers = buffers(module, &liveness, &classes(module), options.io);
    peak(module, &buffers, liveness.steps).0
}

/// Peak of a module in its own order with the aliases that it has, each value live to its last reader and no longer. Workspace counts for
/// the nodes, and bytes for the owners, that are admitted.
pub fn own_peak(module: &Module, options: &Options, nodes: impl Fn(Node) -> bool, owners: impl Fn(Value) -> bool) -> Bytes {
    let mut module = module.clone();
    module.plan.scratch = scratch(&module, options);
    module.plan.scratch.retain(|scratch| nodes(scratch.node));
    // A view that does not count must not keep the bytes of its owner alive.
    for value in module.values().keys().filter(|value| !owners(*value)).collect::<Vec<_>>() {
        module.plan.alias.set(value, None);
    }
    let liveness = Liveness::of(&module, module.main(), &Profile::ARENA);
    let mut buffers = buffers(&module, &liveness, &classes(&module), options.io);
    buffers.retain(|buffer| owners(buffer.owner));
    peak(&module, &buffers, liveness.steps).0
}
