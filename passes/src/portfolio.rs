//! The default plan: several pipelines on one module, the best result kept, never worse than the file's own order.

use std::collections::BTreeSet;

use memc_ir::{Bytes, Module, Node, Stage, Value};
use memc_ops::Profile;
use memc_rewrite::Replaced;

use crate::analysis::open::{has_open, never_needs_more};
use crate::analysis::scratch::scratch;
use crate::analysis::{Liveness, buffers, classes, peak};
use crate::options::Options;
use crate::pass::{Budgeted, Changed, PassContext, Seeks, SolverReport};
use crate::pipeline::{FILE_ORDER, FILE_ORDER_ON_KERNELS, Observer, Pipeline, PipelineError, Silent};
use crate::split::is_split;
use crate::window::{WindowChoice, candidates};
use crate::window_search::search;
use crate::worth::Price;

/// The best plan, and what it is measured against.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The module at stage `Planned`.
    pub module: Module,
    /// Solvers' reports for the plan that was kept.
    pub reports: Vec<SolverReport>,
    /// Remarks of the pipeline that was kept.
    pub remarks: Vec<memc_ir::Diagnostic>,
    /// The file's own order under the same rules, where it was planned too and something better was found.
    pub base: Option<Module>,
    /// Windows that were rewritten in the plan that was kept, in the order in which that was done.
    pub rewrites: Vec<Replaced>,
    /// What keeping the budget took, where something is repeated or moved for it.
    pub budgeted: Option<Budgeted>,
    /// Which windows the plan was allowed.
    pub windows: WindowChoice,
}

impl Planned {
    /// What a pipeline left.
    pub fn of(module: Module, ctx: PassContext<'_>) -> Self {
        let PassContext { reports, remarks, rewrites, budgeted, windows, .. } = ctx;
        Self { module, reports, remarks, base: None, rewrites, budgeted, windows }
    }
}

/// What only ever helps, and is done once: the ways below begin with its result. Together with [`MERGED`] it is
/// [`crate::pipeline::DEFAULT`].
const PREPARED: &str = "fold,canonicalize,dce,micro-batch,dce";
/// What follows, with merging of equal nodes.
const MERGED: &str = "cse,dce,view,window,schedule,in-place,place";
/// What follows, without: a merged value lives longer, which can raise the peak.
const WITHOUT_CSE: &str = "view,window,schedule,in-place,place";
/// The pass that the search for windows begins with; what stands before it depends on no choice.
const WINDOW: &str = "window";
/// What depends on the choice: what the order needs, and what becomes of that.
const ORDERED: &str = "window,schedule";
const PLACED: &str = "in-place,place";

/// What the rewritten way begins with, after [`PREPARED`]: rewriting, and what cleans up behind it.
const REWRITTEN: &str = "cse,dce,rewrite,fold,canonicalize,dce,cse,dce";

/// What computes regions around the peak in parts.
const SPLIT: &str = "split,dce";

/// What lays images out in blocks of channels.
const LAID_OUT: &str = "nchwc,dce";

/// Plans a typed module in several ways and keeps the one with the smallest arena (then peak, then fewest nodes).
///
/// The ways are compared by heuristics alone; only the better one is searched with the full effort. Where the runtime has windows, sets of
/// them are tried the same way, and the best set is kept if the full effort ends better with it than without. Where rewriting changes
/// the module, it is planned with and without it, and the rewritten one is kept if it needs neither more memory nor more time, and less of
/// one. `context` makes a fresh context for a module.
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
    let file_order = if given.ctx.options.rewrite.names_kernels() { FILE_ORDER_ON_KERNELS } else { FILE_ORDER };
    let mut prepared = given.clone();
    Pipeline::parse(PREPARED, module.stage)?.run(&mut prepared.module, &mut prepared.ctx, verify, observer)?;
    let (mut base, mut limit) = run(&given, file_order, Some(0), none(), verify, &mut Silent)?;
    let rewritten = rewritten(&prepared, verify, observer)?;
    let prepared = laid_out(prepared, verify, observer)?;
    let split = split(rewritten.as_ref().unwrap_or(&prepared), &prepared, verify, observer)?;
    let (best, rank) = match leaner(split, rewritten, &prepared, verify)? {
        None => best(&prepared, &mut tried(&prepared, verify)?, verify, observer)?,
        Some(rewritten) => better(&rewritten, &prepared, verify, observer)?,
    };
    let alignment = prepared.ctx.options.space.alignment;
    if limit.peak.0 + alignment <= rank.arena.0 && limit.peak < limit.arena {
        // The file's order might be placed better than what was found: only then is it worth the full effort.
        (base, limit) = run(&given, file_order, None, none(), verify, &mut Silent)?;
    }
    let options = prepared.ctx.options;
    let best = match best {
        // What is rewritten or merged can keep values without a size for longer, or make more of them.
        best if needs_more(&best.module, &base.module, options) => {
            let plain = run(&prepared, WITHOUT_CSE, None, none(), verify, &mut Silent)?.0;
            if needs_more(&plain.module, &base.module, options) {
                return Ok(base);
            }
            plain
        }
        best => best,
    };
    let rank = self::rank(&best.module, options);
    if rank.peak > limit.peak || rank.arena > limit.arena {
        return Ok(base);
    }
    Ok(Planned { base: Some(base.module), ..best })
}

