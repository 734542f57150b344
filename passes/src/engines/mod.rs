//! `engines`: runs branches of the model on several engines at once.

mod overwrites;
mod times;
mod waits;

use memc_ir::{ArenaSize, Bytes, Diagnostic, Module, Rewriter, Severity, Stage};
use memc_ops::families::memory::transfer_of;
use memc_solve::{engines, order, place};

use crate::analysis::dependence::has_side_effect;
use crate::analysis::memory::Memory;
use crate::analysis::open::has_open;
use crate::in_place;
use crate::parallel::Engines;
use crate::pass::{Changed, PassContext, PassError, PassInfo};
use crate::placement::Placement;
use crate::schedule;
use crate::slices::in_time;
use overwrites::{drop_early, forget};
use times::{Spans, nanos};
use waits::{Shared, waits};

/// Description of the pass.
pub const INFO: PassInfo = PassInfo {
    name: "engines",
    summary: "Runs branches of the model on several engines at once.",
    page: include_str!("../../doc/engines.md"),
    needs: Stage::Planned,
    gives: Stage::Planned,
    reads: &["effort", "limit"],
    run,
};

/// Largest arena in percent of the arena of one engine. More bytes give little more time: three networks
/// with many branches reach within 3 % of the time that unlimited memory allows.
const MAX_ARENA: u64 = 110;

/// Number of capacities that are tried: offsets need a few percent more than the live bytes of a schedule.
const TRIES: u32 = 6;

/// A plan that was tried.
struct Tried {
    module: Module,
    arena: u64,
    engines: Engines,
}

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let count = ctx.options.engines;
    if count < 2 {
        return Ok(Changed::No);
    }
    if let Some(why) = obstacle(module, ctx) {
        ctx.said.remarks.push(unused(count, &why));
        return Ok(Changed::No);
    }
    let Some(arena) = module.plan.arenas.first().copied() else {
        ctx.said.remarks.push(unused(count, "the arena holds nothing"));
        return Ok(Changed::No);
    };
    let alone: u64 = nanos(module, ctx.options).iter().sum();
    let most = arena.size.0.saturating_mul(MAX_ARENA) / 100;
    let most = ctx.settings.limit.map_or(most, |limit| most.min(limit.0.max(arena.size.0)));
    let found = find(module, ctx, &arena, most)?.filter(|tried| tried.engines.end() < alone);
    let Some(tried) = found else {
        let why = format!("no plan within {} ends earlier than one engine", Bytes(most).exact());
        ctx.said.remarks.push(unused(count, &why));
        return Ok(Changed::No);
    };
    let edits = edits(module, &tried.module);
    *module = tried.module;
    ctx.said.engines = Some(tried.engines);
    Ok(Changed::edits(edits))
}

/// Counts the differences in places and order between two plans of the same nodes.
fn edits(before: &Module, after: &Module) -> u64 {
    let values = || before.values().keys();
    let moved = values().filter(|value| before.plan.storage[*value] != after.plan.storage[*value]).count();
    let aliased = values().filter(|value| before.plan.alias[*value] != after.plan.alias[*value]).count();
    let [one, other] = [before, after].map(|module| &module.graph(module.main()).nodes);
    let ordered = one.iter().zip(other).filter(|(one, other)| one != other).count();
    let sized = usize::from(before.plan.arenas != after.plan.arenas)
        + usize::from(before.plan.scratch != after.plan.scratch);
    (moved + aliased + ordered + sized) as u64
}

/// Returns why several engines cannot run a plan; `None` if they can.
fn obstacle(module: &Module, ctx: &PassContext<'_>) -> Option<String> {
    let nodes = &module.graph(module.main()).nodes;
    if !module.domain().is_empty() {
        return Some("the plan holds for ranges of dimensions".to_owned());
    }
    if has_open(module, ctx.options) {
        return Some("some values have no size before a run".to_owned());
    }
    if nodes.iter().any(|node| transfer_of(&module.node(*node).operator).is_some())
        || module.plan.arenas.len() > 1
    {
        return Some("the plan uses a farther space".to_owned());
    }
    let node = nodes.iter().find(|node| has_side_effect(module, **node))?;
    let data = module.node(*node);
    Some(format!("`{}` ({}) may do more than make its results", data.name, data.operator))
}

fn unused(count: u32, why: &str) -> Diagnostic {
    let message = format!("`--engines {count}` had no effect: {why}");
    let help = "no action needed: the plan runs on one engine";
    Diagnostic::new("W0309", Severity::Warning, message).with_help(help)
}

