//! `direct`: lets buffers live in a farther space that nodes read and write directly.

use memc_cost::{accesses, timeline};
use memc_ir::{Bytes, Module, SecondaryMap, Space, SpaceData, Stage, Storage, Value};
use memc_ops::families::memory::transfer_of;
use memc_solve::{Limit, direct};

use crate::analysis::Memory;
use crate::analysis::buffers::{Buffer, live};
use crate::options::Options;
use crate::pass::{Budgeted, Changed, PassContext, PassError, PassInfo};
use crate::place;

/// Description of the pass.
pub const INFO: PassInfo = PassInfo {
    name: "direct",
    summary: "Lets buffers live in a slower space that nodes access directly, so that a full space keeps its limit.",
    page: include_str!("../doc/direct.md"),
    needs: Stage::Planned,
    gives: Stage::Planned,
    reads: &["limit", "effort"],
    run,
};

/// Most placements of one space: each one makes room for the bytes that the last one lost between
/// buffers, and the last one lets every buffer leave.
const MAX_ROUNDS: u32 = 8;

fn run(module: &mut Module, ctx: &mut PassContext<'_>) -> Result<Changed, PassError> {
    let limit = ctx.settings.limit.or(ctx.options.space.capacity);
    let levels = levels(ctx.options, limit);
    if levels.len() < 2 || !is_beyond(module, &levels[0]) {
        return Ok(Changed::No);
    }
    let before = module.clone();
    let base_cost = ctx.options.total_nanos(module);
    let (mut rounds, mut effort) = (0, 0);
    for pair in levels.windows(2) {
        let (level, next) = (&pair[0], &pair[1]);
        let Some(found) = relieve(module, ctx, level, next)? else { break };
        rounds += found.rounds;
        effort += found.effort;
    }
    if is_beyond(module, &levels[0]) {
        // No choice keeps the limit, so all buffers stay near.
        *module = before;
        return Ok(Changed::No);
    }
    let ends = timeline(module, &ctx.options.cost).into_iter().map(|span| span.end.0.round() as u64);
    ctx.said.budgeted = Some(Budgeted {
        base_cost,
        makespan: ends.max().unwrap_or(0),
        // A plan within the limit may take as long as one without it.
        lower_bound: base_cost,
        capacity: levels[0].limit.map_or(u64::MAX, |limit| limit.0),
        rounds,
        stop: "direct",
        effort,
    });
    let moved = module
        .values()
        .keys()
        .filter(|value| module.plan.storage[*value] != before.plan.storage[*value])
        .count();
    Ok(Changed::edits(moved as u64 + u64::from(module.plan.arenas != before.plan.arenas)))
}

/// A space whose tensors nodes access.
struct Level {
    data: SpaceData,
    /// Limit of its arena; `None` without a limit.
    limit: Option<Bytes>,
    /// Bytes per second of accesses; `None` for the first space.
    rate: Option<f64>,
}

/// Returns the first space, then the farther spaces that nodes access directly, the fastest first.
fn levels(options: &Options, limit: Option<Bytes>) -> Vec<Level> {
    let mut levels = vec![Level { data: options.space.clone(), limit, rate: None }];
    let mut farther: Vec<Level> = options
        .farther
        .iter()
        .zip(options.cost.target.spaces.iter().skip(1))
        .filter_map(|(data, space)| {
            let budget = options.far_budgets.get(&data.name).copied();
            let limit = [budget, data.capacity].into_iter().flatten().min();
            Some(Level { data: data.clone(), limit, rate: Some(space.access?) })
        })
        .collect();
    farther.sort_by(|a, b| b.rate.unwrap_or(0.0).total_cmp(&a.rate.unwrap_or(0.0)));
    levels.extend(farther);
    levels
}

/// Returns the size of a space's arena.
fn arena(module: &Module, name: &str) -> Bytes {
    let found = module.plan.arenas.iter().find(|arena| module.plan.spaces[arena.space].name == name);
    found.map(|arena| arena.size).unwrap_or_default()
}

fn is_beyond(module: &Module, level: &Level) -> bool {
    level.limit.is_some_and(|limit| arena(module, &level.data.name) > limit)
}

/// Effort of one level.
struct Found {
    rounds: u32,
    effort: u64,
}