/// Whether a plan can need more than that of the file's own order because of values whose size only a run tells.
fn needs_more(plan: &Module, base: &Module, options: &Options) -> bool {
    has_open(plan, options) && !never_needs_more(plan, base, options)
}

/// The rewritten module, if rules changed it.
fn rewritten<'o>(prepared: &Start<'o>, verify: bool, observer: &mut dyn Observer) -> Result<Option<Start<'o>>, PipelineError> {
    if !prepared.ctx.options.rewrite.enabled {
        return Ok(None);
    }
    let mut start = prepared.clone();
    Pipeline::parse(REWRITTEN, start.module.stage)?.run(&mut start.module, &mut start.ctx, verify, observer)?;
    if start.ctx.rewrites.is_empty() {
        return Ok(None);
    }
    laid_out(start, verify, observer).map(Some)
}

/// A start with regions around its peak in parts, if there are any. Where nothing limits memory, they may not take more time than what was given
/// and what less memory may cost.
fn split<'o>(
    start: &Start<'o>,
    given: &Start<'o>,
    verify: bool,
    observer: &mut dyn Observer,
) -> Result<Option<Start<'o>>, PipelineError> {
    let options = start.ctx.options;
    if !options.rewrite.enabled {
        return Ok(None);
    }
    let mut start = start.clone();
    start.ctx.time_limit = options.room().is_none().then(|| options.rewrite.longest(options.total_nanos(&given.module)));
    Pipeline::parse(SPLIT, start.module.stage)?.run(&mut start.module, &mut start.ctx, verify, observer)?;
    Ok(is_split(&start.module).then_some(start))
}

/// Of a module with regions in parts and the same without, the one that heuristics make more of, windows aside.
fn leaner<'o>(
    split: Option<Start<'o>>,
    whole: Option<Start<'o>>,
    given: &Start<'o>,
    verify: bool,
) -> Result<Option<Start<'o>>, PipelineError> {
    let Some(split) = split else { return Ok(whole) };
    let options = split.ctx.options;
    let nanos = |start: &Start<'_>| options.total_nanos(&start.module);
    let other = whole.as_ref().unwrap_or(given);
    let arena = |start: &Start<'_>| tried(start, verify).map(|tried| tried.rank.arena);
    let (own, its) = (arena(&split)?, arena(other)?);
    let price = Price::new(options, its, nanos(other));
    let is_better = price.of(own, nanos(&split)) < price.of(its, nanos(other));
    Ok(if is_better { Some(split) } else { whole })
}

/// A start with images in blocks of channels, where that is asked for.
fn laid_out<'o>(mut start: Start<'o>, verify: bool, observer: &mut dyn Observer) -> Result<Start<'o>, PipelineError> {
    if start.ctx.options.rewrite.nchwc.is_some() {
        Pipeline::parse(LAID_OUT, start.module.stage)?.run(&mut start.module, &mut start.ctx, verify, observer)?;
    }
    Ok(start)
}

/// Of a rewritten module that needs no less than the given one, the part of its time that must be saved: what is less is not worth a
/// second search.
const WORTH: u64 = 1000;

/// What heuristics leave behind the plan of another start that is faster, too, is searched with so many times less effort.
const LESS_EFFORT: u64 = 4;