/// Tries smaller and smaller capacities until the arena has at most `most` bytes.
fn find(
    module: &Module,
    ctx: &PassContext<'_>,
    arena: &ArenaSize,
    most: u64,
) -> Result<Option<Tried>, PassError> {
    let mut capacity = most;
    for _ in 0..TRIES {
        let Some(tried) = attempt(module, ctx, arena, capacity)? else { return Ok(None) };
        if tried.arena <= most {
            return Ok(Some(tried));
        }
        // What offsets added once they are likely to add again.
        capacity = capacity.saturating_sub((tried.arena - most).max(most / 100));
    }
    Ok(None)
}

/// Makes the plan of a schedule within a capacity; `None` without a schedule.
fn attempt(
    module: &Module,
    ctx: &PassContext<'_>,
    arena: &ArenaSize,
    capacity: u64,
) -> Result<Option<Tried>, PassError> {
    let mut module = module.clone();
    // Which results overwrite an operand depends on the order, so it is decided anew.
    forget(&mut module);
    let problem = engines::Problem {
        order: schedule::problem(&module, ctx.options),
        times: nanos(&module, ctx.options),
        engines: ctx.options.engines,
        capacity,
    };
    let outcome = in_time(ctx, ctx.effort(), |limit| engines::solve(&problem, limit));
    let outcome = outcome.map_err(|_| PassError::TooLarge { pass: INFO.name })?;
    let Some((schedule, end)) = outcome.solution.zip(outcome.value) else { return Ok(None) };
    engines::check(&problem, &schedule, end).map_err(|error| wrong(&error))?;

    let order = schedule.order();
    set_order(&mut module, &order);
    let mut spans = Spans::of(&problem, &schedule, &order);
    let mut apart = PassContext { memo: ctx.memo.clone(), ..PassContext::new(ctx.options, ctx.data.clone()) };
    (in_place::INFO.run)(&mut module, &mut apart)?;
    let earlier = drop_early(&mut module, &spans);
    let (ordered, shared, arena) = place(&mut module, ctx, arena, &spans)?;
    let waits = waits(&ordered, &earlier, &shared, &spans.engines);
    spans.tighten(&waits);
    let engines = Engines { engines: spans.engines, waits, spans: spans.spans };
    Ok(Some(Tried { module, arena, engines }))
}

/// Orders the nodes of the main graph.
fn set_order(module: &mut Module, order: &[u32]) {
    let main = module.main();
    let nodes = module.graph(main).nodes.clone();
    let mut rewriter = Rewriter::new(module);
    rewriter.set_schedule(main, order.iter().map(|position| nodes[*position as usize]).collect());
    rewriter.finish();
}

/// Gives all buffers offsets: those that live at one time are apart. Returns operations and buffers in the
/// present order, the bytes of each buffer and workspace, and the size of the arena.
fn place(
    module: &mut Module,
    ctx: &PassContext<'_>,
    before: &ArenaSize,
    spans: &Spans,
) -> Result<(order::Problem, Vec<Shared>, u64), PassError> {
    let ordered = schedule::problem(module, ctx.options);
    let memory = Memory::of(module, ctx.options);
    let peak = memory.peak(module).0;
    let alignment = module.plan.spaces[before.space].alignment;
    let mut placement = Placement::with_workspace(module, memory.buffers, alignment);
    let workspace: Vec<u32> =
        placement.problem.buffers[ordered.buffers.len()..].iter().map(|row| row.start).collect();
    spans.retime(&ordered, &mut placement.problem);
    let problem = &placement.problem;
    let outcome =
        in_time(ctx, ctx.effort(), |limit| ctx.memo.place(problem, limit)).map_err(|error| wrong(&error))?;
    let solution = outcome
        .solution
        .ok_or_else(|| wrong(&"the solver found no placement, although no capacity is set"))?;
    place::check(problem, &solution).map_err(|error| wrong(&error))?;
    placement.write(module, before.space, &solution.offsets);
    let size = Bytes(solution.height);
    module.plan.arenas = vec![ArenaSize { size, lower_bound: peak.min(size), ..*before }];
    Ok((ordered.clone(), Shared::all(&ordered, &workspace, problem, &solution.offsets), size.0))
}

fn wrong(why: &dyn std::fmt::Display) -> PassError {
    PassError::WrongAnswer { pass: INFO.name, why: why.to_string() }
}
