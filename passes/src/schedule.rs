//! `schedule`: orders nodes so that the peak is low.

use memc_ir::{Bytes, Module, Node, Rewriter, SecondaryMap, Stage, Value};
use memc_ops::{Profile, Typed};
use memc_solve::order;

use crate::analysis::buffers::{Buffer, is_placed};
use crate::analysis::dependence::predecessors;
use crate::analysis::memory::Memory;
use crate::analysis::open::OpenBuffers;
use crate::analysis::scratch::scratch;
use crate::analysis::state::wait_for_readers;
use crate::options::Options;
use crate::pass::{Changed, PassContext, PassError, PassInfo, SCHEDULE, SolverReport};
use crate::slices::in_time;

/// Description of the pass.
pub const INFO: PassInfo = PassInfo {
    name: SCHEDULE,
    summary: "Orders nodes so that the peak is low.",
    page: include_str!("../doc/schedule.md"),
    needs: Stage::Typed,
    gives: Stage::Scheduled,
    reads: &["effort", "below"],
    run,
};

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let scratch = scratch(module, ctx.options);
    let resized = u64::from(module.plan.scratch != scratch);
    module.plan.scratch = scratch;
    let problem = problem(module, ctx.options);
    let main = module.main();
    let nodes = module.graph(main).nodes.clone();
    let open = OpenBuffers::of(module, ctx.options);
    let (best, report) = if open.is_empty() {
        let below = ctx.settings.below.unwrap_or(u64::MAX);
        search(module, ctx, &problem, below, &nodes)?
    } else {
        around(module, ctx, &problem, &open, &nodes)?
    };
    ctx.said.reports.push(report);
    let edits = set_order(module, &nodes, &best);
    // A new stage changes the printed text, so it counts as an edit.
    let staged = u64::from(module.stage < Stage::Scheduled);
    module.stage = module.stage.max(Stage::Scheduled);
    Ok(Changed::edits(edits + staged + resized))
}

/// Returns the best order found within the effort, and a report of the search.
fn search(
    module: &Module,
    ctx: &PassContext<'_>,
    problem: &order::Problem,
    below: u64,
    nodes: &[Node],
) -> Result<(Vec<u32>, SolverReport), PassError> {
    let outcome =
        in_time(ctx, ctx.effort(), |limit| ctx.memo.order(problem, below, limit)).map_err(refused)?;
    let best = outcome.solution.unwrap_or_else(|| (0..nodes.len() as u32).collect());
    let value = outcome.value.unwrap_or(outcome.lower_bound);
    order::check(problem, &best, value)
        .map_err(|violation| PassError::WrongAnswer { pass: INFO.name, why: violation.to_string() })?;
    let report = SolverReport {
        pass: INFO.name,
        value,
        lower_bound: outcome.lower_bound,
        stop: outcome.stop.as_str(),
        effort: outcome.effort,
    };
    let best = break_tie(module, ctx, problem, best, nodes)?;
    Ok((best, report))
}

/// Returns an order that never needs more memory than the present order, for all sizes that the open
/// values can have.
///
/// Tries three problems in turn: bounded values at their bounds with guesses for the others; the present
/// order kept around unbounded values; the present order kept around all open values. Takes the first
/// safe result, or else the present order.
fn around(
    module: &Module,
    ctx: &PassContext<'_>,
    problem: &order::Problem,
    open: &OpenBuffers,
    nodes: &[Node],
) -> Result<(Vec<u32>, SolverReport), PassError> {
    let given = || (0..nodes.len() as u32).collect();
    let mut found = (given(), None);
    for around_open in [open.guessed(problem), open.weighed(problem), open.fenced(problem)] {
        // A known arena is no bound for sums that include open values.
        let (order, report) = search(module, ctx, &around_open, u64::MAX, nodes)?;
        found.1 = Some(report);
        if open.never_worse(problem, &order).map_err(refused)? {
            found.0 = order;
            break;
        }
    }
    let (order, report) = found;
    // Bounds of these problems are proven for fewer orders, or for sums with assumed sizes, so none is
    // reported.
    let (stop, effort) = report.map_or(("", 0), |report| (report.stop, report.effort));
    let value = order::peak(problem, &order).map_err(refused)?;
    Ok((order, SolverReport { pass: INFO.name, value, lower_bound: 0, stop, effort }))
}

fn set_order(module: &mut Module, nodes: &[Node], order: &[u32]) -> u64 {
    let schedule = order.iter().map(|position| nodes[*position as usize]).collect();
    let main = module.main();
    let mut rewriter = Rewriter::new(module);
    rewriter.set_schedule(main, schedule);
    rewriter.finish()
}

/// Returns `best`, or an order of equal peak closer to the present order, unless that order makes the
/// arena larger.
fn break_tie(
    module: &Module,
    ctx: &PassContext<'_>,
    problem: &order::Problem,
    best: Vec<u32>,
    nodes: &[Node],
) -> Result<Vec<u32>, PassError> {
    let given: Vec<u32> = (0..nodes.len() as u32).collect();
    let near = order::nearer(problem, &best, &given).map_err(refused)?;
    if near == best || ctx.effort() == 0 {
        return Ok(near);
    }
    let (peak, arena) = (order::peak(problem, &best).map_err(refused)?, arena(module, ctx, nodes, &near)?);
    Ok(if arena.0 > peak && self::arena(module, ctx, nodes, &best)? < arena { best } else { near })
}