/// The better plan of two starts by [`Price`]: the second, unless the first takes no more time, and no more memory than that or the
/// room.
fn better(
    first: &Start<'_>,
    second: &Start<'_>,
    verify: bool,
    observer: &mut dyn Observer,
) -> Result<(Planned, Rank), PipelineError> {
    let options = first.ctx.options;
    let nanos = |module: &Module| options.total_nanos(module);
    let (mut own, mut its) = (tried(first, verify)?, tried(second, verify)?);
    let (own_nanos, its_nanos) = (nanos(&own.planned.module), nanos(&its.planned.module));
    let saved = its_nanos.saturating_sub(own_nanos);
    // Where only one of them keeps within the room, the other's time is of no use; nor is any where the least is asked for.
    let seeks_least = first.ctx.seeks == Seeks::Least;
    let alone_fits = |own: Rank, its: Rank| {
        options.room().is_some_and(|room| its.arena > room && (own.arena <= room || seeks_least && own.arena < its.arena))
    };
    let longest = |nanos: u64| if options.room().is_none() { options.rewrite.longest(nanos) } else { nanos };
    let takes_longer = own_nanos > longest(its_nanos) && !alone_fits(own.rank, its.rank);
    if takes_longer || own.rank.arena >= its.rank.arena && saved < its_nanos / WORTH {
        return best(second, &mut its, verify, observer);
    }
    let (planned, rank) = best(first, &mut own, verify, observer)?;
    // What takes more time is kept only if it needs less memory.
    let is_faster = options.room().is_none() && nanos(&planned.module) < its_nanos;
    if is_faster && its.rank.arena > rank.arena {
        its.less = LESS_EFFORT;
    }
    let bound = its.planned.reports.iter().map(|report| report.lower_bound).min().unwrap_or(0);
    // Windows can go below the bound of an order without them.
    if rank.arena.0 <= bound && nanos(&planned.module) <= longest(its_nanos) && !its.has_windows(second)? {
        return Ok((planned, rank));
    }
    let mut second = second.clone();
    if is_faster {
        second = second.below(rank.arena.0);
        second.ctx.effort /= its.less;
    }
    let second = &second;
    let (other, other_rank) = best(second, &mut its, verify, &mut Silent)?;
    let (own_nanos, its_nanos) = (nanos(&planned.module), nanos(&other.module));
    let price = Price::new(options, its.rank.arena, its_nanos);
    let is_better = price.of(rank.arena, own_nanos) < price.of(other_rank.arena, its_nanos);
    let needs_less = rank.arena <= other_rank.arena.max(options.room().unwrap_or_default());
    if is_better && needs_less && (own_nanos <= longest(its_nanos) || alone_fits(rank, other_rank)) {
        return Ok((planned, rank));
    }
    best(second, &mut its, verify, observer)
}

/// What heuristics make of one start.
struct Tried {
    /// The pipeline that does better: with equal nodes merged or not.
    text: &'static str,
    /// The best set of windows, once it was looked for.
    windows: Option<WindowChoice>,
    /// So many times fewer sets of windows are tried.
    less: u64,
    planned: Planned,
    rank: Rank,
}

impl Tried {
    /// The best set of windows of the start that this was made of.
    fn windows(&mut self, from: &Start<'_>) -> Result<&WindowChoice, PipelineError> {
        let windows = match self.windows.take() {
            Some(known) => known,
            None => choose_windows(from, self.text, self.less)?,
        };
        Ok(self.windows.insert(windows))
    }

    fn has_windows(&mut self, from: &Start<'_>) -> Result<bool, PipelineError> {
        Ok(!matches!(self.windows(from)?, WindowChoice::Only(chosen) if chosen.is_empty()))
    }
}

fn tried(from: &Start<'_>, verify: bool) -> Result<Tried, PipelineError> {
    let (mut text, (mut planned, mut rank)) = (MERGED, run(from, MERGED, Some(0), none(), verify, &mut Silent)?);
    if merges(from)? {
        let plain = run(from, WITHOUT_CSE, Some(0), none(), verify, &mut Silent)?;
        if plain.1 < rank {
            (text, (planned, rank)) = (WITHOUT_CSE, plain);
        }
    }
    Ok(Tried { text, windows: None, less: 1, planned, rank })
}

/// Whether there are equal nodes.
fn merges(from: &Start<'_>) -> Result<bool, PipelineError> {
    let Start { mut module, mut ctx } = from.clone();
    let changed = Pipeline::parse("cse", module.stage)?.run(&mut module, &mut ctx, false, &mut Silent)?;
    Ok(changed != Changed::No)
}

/// The best plan of one start, with windows or not.
fn best(
    from: &Start<'_>,
    tried: &mut Tried,
    verify: bool,
    observer: &mut dyn Observer,
) -> Result<(Planned, Rank), PipelineError> {
    let windows = tried.windows(from)?.clone();
    let found = run(from, tried.text, None, windows, verify, observer)?;
    if tried.has_windows(from)? {
        // What helps the heuristics need not help the search.
        let from = from.below(found.1.arena.0 + 1);
        let without = run(&from, tried.text, None, none(), verify, &mut Silent)?;
        if (without.1.arena, without.1.peak) <= (found.1.arena, found.1.peak) {
            return run(&from, tried.text, None, none(), verify, observer);
        }
    }
    Ok(found)
}