/// Lets buffers of a level live in the next one until the level's arena keeps its limit. Returns `None` if
/// no choice does.
fn relieve(
    module: &mut Module,
    ctx: &mut PassContext<'_>,
    level: &Level,
    next: &Level,
) -> Result<Option<Found>, PassError> {
    let mut found = Found { rounds: 0, effort: 0 };
    let (Some(limit), true) = (level.limit, is_beyond(module, level)) else { return Ok(Some(found)) };
    let memory = Memory::of(module, ctx.options);
    let (is_first, steps) = (level.rate.is_none(), memory.liveness.steps);
    let all = if is_first { memory.buffers } else { memory.far(module, &level.data.name) };
    let costs = costs(module, next.rate.unwrap_or(f64::INFINITY));
    let (free, bound): (Vec<Buffer>, Vec<Buffer>) =
        all.into_iter().partition(|buffer| !is_copy(module, buffer));
    let candidate = |buffer: &Buffer| direct::Candidate {
        start: buffer.range.start.0,
        end: buffer.range.end.0,
        bytes: buffer.bytes.0,
        cost: buffer.members.iter().fold(0, |sum, value| costs[*value].saturating_add(sum)),
    };
    let fixed = fixed(module, &bound, steps, is_first);
    let mut problem =
        direct::Problem { candidates: free.iter().map(candidate).collect(), fixed, limit: limit.0 };
    // Bytes that no choice frees.
    let least = problem.fixed.iter().copied().max().unwrap_or(0);
    let kept = module.clone();
    while found.rounds < MAX_ROUNDS {
        let outcome = direct::solve(&problem, &Limit::nodes(ctx.effort()));
        let Some(leaves) = outcome.solution else { return Ok(None) };
        direct::check(&problem, &leaves)
            .map_err(|violation| PassError::WrongAnswer { pass: INFO.name, why: violation.to_string() })?;
        found.rounds += 1;
        found.effort += outcome.effort;
        *module = kept.clone();
        let space = space_of(module, &next.data);
        for buffer in
            free.iter().zip(&leaves).filter(|(_, leaves)| **leaves).flat_map(|(buffer, _)| &buffer.members)
        {
            module.plan.storage.set(*buffer, Some(Storage { space, offset: Bytes(0) }));
        }
        (place::INFO.run)(module, ctx)?;
        let size = arena(module, &level.data.name);
        if size <= limit {
            return Ok(Some(found));
        }
        // Gaps between buffers take bytes too.
        let gap = size.0.saturating_sub(limit.0).max(level.data.alignment);
        let smaller = match problem.limit.checked_sub(gap) {
            _ if found.rounds + 1 == MAX_ROUNDS => least,
            Some(smaller) if smaller >= least => smaller,
            // Less than a gap is left: few buffers stay.
            _ => least.midpoint(problem.limit),
        };
        if smaller == problem.limit {
            break;
        }
        problem.limit = smaller;
    }
    Ok(None)
}

/// Returns the bytes at each step that stay in the space: these buffers, and in the first space the
/// workspace.
fn fixed(module: &Module, bound: &[Buffer], steps: u32, is_first: bool) -> Vec<u64> {
    if is_first {
        return live(module, bound, steps).into_iter().map(|bytes| bytes.0).collect();
    }
    let mut plain = module.clone();
    plain.plan.scratch.clear();
    live(&plain, bound, steps).into_iter().map(|bytes| bytes.0).collect()
}

/// Whether transfers make or read a buffer: they copy between fixed spaces.
fn is_copy(module: &Module, buffer: &Buffer) -> bool {
    let moves = |node: memc_ir::Node| transfer_of(&module.node(node).operator).is_some();
    let is_made = buffer.members.iter().any(|value| module.producer(*value).is_some_and(moves));
    let nodes = &module.graph(module.main()).nodes;
    is_made
        || nodes.iter().any(|node| {
            moves(*node) && module.node(*node).operands().any(|value| buffer.members.contains(&value))
        })
}

/// Returns the nanoseconds in which all nodes access a value at a rate, in bytes per second.
fn costs(module: &Module, rate: f64) -> SecondaryMap<Value, u64> {
    let mut bytes: SecondaryMap<Value, u64> = SecondaryMap::default();
    for node in &module.graph(module.main()).nodes {
        // A node of unknown size has no place to compare.
        _ = accesses(module, *node, |value, count| bytes.set(value, bytes[value].saturating_add(count)));
    }
    let mut costs = SecondaryMap::default();
    for value in module.values().keys() {
        costs.set(value, (bytes[value] as f64 / rate * 1e9).round() as u64);
    }
    costs
}

/// Returns the space of that name; adds it if the plan does not have it.
fn space_of(module: &mut Module, data: &SpaceData) -> Space {
    let found = module.plan.spaces.iter().find(|(_, known)| known.name == data.name).map(|(space, _)| space);
    found.unwrap_or_else(|| module.plan.spaces.push(data.clone()))
}