/// Returns the size of the arena that heuristics reach with an order.
fn arena(module: &Module, ctx: &PassContext<'_>, nodes: &[Node], order: &[u32]) -> Result<Bytes, PassError> {
    let mut module = module.clone();
    set_order(&mut module, nodes, order);
    module.stage = module.stage.max(Stage::Scheduled);
    let mut trial = PassContext { memo: ctx.memo.clone(), ..PassContext::new(ctx.options, ctx.data.clone()) };
    trial.settings.effort = Some(0);
    (crate::in_place::INFO.run)(&mut module, &mut trial)?;
    (crate::place::INFO.run)(&mut module, &mut trial)?;
    Ok(module.plan.arenas.iter().map(|arena| arena.size).max().unwrap_or_default())
}

fn refused(error: order::OrderError) -> PassError {
    match error {
        order::OrderError::TooLarge | order::OrderError::TooMany { .. } => {
            PassError::TooLarge { pass: INFO.name }
        }
        other => PassError::WrongAnswer { pass: INFO.name, why: other.to_string() },
    }
}

/// States the main graph as an ordering problem: one operation per node, in the present order, and one
/// buffer per alias group. The plan's workspace counts.
pub fn problem(module: &Module, options: &Options) -> order::Problem {
    let main = module.main();
    let nodes = &module.graph(main).nodes;
    let Memory { classes, buffers: groups, .. } = Memory::of(module, options);
    // Map each value to its alias group.
    let mut group_of: SecondaryMap<Value, Option<u32>> = SecondaryMap::default();
    for (index, group) in groups.iter().enumerate() {
        for member in &group.members {
            group_of.set(*member, Some(index as u32));
        }
    }
    // Collect the predecessors of each operation, and a buffer per group.
    let mut before = predecessors(module, main);
    if options.shares_state() {
        wait_for_readers(module, options, &mut before);
    }
    let mut problem = order::Problem {
        operations: before
            .into_iter()
            .map(|predecessors| order::Operation { predecessors, scratch: 0 })
            .collect(),
        buffers: groups
            .iter()
            .map(|group| order::Buffer { size: group.bytes.0, ..order::Buffer::default() })
            .collect(),
    };
    add_ends(module, &groups, &group_of, options.profile, &mut problem);
    // Add the users of each buffer and the possible overwrites.
    let mut position: SecondaryMap<Node, u32> = SecondaryMap::default();
    for (index, node) in nodes.iter().enumerate() {
        position.set(*node, index as u32);
        let results: Vec<Value> = module.node(*node).results().collect();
        let mut used: Vec<u32> =
            module.reads(*node).into_iter().chain(results).filter_map(|value| group_of[value]).collect();
        used.sort_unstable();
        used.dedup();
        for group in used {
            problem.buffers[group as usize].users.push(index as u32);
        }
        for (over, under) in overwrites(module, *node, &groups, &group_of, options) {
            if !problem.buffers[over as usize].takes_over.contains(&under) {
                problem.buffers[over as usize].takes_over.push(under);
            }
        }
    }
    for scratch in &module.plan.scratch {
        problem.operations[position[scratch.node] as usize].scratch += scratch.bytes.0;
    }
    // Values of bodies never belong to a group of the main graph, so every index above names a node of
    // that graph.
    debug_assert!(groups.iter().all(|group| is_placed(module, &classes, options.io, group.owner)));
    problem
}

/// Marks the buffers that are live before the first step and the buffers kept to the end.
fn add_ends(
    module: &Module,
    groups: &[Buffer],
    group_of: &SecondaryMap<Value, Option<u32>>,
    profile: &Profile,
    problem: &mut order::Problem,
) {
    let uses = memc_ir::uses(module);
    for value in &module.graph(module.main()).outputs {
        if let Some(group) = group_of[*value] {
            problem.buffers[group as usize].kept = true;
        }
    }
    // Some runtimes keep unread results to the end in every order. In the present order such a value has
    // no reader and ends with the last step.
    for (index, group) in groups.iter().enumerate().filter(|_| profile.holds_unread_results) {
        let is_held = |member: &Value| module.producer(*member).is_some() && uses[*member].is_empty();
        problem.buffers[index].kept |= group.members.iter().any(is_held);
    }
    for (index, group) in groups.iter().enumerate() {
        problem.buffers[index].live_from_start =
            group.members.iter().any(|member| module.producer(*member).is_none());
    }
}

/// Returns pairs of buffers at a node: the first may take over the bytes of the second.
fn overwrites(
    module: &Module,
    node: Node,
    groups: &[Buffer],
    group_of: &SecondaryMap<Value, Option<u32>>,
    options: &Options,
) -> Vec<(u32, u32)> {
    let data = module.node(node);
    let Some(result) = data.outputs.first().copied().flatten() else { return Vec::new() };
    let Some(over) = group_of[result] else { return Vec::new() };
    // Only the first member of a buffer, its owner, can take over bytes.
    if groups[over as usize].owner != result {
        return Vec::new();
    }
    let operands = options.profile.may_overwrite(&Typed::of(module, node));
    let under =
        operands.into_iter().filter_map(|position| group_of[data.inputs.get(position).copied().flatten()?]);
    under
        .filter(|under| *under != over && groups[*under as usize].bytes == groups[over as usize].bytes)
        .map(|under| (over, under))
        .collect()
}