fn none() -> WindowChoice {
    WindowChoice::Only(BTreeSet::new())
}

fn run(
    from: &Start<'_>,
    text: &str,
    effort: Option<u64>,
    windows: WindowChoice,
    verify: bool,
    observer: &mut dyn Observer,
) -> Result<(Planned, Rank), PipelineError> {
    let Start { mut module, mut ctx } = from.clone();
    ctx.effort = effort.unwrap_or(ctx.effort);
    ctx.windows = windows;
    Pipeline::parse(text, module.stage)?.run(&mut module, &mut ctx, verify, observer)?;
    let rank = rank(&module, ctx.options);
    Ok((Planned::of(module, ctx), rank))
}

/// What a pipeline begins with.
#[derive(Clone, Debug)]
struct Start<'o> {
    module: Module,
    ctx: PassContext<'o>,
}

impl Start<'_> {
    /// The same where only an arena of fewer bytes is of interest.
    fn below(&self, bytes: u64) -> Self {
        let mut start = self.clone();
        start.ctx.below = Some(start.ctx.below.map_or(bytes, |below| below.min(bytes)));
        start
    }
}

/// The set of windows with which a pipeline does best by heuristics alone, where `less` times fewer sets are tried.
fn choose_windows(from: &Start<'_>, text: &str, less: u64) -> Result<WindowChoice, PipelineError> {
    let Start { module: mut prepared, mut ctx } = from.clone();
    // Whoever knows a plan already looks for less than that with windows, too, but may come to it by way of others.
    (ctx.effort, ctx.below) = (0, None);
    let Some((first, _)) = text.split_once(WINDOW).filter(|_| ctx.options.profile.windows) else {
        return Ok(WindowChoice::Only(BTreeSet::new()));
    };
    Pipeline::parse(first, prepared.stage)?.run(&mut prepared, &mut ctx, false, &mut Silent)?;
    let candidates = candidates(&prepared, &ctx);
    let ordered = Pipeline::parse(ORDERED, prepared.stage)?;
    let placed = Pipeline::parse(PLACED, Stage::Scheduled)?;
    let options = ctx.options;
    let set = search(&prepared, &candidates, options, less as usize, |windows, below| {
        let mut trial = prepared.clone();
        ctx.windows = windows;
        ctx.reports.clear();
        ordered.run(&mut trial, &mut ctx, false, &mut Silent)?;
        if ctx.reports.iter().any(|report| report.value >= below) {
            return Ok(None);
        }
        placed.run(&mut trial, &mut ctx, false, &mut Silent)?;
        Ok(Some(trial))
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
    Rank { arena, peak: planned_peak(module, options), nodes: module.graph(module.main()).nodes.len() }
}

/// Peak of a planned module: most bytes of distinct owners live at one step, workspace included.
pub fn planned_peak(module: &Module, options: &Options) -> Bytes {
    let liveness = Liveness::of(module, module.main(), options.profile);
    let buffers = buffers(module, &liveness, &classes(module), options.io);
    peak(module, &buffers, liveness.steps).0
}

/// Peak of a module in its own order with the aliases that it has, each value live as long as `runtime` keeps it. Workspace counts for the
/// nodes, and bytes for the owners, that are admitted.
pub fn own_peak(
    module: &Module,
    options: &Options,
    runtime: &Profile,
    nodes: impl Fn(Node) -> bool,
    owners: impl Fn(Value) -> bool,
) -> Bytes {
    let mut module = module.clone();
    module.plan.scratch = scratch(&module, options);
    module.plan.scratch.retain(|scratch| nodes(scratch.node));
    // A view that does not count must not keep the bytes of its owner alive.
    for value in module.values().keys().filter(|value| !owners(*value)).collect::<Vec<_>>() {
        module.plan.alias.set(value, None);
    }
    // Nor does a graph output lie in what does not count: it has bytes of its own.
    for output in module.graph(module.main()).outputs.clone() {
        if !owners(module.plan.owner(output).0) {
            module.plan.alias.set(output, None);
        }
    }
    let liveness = Liveness::of(&module, module.main(), runtime);
    let mut buffers = buffers(&module, &liveness, &classes(&module), options.io);
    buffers.retain(|buffer| owners(buffer.owner));
    peak(&module, &buffers, liveness.steps).0
}
